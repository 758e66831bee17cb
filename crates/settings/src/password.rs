//! The password of an account: in the configuration itself, in a file, or in the environment; in exactly one of them.

use std::fmt;
use std::path::{Path, PathBuf};

use super::document::{Document, Value};
use super::problem::Problem;
use super::{Settings, table as t};

/// Where a password is.
#[derive(Clone)]
pub enum PasswordSource {
    /// In the configuration itself.
    Given(String),
    /// In a file.
    File(PathBuf),
    /// In the environment.
    Env(String),
}

impl fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given(not shown)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
        }
    }
}

/// Where an account's password may be set.
pub struct PasswordRows {
    user: &'static t::Row,
    given: &'static t::Row,
    file: &'static t::Row,
    env: &'static t::Row,
}

/// The monitor's.
pub const MONITOR: PasswordRows = PasswordRows {
    user: &t::MONITOR_USER,
    given: &t::MONITOR_PASSWORD,
    file: &t::MONITOR_PASSWORD_FILE,
    env: &t::MONITOR_PASSWORD_ENV,
};

/// That of the account that replicas log in with.
pub const REPLICATION: PasswordRows = PasswordRows {
    user: &t::REPLICATION_USER,
    given: &t::REPLICATION_PASSWORD,
    file: &t::REPLICATION_PASSWORD_FILE,
    env: &t::REPLICATION_PASSWORD_ENV,
};

/// That of the account that replays reads on the standbys.
pub const WARM: PasswordRows = PasswordRows {
    user: &t::WARM_USER,
    given: &t::WARM_PASSWORD,
    file: &t::WARM_PASSWORD_FILE,
    env: &t::WARM_PASSWORD_ENV,
};

impl PasswordRows {
    /// The three keys.
    pub fn all(&self) -> [&'static t::Row; 3] {
        [self.given, self.file, self.env]
    }

    /// Notes when it is not set exactly once.
    pub fn check(&self, document: &mut Document) {
        let given: Vec<_> = self.all().into_iter().filter(|row| document.has(row)).collect();
        match given[..] {
            [] => document.problem(
                document.line(self.user.path),
                format!(
                    "{} has no password: set password, password_file or password_env",
                    self.user.section()
                ),
            ),
            [_] => {}
            [first, second, ..] => document.problem(
                document.line(second.path),
                format!("{} and {} are both set: keep one of them", first.path, second.path),
            ),
        }
    }

    /// Where it is. `base`: the configuration's directory.
    pub fn source(&self, document: &Document, base: &Path) -> Option<PasswordSource> {
        let text = |row| match document.value(row) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        if document.has(self.file) {
            Some(PasswordSource::File(base.join(text(self.file)?)))
        } else if document.has(self.env) {
            Some(PasswordSource::Env(text(self.env)?))
        } else {
            Some(PasswordSource::Given(text(self.given)?))
        }
    }

    /// Reads it from wherever it is.
    pub fn read(&self, settings: &Settings, source: &PasswordSource) -> Result<String, Problem> {
        match source {
            PasswordSource::Given(password) => Ok(password.clone()),
            PasswordSource::File(path) => match infile::read_text(path) {
                Ok(text) => Ok(text.trim_end().to_owned()),
                Err(e) => {
                    let text = format!("{} {} cannot be read: {e}", self.file.path, path.display());
                    Err(settings.problem(self.file, text))
                }
            },
            PasswordSource::Env(name) => std::env::var(name).map_err(|_| {
                let text = format!("{}: the environment has no variable {name}", self.env.path);
                settings.problem(self.env, text)
            }),
        }
    }
}

//! The password of an account: in the configuration itself, in a file, or in the environment; in exactly one of them.

use std::fmt;
use std::path::PathBuf;

use super::document::{Document, path_at};
use super::table as t;

/// Where a password is.
#[derive(Clone, PartialEq, Eq)]
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

/// An account, and where its password is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub user: String,
    pub password: PasswordSource,
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
    user: &t::MONITOR_USER.row,
    given: &t::MONITOR_PASSWORD.row,
    file: &t::MONITOR_PASSWORD_FILE.row,
    env: &t::MONITOR_PASSWORD_ENV.row,
};

/// That of the account that replicas log in with.
pub const REPLICATION: PasswordRows = PasswordRows {
    user: &t::REPLICATION_USER.row,
    given: &t::REPLICATION_PASSWORD.row,
    file: &t::REPLICATION_PASSWORD_FILE.row,
    env: &t::REPLICATION_PASSWORD_ENV.row,
};

/// That of the account that replays reads on the standbys.
pub const WARM: PasswordRows = PasswordRows {
    user: &t::WARM_USER.row,
    given: &t::WARM_PASSWORD.row,
    file: &t::WARM_PASSWORD_FILE.row,
    env: &t::WARM_PASSWORD_ENV.row,
};

/// Those of accounts whose clients sign.
pub const CLIENTS: PasswordRows = PasswordRows {
    user: &t::PROXY_ACCOUNT_USER.row,
    given: &t::PROXY_ACCOUNT_PASSWORD.row,
    file: &t::PROXY_ACCOUNT_PASSWORD_FILE.row,
    env: &t::PROXY_ACCOUNT_PASSWORD_ENV.row,
};

impl PasswordRows {
    /// The three keys.
    pub fn all(&self) -> [&'static t::Row; 3] {
        [self.given, self.file, self.env]
    }

    /// Notes when it is not set exactly once. `place`: in this one of several tables.
    pub fn check(&self, document: &mut Document, place: Option<usize>) {
        let given: Vec<_> = self.all().into_iter().filter(|row| document.has_at(place, row)).collect();
        match given[..] {
            [] => document.problem(
                document
                    .line(&path_at(place, self.user))
                    .or_else(|| place.map(|place| document.entries(self.user)[place])),
                format!(
                    "{} has no password: set password, password_file or password_env",
                    self.user.section()
                ),
            ),
            [_] => {}
            [first, second, ..] => document.problem(
                document.line(&path_at(place, second)),
                format!("{} and {} are both set: keep one of them", first.path, second.path),
            ),
        }
    }

    /// Whether there is such an account.
    pub fn is_used(&self, document: &Document) -> bool {
        document.has(self.user)
    }

    /// The account, with where its password is.
    pub fn account(&self, document: &Document, place: Option<usize>) -> Account {
        let password = if document.has_at(place, self.file) {
            PasswordSource::File(document.read_at(place, self.file))
        } else if document.has_at(place, self.env) {
            PasswordSource::Env(document.read_at(place, self.env))
        } else {
            PasswordSource::Given(document.read_at(place, self.given))
        };
        Account { user: document.read_at(place, self.user), password }
    }

    /// Reads it from wherever it is.
    ///
    /// # Errors
    /// The row that is wrong, and why.
    pub fn read(&self, source: &PasswordSource) -> Result<String, (&'static t::Row, String)> {
        match source {
            PasswordSource::Given(password) => Ok(password.clone()),
            PasswordSource::File(path) => match infile::read_text(path) {
                Ok(text) => Ok(text.trim_end().to_owned()),
                Err(e) => {
                    let text = format!("{} {} cannot be read: {e}", self.file.path, path.display());
                    Err((self.file, text))
                }
            },
            PasswordSource::Env(name) => std::env::var(name).map_err(|_| {
                let text = format!("{}: the environment has no variable {name}", self.env.path);
                (self.env, text)
            }),
        }
    }
}

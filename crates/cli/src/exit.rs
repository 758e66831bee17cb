//! How a command ends: four exit codes that all commands have in common. A few have others beside them, which their own help names.

use std::fmt::Display;
use std::process::ExitCode;

use serde_json::json;

/// For `--help`.
pub const HELP: &str = "Exit codes: 0 done; 1 refused or failed; 2 wrong usage or configuration; 3 no running server reached;\n\
                        130 interrupted. Codes that only one command has stand with its options.";

/// The command line, or the configuration, is wrong.
pub const USAGE: u8 = 2;

/// A command that did not do what it was asked for.
#[derive(Debug)]
pub enum Failure {
    /// 1: failed while doing it.
    Failed(String),
    /// 1: the running server refused it.
    Refused {
        /// The API's word for the reason, such as `unknown_node`.
        code: String,
        /// The sentence.
        text: String,
    },
    /// 2: the command line or the configuration is wrong.
    Usage(String),
    /// 3: the running server could not be reached.
    Unreachable(String),
    /// 3: it does not run. Nothing listens at its address, or it was never started.
    NotRunning(String),
}

/// What a command comes to.
pub type CommandResult = Result<ExitCode, Failure>;

impl Failure {
    /// 1, with the chain of reasons in one line.
    pub fn failed(error: &anyhow::Error) -> Self {
        Self::Failed(reasons(error))
    }

    /// The same, with what it means before it.
    #[must_use]
    pub fn explained(self, meaning: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{meaning}: {why}")),
            Self::Refused { code, text } => Self::Refused { code, text: format!("{meaning}: {text}") },
            other => other,
        }
    }

    /// 2, with whatever is wrong.
    pub fn usage(what: impl Display) -> Self {
        Self::Usage(what.to_string())
    }

    /// The sentence.
    pub fn text(&self) -> &str {
        match self {
            Self::Failed(text)
            | Self::Refused { text, .. }
            | Self::Usage(text)
            | Self::Unreachable(text)
            | Self::NotRunning(text) => text,
        }
    }

    /// Says it on standard error.
    pub fn tell(&self) -> ExitCode {
        eprintln!("{}", self.text());
        ExitCode::from(self.codes().0)
    }

    /// The same, and on standard output to a program that asked for JSON: see [`json_error`].
    pub fn tell_program(&self) -> ExitCode {
        let (exit_code, code) = self.codes();
        println!("{}", json_error(code, exit_code, self.text()));
        self.tell()
    }

    /// The exit code, and the word for a program.
    fn codes(&self) -> (u8, &str) {
        match self {
            Self::Failed(_) => (1, "failed"),
            Self::Refused { code, .. } => (1, code.as_str()),
            Self::Usage(_) => (USAGE, "usage"),
            Self::Unreachable(_) | Self::NotRunning(_) => (3, "unreachable"),
        }
    }
}

/// The chain of reasons in one line, each once: some libraries say in an error's own text what its source says, too.
fn reasons(error: &anyhow::Error) -> String {
    let texts: Vec<String> = error.chain().map(ToString::to_string).collect();
    let mut own: Vec<&str> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        // The last one has no source: nothing ends with it.
        let source = texts.get(at + 1).map_or("\0", String::as_str);
        let rest = text.trim_end_matches('\'').strip_suffix(source);
        own.push(rest.map_or(text.as_str(), |rest| rest.trim_end_matches([':', ' ', '`'])));
    }
    own.dedup();
    own.join(": ")
}

/// An error for programs, the same from every command: one line, in place of the JSON that was asked for.
pub fn json_error(code: &str, exit_code: u8, message: &str) -> String {
    json!({ "error": { "code": code, "exit_code": exit_code, "message": message } }).to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn each_reason_is_said_once() {
        let refused = mysql_async::Error::from(Error::from(ErrorKind::ConnectionRefused));
        let error = anyhow::Error::new(refused).context("cannot log in to 127.0.0.1:1");
        assert_eq!(
            reasons(&error),
            "cannot log in to 127.0.0.1:1: Input/output error: connection refused",
            "not {error:#}"
        );
        let denied = mysql_async::ServerError { code: 1045, message: "no".into(), state: "28000".into() };
        let error = anyhow::Error::new(mysql_async::Error::from(denied)).context("cannot log in");
        assert_eq!(reasons(&error), "cannot log in: Server error: ERROR 1045 (28000): no", "not {error:#}");
        let error = anyhow::anyhow!("the disk is full").context("it was not written");
        assert_eq!(reasons(&error), "it was not written: the disk is full");
    }
}

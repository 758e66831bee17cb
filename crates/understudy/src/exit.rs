//! How a command ends: four exit codes that all commands have in common. A few have others beside them, which their own help names.

use std::fmt::Display;
use std::process::ExitCode;

/// For `--help`.
pub const HELP: &str = "Exit codes: 0 done; 1 refused or failed; 2 wrong usage or configuration; 3 no running server reached;\n\
                        130 interrupted. Codes that only one command has stand with its options.";

/// A command that did not do what it was asked for.
#[derive(Debug)]
pub enum Failure {
    /// 1: refused, or failed while doing it.
    Failed(String),
    /// 2: the command line or the configuration is wrong.
    Usage(String),
    /// 3: the running server could not be reached.
    Unreachable(String),
}

/// What a command comes to.
pub type CommandResult = Result<ExitCode, Failure>;

impl Failure {
    /// 1, with the chain of reasons in one line.
    pub fn failed(error: &anyhow::Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }

    /// The same, with what it means before it.
    #[must_use]
    pub fn explained(self, meaning: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{meaning}: {why}")),
            other => other,
        }
    }

    /// 2, with whatever is wrong.
    pub fn usage(what: impl Display) -> Self {
        Self::Usage(what.to_string())
    }

    /// Says it on standard error.
    pub fn tell(&self) -> ExitCode {
        let (code, text) = match self {
            Self::Failed(text) => (1, text),
            Self::Usage(text) => (2, text),
            Self::Unreachable(text) => (3, text),
        };
        eprintln!("{text}");
        ExitCode::from(code)
    }
}

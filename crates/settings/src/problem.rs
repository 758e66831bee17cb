//! What is wrong with a configuration: which key, on which line, and what is allowed.

use std::fmt;
use std::path::PathBuf;

/// One thing wrong. Shown as `understudy.toml:12: hold.time_ms must be ...`, which editors and terminals can jump to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The configuration file.
    pub file: PathBuf,
    /// From 1; `None` when the file itself is the problem.
    pub line: Option<usize>,
    /// One sentence that names the key.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.text)
    }
}

/// Everything wrong with a configuration, in the order of its lines; never empty.
#[derive(Clone, Debug)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

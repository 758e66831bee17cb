//! The threads of commands that need some.

use crate::exit::Failure;

/// A runtime for commands that need one.
pub fn start() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|e| Failure::Failed(format!("cannot start the runtime's threads: {e}")))
}

//! The threads of commands that need some.

use crate::exit::Failure;

/// Runs it to its end. A thread that waits for input which may never come (standard input, a server that hangs) is left behind, and ends with the
/// program.
pub fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = start()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// A runtime for commands that need one.
pub fn start() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|e| Failure::Failed(format!("cannot start the runtime's threads: {e}")))
}

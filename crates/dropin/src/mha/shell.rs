//! Runs the commands that an MHA site has in its configuration, with a time limit. Each is a command of the shell, as with MHA: it may have
//! arguments of its own.

use std::future::Future;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// Runs a command with more arguments; what it prints goes where this program's output goes.
///
/// # Errors
/// It cannot be started, or does not end in time and is killed.
pub fn run(
    script: &str,
    arguments: &[String],
    environment: &[(&str, &str)],
    within: Duration,
) -> Result<ExitStatus, String> {
    let mut command = shell(&format!("{script} \"$@\""));
    command.arg("sh").args(arguments).envs(environment.iter().copied());
    limited(script, within, async {
        let mut child = command.spawn().map_err(|e| format!("{script} cannot be run: {e}"))?;
        child.wait().await.map_err(|e| format!("{script}: {e}"))
    })
}

/// What a command prints to its standard output, whatever its exit code is.
///
/// # Errors
/// It cannot be found or started, does not end in time, or prints more than `bytes_max`.
pub fn printed(script: &str, within: Duration, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut command = shell(script);
    command.stdout(Stdio::piped());
    limited(script, within, async {
        let cannot = |e: std::io::Error| format!("{script} cannot be run: {e}");
        let mut child = command.spawn().map_err(cannot)?;
        let mut text = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(bytes_max + 1).read_to_end(&mut text).await.map_err(cannot)?;
        }
        if text.len() as u64 > bytes_max {
            return Err(format!("{script} prints more than {bytes_max} bytes"));
        }
        let status = child.wait().await.map_err(cannot)?;
        // The shell's codes for a command that is not there, or may not be run.
        match status.code() {
            Some(126 | 127) => Err(format!("{script} cannot be run: {status}")),
            _ => Ok(text),
        }
    })
}

fn shell(text: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", text]).stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn limited<T>(
    script: &str,
    within: Duration,
    run: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let runtime = cli::runtime::start().map_err(|_| "cannot start the runtime's threads".to_owned())?;
    let ended = runtime.block_on(async { tokio::time::timeout(within, run).await });
    ended.unwrap_or_else(|_| Err(format!("{script} did not end within {} s", within.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_or_says_too_much_is_ended() {
        let short = Duration::from_millis(50);
        assert_eq!(run("sleep", &["60".into()], &[], short).unwrap_err(), "sleep did not end within 0 s");
        assert!(printed("sleep 60", short, 10).unwrap_err().contains("did not end"));
        let within = Duration::from_secs(20);
        assert_eq!(printed("printf 'a\\nb'; exit 3", within, 3), Ok(b"a\nb".to_vec()));
        assert!(printed("yes", within, 100).unwrap_err().contains("prints more than 100 bytes"));
        assert!(printed("/no/such", within, 100).unwrap_err().contains("cannot be run: exit status: 127"));
    }
}

//! Ends the children of a stage's servers when this process is killed.
//!
//! The kernel kills the servers with this process (see [`super::process::ProcessParent`]), but that setting is not inherited: the scripts
//! of a state transfer would outlive their server. The watchdog is a shell that waits for the end of its standard input, whose other end
//! only this process holds: it is closed when this process ends, however that happens. Then the watchdog kills every process with the
//! stage's mark. After an orderly end there is none, and it just exits.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;

use super::process::MARK;

/// `$1` is the mark as in an environment. A script may start another between search and signal, so the search is repeated until
/// nothing is found, at most 50 times at intervals of 0.1 s; `kill` gets the process IDs found by the search just before.
const SCRIPT: &str = r#"cat >/dev/null
looks=0
while [ $looks -lt 50 ]; do
    found=$(grep -lszxF -- "$1" /proc/[0-9]*/environ | sed 's|^/proc/||; s|/environ$||')
    [ -n "$found" ] || exit 0
    kill -KILL $found 2>/dev/null
    looks=$((looks + 1))
    sleep 0.1
done"#;

/// A running watchdog; it acts when it is dropped or when this process ends.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    leash: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts the watchdog for the stage in `directory`.
    ///
    /// # Errors
    /// When there is no `sh`.
    pub fn start(directory: &Path) -> anyhow::Result<Self> {
        // Its own process group: only this process handles a Ctrl-C in the terminal.
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "stage-watchdog"])
            .arg(format!("{MARK}={}", directory.display()))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start sh, which watches over the stage")?;
        let leash = shell.stdin.take();
        Ok(Self { shell, leash })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.leash = None;
        // It ends by itself now; if waiting for it fails, nothing can be done.
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::stage::process::marked;

    #[test]
    fn what_carries_the_mark_ends_with_the_leash_and_nothing_else_does() {
        let directory = Path::new("/nowhere/watchdog-test");
        let sleeper = |directory: &Path| {
            let mut command = Command::new("sleep");
            command.arg("60").env(MARK, directory).spawn().unwrap()
        };
        let mut ours = sleeper(directory);
        let mut other = sleeper(Path::new("/nowhere/watchdog-test-2"));
        let deadline = Instant::now() + Duration::from_secs(5);
        while marked(directory).is_empty() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
        let watchdog = Watchdog::start(directory).unwrap();
        assert!(ours.try_wait().unwrap().is_none(), "it waits");
        // The child stays in /proc until it is reaped, without an environment: the watchdog does not find it again.
        drop(watchdog);
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

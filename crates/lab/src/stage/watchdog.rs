//! Ends what a stage's servers started themselves, when this process is killed.
//!
//! The servers die with us by the kernel's word (see [`super::process::ProcessParent`]), but that word is not inherited: the scripts of
//! a state transfer would outlive their server. The watchdog is one shell that waits for the end of its standard input, which
//! only we hold: it comes by our end, whatever that is. Then it ends every process that carries the stage's mark. After an
//! orderly end there is none, and it just goes.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;

use super::process::MARK;

/// `$1` is the mark as it stands in an environment. A script may start another between look and signal, so it looks again
/// until nothing is left; `kill` takes the numbers of the moment, and is bounded: 50 looks, 0.1 s between two.
const SCRIPT: &str = r#"cat >/dev/null
looks=0
while [ $looks -lt 50 ]; do
    found=$(grep -lszxF -- "$1" /proc/[0-9]*/environ | sed 's|^/proc/||; s|/environ$||')
    [ -n "$found" ] || exit 0
    kill -KILL $found 2>/dev/null
    looks=$((looks + 1))
    sleep 0.1
done"#;

/// Stands by until it is dropped, or until this process ends.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    leash: Option<ChildStdin>,
}

impl Watchdog {
    /// Watches over the stage in `directory`.
    ///
    /// # Errors
    /// When there is no `sh`.
    pub fn start(directory: &Path) -> anyhow::Result<Self> {
        // A process group of its own: a Ctrl-C in the terminal is ours to answer.
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
        // It ends by itself now; nothing can be done about a failure to wait.
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
        // Our child stays in /proc until it is waited for, without an environment: the watchdog does not see it again.
        drop(watchdog);
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

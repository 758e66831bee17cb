//! A command of the site, run by the shell to its end, or until its time is over.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

use crate::Group;

/// What is kept of what it writes to each of its two outputs.
const SAID_BYTES_MAX: u64 = 64 << 10;
/// Characters of its last line that are shown.
const SHOWN_MAX: usize = 200;

/// A command, and what it is given.
pub struct Shell<'a> {
    /// The setting that has it, for the sentences.
    pub setting: &'a str,
    /// A line for `/bin/sh -c`.
    pub command: &'a str,
    /// Variables that it finds in its environment.
    pub environment: &'a [(&'a str, &'a str)],
    /// Variables that it must not find there, though they are in this program's own.
    pub hidden: &'a [String],
    /// What it reads at its standard input.
    pub input: &'a [u8],
}

impl Shell<'_> {
    /// Runs it. All that it has started is ended when its time is over.
    ///
    /// # Errors
    /// It cannot be run, or did not end in time.
    pub async fn run(&self, within: Duration) -> Result<Output, String> {
        let Self { setting, command, environment, hidden, input } = self;
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", command])
            .envs(environment.iter().copied())
            // Its processes are not the service that systemd waits for.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC");
        for name in *hidden {
            shell.env_remove(name);
        }
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = shell.spawn().map_err(|error| format!("{setting} cannot be run: {error}"))?;
        let group = Group::of(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let give = async {
            if let Some(mut stdin) = stdin {
                // It need not read what it is given.
                let _ = stdin.write_all(input).await;
            }
        };
        let ended =
            timeout(within, async { tokio::join!(said(stdout), said(stderr), child.wait(), give) }).await;
        let Ok((stdout, stderr, status, ())) = ended else {
            // Its child processes are ended, too: a recovery run that is left behind would keep the server from starting.
            drop(group);
            return Err(format!("{setting} did not end within {within:?}"));
        };
        let status = status.map_err(|error| format!("{setting} cannot be waited for: {error}"))?;
        group.has_ended();
        Ok(Output { status, stdout, stderr })
    }
}

/// The output of a pipe, to its end; the first part is kept.
async fn said(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut said = Vec::new();
    if let Some(mut pipe) = pipe {
        // If the pipe breaks, what was read so far counts.
        let _ = (&mut pipe).take(SAID_BYTES_MAX).read_to_end(&mut said).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    said
}

/// The last line of a command's error output.
pub fn last_words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    said.chars().take(SHOWN_MAX).collect()
}

//! Waits for states of a node, each with a time limit.

use std::path::Path;
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context, bail, ensure};

use super::state::{Stage, StageNode};
use crate::wait;

/// File in a node's directory: the server's output until it has opened its error log.
pub(super) const OUTPUT_LOG: &str = "output.log";
/// Interval between two checks of a condition.
pub(super) const PACE: Duration = Duration::from_millis(20);

impl Stage {
    /// Waits until the process is stopped (or continued) after the signal.
    pub(crate) async fn wait_frozen(&self, node: &StageNode, frozen: bool) -> anyhow::Result<()> {
        let reacts = async || Ok(self.alive(node)?.is_none_or(|process| process.is_frozen() == frozen));
        let reacts = wait::holds(Duration::from_secs(10), Duration::from_millis(1), reacts).await?;
        ensure!(reacts, "{} does not react to the signal", node.name);
        Ok(())
    }

    /// Waits until the node's status, queried by `ask`, fulfils `fits`. `late`: the beginning of the timeout's error, given the seconds.
    ///
    /// # Errors
    /// When the node dies or on timeout, with its last status and the end of its log.
    pub(super) async fn wait_for_word<W: fmt::Display>(
        &self,
        node: &StageNode,
        within: Duration,
        ask: impl AsyncFn(&StageNode) -> anyhow::Result<W>,
        fits: impl Fn(&W) -> bool,
        late: impl FnOnce(f64) -> String,
    ) -> anyhow::Result<W> {
        let mut last = String::new();
        let word = wait::found(within, PACE, async || {
            match ask(node).await {
                Ok(word) if fits(&word) => return Ok(Some(word)),
                Ok(word) => last = word.to_string(),
                Err(error) => last = format!("{error:#}"),
            }
            if self.alive(node)?.is_none() {
                bail!(
                    "{} is not running. The end of its log:\n{}",
                    node.name,
                    error_log_tail(&node.error_log)
                );
            }
            Ok(None)
        });
        word.await?.with_context(|| {
            let tail = error_log_tail(&node.error_log);
            format!("{} ({last}). The end of its log:\n{tail}", late(within.as_secs_f64()))
        })
    }

    /// Checks that a node that responds through its socket can also be reached at its address.
    pub(super) async fn check_reachable(&self, node: &StageNode) -> anyhow::Result<()> {
        tokio::net::TcpStream::connect(node.address)
            .await
            .with_context(|| format!("{} is up but cannot be reached at {}", node.name, node.address))?;
        Ok(())
    }

    /// Waits until the node's process has ended and its files are free.
    pub async fn wait_gone(&self, name: &str, within: Duration) -> anyhow::Result<()> {
        let node = self.node(name)?;
        let is_gone = async || Ok(self.alive(node)?.is_none());
        if !wait::holds(within, PACE, is_gone).await?
            && let Some(process) = self.alive(node)?
        {
            bail!("{name} (process {}) has not ended after {:.0} s", process.pid, within.as_secs_f64());
        }
        Ok(())
    }
}

/// The end of a log, for an error message: earlier errors and the last lines. What a server prints before it opens its error log, such
/// as an unknown option, is in the file of its standard output in the same directory.
pub(crate) fn error_log_tail(path: &Path) -> String {
    let output = path.with_file_name(OUTPUT_LOG);
    match (tail(path), tail(&output)) {
        (Some(tail), _) => tail,
        (None, Some(tail)) => {
            format!("({} is empty; {} ends with)\n{tail}", path.display(), output.display())
        }
        (None, None) => format!("({} is empty)", path.display()),
    }
}

/// The last lines of a file; `None` if it is empty.
fn tail(path: &Path) -> Option<String> {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(5));
    let errors = before.iter().filter(|line| line.contains("[ERROR]"));
    let mut tail: Vec<&str> = errors.copied().rev().take(5).collect();
    tail.reverse();
    tail.extend(last);
    (!tail.is_empty()).then(|| tail.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_error_log_was_open_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let (log, output) = (dir.path().join("error.log"), dir.path().join(OUTPUT_LOG));
        assert!(error_log_tail(&log).ends_with("error.log is empty)"));
        fs::write(&output, "unknown variable 'a=b'\n").unwrap();
        assert!(error_log_tail(&log).ends_with("unknown variable 'a=b'"));
        assert!(error_log_tail(&output).ends_with("unknown variable 'a=b'"));
        fs::write(&log, "one\n").unwrap();
        assert_eq!(error_log_tail(&log), "one");
    }
}

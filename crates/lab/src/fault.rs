//! Breaking a node, and mending it.
//!
//! | fault | what is done | what the others see |
//! |---|---|---|
//! | kill | SIGKILL | its connections are reset, its port refuses |
//! | stop | SIGTERM | it says goodbye to the group and ends by itself |
//! | freeze | SIGSTOP | connections stay open, its port accepts, nothing answers |
//! | thaw | SIGCONT | the end of a freeze |
//! | vanish | its link goes down | nothing at all, in both directions |
//! | heal | whatever mends it | it comes back and is Synced |

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::process::Signal;

use crate::stage::Stage;

/// A clean stop may take as long as its last transaction.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// From mended to Synced.
const HEAL_LIMIT: Duration = Duration::from_secs(120);

/// What can be done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// SIGKILL: the process is gone at once.
    Kill,
    /// SIGTERM: the clean stop.
    Stop,
    /// SIGSTOP: alive, and silent.
    Freeze,
    /// SIGCONT: ends a freeze.
    Thaw,
    /// Its network link goes down: the host is lost without a word.
    Vanish,
    /// Undoes whatever was done and waits until it is Synced.
    Heal,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Vanish => "vanish",
            Self::Heal => "heal",
        })
    }
}

impl Stage {
    /// Does it, and returns the instant it took effect: the signal was sent, the link was down, the node was Synced again.
    /// All but heal return at once.
    ///
    /// # Errors
    /// When the node does not run (nothing to break), or this form of stage cannot do it.
    pub async fn fault(&self, name: &str, fault: Fault) -> anyhow::Result<Instant> {
        let node = self.node(name)?;
        match fault {
            Fault::Kill => self.signal(node, Signal::KILL),
            Fault::Stop => {
                // Noted before it is sent: whoever looks must not take a leaving node for a healthy one.
                self.record(node, |entry| entry.leaving = true)?;
                self.signal(node, Signal::TERM)
            }
            Fault::Freeze => {
                let sent = self.signal(node, Signal::STOP)?;
                self.wait_frozen(node, true).await?;
                Ok(sent)
            }
            Fault::Thaw => {
                let sent = self.signal(node, Signal::CONT)?;
                self.wait_frozen(node, false).await?;
                Ok(sent)
            }
            Fault::Vanish => self.set_link(node, false),
            Fault::Heal => self.heal(name).await,
        }
    }

    async fn heal(&self, name: &str) -> anyhow::Result<Instant> {
        let node = self.node(name)?;
        let found = self.recorded(node)?;
        if found.vanished {
            self.set_link(node, true)?;
        }
        if self.alive(node)?.is_some_and(crate::stage::process::Identity::is_frozen) {
            self.signal(node, Signal::CONT)?;
        }
        if found.leaving {
            self.wait_gone(name, STOP_LIMIT).await?;
        }
        // A process that was just killed may still hold its files.
        let deadline = Instant::now() + HEAL_LIMIT;
        let mut restarted = false;
        loop {
            if self.alive(node)?.is_none() {
                if restarted {
                    bail!("{name} does not stay up:\n{}", crate::stage::error_log_tail(&node.error_log));
                }
                self.start(name).await?;
                restarted = true;
            }
            match crate::stage::word(node).await {
                Ok(word) if word.is_synced() && self.share_view(name, word.view).await? => {
                    return Ok(Instant::now());
                }
                Ok(word) if word.is_cast_out() && !restarted => {
                    // Evicted while alive: it will never try again by itself.
                    self.signal(node, Signal::TERM)?;
                    self.wait_gone(name, STOP_LIMIT).await?;
                }
                Ok(_) | Err(_) => {}
            }
            if Instant::now() > deadline {
                let tail = crate::stage::error_log_tail(&node.error_log);
                bail!("{name} is not Synced {:.0} s after it was mended:\n{tail}", HEAL_LIMIT.as_secs_f64());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether every other node of the group is in the same view. A node that comes back from silence believes itself Synced until it
    /// hears that the others went on without it; and they are in no view at all while they agree on the next one with it.
    async fn share_view(&self, name: &str, view: u64) -> anyhow::Result<bool> {
        for other in self.nodes().iter().filter(|other| other.name != name) {
            let record = self.recorded(other)?;
            let hears = self.alive(other)?.is_some_and(|process| !process.is_frozen());
            if !hears || record.vanished || record.leaving {
                continue;
            }
            match crate::stage::word(other).await {
                Ok(word) if !word.is_cast_out() && word.view != view => return Ok(false),
                Ok(_) => {}
                // It runs and is connected: it will answer when the group has agreed.
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}

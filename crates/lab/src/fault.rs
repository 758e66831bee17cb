//! Injects faults into a node, and heals it.
//!
//! | fault | what is done | what the others see |
//! |---|---|---|
//! | kill | SIGKILL | its connections are reset, its port refuses |
//! | stop | SIGTERM | it leaves cleanly and ends by itself |
//! | freeze | SIGSTOP | connections stay open, its port accepts, nothing responds |
//! | thaw | SIGCONT | the end of a freeze |
//! | vanish | its link goes down | no packets, in both directions |
//! | disk-full | its file system is filled (a stage with `--disk-mb`) | it responds, and commits hang |
//! | write-lock | a session holds FLUSH TABLES WITH READ LOCK, ten minutes at most | it responds, and commits hang |
//! | stuck-ddl | Galera: an ALTER waits for a locked table, and all that is ordered after it | it reports Synced, and commits hang |
//! | heal | undoes the faults | it comes back: Synced, replicating, or as a read-only former primary |

use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::stage::{STOP_LIMIT, Stage};

/// Limit for the node to return after healing.
const HEAL_LIMIT: Duration = Duration::from_secs(120);

/// A fault, or the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// SIGKILL: the process is gone at once.
    Kill,
    /// SIGTERM: a clean stop.
    Stop,
    /// SIGSTOP: alive, but silent.
    Freeze,
    /// SIGCONT: ends a freeze.
    Thaw,
    /// Its network link goes down: the host is lost without a message.
    Vanish,
    /// Its file system is filled: it responds, and commits wait for space. The stage must have been started with --disk-mb.
    DiskFull,
    /// A session holds FLUSH TABLES WITH READ LOCK: it responds, and commits wait. Ends by itself after ten minutes.
    WriteLock,
    /// Galera only. ALTER TABLE ... EXCHANGE PARTITION waits for a locked table: the node reports Synced, and commits wait. Ends by itself
    /// after ten minutes.
    StuckDdl,
    /// Undoes all faults and waits until the node is back.
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
            Self::DiskFull => "disk-full",
            Self::WriteLock => "write-lock",
            Self::StuckDdl => "stuck-ddl",
            Self::Heal => "heal",
        })
    }
}

impl Stage {
    /// Injects the fault and returns the time at which it took effect: the signal was sent, the link was down, the locks were held, or the
    /// node was back. Kill, stop, vanish and disk-full do not wait for the node; freeze, thaw, the two locks and heal do.
    ///
    /// # Errors
    /// When the node does not run, or this form of stage cannot do it.
    pub async fn fault(&self, name: &str, fault: Fault) -> anyhow::Result<Instant> {
        let node = self.node(name)?;
        match fault {
            Fault::Kill => self.signal(node, Signal::KILL),
            Fault::Stop => {
                // Recorded before the signal is sent, so that nothing takes a leaving node for a healthy one.
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
            Fault::DiskFull => self.fill_disk(node),
            Fault::WriteLock => self.lock_writes(node).await,
            Fault::StuckDdl => self.stick_ddl(node).await,
            Fault::Heal => self.heal(name).await,
        }
    }

    async fn heal(&self, name: &str) -> anyhow::Result<Instant> {
        let node = self.node(name)?;
        self.empty_disk(node)?;
        let found = self.recorded(node)?;
        if found.vanished {
            self.set_link(node, true)?;
        }
        if self.alive(node)?.is_some_and(crate::stage::process::Identity::is_frozen) {
            self.signal(node, Signal::CONT)?;
        }
        if self.alive(node)?.is_some() && !found.leaving {
            self.end_locks(node).await?;
        }
        if found.leaving {
            self.wait_gone(name, STOP_LIMIT).await?;
        }
        self.bring_back(node, HEAL_LIMIT).await
    }
}

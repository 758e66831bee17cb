//! The primary does not answer this process: before it is replaced, its replicas are tested for whether they can still connect to it.
//!
//! ```text
//!   silent ──> each replica that answers: its I/O thread is not connected ───────────────────> has lost the primary
//!                                         connected ──> I/O thread restarted ─── fails ──────> has lost the primary
//!                                                                              └ connected ──> still receives: a veto
//!                                         connected, and says itself for how long it has received nothing (MySQL, [`super::Channel::silent_after`]): it is not touched
//! ```
//!
//! By itself a replica notices only after `slave_net_timeout` that its source is gone. Invariant: a silent primary is replaced only if at
//! least one replica has lost it, and none may still receive from it.

use std::time::Duration;

use super::Errand;
use super::reports::channel_to;
use super::state::{ReconnectTest, Replication, retry_at};
use crate::NodeId;
use crate::core::Core;
use crate::finding::{NodeState, Problem};
use crate::time::Now;

/// For how long a replica's successful connect to the primary counts.
pub(super) const RECEIVES_FOR: Duration = Duration::from_secs(2);

/// Why the primary is not given up.
pub(super) enum Veto {
    /// A replica has not answered yet.
    Waits,
    /// It lives, or may live. `serves`: clients that are connected to it are served.
    Lives { why: String, serves: bool },
}

/// What one replica's state says about a silent primary.
enum Vote {
    Lost,
    Waits,
    Receives(String),
}

impl Replication {
    /// Whether something speaks against giving up `primary`, which is held to be lost.
    pub(super) fn veto(&mut self, core: &mut Core, primary: NodeId) -> Option<Veto> {
        let node = core.node(primary);
        let name = node.name.clone();
        if let Some((errno, _)) = &node.rejected
            && node.finding.problem == Problem::Rejected
        {
            // 1053: the server is shutting down.
            let serves = *errno != 1053;
            let why = format!("{name} {}: it lives, and nothing is moved", node.finding.sentence);
            return Some(Veto::Lives { why, serves });
        }
        if node.finding.state != NodeState::Silent {
            return None;
        }
        let since = node.counts.missed_since.unwrap_or_default();
        let mut lost = 0;
        let mut waits = false;
        for id in core.nodes.ids().filter(|id| *id != primary).collect::<Vec<_>>() {
            match self.vote(core, id, primary, since) {
                None => {}
                Some(Vote::Lost) => lost += 1,
                Some(Vote::Waits) => waits = true,
                Some(Vote::Receives(how)) => {
                    let why = format!("{name} does not answer, but {how}: nothing is moved");
                    return Some(Veto::Lives { why, serves: false });
                }
            }
        }
        if waits {
            return Some(Veto::Waits);
        }
        (lost == 0).then(|| {
            let why =
                format!("{name} does not answer, and no replica can tell whether it lives: nothing is moved");
            Veto::Lives { why, serves: false }
        })
    }

    /// `None`: its state says nothing about the primary.
    fn vote(&mut self, core: &mut Core, id: NodeId, primary: NodeId, since: Now) -> Option<Vote> {
        let node = core.node(id);
        let name = node.name.clone();
        let channel = channel_to(core, id, primary)?;
        let (connected, applies) = (channel.io_running, channel.sql_running);
        if self.is_ordered(core, id) {
            return Some(Vote::Waits);
        }
        let is_stopped = channel.io_stopped;
        let may_be_asked = applies && !core.settings.replication.dry_run;
        // It was stopped by an order that this program gave before a restart, or by somebody else; in that case it would be started again anyway.
        if is_stopped && !may_be_asked {
            return None;
        }
        let still = format!("{name} still receives from it");
        if let Some(after) = channel.silent_after().filter(|_| connected) {
            return Some(match channel.is_silent {
                true if node.answered_since(since) => Vote::Lost,
                // Something came after the first question that the primary did not answer.
                false if node.answered_since(since.saturating_add(after)) => Vote::Receives(still),
                _ => {
                    core.ask_probe(id);
                    Vote::Waits
                }
            });
        }
        let since = match &self.server(id).reconnect_test {
            ReconnectTest::Lost(at) if *at > since && !node.answered_since(*at) => return Some(Vote::Lost),
            ReconnectTest::Receives(at) if *at > since && core.now.saturating_sub(*at) < RECEIVES_FOR => {
                return Some(Vote::Receives(still));
            }
            ReconnectTest::Failed { again, why } if core.now < *again => {
                let how = format!("{still} as far as it knows, and could not be asked ({why})");
                return Some(Vote::Receives(how));
            }
            // While its I/O thread is connecting, its status says nothing about the source.
            ReconnectTest::Receives(at) | ReconnectTest::Lost(at) => since.max(*at),
            ReconnectTest::Not | ReconnectTest::Failed { .. } => since,
        };
        if !node.answered_since(since) {
            core.ask_probe(id);
            return Some(Vote::Waits);
        }
        if !connected && !is_stopped {
            return Some(Vote::Lost);
        }
        if !may_be_asked {
            let why = if applies { "dry_run is set" } else { "its SQL thread is stopped" };
            return Some(Vote::Receives(format!("{still} as far as it knows, and is not asked ({why})")));
        }
        self.ask_to_connect(core, id, primary, core.settings.probe_interval * core.settings.misses_max);
        Some(Vote::Waits)
    }

    /// Orders a replica to reconnect to `primary`. It has lost the primary if it is not connected after `within`.
    pub(super) fn ask_to_connect(
        &mut self,
        core: &mut Core,
        node: NodeId,
        primary: NodeId,
        within: Duration,
    ) {
        self.order(core, node, core.term, within, Errand::Reconnect { source: primary });
    }

    pub(super) fn reconnected(&mut self, core: &Core, id: NodeId, receives: bool) {
        self.note_reached(receives);
        let is_lost = core.writer.is_some_and(|primary| {
            matches!(core.node(primary).finding.state, NodeState::Silent | NodeState::Dead)
        });
        self.server_mut(id).reconnect_test = match receives {
            false => ReconnectTest::Lost(core.now),
            true if is_lost => ReconnectTest::Receives(core.now),
            // A status report from before the loss says nothing about the time after it.
            true => ReconnectTest::Not,
        };
    }

    pub(super) fn reconnect_failed(&mut self, core: &Core, id: NodeId, why: String) {
        self.server_mut(id).reconnect_test = ReconnectTest::Failed { again: retry_at(core.now), why };
    }
}

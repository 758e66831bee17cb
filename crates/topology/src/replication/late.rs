//! A primary that is late with an answer. Its replicas are made to test their connection to it before it counts as silent.
//!
//! ```text
//!   late for half an interval ──> one replica reconnects to it ── it can ────────> no other replica is asked
//!                                                             └ not yet, and a probe is missed ──> the others are asked, too
//! ```
//!
//! A semi-synchronous replica needs a second to leave a source that is gone: it opens a connection to it to end the old one, and waits that
//! long for an answer (MariaDB 10.11.19; no setting changes that). During that second it can neither be promoted nor follow another server.
//! The second must therefore pass while the primary's silence is being timed, and not after it.
//!
//! Invariants: the test alone moves nothing. A decision still needs both the silence and the replicas' answers ([`super::reconnect_test`]).
//! As long as the primary answers, at least one replica stays connected to it, and while it misses no probe no replica is tested more often
//! than once in [`GAP`].

use std::time::Duration;

use super::Channel;
use super::reports::{channel_to, is_connected};
use super::state::{Late, ReconnectTest, Replication};
use crate::NodeId;
use crate::core::Core;
use crate::finding::Serves;
use crate::time::Now;
use crate::view::Level;

/// The least time between two such tests that led to nothing.
const GAP: Duration = Duration::from_secs(10);

impl Replication {
    /// The primary has answered a question that was sent at `asked`.
    pub(super) fn in_time(&mut self, id: NodeId, asked: Now) {
        self.late.take_if(|late| late.primary != id || late.since <= asked);
    }

    /// A replica has reconnected, or tried to.
    pub(super) fn note_reached(&mut self, receives: bool) {
        if let Some(late) = &mut self.late {
            late.is_reached |= receives;
        }
    }

    /// Whether all servers are asked for their status more often because of it.
    pub(super) fn is_late(&self, core: &Core) -> bool {
        let settings = &core.settings;
        let most = settings.probe_interval * settings.misses_max * 2;
        self.late.is_some_and(|late| {
            core.writer == Some(late.primary) && core.now.saturating_sub(late.since) < most
        })
    }

    /// Orders replicas to reconnect when that is due.
    pub(super) fn ask_early(&mut self, core: &mut Core) {
        let Some(late) = self.late.filter(|late| core.writer == Some(late.primary)) else { return };
        let (interval, misses_max) = (core.settings.probe_interval, core.settings.misses_max);
        let for_long = core.now.saturating_sub(late.since);
        let is_time = match late.asked {
            // When all have left it at once, nobody acknowledges a commit meanwhile, and one that lets nobody log in would keep them away.
            Some(at) => {
                let is_sure = if self.has_just_taken_over(core, late.primary) { 2 } else { 1 };
                let is_due = core.now.saturating_sub(at) >= interval / 4;
                is_due && core.node(late.primary).counts.misses >= is_sure
            }
            // After two missed probes, no new statement is sent to the primary in any case.
            None => {
                core.node(late.primary).counts.misses >= 2
                    || self.asked_early.is_none_or(|at| core.now.saturating_sub(at) >= GAP)
            }
        };
        let is_ours = core.node(late.primary).finding.serves == Serves::No
            || !core.another_answered_since(late.primary, late.since);
        // The first replica of a new primary must not leave it at once: a commit that nobody acknowledges may let nobody log in ([`super::attach`]).
        let is_new = late.asked.is_none() && self.has_just_taken_over(core, late.primary);
        if is_new && core.nodes.ids().filter(|id| is_connected(core, *id, late.primary)).count() < 2 {
            return;
        }
        if for_long < interval / 2 || !is_time || late.is_reached || is_ours || self.fence.is_some() {
            return;
        }
        let mut replicas: Vec<NodeId> =
            core.nodes.ids().filter(|id| self.can_be_asked(core, *id, late)).collect();
        replicas.sort_by_key(|id| u32::MAX - core.node(*id).priority);
        if late.asked.is_none() {
            replicas.truncate(1);
        }
        let Some(first) = replicas.first() else { return };
        if late.asked.is_none() {
            let text = format!(
                "{} has not answered for {} ms: {} is asked whether it still receives from it",
                core.name(late.primary),
                for_long.as_millis(),
                core.name(*first)
            );
            core.say(Level::Info, text);
            self.asked_early = Some(core.now);
            self.late = Some(Late { asked: Some(core.now), ..late });
        }
        // The limit ends when it would if the test had begun after the silence.
        let within =
            (interval * misses_max * 2).saturating_sub(interval + for_long).max(interval * misses_max);
        for node in replicas {
            self.server_mut(node).reconnect_test = ReconnectTest::Not;
            self.server_mut(node).asked_early = Some(core.now);
            self.ask_to_connect(core, node, late.primary, within);
        }
    }

    /// Whether a replica reports that it follows the primary, and has not been asked since the primary is late.
    fn can_be_asked(&self, core: &Core, id: NodeId, late: Late) -> bool {
        let needs_test = |channel: &Channel| channel.silent_after().is_none();
        let follows = channel_to(core, id, late.primary)
            .is_some_and(|channel| channel.io_running && channel.sql_running && needs_test(channel));
        let is_asked = self.server(id).asked_early.is_some_and(|at| at > late.since);
        id != late.primary && follows && !is_asked && !self.is_ordered(core, id)
    }
}

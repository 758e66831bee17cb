//! A primary whose transactions are numbered anew, in a process that has not ended: somebody ran RESET MASTER there, or set gtid_binlog_state.
//!
//! ```text
//!   the primary reports less than before ──> every other server: renumbered ──(undrained by an operator)──> one like any other
//!   a server has transactions of the primary's own that the primary has not (MariaDB) ──> every other server, too
//! ```
//!
//! Its data is as before, so it stays the primary. But the numbers that its replicas have now name other transactions there: once it has
//! written as many as before, a replica connects, continues after those, and lacks their rows, although every number agrees. Nothing that the
//! servers report shows that any more. What such a replica has is not errant either: the primary wrote it, and undoing it would lose it.
//!
//! Invariants: a server that is marked is not chosen, is not made to follow, and takes no reads, until an operator says, by undraining it,
//! that it is a copy of the primary anew. The marks are on disk.

use std::time::Duration;

use protocol::gtid::{Errant, History};

use super::copied::Inherited;
use super::reports::history;
use super::state::Replication;
use super::status::ReplicationStatus;
use crate::NodeId;
use crate::core::Core;
use crate::time::Now;
use crate::view::Level;

/// A server reports its uptime in whole seconds, and some time after it was asked.
const UPTIME_ERROR: Duration = Duration::from_secs(2);

impl Replication {
    /// Compares the primary's report with the one before: whether its numbers have begun anew.
    pub(super) fn look_whether_it_went_back(
        &mut self,
        core: &mut Core,
        id: NodeId,
        status: &ReplicationStatus,
        asked: Now,
    ) {
        let Some(now) = history(status).map(|shown| self.inherited.with(shown)) else { return };
        let Some(word) = self.last_word.as_ref().filter(|word| word.origin == status.origin()) else {
            return;
        };
        let less = word.history.as_ref().and_then(|before| before.minus(&now).ok());
        let is_back = less.is_some_and(|less| shows(&less, status));
        let elapsed = asked.saturating_sub(word.asked);
        let has_restarted = word.uptime_s.zip(status.uptime_s).is_none_or(|(before, now)| {
            Duration::from_secs(now) + UPTIME_ERROR < Duration::from_secs(before) + elapsed
        });
        // One that has restarted may have lost its last transactions, which is judged by what the others have.
        if !is_back || has_restarted {
            return;
        }
        let shown = |position: Option<String>| position.filter(|text| !text.is_empty());
        let before = shown(word.position.as_ref().map(ToString::to_string)).unwrap_or_default();
        let after =
            shown(status.position.as_ref().map(ToString::to_string)).unwrap_or_else(|| "nothing".into());
        // What it had before is no measure any more.
        self.base = None;
        self.last_word = None;
        self.inherited = Inherited::default();
        // What a replica has reported may be older than what it has: each may have numbers from before.
        let others = others(core, id);
        for other in &others {
            let server = self.server_mut(*other);
            server.said = None;
            server.kept_up = None;
        }
        mark(core, others);
        let text = format!(
            "{}'s position went back from {before} to {after} while it ran (RESET MASTER there?): it goes on writing, and replicas from before that \
             are to be made copies of it anew",
            core.name(id)
        );
        core.say(Level::Warn, text);
    }
}

/// Whether it shows that the numbers have begun anew when the primary, with this status, lacks those transactions of its own.
fn shows(lacks: &Errant, status: &ReplicationStatus) -> bool {
    // An origin that is not there at all may have been left out by hand (FLUSH BINARY LOGS DELETE_DOMAIN_ID), unless nothing is there.
    let is_empty = status.history.as_ref() == Some(&History::empty(status.dialect.family()));
    lacks.continues() || is_empty && !lacks.is_empty()
}

/// Whether those transactions, which a server has and the primary lacks, show the same. A MySQL primary counts a transaction only when it is
/// committed, which a replica may have received before, so that nothing can be told there.
pub(super) fn is_from_before(lacks: &Errant, status: &ReplicationStatus) -> bool {
    matches!(lacks, Errant::MariaDb(_)) && shows(&lacks.of(status.origin()), status)
}

/// Servers have shown transactions from before the primary's numbers began anew. Those that one of the others has from before may just be
/// fewer than the primary has written since.
pub(super) fn mark_beside(core: &mut Core, primary: NodeId, found: &[NodeId]) {
    if found.iter().any(|id| !core.node(*id).is_renumbered) {
        mark(core, others(core, primary));
    }
}

fn others(core: &Core, id: NodeId) -> Vec<NodeId> {
    core.nodes.ids().filter(|other| *other != id).collect()
}

/// Notes which servers may have the primary's transactions from before its numbers began anew.
fn mark(core: &mut Core, found: Vec<NodeId>) {
    for id in found {
        core.node_mut(id).is_renumbered = true;
    }
    core.persist();
}

/// A server has taken over. If it is one with the old numbers, which takes an order with force, it is the others that differ from it.
pub(super) fn taken_over(core: &mut Core, to: NodeId) {
    if !core.node(to).is_renumbered {
        return;
    }
    for id in core.nodes.ids().collect::<Vec<_>>() {
        let node = core.node_mut(id);
        node.is_renumbered = id != to && !node.is_renumbered;
    }
    core.persist();
}

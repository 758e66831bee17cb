//! A new primary whose commits wait for replicas is opened when replicas have attached to it.
//!
//! ```text
//!   taken over ─> the others are compared, and told to follow ([`super::follow`]) ─> as many have attached as it waits for ─> its lane opens
//!                 nobody can attach, or WITHIN is over ─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Its first commit would wait for the same thing. But a statement about accounts (CREATE USER, DROP USER, GRANT) holds the server's locks on
//! accounts while it waits, and the login of a replica waits for those locks: if such a statement is the first commit, no replica can attach
//! any more, nobody can log in, and everything hangs until `rpl_semi_sync_master_timeout`. The same holds for a primary that was held for a
//! moment, if it has lost all replicas meanwhile: those of a silent primary are made to reconnect ([`super::late`]).
//!
//! Invariant: the lane of such a primary does not open while a server that may attach has not, except after [`WITHIN`].

use std::time::Duration;

use super::SemiSync;
use super::reports::{answers, follows_stranger, is_connected, own};
use super::state::Replication;
use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::time::Now;

/// How long that is waited for. A server that can follow does within some hundredths of a second; a replica that was connected to a primary
/// which has restarted tries again after a second at the latest (MASTER_CONNECT_RETRY). After that reads are served, at least.
const WITHIN: Duration = Duration::from_millis(1200);

/// How often the new primary is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(20);

impl Replication {
    /// See [`crate::group::Change::unattached`].
    pub(super) fn awaited_at_opening(&self, core: &mut Core, to: NodeId, since: Now) -> Option<String> {
        let taken_over_at = self.server(to).writable_since.filter(|_| self.is_opening)?;
        let is_told = core.node(to).answered_since(taken_over_at);
        let has_attached = |id: NodeId| self.has_attached(core, id, since);
        let (attached, rest): (Vec<NodeId>, Vec<NodeId>) =
            core.nodes.ids().filter(|id| *id != to).partition(|id| has_attached(*id));
        let semi_sync = own(core.node(to))?.semi_sync;
        let needed = semi_sync.replicas_needed as usize;
        let is_enough = attached.len() >= needed || is_told && semi_sync.replicas as usize >= needed;
        if is_enough || !will_wait(semi_sync) || is_told && !semi_sync.waits() {
            return None;
        }
        let awaited = self.awaited_replicas(core, to, rest, taken_over_at)?;
        // How many have attached to it. The servers are busy with just that: they are not asked without a pause.
        let asked_at = core.node(to).asked_at.unwrap_or_default();
        if core.now.saturating_sub(asked_at.max(taken_over_at)) >= ASK_EVERY || !is_told {
            core.ask_probe(to);
        }
        Some(awaited)
    }

    /// See [`crate::group::Change::unattached_again`].
    pub(super) fn awaited_again(&self, core: &mut Core, primary: NodeId) -> Option<String> {
        let node = core.node(primary);
        let semi_sync = own(node)?.semi_sync;
        let needed = semi_sync.replicas_needed as usize;
        let cleared_at = node.since.max(node.doubt_cleared.unwrap_or_default());
        // One that is made to reconnect leaves for a moment.
        let is_attached = |id: &NodeId| is_connected(core, *id, primary) && !self.is_ordered(core, *id);
        let (attached, rest): (Vec<NodeId>, Vec<NodeId>) =
            core.nodes.ids().filter(|id| *id != primary).partition(is_attached);
        // By its word, and by theirs: one that says that it is not connected is told to follow as soon as the lane is open.
        let is_enough = attached.len() >= needed && semi_sync.replicas as usize >= needed;
        if is_enough || !semi_sync.waits() {
            return None;
        }
        self.awaited_replicas(core, primary, rest, cleared_at)
    }

    /// What the lane of `to` waits for if those of `rest` may attach that have not: not longer than [`WITHIN`] from `from` on.
    fn awaited_replicas(&self, core: &mut Core, to: NodeId, rest: Vec<NodeId>, from: Now) -> Option<String> {
        if core.settings.replication.is_external() || core.settings.replication.dry_run {
            return None;
        }
        let coming: Vec<NodeId> = rest.into_iter().filter(|id| self.may_attach(core, *id, to)).collect();
        if coming.is_empty() {
            return None;
        }
        let names = coming.iter().map(|id| core.name(*id)).collect::<Vec<_>>().join(" or ");
        let name = core.name(to).to_owned();
        if core.now.saturating_sub(from) >= WITHIN {
            let text = format!(
                "{name} is opened although its commits wait for a replica: none has attached to it in time ({names} could)"
            );
            core.note(Level::Warn, text);
            return None;
        }
        Some(format!("{name} is to write; its commits wait for a replica: {names} is to attach to it first"))
    }

    /// It has said so since the change began, and acknowledges.
    fn has_attached(&self, core: &Core, id: NodeId, since: Now) -> bool {
        let acknowledges = own(core.node(id)).is_some_and(|status| status.semi_sync.replica_enabled);
        acknowledges && answers(core.node(id)) && self.has_followed_since(id, since)
    }

    /// Whether it acknowledges, and follows `to` or can be told to, as far as is known.
    fn may_attach(&self, core: &Core, id: NodeId, to: NodeId) -> bool {
        let (node, server) = (core.node(id), self.server(id));
        let Some(status) = own(node).filter(|status| answers(node) && !status.galera) else { return false };
        let source = status.source();
        let is_attaching =
            source.is_some_and(|channel| channel.source == core.node(to).address && !channel.io_stopped);
        let is_broken = source.is_some_and(|channel| !channel.sql_running && !channel.error.is_empty());
        status.semi_sync.replica_enabled
            && server.errant.is_none()
            && !node.is_renumbered
            && !follows_stranger(core, status)
            && !self.has_just_failed(core, id)
            && (is_attaching || !is_broken)
    }
}

/// Whether a server's commits wait for replicas when it is the primary: it is made to wait if it has acknowledged as a replica.
fn will_wait(semi_sync: SemiSync) -> bool {
    (semi_sync.primary_enabled || semi_sync.replica_enabled) && semi_sync.timeout_ms.is_some()
}

//! Stops the replicas from fetching from a lost primary. It may come back at any moment with transactions that no other server has. A
//! replica that received them could not follow any server without them.
//!
//! ```text
//!   decision on disk ──> each replica that fetches from a server other than the new primary: its IO thread is stopped ──> asked for its
//! position again
//! ```
//!
//! Invariant: between the last reading of the replicas' positions and the moment at which they follow the new primary, none of them
//! receives anything. There are exceptions, since traffic does not wait for them: a replica that cannot be reached, one whose SQL thread
//! does not run (MariaDB deletes the relay logs when its threads start), one that is busy with another order, and one that does not carry
//! out this order in time. What such a replica gets from the old primary is found when it answers again, and it is then left alone as
//! errant.
//!
//! The decision is written to disk first: if this program restarts in between, it would otherwise find replicas that cannot say anything
//! about a silent primary.

use std::time::Duration;

use super::Errand;
use super::action::ErrandKind;
use super::reports::{answers, ours, own};
use super::state::{Fence, Parting, Replication};
use crate::action::Level;
use crate::core::Core;
use crate::time::Now;
use crate::{NodeId, Term};

/// Stopping the thread is immediate, except when the replica has to close its old connection on a source that does not answer. A
/// reconnection that was started as a test ([`super::late`]) has ended by then.
const WITHIN: Duration = Duration::from_secs(1);

impl Replication {
    /// Whether no server but `to` fetches from a lost primary any more. Gives the orders for that.
    pub(super) fn nobody_fetches(&mut self, core: &mut Core, to: NodeId, term: Term) -> bool {
        let may_come = |lost: NodeId| lost != to && may_send(core, lost);
        let is_lost = |fence: &&Fence| !fence.is_planned && fence.lost.is_some_and(may_come);
        let Some(fence) = self.fence.as_ref().filter(is_lost) else {
            return true;
        };
        let is_over = |id: &NodeId| matches!(fence.parted.get(id), Some(Parting::Over(_)));
        let left: Vec<NodeId> = core
            .nodes
            .ids()
            .filter(|id| *id != to && !is_over(id))
            .filter(|id| match self.server(*id).order.filter(|_| self.is_ordered(core, *id)) {
                // Its thread runs again when that order has ended.
                Some((_, ErrandKind::Reconnect | ErrandKind::Part, _)) => true,
                Some(_) => false,
                None => fetches(core, *id, to),
            })
            .collect();
        if left.is_empty() {
            return true;
        }
        if core.disk.written < term {
            return false;
        }
        for node in left {
            if !self.is_ordered(core, node) {
                if let Some(fence) = &mut self.fence {
                    fence.parted.insert(node, Parting::Ordered);
                }
                self.order(core, node, term, WITHIN, Errand::Part);
            }
        }
        false
    }

    /// When the last replica stopped fetching; zero before that.
    pub(super) fn parted_at(&self) -> Now {
        let parted = self.fence.iter().flat_map(|fence| fence.parted.values());
        let over = parted.map(|parting| match parting {
            Parting::Over(at) => *at,
            Parting::Ordered => Now::ZERO,
        });
        over.max().unwrap_or_default()
    }

    pub(super) fn parted(&mut self, core: &mut Core, node: NodeId, term: Term, failed: Option<String>) {
        let Some(fence) = self.fence.as_mut().filter(|fence| fence.term == term) else { return };
        fence.parted.insert(node, Parting::Over(core.now));
        if let Some(why) = failed {
            let text = format!(
                "{} may still get transactions from the old primary that nobody else has, as its IO thread could not be stopped: {why}",
                core.name(node)
            );
            core.say(Level::Warn, text);
        }
    }
}

/// Whether the lost primary may still send what was not known when its successor was chosen: commits that hang there continue when it recovers.
pub(super) fn may_send(core: &Core, lost: NodeId) -> bool {
    !answers(core.node(lost)) || core.node(lost).pulse.is_given_up()
}

/// Whether the server follows another one of this cluster than `to`, and applies. Its IO thread may be reported as stopped and still be
/// about to start, by an order whose answer came too late.
fn fetches(core: &Core, id: NodeId, to: NodeId) -> bool {
    let Some(status) = own(core.node(id)).filter(|status| !status.galera && answers(core.node(id))) else {
        return false;
    };
    let Some(channel) = status.source() else { return false };
    ours(core, &channel.source).is_some_and(|source| source != to) && channel.sql_running
}

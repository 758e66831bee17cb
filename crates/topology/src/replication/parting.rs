//! A primary that is lost may begin again at any moment, with transactions that nobody else has: whoever still tries to fetch from it would get
//! them, and could then follow nobody who has not.
//!
//! ```text
//!   decision on disk ──> each replica that fetches from anybody but the new primary: its thread is stopped ──> asked once more what it has
//! ```
//!
//! Invariant: from the last look at what the replicas have until they follow the new primary, none gets anything more. Not so one that cannot be
//! reached, or whose SQL thread does not run (MariaDB throws away what it has received when its threads begin), or that is busy with another order,
//! or does not carry this one out in time: traffic does not wait for that. What such a one gets from the old primary is found when it speaks again, and it is left alone
//! as errant.
//!
//! The decision is on disk first: a program that begins in between would find replicas that have nothing to say of a silent primary.

use std::time::Duration;

use super::action::OrderKind;
use super::change::Fence;
use super::sight::{answers, ours, own};
use super::{Action, Replication};
use crate::action::Level;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::{NodeId, Term};

/// The thread ends at once. What takes longer is a goodbye to a source that does not answer; one that was begun to see whether it does
/// ([`super::late`]) is over by then.
const WITHIN: Duration = Duration::from_secs(1);

/// How the order to fetch no more went.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parting {
    Ordered,
    Over(Now),
}

impl Replication {
    /// Whether nobody but `to` fetches from a primary that is lost any more. Brings it about.
    pub(super) fn nobody_fetches(&mut self, core: &mut Core, to: NodeId, term: Term) -> bool {
        let may_come = |lost: NodeId| lost != to && may_send(core, lost);
        let is_lost = |fence: &&Fence| !fence.is_planned && fence.lost.is_some_and(may_come);
        let Some(fence) = self.fence.as_ref().filter(is_lost) else {
            return true;
        };
        let is_over = |id: &NodeId| matches!(fence.parted.get(id), Some(Parting::Over(_)));
        let left: Vec<NodeId> = ids(&core.nodes)
            .filter(|id| *id != to && !is_over(id))
            .filter(|id| match self.server(*id).order.filter(|_| self.is_ordered(core, *id)) {
                // Its thread runs when that is done.
                Some((OrderKind::Reconnect(_) | OrderKind::Part(_), _)) => true,
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
                self.order(core, Action::Part { node, term, within: WITHIN });
            }
        }
        false
    }

    /// When the last one stopped to fetch.
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

/// Something may come from it that was not known when its successor was chosen: commits that wait there go on when it is well again.
pub(super) fn may_send(core: &Core, lost: NodeId) -> bool {
    !answers(core.node(lost)) || core.node(lost).pulse.is_given_up()
}

/// It follows a server of this cluster that is not `to`, and applies. That its thread does not run just now says little: an order whose answer came
/// too late may be about to start it.
fn fetches(core: &Core, id: NodeId, to: NodeId) -> bool {
    let Some(status) = own(core.node(id)).filter(|status| !status.galera && answers(core.node(id))) else {
        return false;
    };
    let Some(channel) = status.source() else { return false };
    ours(core, &channel.source).is_some_and(|source| source != to) && channel.sql_running
}

//! The writer answers and does not commit: whether another member does.
//!
//! A large transaction, or DDL in total order isolation, stops the commits of all members. Then moving the writer would not help. So the other
//! members commit a heartbeat row of their own: only a member that has done so since the writer was stuck can take over.

use std::time::Duration;

use super::action::Action;
use super::members::Members;
use super::reports::own;
use super::state::Galera;
use crate::NodeId;
use crate::belief::Belief;
use crate::core::Core;
use crate::finding::Serves;
use crate::group::{Choose, Relief};
use crate::status::Status;

/// A desynchronised member that has applied everything is taken back (`wsrep_desync = OFF`) no more often than this.
const REJOIN_GAP: Duration = Duration::from_secs(2);
/// Write sets that may wait in its queue then.
const REJOIN_BEHIND: u64 = 5;

impl Choose for Galera {
    /// Whether `writer` may be given up, which has not committed for a while.
    fn relief(&mut self, core: &mut Core, writer: NodeId) -> Relief {
        let Some((age, _)) = core.node(writer).pulse.waits(core.now) else { return Relief::Soon };
        let since = core.now.saturating_sub(age);
        // The same statement may have held up both, and ends at a different time on each: a long ALTER does.
        let calm = core.settings.heartbeat.stuck_max * 3;
        let commits = |id: &NodeId| {
            let node = core.node(*id);
            *id != writer
                && node.finding.serves == Serves::Well
                && node.pulse.committed_since(since)
                && !node.pulse.waited_since(since, calm, core.now)
        };
        if core.nodes.ids().any(|id| commits(&id)) {
            return Relief::Clear;
        }
        let stuck: Vec<&str> = core
            .nodes
            .ids()
            .map(|id| core.node(id))
            .filter(|node| {
                node.pulse.waits(core.now).is_some_and(|(age, _)| age >= core.settings.heartbeat.stuck_max)
            })
            .map(|node| node.name.as_str())
            .collect();
        if stuck.len() < 2 {
            return Relief::Soon;
        }
        Relief::None(format!(
            "{} do not commit: the whole group is held up, and nothing is moved (look for a long ALTER, a large transaction, flow control)",
            stuck.join(" and ")
        ))
    }

    /// If all nodes cannot commit, moving on does not help.
    fn relief_gap(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn is_held_up(&self, core: &Core, id: NodeId) -> bool {
        let node = core.node(id);
        let Some(view) = own(node).filter(|_| node.sound()) else { return false };
        let members = Members::of(core, node, view).addresses;
        let is_listed = |other: &&Belief| other.address != node.address && members.contains(&other.address);
        let is_silent = |other: &Belief| other.gone || !other.linked || other.doubt.is_some();
        core.nodes.iter().filter(is_listed).any(is_silent)
    }
}

impl Galera {
    /// A writer that does not commit is given up. Usually it does not apply either, and flow control stops the group as soon as its queue is
    /// full: the new writer would hang after some thirty commits. So it is desynchronised. Returns the clause for the journal's sentence.
    pub(super) fn part_with(&mut self, core: &mut Core, lost: NodeId) -> String {
        let node = core.node(lost);
        let status = node.status.as_ref().and_then(Status::galera);
        // The group does not wait for a node in the state Donor/Desynced.
        let is_waited_for = status.is_some_and(|status| status.local_state == Some(4));
        if !node.pulse.is_given_up() || !is_waited_for {
            return String::new();
        }
        let member = self.member_mut(lost);
        member.parted = true;
        member.parted_until = core.now + REJOIN_GAP;
        core.out.push(Action::Desync { node: lost, on: true }.into());
        "the group is told not to wait for it (wsrep_desync); ".to_owned()
    }

    /// Takes a member back that has applied everything: the group waits for it like for any other. After a restart of this program the node's own
    /// status shows that it is desynchronised.
    pub(super) fn rejoin_parted(&mut self, core: &mut Core) {
        let newest = core
            .nodes
            .iter()
            .filter_map(|node| node.status.as_ref()?.galera())
            .map(|status| status.last_committed)
            .max();
        for id in core.nodes.ids() {
            let member = self.member(id);
            if !member.parted || core.now < member.parted_until {
                continue;
            }
            let status = core.node(id).status.as_ref().and_then(Status::galera);
            let Some(status) = status.filter(|_| core.node(id).linked) else { continue };
            let has_all = status.recv_queue == 0
                && newest.is_some_and(|newest| status.last_committed + REJOIN_BEHIND >= newest);
            let is_over = !status.desync && status.local_state == Some(4);
            let member = self.member_mut(id);
            if is_over && has_all {
                member.parted = false;
            } else if status.desync && has_all {
                member.parted_until = core.now + REJOIN_GAP;
                core.out.push(Action::Desync { node: id, on: false }.into());
            }
        }
    }
}

//! A member that answers and does not commit: whether another does.
//!
//! A large transaction, and a statement that all members carry out at the same place of their order, stop the commits of all members. Then
//! nothing is moved. So the others are asked to commit a row of their own: only one that did it since the writer was stuck can take over.

use std::time::Duration;

use super::{Action, Galera};
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::finding::Serves;
use crate::group::Relief;
use crate::status::Status;

/// A member that has been parted with is asked to come back when it has applied all, at the most so often.
const REJOIN_GAP: Duration = Duration::from_secs(2);
/// Writesets that it may lack then.
const REJOIN_BEHIND: u64 = 5;

impl Galera {
    /// Whether `writer` may be given up, which has not committed for a while.
    pub fn relief(&self, core: &Core, writer: NodeId) -> Relief {
        let Some((age, _)) = core.node(writer).pulse.waits(core.now) else { return Relief::Soon };
        let since = core.now.saturating_sub(age);
        // What held up both may be over there a moment sooner: a long ALTER ends at its own time on each.
        let calm = core.settings.heartbeat.stuck_max * 3;
        let commits = |id: &NodeId| {
            let node = core.node(*id);
            *id != writer
                && node.verdict.serves == Serves::Well
                && node.pulse.committed_since(since)
                && !node.pulse.waited_since(since, calm, core.now)
        };
        if ids(&core.nodes).any(|id| commits(&id)) {
            return Relief::Clear;
        }
        let stuck: Vec<&str> = ids(&core.nodes)
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
}

impl Galera {
    /// A writer that does not commit is given up. Mostly it does not apply either, and the group would wait for it as soon as its queue is
    /// full: the new writer would hang after some thirty commits. Gives its part of the sentence.
    pub(super) fn part_with(&mut self, core: &mut Core, lost: NodeId) -> String {
        let node = core.node(lost);
        let status = node.status.as_ref().and_then(Status::galera);
        // One that says Donor/Desynced is not waited for.
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

    /// One that has applied all again is waited for like any other. Not kept over a restart of this program: then its own word tells of it.
    pub(super) fn rejoin_parted(&mut self, core: &mut Core) {
        let newest = core
            .nodes
            .iter()
            .filter_map(|node| node.status.as_ref()?.galera())
            .map(|status| status.last_committed)
            .max();
        for id in ids(&core.nodes) {
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

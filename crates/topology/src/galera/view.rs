//! The group's newest view: who is in it, who has left, how many strangers it has.
//!
//! A member's view is its own; the newest one that any healthy member tells of counts. A view that does not have a node is no proof
//! that the node has left (a survivor's list of names may lack a healthy member): the node is asked, and has a moment to say which view
//! it is in.

use std::time::Duration;

use super::status::GaleraStatus;
use super::{Galera, Member};
use crate::NodeId;
use crate::belief::Belief;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::finding::{Finding, Serves, refused};

/// A node that others' view does not have is waited for so long, to say which view it is in.
const LEFT_WORD_WAIT: Duration = Duration::from_millis(100);

/// The name of the finding that a member was struck from the group.
pub(super) const EVICTED: &str = "evicted";

/// The newest Primary view that any node told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupView {
    told_by: String,
    conf_id: u64,
    cluster_uuid: String,
    members: Vec<String>,
    /// When this view was first heard of.
    since: Now,
}

impl GroupView {
    /// The view is newer than the node's own, and does not have it.
    fn lacks(&self, node: &Belief, member: &Member) -> bool {
        let Some(status) = own(node) else { return false };
        member.listed_once
            && !self.members.is_empty()
            && self.conf_id > status.conf_id
            && self.cluster_uuid == status.cluster_uuid
            && !self.members.contains(&node.address)
    }
}

/// What the node said last.
pub(super) fn own(node: &Belief) -> Option<&GaleraStatus> {
    node.status.as_ref().and_then(|status| status.galera())
}

/// Its last word puts it in a Primary component.
pub(super) fn primary(node: &Belief) -> bool {
    own(node).is_some_and(GaleraStatus::is_primary)
}

impl Galera {
    /// Before the nodes are judged: finds the newest view, and asks whom it does not have.
    pub fn look_around(&mut self, core: &mut Core) {
        self.view = self.newest(core);
        self.count_strangers(core);
        self.question_absent(core);
    }

    /// What the group says against a node that answers.
    pub fn against(&self, core: &Core, id: NodeId) -> Option<Finding> {
        let (node, member) = (core.node(id), self.member(id));
        // By its own word, since the answer to an order may come when the node is long back.
        let evicted = !member.evicted_uuid.is_empty() && member.evicted_uuid == member.gcomm_uuid;
        if evicted && own(node).is_some() && !primary(node) {
            let sentence = "was evicted from the group while it did not answer: restart it";
            return Some(refused(EVICTED, sentence.into()));
        }
        // Its own last word may be older than that view: it is asked, and has a moment to say which view it is in.
        let view = self.view.as_ref().filter(|view| {
            view.lacks(node, member)
                && (node.leaving_since.is_some()
                    || node.answered_since(view.since)
                    || core.now > view.since + LEFT_WORD_WAIT)
        })?;
        let sentence = format!("left the group: {}'s view {} does not have it", view.told_by, view.conf_id);
        Some(refused("left", sentence))
    }

    fn newest(&self, core: &Core) -> Option<GroupView> {
        core.nodes
            .iter()
            .filter(|node| node.linked && node.doubt.is_none() && primary(node) && node.counts.misses == 0)
            .filter_map(|node| own(node).map(|status| (node, status)))
            .max_by_key(|(_, status)| (status.conf_id, !status.members.is_empty()))
            .map(|(node, status)| GroupView {
                told_by: node.name.clone(),
                conf_id: status.conf_id,
                cluster_uuid: status.cluster_uuid.clone(),
                members: status.members.clone(),
                since: match &self.view {
                    Some(old)
                        if (old.conf_id, &old.cluster_uuid) == (status.conf_id, &status.cluster_uuid) =>
                    {
                        old.since
                    }
                    _ => core.now,
                },
            })
    }

    fn count_strangers(&mut self, core: &Core) {
        let mut views = core.nodes.iter().map(|node| {
            let status = own(node).filter(|_| node.linked && primary(node))?;
            Some((status.conf_id, &status.cluster_uuid, status.cluster_size as usize))
        });
        let Some(Some(first)) = views.next() else { return };
        if views.all(|view| view == Some(first)) {
            self.strangers = first.2.saturating_sub(core.nodes.len());
        }
    }

    /// A node that the newest view does not have gets nothing new until it has said which view it is in.
    fn question_absent(&self, core: &mut Core) {
        let Some(view) = &self.view else { return };
        let absent: Vec<NodeId> = ids(&core.nodes)
            .filter(|id| {
                let node = core.node(*id);
                node.verdict.serves != Serves::No
                    && node.linked
                    && node.doubt.is_none()
                    && view.lacks(node, self.member(*id))
                    && !node.answered_since(view.since)
            })
            .collect();
        let why = format!("{}'s view {} does not have it", view.told_by, view.conf_id);
        for id in absent {
            core.doubt(id, why.clone(), false);
            core.ask_probe(id);
        }
    }
}

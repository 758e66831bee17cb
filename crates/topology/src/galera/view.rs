//! The group's newest view: who is in it, who has left, and how many of its members are not in the configuration.
//!
//! Each member reports the view that it is in (`wsrep_cluster_conf_id`, and the members' addresses). The highest number that a healthy member
//! reports counts. That a node is not listed there is no proof that it has left, since a survivor's list may be without a healthy member for a
//! moment. The node itself is asked, and has 100 ms to say which view it is in.

use std::time::Duration;

use super::members::Members;
use super::reports::{own, primary};
use super::state::{Galera, GroupView, Member, Prime};
use crate::NodeId;
use crate::belief::Belief;
use crate::core::Core;
use crate::finding::{Finding, Problem, Serves};
use crate::group::Judge;
use crate::status::Status;
use crate::time::Now;

/// How long a node that is not in the others' view may take to say which view it is in.
const LEFT_WORD_WAIT: Duration = Duration::from_millis(100);

impl GroupView {
    /// The view is newer than the one that the node itself reported last, and does not list the node.
    fn omits(&self, node: &Belief, member: &Member) -> bool {
        let Some(status) = own(node) else { return false };
        member.listed_once
            && !self.members.is_empty()
            && self.conf_id > status.conf_id
            && self.cluster_uuid == status.cluster_uuid
            && !self.members.contains(&node.address)
    }
}

impl Judge for Galera {
    fn slow(&mut self, _core: &Core, id: NodeId, asked: Now) {
        self.member_mut(id).slow_since.get_or_insert(asked);
    }

    fn heard(&mut self, core: &mut Core, id: NodeId, status: &Status, _asked: Now) {
        let Some(status) = status.galera() else { return };
        if status.is_whole() {
            for node in core.nodes.ids() {
                self.member_mut(node).listed_once |= status.members.contains(&core.node(node).address);
            }
        }
        self.news = Some(id);
        if let Some(prime) = Prime::of(core, core.node(id), status) {
            self.note_prime(core, id, prime);
        }
        let member = self.member_mut(id);
        member.slow_since = None;
        if !status.gcomm_uuid.is_empty() && status.gcomm_uuid != member.gcomm_uuid {
            member.gcomm_uuid.clone_from(&status.gcomm_uuid);
            member.evict_tries = 0;
        }
    }

    /// Called before the nodes are judged: finds the newest view, and asks the nodes that are not in it.
    fn look_around(&mut self, core: &mut Core) {
        let news = self.news.take();
        // What those have reported may be placed by now, by what is known of the others.
        let unplaced = core.nodes.ids().filter(|id| Some(*id) != news && self.is_unplaced(*id));
        for id in news.into_iter().chain(unplaced.collect::<Vec<_>>()) {
            self.note_component(core, id);
        }
        self.find_apart(core);
        self.view = self.newest(core);
        self.count_strangers(core);
        self.question_absent(core);
    }

    /// What the group's view says against a node that itself answers: it was evicted, or has left.
    fn against(&self, core: &Core, id: NodeId) -> Option<Finding> {
        let (node, member) = (core.node(id), self.member(id));
        // The node's own UUID and state decide, and not the answer to the eviction: that may come when the node is long back under another.
        let evicted = !member.evicted_uuid.is_empty() && member.evicted_uuid == member.gcomm_uuid;
        if evicted && own(node).is_some() && !primary(node) {
            let sentence = "was evicted from the group while it did not answer: restart it";
            return Some(Problem::Evicted.found(sentence));
        }
        if member.apart.is_some() {
            return member.apart.clone();
        }
        // Its last status may be older than that view. It was asked, and has a moment to answer.
        let view = self.view.as_ref().filter(|view| {
            view.omits(node, member)
                && (node.leaving_since.is_some()
                    || node.answered_since(view.since)
                    || core.now > view.since + LEFT_WORD_WAIT)
        })?;
        let sentence = format!("left the group: {}'s view {} does not have it", view.told_by, view.conf_id);
        Some(Problem::Left.found(sentence))
    }

    /// The node says that it is not in a Primary component, or said so before its connection ended; and a survivor has reported since then a
    /// view without it. Both are needed: while the group agrees on its next view, healthy members say "not Primary", too. Also true of an
    /// evicted node.
    fn is_out(&self, core: &Core, id: NodeId) -> bool {
        let node = core.node(id);
        let says_so = own(node).is_some() && !primary(node);
        let said_so = !node.linked && node.leaving_since.is_some();
        let was_evicted = self.against(core, id).is_some_and(|finding| finding.problem == Problem::Evicted);
        was_evicted || ((says_so || said_so) && self.unlisted(core, id))
    }

    /// An error about the monitor's login (its account, its certificate, a full server) says nothing about a member that was whole when it was last
    /// heard and has not announced that it leaves. If it has left the group since, the others' view says so ([`Self::against`]).
    fn serves_unseen(&self, core: &Core, id: NodeId) -> bool {
        let node = core.node(id);
        node.is_only_unseen()
            && node.leaving_since.is_none()
            && node.status.as_ref().is_some_and(Status::is_whole)
    }

    fn judged(&mut self, core: &mut Core) {
        self.note_departures(core);
    }

    /// An eviction or a hurry waits for newer status of the members.
    fn is_unclear(&self, core: &Core) -> bool {
        self.eviction_pending(core) || self.hurry_pending(core)
    }

    fn well(&self, _core: &Core, _id: NodeId) -> String {
        "synced and writable".to_owned()
    }

    fn advice(&self, core: &Core, id: NodeId) -> Vec<String> {
        self.not_revived(core, id).into_iter().collect()
    }
}

impl Galera {
    fn newest(&self, core: &Core) -> Option<GroupView> {
        core.nodes
            .ids()
            // The numbers of another component's views cannot be compared with those of the writer's.
            .filter(|id| self.member(*id).apart.is_none())
            .map(|id| core.node(id))
            .filter(|node| node.linked && node.doubt.is_none() && primary(node) && node.counts.misses == 0)
            .filter_map(|node| own(node).map(|status| (node, status)))
            .max_by_key(|(_, status)| (status.conf_id, !status.members.is_empty()))
            .map(|(node, status)| GroupView {
                told_by: node.name.clone(),
                conf_id: status.conf_id,
                cluster_uuid: status.cluster_uuid.clone(),
                members: Some(Members::of(core, node, status))
                    .filter(|members| members.unknown == 0)
                    .map_or_else(Vec::new, |members| members.addresses),
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
            self.unconfigured_members = first.2.saturating_sub(core.nodes.len());
        }
    }

    /// A node that is not in the newest view gets no new transactions until it has said which view it is in.
    fn question_absent(&self, core: &mut Core) {
        let Some(view) = &self.view else { return };
        let absent: Vec<NodeId> = core
            .nodes
            .ids()
            .filter(|id| {
                let node = core.node(*id);
                node.finding.serves != Serves::No
                    && node.linked
                    && node.doubt.is_none()
                    && view.omits(node, self.member(*id))
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

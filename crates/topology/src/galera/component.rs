//! The writer's component: the cluster's history, who was in its last view, and how far it had come. It is remembered, also when its members are
//! gone, and on disk.

use serde::{Deserialize, Serialize};

use super::status::GaleraStatus;

/// The last view of the writer's component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// wsrep_cluster_state_uuid.
    pub cluster_uuid: String,
    /// wsrep_cluster_conf_id.
    pub conf_id: u64,
    /// The highest wsrep_last_committed that a member reported.
    pub seqno: u64,
    /// wsrep_cluster_size; 0 if an earlier version has written this.
    #[serde(default)]
    pub size: u32,
    /// The members of the view. Where some are unknown, also those of the view before that may be these.
    pub members: Vec<Process>,
    /// How many members are not known: `wsrep_incoming_addresses` does not name them, and no node has reported the view from their place.
    #[serde(default)]
    pub unknown: u32,
    /// The addresses of the nodes that were seen in another cluster since they were in this one: their data may be that one's, also after a
    /// restart.
    #[serde(default)]
    pub elsewhere: Vec<String>,
}

/// A member of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The address, as it is in the configuration, if it is there.
    pub address: String,
    /// wsrep_gcomm_uuid, which is new after each start of the server; empty if the member has not reported it from this view.
    pub gcomm_uuid: String,
    /// The address by which the members list it, if that is another one and known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub listed_as: String,
}

impl Component {
    /// It has all members of the view that the node at this address reports.
    pub(super) fn is_all_of(&self, address: &str, status: &GaleraStatus) -> bool {
        (&self.cluster_uuid, self.conf_id, self.size, self.unknown)
            == (&status.cluster_uuid, status.conf_id, status.cluster_size, 0)
            && self.has_process(address, &status.gcomm_uuid)
    }

    pub(super) fn has(&self, address: &str) -> bool {
        self.members.iter().any(|member| member.address == address)
    }

    /// That process of the node was a member.
    pub(super) fn has_process(&self, address: &str, gcomm_uuid: &str) -> bool {
        let is_it = |member: &Process| member.address == address && member.gcomm_uuid == gcomm_uuid;
        !gcomm_uuid.is_empty() && self.members.iter().any(is_it)
    }

    pub(super) fn shares_a_node_with(&self, other: &Self) -> bool {
        self.members.iter().any(|member| other.has(&member.address))
    }

    pub(super) fn has_numbers_of(&self, other: &Self) -> bool {
        let is_size = self.size == other.size || self.size == 0 || other.size == 0;
        is_size && (self.conf_id, &self.cluster_uuid) == (other.conf_id, &other.cluster_uuid)
    }

    /// The numbers alone do not show it: views are counted from 1 again after each bootstrap.
    pub(super) fn is_same_view(&self, other: &Self) -> bool {
        let in_other = |member: &Process| {
            let same = other.members.iter().find(|other| other.address == member.address);
            same.map(|other| {
                other.gcomm_uuid == member.gcomm_uuid
                    || other.gcomm_uuid.is_empty()
                    || member.gcomm_uuid.is_empty()
            })
        };
        let are_all_known = self.unknown == 0 && other.unknown == 0;
        let is_right = if are_all_known {
            self.members.len() == other.members.len()
                && self.members.iter().all(|member| in_other(member) == Some(true))
        } else {
            self.members.iter().all(|member| in_other(member) != Some(false))
        };
        is_right && self.has_numbers_of(other)
    }

    /// This component leads to another view, which has those addresses: through one of its processes, or, if none of them runs any more,
    /// through one of its nodes; while some members of this one are unknown, any node may be one.
    pub(super) fn leads_to<'a>(
        &self,
        running: impl Iterator<Item = &'a str>,
        has: impl Fn(&str) -> bool,
    ) -> bool {
        let mut running = running.peekable();
        if running.peek().is_some() {
            return running.any(has);
        }
        let is_of_another = self.elsewhere.iter().any(|address| has(address));
        !is_of_another && (self.unknown > 0 || self.members.iter().any(|member| has(&member.address)))
    }
}

/// About the members of the writer's component, when all of them are in another one by now.
#[must_use]
pub fn have_joined_another(members: &str) -> String {
    format!(
        "{members} had the last acknowledged writes, and joined a component that was bootstrapped without them: what they alone had is lost, \
         unless a backup has it"
    )
}

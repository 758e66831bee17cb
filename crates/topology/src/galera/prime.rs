//! The last status of each node from a Primary component, and whether the nodes that are left come from the newest of those views.
//!
//! Views are numbered within one history (wsrep_cluster_conf_id within wsrep_cluster_state_uuid), and even there the numbers start again
//! when the whole cluster was down and is started again. Numbers of different histories are therefore never compared; and when a node
//! reports a lower number than before, all views that were reported before that count as older.

use super::members::Members;
use super::reports::own;
use super::revive::Standstill;
use super::state::{Galera, Prime};
use super::status::GaleraStatus;
use crate::NodeId;
use crate::belief::Belief;
use crate::core::Core;

impl Prime {
    /// The part of a status that is kept; `None` if the node was not in a Primary component.
    pub fn of(core: &Core, node: &Belief, status: &GaleraStatus) -> Option<Self> {
        if !status.is_primary() || status.gcomm_uuid.is_empty() {
            return None;
        }
        let Members { addresses, unknown } = Members::of(core, node, status);
        Some(Self {
            numbering: 0,
            conf_id: status.conf_id,
            cluster_uuid: status.cluster_uuid.clone(),
            size: status.cluster_size,
            members: if unknown == 0 { addresses } else { vec![] },
            gcomm_uuid: status.gcomm_uuid.clone(),
            flush_at_commit: status.flush_at_commit,
        })
    }

    fn place(&self) -> (u64, u64) {
        (self.numbering, self.conf_id)
    }

    /// The same process reported the same view.
    fn is_of_view(&self, other: &Self) -> bool {
        (self.conf_id, self.size, &self.cluster_uuid, &self.gcomm_uuid)
            == (other.conf_id, other.size, &other.cluster_uuid, &other.gcomm_uuid)
    }
}

impl Galera {
    /// The node is in this view now. A new report belongs to the newest numbering: where a cluster starts again, all of its processes were
    /// down, and no node reports an older view any more.
    pub(super) fn note_prime(&mut self, core: &Core, id: NodeId, mut prime: Prime) {
        let same = |member: &&Prime| member.cluster_uuid == prime.cluster_uuid;
        let known = core.nodes.ids().filter_map(|id| self.member(id).prime.as_ref()).filter(same);
        let newest = known.map(|known| known.numbering).max().unwrap_or(0);
        let before = self.member(id).prime.as_ref().filter(same);
        let begins_anew =
            before.is_some_and(|before| before.numbering == newest && prime.conf_id < before.conf_id);
        prime.numbering = newest + u64::from(begins_anew);
        // A view's members do not change. The list that a server gives with a view's numbers may be the next one's already: it changes first.
        if let Some(before) = before.filter(|before| prime.members.is_empty() && before.is_of_view(&prime)) {
            prime.members.clone_from(&before.members);
        }
        self.member_mut(id).prime = Some(prime);
    }

    /// The survivors come from the newest Primary view that any node reported, and all of its members are known.
    ///
    /// # Errors
    /// Which of the two does not hold, as a sentence.
    pub(super) fn history(&self, core: &Core, standstill: &Standstill) -> Result<(), String> {
        let newest = self.newest_prime(core)?;
        for id in &standstill.survivors {
            let name = core.name(*id);
            let Some(prime) = &self.member(*id).prime else {
                return Err(format!(
                    "{name} has not been seen in a Primary component since Understudy started"
                ));
            };
            let now = own(core.node(*id)).map_or("", |status| status.gcomm_uuid.as_str());
            if prime.gcomm_uuid != now {
                return Err(format!("{name} has been restarted since it was in a Primary component"));
            }
            if prime.numbering != newest.numbering {
                return Err(format!(
                    "{name} was last seen in a Primary component before the cluster was begun anew"
                ));
            }
            if prime.conf_id != newest.conf_id {
                return Err(format!(
                    "{name} was not in the newest Primary view that was seen: it was in number {}, and the newest is number {}",
                    prime.conf_id, newest.conf_id
                ));
            }
        }
        let is_known = |address: &String| core.nodes.iter().any(|node| node.address == *address);
        if newest.members.len() != newest.size as usize || !newest.members.iter().all(is_known) {
            return Err(format!(
                "the last Primary view had {} members, and not all of them are nodes of the configuration",
                newest.size
            ));
        }
        for id in &standstill.gone {
            let node = core.node(*id);
            let flush = self.member(*id).prime.as_ref().and_then(|prime| prime.flush_at_commit);
            if newest.members.contains(&node.address) && flush != Some(1) {
                return Err(format!(
                    "{} did not run with innodb_flush_log_at_trx_commit = 1 ({}): its disk may lack what it acknowledged",
                    node.name,
                    flush.map_or_else(|| "not known".to_owned(), |flush| flush.to_string())
                ));
            }
        }
        Ok(())
    }

    /// The newest view that was reported. Which of two histories is the cluster's cannot be known here.
    fn newest_prime(&self, core: &Core) -> Result<&Prime, String> {
        let known = core
            .nodes
            .ids()
            .filter_map(|id| self.member(id).prime.as_ref().map(|prime| (core.name(id), prime)));
        let known: Vec<(&str, &Prime)> = known.collect();
        let Some((_, newest)) = known.iter().max_by_key(|(_, prime)| prime.place()) else {
            return Err("no Primary component has been seen since Understudy started".to_owned());
        };
        if known.iter().any(|(_, prime)| prime.cluster_uuid != newest.cluster_uuid) {
            let each = known.iter().map(|(name, prime)| format!("{name} in {}", prime.cluster_uuid));
            return Err(format!(
                "the nodes were last seen in Primary components of different histories, and which of them is the cluster's cannot be told: {}",
                each.collect::<Vec<_>>().join(", ")
            ));
        }
        Ok(*newest)
    }
}

//! Which of the configured nodes are in the view that a node reports.
//!
//! ```text
//!   wsrep_incoming_addresses names the members ──────────────────────> they, and no others
//!   it does not (AUTO, one address for several), and
//!     ├─ the view is remembered, with all of its members ────────────> they, and no others
//!     └─ else: the linked nodes that report the same view themselves > they, and as many unknown ones as its size leaves
//! ```
//!
//! Two nodes report the same view when the cluster's state UUID, the number, and the size are equal, and their places in it
//! (wsrep_local_index) differ. Equal numbers may be chance where a node was bootstrapped alone. Then more nodes than the size allows, or two
//! in one place, report "the same" view, and nothing is concluded from that.
//!
//! Invariant: that a node is not in the view is known only where no member is unknown. Nodes report a new view one after the other: the one
//! that still reports the view before may be a member.

use super::reports::own;
use super::status::GaleraStatus;
use crate::belief::Belief;
use crate::core::Core;

/// The members of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Members {
    /// Those that are known, by the configured addresses; one that is not configured, by the address that the list has.
    pub addresses: Vec<String>,
    /// How many there are beside them. Each may be any node.
    pub unknown: u32,
}

impl Members {
    /// Those of the view that this node reports, by this status.
    pub fn of(core: &Core, node: &Belief, status: &GaleraStatus) -> Self {
        if !status.members.is_empty() || status.is_listless() {
            return Self { addresses: status.members.clone(), unknown: 0 };
        }
        let remembered = core.component.as_ref();
        if let Some(known) = remembered.filter(|known| known.is_all_of(&node.address, status)) {
            let addresses = known.members.iter().map(|member| member.address.clone()).collect();
            return Self { addresses, unknown: 0 };
        }
        let is_peer = |other: &&Belief| {
            let word = own(other).filter(|_| other.linked);
            other.address == node.address || word.is_some_and(|word| word.is_beside(status))
        };
        let peers: Vec<&Belief> = core.nodes.iter().filter(is_peer).collect();
        let addresses: Vec<String> = if may_be_one_view(&peers, status) {
            peers.iter().map(|peer| peer.address.clone()).collect()
        } else {
            vec![node.address.clone()]
        };
        let unknown = (status.cluster_size as usize).saturating_sub(addresses.len());
        Self { unknown: u32::try_from(unknown).unwrap_or(u32::MAX), addresses }
    }
}

/// Each of them has a place of its own in a view of that size.
fn may_be_one_view(peers: &[&Belief], status: &GaleraStatus) -> bool {
    let told: Vec<&GaleraStatus> = peers.iter().filter_map(|peer| own(peer)).collect();
    let are_apart =
        |(at, one): (usize, &&GaleraStatus)| told.iter().skip(at + 1).all(|other| one.is_beside(other));
    told.iter().enumerate().all(are_apart) && peers.len() <= status.cluster_size as usize
}

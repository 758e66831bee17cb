//! What is asked of one member's last status.

use super::status::GaleraStatus;
use crate::belief::Belief;
use crate::finding::{Problem, Serves};

/// The node's last status, if it is one of Galera.
pub(super) fn own(node: &Belief) -> Option<&GaleraStatus> {
    node.status.as_ref().and_then(|status| status.galera())
}

/// By its last status it is in a Primary component.
pub(super) fn primary(node: &Belief) -> bool {
    own(node).is_some_and(GaleraStatus::is_primary)
}

/// It answers, is in a Primary component, and is a full member.
pub(super) fn survivor(node: &Belief) -> bool {
    node.linked && primary(node) && node.counts.misses == 0 && node.doubt.is_none() && usable(node)
}

/// It can be given orders about the group, though it may refuse clients (read only, a donor, ...).
fn usable(node: &Belief) -> bool {
    node.finding.serves != Serves::No
        || matches!(node.finding.problem, Problem::ReadOnly | Problem::RejectQueries | Problem::DonorRejects)
}

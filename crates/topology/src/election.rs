//! Which node becomes the writer: the present one, if it may; otherwise by priority, then by the configuration's order. The same beliefs
//! always elect the same node.

use crate::NodeId;
use crate::belief::Belief;
use crate::finding::Serves;

/// The best of the nodes that are eligible and that `allowed` accepts.
pub(crate) fn elect(
    nodes: &[Belief],
    sitting: Option<NodeId>,
    allowed: impl Fn(NodeId) -> bool,
) -> Option<NodeId> {
    let candidates = || ids(nodes).filter(|id| nodes[usize::from(id.0)].electable() && allowed(*id));
    if let Some(sitting) = sitting
        && candidates().any(|id| id == sitting)
    {
        return Some(sitting);
    }
    candidates().min_by_key(|id| {
        let node = &nodes[usize::from(id.0)];
        (node.behind, u32::MAX - node.priority, *id)
    })
}

/// The best of the nodes that work at all: a donor or a node in maintenance is better than none. A drained node takes no sessions and is
/// never chosen.
pub(crate) fn elect_any(nodes: &[Belief], allowed: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    let node = |id: &NodeId| &nodes[usize::from(id.0)];
    ids(nodes)
        .filter(|id| node(id).present() && !node(id).drained() && allowed(*id))
        .min_by_key(|id| (rank(node(id)), node(id).behind, u32::MAX - node(id).priority, *id))
}

fn rank(node: &Belief) -> u8 {
    match node.finding.serves {
        Serves::Well => 0,
        Serves::Stays => 1,
        Serves::Leaves => 2,
        Serves::No => 3,
    }
}

/// All ids, in the configuration's order.
pub(crate) fn ids(nodes: &[Belief]) -> impl Iterator<Item = NodeId> + use<> {
    let count = u8::try_from(nodes.len()).unwrap_or(u8::MAX);
    (0..count).map(NodeId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn node(priority: u32, serves: Serves) -> Belief {
        let mut belief = Belief::new("n", "h:1", priority, None, Duration::ZERO);
        belief.linked = true;
        belief.finding.serves = serves;
        belief
    }

    #[test]
    fn sticky_then_priority_then_order() {
        let nodes =
            [node(0, Serves::Well), node(5, Serves::Well), node(5, Serves::Well), node(9, Serves::Stays)];
        assert_eq!(elect(&nodes, Some(NodeId(0)), |_| true), Some(NodeId(0)));
        assert_eq!(elect(&nodes, Some(NodeId(3)), |_| true), Some(NodeId(1)));
        assert_eq!(elect(&nodes, None, |id| id != NodeId(1)), Some(NodeId(2)));
        assert_eq!(elect(&nodes, None, |id| id == NodeId(3)), None);
    }

    #[test]
    fn better_a_donor_than_nobody() {
        let mut nodes = [node(9, Serves::Leaves), node(0, Serves::Stays), node(9, Serves::No)];
        assert_eq!(elect_any(&nodes, |_| true), Some(NodeId(1)));
        assert_eq!(elect_any(&nodes, |id| id != NodeId(1)), Some(NodeId(0)));
        nodes[0].sessions_max = Some(0);
        assert_eq!(elect_any(&nodes, |id| id != NodeId(1)), None);
    }
}

//! Which node becomes the writer: the present one, if it may; otherwise by priority, then by the configuration's order. The same beliefs
//! always elect the same node.

use crate::NodeId;
use crate::belief::Belief;
use crate::finding::Serves;
use crate::nodes::Nodes;

/// The best of the nodes that are eligible and that `allowed` accepts.
pub(crate) fn elect(
    nodes: &Nodes,
    sitting: Option<NodeId>,
    allowed: impl Fn(NodeId) -> bool,
) -> Option<NodeId> {
    let candidates = || nodes.ids().filter(|id| nodes[*id].electable() && allowed(*id));
    if let Some(sitting) = sitting
        && candidates().any(|id| id == sitting)
    {
        return Some(sitting);
    }
    // The first of equal ones, in the configuration's order.
    candidates().min_by_key(|id| (nodes[*id].behind, u32::MAX - nodes[*id].priority))
}

/// The best of the nodes that work at all: a donor or a node in maintenance is better than none. A drained node takes no sessions and is
/// never chosen.
pub(crate) fn elect_any(nodes: &Nodes, allowed: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    let node = |id: &NodeId| &nodes[*id];
    nodes
        .ids()
        .filter(|id| node(id).present() && !node(id).drained() && allowed(*id))
        .min_by_key(|id| (rank(node(id)), node(id).behind, u32::MAX - node(id).priority))
}

fn rank(node: &Belief) -> u8 {
    match node.finding.serves {
        Serves::Well => 0,
        Serves::Stays => 1,
        Serves::Leaves => 2,
        Serves::No => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::belief::Belief;
    use crate::settings::NodeSettings;
    use std::time::Duration;

    fn node(priority: u32, serves: Serves) -> Belief {
        let settings = NodeSettings { name: "n".into(), address: "h:1".into(), priority };
        let mut belief = Belief::new(&settings, None, Duration::ZERO);
        belief.linked = true;
        belief.finding.serves = serves;
        belief
    }

    #[test]
    fn sticky_then_priority_then_order() {
        let beliefs = [(0, Serves::Well), (5, Serves::Well), (5, Serves::Well), (9, Serves::Stays)];
        let mut nodes = Nodes::new(beliefs.map(|(priority, serves)| node(priority, serves)).to_vec());
        assert_eq!(elect(&nodes, Some(NodeId(0)), |_| true), Some(NodeId(0)));
        assert_eq!(elect(&nodes, Some(NodeId(3)), |_| true), Some(NodeId(1)));
        assert_eq!(elect(&nodes, None, |id| id != NodeId(1)), Some(NodeId(2)));
        assert_eq!(elect(&nodes, None, |id| id == NodeId(3)), None);
        // The order is the configuration's, whatever the ids are.
        nodes.set_order([3, 2, 1, 0].map(NodeId).to_vec());
        assert_eq!(elect(&nodes, None, |_| true), Some(NodeId(2)));
        nodes.set_order([1, 3].map(NodeId).to_vec());
        assert_eq!(elect(&nodes, Some(NodeId(0)), |_| true), Some(NodeId(1)));
    }

    #[test]
    fn better_a_donor_than_nobody() {
        let beliefs = [node(9, Serves::Leaves), node(0, Serves::Stays), node(9, Serves::No)];
        let mut nodes = Nodes::new(beliefs.to_vec());
        assert_eq!(elect_any(&nodes, |_| true), Some(NodeId(1)));
        assert_eq!(elect_any(&nodes, |id| id != NodeId(1)), Some(NodeId(0)));
        nodes[NodeId(0)].sessions_max = Some(0);
        assert_eq!(elect_any(&nodes, |id| id != NodeId(1)), None);
    }
}

//! Whether the nodes are members of one cluster.

use std::collections::BTreeSet;

use super::nodes::{answered, named};
use super::report::{Finding, Weight};
use crate::doctor::read::NodeFacts;

/// The finding that they are of two: with two histories, or Primary in two components.
pub fn two_clusters(nodes: &[NodeFacts]) -> Option<Finding> {
    let finding = |nodes: Vec<String>, what: &str, because: &str| Finding {
        weight: Weight::Problem,
        nodes,
        what: what.into(),
        because: because.into(),
        sql: vec![],
        my_cnf: vec![],
    };
    let uuids: BTreeSet<_> =
        answered(nodes).filter(|(_, said)| said.wsrep_on).map(|(_, said)| &said.cluster_uuid).collect();
    if uuids.len() > 1 {
        return Some(finding(
            named(nodes, |said| said.wsrep_on),
            "the nodes belong to different clusters (wsrep_cluster_state_uuid differs)",
            "a write to one of them would be missing on the others",
        ));
    }
    let primary = || answered(nodes).filter(|(_, said)| said.cluster_status == "Primary");
    let views: BTreeSet<_> = primary().map(|(_, said)| (&said.conf_id, said.cluster_size)).collect();
    let count = primary().count();
    let is_too_small = |size: Option<u32>| size.is_some_and(|size| (size as usize) < count);
    (views.len() > 1 || views.iter().any(|(_, size)| is_too_small(*size))).then(|| {
        finding(
            primary().map(|(name, _)| name.to_owned()).collect(),
            "the nodes are Primary, and not in one component: somebody bootstrapped one of them alone",
            "these are two clusters, and a write to one of them is missing in the other: stop the one that lacks the last acknowledged writes \
             (understudy status), and let it join the other by a full copy",
        )
    })
}

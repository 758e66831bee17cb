//! Whether the nodes are members of one cluster.

use std::collections::BTreeSet;

use topology::galera::{self, Apart, Asked, Component, apart, have_joined_another};

use super::nodes::{answered, named};
use super::report::{Finding, Weight};
use crate::read::NodeFacts;

/// The finding that they are of two: with two histories, Primary in two components, or Primary in another one than the writer's, where that is
/// remembered.
pub fn two_clusters(nodes: &[NodeFacts], known: Option<&Component>) -> Option<Finding> {
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
    let are_primary = || primary().map(|(name, _)| name.to_owned()).collect::<Vec<String>>();
    if views.len() > 1 || views.iter().any(|(_, size)| is_too_small(*size)) {
        return Some(finding(
            are_primary(),
            "the nodes are Primary, and not in one component: somebody bootstrapped one of them alone",
            "these are two clusters, and a write to one of them is missing in the other: stop the one that lacks the last acknowledged writes \
             (understudy status), remove its grastate.dat, and start it, so that it takes a full copy of the other",
        ));
    }
    match apart(&nodes.iter().map(asked).collect::<Vec<_>>(), known?)? {
        Apart::Without(others) => Some(finding(
            are_primary(),
            &format!(
                "Primary without {others}, which had the last acknowledged writes: somebody bootstrapped it alone"
            ),
            "these are two clusters: stop it, remove its grastate.dat, and start it, so that it takes a full copy of the others; or, only if what they alone have is to be given up, \
             run `understudy undrain` with its name while they are stopped",
        )),
        Apart::Joined(members) => Some(finding(
            are_primary(),
            &have_joined_another(&members),
            "to go on with what is there, run `understudy undrain` with the name of one of them",
        )),
    }
}

fn asked(node: &NodeFacts) -> Asked<'_> {
    let said = node.said.as_ref().ok().map(|said| galera::ComponentStatus {
        cluster_status: &said.cluster_status,
        size: said.cluster_size,
        gcomm_uuid: &said.gcomm_uuid,
    });
    Asked { name: &node.name, address: &node.address, said }
}

//! For a program that asks each node once: whether the Primary component is the writer's, which is remembered (`component.rs`).

use super::component::Component;

/// A configured node, and what it said.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its name in the configuration.
    pub name: &'a str,
    /// Its address there.
    pub address: &'a str,
    /// `None`: no answer.
    pub said: Option<ComponentStatus<'a>>,
}

/// What a node says of its component.
#[derive(Clone, Copy, Debug)]
pub struct ComponentStatus<'a> {
    /// wsrep_cluster_status.
    pub cluster_status: &'a str,
    /// wsrep_cluster_size: members of its component, itself included.
    pub size: Option<u32>,
    /// wsrep_gcomm_uuid.
    pub gcomm_uuid: &'a str,
}

impl ComponentStatus<'_> {
    fn is(&self, cluster_status: &str) -> bool {
        self.cluster_status.eq_ignore_ascii_case(cluster_status)
    }
}

/// What a Primary component is that is not the writer's. The names are those of the members of the writer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apart {
    /// These are not in it.
    Without(String),
    /// They all are, and joined it after it was bootstrapped without them.
    Joined(String),
}

/// Compares the nodes that are Primary with what is remembered. `None` also where none is, where a member was not asked, which may be of the
/// writer's component, and where none of the remembered members is configured any more.
pub fn apart(nodes: &[Asked], known: &Component) -> Option<Apart> {
    let primary: Vec<(&Asked, ComponentStatus)> = nodes
        .iter()
        .filter_map(|node| Some((node, node.said?)))
        .filter(|(_, said)| said.is("Primary"))
        .collect();
    let is_all_asked = primary.iter().all(|(_, said)| said.size == u32::try_from(primary.len()).ok());
    let members = || nodes.iter().filter(|node| known.has(node.address));
    if primary.is_empty() || !is_all_asked || members().next().is_none() {
        return None;
    }
    let is_primary = |address: &str| primary.iter().any(|(node, _)| node.address == address);
    // One that shuts down leaves the group first, and takes a while to end.
    let runs = |node: &&Asked| {
        node.said
            .is_some_and(|said| !said.is("Disconnected") && known.has_process(node.address, said.gcomm_uuid))
    };
    if known.leads_to(nodes.iter().filter(runs).map(|node| node.address), is_primary) {
        return None;
    }
    let list = |names: Vec<&str>| names.join(", ");
    let outside: Vec<&str> =
        members().filter(|node| !is_primary(node.address)).map(|node| node.name).collect();
    Some(if outside.is_empty() {
        Apart::Joined(list(members().map(|node| node.name).collect()))
    } else {
        Apart::Without(list(outside))
    })
}

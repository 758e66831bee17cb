//! Queries every node concurrently, and collects the answers or errors by node.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use link::LinkError;

use super::read::explain;
use settings::Settings;

/// A node's answers, or why there are none.
#[derive(Clone, Debug)]
pub struct NodeFacts<State> {
    /// Its name in the configuration.
    pub name: String,
    /// Its address there.
    pub address: String,
    /// Its answers, or why there are none.
    pub said: Result<State, String>,
    /// The options in its option file, or why the file cannot be used; `None` when no file was named.
    pub file: Option<Result<BTreeMap<String, String>, String>>,
}

/// Queries every node concurrently; `ask` gets its address.
pub async fn each<State>(
    settings: &Settings,
    ask: impl AsyncFn(&str) -> Result<State, LinkError>,
) -> Vec<NodeFacts<State>> {
    let answers = join_all(settings.nodes.iter().map(|node| ask(&node.address))).await;
    let facts = settings.nodes.iter().zip(answers).map(|(node, said)| NodeFacts {
        name: node.name.clone(),
        address: node.address.clone(),
        said: said.map_err(|e| explain(&e, settings.kind, &settings.monitor.user)),
        file: None,
    });
    facts.collect()
}

/// The nodes that answered, with their names.
pub fn answered<State>(nodes: &[NodeFacts<State>]) -> impl Iterator<Item = (&str, &State)> {
    nodes.iter().filter_map(|node| Some((node.name.as_str(), node.said.as_ref().ok()?)))
}

/// The names of the nodes that answered and for which `is` is true.
pub fn named<State>(nodes: &[NodeFacts<State>], is: impl Fn(&State) -> bool) -> Vec<String> {
    answered(nodes).filter(|(_, said)| is(said)).map(|(name, _)| name.to_owned()).collect()
}

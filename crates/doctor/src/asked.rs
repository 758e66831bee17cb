//! Queries every node concurrently, and collects the answers or errors by node.

use std::collections::BTreeMap;

use link::LinkError;
use tokio::task::JoinHandle;

use super::read::explain;
use settings::Settings;

/// A node's answers, or why there are none.
#[derive(Clone, Debug)]
pub struct NodeFacts<Said> {
    /// Its name in the configuration.
    pub name: String,
    /// Its address there.
    pub address: String,
    /// Its answers, or why there are none.
    pub said: Result<Said, String>,
    /// The options in its option file, or why the file cannot be used; `None` when no file was named.
    pub file: Option<Result<BTreeMap<String, String>, String>>,
}

/// Queries every node concurrently; `ask` gets its address.
pub async fn each<Said, Asking>(settings: &Settings, ask: impl Fn(String) -> Asking) -> Vec<NodeFacts<Said>>
where
    Said: Send + 'static,
    Asking: Future<Output = Result<Said, LinkError>> + Send + 'static,
{
    let tasks: Vec<JoinHandle<_>> =
        settings.nodes.iter().map(|node| tokio::spawn(ask(node.address.clone()))).collect();
    let mut facts = Vec::new();
    for (node, task) in settings.nodes.iter().zip(tasks) {
        let said = match task.await {
            Ok(Ok(said)) => Ok(said),
            Ok(Err(e)) => Err(explain(&e, settings.kind, &settings.monitor.user)),
            Err(e) => Err(format!("the question broke off: {e}")),
        };
        facts.push(NodeFacts { name: node.name.clone(), address: node.address.clone(), said, file: None });
    }
    facts
}

/// The nodes that answered, with their names.
pub fn answered<Said>(nodes: &[NodeFacts<Said>]) -> impl Iterator<Item = (&str, &Said)> {
    nodes.iter().filter_map(|node| Some((node.name.as_str(), node.said.as_ref().ok()?)))
}

/// The names of the nodes that answered and for which `is` is true.
pub fn named<Said>(nodes: &[NodeFacts<Said>], is: impl Fn(&Said) -> bool) -> Vec<String> {
    answered(nodes).filter(|(_, said)| is(said)).map(|(name, _)| name.to_owned()).collect()
}

//! Looking at what the nodes said.

use std::time::Duration;

use crate::doctor::read::{NodeFacts, Said};

pub(super) fn answered(nodes: &[NodeFacts]) -> impl Iterator<Item = (&str, &Said)> {
    nodes.iter().filter_map(|node| Some((node.name.as_str(), node.said.as_ref().ok()?)))
}

pub(super) fn named(nodes: &[NodeFacts], is: impl Fn(&Said) -> bool) -> Vec<String> {
    answered(nodes).filter(|(_, said)| is(said)).map(|(name, _)| name.to_owned()).collect()
}

/// How long writes at `rate` bytes a second fit into `size` bytes.
pub(super) fn window(size: u64, rate: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(size as f64 / rate).ok()
}

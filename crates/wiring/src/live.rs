//! What the live view is told: each sample of a node as it comes, and the whole status once a second. Made once, for all who read, and not at
//! all while nobody does.

use std::sync::Arc;
use std::time::Duration;

use api::{SampleEvent, Status};
use manager::Samples;
use measure::flow;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval};
use topology::NodeId;
use web::{Bytes, Cluster, Control, Event};

use super::cluster_control::ClusterControl;

/// Between two states.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Events that a reader may be behind by: some seconds of a cluster of three, about one of the largest.
const EVENTS_MAX: usize = 256;
/// Samples in one part of an answer: about 100 kB of JSON, and about a millisecond.
const PAGE_SAMPLES: usize = 100;
/// What is told as happening now is not older than this.
const FRESH_MS: u64 = 5_000;
/// The shorter and the longer span that rates are told of.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

/// The way to all readers.
pub fn channel() -> broadcast::Sender<Event> {
    broadcast::channel(EVENTS_MAX).0
}

/// Tells until the manager ends, or this is dropped; the readers' streams end with it.
pub async fn feed(cluster_control: Arc<ClusterControl>, samples: Samples, events: broadcast::Sender<Event>) {
    let mut news = samples.news();
    let mut tick = interval(STATUS_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            heard = news.recv() => match heard {
                Ok((node, sample)) if events.receiver_count() > 0 => {
                    let rates = samples.rates(node, SHORT);
                    let known = cluster_control.cluster().nodes.iter().find(|(known, _)| *known == node);
                    // Of one that is just being removed, or was added a moment ago, nothing is told.
                    let Some((_, node)) = known else { continue };
                    Event::new("sample", &json!(SampleEvent { node: node.clone(), sample, rates }))
                }
                Ok(_) => continue,
                // What was missed here, readers miss, too. The ring has it.
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!("{missed} samples came faster than they were told at /v1/live");
                    Event::new("missed", &json!({ "samples": missed }))
                }
                Err(RecvError::Closed) => return,
            },
            _ = tick.tick() => {
                if events.receiver_count() == 0 {
                    continue;
                }
                Event::new("status", &json!(cluster_control.status().await))
            }
        };
        // An error says that the last reader has just left.
        let _ = events.send(event);
    }
}

/// Every sample after a moment, node by node, as one JSON object in parts. Each part is copied and written when it is asked for, so that neither
/// memory nor a lock depends on how fast somebody reads.
pub struct Parts {
    samples: Samples,
    since_unix_ms: u64,
    every_us: u64,
    /// Each node's name, and its newest sample when the question came: later ones are not told, or a slow reader would never be done.
    nodes: Vec<(NodeId, String, u64)>,
    /// The next of `nodes`, the last of its samples that was looked at, and the last that was told.
    at: usize,
    seen_us: Option<u64>,
    told_us: Option<u64>,
    is_over: bool,
}

impl Parts {
    /// What was taken after that moment, milliseconds since 1970; of each node, two are at least `every_ms` apart.
    pub fn new(cluster: &Cluster, samples: &Samples, since_unix_ms: u64, every_ms: u64) -> Self {
        let newest = |node| samples.last(node).map_or(0, |sample| sample.at_us);
        let nodes = cluster.nodes.iter().map(|(node, name)| (*node, name.clone(), newest(*node))).collect();
        let samples = samples.clone();
        let every_us = every_ms.saturating_mul(1000);
        Self { samples, since_unix_ms, every_us, nodes, at: 0, seen_us: None, told_us: None, is_over: false }
    }
}

impl Iterator for Parts {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut text = String::new();
        if self.at == 0 && self.seen_us.is_none() {
            text.push_str("{\"nodes\":[");
        }
        let Some((node, name, newest_us)) = self.nodes.get(self.at) else {
            self.is_over = true;
            text.push_str("]}");
            return Some(text.into());
        };
        if self.seen_us.is_none() {
            let comma = if self.at > 0 { "," } else { "" };
            text += &format!("{comma}{{\"node\":{},\"samples\":[", json!(name));
        }
        let page = self.samples.page(*node, self.since_unix_ms, self.seen_us, PAGE_SAMPLES);
        let is_last = page.len() < PAGE_SAMPLES || page.last().is_some_and(|last| last.at_us >= *newest_us);
        for sample in page.iter().filter(|sample| sample.at_us <= *newest_us) {
            self.seen_us = Some(sample.at_us);
            match self.told_us {
                Some(told_us) if sample.at_us < told_us.saturating_add(self.every_us) => continue,
                Some(_) => text.push(','),
                None => {}
            }
            text += &json!(sample).to_string();
            self.told_us = self.seen_us;
        }
        if is_last {
            text.push_str("]}");
            self.at += 1;
            (self.seen_us, self.told_us) = (None, None);
        }
        Some(text.into())
    }
}

/// Adds to the status what each node did in the last second and in the last minute, and what the group's flow control did.
pub fn add(status: &mut Status, samples: &Samples) {
    let mut seen: Vec<(&str, flow::FlowReport)> = Vec::new();
    let now_ms = status.now_ms;
    for node in &mut status.nodes {
        let Some(last) = samples.last(node.id) else { continue };
        let age_ms = now_ms.saturating_sub(last.at_us / 1000);
        (node.sample, node.sample_age_ms) = (Some(last), Some(age_ms));
        if age_ms > FRESH_MS {
            continue;
        }
        let rates = samples.rates(node.id, SHORT);
        (node.rates, node.rates_minute) = (Some(rates), Some(samples.rates(node.id, LONG)));
        if let Some(rates) = rates {
            seen.push((&node.view.name, flow::FlowReport::of(&last, &rates)));
        }
    }
    status.flow_control = flow::sentence(seen);
}

//! What the live view is told: each sample of a node as it comes, and the whole status once a second. Made once, for all who read, and not at
//! all while nobody does.

use std::sync::Arc;
use std::time::Duration;

use manager::Samples;
use measure::flow;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval};
use topology::NodeId;
use web::{Cluster, Control, Event};

use super::desk::Desk;

/// Between two states.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Events that a reader may be behind by: some seconds of a cluster of three, about one of the largest.
const EVENTS_MAX: usize = 256;
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
pub async fn feed(desk: Arc<Desk>, samples: Samples, events: broadcast::Sender<Event>) {
    let mut news = samples.news();
    let mut tick = interval(STATUS_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            heard = news.recv() => match heard {
                Ok((node, sample)) if events.receiver_count() > 0 => {
                    let rates = samples.rates(node, SHORT);
                    let node = desk.cluster().name_of(node);
                    Event::new("sample", &json!({ "node": node, "sample": sample, "rates": rates }))
                }
                // What was missed here, readers miss, too; the ring has it.
                Ok(_) | Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            },
            _ = tick.tick() => {
                if events.receiver_count() == 0 {
                    continue;
                }
                Event::new("status", &desk.status().await)
            }
        };
        // An error says that the last reader has just left.
        let _ = events.send(event);
    }
}

/// Every sample after that moment, node by node.
pub fn samples(cluster: &Cluster, samples: &Samples, since_unix_ms: u64) -> Value {
    let nodes = (0..=u8::MAX).map(NodeId).zip(&cluster.nodes);
    let told =
        nodes.map(|(node, name)| json!({ "node": name, "samples": samples.since(node, since_unix_ms) }));
    json!({ "nodes": told.collect::<Vec<_>>() })
}

/// Adds to the status what each node did in the last second and in the last minute, and what the group's flow control did.
pub fn add(status: &mut Value, samples: &Samples, now_ms: u64) {
    let mut seen: Vec<(String, flow::Said)> = Vec::new();
    let nodes = status["nodes"].as_array_mut().into_iter().flatten();
    for (place, node) in (0..=u8::MAX).map(NodeId).zip(nodes) {
        let Some(last) = samples.last(place) else { continue };
        let age_ms = now_ms.saturating_sub(last.at_us / 1000);
        node["sample"] = json!(last);
        node["sample_age_ms"] = json!(age_ms);
        if age_ms > FRESH_MS {
            continue;
        }
        let rates = samples.rates(place, SHORT);
        node["rates"] = json!(rates);
        node["rates_minute"] = json!(samples.rates(place, LONG));
        if let (Some(rates), Some(name)) = (rates, node["name"].as_str()) {
            seen.push((name.to_owned(), flow::Said::of(&last, &rates)));
        }
    }
    status["flow_control"] = json!(flow::sentence(seen.iter().map(|(name, said)| (name.as_str(), *said))));
}

//! Who is what by a running `understudy serve`, asked four times a second.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use warmup::warmer::Roles;

use super::{LOOK_EVERY, tell};
use crate::client::Client;
use crate::exit::Failure;

/// Follows it for as long as anybody listens. The first answer decides whether there is anybody to follow.
pub(super) fn follow(client: Client, runtime: &Runtime) -> Result<watch::Receiver<Roles>, Failure> {
    let (sender, receiver) = watch::channel(roles(&client.get("status")?.data));
    runtime.spawn_blocking(move || {
        while !sender.is_closed() {
            std::thread::sleep(LOOK_EVERY);
            let now = match client.get("status") {
                Ok(answer) => roles(&answer.data),
                Err(_) => Roles {
                    active: Err("`understudy serve` does not answer".into()),
                    standbys: BTreeMap::new(),
                },
            };
            tell(&sender, now);
        }
    });
    Ok(receiver)
}

/// What a status means for warming. A node that takes no reads at present is not warmed.
fn roles(status: &Value) -> Roles {
    let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |node: &Value| Some((node["name"].as_str()?.to_owned(), node["address"].as_str()?.to_owned()));
    let is_open = status["gate"] == "open";
    let writer = status["writer"].as_str().filter(|_| is_open);
    let active = writer.and_then(|writer| nodes.iter().filter_map(of).find(|(name, _)| name == writer));
    let others = nodes.iter().filter(|node| node["writer"] != true);
    let standbys = others.filter_map(|node| {
        let (name, address) = of(node)?;
        if active.as_ref().is_some_and(|(active, _)| *active == name) {
            return None;
        }
        let is_usable = node["linked"] == true && matches!(node["serves"].as_str(), Some("well" | "stays"));
        let why =
            || format!("`understudy serve` says that it is {}", node["state"].as_str().unwrap_or("unknown"));
        Some((name, is_usable.then_some(address).ok_or_else(why)))
    });
    Roles {
        standbys: standbys.collect(),
        active: active.ok_or_else(|| "no node is known to take the traffic alone".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::roles;

    #[test]
    fn nobody_is_warmed_unless_one_node_takes_the_traffic() {
        let status = |gate: &str, writer: serde_json::Value| {
            json!({ "gate": gate, "writer": writer, "nodes": [
                { "name": "db1", "address": "10.0.0.1:3306", "writer": writer == "db1", "linked": true, "serves": "well" },
                { "name": "db2", "address": "[::1]:3306", "writer": writer == "db2", "linked": true, "serves": "well" },
                { "name": "db3", "address": "10.0.0.3:3306", "writer": false, "linked": false, "serves": "no", "state": "dead" },
            ] })
        };
        let open = roles(&status("open", json!("db1")));
        assert_eq!(open.active, Ok(("db1".into(), "10.0.0.1:3306".into())));
        assert_eq!(open.standbys["db2"], Ok("[::1]:3306".to_owned()));
        assert_eq!(open.standbys["db3"], Err("`understudy serve` says that it is dead".into()));
        let moved = roles(&status("open", json!("db2")));
        assert_eq!(moved.active, Ok(("db2".into(), "[::1]:3306".into())));
        assert!(!moved.standbys.contains_key("db2"));
        assert!(roles(&status("held", json!("db1"))).active.is_err());
        assert!(roles(&status("open", json!(null))).active.is_err());
        let nothing = roles(&json!({}));
        assert!(nothing.active.is_err() && nothing.standbys.is_empty());
    }
}

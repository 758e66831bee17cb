//! orchestrator.conf.json: how it watches and recovers. The servers are in orchestrator's own database.
//!
//! Source: orchestrator's go/config/config.go and docs/configuration*.md, version 3.2.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::Value as Json;
use settings::table as t;

use super::Source;
use super::draft::{Draft, Fate, Item, address};

/// What becomes of each key.
pub const RULES: &str = include_str!("orchestrator.rules");

/// The pairs of an object in their order; a key that stands there twice comes twice.
struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, Json)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

/// # Errors
/// A sentence with file and line, and without what stands there.
pub fn read(source: &Source) -> Result<Vec<Item>, String> {
    let mut json = serde_json::Deserializer::from_str(source.text);
    let pairs = json.deserialize_map(Pairs).and_then(|pairs| json.end().map(|()| pairs));
    let pairs = pairs.map_err(|error| {
        format!("{}: this is not an object in valid JSON", source.at(error.line().max(1)))
    })?;
    let mut read = 0;
    let item = |(key, value): (String, Json)| {
        // JSON values have no place of their own: each key stands behind the one before it.
        read += source.text[read..].find(&format!("\"{key}\"")).map_or(0, |at| at + 1);
        let at = source.at_byte(read);
        let value = match value {
            Json::String(text) => text,
            Json::Null => String::new(),
            Json::Array(list) if list.is_empty() => String::new(),
            other => other.to_string(),
        };
        Item { at, section: String::new(), key, value }
    };
    Ok(pairs.into_iter().map(item).collect())
}

pub fn translate(items: &[Item], draft: &mut Draft) {
    let value = |key: &str| items.iter().rev().find(|item| item.key == key).map(|item| &*item.value);
    draft.say(&t::CLUSTER_NAME, "orchestrator", "orchestrator has no name for a cluster in its file");
    draft.say(&t::CLUSTER_KIND, "replication", "orchestrator manages nothing else");
    let port = value("DefaultInstancePort").unwrap_or("3306");
    for item in items.iter().filter(|item| item.key == "DiscoverySeeds") {
        for seed in serde_json::from_str::<Vec<String>>(&item.value).unwrap_or_default() {
            let (host, port) = seed.rsplit_once(':').unwrap_or((&seed, port));
            draft.node(host, &address(host, port), item);
        }
    }
    let skips_verify = value("MySQLTopologySSLSkipVerify") == Some("true");
    draft.translate(
        items,
        |_| 0,
        |draft, item| match (&*item.key, &*item.value) {
            ("RecoverMasterClusterFilters", filters) => {
                let word = if filters.is_empty() { "manual" } else { "automatic" };
                draft.say(&t::REPLICATION_FAILOVER, word, format!("{} RecoverMasterClusterFilters", item.at))
            }
            ("MySQLTopologyUseMutualTLS", "true") => {
                let word = if skips_verify { "required" } else { "verified" };
                draft.say(&t::CLUSTER_TLS, word, format!("{} MySQLTopologyUseMutualTLS", item.at))
            }
            ("MySQLTopologySSLSkipVerify", "true") => Fate::becomes(&t::CLUSTER_TLS),
            ("MySQLTopologyCredentialsConfigFile", path) if !path.is_empty() => {
                let why = format!("user and password are those of [client] in {path}");
                draft.ask(&t::MONITOR_USER, why.clone());
                draft.ask(&t::MONITOR_PASSWORD, why);
                Fate::nothing(
                    "it is an option file: cluster.monitor.password_file is a file with the password alone",
                )
            }
            _ => draft.by(RULES, "", item),
        },
    );
    if draft.nodes.is_empty() {
        let why = "they are in orchestrator's database (`orchestrator-client -c all-instances`): a [[cluster.node]] with name and address for each server";
        draft.ask(&t::NODE_ADDRESS, why);
    }
}

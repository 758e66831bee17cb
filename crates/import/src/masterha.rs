//! MHA's configuration: the global file and an application's, as [`crate::mha::conf`] reads them.
//!
//! Source: MHA 0.58, MHA::Config and its wiki's "Parameters".

use settings::table as t;

use super::draft::{As, Draft, Fate, Item, NEVER_PROMOTED, Node, fit, rules_of};
use super::mha::conf::{Conf, Server};

/// What becomes of each key.
pub const RULES: &str = include_str!("masterha.rules");

/// All keys that MHA knows.
pub fn keys() -> impl Iterator<Item = &'static str> {
    rules_of(RULES, "").flat_map(|(keys, ..)| keys.split(" | "))
}

/// The settings that serve these servers, as a text.
pub fn settings(conf: &Conf) -> String {
    let mut draft = Draft::default();
    translate(conf, &mut draft);
    draft.complete();
    super::write::toml(&draft, "")
}

/// A server's node name.
pub fn node_name(conf: &Conf, server: &Server) -> String {
    let is_twin = conf.servers.iter().filter(|other| other.host() == server.host()).count() > 1;
    fit(if is_twin { &server.block } else { server.host() })
}

pub fn translate(conf: &Conf, draft: &mut Draft) {
    let first = &conf.servers[0];
    draft.say(&t::CLUSTER_NAME, &fit(&conf.app()), "the file's name");
    draft.say(&t::CLUSTER_KIND, "replication", "MHA manages nothing else");
    for server in &conf.servers {
        let priority = match (server.is_on("no_master"), server.is_on("candidate_master")) {
            (true, _) => NEVER_PROMOTED,
            (_, true) => (100, "candidate_master"),
            _ => (10, ""),
        };
        let (name, address) = (node_name(conf, server), server.address());
        let hostname = conf.given.iter().find(|item| item.section == server.block && item.key == "hostname");
        let from = format!("{} [{}]", hostname.map_or("", |item| &item.at), server.block);
        draft.nodes.push(Node { name, address, priority: Some(priority), from });
    }
    // Where the value that counts is written; `None`: it is MHA's own.
    let written = |key: &str| {
        let counts = |item: &&Item| item.key == key && first.get(key) == Some(item.value.as_str());
        conf.given.iter().rev().find(counts)
    };
    let from = |key: &str| {
        written(key).map_or_else(|| "MHA's default".to_owned(), |item| format!("{} {key}", item.at))
    };
    draft.say(&t::MONITOR_USER, first.user(), from("user"));
    draft.say(&t::MONITOR_PASSWORD, first.password(), from("password"));
    for (row, key) in
        [(&t::REPLICATION_USER.row, "repl_user"), (&t::REPLICATION_PASSWORD.row, "repl_password")]
    {
        match first.get(key) {
            Some(value) => drop(draft.say(row, value, from(key))),
            None => draft.ask(row, format!("{key} is not set: MHA asks the servers for the account")),
        }
    }
    if let Some(item) = written("ping_interval") {
        draft.set(&t::MONITOR_INTERVAL, As::Time(1000), item);
    }
    if let Some(item) = written("manager_workdir") {
        let dir = format!("{}/understudy", item.value.trim_end_matches('/'));
        draft.say(&t::STATE_DIR, &dir, format!("{} manager_workdir", item.at));
    }
    draft.remarks.extend(conf.unknown.iter().map(|why| format!("{why}; it is left out")));
    draft.remarks.extend(conf.odd.iter().cloned());
    draft.translate(&conf.given, |_| 0, |draft, item| fate(conf, draft, item));
}

fn fate(conf: &Conf, draft: &mut Draft, item: &Item) -> Fate {
    let is_of_server = ["hostname", "ip", "port", "candidate_master", "no_master"].contains(&&*item.key);
    let counts = conf.servers[0].value(&item.key) == Some(item.value.as_str());
    match draft.by(RULES, "", item) {
        Fate::Becomes { .. } if conf.binlog_servers.contains(&item.section) => {
            Fate::nothing("binlog servers are not used: replicas follow by GTID")
        }
        Fate::Becomes { .. } if !is_of_server && !counts => {
            Fate::nothing("one value counts for all servers, and it is another one")
        }
        fate => fate,
    }
}

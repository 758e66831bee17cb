//! maxscale.cnf: the servers of one monitor, the services over them, and their listeners.
//!
//! Source: MaxScale's documentation, versions 2.4 to 25.01: Configuration Guide, MariaDB and Galera Monitor, ReadWriteSplit, ReadConnRoute.

use settings::table as t;
use toml::Value;

use super::draft::{Draft, Fate, Item, NEVER_PROMOTED, address, fit, is_true};
use super::{Kind, ini};

/// What becomes of each key of one of these sections.
pub const RULES: &str = include_str!("maxscale.rules");

/// The sections of the cluster that the first monitor watches.
struct Site<'a> {
    items: &'a [Item],
    monitor: &'a str,
    servers: Vec<&'a str>,
    services: Vec<&'a str>,
    listeners: Vec<&'a str>,
}

/// # Errors
/// There is no server.
pub fn translate(items: &[Item], draft: &mut Draft, kind: Option<Kind>) -> Result<(), String> {
    let site = Site::of(items);
    if site.servers.is_empty() {
        return Err("there is no section with type=server, or the first monitor has none of them".into());
    }
    for server in &site.servers {
        if let Some(item) = ini::value(items, server, "address") {
            draft.node(server, &address(&item.value, site.value(server, "port").unwrap_or("3306")), item);
        }
    }
    for listener in &site.listeners {
        site.listen(draft, listener);
    }
    site.cluster(draft, kind);
    // Where not all servers are under TLS, one that cannot be is told by `serve --check`, and none is plain in silence.
    let is_plain = |item: &Item| item.key == "ssl" && !is_true(&item.value);
    draft.translate(items, |item| usize::from(is_plain(item)), |draft, item| site.fate(draft, item));
    draft.said_for_each_node();
    Ok(())
}

impl<'a> Site<'a> {
    fn of(items: &'a [Item]) -> Self {
        let of_type = |wanted: &'static str| {
            items
                .iter()
                .filter(move |item| item.key == "type" && item.value == wanted)
                .map(|item| &*item.section)
        };
        let monitor = of_type("monitor").next().unwrap_or_default();
        let mut site = Self { items, monitor, servers: vec![], services: vec![], listeners: vec![] };
        let watched = site.listed(monitor, "servers");
        site.servers =
            of_type("server").filter(|server| watched.is_empty() || watched.contains(server)).collect();
        let leads = |service: &&str| {
            let routes = ["readwritesplit", "readconnroute"]
                .contains(&site.value(service, "router").unwrap_or_default());
            let mut targets =
                ["servers", "cluster", "targets"].into_iter().flat_map(|key| site.listed(service, key));
            routes && targets.any(|target| target == monitor || site.servers.contains(&target))
        };
        site.services = of_type("service").filter(leads).collect();
        let serves =
            |listener: &&str| site.services.contains(&site.value(listener, "service").unwrap_or_default());
        site.listeners = of_type("listener").filter(serves).collect();
        site
    }

    fn value(&self, section: &str, key: &str) -> Option<&'a str> {
        ini::value(self.items, section, key).map(|item| &*item.value)
    }

    fn is_on(&self, section: &str, key: &str) -> bool {
        self.value(section, key).is_some_and(is_true)
    }

    fn listed(&self, section: &str, key: &str) -> Vec<&'a str> {
        self.value(section, key)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect()
    }

    fn listen(&self, draft: &mut Draft, listener: &str) {
        let service = self.value(listener, "service").unwrap_or_default();
        let is_read = self.value(service, "router") == Some("readconnroute")
            && self.listed(service, "router_options") == ["slave"];
        let row = if is_read { &t::LISTEN_READ.row } else { &t::LISTEN_MYSQL.row };
        let Some(port) = ini::value(self.items, listener, "port") else { return };
        let host = ini::value(self.items, listener, "address");
        let text = host.map(|host| &*host.value).filter(|host| *host != "::").unwrap_or("0.0.0.0");
        draft.listen(row, &address(text, &port.value), port);
        if let Some(host) = host {
            draft.place(host, Fate::becomes(row));
        }
    }

    /// The cluster's name and kind, and whom the monitor prefers.
    fn cluster(&self, draft: &mut Draft, given: Option<Kind>) {
        draft.say(&t::CLUSTER_NAME, &fit(self.monitor), format!("[{}]", self.monitor));
        let module = ini::value(self.items, self.monitor, "module");
        let found = module.and_then(|module| match &*module.value {
            "galeramon" => Some((Kind::Galera, format!("{} module", module.at))),
            "mariadbmon" | "mysqlmon" => Some((Kind::Replication, format!("{} module", module.at))),
            _ => None,
        });
        draft.cluster(given.map(|kind| (kind, "--kind".to_owned())).or(found), None);
        if let Some(module) = module {
            draft.place(module, Fate::becomes(&t::CLUSTER_KIND));
        }
        let is_galera = draft.is(&t::CLUSTER_KIND, "galera");
        if is_galera && self.is_on(self.monitor, "use_priority") {
            prefer(self.items, draft);
        }
        if is_galera && self.is_on(self.monitor, "disable_master_role_setting") {
            draft.say(&t::CLUSTER_WRITERS, "all", "disable_master_role_setting");
        }
        if !is_galera && self.value(self.monitor, "auto_failover").is_none() {
            draft.say(&t::REPLICATION_FAILOVER, "manual", "no auto_failover, which MaxScale takes for false");
        }
    }

    fn fate(&self, draft: &mut Draft, item: &Item) -> Fate {
        let section = &*item.section;
        let kind =
            if section == "maxscale" { section } else { self.value(section, "type").unwrap_or_default() };
        let is_ours = section == self.monitor
            || [&self.servers, &self.services, &self.listeners].iter().any(|all| all.contains(&section));
        let from = || format!("{} {} = {}", item.at, item.key, item.value);
        match (kind, &*item.key, &*item.value) {
            (_, "type", _) => Fate::nothing("the settings have a table for each kind of thing"),
            ("server" | "monitor" | "service" | "listener", ..) if !is_ours => Fate::nothing(
                "it is another cluster's, or of a router that leads to no such: put its sections into a file of their own, and import that",
            ),
            ("server", "ssl", yes) if is_true(yes) && self.is_on(section, "ssl_verify_peer_certificate") => {
                draft.say(&t::CLUSTER_TLS, "verified", from())
            }
            ("monitor", "password" | "passwd" | "replication_password", password)
                if is_encrypted(password) =>
            {
                let row = if item.key == "replication_password" {
                    &t::REPLICATION_PASSWORD.row
                } else {
                    &t::MONITOR_PASSWORD.row
                };
                draft.ask(
                    row,
                    format!("{} {} is encrypted with a key in MaxScale's .secrets file", item.at, item.key),
                );
                Fate::nothing(
                    "it is encrypted with a key in MaxScale's .secrets file: write the password itself",
                )
            }
            ("monitor", "disable_master_role_setting", yes) if is_true(yes) => {
                Fate::becomes(&t::CLUSTER_WRITERS)
            }
            ("monitor", "servers_no_promotion", _) => {
                let never = self.listed(section, "servers_no_promotion");
                for node in &mut draft.nodes {
                    let is_never = never.iter().any(|name| fit(name) == node.name);
                    node.priority = Some(if is_never { NEVER_PROMOTED } else { (10, "") });
                }
                Fate::becomes(&t::NODE_PRIORITY)
            }
            ("service", "router", "readwritesplit") => {
                draft.put(&t::LISTEN_SPLIT, Value::Boolean(true), from())
            }
            ("service", "router", _) => Fate::becomes(&t::LISTEN_MYSQL),
            ("listener", "proxy_protocol_networks", _) => networks(draft, item),
            _ => draft.by(RULES, kind, item),
        }
    }
}

/// Galera Monitor's priorities: the lowest number above 0 is preferred.
fn prefer(items: &[Item], draft: &mut Draft) {
    let mut order: Vec<(u32, String, &Item)> = Vec::new();
    for item in items.iter().filter(|item| item.key == "priority") {
        let (Ok(number), Some(host)) = (item.value.parse(), ini::value(items, &item.section, "address"))
        else {
            continue;
        };
        let port = ini::value(items, &item.section, "port").map_or("3306", |port| &*port.value);
        order.push((number, address(&host.value, port), item));
    }
    order.retain(|(number, ..)| *number > 0);
    order.sort_by_key(|(number, ..)| *number);
    for (_, _, item) in &order {
        draft.place(item, Fate::becomes(&t::NODE_PRIORITY));
    }
    draft.prefer(&order.iter().map(|(_, address, _)| &**address).collect::<Vec<_>>());
}

/// The balancers that send PROXY headers.
fn networks(draft: &mut Draft, item: &Item) -> Fate {
    let all: Vec<&str> = item.value.split(',').map(str::trim).collect();
    let is_network =
        |text: &&str| text.split('/').next().is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_ok());
    if !all.iter().all(is_network) {
        return Fate::nothing("listen.proxy_header_from is a list of addresses and subnets");
    }
    let all = all.into_iter().map(|one| Value::String(one.into())).collect();
    draft.put(&t::LISTEN_PROXY_HEADER, Value::Array(all), format!("{} {}", item.at, item.key))
}

/// Whether a password is one of `maxpasswd`: its bytes in hexadecimal, at least one block of AES.
fn is_encrypted(password: &str) -> bool {
    let is_hex = password.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    is_hex && password.len() >= 32 && password.len().is_multiple_of(2)
}

//! mysqlrouter.conf: the routes of the classic protocol, with servers of their own or those of an InnoDB Cluster.
//!
//! Source: MySQL Router's manual, 8.0 to 9.4: Configuration File Options, Configuration File Example.

use settings::table as t;
use toml::Value;

use super::Kind;
use super::draft::{As, Draft, Fate, Item, address, fit};
use super::ini;

/// What becomes of each key of one of these sections.
pub const RULES: &str = include_str!("mysqlrouter.rules");

/// # Errors
/// There is no route of the classic protocol.
pub fn translate(items: &[Item], draft: &mut Draft, kind: Option<Kind>) -> Result<(), String> {
    let value = |section: &str, key: &str| ini::value(items, section, key).map(|item| &*item.value);
    let mut routes: Vec<&str> =
        items.iter().map(|item| &*item.section).filter(|section| section.starts_with("routing")).collect();
    routes.dedup();
    routes.retain(|route| value(route, "protocol") != Some("x"));
    if routes.is_empty() {
        return Err("there is no [routing] section of the classic protocol".into());
    }
    for route in &routes {
        let row = if is_read(items, route) { &t::LISTEN_READ.row } else { &t::LISTEN_MYSQL.row };
        bind(items, draft, route, row);
        let Some(item) = ini::value(items, route, "destinations").filter(|item| !item.value.contains("://"))
        else {
            continue;
        };
        for destination in item.value.split(',').map(str::trim) {
            let (host, port) = destination.rsplit_once(':').unwrap_or((destination, "3306"));
            draft.node(host, &address(host, port), item);
        }
    }
    cluster(items, draft, &routes, kind);
    let is_route = |section: &str| routes.contains(&section);
    let rank = |item: &Item| usize::from(!is_route(&item.section));
    draft.translate(items, rank, |draft, item| {
        let kind = item.section.split(':').next().unwrap_or_default();
        let verifies = value(&item.section, "server_ssl_verify").is_some_and(|verify| verify != "DISABLED");
        match (kind, &*item.key) {
            ("routing", _) if !is_route(&item.section) => {
                Fate::nothing("the X protocol is not spoken: only the classic one")
            }
            ("routing", "access_mode") if item.value == "auto" && !draft.is(&t::CLUSTER_KIND, "galera") => {
                draft.put(
                    &t::LISTEN_SPLIT.row,
                    Value::Boolean(true),
                    format!("{} access_mode = auto", item.at),
                )
            }
            ("routing" | "DEFAULT", "server_ssl_mode") if item.value == "REQUIRED" && verifies => {
                draft.say(&t::CLUSTER_TLS, "verified", format!("{} server_ssl_mode", item.at))
            }
            ("DEFAULT", "connect_timeout" | "read_timeout") => {
                Fate::nothing("it is for the metadata servers, which there are none of")
            }
            ("DEFAULT", key) if key.contains("_ssl_") => draft.by(RULES, "routing", item),
            ("DEFAULT", "max_total_connections") => draft.set(&t::PROXY_CLIENTS, As::Count, item),
            (kind, _) => draft.by(RULES, kind, item),
        }
    });
    Ok(())
}

/// Whether a route is for reads: by its role, its mode, or its strategy where it has neither.
fn is_read(items: &[Item], route: &str) -> bool {
    let value = |key: &str| ini::value(items, route, key).map(|item| &*item.value).unwrap_or_default();
    match (value("destinations").split("role=").nth(1), value("mode"), value("routing_strategy")) {
        (Some(role), ..) => role.starts_with("SECONDARY"),
        (_, "read-only", _) => true,
        (_, "read-write", _) => false,
        (.., strategy) => strategy.starts_with("round-robin"),
    }
}

/// The address of a route. bind_address may have the port, too.
fn bind(items: &[Item], draft: &mut Draft, route: &str, row: &'static t::Row) {
    let host = ini::value(items, route, "bind_address");
    let port = ini::value(items, route, "bind_port");
    let Some(item) = port.or(host) else { return };
    let host_text = host.map_or("127.0.0.1", |host| &host.value);
    let whole = match port {
        Some(port) => address(host_text, &port.value),
        None => host_text.to_owned(),
    };
    draft.listen(row, &whole, item);
    if let Some(host) = host {
        draft.place(host, Fate::becomes(row));
    }
}

/// What the nodes are, and who moves the primary.
fn cluster(items: &[Item], draft: &mut Draft, routes: &[&str], given: Option<Kind>) {
    let metadata =
        |key: &str| items.iter().find(|item| item.section.starts_with("metadata_cache") && item.key == key);
    match metadata("metadata_cluster") {
        Some(item) => draft.say(&t::CLUSTER_NAME, &fit(&item.value), format!("{} metadata_cluster", item.at)),
        None => draft.say(&t::CLUSTER_NAME, "mysqlrouter", "MySQL Router has no name for these servers"),
    };
    if draft.nodes.is_empty() {
        let why = "an InnoDB Cluster is MySQL Group Replication, which is not supported";
        draft.ask(&t::CLUSTER_KIND, why);
        draft.ask(&t::NODE_ADDRESS, format!("the servers are in the file that dynamic_state names; {why}"));
    }
    let reads = routes.iter().filter(|route| is_read(items, route)).count();
    let has_both = !draft.nodes.is_empty() && reads > 0 && reads < routes.len();
    let guess = has_both.then(|| (Kind::Replication, "its routes for writes and for reads".to_owned()));
    draft.cluster(
        given.map(|kind| (kind, "--kind".to_owned())).or(guess),
        Some("MySQL Router moves no primary"),
    );
    let value = |route: &str, key: &str| ini::value(items, route, key).map(|item| &*item.value);
    let is_ordered =
        |route: &&&str| !is_read(items, route) && value(route, "routing_strategy") == Some("first-available");
    if let Some(servers) = routes.iter().find(is_ordered).and_then(|route| value(route, "destinations")) {
        draft.prefer(&servers.split(',').map(str::trim).collect::<Vec<_>>());
    }
}

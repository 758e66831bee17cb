//! Which servers it is about: the measured node, the others of its cluster, and as whom they are asked.
//!
//! By a running `understudy serve`, which is also told to take the node out of traffic; or, with --standalone, by what the node itself says.

use std::time::Duration;

use api::{Node, Status};
use link::{Endpoint, Link, Login, Rows};
use topology::kind::Kind;

use super::{before, sql};
use cli::exit::Failure;
use client::Client;

/// Connecting may take so long.
pub const CONNECT_MAX: Duration = Duration::from_secs(3);
/// One answer may take so long.
pub const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is called.
    pub name: String,
    /// `host:port`.
    pub address: String,
}

/// Who is measured, and beside whom.
pub struct Site {
    /// What kind of cluster.
    pub kind: Kind,
    /// The measured node.
    pub node: Member,
    /// The others: all members of a Galera cluster, or the primary of a replica.
    pub others: Vec<Member>,
    /// As whom they are asked.
    pub login: Login,
    /// It takes the writes, as far as `serve` says.
    pub is_writer: bool,
    /// An operator had drained it before.
    pub was_drained: bool,
    /// How many servers `serve` knows; nothing without one.
    pub size: Option<u32>,
}

/// The place as `serve` knows it.
pub fn served(client: &Client, node: &str, login: Login) -> Result<Site, Failure> {
    of_status(&client.status()?, node, login)
}

fn of_status(status: &Status, node: &str, login: Login) -> Result<Site, Failure> {
    let of = |node: &Node| Member { name: node.name.clone(), address: node.address.clone() };
    let Some(measured) = status.node(node) else {
        let names: Vec<&str> = status.nodes.iter().map(|node| &*node.name).collect();
        return Err(Failure::usage(format!("the cluster has no node {node}: it has {}", names.join(", "))));
    };
    let others = status.nodes.iter().filter(|other| other.name != node);
    Ok(Site {
        kind: status.kind,
        node: of(measured),
        others: others.filter(|other| status.kind == Kind::Galera || other.writer).map(of).collect(),
        login,
        is_writer: measured.writer,
        was_drained: measured.sessions_max == Some(0),
        size: Some(status.nodes.len() as u32),
    })
}

/// The place as the node itself tells it. `others`: what the command line names, in its stead.
pub async fn standalone(address: &str, others: &[String], login: Login) -> Result<Site, Failure> {
    if !is_address(address) {
        return Err(Failure::usage(format!("with --standalone, NODE is HOST:PORT, and {address} is not")));
    }
    if let Some(wrong) = others.iter().find(|other| !is_address(other)) {
        return Err(Failure::usage(format!("--other {wrong}: write HOST:PORT")));
    }
    let mut link = connect(address, &login).await?;
    let status = ask(&mut link, address, sql::GALERA_STATUS).await?;
    let kind = match status.value_of("wsrep_connected").is_some_and(|on| on.eq_ignore_ascii_case("ON")) {
        true => Kind::Galera,
        false => Kind::Replication,
    };
    let found = match (kind, others.is_empty()) {
        (_, false) => others.to_vec(),
        (Kind::Galera, true) => members(&status, address)?,
        (Kind::Replication, true) => {
            before::not_mysql(address, &link.greeting.version)?;
            let rows = ask(&mut link, address, sql::REPLICA).await?;
            let replica = sql::replica(&rows).map_err(|why| {
                Failure::Failed(format!("{address} is neither a Galera node nor a replica: {why}"))
            })?;
            vec![replica.source]
        }
    };
    link.quit();
    let member = |address: &str| Member { name: address.to_owned(), address: address.to_owned() };
    Ok(Site {
        kind,
        node: member(address),
        others: found.iter().map(|other| member(other)).collect(),
        login,
        is_writer: false,
        was_drained: false,
        size: None,
    })
}

/// The others by the node's own list of the group.
fn members(status: &Rows, address: &str) -> Result<Vec<String>, Failure> {
    let said = status.value_of("wsrep_incoming_addresses").unwrap_or_default();
    let all: Vec<&str> = said.split(',').map(str::trim).filter(|member| !member.is_empty()).collect();
    if all.iter().any(|member| !is_address(member)) {
        return Err(Failure::Failed(format!(
            "{address} does not tell where the other nodes are (wsrep_incoming_addresses is \"{said}\"): name each with --other HOST:PORT"
        )));
    }
    if !all.contains(&address) {
        return Err(Failure::Failed(format!(
            "{address} calls itself otherwise among the members ({said}): give NODE as it stands there, or name the others with --other HOST:PORT"
        )));
    }
    Ok(all.into_iter().filter(|member| *member != address).map(str::to_owned).collect())
}

fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// A connection, or why there is none; nothing was changed.
pub async fn connect(address: &str, login: &Login) -> Result<Link, Failure> {
    Link::connect_to(&Endpoint::Tcp(address.to_owned()), login, CONNECT_MAX)
        .await
        .map_err(|e| Failure::Failed(format!("{address} cannot be asked as {}: {e}", login.user)))
}

/// An answer, or why there is none.
pub async fn ask(link: &mut Link, address: &str, sql: &str) -> Result<Rows, Failure> {
    link.query(sql, ANSWER_MAX).await.map_err(|e| Failure::Failed(format!("{address}: {e}")))
}

#[cfg(test)]
mod tests {
    use link::Secret;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_site_is_what_serve_says() {
        let status = json!({ "kind": "replication", "nodes": [
            { "name": "db1", "address": "a:1", "writer": true },
            { "name": "db2", "address": "b:1", "writer": false, "sessions_max": 0 },
            { "name": "db3", "address": "c:1", "writer": false, "sessions_max": null },
        ] });
        let of_status = |status: &serde_json::Value, node, login| {
            of_status(&serde_json::from_value(status.clone()).unwrap_or_default(), node, login)
        };
        let login = || Login::new("x", Secret::None);
        let site = of_status(&status, "db2", login()).unwrap_or_else(|_| unreachable!());
        assert!(site.was_drained && !site.is_writer && site.kind == Kind::Replication);
        assert_eq!(site.others, [Member { name: "db1".into(), address: "a:1".into() }]);
        let galera = json!({ "kind": "galera", "nodes": status["nodes"] });
        let site = of_status(&galera, "db3", login()).unwrap_or_else(|_| unreachable!());
        assert_eq!((site.others.len(), site.was_drained, site.size), (2, false, Some(3)));
        let Err(Failure::Usage(text)) = of_status(&status, "db9", login()) else { unreachable!() };
        assert_eq!(text, "the cluster has no node db9: it has db1, db2, db3");
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert!(is_address("db1:3306") && is_address("[::1]:3306"));
        assert!(["db1", ":3306", "db1:x", "AUTO", ""].iter().all(|text| !is_address(text)));
    }
}

//! Finds the servers of a cluster from one of them: a Galera node lists its group, a replica names its source, and a primary its replicas.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use cli::exit::Failure;
use link::{Link, Login, Rows};
use topology::flavor::{Dialect, Flavor};
use topology::kind::Kind;
use topology::replication::{self, Channel};

/// One question, or a connection, may take this long.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// More servers than this are no cluster that one would set up this way.
const SERVERS_MAX: usize = 32;

/// Which server it is, and what is to be known of it.
const IDENTITY: &str =
    "SELECT @@hostname, @@port, @@server_id, @@GLOBAL.read_only, @@GLOBAL.event_scheduler, @@version";
/// Replicas that a primary knows of; by their own name only where `report_host` is set ("SHOW REPLICA HOSTS", MariaDB's manual; "SHOW REPLICAS
/// Statement", MySQL's).
const REPLICAS: [&str; 2] = ["SHOW SLAVE HOSTS", "SHOW REPLICAS"];
/// From where replicas are connected.
const DUMPS: &str =
    "SELECT DISTINCT HOST FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'";

/// One server, as it says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `host:port` at which it was reached.
    pub address: String,
    /// `@@hostname`.
    pub host: String,
    /// `@@version`.
    pub version: String,
    pub read_only: bool,
    /// The event scheduler runs, which takes privileges of its own to look after.
    pub has_events: bool,
    /// `host:port` of those that it follows, in its own words.
    pub sources: Vec<String>,
    /// A member of a Galera group.
    pub is_galera: bool,
    /// The same at each of its addresses.
    identity: String,
    /// Where others are, in its own words.
    others: Vec<String>,
}

impl Server {
    pub fn flavor(&self) -> Flavor {
        Flavor::of(&self.version)
    }

    /// What it does, for people.
    pub fn role(&self) -> String {
        match (self.is_galera, self.sources.is_empty()) {
            (true, _) => "Galera node".to_owned(),
            (false, true) => "follows nobody".to_owned(),
            (false, false) => format!("replica of {}", self.sources.join(" and ")),
        }
    }
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    pub kind: Kind,
    /// The primary first; of Galera the one that was named.
    pub servers: Vec<Server>,
    /// Where a server should be that could not be asked, each with why.
    pub unreached: Vec<String>,
}

/// Asks the server at `address`, and from there on all that it leads to. `only`: these are all of them, and nothing else is looked for.
///
/// # Errors
/// The first server cannot be asked, or is none that Understudy can stand in front of.
pub async fn find(address: &str, only: &[String], admin: &Login) -> Result<Found, Failure> {
    let mut found: Vec<Server> = Vec::new();
    let mut unreached = Vec::new();
    let mut asked = BTreeSet::new();
    let mut ahead: VecDeque<String> =
        std::iter::once(address.to_owned()).chain(only.iter().cloned()).collect();
    while let Some(next) = ahead.pop_front() {
        if !asked.insert(next.clone()) {
            continue;
        }
        if found.len() == SERVERS_MAX {
            return Err(Failure::usage(format!(
                "more than {SERVERS_MAX} servers were found: name those of the cluster with --node"
            )));
        }
        match ask(&next, admin).await {
            Ok(server) => {
                if only.is_empty() {
                    ahead.extend(server.others.iter().chain(&server.sources).cloned());
                }
                if !found.iter().any(|known| known.identity == server.identity) {
                    found.push(server);
                }
            }
            Err(why) if found.is_empty() || only.contains(&next) => {
                return Err(Failure::usage(format!("{next} cannot be asked as {}: {why}", admin.user)));
            }
            Err(why) => unreached.push(format!("{next}: {why}")),
        }
    }
    let kind = if found[0].is_galera { Kind::Galera } else { Kind::Replication };
    if let Some(other) = found.iter().find(|server| server.is_galera != found[0].is_galera) {
        return Err(Failure::usage(format!(
            "{} is {}, and {} is {}: name the servers of one cluster with --node",
            found[0].address,
            found[0].role(),
            other.address,
            other.role()
        )));
    }
    // The sort is stable: the server that was named stays first among its equals.
    found.sort_by_key(|server| (!server.sources.is_empty(), server.read_only));
    Ok(Found { kind, servers: found, unreached })
}

async fn ask(address: &str, admin: &Login) -> Result<Server, String> {
    let mut link = Link::connect(address, admin, ANSWER_MAX).await.map_err(|e| e.to_string())?;
    let mut told = async |sql: &str| link.query(sql, ANSWER_MAX).await;
    let rows = told(IDENTITY).await.map_err(|e| e.to_string())?;
    let value = |column| rows.text(0, column).unwrap_or_default().to_owned();
    let version = value(5);
    Dialect::admit(&version)?;
    let wsrep = told("SHOW GLOBAL STATUS LIKE 'wsrep_%'").await.map_err(|e| e.to_string())?;
    let is_galera = wsrep.value_of("wsrep_connected").is_some_and(|on| on.eq_ignore_ascii_case("ON"));
    let mut server = Server {
        address: address.to_owned(),
        host: value(0),
        read_only: matches!(&*value(3), "1" | "ON"),
        has_events: value(4) == "ON",
        sources: Vec::new(),
        is_galera,
        identity: format!("{} {} {}", value(0), value(1), value(2)),
        others: Vec::new(),
        version,
    };
    if is_galera {
        // Members may have one server_id, and containers one name.
        server.identity = wsrep.value_of("wsrep_gcomm_uuid").unwrap_or_default().to_owned();
        server.others = members(wsrep.value_of("wsrep_incoming_addresses").unwrap_or_default());
        return Ok(server);
    }
    let channels =
        told(replication::sql::channels(Dialect::of(&server.version))).await.map_err(|e| e.to_string())?;
    server.sources = (0..channels.len()).map(|row| channel(&channels, row).source).collect();
    for question in REPLICAS {
        if let Ok(rows) = told(question).await {
            let dumps = told(DUMPS).await.map_err(|e| e.to_string())?;
            server.others = replicas(&rows, &dumps);
            break;
        }
    }
    link.quit();
    Ok(server)
}

fn channel(rows: &Rows, row: usize) -> Channel {
    replication::channel(|name| rows.text(row, rows.column(name)?))
}

/// The members in `wsrep_incoming_addresses`. One that does not tell its address (`AUTO`, or none) cannot be asked; port 0 is the usual one.
fn members(said: &str) -> Vec<String> {
    let members = said.split(',').map(str::trim).filter(|member| !member.is_empty() && *member != "AUTO");
    members
        .map(|member| match member.rsplit_once(':') {
            Some((host, "0")) => format!("{host}:3306"),
            Some(_) => member.to_owned(),
            None => format!("{member}:3306"),
        })
        .collect()
}

/// The addresses of replicas. Those that tell no host are looked for where a replica is connected from, at their own port.
fn replicas(registered: &Rows, dumps: &Rows) -> Vec<String> {
    let at = |row, name: &str| registered.text(row, registered.column(name)?);
    let rows = || (0..registered.len()).filter_map(|row| Some((at(row, "Host")?, at(row, "Port")?)));
    let mut addresses: Vec<String> = rows()
        .filter(|(host, _)| !host.is_empty())
        .map(|(host, port)| format!("{}:{port}", bracketed(host)))
        .collect();
    let nameless: BTreeSet<&str> = rows().filter(|(host, _)| host.is_empty()).map(|(_, port)| port).collect();
    let hosts = (0..dumps.len()).filter_map(|row| Some(dumps.text(row, 0)?.rsplit_once(':')?.0));
    for host in hosts {
        addresses.extend(nameless.iter().map(|port| format!("{}:{port}", bracketed(host))));
    }
    addresses
}

/// An IPv6 address as it stands before a port.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &[&str], rows: &[&[&str]]) -> Rows {
        let row = |values: &&[&str]| values.iter().map(|value| Some(value.as_bytes().to_vec())).collect();
        Rows {
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: rows.iter().map(row).collect(),
            ..Rows::default()
        }
    }

    #[test]
    fn members_of_a_group() {
        assert_eq!(
            members("10.0.0.1:3306,10.0.0.2:0, db3,,AUTO"),
            ["10.0.0.1:3306", "10.0.0.2:3306", "db3:3306"]
        );
        assert_eq!(members("AUTO,AUTO"), Vec::<String>::new());
    }

    #[test]
    fn replicas_of_a_primary() {
        let named = rows(&["Server_id", "Host", "Port"], &[&["2", "db2", "3306"], &["3", "", "3307"]]);
        let dumps = rows(&["HOST"], &[&["10.0.0.2:51000"], &["fd00::3:51001"]]);
        assert_eq!(replicas(&named, &dumps), ["db2:3306", "10.0.0.2:3307", "[fd00::3]:3307"]);
    }
}

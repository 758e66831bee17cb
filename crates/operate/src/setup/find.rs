//! Finds the servers of a cluster from one of them: a Galera node lists its group, a replica names its source, and a primary its replicas.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cli::exit::Failure;
use link::{Link, Login, Rows};
use topology::flavor::{Dialect, Flavor};
use topology::kind::Kind;

/// One question, or a connection, may take this long.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// More servers than this are no cluster that one would set up this way.
const SERVERS_MAX: usize = 32;

/// Which server it is, and what is to be known of it.
const IDENTITY: &str = concat!(
    "SELECT @@hostname, @@port, @@server_id, ",
    topology::is_read_only!(),
    ", @@GLOBAL.event_scheduler, @@version"
);
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
    /// Members of its group that do not tell where they are.
    unnamed: usize,
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
    let mut reached = BTreeMap::new();
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
                reached.insert(next, server.identity.clone());
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
    let unnamed =
        found.iter().map(|server| server.unnamed).max().filter(|count| *count > 0 && only.is_empty());
    unreached.extend(unnamed.map(|count| {
        format!("{count} members of the group, which do not tell where they are (wsrep_incoming_addresses has AUTO)")
    }));
    for source in found.iter().flat_map(|server| &server.sources) {
        if !reached.contains_key(source)
            && let Some(identity) = by_name(source, &reached).await
        {
            reached.insert(source.clone(), identity);
        }
    }
    check(&found, &reached).map_err(Failure::usage)?;
    // The sort is stable: the server that was named stays first among its equals.
    found.sort_by_key(|server| (!server.sources.is_empty(), server.read_only));
    Ok(Found { kind, servers: found, unreached })
}

/// The server at `source`, which may be another name for an address that was asked. Nobody is logged in to for that.
async fn by_name(source: &str, reached: &BTreeMap<String, String>) -> Option<String> {
    let places = async |name: &str| -> Vec<SocketAddr> {
        tokio::net::lookup_host(name).await.map(Iterator::collect).unwrap_or_default()
    };
    let wanted = places(source).await;
    for (address, identity) in reached {
        if places(address).await.iter().any(|place| wanted.contains(place)) {
            return Some(identity.clone());
        }
    }
    None
}

/// The server at the other end follows nobody and takes writes.
///
/// # Errors
/// It does not, or does not say so.
pub async fn is_primary(link: &mut Link) -> Result<(), String> {
    let channels = manager::channel_rows(link, ANSWER_MAX).await.map_err(|e| e.to_string())?;
    let writes = link
        .query(concat!("SELECT ", topology::is_read_only!()), ANSWER_MAX)
        .await
        .map_err(|e| e.to_string())?;
    match channels.is_empty() && writes.text(0, 0) == Some("0") {
        true => Ok(()),
        false => Err("this server follows another one, or is read only: it is not the primary".to_owned()),
    }
}

/// What was found is one cluster of a kind that Understudy manages. `reached`: which server is at each address.
fn check(found: &[Server], reached: &BTreeMap<String, String>) -> Result<(), String> {
    const NAME: &str = "name the servers of one cluster with --node";
    if let [first, rest @ ..] = found
        && let Some(other) = rest.iter().find(|server| server.is_galera != first.is_galera)
    {
        let (one, two) = (first.role(), other.role());
        return Err(format!("{} is a {one}, and {} a {two}: {NAME}", first.address, other.address));
    }
    if let Some(local) = found.iter().find(|server| is_loopback(&server.address)).filter(|_| found.len() > 1)
    {
        return Err(format!(
            "{} is another machine to each server: give --host, or --node, an address at which the others reach it, too",
            local.address
        ));
    }
    if found.iter().any(|server| server.is_galera) {
        return Ok(());
    }
    let primaries: Vec<&Server> = found.iter().filter(|server| server.sources.is_empty()).collect();
    let [primary] = primaries[..] else {
        let all: Vec<&str> = primaries.iter().map(|server| &*server.address).collect();
        return Err(format!(
            "exactly one server must follow nobody, and these do: {}; {NAME}",
            all.join(", ")
        ));
    };
    let follows = |source: &String| reached.get(source) == Some(&primary.identity);
    let is_well = |server: &&Server| server.sources.len() == 1 && server.sources.iter().all(follows);
    match found.iter().filter(|server| !server.sources.is_empty()).find(|server| !is_well(server)) {
        Some(server) => Err(format!(
            "{} is a {}, and not of {} alone, which follows nobody: Understudy manages one primary and the replicas that follow it directly; {NAME}",
            server.address,
            server.role(),
            primary.address
        )),
        None => Ok(()),
    }
}

fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
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
        read_only: value(3) == "1",
        has_events: value(4) == "ON",
        sources: Vec::new(),
        is_galera,
        identity: format!("{} {} {}", value(0), value(1), value(2)),
        others: Vec::new(),
        unnamed: 0,
        version,
    };
    if is_galera {
        // Members may have one server_id, and containers one name.
        server.identity = wsrep.value_of("wsrep_gcomm_uuid").unwrap_or_default().to_owned();
        (server.others, server.unnamed) =
            members(wsrep.value_of("wsrep_incoming_addresses").unwrap_or_default());
        return Ok(server);
    }
    let channels = manager::channel_rows(&mut link, ANSWER_MAX).await.map_err(|e| e.to_string())?;
    server.sources = manager::channels(&channels).into_iter().map(|channel| channel.source).collect();
    let mut told = async |sql: &str| link.query(sql, ANSWER_MAX).await;
    let question = match server.flavor() {
        Flavor::MariaDb => "SHOW SLAVE HOSTS",
        Flavor::MySql => "SHOW REPLICAS",
    };
    let registered = told(question).await.map_err(|e| format!("{question}: {e}"))?;
    let dumps = told(DUMPS).await.map_err(|e| e.to_string())?;
    server.others = replicas(&registered, &dumps);
    link.quit();
    Ok(server)
}

/// The members in `wsrep_incoming_addresses`, and how many do not tell their address (`AUTO`); an arbitrator has an empty one. Port 0 is the usual one.
fn members(said: &str) -> (Vec<String>, usize) {
    let all = said.split(',').map(str::trim).filter(|member| !member.is_empty());
    let (unnamed, named): (Vec<&str>, Vec<&str>) = all.partition(|member| *member == "AUTO");
    let addresses = named
        .into_iter()
        .map(|member| match member.rsplit_once(':') {
            Some((host, "0")) => format!("{host}:3306"),
            Some(_) => member.to_owned(),
            None => format!("{member}:3306"),
        })
        .collect();
    (addresses, unnamed.len())
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
            (["10.0.0.1:3306", "10.0.0.2:3306", "db3:3306"].map(str::to_owned).to_vec(), 1)
        );
        assert_eq!(members("AUTO,AUTO"), (vec![], 2));
    }

    fn server(address: &str, sources: &[&str]) -> Server {
        Server {
            address: address.to_owned(),
            host: String::new(),
            version: "10.11.19-MariaDB".to_owned(),
            read_only: false,
            has_events: false,
            sources: sources.iter().map(|&source| source.to_owned()).collect(),
            is_galera: false,
            identity: address.to_owned(),
            others: Vec::new(),
            unnamed: 0,
        }
    }

    #[test]
    fn only_a_primary_and_its_own_replicas_are_one_cluster() {
        let checked = |servers: &[(&str, &[&str])]| {
            let found: Vec<Server> =
                servers.iter().map(|(address, sources)| server(address, sources)).collect();
            let reached =
                found.iter().map(|server| (server.address.clone(), server.identity.clone())).collect();
            check(&found, &reached).map_err(|why| why.split(';').next().unwrap_or_default().to_owned())
        };
        assert_eq!(checked(&[("p:1", &[]), ("r:1", &["p:1"]), ("s:1", &["p:1"])]), Ok(()));
        let wrong = |servers: &[(&str, &[&str])], part: &str| {
            assert!(checked(servers).unwrap_err().contains(part), "{:?}", checked(servers));
        };
        wrong(
            &[("e:1", &[]), ("p:1", &["e:1"]), ("r:1", &["p:1"])],
            "r:1 is a replica of p:1, and not of e:1 alone",
        );
        wrong(&[("p:1", &[]), ("r:1", &["p:1", "x:1"])], "r:1 is a replica of p:1 and x:1");
        wrong(&[("p:1", &[]), ("r:1", &["x:1"])], "r:1 is a replica of x:1");
        wrong(&[("p:1", &[]), ("q:1", &[])], "exactly one server must follow nobody, and these do: p:1, q:1");
        wrong(&[("r:1", &["p:1"])], "exactly one server must follow nobody");
        wrong(
            &[("127.0.0.1:1", &[]), ("r:1", &["127.0.0.1:1"])],
            "127.0.0.1:1 is another machine to each server",
        );
        assert_eq!(checked(&[("localhost:1", &[])]), Ok(()));
    }

    #[test]
    fn replicas_of_a_primary() {
        let named = rows(&["Server_id", "Host", "Port"], &[&["2", "db2", "3306"], &["3", "", "3307"]]);
        let dumps = rows(&["HOST"], &[&["10.0.0.2:51000"], &["fd00::3:51001"]]);
        assert_eq!(replicas(&named, &dumps), ["db2:3306", "10.0.0.2:3307", "[fd00::3]:3307"]);
    }
}

//! Finds servers that are not a primary with its replicas, for `understudy serve --check`.
//!
//! Enters: the status of each server, with its sources named by their configured addresses. Leaves: sentences, from the same tables of
//! rules that the brain uses. What Understudy corrects by itself (a replica that follows no server, or one other than the primary) is not
//! reported.

use super::most::{self, Held};
use super::status::ReplicationStatus;
use super::words::{self, Sight};
use crate::finding::Problem;

/// A server of the configuration.
pub struct Server<'a> {
    /// Its name.
    pub name: &'a str,
    /// `host:port`.
    pub address: &'a str,
    /// Its status; `None` when it did not answer.
    pub status: Option<&'a ReplicationStatus>,
    /// It has transactions from before the primary's numbers began anew, as `serve` remembers.
    pub is_renumbered: bool,
}

/// The problems that are reported here. The others are reported for each server alone, or corrected by Understudy.
const FAULTS: &[Problem] = &[
    Problem::Renumbered,
    Problem::SeveralSources,
    Problem::Stranger,
    Problem::Ring,
    Problem::NotApplying,
    Problem::Delayed,
    Problem::Filtered,
    Problem::NotByGtid,
    Problem::BinlogFormat,
];

/// What is wrong with each server's part in the setup.
pub fn faults(servers: &[Server]) -> Vec<Vec<String>> {
    let writes = |server: &&Server| {
        server.status.is_some_and(|status| !status.galera && !status.read_only && status.channels.is_empty())
    };
    let writing: Vec<&str> = servers.iter().filter(writes).map(|server| server.name).collect();
    let primary = servers.iter().find(writes).filter(|_| writing.len() == 1);
    let told = |server: &Server| {
        let Some(status) = server.status.filter(|status| !status.galera) else { return vec![] };
        if writing.contains(&server.name) {
            return if writing.len() > 1 { vec![words::two_primaries(&writing)] } else { vec![] };
        }
        let source = status.source();
        let ours = source.and_then(|channel| servers.iter().find(|other| other.address == channel.source));
        let ring = ring(servers, server);
        let sight = Sight {
            status,
            source: match (ours, source) {
                (Some(ours), _) => ours.name,
                (None, Some(channel)) => &channel.source,
                (None, None) => "",
            },
            primary: primary.map(|primary| (primary.name, primary.address)),
            primary_answers: false,
            errant: None,
            is_renumbered: server.is_renumbered,
            follows_stranger: source.is_some() && ours.is_none(),
            ring,
            format: primary.and_then(|primary| primary.status).map_or("", |status| &status.binlog_format),
        };
        words::said(&sight, FAULTS)
    };
    let with_ids = |server: &Server| {
        let status = server.status.filter(|status| status.server_id != 0)?;
        let shares = |other: &&Server| {
            other.name != server.name
                && other.status.is_some_and(|theirs| theirs.server_id == status.server_id)
        };
        let others: Vec<&str> = servers.iter().filter(shares).map(|other| other.name).collect();
        (!others.is_empty()).then(|| words::same_id(status.server_id, &others.join(", ")))
    };
    servers.iter().map(|server| told(server).into_iter().chain(with_ids(server)).collect()).collect()
}

/// What is said where no server is writable and none can be told to be the primary: who has most, and which order goes on with it.
pub fn without_primary(servers: &[Server]) -> Option<String> {
    let is_galera = |server: &Server| server.status.is_some_and(|status| status.galera);
    let is_writable = |server: &Server| server.status.is_some_and(|status| !status.read_only);
    if servers.iter().any(|server| is_galera(server) || is_writable(server)) {
        return None;
    }
    let held: Vec<Held> = servers
        .iter()
        .filter_map(|server| Some(Held { name: server.name, status: server.status? }))
        .collect();
    let silent: Vec<&str> =
        servers.iter().filter(|server| server.status.is_none()).map(|server| server.name).collect();
    let best = most::most(&held);
    let leads = |held: &Held, place: usize| held.status.channels.is_empty() && best.contains(&place);
    let has_root = held.iter().enumerate().any(|(place, held)| leads(held, place));
    if held.is_empty() || (silent.is_empty() && has_root) {
        return None;
    }
    let first: Vec<usize> = (0..held.len()).collect();
    Some(format!("no server that answers is writable: {}", most::advice(&held, &first, &silent)))
}

/// The servers from one on, each followed by the one before, if that leads back to it.
fn ring(servers: &[Server], server: &Server) -> Option<String> {
    let mut names = server.name.to_owned();
    let mut at = server;
    for _ in 0..servers.len() {
        let source = &at.status?.source()?.source;
        at = servers.iter().find(|other| other.address == source)?;
        names = format!("{names} follows {}", at.name);
        if at.name == server.name {
            return Some(names);
        }
        names.push_str(", which");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::*;

    fn follows(source: &str) -> ReplicationStatus {
        let channel = Channel {
            source: source.into(),
            io_running: true,
            sql_running: true,
            by_gtid: true,
            ..Channel::default()
        };
        ReplicationStatus {
            read_only: true,
            log_bin: true,
            log_replica_updates: true,
            binlog_format: "ROW".into(),
            position: Some(protocol::gtid::Position::MariaDb(protocol::gtid::mariadb::Position::default())),
            channels: vec![channel],
            ..ReplicationStatus::default()
        }
    }

    fn primary() -> ReplicationStatus {
        ReplicationStatus { read_only: false, channels: vec![], ..follows("") }
    }

    fn told(statuses: &[ReplicationStatus]) -> Vec<String> {
        let names = ["db1", "db2", "db3"];
        let addresses = ["a:1", "b:1", "c:1"];
        let servers: Vec<Server> = statuses
            .iter()
            .enumerate()
            .map(|(at, status)| Server {
                name: names[at],
                address: addresses[at],
                status: Some(status),
                is_renumbered: false,
            })
            .collect();
        faults(&servers).into_iter().map(|faults| faults.join(" / ")).collect()
    }

    #[test]
    fn a_primary_with_its_replicas_has_no_fault() {
        assert_eq!(told(&[primary(), follows("a:1"), follows("a:1")]), ["", "", ""]);
        let stray = ReplicationStatus { channels: vec![], ..follows("") };
        assert_eq!(told(&[primary(), follows("a:1"), stray]), ["", "", ""]);
    }

    #[test]
    fn a_setup_without_a_primary_is_told_with_the_order() {
        let replica = follows("a:1");
        let alone = ReplicationStatus { channels: vec![], ..follows("") };
        let all = [None, Some(&replica), Some(&replica)];
        let servers = |all: [Option<&'_ ReplicationStatus>; 3]| {
            let names = [("db1", "a:1"), ("db2", "b:1"), ("db3", "c:1")];
            let told: Vec<_> = names
                .into_iter()
                .zip(all)
                .map(|((name, address), status)| (name, address, status.cloned()))
                .collect();
            let servers: Vec<Server> = told
                .iter()
                .map(|(name, address, status)| Server {
                    name,
                    address,
                    status: status.as_ref(),
                    is_renumbered: false,
                })
                .collect();
            without_primary(&servers)
        };
        let told = servers(all).unwrap();
        assert!(told.contains("db1 may have acknowledged what no other has"), "{told}");
        assert!(told.ends_with("`understudy switchover --to db2 --force`"), "{told}");
        assert_eq!(servers([Some(&alone), Some(&replica), Some(&replica)]), None);
        assert_eq!(servers([Some(&primary()), None, Some(&replica)]), None);
    }

    #[test]
    fn what_serve_remembers_of_a_server_is_told() {
        let (first, mut second) = (primary(), follows("a:1"));
        second.had_filters = Some("Replicate_Do_DB = shop".into());
        let server = |name, address, status, is_renumbered| Server { name, address, status, is_renumbered };
        let servers = [server("db1", "a:1", Some(&first), false), server("db2", "b:1", Some(&second), true)];
        let told = faults(&servers).concat().join(" / ");
        assert!(told.contains("numbers began anew") && told.contains("Replicate_Do_DB = shop"), "{told}");
    }

    #[test]
    fn each_other_setup_is_told() {
        let two = told(&[primary(), primary(), follows("a:1")]);
        assert!(two[0].contains("db1 and db2 are writable") && two[1] == two[0], "{two:?}");
        let ring = told(&[follows("b:1"), follows("a:1"), follows("a:1")]);
        assert!(ring[0].contains("db1 follows db2, which follows db1; "), "{ring:?}");
        assert!(ring[1].contains("db2 follows db1, which follows db2; ") && ring[2].is_empty(), "{ring:?}");
        let stranger = told(&[primary(), follows("a:1"), follows("z:9")]);
        assert!(stranger[2].contains("follows z:9, which is no server of this cluster"), "{stranger:?}");
        let mut by_file = follows("a:1");
        by_file.channels[0].by_gtid = false;
        by_file.binlog_format = "STATEMENT".into();
        let told = told(&[primary(), by_file, follows("a:1")]);
        assert!(told[1].contains("MASTER_USE_GTID = slave_pos"), "{told:?}");
        assert!(told[1].contains("binlog_format = STATEMENT, and db1 has ROW"), "{told:?}");
    }
}

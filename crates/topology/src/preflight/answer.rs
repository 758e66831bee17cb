//! A node's answer to the questions before a switchover. What the server does not report, or what cannot be read, stays unset.

use std::collections::BTreeMap;

use protocol::gtid::{Family, Position};

use super::sql;
use crate::rules::variables::is_on;
use crate::session_defaults::SessionDefaults;

/// The result of asking a node.
#[derive(Clone, Debug, Default)]
pub enum NodeReply {
    /// It was not asked, because the brain knows that it does not answer.
    #[default]
    NotAsked,
    /// It did not answer. `late`: only within the deadline, which may also be due to a busy machine.
    Failed {
        /// What happened.
        why: String,
        /// It only took too long.
        late: bool,
    },
    /// Its answer.
    Server(Box<Server>),
}

/// A server's answer.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Its greeting's version, as `10.11.19-MariaDB`.
    pub version: String,
    /// Its variables of [`super::sql::names`], by those names.
    pub variables: BTreeMap<String, String>,
    /// gtid_current_pos.
    pub position: Option<Position>,
    /// Up to which position its binlogs were purged; only for the new writer. `None`: not asked, or not permitted.
    pub purged: Option<Position>,
    /// What it leaves out of its binlog (binlog_do_db, binlog_ignore_db); empty if nothing. `None`: not asked, or not permitted.
    pub unlogged: Option<String>,
    /// Its semi-synchronous settings are named after source and replica, as with MySQL's plugins since 8.0.26.
    pub new_names: bool,
    /// Sessions that have a transaction open, wait, or change a table's structure.
    pub sessions: Vec<Thread>,
    /// What its sessions begin with.
    pub defaults: SessionDefaults,
    /// Its events; `None`: not asked, or MySQL.
    pub event_list: Option<Events>,
    /// Privileges that the monitor account lacks; `None`: not asked, or a MySQL server, which has other privileges.
    pub rights: Option<Rights>,
    /// Whether it lets in the account that replicas will log in with; only for the new primary. `None`: not tried.
    pub replica_login: Option<ReplicaLogin>,
}

/// A login with the account that replicas log in with, tried from this program's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLogin {
    /// The account's user name.
    pub user: String,
    /// What came of it.
    pub admission: Admission,
}

/// Whether a server lets an account in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is let in.
    Admitted,
    /// It is let in, and lacks REPLICATION SLAVE.
    MayNotReplicate,
    /// It is refused, by the server's own words.
    Refused(String),
    /// It could not be tried, or the account is for other hosts than this program's; and what came instead.
    NotKnown(String),
}

/// The events of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// How many it runs.
    pub enabled: usize,
    /// Their definers, each once.
    pub definers: Vec<String>,
    /// The definers of any of its events for which it has no account.
    pub without_account: Vec<String>,
    /// How many are being executed now.
    pub running: usize,
}

/// Privileges that the monitor account lacks on a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The account, as GRANT takes it.
    pub account: String,
    /// Each missing privilege, as GRANT spells it, and what it is needed for.
    pub lacks: Vec<(&'static str, &'static str)>,
}

/// A session of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The id of its thread, as KILL takes it.
    pub id: u64,
    /// Its user.
    pub user: String,
    /// The client's host.
    pub host: String,
    /// The state of its thread.
    pub state: String,
    /// The beginning of its statement.
    pub statement: String,
    /// For how long it has been in that state, in seconds.
    pub state_s: u64,
    /// How long its transaction has been open, in seconds.
    pub transaction_s: Option<u64>,
}

/// Reads the answers to [`super::sql::variables`], by name, and to [`super::sql::SESSIONS`].
pub fn read<'a>(version: &str, value: impl Fn(&str) -> Option<&'a str>, sessions: Vec<Thread>) -> Server {
    let named = |name: &&str| {
        let text = value(&sql::new_name(name)).or_else(|| value(name))?;
        Some(((*name).to_owned(), text.to_owned()))
    };
    Server {
        version: version.trim_start_matches("5.5.5-").to_owned(),
        variables: sql::names().iter().filter_map(named).collect(),
        position: value("gtid_current_pos").and_then(position),
        new_names: value("rpl_semi_sync_source_enabled")
            .or_else(|| value("rpl_semi_sync_replica_enabled"))
            .is_some(),
        sessions,
        ..Server::default()
    }
}

/// Reads one row of [`super::sql::SESSIONS`]; `value` gives the value of a column.
pub fn session<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Thread {
    let text = |name: &str| value(name).unwrap_or_default().to_owned();
    let number = |name: &str| value(name).and_then(|value| value.parse().ok());
    Thread {
        id: number("id").unwrap_or(0),
        user: text("user"),
        host: text("host"),
        state: text("state"),
        statement: text("info").split_whitespace().collect::<Vec<_>>().join(" "),
        state_s: number("state_s").unwrap_or(0),
        transaction_s: number("transaction_s"),
    }
}

/// A position in MariaDB's notation.
pub fn position(text: &str) -> Option<Position> {
    Position::parse(Family::MariaDb, text).ok()
}

impl Thread {
    /// Which session it is, for people.
    pub fn who(&self) -> String {
        format!("thread {} ({} from {})", self.id, self.user, self.host)
    }

    /// Whether it is an internal thread of replication, and not a client's session.
    pub fn is_internal(&self) -> bool {
        self.user == "system user"
    }
}

impl Server {
    /// The server's own name for a semi-synchronous setting; `name` is the old one, as `rpl_semi_sync_master_timeout`.
    pub fn semi_sync_name(&self, name: &str) -> String {
        if self.new_names { sql::new_name(name) } else { name.into() }
    }

    /// A variable's value; semi-synchronous ones by their old names. `None`: it has no such variable, as when the plugin is missing.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> Option<bool> {
        self.value(name).map(is_on)
    }

    /// A number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    /// Major and minor version.
    pub fn series(&self) -> Option<(u32, u32)> {
        let mut numbers = self.version.split(['.', '-']);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semi_synchronous_settings_are_read_by_either_name_and_said_by_the_servers_own() {
        let of = |names: [&'static str; 3]| {
            let values = ["ON", "OFF", "500"];
            let value = move |name: &str| names.iter().position(|known| *known == name).map(|at| values[at]);
            read("8.4.3", value, vec![])
        };
        let old =
            ["rpl_semi_sync_master_enabled", "rpl_semi_sync_slave_enabled", "rpl_semi_sync_master_timeout"];
        let new =
            ["rpl_semi_sync_source_enabled", "rpl_semi_sync_replica_enabled", "rpl_semi_sync_source_timeout"];
        for names in [old, new] {
            let server = of(names);
            assert_eq!((server.is_on(old[0]), server.is_on(old[1])), (Some(true), Some(false)));
            assert_eq!(server.number(old[2]), Some(500));
            assert_eq!([0, 1, 2].map(|at| server.semi_sync_name(old[at])), names);
        }
    }
}

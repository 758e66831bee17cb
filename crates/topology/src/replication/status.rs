//! The status of a server of a primary-replica setup, read from its answers. What it does not report, or what cannot be read, stays unset.

use protocol::gtid::mysql::Uuid;
use protocol::gtid::{Family, History, Origin, Position};

use super::channel::Channel;
use super::filters;
use crate::flavor::Dialect;

/// One answer to the status query. Positions are not read back from JSON: whoever compares them asks the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct ReplicationStatus {
    /// Which statements the server understands.
    #[serde(skip)]
    pub dialect: Dialect,
    /// server_id.
    #[serde(default)]
    pub server_id: u32,
    /// server_uuid; MySQL's only.
    #[serde(default, with = "text", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub server_uuid: Option<Uuid>,
    /// read_only (any value but OFF/0); MySQL's super_read_only sets it, too.
    #[serde(default)]
    pub read_only: bool,
    /// log_bin.
    #[serde(default)]
    pub log_bin: bool,
    /// log_slave_updates, log_replica_updates.
    #[serde(default)]
    pub log_replica_updates: bool,
    /// gtid_strict_mode; MySQL has no other mode.
    #[serde(default)]
    pub gtid_strict_mode: bool,
    /// binlog_format: ROW, MIXED or STATEMENT; empty when it was not said.
    #[serde(default)]
    pub binlog_format: String,
    /// event_scheduler is ON; not asked of MySQL, see [`super::events`].
    #[serde(skip)]
    pub event_scheduler: Option<bool>,
    /// wsrep_on: it is a Galera node.
    #[serde(default)]
    pub galera: bool,
    /// gtid_current_pos, or MySQL's gtid_executed: all that it has written or applied; `None` when it could not be read, or gtid_mode is not ON.
    #[serde(default, serialize_with = "text::serialize", deserialize_with = "text::unread")]
    #[schema(value_type = Option<String>)]
    pub position: Option<Position>,
    /// MySQL's gtid_owned: what it is committing. It is in the binary log, a replica may have it and have acknowledged it (AFTER_SYNC), and it is not in
    /// gtid_executed yet.
    #[serde(skip)]
    pub underway: Option<Position>,
    /// gtid_slave_pos: what it has applied as a replica, which a server that was copied has, and its binlog has not.
    #[serde(skip)]
    pub applied_as_replica: Option<Position>,
    /// gtid_binlog_state: the same by origin. MySQL's gtid_executed has that, too.
    #[serde(default, serialize_with = "text::serialize", deserialize_with = "text::unread")]
    #[schema(value_type = Option<String>)]
    pub history: Option<History>,
    /// Its replication channels; a primary has none.
    pub channels: Vec<Channel>,
    /// Filters that it had, and has no more; see `filters.rs`. Not in its report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub had_filters: Option<String>,
    /// Semi-synchronous replication.
    #[serde(default)]
    pub semi_sync: SemiSync,
    /// Each commit is on disk before it is acknowledged: sync_binlog and innodb_flush_log_at_trx_commit.
    #[serde(skip)]
    pub is_durable: bool,
    /// Threads_connected.
    #[serde(default)]
    pub threads_connected: u32,
    /// Uptime: how long ago its process started, in seconds.
    #[serde(skip)]
    pub uptime_s: Option<u64>,
}

/// Semi-synchronous replication: as a primary, and as a replica.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(default)]
pub struct SemiSync {
    /// As a primary it is configured to wait for a replica.
    pub primary_enabled: bool,
    /// It does wait; false while it has fallen back to asynchronous replication.
    pub primary_active: bool,
    /// Replicas that acknowledge.
    pub replicas: u32,
    /// As a primary each of its commits waits for so many: MariaDB's for one.
    #[serde(skip)]
    pub replicas_needed: u32,
    /// As a replica it is configured to acknowledge.
    pub replica_enabled: bool,
    /// It does acknowledge.
    pub replica_active: bool,
    /// As a primary it waits for so long, in milliseconds; 0 where it does not once too few replicas are connected (`wait_no_slave`, `wait_no_replica`);
    /// `None` when it was not said.
    #[serde(skip)]
    pub timeout_ms: Option<u64>,
    /// Sessions whose commits wait for a replica now.
    #[serde(skip)]
    pub waiting: u32,
    /// Commits that a replica has acknowledged since the server started.
    #[serde(skip)]
    pub acknowledged_count: u64,
}

impl SemiSync {
    /// As a primary its commits wait for a replica.
    pub fn waits(&self) -> bool {
        self.primary_enabled && self.primary_active
    }
}

/// What has a text, as that.
mod text {
    use serde::de::IgnoredAny;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option)] // serde gives it so
    pub fn serialize<T: ToString, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    /// Of whose position it is, the text does not say: it is not read.
    pub fn unread<'de, T, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
        IgnoredAny::deserialize(from).map(|_| None)
    }

    pub fn deserialize<'de, T: std::str::FromStr, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

impl ReplicationStatus {
    /// The server, as GTIDs name it.
    pub fn origin(&self) -> Origin {
        self.server_uuid.map_or(Origin::MariaDb(self.server_id), Origin::MySql)
    }

    /// All that it has, applied or only received.
    pub fn has(&self) -> Option<Position> {
        let applied = self.position.clone()?;
        let received = self.channels.iter().filter_map(Channel::received);
        Some(received.fold(applied, |all, received| all.union(&received).unwrap_or(all)))
    }

    /// The filters of its channels, for a sentence.
    pub fn filters(&self) -> Option<String> {
        let filters: Vec<&str> =
            self.channels.iter().flat_map(|channel| &channel.filters).map(String::as_str).collect();
        (!filters.is_empty()).then(|| filters.join(", "))
    }

    /// The source that it follows, if it has exactly one.
    pub fn source(&self) -> Option<&Channel> {
        match &*self.channels {
            [one] => Some(one),
            _ => None,
        }
    }
}

impl Channel {
    /// What it has received.
    pub fn received(&self) -> Option<Position> {
        Position::parse(self.family, &self.received).ok()
    }
}

/// `gtid_owned`: `uuid:4#34:3#33`, each number with the session that commits it, which is left out. The next server's UUID follows on that without a
/// separator (`Owned_gtids::to_string` of MySQL's source).
fn owned(text: &str) -> Option<Position> {
    const UUID_BYTES: usize = 36;
    let mut parts = text.split('#');
    let mut set = parts.next()?.to_owned();
    for part in parts {
        let (session, rest) = part.split_once(':').unwrap_or((part, ""));
        let uuid = session.len().checked_sub(UUID_BYTES).and_then(|from| session.get(from..));
        if let Some(uuid) = uuid {
            set = set + "," + uuid;
        }
        if !rest.is_empty() {
            set = set + ":" + rest;
        }
    }
    Position::parse(Family::MySql, &set).ok()
}

/// Reads the answers to [`super::sql::variables()`], [`super::sql::positions()`] and [`super::sql::status()`]; each argument gives the value of a
/// name, the first one those of the first two.
pub fn read<'a>(
    variables: impl Fn(&str) -> Option<&'a str>,
    status: impl Fn(&str) -> Option<&'a str>,
    mut channels: Vec<Channel>,
) -> ReplicationStatus {
    let on = |value: Option<&str>| {
        value.is_some_and(|value| {
            !["OFF", "0", "FALSE", "NO", ""].iter().any(|off| value.eq_ignore_ascii_case(off))
        })
    };
    let number = |value: Option<&str>| value.and_then(|value| value.parse().ok()).unwrap_or(0);
    // The newer name where a server has both.
    let setting = |new, old| variables(new).or_else(|| variables(old));
    let counter = |new, old| status(new).or_else(|| status(old));
    let dialect = variables("version").map_or(Dialect::MariaDb, Dialect::of);
    let family = dialect.family();
    let gtids = match family {
        Family::MariaDb => [variables("gtid_current_pos"), variables("gtid_binlog_state")],
        // Without that mode, a transaction may have no GTID.
        Family::MySql => {
            let is_on = variables("gtid_mode").is_some_and(|mode| mode.eq_ignore_ascii_case("ON"));
            [variables("gtid_executed").filter(|_| is_on); 2]
        }
    };
    let server_id = number(variables("server_id"));
    for channel in &mut channels {
        channel.filters.retain(|filter| !filters::is_of_its_own(filter, server_id));
    }
    ReplicationStatus {
        dialect,
        server_id,
        server_uuid: variables("server_uuid").and_then(|uuid| uuid.parse().ok()),
        read_only: on(variables("read_only")),
        log_bin: on(variables("log_bin")),
        log_replica_updates: on(setting("log_replica_updates", "log_slave_updates")),
        gtid_strict_mode: family == Family::MySql || on(variables("gtid_strict_mode")),
        binlog_format: variables("binlog_format").unwrap_or_default().to_owned(),
        event_scheduler: variables("event_scheduler").map(|value| on(Some(value))),
        galera: on(variables("wsrep_on")),
        applied_as_replica: variables("gtid_slave_pos").and_then(|text| Position::parse(family, text).ok()),
        underway: variables("gtid_owned").filter(|text| !text.is_empty()).and_then(owned),
        position: gtids[0].and_then(|text| Position::parse(family, text).ok()),
        history: gtids[1].and_then(|text| History::parse(family, text).ok()),
        channels,
        had_filters: None,
        semi_sync: SemiSync {
            primary_enabled: on(setting("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")),
            primary_active: on(counter("Rpl_semi_sync_source_status", "Rpl_semi_sync_master_status")),
            replicas: number(counter("Rpl_semi_sync_source_clients", "Rpl_semi_sync_master_clients")),
            replicas_needed: setting(
                "rpl_semi_sync_source_wait_for_replica_count",
                "rpl_semi_sync_master_wait_for_slave_count",
            )
            .and_then(|value| value.parse().ok())
            .unwrap_or(1),
            replica_enabled: on(setting("rpl_semi_sync_replica_enabled", "rpl_semi_sync_slave_enabled")),
            timeout_ms: match setting(
                "rpl_semi_sync_source_wait_no_replica",
                "rpl_semi_sync_master_wait_no_slave",
            ) {
                Some(waits) if !on(Some(waits)) => Some(0),
                _ => setting("rpl_semi_sync_source_timeout", "rpl_semi_sync_master_timeout")
                    .and_then(|value| value.parse().ok()),
            },
            replica_active: on(counter("Rpl_semi_sync_replica_status", "Rpl_semi_sync_slave_status")),
            waiting: number(counter(
                "Rpl_semi_sync_source_wait_sessions",
                "Rpl_semi_sync_master_wait_sessions",
            )),
            acknowledged_count: counter("Rpl_semi_sync_source_yes_tx", "Rpl_semi_sync_master_yes_tx")
                .and_then(|value| value.parse().ok())
                .unwrap_or_default(),
        },
        is_durable: variables("sync_binlog") == Some("1")
            && variables("innodb_flush_log_at_trx_commit").is_some_and(|value| value == "1" || value == "3"),
        threads_connected: number(status("Threads_connected")),
        uptime_s: status("Uptime").and_then(|value| value.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_committed_is_read_without_its_sessions() {
        let (a, b) = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "ed102faf-eb00-11eb-8f20-0c5415bfaa1d");
        let seen = |text: String| owned(&text).map(|position| position.to_string());
        for (text, set) in [
            (format!("{a}:4#34:3#33"), format!("{a}:3-4")),
            (format!("{a}:4#34{b}:3#7:9#8"), format!("{a}:4,{b}:3:9")),
            (format!("{b}:4#34,\n{a}:3#33"), format!("{a}:3,{b}:4")),
            (format!("{a}:4#34:4#35"), format!("{a}:4")),
            (format!("{a}:late:4#34"), format!("{a}:late:4")),
        ] {
            assert_eq!(seen(text.clone()), Some(set), "{text}");
        }
        for damaged in ["#", "3#", "#4:5", "\u{e9}#\u{e9}:1", &format!("{a}:#34")] {
            let read = owned(damaged);
            assert!(read.is_none_or(|set| set.to_string().is_empty()), "{damaged}");
        }
    }
}

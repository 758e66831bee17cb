//! The status of a server's replication channels. What the server does not report stays unset.
//!
//! Pure: the shell passes a function that finds a column by its name, so that the order of the columns does not matter.

use std::time::Duration;

use protocol::gtid::Family;

use super::filters;

/// With a longer time between two heartbeats a replica is tested in another way: that takes two seconds.
const HEARTBEAT_MAX_MS: u64 = 1000;

/// One source that a server replicates from.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Channel {
    /// Connection_name (MariaDB) or Channel_Name (MySQL); mostly empty.
    pub name: String,
    /// `host:port` of the source.
    pub source: String,
    /// The I/O thread runs and is connected.
    pub io_running: bool,
    /// The I/O thread is stopped: it is not connected, and does not try to connect.
    pub io_stopped: bool,
    /// The SQL thread runs.
    pub sql_running: bool,
    /// Seconds_Behind_Master / Seconds_Behind_Source; `None` while it is not known.
    pub lag_s: Option<u64>,
    /// Why the SQL thread is stopped, or while it runs the last error of either thread. Empty when there is none. An error of the I/O thread
    /// says nothing about a stopped SQL thread: it is left over from the loss of a source.
    pub error: String,
    /// Its source sends a heartbeat when it has had nothing else to send for this many milliseconds; `None` where the server does not say, or does
    /// not say for how long it has received nothing.
    #[serde(skip)]
    pub heartbeat_ms: Option<u64>,
    /// It has received nothing for longer than [`Channel::silent_after`].
    #[serde(skip)]
    pub is_silent: bool,
    /// It replicates by GTID.
    pub by_gtid: bool,
    /// Which family's GTIDs those are.
    #[serde(skip)]
    pub family: Family,
    /// What has been received, as the server reports it: Gtid_IO_Pos (MariaDB), Retrieved_Gtid_Set (MySQL).
    pub received: String,
    /// SQL_Delay: it is kept behind by this much on purpose.
    pub delay_s: u64,
    /// Its replication filters: `Replicate_Do_DB = shop` and the like.
    pub filters: Vec<String>,
}

impl Channel {
    /// The time without anything received after which its source has certainly stopped to send, or the network to carry it; `None` where its server
    /// cannot tell that soon enough.
    pub fn silent_after(&self) -> Option<Duration> {
        let heartbeat_ms = self.heartbeat_ms.filter(|ms| (1..=HEARTBEAT_MAX_MS).contains(ms))?;
        Some(Duration::from_millis(2 * heartbeat_ms + 100))
    }

    /// What a row of [`super::sql::heard`] says of it.
    pub fn heard(&mut self, heartbeat_ms: u64, heard_ago_ms: u64) {
        self.heartbeat_ms = Some(heartbeat_ms);
        self.is_silent = self.silent_after().is_some_and(|after| Duration::from_millis(heard_ago_ms) > after);
    }
}

/// Reads one row of [`super::sql::channels`]; `value` gives the value of a column. Old and new names are known.
pub fn channel<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Channel {
    let either = |new: &str, old: &str| value(new).or_else(|| value(old)).unwrap_or("");
    let yes = |text: &str| text.eq_ignore_ascii_case("Yes");
    let sql_running = yes(either("Replica_SQL_Running", "Slave_SQL_Running"));
    let errors = [value("Last_IO_Error").filter(|_| sql_running), value("Last_SQL_Error")];
    Channel {
        name: either("Channel_Name", "Connection_name").into(),
        source: format!("{}:{}", either("Source_Host", "Master_Host"), either("Source_Port", "Master_Port")),
        io_running: yes(either("Replica_IO_Running", "Slave_IO_Running")),
        io_stopped: either("Replica_IO_Running", "Slave_IO_Running").eq_ignore_ascii_case("No"),
        sql_running,
        lag_s: either("Seconds_Behind_Source", "Seconds_Behind_Master").parse().ok(),
        heartbeat_ms: None,
        is_silent: false,
        by_gtid: value("Using_Gtid").is_some_and(|how| !how.eq_ignore_ascii_case("No"))
            || value("Auto_Position") == Some("1"),
        family: if value("Retrieved_Gtid_Set").is_some() { Family::MySql } else { Family::MariaDb },
        received: either("Retrieved_Gtid_Set", "Gtid_IO_Pos").into(),
        delay_s: value("SQL_Delay").and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
        filters: filters::read(&value),
        error: errors.into_iter().flatten().find(|text| !text.is_empty()).unwrap_or("").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among<'a>(pairs: &'a [(&str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        move |name| pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    #[test]
    fn nothing_said_is_nothing_claimed() {
        assert_eq!(channel(|_| None), Channel { source: ":".into(), ..Channel::default() });
    }

    #[test]
    fn a_source_is_silent_when_two_heartbeats_are_missing() {
        let heard = |heartbeat_ms, ago_ms| {
            let mut channel = Channel::default();
            channel.heard(heartbeat_ms, ago_ms);
            (channel.silent_after().map(|after| after.as_millis()), channel.is_silent)
        };
        assert_eq!(heard(300, 700), (Some(700), false));
        assert_eq!(heard(300, 701), (Some(700), true));
        assert_eq!(heard(30_000, 90_000), (None, false), "it is not waited for");
        assert_eq!(heard(0, 90_000), (None, false), "no heartbeats");
    }

    #[test]
    fn a_replica_of_either_family_is_read() {
        let mariadb = [
            ("Connection_name", "east"),
            ("Master_Host", "db1"),
            ("Master_Port", "3306"),
            ("Slave_IO_Running", "Yes"),
            ("Slave_SQL_Running", "Yes"),
            ("Seconds_Behind_Master", "2"),
        ];
        let mysql = [
            ("Channel_Name", "east"),
            ("Source_Host", "db1"),
            ("Source_Port", "3306"),
            ("Replica_IO_Running", "Connecting"),
            ("Replica_SQL_Running", "Yes"),
            ("Last_IO_Error", "cannot connect"),
            ("Retrieved_Gtid_Set", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"),
        ];
        let read = channel(among(&mariadb));
        let want = Channel {
            name: "east".into(),
            source: "db1:3306".into(),
            io_running: true,
            sql_running: true,
            lag_s: Some(2),
            ..Channel::default()
        };
        assert_eq!(read, want);
        let read = channel(among(&mysql));
        let error = "cannot connect".to_owned();
        let received = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5".to_owned();
        assert!(read.received().is_some_and(|set| set.to_string() == received));
        let family = Family::MySql;
        assert_eq!(read, Channel { io_running: false, lag_s: None, error, received, family, ..want });
    }

    #[test]
    fn the_loss_of_a_source_is_no_reason_why_the_sql_thread_is_stopped() {
        let error = |running, sql_error| {
            let lost = "error reconnecting to master: 104 Connection reset by peer";
            let row =
                [("Slave_SQL_Running", running), ("Last_IO_Error", lost), ("Last_SQL_Error", sql_error)];
            channel(among(&row)).error
        };
        assert_eq!(error("No", ""), "");
        assert_eq!(error("No", "1062: duplicate entry"), "1062: duplicate entry");
        assert!(error("Yes", "").starts_with("error reconnecting"));
    }
}

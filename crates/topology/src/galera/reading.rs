//! From the rows that a server gives to what they say. A value that is not said, or not understood, stays unsaid.
//!
//! Pure: the shell brings a way to look a value up by its name, so that no row's position matters.

use crate::fact::GaleraStatus;

/// A status, and the name under which the node itself appears among the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What the node says of itself.
    pub status: GaleraStatus,
    /// This node's own entry in `status.members`, by wsrep_local_index.
    pub incoming: Option<String>,
}

/// Reads the answers to [`crate::flavor::Flavor::status`] and [`crate::flavor::Flavor::variables`]; each argument gives the value of a
/// name.
pub fn galera<'a>(
    status: impl Fn(&str) -> Option<&'a str>,
    variables: impl Fn(&str) -> Option<&'a str>,
) -> Reading {
    let text = |name: &str| status(name).unwrap_or("");
    let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
    let on = |value: Option<&str>| value.is_some_and(is_on);
    let members: Vec<String> = text("wsrep_incoming_addresses")
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(Into::into)
        .collect();
    let incoming =
        text("wsrep_local_index").parse::<usize>().ok().and_then(|index| members.get(index).cloned());
    let rejects = variables("wsrep_reject_queries").is_some_and(|value| !value.eq_ignore_ascii_case("NONE"));
    let status = GaleraStatus {
        local_state: text("wsrep_local_state").parse().ok(),
        local_state_comment: text("wsrep_local_state_comment").into(),
        cluster_status: text("wsrep_cluster_status").into(),
        cluster_size: number("wsrep_cluster_size") as u32,
        conf_id: number("wsrep_cluster_conf_id"),
        cluster_uuid: text("wsrep_cluster_state_uuid").into(),
        gcomm_uuid: text("wsrep_gcomm_uuid").into(),
        ready: on(status("wsrep_ready")),
        connected: on(status("wsrep_connected")),
        desync: on(variables("wsrep_desync")),
        reject_queries: rejects,
        sst_donor_rejects: on(variables("wsrep_sst_donor_rejects_queries")),
        read_only: on(variables("read_only")) || on(variables("super_read_only")),
        pxc_maint_mode: variables("pxc_maint_mode").map(Into::into),
        recv_queue: number("wsrep_local_recv_queue"),
        last_committed: number("wsrep_last_committed"),
        flow_control_paused_ns: number("wsrep_flow_control_paused_ns"),
        flow_control_active: on(status("wsrep_flow_control_active"))
            || on(status("wsrep_flow_control_requested")),
        threads_connected: number("Threads_connected") as u32,
        members,
    };
    Reading { status, incoming }
}

/// One source that a server replicates from.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Channel {
    /// Connection_name (MariaDB) or Channel_Name (MySQL); mostly empty.
    pub name: String,
    /// `host:port` of the source.
    pub source: String,
    /// The thread that fetches runs, and is connected.
    pub io_running: bool,
    /// The thread that applies runs.
    pub sql_running: bool,
    /// Seconds_Behind_Master / Seconds_Behind_Source; `None` while it is not known.
    pub lag_s: Option<u64>,
    /// The last error of either thread; empty when there is none.
    pub error: String,
}

/// Reads one row of [`crate::flavor::Flavor::replication`]; `value` gives the value of a column. Old and new names are known.
pub fn channel<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Channel {
    let either = |new: &str, old: &str| value(new).or_else(|| value(old)).unwrap_or("");
    let yes = |text: &str| text.eq_ignore_ascii_case("Yes");
    let errors = [value("Last_IO_Error"), value("Last_SQL_Error")];
    Channel {
        name: either("Channel_Name", "Connection_name").into(),
        source: format!("{}:{}", either("Source_Host", "Master_Host"), either("Source_Port", "Master_Port")),
        io_running: yes(either("Replica_IO_Running", "Slave_IO_Running")),
        sql_running: yes(either("Replica_SQL_Running", "Slave_SQL_Running")),
        lag_s: either("Seconds_Behind_Source", "Seconds_Behind_Master").parse().ok(),
        error: errors.into_iter().flatten().find(|text| !text.is_empty()).unwrap_or("").into(),
    }
}

/// MariaDB 12 has more values for read_only than ON; whatever is not a way to say "off" is on.
fn is_on(value: &str) -> bool {
    !["OFF", "0", "FALSE", "NO", ""].iter().any(|off| value.eq_ignore_ascii_case(off))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among<'a>(pairs: &'a [(&str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        move |name| pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    #[test]
    fn what_mariadb_says_is_read() {
        let status = [
            ("wsrep_local_state", "4"),
            ("wsrep_incoming_addresses", "10.0.0.2:3306,10.0.0.1:3306"),
            ("wsrep_local_index", "1"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_cluster_conf_id", "18446744073709551615"),
            ("wsrep_ready", "ON"),
            ("wsrep_flow_control_active", "false"),
        ];
        let variables = [("wsrep_reject_queries", "NONE"), ("read_only", "NO_LOCK")];
        let reading = galera(among(&status), among(&variables));
        assert_eq!(reading.incoming.as_deref(), Some("10.0.0.1:3306"));
        assert_eq!(reading.status.conf_id, u64::MAX);
        assert!(reading.status.ready && reading.status.read_only);
        assert!(
            !reading.status.reject_queries
                && !reading.status.flow_control_active
                && !reading.status.connected
        );
    }

    #[test]
    fn nothing_said_is_nothing_claimed() {
        let reading = galera(|_| None, |_| None);
        assert_eq!(reading.status, GaleraStatus::default());
        assert_eq!(reading.incoming, None);
        assert_eq!(channel(|_| None), Channel { source: ":".into(), ..Channel::default() });
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
        ];
        let read = channel(among(&mariadb));
        let want = Channel {
            name: "east".into(),
            source: "db1:3306".into(),
            io_running: true,
            sql_running: true,
            lag_s: Some(2),
            error: String::new(),
        };
        assert_eq!(read, want);
        let read = channel(among(&mysql));
        let error = "cannot connect".to_owned();
        assert_eq!(read, Channel { io_running: false, lag_s: None, error, ..want });
    }
}

//! The counters of one node at one moment, read from its answer to SHOW GLOBAL STATUS.
//!
//! Input: a function that looks a value up by its name. Output: a [`Sample`] of fixed size and without text, so that an hour of samples
//! takes little memory. Invariant: a value that the server did not report is `None`, never 0.

use serde::{Deserialize, Serialize};

/// The status variables that are read for a sample of any server.
pub const NAMES: [&str; 17] = [
    "Uptime",
    "Questions",
    "Com_select",
    "Com_insert",
    "Com_update",
    "Com_delete",
    "Com_commit",
    "Threads_connected",
    "Threads_running",
    "Bytes_received",
    "Bytes_sent",
    "Innodb_rows_read",
    "Innodb_rows_inserted",
    "Innodb_rows_updated",
    "Innodb_rows_deleted",
    "Innodb_buffer_pool_reads",
    "Innodb_os_log_written",
];

/// The status variables that are read from a Galera node in addition to [`NAMES`].
pub const GALERA_NAMES: [&str; 23] = [
    "wsrep_local_state",
    "wsrep_cluster_status",
    "wsrep_cluster_size",
    "wsrep_last_committed",
    "wsrep_replicated",
    "wsrep_replicated_bytes",
    "wsrep_received",
    "wsrep_received_bytes",
    "wsrep_local_recv_queue",
    "wsrep_local_send_queue",
    "wsrep_flow_control_requested",
    "wsrep_flow_control_sent",
    "wsrep_flow_control_recv",
    "wsrep_flow_control_paused_ns",
    "wsrep_local_cert_failures",
    "wsrep_local_bf_aborts",
    "wsrep_local_cached_downto",
    "wsrep_cert_index_size",
    "wsrep_cert_deps_distance",
    "wsrep_apply_window",
    "wsrep_commit_window",
    "wsrep_desync_count",
    "wsrep_evs_repl_latency",
];

/// The counters of one node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When the node was queried: milliseconds since 1970, by the clock of the host that queried it. For display only, because that clock
    /// may be set back.
    pub at_unix_ms: u64,
    /// The same moment in microseconds on a monotonic clock with an origin that all samples of one series share. Rates are computed with
    /// it.
    pub at_us: u64,
    /// The values that the node reported.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The values that a server reported. Unless a field is marked as a gauge it is a counter: it grows until the server restarts or FLUSH
/// STATUS resets it to 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Uptime: seconds since the server's start. It distinguishes a restart from a counter that does not change.
    pub uptime_s: Option<u64>,
    /// Questions: statements of clients.
    pub questions: Option<u64>,
    /// Com_select.
    pub selects: Option<u64>,
    /// Com_insert.
    pub inserts: Option<u64>,
    /// Com_update.
    pub updates: Option<u64>,
    /// Com_delete.
    pub deletes: Option<u64>,
    /// Com_commit: COMMIT statements. A statement that commits implicitly is not counted.
    pub commits: Option<u64>,
    /// Threads_connected; a gauge.
    pub threads_connected: Option<u64>,
    /// Threads_running; a gauge.
    pub threads_running: Option<u64>,
    /// Bytes_received, from clients.
    pub bytes_received: Option<u64>,
    /// Bytes_sent, to clients.
    pub bytes_sent: Option<u64>,
    /// Innodb_rows_read.
    pub rows_read: Option<u64>,
    /// Innodb_rows_inserted + Innodb_rows_updated + Innodb_rows_deleted.
    pub rows_changed: Option<u64>,
    /// Innodb_buffer_pool_reads: pages that had to be read from disk.
    pub pages_from_disk: Option<u64>,
    /// Innodb_os_log_written: bytes of redo log.
    pub log_bytes: Option<u64>,
    /// Values that only a Galera node reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub galera: Option<Galera>,
    /// Values that only a server in asynchronous or semi-synchronous replication reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication: Option<Replication>,
}

/// Values that a Galera node reported about its part in the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Galera {
    /// wsrep_local_state: 1 Joining, 2 Donor/Desynced, 3 Joined, 4 Synced.
    pub local_state: Option<u8>,
    /// wsrep_cluster_status is Primary.
    pub primary: Option<bool>,
    /// wsrep_cluster_size; a gauge.
    pub cluster_size: Option<u64>,
    /// wsrep_last_committed: the sequence number of the last write set committed on this node. Its growth is the rate at which the node
    /// applies.
    pub last_committed: Option<u64>,
    /// wsrep_replicated: write sets sent to the group.
    pub replicated: Option<u64>,
    /// wsrep_replicated_bytes.
    pub replicated_bytes: Option<u64>,
    /// wsrep_received: write sets received from the group. It counts arrivals rather than applied write sets; the two differ while a queue
    /// grows.
    pub received: Option<u64>,
    /// wsrep_received_bytes.
    pub received_bytes: Option<u64>,
    /// wsrep_local_recv_queue: write sets received and not yet applied; a gauge.
    pub recv_queue: Option<u64>,
    /// wsrep_local_send_queue: write sets not yet sent; a gauge.
    pub send_queue: Option<u64>,
    /// wsrep_flow_control_requested: this node is requesting a pause at this moment.
    pub flow_control_requested: Option<bool>,
    /// wsrep_flow_control_sent: how often this node requested a pause. One pause is one request, however long the pause lasts.
    pub flow_control_sent: Option<u64>,
    /// wsrep_flow_control_recv: how often any node, this one included, requested a pause.
    pub flow_control_recv: Option<u64>,
    /// wsrep_flow_control_paused_ns: for how long replication was paused by flow control, nanoseconds.
    pub flow_control_paused_ns: Option<u64>,
    /// wsrep_local_cert_failures.
    pub cert_failures: Option<u64>,
    /// wsrep_local_bf_aborts: transactions of local clients aborted because they conflicted with a replicated transaction.
    pub bf_aborts: Option<u64>,
    /// wsrep_local_cached_downto: the oldest write set that this node could still send to a joining node (IST).
    pub cached_downto: Option<u64>,
    /// wsrep_cert_index_size; a gauge.
    pub cert_index_size: Option<u64>,
    /// wsrep_cert_deps_distance: how many write sets could be applied in parallel, on average; a gauge.
    pub cert_deps_distance: Option<f64>,
    /// wsrep_apply_window; a gauge.
    pub apply_window: Option<f64>,
    /// wsrep_commit_window; a gauge.
    pub commit_window: Option<f64>,
    /// wsrep_desync_count; a gauge.
    pub desync_count: Option<u64>,
    /// The average in wsrep_evs_repl_latency, microseconds; a gauge.
    pub latency_us: Option<f64>,
}

/// Values reported by a server in asynchronous or semi-synchronous replication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replication {
    /// How many transactions the server has committed or applied, counted by its GTIDs. MariaDB: the sum of the sequence numbers of all
    /// domains. MySQL: the number of GTIDs in gtid_executed. Its growth is the rate of commits or of applying.
    pub applied: Option<u64>,
    /// The same count for the transactions received from the source.
    pub received: Option<u64>,
    /// Seconds_Behind_Master, seconds; a gauge.
    pub lag_s: Option<u64>,
    /// The replication I/O thread is connected.
    pub io_running: Option<bool>,
    /// The replication SQL thread runs.
    pub sql_running: Option<bool>,
    /// Relay_Log_Space, bytes; a gauge.
    pub relay_log_bytes: Option<u64>,
}

impl Counters {
    /// Reads the values of [`NAMES`]; `value` returns the value of a status variable.
    pub fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let number = |name: &str| value(name)?.parse::<u64>().ok();
        let changed = ["Innodb_rows_inserted", "Innodb_rows_updated", "Innodb_rows_deleted"].map(&number);
        Self {
            uptime_s: number("Uptime"),
            questions: number("Questions"),
            selects: number("Com_select"),
            inserts: number("Com_insert"),
            updates: number("Com_update"),
            deletes: number("Com_delete"),
            commits: number("Com_commit"),
            threads_connected: number("Threads_connected"),
            threads_running: number("Threads_running"),
            bytes_received: number("Bytes_received"),
            bytes_sent: number("Bytes_sent"),
            rows_read: number("Innodb_rows_read"),
            rows_changed: changed.into_iter().try_fold(0_u64, |sum, part| Some(sum.wrapping_add(part?))),
            pages_from_disk: number("Innodb_buffer_pool_reads"),
            log_bytes: number("Innodb_os_log_written"),
            galera: None,
            replication: None,
        }
    }

    /// Reads the values of a Galera node: [`NAMES`] and [`GALERA_NAMES`].
    pub fn read_galera<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let galera = Galera::read(&value);
        Self { galera: Some(galera), ..Self::read(value) }
    }
}

impl Galera {
    fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let number = |name: &str| value(name)?.parse::<u64>().ok();
        let decimal = |name: &str| value(name)?.parse::<f64>().ok().filter(|number| number.is_finite());
        Self {
            local_state: value("wsrep_local_state").and_then(|state| state.parse().ok()),
            primary: value("wsrep_cluster_status").map(|status| status.eq_ignore_ascii_case("Primary")),
            cluster_size: number("wsrep_cluster_size"),
            last_committed: number("wsrep_last_committed").filter(|seqno| *seqno != NO_SEQNO),
            replicated: number("wsrep_replicated"),
            replicated_bytes: number("wsrep_replicated_bytes"),
            received: number("wsrep_received"),
            received_bytes: number("wsrep_received_bytes"),
            recv_queue: number("wsrep_local_recv_queue"),
            send_queue: number("wsrep_local_send_queue"),
            flow_control_requested: value("wsrep_flow_control_requested")
                .map(|text| matches!(text.to_ascii_lowercase().as_str(), "true" | "on" | "1")),
            flow_control_sent: number("wsrep_flow_control_sent"),
            flow_control_recv: number("wsrep_flow_control_recv"),
            flow_control_paused_ns: number("wsrep_flow_control_paused_ns"),
            cert_failures: number("wsrep_local_cert_failures"),
            bf_aborts: number("wsrep_local_bf_aborts"),
            cached_downto: number("wsrep_local_cached_downto").filter(|seqno| *seqno != NO_SEQNO),
            cert_index_size: number("wsrep_cert_index_size"),
            cert_deps_distance: decimal("wsrep_cert_deps_distance"),
            apply_window: decimal("wsrep_apply_window"),
            commit_window: decimal("wsrep_commit_window"),
            desync_count: number("wsrep_desync_count"),
            latency_us: value("wsrep_evs_repl_latency").and_then(latency_us),
        }
    }

    /// How many of the most recent write sets this node could send to a node that was away (IST).
    pub fn cached(&self) -> Option<u64> {
        Some((self.last_committed? + 1).saturating_sub(self.cached_downto?))
    }
}

/// The value with which a server reports that there is no sequence number yet (-1).
const NO_SEQNO: u64 = u64::MAX;

/// The second field of `minimum/average/maximum/deviation/count`, in seconds.
fn latency_us(text: &str) -> Option<f64> {
    let average: f64 = text.split('/').nth(1)?.parse().ok()?;
    average.is_finite().then_some(average * 1e6)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn among<'a>(pairs: &'a [(&str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    #[test]
    fn a_galera_node_is_read() {
        let counters = Counters::read_galera(among(&[
            ("Uptime", "77"),
            ("Innodb_rows_inserted", "5"),
            ("Innodb_rows_updated", "6"),
            ("Innodb_rows_deleted", "7"),
            ("wsrep_local_state", "4"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_last_committed", "665368"),
            ("wsrep_local_cached_downto", "665269"),
            ("wsrep_evs_repl_latency", "0.00012/0.00035/0.0009/0.0001/17"),
            ("wsrep_cert_deps_distance", "8.25"),
        ]));
        let galera = counters.galera.unwrap();
        assert_eq!((counters.uptime_s, counters.rows_changed), (Some(77), Some(18)));
        assert_eq!((galera.local_state, galera.primary, galera.cached()), (Some(4), Some(true), Some(100)));
        assert_eq!((galera.latency_us, galera.cert_deps_distance), (Some(350.0), Some(8.25)));
        assert_eq!(galera.replicated, None, "what is not said is not 0");
    }

    #[test]
    fn a_node_without_a_number_yet_claims_none() {
        let values = [
            ("wsrep_last_committed", "18446744073709551615"),
            ("wsrep_local_cached_downto", "18446744073709551615"),
        ];
        let galera = Counters::read_galera(among(&values)).galera.unwrap();
        assert_eq!((galera.last_committed, galera.cached_downto, galera.cached()), (None, None, None));
    }

    #[test]
    fn nothing_said_is_nothing_claimed() {
        assert_eq!(Counters::read(|_| None), Counters::default());
        assert_eq!(Counters::read(|_| Some("x")), Counters::default());
    }

    #[test]
    fn a_sample_comes_back_from_its_json() {
        let counters = Counters::read_galera(among(&[("Uptime", "77"), ("wsrep_last_committed", "9")]));
        let sample = Sample { at_unix_ms: 5, at_us: 6, counters };
        let text = serde_json::to_string(&sample).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample);
    }
}

//! The counters of one node at one moment, read from its answer to SHOW GLOBAL STATUS.
//!
//! Input: a function that looks a value up by its name. Output: a [`Sample`] of fixed size and without text, so that an hour of samples
//! takes little memory. Invariant: a value that the server did not report is `None`, never 0.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The counters of one node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
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

/// A row a value: its name in a sample, how it is read, and of which status variables. What else is in a sample follows after `and`.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident, $names:ident {
        $($(#[$doc:meta])* $field:ident: $type:ident = $read:ident($($variable:literal),+);)*
    } and {
        $($(#[$more_meta:meta])* $more:ident: $more_type:ident;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
        pub struct $name {
            $($(#[$doc])* pub $field: Option<$type>,)*
            $($(#[$more_meta])* pub $more: Option<$more_type>,)*
        }

        /// The status variables that are read for it.
        pub const $names: &[&str] = &[$($($variable),+),*];

        impl $name {
            fn of<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
                Self { $($field: $read([$($variable),+].map(&value)),)* $($more: None,)* }
            }
        }
    };
}

counters! {
    /// The values that a server reported. Unless a field is marked as a gauge it is a counter: it grows until the server restarts or FLUSH
    /// STATUS resets it to 0.
    Counters, NAMES {
        /// Seconds since the server's start. It distinguishes a restart from a counter that does not change.
        uptime_s: u64 = number("Uptime");
        /// Statements of clients.
        questions: u64 = number("Questions");
        selects: u64 = number("Com_select");
        inserts: u64 = number("Com_insert");
        updates: u64 = number("Com_update");
        deletes: u64 = number("Com_delete");
        /// COMMIT statements. A statement that commits implicitly is not counted.
        commits: u64 = number("Com_commit");
        /// A gauge.
        threads_connected: u64 = number("Threads_connected");
        /// A gauge.
        threads_running: u64 = number("Threads_running");
        /// From clients.
        bytes_received: u64 = number("Bytes_received");
        /// To clients.
        bytes_sent: u64 = number("Bytes_sent");
        rows_read: u64 = number("Innodb_rows_read");
        rows_changed: u64 = sum("Innodb_rows_inserted", "Innodb_rows_updated", "Innodb_rows_deleted");
        /// Pages that had to be read from disk.
        pages_from_disk: u64 = number("Innodb_buffer_pool_reads");
        /// Bytes of redo log.
        log_bytes: u64 = number("Innodb_os_log_written");
    } and {
        /// Values that only a Galera node reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        galera: Galera;
        /// Values that only a server in asynchronous or semi-synchronous replication reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replication: Replication;
    }
}

counters! {
    /// Values that a Galera node reported about its part in the group.
    Galera, GALERA_NAMES {
        /// 1 Joining, 2 Donor/Desynced, 3 Joined, 4 Synced.
        local_state: u8 = number("wsrep_local_state");
        primary: bool = is_primary("wsrep_cluster_status");
        /// A gauge.
        cluster_size: u64 = number("wsrep_cluster_size");
        /// The sequence number of the last write set committed on this node. Its growth is the rate at which the node applies.
        last_committed: u64 = seqno("wsrep_last_committed");
        /// Write sets sent to the group.
        replicated: u64 = number("wsrep_replicated");
        replicated_bytes: u64 = number("wsrep_replicated_bytes");
        /// Write sets received from the group. It counts arrivals rather than applied write sets; the two differ while a queue grows.
        received: u64 = number("wsrep_received");
        received_bytes: u64 = number("wsrep_received_bytes");
        /// Write sets received and not yet applied; a gauge.
        recv_queue: u64 = number("wsrep_local_recv_queue");
        /// Write sets not yet sent; a gauge.
        send_queue: u64 = number("wsrep_local_send_queue");
        /// This node is requesting a pause at this moment.
        flow_control_requested: bool = is_on("wsrep_flow_control_requested");
        /// How often this node requested a pause. One pause is one request, however long the pause lasts.
        flow_control_sent: u64 = number("wsrep_flow_control_sent");
        /// How often any node, this one included, requested a pause.
        flow_control_recv: u64 = number("wsrep_flow_control_recv");
        /// For how long replication was paused by flow control, nanoseconds.
        flow_control_paused_ns: u64 = number("wsrep_flow_control_paused_ns");
        cert_failures: u64 = number("wsrep_local_cert_failures");
        /// Transactions of local clients aborted because they conflicted with a replicated transaction.
        bf_aborts: u64 = number("wsrep_local_bf_aborts");
        /// The oldest write set that this node could still send to a joining node (IST).
        cached_downto: u64 = seqno("wsrep_local_cached_downto");
        /// A gauge.
        cert_index_size: u64 = number("wsrep_cert_index_size");
        /// How many write sets could be applied in parallel, on average; a gauge.
        cert_deps_distance: f64 = decimal("wsrep_cert_deps_distance");
        /// A gauge.
        apply_window: f64 = decimal("wsrep_apply_window");
        /// A gauge.
        commit_window: f64 = decimal("wsrep_commit_window");
        /// A gauge.
        desync_count: u64 = number("wsrep_desync_count");
        /// The average, microseconds; a gauge.
        latency_us: f64 = latency_us("wsrep_evs_repl_latency");
    } and {}
}

/// Values reported by a server in asynchronous or semi-synchronous replication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ReplicationCounters)]
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
        Self::of(value)
    }

    /// Reads the values of a Galera node: [`NAMES`] and [`GALERA_NAMES`].
    pub fn read_galera<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let galera = Galera::of(&value);
        Self { galera: Some(galera), ..Self::of(value) }
    }
}

impl Galera {
    /// How many of the most recent write sets this node could send to a node that was away (IST).
    pub fn cached(&self) -> Option<u64> {
        Some((self.last_committed? + 1).saturating_sub(self.cached_downto?))
    }
}

/// The value with which a server reports that there is no sequence number yet (-1).
const NO_SEQNO: u64 = u64::MAX;

fn number<T: FromStr>([text]: [Option<&str>; 1]) -> Option<T> {
    text?.parse().ok()
}

fn sum(texts: [Option<&str>; 3]) -> Option<u64> {
    texts.into_iter().try_fold(0_u64, |sum, text| Some(sum.wrapping_add(number([text])?)))
}

fn seqno(text: [Option<&str>; 1]) -> Option<u64> {
    number(text).filter(|seqno| *seqno != NO_SEQNO)
}

fn decimal(text: [Option<&str>; 1]) -> Option<f64> {
    number(text).filter(|number: &f64| number.is_finite())
}

fn is_on([text]: [Option<&str>; 1]) -> Option<bool> {
    Some(matches!(text?.to_ascii_lowercase().as_str(), "true" | "on" | "1"))
}

fn is_primary([text]: [Option<&str>; 1]) -> Option<bool> {
    Some(text?.eq_ignore_ascii_case("Primary"))
}

/// The second field of `minimum/average/maximum/deviation/count`, in seconds.
fn latency_us([text]: [Option<&str>; 1]) -> Option<f64> {
    Some(decimal([text?.split('/').nth(1)])? * 1e6)
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

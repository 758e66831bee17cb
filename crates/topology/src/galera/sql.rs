//! The SQL for a member of a Galera cluster; the same for MariaDB and for Percona XtraDB Cluster.
//!
//! Only text: the manager sends it. Each answer is read by the variables' names and not by the position of rows, so a server without one of
//! them leaves it out.

/// The status variables that decide something.
macro_rules! decided {
    () => {
        "'wsrep_local_state','wsrep_local_state_comment','wsrep_cluster_status','wsrep_cluster_size','wsrep_cluster_conf_id',\
         'wsrep_cluster_state_uuid','wsrep_gcomm_uuid','wsrep_incoming_addresses','wsrep_local_index','wsrep_ready','wsrep_connected',\
         'wsrep_local_recv_queue','wsrep_last_committed','wsrep_flow_control_paused_ns','wsrep_flow_control_active',\
         'wsrep_flow_control_requested','Threads_connected'"
    };
}

/// Rows of name and value: the status half of what [`super::GaleraStatus`] holds. SHOW is answered by a node that is
/// not ready or rejects queries. 0.6 ms on MariaDB 10.11.
pub const STATUS: &str = concat!("SHOW GLOBAL STATUS WHERE Variable_name IN (", decided!(), ")");

/// The same, and the counters of which a sample is kept. They cost the server 0.07 ms of CPU beside the 0.21 ms that the others take
/// (MariaDB 10.11, 2000 questions each).
pub const STATUS_COUNTED: &str = concat!(
    "SHOW GLOBAL STATUS WHERE Variable_name IN (",
    decided!(),
    ",",
    counted!(),
    ",'wsrep_replicated','wsrep_replicated_bytes','wsrep_received','wsrep_received_bytes','wsrep_local_send_queue',\
     'wsrep_flow_control_sent','wsrep_flow_control_recv','wsrep_local_cert_failures','wsrep_local_bf_aborts','wsrep_local_cached_downto',\
     'wsrep_cert_index_size','wsrep_cert_deps_distance','wsrep_apply_window','wsrep_commit_window','wsrep_desync_count',\
     'wsrep_evs_repl_latency')"
);

/// Rows of name and value: the settings half. 0.5 ms on MariaDB 10.11.
pub const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_desync','wsrep_reject_queries',\
    'wsrep_sst_donor_rejects_queries','read_only','super_read_only','pxc_maint_mode','innodb_flush_log_at_trx_commit','autocommit','sql_mode')";

/// Makes the session's reads wait until the node has applied all that the group had ordered when the read came.
pub const WAIT_FOR_GROUP: &str = "SET SESSION wsrep_sync_wait = 15";

/// The read that waits, and what must hold afterwards: one row of read_only and wsrep_on. It touches no table (and so needs no
/// privilege); wsrep_causal_reads counts it all the same (measured on MariaDB 10.11.19: 0.3 ms when nothing is to be applied).
pub const BARRIER: &str = concat!("SELECT ", is_read_only!(), " AS read_only, @@GLOBAL.wsrep_on AS wsrep_on");

/// One row: the number of the group's view that the node is in.
pub const VIEW: &str = "SHOW GLOBAL STATUS LIKE 'wsrep\\_cluster\\_conf\\_id'";

/// One row: `host:port` of each member of the node's view.
pub const MEMBERS: &str = "SHOW GLOBAL STATUS LIKE 'wsrep\\_incoming\\_addresses'";

/// What [`BARRIER`] leaves open, asked after it: the node still is a synced member of the Primary component, and how far it has come.
pub const STILL_MEMBER: &str =
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready','wsrep_cluster_status','wsrep_last_committed')";

/// What [`super::question::Look`] holds. 0.6 ms.
pub const DELIVERED: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_received','wsrep_replicated','wsrep_local_recv_queue',\
    'wsrep_cluster_conf_id','wsrep_last_committed','wsrep_evs_repl_latency')";

/// Makes each causal read of the node send a message that every member must acknowledge; see [`super::question`]. While it is so, a
/// causal read takes 0.3 ms more (measured), and nothing else changes. The value before is that of [`CAUSAL_PERIOD`] among
/// [`PROVIDER_OPTIONS`].
pub const EACH_READ_ASKS: &str = "SET GLOBAL wsrep_provider_options = 'evs.causal_keepalive_period=PT0S'";

/// The option that [`EACH_READ_ASKS`] changes.
pub const CAUSAL_PERIOD: &str = "evs.causal_keepalive_period";

/// Which view the node is in, its gcomm UUID, and whether it is agreeing on the next view (wsrep_evs_state other than OPERATIONAL).
pub const VIEW_STATE: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_conf_id','wsrep_evs_state','wsrep_gcomm_uuid')";

/// Evicts a member from the group. Only letters, digits and dashes are taken for a uuid; `None` otherwise.
pub fn evict(gcomm_uuid: &str) -> Option<String> {
    let sane = !gcomm_uuid.is_empty()
        && gcomm_uuid.len() <= 64
        && gcomm_uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    sane.then(|| format!("SET GLOBAL wsrep_provider_options = 'evs.evict={gcomm_uuid}'"))
}

/// Sets `evs.join_retrans_period` to 0.1 s, the least that Galera takes: while the group agrees on its next view, the node sends its join message
/// again that often. Takes effect at once (the timer is restarted). The value before is that of [`JOIN_PERIOD`] among [`PROVIDER_OPTIONS`].
pub const FAST_JOIN_RETRANS: &str = "SET GLOBAL wsrep_provider_options = 'evs.join_retrans_period=PT0.1S'";

/// The option that [`FAST_JOIN_RETRANS`] changes.
pub const JOIN_PERIOD: &str = "evs.join_retrans_period";

/// The value that [`FAST_JOIN_RETRANS`] sets, as the node writes it.
pub const JOIN_PERIOD_MIN: &str = "PT0.1S";

/// One row, one column: `name = value; name = value; ...`, to be read with [`option`].
pub const PROVIDER_OPTIONS: &str = "SELECT @@GLOBAL.wsrep_provider_options";

/// The value of one of the provider's options.
pub fn option<'a>(options: &'a str, name: &str) -> Option<&'a str> {
    options
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(known, value)| (known.trim() == name).then(|| value.trim()))
}

/// Sets one of the provider's options that are lengths of time. `None` when `period` is no ISO 8601 duration.
pub fn set_period(name: &str, period: &str) -> Option<String> {
    let sane = period.starts_with('P')
        && period.len() <= 32
        && period.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    sane.then(|| format!("SET GLOBAL wsrep_provider_options = '{name}={period}'"))
}

/// Sets a limit for [`BOOTSTRAP`] in the same session. The server itself is to judge by its own clock: a statement that was sent may be read much
/// later, when the process was frozen, and by then somebody may have made another component Primary.
pub const BOOTSTRAP_LIMIT: &str = "SET @understudy_begin_by = UTC_TIMESTAMP(6) + INTERVAL 2 SECOND";

/// Makes the node's component Primary, or does nothing when [`BOOTSTRAP_LIMIT`] is over or was not set. Refused by a node that is in a Primary
/// component. Some option has to be set: gcs.fc_debug=0 is the default, and changes nothing. (pc.bootstrap=NO bootstraps, too: seen on galera-4.)
pub const BOOTSTRAP: &str = "SET GLOBAL wsrep_provider_options = IF(UTC_TIMESTAMP(6) <= @understudy_begin_by, 'pc.bootstrap=YES', 'gcs.fc_debug=0')";

/// The same for a person, who gives it at once.
pub const BOOTSTRAP_BY_HAND: &str = "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'";

/// What is looked at before and after [`BOOTSTRAP`].
pub const COMPONENT: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_status','wsrep_cluster_size','wsrep_gcomm_uuid')";

/// Sets wsrep_desync: the group does not wait for a member that falls behind. On MariaDB 10.11.19 it takes 13 ms on a member whose DDL is
/// stuck, and hangs once the group waits for that one.
pub fn desync(on: bool) -> String {
    format!("SET GLOBAL wsrep_desync = {}", if on { "ON" } else { "OFF" })
}

/// Clears a member's list of evicted ones. While a name is on the list (24 h, evs.view_forget_timeout), every later change of the
/// view waits a whole evs.suspect_timeout for it, and the evicted node itself, should it be alive, is kept out until it is
/// restarted. Measured on MariaDB 10.11.19, kill -9 and eviction: the second time 6.0 s with the first one's name still on
/// the list, as fast as the first when it was cleared; a frozen node that was evicted and forgotten is synced again 2 to 4 s
/// after it wakes, by itself.
pub const FORGET_EVICTED: &str = "SET GLOBAL wsrep_provider_options = 'evs.evict='";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_read_and_put_back() {
        let options = "evs.evict = ; evs.join_retrans_period = PT1S; gcache.size = 128M";
        assert_eq!(option(options, JOIN_PERIOD), Some("PT1S"));
        assert_eq!(option("evs.evict = ", JOIN_PERIOD), None);
        let sql = "SET GLOBAL wsrep_provider_options = 'evs.join_retrans_period=PT1S'";
        assert_eq!(set_period(JOIN_PERIOD, "PT1S").as_deref(), Some(sql));
        assert_eq!(set_period(JOIN_PERIOD, "PT1S'; DROP"), None);
    }

    #[test]
    fn only_a_uuid_is_put_in_the_statement() {
        assert!(evict("2f241b46-e5a4-11f1-a11d-0f8345a5169a").is_some());
        assert_eq!(evict("x'; DROP"), None);
        assert_eq!(evict(""), None);
    }
}

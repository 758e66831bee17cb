//! The my.cnf lines that replication requires: the same on each node, since any of them may become the primary.

use super::super::state::StageNode;

/// The lines.
///
/// - `read-only`, `skip-slave-start`: a server that comes back is not writable and does not replicate until an operator or manager decides.
/// - `relay-log-recovery = OFF`, the default, set explicitly because it matters: ON discards at the server's start what was received but not
///   yet applied, and with it transactions that were acknowledged as semi-synchronous. OFF keeps them until START SLAVE.
/// - `gtid-strict-mode`: sequence numbers only increase, so that errant transactions can be detected.
pub fn node_lines(node: &StageNode, semi_sync: bool) -> Vec<String> {
    let mut lines = vec![
        "# replication demands".to_owned(),
        format!("server-id = {}", node.number),
        "gtid-domain-id = 0".to_owned(),
        "gtid-strict-mode = ON".to_owned(),
        "log-bin = binlog".to_owned(),
        "binlog-format = ROW".to_owned(),
        "log-slave-updates = ON".to_owned(),
        "relay-log = relay".to_owned(),
        "relay-log-recovery = OFF".to_owned(),
        "read-only = ON".to_owned(),
        "skip-slave-start = ON".to_owned(),
        format!("report-host = {}", node.address.ip()),
        format!("report-port = {}", node.address.port()),
    ];
    if semi_sync {
        lines.extend(semi_sync_lines());
    }
    lines
}

/// Every node acknowledges from its start. Only the primary waits, which is set when it becomes one ([`PRIMARY_WAITS`]): on a
/// replica with `rpl_semi_sync_master_enabled` the applier waits for acknowledgements, which no server sends.
/// The time limit is an hour, because a primary that reaches it silently continues asynchronously.
///
/// `init-rpl-role = SLAVE` (since 10.11.9; `rpl_semi_sync_slave_enabled` did that before) makes a primary that crashed remove from its
/// binlog what InnoDB had only prepared, instead of committing it: it comes back as a replica that can replicate. That may be more than
/// what no replica acknowledged. A commit in InnoDB is not flushed at once, so the last second's transactions, acknowledged to their
/// clients, are lost on it, too (seen on 10.11.19), and its next writes would have their GTIDs: it must not be written again before
/// it has replicated from a replica.
fn semi_sync_lines() -> Vec<String> {
    [
        "rpl-semi-sync-slave-enabled = ON",
        "rpl-semi-sync-master-wait-point = AFTER_SYNC",
        "rpl-semi-sync-master-timeout = 3600000",
        "init-rpl-role = SLAVE",
    ]
    .map(str::to_owned)
    .into()
}

/// Makes a server wait for its replicas' acknowledgements; to be run before it becomes writable.
pub const PRIMARY_WAITS: &str = "SET GLOBAL rpl_semi_sync_master_enabled = ON";

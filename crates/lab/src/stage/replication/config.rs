//! The my.cnf lines that replication requires: the same on each node, since any of them may become the primary.

use super::super::product::Product;
use super::super::state::StageNode;

/// The lines.
///
/// - `read-only`, `skip-slave-start`: a server that comes back is not writable and does not replicate until an operator or manager decides.
///   MySQL's `super-read-only` is what a manager sets there.
/// - `relay-log-recovery = OFF`, the default, set explicitly because it matters: ON discards at the server's start what was received but not
///   yet applied, and with it transactions that were acknowledged as semi-synchronous. OFF keeps them until START SLAVE.
/// - `gtid-strict-mode`: sequence numbers only increase, so that errant transactions can be detected.
pub fn node_lines(node: &StageNode, semi_sync: bool) -> Vec<String> {
    let mut lines = vec![
        "# replication demands".to_owned(),
        format!("server-id = {}", node.number),
        format!("report-host = {}", node.address.ip()),
        format!("report-port = {}", node.address.port()),
    ];
    let of_product: &[&str] = match node.product {
        Product::MariaDb => &[
            "gtid-domain-id = 0",
            "gtid-strict-mode = ON",
            "binlog-format = ROW",
            "log-slave-updates = ON",
            "read-only = ON",
            "skip-slave-start = ON",
        ],
        Product::MySql => &[
            "gtid-mode = ON",
            "enforce-gtid-consistency = ON",
            "log-replica-updates = ON",
            "super-read-only = ON",
            "skip-replica-start = ON",
        ],
    };
    lines.extend(of_product.iter().map(ToString::to_string));
    lines.extend(["log-bin = binlog", "relay-log = relay", "relay-log-recovery = OFF"].map(str::to_owned));
    if semi_sync {
        lines.extend(semi_sync_lines(node.product).iter().map(ToString::to_string));
    }
    lines
}

/// Every node acknowledges from its start. Only the primary waits, which is set when it becomes one ([`super::dialect::Words::primary_waits`]): on a
/// replica with `rpl_semi_sync_master_enabled` the applier waits for acknowledgements, which no server sends.
/// The time limit is an hour, because a primary that reaches it silently continues asynchronously.
///
/// `init-rpl-role = SLAVE` (since 10.11.9; `rpl_semi_sync_slave_enabled` did that before) makes a primary that crashed remove from its
/// binlog what InnoDB had only prepared, instead of committing it: it comes back as a replica that can replicate. That may be more than
/// what no replica acknowledged. A commit in InnoDB is not flushed at once, so the last second's transactions, acknowledged to their
/// clients, are lost on it, too (seen on 10.11.19), and its next writes would have their GTIDs: it must not be written again before
/// it has replicated from a replica.
///
/// MySQL has it in two plugins; its primary that crashed commits what its binlog has.
fn semi_sync_lines(product: Product) -> &'static [&'static str] {
    match product {
        Product::MariaDb => &[
            "rpl-semi-sync-slave-enabled = ON",
            "rpl-semi-sync-master-wait-point = AFTER_SYNC",
            "rpl-semi-sync-master-timeout = 3600000",
            "init-rpl-role = SLAVE",
        ],
        Product::MySql => &[
            "plugin-load-add = semisync_source.so",
            "plugin-load-add = semisync_replica.so",
            "rpl-semi-sync-replica-enabled = ON",
            "rpl-semi-sync-source-wait-point = AFTER_SYNC",
            "rpl-semi-sync-source-timeout = 3600000",
        ],
    }
}

/// Lines of a template's my.cnf: no binlog is to begin with what is the same everywhere. It is MariaDB's default to have none.
pub fn template_lines(product: Product) -> Vec<String> {
    match product {
        Product::MariaDb => Vec::new(),
        Product::MySql => vec!["disable-log-bin".to_owned()],
    }
}

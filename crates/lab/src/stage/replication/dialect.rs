//! The words in which each product speaks of replication. Those of MySQL are of its Reference Manual, since 8.0.26, and are what 9.7 takes.

use super::super::StageNode;
use super::super::product::Product;
use super::account::{REPLICATION_PASSWORD, REPLICATION_USER};

/// One product's words.
#[derive(Debug)]
pub struct Words {
    /// Shows from whom a replica replicates.
    pub status: &'static str,
    /// Columns of that: the source's host; whether it receives; whether it applies; by how many seconds it is behind.
    pub columns: [&'static str; 4],
    /// The variable with all transactions that the server has executed, from any source.
    pub position: &'static str,
    /// Starts both threads.
    pub start: &'static str,
    /// Makes a server that waits for acknowledgements do so; to be run before it becomes writable. It is in effect only where
    /// replication is semi-synchronous.
    pub primary_waits: &'static str,
    /// Variables: whether it waits for acknowledgements as a primary; whether it acknowledges as a replica.
    pub semi_sync: [&'static str; 2],
    /// Status variables: whether it waits; how many replicas acknowledge to it; whether it acknowledges.
    pub semi_sync_status: [&'static str; 3],
}

const MARIADB: Words = Words {
    status: "SHOW SLAVE STATUS",
    columns: ["Master_Host", "Slave_IO_Running", "Slave_SQL_Running", "Seconds_Behind_Master"],
    position: "gtid_current_pos",
    start: "START SLAVE",
    primary_waits: "SET GLOBAL rpl_semi_sync_master_enabled = ON",
    semi_sync: ["rpl_semi_sync_master_enabled", "rpl_semi_sync_slave_enabled"],
    semi_sync_status: [
        "Rpl_semi_sync_master_status",
        "Rpl_semi_sync_master_clients",
        "Rpl_semi_sync_slave_status",
    ],
};

const MYSQL: Words = Words {
    status: "SHOW REPLICA STATUS",
    columns: ["Source_Host", "Replica_IO_Running", "Replica_SQL_Running", "Seconds_Behind_Source"],
    position: "gtid_executed",
    start: "START REPLICA",
    primary_waits: "SET GLOBAL rpl_semi_sync_source_enabled = ON",
    semi_sync: ["rpl_semi_sync_source_enabled", "rpl_semi_sync_replica_enabled"],
    semi_sync_status: [
        "Rpl_semi_sync_source_status",
        "Rpl_semi_sync_source_clients",
        "Rpl_semi_sync_replica_status",
    ],
};

/// The words of a product.
pub fn words(product: Product) -> &'static Words {
    match product {
        Product::MariaDb => &MARIADB,
        Product::MySql => &MYSQL,
    }
}

/// Makes a server replicate from `source` by GTID. The default retry interval of a minute would dominate the measured times, and so would MySQL's
/// half a minute between two heartbeats, by whose absence Understudy knows that a replica has lost its source. MySQL's replica asks for the source's public key, without which a login by caching_sha2_password fails on a connection without TLS.
pub fn follow(source: &StageNode) -> String {
    let (statement, of, rest) = match source.product {
        Product::MariaDb => ("CHANGE MASTER TO", "MASTER", "MASTER_USE_GTID = slave_pos"),
        Product::MySql => (
            "CHANGE REPLICATION SOURCE TO",
            "SOURCE",
            "SOURCE_AUTO_POSITION = 1, SOURCE_RETRY_COUNT = 86400, SOURCE_HEARTBEAT_PERIOD = 0.3, GET_SOURCE_PUBLIC_KEY = 1",
        ),
    };
    format!(
        "{statement} {of}_HOST = '{}', {of}_PORT = {}, {of}_USER = '{REPLICATION_USER}', \
         {of}_PASSWORD = '{REPLICATION_PASSWORD}', {rest}, {of}_CONNECT_RETRY = 1",
        source.address.ip(),
        source.address.port()
    )
}

/// Waits until `position` is applied, for at most so many seconds; one row with one value, `0` when it is.
pub fn wait_for(product: Product, position: &str, seconds: f64) -> String {
    match product {
        Product::MariaDb => format!("SELECT MASTER_GTID_WAIT('{position}', {seconds})"),
        Product::MySql => format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{position}', {seconds})"),
    }
}

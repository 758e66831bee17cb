//! The ledger: what the clients know about each transaction, to be compared with the rows on the nodes.
//!
//! Each transaction has its own key and inserts one row with that key. The table has no unique index over the key, so that a transaction
//! applied twice appears as two rows instead of as an error. An outcome that a client cannot know is recorded as unknown, never guessed.

use std::time::Duration;

/// The ledger's table. The surrogate key only provides the primary key that InnoDB and Galera need.
pub const LEDGER_DDL: &str = "CREATE TABLE IF NOT EXISTS ledger (\
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, \
    op BIGINT UNSIGNED NOT NULL, \
    client VARCHAR(16) NOT NULL, \
    attempt INT NOT NULL, \
    KEY op (op)) ENGINE=InnoDB";

/// The kinds of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// Never retries, like sysbench.
    Naive,
    /// Reconnects and repeats the transaction until it knows the outcome.
    Retrying,
    /// sysbench's stand-in: writes no row into the ledger, and ends with its first error; only what failed is in its history.
    #[value(skip)]
    Sysbench,
    /// Writes single rows and reads them back; not part of the load, so that no latency figure includes it.
    #[value(skip)]
    Probe,
}

impl Client {
    /// The name in the table and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Retrying => "retrying",
            Self::Sysbench => "sysbench",
            Self::Probe => "probe",
        }
    }
}

/// The outcome as far as the client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CommitResult {
    /// The server acknowledged the COMMIT.
    Ok,
    /// Certainly not committed: COMMIT was never sent, or the server itself reported a rollback.
    Failed,
    /// COMMIT was sent, but there was no response, or one that leaves the outcome open.
    Unknown,
}

/// An error as a client saw it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Trouble {
    /// Time since the start of the load.
    pub at: Duration,
    /// The server's error number, or a short name for a connection error.
    pub code: String,
    /// The statement that failed: `connect`, `begin`, `select`, `commit`, ...
    pub during: &'static str,
    /// The error message of the server or the system.
    pub message: String,
}

/// One transaction, from its due time to its outcome. All times are since the start of the load.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Op {
    /// The key in the ledger.
    pub id: u64,
    /// The client that ran it.
    pub client: Client,
    /// When it was to begin.
    pub due: Duration,
    /// When a thread took it from the queue.
    pub sent: Duration,
    /// When its outcome was known, or the client gave up.
    pub done: Duration,
    /// The outcome.
    pub outcome: CommitResult,
    /// Number of attempts.
    pub attempts: u32,
    /// All errors of its attempts.
    pub troubles: Vec<Trouble>,
}

impl Op {
    /// The time the application waited: from due, not from sent.
    pub fn latency(&self) -> Duration {
        self.done.saturating_sub(self.due)
    }
}

/// The content of a node: the keys of all its ledger rows of this run, duplicates included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRows {
    /// The node's name.
    pub node: String,
    /// One entry for each row.
    pub ops: Vec<u64>,
    /// A value that must be the same on every node (`CHECKSUM TABLE` of the load's tables).
    pub checksum: String,
}

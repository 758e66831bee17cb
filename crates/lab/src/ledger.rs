//! The ledger: what the clients know of each transaction, to be compared with the rows that the nodes have.
//!
//! Each transaction has a key of its own and inserts one row with that key inside itself. The table has no unique index over
//! the key, so that a transaction done twice shows as two rows instead of as an error. What a client cannot know is written
//! down as unknown, never guessed.

use std::time::Duration;

/// The ledger's table. The surrogate key only gives InnoDB and Galera a primary key.
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
    /// Never retries: what sysbench is.
    Naive,
    /// Reconnects and repeats the transaction until it knows what came of it.
    Retrying,
    /// Writes single rows and reads them back; no part of the load, so that no figure of time has it.
    #[value(skip)]
    Probe,
}

impl Client {
    /// As it stands in the table and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Retrying => "retrying",
            Self::Probe => "probe",
        }
    }
}

/// What the client knows at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CommitResult {
    /// The server acknowledged the COMMIT.
    Ok,
    /// Surely not committed: COMMIT was never sent, or the server itself said that it rolled back.
    Failed,
    /// COMMIT was sent and no answer, or an answer that does not say which, came back.
    Unknown,
}

/// An error as the client saw it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Trouble {
    /// Since the start of the load.
    pub at: Duration,
    /// The server's error number, or a short name of what happened to the connection.
    pub code: String,
    /// The statement that met it: `connect`, `begin`, `select`, `commit`, ...
    pub during: &'static str,
    /// The server's or the system's sentence.
    pub message: String,
}

/// One transaction, from due to known. All times since the start of the load.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Op {
    /// The key in the ledger.
    pub id: u64,
    /// Who did it.
    pub client: Client,
    /// When it was to begin.
    pub due: Duration,
    /// When a thread took it up.
    pub sent: Duration,
    /// When its outcome was known, or given up.
    pub done: Duration,
    /// What the client knows.
    pub outcome: CommitResult,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong on the way.
    pub troubles: Vec<Trouble>,
}

impl Op {
    /// What the application waited: from due, not from sent.
    pub fn latency(&self) -> Duration {
        self.done.saturating_sub(self.due)
    }
}

/// What a node holds: the keys of all its ledger rows of this run, doubles included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRows {
    /// The node's name.
    pub node: String,
    /// One entry a row.
    pub ops: Vec<u64>,
    /// Anything that must be the same on every node (`CHECKSUM TABLE` of the load's tables).
    pub checksum: String,
}

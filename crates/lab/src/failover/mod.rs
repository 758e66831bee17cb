//! Measures the seed's table: each way in which a node can fail, for each role of the node, through Understudy and, in the same run on the
//! same kind of cluster, through HAProxy; also through MHA, for a primary and its replicas.
//!
//! ```text
//!   stage (real nodes) ─┬─ writers one ─┬─ HAProxy ──── cells ── repetitions ─┐
//!                       │               └─ Understudy ─ cells ── repetitions ─┤──> Report ──> table, JSON, HTML
//!                       └─ writers all ─┴─ ...                                ┘
//!   repetition: load ── quiet phase ── fault ── after ── drain ── heal ── every node's ledger against the history
//! ```

pub mod case;
pub mod cell;
pub mod front;
pub mod haproxy;
pub mod http;
pub mod machine;
mod mha;
pub mod page;
pub mod plan;
pub mod progress;
pub(crate) mod rejoin;
pub mod result;
pub mod rolling;
pub mod run;
pub mod table;
pub mod understudy;
pub mod watch;

/// What generates the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Driver {
    /// The lab's own clients, naive and retrying.
    Builtin,
    /// The real sysbench in the seed's restart loop as the naive client; the retrying client is the lab's.
    Sysbench,
}

/// Proxies to compare with Understudy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Baseline {
    /// HAProxy with the seed's checks, 1 s x 3, each using the node's own `understudy check`
    Haproxy,
    /// HAProxy with fast checks that follow `understudy serve`: its agent check and its health endpoint
    HaproxyAgent,
    /// The real MHA (mha4mysql-manager), with HAProxy, which its scripts point at the master; --cluster replication
    Mha,
}

/// Tables of the load, and rows of each.
pub const TABLES: u32 = 4;
pub const ROWS: u32 = 10_000;

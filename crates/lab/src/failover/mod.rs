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
pub mod progress;
pub(crate) mod rejoin;
pub mod result;
pub mod rolling;
pub mod run;
pub mod table;
pub mod understudy;
pub mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use self::case::{Case, Scope};
use self::front::External;
use self::progress::Progress;
use self::understudy::Knobs;
use crate::load::arrivals::Arrivals;
use crate::load::second::Tell;
use crate::load::session::Protocol;
use crate::stage::ClusterKind;

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

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct FailoverPlan {
    /// The kind of cluster.
    pub cluster: ClusterKind,
    /// Rows of the table.
    pub cases: Vec<Case>,
    /// Columns of the table.
    pub scopes: Vec<Scope>,
    /// Repetitions of each cell.
    pub repetitions: u32,
    /// Repetitions of each cell of a baseline.
    pub baseline_repetitions: u32,
    /// Transactions a second of each client.
    pub rate: f64,
    /// Threads of each client.
    pub threads: u32,
    /// How transactions arrive.
    pub arrivals: Arrivals,
    /// Text or prepared statements.
    pub protocol: Protocol,
    /// What generates the load.
    pub driver: Driver,
    /// Tables of the load.
    pub tables: u32,
    /// Rows of each table.
    pub rows: u32,
    /// Length of the quiet phase, s.
    pub warm_s: f64,
    /// Observation time from the fault on, s; `None`: 8 for faults that reset or refuse connections, 16 for silent ones.
    pub after_s: Option<f64>,
    /// The same seed gives the same load.
    pub seed: u64,
    /// Print sysbench's lines.
    pub print_seconds: bool,
    /// Understudy's settings.
    pub knobs: Knobs,
    /// Whether each cell gets a fresh cluster, not only each proxy.
    pub fresh_cells: bool,
    /// Whether to measure Understudy.
    pub understudy: bool,
    /// Baselines to measure too.
    pub baselines: Vec<Baseline>,
    /// An external proxy to measure instead of Understudy.
    pub through: Option<External>,
    /// Galera options of the stage, for the report.
    pub galera_options: String,
    /// Directory for configurations, logs and state of the proxies.
    pub dir: PathBuf,
}

impl FailoverPlan {
    /// How long a repetition is observed from the fault on, s.
    pub fn after_s(&self, case: Case) -> f64 {
        self.after_s.unwrap_or(match case {
            Case::Graceful | Case::SemiGraceful | Case::NonGraceful => 8.0,
            Case::Freeze | Case::Vanish => 16.0,
        })
    }

    fn tell(&self, progress: &Progress) -> Option<Tell> {
        let progress = progress.clone();
        self.print_seconds.then(|| Arc::new(move |line: &str| progress.line(line)) as Tell)
    }

    /// Number of steps of the progress bar.
    pub fn steps(&self) -> u64 {
        let ours = if self.understudy || self.through.is_some() { self.repetitions } else { 0 };
        let theirs = u64::from(self.baseline_repetitions) * self.baselines.len() as u64;
        self.cases.len() as u64 * self.scopes.len() as u64 * (u64::from(ours) + theirs)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// All cells through Understudy, once.
    pub fn plan() -> FailoverPlan {
        FailoverPlan {
            cluster: ClusterKind::Galera,
            cases: Case::ALL.to_vec(),
            scopes: Scope::ALL.to_vec(),
            repetitions: 1,
            baseline_repetitions: 1,
            rate: 30.0,
            threads: 4,
            arrivals: Arrivals::Poisson,
            protocol: Protocol::Prepared,
            driver: Driver::Builtin,
            tables: 4,
            rows: 10_000,
            warm_s: 5.0,
            after_s: None,
            seed: 1,
            print_seconds: false,
            knobs: Knobs::default(),
            fresh_cells: false,
            understudy: true,
            baselines: Vec::new(),
            through: None,
            galera_options: String::new(),
            dir: PathBuf::new(),
        }
    }

    #[test]
    fn silent_faults_are_watched_longer_and_the_bar_counts_all_proxies() {
        let plan = FailoverPlan { baselines: vec![Baseline::Haproxy], repetitions: 3, ..plan() };
        assert!(plan.after_s(Case::Vanish) > plan.after_s(Case::NonGraceful));
        assert_eq!(plan.steps(), 5 * 3 * (3 + 1));
    }
}

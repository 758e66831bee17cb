//! The load of the seed article, open loop, against any server that speaks the MySQL protocol.
//!
//! ```text
//!   arrivals ──due──> queue ──> threads (naive)    ──> session ──> the service under test
//!   arrivals ──due──> queue ──> threads (retrying) ──> session ──>
//!                                  └──> history of Op (due, sent, done, outcome)      probe: writes, reads it back
//!                                                                                     pinned: sessions that cannot move
//! ```
//!
//! Transactions are due whether or not earlier ones have ended; they queue while the threads are busy, and latency counts
//! from the due time. All later figures are computed from the history, nothing is sampled.

pub mod arrivals;
pub mod client;
pub mod paced;
pub mod pinned;
pub mod prepare;
pub mod probe;
pub mod second;
pub mod session;
pub mod stage;
pub mod sysbench;
pub mod transaction;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::arrivals::Arrivals;
use self::client::{Pool, Setting};
use self::pinned::{Pinned, PinnedReport};
use self::probe::ProbeReport;
use self::session::{LoadSession, Protocol, Target};
use self::stage::Stage;
use crate::ledger::{Client, Op};

/// One kind of client with its threads and rate.
#[derive(Clone, Copy, Debug)]
pub struct ClientPlan {
    /// The kind of client.
    pub client: Client,
    /// Worker threads, each with one connection.
    pub threads: u32,
    /// Transactions a second.
    pub rate: f64,
}

/// The parameters of a load.
#[derive(Clone)]
pub struct LoadPlan {
    /// Where to connect.
    pub target: Target,
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// How transactions arrive.
    pub arrivals: Arrivals,
    /// Text or prepared statements.
    pub protocol: Protocol,
    /// Tables of the load.
    pub tables: u32,
    /// Rows of each table.
    pub rows: u32,
    /// The same seed gives the same load.
    pub seed: u64,
    /// The first ledger key; keys go up from here and must be new.
    pub op_first: u64,
    /// How long a transaction may take before its client gives up.
    pub patience: Duration,
    /// If given, the probe that reads its own writes runs; the value is its first ledger key, above all keys that the clients will use.
    pub probe: Option<u64>,
    /// Number of sessions that cannot move, besides the clients.
    pub pinned: u32,
    /// Receives sysbench's lines, two a second for each client; `None`: no lines.
    pub tell: Option<second::Tell>,
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct Run {
    /// Every transaction that was due, by ledger key.
    pub ops: Vec<Op>,
    /// The probe's report, if it ran.
    pub probe: Option<ProbeReport>,
    /// The report on the sessions that cannot move, if there were any.
    pub pinned: Option<PinnedReport>,
    /// When arrivals ended, since time zero.
    pub arrivals_ended: Duration,
}

/// A running load. Dropping it stops it at once.
pub struct Load {
    began: Instant,
    pools: Vec<Arc<Pool>>,
    tasks: JoinSet<()>,
    probe: Option<tokio::task::JoinHandle<ProbeReport>>,
    pinned: Option<tokio::task::JoinHandle<PinnedReport>>,
    stop: watch::Sender<Stage>,
    failed: Arc<Notify>,
}

impl Load {
    /// Opens every connection first (an error here is a configuration error), then starts the clock.
    pub async fn start(plan: LoadPlan) -> anyhow::Result<Self> {
        let lanes = plan.clients.iter().map(|c| c.threads).sum::<u32>().max(1);
        let mut sessions = Vec::new();
        for _ in 0..lanes {
            let session =
                LoadSession::connect(&plan.target, plan.protocol, plan.tables, Duration::from_secs(20));
            sessions.push(session.await.with_context(|| {
                let Target { host, port, user, .. } = &plan.target;
                format!("cannot log in to {host}:{port} as {user} and prepare the load's statements")
            })?);
        }
        let probe = match plan.probe {
            Some(first) => {
                Some(probe::Probe::connect(&plan.target, first).await.context("the probe cannot begin")?)
            }
            None => None,
        };
        let pinned = match plan.pinned {
            0 => None,
            count => {
                let connected = Pinned::connect(&plan.target, count).await;
                Some(connected.context("the sessions that cannot move cannot begin")?)
            }
        };

        let (stop, signal) = watch::channel(Stage::Running);
        let failed = Arc::new(Notify::new());
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        let mut pools = Vec::new();
        let mut lane = 0;
        for (index, who) in plan.clients.iter().enumerate() {
            let pool = Arc::new(Pool::new(Setting {
                client: who.client,
                threads: who.threads,
                target: plan.target.clone(),
                protocol: plan.protocol,
                tables: plan.tables,
                rows: plan.rows,
                lanes,
                patience: plan.patience,
                op_first: plan.op_first + index as u64,
                op_step: plan.clients.len() as u64,
                began,
                failed: Arc::clone(&failed),
            }));
            // Far from the seeds of the threads and of the next repetition, which differ from `seed` by small numbers.
            let schedule =
                arrivals::Schedule::new(plan.arrivals, who.rate, plan.seed ^ ((index as u64 + 1) << 56));
            tasks.spawn(Arc::clone(&pool).generate(schedule, signal.clone()));
            for session in sessions.drain(..who.threads as usize) {
                let seed = plan.seed ^ (u64::from(lane) << 32);
                tasks.spawn(Arc::clone(&pool).work(lane, session, seed, signal.clone()));
                lane += 1;
            }
            if let Some(tell) = &plan.tell {
                tasks.spawn(second::report_each(Arc::clone(&pool), Arc::clone(tell), signal.clone()));
            }
            pools.push(pool);
        }
        let probe = probe.map(|probe| tokio::spawn(probe.run(began, signal.clone())));
        let pinned = pinned.map(|pinned| tokio::spawn(pinned.run(began, signal.clone())));
        Ok(Self { began, pools, tasks, probe, pinned, stop, failed })
    }

    /// Time zero of every `Duration` in the history.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Transactions acknowledged so far, by all clients.
    pub fn acknowledged(&self) -> u64 {
        self.pools.iter().map(|pool| pool.acknowledged()).sum()
    }

    /// Transactions of `client` that failed so far.
    pub fn errors(&self, client: Client) -> u64 {
        self.pools.iter().filter(|pool| pool.client() == client).map(|pool| pool.errors()).sum()
    }

    /// Completes when a transaction has failed, also when one failed before.
    pub async fn failed(&self) {
        self.failed.notified().await;
    }

    /// Stops new arrivals; waits at most `drain` for the due ones, then gives up the rest (outcome unknown or failed).
    pub async fn stop(mut self, drain: Duration) -> Run {
        let arrivals_ended = self.began.elapsed();
        let _ = self.stop.send(Stage::Draining);
        let deadline = Instant::now() + drain;
        let all_done = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout_at(deadline, all_done).await.is_err() {
            let _ = self.stop.send(Stage::Ended);
            while self.tasks.join_next().await.is_some() {}
        }
        let mut probe = self.probe.take();
        // The probe ends its round by itself; aborting it in the middle would make the outcome of its last write unknown for no reason.
        let mut seen = match &mut probe {
            Some(task) => tokio::time::timeout_at(deadline, task).await.ok(),
            None => None,
        };
        let _ = self.stop.send(Stage::Ended);
        if let (None, Some(task)) = (&seen, probe) {
            seen = Some(task.await);
        }
        let probe = seen.and_then(Result::ok);
        let pinned = match self.pinned.take() {
            Some(task) => task.await.ok(),
            None => None,
        };
        let mut ops: Vec<Op> = self.pools.iter().flat_map(|pool| pool.take_history()).collect();
        ops.sort_by_key(|op| op.id);
        Run { ops, probe, pinned, arrivals_ended }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(task) = &self.probe {
            task.abort();
        }
        if let Some(task) = &self.pinned {
            task.abort();
        }
    }
}

//! The clients: a queue of due transactions and the threads that process it.
//!
//! The rules:
//!
//! - `naive` never retries. An error ends its transaction, as failed or unknown, and its connection; the thread opens a new connection
//!   for the next transaction, once; if that fails, that transaction has failed too. Each transaction ended so is one error.
//!   (sysbench would exit and be restarted by the shell; here each thread does so for itself.)
//! - `retrying` repeats the whole transaction under the same ledger key, with a growing pause, on a new connection unless the
//!   server itself reported a rollback, until it knows the outcome or its time limit ends. When a COMMIT got no clear response, it first
//!   checks whether the ledger has its key, as a careful application would.
//! - `sysbench` does as sysbench itself: it repeats a transaction after the errors that sysbench ignores by default, at once and on
//!   the same connection; any other error is for the load's owner, who ends the load. It leaves nothing in the ledger, and its history has
//!   only what failed, so that it can run without end.
//! - All wait at most `patience` for one transaction; a thread has one transaction at a time.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql_async::Error;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::arrivals::Schedule;
use super::session::{self, LoadSession, Phase, Protocol, Target, Watch};
use super::stage::{Stage, reached};
use super::transaction::{Class, Deal, Shape, Transaction};
use crate::ledger::{Client, CommitResult, Op, Trouble};

/// Limit of the queue, as in sysbench 0.5; one more transaction is rejected and counted as failed.
const QUEUE_MAX: usize = 100_000;
/// First and longest pause between two attempts of the retrying client.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Errors after which sysbench repeats a transaction, by default: 1213 deadlock, 1020 row changed, 1205 lock wait timeout.
const IGNORED_BY_SYSBENCH: [&str; 3] = ["1213", "1020", "1205"];

/// Settings of a pool.
pub(super) struct Setting {
    pub client: Client,
    pub threads: u32,
    pub target: Target,
    pub protocol: Protocol,
    pub tables: u32,
    pub rows: u32,
    pub lanes: u32,
    pub patience: Duration,
    pub op_first: u64,
    pub op_step: u64,
    pub began: Instant,
    /// Told when a transaction has failed, or its outcome is unknown.
    pub failed: Arc<Notify>,
}

/// Counters since the start; `queue` and `running` are current values.
#[derive(Default)]
pub(super) struct Counters {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub ok: AtomicU64,
    pub errors: AtomicU64,
    pub queue: AtomicI64,
    pub running: AtomicI64,
}

struct Job {
    id: u64,
    due: Duration,
}

/// One kind of client: its queue, its counters, its history.
pub(super) struct Pool {
    set: Setting,
    pub counters: Counters,
    /// Response times in microseconds since the last report, which clears them.
    pub response_us: Mutex<Vec<u64>>,
    sender: Mutex<Option<mpsc::Sender<Job>>>,
    queue: tokio::sync::Mutex<mpsc::Receiver<Job>>,
    history: Mutex<Vec<Op>>,
}

impl Pool {
    pub fn new(set: Setting) -> Self {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        Self {
            set,
            counters: Counters::default(),
            response_us: Mutex::new(Vec::new()),
            sender: Mutex::new(Some(sender)),
            queue: tokio::sync::Mutex::new(queue),
            history: Mutex::new(Vec::new()),
        }
    }

    pub fn client(&self) -> Client {
        self.set.client
    }

    pub fn threads(&self) -> u32 {
        self.set.threads
    }

    pub fn began(&self) -> Instant {
        self.set.began
    }

    pub fn acknowledged(&self) -> u64 {
        self.counters.ok.load(Relaxed)
    }

    pub fn errors(&self) -> u64 {
        self.counters.errors.load(Relaxed)
    }

    /// Queues transactions when they are due, until the load drains.
    pub async fn generate(self: Arc<Self>, schedule: Schedule, mut signal: watch::Receiver<Stage>) {
        let Some(sender) = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        for (index, due) in schedule.enumerate() {
            tokio::select! {
                biased;
                () = reached(&mut signal, Stage::Draining) => return,
                () = tokio::time::sleep_until(self.set.began + due) => {}
            }
            let job = Job { id: self.set.op_first + index as u64 * self.set.op_step, due };
            self.counters.queue.fetch_add(1, Relaxed);
            if let Err(refused) = sender.try_send(job) {
                self.counters.queue.fetch_sub(1, Relaxed);
                self.never_sent(&refused.into_inner(), "queue-full");
            }
        }
    }

    /// One thread: takes the next due transaction, runs it, and records its outcome.
    pub async fn work(
        self: Arc<Self>,
        lane: u32,
        session: LoadSession,
        seed: u64,
        mut signal: watch::Receiver<Stage>,
    ) {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut session = Some(session);
        loop {
            let job = tokio::select! {
                biased;
                () = reached(&mut signal, Stage::Ended) => break,
                job = async { self.queue.lock().await.recv().await } => job,
            };
            let Some(job) = job else { break };
            self.counters.queue.fetch_sub(1, Relaxed);
            self.counters.running.fetch_add(1, Relaxed);
            let deal = Deal { tables: self.set.tables, rows: self.set.rows, lane, lanes: self.set.lanes };
            let mut draft = Draft::new(&self, job);
            tokio::select! {
                biased;
                () = reached(&mut signal, Stage::Ended) => {
                    session = None;
                    draft.give_up("the load ended");
                }
                () = draft.perform(&mut session, &mut rng, deal) => {}
            }
            self.write_down(draft.op);
            self.counters.running.fetch_sub(1, Relaxed);
        }
        if let Some(session) = session {
            session.close().await;
        }
    }

    fn write_down(&self, mut op: Op) {
        op.done = self.set.began.elapsed();
        match op.outcome {
            CommitResult::Ok => {
                self.counters.ok.fetch_add(1, Relaxed);
                let us = op.latency().as_micros() as u64;
                self.response_us.lock().unwrap_or_else(PoisonError::into_inner).push(us);
                if self.set.client != Client::Sysbench {
                    self.keep(op);
                }
            }
            CommitResult::Failed | CommitResult::Unknown => {
                self.counters.errors.fetch_add(1, Relaxed);
                self.keep(op);
                self.set.failed.notify_one();
            }
        }
    }

    fn keep(&self, op: Op) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(op);
    }

    fn never_sent(&self, job: &Job, code: &str) {
        let at = self.set.began.elapsed();
        let trouble = Trouble {
            at,
            code: code.into(),
            during: "queue",
            message: "no thread took it up before the load ended, or the queue was full".into(),
        };
        let (id, client, due) = (job.id, self.set.client, job.due);
        let (outcome, troubles) = (CommitResult::Failed, vec![trouble]);
        self.write_down(Op { id, client, due, sent: at, done: at, outcome, attempts: 0, troubles });
    }

    /// The history so far; transactions still in the queue are recorded as never sent. For the end of the load.
    pub fn take_history(&self) -> Vec<Op> {
        if let Ok(mut queue) = self.queue.try_lock() {
            while let Ok(job) = queue.try_recv() {
                self.never_sent(&job, "never-sent");
            }
        }
        std::mem::take(&mut self.history.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A transaction in progress: its state is known at any time, also when its future is dropped.
struct Draft<'a> {
    pool: &'a Pool,
    op: Op,
    phase: Phase,
    during: &'static str,
    /// A COMMIT of this transaction, in any attempt, got no clear response.
    maybe_landed: bool,
}

impl Watch for Draft<'_> {
    fn sending(&mut self, shape: Shape) {
        self.during = shape.name();
        if shape == Shape::Commit {
            self.phase = Phase::Committing;
        }
    }

    fn answered(&mut self, shape: Shape) {
        match shape.class() {
            Class::Read => self.pool.counters.reads.fetch_add(1, Relaxed),
            Class::Write => self.pool.counters.writes.fetch_add(1, Relaxed),
            Class::Other | Class::Ledger => 0,
        };
    }
}

impl<'a> Draft<'a> {
    fn new(pool: &'a Pool, job: Job) -> Self {
        let sent = pool.set.began.elapsed();
        let Job { id, due } = job;
        let client = pool.set.client;
        let op = Op {
            id,
            client,
            due,
            sent,
            done: sent,
            outcome: CommitResult::Failed,
            attempts: 0,
            troubles: vec![],
        };
        Self { pool, op, phase: Phase::Open, during: "connect", maybe_landed: false }
    }

    async fn perform(&mut self, session: &mut Option<LoadSession>, rng: &mut StdRng, deal: Deal) {
        let deadline = Instant::now() + self.pool.set.patience;
        let mut pause = PAUSE.0;
        loop {
            self.op.attempts += 1;
            let left = deadline.saturating_duration_since(Instant::now());
            let tried = tokio::time::timeout(left, self.attempt(session, rng, deal, left)).await;
            let error = match tried {
                Ok(Ok(())) => {
                    self.op.outcome = CommitResult::Ok;
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => session::timed_out(self.pool.set.patience),
            };
            if self.is_ignored(&error) {
                continue;
            }
            let rolled_back = self.note(&error);
            let gives_up = self.pool.set.client != Client::Retrying;
            if gives_up || !rolled_back {
                *session = None;
            }
            if gives_up || Instant::now() + pause >= deadline {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// One attempt, from connection to COMMIT.
    async fn attempt(
        &mut self,
        session: &mut Option<LoadSession>,
        rng: &mut StdRng,
        deal: Deal,
        left: Duration,
    ) -> Result<(), Error> {
        (self.phase, self.during) = (Phase::Open, "connect");
        let set = &self.pool.set;
        let open = match session {
            Some(open) => open,
            None => session.insert(LoadSession::connect(&set.target, set.protocol, set.tables, left).await?),
        };
        if self.maybe_landed {
            self.during = "look";
            if open.ledger_holds(self.op.id).await? {
                return Ok(());
            }
        }
        let mut transaction = Transaction::draw(rng, deal, self.op.id, set.client.name(), self.op.attempts);
        if set.client == Client::Sysbench {
            transaction.steps.retain(|step| step.shape != Shape::Ledger);
            if self.op.attempts > 1 {
                open.roll_back().await?;
            }
        }
        open.run(&transaction, self).await
    }

    /// Whether sysbench would repeat the transaction. The next attempt rolls it back: 1205 leaves it open.
    fn is_ignored(&self, error: &Error) -> bool {
        let (code, ..) = session::tell(error);
        self.pool.set.client == Client::Sysbench && IGNORED_BY_SYSBENCH.contains(&code.as_str())
    }

    /// Records an error and updates the outcome. Returns true when the server itself reported a rollback.
    fn note(&mut self, error: &Error) -> bool {
        let (code, state, message) = session::tell(error);
        let at = self.pool.set.began.elapsed();
        self.op.troubles.push(Trouble { at, code, during: self.during, message });
        self.maybe_landed |= session::outcome_of(self.phase, state.as_deref()) == CommitResult::Unknown;
        self.op.outcome = if self.maybe_landed { CommitResult::Unknown } else { CommitResult::Failed };
        state.is_some_and(|state| state.starts_with("40") && state != "40003")
    }

    /// Records that the future was dropped before the transaction ended.
    fn give_up(&mut self, why: &str) {
        let at = self.pool.set.began.elapsed();
        let trouble = Trouble { at, code: "given-up".into(), during: self.during, message: why.into() };
        self.op.troubles.push(trouble);
        self.maybe_landed |= self.phase == Phase::Committing;
        self.op.outcome = if self.maybe_landed { CommitResult::Unknown } else { CommitResult::Failed };
    }
}

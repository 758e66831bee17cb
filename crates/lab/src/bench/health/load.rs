//! The load generator: one thread with a tokio runtime of its own, one task for each transaction or thread, any number of connections.
//!
//! ```text
//!   closed loop: a thread's next transaction begins when its last one has ended   (multi-mechanize; threads start one by one)
//!   open loop:   transactions are due by a schedule; one that finds no free connection waits, and the wait counts as response time
//!   bursts:      an open loop in which all connections are due at once; all are established before the first request is sent
//! ```
//!
//! In the closed loop no time of a thread is lost in the generator: its response times count from when the thread became free. Thus as
//! many requests are in flight as there are threads; the number that really were is measured.
//!
//! A run is divided into turns, so that several servers can alternate on one machine. The run's clock stops between its turns: `elapsed`
//! counts only the run's own time. A turn ends when its last transaction has ended.
//!
//! Invariant: every transaction that began ends in exactly one [`AnswerClass`].

mod exchange;
mod plan;
mod schedule;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub use self::plan::{Mode, Plan};

use self::exchange::{Slot, connect};
use super::answer::{AnswerClass, Expect};
use super::record::Record;
use crate::load::arrivals::Schedule;

/// The threads of a turn restart spread over this time, so that they do not all begin at once.
const RESUME: Duration = Duration::from_millis(100);
/// A burst opens one connection after the other while each is established within this; those after the first that is not, all at once.
const CONNECT_PATIENCE: Duration = Duration::from_millis(50);

/// The thread on which all loads run. It ends when this is dropped.
pub struct Generator {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl Generator {
    /// Starts the thread, on processor `core` if one is given.
    pub async fn start(core: Option<usize>) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("no runtime")?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name("lab-load".into()).spawn(move || {
            // The sender is dropped, which is the end.
            let _ = runtime.block_on(ended);
        })?;
        let this = Self { handle, _end: end };
        this.run(async move { pin(core) }).await??;
        Ok(this)
    }

    /// Runs `work` there; dropping the future that this returns ends the work.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let mut tasks = JoinSet::new();
        tasks.spawn_on(work, &self.handle);
        let done = tasks.join_next().await.context("the load generator has nothing to do")?;
        done.context("the load generator broke off")
    }
}

fn pin(core: Option<usize>) -> anyhow::Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("cannot move to processor {core}"))
}

/// Cost of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// Its length.
    pub took: Duration,
    /// Processor time that the generator used.
    pub cpu: Duration,
}

/// How many requests were in flight: from connect (or from the request on a keep-alive connection) until the response was read. For
/// bursts: how many of a burst's connections were established at once, before the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Flight {
    /// Average over the run's time; for bursts: over the bursts.
    pub average: f64,
    /// Maximum.
    pub most: u32,
}

/// What a run has counted so far.
pub struct Tally {
    /// Response times, outcomes and rows.
    pub record: Record,
    /// Keep-alive connections that the server closed and the generator reopened.
    pub reconnects: u64,
    /// The generator's own maximum delay: from when a transaction was due until the loop noticed it (open loop) or began it (bursts).
    pub late_max: Duration,
    /// Transactions that began and have no outcome yet, and their maximum.
    in_flight: u32,
    in_flight_most: u32,
    /// The sum of all transactions' times in flight.
    flown: Duration,
    /// Bursts: how many there were, the connections that stood when the first request was due, and the maximum for one burst.
    bursts: u32,
    stood: u64,
    stood_most: u32,
}

/// What the transactions of a run share.
struct Shared {
    plan: Plan,
    address: SocketAddr,
    expect: Expect,
    request: Vec<u8>,
    timeout: Duration,
    tally: Mutex<Tally>,
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        // A panic elsewhere can leave nothing worse than counts that are not up to date.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The run's time: that before this turn, and since the turn's start.
#[derive(Clone, Copy)]
struct Clock {
    base: Duration,
    began: Instant,
}

impl Clock {
    fn now(self) -> Duration {
        self.base + self.began.elapsed()
    }

    fn until(self, at: Duration) -> Duration {
        at.saturating_sub(self.now())
    }
}

/// A load in progress.
pub struct Load {
    shared: Arc<Shared>,
    /// All connections between two turns; during a turn those without a transaction.
    free: VecDeque<Slot>,
    elapsed: Duration,
    turns: u64,
}

impl Load {
    /// Prepares the load; does not connect yet.
    pub fn new(plan: Plan, address: SocketAddr, expect: Expect, record: Record) -> Self {
        let connection = if plan.keep { "keep-alive" } else { "close" };
        // The header lines that mechanize sent.
        let request = format!(
            "GET / HTTP/1.1\r\nAccept-Encoding: identity\r\nHost: {address}\r\nConnection: {connection}\r\n\
             User-Agent: Python-urllib/2.7\r\n\r\n"
        );
        let tally = Tally {
            record,
            reconnects: 0,
            late_max: Duration::ZERO,
            in_flight: 0,
            in_flight_most: 0,
            flown: Duration::ZERO,
            bursts: 0,
            stood: 0,
            stood_most: 0,
        };
        Self {
            free: (0..plan.slots()).map(Slot::new).collect(),
            shared: Arc::new(Shared {
                timeout: Duration::from_secs_f64(plan.timeout_s),
                plan,
                address,
                expect,
                request: request.into_bytes(),
                tally: Mutex::new(tally),
            }),
            elapsed: Duration::ZERO,
            turns: 0,
        }
    }

    /// The run's time: the sum of its turns.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The number of requests in flight, over all turns so far.
    pub fn flight(&self) -> Flight {
        let tally = self.shared.tally();
        match self.shared.plan.mode {
            Mode::Bursts { .. } => Flight {
                average: tally.stood as f64 / f64::from(tally.bursts.max(1)),
                most: tally.stood_most,
            },
            Mode::Closed { .. } | Mode::Open { .. } => Flight {
                average: tally.flown.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9),
                most: tally.in_flight_most,
            },
        }
    }

    /// Connections open now.
    pub fn connected(&self) -> u32 {
        self.free.iter().filter(|slot| slot.is_connected()).count() as u32
    }

    /// What was counted; `None` while a turn runs.
    pub fn into_tally(self) -> Option<Tally> {
        let shared = Arc::into_inner(self.shared)?;
        Some(shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drives the load for `length`, and returns when the last transaction has ended. To be run by a [`Generator`].
    ///
    /// # Errors
    /// When the system has no thread for the schedule; a failure of the server is an outcome, not an error.
    pub async fn turn(mut self, length: Duration) -> anyhow::Result<(Self, Turn)> {
        let cpu = thread_cpu();
        let clock = Clock { base: self.elapsed, began: Instant::now() };
        match self.shared.plan.mode {
            Mode::Closed { rampup_s } => self.closed(clock, length, rampup_s).await?,
            Mode::Open { rate, arrivals } => {
                // Another seed in each turn, or each would have the same arrivals.
                self.open(clock, length, Schedule::new(arrivals, rate, 1 + self.turns)).await?;
            }
            Mode::Bursts { every_s } => {
                self.bursts(clock, length, Duration::from_secs_f64(every_s)).await?;
            }
        }
        // The last that was due may have ended before: the rest of the turn is the run's time, too.
        sleep(clock.until(clock.base + length)).await;
        self.turns += 1;
        let took = clock.began.elapsed();
        self.elapsed += took;
        Ok((self, Turn { took, cpu: thread_cpu().saturating_sub(cpu) }))
    }

    /// Each thread runs one transaction after the other.
    async fn closed(&mut self, clock: Clock, length: Duration, rampup_s: f64) -> anyhow::Result<()> {
        let (slots, threads) = (self.shared.plan.slots(), u32::from(self.shared.plan.threads));
        let end = clock.base + length;
        let mut running = JoinSet::new();
        for mut slot in self.free.drain(..) {
            let place = f64::from(slot.number % threads) / f64::from(threads);
            let first = Duration::from_secs_f64(rampup_s * place);
            let start = first.max(clock.base + RESUME * slot.number / slots);
            let shared = Arc::clone(&self.shared);
            running.spawn(async move {
                sleep(clock.until(start)).await;
                slot.freed = clock.now();
                while slot.freed < end {
                    let due = slot.freed;
                    slot = slot.transaction(&shared, clock, due).await;
                    if !slot.is_answered {
                        // A refusal is waited for by nobody: without this, the others would never have their turn.
                        tokio::task::yield_now().await;
                    }
                }
                slot
            });
        }
        while let Some(slot) = running.join_next().await {
            self.free.push_back(slot?);
        }
        Ok(())
    }

    /// Transactions begin when they are due, on a free connection or on the next that becomes free.
    async fn open(&mut self, clock: Clock, length: Duration, schedule: Schedule) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        // Until then no connection was free: what was due before has waited for the server, and not for the generator.
        let mut held_until = Duration::ZERO;
        let times = schedule.take_while(move |at| *at < length).map(move |at| clock.base + at);
        let mut dues = schedule::due(times, clock)?;
        while let Some(due) = dues.recv().await {
            let now = clock.now();
            {
                let mut tally = self.shared.tally();
                tally.late_max = tally.late_max.max(now.saturating_sub(due.max(held_until)));
            }
            self.gather(&mut running)?;
            if self.free.is_empty() {
                self.gather_one(&mut running).await?;
                held_until = clock.now();
            }
            self.begin(&mut running, clock, due);
        }
        self.gather_all(&mut running).await
    }

    /// At fixed intervals all connections are opened, and then all requests sent.
    async fn bursts(&mut self, clock: Clock, length: Duration, every: Duration) -> anyhow::Result<()> {
        let slots = self.shared.plan.slots();
        let mut running = JoinSet::new();
        let mut due = clock.base;
        while due < clock.base + length {
            sleep(clock.until(due)).await;
            self.gather(&mut running)?;
            let (in_time, late) = self.free.drain(..).partition(|slot| slot.freed <= due);
            self.free = late;
            let held = slots - in_time.len() as u32;
            self.burst(&mut running, clock, due, in_time).await;
            // Those of the burst before have not ended: this one waits for the server, and that counts.
            for _ in 0..held {
                if self.free.is_empty() {
                    self.gather_one(&mut running).await?;
                }
                self.begin(&mut running, clock, due);
            }
            due += every;
        }
        self.gather_all(&mut running).await
    }

    /// One burst on these slots.
    async fn burst(
        &mut self,
        running: &mut JoinSet<Slot>,
        clock: Clock,
        due: Duration,
        slots: VecDeque<Slot>,
    ) {
        let mut patience = CONNECT_PATIENCE;
        let mut standing = Vec::new();
        for slot in slots {
            let began = clock.now();
            {
                let mut tally = self.shared.tally();
                tally.late_max = tally.late_max.max(began.saturating_sub(due));
            }
            let mut connecting = Box::pin(connect(self.shared.address));
            match timeout(patience, &mut connecting).await {
                Ok(connected) => standing.push((slot, connected, clock.now().saturating_sub(began))),
                Err(_) => {
                    patience = Duration::ZERO;
                    let shared = Arc::clone(&self.shared);
                    running.spawn(async move { slot.on(connecting, &shared, clock, began).await });
                }
            }
        }
        let stood = standing.iter().filter(|(_, connected, _)| connected.is_ok()).count() as u32;
        {
            let mut tally = self.shared.tally();
            tally.bursts += 1;
            tally.stood += u64::from(stood);
            tally.stood_most = tally.stood_most.max(stood);
        }
        for (slot, connected, took) in standing {
            let shared = Arc::clone(&self.shared);
            running.spawn(async move {
                // The time in which the generator opened the other connections is not the server's.
                let began = clock.now().saturating_sub(took);
                slot.on(std::future::ready(connected), &shared, clock, began).await
            });
        }
    }

    /// Begins a transaction on a free slot.
    fn begin(&mut self, running: &mut JoinSet<Slot>, clock: Clock, due: Duration) {
        let Some(slot) = self.free.pop_front() else { return };
        let shared = Arc::clone(&self.shared);
        if clock.now().saturating_sub(due) > shared.timeout {
            // It has waited too long for a connection: it is not begun any more.
            shared.record(clock, slot.number, due, AnswerClass::Timeout);
            return self.free.push_front(slot);
        }
        running.spawn(async move { slot.transaction(&shared, clock, due).await });
    }

    /// Slots whose transaction has ended are free.
    fn gather(&mut self, running: &mut JoinSet<Slot>) -> anyhow::Result<()> {
        while let Some(slot) = running.try_join_next() {
            self.free.push_back(slot?);
        }
        Ok(())
    }

    async fn gather_one(&mut self, running: &mut JoinSet<Slot>) -> anyhow::Result<()> {
        if let Some(slot) = running.join_next().await {
            self.free.push_back(slot?);
        }
        Ok(())
    }

    async fn gather_all(&mut self, running: &mut JoinSet<Slot>) -> anyhow::Result<()> {
        while !running.is_empty() {
            self.gather_one(running).await?;
        }
        Ok(())
    }
}

fn thread_cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.cast_unsigned(), used.tv_nsec as u32)
}

#[cfg(test)]
mod tests;

//! The state machine of the measurement: the order of its steps, and how each is undone.
//!
//! ```text
//!   TakingOut ─> Baseline ─> Desyncing ─> Stopping ─> Held ─> Resuming ─> CatchingUp ─> Resyncing ─> PuttingBack ─> Ended
//!        |          |            |            |         |                     ^   |          ^             ^
//!        |          |            |            '---------'---> Resuming -------'   |          |             |
//!        |          |            '------------- something goes wrong -------------'----------'             |
//!        '----------'----------------------------------------------------------------------- ------------'
//! ```
//!
//! Input: readings, the results of orders, and failures, each with its time. Output: the next [`Order`]. Invariant: every order that was
//! given is undone, even when it failed, because it may have been carried out all the same. Undoing continues when one of its steps fails;
//! what could not be undone is listed in [`Procedure::left`]. A node with a long queue is never resynchronised, because its flow control
//! would stop the writes of the whole cluster. The procedure waits until the queue is short; when that takes too long, it leaves the node
//! to the guard on its server, which continues to wait.

use std::time::Duration;

pub use super::words::{Event, Failure, HoldEnd, Order, Phase, Plan};

use super::reading::Reading;
use super::result::{Record, per_s};
use topology::kind::Kind;

/// While the node catches up, a queue longer than the limit for the hold times this factor means that the node is falling further behind.
const BACKLOG_GROWTH: u64 = 2;
/// The largest number of readings that are kept; 100,000 cover several hours.
const READINGS_MAX: usize = 100_000;

/// The state machine. See the head of this file.
#[derive(Debug)]
pub struct Procedure {
    plan: Plan,
    phase: Phase,
    /// When the present phase began.
    since: Duration,
    /// The time of the most recent event.
    now: Duration,
    is_out: bool,
    is_desynced: bool,
    is_stopped: bool,
    /// The procedure ends without waiting for the queue.
    is_hurried: bool,
    /// The node has not answered for so long that the last known length of its queue is out of date.
    is_queue_unknown: bool,
    hold_end: Option<HoldEnd>,
    failure: Option<Failure>,
    left: Vec<(Order, String)>,
    record: Record,
}

impl Procedure {
    /// Begins the procedure; the first order is [`Order::TakeOut`].
    pub fn begin(plan: Plan) -> (Self, Order) {
        let procedure = Self {
            plan,
            phase: Phase::TakingOut,
            since: Duration::ZERO,
            now: Duration::ZERO,
            // An order that fails halfway has to be undone as well.
            is_out: true,
            is_desynced: false,
            is_stopped: false,
            is_hurried: false,
            is_queue_unknown: false,
            hold_end: None,
            failure: None,
            left: Vec::new(),
            record: Record::default(),
        };
        (procedure, Order::TakeOut)
    }

    /// The present phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How long the present phase has lasted.
    pub fn in_phase(&self) -> Duration {
        self.now.saturating_sub(self.since)
    }

    /// Why the hold ended; `None` before its end.
    pub fn hold_end(&self) -> Option<HoldEnd> {
        self.hold_end
    }

    /// Why there will be no result.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// What could not be undone, and why.
    pub fn left(&self) -> &[(Order, String)] {
        &self.left
    }

    /// The readings, and the moments of the run within them.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Processes an event that happened at `at`, and returns the next order. While an order is being carried out, only its completion may
    /// be reported.
    pub fn on(&mut self, at: Duration, event: Event) -> Option<Order> {
        self.now = at;
        match event {
            Event::Read(reading) => self.read(reading),
            Event::Done => self.done(),
            Event::Failed(why) => self.failed(why),
            Event::Lost(why) => {
                // From now on the length of the queue is unknown.
                let is_overdue = self.phase == Phase::CatchingUp && self.is_overdue();
                self.is_hurried |= is_overdue;
                self.is_queue_unknown |= is_overdue;
                self.fail(Failure::Lost(why))
            }
            Event::GuardLost(why) => self.fail(Failure::Lost(why)),
            Event::Interrupted(by) => {
                self.is_hurried |= self.failure.is_some();
                match self.phase {
                    // The procedure is undoing its orders already.
                    Phase::Resyncing | Phase::PuttingBack | Phase::Ended if !self.is_hurried => None,
                    _ => self.fail(Failure::Interrupted(by)),
                }
            }
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = self.now;
    }

    /// Stores a reading and returns its index.
    fn keep(&mut self, reading: Reading) -> usize {
        if self.record.readings.len() == READINGS_MAX {
            self.record.readings.pop();
        }
        self.record.readings.push(reading);
        self.record.readings.len() - 1
    }

    fn read(&mut self, reading: Reading) -> Option<Order> {
        let node = reading.node.clone();
        let place = self.keep(reading);
        match self.phase {
            Phase::Baseline => self.look_at_baseline(place),
            Phase::Desyncing if node.is_desynced => Some(self.stop()),
            Phase::Desyncing | Phase::Resyncing if self.is_overdue() => self.fail(Failure::State(format!(
                "{:.0} s after {} it is not in the state that this leads to",
                self.plan.change_max.as_secs_f64(),
                if self.phase == Phase::Desyncing { Order::Desync } else { Order::Resync }
            ))),
            Phase::Resyncing if node.is_in_step || self.is_hurried => Some(self.put_back()),
            Phase::Held => self.look_at_hold(place),
            Phase::CatchingUp => self.look_at_queue(place),
            _ => None,
        }
    }

    fn is_overdue(&self) -> bool {
        self.in_phase() > self.plan.change_max
    }

    fn look_at_baseline(&mut self, place: usize) -> Option<Order> {
        if !self.record.readings[place].node.is_in_step {
            return self.fail(Failure::State("it fell out of step with the cluster by itself".into()));
        }
        let from = self.record.marks.baseline.map_or(place, |(from, _)| from);
        self.record.marks.baseline = Some((from, place));
        let (first, last) = (&self.record.readings[from], &self.record.readings[place]);
        let written = last.node.written.saturating_sub(first.node.written);
        if written > 0 {
            return self.fail(Failure::Written { transactions: written });
        }
        let long = last.at.saturating_sub(first.at);
        if long < self.plan.baseline {
            return None;
        }
        if last.node.applied <= first.node.applied {
            return self.fail(Failure::NoWrites);
        }
        let bytes = last.arrived_bytes.saturating_sub(first.arrived_bytes);
        let expected = per_s(bytes, long).unwrap_or(0.0) * self.plan.hold.as_secs_f64();
        let max_bytes = self.plan.backlog_bytes_max;
        if expected > max_bytes as f64 {
            return self.fail(Failure::NoRoom { expected_bytes: expected as u64, max_bytes });
        }
        Some(match self.plan.kind {
            Kind::Galera => {
                self.is_desynced = true;
                self.enter(Phase::Desyncing);
                Order::Desync
            }
            Kind::Replication => self.stop(),
        })
    }

    fn stop(&mut self) -> Order {
        self.is_stopped = true;
        self.enter(Phase::Stopping);
        Order::Stop
    }

    fn look_at_hold(&mut self, place: usize) -> Option<Order> {
        let Some((from, _)) = self.record.marks.held else {
            self.record.marks.held = Some((place, self.since));
            return None;
        };
        let (first, last) = (&self.record.readings[from], &self.record.readings[place]);
        if last.node.applied != first.node.applied {
            let text = "it went on applying while it should not: somebody else ended that";
            return self.fail(Failure::State(text.into()));
        }
        if self.plan.kind == Kind::Galera && !last.node.is_desynced {
            return self.fail(Failure::State("somebody else resynchronised it while it was held".into()));
        }
        let bytes = last.arrived_bytes.saturating_sub(first.arrived_bytes);
        let end = if !last.paused_since(first).is_zero()
            || last.node.flow_control_sent > first.node.flow_control_sent
        {
            HoldEnd::FlowControl
        } else if last.node.writers_waiting > 0 {
            HoldEnd::WriterWaits
        } else if last.lost_since(first) {
            HoldEnd::OtherLost
        } else if bytes >= self.plan.backlog_bytes_max {
            HoldEnd::BacklogBytes
        } else if last.node.queue >= self.plan.backlog_max {
            HoldEnd::Backlog
        } else if self.in_phase() >= self.plan.hold {
            HoldEnd::Time
        } else {
            return None;
        };
        self.hold_end = Some(end);
        Some(self.resume())
    }

    fn resume(&mut self) -> Order {
        self.enter(Phase::Resuming);
        Order::Resume
    }

    fn look_at_queue(&mut self, place: usize) -> Option<Order> {
        if self.record.marks.resumed.is_none() {
            self.record.marks.resumed = Some((place, self.since));
        }
        let queue = self.record.readings[place].node.queue;
        if self.failure.is_none()
            && let Some(why) = self.burden(place)
        {
            // Nothing more can relieve the node than what happens already: it applies, and its group does not wait for it. There is no
            // figure left to wait for, and the node is resynchronised as soon as its queue is short.
            self.failure = Some(Failure::Burden(why));
        }
        if queue == 0 && self.failure.is_none() {
            // In a run that failed, the end of the queue has no meaning for the result.
            self.record.marks.empty = Some(place);
            return Some(self.caught_up());
        }
        if self.failure.is_some() && queue <= self.plan.queue_short {
            return Some(self.caught_up());
        }
        if self.in_phase() > self.plan.catch_up_max {
            self.failure.get_or_insert(Failure::TooSlow { queue });
            if !self.is_desynced || self.in_phase() > self.plan.catch_up_max * 2 {
                return Some(self.caught_up());
            }
        }
        None
    }

    /// Why the node is a burden to its group while it catches up, if it is one.
    fn burden(&self, place: usize) -> Option<String> {
        let (from, _) = self.record.marks.resumed?;
        let (held, _) = self.record.marks.held?;
        let (first, last) = (self.record.readings.get(from)?, self.record.readings.get(place)?);
        let sent = last.node.flow_control_sent.saturating_sub(first.node.flow_control_sent);
        if sent > 0 {
            return Some(format!(
                "it asked its group {sent} times to wait (flow control) while it caught up"
            ));
        }
        let held = self.record.readings.get(held)?;
        let bytes = last.arrived_bytes.saturating_sub(held.arrived_bytes);
        let count = last.committed_elsewhere()?.saturating_sub(held.committed_elsewhere()?).max(1);
        // The bytes received since, scaled by the share of the transactions that still wait.
        let waiting = bytes as f64 * (last.node.queue as f64 / count as f64).min(1.0);
        let grown = self.plan.backlog_max.saturating_mul(BACKLOG_GROWTH);
        if waiting > self.plan.backlog_bytes_max.saturating_mul(BACKLOG_GROWTH) as f64
            || last.node.queue > grown
        {
            return Some(format!(
                "what waits on it grew to {} transactions (about {:.0} MiB) while it caught up",
                last.node.queue,
                waiting / f64::from(1 << 20)
            ));
        }
        None
    }

    /// The length of the node's queue, when it is too long for the node to be resynchronised.
    fn is_behind(&self) -> Option<String> {
        if self.is_queue_unknown {
            return Some("how far it is behind is not known".into());
        }
        let queue = self.record.readings.last()?.node.queue;
        (queue > self.plan.queue_short).then(|| format!("{queue} transactions are in its queue"))
    }

    /// Stops waiting for the queue.
    fn caught_up(&mut self) -> Order {
        match (self.is_desynced, self.is_behind()) {
            (false, _) => self.put_back(),
            (true, None) => self.resync(),
            (true, Some(why)) => {
                let why = format!("{why}: its flow control would stop the writes of the whole cluster");
                self.left.push((Order::Resync, why));
                self.is_desynced = false;
                self.put_back()
            }
        }
    }

    fn resync(&mut self) -> Order {
        self.enter(Phase::Resyncing);
        Order::Resync
    }

    fn put_back(&mut self) -> Order {
        self.enter(Phase::PuttingBack);
        Order::PutBack
    }

    fn done(&mut self) -> Option<Order> {
        match self.phase {
            Phase::TakingOut => self.enter(Phase::Baseline),
            // The order is complete only when the node's state shows it.
            Phase::Desyncing => self.enter(Phase::Desyncing),
            Phase::Stopping => self.enter(Phase::Held),
            Phase::Resuming => {
                self.is_stopped = false;
                return self.resumed();
            }
            Phase::Resyncing => {
                self.is_desynced = false;
                self.enter(Phase::Resyncing);
                if self.is_hurried {
                    return Some(self.put_back());
                }
            }
            Phase::PuttingBack => {
                self.is_out = false;
                self.enter(Phase::Ended);
            }
            Phase::Baseline | Phase::Held | Phase::CatchingUp | Phase::Ended => {}
        }
        None
    }

    /// The node applies again, or nothing more can be done about it.
    fn resumed(&mut self) -> Option<Order> {
        self.enter(Phase::CatchingUp);
        if self.is_hurried { Some(self.caught_up()) } else { None }
    }

    fn failed(&mut self, why: String) -> Option<Order> {
        let order = match self.phase {
            Phase::TakingOut => Order::TakeOut,
            Phase::Desyncing => Order::Desync,
            Phase::Stopping => Order::Stop,
            Phase::Resuming => Order::Resume,
            Phase::Resyncing => Order::Resync,
            Phase::PuttingBack => Order::PutBack,
            _ => return self.fail(Failure::State(why)),
        };
        match order {
            Order::TakeOut | Order::Desync | Order::Stop => self.fail(Failure::Order(order, why)),
            Order::Resume | Order::Resync | Order::PutBack => {
                self.failure.get_or_insert(Failure::Order(order, why.clone()));
                self.left.push((order, why));
                self.after_failed_undo(order)
            }
        }
    }

    /// The next step of undoing after one has failed.
    fn after_failed_undo(&mut self, order: Order) -> Option<Order> {
        match order {
            Order::Resume => {
                // The node may not apply yet: the server itself releases the lock a little later. Until then the queue grows, and the node
                // has to stay desynchronised, or it would stop the whole group.
                self.is_stopped = false;
                self.resumed()
            }
            Order::Resync => {
                self.is_desynced = false;
                Some(self.put_back())
            }
            _ => {
                self.is_out = false;
                self.enter(Phase::Ended);
                None
            }
        }
    }

    /// Stores the first reason for failing, and undoes what has to be undone.
    fn fail(&mut self, failure: Failure) -> Option<Order> {
        self.failure.get_or_insert(failure);
        if self.phase == Phase::Ended {
            return None;
        }
        if self.is_stopped {
            return Some(self.resume());
        }
        if self.phase == Phase::CatchingUp && !self.is_hurried {
            // Waits until the queue is short, or the time for that is over.
            return None;
        }
        if self.is_desynced && !self.is_hurried && self.is_behind().is_some() {
            self.enter(Phase::CatchingUp);
            return None;
        }
        Some(self.caught_up())
    }
}

//! The load generator: one thread, one epoll instance, any number of connections. It must never be what limits the server.
//!
//! ```text
//!   closed loop: a thread's next transaction begins when its last one has ended   (multi-mechanize; threads start one by one)
//!   open loop:   transactions are due by a schedule; one that finds no free connection waits, and the wait counts as response time
//!   bursts:      an open loop in which all connections are due at once; all are established before the first request is sent
//!
//!   slot:  Idle --begin--> Sending --> Reading --answer--> Idle (kept) or Closing (until the server has closed too)
//! ```
//!
//! In the closed loop no time of a thread is lost in the generator: a thread's next transaction begins before the next event is handled,
//! and its response time counts from when the thread became free. Thus as many requests are in flight as there are threads; the number
//! that really were is measured.
//!
//! A run is divided into turns, so that several servers can alternate on one machine. The run's clock stops between its turns: `elapsed`
//! counts only the run's own time. A turn ends when its last transaction has ended.
//!
//! Invariant: every transaction that began ends in exactly one [`AnswerClass`](super::answer::AnswerClass).

mod begin;
mod end;
mod exchange;
mod plan;
mod slot;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

pub use self::plan::{Mode, Plan};

use self::slot::{Phase, Slot};
use super::answer::Expect;
use super::record::Record;

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

/// Events read by one epoll_wait.
const EVENTS: usize = 256;
/// Interval between two searches for timed-out transactions.
const SCAN: Duration = Duration::from_millis(20);
/// Bytes per read; responses are a few hundred bytes.
const READ_BYTES: usize = 4096;
/// Marks the timer among the epoll events.
const TIMER: u64 = u64::MAX;

/// A load in progress.
pub struct Load {
    plan: Plan,
    address: SocketAddr,
    expect: Expect,
    request: Vec<u8>,
    timeout: Duration,
    seed: u64,
    epoll: OwnedFd,
    timer: OwnedFd,
    slots: Vec<Slot>,
    /// Slots without a transaction. Closed loop: threads whose next transaction may begin. Open loop: slots that may take one.
    free: VecDeque<u32>,
    /// Transactions that are due but have no slot (open loop).
    waiting: VecDeque<Duration>,
    active: usize,
    /// Transactions that began and have no outcome yet, and their maximum.
    in_flight: u32,
    in_flight_most: u32,
    /// The sum of all transactions' times in flight.
    flown: Duration,
    /// Bursts: transactions that were due, those whose connection was established when the request was due, and the maximum for one burst.
    burst_due: u64,
    burst_stood: u64,
    burst_most: u32,
    buffer: Vec<u8>,
    /// The run's time before this turn, and the start of the turn.
    base: Duration,
    began: Instant,
    turns: u64,
    /// Keep-alive connections that the server closed and the generator reopened.
    pub reconnects: u64,
    /// The generator's own maximum delay: from when a transaction was due until the loop noticed it (open loop) or began it (bursts).
    pub late_max: Duration,
    /// Everything recorded.
    pub record: Record,
}

impl Load {
    /// Prepares the load; does not connect yet.
    ///
    /// # Errors
    /// When the system cannot create an epoll instance or a timer.
    pub fn new(plan: Plan, address: SocketAddr, expect: Expect, record: Record) -> anyhow::Result<Self> {
        let connection = if plan.keep { "keep-alive" } else { "close" };
        // The header lines that mechanize sent.
        let request = format!(
            "GET / HTTP/1.1\r\nAccept-Encoding: identity\r\nHost: {address}\r\nConnection: {connection}\r\n\
             User-Agent: Python-urllib/2.7\r\n\r\n"
        );
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("no epoll")?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
            .context("no timer")?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)
            .context("no timer")?;
        let slot = || Slot {
            socket: None,
            serial: 0,
            phase: Phase::Idle,
            is_reused: false,
            due: Duration::ZERO,
            since: Duration::ZERO,
            freed: Duration::ZERO,
            sent: 0,
            part: Vec::new(),
        };
        Ok(Self {
            timeout: Duration::from_secs_f64(plan.timeout_s),
            slots: (0..plan.slots()).map(|_| slot()).collect(),
            request: request.into_bytes(),
            plan,
            address,
            expect,
            seed: 1,
            epoll,
            timer,
            free: VecDeque::new(),
            waiting: VecDeque::new(),
            active: 0,
            in_flight: 0,
            in_flight_most: 0,
            flown: Duration::ZERO,
            burst_due: 0,
            burst_stood: 0,
            burst_most: 0,
            buffer: vec![0; READ_BYTES],
            base: Duration::ZERO,
            began: Instant::now(),
            turns: 0,
            reconnects: 0,
            late_max: Duration::ZERO,
            record,
        })
    }

    /// The run's time: the sum of its turns.
    pub fn elapsed(&self) -> Duration {
        self.base
    }

    /// The start of the last turn.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The number of requests in flight, over all turns so far.
    pub fn flight(&self) -> Flight {
        match self.plan.mode {
            Mode::Bursts { .. } => {
                let bursts = self.burst_due as f64 / f64::from(self.plan.slots());
                let average = if bursts > 0.0 { self.burst_stood as f64 / bursts } else { 0.0 };
                Flight { average, most: self.burst_most }
            }
            Mode::Closed { .. } | Mode::Open { .. } => Flight {
                average: self.flown.as_secs_f64() / self.base.as_secs_f64().max(1e-9),
                most: self.in_flight_most,
            },
        }
    }

    /// Connections open now.
    pub fn connected(&self) -> u32 {
        self.slots.iter().filter(|slot| slot.socket.is_some()).count() as u32
    }

    /// Drives the load for `length` or until `stop`, and returns when the last transaction has ended. Blocks its thread.
    ///
    /// # Errors
    /// When epoll or the timer fails; a failure of the server is an outcome, not an error.
    pub fn turn(&mut self, length: Duration, stop: &AtomicBool) -> anyhow::Result<Turn> {
        let cpu = thread_cpu();
        self.began = Instant::now();
        let end = self.base + length;
        let is_closed = matches!(self.plan.mode, Mode::Closed { .. });
        let mut starts = self.starts();
        let mut schedule = self.schedule();
        let mut due = schedule.as_mut().and_then(Iterator::next);
        let mut scan = self.base + SCAN;
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            let now = self.now();
            let is_stopped = stop.load(Relaxed);
            let is_over = now >= end || is_stopped;
            // Everything due within the turn must be done, even if the loop notices it only after the turn's end.
            while let Some(at) =
                due.map(|at| self.base + at).filter(|at| *at <= now && *at < end && !is_stopped)
            {
                self.late_max = self.late_max.max(now.saturating_sub(at));
                self.waiting.push_back(at);
                due = schedule.as_mut().and_then(Iterator::next);
            }
            if is_over {
                if self.active == 0 && self.waiting.is_empty() {
                    break;
                }
                if is_stopped {
                    self.waiting.clear();
                }
            } else {
                while let Some(&(at, slot)) = starts.front().filter(|(at, _)| *at <= now) {
                    self.slots[slot as usize].freed = at;
                    self.free.push_back(slot);
                    starts.pop_front();
                }
            }
            match self.plan.mode {
                Mode::Closed { .. } if is_over => {}
                Mode::Closed { .. } => self.begin_free(),
                Mode::Open { .. } => self.begin_waiting(),
                Mode::Bursts { .. } => self.begin_burst(),
            }
            if now >= scan {
                self.expire(now);
                scan = now + SCAN;
            }
            // Here only slots whose transaction failed immediately are free again.
            let may_begin = if is_closed {
                !is_over && !self.free.is_empty()
            } else {
                !self.waiting.is_empty() && !self.free.is_empty()
            };
            let mut wake = scan;
            if !is_over {
                wake = wake.min(end).min(starts.front().map_or(end, |(at, _)| *at));
            }
            if may_begin {
                wake = Duration::ZERO;
            } else if let Some(due) = due.map(|at| self.base + at).filter(|_| !is_over) {
                // epoll's timeout counts whole milliseconds, which is too coarse for the schedule.
                self.set_timer(due.saturating_sub(self.now()))?;
            }
            let patience = wake.saturating_sub(self.now());
            let patience = Timespec {
                tv_sec: patience.as_secs().cast_signed(),
                tv_nsec: patience.subsec_nanos().into(),
            };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&patience)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("epoll failed"),
            }
            for event in events.drain(..) {
                self.event(event.data.u64(), event.flags);
                if is_closed && !is_over {
                    self.begin_free();
                }
            }
        }
        // Threads of the closed loop start again in the next turn; idle slots of the open loop stay free.
        if is_closed {
            self.free.clear();
        }
        self.turns += 1;
        let took = self.began.elapsed();
        self.base += took;
        Ok(Turn { took, cpu: thread_cpu().saturating_sub(cpu) })
    }

    fn set_timer(&self, after: Duration) -> anyhow::Result<()> {
        // Zero would disarm the timer.
        let after = after.max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: after.as_secs().cast_signed(), tv_nsec: after.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).context("the timer failed")?;
        Ok(())
    }

    fn now(&self) -> Duration {
        self.base + self.began.elapsed()
    }
}

fn thread_cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.cast_unsigned(), used.tv_nsec as u32)
}

#[cfg(test)]
mod tests;

//! The load generator: one thread, one epoll, any number of connections. It must never be what limits the server.
//!
//! ```text
//!   closed loop: a thread's next transaction begins when its last one has ended   (multi-mechanize; threads start one by one)
//!   open loop:   transactions are due by a schedule; whoever finds no free connection waits, and the wait counts
//!   bursts:      an open loop in which all connections are due at once; all of them stand before the first one asks
//!
//!   slot:  Idle --begin--> Sending --> Reading --answer--> Idle (kept) or Closing (until the server has closed too)
//! ```
//!
//! A thread of the closed loop never waits in here without its clock: it is begun again before the next event is looked at, and its
//! clock starts when it became free. Thus as many requests are in flight as there are threads; how many really were is measured.
//!
//! A run goes in turns, so that several servers can take turns on one machine. Its clock stands still between them: `elapsed` is
//! the run's own time. A turn ends when its last transaction has ended.
//!
//! Invariant: every transaction that began ends in exactly one [`Outcome`].

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::answer::{Expect, Outcome, Seen, Trouble, see};
use super::record::Record;
use crate::load::arrivals::{Arrivals, Schedule};

/// How transactions begin.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "loop")]
pub enum Mode {
    /// Each thread one after the other, without a pause. Thread `i` of a group starts after `i * rampup / threads`.
    Closed {
        /// Until the last thread has started, s.
        rampup_s: f64,
    },
    /// As the schedule says, whether or not earlier ones have ended.
    Open {
        /// Transactions a second.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
    /// Every so often one transaction of each slot, all at once: all of them connect, then all of them ask. A response time is that of
    /// connecting and that from asking to the answer; how long the one generator takes from the one to the other, while it connects
    /// the others, is not the server's doing. A connection that does not stand when it is to ask counts all of its time.
    Bursts {
        /// From one burst to the next, s.
        every_s: f64,
    },
}

/// What is driven against a server.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Plan {
    /// Groups of threads; multi-mechanize made a process of each.
    pub groups: u16,
    /// Threads of each group. In the open loop: connections at once.
    pub threads: u16,
    /// Connections are kept; else each transaction has a new one.
    pub keep: bool,
    /// How transactions begin.
    pub mode: Mode,
    /// A transaction that takes longer has failed, s.
    pub timeout_s: f64,
    /// How long, s.
    pub run_s: f64,
}

impl Plan {
    /// Connections at once.
    pub fn slots(&self) -> u32 {
        u32::from(self.groups) * u32::from(self.threads)
    }
}

/// What a turn cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// How long it was.
    pub took: Duration,
    /// The generator's own processor time.
    pub cpu: Duration,
}

/// How many requests were in flight: from connecting (or asking on a kept connection) until the answer was read. Of bursts: how many
/// of a burst's connections stood at once, before the first one asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Flight {
    /// On average over the run's time; of bursts: over the bursts.
    pub average: f64,
    /// At most.
    pub most: u32,
}

/// Events read at once.
const EVENTS: usize = 256;
/// Between two looks for transactions whose time is up.
const SCAN: Duration = Duration::from_millis(20);
/// How long a server may take to close a connection that it was asked to close.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// Over how long a turn's threads begin again, so that they do not all come at once.
const RESUME: Duration = Duration::from_millis(100);
/// Read at once; answers are a few hundred bytes.
const READ_BYTES: usize = 4096;
/// More than this is no answer of a health endpoint.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The timer's mark among the events.
const TIMER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Sending,
    Reading,
    Closing,
}

#[derive(Debug)]
struct Slot {
    socket: Option<OwnedFd>,
    /// Tells this socket's events from its forerunner's.
    serial: u32,
    phase: Phase,
    /// The socket has answered before.
    is_reused: bool,
    /// From when the response time counts: when it was due, or when it began.
    due: Duration,
    /// When it began, or began to close.
    since: Duration,
    /// When the slot became free.
    freed: Duration,
    /// Bytes of the request that were sent.
    sent: usize,
    /// The beginning of an answer.
    part: Vec<u8>,
}

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
    /// Slots without a transaction: in the closed loop those whose next may begin, in the open loop those that may take one.
    free: VecDeque<u32>,
    /// Transactions that are due and have no slot (open loop).
    waiting: VecDeque<Duration>,
    active: usize,
    /// Transactions that began and have no outcome yet, and the most of them at once.
    in_flight: u32,
    in_flight_most: u32,
    /// The sum of the times in flight.
    flown: Duration,
    /// Transactions of bursts that were due, those of them whose connections stood when they were to ask, and the most of a burst.
    burst_due: u64,
    burst_stood: u64,
    burst_most: u32,
    buffer: Vec<u8>,
    /// The run's time before this turn, and when the turn began.
    base: Duration,
    began: Instant,
    turns: u64,
    /// Kept connections that the server closed, and that were made anew.
    pub reconnects: u64,
    /// How late the generator itself was at worst: from when a transaction was due until it was looked at (open loop), or begun (bursts).
    pub late_max: Duration,
    /// All that was seen.
    pub record: Record,
}

impl Load {
    /// Gets ready; nothing is connected yet.
    ///
    /// # Errors
    /// When the system refuses an epoll or a timer.
    pub fn new(plan: Plan, address: SocketAddr, expect: Expect, record: Record) -> anyhow::Result<Self> {
        let connection = if plan.keep { "keep-alive" } else { "close" };
        // The lines that mechanize sent.
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

    /// The run's time.
    pub fn elapsed(&self) -> Duration {
        self.base
    }

    /// When the last turn began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// How many requests were in flight in all turns so far.
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

    /// Connections that stand now.
    pub fn connected(&self) -> u32 {
        self.slots.iter().filter(|slot| slot.socket.is_some()).count() as u32
    }

    /// Drives the load for `length`, or until `stop`, and returns when the last transaction has ended. Blocks its thread.
    ///
    /// # Errors
    /// When epoll or the timer fails: servers' failures are outcomes.
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
            // What was due in the turn is owed, even if it is looked at only when the turn is over.
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
            // Only those that failed at once are free again by now.
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
                // epoll counts in whole milliseconds, which is too coarse for what is due.
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
        // Threads of the closed loop go on in the next turn; idle slots of the open loop stay free.
        if is_closed {
            self.free.clear();
        }
        self.turns += 1;
        let took = self.began.elapsed();
        self.base += took;
        Ok(Turn { took, cpu: thread_cpu().saturating_sub(cpu) })
    }

    /// Closed loop: when each thread begins in this turn, in order. Open loop: every slot is free from the first turn on.
    fn starts(&mut self) -> VecDeque<(Duration, u32)> {
        let slots = self.plan.slots();
        let Mode::Closed { rampup_s } = self.plan.mode else {
            if self.turns == 0 {
                self.free = (0..slots).collect();
            }
            return VecDeque::new();
        };
        let threads = u32::from(self.plan.threads);
        let mut starts: Vec<(Duration, u32)> = (0..slots)
            .map(|slot| {
                let first =
                    Duration::from_secs_f64(rampup_s * f64::from(slot % threads) / f64::from(threads));
                (first.max(self.base + RESUME * slot / slots), slot)
            })
            .collect();
        starts.sort_unstable();
        starts.into()
    }

    /// When transactions are due, from the turn's start on; none in the closed loop.
    fn schedule(&self) -> Option<Box<dyn Iterator<Item = Duration>>> {
        match self.plan.mode {
            Mode::Closed { .. } => None,
            Mode::Open { rate, arrivals } => {
                Some(Box::new(Schedule::new(arrivals, rate, self.seed.wrapping_add(self.turns))))
            }
            Mode::Bursts { every_s } => {
                let (every, slots) = (Duration::from_secs_f64(every_s), self.plan.slots() as usize);
                Some(Box::new((0_u32..).flat_map(move |burst| std::iter::repeat_n(every * burst, slots))))
            }
        }
    }

    fn set_timer(&self, after: Duration) -> anyhow::Result<()> {
        // Zero would switch it off.
        let after = after.max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: after.as_secs().cast_signed(), tv_nsec: after.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).context("the timer failed")?;
        Ok(())
    }

    fn now(&self) -> Duration {
        self.base + self.began.elapsed()
    }

    /// Closed loop: every thread that is free asks again, once: one that fails at once is free again and has its turn later.
    fn begin_free(&mut self) {
        for _ in 0..self.free.len() {
            let Some(at) = self.free.pop_front() else { return };
            self.begin(at, self.slots[at as usize].freed);
        }
    }

    /// Open loop: what is due, as far as there are free slots.
    fn begin_waiting(&mut self) {
        while let Some((at, due)) = self.next_waiting() {
            self.begin(at, due);
        }
    }

    /// Bursts: all connections are opened, then all of them ask.
    fn begin_burst(&mut self) {
        let mut opened = Vec::new();
        while let Some((at, due)) = self.next_waiting() {
            let now = self.now();
            self.burst_due += 1;
            // One that its forerunner held up has waited for the server, and that counts.
            let is_in_time = self.slots[at as usize].freed <= due;
            if is_in_time {
                self.late_max = self.late_max.max(now.saturating_sub(due));
            }
            self.start(at, if is_in_time { now } else { due });
            if self.open(at) {
                opened.push((at, is_in_time, self.now().saturating_sub(now)));
            }
        }
        let mut stood = 0;
        for (at, is_in_time, connecting) in opened {
            let now = self.now();
            self.submit(at);
            let slot = &mut self.slots[at as usize];
            if is_in_time && slot.phase == Phase::Reading {
                slot.due = now.saturating_sub(connecting);
                stood += 1;
            }
        }
        self.burst_stood += u64::from(stood);
        self.burst_most = self.burst_most.max(stood);
    }

    /// The next transaction that is due, and a slot for it.
    fn next_waiting(&mut self) -> Option<(u32, Duration)> {
        if self.free.is_empty() {
            return None;
        }
        let due = self.waiting.pop_front()?;
        Some((self.free.pop_front()?, due))
    }

    fn begin(&mut self, at: u32, due: Duration) {
        self.start(at, due);
        let slot = &mut self.slots[at as usize];
        if slot.socket.is_some() {
            slot.is_reused = true;
            slot.phase = Phase::Sending;
            self.send(at);
        } else {
            self.connect(at);
        }
    }

    /// A transaction begins: from now on it must come to an outcome.
    fn start(&mut self, at: u32, due: Duration) {
        let now = self.now();
        self.active += 1;
        self.in_flight += 1;
        self.in_flight_most = self.in_flight_most.max(self.in_flight);
        let slot = &mut self.slots[at as usize];
        slot.due = due;
        slot.since = now;
        slot.sent = 0;
        slot.part.clear();
    }

    fn connect(&mut self, at: u32) {
        if self.open(at) {
            self.submit(at);
        }
    }

    /// A new connection; whether it stands or is on its way. If not, the transaction has ended.
    fn open(&mut self, at: u32) -> bool {
        let family = if self.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let opened = rustix::net::socket_with(family, SocketType::STREAM, flags, None).and_then(|socket| {
            match rustix::net::connect(&socket, &self.address) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                Err(error) => Err(error),
            }
        });
        let slot = &mut self.slots[at as usize];
        slot.serial = slot.serial.wrapping_add(1);
        slot.phase = Phase::Sending;
        slot.is_reused = false;
        slot.sent = 0;
        match opened {
            Ok(socket) => {
                slot.socket = Some(socket);
                true
            }
            Err(error) => {
                self.end(at, Outcome::Transport(trouble(error)));
                false
            }
        }
    }

    /// Sends the request on a new connection, and listens for what comes.
    fn submit(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let Some(socket) = &slot.socket else { return };
        // On this machine the connection often stands already, and the request goes out at once.
        match attempt(socket, &self.request, &mut slot.sent) {
            Ok(true) => slot.phase = Phase::Reading,
            Ok(false) => {}
            Err(error) => return self.end(at, Outcome::Transport(trouble(error))),
        }
        let data = EventData::new_u64(u64::from(slot.serial) << 32 | u64::from(at));
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        let flags = if slot.phase == Phase::Sending { flags | EventFlags::OUT } else { flags };
        if let Err(error) = epoll::add(&self.epoll, socket, data, flags) {
            self.end(at, Outcome::Transport(trouble(error)));
        }
    }

    /// Sends what is left of the request.
    fn send(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let Some(socket) = &slot.socket else { return };
        match attempt(socket, &self.request, &mut slot.sent) {
            Ok(true) => slot.phase = Phase::Reading,
            Ok(false) => {}
            Err(error) => self.lost(at, trouble(error)),
        }
    }

    /// The connection failed: a kept one may just have been closed meanwhile, and gets a second try on a new one.
    fn lost(&mut self, at: u32, trouble: Trouble) {
        let slot = &mut self.slots[at as usize];
        if slot.is_reused && slot.part.is_empty() {
            slot.socket = None;
            self.reconnects += 1;
            self.connect(at);
        } else {
            self.end(at, Outcome::Transport(trouble));
        }
    }

    fn event(&mut self, data: u64, flags: EventFlags) {
        if data == TIMER {
            return;
        }
        let (serial, at) = ((data >> 32) as u32, data as u32);
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        let Some(socket) = slot.socket.as_ref().filter(|_| slot.serial == serial) else { return };
        let is_ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        match slot.phase {
            Phase::Idle if is_ended => {
                slot.socket = None;
                self.reconnects += 1;
            }
            Phase::Idle => {}
            Phase::Sending => {
                if let Ok(Err(error)) = rustix::net::sockopt::socket_error(socket) {
                    return self.lost(at, trouble(error));
                }
                self.send(at);
                let is_sent = self.slots[at as usize].phase == Phase::Reading;
                if is_sent && (is_ended || flags.contains(EventFlags::IN)) {
                    self.read(at, serial, is_ended);
                }
            }
            Phase::Reading => self.read(at, serial, is_ended),
            Phase::Closing if is_ended => self.release(at, false),
            Phase::Closing => {}
        }
    }

    /// Reads until the answer is whole, or nothing more is there.
    fn read(&mut self, at: u32, serial: u32, is_ended: bool) {
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let slot = &mut self.slots[at as usize];
            let Some(socket) = slot.socket.as_ref().filter(|_| slot.serial == serial) else { break };
            let count = match rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    self.lost(at, trouble(error));
                    break;
                }
            };
            if count == 0 && slot.part.is_empty() {
                self.lost(at, Trouble::Closed);
                break;
            }
            let seen = if slot.part.is_empty() {
                see(&buffer[..count], false, &self.expect)
            } else {
                slot.part.extend_from_slice(&buffer[..count]);
                see(&slot.part, count == 0, &self.expect)
            };
            match seen {
                Seen::Whole { outcome, keeps } => {
                    self.answered(at, outcome, keeps, is_ended);
                    break;
                }
                Seen::Part if slot.part.len() > ANSWER_BYTES_MAX => {
                    self.end(at, Outcome::Wrong);
                    break;
                }
                Seen::Part => {
                    if slot.part.is_empty() {
                        slot.part.extend_from_slice(&buffer[..count]);
                    }
                    // The next event comes with the next bytes; an end that was told already is not told again.
                    if count < buffer.len() && !is_ended {
                        break;
                    }
                }
            }
        }
        self.buffer = buffer;
    }

    fn answered(&mut self, at: u32, outcome: Outcome, keeps: bool, is_ended: bool) {
        if !outcome.is_answer() {
            return self.end(at, outcome);
        }
        self.note(at, outcome);
        if keeps && self.plan.keep && !is_ended {
            self.release(at, true);
        } else if is_ended || keeps {
            // It has closed; or it would not, and is not waited for.
            self.release(at, false);
        } else {
            let now = self.now();
            let slot = &mut self.slots[at as usize];
            slot.phase = Phase::Closing;
            slot.since = now;
        }
    }

    /// Ends a transaction, and its connection with it.
    fn end(&mut self, at: u32, outcome: Outcome) {
        self.note(at, outcome);
        self.release(at, false);
    }

    fn note(&mut self, at: u32, outcome: Outcome) {
        let now = self.now();
        let slot = &self.slots[at as usize];
        let took = now.saturating_sub(slot.due);
        self.in_flight -= 1;
        self.flown += now.saturating_sub(slot.since);
        let group = (at / u32::from(self.plan.threads).max(1)) as u16;
        let epoch_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
        self.record.add(now, epoch_s, group, took, outcome);
    }

    fn release(&mut self, at: u32, keep: bool) {
        let now = self.now();
        let slot = &mut self.slots[at as usize];
        slot.phase = Phase::Idle;
        slot.freed = now;
        if !keep {
            slot.socket = None;
        }
        self.active -= 1;
        self.free.push_back(at);
    }

    /// Ends what took too long.
    fn expire(&mut self, now: Duration) {
        for at in 0..self.slots.len() as u32 {
            let slot = &self.slots[at as usize];
            let since = now.saturating_sub(slot.since);
            match slot.phase {
                Phase::Sending | Phase::Reading if since > self.timeout => self.end(at, Outcome::Timeout),
                Phase::Closing if since > CLOSE_MAX => self.release(at, false),
                _ => {}
            }
        }
        while self.waiting.front().is_some_and(|due| now.saturating_sub(*due) > self.timeout) {
            if let Some(due) = self.waiting.pop_front() {
                let epoch_s =
                    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
                self.record.add(now, epoch_s, 0, now.saturating_sub(due), Outcome::Timeout);
            }
        }
    }
}

/// Sends what is left; whether all of it is out.
fn attempt(socket: &OwnedFd, request: &[u8], sent: &mut usize) -> Result<bool, Errno> {
    match rustix::net::send(socket, &request[*sent..], SendFlags::NOSIGNAL) {
        Ok(count) => {
            *sent += count;
            Ok(*sent == request.len())
        }
        Err(Errno::AGAIN | Errno::NOTCONN | Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

fn trouble(error: Errno) -> Trouble {
    match error {
        Errno::CONNREFUSED => Trouble::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Trouble::Reset,
        Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
            Trouble::Exhausted
        }
        _ => Trouble::Other,
    }
}

fn thread_cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.cast_unsigned(), used.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Serves `connections` connections, each by `serve`, and ends.
    fn server(
        connections: usize,
        serve: impl Fn(std::net::TcpStream) + Send + Sync + Clone + 'static,
    ) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for _ in 0..connections {
                let Ok((stream, _)) = listener.accept() else { return };
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream));
            }
        });
        address
    }

    fn read_head(stream: &mut std::net::TcpStream) -> bool {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return false,
            }
        }
        true
    }

    fn drive(plan: Plan, address: SocketAddr, length: Duration) -> Load {
        let record = Record::new(Duration::from_secs_f64(plan.run_s), Duration::from_secs(1), 1000).unwrap();
        let mut load = Load::new(plan, address, Expect::default(), record).unwrap();
        load.turn(length, &AtomicBool::new(false)).unwrap();
        assert_eq!(load.active, 0);
        load
    }

    fn plan(threads: u16, keep: bool, mode: Mode) -> Plan {
        Plan { groups: 1, threads, keep, mode, timeout_s: 0.3, run_s: 0.2 }
    }

    const CLOSED: Mode = Mode::Closed { rampup_s: 0.0 };
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";

    #[test]
    fn kept_connections_are_kept_and_others_are_not() {
        for keep in [true, false] {
            let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let count = seen.clone();
            let address = server(100_000, move |mut stream| {
                count.fetch_add(1, Relaxed);
                while read_head(&mut stream) && stream.write_all(ANSWER).is_ok() {
                    if !keep {
                        return;
                    }
                }
            });
            let load = drive(plan(3, keep, CLOSED), address, Duration::from_millis(200));
            let counts = &load.record.counts;
            assert!(counts.unavailable > 10 && counts.all() == counts.unavailable, "{counts:?}");
            let connections = seen.load(Relaxed) as u64;
            assert_eq!(connections, if keep { 3 } else { counts.all() });
        }
    }

    #[test]
    fn failures_have_their_names() {
        let silent = server(100, |mut stream| {
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let load = drive(plan(2, false, CLOSED), silent, Duration::from_millis(100));
        assert_eq!((load.record.counts.timeouts, load.record.counts.all()), (2, 2));

        let closing = server(100_000, |mut stream| {
            read_head(&mut stream);
        });
        let counts = drive(plan(1, false, CLOSED), closing, Duration::from_millis(50)).record.counts;
        assert_eq!(counts.troubles.get(&Trouble::Closed), Some(&counts.all()), "{counts:?}");

        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let counts = drive(plan(1, false, CLOSED), closed, Duration::from_millis(20)).record.counts;
        assert_eq!(counts.troubles.get(&Trouble::Refused), Some(&counts.all()), "{counts:?}");

        let cut = server(100_000, |mut stream| {
            read_head(&mut stream);
            let _ = stream.write_all(&ANSWER[..ANSWER.len() - 1]);
        });
        let counts = drive(plan(1, false, CLOSED), cut, Duration::from_millis(50)).record.counts;
        assert!(counts.wrong > 0 && counts.wrong == counts.all(), "{counts:?}");
    }

    #[test]
    fn in_the_open_loop_waiting_counts() {
        // One connection, 50 ms for each answer, 100 a second due: the queue grows, and so do the response times.
        let slow = server(1, |mut stream| {
            while read_head(&mut stream) {
                std::thread::sleep(Duration::from_millis(50));
                if stream.write_all(ANSWER).is_err() {
                    return;
                }
            }
        });
        let mode = Mode::Open { rate: 100.0, arrivals: Arrivals::Uniform };
        let mut plan = plan(1, true, mode);
        plan.timeout_s = 10.0;
        let load = drive(plan, slow, Duration::from_millis(205));
        assert_eq!((load.record.counts.unavailable, load.record.counts.all()), (20, 20));
        // The last was due after 0.2 s and ended after 20 x 50 ms.
        assert!(load.record.max_s() > 0.7, "{}", load.record.max_s());
    }

    #[test]
    fn a_kept_connection_that_the_server_closes_is_made_anew() {
        let address = server(100_000, |mut stream| {
            for _ in 0..5 {
                if !read_head(&mut stream) || stream.write_all(ANSWER).is_err() {
                    return;
                }
            }
        });
        let load = drive(plan(1, true, CLOSED), address, Duration::from_millis(100));
        let counts = &load.record.counts;
        assert!(counts.unavailable == counts.all() && load.reconnects > 0, "{counts:?} {}", load.reconnects);
    }

    #[test]
    fn all_threads_are_in_flight_and_none_of_their_time_is_lost() {
        const THREADS: u16 = 64;
        // Each answer takes 20 ms: nearly all of a thread's time is waiting, and it must be in its response times.
        let slow = || {
            server(100_000, |mut stream| {
                while read_head(&mut stream) {
                    std::thread::sleep(Duration::from_millis(20));
                    if stream.write_all(ANSWER).is_err() {
                        return;
                    }
                }
            })
        };
        let load = drive(plan(THREADS, true, CLOSED), slow(), Duration::from_millis(500));
        let (flight, times) = (load.flight(), &load.record.times_us);
        assert_eq!(flight.most, u32::from(THREADS));
        // They begin over 100 ms, and end over some more.
        assert!(flight.average > 0.7 * f64::from(THREADS), "{flight:?}");
        let counted_s = times.mean() * times.len() as f64 / 1e6;
        let in_all_s = load.elapsed().as_secs_f64() * f64::from(THREADS);
        assert!(counted_s > 0.7 * in_all_s && counted_s <= 1.01 * in_all_s, "{counted_s} of {in_all_s}");
    }

    #[test]
    fn a_burst_stands_before_its_first_request_is_sent() {
        // Nobody is answered until 30 connections are there: they come only if the load does not wait for answers.
        let (all, seen) = (30, std::sync::Arc::new(std::sync::Barrier::new(30)));
        let address = server(10_000, move |mut stream| {
            seen.wait();
            if read_head(&mut stream) {
                let _ = stream.write_all(ANSWER);
            }
        });
        let mut plan = plan(30, false, Mode::Bursts { every_s: 0.1 });
        plan.timeout_s = 20.0;
        let load = drive(plan, address, Duration::from_millis(150));
        assert_eq!((load.record.counts.unavailable, load.record.counts.all()), (2 * all, 2 * all));
        assert_eq!(load.flight().most, 30);
    }

    #[test]
    fn a_burst_that_is_held_up_by_the_one_before_counts_its_waiting() {
        let slow = server(1000, |mut stream| {
            if read_head(&mut stream) {
                std::thread::sleep(Duration::from_millis(150));
                let _ = stream.write_all(ANSWER);
            }
        });
        let mut plan = plan(3, false, Mode::Bursts { every_s: 0.1 });
        plan.timeout_s = 10.0;
        let load = drive(plan, slow, Duration::from_millis(190));
        // Due after 0.1 s, begun after 0.15 s, answered after 0.3 s.
        assert_eq!((load.record.counts.unavailable, load.record.counts.all()), (6, 6));
        assert!(load.record.max_s() >= 0.199, "{}", load.record.max_s());
        assert!(load.flight().average <= 1.5, "{:?}", load.flight());
    }
}

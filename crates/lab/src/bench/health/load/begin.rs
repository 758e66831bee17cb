//! Begins transactions: at the times given by the plan's mode, each in a free slot.

use std::collections::VecDeque;
use std::time::Duration;

use super::slot::Phase;
use super::{Load, Mode};
use crate::load::arrivals::Schedule;

/// The threads of a turn restart spread over this time, so that they do not all begin at once.
const RESUME: Duration = Duration::from_millis(100);

impl Load {
    /// Closed loop: when each thread starts in this turn, in order. Open loop: every slot is free from the first turn on.
    pub(super) fn starts(&mut self) -> VecDeque<(Duration, u32)> {
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

    /// When transactions are due, relative to the turn's start; none in the closed loop.
    pub(super) fn schedule(&self) -> Option<Box<dyn Iterator<Item = Duration>>> {
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

    /// Closed loop: begins one transaction on every free slot. A slot whose transaction fails immediately is free again, and waits for the
    /// next call.
    pub(super) fn begin_free(&mut self) {
        for _ in 0..self.free.len() {
            let Some(at) = self.free.pop_front() else { return };
            self.begin(at, self.slots[at as usize].freed);
        }
    }

    /// Open loop: begins the transactions that are due, as far as there are free slots.
    pub(super) fn begin_waiting(&mut self) {
        while let Some((at, due)) = self.next_waiting() {
            self.begin(at, due);
        }
    }

    /// Bursts: opens all connections, then sends all requests.
    pub(super) fn begin_burst(&mut self) {
        let mut opened = Vec::new();
        while let Some((at, due)) = self.next_waiting() {
            let now = self.now();
            self.burst_due += 1;
            // If the previous transaction on this slot ended late, this one has waited for the server, and the wait counts.
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

    /// The next transaction that is due, and a free slot for it.
    pub(super) fn next_waiting(&mut self) -> Option<(u32, Duration)> {
        if self.free.is_empty() {
            return None;
        }
        let due = self.waiting.pop_front()?;
        Some((self.free.pop_front()?, due))
    }

    pub(super) fn begin(&mut self, at: u32, due: Duration) {
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

    /// Starts a transaction: from here on it must end with an outcome.
    pub(super) fn start(&mut self, at: u32, due: Duration) {
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
}

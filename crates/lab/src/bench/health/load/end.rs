//! Ends transactions: records the outcome and frees the slot.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Load;
use super::slot::Phase;
use crate::bench::health::answer::AnswerClass;

/// How long a server may take to close a connection after a `Connection: close` request.
const CLOSE_MAX: Duration = Duration::from_secs(1);

impl Load {
    pub(super) fn answered(&mut self, at: u32, outcome: AnswerClass, keeps: bool, is_ended: bool) {
        if !outcome.is_answer() {
            return self.end(at, outcome);
        }
        self.note(at, outcome);
        if keeps && self.plan.keep && !is_ended {
            self.release(at, true);
        } else if is_ended || keeps {
            // The server has closed the connection, or keeps it open against the request: do not wait for it.
            self.release(at, false);
        } else {
            let now = self.now();
            let slot = &mut self.slots[at as usize];
            slot.phase = Phase::Closing;
            slot.since = now;
        }
    }

    /// Ends a transaction and closes its connection.
    pub(super) fn end(&mut self, at: u32, outcome: AnswerClass) {
        self.note(at, outcome);
        self.release(at, false);
    }

    pub(super) fn note(&mut self, at: u32, outcome: AnswerClass) {
        let now = self.now();
        let slot = &self.slots[at as usize];
        let took = now.saturating_sub(slot.due);
        self.in_flight -= 1;
        self.flown += now.saturating_sub(slot.since);
        let group = (at / u32::from(self.plan.threads).max(1)) as u16;
        let epoch_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
        self.record.add(now, epoch_s, group, took, outcome);
    }

    pub(super) fn release(&mut self, at: u32, keep: bool) {
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

    /// Ends transactions that exceed the timeout.
    pub(super) fn expire(&mut self, now: Duration) {
        for at in 0..self.slots.len() as u32 {
            let slot = &self.slots[at as usize];
            let since = now.saturating_sub(slot.since);
            match slot.phase {
                Phase::Sending | Phase::Reading if since > self.timeout => self.end(at, AnswerClass::Timeout),
                Phase::Closing if since > CLOSE_MAX => self.release(at, false),
                _ => {}
            }
        }
        while self.waiting.front().is_some_and(|due| now.saturating_sub(*due) > self.timeout) {
            if let Some(due) = self.waiting.pop_front() {
                let epoch_s =
                    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
                self.record.add(now, epoch_s, 0, now.saturating_sub(due), AnswerClass::Timeout);
            }
        }
    }
}

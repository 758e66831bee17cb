//! The time of a log, whose single entries may have any time.
//!
//! A session that sets its own `timestamp` is logged with that time by MariaDB, and a server whose clock was set back writes query times
//! such as 18446744073709.55 s. So the log's clock is the median of the ends that the connections seen last reported, and an entry far from
//! it counts as having ended when it was written. If the clock itself jumps (those sessions are the majority, the server's clock was set,
//! nobody asked for an hour, logs stand one behind another), the times behind the jump are moved, so that they go on where those before it
//! ended: what comes from [`LogClock`] is fit for orders, lags and pauses, and may differ from the calendar.

use crate::event::{Clock, Event};
use crate::time::SECOND_US;

/// The number of connections whose median is the clock.
const CONNECTIONS: usize = 5;
/// A connection that logged nothing among so many entries no longer counts.
const ENTRIES: u64 = 64;
/// How far an end may be before the clock: entries are written nearly in the order of their ends, some to the second.
const BACK_US: u64 = 10 * SECOND_US;
/// The longest pause of a log that counts as one.
const PAUSE_US_MAX: u64 = 3_600 * SECOND_US;
/// A statement that took longer than 30 days took an unknown time.
const QUERY_US_MAX: u64 = 30 * 86_400 * SECOND_US;

/// The times of an entry, in microseconds; plausible ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The start by which entries are sorted ([`Event::order_us`]).
    pub order_us: u64,
    /// The end.
    pub end_us: u64,
    /// How long the statement took.
    pub query_time_us: u64,
}

/// The clock of one log.
#[derive(Clone, Debug, Default)]
pub struct LogClock {
    /// The last end of each connection that was seen last, and the number of its entry.
    ends: Vec<(Option<u64>, u64, u64)>,
    entries: u64,
    /// The median of the ends, as the log tells them.
    median_us: u64,
    /// What is added to the log's times.
    shift_us: i64,
    latest_us: u64,
    corrected: u64,
    jumps: u64,
}

impl LogClock {
    /// The times of the next entry.
    pub fn times(&mut self, event: &Event<'_>) -> Times {
        self.entries += 1;
        let is_timed = event.clock != Clock::None;
        if is_timed {
            self.ended(event.connection, event.end_us);
        }
        let near = self.median_us.saturating_sub(BACK_US)..=self.median_us.saturating_add(PAUSE_US_MAX);
        let is_near = is_timed && near.contains(&event.end_us);
        let is_query_time = event.query_time_us <= QUERY_US_MAX;
        self.corrected += u64::from((is_timed && !is_near) || !is_query_time);
        let query_time_us = if is_query_time { event.query_time_us } else { 0 };
        if !is_near {
            return Times { order_us: self.latest_us, end_us: self.latest_us, query_time_us };
        }
        let end_us = self.moved(event.end_us);
        self.latest_us = self.latest_us.max(end_us);
        let order_us = if is_query_time { self.moved(event.order_us()) } else { end_us };
        Times { order_us, end_us, query_time_us }
    }

    /// The present time of the log.
    pub fn now_us(&self) -> u64 {
        self.moved(self.median_us)
    }

    /// The number of entries whose times could not be true.
    pub fn corrected(&self) -> u64 {
        self.corrected
    }

    /// How often the clock jumped, forwards by more than an hour or backwards.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    fn moved(&self, us: u64) -> u64 {
        us.saturating_add_signed(self.shift_us)
    }

    fn ended(&mut self, connection: Option<u64>, end_us: u64) {
        let number = self.entries;
        self.ends
            .retain(|(known, _, seen)| (known.is_none() || *known != connection) && seen + ENTRIES > number);
        if self.ends.len() == CONNECTIONS {
            self.ends.remove(0);
        }
        self.ends.push((connection, end_us, number));
        let mut sorted = [u64::MAX; CONNECTIONS];
        for (place, (_, end_us, _)) in sorted.iter_mut().zip(&self.ends) {
            *place = *end_us;
        }
        sorted.sort_unstable();
        let before_us = std::mem::replace(&mut self.median_us, sorted[(self.ends.len() - 1) / 2]);
        let is_jump = self.median_us > before_us.saturating_add(PAUSE_US_MAX)
            || self.median_us.saturating_add(BACK_US) < before_us;
        if before_us > 0 && is_jump {
            self.jumps += 1;
            let by_us = (before_us.cast_signed()).saturating_sub(self.median_us.cast_signed());
            self.shift_us = self.shift_us.saturating_add(by_us);
        }
    }
}

//! The time of a log, whose single entries may have any time.
//!
//! A session that sets its own `timestamp` is logged with that time by MariaDB, and a server whose clock was set back writes query times
//! such as 18446744073709.55 s. So the log's clock is the median of the ends that the connections seen last reported, and an entry far from
//! it counts as having ended when it was written. If the clock itself jumps (those sessions are the majority, the server's clock was set,
//! nobody asked for an hour, logs stand one behind another), the times behind the jump are moved, so that they go on where those before it
//! ended. So the differences between times that come from [`LogClock`] can be trusted, and the times themselves may not be the calendar's.

use crate::event::{Clock, Event};
use crate::time::SECOND_US;

/// The number of connections whose median is the clock.
const CONNECTIONS: usize = 5;
/// A connection whose ends did not change among so many entries does not count.
const ENTRIES: u64 = 64;
/// How far an end may be before the clock: entries are written nearly in the order of their ends, some to the second.
const BACK_US: u64 = 10 * SECOND_US;
/// The longest pause of a log that counts as one.
const PAUSE_US_MAX: u64 = 3_600 * SECOND_US;
/// The year 9999; what is beyond that is no time.
const TIME_US_MAX: u64 = 253_402_300_799 * SECOND_US;
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
    ends: Vec<Seen>,
    entries: u64,
    /// The median of the ends, as the log tells them.
    median_us: u64,
    /// What is added to the log's times.
    shift_us: i64,
    latest_us: u64,
    corrected: u64,
    jumps: u64,
}

/// A connection that was seen last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    connection: Option<u64>,
    end_us: u64,
    /// The number of the entry with which that end came.
    changed: u64,
}

impl LogClock {
    /// The times of the next entry.
    pub fn times(&mut self, event: &Event<'_>) -> Times {
        self.entries += 1;
        let has_time = event.clock != Clock::None;
        let is_timed = has_time && event.end_us <= TIME_US_MAX;
        if is_timed {
            self.ended(event.connection, event.end_us);
        }
        let near = self.median_us.saturating_sub(BACK_US)..=self.median_us.saturating_add(PAUSE_US_MAX);
        let is_near = is_timed && near.contains(&event.end_us);
        let is_query_time = event.query_time_us <= QUERY_US_MAX;
        self.corrected += u64::from((has_time && !is_near) || !is_query_time);
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

    /// The number of entries whose times are far from the clock, or whose query time cannot be true.
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
        match self.ends.iter_mut().find(|seen| seen.connection.is_some() && seen.connection == connection) {
            // A time that stands still is a second of a log, or a client's own.
            Some(seen) if seen.end_us == end_us => {}
            Some(seen) => (seen.end_us, seen.changed) = (end_us, number),
            None => {
                if self.ends.len() == CONNECTIONS {
                    let oldest = self.ends.iter().enumerate().min_by_key(|(_, seen)| seen.changed);
                    oldest.map(|(place, _)| place).map(|place| self.ends.swap_remove(place));
                }
                self.ends.push(Seen { connection, end_us, changed: number });
            }
        }
        let before_us = self.median_us;
        let mut moving = [before_us; CONNECTIONS];
        let seen = self.ends.iter().filter(|seen| seen.changed + ENTRIES > number);
        let count = moving.iter_mut().zip(seen).map(|(place, seen)| *place = seen.end_us).count();
        moving[..count].sort_unstable();
        // Of two in the middle, the one that was it before.
        let middle = &moving[count.saturating_sub(1) / 2..=count / 2];
        self.median_us = middle.iter().copied().min_by_key(|us| us.abs_diff(before_us)).unwrap_or(before_us);
        let is_jump = self.median_us > before_us.saturating_add(PAUSE_US_MAX)
            || self.median_us.saturating_add(BACK_US) < before_us;
        if before_us > 0 && is_jump {
            self.jumps += 1;
            self.shift_us += before_us.cast_signed() - self.median_us.cast_signed();
        }
    }
}

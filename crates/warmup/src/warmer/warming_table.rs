//! The state of warming for each standby: shown by status and metrics, and checked before a switchover.
//!
//! Input: the events of the warmer. Output: [`Seen`], a copy at one moment. Counts continue over the replays of one process: each replay
//! has its own figures, which are added to the earlier ones when it ends.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::replay::figures::Figures;
use crate::warmth::Warmth;

/// Whether a standby is warmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// With the reads of this node.
    Warmed {
        /// The active node.
        by: String,
    },
    /// It should be warmed, but cannot be at present; tried again.
    Failing {
        /// The reason, as a sentence.
        why: String,
    },
    /// It should not be warmed.
    Off {
        /// The reason, as a sentence.
        why: String,
    },
}

/// Counts since this process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Statements that succeeded.
    pub executed: u64,
    /// Statements that were left out because they had waited longer than the allowed lag.
    pub late: u64,
    /// Events that were left out because of their kind, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Statements that failed, by class.
    pub errors: BTreeMap<String, u64>,
    /// Bytes of the log that the streamer skipped because this reader was too far behind.
    pub dropped_bytes: u64,
    /// Bytes that belong to no event.
    pub unparsed_bytes: u64,
    /// Events whose times are far from the log's clock; they count as having run when they were written.
    pub corrected: u64,
}

/// One standby, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its name.
    pub standby: String,
    /// Whether it is warmed.
    pub state: State,
    /// Counts.
    pub totals: Totals,
    /// How far the replay is behind what was read, in recorded time.
    pub lag: Duration,
    /// Statements that wait to be run.
    pub waiting: u64,
    /// Sessions on the standby.
    pub sessions: u64,
    /// How warm it is; `None` while no replay runs, since warmth is only measured during one.
    pub warmth: Option<Warmth>,
}

/// The table of all standbys; clones share it.
#[derive(Clone, Debug, Default)]
pub struct WarmingTable(Arc<Mutex<BTreeMap<String, Line>>>);

#[derive(Debug)]
struct Line {
    state: State,
    past: Totals,
    now: Arc<Figures>,
    warmth: Option<watch::Receiver<Warmth>>,
}

impl Totals {
    fn of(figures: &Figures) -> Totals {
        let (too_large, no_text) = figures.left_out_by_proxy();
        let left_out = figures.left_out().into_iter().chain([
            ("too large for the proxy to tell", too_large),
            ("with no text that says the same", no_text),
        ]);
        let log = figures.log();
        Totals {
            executed: figures.executed.load(Relaxed),
            late: figures.late.load(Relaxed),
            left_out: left_out.filter(|(_, count)| *count > 0).collect(),
            errors: figures.errors(),
            dropped_bytes: figures.dropped_bytes.load(Relaxed),
            unparsed_bytes: log.counts.unparsed_bytes,
            corrected: log.corrected,
        }
    }

    fn add(&mut self, other: Totals) {
        self.executed += other.executed;
        self.late += other.late;
        self.dropped_bytes += other.dropped_bytes;
        self.unparsed_bytes += other.unparsed_bytes;
        self.corrected += other.corrected;
        for (words, count) in other.left_out {
            *self.left_out.entry(words).or_default() += count;
        }
        for (class, count) in other.errors {
            *self.errors.entry(class).or_default() += count;
        }
    }

    /// Statements that failed, of all classes.
    pub fn errors_all(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl WarmingTable {
    /// All standbys by name.
    pub fn seen(&self) -> Vec<Seen> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = lines.iter().map(|(standby, line)| {
            let mut totals = line.past.clone();
            totals.add(Totals::of(&line.now));
            Seen {
                standby: standby.clone(),
                state: line.state.clone(),
                totals,
                lag: line.now.lag(),
                waiting: u64::try_from(line.now.waiting.load(Relaxed)).unwrap_or(0),
                sessions: u64::try_from(line.now.sessions.load(Relaxed)).unwrap_or(0),
                warmth: line.warmth.as_ref().map(|warmth| warmth.borrow().clone()),
            }
        });
        seen.collect()
    }

    pub(super) fn is_warmed(&self, standby: &str) -> bool {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(lines.get(standby), Some(Line { state: State::Warmed { .. }, .. }))
    }

    /// Sets the state of a standby.
    pub(super) fn state(&self, standby: &str, state: State) {
        self.line(standby, |line| line.state = state);
    }

    /// Creates the figures of a new replay, and adds those of the last one to the totals.
    pub(super) fn figures(&self, standby: &str) -> Arc<Figures> {
        let figures = Arc::new(Figures::default());
        self.line(standby, |line| {
            let before = std::mem::replace(&mut line.now, Arc::clone(&figures));
            line.past.add(Totals::of(&before));
        });
        figures
    }

    /// Sets the receiver of a standby's warmth.
    pub(super) fn measured(&self, standby: &str, warmth: Option<watch::Receiver<Warmth>>) {
        self.line(standby, |line| line.warmth = warmth);
    }

    /// A replay was aborted: the statements that wait in it will never be run.
    pub(super) fn ended(&self, standby: &str) {
        self.figures(standby);
        self.measured(standby, None);
    }

    /// Removes standbys that no longer exist.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|standby, _| is_there(standby));
    }

    fn line(&self, standby: &str, change: impl FnOnce(&mut Line)) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(standby.to_owned()).or_insert_with(|| Line {
            state: State::Off { why: "it has not been looked at yet".into() },
            past: Totals::default(),
            now: Arc::default(),
            warmth: None,
        });
        change(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_from_one_replay_to_the_next_and_what_waited_is_gone() {
        let warming_table = WarmingTable::default();
        for _ in 0..2 {
            let figures = warming_table.figures("db2");
            figures.executed.fetch_add(5, Relaxed);
            figures.waiting.fetch_add(3, Relaxed);
        }
        warming_table.state("db2", State::Warmed { by: "db1".into() });
        let seen = warming_table.seen();
        assert_eq!((seen[0].totals.executed, seen[0].waiting), (10, 3));
        warming_table.ended("db2");
        let seen = warming_table.seen();
        assert_eq!((seen[0].totals.executed, seen[0].waiting, seen[0].sessions), (10, 0, 0));
        warming_table.keep(|standby| standby != "db2");
        assert_eq!(warming_table.seen(), []);
    }
}

//! The state of warming for each standby: shown by status and metrics, and checked before a switchover.
//!
//! Input: the events of the warmer. Output: [`Standby`], a copy at one moment. Counts continue over the replays of one process: each replay
//! has its own figures, which are added to the earlier ones when it ends.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use api::warm::{Standby, Totals};
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

fn totals(figures: &Figures) -> Totals {
    let (too_large, no_text) = figures.left_out_by_proxy();
    let left_out = figures.left_out().into_iter().chain([
        ("too large for the proxy to tell", too_large),
        ("with no text that says the same", no_text),
    ]);
    let left_out = left_out.filter(|(_, count)| *count > 0);
    let log = figures.log();
    Totals {
        executed: figures.executed.load(Relaxed),
        late: figures.late.load(Relaxed),
        left_out: left_out.map(|(why, count)| (why.to_owned(), count)).collect(),
        errors: figures.errors(),
        dropped_bytes: figures.dropped_bytes.load(Relaxed),
        unparsed_bytes: log.counts.unparsed_bytes,
        corrected_times: log.corrected,
    }
}

fn add(totals: &mut Totals, other: Totals) {
    totals.executed += other.executed;
    totals.late += other.late;
    totals.dropped_bytes += other.dropped_bytes;
    totals.unparsed_bytes += other.unparsed_bytes;
    totals.corrected_times += other.corrected_times;
    for (words, count) in other.left_out {
        *totals.left_out.entry(words).or_default() += count;
    }
    for (class, count) in other.errors {
        *totals.errors.entry(class).or_default() += count;
    }
}

impl WarmingTable {
    /// All standbys by name.
    pub fn seen(&self) -> Vec<Standby> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = lines.iter().map(|(standby, line)| {
            let mut all = line.past.clone();
            add(&mut all, totals(&line.now));
            let (state, by, why) = match line.state.clone() {
                State::Warmed { by } => ("warmed", Some(by), None),
                State::Failing { why } => ("failing", None, Some(why)),
                State::Off { why } => ("off", None, Some(why)),
            };
            Standby {
                node: standby.clone(),
                state: state.into(),
                by,
                why,
                totals: all,
                lag_ms: line.now.lag().as_millis() as u64,
                waiting: u64::try_from(line.now.waiting.load(Relaxed)).unwrap_or(0),
                sessions: u64::try_from(line.now.sessions.load(Relaxed)).unwrap_or(0),
                warmth: line.warmth.as_ref().map(|warmth| warmth.borrow().told()),
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
            add(&mut line.past, totals(&before));
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

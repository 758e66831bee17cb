//! The results: every case with its figures, and which goals are met.

use serde::Serialize;

use super::record::Recorded;
use super::way::{COLD, CONTROL, PARALLEL};
use crate::failover::result::Machine;

/// Goal: maximum of the disk reads after warming by parallel replay, relative to the control's.
pub const GOAL_TO_CONTROL: f64 = 1.2;

/// Goal: a replay that keeps up ends soon after its source: maximum delay as a fraction of the source's time. The replay holds statements
/// for a second to order them, and in the last second reads the rest.
pub const GOAL_BEHIND: f64 = 0.25;

/// Goal: maximum of the 99th percentile after a failover to a warmed standby, relative to that before.
pub const GOAL_P99: f64 = 1.2;

/// Goal: maximum error of a forecast, as a fraction of the counted reads, in either direction.
pub const GOAL_FORECAST: f64 = 0.1;

/// The counters at one time of the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Since the first statement, in recorded time, s.
    pub recorded_s: f64,
    /// Pages read from disk since then for which a statement waited (Innodb_buffer_pool_reads).
    pub pool_reads: u64,
    /// Read operations since then (Innodb_data_reads).
    pub data_reads: u64,
}

/// Results of one way of warming.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Name on the command line.
    pub name: &'static str,
    /// Title in tables.
    pub title: &'static str,
    /// Number of statements that its warming must have run, if known.
    pub expected: Option<u64>,
    /// The replay of its warming; None where nothing was replayed.
    pub warmed: Option<super::playback::Played>,
    /// Duration of the warming, s; None where nothing was done.
    pub warm_s: Option<f64>,
    /// Pages for which a statement waited during the warming.
    pub warm_reads: u64,
    /// The measurement: chunk 2.
    pub played: super::playback::Played,
    /// Pages read from disk during it for which a statement waited.
    pub disk_reads: u64,
    /// Read operations during it.
    pub data_reads: u64,
    /// `disk_reads` relative to the control's.
    pub to_control: Option<f64>,
    /// The counters over time.
    pub samples: Vec<Sample>,
}

/// A goal, and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// Description.
    pub what: String,
    /// The measured value.
    pub figure: f64,
    /// Its limit.
    pub at_most: f64,
    /// Whether the value is within the limit.
    pub holds: bool,
}

impl Goal {
    fn new(what: &str, figure: f64, at_most: f64) -> Self {
        Self { what: what.to_owned(), figure, at_most, holds: figure <= at_most }
    }
}

/// The conditions of the run.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// End of the run, as `2026-01-31T12:00:00Z`.
    pub at: String,
    /// The table, MiB.
    pub data_mb: u32,
    /// The active node's buffer pool, MiB.
    pub pool_mb: u32,
    /// The standby's, MiB.
    pub standby_pool_mb: u32,
    /// Length of a chunk, s.
    pub chunk_s: u32,
    /// Statements a second.
    pub rate: u32,
    /// Number of connections that ran them.
    pub connections: u32,
    /// Speed factor at which chunk 2 was measured, relative to its recording.
    pub speed: f64,
    /// Seed of the workload.
    pub seed: u64,
    /// Blocks (pages of rows) of the hot set, and how many of them are new after a chunk.
    pub hot_blocks: u64,
    /// See `hot_blocks`.
    pub drift_blocks: u64,
    /// A short run on little data: too few statements for a goal that compares with the control.
    pub is_quick: bool,
    /// Why the page cache may hide disk reads; None if it cannot.
    pub page_cache: Option<String>,
}

/// All results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The conditions.
    pub conditions: Conditions,
    /// The machine.
    pub machine: Machine,
    /// Chunk 1 and chunk 2.
    pub chunks: [Recorded; 2],
    /// In the order in which they were measured.
    pub cases: Vec<Case>,
    /// Whether replay keeps up with the source; empty with --quick.
    pub keep_up: Vec<super::keepup::KeepUp>,
    /// The cost for the active node; empty with --quick.
    pub prices: Vec<super::price::Price>,
    /// Real failovers under load: response times; empty with --quick.
    pub failovers: Vec<super::failover::Failover>,
    /// Forecasts of `understudy warmth`, and the counted disk reads of the failover; with --quick only a cold standby.
    pub forecasts: Vec<super::forecast::Forecast>,
    /// The goals.
    pub goals: Vec<Goal>,
}

impl Report {
    /// The case with this name.
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// Compares every case with the control, and decides which goals are met.
    pub fn judge(&mut self) {
        let control = self.case(CONTROL).map(|case| case.disk_reads);
        if let Some(control) = control {
            for case in &mut self.cases {
                case.to_control = Some(ratio(case.disk_reads, control));
            }
        }
        let mut goals = Vec::new();
        let reads = |name: &str| self.case(name).map(|case| case.disk_reads);
        if let (Some(parallel), Some(control), false) =
            (reads(PARALLEL), reads(CONTROL), self.conditions.is_quick)
        {
            let what = "disk reads after warming by parallel replay, as a multiple of the control's";
            goals.push(Goal::new(what, ratio(parallel, control), GOAL_TO_CONTROL));
        }
        if let (Some(parallel), Some(cold)) = (reads(PARALLEL), reads(COLD)) {
            let what = "disk reads after warming by parallel replay, as a part of the cold standby's";
            goals.push(Goal::new(what, ratio(parallel, cold), 1.0));
        }
        let asked = self.chunks[1].reads;
        let missed: u64 =
            self.cases.iter().map(|case| case.missed() + case.played.statements.abs_diff(asked)).sum();
        let what = "reads that were recorded and not replayed, in all cases together";
        goals.push(Goal::new(what, missed as f64, 0.0));
        if let Some(row) = self.keep_up.first() {
            let what = "time that full-rate replay is behind the source at its end, as a part of the time that the source ran";
            goals.push(Goal::new(what, hundredths(row.behind_s / row.source_s.max(0.001)), GOAL_BEHIND));
        }
        if let Some(row) = self.failovers.first() {
            let what =
                "p99 in the first 10 s after a failover to the warmed standby, as a multiple of that before";
            goals.push(Goal::new(what, row.p99_ratio, GOAL_P99));
        }
        // A short run has too few reads for such a narrow goal.
        for row in self.forecasts.iter().filter(|_| !self.conditions.is_quick) {
            let what = format!(
                "error of the forecast of disk reads after a failover to a standby that is {}",
                row.standby
            );
            goals.push(Goal::new(&what, row.error.abs(), GOAL_FORECAST));
        }
        if !self.failovers.is_empty() {
            let moved = self.failovers.iter().filter(|row| row.moved_back).count();
            goals.push(Goal::new("failovers that went back by themselves", moved as f64, 0.0));
        }
        self.goals = goals;
    }
}

impl Case {
    /// Difference between the statements replayed for its warming and those recorded.
    fn missed(&self) -> u64 {
        let warmed = self.warmed.zip(self.expected);
        warmed.map_or(0, |(warmed, expected)| warmed.statements.abs_diff(expected))
    }
}

/// Rounded to two decimal places; a control without any read counts as one read.
fn ratio(part: u64, whole: u64) -> f64 {
    hundredths(part as f64 / whole.max(1) as f64)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

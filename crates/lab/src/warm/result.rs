//! What came of it: every case with its figures, and which goals hold.

use serde::Serialize;

use super::record::Recorded;
use super::way::{COLD, CONTROL, PARALLEL};
use crate::failover::result::Machine;

/// Reads from disk after warming by parallel replay, as a multiple of the control's: at most this.
pub const GOAL_TO_CONTROL: f64 = 1.2;

/// A replay that keeps up ends soon after its source: at most this part of the source's time later. The replay holds statements for a second, to put
/// them in order, and reads in the last second what is left.
pub const GOAL_BEHIND: f64 = 0.25;

/// The 99th percentile after a failover to a warmed standby, as a multiple of that before: at most this.
pub const GOAL_P99: f64 = 1.2;

/// The error of a forecast, as a part of what was then counted: at most this, in either direction.
pub const GOAL_FORECAST: f64 = 0.1;

/// The counters at one moment of the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Since the first statement, in recorded time, s.
    pub recorded_s: f64,
    /// Pages read from disk since then, that a statement waited for (Innodb_buffer_pool_reads).
    pub pool_reads: u64,
    /// Read operations since then (Innodb_data_reads).
    pub data_reads: u64,
}

/// One way.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// On the command line.
    pub name: &'static str,
    /// In tables.
    pub title: &'static str,
    /// Statements that its warming must have run, where that is known.
    pub expected: Option<u64>,
    /// What its warming ran; none where nothing was run.
    pub warmed: Option<super::playback::Played>,
    /// How long the warming took, s; none where nothing was done.
    pub warm_s: Option<f64>,
    /// Pages that a statement waited for while it was warmed.
    pub warm_reads: u64,
    /// The measurement: chunk 2.
    pub played: super::playback::Played,
    /// Pages read from disk during it, that a statement waited for.
    pub disk_reads: u64,
    /// Read operations during it.
    pub data_reads: u64,
    /// `disk_reads`, as a multiple of the control's.
    pub to_control: Option<f64>,
    /// The counters over time.
    pub samples: Vec<Sample>,
}

/// A goal, and whether it holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// In words.
    pub what: String,
    /// What was measured.
    pub figure: f64,
    /// What it may be at most.
    pub at_most: f64,
    /// It is no more than that.
    pub holds: bool,
}

impl Goal {
    fn new(what: &str, figure: f64, at_most: f64) -> Self {
        Self { what: what.to_owned(), figure, at_most, holds: figure <= at_most }
    }
}

/// What it was measured with.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// When, as `2026-01-31T12:00:00Z`.
    pub at: String,
    /// The table, MiB.
    pub data_mb: u32,
    /// The active node's buffer pool, MiB.
    pub pool_mb: u32,
    /// The standby's, MiB.
    pub standby_pool_mb: u32,
    /// A chunk's length, s.
    pub chunk_s: u32,
    /// Statements a second.
    pub rate: u32,
    /// Connections that ran them.
    pub connections: u32,
    /// Chunk 2 was measured so many times as fast as recorded.
    pub speed: f64,
    /// Of the workload.
    pub seed: u64,
    /// Blocks (pages of rows) of the hot set, and how many of them are new after a chunk.
    pub hot_blocks: u64,
    /// See `hot_blocks`.
    pub drift_blocks: u64,
    /// A short run on little data: too few statements for a goal that compares with the control.
    pub is_quick: bool,
    /// Why the page cache may hide reads from disk; none where it cannot.
    pub page_cache: Option<String>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What it was measured with.
    pub conditions: Conditions,
    /// On what.
    pub machine: Machine,
    /// Chunk 1 and chunk 2.
    pub chunks: [Recorded; 2],
    /// In the order in which they were measured.
    pub cases: Vec<Case>,
    /// Whether replay keeps up with the source; empty with --quick.
    pub keep_up: Vec<super::keepup::KeepUp>,
    /// What the active node pays; empty with --quick.
    pub prices: Vec<super::price::Price>,
    /// Real failovers under load: response times; empty with --quick.
    pub failovers: Vec<super::failover::Failover>,
    /// What `understudy warmth` forecast, and what the failover then cost; with --quick a cold standby alone.
    pub forecasts: Vec<super::forecast::Forecast>,
    /// What had to be shown.
    pub goals: Vec<Goal>,
}

impl Report {
    /// The one of this name.
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// Compares everything with the control, and says which goals hold.
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
        // A short run has too few reads for so narrow a goal.
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

    /// All goals hold.
    pub fn is_good(&self) -> bool {
        self.goals.iter().all(|goal| goal.holds)
    }

    /// For files.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

impl Case {
    /// How far what was replayed for its warming is from what was recorded.
    fn missed(&self) -> u64 {
        let warmed = self.warmed.zip(self.expected);
        warmed.map_or(0, |(warmed, expected)| warmed.statements.abs_diff(expected))
    }
}

/// To two digits behind the point; a control without a read counts as one.
fn ratio(part: u64, whole: u64) -> f64 {
    hundredths(part as f64 / whole.max(1) as f64)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

//! The results of a failover run: the JSON with one object for each cell, and the timelines for the report.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::case::{Case, Scope, Writers, seed_says};
use super::understudy::Sentence;
use super::watch::Words;
use crate::checker::LedgerCheck;

use crate::figures::{Bucket, Effect, quantile};
use crate::ledger::Trouble;
use crate::load::pinned::PinnedReport;
use crate::stage::ClusterKind;

/// The proxy between the clients and the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// Understudy.
    Understudy,
    /// HAProxy, started by the lab, with each node's own `understudy check`.
    Haproxy,
    /// HAProxy, following one `understudy serve`.
    HaproxyAgent,
    /// MHA, with a HAProxy that its scripts point at the master.
    Mha,
    /// An external proxy, given by its address.
    Through(String),
}

impl Who {
    /// Whether it is only measured for comparison.
    pub fn is_baseline(&self) -> bool {
        matches!(self, Self::Haproxy | Self::HaproxyAgent | Self::Mha)
    }

    /// Order in the table: the baselines come first.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Haproxy => 0,
            Self::HaproxyAgent => 1,
            Self::Mha => 2,
            Self::Understudy | Self::Through(_) => 3,
        }
    }
}

/// One repetition of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Repetition {
    /// The node that was hit by the fault.
    pub victim: String,
    /// Gaps and latencies.
    #[serde(flatten)]
    pub effect: Effect,
    /// Transactions of the naive client that failed from the fault on, by code.
    pub errors_naive_by_code: BTreeMap<String, u64>,
    /// The same for the retrying client.
    pub errors_retrying_by_code: BTreeMap<String, u64>,
    /// Errors of either client before the fault: caused by the load or the machine.
    pub errors_quiet: u64,
    /// Attempts that the retrying client had to repeat.
    pub retries: u64,
    /// Transactions (and writes of the probe) whose outcome the client does not know.
    pub unknown: u64,
    /// Number of transactions that were due.
    pub transactions: u64,
    /// Result of comparing the ledger with the nodes.
    pub verdict: LedgerCheck,
    /// Reads of the probe that missed an acknowledged write.
    pub stale_reads: u64,
    /// Reads of the probe.
    pub probe_reads: u64,
    /// Errors of the probe, by code.
    pub probe_errors: BTreeMap<String, u64>,
    /// Sessions on other nodes that cannot move (a temporary table): those that were ended, by code.
    pub pinned_errors_by_code: BTreeMap<String, u64>,
    /// The longest statement of these sessions, ms.
    pub pinned_ms_max: Option<f64>,
    /// All sessions that cannot move, those of the victim too.
    pub pinned: Option<PinnedReport>,
    /// The response to the graceful order, and how long it took.
    pub order: Option<super::understudy::Ordered>,
    /// Results of the real sysbench, if it was the driver: then `outage_ms` and the naive errors are from it, and the gaps and the hold are
    /// of the retrying client.
    pub sysbench: Option<BySysbench>,
    /// The first errors with all details.
    pub troubles: Vec<Trouble>,
    /// Time from the heal order until the node was synced again, ms.
    pub heal_ms: f64,
    /// Transactions that only the old primary had when it came back, and that were undone there so that it can follow (`understudy errant
    /// flashback`). None of them was acknowledged, unless the ledger says otherwise.
    pub undone: u64,
    /// For the plot; not part of the cells' JSON.
    #[serde(skip)]
    pub timeline: Timeline,
}

impl Repetition {
    /// Errors of the naive client.
    pub fn errors_naive(&self) -> u64 {
        self.errors_naive_by_code.values().sum()
    }

    /// Whether the outage is longer than the noise before the fault; always true with the real sysbench.
    pub fn is_above_noise(&self) -> bool {
        self.sysbench.is_some() || self.effect.outage_ms > self.effect.noise_ms
    }

    /// Errors of the retrying client.
    pub fn errors_retrying(&self) -> u64 {
        self.errors_retrying_by_code.values().sum()
    }
}

/// Results from the real sysbench's own trace of one repetition, its quiet phase included.
#[derive(Clone, Debug, Serialize)]
pub struct BySysbench {
    /// Its longest time without a commit, in whole seconds, and how it looked.
    pub outage: crate::trace::Outage,
    /// How often sysbench exited by itself.
    pub restarts: u32,
    /// Errors that it reported and continued after.
    pub errors_reported: u64,
}

impl BySysbench {
    /// Reads the results from a trace.
    pub fn of(trace: &crate::trace::Trace) -> Self {
        let outage = trace.outage();
        let errors_reported = outage.errors_reported.round() as u64;
        Self { restarts: trace.restarts(), errors_reported, outage }
    }

    /// The outage, ms; its last three digits are always 0.
    pub fn outage_ms(&self) -> f64 {
        f64::from(self.outage.seconds) * 1e3
    }

    /// The errors an application would have seen, under names that show that sysbench reported them.
    pub fn errors_by_code(&self) -> BTreeMap<String, u64> {
        let found = [("sysbench died", u64::from(self.restarts)), ("reported", self.errors_reported)];
        found.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), n)).collect()
    }
}

/// The course of one repetition; all times are since the start of its load.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Width of a bucket.
    pub width: Duration,
    /// Consecutive, from time 0.
    pub buckets: Vec<Bucket>,
    /// When the first order or signal was given.
    pub fault: Duration,
    /// When the server was then stopped (graceful only).
    pub stopped: Option<Duration>,
    /// The state that each node reported.
    pub nodes: BTreeMap<String, Words>,
    /// Understudy's journal: time and entry.
    pub journal: Vec<(Duration, Sentence)>,
}

/// One cell for one proxy.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Row.
    pub case: Case,
    /// Column.
    pub scope: Scope,
    /// The proxy.
    pub who: Who,
    /// The measurements; empty when skipped.
    pub repetitions: Vec<Repetition>,
    /// Why it was not measured.
    pub skipped: Option<String>,
    /// Error that aborted a repetition; the ones before it count.
    pub broke: Option<String>,
}

/// A cell's figures over all its repetitions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Number of repetitions.
    pub repetitions: usize,
    /// Median of the repetitions' outages.
    pub outage_ms: f64,
    /// The longest outage.
    pub outage_ms_worst: f64,
    /// The same median, with 0 for each outage within its repetition's own noise.
    pub outage_above_noise_ms: f64,
    /// The longest of those.
    pub outage_above_noise_ms_worst: f64,
    /// Whether one of them had not ended when the load did.
    pub outage_is_open: bool,
    /// The outage of each repetition, in order.
    pub outage_ms_list: Vec<f64>,
    /// Maximum added latency of an acknowledged transaction, over all repetitions; `None` when the service did not recover in one of them.
    pub hold_ms_max: Option<f64>,
    /// Median of the repetitions' maximum added latencies; `None` when the service did not recover in most of them.
    pub hold_ms_median: Option<f64>,
    /// Repetitions in which the service was not seen to recover: they have no hold.
    pub without_end: usize,
    /// Longest gap between acknowledged commits, whatever was due.
    pub gap_ms_worst: f64,
    /// The longest outage of the same load before the fault, over all repetitions: an outage up to this says nothing.
    pub noise_ms: f64,
    /// Whether outage and errors are from the real sysbench's own trace.
    pub by_sysbench: bool,
    /// Errors of the client that never retries, all repetitions.
    pub errors_naive: u64,
    /// The same by code.
    pub errors_naive_by_code: BTreeMap<String, u64>,
    /// Errors of the client that retries: those that retrying could not fix.
    pub errors_retrying: u64,
    /// The same by code.
    pub errors_retrying_by_code: BTreeMap<String, u64>,
    /// Errors before the fault.
    pub errors_quiet: u64,
    /// Rows acknowledged but missing.
    pub lost: usize,
    /// Rows that are on a node more than once.
    pub doubled: usize,
    /// Rows present although the transaction certainly failed or was never tried.
    pub phantom: usize,
    /// Nodes that differ from the first, over all repetitions.
    pub nodes_that_differ: usize,
    /// Outcome unknown to the client.
    pub unknown: u64,
    /// Reads that missed the client's own write.
    pub stale_reads: u64,
    /// Transactions that only the old primary had when it came back.
    pub undone: u64,
    /// Number of such reads.
    pub probe_reads: u64,
    /// Statements and connects of the probe that failed.
    pub probe_errors: u64,
    /// Sessions that cannot move, were on other nodes than the victim, and were ended.
    pub pinned_errors: u64,
    /// The same by code.
    pub pinned_errors_by_code: BTreeMap<String, u64>,
    /// The longest statement of such sessions, ms.
    pub pinned_ms_max: Option<f64>,
    /// The slowest graceful order.
    pub order_ms_max: Option<f64>,
}

impl Summary {
    /// All counts that should be 0 but are not, with their names.
    pub fn unusual(&self) -> impl Iterator<Item = (u64, &'static str)> + use<> {
        [
            (self.phantom as u64, "phantom"),
            (self.nodes_that_differ as u64, "nodes that differ"),
            (self.stale_reads, "stale reads"),
            (self.unknown, "unknown"),
            (self.errors_retrying, "errors of the retrying client"),
            (self.probe_errors, "errors of the probe"),
            (self.errors_quiet, "errors before the fault"),
            (self.pinned_errors, "sessions ended elsewhere"),
            (self.undone, "undone on the old primary"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
    }
}

impl Cell {
    /// Over all repetitions.
    pub fn summary(&self) -> Summary {
        let reps = &self.repetitions;
        // A repetition in which the service did not recover counts as the worst.
        let mut holds: Vec<f64> =
            reps.iter().map(|r| r.effect.hold_ms_max.unwrap_or(f64::INFINITY)).collect();
        holds.sort_unstable_by(f64::total_cmp);
        // Each against its own noise: a noisy quiet phase says nothing about the other repetitions.
        let above_noise = || reps.iter().map(|r| if r.is_above_noise() { r.effect.outage_ms } else { 0.0 });
        let worst = |of: &dyn Fn(&Repetition) -> f64| reps.iter().map(of).fold(0.0, f64::max);
        let add = |of: &dyn Fn(&Repetition) -> u64| reps.iter().map(of).sum::<u64>();
        let count = |of: &dyn Fn(&LedgerCheck) -> usize| reps.iter().map(|r| of(&r.verdict)).sum::<usize>();
        let by_code = |of: &dyn Fn(&Repetition) -> &BTreeMap<String, u64>| {
            let mut codes = BTreeMap::new();
            for (code, n) in reps.iter().flat_map(of) {
                *codes.entry(code.clone()).or_insert(0) += n;
            }
            codes
        };
        Summary {
            repetitions: reps.len(),
            outage_ms: median(reps.iter().map(|r| r.effect.outage_ms)).unwrap_or(0.0),
            outage_ms_worst: worst(&|r| r.effect.outage_ms),
            outage_above_noise_ms: median(above_noise()).unwrap_or(0.0),
            outage_above_noise_ms_worst: above_noise().fold(0.0, f64::max),
            outage_is_open: reps.iter().any(|r| r.effect.outage_is_open),
            outage_ms_list: reps.iter().map(|r| r.effect.outage_ms).collect(),
            hold_ms_max: holds.last().copied().filter(|hold| hold.is_finite()),
            hold_ms_median: holds
                .get(holds.len().saturating_sub(1) / 2)
                .copied()
                .filter(|hold| hold.is_finite()),
            without_end: holds.iter().filter(|hold| hold.is_infinite()).count(),
            gap_ms_worst: worst(&|r| r.effect.gap_ms),
            noise_ms: worst(&|r| r.effect.noise_ms),
            by_sysbench: reps.iter().any(|r| r.sysbench.is_some()),
            errors_naive: add(&Repetition::errors_naive),
            errors_naive_by_code: by_code(&|r| &r.errors_naive_by_code),
            errors_retrying: add(&Repetition::errors_retrying),
            errors_retrying_by_code: by_code(&|r| &r.errors_retrying_by_code),
            errors_quiet: add(&|r| r.errors_quiet),
            lost: count(&|v| v.lost.len()),
            doubled: count(&|v| v.doubled.len()),
            phantom: count(&|v| v.phantom.len()),
            nodes_that_differ: count(&|v| v.nodes_that_differ.len()),
            unknown: add(&|r| r.unknown),
            stale_reads: add(&|r| r.stale_reads),
            undone: add(&|r| r.undone),
            probe_reads: add(&|r| r.probe_reads),
            probe_errors: add(&|r| r.probe_errors.values().sum()),
            pinned_errors: add(&|r| r.pinned_errors_by_code.values().sum()),
            pinned_errors_by_code: by_code(&|r| &r.pinned_errors_by_code),
            pinned_ms_max: reps.iter().filter_map(|r| r.pinned_ms_max).reduce(f64::max),
            order_ms_max: reps.iter().filter_map(|r| r.order.as_ref()).map(|o| o.took_ms).reduce(f64::max),
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    // As integers, microseconds can be sorted and ranked exactly.
    let mut us: Vec<u64> = values.map(|ms| (ms * 1e3).round() as u64).collect();
    quantile(&mut us, 0.5).map(|us| us as f64 / 1e3)
}

/// The machine on which everything was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// Processor, as the kernel names it.
    pub processor: String,
    /// Number of cores.
    pub cores: usize,
    /// Memory, GiB.
    pub memory_gib: f64,
    /// Kernel.
    pub kernel: String,
    /// Name and version of each program.
    pub versions: BTreeMap<String, String>,
}

impl Machine {
    /// What it is and what runs on it, for the end of a page.
    pub fn facts(&self) -> Vec<(String, String)> {
        let machine = format!(
            "{} cores, {}, {} GiB, Linux {}",
            self.cores, self.processor, self.memory_gib, self.kernel
        );
        let versions = self.versions.iter().map(|(name, version)| (name.clone(), version.clone()));
        std::iter::once(("Machine".to_owned(), machine)).chain(versions).collect()
    }
}

/// The settings of the run, for the end of the report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Conditions {
    /// Which kind of cluster.
    pub kind: ClusterKind,
    /// Which cells share a cluster.
    pub cluster: String,
    /// Seed of all arrival schedules.
    pub seed: u64,
    /// Transactions a second of each client.
    pub rate: f64,
    /// Threads of each client.
    pub threads: u32,
    /// poisson or uniform.
    pub arrivals: String,
    /// text or prepared.
    pub protocol: String,
    /// builtin or sysbench.
    pub driver: String,
    /// Quiet phase before the fault, s.
    pub warm_s: f64,
    /// Minimum observation time from the fault on, s.
    pub after_s: f64,
    /// wsrep_provider_options beyond the stage's own; empty: Galera's defaults.
    pub galera_options: String,
    /// Understudy's settings that differ from its defaults.
    pub knobs: super::understudy::Knobs,
    /// HAProxy's configuration, if it was measured.
    pub haproxy: Option<String>,
    /// HAProxy's configuration for following Understudy, if it was measured.
    pub haproxy_agent: Option<String>,
    /// MHA's configuration, and what was changed in it, if it was measured.
    pub mha: Option<String>,
    /// Start of the run, RFC 3339 in UTC.
    pub at: String,
}

/// Results of a whole run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every cell of every proxy.
    pub cells: Vec<Cell>,
    /// The machine.
    pub machine: Machine,
    /// The settings.
    pub conditions: Conditions,
}

/// Explains the figures; in the JSON, below the table and in the HTML.
pub const FIGURES_MEAN: &str = "Hold is the worst latency of an acknowledged transaction from the fault on, counted from when it fell due, \
less the quiet median. Outage is the longest time from the fault on for which a transaction of either client was to have been acknowledged \
(due, plus the quiet median) and none was; pauses in which nothing was due are not counted. Noise is the longest such time before the fault: \
an outage that is no longer is told as none. Errors are those of a client that never retries: each transaction that ended badly, \
one error. Lost: acknowledged and missing on a node afterwards. Doubled: more than once on a node. \
Unknown: the client could not know the end; not an error of its own. Sessions ended elsewhere: where all nodes take traffic, 12 sessions \
stand beside the load that cannot move (a temporary table); each that stood on another node than the one that left and ended all the same. \
Arrivals are drawn anew for each cell and repetition, the same for each proxy.";

/// Additional explanation when the real sysbench generated the load.
pub const SYSBENCH_MEANS: &str = "The client that never retries was the real sysbench: outage and errors are by its own trace \
(whole seconds without a commit over the whole repetition; how often it died and had to be started again, and errors it \
reported). Hold, gaps and the ledger are of the lab's retrying client and its probe.";

impl Report {
    /// The cells of one row and column, in the order in which they were measured.
    pub fn at(&self, case: Case, scope: Scope) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.case == case && cell.scope == scope)
    }

    /// What this report's figures mean.
    pub fn figures_mean(&self) -> String {
        let sysbench = self.cells.iter().flat_map(|cell| &cell.repetitions).any(|rep| rep.sysbench.is_some());
        if sysbench { format!("{FIGURES_MEAN} {SYSBENCH_MEANS}") } else { FIGURES_MEAN.to_owned() }
    }

    /// True when a ledger contradicts an outcome that a client received through Understudy, when a client did not read its own write, or
    /// when a session on a healthy node was ended.
    pub fn understudy_broke_its_word(&self) -> bool {
        let ours = self.cells.iter().filter(|cell| !cell.who.is_baseline());
        ours.flat_map(|cell| &cell.repetitions)
            .any(|rep| !rep.verdict.is_good() || rep.stale_reads > 0 || !rep.pinned_errors_by_code.is_empty())
    }

    /// The errors of all aborted cells.
    pub fn broken(&self) -> Vec<String> {
        self.cells.iter().filter_map(|cell| cell.broke.clone()).collect()
    }

    /// The whole run as JSON; `cells` has one object for each measured cell.
    pub fn json(&self) -> serde_json::Value {
        let mut cells = Vec::new();
        for case in Case::ALL {
            for scope in Scope::ALL {
                let by = |who: Who| self.at(case, scope).find(move |cell| cell.who == who);
                let main = self.at(case, scope).find(|cell| !cell.who.is_baseline());
                let beside = [
                    ("haproxy", by(Who::Haproxy)),
                    ("haproxy_agent", by(Who::HaproxyAgent)),
                    ("mha", by(Who::Mha)),
                ];
                let Some(head) = main.or(beside.iter().find_map(|(_, cell)| *cell)) else { continue };
                let mut object = serde_json::json!({
                    "cluster": self.conditions.kind.name(), "case": case, "scope": scope, "writers": scope.writers(), "who": head.who,
                    "seed_says": seed_says(self.conditions.kind, case, scope), "skipped": head.skipped, "broke": head.broke,
                    "figures": head.summary(), "runs": head.repetitions,
                });
                lift(&mut object);
                for (name, cell) in beside {
                    object[name] = cell.map_or(serde_json::Value::Null, |cell| {
                        let mut beside = serde_json::json!({
                            "skipped": cell.skipped, "broke": cell.broke, "figures": cell.summary(),
                            "runs": cell.repetitions,
                        });
                        lift(&mut beside);
                        beside
                    });
                }
                cells.push(object);
            }
        }
        serde_json::json!({
            "machine": self.machine, "conditions": self.conditions, "figures_mean": self.figures_mean(), "cells": cells,
        })
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

/// Moves the fields of "figures" one level up.
fn lift(object: &mut serde_json::Value) {
    let Some(map) = object.as_object_mut() else { return };
    if let Some(serde_json::Value::Object(figures)) = map.remove("figures") {
        map.extend(figures);
    }
}

impl Writers {
    /// The scopes that a proxy with this setting can be measured in.
    pub fn scopes(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| scope.writers() == self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A repetition with an outage and some errors, for the tests of tables and pages.
    pub fn repetition(outage_ms: f64, errors: u64) -> Repetition {
        let codes = BTreeMap::from([("2013".to_owned(), errors)]);
        Repetition {
            victim: "db1".into(),
            effect: Effect {
                outage_ms,
                hold_ms_max: Some(outage_ms),
                gap_ms: outage_ms + 100.0,
                ..Effect::default()
            },
            errors_naive_by_code: if errors > 0 { codes } else { BTreeMap::new() },
            errors_retrying_by_code: BTreeMap::new(),
            errors_quiet: 0,
            retries: 0,
            unknown: 0,
            transactions: 100,
            verdict: LedgerCheck::default(),
            stale_reads: 0,
            undone: 0,
            probe_reads: 10,
            probe_errors: BTreeMap::new(),
            pinned_errors_by_code: BTreeMap::new(),
            pinned_ms_max: None,
            pinned: None,
            order: None,
            sysbench: None,
            troubles: vec![],
            heal_ms: 0.0,
            timeline: Timeline::default(),
        }
    }

    pub fn report() -> Report {
        let cell = |who, repetitions| Cell {
            case: Case::NonGraceful,
            scope: Scope::Active,
            who,
            repetitions,
            skipped: None,
            broke: None,
        };
        let ours = vec![repetition(200.0, 0), repetition(300.0, 1), repetition(250.0, 0)];
        let theirs = vec![repetition(6300.0, 8)];
        let skipped = Cell {
            case: Case::Graceful,
            scope: Scope::Active,
            who: Who::Understudy,
            repetitions: vec![],
            skipped: Some("no way to tell it".into()),
            broke: None,
        };
        let cells = vec![cell(Who::Haproxy, theirs), cell(Who::Understudy, ours), skipped];
        Report { cells, ..Report::default() }
    }

    #[test]
    fn median_and_worst_over_repetitions() {
        let report = report();
        let sum = report.cells[1].summary();
        assert!((sum.outage_ms - 250.0).abs() < 1e-9 && (sum.outage_ms_worst - 300.0).abs() < 1e-9);
        assert_eq!((sum.errors_naive, sum.errors_naive_by_code["2013"]), (1, 1));
    }

    #[test]
    fn the_json_has_the_agreed_names_with_haproxy_inside() {
        let json = report().json();
        let cells = json["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2, "only what was measured or skipped");
        let cell = cells.iter().find(|c| c["case"] == "non-graceful").unwrap();
        assert_eq!(
            (&cell["scope"], &cell["cluster"], &cell["repetitions"]),
            (&"active".into(), &"galera".into(), &3.into())
        );
        for name in [
            "hold_ms_max",
            "outage_ms",
            "errors_naive",
            "errors_retrying",
            "lost",
            "doubled",
            "phantom",
            "stale_reads",
            "unknown",
        ] {
            assert!(cell[name].is_number(), "{name}");
        }
        assert_eq!(cell["seed_says"], "4 seconds (errors)");
        assert_eq!(cell["haproxy"]["errors_naive"], 8);
        assert!(!report().understudy_broke_its_word());
    }

    #[test]
    fn a_stale_read_breaks_the_word_of_ours_and_not_of_the_baselines() {
        let mut report = report();
        report.cells[0].repetitions[0].stale_reads = 1;
        assert!(!report.understudy_broke_its_word(), "HAProxy never gave it");
        report.cells[1].repetitions[0].stale_reads = 1;
        assert!(report.understudy_broke_its_word());
        report.cells[1].repetitions[0].stale_reads = 0;
        report.cells[1].repetitions[0].pinned_errors_by_code.insert("9104".into(), 1);
        assert!(report.understudy_broke_its_word(), "a session of a healthy node was ended");
    }

    #[test]
    fn with_sysbench_its_own_trace_speaks() {
        let line = "[ 1s ] thds: 4 tps: 9.00 qps: 1.00 (r/w/o: 1.00/0.00/0.00) lat (ms,95%): 1.00 err/s: 1.00 reconn/s: 0.00\n";
        let text = format!("{line}( sysbench restarted )\n{line}");
        let by = BySysbench::of(&crate::trace::Trace::parse(&text).unwrap());
        assert!((by.outage_ms() - 2000.0).abs() < 1e-9);
        let errors = by.errors_by_code();
        assert_eq!((errors["sysbench died"], errors["reported"]), (1, 2));
    }
}

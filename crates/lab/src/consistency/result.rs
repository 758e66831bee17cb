//! The results of a run. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cycles::Cycles;
use super::faults::Event;
use super::judge::{Finding, Kind};
use super::lists::Level;
use super::workload::Done;
use crate::failover::result::Machine;
use crate::ledger::CommitResult;

/// How often something was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Acknowledged.
    pub ok: u64,
    /// Certainly without effect.
    pub failed: u64,
    /// The client cannot know.
    pub unknown: u64,
}

impl Outcomes {
    fn of(outcomes: impl Iterator<Item = CommitResult>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            match outcome {
                CommitResult::Ok => counts.ok += 1,
                CommitResult::Failed => counts.failed += 1,
                CommitResult::Unknown => counts.unknown += 1,
            }
        }
        counts
    }
}

/// What the clients of a phase did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Transactions on lists, by level.
    pub lists: BTreeMap<Level, Outcomes>,
    /// Transfers; those without enough money count as failed.
    pub transfers: Outcomes,
    /// Reads of all balances.
    pub bank_reads: u64,
    /// Acknowledged writes of registers.
    pub register_writes: u64,
    /// Reads of registers.
    pub register_reads: u64,
    /// Inserts.
    pub inserts: Outcomes,
}

impl Counts {
    /// Counts a phase.
    pub fn of(done: &Done) -> Self {
        let lists = done.lists.iter();
        Self {
            lists: lists
                .map(|(level, all)| (*level, Outcomes::of(all.iter().map(|it| it.outcome))))
                .collect(),
            transfers: Outcomes::of(done.bank.transfers.iter().map(|it| it.outcome)),
            bank_reads: done.bank.reads,
            register_writes: done.register.writes,
            register_reads: done.register.reads,
            inserts: Outcomes::of(done.inserts.iter().map(|it| it.outcome)),
        }
    }
}

/// One phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phase {
    /// How long it lasted, s.
    pub seconds: f64,
    /// What was done.
    pub counts: Counts,
    /// Anomalies between transactions, by level.
    pub cycles: BTreeMap<Level, Cycles>,
    /// What is wrong at any level.
    pub findings: Vec<Finding>,
}

/// A whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Start of the run, UTC.
    pub at: String,
    /// `galera` or `replication`.
    pub cluster: &'static str,
    /// The seed of faults and clients.
    pub seed: u64,
    /// Whether reads outside transactions could run on replicas.
    pub split: bool,
    /// The machine and the versions.
    pub machine: Option<Machine>,
    /// On one server, without a proxy and without faults.
    pub direct: Phase,
    /// Through Understudy.
    pub through: Phase,
    /// What was done to the cluster meanwhile.
    pub events: Vec<Event>,
    /// Anomalies through Understudy that the direct phase does not show.
    pub beyond: Vec<Finding>,
    /// Why the run ended early, if it did.
    pub broke: Option<String>,
}

impl Report {
    /// Everything that counts against the run; findings of the direct phase make the measurement itself doubtful.
    pub fn wrong(&self) -> impl Iterator<Item = &Finding> {
        self.through.findings.iter().chain(&self.beyond).chain(&self.direct.findings)
    }

    /// How many findings of each kind a list has.
    pub fn by_kind<'a>(findings: impl Iterator<Item = &'a Finding>) -> BTreeMap<Kind, usize> {
        let mut counts = BTreeMap::new();
        for finding in findings {
            *counts.entry(finding.kind).or_insert(0) += 1;
        }
        counts
    }
}

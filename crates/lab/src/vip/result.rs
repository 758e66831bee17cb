//! What came of a scenario, and whether that is what must come of it. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::Families;
use super::observer::Overlap;
use super::scenario::Scenario;
use crate::failover::result::Machine;

/// One repetition of one scenario. Times are since the fault, in ms.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioRun {
    /// What was done.
    pub scenario: Scenario,
    /// From 0.
    pub repetition: u32,
    /// What moved; of two addresses each figure is that of the later one.
    pub addresses: Vec<IpAddr>,
    /// Who had them.
    pub from: String,
    /// Who has them at the end; nobody, or more than one, is possible.
    pub to: Vec<String>,
    /// The old holder lost it.
    pub left_ms: Option<f64>,
    /// Another machine had it.
    pub moved_ms: Option<f64>,
    /// The first answer through the address from behind another machine.
    pub answered_ms: Option<f64>,
    /// The client's longest time without an answer.
    pub gap_ms: f64,
    /// The client's attempts that failed, by number or name.
    pub errors: BTreeMap<String, u64>,
    /// Every time with more than one holder, until all was mended.
    pub overlaps: Vec<Overlap>,
    /// How often an address moved again, until all was mended.
    pub moved_again: usize,
    /// What each keepalived recorded, before anything was mended.
    pub states: BTreeMap<String, String>,
    /// Facts beside.
    pub notes: Vec<String>,
    /// What is not as it must be; empty is good.
    pub wrong: Vec<String>,
}

/// A whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// When, in UTC.
    pub at: String,
    /// The machine and the versions.
    pub machine: Option<Machine>,
    /// Which families the address has: `ipv4`, `ipv6`, `both`.
    pub ip: Families,
    /// From one advert to the next, ms.
    pub advert_interval_ms: u32,
    /// From one check to the next, s.
    pub check_interval_s: u64,
    /// The nodes' priorities, db1 first.
    pub priorities: Vec<u8>,
    /// Galera's options.
    pub galera_options: String,
    /// In the order of the run.
    pub outcomes: Vec<ScenarioRun>,
    /// Scenarios that could not be run to their end, and why.
    pub broken: Vec<String>,
}

impl ScenarioRun {
    /// How long an address had two holders that one client could have reached, in all.
    pub fn overlap_ms(&self) -> f64 {
        self.overlap(true)
    }

    /// The same, while one of them was cut off.
    pub fn overlap_apart_ms(&self) -> f64 {
        self.overlap(false)
    }

    /// Of the address that had it for longer.
    fn overlap(&self, reachable: bool) -> f64 {
        let of = |address: &IpAddr| -> f64 {
            let overlaps = self.overlaps.iter().filter(|o| o.address == *address && o.reachable == reachable);
            overlaps.map(|overlap| overlap.ms).sum()
        };
        self.addresses.iter().map(of).fold(0.0, f64::max)
    }
}

impl Report {
    /// Whether everything is as it must be.
    pub fn is_good(&self) -> bool {
        self.broken.is_empty() && self.outcomes.iter().all(|outcome| outcome.wrong.is_empty())
    }

    /// As JSON.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

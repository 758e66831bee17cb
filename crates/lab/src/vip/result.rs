//! The results of a scenario, and whether they are as required. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::observer::Overlap;
use super::plan::Families;
use super::scenario::Scenario;
use crate::failover::result::Machine;

/// One repetition of one scenario. Times are since the fault, in ms.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioRun {
    /// The scenario.
    pub scenario: Scenario,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// The addresses that moved; with two addresses each figure is that of the later one.
    pub addresses: Vec<IpAddr>,
    /// Their holder before.
    pub from: String,
    /// Their holders at the end; possibly none, or more than one.
    pub to: Vec<String>,
    /// When the old holder lost the address.
    pub left_ms: Option<f64>,
    /// When another machine had it.
    pub moved_ms: Option<f64>,
    /// The first response through the address from another machine.
    pub answered_ms: Option<f64>,
    /// The client's longest time without a response.
    pub gap_ms: f64,
    /// The client's failed attempts, by code.
    pub errors: BTreeMap<String, u64>,
    /// Every time with more than one holder, until everything was healed.
    pub overlaps: Vec<Overlap>,
    /// How often an address moved again, until everything was healed.
    pub moved_again: usize,
    /// The last state that each keepalived recorded before anything was healed.
    pub states: BTreeMap<String, String>,
    /// Additional facts.
    pub notes: Vec<String>,
    /// Violated requirements; empty is good.
    pub wrong: Vec<String>,
}

/// A whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Start of the run, UTC.
    pub at: String,
    /// The machine and the versions.
    pub machine: Option<Machine>,
    /// The families of the address: `ipv4`, `ipv6`, `both`.
    pub ip: Families,
    /// Interval between two adverts, ms.
    pub advert_interval_ms: u32,
    /// Interval between two checks, s.
    pub check_interval_s: u64,
    /// The nodes' priorities, db1 first.
    pub priorities: Vec<u8>,
    /// Galera's provider options.
    pub galera_options: String,
    /// In the order of the run.
    pub outcomes: Vec<ScenarioRun>,
    /// Scenarios that were aborted, with the error.
    pub broken: Vec<String>,
}

impl ScenarioRun {
    /// Total time with two holders of an address that one client could have reached.
    pub fn overlap_ms(&self) -> f64 {
        self.overlap(true)
    }

    /// The same, while one of them was cut off.
    pub fn overlap_apart_ms(&self) -> f64 {
        self.overlap(false)
    }

    /// The longest total of any of the addresses.
    fn overlap(&self, reachable: bool) -> f64 {
        let of = |address: &IpAddr| -> f64 {
            let overlaps = self.overlaps.iter().filter(|o| o.address == *address && o.reachable == reachable);
            overlaps.map(|overlap| overlap.ms).sum()
        };
        self.addresses.iter().map(of).fold(0.0, f64::max)
    }
}

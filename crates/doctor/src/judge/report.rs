//! The doctor's report as values; the text page and the JSON are both made from them.

use serde::Serialize;
pub use topology::rules::Weight;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The cluster's name.
    pub cluster: String,
    /// The settings of each node.
    pub nodes: Vec<NodeReport>,
    /// Which cases each of those settings decides, with the same names as in the table.
    pub deciding: Vec<Deciding>,
    /// The seed article's table, with what decides each case here.
    pub cells: Vec<Cell>,
    /// What is wrong, or could be better.
    pub findings: Vec<Finding>,
}

/// One node's settings.
#[derive(Debug, Serialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Why it could not be asked.
    pub unreachable: Option<String>,
    /// Its version.
    pub version: String,
    /// Its state, as the server reports it.
    pub state: String,
    /// The settings that decide something, as `key = value`.
    pub settings: Vec<(String, String)>,
}

/// What one setting decides.
#[derive(Debug, Serialize)]
pub struct Deciding {
    /// Its name.
    pub setting: &'static str,
    /// The cases.
    pub cases: &'static str,
}

/// One case of the failover table.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// The case.
    pub case: &'static str,
    /// What decides how long it takes, with its present values.
    pub decided_by: String,
    /// The resulting duration or effect.
    pub comes_to: String,
    /// What the seed article measured.
    pub seed: &'static str,
}

/// One finding.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Its severity.
    pub weight: Weight,
    /// The nodes it concerns.
    pub nodes: Vec<String>,
    /// The finding, as one sentence.
    pub what: String,
    /// Why it matters, with the measured reason.
    pub because: String,
    /// SQL to run on each of these nodes.
    pub sql: Vec<String>,
    /// Lines for the server's configuration file, so that the change survives a restart.
    pub my_cnf: Vec<String>,
}

impl Report {
    /// Whether no node answered, so that nothing is known about their settings.
    pub fn is_unanswered(&self) -> bool {
        self.nodes.iter().all(|node| node.unreachable.is_some())
    }

    /// Whether there is a problem that must be corrected.
    pub fn must_act(&self) -> bool {
        self.findings.iter().any(|finding| finding.weight == Weight::Problem)
    }
}

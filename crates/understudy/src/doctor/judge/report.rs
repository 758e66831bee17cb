//! What the doctor says, as values: the page and the JSON are both made of these.

use serde::Serialize;

/// All there is to say.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The cluster's name.
    pub cluster: String,
    /// What each node is set to.
    pub nodes: Vec<NodeReport>,
    /// Which cases each of those settings decides, in the same words as the table.
    pub deciding: Vec<Deciding>,
    /// The seed's table, with what decides each case here.
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
    /// Its state, in its own word.
    pub state: String,
    /// The settings that decide something, as `key = value`.
    pub settings: Vec<(String, String)>,
}

/// What one setting is good for.
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
    /// Which.
    pub case: &'static str,
    /// What decides how long it takes, with its present values.
    pub decided_by: String,
    /// What that comes to.
    pub comes_to: String,
    /// What the seed article measured.
    pub seed: &'static str,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Must be put right: something does not work.
    Problem,
    /// Will hurt one day.
    Warning,
    /// Could be better.
    Advice,
}

/// One thing to know or to do.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// Which nodes.
    pub nodes: Vec<String>,
    /// What, as one sentence.
    pub what: String,
    /// Why, with the measured reason.
    pub because: String,
    /// SQL to run on each of these nodes.
    pub sql: Vec<String>,
    /// Lines for the server's configuration file, so that it lasts.
    pub my_cnf: Vec<String>,
}

impl Report {
    /// Whether no node answered: then nothing can be said of how they are set.
    pub fn is_unanswered(&self) -> bool {
        self.nodes.iter().all(|node| node.unreachable.is_some())
    }

    /// Whether something must be put right.
    pub fn must_act(&self) -> bool {
        self.findings.iter().any(|finding| finding.weight == Weight::Problem)
    }
}

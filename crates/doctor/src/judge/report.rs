//! The doctor's report as values; the text page and the JSON are both made from them.

use serde::Serialize;
pub use topology::rules::Weight;

use crate::asked::NodeFacts;

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

/// The findings; one that concerns no node is not added.
#[derive(Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// A finding without a statement that would correct it.
    pub fn note(
        &mut self,
        weight: Weight,
        nodes: Vec<String>,
        what: impl Into<String>,
        because: impl Into<String>,
    ) {
        self.propose(weight, nodes, what, because, &[], &[]);
    }

    /// One with SQL, and with lines for the option file.
    pub fn propose(
        &mut self,
        weight: Weight,
        nodes: Vec<String>,
        what: impl Into<String>,
        because: impl Into<String>,
        sql: &[&str],
        lines: &[&str],
    ) {
        let texts = |texts: &[&str]| {
            texts.iter().filter(|text| !text.is_empty()).map(|text| (*text).to_owned()).collect::<Vec<_>>()
        };
        if !nodes.is_empty() {
            let (sql, my_cnf) = (texts(sql), texts(lines));
            self.0.push(Finding { weight, nodes, what: what.into(), because: because.into(), sql, my_cnf });
        }
    }

    /// A finding for each node that did not answer; `what` it is called.
    pub fn unreached<State>(&mut self, nodes: &[NodeFacts<State>], what: &str) {
        for NodeFacts { name, address, said, .. } in nodes {
            if let Err(why) = said {
                let text = format!("{name} ({address}) cannot be asked: {why}");
                let because = format!("a {what} that the monitor cannot reach takes no sessions");
                self.note(Weight::Problem, vec![name.clone()], text, because);
            }
        }
    }

    /// The worst first.
    pub fn sorted(mut self) -> Vec<Finding> {
        self.0.sort_by_key(|finding| finding.weight);
        self.0
    }
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

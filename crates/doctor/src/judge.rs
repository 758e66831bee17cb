//! Turns the nodes' answers into the report. No I/O: the same answers give the same report.
//!
//! The figures called measured are this project's own: three Galera nodes on one machine, MariaDB 10.11 with Galera 26.4.
//!
//! ```text
//!   the nodes' answers  ──> findings (what is wrong) ────────────────────┐
//!                      ├──> cells (what decides each case) <── stall     ├──> report
//!                      └──> decisive (the settings that are read at all) ┘
//! ```

mod cells;
mod clusters;
mod decisive;
mod findings;
mod nodes;
mod report;
mod stall;
mod units;

pub use self::clusters::two_clusters;
pub use self::report::{Deciding, Finding, Findings, NodeReport, Report, Weight};

use topology::galera::Component;

use self::decisive::{APPLIERS, READ, SST_METHOD};
use super::read::{MemberState, NodeFacts};
use settings::Settings;

/// The report; `known` is what is remembered of the writer's component.
pub fn report(settings: &Settings, nodes: &[NodeFacts], known: Option<&Component>) -> Report {
    Report {
        cluster: settings.name.clone(),
        nodes: nodes.iter().map(node_report).collect(),
        deciding: READ.iter().map(|&(setting, cases)| Deciding { setting, cases }).collect(),
        // The duration of a case depends on the nodes' own settings.
        cells: if nodes::answered(nodes).next().is_some() {
            cells::cells(settings, nodes)
        } else {
            Vec::new()
        },
        findings: findings::findings(settings, nodes, known),
    }
}

fn node_report(node: &NodeFacts) -> NodeReport {
    let (said, unreachable) = match &node.said {
        Ok(said) => (said.clone(), None),
        Err(why) => (MemberState::default(), Some(why.clone())),
    };
    let value = |key: &str| match key {
        APPLIERS => said.appliers.map(|n| n.to_string()),
        SST_METHOD => Some(said.sst_method.clone()).filter(|method| !method.is_empty()),
        option => said.options.text(option).map(str::to_owned),
    };
    let settings = READ.iter().filter_map(|(key, _)| Some(((*key).to_owned(), value(key)?))).collect();
    NodeReport {
        name: node.name.clone(),
        address: node.address.clone(),
        unreachable,
        version: said.version,
        state: said.state,
        settings,
    }
}

#[cfg(test)]
mod tests;

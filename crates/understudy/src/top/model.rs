//! What the terminal view knows: the last status, a short history of each node, what was asked and what came of it.
//!
//! Enters: the JSON of the API's status, as it comes or from a recording. Nothing here draws, asks or waits.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::commands::status::{list, text};

/// So many rates of each node are kept for its curve.
const HISTORY_MAX: usize = 120;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Model {
    /// The last status; null before the first.
    pub status: Value,
    /// What each node applied a second, oldest first, at most the last two minutes; `None` where that is not known.
    pub applied: BTreeMap<String, VecDeque<Option<u64>>>,
    /// The chosen node's place.
    pub chosen: usize,
    /// An order that waits for "yes" and Enter.
    pub asked: Option<Order>,
    /// As much of the word as was typed.
    pub typed: String,
    /// An order is under way.
    pub is_ordering: bool,
    /// What came of the last order, or what went wrong.
    pub message: Option<String>,
    /// Why there is nothing new.
    pub trouble: Option<String>,
    /// Where in a recording this is; `None` when it is live.
    pub replay: Option<Replay>,
}

/// A recording that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The state shown, from 0.
    pub at: usize,
    /// How many there are; at least one.
    pub count: usize,
    /// It stands still.
    pub is_paused: bool,
}

/// What may be ordered from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Take the node out.
    Drain(String),
    /// Let it back in.
    Undrain(String),
    /// Make it the writer.
    Switchover(String),
}

impl Order {
    /// What is asked before it is given.
    pub fn question(&self) -> String {
        match self {
            Self::Drain(node) => {
                format!("drain {node}? Its sessions move to another node; a writer moves first")
            }
            Self::Undrain(node) => format!("let {node} take sessions again?"),
            Self::Switchover(node) => {
                format!("make {node} the writer? New transactions wait until the running ones have ended")
            }
        }
    }
}

impl Model {
    /// A newer status.
    pub fn take(&mut self, status: Value) {
        for node in list(&status["nodes"]) {
            let history = self.applied.entry(text(&node["name"]).to_owned()).or_default();
            if history.len() >= HISTORY_MAX {
                history.pop_front();
            }
            history.push_back(node["rates"]["applied"].as_f64().map(|rate| rate.round() as u64));
        }
        // What was asked of a standby is another question when it has become the writer.
        if self.asked.is_some() && self.status["writer"] != status["writer"] {
            self.asked = None;
            self.message = Some("the writer has changed: not done".to_owned());
        }
        self.status = status;
        self.trouble = None;
        self.chosen = self.chosen.min(self.names().len().saturating_sub(1));
    }

    /// The nodes' names in the configuration's order.
    pub fn names(&self) -> Vec<String> {
        list(&self.status["nodes"]).iter().map(|node| text(&node["name"]).to_owned()).collect()
    }

    /// The chosen node's name.
    pub fn chosen_name(&self) -> Option<String> {
        self.names().into_iter().nth(self.chosen)
    }
}

//! The state of the terminal view: the last status, a short history of each node, a pending order and the last result.
//!
//! Input: the JSON of the API's status, live or from a recording. Nothing here draws, sends requests or waits.

use std::collections::{BTreeMap, VecDeque};

use api::Status;
use serde::Deserialize;
use serde_json::Value;

/// How many rates of each node are held for its curve.
const HISTORY_MAX: usize = 120;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Model {
    /// The last status.
    pub status: Status,
    /// The same as it came; null before the first.
    pub json: Value,
    /// The applied rate of each node per second, oldest first, at most the last 120 states shown; `None` where it is not known.
    pub applied: BTreeMap<String, VecDeque<Option<u64>>>,
    /// The index of the selected node.
    pub chosen: usize,
    /// An order that waits for the typed "yes" and Enter.
    pub asked: Option<Order>,
    /// The part of "yes" that was typed.
    pub typed: String,
    /// An order is in progress.
    pub is_ordering: bool,
    /// The result of the last order, or an error.
    pub message: Option<String>,
    /// Why there is no newer status.
    pub trouble: Option<String>,
    /// The position in a recording; `None` when the view is live.
    pub replay: Option<Replay>,
}

/// The replay of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The index of the state that is shown, from 0.
    pub at: usize,
    /// How many there are; at least one.
    pub count: usize,
    /// The replay is paused.
    pub is_paused: bool,
}

/// An order that can be given from the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Drain the node.
    Drain(String),
    /// Undrain the node.
    Undrain(String),
    /// Make it the writer.
    Switchover(String),
}

impl Order {
    /// The question to confirm before it is sent.
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
    /// Takes a newer status.
    pub fn take(&mut self, json: Value) {
        let status = match Status::deserialize(&json) {
            Ok(status) => status,
            Err(e) => {
                self.trouble = Some(format!("this status cannot be understood: {e}"));
                return;
            }
        };
        for node in &status.nodes {
            let history = self.applied.entry(node.name.clone()).or_default();
            if history.len() >= HISTORY_MAX {
                history.pop_front();
            }
            let rate = node.rates.flatten().and_then(|rates| rates.applied);
            history.push_back(rate.map(|rate| rate.round() as u64));
        }
        // A question about a standby has another meaning once that node is the writer.
        if self.asked.is_some() && self.status.writer != status.writer {
            self.asked = None;
            self.message = Some("the writer has changed: not done".to_owned());
        }
        (self.status, self.json) = (status, json);
        self.trouble = None;
        self.chosen = self.chosen.min(self.status.nodes.len().saturating_sub(1));
    }

    /// The selected node's name.
    pub fn chosen_name(&self) -> Option<String> {
        self.status.nodes.get(self.chosen).map(|node| node.name.clone())
    }
}

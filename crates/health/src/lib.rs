//! Answers whether this node may take traffic: over HTTP, to HAProxy's agent check, or through a unix socket, from memory.
//!
//! Enters: untrusted questions from outside, and a [`Source`] that knows about nodes. Leaves: the bytes that clustercheck or pyclustercheck
//! would write, or JSON. What makes a node good is decided in [`topology::health`].
//!
//! ```text
//!   database <-- refresh (one link, hard deadlines) --> State
//!                                                         | a Source
//!   client --> server: request --> Question --> Answer --> style --> bytes
//!              agent:  node name -------------> Answer --> one line
//! ```
//!
//! Invariant: nothing between a question and its answer waits, except for the client.

pub mod answer;
pub mod node;
pub mod refresh;
pub mod request;
pub mod server;
pub mod style;

mod agent;
mod replication;

pub use crate::request::duration;

use serde_json::Value;
use topology::health::Question;

use crate::answer::Answer;

/// Knows about nodes. Called for each request, so it must answer from memory.
pub trait Source: Send + Sync + 'static {
    /// The answer about a node; `None` for the name is the one that this source is for (its own database, or Understudy itself).
    /// `None` when there is no such node.
    fn answer(&self, node: Option<&str>, question: Question) -> Option<Answer>;
    /// Every fact about a node, and the reason.
    fn status(&self, node: Option<&str>) -> Option<Value>;
    /// The figures in Prometheus' text format.
    fn metrics(&self) -> String;
}

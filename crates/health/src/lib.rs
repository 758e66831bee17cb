//! Answers whether a node may take traffic: over HTTP, to HAProxy's agent check, or through a unix socket. All answers come from memory.
//!
//! Input: untrusted requests from outside, and a [`Source`] with the state of the nodes. Output: the bytes that clustercheck or
//! pyclustercheck would write, or JSON. The rules for a good node are in [`topology::health`].
//!
//! ```text
//!   database <-- refresh (one connection, hard deadlines) --> State
//!                                                               | a Source
//!   client --> server: request --> Question --> Answer --> style --> bytes
//!              agent:  node name -------------> Answer --> one line
//! ```
//!
//! Invariant: between a request and its answer, the server waits for nothing but the client.

pub mod answer;
pub mod node;
pub mod refresh;
pub mod request;
pub mod server;
pub mod style;

mod agent;
mod replication;

pub use crate::request::duration;

use std::time::Duration;

use serde_json::Value;
use topology::health::Question;

use crate::answer::Answer;

/// A view of the nodes that is older is not believed: who asks about them is told that nothing is known.
pub const VIEW_AGE_MAX: Duration = Duration::from_secs(1);

/// The state of one or more nodes. Called for each request, so it must answer from memory.
pub trait Source: Send + Sync + 'static {
    /// The answer about a node; `None` for the name is the one that this source is for (its own database, or Understudy itself).
    /// `None` when there is no such node.
    fn answer(&self, node: Option<&str>, question: Question) -> Option<Answer>;
    /// All that is known about a node, and the reason for the answer; `None` when there is no such node.
    fn status(&self, node: Option<&str>) -> Option<Value>;
    /// The figures in Prometheus' text format.
    fn metrics(&self) -> String;
}

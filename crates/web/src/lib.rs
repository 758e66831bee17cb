//! The HTTP API: orders, status, journal and metrics, for operators, scripts and monitoring.
//!
//! Enters: requests from outside, which are not trusted. Leaves: [`topology::order::Order`]s for the implementation of
//! [`Control`], and answers of one form (`reply::Reply`). This crate decides nothing about the cluster; it authenticates
//! (`key`), parses the request (`request`) and answers with the result.
//!
//! ```text
//!   listeners ──> api ──> key: authenticated? ──> request: parsed ──> Control::order ──> reply
//!   (plain, TLS)            401                     400, 404, 413     409 or 200
//! ```
//!
//! Invariant: nothing but the page's files (`page`), `/openapi.json`, `/metrics`, `/healthz`, `/readyz` and `/health` is answered without the key, and a key is never logged.

pub mod bearer;
pub mod certificate;
pub mod key;
pub mod server;

mod admitted;
mod api;
mod guarded;
mod live;
mod openapi;
mod page;
pub mod private_file;
mod readers;
mod repeat;
mod reply;
mod request;
mod slots;
mod slow;
mod state;

use std::future::Future;
use std::time::Duration;

use ::api::{Reloaded, Status};
pub use axum::body::{Body, Bytes};
pub use live::Event;
pub use slots::ConnectionLimits;
use tokio::sync::broadcast;
use topology::order::{Order, OrderRefused, OrderReply};
use topology::preflight::Report;
use topology::view::Decision;
use topology::{NodeId, Term};

/// The part of the cluster's configuration that requests may refer to.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The number in `/api/cluster/{id}/...`.
    pub id: u32,
    /// Its name; accepted in place of the number.
    pub name: String,
    /// The nodes and their names, in the configuration's order.
    pub nodes: Vec<(NodeId, String)>,
}

impl Cluster {
    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().find(|(_, known)| known == name).map(|(node, _)| *node)
    }

    /// The name of `node`; a question mark for one the configuration does not have.
    pub fn name_of(&self, node: NodeId) -> &str {
        self.nodes.iter().find(|(known, _)| *known == node).map_or("?", |(_, name)| name)
    }
}

/// The writer decision in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterDecision {
    /// Its number.
    pub term: Term,
    /// The writer, when there is one.
    pub writer: Option<NodeId>,
    /// How long ago another node became the writer, by whose doing ever. `None` when that is not known, or when another program moves the
    /// writer, where an order only tells of that.
    pub changed_ago: Option<Duration>,
}

/// The cluster behind the API. The program's wiring implements it.
pub trait Control: Send + Sync + 'static {
    /// The cluster's names.
    fn cluster(&self) -> &Cluster;
    /// Carries out an order and waits for its result.
    fn order(&self, order: Order, manner: Manner) -> impl Future<Output = OrderReply> + Send;
    /// Reads the configuration again and puts it in force: a sentence, and what changed. An order that is refused changes nothing, nor does a
    /// dry run.
    fn reload(&self, dry_run: bool) -> impl Future<Output = Result<(String, Reloaded), OrderRefused>> + Send;
    /// The checks for what could make a switchover fail, or slow. Nothing is changed.
    fn preflight(&self, to: Option<NodeId>, budget: Duration) -> impl Future<Output = Report> + Send;
    /// The writer decision in force.
    fn standing(&self) -> WriterDecision;
    /// The present state, as shown to people and programs.
    fn status(&self) -> impl Future<Output = Status> + Send;
    /// Journal entries with a number above `after`, oldest first; an `Err` is a sentence for the caller.
    fn journal(&self, after: u64) -> impl Future<Output = Result<Vec<Decision>, String>> + Send;
    /// The counters of each node that were taken after that moment (milliseconds since 1970), from memory: [`::api::Samples`] as JSON in parts, each of which
    /// takes a millisecond or two and is made when it is asked for. Of each node, two samples are at least `every_ms` apart.
    fn samples(&self, since_unix_ms: u64, every_ms: u64) -> impl Iterator<Item = Bytes> + Send + 'static;
    /// Samples and states from now on; `None` when the program is stopping.
    fn live(&self) -> Option<broadcast::Receiver<Event>>;
    /// Whether a statement of a client would flow now; an `Err` says why not. From memory.
    fn ready(&self) -> Result<(), String>;
    /// The figures in Prometheus' text format.
    fn metrics(&self) -> impl Future<Output = String> + Send;
    /// The reads of clients as a slow log, from now on and until the caller disconnects; an `Err` is a sentence for the caller.
    fn slow(&self, wish: SlowWish) -> Result<Body, String>;
    /// The health endpoint's answer to `/health...`; `target` is path and query. From memory.
    fn health(&self, target: &str) -> Health;
}

/// How an order is to be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// A switchover may go to a standby that is not as warm as the settings want.
    pub allow_cold: bool,
    /// Only to be told what would come of it: nothing is changed.
    pub dry_run: bool,
}

/// Which reads a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowWish {
    /// One in this many, chosen at random; 1: all.
    pub rate_limit: u32,
    /// Chosen are sessions, with all of their reads, and not single reads.
    pub by_session: bool,
}

/// What the health endpoint answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// HTTP's number.
    pub status: u16,
    /// The body's type.
    pub content_type: String,
    /// The body, to the byte.
    pub body: Vec<u8>,
}

//! What Understudy believes about a cluster, and what it decides.
//!
//! A core: no sockets, no clock, no files. Facts go in with the time they were learned, decisions come out, and the
//! same facts always give the same decisions. Everything goes through [`brain::Brain`].
//!
//! ```text
//!   Fact ──> belief (what is known of each node)
//!              └──> problem (a table of what can be wrong) ──> election ──> plan ──> Action, Routes, a sentence
//! ```
//!
//! Two types connect the control plane (manager and this crate) with the data plane (the proxy): [`routes::Routes`] is all that the
//! proxy is ever told, and [`fact::Fact`] is all that the brain is ever told, by the proxy and by the manager.

#[macro_use]
mod counted;
#[macro_use]
mod read_only;

pub mod about;
pub mod account;
pub mod action;
mod alarms;
mod belief;
pub mod brain;
pub mod catalogue;
mod core;
mod detector;
mod disk;
mod election;
pub mod fact;
mod finding;
pub mod flavor;
pub mod galera;
mod group;
pub mod health;
pub mod heartbeat;
mod judgement;
pub mod kind;
mod lost;
mod nodes;
pub mod order;
mod plan;
pub mod preflight;
mod problem;
mod proxies;
mod readers;
pub mod reads;
pub mod replication;
mod restored;
pub mod routes;
pub mod rules;
pub mod session_defaults;
pub mod settings;
pub mod status;
pub mod time;
pub mod view;

use std::fmt;

/// Stands for a node, which is a name with an address. Given when the configuration first has that node, from 0 on, and to no other as long as the
/// process runs: a node that is removed and added again has its own again. Not a place in any list.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct NodeId(pub u8);

/// A proxy: its place among those that [`settings::Settings::proxies`] counts, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub u8);

/// The number of a writer decision. It only grows, it is on disk before it is used, and links of an older term are cut.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

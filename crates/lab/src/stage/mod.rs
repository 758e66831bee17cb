//! The stage: a real cluster of one kind on this machine, started, monitored and removed.
//!
//! ```text
//!   StagePlan --up--> directory + lock --> network --> copies of the template --> db1, db2, db3 start  --> cluster healthy
//!                            |                                                                            |
//!                       stage.json  <---- attach (another process: fault, status, down)                 down / Drop
//! ```
//!
//! Invariants: a stage that is not kept leaves no process, namespace, device or file, however its owner ends (its servers die
//! with it even by SIGKILL; the rest is removed by the next `up` or `down --all`). Processes are ended by their identity
//! ([`process::Identity`]), never by name. stage.json is the authoritative record of processes: two programs may use one stage.

pub mod account;
mod by_kind;
mod certificates;
mod config;
mod disk;
mod galera;
mod guard;
mod kind;
mod lines;
mod links;
mod locks;
mod network;
mod plan;
pub mod process;
mod product;
pub mod replication;
mod report;
mod running;
mod servers;
mod sql;
mod stage_dir;
mod state;
mod sweep;
mod template;
pub(crate) mod tools;
pub mod unpacked;
mod up;
mod wait;
mod watchdog;

pub use galera::{ADVISED_EVS, GaleraWord};
pub use guard::{Interrupted, guard};
pub use kind::ClusterKind;
pub use network::may_make_namespaces;
pub use plan::{Form, StagePlan};
pub use replication::ReplicationWord;
pub use report::{NodeReport, Word};
pub(crate) use running::STOP_LIMIT;
pub use state::{Stage, StageNode};
pub use sweep::{down, down_all};

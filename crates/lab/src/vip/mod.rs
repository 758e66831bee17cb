//! Measures an address that moves: three real nodes, three real keepaliveds, and one scenario after the other.
//!
//! ```text
//!   Scene (cluster, observer) ── for each scenario and repetition:
//!      raise (keepaliveds, client) ── fault ── observe ── heal, and nothing moves ── lower ──> ScenarioRun ──> table, JSON
//! ```
//!
//! "Never two holders" is judged by the observer: the kernel's own events of all namespaces, in one order.

pub mod agent;
pub mod client;
pub mod observer;
pub mod plan;
pub mod result;
pub mod run;
pub mod scenario;
pub mod scene;
pub mod table;

pub use self::plan::VipPlan;
use self::result::Report;
use crate::experiment::{Experiment, Output, Place};

impl Experiment for VipPlan {
    type Results = Report;

    fn output(&self) -> &Output {
        &self.output
    }

    fn steps(&self) -> u64 {
        self.scenarios().len() as u64 * u64::from(self.repetitions)
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Report> {
        run::run(self, place.progress).await
    }
}

//! `lab warm`: measures on real servers how much each way of warming a standby reduces its disk reads.
//!
//! ```text
//!   workload (pure, by a seed) ──> load ──> db1, the active node ──> slow log ──> chunk 1 | chunk 2
//!
//!   for each way (control, cold, replay, a sample, ...):
//!      db2 restarted: cold ──> warmed in that way ──> chunk 2 replayed at recorded times ──> its disk reads, counted and plotted
//! ```
//!
//! The experiment is that of "Keeping the slave's buffer pool warm for failover with Percona Playback" (FOSDEM 2013): chunk 1 warms,
//! chunk 2 is measured, and the control was warmed with chunk 2 itself. Innodb_buffer_pool_reads counts the disk reads: pages for which
//! a statement waited. Replays are made by `understudy replay` as a separate process.

pub mod case;
pub mod chunk;
pub mod failover;
pub mod forecast;
pub mod ground;
pub mod keepup;
pub mod load;
pub mod page;
pub mod plan;
pub mod playback;
pub mod plot;
pub mod price;
pub mod proxy;
pub mod record;
pub mod result;
pub mod run;
pub mod streamer;
pub mod takeover;
pub mod way;
pub mod workload;

use std::path::Path;

use anyhow::Context;

use self::plan::Part;
pub use self::plan::WarmPlan;
use self::result::Report;
use crate::experiment::{Experiment, Output, Place};

impl Experiment for WarmPlan {
    type Results = Report;

    fn output(&self) -> &Output {
        &self.output
    }

    fn html(&self) -> Option<&Path> {
        self.html.as_deref()
    }

    fn steps(&self) -> u64 {
        let others = self.parts().iter().filter(|part| **part != Part::Ways).count();
        (2 + self.ways().len() + others) as u64
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Report> {
        run::run(self, place.progress).await.context("lab warm")
    }
}

//! The proxy as the source: the application runs chunk 1 through Understudy, which replays its reads on the standby.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use super::ground::{Ground, STANDBY};
use super::load::Load;
use super::plan::WarmPlan;
use super::playback::{Played, WARM_PASSWORD, WARM_USER};
use crate::failover::case::Writers;
use crate::failover::front::Front;
use crate::failover::understudy::Knobs;
use crate::wait;

/// Speed of the application relative to the recording, which shortens the run.
const TIMES_AS_FAST: u32 = 4;
/// Time limit for replaying the remaining reads after the application's end.
const REST_LIMIT: Duration = Duration::from_secs(60);
/// Interval between two queries of the status.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs chunk 1 and waits until its reads were replayed on the standby; returns how many were. The standby replicates meanwhile, but no
/// longer when this returns.
pub async fn replay(ground: &Ground, plan: &WarmPlan) -> anyhow::Result<Played> {
    let stage = &ground.stage;
    stage.run_in(STANDBY, "START SLAVE").await?;
    ground.applied().await?;
    let dir = stage.directory().join("proxy");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let nodes: Vec<_> =
        stage.nodes().iter().map(|node| (node.name.clone(), node.address.to_string())).collect();
    let tables =
        format!("\n[warm]\nuser = \"{WARM_USER}\"\npassword = \"{WARM_PASSWORD}\"\nsource = \"proxy\"\n");
    let knobs = Knobs { tables, ..Knobs::default() };
    let front = Front::understudy(stage.kind(), &nodes, Writers::One, &knobs, &dir).await?;
    wait_executed(&front, 0).await?;
    let mut load = Load::connect(&front.target, plan.connections, plan.shape()).await?;
    let began = Instant::now();
    let count = plan.events_per_chunk();
    let ran = load.run(0, count, plan.rate.saturating_mul(TIMES_AS_FAST)).await?.whole()?;
    let statements = wait_executed(&front, ran.reads).await?;
    let took_s = began.elapsed().as_secs_f64();
    load.end().await;
    drop(front);
    stage.run_in(STANDBY, "STOP SLAVE").await?;
    Ok(Played { statements, took_s, statements_per_s: statements as f64 / took_s.max(0.001) })
}

/// Waits until this many statements were run on the standby, or skipped as too late, and it is warmed; returns how many were run.
async fn wait_executed(front: &Front, reads: u64) -> anyhow::Result<u64> {
    let api = front.api().context("Understudy has an API")?;
    wait::retried(REST_LIMIT, LOOK_EVERY, async || {
        let status = api.status().await?;
        let standbys = status["warm"]["standbys"].as_array().map(Vec::as_slice).unwrap_or_default();
        let standby =
            standbys.iter().find(|standby| standby["node"] == STANDBY && standby["state"] == "warmed");
        let executed = standby.and_then(|standby| standby["executed"].as_u64());
        let late = standby.and_then(|standby| standby["late"].as_u64()).unwrap_or(0);
        executed.filter(|executed| executed + late >= reads).with_context(|| {
            format!(
                "{executed:?} of {reads} reads were run on {STANDBY}; the status says: {}",
                status["warm"]
            )
        })
    })
    .await
}

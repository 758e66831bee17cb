//! Runs `lab warm`: servers, recording, one way after the other, then the other parts.

use anyhow::{Context, bail};

use super::case::Bench;
use super::ground::Ground;
use super::plan::{Part, WarmPlan};
use super::result::{Conditions, Report};
use super::way::{Does, Way};
use super::{failover, forecast, keepup, price, record};
use crate::failover::machine;
use crate::failover::progress::Progress;
use crate::stage::process::ProcessParent;

/// Runs all requested measurements.
///
/// # Errors
/// When a server, the load or a replay fails: a comparison without one of its parts would mislead.
pub async fn run(plan: &WarmPlan, progress: &Progress) -> anyhow::Result<Report> {
    check(plan)?;
    let tell = |text: &str| progress.now(text);
    let process_parent = ProcessParent::new()?;
    let ground = Ground::lay(plan, tell).await?;
    progress.step();
    let recording = record::record(&ground, plan, tell).await.context("recording the log")?;
    progress.step();
    let bench = Bench { ground: &ground, plan, recording: &recording, process_parent: &process_parent };
    let mut cases = Vec::new();
    // The standby that replicated during the recording is measured first: a restart would empty its memory.
    let (follows, others): (Vec<&'static Way>, Vec<&'static Way>) =
        plan.ways().into_iter().partition(|way| way.does == Does::Follows);
    for way in follows.into_iter().chain(others) {
        tell(way.title);
        cases.push(bench.measure(way).await?);
        progress.step();
    }
    let mut forecasts = Vec::new();
    let (mut keep_up, mut prices, mut failovers) = (Vec::new(), Vec::new(), Vec::new());
    if plan.parts().contains(&Part::FullRate) {
        tell("full rate: whether replay keeps up with the source");
        keep_up = keepup::measure(&ground, plan, &process_parent)
            .await
            .context("replay beside a source at full rate")?;
        progress.step();
    }
    if plan.parts().contains(&Part::Price) {
        tell("what streaming costs the active node");
        prices = price::measure(&ground, plan, &process_parent).await.context("the cost of streaming")?;
        progress.step();
    }
    if plan.parts().contains(&Part::Failovers) {
        tell("failovers under load: a warmed standby, a cold one, a slow one");
        failovers = failover::measure(&ground, plan, &recording, &process_parent)
            .await
            .context("a failover under load")?;
        progress.step();
    }
    if plan.parts().contains(&Part::Forecasts) {
        tell("forecasts, and the failovers that were forecast");
        forecasts = forecast::measure(&bench).await.context("a failover that was forecast")?;
        progress.step();
    }
    let shape = plan.shape();
    let conditions = Conditions {
        at: machine::now_utc(),
        data_mb: plan.data_mb,
        pool_mb: plan.pool_mb,
        standby_pool_mb: plan.standby_pool_mb(),
        chunk_s: plan.chunk_s,
        rate: plan.rate,
        connections: plan.connections,
        speed: plan.speed,
        seed: plan.seed,
        hot_blocks: shape.hot_blocks,
        drift_blocks: shape.drift_blocks,
        is_quick: plan.is_quick,
        page_cache: ground.page_cache.clone(),
    };
    ground.stage.down().await.context("taking the stage away")?;
    let machine = machine::look(&[("MariaDB", "mariadbd", &["--version"])]).await;
    let chunks = [recording.first, recording.second];
    let mut report = Report {
        conditions,
        machine,
        chunks,
        cases,
        keep_up,
        prices,
        failovers,
        forecasts,
        goals: Vec::new(),
    };
    report.judge();
    Ok(report)
}

fn check(plan: &WarmPlan) -> anyhow::Result<()> {
    let pool = plan.pool_mb.max(plan.standby_pool_mb());
    if plan.data_mb < pool * 2 {
        bail!(
            "--data-mb {} is not twice the buffer pool of {pool} MiB: everything would be in memory, and nothing would be measured",
            plan.data_mb
        );
    }
    Ok(())
}

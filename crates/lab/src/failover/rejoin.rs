//! Waits until the cluster is complete again after a fault was undone.
//!
//! A primary that vanished may have committed transactions that no replica received. Understudy does not let it rejoin then; the lab runs
//! the command that an operator would use: `understudy errant flashback`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::process::Command;

use super::front::Front;
use super::mha;
use super::understudy::Api;
use crate::stage::Stage;

/// After a fault was undone, the cluster must be complete again within this.
pub(super) const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// Interval between two queries of the status.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Limit of one command.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);

/// Waits for it; returns how many transactions that only `victim` had were undone.
///
/// # Errors
/// When the cluster is not complete in time, or the transactions cannot be undone.
pub(crate) async fn whole(stage: &Stage, front: &Front, victim: &str) -> anyhow::Result<u64> {
    if front.leaves_the_rest() {
        return mha::rejoin(stage, victim, SETTLED_WITHIN).await.map(|()| 0);
    }
    let Some((api, config)) = front.decider() else {
        return stage.settled(SETTLED_WITHIN).await.map(|()| 0);
    };
    tokio::select! {
        done = stage.settled(SETTLED_WITHIN) => return done.map(|()| 0),
        () = until_apart(api, victim) => {}
    }
    let list = errant(&["list", victim, "--json"], config).await?;
    let list: Value = serde_json::from_str(&list).context("understudy errant list --json is no JSON")?;
    let count = list["transactions"].as_array().map_or(0, Vec::len) as u64;
    errant(&["flashback", victim], config).await?;
    stage.settled(SETTLED_WITHIN).await?;
    Ok(count)
}

/// Waits until Understudy excludes the node because of its errant transactions.
async fn until_apart(api: &Api, node: &str) {
    let is_apart = |status: &Value| {
        let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        // Understudy first makes it read only; until then it does not touch it.
        let is_held = |it: &Value| it["problem"] == "errant" && it["facts"]["read_only"] == true;
        nodes.iter().any(|it| it["name"] == node && is_held(it))
    };
    while !api.status().await.is_ok_and(|status| is_apart(&status)) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Runs one `understudy errant` command to its end; returns its output.
async fn errant(arguments: &[&str], config: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(crate::program::understudy()?);
    command.arg("errant").args(arguments).arg("--config").arg(config).kill_on_drop(true);
    let done = tokio::time::timeout(COMMAND_WITHIN, command.output());
    let done = done.await.with_context(|| format!("understudy errant {} hangs", arguments[0]))??;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("understudy errant {}: {}", arguments.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

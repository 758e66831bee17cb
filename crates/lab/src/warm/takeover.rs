//! A takeover by the standby under load, for [`super::failover`] and [`super::forecast`]: Understudy in front, the primary killed, and the
//! original roles restored afterwards.

use std::time::{Duration, Instant as StdInstant};

use anyhow::{Context, bail};
use tokio::time::Instant;

use super::ground::{ACTIVE, Ground, Reads, STANDBY};
use super::load::{Load, Ran};
use crate::failover::case::Writers;
use crate::failover::front::Front;
use crate::failover::rejoin;
use crate::failover::understudy::Knobs;
use crate::fault::Fault;
use crate::wait;

/// Time limit for both servers to have their original roles again.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Between two attempts to move the role back.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The load during the takeover.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The number of the first statement.
    pub from: u64,
    /// Number of statements.
    pub count: u64,
    /// Statements a second.
    pub per_s: u32,
    /// Time of the kill, since the first statement.
    pub kill_after: Duration,
}

/// Results of the takeover.
pub struct Killed {
    /// Results of the load.
    pub ran: Ran,
    /// When the primary was killed, since the load began.
    pub after: Duration,
    /// The disk reads of the standby just before that.
    pub reads: Reads,
}

/// Starts Understudy in front of both servers; its files are in the stage's directory, and those of an earlier one are removed.
pub async fn front(ground: &Ground) -> anyhow::Result<Front> {
    let stage = &ground.stage;
    let dir = stage.directory().join("front");
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let nodes: Vec<_> =
        stage.nodes().iter().map(|node| (node.name.clone(), node.address.to_string())).collect();
    Front::understudy(stage.kind(), &nodes, Writers::One, &Knobs::default(), &dir).await
}

/// Runs the load and kills the primary during it.
pub async fn kill(ground: &Ground, load: &mut Load, asked: Asked) -> anyhow::Result<Killed> {
    let began = Instant::now();
    let (ran, killed) = tokio::join!(load.run(asked.from, asked.count, asked.per_s), async {
        tokio::time::sleep_until(began + asked.kill_after).await;
        let reads = ground.reads(STANDBY).await?;
        let at: StdInstant = ground.stage.fault(ACTIVE, Fault::Kill).await?;
        anyhow::Ok((at, reads))
    });
    let (ran, (at, reads)) = (ran?, killed?);
    let after = Instant::from_std(at).saturating_duration_since(ran.began);
    Ok(Killed { ran, after, reads })
}

/// Starts the old primary again, and waits until it replicates from the new one.
pub async fn heal(ground: &Ground, front: &Front) -> anyhow::Result<()> {
    ground.stage.fault(ACTIVE, Fault::Heal).await?;
    rejoin::whole(&ground.stage, front, ACTIVE).await.context("the old primary does not come back")?;
    Ok(())
}

/// Moves the role back to the old primary by a switchover, and ends the proxy.
pub async fn back(ground: &Ground, front: Front) -> anyhow::Result<()> {
    if front.active().await? != ACTIVE {
        let api = front.api().context("Understudy has an API")?;
        // Understudy may not yet see it as a replica; a rejected order changes nothing.
        let moved = wait::retried(SETTLED_WITHIN, LOOK_EVERY, async || api.switchover(Some(ACTIVE)).await);
        moved.await.context("moving the writer back, as ordered")?;
    }
    ground.stage.settled(SETTLED_WITHIN).await
}

/// Checks that the standby has taken over.
///
/// # Errors
/// When the standby is not the writer.
pub async fn taken(front: &Front) -> anyhow::Result<()> {
    let active = front.active().await?;
    if active != STANDBY {
        bail!("{active} is the writer after the primary was killed, not {STANDBY}");
    }
    Ok(())
}

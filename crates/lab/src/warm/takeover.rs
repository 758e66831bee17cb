//! A takeover by the standby under load, as [`super::failover`] and [`super::forecast`] need it: Understudy in front, the primary killed, and everything
//! as before afterwards.

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

/// Both servers are as before the takeover within this.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Between two attempts to move the role back.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What the load is asked to run.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The number of the first statement.
    pub from: u64,
    /// How many statements.
    pub count: u64,
    /// So many a second.
    pub per_s: u32,
    /// The primary is killed so long after the first statement.
    pub kill_after: Duration,
}

/// What came of it.
pub struct Killed {
    /// The load.
    pub ran: Ran,
    /// When the primary was killed, since the load began.
    pub after: Duration,
    /// What the standby had read from disk just before that.
    pub reads: Reads,
}

/// Understudy in front of both servers; what it keeps lies in the stage's directory, and nothing of an earlier one is left.
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

/// Runs the load and kills the primary meanwhile.
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

/// Starts the old primary again, and waits until it follows the new one.
pub async fn heal(ground: &Ground, front: &Front) -> anyhow::Result<()> {
    ground.stage.fault(ACTIVE, Fault::Heal).await?;
    rejoin::whole(&ground.stage, front, ACTIVE).await.context("the old primary does not come back")?;
    Ok(())
}

/// Moves the role back to the old primary, by an order, and takes the front away.
pub async fn back(ground: &Ground, front: Front) -> anyhow::Result<()> {
    if front.active().await? != ACTIVE {
        let api = front.api().context("Understudy has an API")?;
        // It may not follow yet in Understudy's eyes; an order that is refused changes nothing.
        let deadline = Instant::now() + SETTLED_WITHIN;
        while let Err(error) = api.switchover(Some(ACTIVE)).await {
            if Instant::now() > deadline {
                return Err(error.context("moving the writer back, as ordered"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    ground.stage.settled(SETTLED_WITHIN).await
}

/// # Errors
/// When the standby is not the writer.
pub async fn taken(front: &Front) -> anyhow::Result<()> {
    let active = front.active().await?;
    if active != STANDBY {
        bail!("{active} is the writer after the primary was killed, not {STANDBY}");
    }
    Ok(())
}

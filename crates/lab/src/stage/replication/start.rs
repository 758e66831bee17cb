//! Starts a new replication stage: all servers start, db1 becomes writable, the others replicate from it.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::super::servers::START_LIMIT;
use super::super::{ClusterKind, Stage, StageNode, sql};
use super::dialect::{follow, wait_for, words};
use super::word::{ReplicationWord, ask};

/// Time limit from CHANGE MASTER until the server replicates.
const FOLLOW_LIMIT: Duration = Duration::from_secs(60);

impl Stage {
    pub(in super::super) async fn begin_replication(&self, tell: &impl Fn(&str)) -> anyhow::Result<()> {
        for node in &self.nodes {
            tell(&format!("starting {}", node.name));
            self.launch(node, &[])?;
        }
        for node in &self.nodes {
            self.wait_answers(node, START_LIMIT).await?;
            self.check_reachable(node).await?;
        }
        let Some((primary, replicas)) = self.nodes.split_first() else { return Ok(()) };
        if self.kind == (ClusterKind::Replication { semi_sync: true }) {
            self.run_in(&primary.name, words(primary.product).primary_waits).await?;
        }
        self.run_in(&primary.name, "SET GLOBAL read_only = OFF").await?;
        for replica in replicas {
            tell(&format!("{} follows {}", replica.name, primary.name));
            self.run_in(&replica.name, &follow(primary)).await?;
            self.run_in(&replica.name, words(replica.product).start).await?;
        }
        for replica in replicas {
            self.wait_follows(replica, primary, FOLLOW_LIMIT).await?;
        }
        self.wait_acknowledged(primary, replicas.len(), FOLLOW_LIMIT).await
    }

    /// Waits until a server responds to SQL.
    pub(super) async fn wait_answers(
        &self,
        node: &StageNode,
        within: Duration,
    ) -> anyhow::Result<ReplicationWord> {
        self.wait_word(node, "answers", within, |_| true).await
    }

    /// Waits until a replica replicates and has applied everything the source had at the time of this call.
    pub(super) async fn wait_follows(
        &self,
        replica: &StageNode,
        source: &StageNode,
        within: Duration,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        let position = ask(source).await?.position;
        self.wait_word(replica, "replicates", within, ReplicationWord::is_replicating).await?;
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let wait = wait_for(replica.product, &position, left.as_secs_f64());
        // The server's own limit ends the wait; this one is for a server that does not keep it.
        let answer = sql::run(&replica.socket, &wait, left + Duration::from_secs(5)).await?;
        if answer.first().and_then(|row| row.first()).is_none_or(|result| result != "0") {
            let name = &replica.name;
            bail!("{name} has not applied {position} of {} after {:.0} s", source.name, within.as_secs_f64());
        }
        Ok(())
    }

    /// Waits until all replicas acknowledge to the primary, if replication is semi-synchronous.
    async fn wait_acknowledged(
        &self,
        primary: &StageNode,
        replicas: usize,
        within: Duration,
    ) -> anyhow::Result<()> {
        let all = |word: &ReplicationWord| {
            word.semi_sync
                .as_ref()
                .is_none_or(|semi_sync| semi_sync.waits && semi_sync.replicas as usize >= replicas)
        };
        self.wait_word(primary, "is acknowledged to by all replicas", within, all).await.map(drop)
    }

    /// Waits until the server's status is as required.
    ///
    /// # Errors
    /// When it dies or on timeout, with its last status and the end of its log.
    pub(super) async fn wait_word(
        &self,
        node: &StageNode,
        wanted: &str,
        within: Duration,
        fits: impl Fn(&ReplicationWord) -> bool,
    ) -> anyhow::Result<ReplicationWord> {
        let late = |seconds| format!("not so after {seconds:.0} s: {} {wanted}", node.name);
        self.wait_for_word(node, within, ask, fits, late).await
    }
}

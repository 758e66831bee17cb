//! What the primary reported last, remembered also on disk: after a restart of this program nothing else says what it must have when it
//! comes back, if its replicas are gone as well.
//!
//! ```text
//!   the primary's report ──(new position, at once; otherwise each minute)──> on disk
//!   the primary is back, and a server that is not drained cannot be asked
//!     it lacks what it had reported ──────────────────────────────────────────────────> not opened
//!     its commits waited for a replica, it has restarted, and does not sync each one ──> not opened
//!   the primary is back, and all answer
//!     it lacks what a replica had acknowledged, and no server has that ──────────────> not opened
//!   the primary is gone, and this process has not heard it
//!     its commits waited for a replica, surely until now, and the best replica has it ─> it takes over
//! ```
//!
//! Between two reports the primary may have acknowledged more. Where commits waited for a replica, some replica has that. A primary that
//! syncs each commit to disk cannot lose it; any other is opened only beside all replicas. "Not opened" ends with the replica that is
//! missing, when an operator drains that one, or by an order with force.

use std::time::Duration;

use protocol::gtid::{Family, History, Origin, Position};

use super::copied::Inherited;
use super::most;
use super::reports::{all_of, answers, follows_one_of_us, own};
use super::state::{Remembered, Replication};
use super::status::ReplicationStatus;
use super::written::Written;
use crate::NodeId;
use crate::action::Action;
use crate::core::Core;
use crate::time::Now;

/// How often what has not changed is written to disk.
const WRITE_GAP: Duration = Duration::from_secs(60);
/// A server reports its uptime in whole seconds.
const UPTIME_ERROR: Duration = Duration::from_secs(1);
/// A commit that waits for a replica longer than the heartbeat allows is noticed some time later.
const NOTICED: Duration = Duration::from_secs(10);

impl Remembered {
    /// How long ago the primary reported it, at the most.
    fn age(&self, core: &Core) -> Duration {
        core.now.saturating_sub(self.at).saturating_add(self.ago)
    }
}

impl Replication {
    /// What an earlier process has left.
    pub fn restore_written(&mut self, core: &Core, written: Option<(Written, Duration)>) {
        if let Some((written, _)) = &written {
            self.inherited = Inherited::read(&written.inherited);
        }
        self.remembered =
            written.map(|(written, ago)| Remembered { written, at: core.now, ago, sent_at: core.now });
    }

    /// The primary has reported its status.
    pub(super) fn remember(
        &mut self,
        core: &mut Core,
        id: NodeId,
        status: &ReplicationStatus,
        acknowledged: Option<&Position>,
        asked: Now,
    ) {
        let text = |position: Option<&Position>| position.map(ToString::to_string).unwrap_or_default();
        let written = Written {
            address: core.node(id).address.clone(),
            position: text(status.position.as_ref()),
            acknowledged: text(acknowledged),
            waited: status.semi_sync.waits(),
            timeout_ms: status.semi_sync.timeout_ms,
            inherited: self.inherited.text(),
        };
        let sent_at = self.remembered.as_ref().filter(|known| known.written == written);
        let sent_at = sent_at.map(|known| known.sent_at);
        let is_due = sent_at.is_none_or(|at| core.now.saturating_sub(at) >= WRITE_GAP);
        let sent_at = sent_at.filter(|_| !is_due).unwrap_or(core.now);
        if is_due {
            core.out.push(Action::Remember { written: written.clone() });
        }
        self.remembered = Some(Remembered { written, at: asked, ago: Duration::ZERO, sent_at });
    }

    /// A replica shows what it has received. Where commits wait for a replica, all that it has of the primary was acknowledged, and it may show
    /// that only once: a MariaDB server that has restarted deletes what it had received when its threads start.
    pub(super) fn note_received(&mut self, core: &mut Core, id: NodeId, status: &ReplicationStatus) {
        let Some(primary) = core.writer.filter(|primary| *primary != id && self.fence.is_none()) else {
            return;
        };
        let server = self.server(id);
        if server.errant.is_some() || core.node(id).is_renumbered || self.of(core, primary).is_none() {
            return;
        }
        let Some(word) = self.last_word.as_mut().filter(|word| word.waited) else { return };
        let Some(known) = &word.acknowledged else { return };
        let Some(has) = status.has().filter(|has| is_more_of(word.origin, has, known)) else { return };
        word.acknowledged = Some(has.clone());
        // While the primary answers, its own next report says as much.
        let is_lost = !answers(core.node(primary));
        if let Some(known) = &mut self.remembered {
            known.written.acknowledged = has.to_string();
            if is_lost {
                known.sent_at = core.now;
                core.out.push(Action::Remember { written: known.written.clone() });
            }
        }
    }

    /// A server has become the primary: it had applied all that it had received. Until its first report nothing more is known of it.
    pub(super) fn remember_taken_over(&mut self, core: &mut Core, to: NodeId) {
        let address = core.node(to).address.clone();
        let has = own(core.node(to)).and_then(ReplicationStatus::has);
        let is_known = self.remembered.as_ref().is_some_and(|known| known.written.address == address);
        let lacks = is_known && self.lacks_remembered(core, to).is_some();
        if is_known && !lacks {
            return;
        }
        let position = has.map(|has| has.to_string()).unwrap_or_default();
        let written = Written {
            address,
            acknowledged: position.clone(),
            position,
            waited: self.waited(core),
            timeout_ms: None,
            inherited: self.inherited.text(),
        };
        core.out.push(Action::Remember { written: written.clone() });
        let (at, ago) = (core.now, Duration::ZERO);
        self.remembered = Some(Remembered { written, at, ago, sent_at: at });
    }

    /// What is remembered of this server as the primary.
    fn of(&self, core: &Core, id: NodeId) -> Option<&Remembered> {
        self.remembered.as_ref().filter(|known| known.written.address == core.node(id).address)
    }

    /// What the server had reported as the primary, and has not now.
    pub(super) fn lacks_remembered(&self, core: &Core, id: NodeId) -> Option<String> {
        let status = own(core.node(id))?;
        self.lacks_of(core, id, status)
    }

    fn lacks_of(&self, core: &Core, id: NodeId, status: &ReplicationStatus) -> Option<String> {
        let position = Position::parse(status.dialect.family(), &self.of(core, id)?.written.position).ok()?;
        lacks_position(status, position)
    }

    /// What a replica had acknowledged while the server was the primary, and what it has not now.
    pub(super) fn lacks_acknowledged(
        &self,
        core: &Core,
        id: NodeId,
        status: &ReplicationStatus,
    ) -> Option<String> {
        self.of(core, id).filter(|known| known.written.waited && !follows_one_of_us(core, status))?;
        let lacks =
            lacks_position(status, self.remembered_as_acknowledged(core, id, status.dialect.family())?)?;
        Some(format!("{lacks}, which a replica had acknowledged, and no server has that answers"))
    }

    /// Up to where replicas had acknowledged this server's commits as the primary; `None` also where that cannot be read.
    pub(super) fn remembered_as_acknowledged(
        &self,
        core: &Core,
        id: NodeId,
        family: Family,
    ) -> Option<Position> {
        Position::parse(family, &self.of(core, id)?.written.acknowledged).ok()
    }

    /// Why a primary that is back may lack what it has acknowledged, although no server that answers has it: a clause.
    pub(super) fn may_lack(&self, core: &Core, id: NodeId, status: &ReplicationStatus) -> Option<String> {
        let silent: Vec<NodeId> = core
            .nodes
            .ids()
            .filter(|other| *other != id && !answers(core.node(*other)) && !core.node(*other).drained())
            .collect();
        let known = self.of(core, id).filter(|_| !silent.is_empty() && !follows_one_of_us(core, status))?;
        // Those that were gone when the primary reported last have acknowledged nothing since.
        let is_left = silent.iter().all(|other| self.server(*other).left);
        let silent = silent.into_iter().map(|other| core.name(other)).collect::<Vec<_>>().join(" and ");
        if let Some(lacks) = self.lacks_of(core, id, status) {
            return Some(format!("{lacks}, which it had reported itself, and {silent} cannot be asked now"));
        }
        let has_restarted = !self.runs_on(core, id, status);
        (known.written.waited && has_restarted && !status.is_durable && !is_left).then(|| {
            format!(
                "what it acknowledged after its last report, perhaps, as it has restarted and does not sync each commit (sync_binlog, \
                 innodb_flush_log_at_trx_commit); {silent} may have that, and cannot be asked now"
            )
        })
    }

    /// Whether the server surely has not restarted since its last report as the primary.
    fn runs_on(&self, core: &Core, id: NodeId, status: &ReplicationStatus) -> bool {
        let has_run = status.uptime_s.map(Duration::from_secs);
        let age = self.of(core, id).map(|known| known.age(core));
        has_run.zip(age).is_some_and(|(has_run, age)| has_run > age + UPTIME_ERROR)
    }

    /// The report of a server that runs on, with what it is committing counted as committed: that waits for a replica's acknowledgement, may be on the
    /// replica already, and is not lost. After a restart a number may have been given anew to another transaction, which says nothing of the first.
    pub(super) fn with_underway(
        &self,
        core: &Core,
        id: NodeId,
        status: &ReplicationStatus,
    ) -> ReplicationStatus {
        let mut status = status.clone();
        if let (Some(position), Some(underway)) = (&status.position, &status.underway)
            && self.runs_on(core, id, &status)
        {
            status.position = position.union(underway).ok();
        }
        status
    }

    /// A position that each server has which acknowledged the lost primary's commits until it ended, where this process has not heard it.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn acknowledged_before(
        &self,
        core: &Core,
        lost: NodeId,
        family: Family,
    ) -> Result<Position, String> {
        let unknown = "what it had is not known, as this program has not heard it as the primary";
        let known = self.of(core, lost).ok_or(unknown)?;
        if !known.written.waited {
            return Err(format!(
                "{unknown}, and its commits did not wait for a replica when another process did"
            ));
        }
        // Of one that answers, only what a replica had acknowledged matters: what it wrote without waiting is there, or on no other server.
        let hung = core.settings.heartbeat.stuck_max + NOTICED;
        let surely = known.written.timeout_ms.map(Duration::from_millis);
        let may_have_ceased = surely.is_none_or(|timeout| known.age(core) + hung >= timeout);
        if may_have_ceased && !answers(core.node(lost)) {
            return Err(format!(
                "{unknown}, and its commits may have ceased to wait for a replica since (rpl_semi_sync_master_timeout)"
            ));
        }
        self.remembered_as_acknowledged(core, lost, family).ok_or_else(|| unknown.to_owned())
    }
}

/// Whether `has` is `known` and more, of which this server wrote all.
fn is_more_of(origin: Origin, has: &Position, known: &Position) -> bool {
    let history = |position: &Position| {
        let mut history = History::empty(position.family());
        history.add(position);
        history
    };
    let more = || history(has).minus(&history(known));
    has.contains(known) == Ok(true) && more().is_ok_and(|more| !more.is_empty() && more.of(origin) == more)
}

fn lacks_position(status: &ReplicationStatus, position: Position) -> Option<String> {
    if all_of(status).holds(&position) {
        return None;
    }
    let with = ReplicationStatus {
        history: Some(History::empty(status.dialect.family())),
        dialect: status.dialect,
        position: Some(position),
        ..ReplicationStatus::default()
    };
    // What it had from a source outside of the cluster, it gets again.
    if status.channels.is_empty() {
        most::lacking(status, &with)
    } else {
        most::lost_of_its_own(status, &with)
    }
}

//! With force an operator names a server that does not receive from the primary, which answers: its account is refused there, for one. That may
//! be the only way back from a primary whose commits hang, since no replica can log in to acknowledge them.
//!
//! ```text
//!   the server has all that the primary has ──────────────────────────> a switchover; as if the primary were lost, where its commits hang
//!   it lacks what no replica has acknowledged, and none can now ──────> as if the primary were lost
//!   it lacks what was acknowledged, or another server has more ───────> refused, with what it lacks
//! ```
//!
//! A client whose commit no replica has acknowledged has no answer. What the primary has of such commits is errant there afterwards.
//!
//! Invariant: by such an order no transaction is lost that a client was told of. It is judged again when the primary's links are cut.

use super::most;
use super::reports::{all_of, answers, own};
use super::state::{Acknowledged, Replication};
use super::status::ReplicationStatus;
use crate::NodeId;
use crate::core::Core;
use crate::finding::{Problem, Serves};
use crate::group::{ByForce, Choose, Way};

/// The names of the findings about a server that gets nothing from the primary, and of which nothing else is wrong.
const DOES_NOT_RECEIVE: [Problem; 3] = [Problem::NotFetching, Problem::Stray, Problem::OtherSource];

impl Replication {
    /// How an order with force is carried out that moves the primary to `to`. `None`: as any other order.
    pub(super) fn moved_by_force(
        &mut self,
        core: &Core,
        primary: NodeId,
        to: NodeId,
    ) -> Option<Result<ByForce, String>> {
        let node = core.node(to);
        let is_ours =
            !core.settings.replication.is_external() && self.fence.is_none() && answers(core.node(primary));
        if !is_ours || !answers(node) || node.drained() || !DOES_NOT_RECEIVE.contains(&node.finding.problem) {
            return None;
        }
        let (mine, theirs) = (own(node)?, own(core.node(primary))?);
        let (name, reason) = (&node.name, &node.finding.sentence);
        if let Some(why) = most::unfit(mine, false) {
            return Some(Err(format!("{name} cannot become the primary: it {why}")));
        }
        let hangs = theirs.semi_sync.waits() && theirs.semi_sync.replicas == 0;
        let lacks = match all_of(theirs).minus(&all_of(mine)) {
            Ok(lacks) if lacks.is_empty() => {
                return match (hangs, node.finding.serves) {
                    (true, _) => Some(Ok(self.leave(theirs))),
                    // It is told by the order itself why it cannot be chosen.
                    (false, Serves::No) => None,
                    (false, _) => Some(Ok(ByForce::HandOver)),
                };
            }
            Ok(lacks) => lacks,
            Err(why) => return Some(Err(why.to_string())),
        };
        let is_its_own = lacks.of(theirs.origin()) == lacks;
        // Of MariaDB's runs some numbers may be others': the positions show how many there are at the most.
        let gap = mine.has().zip(theirs.position.as_ref()).and_then(|(has, last)| has.behind_by(last).ok());
        let count = gap.map_or(lacks.count_max(), |gap| lacks.count_max().min(gap.total()));
        let none_is_acknowledged = hangs && is_its_own && self.is_unacknowledged(mine, count);
        if none_is_acknowledged && self.others_ahead(core, primary, to).is_empty() {
            return Some(Ok(self.leave(theirs)));
        }
        let at_most = if lacks.is_exact() { "" } else { " at most" };
        let (primary, has) = (core.name(primary), if hangs { "may have" } else { "has" });
        let count = match count {
            1 => "1 transaction".to_owned(),
            count => format!("{count} transactions"),
        };
        Some(Err(format!(
            "{name} {reason}, and lacks {count} that {primary} {has} acknowledged ({lacks}{at_most}): while {primary} answers, these are not given up, \
             also with force; have {name} receive them, or name a server that has them"
        )))
    }

    /// The primary is left; what is acknowledged from now on counts.
    fn leave(&mut self, primary: &ReplicationStatus) -> ByForce {
        self.left_at = Some(primary.semi_sync.acknowledged_count);
        ByForce::Leave
    }

    /// Whether no replica has acknowledged any of the newest `count` transactions of the primary, which a server lacks that reports `mine`.
    fn is_unacknowledged(&self, mine: &ReplicationStatus, count: u128) -> bool {
        let at_most = self.acknowledged.as_ref().and_then(|known| known.at_most.as_ref());
        let still_wait = self.last_word.as_ref().map_or(0, |word| word.still_waiting);
        at_most.is_some_and(|at_most| all_of(mine).holds(at_most)) || count <= u128::from(still_wait)
    }

    /// The servers besides the primary that have a transaction which `to` has not.
    fn others_ahead(&self, core: &Core, primary: NodeId, to: NodeId) -> Vec<NodeId> {
        self.ahead_of(core, to, primary).into_iter().filter(|id| *id != primary).collect()
    }

    /// The primary has reported its status.
    pub(super) fn note_acknowledged(&mut self, status: &ReplicationStatus) {
        let count = status.semi_sync.acknowledged_count;
        let known = self.acknowledged.take();
        if !status.semi_sync.waits() {
            return;
        }
        // A report's position is read before its count. Only that of a later report with the same count is certainly behind all that was counted.
        let known = known.filter(|known| known.count == count);
        let at_most = known.and_then(|known| known.at_most.or_else(|| status.position.clone()));
        self.acknowledged = Some(Acknowledged { count, at_most });
    }

    /// A server has taken over: as the primary that it is now, it has committed nothing yet.
    pub(super) fn none_acknowledged(&mut self, status: Option<&ReplicationStatus>) {
        self.left_at = None;
        self.acknowledged = status
            .map(|status| Acknowledged { count: status.semi_sync.acknowledged_count, at_most: status.has() });
    }

    /// `to` was named with force. Where the primary is left although it answers, the last that was acknowledged before its links were cut counts.
    pub(super) fn outrun_by_force(&mut self, core: &mut Core, to: NodeId) -> Option<Way> {
        let count = self.left_at?;
        let fence = self.fence.as_ref()?;
        let (lost, since) = (fence.lost?, fence.quiet_since?.max(self.parted_at()));
        let here = core.nodes.ids().filter(|id| answers(core.node(*id)));
        let late: Vec<NodeId> = here.filter(|id| !core.node(*id).answered_since(since)).collect();
        for id in &late {
            core.ask_probe(*id);
        }
        if !late.is_empty() {
            return Some(Way::Wait);
        }
        let now = own(core.node(lost)).filter(|_| answers(core.node(lost)));
        let is_same = now.is_some_and(|now| now.semi_sync.acknowledged_count == count);
        let ahead = self.others_ahead(core, lost, to);
        if is_same && ahead.is_empty() {
            return None;
        }
        self.force_is_over();
        Some(Way::Outrun("may lack what a replica has acknowledged in this moment".into()))
    }
}

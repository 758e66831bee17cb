//! The interface between the brain and what is particular to one kind of cluster (Galera, or a primary with replicas).
//!
//! The brain knows nodes, lanes, terms, doubts and orders. How to read a node's status, what the nodes know of each other, and what can be done
//! to them (evicting a member, promoting a replica) differs by kind, and is reached through the methods of [`Group`] alone: each is a
//! `match` with one arm for [`crate::galera`] and one for [`crate::replication`].
//!
//! ```text
//!   brain:  take in ──> judge ───────────────────────────────> plan ───────────────────> act ──> ask ──> publish
//!   kind:     heard      look_around, against, is_out, judged    start, heir,              act     is_unclear
//!             linked                                             evict_if_allowed, change
//! ```

use std::time::Duration;

use crate::core::{Core, FailedOver};
use crate::finding::{Finding, NodeState, Serves};
use crate::galera::{self, Galera};
use crate::kind::{ByForce, Heir, Kind, Reads, Relief, Way};
use crate::places::Places;
use crate::replication::{self, FailoverPolicy, Replication, Written};
use crate::status::Status;
use crate::time::Now;
use crate::{NodeId, Term};

/// The state that only this kind of cluster has.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a brain has one")]
pub(crate) enum Group {
    Galera(Galera),
    Replication(Replication),
}

impl Group {
    pub fn new(kind: Kind, nodes: usize) -> Self {
        match kind {
            Kind::Galera => Self::Galera(Galera::new(nodes)),
            Kind::Replication => Self::Replication(Replication::new(nodes)),
        }
    }

    /// What an earlier process has left: what `core` has of the writer's component; the writer, if it had come back without transactions of
    /// its own; how long ago that process last wrote something down; and what the primary reported last.
    pub fn restore(
        &mut self,
        core: &Core,
        incomplete: Option<NodeId>,
        away: Option<Duration>,
        written: Option<(Written, Duration)>,
    ) {
        match self {
            Self::Galera(group) => group.restore(core),
            Self::Replication(group) => {
                group.restore(incomplete, away);
                group.restore_written(core, written);
            }
        }
    }

    /// What of this kind refers to a node by its number at this moment, as a clause; `None` when nothing does.
    pub fn busy(&self, core: &Core) -> Option<String> {
        match self {
            Self::Galera(group) => group.busy(),
            Self::Replication(group) => group.busy(core),
        }
    }

    /// The list of nodes has changed.
    pub fn arrange(&mut self, places: &Places) {
        match self {
            Self::Galera(group) => group.arrange(places),
            Self::Replication(group) => group.arrange(places),
        }
    }

    /// An operator takes the node in as it is: with Galera, its component is the cluster from now on. `None` if nothing speaks against it.
    ///
    /// # Errors
    /// Why it cannot be taken in.
    pub fn accept(&mut self, core: &mut Core, id: NodeId) -> Option<Result<(), String>> {
        match self {
            Self::Galera(group) => group.accept(core, id),
            Self::Replication(_) => None,
        }
    }

    /// What a report comes to that was asked for at `asked`: where the node has answered an order since, that answer counts.
    pub fn amended(&self, core: &Core, id: NodeId, mut status: Status, asked: Now) -> Status {
        if let (Self::Replication(group), Some(report)) = (self, status.replication_mut()) {
            group.amend(core, id, report, asked);
        }
        status
    }

    /// The node has reported this status; its belief still has the one before.
    pub fn heard(&mut self, core: &mut Core, id: NodeId, status: &Status, asked: Now) {
        match (self, status) {
            (Self::Galera(group), Status::Galera(status)) => group.heard(core, id, status),
            (Self::Replication(group), Status::Replication(status)) => group.heard(core, id, status, asked),
            // It is not of the configured kind of cluster, which the rules report.
            (Self::Galera(_), Status::Replication(_)) | (Self::Replication(_), Status::Galera(_)) => {}
        }
    }

    /// The node's link was opened anew.
    pub fn linked(&mut self, core: &mut Core, id: NodeId) {
        match self {
            Self::Galera(_) => {}
            Self::Replication(group) => group.linked(core, id),
        }
    }

    /// This process did not run for `gap`. `true`: what a new writer reported before that does not count any more.
    pub fn slept(&mut self, gap: Duration) -> bool {
        match self {
            Self::Galera(_) => false,
            Self::Replication(group) => {
                group.slept(gap);
                true
            }
        }
    }

    /// Whether the node's own report is not enough to end the suspicion against it.
    pub fn keeps_doubt(&self, core: &Core, id: NodeId) -> bool {
        match self {
            Self::Galera(_) => false,
            Self::Replication(group) => group.keeps_doubt(core, id),
        }
    }

    /// The sentence about a node with which nothing is wrong.
    pub fn well(&self, core: &Core, id: NodeId) -> String {
        match self {
            Self::Galera(_) => "synced and writable".to_owned(),
            Self::Replication(group) => group.well(core, id),
        }
    }

    /// The word for a state, as people see it: a replicated server is "running" where a Galera node is "synced".
    pub fn word(&self, state: NodeState) -> &'static str {
        match (self, state) {
            (Self::Replication(_), NodeState::Synced) => "running",
            _ => state.word(),
        }
    }

    /// The node's answer to a query that was sent at `asked` is late ([`crate::fact::Fact::ProbeSlow`]).
    pub fn slow(&mut self, core: &Core, id: NodeId, asked: Now) {
        match self {
            Self::Galera(group) => group.slow(id, asked),
            Self::Replication(group) => group.slow(core, id, asked),
        }
    }

    /// Called before the nodes are judged: works out what the nodes say of each other.
    pub fn look_around(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.look_around(core),
            Self::Replication(group) => group.look_around(core),
        }
    }

    /// Advice: what an operator should correct about a node that is usable meanwhile.
    pub fn advice(&self, core: &Core, id: NodeId) -> Vec<String> {
        match self {
            Self::Galera(group) => group.not_revived(core, id).into_iter().collect(),
            Self::Replication(group) => group.advice(core, id),
        }
    }

    /// How often the cluster was given a Primary component again.
    pub fn bootstraps(&self) -> u64 {
        match self {
            Self::Galera(group) => group.revivals(),
            Self::Replication(_) => 0,
        }
    }

    /// What the other nodes' status says against a node that itself answers (it is not in their view, for one).
    pub fn against(&self, core: &Core, id: NodeId) -> Option<Finding> {
        match self {
            Self::Galera(group) => group.against(core, id),
            Self::Replication(group) => group.against(core, id),
        }
    }

    /// Whether the group has certainly gone on without this node, which must then not be used. Its own view does not count any more.
    pub fn is_out(&self, core: &Core, id: NodeId) -> bool {
        match self {
            Self::Galera(group) => group.is_out(core, id),
            Self::Replication(_) => false,
        }
    }

    /// Called after the nodes were judged.
    pub fn judged(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.note_departures(core),
            Self::Replication(_) => {}
        }
    }

    /// The plan has given `lost` up: with Galera, orders its eviction if that is allowed at this moment, so that the others do not wait for its
    /// suspect timeout. Returns the clause for the journal's sentence, or nothing.
    pub fn evict_if_allowed(&mut self, core: &mut Core, lost: NodeId) -> String {
        match self {
            Self::Galera(group) => group.evict_if_allowed(core, lost),
            Self::Replication(_) => String::new(),
        }
    }

    /// Whether a node that answers, and is not the one writer, may take reads.
    pub fn reads(&self, core: &Core, id: NodeId) -> Reads {
        match self {
            Self::Galera(_) if core.node(id).finding.serves == Serves::Well => Reads::Current,
            Self::Galera(_) => Reads::No,
            Self::Replication(group) => group.reads(core, id),
        }
    }

    /// Called after the plan's step: orders what the plan does not order itself.
    pub fn act(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.act(core),
            Self::Replication(group) => group.act(core),
        }
    }

    /// A decision waits for newer status of the nodes: the brain probes all of them until it is made.
    pub fn is_unclear(&self, core: &Core) -> bool {
        match self {
            Self::Galera(group) => group.is_unclear(core),
            Self::Replication(group) => group.is_unclear(core),
        }
    }

    /// What came of an action of this kind; those of another kind mean nothing.
    pub fn galera_outcome(&mut self, core: &mut Core, outcome: galera::Outcome) {
        if let Self::Galera(group) = self {
            group.outcome(core, outcome);
        }
    }

    /// The same for a primary with replicas.
    pub fn replication_outcome(&mut self, core: &mut Core, outcome: replication::Outcome) {
        if let Self::Replication(group) = self {
            group.outcome(core, outcome);
        }
    }

    // ---- who is to write

    /// Who writes when this process has just started. `time_up`: servers that have not answered by now are not waited for.
    pub fn start(&mut self, core: &mut Core, time_up: bool) -> Heir {
        match self {
            Self::Galera(_) => Heir::Any,
            Self::Replication(group) => group.start(core, time_up),
        }
    }

    /// Whether the lane of a writer without findings may be opened again.
    pub fn may_open(&self, core: &Core, writer: NodeId) -> bool {
        match self {
            Self::Galera(_) => true,
            // That its silence does not count is no sign of life: it may have ended, and restarted without some of what it had.
            Self::Replication(_) => core.node(writer).lost_at.is_none(),
        }
    }

    /// Who takes over from a writer that does not serve. `ordered`: an operator has ordered it to be moved.
    pub fn heir(&mut self, core: &mut Core, lost: NodeId, ordered: bool) -> Heir {
        match self {
            Self::Galera(_) => Heir::Any,
            Self::Replication(group) => group.heir(core, lost, ordered),
        }
    }

    /// Whether a writer that answers and does not commit may be given up, as of now.
    pub fn relief(&mut self, core: &mut Core, writer: NodeId) -> Relief {
        match self {
            Self::Galera(group) => group.relief(core, writer),
            Self::Replication(group) => match group.heir(core, writer, false) {
                Heir::This(to) if to != writer => Relief::Clear,
                Heir::Soon(_) => Relief::Soon,
                Heir::Nobody(why) | Heir::Stay { why, .. } => Relief::None(why),
                Heir::Any | Heir::This(_) => Relief::None("nobody can be chosen".into()),
            },
        }
    }

    /// The least time between giving up a writer that does not commit and giving up the next one. If all nodes cannot commit, moving on
    /// does not help.
    pub fn relief_gap(&self) -> Duration {
        match self {
            Self::Galera(_) => Duration::from_secs(60),
            // It is a failover, which has its own gap.
            Self::Replication(_) => Duration::ZERO,
        }
    }

    /// Whether the standbys get heartbeats, too, while the writer does not commit.
    pub fn beats_others(&self) -> bool {
        match self {
            Self::Galera(_) => true,
            // Replicas write nothing of their own.
            Self::Replication(_) => false,
        }
    }

    /// Who takes over from `lost` after `failed` could not.
    pub fn next_heir(&mut self, core: &mut Core, lost: Option<NodeId>, failed: NodeId) -> Heir {
        match (self, lost) {
            (Self::Galera(_), _) => Heir::Any,
            (Self::Replication(group), Some(writer)) => match group.replaced(core).unwrap_or(writer) {
                // It was to continue as the writer: another in its place is a failover as any other.
                lost if lost == failed => group.heir(core, lost, false),
                lost => group.choose(core, lost, Some(failed)),
            },
            (Self::Replication(group), None) => group.start(core, true),
        }
    }

    /// Whether the node is well by its own word, and waits for a member of its view that does not answer: nobody commits until that member is out
    /// of the view, or back.
    pub fn is_held_up(&self, core: &Core, id: NodeId) -> bool {
        match self {
            Self::Galera(_) => galera::is_held_up(core, id),
            Self::Replication(_) => false,
        }
    }

    /// Who takes over from a writer that does not serve, by order. `None`: an order has to wait until it does.
    pub fn ordered(
        &mut self,
        core: &mut Core,
        lost: NodeId,
        to: Option<NodeId>,
        force: bool,
    ) -> Option<Result<NodeId, String>> {
        match self {
            Self::Galera(_) => None,
            Self::Replication(group) => Some(group.ordered(core, lost, to, force)),
        }
    }

    /// How an order with force is carried out that moves the writer, which serves, to `to`. `None`: as any other order.
    pub fn by_force(&mut self, core: &Core, writer: NodeId, to: NodeId) -> Option<Result<ByForce, String>> {
        match self {
            Self::Galera(_) => None,
            Self::Replication(group) => group.by_force(core, writer, to),
        }
    }

    /// An order that was given with force is answered, and not carried out.
    pub fn force_is_over(&mut self) {
        if let Self::Replication(group) = self {
            group.force_is_over();
        }
    }

    /// Who becomes the first writer by order, while none is known. `None`: this kind of cluster has no such order.
    pub fn first_by_order(
        &mut self,
        core: &Core,
        to: Option<NodeId>,
        force: bool,
    ) -> Option<Result<NodeId, String>> {
        match self {
            Self::Galera(_) => None,
            Self::Replication(group) => Some(group.first_by_order(core, to, force)),
        }
    }

    /// Whether an operator has ordered the first writer.
    pub fn has_order_of_first(&self) -> bool {
        match self {
            Self::Galera(_) => false,
            Self::Replication(group) => group.has_order(),
        }
    }

    /// The first writer that was ordered cannot become it.
    pub fn first_failed(&mut self) {
        if let Self::Replication(group) = self {
            group.first_failed();
        }
    }

    /// Whether an order leaves a writer that does not commit without waiting for its commits, as if it were lost.
    pub fn leaves_without_waiting(&self) -> bool {
        match self {
            Self::Galera(_) => false,
            Self::Replication(_) => true,
        }
    }

    /// Whether a writer that works is left for a better one without an order.
    pub fn hands_over(&self, core: &Core) -> bool {
        let settings = &core.settings.replication;
        match self {
            Self::Galera(_) => true,
            Self::Replication(_) => !settings.dry_run && settings.failover == FailoverPolicy::Automatic,
        }
    }

    /// Whether another program moves the writer, so that it is followed and not moved.
    pub fn follows(&self, core: &Core) -> bool {
        match self {
            Self::Galera(_) => false,
            Self::Replication(_) => core.settings.replication.is_external(),
        }
    }

    /// An operator announces that another program is about to move the writer, or the end of that.
    pub fn announce(&mut self, announced: bool) {
        if let Self::Replication(group) = self {
            group.announce(announced);
        }
    }

    /// What may be lost when `to` takes over from `lost`: a clause to follow a sentence.
    pub fn price(&self, core: &Core, lost: NodeId, to: NodeId) -> String {
        match self {
            Self::Galera(_) => String::new(),
            Self::Replication(group) => group.price(core, lost, to),
        }
    }

    // ---- a change of the writer

    /// A change to `to` begins. `failover`: without an order. Called before its decision is written, so that this is written with it.
    pub fn begin(&mut self, core: &mut Core, to: NodeId, term: Term, failover: bool) {
        if let Self::Replication(group) = self {
            group.begin(core, to, term);
            if failover {
                core.failed_over = Some(FailedOver::now(core.now));
            }
        }
    }

    /// Whether `to` may be asked to take over from `from`, whose lane is quiet or shut. Starts what has to be done before; `within` limits
    /// each part of it.
    pub fn clear_the_way(
        &mut self,
        core: &mut Core,
        from: Option<NodeId>,
        to: NodeId,
        term: Term,
        within: Duration,
    ) -> Way {
        match self {
            // A node that has applied everything may write beside any other.
            Self::Galera(_) => Way::Clear,
            Self::Replication(group) => group.clear_the_way(core, from, to, term, within),
        }
    }

    /// What a change still waits for before the new writer is asked; begins a sentence.
    pub fn awaited(&self, core: &Core) -> Option<String> {
        match self {
            Self::Galera(_) => None,
            Self::Replication(group) => group.awaited(core),
        }
    }

    /// Orders `to` to take over, within `within` where that can be limited. Answered as a barrier is, unless this returns `true`: then it
    /// has taken over already. `lost`: the node that was lost with its traffic.
    pub fn take_over(
        &mut self,
        core: &mut Core,
        to: NodeId,
        term: Term,
        lost: Option<NodeId>,
        within: Duration,
    ) -> bool {
        match self {
            Self::Galera(_) => {
                core.barrier(to, term, lost);
                false
            }
            Self::Replication(group) => group.take_over(core, to, term, within),
        }
    }

    /// The new writer has answered.
    pub fn barrier_answered(&mut self, to: NodeId, term: Term) {
        if let Self::Replication(group) = self {
            group.promote_answered(to, term);
        }
    }

    /// Whether the old writer of a handover is in its new place, so that `to`, which has taken over, may write; starts it, `within` that time.
    pub fn is_followed(&mut self, core: &mut Core, to: NodeId, term: Term, within: Duration) -> Way {
        match self {
            Self::Galera(_) => Way::Clear,
            Self::Replication(group) => group.is_followed(core, to, term, within),
        }
    }

    /// The change to `to` has succeeded.
    pub fn taken_over(&mut self, core: &mut Core, to: NodeId) {
        if let Self::Replication(group) = self {
            group.taken_over(core, to);
        }
    }

    /// What is waited for before the lane of `to` opens, which has taken over in a change that began at `since`; `None` when nothing is.
    pub fn unattached(&self, core: &mut Core, to: NodeId, since: Now) -> Option<String> {
        match self {
            Self::Galera(_) => None,
            Self::Replication(group) => group.unattached(core, to, since),
        }
    }

    /// The same for a writer that was held, and that nothing is known against any more.
    pub fn unattached_again(&self, core: &mut Core, writer: NodeId) -> Option<String> {
        match self {
            Self::Galera(_) => None,
            Self::Replication(group) => group.unattached_again(core, writer),
        }
    }

    /// What [`Self::unattached`] names is not waited for any more.
    pub fn opened(&mut self) {
        if let Self::Replication(group) = self {
            group.opened();
        }
    }

    /// A switchover is abandoned. `true` when the old writer has to take over from itself, since it may not be writable any more.
    pub fn abandon(&mut self) -> bool {
        match self {
            Self::Galera(_) => false,
            Self::Replication(group) => group.abandon(),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, core: &mut Core) {
        match self {
            Self::Galera(group) => group.tick(core),
            Self::Replication(_) => {}
        }
    }
}

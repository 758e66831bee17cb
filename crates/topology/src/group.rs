//! What the brain asks of a kind of cluster: [`Group`], which each kind implements in a folder of its own ([`crate::galera`],
//! [`crate::replication`]); `brain/mod.rs` has the row that makes it for a [`crate::kind::Kind`].
//!
//! The brain knows nodes, lanes, terms, doubts and orders. How to read a node's status, what the nodes know of each other, and what can be done
//! to them (evicting a member, promoting a replica) differs by kind. What a kind does not say is as in a cluster where each node that has
//! applied everything may write beside any other.
//!
//! ```text
//!   brain:  take in ──> judge ──────────────> plan ──────────────────────────> act ──> ask ──> publish
//!   kind:     Judge: heard, look_around,       Choose: start, heir, ordered      Group: act, outcome
//!             against, is_out, judged          Change: clear_the_way, take_over
//! ```

use std::time::Duration;

use crate::core::Core;
use crate::fact::Outcome;
use crate::finding::{Finding, NodeState, Serves};
use crate::restored::Restored;
use crate::status::Status;
use crate::time::Now;
use crate::{NodeId, Term};

/// A cluster of one kind, with the state that only this kind has.
pub(crate) trait Group: Judge + Choose + Change + Send {
    /// The same once more, for a dry run.
    fn twin(&self) -> Box<dyn Group>;

    /// What an earlier process has left: in `core` what the brain itself has taken over of it, the rest in `restored`.
    fn restore(&mut self, core: &Core, restored: Restored);

    /// What is under way in which that node may have a part, as a clause; `None` when it may be removed.
    fn busy(&self, core: &Core, id: NodeId) -> Option<String>;

    /// Why no node may be added at this moment, as a clause.
    fn may_not_add(&self) -> Option<String> {
        None
    }

    /// The configuration has that node from now on. It may have had it before.
    fn added(&mut self, id: NodeId);

    /// Called after the plan's step: orders what the plan does not order itself.
    fn act(&mut self, core: &mut Core);

    /// What came of an action; one of another kind means nothing.
    fn outcome(&mut self, core: &mut Core, outcome: Outcome);

    /// Time has passed.
    fn tick(&mut self, _core: &mut Core) {}

    /// An operator takes the node in as it is: with Galera, its component is the cluster from now on. `None` if nothing speaks against it.
    ///
    /// # Errors
    /// Why it cannot be taken in.
    fn accept(&mut self, _core: &mut Core, _id: NodeId) -> Option<Result<(), String>> {
        None
    }

    /// The plan has given `lost` up: orders its eviction if that is allowed at this moment, so that the others do not wait for its suspect
    /// timeout. Returns the clause for the journal's sentence, or nothing.
    fn evict_if_allowed(&mut self, _core: &mut Core, _lost: NodeId) -> String {
        String::new()
    }

    /// How often the cluster was given a Primary component again.
    fn bootstraps(&self) -> u64 {
        0
    }
}

impl Clone for Box<dyn Group> {
    fn clone(&self) -> Self {
        self.twin()
    }
}

/// What the nodes' status says.
pub(crate) trait Judge {
    /// This process did not run for `gap`.
    fn slept(&mut self, _gap: Duration) {}

    /// The node's link was opened anew.
    fn linked(&mut self, _core: &mut Core, _id: NodeId) {}

    /// The node's answer to a query that was sent at `asked` is late ([`crate::fact::Fact::ProbeSlow`]).
    fn slow(&mut self, core: &Core, id: NodeId, asked: Now);

    /// Amends a report that was asked for at `asked`, by what is known besides: where the node has answered an order since, that answer counts.
    fn amend(&self, _core: &mut Core, _id: NodeId, _status: &mut Status, _asked: Now) {}

    /// The node has reported this status; its belief still has the one before. One of another kind of cluster is reported by the rules.
    fn heard(&mut self, core: &mut Core, id: NodeId, status: &Status, asked: Now);

    /// Whether the node's own report is not enough to end the suspicion against it.
    fn keeps_doubt(&self, _core: &Core, _id: NodeId) -> bool {
        false
    }

    /// Called before the nodes are judged: works out what the nodes say of each other.
    fn look_around(&mut self, core: &mut Core);

    /// What the other nodes' status says against a node that itself answers (it is not in their view, for one).
    fn against(&self, core: &Core, id: NodeId) -> Option<Finding>;

    /// Whether the group has certainly gone on without this node, which must then not be used. Its own view does not count any more.
    fn is_out(&self, _core: &Core, _id: NodeId) -> bool {
        false
    }

    /// Whether a node that does not let the monitor in any more goes on serving its clients, as far as the other nodes' word can show it: it is
    /// then left in good order, and not given up.
    fn serves_unseen(&self, _core: &Core, _id: NodeId) -> bool {
        false
    }

    /// Called after the nodes were judged.
    fn judged(&mut self, _core: &mut Core) {}

    /// A decision waits for newer status of the nodes: the brain probes all of them until it is made.
    fn is_unclear(&self, core: &Core) -> bool;

    /// The sentence about a node with which nothing is wrong.
    fn well(&self, core: &Core, id: NodeId) -> String;

    /// The word for a state, as people see it.
    fn word(&self, state: NodeState) -> &'static str {
        state.word()
    }

    /// Advice: what an operator should correct about a node that is usable meanwhile.
    fn advice(&self, core: &Core, id: NodeId) -> Vec<String>;

    /// Whether a node that answers, and is not the one writer, may take reads.
    fn reads(&self, core: &Core, id: NodeId) -> Reads {
        if core.node(id).finding.serves == Serves::Well { Reads::Current } else { Reads::No }
    }
}

/// Who is to write.
pub(crate) trait Choose {
    /// Whether only one node can write at all, and the others write nothing of their own.
    fn has_primary(&self) -> bool {
        false
    }

    /// Who writes when this process has just started. `time_up`: servers that have not answered by now are not waited for.
    fn start(&mut self, _core: &mut Core, _time_up: bool) -> Heir {
        Heir::Any
    }

    /// Who takes over from a writer that does not serve. `ordered`: an operator has ordered it to be moved.
    fn heir(&mut self, _core: &mut Core, _lost: NodeId, _ordered: bool) -> Heir {
        Heir::Any
    }

    /// Who takes over from `lost` after `failed` could not.
    fn next_heir(&mut self, _core: &mut Core, _lost: Option<NodeId>, _failed: NodeId) -> Heir {
        Heir::Any
    }

    /// Whether a writer that answers and does not commit may be given up, as of now.
    fn relief(&mut self, core: &mut Core, writer: NodeId) -> Relief;

    /// The least time between giving up a writer that does not commit and giving up the next one.
    fn relief_gap(&self) -> Duration;

    /// Whether the node is well by its own word, and waits for a member of its view that does not answer: nobody commits until that member is out
    /// of the view, or back.
    fn is_held_up(&self, _core: &Core, _id: NodeId) -> bool {
        false
    }

    /// Who takes over from a writer that does not serve, by order. `None`: an order has to wait until it does.
    fn ordered(
        &mut self,
        _core: &mut Core,
        _lost: NodeId,
        _to: Option<NodeId>,
        _force: bool,
    ) -> Option<Result<NodeId, String>> {
        None
    }

    /// How an order with force is carried out that moves the writer, which serves, to `to`. `None`: as any other order.
    fn by_force(&mut self, _core: &Core, _writer: NodeId, _to: NodeId) -> Option<Result<ByForce, String>> {
        None
    }

    /// An order that was given with force is answered, and not carried out.
    fn force_is_over(&mut self) {}

    /// Who becomes the first writer by order, while none is known. `None`: this kind of cluster has no such order.
    fn first_by_order(
        &mut self,
        _core: &Core,
        _to: Option<NodeId>,
        _force: bool,
    ) -> Option<Result<NodeId, String>> {
        None
    }

    /// Whether an operator has ordered the first writer.
    fn has_order_of_first(&self) -> bool {
        false
    }

    /// The first writer that was ordered cannot become it.
    fn first_failed(&mut self) {}

    /// Whether a writer that works is left for a better one without an order.
    fn hands_over(&self, _core: &Core) -> bool {
        true
    }

    /// Whether another program moves the writer, so that it is followed and not moved.
    fn follows(&self, _core: &Core) -> bool {
        false
    }

    /// An operator announces that another program is about to move the writer, or the end of that.
    fn announce(&mut self, _announced: bool) {}

    /// What may be lost when `to` takes over from `lost`: a clause to follow a sentence.
    fn price(&self, _core: &Core, _lost: NodeId, _to: NodeId) -> String {
        String::new()
    }
}

/// A change of the writer.
pub(crate) trait Change {
    /// A change to `to` begins. `failover`: without an order. Called before its decision is written, so that this is written with it.
    fn begin(&mut self, _core: &mut Core, _to: NodeId, _term: Term, _failover: bool) {}

    /// Whether `to` may be asked to take over from `from`, whose lane is quiet or shut. Starts what has to be done before; `within` limits
    /// each part of it.
    fn clear_the_way(
        &mut self,
        _core: &mut Core,
        _from: Option<NodeId>,
        _to: NodeId,
        _term: Term,
        _within: Duration,
    ) -> Way {
        Way::Clear
    }

    /// What a change still waits for before the new writer is asked; begins a sentence.
    fn awaited(&self, _core: &Core) -> Option<String> {
        None
    }

    /// Orders `to` to take over, within `within` where that can be limited. Answered as a barrier is, unless this returns `true`: then it
    /// has taken over already. `lost`: the node that was lost with its traffic.
    fn take_over(
        &mut self,
        core: &mut Core,
        to: NodeId,
        term: Term,
        lost: Option<NodeId>,
        _within: Duration,
    ) -> bool {
        core.barrier(to, term, lost);
        false
    }

    /// The new writer has answered.
    fn barrier_answered(&mut self, _to: NodeId, _term: Term) {}

    /// Whether the old writer of a handover is in its new place, so that `to`, which has taken over, may write; starts it, `within` that time.
    fn is_followed(&mut self, _core: &mut Core, _to: NodeId, _term: Term, _within: Duration) -> Way {
        Way::Clear
    }

    /// The change to `to` has succeeded.
    fn taken_over(&mut self, _core: &mut Core, _to: NodeId) {}

    /// What is waited for before the lane of `to` opens, which has taken over in a change that began at `since`; `None` when nothing is.
    fn unattached(&self, _core: &mut Core, _to: NodeId, _since: Now) -> Option<String> {
        None
    }

    /// The same for a writer that was held, and that nothing is known against any more.
    fn unattached_again(&self, _core: &mut Core, _writer: NodeId) -> Option<String> {
        None
    }

    /// What [`Self::unattached`] names is not waited for any more.
    fn opened(&mut self) {}

    /// A switchover is abandoned. `true` when the old writer has to take over from itself, since it may not be writable any more.
    fn abandon(&mut self) -> bool {
        false
    }
}

/// Whether a node may be asked to take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It may.
    Clear,
    /// Not yet.
    Wait,
    /// Something stands in the way.
    Blocked(String),
    /// Another node is to take over instead; the text says why.
    Outrun(String),
}

/// The result of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heir {
    /// The general election decides.
    Any,
    /// This node.
    This(NodeId),
    /// It will be decided in a moment; the text says what is waited for.
    Soon(String),
    /// No node; traffic is held.
    Nobody(String),
    /// The writer is not lost. `serves`: clients that are connected to it are served.
    Stay { why: String, serves: bool },
}

/// Whether a writer that does not commit may be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// It may; another takes over.
    Clear,
    /// It will be decided in a moment.
    Soon,
    /// It stays; the text says why.
    None(String),
}

/// How an order with force is carried out that names a node which does not get what the writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByForce {
    /// As a switchover.
    HandOver,
    /// The writer is given up, as if it were lost: what runs there cannot end.
    Leave,
}

/// Whether a node may take reads on the port for reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// No.
    No,
    /// If its data is recent enough.
    ByAge,
    /// Yes: a session that must see what others wrote can wait there until the node has it.
    Current,
}

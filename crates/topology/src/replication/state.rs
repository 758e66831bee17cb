//! All that is remembered of the servers from one fact to the next; the files beside this one decide by it, and change it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::gtid::{History, Origin, Position};

use super::action::{Action, Errand, ErrandKind};
use super::copied::Inherited;
use super::kept_events::Left;
use super::written::Written;
use crate::core::Core;
use crate::nodes::ById;
use crate::time::Now;
use crate::{NodeId, Term};

/// A failed action is repeated after this long.
const RETRY_GAP: Duration = Duration::from_secs(1);
/// The shell enforces the deadline of an order; its answer may arrive this much later.
const ANSWER_GRACE: Duration = Duration::from_millis(500);

/// What is known of the servers together, besides what is known of each.
#[derive(Clone, Debug)]
pub(crate) struct Replication {
    pub(super) servers: ById<Server>,
    /// The fencing for the change of the primary that is in progress.
    pub(super) fence: Option<Fence>,
    /// The new primary has taken over, and takes no statements yet: see [`super::attach`].
    pub(super) is_opening: bool,
    /// The primary's last status report while it was the primary.
    pub(super) last_word: Option<LastWord>,
    /// What the primary reported last, also before this process started.
    pub(super) remembered: Option<Remembered>,
    /// A primary came back without transactions of its own since this process started: their numbers may have been given twice.
    pub(super) has_reverted: bool,
    /// What the primary has of those before it.
    pub(super) inherited: Inherited,
    /// The primary's position in its first report as such to this process. All that was acknowledged before is at or before it.
    pub(super) base: Option<Position>,
    /// Since this process started, a server has taken over or was confirmed as the primary. Any other writable server must be made read only.
    pub(super) decided: bool,
    /// How long before the start of this process an earlier one last wrote something down.
    pub(super) away: Option<Duration>,
    /// The server that an operator ordered to take over with force, whatever it lacks.
    pub(super) forced: Option<NodeId>,
    /// By that order a primary is left that answers: the commits that replicas had acknowledged there when it was given.
    pub(super) left_at: Option<u64>,
    /// What replicas may have acknowledged of the primary's commits.
    pub(super) acknowledged: Option<Acknowledged>,
    /// Since when there has been no report from the primary as such.
    pub(super) lost_since: Option<Now>,
    /// The primary is late with an answer.
    pub(super) late: Option<Late>,
    /// When replicas were last made to reconnect because of that.
    pub(super) asked_early: Option<Now>,
    /// Which servers are writable, for the case that another manager moves the primary.
    pub(super) writable: Writable,
}

/// What is known of one server in this role.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    /// It may be writable, whatever it reported last: it was ordered to become so under this term, and has not been ordered back since.
    pub may_write: Option<Term>,
    /// It is read only, and some of its events may run on.
    pub unstopped: Option<Unstopped>,
    /// An order to it is being carried out, and counts as lost after that time.
    pub order: Option<(Term, ErrandKind, Now)>,
    /// The result of the last order to be read only, or to follow.
    pub followed: Followed,
    /// Since when its I/O thread has tried in vain to connect to the primary, as far as that was seen after the last order.
    pub unconnected: Option<Now>,
    /// Whether it still receives from a silent primary.
    pub reconnect_test: ReconnectTest,
    /// When it was last tested for that before the primary counted as silent.
    pub asked_early: Option<Now>,
    /// Its errant transactions, found by the last comparison with the primary.
    pub errant: Option<String>,
    /// When it last had all that the primary had reported before.
    pub kept_up: Option<Now>,
    /// Its report that is compared next.
    pub said: Option<Report>,
    /// What it had, received or applied, in the report that was compared last.
    pub compared: Option<Position>,
    /// The primary's link was opened anew at that time and the primary has not been compared since: it may have lost transactions.
    pub uncompared: Option<Now>,
    /// It could not be asked, and did not acknowledge any more, when the primary reported last.
    pub left: bool,
    /// All that it had in its first report after the primary's link was opened anew, and when that came.
    pub has_since: Option<(Now, History)>,
    /// Its link was opened anew while it was the primary, or about to become it: it may have restarted without some of what it had.
    pub relinked: bool,
    /// Its own transactions that other servers have and it has not: it has lost them.
    pub lost: Option<String>,
    /// It counts as such only while another server cannot be asked.
    pub is_unproven: bool,
    /// It had lost some before this process started.
    pub was_incomplete: bool,
    /// It did not answer, or could not be reached, at some time since this process started.
    pub was_away: bool,
    /// When it reported that it is writable, as it took over. Older reports do not count.
    pub writable_since: Option<Now>,
    /// It is the primary, and may not run all events that the primary before it ran.
    pub events: Option<Unrun>,
}

/// How far the fencing for one decision has come.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    pub term: Term,
    pub to: NodeId,
    /// The primary that is replaced.
    pub lost: Option<NodeId>,
    /// Whether the change began as a switchover, with an old primary that worked.
    pub is_planned: bool,
    /// Since when none of the proxy's statements can run on any other server. What such a server commits later is acknowledged to no client.
    pub quiet_since: Option<Now>,
    /// How many transactions of the lost primary are not on the new one, as was said when it was chosen or since; `None` if not known.
    pub missing_said: Option<u128>,
    /// The servers that were ordered to become read only.
    pub demoted: BTreeMap<NodeId, Demotion>,
    /// The servers that were ordered to stop fetching from the old primary.
    pub parted: BTreeMap<NodeId, Parting>,
    /// How far the old primary is in following the new one.
    pub old_follows: OldFollows,
}

/// How far the old primary is in following the new one, which comes before a switchover's lane opens.
#[derive(Clone, Debug, Default)]
pub(super) enum OldFollows {
    #[default]
    Unasked,
    Ordered,
    Yes,
    Failed(String),
}

#[derive(Clone, Debug)]
pub(super) enum Demotion {
    Ordered,
    Done { position: Position, at: Now },
    Failed { again: Now, why: String },
}

/// How far the order to stop fetching has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parting {
    Ordered,
    Over(Now),
}

/// The result of the last order to follow, or to become read only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Followed {
    #[default]
    Unasked,
    /// It became read only at that time. The next status report has to confirm it.
    ReadOnly(Now),
    /// It has followed the primary since that time. A report that was asked for before does not say so.
    Follows(Now),
    /// It failed, and is not repeated before that time.
    Failed(Now),
}

/// What replicas may have acknowledged of the primary's commits.
#[derive(Clone, Debug)]
pub(super) struct Acknowledged {
    /// So many commits, by the primary's own count.
    pub count: u64,
    /// All of those are at or before this position; `None` until that is known.
    pub at_most: Option<Position>,
}

/// A primary that has not answered a question in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub primary: NodeId,
    /// When that question was sent.
    pub since: Now,
    /// When the first replica was asked.
    pub asked: Option<Now>,
    /// A replica has reached the primary since then.
    pub is_reached: bool,
}

/// The result of asking a replica to reconnect to its source.
#[derive(Clone, Debug, Default)]
pub(super) enum ReconnectTest {
    #[default]
    Not,
    Receives(Now),
    Lost(Now),
    Failed {
        again: Now,
        why: String,
    },
}

/// What is remembered, and since when.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    pub written: Written,
    /// When it was reported, or when this process started with it.
    pub at: Now,
    /// How long before that it was written down, if by an earlier process.
    pub ago: Duration,
    /// When it was last sent to the disk.
    pub sent_at: Now,
}

/// What the primary reported last while it was the primary.
#[derive(Clone, Debug)]
pub(super) struct LastWord {
    pub origin: Origin,
    pub history: Option<History>,
    pub position: Option<Position>,
    /// How long its process had run.
    pub uptime_s: Option<u64>,
    /// Where commits waited for a replica: a position up to which replicas have acknowledged all.
    pub acknowledged: Option<Position>,
    /// Sessions whose commits waited for that, and the commits that had been acknowledged.
    pub waiting: u32,
    /// Sessions that waited at the report before, if nothing was written or acknowledged since.
    pub still_waiting: u32,
    pub acknowledged_count: u64,
    /// Commits waited for a replica: semi-synchronous replication was in force.
    pub waited: bool,
    pub asked: Now,
}

/// A server's report that has not yet been compared with a later one of the primary.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub at: Now,
    pub state: History,
    pub has: Option<Position>,
}

/// What is known about which servers are writable.
#[derive(Clone, Debug, Default)]
pub(super) struct Writable {
    /// The servers that were seen read only since this process started.
    pub was_read_only: BTreeSet<NodeId>,
    /// The servers that count as writable primaries, by their last reports.
    pub now: Vec<NodeId>,
    /// Since when that list has been the same.
    pub since: Now,
    /// An operator announced that the primary is about to be moved.
    pub announced: bool,
}

/// A server is to run events, and has not answered yet that it does.
#[derive(Clone, Debug)]
pub(super) struct Unrun {
    pub term: Term,
    pub has_replaced: bool,
    /// When it is told again.
    pub again: Now,
    /// If that was tried: what does not run, and the sentence about it.
    pub finding: Option<(Left, String)>,
}

/// A server is read only, and some of its events may run on, whose definers may write there.
#[derive(Clone, Debug)]
pub(super) struct Unstopped {
    /// When it is told again to stop them.
    pub again: Now,
    /// The sentence about it.
    pub finding: String,
}

impl Replication {
    pub fn new(nodes: usize) -> Self {
        Self {
            servers: ById::new(nodes),
            fence: None,
            is_opening: false,
            last_word: None,
            remembered: None,
            has_reverted: false,
            inherited: Inherited::default(),
            base: None,
            decided: false,
            away: None,
            forced: None,
            left_at: None,
            acknowledged: None,
            lost_since: None,
            late: None,
            asked_early: None,
            writable: Writable::default(),
        }
    }

    pub(super) fn server(&self, id: NodeId) -> &Server {
        &self.servers[id]
    }

    pub(super) fn server_mut(&mut self, id: NodeId) -> &mut Server {
        &mut self.servers[id]
    }

    /// Gives an order.
    pub(super) fn order(
        &mut self,
        core: &mut Core,
        node: NodeId,
        term: Term,
        within: Duration,
        errand: Errand,
    ) {
        let give_up = core.now + within + ANSWER_GRACE;
        self.server_mut(node).order = Some((term, errand.kind(), give_up));
        core.out.push(Action { node, term, within, errand }.into());
    }

    /// Whether an order to it is being carried out.
    pub(super) fn is_ordered(&self, core: &Core, id: NodeId) -> bool {
        self.server(id).order.is_some_and(|(.., give_up)| core.now < give_up)
    }

    pub(super) fn answered(&mut self, id: NodeId, term: Term, kind: ErrandKind) {
        self.server_mut(id).order.take_if(|(of_term, ordered, _)| (*of_term, *ordered) == (term, kind));
    }
}

/// When something that failed may be tried again.
pub(super) fn retry_at(now: Now) -> Now {
    now + RETRY_GAP
}

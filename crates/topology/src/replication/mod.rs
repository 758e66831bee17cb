//! A primary and its replicas: reading their status, comparing them, replacing the primary, and making the others follow it.
//!
//! ```text
//!   sql ──(the shell asks)──> status ──> words      the table of rules about one server's own status
//!                               │  └───> channel    the status of one replication channel
//!                               ├──> filters        what a replica leaves out (kept_filters: also if it has ceased to)
//!                               ├──> sight          the servers compared: who has errant transactions, who has lost some
//!                               ├──> copied         a server made from a copy of another: what its binlog does not name
//!                               ├──> renumber       a primary whose transactions are numbered anew: RESET MASTER while it runs
//!                               ├──> late           a primary that is late: its replicas test their connections to it
//!                               ├──> reconnect_test a primary that is silent: can its replicas still connect to it?
//!                               ├──> parting        a lost primary that may come back: the replicas stop fetching from it
//!                               ├──> receiving      a dead primary: may a replica still receive something from it?
//!                               ├──> remembered     what the primary reported last, also on disk
//!                               ├──> successor      who takes over, and what that may lose
//!                               ├──> start          who is the primary when this process has just started
//!                               ├──> most           who of those that answer has most, for an operator's first order
//!                               ├──> change         a change of the primary: the old one fenced, the new one promoted
//!                               ├──> attach         the new primary's lane opens when replicas that its commits wait for have attached
//!                               ├──> force          an order with force to a server that does not receive from the primary
//!                               ├──> events         which events of the scheduler a server runs, and the statements that move them
//!                               ├──> move_events    the new primary runs those that the old one ran
//!                               ├──> kept_events    which events the primary runs, or is to run, also on disk
//!                               ├──> external       another manager moves the primary: the writable server is followed
//!                               ├──> follow         makes every other server read only and a replica of the primary
//!                               └──> age            how old a replica's data is
//! ```
//!
//! The brain calls this module through `crate::group` only. `change` runs while the plan moves the writer. `follow` compares the actual
//! with the intended state after every fact, so it does not matter how a server came to differ, or when this program was started.
//!
//! Invariant: a server has one order at a time. It gets the next one when the one before was answered or its time is over.

pub mod action;
mod age;
mod attach;
mod change;
pub mod channel;
mod copied;
pub mod events;
mod external;
mod filters;
mod follow;
mod force;
pub mod kept_events;
pub(crate) mod kept_filters;
mod late;
mod most;
mod move_events;
mod parting;
mod receiving;
mod reconnect_test;
mod remembered;
mod renumber;
mod reports;
pub mod settings;
pub mod setup;
mod sight;
pub mod sql;
mod start;
pub mod status;
mod successor;
pub mod words;
mod written;

use std::time::Duration;

use self::action::ErrandKind;
pub use self::action::{Action, End, Errand, Outcome};
pub(crate) use self::age::Ages;
use self::change::Fence;
pub use self::channel::{Channel, channel};
use self::copied::Inherited;
use self::external::Writable;
use self::follow::Followed;
use self::force::Acknowledged;
use self::late::Late;
use self::move_events::Unrun;
use self::reconnect_test::Asked;
use self::remembered::Remembered;
pub use self::settings::{FailoverPolicy, Manager, Settings};
use self::sight::{LastWord, Said};
pub use self::status::{ReplicationStatus, SemiSync};
pub use self::written::Written;
use protocol::gtid::{History, Position};

use crate::core::Core;
use crate::election::ids;
use crate::finding::Serves;
use crate::group::Reads;
use crate::places::Places;
use crate::time::Now;
use crate::{NodeId, Term};

/// A failed action is repeated after this long.
const RETRY_GAP: Duration = Duration::from_secs(1);
/// The shell enforces the deadline of an order; its answer may arrive this much later.
const ANSWER_GRACE: Duration = Duration::from_millis(500);

/// What is known of the servers together, besides what is known of each.
#[derive(Clone, Debug)]
pub(crate) struct Replication {
    servers: Vec<Server>,
    /// The fencing for the change of the primary that is in progress.
    fence: Option<Fence>,
    /// The new primary has taken over, and takes no statements yet: see [`attach`].
    is_opening: bool,
    /// The primary's last status report while it was the primary.
    last_word: Option<LastWord>,
    /// What the primary reported last, also before this process started.
    remembered: Option<Remembered>,
    /// A primary came back without transactions of its own since this process started: their numbers may have been given twice.
    has_reverted: bool,
    /// What the primary has of those before it.
    inherited: Inherited,
    /// The primary's position in its first report as such to this process. All that was acknowledged before is at or before it.
    base: Option<Position>,
    /// Since this process started, a server has taken over or was confirmed as the primary. Any other writable server must be made read only.
    decided: bool,
    /// How long before the start of this process an earlier one last wrote something down.
    away: Option<Duration>,
    /// The server that an operator ordered to take over with force, whatever it lacks.
    forced: Option<NodeId>,
    /// By that order a primary is left that answers: the commits that replicas had acknowledged there when it was given.
    left_at: Option<u64>,
    /// What replicas may have acknowledged of the primary's commits.
    acknowledged: Option<Acknowledged>,
    /// Since when there has been no report from the primary as such.
    lost_since: Option<Now>,
    /// The primary is late with an answer.
    late: Option<Late>,
    /// When replicas were last made to reconnect because of that.
    asked_early: Option<Now>,
    /// Which servers are writable, for the case that another manager moves the primary.
    writable: Writable,
}

/// What is known of one server in this role.
#[derive(Clone, Debug, Default)]
struct Server {
    /// It may be writable, whatever it reported last: it was ordered to become so under this term, and has not been ordered back since.
    may_write: Option<Term>,
    /// It is read only, and some of its events may run on.
    unstopped: Option<move_events::Unstopped>,
    /// An order to it is being carried out, and counts as lost after that time.
    order: Option<(Term, ErrandKind, Now)>,
    /// The result of the last order to be read only, or to follow.
    followed: Followed,
    /// Since when its I/O thread has tried in vain to connect to the primary, as far as that was seen after the last order.
    unconnected: Option<Now>,
    /// Whether it still receives from a silent primary.
    reconnect_test: Asked,
    /// When it was last tested for that before the primary counted as silent.
    asked_early: Option<Now>,
    /// Its errant transactions, found by the last comparison with the primary.
    errant: Option<String>,
    /// When it last had all that the primary had reported before.
    kept_up: Option<Now>,
    /// Its report that is compared next.
    said: Option<Said>,
    /// What it had, received or applied, in the report that was compared last.
    compared: Option<Position>,
    /// The primary's link was opened anew at that time and the primary has not been compared since: it may have lost transactions.
    uncompared: Option<Now>,
    /// It could not be asked, and did not acknowledge any more, when the primary reported last.
    left: bool,
    /// All that it had in its first report after the primary's link was opened anew, and when that came.
    has_since: Option<(Now, History)>,
    /// Its link was opened anew while it was the primary, or about to become it: it may have restarted without some of what it had.
    relinked: bool,
    /// Its own transactions that other servers have and it has not: it has lost them.
    lost: Option<String>,
    /// It counts as such only while another server cannot be asked.
    is_unproven: bool,
    /// It had lost some before this process started.
    was_incomplete: bool,
    /// It did not answer, or could not be reached, at some time since this process started.
    was_away: bool,
    /// When it reported that it is writable, as it took over. Older reports do not count.
    writable_since: Option<Now>,
    /// It is the primary, and may not run all events that the primary before it ran.
    events: Option<Unrun>,
}

impl Replication {
    pub fn new(nodes: usize) -> Self {
        Self {
            servers: vec![Server::default(); nodes],
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

    /// See [`crate::group::Group::restore`].
    pub fn restore(&mut self, incomplete: Option<NodeId>, away: Option<Duration>) {
        if let Some(writer) = incomplete {
            self.server_mut(writer).was_incomplete = true;
        }
        self.away = away;
    }

    /// What refers to a server by its number at this moment, as a clause.
    pub fn busy(&self, core: &Core) -> Option<String> {
        if self.fence.is_some() || self.forced.is_some() {
            return Some("the primary is being changed".into());
        }
        let ordered = ids(&core.nodes).find(|id| self.is_ordered(core, *id))?;
        Some(format!("an order to {} is being carried out", core.name(ordered)))
    }

    /// The list of nodes has changed.
    pub fn arrange(&mut self, places: &Places) {
        self.servers = places.arrange(std::mem::take(&mut self.servers), |_| Server::default());
        // A primary that is late is noticed again by the next question.
        self.late = None;
        self.writable.arrange(places);
    }

    fn server(&self, id: NodeId) -> &Server {
        &self.servers[usize::from(id.0)]
    }

    fn server_mut(&mut self, id: NodeId) -> &mut Server {
        &mut self.servers[usize::from(id.0)]
    }

    /// Gives an order.
    fn order(&mut self, core: &mut Core, node: NodeId, term: Term, within: Duration, errand: Errand) {
        let give_up = core.now + within + ANSWER_GRACE;
        self.server_mut(node).order = Some((term, errand.kind(), give_up));
        core.out.push(Action { node, term, within, errand }.into());
    }

    /// Whether an order to it is being carried out.
    fn is_ordered(&self, core: &Core, id: NodeId) -> bool {
        self.server(id).order.is_some_and(|(.., give_up)| core.now < give_up)
    }

    /// Handles the result of an action.
    pub fn outcome(&mut self, core: &mut Core, Outcome { node, term, end }: Outcome) {
        self.answered(node, term, end.kind());
        match end {
            End::Demoted { position, events_left } => {
                self.demoted(core, node, term, position);
                self.events_stopped(core, node, events_left);
            }
            End::DemoteFailed { why } => self.demote_failed(core, node, term, &why),
            End::Following { sessions_ended, events_left } => {
                self.following(core, node, term, sessions_ended);
                self.events_stopped(core, node, events_left);
            }
            End::FollowFailed { why } => self.follow_failed(core, node, term, &why),
            End::Reconnected { receives } => self.reconnected(core, node, receives),
            End::ReconnectFailed { why } => self.reconnect_failed(core, node, why),
            End::Parted => self.parted(core, node, term, None),
            End::PartFailed { why } => self.parted(core, node, term, Some(why)),
            End::EventsStopped { events_left } => self.events_stopped(core, node, events_left),
            End::EventsRun { count } => self.events_run(core, node, term, count),
            End::EventsFailed { why, left } => {
                self.events_failed(core, node, term, &why, &left);
            }
        }
    }

    /// An operator announces a move of the primary by another manager, or its end.
    pub fn announce(&mut self, announced: bool) {
        self.writable.announced = announced;
    }

    /// The server that was to take over has answered.
    pub fn promote_answered(&mut self, id: NodeId, term: Term) {
        self.answered(id, term, ErrandKind::Promote);
    }

    fn answered(&mut self, id: NodeId, term: Term, kind: ErrandKind) {
        self.server_mut(id).order.take_if(|(of_term, ordered, _)| (*of_term, *ordered) == (term, kind));
    }

    /// Whether a server that is not the primary may take reads, apart from the age of its data.
    pub fn reads(&self, core: &Core, id: NodeId) -> Reads {
        let assessment = &core.node(id).assessment;
        // While the primary changes, nothing is wrong with the server's data, and Understudy's own orders stop its threads for a moment.
        let is_between = match assessment.problem {
            "stray" | "other_source" => true,
            "not_applying" => self.fence.is_some() || self.is_ordered(core, id),
            _ => false,
        };
        if assessment.serves == Serves::No && !is_between { Reads::No } else { Reads::ByAge }
    }

    /// This process did not run for `gap`. Orders get that much more time, and a server that reported before may have ended since.
    pub fn slept(&mut self, gap: Duration) {
        for server in &mut self.servers {
            if let Some((.., give_up)) = &mut server.order {
                *give_up += gap;
            }
            // It may have attached to the primary again meanwhile, and acknowledged.
            server.left = false;
        }
        if let Some(fence) = &mut self.fence {
            fence.quiet_since = None;
        }
    }
}

/// When something that failed may be tried again.
fn retry_at(now: Now) -> Now {
    now + RETRY_GAP
}

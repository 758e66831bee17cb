//! A primary and its replicas: what its servers say, who may follow whom, and what may be asked of them.
//!
//! ```text
//!   sql ──(the shell asks)──> status ──> words      what a server says against itself: a table of rules
//!                               │  └───> channel    what it says of the source that it follows
//!                               ├──> sight          what the servers are to each other: who stands apart, who lost what
//!                               ├──> late           a primary that is late: its replicas are asked before it is silent
//!                               ├──> witness        a primary that is silent: do its replicas still receive from it?
//!                               ├──> parting        a primary that is lost, and may begin again: nobody gets anything more from it
//!                               ├──> receiving      a primary that is dead: may a replica still get something from it?
//!                               ├──> successor      who takes over, and what that may lose
//!                               ├──> start          who writes when nobody has been decided on in this life
//!                               ├──> change         a change of the primary: the old one fenced, the new one promoted
//!                               ├──> external       another manager moves the primary: who is writable is followed
//!                               ├──> follow         every other server is read only and follows the primary
//!                               └──> age            how old is what a replica shows
//! ```
//!
//! The general brain comes in through `crate::group` only. `change` runs only while the plan moves the writer; `follow` compares what is
//! with what should be after every fact, so that it does not matter how a server came to stand apart, nor when this program was started.
//!
//! Invariant: one order to a server at a time; the next is given when the one before was answered, or its time is over.

pub mod action;
mod age;
mod change;
pub mod channel;
mod external;
mod follow;
mod late;
mod parting;
mod receiving;
mod reconnect_test;
pub mod settings;
pub mod setup;
mod sight;
pub mod sql;
mod start;
pub mod status;
mod successor;
pub mod words;

use std::time::Duration;

use self::action::OrderKind;
pub use self::action::{Action, Outcome};
pub(crate) use self::age::Ages;
use self::change::Fence;
pub use self::channel::{Channel, channel};
use self::external::Writable;
pub(crate) use self::external::is_external;
use self::follow::Followed;
use self::late::Late;
use self::reconnect_test::Asked;
pub use self::settings::{FailoverPolicy, Manager, Settings};
use self::sight::{LastWord, Said};
pub use self::status::{ReplicationStatus, SemiSync};
use protocol::gtid::{History, Position};

use crate::core::Core;
use crate::fact::Now;
use crate::finding::Serves;
use crate::group::Reads;
use crate::{NodeId, Term};

/// An action that failed is tried again after this long.
const RETRY_GAP: Duration = Duration::from_secs(1);
/// The shell keeps the deadline of an order; its answer may arrive so much later.
const ANSWER_GRACE: Duration = Duration::from_millis(500);

/// All that is held true of the servers together, beside what is held true of each.
#[derive(Clone, Debug)]
pub(crate) struct Replication {
    servers: Vec<Server>,
    /// Of the change of the primary that runs.
    fence: Option<Fence>,
    /// What the primary said last while it was the primary.
    last_word: Option<LastWord>,
    /// Where the primary stood by its first word as such, in this process: all that was acknowledged before is at or before it.
    base: Option<Position>,
    /// Since this process started a server has taken over, or has been confirmed: whoever else is writable must not be.
    decided: bool,
    /// Who is to take over by an order with force, whatever it lacks.
    forced: Option<NodeId>,
    /// The primary has not been heard as such since then.
    lost_since: Option<Now>,
    /// The primary has not answered in time.
    late: Option<Late>,
    /// When replicas were last asked because of that.
    asked_early: Option<Now>,
    /// Where another manager moves the primary.
    writable: Writable,
}

/// What is held true of a server as part of the setup.
#[derive(Clone, Debug, Default)]
struct Server {
    /// It may be writable, whatever it said last: it was ordered to become so, and not ordered back since.
    may_write: Option<Term>,
    /// An order to it is out, and is given up then.
    order: Option<(OrderKind, Now)>,
    /// How the last order to be read only, or to follow, went.
    followed: Followed,
    /// Whether it still receives from a silent primary.
    reconnect_test: Asked,
    /// When it was last asked that before the primary was silent.
    asked_early: Option<Now>,
    /// What it has that the primary has not, as it was found last.
    errant: Option<String>,
    /// When it had all that the primary had said to have before.
    kept_up: Option<Now>,
    /// Its word that is compared next.
    said: Option<Said>,
    /// What it had, received or applied, when that was found.
    compared: Option<Position>,
    /// The primary's link is new since then: it may have come back without what it had.
    uncompared: Option<Now>,
    /// It could not be asked, and did not acknowledge any more, when the primary spoke last.
    left: bool,
    /// All that it had, by its first word after the primary's link was new, and when that came.
    has_since: Option<(Now, History)>,
    /// Its link was made anew while it was the primary, or about to become it: it may have ended, and have begun again without what it had.
    relinked: bool,
    /// What others have of its own transactions and it has not: it came back without them.
    lost: Option<String>,
    /// It said that it is writable when it took over: older words of it do not count.
    writable_since: Option<Now>,
}

impl Replication {
    pub fn new(nodes: usize) -> Self {
        Self {
            servers: vec![Server::default(); nodes],
            fence: None,
            last_word: None,
            base: None,
            decided: false,
            forced: None,
            lost_since: None,
            late: None,
            asked_early: None,
            writable: Writable::default(),
        }
    }

    fn server(&self, id: NodeId) -> &Server {
        &self.servers[usize::from(id.0)]
    }

    fn server_mut(&mut self, id: NodeId) -> &mut Server {
        &mut self.servers[usize::from(id.0)]
    }

    /// Gives an order.
    fn order(&mut self, core: &mut Core, action: Action) {
        let give_up = core.now + action.within() + ANSWER_GRACE;
        self.server_mut(action.node()).order = Some((action.kind(), give_up));
        core.out.push(action.into());
    }

    /// An order to it is out.
    fn is_ordered(&self, core: &Core, id: NodeId) -> bool {
        self.server(id).order.is_some_and(|(_, give_up)| core.now < give_up)
    }

    /// What came of an action.
    pub fn outcome(&mut self, core: &mut Core, outcome: Outcome) {
        self.answered(outcome.node(), outcome.kind());
        match outcome {
            Outcome::Demoted { node, term, position } => self.demoted(core, node, term, position),
            Outcome::DemoteFailed { node, term, why } => self.demote_failed(core, node, term, &why),
            Outcome::Following { node, term } => self.following(core, node, term),
            Outcome::FollowFailed { node, term, why } => self.follow_failed(core, node, term, &why),
            Outcome::Reconnected { node, receives, .. } => self.reconnected(core, node, receives),
            Outcome::ReconnectFailed { node, why, .. } => self.reconnect_failed(core, node, why),
            Outcome::Parted { node, term } => self.parted(core, node, term, None),
            Outcome::PartFailed { node, term, why } => self.parted(core, node, term, Some(why)),
        }
    }

    /// Somebody is about to move the primary, or that is over.
    pub fn announce(&mut self, announced: bool) {
        self.writable.announced = announced;
    }

    /// The server that was to take over has answered.
    pub fn promote_answered(&mut self, id: NodeId, term: Term) {
        self.answered(id, OrderKind::Promote(term));
    }

    fn answered(&mut self, id: NodeId, kind: OrderKind) {
        self.server_mut(id).order.take_if(|(ordered, _)| *ordered == kind);
    }

    /// Whether a server that is not the primary may take reads, its age aside.
    pub fn reads(&self, core: &Core, id: NodeId) -> Reads {
        let assessment = &core.node(id).assessment;
        // Between two primaries nothing is wrong with what it has, and our own orders stop its threads for a moment.
        let is_between = match assessment.problem {
            "stray" | "other_source" => true,
            "not_applying" => self.fence.is_some() || self.is_ordered(core, id),
            _ => false,
        };
        if assessment.serves == Serves::No && !is_between { Reads::No } else { Reads::ByAge }
    }

    /// This process did not run for `gap`: orders have so much more time, and whoever has spoken may have ended since.
    pub fn slept(&mut self, gap: Duration) {
        for server in &mut self.servers {
            if let Some((_, give_up)) = &mut server.order {
                *give_up += gap;
            }
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

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
mod state;
pub mod status;
mod successor;
pub mod words;
mod written;

use std::time::Duration;

use self::action::ErrandKind;
pub use self::action::{Action, End, Errand, Outcome};
pub(crate) use self::age::Ages;
pub use self::channel::{Channel, channel};
pub use self::settings::{FailoverPolicy, Manager, Settings};
pub(crate) use self::state::Replication;
use self::state::Server;
pub use self::status::{ReplicationStatus, SemiSync};
pub use self::written::Written;

use crate::core::Core;
use crate::election::ids;
use crate::finding::{Problem, Serves};
use crate::kind::Reads;
use crate::places::Places;
use crate::{NodeId, Term};

impl Replication {
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

    /// Whether a server that is not the primary may take reads, apart from the age of its data.
    pub fn reads(&self, core: &Core, id: NodeId) -> Reads {
        let finding = &core.node(id).finding;
        // While the primary changes, nothing is wrong with the server's data, and Understudy's own orders stop its threads for a moment.
        let is_between = match finding.problem {
            Problem::Stray | Problem::OtherSource => true,
            Problem::NotApplying => self.fence.is_some() || self.is_ordered(core, id),
            _ => false,
        };
        if finding.serves == Serves::No && !is_between { Reads::No } else { Reads::ByAge }
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

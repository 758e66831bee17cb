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
mod kept_filters;
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

pub use self::action::{Action, End, Errand, Outcome};
pub(crate) use self::age::Ages;
pub use self::channel::{Channel, channel};
pub use self::follow::ended_first;
pub use self::settings::{FailoverPolicy, Manager, Settings};
pub(crate) use self::state::Replication;
use self::state::Server;
pub use self::status::{ReplicationStatus, SemiSync};
pub use self::written::Written;

use crate::NodeId;
use crate::core::Core;
use crate::fact;
use crate::group::Group;
use crate::restored::Restored;

impl Group for Replication {
    fn twin(&self) -> Box<dyn Group> {
        Box::new(self.clone())
    }

    fn restore(&mut self, core: &Core, restored: Restored) {
        if let Some(writer) = core.writer.filter(|_| core.is_writer_incomplete) {
            self.server_mut(writer).was_incomplete = true;
        }
        self.away = restored.away;
        self.restore_written(core, restored.written);
    }

    fn busy(&self, core: &Core, id: NodeId) -> Option<String> {
        if self.fence.is_some() || self.forced.is_some() {
            return Some("the primary is being changed".into());
        }
        let text = || format!("an order to {} is being carried out", core.name(id));
        self.is_ordered(core, id).then(text)
    }

    /// A failover waits for the word of every server that the configuration has, and would wait for the new one's as well.
    fn may_not_add(&self) -> Option<String> {
        let fails_over = self.fence.as_ref().is_some_and(|fence| !fence.is_planned);
        fails_over.then(|| "a failover is running".into())
    }

    fn added(&mut self, id: NodeId) {
        self.servers.put(id, Server::default());
        self.writable.was_read_only.remove(&id);
    }

    fn outcome(&mut self, core: &mut Core, outcome: fact::Outcome) {
        let fact::Outcome::Replication(Outcome { node, term, end }) = outcome else { return };
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
            End::StoppedWaiting { failed } => self.stopped_waiting(core, node, failed),
            End::EventsStopped { events_left } => self.events_stopped(core, node, events_left),
            End::EventsRun { count } => self.events_run(core, node, term, count),
            End::EventsFailed { why, left } => {
                self.events_failed(core, node, term, &why, &left);
            }
        }
    }

    fn act(&mut self, core: &mut Core) {
        self.follow(core);
    }
}

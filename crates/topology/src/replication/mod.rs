//! A primary and its replicas: what its servers say, who may follow whom, and what may be asked of them.
//!
//! ```text
//!   sql ──(the shell asks)──> status ──> words    what a server says against itself: a table of rules
//!                               │  └───> channel  what it says of the source that it follows
//!                               ├──> sight        what the servers are to each other: who is ahead, who follows whom, who stands apart
//!                               └──> change       a change of the primary: the old one fenced, the new one promoted
//!                                    follow       every other server is read only and follows the primary
//! ```
//!
//! The general brain comes in through `crate::group` only. `change` runs only while the plan moves the writer; `follow` compares what is
//! with what should be after every fact, so that it does not matter how a server came to stand apart, nor when this program was started.

pub mod action;
mod change;
pub mod channel;
mod follow;
mod sight;
pub mod sql;
pub mod status;
pub mod words;

use std::time::Duration;

pub use self::action::{Action, Outcome};
use self::change::Fence;
pub use self::channel::{Channel, channel};
use self::follow::Followed;
pub use self::status::{ReplicationStatus, SemiSync};
use protocol::gtid::Position;

use crate::core::Core;
use crate::fact::Now;
use crate::{NodeId, Term};

/// An action that failed is tried again after this long.
const RETRY_GAP: Duration = Duration::from_secs(1);

/// All that is held true of the servers together, beside what is held true of each.
#[derive(Clone, Debug)]
pub(crate) struct Replication {
    servers: Vec<Server>,
    /// Of the change of the primary that runs.
    fence: Option<Fence>,
}

/// What is held true of a server as part of the setup.
#[derive(Clone, Debug, Default)]
struct Server {
    /// It may be writable, whatever it said last: it was ordered to become so, and not ordered back since.
    may_write: Option<Term>,
    /// An order to follow that is out, or is to be given again later.
    followed: Followed,
    /// What it has that the primary has not, as it was found last.
    errant: Option<String>,
    /// Where it stood when that was found.
    compared: Option<Position>,
}

impl Replication {
    pub fn new(nodes: usize) -> Self {
        Self { servers: vec![Server::default(); nodes], fence: None }
    }

    fn server(&self, id: NodeId) -> &Server {
        &self.servers[usize::from(id.0)]
    }

    fn server_mut(&mut self, id: NodeId) -> &mut Server {
        &mut self.servers[usize::from(id.0)]
    }

    /// What came of an action.
    pub fn outcome(&mut self, core: &mut Core, outcome: Outcome) {
        match outcome {
            Outcome::Demoted { node, term, position } => self.demoted(core, node, term, position),
            Outcome::DemoteFailed { node, term, why } => self.demote_failed(core, node, term, &why),
            Outcome::Following { node, term } => self.following(core, node, term),
            Outcome::FollowFailed { node, term, why } => self.follow_failed(core, node, term, &why),
        }
    }
}

/// When something that failed may be tried again.
fn retry_at(now: Now) -> Now {
    now + RETRY_GAP
}

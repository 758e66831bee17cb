//! What the control plane tells the data plane: which nodes take statements now, under which term.
//!
//! One value, replaced whole; the newest wins and a reader may skip any number of older ones. Therefore everything a
//! reader must not miss is kept as a number that only grows: [`Routes::term`], [`Lane::epoch`].

use std::sync::Arc;

use crate::account::Accounts;
use crate::catalogue::Catalogue;
use crate::{NodeId, Term};

/// Who may be spoken to, now.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Grows by one with each published value.
    pub version: u64,
    /// The writer decision in force.
    pub term: Term,
    /// One for each node of the configuration, in its order.
    pub lanes: Vec<Lane>,
    /// When no lane is open: why, as one sentence for errors, logs and status ("db2 is being confirmed as writer").
    pub hold_because: Option<Arc<str>>,
    /// What to announce to a client that connects; `None` until a node has been seen.
    pub greeting: Option<Arc<ServerGreeting>>,
    /// The client accounts, as learned from the database.
    pub accounts: Arc<Accounts>,
    /// Names that mean more than a statement's text shows; `None` while they have not been read: until then any name may be among them.
    pub catalogue: Option<Arc<Catalogue>>,
}

/// The way to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Which node.
    pub node: NodeId,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// `host:port`.
    pub address: Arc<str>,
    /// Whether it takes statements.
    pub state: LaneState,
    /// Grows each time the lane is shut. A link made in an older epoch is cut, also by a reader that never saw the lane shut.
    pub epoch: u64,
    /// At most this many sessions at once (`None`: no limit). 0 drains.
    pub sessions_max: Option<u32>,
    /// The highest alarm of this epoch ([`crate::fact::Fact::TrafficLost`], [`crate::fact::Fact::TrafficRefused`]) after which the node
    /// was asked, and said that it is well. A session that raised an alarm and sees the lane open with `looked` at its number
    /// knows that the node is not gone; one that sees the lane shut, or of another epoch, knows that it is given up.
    pub looked: u64,
    /// The same for the node's word that it does not serve: a session that raised the alarm knows that the node cannot take its statement,
    /// though nobody has given it up.
    pub refused: u64,
    /// The last epoch that ended since the node was lost: dead, silent, or out of its group. After a handover, an epoch ends without that.
    pub lost_epoch: Option<u64>,
    /// What of that which still runs is to be broken off. Means something only while the lane drains.
    pub cut: Cut,
}

/// What of that which still runs on a draining lane is to be broken off, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// Nothing: it may end by itself.
    #[default]
    Nothing,
    /// Whatever is broken off without changing anything: a result whose client does not read it.
    Stalled,
    /// Everything: an operator said so.
    All,
}

/// Whether a node takes statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneState {
    /// New transactions may start here.
    Open,
    /// Running transactions may end here, no new one may start. When none runs any more, the proxy says
    /// [`crate::fact::Fact::Quiesced`].
    Draining,
    /// Every link is cut now, whatever it is doing.
    Shut,
}

/// What the nodes announce, narrowed to what all of them can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerGreeting {
    /// The version string a node sent in its own greeting, verbatim (MariaDB 10 writes `5.5.5-10.11...`).
    pub version: String,
    /// Capabilities that every node seen so far offers (MariaDB's extended ones in the upper 32 bits).
    pub capabilities: u64,
    /// Default character set number.
    pub charset: u8,
}

impl Routes {
    /// The lane of `node`; `None` for a node the configuration does not have.
    pub fn lane(&self, node: NodeId) -> Option<&Lane> {
        self.lanes.get(usize::from(node.0))
    }

    /// The lanes that take new transactions.
    pub fn open(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| lane.state == LaneState::Open && lane.sessions_max != Some(0))
    }
}

//! What the control plane tells the data plane: which nodes take statements now, under which term.
//!
//! One value that is replaced as a whole. The newest one counts, and a reader may miss any number of older ones. What a reader must not
//! miss is therefore a number that only grows: [`Routes::term`], [`Lane::epoch`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::account::Accounts;
use crate::catalogue::Catalogue;
use crate::{NodeId, Term};

/// Which nodes take statements now.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Grows by one with each published value.
    pub version: u64,
    /// The writer decision in force.
    pub term: Term,
    /// One for each node that the configuration has or had since the process started, by their ids: the lane of id 0 is the first.
    pub lanes: Vec<Lane>,
    /// When no lane is open: why, as one sentence for errors, logs and status ("db2 is being confirmed as writer").
    pub hold_because: Option<Arc<str>>,
    /// The server greeting for clients; `None` until a node has been reached.
    pub greeting: Option<Arc<ServerGreeting>>,
    /// The client accounts, as learned from the database.
    pub accounts: Arc<Accounts>,
    /// Names that change what a statement may do; `None` while they have not been read. Until then any name may be one of them.
    pub catalogue: Option<Arc<Catalogue>>,
}

/// The lane of a node: whether, and how, sessions may use it.
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
    /// Grows each time the lane is shut. A link made in an older epoch is cut, even if the proxy never saw the value in which the lane was shut.
    pub epoch: u64,
    /// At most this many sessions at once (`None`: no limit). 0 drains.
    pub sessions_max: Option<u32>,
    /// The highest alarm of this epoch ([`TrafficLost`](crate::fact::ProxyFact::TrafficLost), [`TrafficRefused`](crate::fact::ProxyFact::TrafficRefused)) after which the node was
    /// asked and reported that it is well. A session that raised an alarm, and sees the lane open with `looked` at its number, knows that
    /// the node is not lost. If it sees the lane shut, or in another epoch, it knows that the node was given up.
    pub looked: u64,
    /// The same for a node that was asked and reported that it does not serve. The session that raised the alarm knows that the node cannot
    /// take its statement, although it was not given up.
    pub refused: u64,
    /// The last epoch that ended because the node was lost: dead, silent, or out of its group. A switchover ends an epoch without setting this.
    pub lost_epoch: Option<u64>,
    /// Which running statements are to be aborted. Has a meaning only while the lane drains.
    pub cut: Cut,
    /// How often the manager's connection to the node was opened anew: when it grows, the server may have been restarted, and have forgotten what
    /// it keeps in memory only (the accounts of `caching_sha2_password` that have logged in).
    pub links_anew: u64,
    /// On MySQL: the manager's account may read which user variables and locks by name a session has, so that a session can move in which code has
    /// run. On MariaDB each session may read its own, and this has no meaning.
    pub shows_sessions: bool,
    /// The configuration does not have this node any more. Its lane is shut, and not shown to people.
    pub is_removed: bool,
}

/// Which running statements on a draining lane are to be aborted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// None: all may end by themselves.
    #[default]
    Nothing,
    /// Results outside a transaction of which the client has accepted no byte for a while: it has stopped reading.
    Stopped,
    /// Those that can be aborted without changing anything: results that the client does not read.
    Stalled,
    /// All: an operator ordered it.
    All,
}

/// Whether a node takes statements.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum LaneState {
    /// New transactions may start here.
    Open,
    /// Running transactions may end here, and no new one may start. When none is left, the proxy reports [`Quiesced`](crate::fact::ProxyFact::Quiesced).
    Draining,
    /// Every link is cut at once, whatever runs on it.
    #[default]
    #[serde(other)]
    Shut,
}

impl LaneState {
    /// The word for people.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// The server greeting for clients, reduced to what all nodes can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerGreeting {
    /// The version string a node sent in its own greeting, verbatim (MariaDB 10 writes `5.5.5-10.11...`).
    pub version: String,
    /// Capabilities that every node seen so far offers (MariaDB's extended ones in the upper 32 bits).
    pub capabilities: u64,
    /// Default character set number.
    pub charset: u8,
    /// The status flags that a login begins with (autocommit, and what sql_mode shows there): `protocol::ok::status::OF_LOGIN`.
    pub status: u16,
    /// The authentication plugin of accounts for which none was named.
    pub plugin: String,
}

impl Lane {
    /// The lane of a node at the beginning: shut, in epoch 0, without a limit of sessions.
    pub fn shut(node: NodeId, name: impl Into<Arc<str>>, address: impl Into<Arc<str>>) -> Self {
        Self {
            node,
            name: name.into(),
            address: address.into(),
            state: LaneState::Shut,
            epoch: 0,
            sessions_max: None,
            looked: 0,
            refused: 0,
            lost_epoch: None,
            cut: Cut::Nothing,
            links_anew: 0,
            shows_sessions: false,
            is_removed: false,
        }
    }
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

//! What is on disk when the program starts.

use std::time::Duration;

use crate::galera::Component;
use crate::replication::Written;
use crate::{NodeId, Term};

/// What was on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The last decision's number; 0 when there was none.
    pub term: Term,
    /// The last decision's writer.
    pub writer: Option<NodeId>,
    /// The nodes that have a limit of their sessions, and which.
    pub sessions_max: Vec<(NodeId, u32)>,
    /// How long before the start the last automatic failover was decided on, where the next one has to wait for a time.
    pub failed_over_ago: Option<Duration>,
    /// The writer had come back without transactions of its own. It is not written to again before all other servers have shown that they do
    /// not have them either.
    pub is_writer_incomplete: bool,
    /// The nodes whose transactions are numbered as the primary's were before those began anew.
    pub renumbered: Vec<NodeId>,
    /// The servers that have had replication filters, and which: what those left out is missing there.
    pub filtered: Vec<(NodeId, String)>,
    /// The writer's component in a Galera cluster, as [`crate::galera::Action::Remember`] had it last.
    pub component: Option<Component>,
    /// What the primary reported last, as [`crate::action::Action::Remember`] had it last, and how long before the start.
    pub written: Option<(Written, Duration)>,
    /// How long before the start an earlier process last wrote something down; `None` when there was none. A server that has restarted since
    /// then did so unseen.
    pub away: Option<Duration>,
}

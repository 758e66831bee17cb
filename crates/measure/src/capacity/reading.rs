//! What is read of the measured node and of the other nodes at one moment. Counters hold the server's absolute values; only differences
//! between two readings are meaningful.

use std::time::Duration;

/// The state of all nodes at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Time since the run began.
    pub at: Duration,
    /// The measured node.
    pub node: Node,
    /// The other nodes, always in the same order; `None` for a node that did not answer.
    pub others: Vec<Option<Other>>,
    /// Bytes of transactions received by the node, a counter.
    pub arrived_bytes: u64,
}

/// The state of the measured node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Transactions applied, a counter (Galera: wsrep_last_committed; replica: the sequence number of its GTID).
    pub applied: u64,
    /// Transactions received and not yet applied (wsrep_local_recv_queue).
    pub queue: u64,
    /// The node takes part as usual: it is Synced, or both threads of the replica run.
    pub is_in_step: bool,
    /// The node is Donor/Desynced and therefore causes no flow control.
    pub is_desynced: bool,
    /// Flow control messages that it sent, a counter.
    pub flow_control_sent: u64,
    /// Transactions written by the node's own clients, a counter (wsrep_replicated).
    pub written: u64,
    /// Clients that wait to write until the lock is released. Read only while the lock is held.
    pub writers_waiting: u64,
}

/// The state of another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// Transactions committed on that node, a counter.
    pub committed: u64,
    /// Time for which flow control paused its writes, a counter.
    pub flow_control_paused: Duration,
    /// Flow control messages that it sent, a counter.
    pub flow_control_sent: u64,
}

impl Reading {
    /// The highest number of transactions that any of the other nodes has committed.
    pub fn committed_elsewhere(&self) -> Option<u64> {
        self.others.iter().flatten().map(|other| other.committed).max()
    }

    /// One of the other nodes answered at that time, and does not answer now.
    pub fn lost_since(&self, earlier: &Reading) -> bool {
        self.others.iter().zip(&earlier.others).any(|(now, then)| now.is_none() && then.is_some())
    }

    /// The longest time since `earlier` for which flow control paused the writes of any one other node.
    pub fn paused_since(&self, earlier: &Reading) -> Duration {
        let pairs = self.others.iter().zip(&earlier.others);
        let paused = pairs.filter_map(|(now, then)| {
            let (now, then) = (now.as_ref()?, then.as_ref()?);
            Some(now.flow_control_paused.saturating_sub(then.flow_control_paused))
        });
        paused.max().unwrap_or_default()
    }

    /// The other nodes, by their places, that have asked for a pause since `earlier` (flow control).
    pub fn askers_since(&self, earlier: &Reading) -> Vec<usize> {
        let has_asked = |place: &usize| {
            let sent =
                |reading: &Reading| reading.others.get(*place)?.as_ref().map(|other| other.flow_control_sent);
            sent(self) > sent(earlier) && sent(earlier).is_some()
        };
        (0..self.others.len()).filter(has_asked).collect()
    }
}

//! What is read of the measured node and of the others at one moment. Counters are as the servers have them: only differences mean anything.

use std::time::Duration;

/// What kind of cluster the node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Galera: the node is desynchronised first, so that it does not hold up the others by flow control.
    Galera,
    /// A replica of a primary: only its SQL thread is stopped.
    Replication,
}

/// One moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Since the run began.
    pub at: Duration,
    /// The measured node.
    pub node: Node,
    /// The other nodes, always in the same order; `None` did not answer.
    pub others: Vec<Option<Other>>,
    /// Bytes of transactions that have come to the node, a counter.
    pub arrived_bytes: u64,
}

/// The measured node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Transactions applied, a counter (wsrep_last_committed; the number of the GTID of a replica).
    pub applied: u64,
    /// Transactions received and not yet applied (wsrep_local_recv_queue).
    pub queue: u64,
    /// It takes part as usual: Synced, or both threads of a replica run.
    pub is_in_step: bool,
    /// It is Donor/Desynced: it causes no flow control.
    pub is_desynced: bool,
    /// Flow control messages that it sent, a counter.
    pub flow_control_sent: u64,
    /// Transactions of its own clients, a counter (wsrep_replicated).
    pub written: u64,
    /// Clients that wait to write until the lock is given up. Looked at while there is one.
    pub writers_waiting: u64,
}

/// Another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// Transactions committed there, a counter.
    pub committed: u64,
    /// Time for which flow control stopped its writes, a counter.
    pub flow_control_paused: Duration,
}

impl Reading {
    /// The most that any of the others has committed.
    pub fn committed_elsewhere(&self) -> Option<u64> {
        self.others.iter().flatten().map(|other| other.committed).max()
    }

    /// One of the others answered then, and does not now.
    pub fn lost_since(&self, earlier: &Reading) -> bool {
        self.others.iter().zip(&earlier.others).any(|(now, then)| now.is_none() && then.is_some())
    }

    /// For how long flow control has stopped the writes of the one other node that it stopped longest, since `earlier`.
    pub fn paused_since(&self, earlier: &Reading) -> Duration {
        let pairs = self.others.iter().zip(&earlier.others);
        let paused = pairs.filter_map(|(now, then)| {
            let (now, then) = (now.as_ref()?, then.as_ref()?);
            Some(now.flow_control_paused.saturating_sub(then.flow_control_paused))
        });
        paused.max().unwrap_or_default()
    }
}

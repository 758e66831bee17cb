//! Reasons against measuring a node, checked before anything is changed. Each is a condition with a name and a sentence, and some may be
//! overridden.

use std::fmt;

/// The conditions that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The node is not in step with its cluster.
    NotInStep,
    /// The node is already desynchronised, or its SQL thread is stopped.
    UnderWay,
    /// The node is the writer.
    Writer,
    /// No other node would be in step during the measurement.
    LastInStep,
    /// Another node is the donor or the receiver of a state transfer.
    Donor,
    /// A backup runs on the node.
    Backup,
    /// The cluster has fewer than three nodes.
    SmallCluster,
    /// Clients are connected to the node.
    InUse,
    /// Clients write on the node; while it applies nothing they would wait, holding their locks.
    Written,
    /// The server has no means to undo the changes by itself if Understudy is lost.
    NoGuard,
}

impl Condition {
    /// All conditions that may be overridden.
    pub const OVERRIDABLE: [Self; 5] =
        [Self::Donor, Self::Backup, Self::SmallCluster, Self::InUse, Self::NoGuard];

    /// The name by which the condition is overridden on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotInStep => "not-in-step",
            Self::UnderWay => "under-way",
            Self::Writer => "writer",
            Self::LastInStep => "last-in-step",
            Self::Donor => "donor",
            Self::Backup => "backup",
            Self::SmallCluster => "small-cluster",
            Self::InUse => "in-use",
            Self::Written => "written",
            Self::NoGuard => "no-guard",
        }
    }
}

/// A reason not to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The condition.
    pub condition: Condition,
    /// The reason as a sentence, without the advice on overriding it.
    pub sentence: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { condition, sentence } = self;
        if Condition::OVERRIDABLE.contains(condition) {
            write!(f, "{sentence} (--allow {} overrides this)", condition.name())
        } else {
            write!(f, "{sentence} (nothing overrides this)")
        }
    }
}

/// What is known of a node and its cluster before anything is changed.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The node's name.
    pub node: String,
    /// The node is in step: Synced, or both threads of the replica run.
    pub is_in_step: bool,
    /// The state that the node reports.
    pub state: String,
    /// Somebody else has desynchronised the node or stopped its SQL thread.
    pub is_under_way: bool,
    /// The node is the writer.
    pub is_writer: bool,
    /// The number of members of the cluster; in replication, of the primary and its replicas.
    pub size: u32,
    /// Names of the other nodes that are in step.
    pub others_in_step: Vec<String>,
    /// Names of the other nodes that are donor or receiver of a state transfer.
    pub transferring: Vec<String>,
    /// A description of the client sessions on the node.
    pub sessions: Vec<String>,
    /// A description of those sessions with an open transaction that has written.
    pub writing: Vec<String>,
    /// A description of the backup sessions on the node.
    pub backups: Vec<String>,
    /// The server can undo the changes by itself.
    pub has_guard: bool,
}

/// Lists sessions within a sentence.
const NAMED_MAX: usize = 5;

/// All reasons against the measurement that are not in `allowed`. An empty list permits it.
pub fn refusals(facts: &Facts, allowed: &[Condition]) -> Vec<Refusal> {
    let node = &facts.node;
    let mut found = Vec::new();
    let mut refuse = |condition: Condition, is_so: bool, sentence: String| {
        let is_allowed = Condition::OVERRIDABLE.contains(&condition) && allowed.contains(&condition);
        if is_so && !is_allowed {
            found.push(Refusal { condition, sentence });
        }
    };
    refuse(
        Condition::UnderWay,
        facts.is_under_way,
        format!(
            "{node} is {} already: somebody measures or backs it up, or left it so. Undo that first",
            facts.state
        ),
    );
    refuse(
        Condition::NotInStep,
        !facts.is_in_step && !facts.is_under_way,
        format!("{node} is not in step with the cluster: it is {}", facts.state),
    );
    refuse(
        Condition::Writer,
        facts.is_writer,
        format!("{node} takes the writes: measure another node, or `understudy switchover` first"),
    );
    refuse(
        Condition::LastInStep,
        facts.others_in_step.is_empty(),
        format!("{node} would leave nobody in step: no other node is"),
    );
    refuse(
        Condition::Donor,
        !facts.transferring.is_empty(),
        format!("a state transfer is under way: {}", facts.transferring.join(", ")),
    );
    refuse(
        Condition::SmallCluster,
        facts.size < 3,
        format!(
            "the cluster has {} nodes: while {node} is measured, {} would be left",
            facts.size,
            facts.size.saturating_sub(1)
        ),
    );
    refuse(
        Condition::Backup,
        !facts.backups.is_empty(),
        format!("a backup runs on {node}: {}", listed(&facts.backups)),
    );
    refuse(
        Condition::InUse,
        !facts.sessions.is_empty(),
        format!("clients are connected to {node}, and would read old data: {}", listed(&facts.sessions)),
    );
    refuse(
        Condition::Written,
        !facts.writing.is_empty(),
        format!(
            "clients have open transactions on {node} that write, and would wait with their locks while it is held: {}",
            listed(&facts.writing)
        ),
    );
    refuse(
        Condition::NoGuard,
        !facts.has_guard,
        format!(
            "the server of {node} cannot undo it by itself, should Understudy be lost: that takes MariaDB's BEGIN NOT ATOMIC"
        ),
    );
    found
}

fn listed(all: &[String]) -> String {
    let mut named: Vec<String> = all.iter().take(NAMED_MAX).cloned().collect();
    if all.len() > NAMED_MAX {
        named.push(format!("{} more", all.len() - NAMED_MAX));
    }
    named.join("; ")
}

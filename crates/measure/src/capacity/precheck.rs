//! What speaks against measuring a node, before anything is changed: each a condition with a name, a sentence, and whether it may be overridden.

use std::fmt;

/// What may speak against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The node is not in step with its cluster.
    NotInStep,
    /// Something of the kind is under way already: the node is desynchronised, or its SQL thread stands.
    UnderWay,
    /// It takes the writes.
    Writer,
    /// No other node would be in step while it is measured.
    LastInStep,
    /// Another node feeds, or receives, a state transfer.
    Donor,
    /// A backup runs on it.
    Backup,
    /// The cluster has less than three nodes.
    SmallCluster,
    /// Clients are connected to it.
    InUse,
    /// Clients write to it, and would wait with their locks while it is held.
    Written,
    /// The server has no way to undo it by itself, should Understudy be lost.
    NoGuard,
}

impl Condition {
    /// All that may be overridden.
    pub const OVERRIDABLE: [Self; 5] =
        [Self::Donor, Self::Backup, Self::SmallCluster, Self::InUse, Self::NoGuard];

    /// The name under which it is overridden.
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
    /// Which.
    pub condition: Condition,
    /// As a sentence, without what overrides it.
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
    /// It is in step: Synced, or both threads of a replica run.
    pub is_in_step: bool,
    /// What it says of its state.
    pub state: String,
    /// It is desynchronised, or its SQL thread stands, by somebody else's doing.
    pub is_under_way: bool,
    /// It takes the writes.
    pub is_writer: bool,
    /// How many members the cluster has; a primary and its replicas for the other kind.
    pub size: u32,
    /// Names of the others that are in step.
    pub others_in_step: Vec<String>,
    /// Names of the others that feed or receive a state transfer.
    pub transferring: Vec<String>,
    /// Sessions of clients on it, in words.
    pub sessions: Vec<String>,
    /// Those of them that have an open transaction which writes, in words.
    pub writing: Vec<String>,
    /// Sessions of a backup on it, in words.
    pub backups: Vec<String>,
    /// The server can undo it by itself.
    pub has_guard: bool,
}

/// Sessions named in a sentence.
const NAMED_MAX: usize = 5;

/// All that speaks against it and is not in `allowed`; nothing: it may begin.
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

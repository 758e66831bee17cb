//! Settings of a Galera cluster.

use std::time::Duration;

/// When a lost node is evicted from the group, so that the survivors' writes do not wait for Galera's own timeouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvictPolicy {
    /// When it is proven dead: its link ended, and it has refused or reset connections since. A node that was alive after all rejoins by
    /// itself within seconds, but what it was doing is lost; so a proof comes first.
    #[default]
    Proven,
    /// Also when it is only silent.
    Silent,
    /// Never: Galera decides by itself (5 to 10 s with its default settings).
    Never,
}

/// What is done when the group waits for a silent member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SilencePolicy {
    /// The others' timers are shortened until the group has gone on without it; see [`super::hurry`]. Not the default: a member that wakes
    /// just then costs the group up to 3.5 s.
    Hurry,
    /// Nothing: Galera's own timers decide.
    #[default]
    Wait,
}

/// What is done when the group has lost its majority, and no node is in a Primary component any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootstrapPolicy {
    /// Nothing: an operator decides.
    #[default]
    Never,
    /// The nodes that are left become Primary when the processes of all others are proven dead; see [`super::bootstrap`].
    Proven,
}

/// How the group is helped when it loses a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When a lost node is evicted.
    pub evict: EvictPolicy,
    /// Whether the others' wait for a silent member is shortened.
    pub silence: SilencePolicy,
    /// How long a node that shuts down may take to leave the group before it may be evicted.
    pub leave_grace: Duration,
    /// How long an eviction may take, from the order until the survivors' view has changed.
    pub evict_deadline: Duration,
    /// Whether the group is given a Primary component again.
    pub bootstrap: BootstrapPolicy,
    /// How long the proofs of the others' deaths may take.
    pub proof_deadline: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            evict: EvictPolicy::default(),
            silence: SilencePolicy::default(),
            leave_grace: Duration::from_secs(1),
            evict_deadline: Duration::from_secs(10),
            bootstrap: BootstrapPolicy::default(),
            proof_deadline: Duration::from_secs(30),
        }
    }
}

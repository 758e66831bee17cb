//! The table of what can be wrong with a node, other than what its own status or the other nodes say (those rules differ by kind of cluster,
//! see group.rs). Each row has a name, the state that follows, the condition, and the sentence. The first row that matches decides; if none
//! does, the node is well.
//!
//! ```text
//!   gone (dead, silent, ...) > what the cluster says > waning (drained, ...)     if its own status is worse than these, that decides
//! ```
//!
//! Enters: what is known of a node, and what its cluster says against it. Leaves: its state, whether it serves, and why.

use crate::belief::{Assessment, Belief};
use crate::finding::{self, Finding, NodeState, Serves};
use crate::settings::Settings;
use crate::status::Status;
use crate::time::{Now, seconds};

/// What a row may look at.
struct Sight<'a> {
    node: &'a Belief,
    settings: &'a Settings,
    now: Now,
}

struct Problem {
    name: &'static str,
    state: NodeState,
    serves: Serves,
    matches: fn(&Sight) -> bool,
    sentence: fn(&Sight) -> String,
}

impl Problem {
    fn found(&self, sight: &Sight) -> Finding {
        let sentence = (self.sentence)(sight);
        Finding { problem: self.name, state: self.state, serves: self.serves, sentence }
    }
}

/// What makes a node unusable, whatever its last status.
const GONE: &[Problem] = &[
    Problem {
        name: "dead",
        state: NodeState::Dead,
        serves: Serves::No,
        matches: |s| s.node.counts.refusals >= s.settings.refusals_max,
        sentence: |s| {
            let counts = &s.node.counts;
            let began = s.node.lost_at.or(counts.refused_since).unwrap_or_default();
            let span = counts.proven_at.unwrap_or(began).saturating_sub(began);
            format!("refused {} connections in {}", s.settings.refusals_max, seconds(span))
        },
    },
    Problem {
        name: "rejected",
        state: NodeState::Refused,
        serves: Serves::No,
        matches: |s| s.node.rejected.is_some(),
        sentence: |s| match &s.node.rejected {
            Some((0, what)) => format!("does not speak the MySQL protocol: {what}"),
            Some((errno, message)) => format!("does not let the monitor account in: {errno} {message}"),
            None => String::new(),
        },
    },
    Problem {
        name: "silent",
        state: NodeState::Silent,
        serves: Serves::No,
        matches: |s| s.node.counts.misses >= s.settings.misses_max,
        sentence: |s| {
            let time = s.settings.probe_interval * s.settings.misses_max;
            format!("did not answer {} probes in {}", s.settings.misses_max, seconds(time))
        },
    },
    Problem {
        name: UNCHECKED,
        state: NodeState::Unknown,
        serves: Serves::No,
        matches: |s| s.node.status.is_none(),
        sentence: |_| "not yet checked, which counts as down".into(),
    },
];

/// The name of the problem that a node has not answered a status query yet since it was connected to.
pub(crate) const UNCHECKED: &str = "unchecked";

/// The name of the problem that a node answers and takes no new connections.
pub(crate) const SHUT_OUT: &str = "shut_out";

/// The name of the problem that a node answers and does not commit.
pub(crate) const NOT_COMMITTING: &str = "not_committing";

/// What is wrong with a node that works; comes before the lesser rules about its own status.
const WANING: &[Problem] = &[
    Problem {
        name: NOT_COMMITTING,
        state: NodeState::Refused,
        serves: Serves::No,
        matches: |s| s.node.pulse.is_given_up(),
        sentence: |s| s.node.pulse.sentence(s.now),
    },
    Problem {
        name: SHUT_OUT,
        state: NodeState::Refused,
        serves: Serves::Leaves,
        matches: |s| s.node.shut_out >= s.settings.refusals_max,
        sentence: |s| format!("answers, but takes no new connections: {}", s.node.shut_out_why),
    },
    Problem {
        name: finding::DRAINED,
        state: NodeState::Draining,
        serves: Serves::Leaves,
        matches: |s| s.node.drained(),
        sentence: |_| "drained by an operator".into(),
    },
    // What reads there may go on, as long as nobody can take over.
    Problem {
        name: NOT_COMMITTING,
        state: NodeState::Refused,
        serves: Serves::Stays,
        matches: |s| s.node.pulse.waits(s.now).is_some_and(|(age, _)| age >= s.settings.heartbeat.stuck_max),
        sentence: |s| s.node.pulse.sentence(s.now),
    },
];

/// The state of `node`, and why. `cluster`: the finding from its own status or the other nodes; `well`: the sentence when there is none.
pub(crate) fn judge(
    node: &Belief,
    settings: &Settings,
    now: Now,
    cluster: Option<Finding>,
    well: impl FnOnce() -> String,
) -> Assessment {
    let sight = Sight { node, settings, now };
    let first = |table: &[Problem]| {
        table.iter().find(|problem| (problem.matches)(&sight)).map(|problem| problem.found(&sight))
    };
    let others = first(GONE).or(cluster).or_else(|| first(WANING));
    let own = node.status.as_ref().and_then(Status::examine);
    let (state, serves, problem, reason) = match finding::graver(others.clone(), own) {
        Some(found) => (found.state, found.serves, found.problem, found.sentence),
        None => (NodeState::Synced, Serves::Well, "none", well()),
    };
    let gone = matches!(state, NodeState::Dead | NodeState::Silent);
    Assessment { state, serves, problem, reason, gone, others }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::galera::GaleraStatus;
    use crate::settings::{NodeSettings, Writers};

    fn good() -> GaleraStatus {
        GaleraStatus {
            local_state: Some(4),
            cluster_status: "Primary".into(),
            ready: true,
            connected: true,
            ..GaleraStatus::default()
        }
    }

    /// What a node is after `change`, when the cluster says `cluster` against it.
    fn assessment(
        cluster: Option<&'static str>,
        change: impl FnOnce(&mut Belief, &mut GaleraStatus),
    ) -> (&'static str, NodeState, Serves) {
        let node = NodeSettings { name: "db1".into(), address: "h:1".into(), priority: 0 };
        let settings = Settings::new("shop", Writers::One, vec![node]);
        let mut belief = Belief::new("db1", "h:1", 0, None, Duration::ZERO);
        let mut status = good();
        change(&mut belief, &mut status);
        belief.status = Some(status.into());
        let cluster = cluster.map(|problem| finding::refused(problem, "left the group".into()));
        let assessment = judge(&belief, &settings, Duration::ZERO, cluster, String::new);
        (assessment.problem, assessment.state, assessment.serves)
    }

    #[test]
    fn each_row_speaks_for_its_own_trouble() {
        use NodeState::{Dead, Draining, Refused, Silent, Synced};
        assert_eq!(assessment(None, |_, _| ()), ("none", Synced, Serves::Well));
        assert_eq!(assessment(None, |b, _| b.counts.refusals = 2), ("dead", Dead, Serves::No));
        assert_eq!(assessment(None, |b, _| b.counts.misses = 3), ("silent", Silent, Serves::No));
        assert_eq!(
            assessment(None, |b, _| b.rejected = Some((1045, "no".into()))),
            ("rejected", Refused, Serves::No)
        );
        assert_eq!(assessment(None, |b, _| b.shut_out = 2), ("shut_out", Refused, Serves::Leaves));
        assert_eq!(assessment(None, |b, _| b.sessions_max = Some(0)), ("drained", Draining, Serves::Leaves));
    }

    #[test]
    fn the_cluster_speaks_before_what_only_wanes_and_its_own_graver_word_beats_that() {
        let drained = |b: &mut Belief, _: &mut GaleraStatus| b.sessions_max = Some(0);
        assert_eq!(assessment(Some("left"), drained).0, "left");
        assert_eq!(assessment(Some("left"), |b, _| b.counts.refusals = 2).0, "dead");
        let drained_and_read_only = |b: &mut Belief, s: &mut GaleraStatus| {
            b.sessions_max = Some(0);
            s.read_only = true;
        };
        assert_eq!(assessment(None, drained_and_read_only).0, "read_only");
        assert_eq!(assessment(Some("left"), drained_and_read_only).0, "left");
    }
}

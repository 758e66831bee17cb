//! The table of what can be wrong with a node, other than what its own status or the other nodes say (those rules differ by kind of cluster,
//! see group.rs). Each row has a problem, the condition, and the sentence. The first row that matches decides; if none does, the node is
//! well.
//!
//! ```text
//!   gone (dead, silent, ...) > what the cluster says > waning (drained, ...)     if its own status is worse than these, that decides
//! ```
//!
//! Enters: what is known of a node, and what its cluster says against it. Leaves: its state, whether it serves, and why.

use crate::belief::Belief;
use crate::finding::{self, Finding, Problem, Serves};
use crate::settings::Settings;
use crate::status::Status;
use crate::time::{Now, seconds};

/// What a row may look at.
struct Sight<'a> {
    node: &'a Belief,
    settings: &'a Settings,
    now: Now,
    /// It serves its clients, though it does not let the monitor in.
    serves_unseen: bool,
}

struct Rule {
    problem: Problem,
    matches: fn(&Sight) -> bool,
    sentence: fn(&Sight) -> String,
}

/// One that was refused and does not answer since is silent: it may have died meanwhile.
fn is_rejected(s: &Sight) -> bool {
    s.node.rejected.is_some() && s.node.counts.misses < s.settings.misses_max
}

fn rejection(node: &Belief) -> String {
    match &node.rejected {
        Some((0, what)) => format!("does not speak the MySQL protocol: {what}"),
        Some((errno, message)) => format!("does not let the monitor account in: {errno} {message}"),
        None => String::new(),
    }
}

/// What makes a node unusable, whatever its last status.
const GONE: &[Rule] = &[
    Rule {
        problem: Problem::Dead,
        matches: |s| s.node.counts.refusals >= s.settings.refusals_max,
        sentence: |s| {
            let counts = &s.node.counts;
            let began = s.node.lost_at.or(counts.refused_since).unwrap_or_default();
            let span = counts.proven_at.unwrap_or(began).saturating_sub(began);
            format!("refused {} connections in {}", s.settings.refusals_max, seconds(span))
        },
    },
    Rule {
        problem: Problem::Rejected,
        matches: |s| is_rejected(s) && !s.serves_unseen,
        sentence: |s| rejection(s.node),
    },
    Rule {
        problem: Problem::Silent,
        matches: |s| s.node.counts.misses >= s.settings.misses_max,
        sentence: |s| {
            let time = s.settings.probe_interval * s.settings.misses_max;
            format!("did not answer {} probes in {}", s.settings.misses_max, seconds(time))
        },
    },
    Rule {
        problem: Problem::Unchecked,
        matches: |s| s.node.status.is_none(),
        sentence: |_| "not yet checked, which counts as down".into(),
    },
];

/// What is wrong with a node that works; comes before the lesser rules about its own status.
const WANING: &[Rule] = &[
    Rule {
        problem: Problem::NotCommitting,
        matches: |s| s.node.pulse.is_given_up(),
        sentence: |s| s.node.pulse.sentence(s.now),
    },
    Rule {
        problem: Problem::ShutOut,
        matches: |s| is_rejected(s) && s.serves_unseen,
        sentence: |s| rejection(s.node),
    },
    Rule {
        problem: Problem::ShutOut,
        matches: |s| s.node.shut_out >= s.settings.refusals_max,
        sentence: |s| format!("answers, but takes no new connections: {}", s.node.shut_out_why),
    },
    Rule {
        problem: Problem::Drained,
        matches: |s| s.node.drained(),
        sentence: |_| "drained by an operator".into(),
    },
];

/// Comes last. What reads there may go on, as long as nobody can take over.
const LATE: Rule = Rule {
    problem: Problem::NotCommitting,
    matches: |s| s.node.pulse.waits(s.now).is_some_and(|(age, _)| age >= s.settings.heartbeat.stuck_max),
    sentence: |s| s.node.pulse.sentence(s.now),
};

/// What `node` is held to be, and what is found other than by its own status. `cluster`: the finding of the other nodes; `serves_unseen`: it
/// serves its clients, though it does not let the monitor in; `well`: the sentence when there is none.
pub(crate) fn judge(
    node: &Belief,
    settings: &Settings,
    now: Now,
    cluster: Option<Finding>,
    serves_unseen: bool,
    well: impl FnOnce() -> String,
) -> (Finding, Option<Finding>) {
    let sight = Sight { node, settings, now, serves_unseen };
    let first = |table: &[Rule]| {
        let rule = table.iter().find(|rule| (rule.matches)(&sight))?;
        Some(rule.problem.found((rule.sentence)(&sight)))
    };
    let late = || Some(Finding { serves: Serves::Stays, ..first(&[LATE])? });
    let others = first(GONE).or(cluster).or_else(|| first(WANING)).or_else(late);
    let own = node.status.as_ref().and_then(Status::examine);
    let found = finding::graver(others.clone(), own).unwrap_or_else(|| Problem::None.found(well()));
    (found, others)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::finding::NodeState;
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
    fn found(
        cluster: Option<Problem>,
        change: impl FnOnce(&mut Belief, &mut GaleraStatus),
    ) -> (Problem, NodeState, Serves) {
        let node = NodeSettings { name: "db1".into(), address: "h:1".into(), priority: 0 };
        let settings = Settings::new("shop", Writers::One, vec![node]);
        let mut belief = Belief::new(&settings.nodes[0], None, Duration::ZERO);
        let mut status = good();
        change(&mut belief, &mut status);
        belief.status = Some(status.into());
        let cluster = cluster.map(|problem| problem.found("left the group"));
        let (found, _) = judge(&belief, &settings, Duration::ZERO, cluster, false, String::new);
        (found.problem, found.state, found.serves)
    }

    #[test]
    fn each_row_speaks_for_its_own_trouble() {
        use NodeState::{Dead, Draining, Refused, Silent, Synced};
        assert_eq!(found(None, |_, _| ()), (Problem::None, Synced, Serves::Well));
        assert_eq!(found(None, |b, _| b.counts.refusals = 2), (Problem::Dead, Dead, Serves::No));
        assert_eq!(found(None, |b, _| b.counts.misses = 3), (Problem::Silent, Silent, Serves::No));
        assert_eq!(
            found(None, |b, _| b.rejected = Some((1045, "no".into()))),
            (Problem::Rejected, Refused, Serves::No)
        );
        assert_eq!(found(None, |b, _| b.shut_out = 2), (Problem::ShutOut, Refused, Serves::Leaves));
        assert_eq!(
            found(None, |b, _| b.sessions_max = Some(0)),
            (Problem::Drained, Draining, Serves::Leaves)
        );
    }

    #[test]
    fn the_cluster_speaks_before_what_only_wanes_and_its_own_graver_word_beats_that() {
        let drained = |b: &mut Belief, _: &mut GaleraStatus| b.sessions_max = Some(0);
        assert_eq!(found(Some(Problem::Left), drained).0, Problem::Left);
        assert_eq!(found(Some(Problem::Left), |b, _| b.counts.refusals = 2).0, Problem::Dead);
        let drained_and_read_only = |b: &mut Belief, s: &mut GaleraStatus| {
            b.sessions_max = Some(0);
            s.read_only = true;
        };
        assert_eq!(found(None, drained_and_read_only).0, Problem::ReadOnly);
        assert_eq!(found(Some(Problem::Left), drained_and_read_only).0, Problem::Left);
    }
}

//! Galera's table of rules: whether a member may take traffic, by its own status.
//!
//! Enters: a member's status ([`GaleraStatus`]). Leaves: the finding of the first rule that is broken; or nothing.

use super::status::GaleraStatus;
use crate::finding::{Finding, Problem, Rules};

struct Rule {
    problem: Problem,
    matches: fn(&GaleraStatus) -> bool,
    sentence: fn(&GaleraStatus) -> String,
}

/// The finding for a server whose state cannot be known.
pub const NO_STATE: &str = "does not tell wsrep_local_state: is it a Galera node, and is wsrep_on set?";

/// The most serious ones first.
const TABLE: &[Rule] = &[
    Rule {
        problem: Problem::NonPrimary,
        matches: |s| !is(&s.cluster_status, "Primary"),
        sentence: |s| {
            // It says "Disconnected" as well, and no network is to blame.
            if s.is_inconsistent() {
                return "is Inconsistent: its data differ from the group's, which it has left; it needs a full copy".into();
            }
            format!("is in a {} component: it cannot reach the majority", shown(&s.cluster_status))
        },
    },
    Rule {
        problem: Problem::Joining,
        matches: |s| s.local_state == Some(1) || (s.local_state == Some(3) && !s.ready),
        sentence: |s| format!("is catching up: {}", shown(&s.local_state_comment)),
    },
    Rule {
        problem: Problem::State,
        matches: |s| !matches!(s.local_state, Some(2..=4)),
        sentence: |s| match s.local_state {
            Some(state) => format!("is in state {state}: {}", shown(&s.local_state_comment)),
            None => NO_STATE.into(),
        },
    },
    Rule {
        problem: Problem::NotReady,
        matches: |s| !s.ready || !s.connected,
        sentence: |s| {
            let what = if s.ready { "wsrep_connected" } else { "wsrep_ready" };
            format!("says {what} is OFF")
        },
    },
    Rule {
        problem: Problem::RejectQueries,
        matches: |s| s.reject_queries,
        sentence: |_| "rejects queries: wsrep_reject_queries is set".into(),
    },
    Rule {
        problem: Problem::ReadOnly,
        matches: |s| s.read_only,
        sentence: |_| "is read only: read_only is set".into(),
    },
    Rule {
        problem: Problem::DonorRejects,
        matches: |s| s.local_state == Some(2) && !s.desync && s.sst_donor_rejects,
        sentence: |_| {
            "feeds a joining node and rejects queries meanwhile: wsrep_sst_donor_rejects_queries is set"
                .into()
        },
    },
    Rule {
        problem: Problem::Maintenance,
        matches: |s| s.pxc_maint_mode.as_deref().is_some_and(|mode| !is(mode, "DISABLED")),
        sentence: |s| {
            format!("is in maintenance: pxc_maint_mode is {}", s.pxc_maint_mode.as_deref().unwrap_or(""))
        },
    },
    Rule {
        problem: Problem::Desync,
        matches: |s| s.desync,
        sentence: |_| "desynchronised by an operator: wsrep_desync is ON".into(),
    },
    Rule {
        // A donor passes through this state on its way back to Synced, and serves all the time.
        problem: Problem::Joined,
        matches: |s| s.local_state == Some(3),
        sentence: |s| format!("is catching up: {}", shown(&s.local_state_comment)),
    },
    Rule {
        problem: Problem::Donor,
        matches: |s| s.local_state == Some(2),
        // A node under a lock is desynced like a donor (wsrep_local_state 2). Only one that is alone in its group cannot be a donor.
        sentence: |s| {
            match s.cluster_size {
            1 => "is desynced: its tables are locked (FLUSH TABLES WITH READ LOCK, or a backup)".into(),
            _ => "is donor or desynced: it feeds a joining node, or its tables are locked (FLUSH TABLES WITH READ LOCK, or a backup)".into(),
        }
        },
    },
];

/// The first rule that a node's status breaks, with nothing forgiven.
pub fn examine(status: &GaleraStatus) -> Option<Finding> {
    if !is_member(status) {
        let text = "is no Galera node (wsrep_on is OFF), and cluster.kind is \"galera\": set wsrep_on = ON there, or cluster.kind = \"replication\"";
        return Some(Problem::NotGalera.found(text));
    }
    TABLE.iter().find(|rule| (rule.matches)(status)).map(|rule| found(rule, status))
}

/// The same, except for what `rules` forgive. No finding means that the node may take traffic.
///
/// # Errors
/// The finding.
pub fn admit(status: &GaleraStatus, rules: Rules) -> Result<(), Finding> {
    let first = |rules: Rules| {
        let forgiven = |rule: &Rule| match rule.problem {
            Problem::Desync | Problem::Joined | Problem::Donor => rules.donor,
            Problem::ReadOnly => rules.read_only,
            _ => false,
        };
        TABLE.iter().find(|rule| !forgiven(rule) && (rule.matches)(status))
    };
    // As clustercheck does, which looks at read_only last, and has another answer for it.
    match first(Rules { read_only: true, ..rules }).or_else(|| first(rules)) {
        Some(rule) => Err(found(rule, status)),
        None => Ok(()),
    }
}

/// Whether it is a member of a Galera cluster, even if it hides its state: with wsrep_on = OFF a member does not report wsrep_local_state,
/// and does not replicate what is written there. A server that never was in a cluster reports none of this (seen on MariaDB 10.11).
pub(crate) fn is_member(status: &GaleraStatus) -> bool {
    status.local_state.is_some() || status.connected || status.ready || !status.cluster_uuid.is_empty()
}

fn found(rule: &Rule, status: &GaleraStatus) -> Finding {
    rule.problem.found((rule.sentence)(status))
}

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

fn shown(text: &str) -> &str {
    if text.is_empty() { "(not said)" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{NodeState, Serves};

    fn good() -> GaleraStatus {
        GaleraStatus {
            local_state: Some(4),
            cluster_status: "Primary".into(),
            conf_id: 3,
            ready: true,
            connected: true,
            ..GaleraStatus::default()
        }
    }

    fn status(change: impl FnOnce(&mut GaleraStatus)) -> GaleraStatus {
        let mut status = good();
        change(&mut status);
        status
    }

    #[test]
    fn the_graver_rules_stand_first() {
        let rank = |serves| match serves {
            Serves::No => 0,
            Serves::Leaves => 1,
            Serves::Stays => 2,
            Serves::Well => 3,
        };
        assert!(TABLE.is_sorted_by_key(|rule| rank(rule.problem.found("").serves)));
    }

    #[test]
    fn each_rule_speaks_for_its_own_trouble() {
        use NodeState::{Donor, Draining, Joining, Refused};
        let first = |change: fn(&mut GaleraStatus)| {
            examine(&status(change)).map(|found| (found.problem, found.state, found.serves))
        };
        let no = |problem, state| Some((problem, state, Serves::No));
        assert_eq!(first(|_| ()), None);
        assert_eq!(first(|s| s.cluster_status = "non-Primary".into()), no(Problem::NonPrimary, Refused));
        assert_eq!(first(|s| s.local_state = Some(1)), no(Problem::Joining, Joining));
        assert_eq!(first(|s| s.local_state = None), no(Problem::State, Refused));
        assert_eq!(first(|s| s.ready = false), no(Problem::NotReady, Refused));
        assert_eq!(first(|s| s.reject_queries = true), no(Problem::RejectQueries, Refused));
        assert_eq!(first(|s| s.read_only = true), no(Problem::ReadOnly, Refused));
        assert_eq!(first(|s| s.local_state = Some(2)), Some((Problem::Donor, Donor, Serves::Stays)));
        let donor_rejects: fn(&mut GaleraStatus) = |s| {
            s.local_state = Some(2);
            s.sst_donor_rejects = true;
        };
        assert_eq!(first(donor_rejects), no(Problem::DonorRejects, Donor));
        assert_eq!(first(|s| s.desync = true), Some((Problem::Desync, Refused, Serves::Leaves)));
        let maintenance = Some((Problem::Maintenance, Draining, Serves::Leaves));
        assert_eq!(first(|s| s.pxc_maint_mode = Some("SHUTDOWN".into())), maintenance);
    }

    #[test]
    fn a_synced_node_is_good_whatever_the_rules() {
        for (donor, read_only) in [(false, false), (false, true), (true, false), (true, true)] {
            assert_eq!(admit(&good(), Rules { donor, read_only, ..Rules::STRICT }), Ok(()));
        }
    }

    #[test]
    fn donors_are_good_when_the_asker_says_so() {
        let strict = Rules::default();
        let kind = Rules { donor: true, ..strict };
        for change in [
            |s: &mut GaleraStatus| s.local_state = Some(2),
            |s: &mut GaleraStatus| s.local_state = Some(3),
            |s: &mut GaleraStatus| s.desync = true,
        ] {
            let status = status(change);
            assert!(admit(&status, strict).is_err());
            assert_eq!(admit(&status, kind), Ok(()));
        }
        // But not one that itself reports that it rejects queries, or is behind.
        let rejects = status(|s| {
            s.local_state = Some(2);
            s.sst_donor_rejects = true;
        });
        assert_eq!(admit(&rejects, kind).unwrap_err().problem, Problem::DonorRejects);
        let behind = status(|s| {
            s.local_state = Some(3);
            s.ready = false;
        });
        assert_eq!(admit(&behind, kind).unwrap_err().problem, Problem::Joining);
    }

    #[test]
    fn what_is_forgiven_does_not_hide_what_is_not() {
        let both = status(|s| {
            s.read_only = true;
            s.local_state = Some(2);
        });
        let found = |donor, read_only| {
            admit(&both, Rules { donor, read_only, ..Rules::STRICT }).err().map(|f| f.problem)
        };
        assert_eq!(found(false, true), Some(Problem::Donor));
        assert_eq!(found(false, false), Some(Problem::Donor), "clustercheck asks for read_only last");
        assert_eq!(found(true, false), Some(Problem::ReadOnly));
        assert_eq!(found(true, true), None);
        assert_eq!(examine(&both).map(|f| f.problem), Some(Problem::ReadOnly));
    }

    #[test]
    fn an_inconsistent_node_is_not_told_as_cut_off() {
        let voted_out = status(|s| {
            s.cluster_status = "Disconnected".into();
            s.local_state = Some(5);
            s.local_state_comment = "Inconsistent".into();
        });
        let finding = admit(&voted_out, Rules::default()).unwrap_err();
        assert_eq!(finding.problem, Problem::NonPrimary);
        assert_eq!(
            finding.sentence,
            "is Inconsistent: its data differ from the group's, which it has left; it needs a full copy"
        );
    }

    #[test]
    fn a_node_outside_the_majority_is_never_good() {
        let alone = status(|s| s.cluster_status = "non-Primary".into());
        let kind = Rules { donor: true, read_only: true, drained: true };
        assert_eq!(admit(&alone, kind).unwrap_err().problem, Problem::NonPrimary);
        assert_eq!(
            admit(&GaleraStatus::default(), Rules::default()).unwrap_err().sentence,
            "is in a (not said) component: it cannot reach the majority"
        );
    }
}

//! What can be wrong with a node beside its own words ([`crate::health`] has the table of those): each row has a name, what it makes
//! of the node, how it is recognised and the sentence that says so. The first row that matches speaks; no row means the node is well.
//!
//! Enters: a node's belief and the newest view of the group. Leaves: a verdict.

use std::time::Duration;

use crate::belief::{Belief, Verdict};
use crate::fact::{GaleraStatus, Now};
use crate::health::{self, Finding, Serves};
use crate::settings::Settings;
use crate::view::NodeState;

/// The newest Primary view that any node told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupView {
    pub told_by: String,
    pub conf_id: u64,
    pub cluster_uuid: String,
    pub members: Vec<String>,
    /// When this view was first heard of.
    pub since: Now,
}

impl GroupView {
    /// The view is newer than the node's own, and does not have it.
    pub fn lacks(&self, node: &Belief) -> bool {
        let Some(status) = &node.status else { return false };
        node.listed_once
            && !self.members.is_empty()
            && self.conf_id > status.conf_id
            && self.cluster_uuid == status.cluster_uuid
            && !self.members.contains(&node.address)
    }
}

/// A node that others' view does not have is waited for so long, to say which view it is in.
const LEFT_WORD_WAIT: Duration = Duration::from_millis(100);

/// What a row may look at.
struct Sight<'a> {
    node: &'a Belief,
    status: &'a GaleraStatus,
    settings: &'a Settings,
    group: Option<&'a GroupView>,
    now: Now,
}

struct Problem {
    name: &'static str,
    state: NodeState,
    serves: Serves,
    matches: fn(&Sight) -> bool,
    sentence: fn(&Sight) -> String,
}

/// A length of time as sentences say it.
pub(crate) fn seconds(time: std::time::Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// What makes a node useless, whatever it said last.
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
        name: "unchecked",
        state: NodeState::Unknown,
        serves: Serves::No,
        matches: |s| s.node.status.is_none(),
        sentence: |_| "not yet checked, which counts as down".into(),
    },
    Problem {
        name: "evicted",
        state: NodeState::Refused,
        serves: Serves::No,
        matches: |s| {
            let uuid = &s.node.evicted_uuid;
            !uuid.is_empty() && *uuid == s.node.gcomm_uuid && !is(&s.status.cluster_status, "Primary")
        },
        sentence: |_| "was evicted from the group while it did not answer: restart it".into(),
    },
    Problem {
        name: "left",
        state: NodeState::Refused,
        serves: Serves::No,
        // Its own last word may be older than that view: it is asked, and has a moment to say which view it is in.
        matches: |s| {
            s.group.is_some_and(|group| {
                group.lacks(s.node)
                    && (s.node.leaving_since.is_some()
                        || s.node.answered_since(group.since)
                        || s.now > group.since + LEFT_WORD_WAIT)
            })
        },
        sentence: |s| match s.group {
            Some(group) => {
                format!("left the group: {}'s view {} does not have it", group.told_by, group.conf_id)
            }
            None => String::new(),
        },
    },
];

/// What is said of a node that works, before its own lesser words.
const WANING: &[Problem] = &[
    Problem {
        name: "shut_out",
        state: NodeState::Refused,
        serves: Serves::Leaves,
        matches: |s| s.node.shut_out >= s.settings.refusals_max,
        sentence: |s| format!("answers, but takes no new connections: {}", s.node.shut_out_why),
    },
    Problem {
        name: health::DRAINED,
        state: NodeState::Draining,
        serves: Serves::Leaves,
        matches: |s| s.node.drained(),
        sentence: |_| "drained by an operator".into(),
    },
];

/// What `node` is, and why.
pub(crate) fn judge(node: &Belief, settings: &Settings, group: Option<&GroupView>, now: Now) -> Verdict {
    let nothing = GaleraStatus::default();
    let status = node.status.as_ref().unwrap_or(&nothing);
    let sight = Sight { node, status, settings, group, now };
    let others = GONE.iter().chain(WANING).find(|problem| (problem.matches)(&sight)).map(|problem| Finding {
        problem: problem.name,
        state: problem.state,
        serves: problem.serves,
        sentence: (problem.sentence)(&sight),
    });
    let (state, serves, problem, reason) = match health::graver(others.clone(), health::examine(status)) {
        Some(found) => (found.state, found.serves, found.problem, found.sentence),
        None => (NodeState::Synced, Serves::Well, "none", "synced and writable".into()),
    };
    Verdict { state, serves, problem, reason, others }
}

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{NodeSettings, Writers};

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

    fn verdict(change: impl FnOnce(&mut Belief, &mut GaleraStatus)) -> (&'static str, NodeState, Serves) {
        let node = NodeSettings { name: "db1".into(), address: "h:1".into(), priority: 0 };
        let settings = Settings::new("shop", Writers::One, vec![node]);
        let mut belief = Belief::new("db1", "h:1", 0, None, Duration::ZERO);
        let mut status = good();
        change(&mut belief, &mut status);
        belief.status = Some(status);
        let group = GroupView {
            told_by: "db2".into(),
            conf_id: 4,
            cluster_uuid: String::new(),
            members: vec!["h:2".into()],
            since: Duration::ZERO,
        };
        let verdict = judge(&belief, &settings, Some(&group), Duration::from_secs(1));
        (verdict.problem, verdict.state, verdict.serves)
    }

    #[test]
    fn each_row_speaks_for_its_own_trouble() {
        use NodeState::{Dead, Donor, Draining, Joining, Refused, Silent, Synced};
        assert_eq!(verdict(|_, _| ()), ("none", Synced, Serves::Well));
        assert_eq!(verdict(|b, _| b.counts.refusals = 2), ("dead", Dead, Serves::No));
        assert_eq!(verdict(|b, _| b.counts.misses = 3), ("silent", Silent, Serves::No));
        assert_eq!(verdict(|b, _| b.rejected = Some((1045, "no".into()))), ("rejected", Refused, Serves::No));
        assert_eq!(verdict(|b, _| b.listed_once = true), ("left", Refused, Serves::No));
        assert_eq!(
            verdict(|_, s| s.cluster_status = "non-Primary".into()),
            ("non_primary", Refused, Serves::No)
        );
        assert_eq!(verdict(|_, s| s.local_state = Some(1)), ("joining", Joining, Serves::No));
        assert_eq!(verdict(|_, s| s.local_state = None), ("state", Refused, Serves::No));
        assert_eq!(verdict(|_, s| s.ready = false), ("not_ready", Refused, Serves::No));
        assert_eq!(verdict(|_, s| s.reject_queries = true), ("reject_queries", Refused, Serves::No));
        assert_eq!(verdict(|_, s| s.read_only = true), ("read_only", Refused, Serves::No));
        assert_eq!(verdict(|_, s| s.local_state = Some(2)), ("donor", Donor, Serves::Stays));
        let donor_rejects = |_: &mut Belief, s: &mut GaleraStatus| {
            s.local_state = Some(2);
            s.sst_donor_rejects = true;
        };
        assert_eq!(verdict(donor_rejects), ("donor_rejects", Donor, Serves::No));
        assert_eq!(verdict(|_, s| s.desync = true), ("desync", Refused, Serves::Leaves));
        assert_eq!(
            verdict(|_, s| s.pxc_maint_mode = Some("SHUTDOWN".into())),
            ("maintenance", Draining, Serves::Leaves)
        );
        assert_eq!(verdict(|b, _| b.shut_out = 2), ("shut_out", Refused, Serves::Leaves));
        assert_eq!(verdict(|b, _| b.sessions_max = Some(0)), ("drained", Draining, Serves::Leaves));
    }
}

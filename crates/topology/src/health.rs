//! May a node take traffic, by its own words: the one table of rules that the proxy, the health endpoint and the check command share.
//!
//! Enters: what a node said ([`GaleraStatus`]). Leaves: the first thing that speaks against it, and how gravely; or nothing.
//! `crate::problem` puts in front of this what others say of the node (it refuses, is silent, was drained); whoever only asks one
//! node has this alone. What clustercheck lets its user choose is a [`Rules`].

use std::time::Duration;

use crate::fact::GaleraStatus;
use crate::galera::reading::Channel;
use crate::view::NodeState;

/// What may be done with a node, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Serves {
    /// May be chosen.
    Well,
    /// Works and may stay; is not chosen while another is well (a donor).
    Stays,
    /// Works, and should hand over as soon as another can take it (maintenance, desync by an operator, drained).
    Leaves,
    /// Must not be used.
    No,
}

/// What the asker allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A node that feeds another, or was desynchronised, is good (clustercheck's third argument).
    pub donor: bool,
    /// A node with read_only set is good (clustercheck's fifth argument).
    pub read_only: bool,
    /// A node that an operator drained is good: for an HTTP check beside an agent check, which says `drain`. A balancer that hears a no
    /// from the one would cut what the other spares.
    pub drained: bool,
}

impl Rules {
    /// Nothing is forgiven.
    pub const STRICT: Self = Self { donor: false, read_only: false, drained: false };
}

impl Default for Rules {
    /// clustercheck's own: a donor is not good, a read-only node is.
    fn default() -> Self {
        Self { read_only: true, ..Self::STRICT }
    }
}

/// What may be asked about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// May it take traffic, as a member of a Galera cluster?
    Member(Rules),
    /// May it take writes? A Galera member that is synced and not read only; a server of a primary-replica setup that is not read
    /// only.
    Writer,
    /// Does it replicate, and is it at most so far behind? `None`: however far, as long as both threads run.
    Replica {
        /// The greatest lag that is allowed. Servers tell it in whole seconds.
        lag_max: Option<Duration>,
    },
}

/// All that one server said of itself.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Word {
    /// Status and variables; on a server without Galera only what such a server has.
    pub status: GaleraStatus,
    /// Its sources, or why it does not tell them.
    pub replication: Result<Vec<Channel>, String>,
}

/// What speaks against a node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The rule's name: `non_primary`, `donor`, ...
    pub problem: &'static str,
    /// What it makes of the node.
    pub state: NodeState,
    /// How gravely.
    pub serves: Serves,
    /// The sentence, to follow the node's name.
    pub sentence: String,
}

/// Which of the [`Rules`] forgives a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forgiven {
    Never,
    ByDonor,
    ByReadOnly,
}

struct Rule {
    name: &'static str,
    state: NodeState,
    serves: Serves,
    forgiven: Forgiven,
    matches: fn(&GaleraStatus) -> bool,
    sentence: fn(&GaleraStatus) -> String,
}

/// The name of the finding that an operator drained a node.
pub const DRAINED: &str = "drained";

/// Said of a server whose state nobody can know.
pub const NO_STATE: &str = "does not tell wsrep_local_state: is it a Galera node, and is wsrep_on set?";

/// The graver ones first.
const TABLE: &[Rule] = &[
    Rule {
        name: "non_primary",
        state: NodeState::Refused,
        serves: Serves::No,
        forgiven: Forgiven::Never,
        matches: |s| !is(&s.cluster_status, "Primary"),
        sentence: |s| format!("is in a {} component: it cannot reach the majority", shown(&s.cluster_status)),
    },
    Rule {
        name: "joining",
        state: NodeState::Joining,
        serves: Serves::No,
        forgiven: Forgiven::Never,
        matches: |s| s.local_state == Some(1) || (s.local_state == Some(3) && !s.ready),
        sentence: |s| format!("is catching up: {}", shown(&s.local_state_comment)),
    },
    Rule {
        name: "state",
        state: NodeState::Refused,
        serves: Serves::No,
        forgiven: Forgiven::Never,
        matches: |s| !matches!(s.local_state, Some(2..=4)),
        sentence: |s| match s.local_state {
            Some(state) => format!("is in state {state}: {}", shown(&s.local_state_comment)),
            None => NO_STATE.into(),
        },
    },
    Rule {
        name: "not_ready",
        state: NodeState::Refused,
        serves: Serves::No,
        forgiven: Forgiven::Never,
        matches: |s| !s.ready || !s.connected,
        sentence: |s| {
            let what = if s.ready { "wsrep_connected" } else { "wsrep_ready" };
            format!("says {what} is OFF")
        },
    },
    Rule {
        name: "reject_queries",
        state: NodeState::Refused,
        serves: Serves::No,
        forgiven: Forgiven::Never,
        matches: |s| s.reject_queries,
        sentence: |_| "rejects queries: wsrep_reject_queries is set".into(),
    },
    Rule {
        name: "read_only",
        state: NodeState::Refused,
        serves: Serves::No,
        forgiven: Forgiven::ByReadOnly,
        matches: |s| s.read_only,
        sentence: |_| "is read only: read_only is set".into(),
    },
    Rule {
        name: "donor_rejects",
        state: NodeState::Donor,
        serves: Serves::No,
        forgiven: Forgiven::Never,
        matches: |s| s.local_state == Some(2) && !s.desync && s.sst_donor_rejects,
        sentence: |_| {
            "feeds a joining node and rejects queries meanwhile: wsrep_sst_donor_rejects_queries is set"
                .into()
        },
    },
    Rule {
        name: "maintenance",
        state: NodeState::Draining,
        serves: Serves::Leaves,
        forgiven: Forgiven::Never,
        matches: |s| s.pxc_maint_mode.as_deref().is_some_and(|mode| !is(mode, "DISABLED")),
        sentence: |s| {
            format!("is in maintenance: pxc_maint_mode is {}", s.pxc_maint_mode.as_deref().unwrap_or(""))
        },
    },
    Rule {
        name: "desync",
        state: NodeState::Refused,
        serves: Serves::Leaves,
        forgiven: Forgiven::ByDonor,
        matches: |s| s.desync,
        sentence: |_| "desynchronised by an operator: wsrep_desync is ON".into(),
    },
    Rule {
        // A donor passes through this state on its way back to synced, and serves all the time.
        name: "joined",
        state: NodeState::Joining,
        serves: Serves::Stays,
        forgiven: Forgiven::ByDonor,
        matches: |s| s.local_state == Some(3),
        sentence: |s| format!("is catching up: {}", shown(&s.local_state_comment)),
    },
    Rule {
        name: "donor",
        state: NodeState::Donor,
        serves: Serves::Stays,
        forgiven: Forgiven::ByDonor,
        matches: |s| s.local_state == Some(2),
        sentence: |_| "feeds a joining node".into(),
    },
];

/// The first rule that speaks against a node that said this, whatever anybody might forgive.
pub fn examine(status: &GaleraStatus) -> Option<Finding> {
    TABLE.iter().find(|rule| (rule.matches)(status)).map(|rule| found(rule, status))
}

/// The same, less what `rules` forgive: `None` is "it may take traffic".
///
/// # Errors
/// What speaks against it.
pub fn admit(status: &GaleraStatus, rules: Rules) -> Result<(), Finding> {
    let first = |rules: Rules| {
        let forgiven = |rule: &Rule| match rule.forgiven {
            Forgiven::Never => false,
            Forgiven::ByDonor => rules.donor,
            Forgiven::ByReadOnly => rules.read_only,
        };
        TABLE.iter().find(|rule| !forgiven(rule) && (rule.matches)(status))
    };
    // As clustercheck, which looks at read_only last, and has other bytes for it.
    match first(Rules { read_only: true, ..rules }).or_else(|| first(rules)) {
        Some(rule) => Err(found(rule, status)),
        None => Ok(()),
    }
}

/// Of what others say against a node and what it says itself, what counts: the graver one, and others before the node.
pub fn graver(others: Option<Finding>, own: Option<Finding>) -> Option<Finding> {
    match (others, own) {
        (Some(others), Some(own)) if own.serves == Serves::No && others.serves != Serves::No => Some(own),
        (others, own) => others.or(own),
    }
}

/// Answers a question about a server from its own words.
///
/// # Errors
/// What speaks against it.
pub fn ask(word: &Word, question: Question) -> Result<(), Finding> {
    match question {
        Question::Member(rules) => admit(&word.status, rules),
        Question::Writer if is_member(&word.status) => admit(&word.status, Rules::STRICT),
        Question::Writer if word.status.read_only => {
            Err(refused("read_only", "is read only: read_only is set".into()))
        }
        Question::Writer => Ok(()),
        Question::Replica { lag_max } => match &word.replication {
            Err(why) => {
                Err(refused("replication_unknown", format!("does not tell whether it replicates: {why}")))
            }
            Ok(channels) if channels.is_empty() => {
                Err(refused("no_replica", "is not a replica: it has no source".into()))
            }
            Ok(channels) => channels.iter().try_for_each(|channel| follows(channel, lag_max)),
        },
    }
}

/// Whether it is part of a Galera cluster, be it that it hides its state: with wsrep_on = OFF a member tells no wsrep_local_state, and
/// keeps to itself what is written there. A server that never was in a cluster says none of this (seen on MariaDB 10.11).
fn is_member(status: &GaleraStatus) -> bool {
    status.local_state.is_some() || status.connected || status.ready || !status.cluster_uuid.is_empty()
}

/// Whether one source is followed closely enough.
fn follows(channel: &Channel, lag_max: Option<Duration>) -> Result<(), Finding> {
    let source = &channel.source;
    if !channel.io_running || !channel.sql_running {
        let thread = if channel.io_running { "applying" } else { "fetching" };
        let error = if channel.error.is_empty() { String::new() } else { format!(": {}", channel.error) };
        return Err(refused("replication_stopped", format!("is not {thread} what {source} sends{error}")));
    }
    match (channel.lag_s, lag_max) {
        (None, Some(_)) => {
            Err(refused("lag_unknown", format!("does not know how far it is behind {source}")))
        }
        (Some(lag), Some(most)) if Duration::from_secs(lag) > most => Err(refused(
            "lag",
            format!("is {lag} s behind {source}, and {} s are allowed", most.as_secs_f64()),
        )),
        _ => Ok(()),
    }
}

/// Something that makes a node, or whoever is asked about, unfit.
pub fn refused(problem: &'static str, sentence: String) -> Finding {
    Finding { problem, state: NodeState::Refused, serves: Serves::No, sentence }
}

fn found(rule: &Rule, status: &GaleraStatus) -> Finding {
    Finding { problem: rule.name, state: rule.state, serves: rule.serves, sentence: (rule.sentence)(status) }
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
        assert!(TABLE.is_sorted_by_key(|rule| rank(rule.serves)));
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
        // But not one that says itself that it rejects queries, or is still behind.
        let rejects = status(|s| {
            s.local_state = Some(2);
            s.sst_donor_rejects = true;
        });
        assert_eq!(admit(&rejects, kind).unwrap_err().problem, "donor_rejects");
        let behind = status(|s| {
            s.local_state = Some(3);
            s.ready = false;
        });
        assert_eq!(admit(&behind, kind).unwrap_err().problem, "joining");
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
        assert_eq!(found(false, true), Some("donor"));
        assert_eq!(found(false, false), Some("donor"), "clustercheck asks for read_only last");
        assert_eq!(found(true, false), Some("read_only"));
        assert_eq!(found(true, true), None);
        assert_eq!(examine(&both).map(|f| f.problem), Some("read_only"));
    }

    #[test]
    fn a_node_outside_the_majority_is_never_good() {
        let alone = status(|s| s.cluster_status = "non-Primary".into());
        let kind = Rules { donor: true, read_only: true, drained: true };
        assert_eq!(admit(&alone, kind).unwrap_err().problem, "non_primary");
        assert_eq!(
            admit(&GaleraStatus::default(), Rules::default()).unwrap_err().sentence,
            "is in a (not said) component: it cannot reach the majority"
        );
    }

    #[test]
    fn roles_of_a_primary_and_its_replica() {
        let of = |question, channels: &[Channel], read_only| {
            let status = GaleraStatus { read_only, ..GaleraStatus::default() };
            let word = Word { status, replication: Ok(channels.to_vec()) };
            ask(&word, question).err().map(|found| found.problem)
        };
        let follows = Channel {
            source: "db1:3306".into(),
            io_running: true,
            sql_running: true,
            lag_s: Some(2),
            ..Channel::default()
        };
        let replica = |seconds| Question::Replica { lag_max: Some(Duration::from_secs(seconds)) };
        assert_eq!(of(Question::Writer, &[], false), None);
        assert_eq!(of(Question::Writer, &[], true), Some("read_only"));
        assert_eq!(of(replica(2), &[], true), Some("no_replica"));
        assert_eq!(of(replica(2), std::slice::from_ref(&follows), true), None);
        assert_eq!(of(replica(1), std::slice::from_ref(&follows), true), Some("lag"));
        let unsure = Channel { lag_s: None, ..follows.clone() };
        assert_eq!(of(replica(1), &[follows.clone(), unsure.clone()], true), Some("lag"));
        assert_eq!(of(replica(9), &[follows.clone(), unsure.clone()], true), Some("lag_unknown"));
        assert_eq!(of(Question::Replica { lag_max: None }, &[unsure], true), None);
        let stopped = Channel { sql_running: false, error: "1062".into(), ..follows };
        assert_eq!(of(replica(9), &[stopped], true), Some("replication_stopped"));
    }

    #[test]
    fn a_galera_writer_must_be_a_good_member() {
        let word = |status| Word { status, replication: Ok(vec![]) };
        assert_eq!(ask(&word(good()), Question::Writer), Ok(()));
        for change in
            [|s: &mut GaleraStatus| s.read_only = true, |s: &mut GaleraStatus| s.local_state = Some(2)]
        {
            assert!(ask(&word(status(change)), Question::Writer).is_err());
        }
        // Nor is it one when it only hides its state.
        for change in [
            |_: &mut GaleraStatus| {},
            |s: &mut GaleraStatus| {
                (s.ready, s.connected) = (false, false);
                s.cluster_uuid = "8576eaf8-e5e3-11f1-b207-2ede51331bfd".into();
            },
        ] {
            let mut hidden = status(change);
            hidden.local_state = None;
            assert!(ask(&word(hidden), Question::Writer).is_err());
        }
    }
}

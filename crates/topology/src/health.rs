//! Whether a node may take traffic, by its own status: the questions, the findings, and the answer that the proxy, the health endpoint and
//! the check command share.
//!
//! Enters: a node's status. Leaves: the first finding against it, and how serious that is; or nothing. Each kind of cluster has a table of
//! rules ([`crate::galera::words`]). Before these, `crate::problem` applies the findings that do not come from the node itself (it refuses
//! connections, is silent, was drained). Whoever asks a single node has only the tables. What clustercheck lets its user choose is a
//! [`Rules`].

use std::time::Duration;

pub use crate::finding::{Finding, Problem, Rules, Serves, graver};
use crate::galera::status::GaleraStatus;
use crate::galera::words::{admit, is_member};
use crate::replication::Channel;

/// A question about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// May it take traffic, as a member of a Galera cluster?
    Member(Rules),
    /// May it take writes? A Galera member that is synced and not read only; a server of a primary-replica setup that is not read
    /// only.
    Writer,
    /// Does it replicate, and is it no further behind than this? `None`: any lag, as long as both threads run.
    Replica {
        /// The greatest lag that is allowed. Servers report it in whole seconds.
        lag_max: Option<Duration>,
    },
}

/// All that one server reported of itself.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Word {
    /// Status and variables; on a server without Galera only what such a server has.
    pub status: GaleraStatus,
    /// Its channels, or why it does not report them.
    pub replication: Result<Vec<Channel>, String>,
}

/// Answers a question about a server from its own status.
///
/// # Errors
/// The finding against it.
pub fn ask(word: &Word, question: Question) -> Result<(), Finding> {
    match question {
        Question::Member(rules) => admit(&word.status, rules),
        Question::Writer if is_member(&word.status) => admit(&word.status, Rules::STRICT),
        Question::Writer if word.status.read_only => {
            Err(Problem::ReadOnly.found("is read only: read_only is set"))
        }
        Question::Writer => Ok(()),
        Question::Replica { lag_max } => match &word.replication {
            Err(why) => {
                Err(Problem::ReplicationUnknown.found(format!("does not tell whether it replicates: {why}")))
            }
            Ok(channels) if channels.is_empty() => {
                Err(Problem::NoReplica.found("is not a replica: it has no source"))
            }
            Ok(channels) => channels.iter().try_for_each(|channel| follows(channel, lag_max)),
        },
    }
}

/// Whether one channel's lag is within the limit.
fn follows(channel: &Channel, lag_max: Option<Duration>) -> Result<(), Finding> {
    let source = &channel.source;
    if !channel.io_running || !channel.sql_running {
        let thread = if channel.io_running { "applying" } else { "fetching" };
        let error = if channel.error.is_empty() { String::new() } else { format!(": {}", channel.error) };
        return Err(Problem::ReplicationStopped.found(format!("is not {thread} what {source} sends{error}")));
    }
    match (channel.lag_s, lag_max) {
        (None, Some(_)) => {
            Err(Problem::LagUnknown.found(format!("does not know how far it is behind {source}")))
        }
        (Some(lag), Some(most)) if Duration::from_secs(lag) > most => Err(Problem::Lag
            .found(format!("is {lag} s behind {source}, and {} s are allowed", most.as_secs_f64()))),
        _ => Ok(()),
    }
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
        assert_eq!(of(Question::Writer, &[], true), Some(Problem::ReadOnly));
        assert_eq!(of(replica(2), &[], true), Some(Problem::NoReplica));
        assert_eq!(of(replica(2), std::slice::from_ref(&follows), true), None);
        assert_eq!(of(replica(1), std::slice::from_ref(&follows), true), Some(Problem::Lag));
        let unsure = Channel { lag_s: None, ..follows.clone() };
        assert_eq!(of(replica(1), &[follows.clone(), unsure.clone()], true), Some(Problem::Lag));
        assert_eq!(of(replica(9), &[follows.clone(), unsure.clone()], true), Some(Problem::LagUnknown));
        assert_eq!(of(Question::Replica { lag_max: None }, &[unsure], true), None);
        let stopped = Channel { sql_running: false, error: "1062".into(), ..follows };
        assert_eq!(of(replica(9), &[stopped], true), Some(Problem::ReplicationStopped));
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

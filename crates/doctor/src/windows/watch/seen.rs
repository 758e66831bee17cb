//! One node, as it was seen until now: where it was when it took part last, and what it keeps for others.

use std::time::Duration;

use measure::recovery::absence::Absence;
use measure::recovery::copied::Copied;
use measure::recovery::galera::Donor;
use measure::sample::{Counters, Galera, Sample};
use protocol::gtid::{Family, Position};
use tokio::time::Instant;
use topology::status::Status;
use topology::view::{NodeState, NodeView};

use crate::windows::keeps::Keeps;
use crate::windows::remembered::LastSeen;

/// What a node said longer ago than this does not count as said now.
const FRESH_MS: u64 = 5_000;
/// Between two questions for the sizes of a node's tablespaces.
const DATA_EVERY: Duration = Duration::from_secs(600);
/// Of a member that has no data of any cluster.
const NO_HISTORY: &str = "00000000-0000-0000-0000-000000000000";

/// See the head of this file.
#[derive(Default)]
pub(super) struct Node {
    pub(super) absence: Absence<At>,
    /// Its way back.
    pub(super) copied: Copied,
    pub(super) keeps: Option<Keeps>,
    /// When it was asked last for what it keeps, and for the sizes of its tablespaces.
    asked: Option<Instant>,
    asked_data: Option<Instant>,
    /// It did not answer that, or a node has gone or come back since.
    pub(super) is_asked_soon: bool,
    /// It did not answer that last time.
    has_failed: bool,
    /// The oldest writeset that it kept when it was first seen in this life, and its uptime at the last look.
    first_downto: Option<u64>,
    uptime_s: u64,
    /// Starts of its server that were seen.
    pub(super) starts: u32,
    /// Bytes of binary logs that it has written since the first look at them; the same a second, between the last two looks.
    pub(super) written: u64,
    pub(super) written_per_s: Option<f64>,
    /// When it said what it keeps.
    told: Option<Instant>,
}

/// Up to where a node had everything, when it was there last.
#[derive(Clone, Default)]
pub(super) struct At {
    pub(super) seqno: Option<u64>,
    /// `wsrep_cluster_state_uuid`.
    pub(super) history: Option<String>,
    pub(super) gtids: Option<Position>,
    /// What each node had written of binary logs then, in the configuration's order.
    pub(super) written: Vec<u64>,
    /// What each had sent and received since its start, in the configuration's order; empty when that is not known.
    pub(super) writesets: Vec<Option<Counted>>,
}

impl From<&LastSeen> for At {
    fn from(seen: &LastSeen) -> Self {
        let parsed = |family| seen.gtids.as_deref().and_then(|text| Position::parse(family, text).ok());
        Self {
            seqno: seen.seqno,
            history: seen.history.clone(),
            gtids: parsed(Family::MariaDb).or_else(|| parsed(Family::MySql)),
            ..Self::default()
        }
    }
}

impl At {
    /// To be kept on disk.
    pub(super) fn seen(&self, at_unix_ms: u64) -> LastSeen {
        LastSeen {
            at_unix_ms,
            seqno: self.seqno,
            history: self.history.clone(),
            gtids: self.gtids.as_ref().map(ToString::to_string),
        }
    }
}

impl Node {
    /// Takes its counters.
    pub(super) fn see(&mut self, sample: &Sample) {
        let Counters { uptime_s, galera, .. } = sample.counters;
        let uptime_s = uptime_s.unwrap_or(0);
        if uptime_s < self.uptime_s {
            // Another life of the server: it has another gcache, and maybe other settings.
            (self.first_downto, self.asked, self.asked_data) = (None, None, None);
            self.starts += 1;
        }
        self.uptime_s = uptime_s;
        let downto = galera.and_then(|galera| galera.cached_downto).filter(|downto| *downto > 0);
        self.first_downto = self.first_downto.or(downto);
    }

    /// Whether it is to be asked for what it keeps, when it is asked every so often.
    pub(super) fn is_due(&self, now: Instant, every: Duration) -> bool {
        self.asked.is_none_or(|asked| now.duration_since(asked) >= every)
    }

    /// It is asked now; whether for the sizes of its tablespaces, too. `may_tell_data`: it should be asked for these at all.
    pub(super) fn ask(&mut self, now: Instant, may_tell_data: bool) -> bool {
        (self.asked, self.is_asked_soon) = (Some(now), false);
        let is_due = self.asked_data.is_none_or(|asked| now.duration_since(asked) >= DATA_EVERY);
        let with_data = may_tell_data && is_due;
        if with_data {
            self.asked_data = Some(now);
        }
        with_data
    }

    /// What it keeps, as it has just said; `with_data`: it was asked for the sizes of its tablespaces, too.
    pub(super) fn take(&mut self, mut keeps: Keeps, with_data: bool, now: Instant) {
        let before = self.keeps.take();
        if !with_data {
            // What was not asked this time is what it was.
            keeps.data_bytes = before.as_ref().and_then(|before| before.data_bytes);
            keeps.is_data_hidden = before.as_ref().is_some_and(|before| before.is_data_hidden);
        }
        let (earlier, later) = (before.and_then(|before| before.binlogs), keeps.binlogs.as_ref());
        if let Some((earlier, later)) = earlier.as_ref().zip(later) {
            let grown = later.grown_since(earlier);
            self.written += grown;
            let between = self.told.map(|told| now.duration_since(told).as_secs_f64());
            self.written_per_s = between.filter(|s| *s > 0.0).map(|s| grown as f64 / s);
        }
        self.told = Some(now);
        self.keeps = Some(keeps);
    }

    /// It did not answer.
    pub(super) fn failed(&mut self) {
        (self.is_asked_soon, self.has_failed) = (true, true);
        if self.keeps.is_none() {
            self.asked_data = None;
        }
    }

    /// It has neither said what it keeps nor failed to.
    pub(super) fn has_told_nothing(&self) -> bool {
        self.keeps.is_none() && !self.has_failed
    }

    /// What it could send as a member, once its gcache's size is known.
    pub(super) fn donor(&self, said: &Galera) -> Option<Donor> {
        let cached_downto = said.cached_downto.unwrap_or(u64::MAX);
        let writesets = said.replicated? + said.received?;
        Some(Donor {
            last_committed: said.last_committed?,
            cached_downto,
            gcache_bytes: self.keeps.as_ref()?.gcache_bytes?,
            is_dropping: self
                .first_downto
                .is_some_and(|first| first < cached_downto && cached_downto != u64::MAX),
            mean_bytes: writeset_bytes(said)
                .filter(|_| writesets > 0)
                .map(|bytes| bytes as f64 / writesets as f64),
        })
    }
}

/// Bytes of writesets that a member has sent and received since its start.
pub(super) fn writeset_bytes(said: &Galera) -> Option<u64> {
    Some(said.replicated_bytes? + said.received_bytes?)
}

/// Writesets that a member has sent and received since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    /// How many starts of the server were seen: the counter begins at 0 with each.
    pub(super) start: u32,
    pub(super) bytes: u64,
}

/// How much was written since then, bytes: the most that any one of these has seen. `None` when none of them can tell, as after its own restart.
pub(super) fn grown(then: &[Option<Counted>], now: &[Option<Counted>]) -> Option<u64> {
    let of_one = |then: Counted, now: Counted| {
        if now.start == then.start { now.bytes.checked_sub(then.bytes) } else { None }
    };
    then.iter().zip(now).filter_map(|(then, now)| of_one((*then)?, (*now)?)).max()
}

/// Whose history the member's data are of.
pub(super) fn history(node: &NodeView) -> Option<String> {
    let uuid = &node.facts.as_ref()?.galera()?.cluster_uuid;
    Some(uuid.clone()).filter(|uuid| !uuid.is_empty() && uuid != NO_HISTORY)
}

/// It answers.
pub(super) fn is_fresh(node: &NodeView) -> bool {
    !matches!(node.state, NodeState::Unknown | NodeState::Silent | NodeState::Dead)
        && node.answered_ms_ago.is_some_and(|ago| ago <= FRESH_MS)
}

/// Its binary logs have what others need: it is the primary, or writes what it applies to its own.
pub(super) fn keeps_of_others(node: &NodeView) -> bool {
    let facts = node.facts.as_ref().and_then(Status::replication);
    node.writer || facts.is_some_and(|facts| facts.log_replica_updates)
}

/// Up to where it has everything, by its last answer.
pub(super) fn gtids(node: &NodeView) -> Option<&Position> {
    node.facts.as_ref()?.replication()?.position.as_ref()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_written_is_counted_by_those_that_can() {
        let at = |start, bytes| Some(Counted { start, bytes });
        assert_eq!(grown(&[at(0, 100), at(0, 90), None], &[at(0, 130), None, at(0, 5)]), Some(30));
        assert_eq!(grown(&[at(0, 100), at(0, 90)], &[at(1, 20), at(0, 91)]), Some(1), "the first restarted");
        assert_eq!(grown(&[at(0, 100)], &[at(1, 150)]), None, "it restarted, and has written more since");
        assert_eq!(grown(&[], &[at(0, 20)]), None, "not known from an earlier run");
    }

    #[tokio::test]
    async fn the_sizes_of_tablespaces_are_asked_for_rarely() {
        let (mut node, now) = (Node::default(), Instant::now());
        let at = |s| now + Duration::from_secs(s);
        assert!(node.is_due(now, DATA_EVERY) && node.ask(now, true));
        node.take(Keeps { data_bytes: Some(7), ..Keeps::default() }, true, now);
        assert!(!node.is_due(at(9), Duration::from_secs(10)) && node.is_due(at(10), Duration::from_secs(10)));
        assert!(!node.ask(at(10), true), "not for this again");
        node.take(Keeps::default(), false, at(10));
        assert_eq!(node.keeps.as_ref().unwrap().data_bytes, Some(7));
        assert!(!node.ask(at(601), false) && node.ask(at(602), true));
    }
}

//! How old a replica's data is: an upper bound that does not depend on what the replica says of its lag.
//!
//! ```text
//!   the primary, asked at time a: position P        the replica, asked at any time: it has applied P
//!   └── then the replica has all that the primary had at a: its data is no older than a
//! ```
//!
//! Seconds_Behind_Master is of no use for that: it is the age of what is being applied, and 0 while nothing new comes, be it since the
//! I/O thread hangs. Here both servers are asked for their positions, and no server's clock is used.
//!
//! The age is counted up to the primary's last answer: while the primary is lost, replicas do not grow older.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::gtid::Position;

use super::reports::answers;
use super::status::ReplicationStatus;
use crate::NodeId;
use crate::core::Core;
use crate::nodes::ById;
use crate::time::Now;

/// At most this many reports of the primary are kept for the time of the greatest age.
const WORDS_IN_LAG_MAX: u32 = 500;

/// How old each replica is.
#[derive(Clone, Debug)]
pub(crate) struct Ages {
    /// What the primary had, oldest first; `asked` is the time of the last report of that position.
    words: VecDeque<(Now, Position)>,
    /// The primary's newest report, also if it is too close to the one before to be kept.
    last: Option<(Now, Position)>,
    replicas: ById<Replica>,
}

#[derive(Clone, Debug, Default)]
struct Replica {
    /// What it has applied, by its last report.
    applied: Option<Position>,
    /// It has all that the primary had at that time.
    has_all_of: Option<Now>,
}

impl Ages {
    pub fn new(nodes: usize) -> Self {
        Self { words: VecDeque::new(), last: None, replicas: ById::new(nodes) }
    }

    /// The configuration has that node from now on.
    pub fn added(&mut self, id: NodeId) {
        self.replicas.put(id, Replica::default());
    }

    /// A server reported its position; it was asked at `asked`. `lag_max`: ages above it need not be distinguished.
    pub fn heard(
        &mut self,
        is_primary: bool,
        id: NodeId,
        status: &ReplicationStatus,
        asked: Now,
        lag_max: Duration,
    ) {
        let Some(position) = status.position.clone() else { return };
        if is_primary && !status.read_only && status.channels.is_empty() {
            self.primary_said(position, asked, lag_max);
        }
        self.replicas[id].applied = status.position.clone();
        for replica in self.replicas.iter_mut() {
            let Some(applied) = &replica.applied else { continue };
            let has = |word: &&(Now, Position)| applied.contains(&word.1).unwrap_or(false);
            let newest = self.last.iter().chain(self.words.iter().rev()).find(has).map(|(at, _)| *at);
            replica.has_all_of = replica.has_all_of.max(newest);
        }
    }

    fn primary_said(&mut self, position: Position, asked: Now, lag_max: Duration) {
        let gap = lag_max / WORDS_IN_LAG_MAX;
        match self.words.back_mut() {
            Some((at, kept)) if *kept == position => *at = (*at).max(asked),
            Some((at, _)) if asked < *at + gap => {}
            _ => self.words.push_back((asked, position.clone())),
        }
        self.last = Some((asked, position));
        // One report older than the limit is kept, so that a replica beyond the limit still has an age.
        let oldest = asked.saturating_sub(lag_max * 2);
        while self.words.get(1).is_some_and(|(at, _)| *at < oldest) {
            self.words.pop_front();
        }
    }

    /// The primary's position in its last report, and when that was asked for.
    pub fn primary(&self) -> Option<(&Position, Now)> {
        self.last.as_ref().map(|(at, position)| (position, *at))
    }

    /// The age of the replica's data at the time of the primary's last report.
    pub fn lag(&self, id: NodeId) -> Option<Duration> {
        let (last, _) = self.last.as_ref()?;
        let has = self.replicas[id].has_all_of?;
        Some(last.saturating_sub(has))
    }

    /// How long ago the primary's last report was asked for; zero while the primary does not answer.
    pub fn since_primary(&self, now: Now, primary: Option<NodeId>, core: &Core) -> Duration {
        let is_there = primary.is_some_and(|id| answers(core.node(id)));
        match &self.last {
            Some((last, _)) if is_there => now.saturating_sub(*last),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::Channel;
    use protocol::gtid::Family;

    const PRIMARY: NodeId = NodeId(0);
    const REPLICA: NodeId = NodeId(1);
    const S: Duration = Duration::from_secs(1);

    struct Story(Ages);

    impl Story {
        fn says(&mut self, id: NodeId, position: &str, asked: Now) {
            let channels = if id == PRIMARY { vec![] } else { vec![Channel::default()] };
            let position = Position::parse(Family::MariaDb, position).ok();
            let status = ReplicationStatus {
                read_only: id != PRIMARY,
                position,
                channels,
                ..ReplicationStatus::default()
            };
            self.0.heard(id == PRIMARY, id, &status, asked, 5 * S);
        }

        fn lag(&self) -> Option<u64> {
            self.0.lag(REPLICA).map(|lag| lag.as_secs())
        }
    }

    #[test]
    fn it_is_as_old_as_the_last_word_of_the_primary_that_it_has_all_of() {
        let mut story = Story(Ages::new(2));
        story.says(REPLICA, "0-1-5", S);
        assert_eq!(story.lag(), None, "nobody knows what the primary has");
        story.says(PRIMARY, "0-1-5", 2 * S);
        assert_eq!(story.lag(), Some(0));
        story.says(PRIMARY, "0-1-9", 3 * S);
        assert_eq!(story.lag(), Some(1), "it may lack what was written a second ago");
        story.says(PRIMARY, "0-1-12", 6 * S);
        assert_eq!(story.lag(), Some(4));
        story.says(REPLICA, "0-1-10", 7 * S);
        assert_eq!(story.lag(), Some(3), "it has what the primary had at 3 s");
        story.says(REPLICA, "0-1-12", 8 * S);
        assert_eq!(story.lag(), Some(0));
    }

    #[test]
    fn one_that_gets_nothing_new_grows_old_only_when_there_is_something_new() {
        let mut story = Story(Ages::new(2));
        story.says(PRIMARY, "0-1-5", S);
        story.says(REPLICA, "0-1-5", S);
        story.says(PRIMARY, "0-1-5", 60 * S);
        assert_eq!(story.lag(), Some(0), "nothing was written");
        for at in 61..600 {
            story.says(PRIMARY, &format!("0-1-{at}"), u32::try_from(at).unwrap() * S);
            story.says(REPLICA, "0-1-5", u32::try_from(at).unwrap() * S);
        }
        assert_eq!(story.lag(), Some(539));
        assert!(story.0.words.len() < 20, "those that are much too old are forgotten");
        story.says(REPLICA, "0-1-300", 600 * S);
        assert_eq!(story.lag(), Some(539), "nobody knows any more how old that is: no better than it was");
        story.says(REPLICA, "0-1-599", 600 * S);
        assert_eq!(story.lag(), Some(0));
    }

    #[test]
    fn a_primary_that_is_read_only_or_follows_says_nothing_of_others() {
        let mut story = Story(Ages::new(2));
        story.says(PRIMARY, "0-1-5", S);
        story.says(REPLICA, "0-1-5", S);
        let status = ReplicationStatus {
            read_only: true,
            position: Position::parse(Family::MariaDb, "0-1-9").ok(),
            ..ReplicationStatus::default()
        };
        story.0.heard(true, PRIMARY, &status, 9 * S, 5 * S);
        assert_eq!(story.lag(), Some(0));
    }
}

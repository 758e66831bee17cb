//! Does a node that answers commit? A heartbeat, one small row a second on the writer, and what its server says of the sessions while one is
//! waited for.
//!
//! ```text
//!   Committed ──> nothing is known against it
//!   Waits, Failed ──> since the first of them, as long as the reason is one that stops every commit ──> age
//!   Untold ──> nothing is known at all
//! ```
//!
//! Enters: [`Beat`]s. Leaves: for how long the node has not committed, and why. Invariant: what stops the heartbeat alone, what somebody else
//! is the cause of (a replica that does not acknowledge), and what is under way (a large commit being written) is never an age.

pub mod sql;

use std::time::Duration;

use crate::fact::Now;
use crate::problem::seconds;

/// What may be set about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Between two heartbeats; zero: none.
    pub interval: Duration,
    /// The schema of its table.
    pub schema: String,
    /// A node that has not committed for so long is given up, if another can write.
    pub stuck_max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            schema: "understudy".to_owned(),
            stuck_max: Duration::from_secs(3),
        }
    }
}

/// What came of a heartbeat, or is known of one that is out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The row that was sent at `asked` is committed.
    Committed {
        /// When it was sent.
        asked: Now,
    },
    /// The one that was sent at `asked` is not answered yet. Told again and again.
    Waits {
        /// When it was sent.
        asked: Now,
        /// What it waits for, by the server's own word.
        stall: Stall,
    },
    /// The server could not write it, since there is no space left.
    Failed {
        /// When it was sent.
        asked: Now,
    },
    /// None is out, or nothing can be learned of it.
    Untold,
}

/// A client's commit that a node has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The node's number of the connection.
    pub connection: u32,
    /// When it was sent.
    pub asked: Now,
}

/// What is to be learned of a node's commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// It is to get heartbeats.
    pub beats: bool,
    /// The clients' commits there that are not answered, the oldest first: where no heartbeat can be had, these stand for it.
    pub commits: Vec<Commit>,
}

/// What a heartbeat waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stall {
    /// Commits wait for space on a full disk.
    Space,
    /// A session holds FLUSH TABLES WITH READ LOCK, or the like of it.
    GlobalLock,
    /// Commits do not end, and nothing is being written.
    Stuck,
    /// Commits wait for a replica to acknowledge: it is not this server that is slow.
    Acknowledgement,
    /// Only the heartbeat's own table cannot be locked.
    OwnTable,
    /// Commits wait, and something is being written: a large transaction, or a slow disk.
    Writing,
    /// The server did not say.
    Unknown,
}

impl Stall {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Space,
        Self::GlobalLock,
        Self::Stuck,
        Self::Acknowledgement,
        Self::OwnTable,
        Self::Writing,
        Self::Unknown,
    ];

    /// As in JSON and in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::GlobalLock => "global_lock",
            Self::Stuck => "stuck",
            Self::Acknowledgement => "acknowledgement",
            Self::OwnTable => "own_table",
            Self::Writing => "writing",
            Self::Unknown => "unknown",
        }
    }

    /// It stops every commit there, and the cause is the server's own.
    pub fn counts(self) -> bool {
        matches!(self, Self::Space | Self::GlobalLock | Self::Stuck)
    }

    /// To end a sentence.
    fn clause(self) -> &'static str {
        match self {
            Self::Space => "its commits wait for space on a full disk",
            Self::GlobalLock => "a session holds a lock on everything (FLUSH TABLES WITH READ LOCK)",
            Self::Stuck => "its commits do not end, and nothing is written",
            Self::Acknowledgement => "its commits wait for a replica to acknowledge",
            Self::OwnTable => "the table of the heartbeat cannot be locked",
            Self::Writing => "its commits wait for one that is being written",
            Self::Unknown => "it does not say why",
        }
    }
}

/// So a session's state begins whose commit is under way, or whose change waits for a lock on everything. The last three are MySQL's (its manual,
/// "General Thread States").
const AT_COMMIT: &[&str] = &[
    "Commit",
    "Waiting for backup lock",
    "Waiting for certification",
    "Waiting for global read lock",
    "Waiting for prior transaction to commit",
    "Waiting for semi-sync ACK",
    "Waiting for someone to free space",
    "Waiting for commit lock",
    "waiting for handler commit",
];

/// Whether a client's session that has sent a change or a COMMIT has come to its commit, by its state.
pub fn is_at_commit(state: &str) -> bool {
    AT_COMMIT.iter().any(|text| state.starts_with(text))
}

/// What a server shows of its sessions while a heartbeat waits.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The state of the heartbeat's own session.
    pub own: String,
    /// Where that waits for a lock on everything: a statement that changes rows would wait, too. Many such locks stop only table changes and
    /// LOCK TABLES, as that of a backup does for minutes (BACKUP STAGE BLOCK_DDL).
    pub changes_wait: bool,
    /// The states of others that wait at a commit, of any account.
    pub others: Vec<String>,
    /// Bytes that went to its logs: grows while anything is being written.
    pub written: u64,
    /// Galera: the commit of a transaction of many rows waits for the group. All others on this node wait until it is sent, and on the others
    /// until it is applied there.
    pub is_large: bool,
}

impl Sessions {
    /// The heartbeat waits for a lock on everything.
    pub fn waits_for_everything(&self) -> bool {
        ["Waiting for backup lock", "Waiting for global read lock", "Waiting for commit lock"]
            .iter()
            .any(|text| self.own.starts_with(text))
    }
}

/// So long a large transaction may take to be sent to a Galera group before it counts as one that hangs like the others.
const LARGE_FOR: Duration = Duration::from_secs(30);

/// Why a heartbeat of a Galera node waits, where none has been answered for `time`. Whether it is the whole group that waits, another member's commit will show.
pub fn stall_of_member(seen: &Sessions, before: Option<&Sessions>, time: Duration) -> Stall {
    match stall(seen, before) {
        Stall::Unknown | Stall::Writing | Stall::Stuck if seen.is_large && time < LARGE_FOR => Stall::Writing,
        Stall::Unknown | Stall::Writing => Stall::Stuck,
        other => other,
    }
}

/// Why a heartbeat waits; `before`: what was seen a moment ago of the same heartbeat.
pub fn stall(seen: &Sessions, before: Option<&Sessions>) -> Stall {
    let says =
        |text: &str| seen.own.starts_with(text) || seen.others.iter().any(|state| state.starts_with(text));
    if says("Waiting for semi-sync ACK") {
        Stall::Acknowledgement
    } else if says("Waiting for someone to free space") {
        Stall::Space
    } else if seen.waits_for_everything() {
        if seen.changes_wait { Stall::GlobalLock } else { Stall::OwnTable }
    } else if seen.own.starts_with("Waiting for table") {
        Stall::OwnTable
    } else {
        match before {
            None => Stall::Unknown,
            Some(before) if before.written != seen.written => Stall::Writing,
            Some(_) => Stall::Stuck,
        }
    }
}

/// A report that is older than this says nothing.
const TOLD_FOR: Duration = Duration::from_secs(4);
/// Nor does one of the clients' commits, which comes twice a second.
const COMMITS_TOLD_FOR: Duration = Duration::from_secs(2);

/// What is held true of a node's commits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    /// When the last heartbeat that ended well was sent.
    pub committed: Option<Now>,
    waits: Option<Waits>,
    /// The clients' commits that were not answered, and when that was told.
    commits: Option<(Now, Vec<Commit>)>,
    /// When it was last told that one waits.
    waited: Option<Now>,
    /// This process did not run before that: nothing is older.
    awake_since: Now,
    /// It is given up, for this: another can write.
    given_up: Option<(String, Stall)>,
}

#[derive(Clone, Debug)]
struct Waits {
    since: Now,
    told: Now,
    stall: Stall,
}

impl Pulse {
    pub fn beat(&mut self, now: Now, beat: &Beat) {
        let (asked, stall) = match *beat {
            Beat::Committed { asked } => {
                *self = Self {
                    committed: Some(asked),
                    awake_since: self.awake_since,
                    waited: self.waited,
                    commits: self.commits.take(),
                    ..Self::default()
                };
                return;
            }
            Beat::Untold => {
                self.waits = None;
                return;
            }
            Beat::Waits { asked, stall } => (asked, stall),
            Beat::Failed { asked } => (asked, Stall::Space),
        };
        let before = self.waits.take().filter(|waits| now.saturating_sub(waits.told) < TOLD_FOR);
        let since = match &before {
            // What did not count until now does not make it older.
            Some(waits) if stall.counts() && !waits.stall.counts() && waits.stall != Stall::Unknown => now,
            Some(waits) => waits.since,
            None => asked.max(self.awake_since),
        };
        self.waited = Some(now);
        self.waits = Some(Waits { since, told: now, stall });
    }

    /// These commits of clients, each with its age, are not answered.
    pub fn commits_wait(&mut self, now: Now, commits: &[(u32, Duration)]) {
        let commits = commits.iter().map(|&(connection, age)| Commit {
            connection,
            asked: now.saturating_sub(age).max(self.awake_since),
        });
        self.commits = Some((now, commits.collect()));
    }

    /// The clients' commits that are not answered, as far as is known.
    pub fn commits(&self, now: Now) -> &[Commit] {
        let told = self.commits.as_ref().filter(|(told, _)| now.saturating_sub(*told) < COMMITS_TOLD_FOR);
        told.map_or(&[], |(_, commits)| commits)
    }

    /// This process did not run until `now`.
    pub fn slept(&mut self, now: Now) {
        self.waits = None;
        self.commits = None;
        self.awake_since = now;
    }

    /// Another is to write in its place.
    pub fn give_up(&mut self, now: Now) {
        let stall = self.waits(now).map_or(Stall::Unknown, |(_, stall)| stall);
        self.given_up = Some((self.sentence(now), stall));
    }

    /// It stays.
    pub fn keep(&mut self) {
        self.given_up = None;
    }

    /// Another is to write in its place, and it has not committed since.
    pub fn is_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// For how long it has not committed, and why; nothing when the last word is too old.
    pub fn waits(&self, now: Now) -> Option<(Duration, Stall)> {
        let waits = self.waits.as_ref().filter(|waits| now.saturating_sub(waits.told) < TOLD_FOR)?;
        Some((waits.told.saturating_sub(waits.since), waits.stall))
    }

    /// It does not commit, and nobody else is the cause.
    pub fn is_stuck(&self, now: Now, most: Duration) -> bool {
        self.waits(now).is_some_and(|(age, stall)| age >= most && stall.counts())
    }

    /// It has committed what was sent after `moment`.
    pub fn committed_since(&self, moment: Now) -> bool {
        self.committed.is_some_and(|at| at > moment)
    }

    /// It has waited for a commit since `moment`, less than `calm` ago.
    pub fn waited_since(&self, moment: Now, calm: Duration, now: Now) -> bool {
        self.waited.is_some_and(|at| at > moment && now.saturating_sub(at) < calm)
    }

    /// It was given up in the middle of writing: the newest transactions that it counts may be in part on its disk, and nowhere else, and were
    /// told to nobody. (MariaDB counts the GTID of one whose write has failed for a lack of space.)
    pub fn has_broken_off(&self) -> bool {
        self.given_up.as_ref().is_some_and(|(_, stall)| *stall != Stall::GlobalLock)
    }

    /// To follow a node's name.
    pub fn sentence(&self, now: Now) -> String {
        match (&self.given_up, self.waits(now)) {
            (Some((said, _)), _) => said.clone(),
            (None, Some((age, stall))) => {
                format!("answers and does not commit, {}: {}", seconds(age), stall.clause())
            }
            (None, None) => "answers and does not commit".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn seen(own: &str, others: &[&str], written: u64) -> Sessions {
        let others = others.iter().map(|&state| state.into()).collect();
        Sessions { own: own.into(), others, written, ..Sessions::default() }
    }

    #[test]
    fn a_member_that_sends_a_large_transaction_is_left_alone_for_a_while() {
        let waits = seen("Waiting for certification", &[], 7);
        let of = |seen: &Sessions, time: u32| stall_of_member(seen, Some(seen), time * S);
        assert_eq!(of(&waits, 2), Stall::Stuck);
        let large = Sessions { is_large: true, ..waits };
        assert_eq!((of(&large, 29), of(&large, 30)), (Stall::Writing, Stall::Stuck));
        let locked =
            Sessions { changes_wait: true, is_large: true, ..seen("Waiting for backup lock", &[], 7) };
        assert_eq!(of(&locked, 2), Stall::GlobalLock);
    }

    #[test]
    fn each_state_as_seen_on_mariadb_has_its_reason() {
        let of = |own, others: &[&str]| stall(&seen(own, others, 7), Some(&seen("", &[], 7)));
        let locked = Sessions { changes_wait: true, ..seen("Waiting for backup lock", &[], 7) };
        assert_eq!(stall(&locked, None), Stall::GlobalLock);
        // A backup, which lets rows be changed.
        assert_eq!(of("Waiting for backup lock", &[]), Stall::OwnTable);
        assert_eq!(of("Commit", &["Waiting for someone to free space"]), Stall::Space);
        assert_eq!(of("Commit", &["Waiting for semi-sync ACK from slave"]), Stall::Acknowledgement);
        assert_eq!(of("Waiting for semi-sync ACK from slave", &[]), Stall::Acknowledgement);
        assert_eq!(of("Waiting for table metadata lock", &[]), Stall::OwnTable);
        assert_eq!(of("Waiting for certification", &[]), Stall::Stuck);
        assert_eq!(stall(&seen("Commit", &[], 9), Some(&seen("Commit", &[], 7))), Stall::Writing);
        assert_eq!(stall(&seen("Commit", &[], 9), None), Stall::Unknown);
    }

    #[test]
    fn clients_commits_are_known_for_as_long_as_they_are_told() {
        let mut pulse = Pulse::default();
        pulse.slept(8 * S);
        pulse.commits_wait(10 * S, &[(7, 3 * S), (9, S)]);
        let known = [Commit { connection: 7, asked: 8 * S }, Commit { connection: 9, asked: 9 * S }];
        pulse.beat(10 * S, &Beat::Committed { asked: 10 * S });
        assert_eq!(pulse.commits(11 * S), known);
        assert_eq!(pulse.commits(12 * S), []);
        assert!(is_at_commit("Commit") && !is_at_commit("Updating") && !is_at_commit(""));
    }

    #[test]
    fn only_what_stops_every_commit_grows_old() {
        let mut pulse = Pulse::default();
        let waits = |asked, stall| Beat::Waits { asked, stall };
        pulse.beat(S, &Beat::Committed { asked: S });
        pulse.beat(3 * S, &waits(2 * S, Stall::Unknown));
        pulse.beat(4 * S, &waits(2 * S, Stall::Stuck));
        assert!(!pulse.is_stuck(4 * S, 3 * S));
        pulse.beat(5 * S, &waits(2 * S, Stall::Stuck));
        assert!(pulse.is_stuck(5 * S, 3 * S));
        assert_eq!(
            pulse.sentence(5 * S),
            "answers and does not commit, 3.000 s: its commits do not end, and nothing is written"
        );
        // A report that is old, or a commit, ends it.
        assert!(!pulse.is_stuck(9 * S, 3 * S));
        pulse.beat(9 * S, &Beat::Committed { asked: 5 * S });
        assert!(pulse.waits(9 * S).is_none() && pulse.committed_since(4 * S));
    }

    #[test]
    fn what_is_written_or_waited_for_elsewhere_starts_the_age_anew() {
        for stall in [Stall::Writing, Stall::Acknowledgement, Stall::OwnTable] {
            let mut pulse = Pulse::default();
            for at in 1..10 {
                pulse.beat(at * S, &Beat::Waits { asked: S, stall });
            }
            assert!(!pulse.is_stuck(9 * S, 3 * S), "{stall:?}");
            pulse.beat(10 * S, &Beat::Waits { asked: S, stall: Stall::GlobalLock });
            assert!(!pulse.is_stuck(10 * S, 3 * S), "{stall:?}");
        }
    }

    #[test]
    fn no_space_is_a_reason_by_itself() {
        let mut pulse = Pulse::default();
        for at in 1..5 {
            pulse.beat(at * S, &Beat::Failed { asked: at * S });
        }
        assert!(pulse.is_stuck(4 * S, 3 * S));
        pulse.slept(4 * S);
        assert!(!pulse.is_stuck(4 * S, 3 * S));
        // Nor does time in which nobody looked.
        pulse.beat(5 * S, &Beat::Waits { asked: S, stall: Stall::Space });
        assert!(!pulse.is_stuck(5 * S, 3 * S));
    }
}

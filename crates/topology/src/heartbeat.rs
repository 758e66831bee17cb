//! Whether a node that answers also commits. The sign is a heartbeat: one small row that is committed on the writer every second. While one
//! is not answered, the server's list of sessions shows the reason.
//!
//! ```text
//!   Committed ──> nothing is known against the node
//!   Waits, Failed ──> the time since the first of them, as long as the reason stops every commit ──> an age
//!   Unknown ──> nothing is known
//! ```
//!
//! Enters: [`Beat`]s. Leaves: for how long the node has not committed, and why. Invariant: three things never count towards that age: what
//! stops only the heartbeat, what another server causes (a replica that does not acknowledge), and work in progress (a large commit that is
//! being written).

pub mod sql;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::Origin;
use crate::time::{Now, seconds};

/// Settings of the heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time between two heartbeats; zero means that none are sent.
    pub interval: Duration,
    /// The schema of its table.
    pub schema: String,
    /// A node that has not committed for this long is replaced, if another node can write.
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

/// The result of a heartbeat, or the state of one that was not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The row that was sent at `asked` is committed.
    Committed {
        /// When it was sent.
        asked: Now,
    },
    /// The row that was sent at `asked` is not committed yet. Reported repeatedly.
    Waits {
        /// When it was sent.
        asked: Now,
        /// What it waits for, as the server shows it.
        stall: Stall,
    },
    /// The server could not write it, because its disk is full.
    Failed {
        /// When it was sent.
        asked: Now,
    },
    /// No heartbeat is waited for, or nothing can be learned about it.
    Unknown,
}

/// A client's commit that a node has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The node's id of the connection.
    pub connection: u32,
    /// When it was sent.
    pub asked: Now,
}

/// What the manager shall find out about a node's commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Whether it gets heartbeats.
    pub beats: bool,
    /// The clients' commits there that were not answered, the oldest first. They replace the heartbeat where none can be written.
    pub commits: Vec<Commit>,
}

/// What a heartbeat waits for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Stall {
    /// Commits wait for space on a full disk.
    Space,
    /// A session holds FLUSH TABLES WITH READ LOCK, or a lock with the same effect.
    GlobalLock,
    /// Commits do not end, and nothing is being written.
    Stuck,
    /// Commits wait for a replica's acknowledgement: this server is not the cause.
    Acknowledgement,
    /// Only the heartbeat's own table cannot be locked.
    OwnTable,
    /// Commits wait, and something is being written: a large transaction, or a slow disk.
    Writing,
    /// The server did not say.
    #[serde(other)]
    Unknown,
}

impl Stall {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// As in JSON and in metrics.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Whether this stops every commit on the node, by a cause on the node itself.
    pub fn counts(self) -> bool {
        matches!(self, Self::Space | Self::GlobalLock | Self::Stuck)
    }

    /// A clause to end a sentence.
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

/// How the states of sessions begin whose commit is in progress, or whose change waits for a global lock. The last three are MySQL's (its
/// manual, "General Thread States").
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

/// Whether a client's session that has sent a change or a COMMIT is at its commit, judged by its state.
pub fn is_at_commit(state: &str) -> bool {
    AT_COMMIT.iter().any(|text| state.starts_with(text))
}

/// What a server shows of its sessions while a heartbeat is waited for.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The state of the heartbeat's own session.
    pub own: String,
    /// If that session waits for a global lock: whether a statement that changes rows would wait, too. Many such locks stop only table
    /// changes and LOCK TABLES, as a backup's does for minutes (BACKUP STAGE BLOCK_DDL).
    pub changes_wait: bool,
    /// The states of the other sessions that wait at a commit, of any account.
    pub others: Vec<String>,
    /// Bytes written to its logs: grows while anything is being written.
    pub written: u64,
    /// Galera: a transaction of many rows is being committed. All other commits on this node wait until it is sent to the group, and those
    /// on other nodes until it is applied there.
    pub is_large: bool,
}

impl Sessions {
    /// Whether the heartbeat waits for a global lock.
    pub fn waits_for_everything(&self) -> bool {
        ["Waiting for backup lock", "Waiting for global read lock", "Waiting for commit lock"]
            .iter()
            .any(|text| self.own.starts_with(text))
    }
}

/// A large transaction may take this long to be sent to a Galera group. After that it counts as a commit that hangs, as any other.
const LARGE_FOR: Duration = Duration::from_secs(30);

/// Why a heartbeat of a Galera node waits when none has been answered for `time`. Whether the whole group waits is seen from another member's commit.
pub fn stall_of_member(seen: &Sessions, before: Option<&Sessions>, time: Duration) -> Stall {
    match stall(seen, before) {
        Stall::Unknown | Stall::Writing | Stall::Stuck if seen.is_large && time < LARGE_FOR => Stall::Writing,
        Stall::Unknown | Stall::Writing => Stall::Stuck,
        other => other,
    }
}

/// Why a heartbeat waits. `before`: what was seen a moment ago while waiting for the same heartbeat.
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
const REPORT_VALID_FOR: Duration = Duration::from_secs(4);
/// The same for reports of the clients' commits, which come twice a second.
const COMMITS_REPORT_VALID_FOR: Duration = Duration::from_secs(2);

/// What is known of a node's commits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    /// When the last heartbeat that succeeded was sent.
    pub committed: Option<Now>,
    waits: Option<Waits>,
    /// The clients' commits that were not answered, and when that was reported, by the proxies of the clients.
    commits: BTreeMap<Origin, (Now, Vec<Commit>)>,
    /// When a waiting heartbeat was last reported.
    waited: Option<Now>,
    /// This process did not run before that time, so no wait is counted from an earlier one.
    awake_since: Now,
    /// It was given up for this reason, and another node writes in its place.
    given_up: Option<(String, Stall)>,
}

#[derive(Clone, Debug)]
struct Waits {
    since: Now,
    reported: Now,
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
                    commits: std::mem::take(&mut self.commits),
                    ..Self::default()
                };
                return;
            }
            Beat::Unknown => {
                self.waits = None;
                return;
            }
            Beat::Waits { asked, stall } => (asked, stall),
            Beat::Failed { asked } => (asked, Stall::Space),
        };
        let before = self.waits.take().filter(|waits| now.saturating_sub(waits.reported) < REPORT_VALID_FOR);
        let since = match &before {
            // A wait that did not count until now starts to count now.
            Some(waits) if stall.counts() && !waits.stall.counts() && waits.stall != Stall::Unknown => now,
            Some(waits) => waits.since,
            None => asked.max(self.awake_since),
        };
        self.waited = Some(now);
        self.waits = Some(Waits { since, reported: now, stall });
    }

    /// These commits of clients are not answered; each has its age.
    pub fn commits_wait(&mut self, now: Now, origin: Origin, commits: &[(u32, Duration)]) {
        let commits = commits.iter().map(|&(connection, age)| Commit {
            connection,
            asked: now.saturating_sub(age).max(self.awake_since),
        });
        self.commits.insert(origin, (now, commits.collect()));
    }

    /// The clients' commits that are not answered, as last reported.
    pub fn commits(&self, now: Now) -> Vec<Commit> {
        let is_valid = |at: Now| now.saturating_sub(at) < COMMITS_REPORT_VALID_FOR;
        let reports = self.commits.values().filter(|(at, _)| is_valid(*at));
        reports.flat_map(|(_, commits)| commits.iter().copied()).collect()
    }

    /// This process did not run until `now`.
    pub fn slept(&mut self, now: Now) {
        self.waits = None;
        self.commits.clear();
        self.awake_since = now;
    }

    /// The node is given up: another one is to write in its place.
    pub fn give_up(&mut self, now: Now) {
        let stall = self.waits(now).map_or(Stall::Unknown, |(_, stall)| stall);
        self.given_up = Some((self.sentence(now), stall));
    }

    /// The node stays the writer.
    pub fn keep(&mut self) {
        self.given_up = None;
    }

    /// Whether the node was given up and has not committed since.
    pub fn is_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// For how long it has not committed, and why; `None` when the last report is too old.
    pub fn waits(&self, now: Now) -> Option<(Duration, Stall)> {
        let waits =
            self.waits.as_ref().filter(|waits| now.saturating_sub(waits.reported) < REPORT_VALID_FOR)?;
        Some((waits.reported.saturating_sub(waits.since), waits.stall))
    }

    /// Whether it has not committed for `most`, and is itself the cause.
    pub fn is_stuck(&self, now: Now, most: Duration) -> bool {
        self.waits(now).is_some_and(|(age, stall)| age >= most && stall.counts())
    }

    /// Whether a heartbeat that was sent after `moment` has been committed.
    pub fn committed_since(&self, moment: Now) -> bool {
        self.committed.is_some_and(|at| at > moment)
    }

    /// Whether a heartbeat had to wait since `moment`, and less than `calm` ago.
    pub fn waited_since(&self, moment: Now, calm: Duration, now: Now) -> bool {
        self.waited.is_some_and(|at| at > moment && now.saturating_sub(at) < calm)
    }

    /// It was given up in the middle of a commit. Its newest transactions, by its own count, may be partly on its disk and on no other, and
    /// no client was told of them. (MariaDB counts the GTID of a transaction whose write has failed on a full disk.)
    pub fn has_broken_off(&self) -> bool {
        self.given_up.as_ref().is_some_and(|(_, stall)| *stall != Stall::GlobalLock)
    }

    /// A clause to follow the node's name.
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
        // A backup lets rows be changed.
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
        pulse.commits_wait(10 * S, Origin(0), &[(7, 3 * S), (9, S)]);
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
        // An old report, or a commit, ends the wait.
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
        // Time in which this process did not run does not count.
        pulse.beat(5 * S, &Beat::Waits { asked: S, stall: Stall::Space });
        assert!(!pulse.is_stuck(5 * S, 3 * S));
    }
}

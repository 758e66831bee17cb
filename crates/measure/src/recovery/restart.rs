//! Divides a Galera node's restart into phases, from its log and the members' status with the times at which they were observed, and
//! determines how the node got what it missed.
//!
//! ```text
//!   process ─> member of the group ─> donor named ─> script done (a full copy is there) ─> storage engines run ─> IST applied ─> joined ─> Synced
//! ```
//!
//! A phase is named by the event that ends it, and lasts from the previous event: together the phases are the whole time. No I/O.

use std::time::Duration;

use super::Forecast;
use super::log::{Event, Position};

/// The event that ends a phase, in the usual order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// It is a member of the primary component.
    Member,
    /// The group has named its donor.
    Donor,
    /// The script of the state transfer has ended: the copy is complete.
    Copied,
    /// InnoDB and the other engines run.
    Engines,
    /// The writesets of the incremental transfer are applied.
    Applied,
    /// It has its state.
    Joined,
    /// It has everything that the group has.
    Synced,
    /// Its own status says that it is Synced and accepts statements.
    Ready,
}

impl Mark {
    /// The name in JSON and in tables.
    pub fn phase(self) -> &'static str {
        match self {
            Self::Member => "join",
            Self::Donor => "request",
            Self::Copied => "copy",
            Self::Engines => "engines",
            Self::Applied => "ist",
            Self::Joined => "state",
            Self::Synced => "catch-up",
            Self::Ready => "ready",
        }
    }

    /// What happens in the phase that ends with it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Member => "the process starts and becomes a member of the group",
            Self::Donor => "the state transfer is prepared, and a donor named",
            Self::Copied => "the transfer's script: the full copy, or the word that none is needed",
            Self::Engines => "InnoDB starts, with its recovery",
            Self::Applied => "the missed writesets are sent and applied",
            Self::Joined => "the group is told that the state is there",
            Self::Synced => "what queued up meanwhile is applied",
            Self::Ready => "until it answers that it is Synced and takes statements",
        }
    }

    /// Whether the phase's duration depends on the amount of data or writes; the other phases are the cost of any start of a server.
    pub fn is_transfer(self) -> bool {
        matches!(self, Self::Copied | Self::Applied | Self::Synced)
    }
}

/// How the node got what it missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// It missed nothing.
    Nothing,
    /// The missed writesets only (IST).
    Incremental,
    /// A copy of everything (SST), and the writesets that were committed during it.
    Full,
    /// No log was read, or it does not show it.
    Unknown,
}

impl TransferKind {
    /// The name in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Incremental => "ist",
            Self::Full => "sst",
            Self::Unknown => "unknown",
        }
    }
}

/// The node's own status, once it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// `wsrep_local_state`: 1 joiner, 2 donor, 3 joined, 4 synced.
    pub state: u64,
    /// `wsrep_ready`, and the component is Primary.
    pub is_ready: bool,
}

/// The members' status of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    /// The largest `wsrep_cluster_size`.
    pub cluster_size: u64,
    /// One of them is donor (`wsrep_local_state` 2).
    pub has_donor: bool,
}

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The event that ended it.
    pub mark: Mark,
    /// When it began, since the restart was ordered or first seen.
    pub from: Duration,
    /// Its duration.
    pub took: Duration,
}

/// A restart, as far as it has come. Times are since the start was ordered, or first seen.
#[derive(Clone, Debug, Default)]
pub struct Restart {
    marks: Vec<(Mark, Duration)>,
    group: Option<Position>,
    local: Option<Position>,
    installed: Option<Position>,
    /// `rsync`, `mariabackup`, ...
    pub method: Option<String>,
    /// The donor's name.
    pub donor: Option<String>,
    /// The incremental transfer: number of writesets, first, last.
    pub ist: Option<(u64, u64, u64)>,
    /// Why it failed.
    pub failed: Option<String>,
    has_log: bool,
    begun: bool,
}

impl Restart {
    /// Records an event of the log. Events before the server's start belong to its shutdown, and are ignored.
    pub fn log(&mut self, at: Duration, event: Event) {
        if event == Event::Starting {
            // If the server restarts by itself, the results of the first attempt are discarded, but its time counts.
            *self = Self { has_log: true, begun: true, ..Self::default() };
            return;
        }
        if !self.begun {
            return;
        }
        match event {
            Event::Member => self.mark(Mark::Member, at),
            Event::GroupState(position) => self.group = Some(position),
            Event::LocalState(position) => self.local = Some(position),
            Event::Method(method) => self.method = Some(method),
            Event::Donor { donor, .. } => {
                self.donor = Some(donor);
                self.mark(Mark::Donor, at);
            }
            Event::ScriptDone => self.mark(Mark::Copied, at),
            Event::InnodbReady => self.mark(Mark::Engines, at),
            Event::Installed(position) => self.installed = Some(position),
            Event::IstFrom { writesets, first, last } => self.ist = Some((writesets, first, last)),
            Event::IstDone => self.mark(Mark::Applied, at),
            Event::Joined => self.mark(Mark::Joined, at),
            Event::Synced => self.mark(Mark::Synced, at),
            Event::TransferFailed(why) => self.failed = Some(why),
            // Ignored, since its own status shows whether it takes statements: the log has this line at different times, even before the
            // missed writesets are applied.
            Event::Ready => {}
            Event::Starting | Event::ShutDown | Event::InnodbStart | Event::Aborted => {}
        }
    }

    /// Records the members' status. Ignored when there is a log, which is earlier and more exact.
    pub fn members(&mut self, at: Duration, members: Members, size_before: u64) {
        if self.has_log {
            return;
        }
        if members.cluster_size >= size_before {
            self.mark(Mark::Member, at);
        }
        if members.has_donor {
            self.mark(Mark::Donor, at);
        }
    }

    /// Records the node's own status.
    pub fn own(&mut self, at: Duration, own: Own) {
        if !self.has_log {
            self.mark(Mark::Engines, at);
            if own.state >= 3 {
                self.mark(Mark::Joined, at);
            }
            if own.state == 4 {
                self.mark(Mark::Synced, at);
            }
        }
        if own.state == 4 && own.is_ready {
            self.mark(Mark::Synced, at);
            self.mark(Mark::Ready, at);
        }
    }

    /// Records the time of an event; the first one counts.
    fn mark(&mut self, mark: Mark, at: Duration) {
        if !self.marks.iter().any(|(known, _)| *known == mark) {
            self.marks.push((mark, at));
        }
    }

    /// Whether the restart is complete: the node's own status says that it is Synced and takes statements.
    pub fn is_over(&self) -> bool {
        self.marks.iter().any(|(mark, _)| *mark == Mark::Ready)
    }

    /// How it got what it missed. A full copy has a position of its own; before an incremental transfer the node keeps the one it had.
    pub fn kind(&self) -> TransferKind {
        if !self.has_log {
            return TransferKind::Unknown;
        }
        match (&self.local, &self.installed) {
            (Some(local), Some(installed)) if local == installed => TransferKind::Incremental,
            (Some(_), Some(_)) => TransferKind::Full,
            // No state transfer was requested.
            (None, None) if self.donor.is_none() && self.is_over() => TransferKind::Nothing,
            _ => TransferKind::Unknown,
        }
    }

    /// The whole time, from the start until Synced and taking connections.
    pub fn gross(&self) -> Option<Duration> {
        self.is_over().then(|| self.marks.iter().map(|(_, at)| *at).max())?
    }

    /// The time of the copy, the missed writesets and the catch-up alone, without the cost of any start of a server.
    pub fn net(&self) -> Option<Duration> {
        self.is_over().then(|| {
            self.phases().iter().filter(|phase| phase.mark.is_transfer()).map(|phase| phase.took).sum()
        })
    }

    /// The phases in the order of time. If nothing had to be copied, the duration of [`Mark::Copied`] is that of the script alone.
    pub fn phases(&self) -> Vec<Phase> {
        let mut marks = self.marks.clone();
        marks.sort_by_key(|(mark, at)| (*at, *mark));
        let mut from = Duration::ZERO;
        let mut phases = Vec::new();
        for (mark, at) in marks {
            phases.push(Phase { mark, from, took: at.saturating_sub(from) });
            from = at;
        }
        phases
    }

    /// The seqno of the group when the node returned, and the node's own.
    pub fn positions(&self) -> Option<(i64, i64)> {
        Some((self.group.as_ref()?.seqno, self.local.as_ref()?.seqno))
    }
}

/// The transfer that a forecast from the beginning of the absence predicts for an absence of this length.
pub fn expected(forecast: Forecast, away: Duration) -> TransferKind {
    match forecast {
        Forecast::FullCopy(_) => TransferKind::Full,
        Forecast::Missed(None) => TransferKind::Incremental,
        Forecast::Missed(Some(window)) if window >= away => TransferKind::Incremental,
        Forecast::Missed(Some(_)) => TransferKind::Full,
        Forecast::DependsOnSource(_) => TransferKind::Unknown,
    }
}

/// Whether the prediction was right; `None` where one of the two is not known. A node that missed nothing needed no full copy.
pub fn was_right(expected: TransferKind, came: TransferKind) -> Option<bool> {
    let is_full = |kind| match kind {
        TransferKind::Full => Some(true),
        TransferKind::Incremental | TransferKind::Nothing => Some(false),
        TransferKind::Unknown => None,
    };
    Some(is_full(expected)? == is_full(came)?)
}

#[cfg(test)]
mod tests {
    use super::super::Reason;
    use super::super::log::event;
    use super::*;

    /// One event every 100 ms.
    fn follow(log: &str) -> Restart {
        let mut restart = Restart::default();
        for (number, event) in log.lines().filter_map(event).enumerate() {
            let at = Duration::from_millis(100 * number as u64);
            if event == Event::Synced {
                restart.log(at, event);
                restart.own(at, Own { state: 4, is_ready: true });
            } else {
                restart.log(at, event);
            }
        }
        restart
    }

    #[test]
    fn the_kind_is_told_by_the_positions() {
        let ist = follow(include_str!("logs/rsync-ist.log"));
        assert_eq!((ist.kind(), ist.positions()), (TransferKind::Incremental, Some((88, 56))));
        assert_eq!(ist.ist, Some((32, 57, 88)));
        for log in [include_str!("logs/rsync-full.log"), include_str!("logs/mariabackup-full.log")] {
            let full = follow(log);
            assert_eq!(full.kind(), TransferKind::Full);
            assert!(full.donor.is_some() && full.is_over());
        }
        let failed = follow(include_str!("logs/failed.log"));
        assert_eq!((failed.kind(), failed.gross()), (TransferKind::Unknown, None));
        assert!(failed.failed.is_some());
    }

    #[test]
    fn the_phases_are_the_whole_time() {
        for log in [include_str!("logs/rsync-ist.log"), include_str!("logs/mariabackup-full.log")] {
            let restart = follow(log);
            let sum: Duration = restart.phases().iter().map(|phase| phase.took).sum();
            assert_eq!(Some(sum), restart.gross());
            assert!(restart.net().unwrap() < sum);
            assert_eq!(restart.phases()[0].mark, Mark::Member);
        }
    }

    #[test]
    fn without_a_log_the_status_tells_the_phases_and_not_the_kind() {
        let mut restart = Restart::default();
        let at = Duration::from_secs;
        restart.members(at(1), Members { cluster_size: 2, has_donor: false }, 3);
        restart.members(at(2), Members { cluster_size: 3, has_donor: false }, 3);
        restart.members(at(3), Members { cluster_size: 3, has_donor: true }, 3);
        restart.own(at(9), Own { state: 1, is_ready: false });
        restart.own(at(10), Own { state: 3, is_ready: true });
        assert!(!restart.is_over());
        restart.own(at(12), Own { state: 4, is_ready: true });
        let marks: Vec<(Mark, u64)> =
            restart.phases().iter().map(|phase| (phase.mark, phase.took.as_secs())).collect();
        assert_eq!(
            marks,
            [
                (Mark::Member, 2),
                (Mark::Donor, 1),
                (Mark::Engines, 6),
                (Mark::Joined, 1),
                (Mark::Synced, 2),
                (Mark::Ready, 0)
            ]
        );
        assert_eq!((restart.gross(), restart.kind()), (Some(at(12)), TransferKind::Unknown));
    }

    #[test]
    fn a_forecast_is_held_against_what_came() {
        let hour = Duration::from_secs(3600);
        let window = Forecast::Missed(Some(hour));
        assert_eq!(was_right(expected(window, hour), TransferKind::Incremental), Some(true));
        assert_eq!(was_right(expected(window, hour * 2), TransferKind::Incremental), Some(false));
        assert_eq!(was_right(expected(Forecast::Missed(None), hour), TransferKind::Nothing), Some(true));
        assert_eq!(
            was_right(expected(Forecast::FullCopy(Reason::Gone), hour), TransferKind::Full),
            Some(true)
        );
        assert_eq!(was_right(expected(Forecast::DependsOnSource(None), hour), TransferKind::Full), None);
        assert_eq!(was_right(expected(window, hour), TransferKind::Unknown), None);
    }
}

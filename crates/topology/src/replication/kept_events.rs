//! Which events the primary runs, kept on disk: only the primary knows that, and no server does while they move from one to the next.
//!
//! ```text
//!   the primary, asked each second ──> what it runs now
//!   it is made read only           ──> the same, and what an earlier attempt has stopped there; on disk before the first one is disabled: due
//!   a server has become the primary ─> what the primary before it ran: due, until each of these events
//!                                        is enabled there ─────────────────────────────────> it runs
//!                                        is DISABLED there, or dropped: an operator's doing > forgotten
//!                                        is SLAVESIDE_DISABLED, or cannot be seen ─────────> still due
//! ```
//!
//! SLAVESIDE_DISABLED is the status that a replica has its source's events in, and that this program gives them. An event that is not to run any
//! more is therefore disabled with `ALTER EVENT ... DISABLE`, or dropped.

use serde::{Deserialize, Serialize};

use super::events::{Event, Listed};

/// What the primary runs, or is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The primary's address.
    pub primary: String,
    /// Its events that are enabled, or are to be.
    pub events: Vec<Event>,
    /// Its event_scheduler is ON, or is to be.
    pub scheduler: bool,
    /// Some of that may not be so yet.
    pub is_due: bool,
}

/// What is to run on the primary and does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Which events.
    pub events: Vec<Event>,
    /// Its event_scheduler is not ON.
    pub scheduler: bool,
    /// Which events ran on the primary before it was never read: some of these did.
    pub is_unknown: bool,
}

impl Left {
    /// Whether all that is known to be due is done.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && !self.scheduler
    }
}

impl Kept {
    /// The server at `address` says so, and may be the primary; `None` when nothing is learned by that.
    pub fn after_look(known: Option<&Self>, address: &str, now: &Listed) -> Option<Self> {
        // One that is read only may have been made to stop some already.
        let known = known.filter(|known| known.primary == address && !now.read_only)?;
        Some(known.seen(now))
    }

    /// That server is about to be made to run none. `is_first`: nothing is known yet, and it may have been the primary. `None` when it was not: what
    /// it runs is nothing that the primary is to run.
    pub fn before_stop(known: Option<&Self>, address: &str, now: &Listed, is_first: bool) -> Option<Self> {
        match known {
            Some(known) if known.primary == address => {
                let scheduler = now.scheduler || known.is_due && known.scheduler;
                Some(Self { scheduler, ..known.due(address, now) })
            }
            None if is_first => Some(Self { is_due: true, ..Self::first(address, now) }),
            _ => None,
        }
    }

    /// That server has become the primary, or is confirmed as such; `None` when it has replaced one that never said what it runs.
    pub fn before_run(known: Option<&Self>, address: &str, now: &Listed, has_replaced: bool) -> Option<Self> {
        match known {
            Some(known) if known.primary == address && !known.is_due => Some(known.seen(now)),
            Some(known) => Some(known.due(address, now)),
            None if has_replaced && !now.elsewhere.is_empty() => None,
            None => Some(Self::first(address, now)),
        }
    }

    /// What is still to be done at the primary, which says so; `None`: nobody has said what ran before.
    pub fn left(kept: Option<&Self>, now: &Listed) -> Left {
        match kept {
            Some(kept) if kept.is_due => Left {
                events: kept.stopped(now),
                scheduler: kept.scheduler && !now.scheduler && !kept.events.is_empty(),
                is_unknown: false,
            },
            Some(_) => Left::default(),
            None => Left { events: now.elsewhere.clone(), scheduler: false, is_unknown: true },
        }
    }

    /// What may be due at that server, which has not said what it runs.
    pub fn left_unseen(kept: Option<&Self>, address: &str) -> Left {
        let due = kept.filter(|kept| kept.is_due || kept.primary != address);
        Left { events: due.map(|kept| kept.events.clone()).unwrap_or_default(), ..Left::default() }
    }

    fn first(address: &str, now: &Listed) -> Self {
        Self {
            primary: address.to_owned(),
            events: now.enabled.clone(),
            scheduler: now.scheduler,
            is_due: false,
        }
    }

    /// The primary says what it runs.
    fn seen(&self, now: &Listed) -> Self {
        if self.is_due {
            return self.due(&self.primary, now);
        }
        let hidden = self.events.iter().filter(|event| now.hides(event));
        let events = now.enabled.iter().chain(hidden).cloned().collect();
        Self { events, scheduler: now.scheduler, ..self.clone() }
    }

    /// All that is enabled there, and what was not and is to be.
    fn due(&self, address: &str, now: &Listed) -> Self {
        Self {
            primary: address.to_owned(),
            events: now.enabled.iter().cloned().chain(self.stopped(now)).collect(),
            scheduler: now.scheduler || self.scheduler,
            is_due: true,
        }
    }

    /// Those that are for another server to run, or cannot be seen. What has been altered in them meanwhile counts.
    fn stopped(&self, now: &Listed) -> Vec<Event> {
        let is_kept = |event: &&Event| self.events.iter().any(|kept| kept.is(event));
        let hidden = self.events.iter().filter(|event| now.hides(event));
        now.elsewhere.iter().filter(is_kept).chain(hidden).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(names: &[&str]) -> Vec<Event> {
        let event = |name: &&str| {
            let [schema, definer, character_set, collation] =
                ["shop", "app@%", "utf8mb4", "utf8mb4_general_ci"].map(str::to_owned);
            Event { schema, name: (*name).into(), definer, character_set, collation }
        };
        names.iter().map(event).collect()
    }

    fn listed(enabled: &[&str], elsewhere: &[&str]) -> Listed {
        Listed { enabled: all(enabled), elsewhere: all(elsewhere), scheduler: true, ..Listed::default() }
    }

    fn hidden() -> Listed {
        Listed { hidden: vec!["shop".into()], scheduler: true, ..Listed::default() }
    }

    fn names(events: &[Event]) -> Vec<&str> {
        events.iter().map(|event| event.name.as_str()).collect()
    }

    /// db1 is the primary, and runs `a` and `b`.
    fn on_db1() -> Kept {
        Kept::before_run(None, "db1", &listed(&["a", "b"], &["other"]), false).unwrap()
    }

    #[test]
    fn a_second_attempt_to_stop_events_forgets_none_of_the_first() {
        let mut kept = Kept::before_stop(Some(&on_db1()), "db1", &listed(&["a", "b"], &["other"]), false);
        for (enabled, elsewhere, left) in [
            (&["b"][..], &["a", "other"][..], &["b", "a"][..]),
            // Disabled or dropped by somebody in between: it is not listed any more.
            (&[], &["b", "other"], &["b"]),
        ] {
            kept = Kept::before_stop(kept.as_ref(), "db1", &listed(enabled, elsewhere), false);
            assert_eq!(names(&kept.as_ref().unwrap().events), left);
        }
        let kept = kept.unwrap();
        assert!(kept.scheduler && kept.is_due);
        // Undone: it is the primary again, and is to run what was stopped there.
        assert_eq!(names(&Kept::left(Some(&kept), &listed(&[], &["b", "other"])).events), ["b"]);
    }

    #[test]
    fn what_ran_is_due_until_it_runs_or_somebody_has_disabled_or_dropped_it() {
        let begun = Kept::before_run(Some(&on_db1()), "db2", &listed(&[], &["a", "b", "other"]), true);
        let begun = begun.unwrap();
        assert_eq!((&*begun.primary, begun.is_due), ("db2", true));
        assert_eq!(names(&Kept::left(Some(&begun), &listed(&[], &["a", "b", "other"])).events), ["a", "b"]);
        let again = Kept::before_run(Some(&begun), "db2", &listed(&["a"], &["b", "other"]), true).unwrap();
        assert_eq!(names(&again.events), ["a", "b"]);
        assert_eq!(names(&Kept::left(Some(&again), &listed(&["a"], &["b", "other"])).events), ["b"]);
        let dropped = listed(&["a"], &["other"]);
        let last = Kept::before_run(Some(&again), "db2", &dropped, true).unwrap();
        assert!(Kept::left(Some(&last), &dropped).is_empty());
        assert_eq!(names(&last.events), ["a"]);
        // While it is due, the primary is asked each second as well.
        let looked = Kept::after_look(Some(&again), "db2", &listed(&["a", "new"], &["b"])).unwrap();
        assert_eq!((names(&looked.events), looked.is_due), (vec!["a", "new", "b"], true));
        assert_eq!(Kept::after_look(Some(&again), "db1", &listed(&[], &[])), None, "not the primary");
    }

    #[test]
    fn what_cannot_be_seen_is_not_taken_for_dropped() {
        assert_eq!(names(&Kept::after_look(Some(&on_db1()), "db1", &hidden()).unwrap().events), ["a", "b"]);
        let begun = Kept::before_run(Some(&on_db1()), "db2", &hidden(), true).unwrap();
        assert_eq!(names(&Kept::left(Some(&begun), &hidden()).events), ["a", "b"]);
        assert_eq!(names(&Kept::left_unseen(Some(&on_db1()), "db2").events), ["a", "b"]);
        assert!(Kept::left_unseen(Some(&on_db1()), "db1").is_empty());
    }

    #[test]
    fn a_scheduler_that_cannot_be_started_is_due() {
        let off =
            |enabled: &[&str], elsewhere: &[&str]| Listed { scheduler: false, ..listed(enabled, elsewhere) };
        let begun = Kept::before_run(Some(&on_db1()), "db2", &off(&[], &["a"]), true).unwrap();
        assert!(Kept::left(Some(&begun), &off(&["a"], &[])).scheduler);
        assert!(Kept::after_look(Some(&begun), "db2", &off(&["a"], &[])).unwrap().scheduler);
        assert!(Kept::left(Some(&begun), &listed(&["a"], &[])).is_empty());
        // Somebody stops it at a primary that runs them all.
        assert!(!Kept::after_look(Some(&on_db1()), "db1", &off(&["a", "b"], &[])).unwrap().scheduler);
    }

    #[test]
    fn what_a_server_runs_that_was_not_the_primary_counts_for_nothing() {
        assert_eq!(Kept::before_stop(Some(&on_db1()), "db2", &listed(&["x"], &[]), true), None);
        assert_eq!(Kept::before_stop(None, "db2", &listed(&["x"], &[]), false), None);
        assert_eq!(Kept::before_run(None, "db2", &listed(&[], &["x"]), true), None);
        let left = Kept::left(None, &listed(&[], &["x"]));
        assert!(left.is_unknown && !left.is_empty());
        assert!(Kept::left(None, &listed(&["x"], &[])).is_empty(), "each was enabled, disabled or dropped");
        assert!(Kept::before_stop(None, "db2", &listed(&["x"], &[]), true).unwrap().is_due);
    }
}

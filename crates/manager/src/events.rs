//! Which events the primary runs, or is to run: in memory and on disk. Only the primary knows that (see [`topology::replication::events`]), and
//! after a failover it cannot be asked any more: it is read once a second, and once more when it is made read only. What follows from an answer is
//! decided in [`topology::replication::kept_events`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use link::{Link, LinkError};
use tokio::sync::oneshot;
use topology::replication::events::{self, Event, Listed};
use topology::replication::kept_events::{Kept, Left};

use crate::failed::{Failed, in_time};
use crate::store::{Store, Work};

/// ER_DBACCESS_DENIED_ERROR.
const DENIED: u16 = 1044;

/// What is known, and what of that is on disk.
#[derive(Default)]
struct State {
    known: Option<Kept>,
    /// What was given to the store last; `None` after a write that failed.
    sent: Option<Kept>,
    /// How many writes the store has not answered yet.
    unwritten: usize,
    /// The last of them failed.
    has_failed: bool,
    /// How many orders have changed what is known.
    orders: u64,
}

/// What was known when a server was asked what it runs.
pub(crate) struct Look {
    /// The events that were kept then.
    pub known: Vec<Event>,
    orders: u64,
}

/// A write to the disk that may not be done yet; `None`: it is.
#[must_use]
pub(crate) struct Written(Option<oneshot::Receiver<Result<(), String>>>);

impl Written {
    /// Returns when it is on disk.
    pub async fn wait(self, within: Duration) -> Result<(), Failed> {
        let Some(answer) = self.0 else { return Ok(()) };
        let written = async {
            answer.await.map_err(|_| Failed::because("the store is closed"))?.map_err(Failed::because)
        };
        in_time(within, written).await.map_err(|failed| Failed {
            why: format!("which events ran there could not be written to disk: {}", failed.why),
            ..failed
        })
    }
}

/// See above. All tasks that talk to servers share it.
pub(crate) struct Events {
    state: Arc<Mutex<State>>,
    store: Store,
}

impl Events {
    /// `kept`: what was found on disk.
    pub fn new(store: Store, kept: Option<Kept>) -> Self {
        let state = State { known: kept.clone(), sent: kept, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), store }
    }

    /// The events that are kept now.
    pub fn known(&self) -> Vec<Event> {
        self.look().known
    }

    /// A server is about to be asked what it runs.
    pub fn look(&self) -> Look {
        let state = locked(&self.state);
        let known = state.known.as_ref().map(|kept| kept.events.clone()).unwrap_or_default();
        Look { known, orders: state.orders }
    }

    /// The server has said what it runs, which counts if it is the primary, and no order has changed anything since it was asked.
    pub fn note(&self, look: &Look, address: &str, now: &Listed) {
        let mut state = locked(&self.state);
        if state.orders != look.orders {
            return;
        }
        // While the disk hangs, no look is queued behind another. What the primary runs is seen again.
        if state.unwritten > 0 {
            if let Some(new) = Kept::after_look(state.known.as_ref(), address, now) {
                state.known = Some(new);
            }
        } else {
            let _ = self.change(&mut state, |known| Kept::after_look(known, address, now));
        }
    }

    /// The server is about to be made to run none. `is_first`: it may have been the primary although nothing is known yet.
    pub fn before_stop(&self, address: &str, now: &Listed, is_first: bool) -> Written {
        self.order(|known| Kept::before_stop(known, address, now, is_first))
    }

    /// The server is the primary, and says what it runs: what it is to run besides.
    pub fn before_run(&self, address: &str, now: &Listed, has_replaced: bool) -> Left {
        let _ = self.order(|known| Kept::before_run(known, address, now, has_replaced));
        self.left(now)
    }

    /// What the primary does not run yet, by what it says.
    pub fn left(&self, now: &Listed) -> Left {
        self.with(|known| Kept::left(known, now))
    }

    /// What the server may have to run as the primary, which cannot be asked.
    pub fn left_unseen(&self, address: &str) -> Left {
        self.with(|known| Kept::left_unseen(known, address))
    }

    /// The server, as the primary, runs all that it is to run.
    pub fn done(&self, address: &str) {
        let _ = self.order(|known| {
            let known = known.filter(|known| known.primary == address)?;
            Some(Kept { is_due: false, ..known.clone() })
        });
    }

    fn with<T>(&self, work: impl FnOnce(Option<&Kept>) -> T) -> T {
        work(locked(&self.state).known.as_ref())
    }

    fn order(&self, change: impl FnOnce(Option<&Kept>) -> Option<Kept>) -> Written {
        let mut state = locked(&self.state);
        state.orders += 1;
        self.change(&mut state, change)
    }

    /// Keeps what comes out, if something does, also on disk.
    fn change(&self, state: &mut State, change: impl FnOnce(Option<&Kept>) -> Option<Kept>) -> Written {
        let Some(new) = change(state.known.as_ref()) else { return Written(None) };
        state.known = Some(new.clone());
        if state.sent.as_ref() == Some(&new) && state.unwritten == 0 {
            return Written(None);
        }
        state.sent = Some(new.clone());
        state.unwritten += 1;
        let (answer, written) = oneshot::channel();
        let shared = Arc::clone(&self.state);
        let told = Box::new(move |result: Result<(), crate::StoreError>| {
            let mut state = locked(&shared);
            state.unwritten -= 1;
            let had_failed = std::mem::replace(&mut state.has_failed, result.is_err());
            if let Err(error) = &result {
                state.sent = None;
                if !had_failed {
                    tracing::warn!("which events the primary runs could not be written: {error}");
                }
            }
            drop(state);
            // Mostly nobody waits for it.
            let _ = answer.send(result.map_err(|error| error.to_string()));
        });
        // Sent while the lock is held, so that the disk has them in this order. If the store's thread has ended, the program ends, too.
        let _ = self.store.send(Work::KeepEvents(new, told));
        Written(Some(written))
    }
}

fn locked(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the server says about its events. Of those in `known` that it does not list, it is asked whether the account may see them.
pub(crate) async fn listed(link: &mut Link, known: &[Event], within: Duration) -> Result<Listed, LinkError> {
    let rows = link.query(events::LIST, within).await?;
    let settings = link.query(events::SETTINGS, within).await?;
    let settings = [0, 1].map(|column| settings.text(0, column));
    let mut listed = events::listed(rows.len(), |row, column| rows.text(row, column), settings);
    for schema in listed.schemas_of_missing(known) {
        match link.query(&events::look(schema), within).await {
            Err(LinkError::Rejected { errno: DENIED, .. }) => listed.hidden.push(schema.to_owned()),
            // Another error is about that schema, which is gone.
            Ok(_) | Err(LinkError::Rejected { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::store::Opened;

    /// With a store of its own, in that directory.
    pub(crate) fn kept_in(dir: &std::path::Path) -> Events {
        let Opened { store, events, .. } = Store::open(&dir.join("state.db")).unwrap();
        Events::new(store, events)
    }

    fn event(name: &str) -> Event {
        let [schema, definer, character_set, collation] =
            ["shop", "app@%", "utf8mb4", "utf8mb4_general_ci"].map(str::to_owned);
        Event { schema, name: name.into(), definer, character_set, collation }
    }

    fn names(events: &[Event]) -> Vec<&str> {
        events.iter().map(|event| event.name.as_str()).collect()
    }

    const WITHIN: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn what_ran_is_on_disk_before_the_first_event_is_disabled() {
        let dir = tempfile::tempdir().unwrap();
        let enabled = Listed { enabled: vec![event("a"), event("b")], scheduler: true, ..Listed::default() };
        let events = kept_in(dir.path());
        assert!(events.before_run("db1", &enabled, false).is_empty());
        events.before_stop("db1", &enabled, false).wait(WITHIN).await.unwrap();
        // As after a kill: another process reads the file, and nothing was closed.
        let restarted = kept_in(dir.path());
        let elsewhere = Listed { elsewhere: enabled.enabled.clone(), scheduler: true, ..Listed::default() };
        let left = restarted.before_run("db2", &elsewhere, true);
        assert_eq!(names(&left.events), ["a", "b"]);
        // The switchover was undone by the restart.
        let undone = kept_in(dir.path());
        assert_eq!(names(&undone.before_run("db1", &elsewhere, false).events), ["a", "b"]);
        undone.done("db1");
        assert!(undone.left(&enabled).is_empty());
        drop((events, restarted, undone));
    }

    #[tokio::test]
    async fn a_look_from_before_an_order_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let events = kept_in(dir.path());
        let [a, b] = ["a", "b"].map(event);
        let listed = |enabled: &[&Event], elsewhere: &[&Event]| {
            let all = |events: &[&Event]| events.iter().map(|event| (*event).clone()).collect();
            Listed { enabled: all(enabled), elsewhere: all(elsewhere), scheduler: true, ..Listed::default() }
        };
        assert!(events.before_run("db1", &listed(&[&a, &b], &[]), false).is_empty());
        let before = events.look();
        assert_eq!(names(&events.before_run("db2", &listed(&[], &[&a, &b]), true).events), ["a", "b"]);
        events.done("db2");
        events.note(&before, "db2", &listed(&[], &[&a, &b]));
        assert_eq!(names(&events.known()), ["a", "b"]);
        events.note(&events.look(), "db2", &listed(&[&a], &[]));
        assert_eq!(names(&events.known()), ["a"]);
    }

    #[tokio::test]
    async fn what_is_back_as_it_was_is_written_behind_what_was_queued() {
        let dir = tempfile::tempdir().unwrap();
        let events = kept_in(dir.path());
        let runs = |name: &str| Listed { enabled: vec![event(name)], scheduler: true, ..Listed::default() };
        events.before_stop("db1", &runs("a"), true).wait(WITHIN).await.unwrap();
        events.done("db1");
        // The store's thread has these to write, one after the other.
        events.note(&events.look(), "db1", &runs("b"));
        events.note(&events.look(), "db1", &runs("a"));
        events.before_stop("db1", &runs("a"), false).wait(WITHIN).await.unwrap();
        assert_eq!(names(&kept_in(dir.path()).known()), ["a"]);
    }

    #[tokio::test]
    async fn without_a_disk_no_event_is_disabled() {
        let dir = tempfile::tempdir().unwrap();
        let Opened { store, thread, .. } = Store::open(&dir.path().join("state.db")).unwrap();
        rusqlite::Connection::open(dir.path().join("state.db"))
            .unwrap()
            .execute_batch("DROP TABLE events")
            .unwrap();
        let events = Events::new(store, None);
        let enabled = Listed { enabled: vec![event("a")], ..Listed::default() };
        let failed = events.before_stop("db1", &enabled, true).wait(WITHIN).await.unwrap_err();
        assert!(failed.why.contains("could not be written to disk"), "{failed:?}");
        assert_eq!(names(&events.known()), ["a"], "it is known all the same");
        drop(events);
        thread.join().unwrap();
    }
}

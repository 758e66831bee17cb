//! Which events the primary runs, or is to run: in memory and on disk. Only the primary knows that (see [`topology::replication::events`]), and
//! after a failover it cannot be asked any more: it is read once a second, and once more when it is made read only. What follows from an answer is
//! decided in [`topology::replication::kept_events`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use link::{Link, LinkError};
use tokio::sync::oneshot;
use topology::replication::events::{self, Event, Listed};
use topology::replication::kept_events::{Kept, Left};

use crate::act::{Failed, in_time};
use crate::store::{Store, Work};

/// ER_DBACCESS_DENIED_ERROR.
const DENIED: u16 = 1044;

/// What is known, and what of that is on disk.
#[derive(Default)]
struct State {
    known: Option<Kept>,
    on_disk: Option<Kept>,
}

/// See above. All tasks that talk to servers share it.
pub(crate) struct Events {
    state: Arc<Mutex<State>>,
    store: Store,
}

impl Events {
    /// `kept`: what was found on disk.
    pub fn new(store: Store, kept: Option<Kept>) -> Self {
        let state = State { known: kept.clone(), on_disk: kept };
        Self { state: Arc::new(Mutex::new(state)), store }
    }

    /// The events that are kept now.
    pub fn known(&self) -> Vec<Event> {
        self.with(|known| known.map(|kept| kept.events.clone()).unwrap_or_default())
    }

    /// The server says what it runs, which counts if it is the primary.
    pub fn note(&self, address: &str, now: &Listed) {
        // Whether it is on disk is seen when the primary says it next.
        let _ = self.change(|known| Kept::after_look(known, address, now));
    }

    /// The server is about to be made to run none: returns when that is on disk. `is_first`: it may have been the primary although nothing is known
    /// yet.
    pub async fn before_stop(
        &self,
        address: &str,
        now: &Listed,
        is_first: bool,
        within: Duration,
    ) -> Result<(), Failed> {
        let Some(written) = self.change(|known| Kept::before_stop(known, address, now, is_first)) else {
            return Ok(());
        };
        let written = async {
            written.await.map_err(|_| Failed::because("the store is closed"))?.map_err(Failed::because)
        };
        in_time(within, written).await.map_err(|failed| Failed {
            why: format!("which events ran there could not be written to disk: {}", failed.why),
            ..failed
        })
    }

    /// The server is the primary, and says what it runs: what it is to run besides.
    pub fn before_run(&self, address: &str, now: &Listed, has_replaced: bool) -> Left {
        let _ = self.change(|known| Kept::before_run(known, address, now, has_replaced));
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
        let _ = self.change(|known| {
            let known = known.filter(|known| known.primary == address)?;
            Some(Kept { is_due: false, ..known.clone() })
        });
    }

    fn with<T>(&self, work: impl FnOnce(Option<&Kept>) -> T) -> T {
        work(locked(&self.state).known.as_ref())
    }

    /// Keeps what comes out, if something does, also on disk. The answer comes when it is there; `None`: it is already.
    fn change(
        &self,
        change: impl FnOnce(Option<&Kept>) -> Option<Kept>,
    ) -> Option<oneshot::Receiver<Result<(), String>>> {
        let mut state = locked(&self.state);
        let new = change(state.known.as_ref())?;
        state.known = Some(new.clone());
        if state.on_disk.as_ref() == Some(&new) {
            return None;
        }
        let (answer, written) = oneshot::channel();
        let (kept, shared) = (new.clone(), Arc::clone(&self.state));
        let told = Box::new(move |result: Result<(), crate::StoreError>| {
            match &result {
                Ok(()) => locked(&shared).on_disk = Some(kept),
                Err(error) => tracing::warn!("which events the primary runs could not be written: {error}"),
            }
            // Mostly nobody waits for it.
            let _ = answer.send(result.map_err(|error| error.to_string()));
        });
        // Sent while the lock is held, so that the disk has them in this order. If the store's thread has ended, the program ends, too.
        let _ = self.store.send(Work::KeepEvents(new, told));
        Some(written)
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
        events.before_stop("db1", &enabled, false, WITHIN).await.unwrap();
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
    async fn without_a_disk_no_event_is_disabled() {
        let dir = tempfile::tempdir().unwrap();
        let Opened { store, thread, .. } = Store::open(&dir.path().join("state.db")).unwrap();
        rusqlite::Connection::open(dir.path().join("state.db"))
            .unwrap()
            .execute_batch("DROP TABLE events")
            .unwrap();
        let events = Events::new(store, None);
        let enabled = Listed { enabled: vec![event("a")], ..Listed::default() };
        let failed = events.before_stop("db1", &enabled, true, WITHIN).await.unwrap_err();
        assert!(failed.why.contains("could not be written to disk"), "{failed:?}");
        assert_eq!(names(&events.known()), ["a"], "it is known all the same");
        drop(events);
        thread.join().unwrap();
    }
}

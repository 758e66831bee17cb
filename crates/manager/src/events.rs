//! Which events each server ran when it was last asked. Only the primary knows that (see [`topology::replication::events`]), and after a failover
//! it cannot be asked any more: it is read once a second while it is writable, and once more when it is made read only.
//!
//! Kept in memory: after a restart of this process it is known again as soon as the primary has answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use link::{Link, LinkError};
use topology::replication::events::{self, Event, Listed};

/// What a server ran as the primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Its events that were not disabled.
    pub events: Vec<Event>,
    /// Its event_scheduler was ON.
    pub scheduler: bool,
}

/// That of each server, by its address.
#[derive(Default)]
pub(crate) struct Events(Mutex<BTreeMap<String, Ran>>);

impl Events {
    /// What it ran when it was last asked; `None` when it has not answered that yet.
    pub fn of(&self, address: &str) -> Option<Ran> {
        self.with(|all| all.get(address).cloned())
    }

    /// It runs these now.
    pub fn set(&self, address: &str, ran: Ran) {
        self.with(|all| all.insert(address.to_owned(), ran));
    }

    /// It is about to be made to run none. What an earlier attempt has stopped there counts as running.
    pub fn note_last(&self, address: &str, now: &Listed) {
        let before = self.of(address).unwrap_or_default();
        let mut events = now.enabled.clone();
        let was_running = |event: &&Event| before.events.iter().any(|running| running.is(event));
        events.extend(now.elsewhere.iter().filter(was_running).cloned());
        self.set(address, Ran { events, scheduler: now.scheduler });
    }

    /// It said so a moment ago. One that is read only may have been made to stop some already.
    pub fn note(&self, address: &str, now: Listed) {
        if !now.read_only {
            self.set(address, Ran { events: now.enabled, scheduler: now.scheduler });
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Ran>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the server says about its events.
pub(crate) async fn listed(link: &mut Link, within: Duration) -> Result<Listed, LinkError> {
    let rows = link.query(events::LIST, within).await?;
    let settings = link.query(events::SETTINGS, within).await?;
    let settings = [0, 1].map(|column| settings.text(0, column));
    Ok(events::listed(rows.len(), |row, column| rows.text(row, column), settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str) -> Event {
        let [schema, definer, character_set, collation] =
            ["shop", "app@%", "utf8mb4", "utf8mb4_general_ci"].map(str::to_owned);
        Event { schema, name: name.into(), definer, character_set, collation }
    }

    #[test]
    fn a_second_attempt_to_stop_events_forgets_none_of_the_first() {
        let events = Events::default();
        assert_eq!(events.of("db1"), None);
        let listed = |enabled: &[&str], elsewhere: &[&str]| Listed {
            enabled: enabled.iter().map(|name| event(name)).collect(),
            elsewhere: elsewhere.iter().map(|name| event(name)).collect(),
            scheduler: true,
            read_only: true,
        };
        let names =
            || events.of("db1").unwrap().events.into_iter().map(|event| event.name).collect::<Vec<_>>();
        events.note_last("db1", &listed(&["a", "b"], &["other"]));
        assert_eq!(names(), ["a", "b"]);
        events.note_last("db1", &listed(&["b"], &["a", "other"]));
        assert_eq!(names(), ["b", "a"]);
        // Disabled or dropped by somebody in between: it is not listed any more.
        events.note_last("db1", &listed(&[], &["b", "other"]));
        assert_eq!(names(), ["b"]);
        assert!(events.of("db1").unwrap().scheduler);
    }
}

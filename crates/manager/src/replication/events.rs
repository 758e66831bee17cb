//! The events of MariaDB's event scheduler: stopped on a server that is not the primary any more, and started on the new primary.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use topology::flavor::Dialect;
use topology::replication::events::{self, Event};

use super::demote::end;
use super::server::Server;
use crate::act::Failed;
use crate::events::{Events, Ran};

/// An execution that has begun may go on for this long, and no statement of a failover takes longer.
const MOMENT: Duration = Duration::from_millis(250);
/// The time between two checks.
const LOOK: Duration = Duration::from_millis(10);
/// What the account needs for that.
const RIGHTS: &str = "the account needs EVENT, SET USER and BINLOG ADMIN ON *.*";
/// ER_EVENT_DOES_NOT_EXIST: dropped meanwhile.
const DROPPED: u16 = 1539;

/// Stops the events of a server that is read only, since one whose definer may write there would go on: they are disabled as on a replica,
/// without a transaction. Executions that have begun may end within a moment, and are killed then. A server that does not grant this is let
/// go as it is, with a warning. `at_once`: the old primary is lost, so that nothing is waited for, and any failure is only a warning.
pub(super) async fn stop(server: &mut Server, events: &Events, at_once: bool) -> Result<(), Failed> {
    if server.dialect != Dialect::MariaDb {
        return Ok(());
    }
    match try_stop(server, events, at_once).await {
        Err(failed) if at_once || is_refused(&failed) => {
            tracing::warn!(
                "the events of {} could not be stopped, and may write while it is read only: {}",
                server.address,
                with_rights(failed).why
            );
            Ok(())
        }
        done => done,
    }
}

async fn try_stop(server: &mut Server, events: &Events, at_once: bool) -> Result<(), Failed> {
    let now = server.events().await?;
    events.note_last(&server.address, &now);
    alter(server, now.enabled.iter(), Event::disable, if at_once { MOMENT } else { server.left() }).await?;
    let begun = Instant::now();
    while !server.ask(events::RUNNING).await?.is_empty() {
        if at_once || begun.elapsed() >= MOMENT {
            end(server, events::RUNNING).await?;
        }
        if server.left().is_zero() || (at_once && begun.elapsed() >= MOMENT) {
            return Err(Failed::because("an event that runs does not end: see SHOW PROCESSLIST there"));
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// Has the server, which writes by now, run what the server at `of` ran; returns how many those are.
pub(super) async fn run(server: &mut Server, of: &str, events: &Events) -> Result<usize, Failed> {
    if server.dialect != Dialect::MariaDb {
        return Ok(0);
    }
    let now = server.events().await?;
    let Some(before) = events.of(of) else {
        let is_known = of == server.address || now.elsewhere.is_empty();
        let why = format!("{of} did not say which ones it ran since this program was started");
        return if is_known { Ok(0) } else { Err(Failed::because(why)) };
    };
    let wanted = |event: &&Event| before.events.iter().any(|ran| ran.is(event));
    let stopped: Vec<&Event> = now.elsewhere.iter().filter(wanted).collect();
    let left = server.left();
    alter(server, stopped.iter().copied(), Event::enable, left).await.map_err(with_rights)?;
    let count = stopped.len();
    if before.scheduler && !now.scheduler && count > 0 {
        let started = server.order(events::START_SCHEDULER).await;
        started.map_err(|failed| Failed {
            why: format!("its event_scheduler is not ON: {}", failed.why),
            ..failed
        })?;
    }
    let events_now = now.enabled.iter().chain(stopped).cloned().collect();
    events.set(&server.address, Ran { events: events_now, scheduler: now.scheduler || before.scheduler });
    Ok(count)
}

/// Runs that statement for each of the events, on this server only.
async fn alter<'a>(
    server: &mut Server,
    all: impl ExactSizeIterator<Item = &'a Event>,
    statement: impl Fn(&Event) -> String,
    within: Duration,
) -> Result<(), Failed> {
    if all.len() > 0 {
        server.order(events::UNLOGGED).await?;
    }
    for event in all {
        match server.order_within(&statement(event), within.min(server.left())).await {
            Err(failed) if failed.errno != DROPPED => return Err(failed),
            _ => {}
        }
    }
    Ok(())
}

/// A privilege is missing: ER_DBACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR.
fn is_refused(failed: &Failed) -> bool {
    matches!(failed.errno, 1044 | 1227)
}

fn with_rights(failed: Failed) -> Failed {
    if is_refused(&failed) { Failed { why: format!("{}; {RIGHTS}", failed.why), ..failed } } else { failed }
}

//! The events of MariaDB's event scheduler: stopped on a server that is not the primary any more, and started on the new primary.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use topology::flavor::Dialect;
use topology::replication::events::{self, Event};

use super::demote::end;
use super::server::Server;
use crate::act::Failed;
use crate::events::{Events, Ran};

/// How long an execution that has begun may go on in a switchover.
const EXECUTION_MAX: Duration = Duration::from_millis(250);
/// The time between two checks.
const LOOK: Duration = Duration::from_millis(10);
/// What the account needs for that.
const RIGHTS: &str = "the account needs EVENT, SET USER and BINLOG ADMIN ON *.*";
/// ER_EVENT_DOES_NOT_EXIST: dropped meanwhile.
const DROPPED: u16 = 1539;

/// Stops the events of a server that is read only, since one whose definer may write there would go on: they are disabled as on a replica,
/// without a transaction. Executions that have begun may end within [`EXECUTION_MAX`], and are killed then. A server that does not grant this
/// is let go as it is, with a warning.
pub(super) async fn stop(server: &mut Server, events: &Events) -> Result<(), Failed> {
    let left = server.left();
    match try_stop(server, events, left, EXECUTION_MAX).await {
        Err(failed) if is_refused(&failed) => {
            warn(server, failed);
            Ok(())
        }
        done => done,
    }
}

/// The same where something else waits for it, or it is tried again later: executions are killed at once, and what is not done `within` that
/// time is only a warning.
pub(super) async fn stop_within(server: &mut Server, events: &Events, within: Duration) {
    if let Err(failed) = try_stop(server, events, within, Duration::ZERO).await {
        warn(server, failed);
    }
}

fn warn(server: &Server, failed: Failed) {
    let why = with_rights(failed).why;
    tracing::warn!(
        "not all events of {} are stopped, and they may write while it is read only: {why}",
        server.address
    );
}

async fn try_stop(
    server: &mut Server,
    events: &Events,
    within: Duration,
    execution_max: Duration,
) -> Result<(), Failed> {
    if server.dialect != Dialect::MariaDb {
        return Ok(());
    }
    let begun = Instant::now();
    let now = server.events(within).await?;
    events.note_last(&server.address, &now);
    alter(server, &now.enabled.iter().collect::<Vec<_>>(), Event::disable, begun + within).await?;
    let disabled = Instant::now();
    while !server.ask(events::RUNNING).await?.is_empty() {
        if begun.elapsed() >= within {
            return Err(Failed::because(
                "an event that is executed does not end: see SHOW PROCESSLIST there",
            ));
        }
        if disabled.elapsed() >= execution_max {
            end(server, events::RUNNING).await?;
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
    let now = server.events(server.left()).await?;
    let Some(before) = events.of(of) else {
        let is_known = of == server.address || now.elsewhere.is_empty();
        let why = format!("{of} did not say which ones it ran since this program was started");
        return if is_known { Ok(0) } else { Err(Failed::because(why)) };
    };
    let wanted = |event: &&Event| before.events.iter().any(|ran| ran.is(event));
    let stopped: Vec<&Event> = now.elsewhere.iter().filter(wanted).collect();
    let until = Instant::now() + server.left();
    alter(server, &stopped, Event::enable, until).await.map_err(with_rights)?;
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

/// Runs that statement for each of the events, on this server only. One that the server refuses does not keep it from the others.
async fn alter(
    server: &mut Server,
    all: &[&Event],
    statement: impl Fn(&Event) -> String,
    until: Instant,
) -> Result<(), Failed> {
    if all.is_empty() {
        return Ok(());
    }
    server.is_altered = true;
    server.order(events::UNLOGGED).await?;
    let mut refused = None;
    for event in all {
        let left = until.saturating_duration_since(Instant::now()).min(server.left());
        match server.order_within(&statement(event), left).await {
            Err(failed) if failed.errno == 0 || server.is_late(&failed) => return Err(failed),
            Err(failed) if failed.errno != DROPPED => refused = refused.or(Some(failed)),
            _ => {}
        }
    }
    server.order(events::LOGGED).await?;
    server.is_altered = false;
    refused.map_or(Ok(()), Err)
}

/// A privilege is missing: ER_DBACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR.
fn is_refused(failed: &Failed) -> bool {
    matches!(failed.errno, 1044 | 1227)
}

fn with_rights(failed: Failed) -> Failed {
    if is_refused(&failed) { Failed { why: format!("{}; {RIGHTS}", failed.why), ..failed } } else { failed }
}

//! The events of MariaDB's event scheduler: stopped on a server that is not the primary any more, and started on the new primary.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use topology::flavor::Dialect;
use topology::replication::events::{self, Event, Listed};
use topology::replication::kept_events::Left;

use super::server::{Server, end};
use crate::events::Events;
use crate::failed::Failed;

/// How long an execution that has begun may go on in a switchover.
const EXECUTION_MAX: Duration = Duration::from_millis(250);
/// The time between two checks.
const LOOK: Duration = Duration::from_millis(10);
/// What the account needs for that.
const RIGHTS: &str = "the account needs EVENT, SET USER and BINLOG ADMIN ON *.*";
/// ER_EVENT_DOES_NOT_EXIST: dropped meanwhile.
const DROPPED: u16 = 1539;

/// Stops the events of a server that is read only, since one whose definer may write there would go on: which ones ran is written to disk, and
/// they are disabled as on a replica, without a transaction. Executions that have begun may end within [`EXECUTION_MAX`], and are killed then. A server that does not grant this
/// is let go as it is: returns why.
pub(super) async fn stop(server: &mut Server, events: &Events) -> Result<Option<String>, Failed> {
    let left = server.left();
    match try_stop(server, events, Stopping { is_first: true, is_urgent: false, within: left }).await {
        Err(failed) if is_refused(&failed) => Ok(Some(with_rights(failed).why)),
        done => done.map(|()| None),
    }
}

/// The same where something else waits for it: executions are killed at once, the disk is not waited for, and what is not done `within` that
/// time is no failure: returns why. `is_first`: it may have been the primary although nobody has said yet what the primary runs.
pub(super) async fn stop_within(
    server: &mut Server,
    events: &Events,
    is_first: bool,
    within: Duration,
) -> Option<String> {
    let stopped = try_stop(server, events, Stopping { is_first, is_urgent: true, within }).await;
    let left = stopped.err().map(|failed| with_rights(failed).why);
    // The last statement may have left it hardly any time, and what follows has more.
    match server.unlimited().await {
        Ok(()) => left,
        Err(failed) => left.or(Some(failed.why)),
    }
}

/// How events are stopped.
struct Stopping {
    is_first: bool,
    is_urgent: bool,
    within: Duration,
}

async fn try_stop(server: &mut Server, events: &Events, how: Stopping) -> Result<(), Failed> {
    let Stopping { is_first, is_urgent, within } = how;
    if server.dialect != Dialect::MariaDb {
        return Ok(());
    }
    let begun = Instant::now();
    let now = server.events(&events.known(), within).await?;
    if !now.enabled.is_empty() {
        let written = events.before_stop(&server.address, &now, is_first);
        if !is_urgent {
            written.wait(within.saturating_sub(begun.elapsed())).await?;
        }
    }
    alter(server, &now.enabled.iter().collect::<Vec<_>>(), Event::disable, begun + within).await?;
    let disabled = Instant::now();
    while !server.ask(events::RUNNING).await?.is_empty() {
        if begun.elapsed() >= within {
            return Err(Failed::because(
                "an event that is executed does not end: see SHOW PROCESSLIST there",
            ));
        }
        if is_urgent || disabled.elapsed() >= EXECUTION_MAX {
            end(server, events::RUNNING).await?;
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// Has the server, which writes by now, run what the primary before it ran; returns how many those are. `left`: what it does not run, where it fails.
pub(super) async fn run(
    server: &mut Server,
    has_replaced: bool,
    events: &Events,
    left: &mut Left,
) -> Result<usize, Failed> {
    if server.dialect != Dialect::MariaDb {
        return Ok(0);
    }
    let now = server.events(&events.known(), server.left()).await?;
    *left = events.before_run(&server.address, &now, has_replaced);
    if left.is_empty() {
        events.done(&server.address);
        return Ok(0);
    }
    if left.is_unknown {
        return Err(Failed::because("nobody has said it since this program has run"));
    }
    let begun = std::mem::take(&mut left.events);
    let done = try_run(server, &begun, left.scheduler, &now).await;
    match &done {
        Ok(_) => events.done(&server.address),
        Err(_) => {
            // Some of them may run. Where that cannot be asked, none of them is known to.
            let known = server.events(&events.known(), server.left()).await;
            let known = known.map(|now| events.left(&now));
            *left = known.unwrap_or(Left { events: begun, ..left.clone() });
        }
    }
    done
}

async fn try_run(
    server: &mut Server,
    stopped: &[Event],
    scheduler: bool,
    now: &Listed,
) -> Result<usize, Failed> {
    let (hidden, seen): (Vec<&Event>, Vec<&Event>) = stopped.iter().partition(|event| now.hides(event));
    let until = Instant::now() + server.left();
    alter(server, &seen, Event::enable, until).await.map_err(with_rights)?;
    if scheduler {
        let started = server.order(events::START_SCHEDULER).await;
        started.map_err(|failed| Failed {
            why: format!("its event_scheduler is not ON: {}", failed.why),
            ..failed
        })?;
    }
    if let Some(event) = hidden.first() {
        let why = format!("the events of {} cannot be seen: {RIGHTS}", event.schema);
        return Err(Failed::because(why));
    }
    Ok(seen.len())
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
    // A privilege counts for links that are opened after it was granted.
    server.is_altered = refused.is_some();
    refused.map_or(Ok(()), Err)
}

/// A privilege is missing: ER_DBACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR.
fn is_refused(failed: &Failed) -> bool {
    matches!(failed.errno, 1044 | 1227)
}

fn with_rights(failed: Failed) -> Failed {
    if is_refused(&failed) { Failed { why: format!("{}; {RIGHTS}", failed.why), ..failed } } else { failed }
}

//! Orders to the servers of a primary-replica setup. Each is a task that has a link for itself, with a deadline, and ends with a fact for the
//! brain. The link is one that stands ready where there is one ([`Ready`]). [`topology::replication::action`] describes the orders and their outcomes.
//!
//! ```text
//!   demote    read only ── waits for no acknowledgement ── events stopped ── reports its position
//!   promote   all applied ── source removed ── waits for replicas (semi-sync) ── writable
//!   follow    read only ── waits for no acknowledgement (MySQL: see below) ── events stopped ── stopped, or clients' locks ended ── another
//!             source, from its position ── both threads run
//!   stop waiting   MySQL: waits for no acknowledgement
//!   reconnect its I/O thread restarted ── connected, or not
//!   part      its I/O thread stopped
//!   run       the events enabled that the primary before it ran, as far as nobody has disabled or dropped them
//! ```
//!
//! An order that is given up must not take effect later. The server itself ends a statement when its time is over (max_statement_time; on
//! MySQL, lock_wait_timeout for what waits for locks), and the statement that makes a server writable carries the time until which it is
//! valid ([`topology::replication::sql::writable_before`]). An order under a later decision, to whichever server, ends those under earlier
//! ones before their next statement: a server that was stopped and continues must not become writable beside another.

mod demote;
mod events;
mod follow;
mod part;
mod promote;
mod ready;
mod reconnect;
mod server;
mod sql;

use std::time::Duration;

use topology::Term;
use topology::fact::Outcome;
use topology::replication::{Action, End, Errand, action};

use crate::failed::{Failed, in_time};
pub(crate) use ready::Ready;
pub(crate) use server::Means;
use server::Server;
pub(crate) use sql::kill;

/// The server ends its statements itself; this is for one that does not.
const SLACK: Duration = Duration::from_millis(200);

/// Carries out an order; returns its outcome, and the error number if it failed with one.
pub(crate) async fn carry_out(action: Action, means: Means) -> (Outcome, Option<u16>) {
    let Action { node, term, within, errand } = action;
    let events = &means.events;
    let (end, errno) = match errand {
        Errand::Demote { for_good } => {
            let demote = async |server: &mut Server| demote::demote(server, &means, for_good).await;
            told(ordered(&means, term, within, demote).await, |done| match done {
                Ok((position, events_left)) => End::Demoted { position, events_left },
                Err(why) => End::DemoteFailed { why },
            })
        }
        Errand::Promote { reach } => {
            let promote = async |server: &mut Server| promote::promote(server, reach.as_ref()).await;
            return told(ordered(&means, term, within, promote).await, |done| match done {
                Ok(()) => Outcome::BarrierPassed { node, term },
                Err(why) => Outcome::BarrierFailed { node, term, why },
            });
        }
        Errand::Follow { .. } => {
            let follow = async |server: &mut Server| match &means.account {
                Some(account) => follow::follow(server, &means.source, account, &means).await,
                None => {
                    Err(Failed::because("no account to log in with is configured: [cluster.replication]"))
                }
            };
            told(ordered(&means, term, within, follow).await, |done| match done {
                Ok((sessions_ended, events_left)) => End::Following { sessions_ended, events_left },
                Err(why) => End::FollowFailed { why },
            })
        }
        Errand::Reconnect { .. } => {
            let reconnect = async |server: &mut Server| reconnect::reconnect(server, &means.source).await;
            told(ordered(&means, term, within, reconnect).await, |done| match done {
                Ok(receives) => End::Reconnected { receives },
                Err(why) => End::ReconnectFailed { why },
            })
        }
        Errand::Part => {
            let done = ordered(&means, term, within, async |server| part::part(server).await).await;
            told(done, |done| done.map_or_else(|why| End::PartFailed { why }, |()| End::Parted))
        }
        Errand::StopWaiting => {
            let done = ordered(&means, term, within, demote::stop_waiting).await;
            told(done, |done| End::StoppedWaiting { failed: done.err() })
        }
        // The advice for an error number is about the other orders.
        Errand::StopEvents => {
            let stop = async |server: &mut Server| {
                let left = server.left();
                Ok(events::stop_within(server, events, false, left).await)
            };
            let done = ordered(&means, term, within, stop).await;
            (End::EventsStopped { events_left: done.unwrap_or_else(|failed| Some(failed.why)) }, None)
        }
        Errand::RunEvents { has_replaced } => {
            let mut left = events.left_unseen(&means.address);
            let run = async |server: &mut Server| events::run(server, has_replaced, events, &mut left).await;
            let end = match ordered(&means, term, within, run).await {
                Ok(count) => End::EventsRun { count },
                Err(Failed { why, .. }) => End::EventsFailed { why, left },
            };
            (end, None)
        }
    };
    (action::Outcome { node, term, end }.into(), errno)
}

fn told<T, O>(done: Result<T, Failed>, outcome: impl FnOnce(Result<T, String>) -> O) -> (O, Option<u16>) {
    let errno = done.as_ref().err().map(|failed| failed.errno);
    (outcome(done.map_err(|failed| failed.why)), errno)
}

async fn ordered<T>(
    means: &Means,
    term: Term,
    within: Duration,
    work: impl AsyncFnOnce(&mut Server) -> Result<T, Failed>,
) -> Result<T, Failed> {
    in_time(within + SLACK, async {
        let mut server = Server::connect(means, term, within).await?;
        let done = work(&mut server).await;
        server.end(means);
        done
    })
    .await
}

#[cfg(test)]
mod tests;

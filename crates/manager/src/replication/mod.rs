//! Orders to the servers of a primary-replica setup. Each is a task that has a link for itself, with a deadline, and ends with a fact for the
//! brain. The link is one that stands ready where there is one ([`Ready`]). [`topology::replication::action`] describes the orders and their outcomes.
//!
//! ```text
//!   demote    read only ── waits for no acknowledgement ── events stopped ── reports its position
//!   promote   all applied ── source removed ── waits for replicas (semi-sync) ── writable
//!   follow    read only ── waits for no acknowledgement ── events stopped ── stopped, or clients' locks ended ── another source, from its
//!             position ── both threads run
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

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use link::Login;
use topology::fact::Outcome;
use topology::replication::Action;
use topology::replication::action;
use topology::{NodeId, Term};

use crate::act::{Failed, in_time};
use crate::events::Events;
use crate::settings::Account;
pub(crate) use demote::NO_SUCH_THREAD;
pub(crate) use ready::Ready;
use server::Server;
pub(crate) use sql::kill;

/// The server ends its statements itself; this is for one that does not.
const SLACK: Duration = Duration::from_millis(200);

/// What is needed to carry out an order.
pub(crate) struct Means {
    /// The node's address.
    pub address: String,
    /// The account to give orders with.
    pub login: Login,
    /// The address of the source to follow.
    pub source: String,
    /// The account that replicas log in with there.
    pub account: Option<Account>,
    /// The highest term under which any server was given an order.
    pub newest: Arc<AtomicU64>,
    /// Which events the primary runs, or is to run.
    pub events: Arc<Events>,
    /// The links that stand ready.
    pub ready: Arc<Ready>,
}

/// The decision that an action belongs to.
pub(crate) fn term(action: &Action) -> Term {
    match action {
        Action::Demote { term, .. }
        | Action::Promote { term, .. }
        | Action::Follow { term, .. }
        | Action::Reconnect { term, .. }
        | Action::Part { term, .. }
        | Action::StopEvents { term, .. }
        | Action::RunEvents { term, .. } => *term,
    }
}

/// The source that it is to follow.
pub(crate) fn source(action: &Action) -> Option<NodeId> {
    match action {
        Action::Follow { source, .. } | Action::Reconnect { source, .. } => Some(*source),
        Action::Demote { .. }
        | Action::Promote { .. }
        | Action::Part { .. }
        | Action::StopEvents { .. }
        | Action::RunEvents { .. } => None,
    }
}

/// Carries out an order; returns its outcome, and the error number if it failed with one.
pub(crate) async fn carry_out(action: Action, means: Means) -> (Outcome, Option<u16>) {
    let order_term = term(&action);
    match action {
        Action::Demote { node, term, for_good, within } => {
            let demote = async |server: &mut Server| demote::demote(server, &means.events, for_good).await;
            let done = ordered(&means, order_term, within, demote).await;
            told(done, |done| match done {
                Ok((position, events_left)) => {
                    action::Outcome::Demoted { node, term, position, events_left }.into()
                }
                Err(why) => action::Outcome::DemoteFailed { node, term, why }.into(),
            })
        }
        Action::Promote { node, term, reach, within } => {
            let promote = async |server: &mut Server| promote::promote(server, reach.as_ref()).await;
            told(ordered(&means, order_term, within, promote).await, |done| passed(node, term, done))
        }
        Action::Follow { node, term, within, .. } => {
            let follow = async |server: &mut Server| match &means.account {
                Some(account) => follow::follow(server, &means.source, account, &means.events).await,
                None => {
                    Err(Failed::because("no account to log in with is configured: [cluster.replication]"))
                }
            };
            told(ordered(&means, order_term, within, follow).await, |done| match done {
                Ok((sessions_ended, events_left)) => {
                    action::Outcome::Following { node, term, sessions_ended, events_left }.into()
                }
                Err(why) => action::Outcome::FollowFailed { node, term, why }.into(),
            })
        }
        Action::Reconnect { node, term, within, .. } => {
            let reconnect = async |server: &mut Server| reconnect::reconnect(server, &means.source).await;
            told(ordered(&means, order_term, within, reconnect).await, |done| match done {
                Ok(receives) => action::Outcome::Reconnected { node, term, receives }.into(),
                Err(why) => action::Outcome::ReconnectFailed { node, term, why }.into(),
            })
        }
        Action::Part { node, term, within } => {
            let done = ordered(&means, order_term, within, async |server| part::part(server).await).await;
            told(done, |done| match done {
                Ok(()) => action::Outcome::Parted { node, term }.into(),
                Err(why) => action::Outcome::PartFailed { node, term, why }.into(),
            })
        }
        Action::StopEvents { node, term, within } => {
            let stop = async |server: &mut Server| {
                let left = server.left();
                Ok(events::stop_within(server, &means.events, false, left).await)
            };
            let (outcome, _) = told(ordered(&means, order_term, within, stop).await, |done| {
                let events_left = done.unwrap_or_else(Some);
                action::Outcome::EventsStopped { node, term, events_left }.into()
            });
            // As below.
            (outcome, None)
        }
        Action::RunEvents { node, has_replaced, term, within } => {
            let events = &means.events;
            let mut left = events.left_unseen(&means.address);
            let run = async |server: &mut Server| events::run(server, has_replaced, events, &mut left).await;
            let done = ordered(&means, order_term, within, run).await;
            let (outcome, _) = told(done, |done| match done {
                Ok(count) => action::Outcome::EventsRun { node, term, count }.into(),
                Err(why) => action::Outcome::EventsFailed { node, term, why, left }.into(),
            });
            // The advice for an error number is about the other orders.
            (outcome, None)
        }
    }
}

fn passed(node: NodeId, term: Term, done: Result<(), String>) -> Outcome {
    match done {
        Ok(()) => Outcome::BarrierPassed { node, term },
        Err(why) => Outcome::BarrierFailed { node, term, why },
    }
}

fn told<T>(
    done: Result<T, Failed>,
    outcome: impl FnOnce(Result<T, String>) -> Outcome,
) -> (Outcome, Option<u16>) {
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

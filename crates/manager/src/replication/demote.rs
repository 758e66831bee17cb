//! Makes a server read only, and returns its position.

use std::convert::Infallible;
use std::time::Duration;

use protocol::gtid::Position;
use tokio::time::sleep;
use topology::flavor::Dialect;
use topology::replication::{events::RUNNING, sql};

use super::events;
use super::server::{Means, Server, end, end_with_locks, selected};
use super::sql::{COMMITTING, UNACKNOWLEDGED, WITHOUT_SPACE};
use crate::failed::Failed;

/// The pause between two rounds of ending sessions that keep it from becoming read only.
const PIECE: Duration = Duration::from_millis(250);
/// A failover waits no longer than this for the events of an old primary that still answers. The rest are stopped later.
const EVENTS_MAX: Duration = Duration::from_millis(50);
/// An acknowledgement that is on its way comes within this time.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(100);
/// With less time left than this, it is not tried again.
const LAST: Duration = Duration::from_millis(50);

/// Makes the server read only; returns all that it has written by then, and why some of its events may run on. Commits in progress end first, and locked tables are waited for: if
/// that takes too long, the server leaves read_only as it was. Commits that hang because no replica acknowledges are ended by killing their
/// sessions, since a primary without replicas could otherwise never become read only. They are committed there, and their clients are told
/// nothing. `for_good`: sessions that wait for space on a full disk are killed, too, which ends them with an error, and all that wait
/// behind them; see [`topology::replication::Errand::Demote`] for what that costs.
pub(super) async fn demote(
    server: &mut Server,
    means: &Means,
    for_good: bool,
) -> Result<(Position, Option<String>), Failed> {
    let events = &means.events;
    read_only(server, means, for_good).await?;
    if stops_waiting_at_once(server) {
        stop_waiting(server).await?;
    }
    let events_left = if for_good {
        events::stop_within(server, events, true, EVENTS_MAX).await
    } else {
        events::stop(server, events).await?
    };
    let standing = server.standing().await?;
    if !standing.read_only {
        return Err(Failed::because("it says that it is not read only, though it was told to be"));
    }
    Ok((standing.position, events_left))
}

/// MySQL takes up to a second for it while a replica is connected, and answers no probe meanwhile (seen on 9.7: the thread that receives
/// acknowledgements looks up once a second): that has an order of its own, which nothing waits for.
pub(super) fn stops_waiting_at_once(server: &Server) -> bool {
    server.dialect == Dialect::MariaDb
}

/// Its commits wait for no replica any more, as on a replica.
pub(super) async fn stop_waiting(server: &mut Server) -> Result<(), Failed> {
    let semi_sync = server.semi_sync().await?;
    server.wait_for_replicas(&semi_sync, false).await
}

/// Makes it read only.
pub(super) async fn read_only(server: &mut Server, means: &Means, for_good: bool) -> Result<(), Failed> {
    // A session that waits for space would delay that by a minute, and so would the next one behind it.
    let is_full = for_good && end(server, WITHOUT_SPACE).await? > 0;
    // A server that is given up is not left time for commits that may never end: what keeps it is ended soon.
    let mut limit = if is_full || for_good { PIECE } else { server.left() / 2 };
    loop {
        let (statement, release) = (sql::read_only(server.dialect), release_in(server, means, limit));
        let ordered = server.order_within(statement, limit);
        let done = tokio::select! {
            done = ordered => done,
            never = release => match never {},
        };
        match done {
            Err(failed) if server.is_late(&failed) && server.left() > LAST => {
                end(server, UNACKNOWLEDGED).await?;
                end(server, RUNNING).await?;
                if for_good {
                    end(server, WITHOUT_SPACE).await?;
                }
                limit = PIECE.min(server.left());
            }
            done => return done.map_err(|failed| too_late(server, failed)),
        }
    }
}

/// Towards the end of `limit`, in which a server of MySQL waits to become read only: ends the commits that wait for an acknowledgement. Killed, they
/// wait on; they end when the server waits for no replica any more. Their connections are killed before, so that their clients are told
/// nothing, and so are those of open transactions, whose commits could still begin. That needs another link: while the first one waits, no statement
/// that writes begins. What fails is found by the order itself. Never ends.
fn release_in<'m>(
    server: &Server,
    means: &'m Means,
    limit: Duration,
) -> impl Future<Output = Infallible> + use<'m> {
    let (is_due, left, term) = (!stops_waiting_at_once(server), server.left(), server.term());
    async move {
        if is_due {
            sleep(limit.saturating_sub(PIECE).max(PIECE)).await;
            if let Ok(mut beside) = Server::beside(means, term, left).await
                && is_unacknowledged(&mut beside).await.unwrap_or_default()
                && cut_commits(&mut beside).await.is_ok()
            {
                let _ = stop_waiting(&mut beside).await;
            }
        }
        std::future::pending().await
    }
}

/// Whether a commit waits for an acknowledgement that does not come: the same one, a while apart.
async fn is_unacknowledged(server: &mut Server) -> Result<bool, Failed> {
    let before = selected(server, UNACKNOWLEDGED).await?;
    sleep(ACKNOWLEDGED_WITHIN).await;
    let after = selected(server, UNACKNOWLEDGED).await?;
    Ok(before.iter().any(|id| after.contains(id)))
}

/// Kills whoever commits or may do so, until there is nobody. A transaction that may not be ended does not keep the server from becoming read only,
/// and cannot be committed afterwards.
async fn cut_commits(server: &mut Server) -> Result<(), Failed> {
    while end_with_locks(server).await? + end(server, COMMITTING).await? > 0 {}
    Ok(())
}

fn too_late(server: &Server, failed: Failed) -> Failed {
    if server.is_late(&failed) {
        let why = "a commit that does not end, or LOCK TABLES of a session, keeps it from becoming read only: see SHOW PROCESSLIST there";
        return Failed { errno: failed.errno, why: why.into() };
    }
    failed
}

//! A server that takes no writes any more, and says where it stands.

use protocol::gtid::Position;
use topology::replication::sql;

use super::server::Server;
use super::sql::{UNACKNOWLEDGED, WAIT_FOR_NOBODY, kill};
use crate::act::Failed;

/// Makes the server read only; gives all that it has written by then. Commits that are under way end first, and tables that are locked
/// are waited for: when that takes too long, the server leaves read_only as it was. Commits that hang because no replica acknowledges are
/// ended by ending their sessions: a primary that was left by its replicas could never become read only otherwise. They are written there,
/// and their clients are told nothing. So are those that wait for space on a full disk, which end with an error, and all that wait behind them.
pub(super) async fn demote(server: &mut Server) -> Result<Position, Failed> {
    read_only(server).await?;
    let standing = server.standing().await?;
    if !standing.read_only {
        return Err(Failed::because("it says that it is not read only, though it was told to be"));
    }
    Ok(standing.position)
}

/// Read only, and as one that follows others: it waits for nobody's acknowledgement.
pub(super) async fn read_only(server: &mut Server) -> Result<(), Failed> {
    let first = server.left() / 2;
    match server.order_within(sql::READ_ONLY, first).await {
        Err(failed) if failed.errno == STATEMENT_TIMEOUT => {
            end_unacknowledged(server).await?;
            server.order(sql::READ_ONLY).await.map_err(too_late)?;
        }
        done => done?,
    }
    let (_, waits) = server.semi_sync().await?;
    if waits {
        server.order(WAIT_FOR_NOBODY).await?;
    }
    Ok(())
}

/// Ends the sessions whose commits wait for an acknowledgement, or for space.
async fn end_unacknowledged(server: &mut Server) -> Result<(), Failed> {
    let waiting = server.ask(UNACKNOWLEDGED).await?;
    for id in (0..waiting.len()).filter_map(|row| waiting.text(row, 0)?.parse().ok()) {
        match server.order(&kill(id)).await {
            // It has ended by itself.
            Err(failed) if failed.errno == NO_SUCH_THREAD => {}
            done => done?,
        }
    }
    Ok(())
}

/// ER_NO_SUCH_THREAD.
const NO_SUCH_THREAD: u16 = 1094;
/// ER_STATEMENT_TIMEOUT.
const STATEMENT_TIMEOUT: u16 = 1969;

fn too_late(failed: Failed) -> Failed {
    if failed.errno == STATEMENT_TIMEOUT {
        let why = "a commit that does not end, or LOCK TABLES of a session, keeps it from becoming read only: see SHOW PROCESSLIST there";
        return Failed { errno: failed.errno, why: why.into() };
    }
    failed
}

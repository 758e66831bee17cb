//! A server that takes no writes any more, and says where it stands.

use std::time::Duration;

use protocol::gtid::Position;
use topology::replication::sql;

use super::server::Server;
use super::sql::{UNACKNOWLEDGED, WITHOUT_SPACE, kill};
use crate::act::Failed;

/// Between two ends of sessions that keep it from being read only.
const PIECE: Duration = Duration::from_millis(250);
/// With less time left than this it is not tried again.
const LAST: Duration = Duration::from_millis(50);

/// Makes the server read only; gives all that it has written by then. Commits that are under way end first, and tables that are locked
/// are waited for: when that takes too long, the server leaves read_only as it was. Commits that hang because no replica acknowledges are
/// ended by ending their sessions: a primary that was left by its replicas could never become read only otherwise. They are written there,
/// and their clients are told nothing. `for_good`: so are those that wait for space on a full disk, which end with an error, and all that wait
/// behind them; see [`topology::replication::Action::Demote`] for what that costs.
pub(super) async fn demote(server: &mut Server, for_good: bool) -> Result<Position, Failed> {
    read_only(server, for_good).await?;
    let standing = server.standing().await?;
    if !standing.read_only {
        return Err(Failed::because("it says that it is not read only, though it was told to be"));
    }
    Ok(standing.position)
}

/// Read only, and as one that follows others: it waits for nobody's acknowledgement.
pub(super) async fn read_only(server: &mut Server, for_good: bool) -> Result<(), Failed> {
    // Whoever waits for space would keep it from that for a minute, and so would the next one behind him.
    let is_full = for_good && end(server, WITHOUT_SPACE).await?;
    let mut limit = if is_full { PIECE } else { server.left() / 2 };
    loop {
        match server.order_within(sql::read_only(server.dialect), limit).await {
            Err(failed) if server.is_late(&failed) && server.left() > LAST => {
                end(server, UNACKNOWLEDGED).await?;
                if for_good {
                    end(server, WITHOUT_SPACE).await?;
                }
                limit = PIECE.min(server.left());
            }
            done => break done.map_err(|failed| too_late(server, failed))?,
        }
    }
    let semi_sync = server.semi_sync().await?;
    server.wait_for_replicas(&semi_sync, false).await
}

/// Ends the sessions that `which` gives; whether there was one.
async fn end(server: &mut Server, which: &str) -> Result<bool, Failed> {
    let waiting = server.ask(which).await?;
    for id in (0..waiting.len()).filter_map(|row| waiting.text(row, 0)?.parse().ok()) {
        match server.order(&kill(id)).await {
            // It has ended by itself.
            Err(failed) if failed.errno == NO_SUCH_THREAD => {}
            done => done?,
        }
    }
    Ok(!waiting.is_empty())
}

/// ER_NO_SUCH_THREAD.
const NO_SUCH_THREAD: u16 = 1094;

fn too_late(server: &Server, failed: Failed) -> Failed {
    if server.is_late(&failed) {
        let why = "a commit that does not end, or LOCK TABLES of a session, keeps it from becoming read only: see SHOW PROCESSLIST there";
        return Failed { errno: failed.errno, why: why.into() };
    }
    failed
}

//! Makes a replica test whether its source still answers.
//!
//! The I/O thread is stopped and started, on MariaDB by one statement: whatever becomes of this order, and of this process, the server does
//! both. (On MySQL by two; a thread that stays stopped is started by the next order to follow.) When an acknowledging replica stops, it
//! tells its source so by a connection of its own, and waits for that: 1.0 to 1.5 s when the source is frozen, on MariaDB 10.11.19 with the
//! shortest limit that can be set. A stop that hangs there is therefore an answer, too.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use topology::flavor::Dialect;
use topology::replication::sql;

use super::server::Server;
use super::sql::goodbye;
use crate::failed::Failed;

/// The time between two checks of the thread.
const LOOK: Duration = Duration::from_millis(20);

/// Restarts the I/O thread that fetches from `source`; returns whether it is connected when the time is over. Only while the SQL thread
/// runs: with GTIDs, the first thread to start deletes what was received (seen on MariaDB 10.11.19).
pub(super) async fn reconnect(server: &mut Server, source: &str) -> Result<bool, Failed> {
    let [channel] = &*server.channels().await? else {
        return Err(Failed::because(format!("it does not follow {source}")));
    };
    if !channel.sql_running {
        return Err(Failed::because(
            "its SQL thread does not run: what it has received would be thrown away",
        ));
    }
    // Only MariaDB's threads do; elsewhere a stop hangs for reasons of the replica's own.
    let says_goodbye = server.dialect == Dialect::MariaDb && server.semi_sync().await?.acknowledges;
    let limits = server.goodbye_limit().await?.map(|limit| (goodbye(1), goodbye(limit)));
    let limits = limits.as_ref().map(|(before, after)| (&**before, &**after));
    for statement in sql::reconnect(server.dialect, limits) {
        let left = server.left();
        match timeout(left, server.ask_within(&statement, left + LOOK)).await {
            Ok(done) => done.map(drop)?,
            Err(_) if says_goodbye => return Ok(false),
            Err(_) => return Err(Failed::because("its IO thread does not stop")),
        }
    }
    loop {
        if server.channels().await?.iter().any(|channel| channel.io_running) {
            return Ok(true);
        }
        if server.left().is_zero() {
            return Ok(false);
        }
        sleep(LOOK).await;
    }
}

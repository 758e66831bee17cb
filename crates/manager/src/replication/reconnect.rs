//! A replica that is made to see whether its source still answers.

use std::time::Duration;

use tokio::time::sleep;
use topology::replication::sql;

use super::server::Server;
use crate::act::Failed;

/// Between two looks at the thread.
const LOOK: Duration = Duration::from_millis(20);

/// Has the thread that fetches connect anew; whether it is connected when the time is over. Only where the other thread runs: with GTIDs,
/// the first thread to start throws away what was received (seen on MariaDB 10.11.19).
pub(super) async fn reconnect(server: &mut Server) -> Result<bool, Failed> {
    let applies = server.channels().await?;
    if applies.is_empty() || applies.iter().any(|channel| !channel.sql_running) {
        return Err(Failed::because("its SQL thread does not run: what it has received would be thrown away"));
    }
    server.stop(sql::STOP_FETCHING).await?;
    server.order(sql::START_FETCHING).await?;
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

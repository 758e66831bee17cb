//! A replica that gets nothing more from a primary that is lost, until it is told whom to follow.

use topology::replication::sql;

use super::server::Server;
use crate::act::Failed;

/// Has the thread that fetches stop; what it has received is applied on. Only where the other thread runs: with GTIDs, the first thread to start
/// throws away what was received.
pub(super) async fn part(server: &mut Server) -> Result<(), Failed> {
    let channels = server.channels().await?;
    if channels.iter().any(|channel| !channel.sql_running) {
        return Err(Failed::because(
            "its SQL thread does not run: what it has received would be thrown away when its threads begin",
        ));
    }
    if channels.iter().any(|channel| !channel.io_stopped) {
        server.stop(sql::stop_fetching(server.dialect)).await?;
    }
    Ok(())
}

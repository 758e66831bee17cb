//! Stops a replica from fetching from a lost primary, until it is given another source.

use topology::replication::sql;

use super::server::Server;
use crate::failed::Failed;

/// Stops the I/O thread; what was received is still applied. Only while the SQL thread runs: with GTIDs, the first thread to start deletes
/// what was received.
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

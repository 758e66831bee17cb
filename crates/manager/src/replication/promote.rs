//! Makes a server the primary, only after it has applied all that it received, and all that the old primary had.

use std::time::Duration;

use protocol::errno::QUERY_TIMEOUT;
use protocol::gtid::Position;
use tokio::time::Instant;
use topology::replication::{Channel, sql};

use super::server::Server;
use super::sql::CLOCK;
use crate::failed::Failed;

/// The longest single wait for the applier; between two waits it is checked, so that a stopped applier and a vanished server are noticed.
const PIECE: Duration = Duration::from_millis(250);

/// A server that has to receive something, and has not been connected to its source for this long, will not have it in time.
const UNCONNECTED_MAX: Duration = Duration::from_secs(1);

/// Waits until the server has applied everything; then it follows no other, waits for its replicas if it acknowledged as one, and reports
/// itself writable. `reach`: the position of the old primary. May be repeated after a failure at any step.
pub(super) async fn promote(server: &mut Server, reach: Option<&Position>) -> Result<(), Failed> {
    if let Some(reach) = reach {
        // While it still fetches.
        until_applied(server, reach).await?;
    }
    if !server.channels().await?.is_empty() {
        server.stop(sql::stop_fetching(server.dialect)).await?;
        for channel in server.channels().await? {
            if let Some(received) = channel.received() {
                until_applied(server, &received).await?;
            }
        }
        server.stop(sql::stop(server.dialect)).await?;
        for channel in server.channels().await? {
            server.order(&sql::forget(server.dialect, &channel.name)).await?;
        }
    }
    let semi_sync = server.semi_sync().await?;
    if semi_sync.cannot_wait() {
        tracing::warn!(
            "{} becomes the primary and waits for no replica, as it has no plugin for that (semisync_source, or semisync_master): a failover \
             may lose what it commits",
            server.address
        );
    }
    if semi_sync.acknowledges {
        server.wait_for_replicas(&semi_sync, true).await?;
    }
    let clock = server.ask(CLOCK).await?;
    let clock = clock.text(0, 0).and_then(|text| text.parse::<f64>().ok());
    let clock = clock.ok_or_else(|| Failed::because("it does not say what time it is"))?;
    let until = clock + server.left().as_secs_f64();
    server.order(&sql::writable_before(server.dialect, until)).await?;
    if server.standing().await?.read_only {
        return Err(Failed::because("it says that it is read only, though it was told to be writable"));
    }
    Ok(())
}

/// Waits until the server has applied all of `position`.
async fn until_applied(server: &mut Server, position: &Position) -> Result<(), Failed> {
    let mut is_applied = false;
    let mut unconnected: Option<Instant> = None;
    loop {
        let standing = server.standing().await?.position;
        if standing.contains(position).unwrap_or(false) {
            return Ok(());
        }
        if is_applied {
            let why = format!(
                "it stands at {standing} and says that it has applied {position}: these are two histories"
            );
            return Err(Failed::because(why));
        }
        let short = || format!("it stands at {standing}, and {position} is to be applied");
        match &*server.channels().await? {
            [] => return Err(Failed::because(format!("{}, but it follows nobody", short()))),
            channels => {
                if let Some(stopped) = channels.iter().find(|channel| !channel.sql_running) {
                    let error = if stopped.error.is_empty() { "without an error" } else { &stopped.error };
                    let why = format!("{}, but its SQL thread has stopped: {error}", short());
                    return Err(Failed::because(why));
                }
                let has_it = |channel: &Channel| {
                    channel.received().is_some_and(|received| received.contains(position).unwrap_or(false))
                };
                if channels.iter().any(|channel| channel.io_running || has_it(channel)) {
                    unconnected = None;
                } else if unconnected.get_or_insert_with(Instant::now).elapsed() >= UNCONNECTED_MAX {
                    let error =
                        channels.iter().map(|channel| &*channel.error).find(|error| !error.is_empty());
                    let error = error.unwrap_or("its IO thread is not connected");
                    return Err(Failed::because(format!("{}, and it does not receive: {error}", short())));
                }
            }
        }
        let piece = PIECE.min(server.left());
        if piece.is_zero() {
            return Err(Failed::because(format!("{}: the time was over before", short())));
        }
        let wait = sql::wait_for(server.dialect, &position.to_string(), piece.as_secs_f64())
            .ok_or_else(|| Failed::because(format!("{position} is no position of its family's")))?;
        is_applied = match server.ask_within(&wait, piece + PIECE).await {
            Ok(answer) => answer.text(0, 0) == Some("0"),
            // The server was late to end the wait by itself.
            Err(failed) if failed.errno == QUERY_TIMEOUT => false,
            Err(failed) => return Err(failed),
        };
    }
}

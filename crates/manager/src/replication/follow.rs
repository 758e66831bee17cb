//! Makes a server follow the primary.

use std::time::Duration;

use tokio::time::sleep;
use topology::replication::{Channel, sql};

use super::demote::read_only;
use super::events;
use super::server::Server;
use crate::act::Failed;
use crate::events::Events;
use crate::settings::Account;

/// How long it may take to stop its events.
const EVENTS_MAX: Duration = Duration::from_secs(1);
/// The time between two checks of the threads.
const LOOK: Duration = Duration::from_millis(20);

/// Makes the server read only, and a replica of `source` from its present position; returns when both threads run.
pub(super) async fn follow(
    server: &mut Server,
    source: &str,
    account: &Account,
    events: &Events,
) -> Result<(), Failed> {
    let (host, port) = place(source)
        .ok_or_else(|| Failed::because(format!("{source} is no address that can be followed")))?;
    read_only(server, false).await?;
    // Of a primary that was lost, and has come back.
    events::stop_within(server, events, EVENTS_MAX).await;
    let channels = server.channels().await?;
    match &*channels {
        [] => {
            if let Some(statement) = sql::from_where_it_stands(server.dialect) {
                server.order(statement).await?;
            }
        }
        [channel] => {
            server.stop(sql::stop(server.dialect)).await?;
            if !channel.name.is_empty() {
                server.order(&sql::forget(server.dialect, &channel.name)).await?;
            }
        }
        several => {
            let why =
                format!("it follows {} sources at once, which is left to whoever set it up", several.len());
            return Err(Failed::because(why));
        }
    }
    let statement = sql::change_source(server.dialect, host, port, &account.user, &account.password.0);
    server.order(&statement).await.map_err(|failed| without(failed, &account.password.0))?;
    server.order(sql::start(server.dialect)).await?;
    until_running(server, source).await
}

/// Waits until both threads run. A failover may wait for this, so the first error ends it.
async fn until_running(server: &mut Server, source: &str) -> Result<(), Failed> {
    loop {
        let channels = server.channels().await?;
        let channel = channels.iter().find(|channel| channel.name.is_empty());
        let channel = channel.ok_or_else(|| Failed::because("it has forgotten its source meanwhile"))?;
        if channel.io_running && channel.sql_running {
            return Ok(());
        }
        if !channel.error.is_empty() || server.left().is_zero() {
            return Err(Failed::because(why_not(channel, source)));
        }
        sleep(LOOK).await;
    }
}

/// The server's own error, if there is one. Never contains a password.
fn why_not(channel: &Channel, source: &str) -> String {
    let thread = if channel.io_running { "applying" } else { "fetching" };
    if channel.error.is_empty() {
        format!("it is not {thread} from {source}, and does not say why")
    } else {
        channel.error.clone()
    }
}

/// A server that does not understand a statement repeats a part of it.
fn without(failed: Failed, password: &str) -> Failed {
    if failed.errno == 1064 || (!password.is_empty() && failed.why.contains(password)) {
        let why = format!("the server refused to be told its source with error {}", failed.errno);
        return Failed { errno: failed.errno, why };
    }
    failed
}

/// Host and port of `host:port`; an IPv6 address without its brackets.
fn place(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_without_brackets() {
        assert_eq!(place("db1:3306"), Some(("db1", 3306)));
        assert_eq!(place("[fd00::1]:3306"), Some(("fd00::1", 3306)));
        assert_eq!(place("db1"), None);
    }

    #[test]
    fn no_error_tells_the_password() {
        let server = |errno, why: &str| Failed { errno, why: why.into() };
        let kept = without(server(1198, "is running"), "pw");
        assert_eq!(kept.why, "is running");
        for told in [server(1064, "near 'p"), server(1105, "what is pw?")] {
            let errno = told.errno;
            assert_eq!(
                without(told, "pw").why,
                format!("the server refused to be told its source with error {errno}")
            );
        }
    }
}

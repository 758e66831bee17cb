//! Makes a server follow the primary.

use std::time::Duration;

use tokio::time::sleep;
use topology::replication::{Channel, ended_first, sql};

use super::demote::{read_only, stop_waiting, stops_waiting_at_once};
use super::events;
use super::server::{Means, Server, end_by, end_with_locks};
use super::sql::{WAITING_FOR_A_POSITION, kill_query};
use crate::failed::Failed;
use crate::settings::Account;

/// How long it may take to stop its events.
const EVENTS_MAX: Duration = Duration::from_secs(1);
/// The time between two checks of the threads: a switchover waits for them.
const LOOK: Duration = Duration::from_millis(5);

/// Makes the server read only, and a replica of `source` from its present position; returns when both threads run, how many sessions of
/// clients were ended first, and why some of its events may run on.
pub(super) async fn follow(
    server: &mut Server,
    source: &str,
    account: &Account,
    means: &Means,
) -> Result<(usize, Option<String>), Failed> {
    let (host, port) = place(source)
        .ok_or_else(|| Failed::because(format!("{source} is no address that can be followed")))?;
    read_only(server, means, false).await?;
    if stops_waiting_at_once(server) {
        stop_waiting(server).await?;
    }
    // Of a primary that was lost, and has come back.
    let events_left = events::stop_within(server, &means.events, false, EVENTS_MAX).await;
    let channels = server.channels().await?;
    let mut sessions_ended = 0;
    match &*channels {
        [] => {
            sessions_ended = end_with_locks(server).await?;
            if let Some(statement) = sql::from_where_it_stands(server.dialect) {
                // It waits for every MASTER_GTID_WAIT() on the server, beyond any time limit of its own (MariaDB 10.11.19). They are waits for
                // the primary that this server was, or is not yet a replica of. Without the right to end them it waits.
                let _ = end_by(server, WAITING_FOR_A_POSITION, kill_query).await;
                server.order(statement).await?;
            }
        }
        [channel] if is_half_stopped(channel, source) => {
            server.order(sql::start(server.dialect)).await?;
            until_running(server, source).await?;
            return Ok((0, events_left));
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
    let told_its_source = async {
        let statement = {
            let (user, password) = (&account.user, &*account.password);
            sql::change_source(server.dialect, (host, port), user, password, account.tls.is_some())
        };
        server.order(&statement).await.map_err(|failed| without(failed, &account.password))?;
        server.order(sql::start(server.dialect)).await?;
        until_running(server, source).await
    };
    // That sessions were ended is true whatever comes of it.
    told_its_source.await.map_err(|Failed { errno, why }| match ended_first(sessions_ended) {
        Some(ended) => Failed { errno, why: format!("{why}; {ended}") },
        None => Failed { errno, why },
    })?;
    Ok((sessions_ended, events_left))
}

/// It follows the source, and somebody has stopped one of its threads. That one is started: what the server has received and not applied, which
/// it may have acknowledged, would be deleted if it were told its source, or if both threads were stopped first.
fn is_half_stopped(channel: &Channel, source: &str) -> bool {
    let is_sql = channel.io_running && !channel.sql_running;
    let is_io = channel.io_stopped && channel.sql_running;
    let is_usual = channel.source == source && channel.name.is_empty() && channel.by_gtid;
    is_usual && channel.error.is_empty() && (is_sql || is_io)
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
    fn what_was_received_is_kept_where_one_thread_was_stopped() {
        let follows = |change: fn(&mut Channel)| {
            let mut channel = Channel { source: "db1:3306".into(), by_gtid: true, ..Channel::default() };
            change(&mut channel);
            is_half_stopped(&channel, "db1:3306")
        };
        assert!(follows(|channel| channel.io_running = true));
        assert!(follows(|channel| (channel.sql_running, channel.io_stopped) = (true, true)));
        assert!(!follows(|channel| channel.io_stopped = true), "both are stopped");
        assert!(
            !follows(|channel| channel.sql_running = true),
            "it tries to connect, with a password of before"
        );
        assert!(!follows(|channel| (channel.io_running, channel.error) = (true, "1062".into())));
        assert!(!follows(|channel| (channel.io_running, channel.source) = (true, "db2:3306".into())));
    }

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

//! Ends the sessions that a server still runs for connections which this process has closed with a reset while the network was down
//! ([`link::abandoned`]). Nobody can use them any more, and they keep their locks.
//!
//! A session is known by the server's number for it and by our port, on a server that has run since: so nobody else's is ended. (Where
//! address translation changes the port, none is found.)

use std::collections::HashMap;
use std::time::{Duration, Instant};

use link::abandoned::{self, Abandoned};
use link::{Link, LinkError, Login};
use protocol::errno::{KILL_DENIED_ERROR, NO_SUCH_THREAD};

use crate::failed::{Failed, in_time};
use crate::replication::kill;

/// The time limit of a look.
const DEADLINE: Duration = Duration::from_secs(3);

/// How long the server has run, in whole seconds.
const UPTIME: &str = "SHOW GLOBAL STATUS LIKE 'Uptime'";
/// All sessions: number, and where they come from. Other accounts' are shown only with PROCESS.
const SESSIONS: &str = "SELECT ID, HOST FROM information_schema.PROCESSLIST";

/// Ends those sessions, on a link of its own; returns how many the server still ran. Should it refuse, or not answer, they are looked for again later.
pub(crate) async fn end(address: &str, login: &Login, abandoned: Vec<Abandoned>) -> usize {
    let mut ended = 0;
    let look = async {
        let mut link = Link::connect(address, login, DEADLINE).await?;
        end_over(&mut link, &abandoned, &mut ended).await?;
        link.quit();
        Ok(())
    };
    if let Err(Failed { why, .. }) = in_time(DEADLINE, look).await {
        tracing::debug!("{address}: what it still runs for lost connections could not be ended: {why}");
        for link in abandoned {
            abandoned::note(address, link);
        }
    }
    ended
}

async fn end_over(link: &mut Link, abandoned: &[Abandoned], ended: &mut usize) -> Result<(), LinkError> {
    let asked = Instant::now();
    let rows = link.query(UPTIME, DEADLINE).await?;
    let uptime_s = rows.text(0, 1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let of_this_start = of_this_start(abandoned, Duration::from_secs(uptime_s), asked);
    let rows = link.query(SESSIONS, DEADLINE).await?;
    let sessions = (0..rows.len()).filter_map(|row| Some((rows.text(row, 0)?, rows.text(row, 1)?)));
    for id in still_run(sessions, &of_this_start) {
        match link.query(&kill(id), DEADLINE).await {
            Ok(_) => *ended += 1,
            // It has ended by itself, or this account lacks CONNECTION ADMIN, which was told when the server was met.
            Err(LinkError::Rejected { errno: NO_SUCH_THREAD | KILL_DENIED_ERROR, .. }) => {}
            // Also a Galera node that is not in the Primary component: it refuses KILL (1047).
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Those that answered after the server was started. After another start, number and port may be those of a client that works.
fn of_this_start(abandoned: &[Abandoned], uptime: Duration, asked: Instant) -> Vec<Abandoned> {
    let lives = |link: &Abandoned| asked.saturating_duration_since(link.answered) <= uptime;
    abandoned.iter().copied().filter(lives).collect()
}

/// Which of the sessions (number, and address with port) are of such connections.
fn still_run<'a>(sessions: impl Iterator<Item = (&'a str, &'a str)>, abandoned: &[Abandoned]) -> Vec<u64> {
    let ports: HashMap<u64, u16> =
        abandoned.iter().map(|link| (u64::from(link.connection_id), link.port)).collect();
    let still_runs = |(id, host): (&str, &str)| {
        let id = id.parse().ok()?;
        let port: u16 = host.rsplit_once(':')?.1.parse().ok()?;
        (ports.get(&id) == Some(&port)).then_some(id)
    };
    sessions.filter_map(still_runs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(connection_id: u32, port: u16, answered: Instant) -> Abandoned {
        Abandoned { connection_id, port, answered }
    }

    #[test]
    fn a_session_is_known_by_its_number_and_our_port() {
        let now = Instant::now();
        let abandoned = [link(7, 40_001, now), link(8, 40_002, now)];
        let sessions = [
            ("7", "10.0.0.1:40001"),
            ("8", "10.0.0.1:50000"),
            ("9", "10.0.0.1:40002"),
            ("7", "localhost"),
            ("8", "web1:40002"),
        ];
        assert_eq!(still_run(sessions.into_iter(), &abandoned), [7, 8]);
        assert!(
            still_run([sessions[1]].into_iter(), &abandoned).is_empty(),
            "the number is another client's"
        );
    }

    #[test]
    fn a_server_that_was_started_again_runs_none_of_them() {
        let answered = Instant::now();
        let abandoned = [link(7, 40_001, answered)];
        let asked = answered + Duration::from_millis(10_500);
        let of = |uptime_s| of_this_start(&abandoned, Duration::from_secs(uptime_s), asked);
        assert!(of(10).is_empty(), "it may have started after that");
        assert_eq!(of(11), abandoned);
    }

    #[tokio::test]
    async fn a_server_ends_those_sessions_and_no_others() {
        let server = fixture::Server::start(&[]);
        let address = server.address().to_string();
        let login = Login::new("app", link::Secret::Password("secret".into()));
        let mut links = vec![];
        for _ in 0..3 {
            links.push(Link::connect(&address, &login, DEADLINE).await.unwrap());
        }
        // Until the server counts at least the seconds since then, in whole ones.
        let answered = Instant::now();
        let left = |nth: usize, port| link(links[nth].greeting.connection_id, port, answered);
        let port = |nth: usize| links[nth].stream.local_address().unwrap().port();
        let abandoned = vec![left(0, port(0)), left(1, port(2))];
        let until = Instant::now() + Duration::from_secs(20);
        let mut ended = 0;
        while ended == 0 && Instant::now() < until {
            ended = end(&address, &login, abandoned.clone()).await;
        }
        assert_eq!(ended, 1);
        for (nth, link) in links.iter_mut().enumerate() {
            assert_eq!(link.ping(DEADLINE).await.is_err(), nth == 0, "link {nth}");
        }
        // A server that does not answer: they stay to be looked for.
        drop(server);
        assert_eq!(end(&address, &login, abandoned.clone()).await, 0);
        let mut kept = vec![];
        let until = Instant::now() + abandoned::SETTLED_AFTER * 10;
        while kept.len() < abandoned.len() && Instant::now() < until {
            kept.extend(abandoned::take(&address));
        }
        assert_eq!(kept, abandoned);
    }
}

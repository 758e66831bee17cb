//! Who is what by a running `understudy serve`, asked four times a second.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Status;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use warmup::warmer::Roles;

use super::{LOOK_EVERY, tell};
use cli::exit::Failure;
use client::Client;

/// Who does not answer within this is not asked: the roles may be others by now, and a replay must not reach a new active node.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Follows it for as long as anybody listens. The first answer decides whether there is anybody to follow.
pub(super) fn follow(client: Client, runtime: &Runtime) -> Result<watch::Receiver<Roles>, Failure> {
    let (sender, receiver) = watch::channel(roles(&client.status()?));
    runtime.spawn_blocking(move || {
        while !sender.is_closed() {
            std::thread::sleep(LOOK_EVERY);
            let now = match client.get_within("status", ANSWER_MAX).and_then(|answer| answer.read()) {
                Ok(status) => roles(&status),
                Err(_) => Roles {
                    active: Err("`understudy serve` does not answer".into()),
                    standbys: BTreeMap::new(),
                },
            };
            tell(&sender, now);
        }
    });
    Ok(receiver)
}

/// What a status means for warming.
fn roles(status: &Status) -> Roles {
    let mut roles = warmup::warmer::roles::roles(status, status.nodes.iter().map(|node| &node.view));
    for why in roles.standbys.values_mut().filter_map(|standby| standby.as_mut().err()) {
        why.insert_str(0, "`understudy serve` says: ");
    }
    roles
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use clap::{Args as _, FromArgMatches};
    use serde_json::json;

    use super::*;
    use client::Server;

    #[test]
    fn when_the_answers_stop_nobody_is_active_within_a_second() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let status = json!({ "writers": "one", "gate": "open", "nodes": [
            { "name": "db1", "address": "10.0.0.1:3306", "writer": true, "lane": "open" },
        ] });
        let body = json!({ "success": true, "message": "state", "data": status }).to_string();
        // One answer; then it takes connections and says nothing.
        std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            let mut asked = [0; 4096];
            let _ = first.read(&mut asked).unwrap();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            first.write_all((head + &body).as_bytes()).unwrap();
            drop(first);
            let mut silent = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                silent.push(stream);
            }
        });
        let key = tempfile::NamedTempFile::new().unwrap();
        let command = Server::augment_args(clap::Command::new("warm"));
        let said =
            command.get_matches_from(["warm", "--api", &url, "--key-file", key.path().to_str().unwrap()]);
        let client = Server::from_arg_matches(&said).unwrap().client().unwrap();
        let runtime = cli::runtime::start().unwrap();
        let mut roles = follow(client, &runtime).unwrap();
        assert!(roles.borrow_and_update().active.is_ok());
        let begin = Instant::now();
        runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(30), roles.changed()).await.unwrap().unwrap();
        });
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
        assert_eq!(roles.borrow().active, Err("`understudy serve` does not answer".into()));
        runtime.shutdown_background();
    }

    #[test]
    fn what_is_no_status_has_nobody_warmed() {
        let nothing = roles(&Status::default());
        assert!(nothing.active.is_err() && nothing.standbys.is_empty());
    }
}

//! Who is what by a running `understudy serve`, asked four times a second.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use topology::health::Problem;
use warmup::warmer::Roles;

use super::{LOOK_EVERY, tell};
use cli::exit::Failure;
use client::Client;

/// Who does not answer within this is not asked: the roles may be others by now, and a replay must not reach a new active node.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Follows it for as long as anybody listens. The first answer decides whether there is anybody to follow.
pub(super) fn follow(client: Client, runtime: &Runtime) -> Result<watch::Receiver<Roles>, Failure> {
    let (sender, receiver) = watch::channel(roles(&client.get("status")?.data));
    runtime.spawn_blocking(move || {
        while !sender.is_closed() {
            std::thread::sleep(LOOK_EVERY);
            let now = match client.get_within("status", ANSWER_MAX) {
                Ok(answer) => roles(&answer.data),
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

/// What a status means for warming: the same as the view that it was made of means for `[warm]` of `understudy serve` (`wiring/warm.rs`).
pub fn roles(status: &Value) -> Roles {
    let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |node: &Value| Some((node["name"].as_str()?.to_owned(), node["address"].as_str()?.to_owned()));
    let writer = nodes.iter().find(|node| node["writer"] == true);
    let is_open = |node: &&Value| status["gate"] == "open" && node["lane"] == "open";
    let active = match writer.filter(is_open).and_then(of) {
        _ if status["writers"] != "one" => Err("all nodes take the traffic".to_owned()),
        Some(active) => Ok(active),
        None => {
            let why = status["hold_because"].as_str().unwrap_or("no node takes the traffic");
            Err(format!("statements are held: {why}"))
        }
    };
    let others = nodes.iter().filter(|node| node["writer"] != true);
    let standbys = others.filter_map(|node| {
        let (name, address) = of(node)?;
        let why = unusable(node).map(|why| format!("`understudy serve` says: {why}"));
        Some((name, why.map_or(Ok(address), Err)))
    });
    Roles { standbys: standbys.collect(), active }
}

/// Why a node that does not take the traffic is not to be warmed.
fn unusable(node: &Value) -> Option<String> {
    let is = |field: &str, words: &[&str]| node[field].as_str().is_some_and(|word| words.contains(&word));
    let problem = || node["problem"].as_str().unwrap_or("not known yet").replace('_', " ");
    if node["sessions_max"] == 0 || is("problem", &[Problem::Drained.name()]) {
        Some("it is drained by an operator".into())
    } else if is("state", &["unknown", "silent", "dead"])
        || node["linked"] != true
        || !node["doubt"].is_null()
    {
        Some(format!("it does not answer, or is in doubt: {}", problem()))
    } else if is("state", &["donor"]) {
        Some("it feeds another node".into())
    } else if !is("serves", &["well", "stays"]) {
        Some(format!("it could not take the traffic over: {}", problem()))
    } else {
        None
    }
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
        let nothing = roles(&json!({}));
        assert!(nothing.active.is_err() && nothing.standbys.is_empty());
        let nameless = roles(
            &json!({ "writers": "one", "gate": "open", "nodes": [{ "writer": true, "lane": "open" }, {}] }),
        );
        assert!(nameless.active.is_err() && nameless.standbys.is_empty());
    }
}

//! `understudy warm`: every standby of a running cluster is replayed what the active node is asked.
//!
//! Roles are those of `understudy serve`, asked four times a second: no answer, a hold, or several writers mean that nobody is warmed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use link::{Login, Place, Secret};
use serde_json::Value;
use tokio::sync::watch;
use warmup::access::Access;
use warmup::replay::target::Target;
use warmup::replay::{Sessions, Settings};
use warmup::warmer::{self, Roles};

use super::foreground::{self, Signals};
use crate::client::{Client, Server};
use crate::exit::{Failure, Outcome};

/// Between two looks at who is what.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The password of the account that reads.
const PASSWORD_ENV: &str = "UNDERSTUDY_PASSWORD";

/// For `--help`.
const MORE: &str = "\
Each node runs `understudy slowlog serve`, so that whichever is active can be streamed from. Stays in the foreground until SIGTERM or SIGINT.";

/// Keeps the standbys of a running `understudy serve` warm: replays on each what the active node's slow log says it was asked to read.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Warm {
    #[command(flatten)]
    server: Server,
    /// The port at which each node's slow log is streamed
    #[arg(long, value_name = "N", default_value_t = 3307, value_parser = clap::value_parser!(u16).range(1..))]
    stream_port: u16,
    /// The key that the streamers want, in a file
    #[arg(long, value_name = "FILE")]
    stream_key_file: Option<PathBuf>,
    /// Ask the streamers over TLS, and trust this certificate (PEM): theirs, or that of the authority that signed it
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The account that reads, the same on all nodes; its password is in UNDERSTUDY_PASSWORD
    #[arg(long, value_name = "NAME")]
    user: String,
    /// A pool of so many sessions instead of one for each recorded connection
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pool: Option<u32>,
    /// Leave out statements that are so far behind what is read
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    lag_max_s: u64,
    /// Leave out what this account ran, besides --user; may be given several times
    #[arg(long, value_name = "NAME")]
    skip_user: Vec<String>,
    /// Use an account that may write
    #[arg(long)]
    writable_account: bool,
}

impl Warm {
    /// Warms until told to stop.
    pub fn run(self) -> Outcome {
        foreground::log();
        let client = self.server.client()?;
        let access = Access::of_files(self.stream_key_file.as_deref(), self.tls_ca.as_deref());
        let access = access.map_err(Failure::usage)?;
        let secret = std::env::var(PASSWORD_ENV).ok().filter(|text| !text.is_empty());
        let mut skipped_users = self.skip_user;
        skipped_users.push(self.user.clone());
        let login = Login::new(self.user, secret.map_or(Secret::None, Secret::Password));
        let settings = Settings {
            sessions: match self.pool {
                Some(sessions) => Sessions::Pool(sessions as usize),
                None => Settings::default().sessions,
            },
            lag_max: Some(Duration::from_secs(self.lag_max_s)),
            skipped_users,
            ..Settings::default()
        };
        let target = move |address: &str| Target {
            place: Place::Tcp(address.to_owned()),
            login: login.clone(),
            session_init: Vec::new(),
        };
        // The first answer decides whether there is anybody to follow.
        let first = roles(&client.get("status")?.data, self.stream_port);
        crate::runtime::start()?.block_on(async {
            let mut signals = Signals::new()?;
            let (sender, receiver) = watch::channel(first);
            tokio::task::spawn_blocking(move || follow(&client, self.stream_port, &sender));
            let warming = warmer::warm(receiver, target, settings, self.writable_account, access);
            tokio::select! {
                () = warming => Err(Failure::Failed("nobody says any more who is active".into())),
                signal = signals.next() => {
                    tracing::info!("{signal}: stopping");
                    Ok(ExitCode::SUCCESS)
                }
            }
        })
    }
}

/// Tells of each change of roles, until nobody listens.
fn follow(client: &Client, stream_port: u16, sender: &watch::Sender<Roles>) {
    while !sender.is_closed() {
        std::thread::sleep(LOOK_EVERY);
        let now = client.get("status").map(|answer| roles(&answer.data, stream_port)).unwrap_or_default();
        sender.send_if_modified(|before| {
            let differs = *before != now;
            *before = now;
            differs
        });
    }
}

/// What a status means for warming. A node that takes no reads at present is not warmed.
fn roles(status: &Value, stream_port: u16) -> Roles {
    let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |node: &Value| Some((node["name"].as_str()?.to_owned(), node["address"].as_str()?.to_owned()));
    let is_open = status["gate"] == "open";
    let active = status["writer"].as_str().filter(|_| is_open).and_then(|writer| {
        let (name, address) = nodes.iter().filter_map(of).find(|(name, _)| name == writer)?;
        let host = address.rsplit_once(':')?.0;
        Some((name, format!("{host}:{stream_port}")))
    });
    let name = active.as_ref().map(|(name, _)| name.clone());
    let standbys: BTreeMap<String, String> = nodes
        .iter()
        .filter(|node| node["writer"] != true && node["linked"] == true)
        .filter_map(of)
        .filter(|(standby, _)| Some(standby) != name.as_ref())
        .collect();
    Roles { active, standbys }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::roles;

    #[test]
    fn nobody_is_warmed_unless_one_node_takes_the_traffic() {
        let status = |gate: &str, writer: serde_json::Value| {
            json!({ "gate": gate, "writer": writer, "nodes": [
                { "name": "db1", "address": "10.0.0.1:3306", "writer": writer == "db1", "linked": true },
                { "name": "db2", "address": "[::1]:3306", "writer": writer == "db2", "linked": true },
                { "name": "db3", "address": "10.0.0.3:3306", "writer": false, "linked": false },
            ] })
        };
        let open = roles(&status("open", json!("db1")), 3307);
        assert_eq!(open.active, Some(("db1".into(), "10.0.0.1:3307".into())));
        assert_eq!(
            open.standbys.into_iter().collect::<Vec<_>>(),
            [("db2".to_owned(), "[::1]:3306".to_owned())]
        );
        let moved = roles(&status("open", json!("db2")), 3307);
        assert_eq!(moved.active, Some(("db2".into(), "[::1]:3307".into())));
        assert!(!moved.standbys.contains_key("db2"));
        assert_eq!(roles(&status("held", json!("db1")), 3307).active, None);
        assert_eq!(roles(&status("open", json!(null)), 3307).active, None);
        assert_eq!(roles(&json!({}), 3307), warmup::warmer::Roles::default());
    }
}

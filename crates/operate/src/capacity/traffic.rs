//! Takes the node out of proxy, health endpoint and address, and gives it back: by `understudy serve`, which has all three.
//!
//! A process of our own stays behind that waits for our end: were we killed, it would give the order to take the node back. That may be early:
//! a node that is not in step with its cluster is given no traffic by `serve`, whatever was ordered.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use cli::exit::{CommandResult, Failure};
use client::node::node_path;
use client::{Answer, Client};

/// The hidden option of the process that stays behind.
pub const SUCCESSOR_FLAG: &str = "--put-back-when-gone";
/// What we tell it when there is nothing left for it to do.
const DONE: u8 = b'.';
/// It tries for so long.
const TRY_MAX: Duration = Duration::from_secs(600);
/// Between two tries.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// Who gives the node its traffic.
pub enum Traffic {
    /// Nobody that we could ask: whoever asks the node itself sees that it is desynchronised.
    Nobody,
    /// A running `understudy serve`.
    Served(Served),
}

/// See [`Traffic::Served`].
pub struct Served {
    client: Arc<Client>,
    node: String,
    /// An operator drained it: it stays so.
    was_drained: bool,
    successor: Option<Child>,
}

impl Served {
    /// The node's traffic, in the hands of this server.
    pub fn new(client: Client, node: &str, was_drained: bool) -> Self {
        Self { client: Arc::new(client), node: node.to_owned(), was_drained, successor: None }
    }

    async fn order(&self, order: &str, body: Value) -> Result<Answer, Failure> {
        let (client, path) = (self.client.clone(), node_path(&self.node, order));
        let answer = tokio::task::spawn_blocking(move || client.put(&path, &body, None));
        match answer.await {
            Ok(answer) => answer,
            Err(e) => Err(Failure::Failed(e.to_string())),
        }
    }
}

/// The order is for the time of the measurement: an operator's drain that comes meanwhile stays.
fn temporary() -> Value {
    json!({ "temporary": true })
}

/// Whether the order changed anything. A `serve` of before this field was there changed something.
fn is_changed(answer: &Answer) -> bool {
    answer.data["changed"].as_bool().unwrap_or(true)
}

fn text(failure: Failure) -> String {
    failure.text().to_owned()
}

impl Traffic {
    /// What would come of taking the node out of traffic, and how it would be given back, if it would; nothing is done.
    ///
    /// # Errors
    /// `serve` would refuse it.
    pub async fn would_take_out(&self) -> Result<(String, Option<String>), Failure> {
        match self {
            Self::Nobody => Ok(("nobody takes the node out of traffic (--standalone)".to_owned(), None)),
            Self::Served(served) if served.was_drained => {
                Ok(("the node is drained already, and stays so".to_owned(), None))
            }
            Self::Served(served) => {
                let body = json!({ "temporary": true, "dry_run": true });
                let said = served.order("drain", body).await?.message;
                let back = format!("understudy undrain {}", served.node);
                Ok((format!("understudy drain {}: {said}", served.node), Some(back)))
            }
        }
    }

    /// The node gets no new work, and what runs on it has ended.
    ///
    /// # Errors
    /// `serve`'s own sentence.
    pub async fn take_out(&mut self) -> Result<(), String> {
        let Self::Served(served) = self else { return Ok(()) };
        if served.was_drained {
            return Ok(());
        }
        served.successor = Some(successor().map_err(|e| format!("cannot start a process of our own: {e}"))?);
        let answer = served.order("drain", temporary()).await;
        let is_others = match &answer {
            Ok(answer) => !is_changed(answer),
            Err(failure) => matches!(failure, Failure::Refused { .. }),
        };
        if is_others {
            // Somebody has drained it since it was looked at, or it was not drained at all: there is nothing of ours to undo.
            served.was_drained = true;
            if let Some(successor) = served.successor.take() {
                let _ = tokio::task::spawn_blocking(move || dismiss(successor)).await;
            }
        }
        answer.map(drop).map_err(text)
    }

    /// It gets work again, once it is in step.
    ///
    /// # Errors
    /// `serve`'s own sentence; the process that stays behind goes on trying then.
    pub async fn put_back(&mut self) -> Result<(), String> {
        let Self::Served(served) = self else { return Ok(()) };
        if served.was_drained {
            return Ok(());
        }
        let ordered = served.order("undrain", temporary()).await;
        if let Some(mut successor) = served.successor.take() {
            if ordered.is_ok() {
                let _ = tokio::task::spawn_blocking(move || dismiss(successor)).await;
            } else {
                drop(successor.stdin.take());
            }
        }
        let answer = ordered.map_err(text)?;
        if !is_changed(&answer) {
            // An operator has ordered a drain meanwhile.
            eprintln!("{}", answer.message);
        }
        Ok(())
    }
}

/// There is nothing left to do for it.
fn dismiss(mut successor: Child) {
    if let Some(stdin) = &mut successor.stdin {
        // It may be gone; then it does nothing either.
        let _ = stdin.write_all(&[DONE]);
    }
    drop(successor.stdin.take());
    let _ = successor.wait();
}

/// The same command line, with the hidden option; in a process group of its own, so that what ends us does not end it.
fn successor() -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg(SUCCESSOR_FLAG)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
}

/// What the process that stays behind does: waits for the end of the one that started it, and takes its place.
pub fn succeed(client: &Client, node: &str) -> CommandResult {
    let mut said = Vec::new();
    // An error means the same as an end.
    let _ = std::io::stdin().take(16).read_to_end(&mut said);
    if said.contains(&DONE) {
        return Ok(ExitCode::SUCCESS);
    }
    let until = Instant::now() + TRY_MAX;
    loop {
        match client.put(&node_path(node, "undrain"), &temporary(), None) {
            Ok(answer) => {
                eprintln!("`understudy capacity` was ended in the middle: {}", answer.message);
                return Ok(ExitCode::SUCCESS);
            }
            Err(failure) if Instant::now() > until => {
                return Err(Failure::Failed(format!(
                    "{node} is still drained: `understudy undrain {node}` ends that ({})",
                    text(failure)
                )));
            }
            Err(_) => std::thread::sleep(TRY_EVERY),
        }
    }
}

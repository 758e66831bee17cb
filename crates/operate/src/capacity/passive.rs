//! `understudy capacity NODE --passive`: what the node could apply, from what happens by itself. Nothing is stopped and nobody is moved; the node is asked for
//! its counters, and no more.
//!
//! By what `understudy serve` has seen for up to a day, a look each second; or, with --for-s (and with --standalone), by looking 200 times a second for a
//! while, which takes less than a twentieth of one of its processors (0.24 ms a look), and sees the short queues after each stall.

use std::process::ExitCode;
use std::time::Duration;

use api::Status;
use link::Rows;
use measure::capacity::passive::{Look, NodeCapacity, Series, Watcher};
use measure::sample::{Counters, Sample};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use topology::kind::Kind;

use super::before;
use super::named_asker::NamedAsker;
use super::servers::Site;
use super::sql;
use cli::exit::Failure;
use cli::foreground::Signals;

/// Between two looks: a short queue is empty again after some of them.
const PACE: Duration = Duration::from_millis(5);
/// The node answers so soon, or a look is missing.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Without a look for so long, it is given up.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The time is seen in so many parts: from how they differ it is known how sure the figure is.
const PARTS: u32 = 12;

/// What was seen, as people and programs want it.
pub struct Seen {
    /// One line.
    pub text: String,
    /// All of it.
    pub json: Value,
}

/// Looks at the node for a while, or until a signal comes.
///
/// # Errors
/// When the node does not answer.
pub async fn look(site: &Site, node: &mut NamedAsker, how_long: Duration) -> Result<Seen, Failure> {
    if site.kind == Kind::Replication {
        before::is_mariadb(node).await?;
    }
    let mut signals = Signals::new()?;
    let bucket_us = (how_long / PARTS).as_micros().max(1) as u64;
    let (mut watcher, mut series) = (Watcher::default(), Series::new(bucket_us, PARTS as usize + 1));
    let began = Instant::now();
    let (mut looks, mut heard) = (0_u64, began);
    while began.elapsed() < how_long {
        let asked = began.elapsed();
        let answer = ask(site.kind, node).await;
        let at = asked + began.elapsed().saturating_sub(asked) / 2;
        match answer {
            Ok(counters) => {
                heard = Instant::now();
                let sample = Sample { at_unix_ms: 0, at_us: at.as_micros() as u64, counters };
                if let Some(look) = Look::of(&sample) {
                    watcher.look(look, &mut series);
                    looks += 1;
                }
            }
            Err(why) if heard.elapsed() > SILENCE_MAX => return Err(Failure::Failed(why)),
            Err(_) => {}
        }
        tokio::select! {
            _ = signals.next() => break,
            () = sleep(PACE) => {}
        }
    }
    let looked = began.elapsed();
    let name = &site.node.name;
    if looks < 2 {
        return Err(Failure::Failed(format!("{name} does not tell what it applies, and what waits for it")));
    }
    let peak = series.peak_per_s().map(|peak| (peak, "the highest rate meanwhile"));
    let told = NodeCapacity::of(name, &series, peak);
    let mut json = json!(told);
    json["looked_ms"] = json!(looked.as_millis() as u64);
    json["looks"] = json!(looks);
    Ok(Seen { text: told.sentence, json })
}

async fn ask(kind: Kind, node: &mut NamedAsker) -> Result<Counters, String> {
    match kind {
        Kind::Galera => {
            let rows = node.ask(sql::GALERA_ALL, ANSWER_MAX).await?;
            Ok(Counters::read_galera(|name| rows.value_of(name)))
        }
        Kind::Replication => {
            // What was applied is asked last: it can only be more than what was fetched then.
            let channels = node.ask(sql::REPLICA, ANSWER_MAX).await?;
            let applied = node.ask(sql::APPLIED, ANSWER_MAX).await?;
            Ok(Counters { replication: Some(replication(&channels, &applied)?), ..Counters::default() })
        }
    }
}

fn replication(channels: &Rows, applied: &Rows) -> Result<measure::sample::Replication, String> {
    let replica = sql::replica(channels)?;
    Ok(measure::sample::Replication {
        applied: applied.text(0, 0).and_then(sql::transactions),
        received: Some(replica.fetched),
        sql_running: Some(replica.applies),
        io_running: Some(replica.fetches),
        ..measure::sample::Replication::default()
    })
}

/// What a running `serve` has seen of the node, out of its status.
///
/// # Errors
/// When it tells nothing of it.
pub fn of_status(status: &Status, node: &str) -> Result<Seen, Failure> {
    let told = status.capacity.iter().find(|told| told.node == node).ok_or_else(|| {
        Failure::Failed(format!(
            "`understudy serve` tells nothing of what {node} could apply; --for-s 60 looks at it directly"
        ))
    })?;
    Ok(Seen { text: told.sentence.clone(), json: json!(told) })
}

/// 0: there is a figure; 1: there is none, or only a lower bound.
pub fn code(seen: &Seen) -> ExitCode {
    if seen.json["apply_per_s"].is_null() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

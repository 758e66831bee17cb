//! Random faults and moves, one after another, each undone and waited for before the next.
//!
//! The kinds come in rounds: each round has every kind once, in an order drawn from the seed. Which node "another" is, and for how long
//! a fault lasts, is drawn, too.

use std::time::Duration;

use anyhow::Context;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use tokio::time::Instant;

use crate::failover::case::Scope;
use crate::failover::front::Front;
use crate::failover::progress::Progress;
use crate::failover::rejoin;
use crate::failover::understudy::Refused;
use crate::fault::Fault;
use crate::stage::Stage;

/// Quiet time before each fault, ms.
const QUIET_MS: std::ops::RangeInclusive<u64> = 500..=2500;
/// How long a fault lasts before it is undone, ms: shorter and longer than the cluster needs to notice it.
const LASTS_MS: std::ops::RangeInclusive<u64> = 200..=8000;

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Switchover,
    Break(Fault, Scope),
}

const KINDS: [Move; 9] = [
    Move::Switchover,
    Move::Break(Fault::Kill, Scope::Active),
    Move::Break(Fault::Kill, Scope::Passive),
    Move::Break(Fault::Stop, Scope::Active),
    Move::Break(Fault::Freeze, Scope::Active),
    Move::Break(Fault::Freeze, Scope::Passive),
    Move::Break(Fault::Vanish, Scope::Active),
    Move::Break(Fault::Vanish, Scope::Passive),
    Move::Switchover,
];

/// One fault or move, as it was carried out.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// When it was done, since the start of the phase, s.
    pub at_s: f64,
    /// `switchover`, `kill`, `stop`, `freeze`, `vanish`.
    pub what: String,
    /// The node; of a switchover, the new writer.
    pub node: String,
    /// Whether it was the writer; of a switchover, before it.
    pub was_writer: bool,
    /// When it was undone, since the start of the phase, s.
    pub undone_s: Option<f64>,
    /// When everything was well again, since the start of the phase, s.
    pub well_s: Option<f64>,
    /// Why a switchover was refused, or undone; nothing has moved then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Transactions that only the old primary had, undone so that it could follow.
    pub flashed_back: u64,
}

/// Carries out faults until the deadline; the last one is undone, too. What was done before an error is in `events`.
///
/// # Errors
/// When a fault cannot be injected or undone, or the cluster is not well again in time.
pub async fn run(
    stage: &Stage,
    front: &Front,
    seed: u64,
    began: Instant,
    until: Instant,
    events: &mut Vec<Event>,
    progress: &Progress,
) -> anyhow::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut round: Vec<Move> = Vec::new();
    while Instant::now() < until {
        if round.is_empty() {
            let can = |kind: &Move| stage.is_namespaced() || !matches!(kind, Move::Break(Fault::Vanish, _));
            round = KINDS.into_iter().filter(can).collect();
            round.shuffle(&mut rng);
        }
        let Some(kind) = round.pop() else { return Ok(()) };
        let quiet = Duration::from_millis(rng.random_range(QUIET_MS));
        let lasts = Duration::from_millis(rng.random_range(LASTS_MS));
        let which = rng.random_range(0..1000);
        tokio::time::sleep(quiet).await;
        match kind {
            Move::Switchover => switchover(front, began, events).await?,
            Move::Break(fault, scope) => {
                break_and_mend(stage, front, fault, scope, which, lasts, began, events).await?;
            }
        }
        let done = events.last().map(Event::line).unwrap_or_default();
        let part = began.elapsed().as_secs_f64() / (until - began).as_secs_f64();
        progress.part(part, &done);
        progress.line(&done);
    }
    Ok(())
}

async fn switchover(front: &Front, began: Instant, events: &mut Vec<Event>) -> anyhow::Result<()> {
    let api = front.api().context("the proxy has no API")?;
    let at_s = began.elapsed().as_secs_f64();
    events.push(Event::new(at_s, "switchover", String::new(), true));
    // A switchover that does not succeed in its time limit, such as that to a replica that is far behind, is undone, and all is as before. One
    // that is not answered at all ends the run.
    let refused = match api.switchover(None).await {
        Ok(_) => None,
        Err(error) if error.is::<Refused>() => Some(format!("{error:#}")),
        Err(error) => return Err(error.context("a switchover has no answer")),
    };
    let undone_s = began.elapsed().as_secs_f64();
    front.wait_ready("Understudy").await.context("after a switchover")?;
    let node = front.active().await?;
    if let Some(event) = events.last_mut() {
        event.node = node;
        event.refused = refused;
        event.undone_s = Some(undone_s);
        event.well_s = Some(began.elapsed().as_secs_f64());
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "one fault with all that was drawn for it")]
async fn break_and_mend(
    stage: &Stage,
    front: &Front,
    fault: Fault,
    scope: Scope,
    which: u32,
    lasts: Duration,
    began: Instant,
    events: &mut Vec<Event>,
) -> anyhow::Result<()> {
    let victim = front.victim(scope, which).await?;
    let at_s = began.elapsed().as_secs_f64();
    events.push(Event::new(at_s, &fault.to_string(), victim.clone(), scope == Scope::Active));
    stage.fault(&victim, fault).await.with_context(|| format!("cannot do {fault} to {victim}"))?;
    tokio::time::sleep(lasts).await;
    let undone_s = began.elapsed().as_secs_f64();
    let what = || format!("after {fault} of {victim} at {at_s:.3} s");
    stage.fault(&victim, Fault::Heal).await.with_context(what)?;
    let flashed_back = rejoin::whole(stage, front, &victim).await.with_context(what)?;
    front.wait_ready("Understudy").await.with_context(what)?;
    if let Some(event) = events.last_mut() {
        event.undone_s = Some(undone_s);
        event.well_s = Some(began.elapsed().as_secs_f64());
        event.flashed_back = flashed_back;
    }
    Ok(())
}

impl Event {
    fn new(at_s: f64, what: &str, node: String, was_writer: bool) -> Self {
        let what = what.to_owned();
        Self { at_s, what, node, was_writer, undone_s: None, well_s: None, refused: None, flashed_back: 0 }
    }

    /// `12.345 s: kill of db1 (writer), undone at 13.456 s, well at 20.123 s`.
    pub fn line(&self) -> String {
        let at = |time: Option<f64>| time.map_or("never".to_owned(), |time| format!("at {time:.3} s"));
        let what = match (self.what.as_str(), self.was_writer) {
            ("switchover", _) if self.refused.is_some() => {
                format!("switchover refused {}", at(self.undone_s))
            }
            ("switchover", _) => format!("switchover to {}, answered {}", self.node, at(self.undone_s)),
            (what, true) => format!("{what} of {} (writer), undone {}", self.node, at(self.undone_s)),
            (what, false) => format!("{what} of {}, undone {}", self.node, at(self.undone_s)),
        };
        let flashed_back = match self.flashed_back {
            0 => String::new(),
            count => format!(", {count} transactions that only it had undone"),
        };
        let refused = self.refused.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        format!("{:.3} s: {what}, well {}{flashed_back}{refused}", self.at_s, at(self.well_s))
    }
}

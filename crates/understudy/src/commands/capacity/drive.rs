//! Brings the procedure, the hands and the watch together, until nothing is left to do.

use std::time::Duration;

use measure::capacity::procedure::{Event, Order, Phase, Procedure};
use tokio::time::{Instant, sleep};

use super::hands::Hands;
use super::watch::Watch;
use crate::commands::foreground::Signals;

/// Between two readings while the rate is looked at, and while nothing is applied.
const PACE: Duration = Duration::from_millis(250);
/// Between two readings while the queue falls: its end is the figure.
const PACE_FALLING: Duration = Duration::from_millis(50);
/// Without a reading for so long, the node is lost.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Runs it to its end; nothing is left undone then that could be undone from here.
pub async fn drive(
    hands: &mut Hands,
    watch: &mut Watch,
    signals: &mut Signals,
    tell: impl Fn(&Procedure),
) -> Procedure {
    let began = Instant::now();
    let (mut procedure, first) = Procedure::begin(hands.plan);
    let mut next = Some(first);
    let mut heard = Instant::now();
    let mut told = None;
    while procedure.phase() != Phase::Ended {
        if told != Some(procedure.phase()) {
            tell(&procedure);
            told = Some(procedure.phase());
        }
        let (at, event) = match next.take() {
            Some(order) => {
                let done = hands.obey(order).await;
                heard = Instant::now();
                (began.elapsed(), done.map_or_else(Event::Failed, |()| Event::Done))
            }
            None => {
                let pace = if procedure.phase() == Phase::CatchingUp { PACE_FALLING } else { PACE };
                tokio::select! {
                    signal = signals.next() => (began.elapsed(), Event::Interrupted(signal.to_owned())),
                    () = sleep(pace) => match look(hands, watch, &procedure, began, &mut heard).await {
                        Some(seen) => seen,
                        None => continue,
                    },
                }
            }
        };
        next = procedure.on(at, event);
    }
    procedure
}

/// What is seen now; nothing when a reading is missing and may still come.
async fn look(
    hands: &Hands,
    watch: &mut Watch,
    procedure: &Procedure,
    began: Instant,
    heard: &mut Instant,
) -> Option<(Duration, Event)> {
    match watch.read(began).await {
        Ok(reading) => {
            *heard = Instant::now();
            // With an empty queue the guard may have done its work already: nothing is lost by that.
            let must_be_guarded =
                matches!(procedure.phase(), Phase::Desyncing | Phase::Held | Phase::CatchingUp)
                    && procedure.failure().is_none()
                    && (procedure.phase() != Phase::CatchingUp || reading.node.queue > 0);
            Some(match hands.guard_lost().filter(|_| must_be_guarded) {
                Some(why) => (began.elapsed(), Event::Lost(why.to_owned())),
                None => (reading.at, Event::Read(reading)),
            })
        }
        Err(why) if heard.elapsed() > SILENCE_MAX => Some((began.elapsed(), Event::Lost(why))),
        Err(_) => None,
    }
}

/// What is going on, for people. `standalone`: nobody gives the node traffic.
pub fn doing(phase: Phase, standalone: bool) -> Option<String> {
    Some(match phase {
        Phase::TakingOut | Phase::PuttingBack if standalone => return None,
        Phase::TakingOut => format!("{} ...", Order::TakeOut),
        Phase::Baseline => "looking at the usual rate ...".to_owned(),
        Phase::Desyncing => format!("{} ...", Order::Desync),
        Phase::Stopping => format!("{} ...", Order::Stop),
        Phase::Held => "held: nothing is applied ...".to_owned(),
        Phase::Resuming => format!("{} ...", Order::Resume),
        Phase::CatchingUp => "catching up ...".to_owned(),
        Phase::Resyncing => format!("{} ...", Order::Resync),
        Phase::PuttingBack => format!("{} ...", Order::PutBack),
        Phase::Ended => return None,
    })
}

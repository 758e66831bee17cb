//! Brings the procedure, the hands and the watch together, until nothing is left to do.

use std::collections::VecDeque;
use std::time::Duration;

use measure::capacity::procedure::{Event, Order, Phase, Procedure};
use tokio::time::{Instant, sleep};

use super::hands::Hands;
use super::watch::Watch;
use cli::foreground::Signals;

/// A reading is no older than this.
const READING_AGE_MAX: Duration = Duration::from_secs(3);
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
    let mut unguarded_since = None;
    let mut told = None;
    // Those that came while an order was under way.
    let mut waiting = VecDeque::new();
    while procedure.phase() != Phase::Ended {
        let doing = (procedure.phase(), procedure.failure().is_some());
        if told != Some(doing) {
            tell(&procedure);
            told = Some(doing);
        }
        let (at, event) = match next.take() {
            Some(order) => {
                let ended = carry_out(hands, order, signals, &mut waiting).await;
                heard = Instant::now();
                (began.elapsed(), ended)
            }
            None if !waiting.is_empty() => {
                let signal = waiting.pop_front().unwrap_or_default();
                (began.elapsed(), Event::Interrupted(signal.to_owned()))
            }
            None => {
                let pace = if procedure.phase() == Phase::CatchingUp { PACE_FALLING } else { PACE };
                tokio::select! {
                    signal = signals.next() => (began.elapsed(), Event::Interrupted(signal.to_owned())),
                    () = sleep(pace) => match look(hands, watch, &procedure, began, &mut heard, &mut unguarded_since).await {
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

/// Carries an order out. A signal that comes meanwhile is kept until its end, which is near: what a server is asked has its time limit. What
/// `understudy serve` is asked may take long, and is given up at the second signal.
async fn carry_out(
    hands: &mut Hands,
    order: Order,
    signals: &mut Signals,
    waiting: &mut VecDeque<&'static str>,
) -> Event {
    let done = hands.obey(order);
    tokio::pin!(done);
    loop {
        tokio::select! {
            done = &mut done => return done.map_or_else(Event::Failed, |()| Event::Done),
            signal = signals.next() => {
                waiting.push_back(signal);
                match order {
                    Order::TakeOut if waiting.len() > 1 => {
                        // Not a failure of the order: whoever runs this wants it to end. The order was given, and is undone.
                        waiting.clear();
                        return Event::Interrupted(signal.to_owned());
                    }
                    Order::PutBack if waiting.len() > 1 => {
                        return Event::Failed(format!("given up at {signal}"));
                    }
                    _ => {}
                }
                eprintln!("{signal}: it ends when {order} has ended");
            }
        }
    }
}

/// What is seen now; nothing when a reading is missing and may still come.
async fn look(
    hands: &mut Hands,
    watch: &mut Watch,
    procedure: &Procedure,
    began: Instant,
    heard: &mut Instant,
    unguarded_since: &mut Option<Instant>,
) -> Option<(Duration, Event)> {
    let lost = hands.guard_lost();
    match (lost, &unguarded_since) {
        (None, _) => *unguarded_since = None,
        (Some(_), None) => *unguarded_since = Some(Instant::now()),
        (Some(_), Some(_)) => {}
    }
    watch.is_held = procedure.phase() == Phase::Held;
    match watch.read(began).await {
        Ok(reading) => {
            *heard = Instant::now();
            let must_be_guarded = match procedure.phase() {
                Phase::Desyncing | Phase::Held => true,
                // A guard that wakes up meanwhile and finds the queue short has done its work: then the node is not desynchronised any more. A reading may
                // be of a moment before that.
                Phase::CatchingUp => {
                    reading.node.is_desynced
                        && unguarded_since.is_some_and(|since| since.elapsed() > READING_AGE_MAX)
                }
                _ => false,
            } && procedure.failure().is_none();
            Some(match lost.filter(|_| must_be_guarded) {
                Some(why) => {
                    if procedure.phase() == Phase::CatchingUp {
                        hands.guard_anew().await;
                    }
                    (began.elapsed(), Event::GuardLost(why.to_owned()))
                }
                None => (reading.at, Event::Read(reading)),
            })
        }
        Err(why) if heard.elapsed() > SILENCE_MAX => Some((began.elapsed(), Event::Lost(why))),
        Err(_) => None,
    }
}

/// What is going on, for people. `standalone`: nobody gives the node traffic.
pub fn doing(procedure: &Procedure, standalone: bool) -> Option<String> {
    let phase = procedure.phase();
    Some(match phase {
        Phase::TakingOut | Phase::PuttingBack if standalone => return None,
        Phase::CatchingUp if procedure.failure().is_some() => {
            "there will be no figure; it stays as it is until its queue is short (a second SIGINT leaves that to its server) ...".to_owned()
        }
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

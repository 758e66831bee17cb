//! Stops the node, or waits for that; lets it be away; starts it, or waits for that; and follows it until it has everything again.

use std::time::Duration;

use measure::recovery::galera::{self, Donor, Returning};
use measure::recovery::log::{self, Event};
use measure::recovery::restart::{Members, Own, Restart, TransferKind, expected};
use measure::recovery::{Forecast, WriteRate};
use tokio::time::{Instant, sleep_until};

use super::before::Found;
use super::hands::{self, AtStop, Running, Saved};
use super::order::Measure;
use super::watch::{Answer, Status, Watch};
use cli::exit::Failure;
use cli::foreground::Signals;
use link::Login;
use settings::Settings;

/// So often it is told how far a restart has got.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Between two looks into the log.
const LOG_PACE: Duration = Duration::from_millis(20);
/// Readings in memory, at the most: beyond, every second one is dropped.
const READINGS_MAX: usize = 20_000;

/// The cluster at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Since the stop was ordered.
    pub(super) at: Duration,
    /// The members' last writeset.
    pub(super) committed: u64,
    /// The node's, while it answers.
    pub(super) own: Option<u64>,
    /// What it has received and not yet applied.
    pub(super) queue: u64,
    /// A member is donor.
    pub(super) has_donor: bool,
}

/// All that came of it. Times are since the stop was ordered, or seen.
pub(super) struct Measured {
    /// The server had ended.
    pub(super) gone: Duration,
    /// Its start was ordered, or seen.
    pub(super) started: Duration,
    /// What was forecast for the absence that it became.
    pub(super) expected: TransferKind,
    /// What was to be expected a moment before the start.
    pub(super) expected_at_start: TransferKind,
    /// The node's last writeset, as it stopped.
    pub(super) position: i64,
    /// Writesets and bytes of the group while the node was away.
    pub(super) missed: (u64, u64),
    /// For how long flow control has stopped the writes of a member meanwhile, ms.
    pub(super) paused_ms: f64,
    /// The restart.
    pub(super) restart: Restart,
    /// In order.
    pub(super) readings: Vec<Reading>,
}

/// How it ended.
pub(super) enum End {
    /// The node is back.
    Back(Box<Measured>),
    /// By this signal.
    Signal(&'static str),
}

/// Everybody's last word.
struct Cluster<'a> {
    number: usize,
    watch: Watch,
    last: Vec<Option<Status>>,
    /// At the stop.
    first: Vec<Option<Status>>,
    began: Instant,
    readings: Vec<Reading>,
    /// What the node's log has said since the stop was asked for, while it is somebody else who stops and starts the server: that one may be faster.
    heard: Vec<(Instant, Event)>,
    signals: &'a mut Signals,
}

/// What one wait ended with.
enum Seen {
    Answer(Answer),
    Time,
    Signal(&'static str),
}

impl Cluster<'_> {
    async fn next(&mut self, until: Instant) -> Result<Seen, Failure> {
        let answer = tokio::select! {
            signal = self.signals.next() => return Ok(Seen::Signal(signal)),
            answer = self.watch.next() => answer,
            () = sleep_until(until) => return Ok(Seen::Time),
        };
        let answer =
            answer.ok_or_else(|| Failure::Failed("the tasks that ask the nodes have ended".into()))?;
        self.last[answer.node] = answer.status;
        if answer.node != self.number && answer.status.is_some() {
            self.note(answer.at);
        }
        Ok(Seen::Answer(answer))
    }

    fn note(&mut self, at: Instant) {
        let own = self.last[self.number];
        if self.readings.len() >= READINGS_MAX {
            let mut number = 0;
            self.readings.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
        let reading = Reading {
            at: at.saturating_duration_since(self.began),
            committed: self.others().map(|status| status.last_committed).max().unwrap_or(0),
            own: own.map(|own| own.last_committed),
            queue: own.map_or(0, |own| own.queue),
            has_donor: self.others().any(|status| status.state == 2),
        };
        self.readings.push(reading);
    }

    fn others(&self) -> impl Iterator<Item = &Status> {
        let number = self.number;
        self.last
            .iter()
            .enumerate()
            .filter(move |(node, _)| *node != number)
            .filter_map(|(_, status)| status.as_ref())
    }

    fn members(&self) -> Members {
        Members {
            cluster_size: self.others().map(|status| status.cluster_size).max().unwrap_or(0),
            has_donor: self.others().any(|status| status.state == 2),
        }
    }

    /// Reads the node's log while its user stops and starts it.
    fn listen(&mut self, order: &Measure, found: &mut Found) {
        if order.start_command.is_none() {
            let lines = found.tail.as_mut().map(super::tail::Tail::lines).unwrap_or_default();
            self.heard.extend(lines.iter().filter_map(|line| Some((Instant::now(), log::event(line)?))));
        }
    }

    /// The log says that the server has been started.
    fn has_begun(&self) -> bool {
        self.heard.iter().any(|(_, event)| *event == Event::Starting)
    }

    /// What a node with everything up to `position` would need now.
    fn needs(&self, position: i64) -> TransferKind {
        let donors: Vec<Donor> =
            self.others().filter(|status| status.may_donate()).map(Status::donor).collect();
        let now = WriteRate { bytes_per_s: 0.0, transactions_per_s: 0.0 };
        if donors.is_empty() {
            // None is Synced at the moment; the node will wait for one.
            return TransferKind::Unknown;
        }
        let node = Returning { history: None, seqno: position, is_gone: true, missed_bytes: None };
        match galera::forecast(node, None, &donors, now) {
            forecast @ (Forecast::FullCopy(_) | Forecast::DependsOnSource(_)) => {
                expected(forecast, Duration::ZERO)
            }
            Forecast::Missed(_) => TransferKind::Incremental,
        }
    }

    /// The largest growth of a counter of any member since the stop.
    fn grown(&self, count: impl Fn(&Status) -> u64) -> u64 {
        let pairs = self.first.iter().zip(&self.last).enumerate().filter(|(node, _)| *node != self.number);
        pairs
            .filter_map(|(_, (first, last))| {
                Some(count(last.as_ref()?).saturating_sub(count(first.as_ref()?)))
            })
            .max()
            .unwrap_or(0)
    }
}

/// Does it.
///
/// # Errors
/// When a command fails, or a time is over: each says whether the node is down.
pub(super) async fn drive(
    order: &Measure,
    settings: &Settings,
    login: &Login,
    found: &mut Found,
    signals: &mut Signals,
) -> Result<End, Failure> {
    let name = &order.node;
    let nodes = settings.nodes.len();
    let mut cluster = Cluster {
        number: found.number,
        watch: Watch::start(settings, login),
        last: vec![None; nodes],
        first: vec![None; nodes],
        began: Instant::now(),
        readings: Vec::new(),
        heard: Vec::new(),
        signals,
    };
    // Everybody was heard at least once: what grows is counted from there.
    let patience = Instant::now() + Duration::from_secs(10);
    while cluster.last[found.number].is_none() || cluster.others().next().is_none() {
        match cluster.next(patience).await? {
            Seen::Answer(_) => {}
            Seen::Signal(signal) => return Ok(End::Signal(signal)),
            Seen::Time => {
                return Err(Failure::Failed(format!("nothing was changed: {name} does not answer any more")));
            }
        }
    }
    cluster.first.clone_from(&cluster.last);
    // As the group counts: an arbitrator, and whoever is not configured here, are members, too.
    found.cluster_size = cluster.members().cluster_size;
    cluster.began = Instant::now();
    cluster.readings.clear();
    let mut seqno = found.position;
    if let Some(end) = stop(order, found, &mut cluster, &mut seqno).await? {
        return Ok(end);
    }
    let gone = cluster.began.elapsed();
    eprintln!("{name}: gone, {:.1} s after the order", gone.as_secs_f64());
    if found.is_full
        && let Some(saved) = &found.saved
        && let Err(why) = saved.forget(seqno)
    {
        return Err(start_again(order, name, &why).await);
    }
    let seen = i64::try_from(seqno).unwrap_or(-1);
    let position = match (found.saved.as_ref().map(Saved::position), found.is_full) {
        (_, true) | (Some(AtStop::Nothing), false) => -1,
        (Some(AtStop::Clean(seqno)), false) => i64::try_from(seqno).unwrap_or(-1),
        (Some(AtStop::ToBeRecovered), false) => {
            eprintln!(
                "{name}: its grastate.dat has no seqno, as after a crash: the position is the last that was seen, {seen}, and what --wsrep-recover finds may be less"
            );
            seen
        }
        (None, false) => seen,
    };
    let back_at = Instant::now() + order.away;
    loop {
        cluster.listen(order, found);
        if cluster.has_begun() || Instant::now() >= back_at {
            break;
        }
        match cluster.next(back_at.min(Instant::now() + LOG_PACE)).await? {
            Seen::Answer(_) | Seen::Time => {}
            Seen::Signal(signal) => {
                if order.start_command.is_some() {
                    eprintln!("{}", message(start_again(order, name, signal).await));
                } else {
                    eprintln!("{name} is down");
                }
                return Ok(End::Signal(signal));
            }
        }
    }
    let expected_at_start = cluster.needs(position);
    let missed_now = |cluster: &Cluster| {
        (cluster.grown(|status| status.last_committed), cluster.grown(|status| status.bytes))
    };
    let missed = missed_now(&cluster);
    let mut running = match &order.start_command {
        Some(line) => {
            Some(hands::begin(line).map_err(|why| Failure::Failed(format!("{why}; {name} is down")))?)
        }
        None => {
            if !cluster.has_begun() {
                eprintln!("{name}: start the server now");
            }
            None
        }
    };
    let ordered = running.is_some().then(Instant::now);
    let followed = follow(order, found, &mut cluster, &mut running, ordered).await?;
    let (restart, started) = match followed {
        Ok(followed) => followed,
        Err(signal) => return Ok(End::Signal(signal)),
    };
    let started = started.saturating_duration_since(cluster.began);
    let away = started.saturating_sub(gone);
    Ok(End::Back(Box::new(Measured {
        gone,
        started,
        expected: if found.is_full { TransferKind::Full } else { expected(found.forecast, away) },
        expected_at_start,
        position,
        missed,
        paused_ms: cluster.grown(|status| status.paused_ns) as f64 / 1e6,
        restart,
        readings: cluster.readings,
    })))
}

/// Until the node has ended. `seqno`: the last writeset that was seen on it.
async fn stop(
    order: &Measure,
    found: &mut Found,
    cluster: &mut Cluster<'_>,
    seqno: &mut u64,
) -> Result<Option<End>, Failure> {
    let name = &order.node;
    let limit = Instant::now() + order.within;
    let mut running = match &order.stop_command {
        Some(line) => {
            eprintln!("{name}: stopping");
            Some(hands::begin(line).map_err(Failure::Failed)?)
        }
        None => {
            eprintln!("{name}: stop the server now");
            None
        }
    };
    loop {
        match cluster.next(Instant::now() + LOG_PACE).await? {
            Seen::Answer(answer) if answer.node == found.number => {
                *seqno = (*seqno).max(answer.status.map_or(0, |status| status.last_committed));
            }
            Seen::Answer(_) | Seen::Time => {}
            Seen::Signal(signal) if order.stop_command.is_some() => {
                if let Some(running) = &mut running {
                    // A start before its end would be lost.
                    let _ = tokio::time::timeout_at(limit, running.ended()).await;
                }
                eprintln!("{}", message(start_again(order, name, signal).await));
                return Ok(Some(End::Signal(signal)));
            }
            Seen::Signal(signal) => return Ok(Some(End::Signal(signal))),
        }
        cluster.listen(order, found);
        if cluster.has_begun() {
            // It was restarted in one step.
            return Ok(None);
        }
        if let Some(why) = ended(&mut running).await {
            return Err(Failure::Failed(format!("{why}; look whether {name} runs")));
        }
        let is_silent = cluster.last[found.number].is_none();
        if running.is_none() && is_silent && cluster.members().cluster_size < found.cluster_size {
            return Ok(None);
        }
        if Instant::now() > limit {
            let why = format!("{name} still answers, or is still in the group: it was not stopped in time");
            if order.stop_command.is_none() {
                return Err(Failure::Failed(why));
            }
            // It may still end, and then nobody would start it.
            if let Some(running) = &mut running {
                let _ = tokio::time::timeout(order.within, running.ended()).await;
            }
            return Err(start_again(order, name, &why).await);
        }
    }
}

/// mariadb.service starts its server again after 5 s (Restart=on-abort, RestartSec=5s): where it is the one that watches, it comes first.
const START_AGAIN_AFTER: Duration = Duration::from_secs(15);
/// Starts of one return, with the first.
const STARTS_MAX: u32 = 3;
/// A server that has given up for so long is not started again by anybody.
const ABORTED_MAX: Duration = Duration::from_secs(60);

/// From the order, or from its first sign, until it is Synced and takes connections; `Err` is a signal.
async fn follow(
    order: &Measure,
    found: &mut Found,
    cluster: &mut Cluster<'_>,
    running: &mut Option<Running>,
    ordered: Option<Instant>,
) -> Result<Result<(Restart, Instant), &'static str>, Failure> {
    let name = &order.node;
    let mut restart = Restart::default();
    let mut started = ordered;
    let limit = Instant::now() + order.within;
    let mut tell_at = Instant::now() + TELL_EVERY;
    if order.start_command.is_some() {
        // What it said as it ended is no part of its return.
        while found.tail.as_mut().is_some_and(|tail| !tail.lines().is_empty()) {}
    }
    let mut said = std::mem::take(&mut cluster.heard);
    // A node that gives up in the middle of a transfer is started again by whoever watches its service.
    let (mut aborted_at, mut starts): (Option<Instant>, u32) = (None, 1);
    loop {
        let seen = cluster.next(Instant::now() + LOG_PACE).await?;
        let lines = found.tail.as_mut().map(super::tail::Tail::lines).unwrap_or_default();
        said.extend(lines.iter().filter_map(|line| Some((Instant::now(), log::event(line)?))));
        for (now, event) in said.drain(..) {
            match event {
                Event::Starting => aborted_at = None,
                Event::Aborted if started.is_some() => aborted_at = Some(now),
                _ => {}
            }
            if event == Event::Starting && started.is_none() {
                started = Some(now);
                eprintln!("{name}: starts");
            }
            if let Event::TransferFailed(why) = &event {
                // Whatever started it may start it again, so that this is not the end.
                eprintln!("{name}: {why}");
            }
            if let Some(from) = started {
                restart.log(now.duration_since(from), event);
            }
        }
        match seen {
            Seen::Signal(signal) => {
                eprintln!("{name} is not back yet; what starts it was left to go on");
                return Ok(Err(signal));
            }
            Seen::Answer(answer) => {
                if answer.node == found.number && answer.status.is_some() {
                    // A second server that found the first one's files locked has given up, and not this one.
                    aborted_at = None;
                }
                heard(&mut restart, &mut started, cluster, found, &answer);
            }
            Seen::Time => {}
        }
        if let Some(why) = ended(running).await {
            return Err(Failure::Failed(format!("{why}; {name} is not back")));
        }
        if let Some(at) = aborted_at {
            let why = restart.failed.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            match &order.start_command {
                Some(line) if starts < STARTS_MAX && at.elapsed() >= START_AGAIN_AFTER => {
                    eprintln!("{name}: its server gave up{why}, and is started again");
                    *running = Some(hands::begin(line).map_err(Failure::Failed)?);
                    (aborted_at, starts) = (None, starts + 1);
                }
                Some(_) if starts < STARTS_MAX => {}
                _ if at.elapsed() >= ABORTED_MAX => {
                    return Err(Failure::Failed(format!(
                        "{name}: its server gave up{why}, and nothing has started it again; {name} is down: look at its error log"
                    )));
                }
                _ => {}
            }
        }
        if restart.is_over()
            && let Some(started) = started
        {
            return Ok(Ok((restart, started)));
        }
        if let Some(started) = started
            && Instant::now() > tell_at
        {
            tell_at += TELL_EVERY;
            eprintln!("{name}: {}", so_far(&restart, cluster, started));
        }
        if Instant::now() > limit {
            let why = restart.failed.map_or_else(String::new, |why| format!(": {why}"));
            return Err(Failure::Failed(format!(
                "{name} is not Synced after {:.0} s{why}",
                order.within.as_secs_f64()
            )));
        }
    }
}

/// Where a restart that takes its time has got to.
fn so_far(restart: &Restart, cluster: &Cluster<'_>, started: Instant) -> String {
    let ended: Vec<&str> = restart.phases().iter().map(|phase| phase.mark.phase()).collect();
    let queued = match cluster.last[cluster.number] {
        Some(own) if own.queue > 0 => format!(", {} writesets queue up on it", own.queue),
        _ => String::new(),
    };
    let ended = if ended.is_empty() { "nothing".to_owned() } else { ended.join(", ") };
    format!("{:.0} s after its start; done: {ended}{queued}", started.elapsed().as_secs_f64())
}

fn heard(
    restart: &mut Restart,
    started: &mut Option<Instant>,
    cluster: &Cluster<'_>,
    found: &Found,
    answer: &Answer,
) {
    let is_own = answer.node == found.number;
    let is_sign =
        if is_own { answer.status.is_some() } else { cluster.members().cluster_size >= found.cluster_size };
    if !is_sign && started.is_none() {
        return;
    }
    let from = *started.get_or_insert(answer.at);
    let at = answer.at.saturating_duration_since(from);
    match (is_own, answer.status) {
        (true, Some(status)) => restart.own(at, Own { state: status.state, is_ready: status.is_ready }),
        (true, None) => {}
        (false, _) => restart.members(at, cluster.members(), found.cluster_size),
    }
}

/// Why the start command failed, if it has ended so.
async fn ended(running: &mut Option<Running>) -> Option<String> {
    let ended = tokio::time::timeout(Duration::ZERO, running.as_mut()?.ended()).await.ok()?;
    *running = None;
    ended.err()
}

/// Starts what this command stopped; what that came to.
async fn start_again(order: &Measure, name: &str, why: &str) -> Failure {
    let Some(line) = &order.start_command else { return Failure::Failed(format!("{why}; {name} is down")) };
    let begun = match hands::begin(line) {
        Ok(mut running) => {
            let ended = tokio::time::timeout(order.within, running.ended()).await;
            ended.unwrap_or_else(|_| Err(format!("`{line}` did not return in time")))
        }
        Err(why) => Err(why),
    };
    Failure::Failed(match begun {
        Ok(()) => format!("{why}; {name} was started again by --start-command"),
        Err(failed) => format!("{why}; {name} is down, and {failed}"),
    })
}

fn message(failure: Failure) -> String {
    failure.text().to_owned()
}

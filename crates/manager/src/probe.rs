//! The probe of one node: a task that keeps a link open, asks for the status every interval, and reports the results.
//!
//! ```text
//!             connected                       tick, or Probe
//!   Without ─────────────> Idle ──────────────────────────────> Asking
//!      ^                    │  ^        answered                   │ │
//!      │        link ended  │  └───────────────────────────────────┘ │
//!      └────────────────────┴──────────────────────────── misses_max intervals without an answer
//! ```
//!
//! Between two questions for the status, an idle node gets a ping, so that there is one question or the other four times in an interval:
//! the cost of a silent node is measured in tenths of a second, and the status query is too expensive for that rate. A late answer to a
//! ping only means that the node is slow, and others are asked about it. It is not a miss before the status would have been one.
//!
//! A connection attempt may run beside any of these (Confirm asks for a new link at once); when it succeeds, it replaces the link. A
//! question is not withdrawn when it misses its deadline: each further interval without an answer is one more miss, and a late answer is
//! still an answer. A slow node is thus not taken for a dead one before misses_max intervals have passed.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use link::{Ended, Link, LinkError};
use protocol::{errno, ok};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use topology::NodeId;
use topology::fact::{ConnectFailure, Fact, LinkEnd};
use topology::kind::Kind;
use topology::routes::ServerGreeting;

use crate::means::{self, Means, MeansNow};
use crate::note::Note;
use crate::reading::{self, ProbeAnswer};
use crate::samples;

/// A problem of this host itself is logged again after this long.
const WARNED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// An answer is slow when it takes this part of the time that it may take, and this many times as long as usual.
const SLOW_PART: u32 = 5;
const SLOW_TIMES: u32 = 4;

/// Pings are sent this many times in an interval, unless that is shorter than this.
const BEATS: u32 = 4;
const BEATS_FROM: Duration = Duration::from_millis(100);

/// The time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// A request to a probe task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Open a new link.
    Confirm,
    /// Ask for the status.
    Probe,
}

pub(crate) struct Probe {
    pub node: NodeId,
    /// The kind of cluster, which decides what is asked.
    pub kind: Kind,
    pub address: String,
    /// The account, the interval and the like, which may change meanwhile.
    pub means: MeansNow,
    /// The time from which facts count.
    pub started: Instant,
    /// Where the node's counters go; not through the brain.
    pub samples: Option<samples::Input>,
    pub wishes: mpsc::Receiver<Wish>,
    pub notes: mpsc::Sender<Note>,
}

/// The status, or only the answer to a ping.
type Word = Result<Option<Box<ProbeAnswer>>, LinkError>;
type Asked = Pin<Box<dyn Future<Output = (Link, Word)> + Send>>;
type Connecting = Pin<Box<dyn Future<Output = Result<Link, LinkError>> + Send>>;

enum Kept {
    Without,
    Idle(Box<Link>),
    Asking(Asking),
}

/// A question that was not answered yet.
struct Asking {
    answer: Asked,
    about: About,
    /// Misses count from this time: when the status was asked for, or would have been.
    missed_from: Instant,
    misses: u32,
    next_miss: Instant,
}

#[derive(Clone, Copy)]
struct About {
    asked: Instant,
    /// Whether it is only a ping.
    is_beat: bool,
    /// When the answer will count as slow; `None` once that was reported.
    slow_at: Option<Instant>,
    /// Whether the status is asked for as soon as this is answered.
    status_next: bool,
}

/// When an idle node is asked next, and how long its answers usually take.
struct Times {
    ask: Instant,
    beat: Instant,
    /// When the next sample is due.
    sample: Instant,
    usual_status: Duration,
    usual_beat: Duration,
}

impl Times {
    fn usual(&mut self, is_beat: bool) -> &mut Duration {
        if is_beat { &mut self.usual_beat } else { &mut self.usual_status }
    }

    /// Whether a sample is taken from the status that is asked for now: one each second, or from each status where those are rarer. The one
    /// nearest to the full second is taken.
    fn is_sampled(&mut self, now: Instant, interval: Duration) -> bool {
        if now + interval / 2 < self.sample {
            return false;
        }
        // Missed samples are not made up for.
        let is_late = self.sample + interval < now;
        self.sample = if is_late { now } else { self.sample } + SAMPLE_EVERY;
        true
    }
}

/// What was told last of the sessions to come.
#[derive(Default)]
struct OfLogins {
    status: u16,
    shows_sessions: bool,
}

impl OfLogins {
    /// What an answer says that was not told yet.
    fn changed(&mut self, node: NodeId, answer: &ProbeAnswer) -> Vec<Fact> {
        let mut facts = Vec::new();
        if let Some(status) = answer.login_status.filter(|status| *status != self.status) {
            self.status = status;
            facts.push(Fact::LoginStatus { node, status });
        }
        if let Some(shows) = answer.shows_sessions.filter(|shows| *shows != self.shows_sessions) {
            self.shows_sessions = shows;
            facts.push(Fact::ShowsSessions { node, shows });
        }
        facts
    }
}

struct Trying {
    link: Connecting,
    since: Instant,
    misses: u32,
    next_miss: Instant,
}

enum Event {
    Wish(Option<Wish>),
    Connected(Result<Link, LinkError>),
    Ended(Ended),
    Answered(Box<Link>, Word, About),
    Time,
}

impl Probe {
    /// Runs until its reports have no receiver.
    pub async fn run(mut self) {
        let mut kept = Kept::Without;
        let mut trying: Option<Trying> = None;
        let now = Instant::now();
        let (usual_status, usual_beat) = (Duration::ZERO, Duration::ZERO);
        let mut times = Times { ask: now, beat: now, sample: now, usual_status, usual_beat };
        let mut warned = None;
        let mut login = self.now().login.clone();
        let mut of_logins = OfLogins::default();
        loop {
            let means = self.now();
            if means.login != login && trying.is_none() {
                // The link is replaced when the new account has logged in, and not before.
                login.clone_from(&means.login);
                trying = Some(self.connect());
            }
            let now = Instant::now();
            let wake = [
                match &kept {
                    Kept::Asking(asking) => Some(asking.about.slow_at.unwrap_or(asking.next_miss)),
                    Kept::Without if trying.is_some() => None,
                    Kept::Idle(_) if has_beats(&means) => Some(times.ask.min(times.beat)),
                    Kept::Idle(_) | Kept::Without => Some(times.ask),
                },
                trying.as_ref().map(|trying| trying.next_miss),
            ];
            let wake = wake.into_iter().flatten().min().unwrap_or(now + means.probe_interval);
            match next(&mut self.wishes, &mut kept, &mut trying, wake).await {
                Event::Wish(None) => return,
                Event::Wish(Some(Wish::Confirm)) => {
                    if trying.is_none() {
                        trying = Some(self.connect());
                    }
                }
                Event::Wish(Some(Wish::Probe)) => match kept {
                    Kept::Idle(link) => kept = self.ask(*link, &mut times),
                    Kept::Asking(mut asking) => {
                        // A status query in progress is sufficient.
                        asking.about.status_next |= asking.about.is_beat;
                        kept = Kept::Asking(asking);
                    }
                    Kept::Without if trying.is_none() => trying = Some(self.connect()),
                    Kept::Without => {}
                },
                Event::Connected(result) => {
                    trying = None;
                    times.ask = Instant::now() + means.probe_interval;
                    match result {
                        Ok(link) => {
                            let greeting = ServerGreeting {
                                version: link.greeting.version.clone(),
                                capabilities: link.greeting.caps.0,
                                charset: link.greeting.charset,
                                status: link.greeting.status & ok::status::OF_LOGIN,
                                plugin: link.greeting.plugin.clone(),
                            };
                            of_logins = OfLogins { status: greeting.status, shows_sessions: false };
                            if !self.tell(Fact::LinkUp { node: self.node, greeting }).await {
                                return;
                            }
                            kept = self.ask(link, &mut times);
                        }
                        Err(error) => match failure(error) {
                            Ok(how) => {
                                if !self.tell(Fact::ConnectFailed { node: self.node, how }).await {
                                    return;
                                }
                            }
                            // Nothing was learned about the node, so nothing is reported.
                            Err(local_error) => self.warn(&local_error, &mut warned),
                        },
                    }
                }
                Event::Ended(how) => {
                    kept = Kept::Without;
                    times.ask = Instant::now() + means.probe_interval;
                    if !self.tell(Fact::LinkEnded { node: self.node, how: end(how) }).await {
                        return;
                    }
                }
                Event::Answered(link, Ok(word), about) => {
                    #[cfg(test)]
                    fault::panic_if_ordered(&self.address);
                    let took = about.asked.elapsed();
                    if let Some(samples) = &self.samples {
                        samples.probed(took);
                    }
                    let usual = times.usual(about.is_beat);
                    *usual = (*usual * 7 + took) / 8;
                    times.beat = Instant::now() + means.probe_interval / BEATS;
                    // A slow node is asked for its status, and not only pinged.
                    let status_next = about.status_next || (about.is_beat && about.slow_at.is_none());
                    kept = if status_next { self.ask(*link, &mut times) } else { Kept::Idle(link) };
                    if let Some(told) = word {
                        for fact in of_logins.changed(self.node, &told) {
                            if !self.tell(fact).await {
                                return;
                            }
                        }
                        let asked = about.asked.duration_since(self.started);
                        if let (Some(counters), Some(samples)) = (told.counters, &self.samples) {
                            samples.put(asked, counters);
                        }
                        if self
                            .notes
                            .send(Note::Reading(self.node, Box::new(told.reading), asked))
                            .await
                            .is_err()
                        {
                            return;
                        }
                    }
                }
                Event::Answered(link, Err(error), _) => {
                    drop(link);
                    kept = Kept::Without;
                    times.ask = Instant::now() + means.probe_interval;
                    let how = match error {
                        LinkError::Closed | LinkError::Reset => LinkEnd::Closed,
                        LinkError::Rejected { errno, .. } => LinkEnd::Goodbye { errno },
                        _ => LinkEnd::Silent,
                    };
                    if !self.tell(Fact::LinkEnded { node: self.node, how }).await {
                        return;
                    }
                }
                Event::Time => {
                    if !self.time(&mut kept, &mut trying, &mut times).await {
                        return;
                    }
                }
            }
        }
    }

    /// Logs a problem of this host, but not with every attempt; `warned` is when that was last done.
    fn warn(&self, local_error: &str, warned: &mut Option<Instant>) {
        let now = Instant::now();
        if warned.is_none_or(|last| now.duration_since(last) >= WARNED_AGAIN_AFTER) {
            *warned = Some(now);
            tracing::warn!("{} could not be probed: {local_error}", self.address);
        }
    }

    async fn tell(&self, fact: Fact) -> bool {
        self.notes.send(Note::Fact(fact)).await.is_ok()
    }

    /// A time has come: the next question, a slow answer, or a miss.
    async fn time(&self, kept: &mut Kept, trying: &mut Option<Trying>, times: &mut Times) -> bool {
        let (now, means) = (Instant::now(), self.now());
        if let Kept::Asking(asking) = kept
            && asking.about.slow_at.take_if(|at| *at <= now).is_some()
        {
            let asked = asking.about.asked.duration_since(self.started);
            if !self.tell(Fact::ProbeSlow { node: self.node, asked }).await {
                return false;
            }
        }
        let mut missed = None;
        if let Some(attempt) = trying
            && attempt.next_miss <= now
        {
            attempt.misses += 1;
            attempt.next_miss = now + means.probe_interval;
            missed = Some(attempt.since);
        }
        match kept {
            Kept::Asking(asking) if asking.next_miss <= now => {
                asking.misses += 1;
                asking.next_miss = now + means.probe_interval;
                missed = Some(asking.missed_from);
                if asking.misses >= means.misses_max {
                    *kept = Kept::Without;
                    times.ask = now;
                    return self.tell(Fact::LinkEnded { node: self.node, how: LinkEnd::Silent }).await;
                }
            }
            Kept::Idle(_) => {
                if let Kept::Idle(link) = std::mem::replace(kept, Kept::Without) {
                    *kept = if times.ask <= now {
                        self.ask(*link, times)
                    } else if has_beats(&means) && times.beat <= now {
                        self.beat(*link, times)
                    } else {
                        Kept::Idle(link)
                    };
                }
            }
            Kept::Without if trying.is_none() && times.ask <= now => {
                times.ask = now + means.probe_interval;
                *trying = Some(self.connect());
            }
            _ => {}
        }
        let Some(asked) = missed else { return true };
        let asked = asked.duration_since(self.started);
        self.tell(Fact::ProbeMissed { node: self.node, asked }).await
    }

    fn connect(&self) -> Trying {
        let (kind, address, means) = (self.kind, self.address.clone(), self.now());
        let deadline = means.probe_interval * means.misses_max;
        let since = Instant::now();
        let next_miss = since + means.probe_interval;
        let link = Box::pin(async move {
            let mut link = Link::connect(&address, &means.login, deadline).await?;
            reading::admit(kind, &mut link, deadline).await?;
            Ok(link)
        });
        Trying { link, since, misses: 0, next_miss }
    }

    /// Asks for the status.
    fn ask(&self, mut link: Link, times: &mut Times) -> Kept {
        let (kind, deadline) = (self.kind, self.deadline());
        let is_sampled = times.is_sampled(Instant::now(), self.now().probe_interval);
        let answer = Box::pin(async move {
            let answer = reading::ask(kind, &mut link, deadline, is_sampled).await;
            (link, answer.map(|told| Some(Box::new(told))))
        });
        self.asking(answer, false, times)
    }

    /// Sends a ping.
    fn beat(&self, mut link: Link, times: &mut Times) -> Kept {
        let deadline = self.deadline();
        let answer = Box::pin(async move {
            let answer = link.ping(deadline).await.map(|()| None);
            (link, answer)
        });
        self.asking(answer, true, times)
    }

    fn asking(&self, answer: Asked, is_beat: bool, times: &mut Times) -> Kept {
        let (asked, interval) = (Instant::now(), self.now().probe_interval);
        let usual = *times.usual(is_beat);
        let slow_at = asked + (interval / SLOW_PART).max(usual * SLOW_TIMES).min(interval);
        let missed_from = if is_beat { times.ask.max(asked) } else { asked };
        times.ask = if is_beat { times.ask } else { asked + interval };
        let next_miss = missed_from + interval;
        let about = About { asked, is_beat, slow_at: Some(slow_at), status_next: false };
        Kept::Asking(Asking { answer, about, missed_from, misses: 0, next_miss })
    }

    /// Misses are counted elsewhere; this only keeps a forgotten question from lasting for ever.
    fn deadline(&self) -> Duration {
        let means = self.now();
        means.probe_interval * (means.misses_max + 2)
    }

    fn now(&self) -> Arc<Means> {
        means::now(&self.means)
    }
}

/// Whether pings are sent between two questions for the status.
fn has_beats(means: &Means) -> bool {
    means.events && means.probe_interval >= BEATS_FROM
}

/// Waits for the first of several events. Cancel safe: what is pending stays in `kept` and `trying`.
async fn next(
    wishes: &mut mpsc::Receiver<Wish>,
    kept: &mut Kept,
    trying: &mut Option<Trying>,
    wake: Instant,
) -> Event {
    let connected = async {
        match trying {
            Some(trying) => (&mut trying.link).await,
            None => pending().await,
        }
    };
    let spoke = async {
        match kept {
            Kept::Without => pending().await,
            Kept::Idle(link) => Event::Ended(link.ended().await),
            Kept::Asking(asking) => {
                let (link, answer) = (&mut asking.answer).await;
                Event::Answered(Box::new(link), answer, asking.about)
            }
        }
    };
    tokio::select! {
        // Events of the node come before the clock: an answer that has arrived is not a miss.
        biased;
        event = spoke => event,
        result = connected => Event::Connected(result),
        wish = wishes.recv() => Event::Wish(wish),
        () = sleep_until(wake) => Event::Time,
    }
}

fn end(how: Ended) -> LinkEnd {
    match how {
        // A link on which the node sent something unasked cannot be used any more, which is no sign of the node's end: the next connection
        // shows that.
        Ended::Closed | Ended::Reset | Ended::Unasked => LinkEnd::Closed,
        Ended::Goodbye { errno, .. } => LinkEnd::Goodbye { errno },
        Ended::Lost { .. } => LinkEnd::Silent,
    }
}

/// What a failed connection says about the node; `Err` when it says nothing about it, but shows a problem of this host.
pub(crate) fn failure(error: LinkError) -> Result<ConnectFailure, String> {
    Ok(match error {
        LinkError::Local(local_error) => return Err(local_error),
        LinkError::Refused | LinkError::NoSocket => ConnectFailure::Refused,
        LinkError::Reset => ConnectFailure::Reset,
        LinkError::Closed => ConnectFailure::Closed,
        LinkError::TimedOut { .. } => ConnectFailure::TimedOut,
        LinkError::Unreachable(_) => ConnectFailure::Unreachable,
        LinkError::Rejected { errno, message, .. } => ConnectFailure::Rejected { errno, message },
        // Its process is there and answers: what is wrong is the account, or the way. 1251 is the server's number for it.
        LinkError::Unanswered(why) => ConnectFailure::Rejected { errno: 1251, message: why.to_string() },
        // Its process is there and answers: what is wrong is a certificate, or a setting.
        LinkError::Tls(_) => {
            ConnectFailure::Rejected { errno: errno::SSL_CONNECTION_ERROR, message: error.to_string() }
        }
        LinkError::Protocol(what) => ConnectFailure::Protocol { what },
    })
}

/// Lets tests inject a fault into a probe.
#[cfg(test)]
pub(crate) mod fault {
    use std::collections::HashMap;
    use std::sync::Mutex;

    static PANICS: Mutex<Option<HashMap<String, u32>>> = Mutex::new(None);

    /// The next `times` answers of the node at `address` make its probe panic.
    pub fn panic_at(address: &str, times: u32) {
        PANICS.lock().unwrap().get_or_insert_default().insert(address.into(), times);
    }

    pub fn panic_if_ordered(address: &str) {
        let mut panics = PANICS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let left = panics.get_or_insert_default().get_mut(address);
        let Some(left) = left.filter(|left| **left > 0) else { return };
        *left -= 1;
        drop(panics);
        panic!("a fault of the test's");
    }
}

#[cfg(test)]
mod tests {
    use topology::time::Now;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);
    const FREEZE: u8 = 19;
    const THAW: u8 = 18;

    /// A probe of one real server.
    struct Stand {
        server: fixture::Server,
        started: Instant,
        notes: mpsc::Receiver<Note>,
        means: tokio::sync::watch::Sender<Arc<Means>>,
        _wishes: mpsc::Sender<Wish>,
    }

    impl Stand {
        fn start(beats: bool) -> Self {
            let server = fixture::Server::start(&[]);
            let (wishes_in, wishes) = mpsc::channel(8);
            let (notes_in, notes) = mpsc::channel(64);
            let started = Instant::now();
            let login = link::Login::new("app", link::Secret::Password("secret".into()));
            let (probe_interval, heartbeat) = (INTERVAL, topology::heartbeat::Settings::default());
            let means =
                Means { login, probe_interval, misses_max: 3, events: beats, heartbeat, nodes: vec![] };
            let (means, of_probe) = tokio::sync::watch::channel(Arc::new(means));
            let probe = Probe {
                node: NodeId(0),
                kind: Kind::Galera,
                address: server.address().to_string(),
                means: of_probe,
                started,
                samples: None,
                wishes,
                notes: notes_in,
            };
            tokio::spawn(probe.run());
            Self { server, started, notes, means, _wishes: wishes_in }
        }

        /// The next thing told, and when.
        async fn told(&mut self) -> (Note, Now) {
            let note = tokio::time::timeout(Duration::from_secs(20), self.notes.recv()).await;
            (note.unwrap().unwrap(), self.started.elapsed())
        }

        /// The server stands still right after it has told its status; gives the moment in which it was asked for that.
        async fn freeze(&mut self) -> Now {
            loop {
                if let (Note::Reading(_, _, asked), _) = self.told().await {
                    self.server.signal(FREEZE);
                    return asked;
                }
            }
        }

        async fn slow(&mut self) -> Now {
            match self.told().await {
                (Note::Fact(Fact::ProbeSlow { asked, .. }), _) => asked,
                other => panic!("{other:?}"),
            }
        }
    }

    impl Drop for Stand {
        fn drop(&mut self) {
            self.server.signal(THAW);
        }
    }

    #[tokio::test]
    async fn a_late_sign_of_life_is_told_soon_and_is_no_miss_before_the_status_would_be() {
        let mut stand = Stand::start(true);
        let status = stand.freeze().await;
        let beat = stand.slow().await;
        assert!(beat > status && beat < status + INTERVAL / 2, "{beat:?} after {status:?}");
        for miss in 1..=2 {
            let (note, at) = stand.told().await;
            let Note::Fact(Fact::ProbeMissed { asked, .. }) = note else { panic!("{note:?}") };
            assert!(asked >= status + INTERVAL, "{asked:?} after {status:?}");
            assert!(at >= asked + INTERVAL * miss, "miss {miss} at {at:?}");
        }
        let (note, at) = stand.told().await;
        assert!(matches!(note, Note::Fact(Fact::LinkEnded { how: LinkEnd::Silent, .. })), "{note:?}");
        assert!(at >= status + INTERVAL * 4, "{at:?} after {status:?}");
    }

    #[tokio::test]
    async fn a_node_that_was_slow_is_asked_for_its_status_as_soon_as_it_answers() {
        let mut stand = Stand::start(true);
        let before = stand.freeze().await;
        stand.slow().await;
        stand.server.signal(THAW);
        let (note, _) = stand.told().await;
        let Note::Reading(_, _, asked) = note else { panic!("{note:?}") };
        assert!(asked < before + INTERVAL, "{asked:?} after {before:?}: it waited for its turn");
    }

    #[tokio::test]
    async fn another_account_replaces_the_link_when_it_is_let_in() {
        let mut stand = Stand::start(true);
        let means = stand.means.clone();
        let log_in = |user: &str, password: &str| {
            let login = link::Login::new(user, link::Secret::Password(password.into()));
            means.send_modify(|means| *means = Arc::new(Means { login, ..Means::clone(means) }));
        };
        stand.server.sql("CREATE USER other@'%' IDENTIFIED BY 'another'; GRANT ALL ON *.* TO other@'%'");
        log_in("other", "wrong");
        let mut came = Vec::new();
        while came.len() < 2 {
            match stand.told().await.0 {
                Note::Fact(Fact::ConnectFailed {
                    how: ConnectFailure::Rejected { errno: 1045, .. }, ..
                }) => came.push("refused"),
                Note::Reading(..) if came == ["refused"] => came.push("answers on the link that it has"),
                Note::Fact(Fact::LinkEnded { how, .. }) => panic!("{how:?}"),
                _ => {}
            }
        }
        log_in("other", "another");
        let users = "SELECT DISTINCT USER FROM information_schema.PROCESSLIST WHERE USER IN ('app', 'other')";
        let mut is_up = false;
        // Each answer is one more look, for as long as the server needs to see the end of the old link.
        while !(is_up && stand.server.sql(users) == "other") {
            match stand.told().await.0 {
                Note::Fact(Fact::LinkUp { .. }) => is_up = true,
                Note::Fact(Fact::LinkEnded { how, .. }) => panic!("{how:?}"),
                _ => {}
            }
        }
    }

    #[tokio::test]
    async fn without_signs_of_life_a_node_is_slow_when_its_status_is() {
        let mut stand = Stand::start(false);
        let before = stand.freeze().await;
        assert!(stand.slow().await >= before + INTERVAL);
    }

    #[test]
    fn a_sample_is_taken_each_second_or_as_often_as_there_is_an_answer() {
        let start = Instant::now();
        let taken = |interval: Duration, asks: u32| {
            let (usual_status, usual_beat) = (Duration::ZERO, Duration::ZERO);
            let mut times = Times { ask: start, beat: start, sample: start, usual_status, usual_beat };
            (0..asks).filter(|ask| times.is_sampled(start + interval * *ask, interval)).collect::<Vec<_>>()
        };
        assert_eq!(taken(Duration::from_millis(200), 16), [0, 5, 10, 15]);
        assert_eq!(taken(Duration::from_millis(300), 11), [0, 3, 7, 10]);
        assert_eq!(taken(Duration::from_secs(2), 5), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn samples_that_were_missed_are_not_caught_up_with() {
        let (start, interval) = (Instant::now(), Duration::from_millis(200));
        let (usual_status, usual_beat) = (Duration::ZERO, Duration::ZERO);
        let mut times = Times { ask: start, beat: start, sample: start, usual_status, usual_beat };
        let at = |ms| start + Duration::from_millis(ms);
        assert!(times.is_sampled(start, interval) && times.is_sampled(at(7_700), interval));
        assert!(!times.is_sampled(at(7_900), interval) && !times.is_sampled(at(8_400), interval));
        assert!(times.is_sampled(at(8_600), interval));
    }

    #[test]
    fn what_this_host_lacks_says_nothing_of_the_node() {
        assert_eq!(failure(LinkError::Local("no descriptors".into())), Err("no descriptors".into()));
        assert_eq!(failure(LinkError::Refused), Ok(ConnectFailure::Refused));
    }
}

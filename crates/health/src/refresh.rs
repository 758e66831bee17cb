//! Polls one server over one connection and publishes its latest state: one round of queries per interval, with hard deadlines. The end of
//! the connection is noticed at once.
//!
//! ```text
//!   connect (deadline) --> query (deadline) --> State --> sleep until the next round, or the connection ends
//!      ^                        |                              |
//!      '-- down, with the reason, at once, unless it accepts <-'
//!          a new connection in time
//! ```
//!
//! The reader of the [`State`] judges its age: a server that hangs sends nothing, so its last state simply gets older.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use link::{Ended, Endpoint, Link, LinkError, Login};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use topology::galera::{self, sql};
use topology::health::{self, Question, Rules, Word};

use crate::answer::{Answer, AnswerKind};
use crate::replication::ChannelReader;

/// The server to ask, and how often.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's address; determined again for each connection.
    pub whereabouts: Whereabouts,
    /// The account.
    pub login: Login,
    /// The time from the start of one round of queries to the start of the next.
    pub interval: Duration,
    /// The time limit of connecting, and of each round of queries.
    pub deadline: Duration,
    /// While this file exists, the node is not to be used.
    pub disabled_file: Option<PathBuf>,
}

/// A server's address, as far as it can be known before the server is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The usual address.
    pub place: Endpoint,
    /// Used instead, while this socket exists and the usual one does not.
    pub other: Option<Endpoint>,
}

impl Whereabouts {
    /// The address to use now.
    pub fn now(&self) -> &Endpoint {
        let is_there = |place: &Endpoint| matches!(place, Endpoint::Unix(path) if path.exists());
        match &self.other {
            Some(other) if !is_there(&self.place) && is_there(other) => other,
            _ => &self.place,
        }
    }
}

impl From<Endpoint> for Whereabouts {
    fn from(place: Endpoint) -> Self {
        Self { place, other: None }
    }
}

/// What is known of the server.
#[derive(Clone, Debug)]
pub struct State {
    /// When the server reported it.
    pub at: Instant,
    /// The server's report, or why there is none.
    pub word: Result<Arc<Word>, Arc<str>>,
    /// The server's version; empty until it was reached.
    pub version: Arc<str>,
    /// An operator has disabled the node by a file.
    pub is_disabled: bool,
    /// The answers for each of the eight [`Rules`], computed once per state since they are read often; see [`number`].
    members: [(AnswerKind, Arc<str>); 8],
}

impl State {
    fn new(at: Instant, word: Result<Word, String>, version: Arc<str>, disabled_file: Option<&Path>) -> Self {
        let word: Result<Arc<Word>, Arc<str>> = word.map(Arc::new).map_err(Into::into);
        let disabled = disabled_file.and_then(self::disabled);
        let member = |number: usize| {
            let rules = rules(number);
            let answer = match (disabled.as_ref().filter(|_| !rules.drained), &word) {
                (Some(answer), _) => answer.clone(),
                (None, Err(why)) => Answer::new(AnswerKind::Unknown, why.clone(), Duration::ZERO),
                // The rules would report a missing majority, but this server is not in a cluster at all.
                (None, Ok(word)) if word.status.local_state.is_none() => {
                    Answer::new(AnswerKind::Unknown, galera::words::NO_STATE, Duration::ZERO)
                }
                (None, Ok(word)) => {
                    Answer::of(health::ask(word, Question::Member(rules)), "may take traffic", Duration::ZERO)
                }
            };
            (answer.kind, answer.reason)
        };
        Self { at, is_disabled: disabled.is_some(), members: std::array::from_fn(member), word, version }
    }

    /// The state before the first answer.
    fn unasked() -> Self {
        Self::new(Instant::now(), Err("has not been asked yet".into()), "".into(), None)
    }

    /// Answers a question. A state older than `age_max` counts as no answer.
    pub fn answer(&self, question: Question, age_max: Duration) -> Answer {
        let age = self.at.elapsed();
        if age > age_max {
            let reason = format!("gave its last answer {} ms ago", age.as_millis());
            return Answer::new(AnswerKind::Unknown, reason, age);
        }
        let good = match question {
            Question::Member(rules) => {
                let (kind, reason) = &self.members[number(rules)];
                return Answer::new(*kind, reason.clone(), age);
            }
            Question::Writer => "may take writes",
            Question::Replica { .. } => "follows its source",
        };
        match &self.word {
            _ if self.is_disabled => Answer::new(AnswerKind::Disabled, self.members[0].1.clone(), age),
            Err(why) => Answer::new(AnswerKind::Unknown, why.clone(), age),
            Ok(word) => Answer::of(health::ask(word, question), good, age),
        }
    }
}

/// Each of the [`Rules`] has a number below eight.
fn number(Rules { donor, read_only, drained }: Rules) -> usize {
    usize::from(donor) | usize::from(read_only) << 1 | usize::from(drained) << 2
}

fn rules(number: usize) -> Rules {
    Rules { donor: number & 1 != 0, read_only: number & 2 != 0, drained: number & 4 != 0 }
}

/// After a server has closed a connection, it has this long to accept a new one before it counts as down.
const RETURN_TIME_MAX: Duration = Duration::from_millis(50);
/// A server that is down is tried again after the interval, or after this if that is shorter.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Polls the server until the state has no reader any more. A login that comes through `logins` is used from the next connection on.
pub async fn run(
    mut settings: Settings,
    mut logins: watch::Receiver<Login>,
    state: watch::Sender<Arc<State>>,
) {
    let mut version: Arc<str> = "".into();
    let mut channels = ChannelReader::default();
    // Why the server closed the last connection, not reported yet: a running server accepts a new one at once.
    let mut closed: Option<String> = None;
    while !state.is_closed() {
        // An error means that the sender is gone and no other login will come.
        if logins.has_changed().unwrap_or_default() {
            settings.login = logins.borrow_and_update().clone();
        }
        let began = Instant::now();
        let patience = if closed.is_some() { RETURN_TIME_MAX } else { settings.deadline };
        let why = match Link::connect_to(settings.whereabouts.now(), &settings.login, patience).await {
            Err(error) => Some(closed.take().unwrap_or_else(|| said(&error))),
            Ok(link) => {
                version = link.greeting.version.as_str().into();
                match watch_over(&settings, &state, link, &version, &mut channels).await {
                    // The connection lasted for longer than an interval: reconnect at once. A server that closes each connection
                    // immediately waits for its interval.
                    End::Closed(why) if began.elapsed() > settings.interval => {
                        closed = Some(why);
                        continue;
                    }
                    // Its last answer is still valid; the next round uses a new connection.
                    End::Spent => None,
                    End::Closed(why) | End::Useless(why) => Some(why),
                }
            }
        };
        closed = None;
        if let Some(why) = why {
            tell(&settings, &state, &version, Instant::now(), Err(why));
        }
        sleep_until(began + settings.interval.min(RETRY_PAUSE_MAX)).await;
    }
}

const CLOSED: &str = "has closed the connection: the server has ended";

/// How and why a connection ended.
enum End {
    /// The server has not answered one query yet, so the other queries need a new connection.
    Spent,
    /// The server closed it: either this connection only (KILL, wait_timeout), or the server has ended.
    Closed(String),
    /// The server gives no answer, or no usable one.
    Useless(String),
}

/// The answer while `file` exists, or while its existence cannot be determined: an operator's order must not be missed.
pub fn disabled(file: &Path) -> Option<Answer> {
    let reason = match file.try_exists() {
        Ok(false) => return None,
        Ok(true) => format!("is disabled by an operator: {} exists", file.display()),
        Err(e) => format!("may be disabled by an operator: {} cannot be looked for: {e}", file.display()),
    };
    Some(Answer::new(AnswerKind::Disabled, reason, Duration::ZERO))
}

/// A channel whose first state is "has not been asked yet", which counts as down.
pub fn channel() -> (watch::Sender<Arc<State>>, watch::Receiver<Arc<State>>) {
    watch::channel(Arc::new(State::unasked()))
}

/// Runs one round of queries. For a command that finds no running server.
pub async fn once(settings: &Settings) -> State {
    let until = Instant::now() + settings.deadline;
    let asked = async {
        let mut link =
            Link::connect_to(settings.whereabouts.now(), &settings.login, settings.deadline).await?;
        let version: Arc<str> = link.greeting.version.as_str().into();
        let left = until.saturating_duration_since(Instant::now());
        let heard = ask(&mut link, &mut ChannelReader::default(), left).await?;
        Ok::<_, LinkError>((version, heard.word))
    };
    let (version, word) = match asked.await {
        Ok((version, word)) => (version, Ok(word)),
        Err(error) => ("".into(), Err(said(&error))),
    };
    State::new(Instant::now(), word, version, settings.disabled_file.as_deref())
}

/// Runs rounds on one connection until it ends or a query gives no usable answer.
async fn watch_over(
    settings: &Settings,
    state: &watch::Sender<Arc<State>>,
    mut link: Link,
    version: &Arc<str>,
    channels: &mut ChannelReader,
) -> End {
    channels.forget_refusals();
    loop {
        let next = Instant::now() + settings.interval;
        match ask(&mut link, channels, settings.deadline).await {
            Ok(heard) => {
                tell(settings, state, version, heard.at, Ok(heard.word));
                if heard.is_spent {
                    return End::Spent;
                }
            }
            Err(LinkError::Closed | LinkError::Reset) => return End::Closed(CLOSED.into()),
            // The text must not contain how much time was left for the last query: a server that hangs would log a new line each time.
            Err(LinkError::TimedOut { .. }) => {
                return End::Useless(said(&LinkError::TimedOut { after: settings.deadline }));
            }
            Err(error) => return End::Useless(said(&error)),
        }
        tokio::select! {
            how = link.ended() => return match how {
                Ended::Closed | Ended::Reset => End::Closed(CLOSED.into()),
                Ended::Goodbye { errno, message } => End::Closed(format!("said goodbye: {errno} {message}")),
                Ended::Unasked => End::Useless("says what it was not asked for".into()),
                Ended::Lost { why } => End::Useless(format!("is out of reach: {why}")),
            },
            () = sleep_until(next) => {}
        }
        if state.is_closed() {
            return End::Useless("nobody asks any more".into());
        }
    }
}

/// The result of one round.
struct Heard {
    word: Word,
    /// When the server reported its status; the state of replication may be from a moment later.
    at: Instant,
    /// The connection still has an unanswered query.
    is_spent: bool,
}

/// One round of queries. The state of replication comes last, in a query of its own: a server that is slow to answer it (it may wait for a
/// channel that is being stopped) is still a member. That query may use the time up to half of the deadline, so that the next round is not
/// late.
async fn ask(link: &mut Link, channels: &mut ChannelReader, deadline: Duration) -> Result<Heard, LinkError> {
    let began = Instant::now();
    let until = began + deadline;
    let left = || until.saturating_duration_since(Instant::now());
    let status = link.query(sql::STATUS, left()).await?;
    let variables = link.query(sql::VARIABLES, left()).await?;
    let status = galera::read(|name| status.value_of(name), |name| variables.value_of(name));
    let at = Instant::now();
    let answer = channels.ask(link, began + deadline / 2).await?;
    Ok(Heard { word: Word { status, replication: answer.channels }, at, is_spent: answer.is_spent })
}

fn tell(
    settings: &Settings,
    state: &watch::Sender<Arc<State>>,
    version: &Arc<str>,
    at: Instant,
    word: Result<Word, String>,
) {
    state.send_replace(Arc::new(State::new(at, word, version.clone(), settings.disabled_file.as_deref())));
}

/// The error as a predicate about the server. It never contains the password, since no link error does.
fn said(error: &LinkError) -> String {
    format!("cannot be asked: {error}")
}

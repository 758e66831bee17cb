//! Keeps one link to one server, and one answer: asked every interval, with hard deadlines, and told at once when the link ends.
//!
//! ```text
//!   connect (deadline) --> ask (deadline) --> State --> sleep until the next, or the link's end
//!      ^                        |                              |
//!      '------ down, with the reason, at once <----------------'
//! ```
//!
//! Whoever reads the [`State`] judges its age: a server that hangs says nothing, and its last word gets old meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use link::{Ended, Link, LinkError, Login, Place, Rows, Stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use topology::flavor::Flavor;
use topology::health::{self, Question, Rules, Word};
use topology::reading;

use crate::answer::{Answer, Kind};

/// Whom to ask, and how often.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the server is.
    pub place: Place,
    /// As whom.
    pub login: Login,
    /// From one question to the next.
    pub interval: Duration,
    /// For connecting, and for each round of questions.
    pub deadline: Duration,
    /// While this file exists, the node is not to be used.
    pub disabled_file: Option<PathBuf>,
}

/// What is known of the server.
#[derive(Clone, Debug)]
pub struct State {
    /// When it was learned.
    pub at: Instant,
    /// What the server said, or why it said nothing.
    pub word: Result<Arc<Word>, Arc<str>>,
    /// The server's version, once it was heard.
    pub version: Arc<str>,
    /// An operator's file says that the node is not to be used.
    pub is_disabled: bool,
    /// The answers for each of the four [`Rules`], made once and given often; see [`State::member`].
    members: [(Kind, Arc<str>); 4],
}

impl State {
    fn new(word: Result<Word, String>, version: Arc<str>, disabled_file: Option<&Path>) -> Self {
        let word: Result<Arc<Word>, Arc<str>> = word.map(Arc::new).map_err(Into::into);
        let disabled = disabled_file.filter(|file| file.exists());
        let member = |number: usize| {
            let rules = Rules { donor: number & 1 != 0, read_only: number & 2 != 0 };
            let answer = match (disabled, &word) {
                (Some(file), _) => {
                    let reason = format!("is disabled by an operator: {} exists", file.display());
                    Answer::new(Kind::Disabled, reason, Duration::ZERO)
                }
                (None, Err(why)) => Answer::new(Kind::Unknown, why.clone(), Duration::ZERO),
                (None, Ok(word)) => {
                    Answer::of(health::ask(word, Question::Member(rules)), "may take traffic", Duration::ZERO)
                }
            };
            (answer.kind, answer.reason)
        };
        Self {
            at: Instant::now(),
            is_disabled: disabled.is_some(),
            members: [member(0), member(1), member(2), member(3)],
            word,
            version,
        }
    }

    /// What holds before the first answer.
    fn unasked() -> Self {
        Self::new(Err("has not been asked yet".into()), "".into(), None)
    }

    /// The answer to a question. One that is older than `age_max` is none.
    pub fn answer(&self, question: Question, age_max: Duration) -> Answer {
        let age = self.at.elapsed();
        if age > age_max {
            let reason = format!("gave its last answer {} ms ago", age.as_millis());
            return Answer::new(Kind::Unknown, reason, age);
        }
        let good = match question {
            Question::Member(rules) => {
                let (kind, reason) =
                    &self.members[usize::from(rules.donor) + 2 * usize::from(rules.read_only)];
                return Answer::new(*kind, reason.clone(), age);
            }
            Question::Writer => "may take writes",
            Question::Replica { .. } => "follows its source",
        };
        match &self.word {
            _ if self.is_disabled => Answer::new(Kind::Disabled, self.members[0].1.clone(), age),
            Err(why) => Answer::new(Kind::Unknown, why.clone(), age),
            Ok(word) => Answer::of(health::ask(word, question), good, age),
        }
    }
}

/// Asks for ever, until nobody reads any more.
pub async fn run(settings: Settings, state: watch::Sender<Arc<State>>) {
    let mut version: Arc<str> = "".into();
    while !state.is_closed() {
        let next = Instant::now() + settings.interval;
        match Link::connect_to(&settings.place, &settings.login, settings.deadline).await {
            Err(error) => tell(&settings, &state, &version, Err(said(&error))),
            Ok(link) => {
                version = link.greeting.version.as_str().into();
                let why = watch_over(&settings, &state, link, &version).await;
                tell(&settings, &state, &version, Err(why));
            }
        }
        sleep_until(next).await;
    }
}

/// A channel that begins with "not asked yet", which counts as down.
pub fn channel() -> (watch::Sender<Arc<State>>, watch::Receiver<Arc<State>>) {
    watch::channel(Arc::new(State::unasked()))
}

/// Asks once. For a command that finds no running server.
pub async fn once(settings: &Settings) -> State {
    let until = Instant::now() + settings.deadline;
    let asked = async {
        let mut link = Link::connect_to(&settings.place, &settings.login, settings.deadline).await?;
        let version: Arc<str> = link.greeting.version.as_str().into();
        let left = until.saturating_duration_since(Instant::now());
        let word = ask(&mut link, &mut None, left).await?;
        Ok::<_, LinkError>((version, word))
    };
    let (version, word) = match asked.await {
        Ok((version, word)) => (version, Ok(word)),
        Err(error) => ("".into(), Err(said(&error))),
    };
    State::new(word, version, settings.disabled_file.as_deref())
}

/// Asks on one link until it ends or gives no answer; returns why.
async fn watch_over(
    settings: &Settings,
    state: &watch::Sender<Arc<State>>,
    mut link: Link<Box<dyn Stream>>,
    version: &Arc<str>,
) -> String {
    let mut denied = None;
    loop {
        let next = Instant::now() + settings.interval;
        match ask(&mut link, &mut denied, settings.deadline).await {
            Ok(word) => tell(settings, state, version, Ok(word)),
            Err(error) => return said(&error),
        }
        tokio::select! {
            how = link.ended() => return match how {
                Ended::Closed | Ended::Reset => "has closed the connection: the server has ended".into(),
                Ended::Goodbye { errno, message } => format!("said goodbye: {errno} {message}"),
                Ended::Lost { why } => format!("is out of reach: {why}"),
            },
            () = sleep_until(next) => {}
        }
        if state.is_closed() {
            return "nobody asks any more".into();
        }
    }
}

/// One round of questions. What replication is asked for and `denied` once is not asked for again on this link.
async fn ask(
    link: &mut Link<Box<dyn Stream>>,
    denied: &mut Option<String>,
    deadline: Duration,
) -> Result<Word, LinkError> {
    let until = Instant::now() + deadline;
    let left = || until.saturating_duration_since(Instant::now());
    let flavor = Flavor::of(&link.greeting.version);
    let status = link.query(flavor.status(), left()).await?;
    let variables = link.query(flavor.variables(), left()).await?;
    let status = reading::galera(|name| status.value_of(name), |name| variables.value_of(name)).status;
    if denied.is_none() {
        for statement in flavor.replication() {
            match link.query(statement, left()).await {
                Ok(rows) => return Ok(Word { status, replication: Ok(channels(&rows)) }),
                Err(LinkError::Rejected { errno, message, .. }) => {
                    *denied = Some(format!("{errno} {message}"))
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Word { status, replication: Err(denied.clone().unwrap_or_default()) })
}

fn channels(rows: &Rows) -> Vec<reading::Channel> {
    let value = |row, name: &str| rows.text(row, rows.column(name)?);
    (0..rows.len()).map(|row| reading::channel(|name| value(row, name))).collect()
}

fn tell(
    settings: &Settings,
    state: &watch::Sender<Arc<State>>,
    version: &Arc<str>,
    word: Result<Word, String>,
) {
    state.send_replace(Arc::new(State::new(word, version.clone(), settings.disabled_file.as_deref())));
}

/// The error as a sentence about the server. Never the password: no link error carries it.
fn said(error: &LinkError) -> String {
    format!("cannot be asked: {error}")
}

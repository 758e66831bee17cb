//! One node, watched: a task that keeps a link open, asks for the status every interval, and tells what it sees.
//!
//! ```text
//!             connected                       tick, or Probe
//!   Without ─────────────> Idle ──────────────────────────────> Asking
//!      ^                    │  ^        answered                   │ │
//!      │        link ended  │  └───────────────────────────────────┘ │
//!      └────────────────────┴──────────────────────────── misses_max intervals without an answer
//! ```
//!
//! A connect may run beside any of these (Confirm asks for a fresh one at once); when it succeeds it becomes the kept link.
//! A question is not taken back when it misses its deadline: each further interval without an answer is one more miss, and a late
//! answer is still an answer. So a slow node is not taken for a dead one before misses_max intervals have passed.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use link::{Ended, Link, LinkError, Login};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use topology::NodeId;
use topology::fact::{ConnectFailure, Fact, LinkEnd, Now};
use topology::galera::{self, Reading, sql};
use topology::routes::ServerGreeting;

/// A lack of this host's own is said again after this long.
const WARNED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What a probe task is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Connect afresh.
    Confirm,
    /// Ask for the status.
    Probe,
}

/// What it tells.
#[derive(Debug)]
pub(crate) enum Note {
    Fact(Fact),
    /// Asked then.
    Reading(NodeId, Reading, Now),
}

pub(crate) struct Probe {
    pub node: NodeId,
    pub address: String,
    pub login: Login,
    pub interval: Duration,
    pub misses_max: u32,
    /// When the time of the facts began.
    pub started: Instant,
    pub wishes: mpsc::Receiver<Wish>,
    pub notes: mpsc::Sender<Note>,
}

type Asked = Pin<Box<dyn Future<Output = (Link, Result<Reading, LinkError>)> + Send>>;
type Connecting = Pin<Box<dyn Future<Output = Result<Link, LinkError>> + Send>>;

enum Kept {
    Without,
    Idle(Box<Link>),
    Asking { answer: Asked, asked: Instant, misses: u32, next_miss: Instant },
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
    Answered(Box<Link>, Result<Reading, LinkError>, Instant),
    Time,
}

impl Probe {
    /// Watches until nobody wants to hear of it any more.
    pub async fn run(mut self) {
        let mut kept = Kept::Without;
        let mut trying: Option<Trying> = None;
        let mut next_ask = Instant::now();
        let mut warned = None;
        loop {
            let now = Instant::now();
            let wake = [
                match &kept {
                    Kept::Asking { next_miss, .. } => Some(*next_miss),
                    Kept::Without if trying.is_some() => None,
                    Kept::Idle(_) | Kept::Without => Some(next_ask),
                },
                trying.as_ref().map(|trying| trying.next_miss),
            ];
            let wake = wake.into_iter().flatten().min().unwrap_or(now + self.interval);
            match next(&mut self.wishes, &mut kept, &mut trying, wake).await {
                Event::Wish(None) => return,
                Event::Wish(Some(Wish::Confirm)) => {
                    if trying.is_none() {
                        trying = Some(self.connect());
                    }
                }
                Event::Wish(Some(Wish::Probe)) => match kept {
                    Kept::Idle(link) => {
                        kept = self.ask(*link);
                        next_ask = Instant::now() + self.interval;
                    }
                    Kept::Without if trying.is_none() => trying = Some(self.connect()),
                    Kept::Without | Kept::Asking { .. } => {}
                },
                Event::Connected(result) => {
                    trying = None;
                    next_ask = Instant::now() + self.interval;
                    match result {
                        Ok(link) => {
                            let greeting = ServerGreeting {
                                version: link.greeting.version.clone(),
                                capabilities: link.greeting.caps.0,
                                charset: link.greeting.charset,
                            };
                            if !self.tell(Fact::LinkUp { node: self.node, greeting }).await {
                                return;
                            }
                            kept = self.ask(link);
                        }
                        Err(error) => match failure(error) {
                            Ok(how) => {
                                if !self.tell(Fact::ConnectFailed { node: self.node, how }).await {
                                    return;
                                }
                            }
                            // Nothing was seen of the node: nothing is told.
                            Err(lack) => self.warn(&lack, &mut warned),
                        },
                    }
                }
                Event::Ended(how) => {
                    kept = Kept::Without;
                    next_ask = Instant::now() + self.interval;
                    if !self.tell(Fact::LinkEnded { node: self.node, how: end(how) }).await {
                        return;
                    }
                }
                Event::Answered(link, Ok(reading), asked) => {
                    #[cfg(test)]
                    fault::strike(&self.address);
                    kept = Kept::Idle(link);
                    let asked = asked.duration_since(self.started);
                    if self.notes.send(Note::Reading(self.node, reading, asked)).await.is_err() {
                        return;
                    }
                }
                Event::Answered(link, Err(error), _) => {
                    drop(link);
                    kept = Kept::Without;
                    next_ask = Instant::now() + self.interval;
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
                    if !self.time(&mut kept, &mut trying, &mut next_ask).await {
                        return;
                    }
                }
            }
        }
    }

    /// Says what this host lacks, but not with every try; `warned` is when that was last done.
    fn warn(&self, lack: &str, warned: &mut Option<Instant>) {
        let now = Instant::now();
        if warned.is_none_or(|last| now.duration_since(last) >= WARNED_AGAIN_AFTER) {
            *warned = Some(now);
            tracing::warn!("{} could not be probed: {lack}", self.address);
        }
    }

    async fn tell(&self, fact: Fact) -> bool {
        self.notes.send(Note::Fact(fact)).await.is_ok()
    }

    /// A moment has come that was waited for: the next question, or a miss.
    async fn time(&self, kept: &mut Kept, trying: &mut Option<Trying>, next_ask: &mut Instant) -> bool {
        let now = Instant::now();
        let mut missed = None;
        if let Some(attempt) = trying
            && attempt.next_miss <= now
        {
            attempt.misses += 1;
            attempt.next_miss = now + self.interval;
            missed = Some(attempt.since);
        }
        match kept {
            Kept::Asking { asked, misses, next_miss, .. } if *next_miss <= now => {
                *misses += 1;
                *next_miss = now + self.interval;
                missed = Some(*asked);
                if *misses >= self.misses_max {
                    *kept = Kept::Without;
                    *next_ask = now;
                    return self.tell(Fact::LinkEnded { node: self.node, how: LinkEnd::Silent }).await;
                }
            }
            Kept::Idle(_) if *next_ask <= now => {
                *next_ask = now + self.interval;
                if let Kept::Idle(link) = std::mem::replace(kept, Kept::Without) {
                    *kept = self.ask(*link);
                }
            }
            Kept::Without if trying.is_none() && *next_ask <= now => {
                *next_ask = now + self.interval;
                *trying = Some(self.connect());
            }
            _ => {}
        }
        let Some(asked) = missed else { return true };
        let asked = asked.duration_since(self.started);
        self.tell(Fact::ProbeMissed { node: self.node, asked }).await
    }

    fn connect(&self) -> Trying {
        let (address, login) = (self.address.clone(), self.login.clone());
        let deadline = self.interval * self.misses_max;
        let link = Box::pin(async move { Link::connect(&address, &login, deadline).await });
        let since = Instant::now();
        Trying { link, since, misses: 0, next_miss: since + self.interval }
    }

    fn ask(&self, mut link: Link) -> Kept {
        // The misses are counted outside; this only keeps a forgotten question from living for ever.
        let deadline = self.interval * (self.misses_max + 1);
        let answer = Box::pin(async move {
            let answer = async {
                let status = link.query(sql::STATUS, deadline).await?;
                let variables = link.query(sql::VARIABLES, deadline).await?;
                Ok(galera::read(|name| status.value_of(name), |name| variables.value_of(name)))
            };
            let answer = answer.await;
            (link, answer)
        });
        let asked = Instant::now();
        Kept::Asking { answer, asked, misses: 0, next_miss: asked + self.interval }
    }
}

/// Waits for the first of all that may happen. Cancel safe: what is pending stays in `kept` and `trying`.
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
            Kept::Asking { answer, asked, .. } => {
                let (link, answer) = answer.await;
                Event::Answered(Box::new(link), answer, *asked)
            }
        }
    };
    tokio::select! {
        // News of the node before the clock: an answer that is there is no miss.
        biased;
        event = spoke => event,
        result = connected => Event::Connected(result),
        wish = wishes.recv() => Event::Wish(wish),
        () = sleep_until(wake) => Event::Time,
    }
}

fn end(how: Ended) -> LinkEnd {
    match how {
        // What speaks unasked is of no more use, and no sign of the node's end: the next connection tells.
        Ended::Closed | Ended::Reset | Ended::Unasked => LinkEnd::Closed,
        Ended::Goodbye { errno, .. } => LinkEnd::Goodbye { errno },
        Ended::Lost { .. } => LinkEnd::Silent,
    }
}

/// What a failed connect says of the node; `Err` when it says nothing of it, but what this host lacks.
pub(crate) fn failure(error: LinkError) -> Result<ConnectFailure, String> {
    Ok(match error {
        LinkError::Local(lack) => return Err(lack),
        LinkError::Refused | LinkError::NoSocket => ConnectFailure::Refused,
        LinkError::Reset => ConnectFailure::Reset,
        LinkError::Closed => ConnectFailure::Closed,
        LinkError::TimedOut { .. } => ConnectFailure::TimedOut,
        LinkError::Unreachable(_) => ConnectFailure::Unreachable,
        LinkError::Rejected { errno, message, .. } => ConnectFailure::Rejected { errno, message },
        LinkError::Plugin(plugin) => ConnectFailure::Rejected {
            errno: 1251,
            message: format!("the account uses {plugin}, which Understudy does not speak"),
        },
        LinkError::Protocol(what) => ConnectFailure::Protocol { what },
    })
}

/// What a test may do to a probe.
#[cfg(test)]
pub(crate) mod fault {
    use std::collections::HashMap;
    use std::sync::Mutex;

    static PANICS: Mutex<Option<HashMap<String, u32>>> = Mutex::new(None);

    /// The next `times` answers of the node at `address` make its probe panic.
    pub fn panic_at(address: &str, times: u32) {
        PANICS.lock().unwrap().get_or_insert_default().insert(address.into(), times);
    }

    pub fn strike(address: &str) {
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
    use super::*;

    #[test]
    fn what_this_host_lacks_says_nothing_of_the_node() {
        assert_eq!(failure(LinkError::Local("no descriptors".into())), Err("no descriptors".into()));
        assert_eq!(failure(LinkError::Refused), Ok(ConnectFailure::Refused));
    }
}

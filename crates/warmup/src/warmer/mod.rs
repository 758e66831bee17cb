//! Keeps the standbys of one cluster warm: replays the active node's reads on each standby. Which node is active is an input ([`roles::Roles`]).
//!
//! ```text
//!   roles ──> [active: db1; standbys: db2, db3] ──> one replay from db1's streamer for each standby ──> table: their state
//!      └────> a change of roles: the affected replays are aborted at once, and their statements killed on the server
//! ```
//!
//! Invariant: a replay does not outlive the roles under which it was started. It is dropped, not completed: statements that wait in it are
//! not run.

mod one;
pub mod roles;
pub mod warming_table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use session::finished::{Counts, Offered};
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use self::one::One;
pub use self::roles::Roles;
use self::warming_table::{State, WarmingTable};
use crate::access::Access;
use crate::replay::ending;
use crate::replay::figures::Figures;
use crate::replay::target::Target;
use crate::replay::{self};
use crate::source::{self, Sample};
use crate::warmth::{self, Replayed};

/// A message for the log: a replay has started or ended, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    /// An operator has to act on it.
    pub is_bad: bool,
    /// One sentence.
    pub text: String,
}

impl LogMessage {
    fn good(text: String) -> LogMessage {
        LogMessage { is_bad: false, text }
    }

    fn bad(text: String) -> LogMessage {
        LogMessage { is_bad: true, text }
    }
}

/// The source of the active node's reads.
#[derive(Clone)]
pub enum Source {
    /// Its slow log, streamed by `understudy slowlog serve` on its machine.
    SlowLog {
        /// The streamer's port.
        port: u16,
        /// The part of the log that is requested.
        sample: Sample,
        /// The key, and the certificate for TLS.
        access: Access,
    },
    /// The proxy that its clients use; a new receiver is created for each replay.
    Proxy(Listen),
}

/// Creates a receiver for the reads of a proxy's clients; dropping the receiver ends it.
pub type Listen = Arc<dyn Fn() -> (Receiver<Offered>, Arc<Counts>) + Send + Sync>;

/// The source of one active node.
#[derive(Clone)]
enum Feed {
    SlowLog { streamer: String, sample: Sample, access: Access },
    Proxy(Listen),
}

impl fmt::Display for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Feed::SlowLog { streamer, sample: Sample { one_in: 1, .. }, .. } => {
                write!(f, "the slow log streamed at {streamer}")
            }
            Feed::Proxy(_) => f.write_str("the reads that go through Understudy"),
            Feed::SlowLog { streamer, sample, .. } => {
                let what = if sample.by_session { "connections" } else { "statements" };
                write!(f, "one in {} {what} of the slow log streamed at {streamer}", sample.one_in)
            }
        }
    }
}

impl Source {
    fn of(&self, address: &str) -> Feed {
        match self {
            Source::Proxy(listen) => Feed::Proxy(Arc::clone(listen)),
            Source::SlowLog { port, sample, access } => {
                let streamer = source::beside(address, *port);
                Feed::SlowLog { streamer, sample: *sample, access: access.clone() }
            }
        }
    }
}

/// Warms all standbys of a cluster.
pub struct Warmer {
    /// The source of the active node's reads.
    pub source: Source,
    /// Makes the target from a standby's address.
    pub target: Box<dyn Fn(&str) -> Target + Send + Sync>,
    /// The settings of each replay.
    pub settings: replay::Settings,
    /// Accept an account that may write.
    pub may_be_writable: bool,
    /// The state of each standby.
    pub warming_table: WarmingTable,
    /// Called when a replay starts or ends.
    pub tell: Box<dyn Fn(LogMessage) + Send + Sync>,
}

/// The values that the tasks of all standbys share.
struct WarmerContext {
    source: Source,
    target: Box<dyn Fn(&str) -> Target + Send + Sync>,
    settings: replay::Settings,
    may_be_writable: bool,
    warming_table: WarmingTable,
    tell: Box<dyn Fn(LogMessage) + Send + Sync>,
}

impl WarmerContext {
    /// The settings for measuring a standby's warmth. All events that arrive here are replayed; the source reports what it leaves out.
    fn measuring(&self, sql_mode: String) -> warmth::Settings {
        warmth::Settings {
            sql_mode,
            replayed: Replayed::OneIn(1),
            skipped_users: self.settings.skipped_users.clone(),
            ..warmth::Settings::default()
        }
    }

    fn say(&self, said: LogMessage) {
        (self.tell)(said);
    }
}

impl Warmer {
    /// Warms the standbys until the sender of the roles is gone.
    pub async fn run(self, mut roles: watch::Receiver<Roles>) {
        let Warmer { source, target, settings, may_be_writable, warming_table, tell } = self;
        let context =
            Arc::new(WarmerContext { source, target, settings, may_be_writable, warming_table, tell });
        let mut warming = Warming { context, replays: BTreeMap::new(), endings: JoinSet::new(), said: None };
        loop {
            let now = roles.borrow_and_update().clone();
            warming.follow(&now).await;
            if roles.changed().await.is_err() {
                break;
            }
        }
        warming.stop(|_, _| Some("Understudy ends".into())).await;
        while warming.endings.join_next().await.is_some() {}
    }
}

/// The running replays.
struct Warming {
    context: Arc<WarmerContext>,
    /// By the standby's name.
    replays: BTreeMap<String, Replay>,
    /// Tasks that end the statements which aborted replays still run on servers.
    endings: JoinSet<()>,
    /// The reason that was logged last for having no active node.
    said: Option<String>,
}

struct Replay {
    active: (String, String),
    address: String,
    figures: Arc<Figures>,
    target: Arc<Target>,
    task: JoinHandle<std::convert::Infallible>,
}

impl Warming {
    /// Starts and stops replays according to the roles.
    async fn follow(&mut self, roles: &Roles) {
        let active = roles.active.clone();
        self.stop(|standby, replay| match (&active, roles.standbys.get(standby)) {
            (Err(why), _) => Some(why.clone()),
            (Ok((name, _)), _) if name == standby => Some("it takes the traffic now".into()),
            (Ok(active), _) if *active != replay.active => {
                Some(format!("{} takes the traffic now", active.0))
            }
            (_, None) => Some("it is no standby any more".into()),
            (_, Some(Err(why))) => Some(why.clone()),
            (_, Some(Ok(address))) => (*address != replay.address).then(|| "its address has changed".into()),
        })
        .await;
        self.context.warming_table.keep(|standby| roles.standbys.contains_key(standby));
        let why = roles.active.as_ref().err();
        if self.said.as_ref() != why {
            if let Some(why) = why {
                self.context.say(LogMessage::good(format!("nobody is warmed: {why}")));
            }
            self.said = why.cloned();
        }
        for (standby, wanted) in &roles.standbys {
            match (&roles.active, wanted) {
                (Err(why), _) | (_, Err(why)) => {
                    self.context.warming_table.state(standby, State::Off { why: why.clone() });
                }
                (Ok((name, _)), _) if name == standby => {}
                (Ok(active), Ok(address)) => self.begin(standby, active, address),
            }
        }
        // Removes the finished tasks.
        while self.endings.try_join_next().is_some() {}
    }

    fn begin(&mut self, standby: &str, active: &(String, String), address: &str) {
        if self.replays.contains_key(standby) {
            return;
        }
        let figures = self.context.warming_table.figures(standby);
        self.context.warming_table.state(standby, State::Failing { why: "it is being begun".into() });
        let target = Arc::new((self.context.target)(address));
        let one = One {
            standby: standby.to_owned(),
            active: active.0.clone(),
            asked: (self.context.target)(&active.1),
            feed: self.context.source.of(&active.1),
            target: Arc::clone(&target),
            figures: Arc::clone(&figures),
            context: Arc::clone(&self.context),
        };
        let task = tokio::spawn(Arc::new(one).run());
        let replay = Replay { active: active.clone(), address: address.to_owned(), figures, target, task };
        self.replays.insert(standby.to_owned(), replay);
    }

    /// Aborts the replays for which there is a reason.
    async fn stop(&mut self, reason: impl Fn(&str, &Replay) -> Option<String>) {
        let reasons: BTreeMap<String, String> = self
            .replays
            .iter()
            .filter_map(|(standby, replay)| Some((standby.clone(), reason(standby, replay)?)))
            .collect();
        // All tasks are aborted before any of them is waited for.
        for standby in reasons.keys() {
            if let Some(replay) = self.replays.get(standby) {
                replay.task.abort();
            }
        }
        for (standby, why) in reasons {
            let Some(replay) = self.replays.remove(&standby) else { continue };
            // The task's sessions end with it. The error of an aborted task is expected.
            let _ = replay.task.await;
            self.endings.spawn(end(standby.clone(), replay.target, replay.figures));
            let warming_table = &self.context.warming_table;
            let was_warmed = warming_table.is_warmed(&standby);
            warming_table.ended(&standby);
            warming_table.state(&standby, State::Off { why: why.clone() });
            if was_warmed {
                self.context.say(LogMessage::good(format!("{standby} is not warmed any more: {why}")));
            }
        }
    }
}

/// Ends the statements that an aborted replay still runs on its server.
async fn end(standby: String, target: Arc<Target>, figures: Arc<Figures>) {
    match ending::end(&target, &figures).await {
        Ok(0) => {}
        Ok(ended) => tracing::info!("{standby}: {ended} statements of the replay were ended"),
        // A server that is down runs no statements.
        Err(error) => {
            tracing::info!("{standby}: it could not be asked what the replay still runs there: {error}")
        }
    }
}

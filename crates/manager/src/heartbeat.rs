//! A node's heartbeat: a task that commits one small row again and again, on a link of its own, for as long as that is wanted, and reports
//! the results. While a row is not committed, a second link asks the server what it waits for.
//!
//! ```text
//!   wanted ─> link ─> [ lock its table ─ writable? ─ write the row ─ unlock ] each interval ──> Committed
//!                              └── no answer for a second: what do the server's sessions wait for? ──> Waits, twice a second
//!   not wanted any more ─> the link is cut, whatever runs on it
//! ```
//!
//! Where no heartbeat may be written, the oldest unanswered commit of a client replaces it ([`traffic`]).
//!
//! The monitor account may write on a server that is read only. Invariant: no heartbeat is written after a server became read only. The
//! heartbeat's table is locked before read_only is read, and until the row is committed: SET GLOBAL read_only waits for a table that is
//! locked for writing, and for a commit (MariaDB 10.11.19). The row is therefore committed before the server is read only, or never,
//! whether this process lives or not, and whoever makes the server read only.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use link::{Asker, Link, LinkError, Login};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use topology::NodeId;
use topology::fact::Fact;
use topology::flavor::Flavor;
use topology::heartbeat::{Beat, Sessions, Stall, Wish, sql, stall, stall_of_member};
use topology::kind::Kind;

use crate::advice::{self, Topic};
use crate::means::{self, Means, MeansNow};
use crate::note::Note;

mod traffic;

/// A heartbeat that is not answered for this long is reported, and again after each such time.
const LATE: Duration = Duration::from_secs(1);
const LOOK_GAP: Duration = Duration::from_millis(500);
/// The time limit of a question, a connection, or a KILL.
const STEP: Duration = Duration::from_secs(1);
/// After this long, a heartbeat that by two questions in a row waits for a harmless reason is ended on the server, and the next one is
/// tried. One that waits for a reason that counts is left to end by itself: a session that is killed while the disk is full leaves an
/// incomplete event in the binlog, behind which nothing can be written any more (MDEV-27803).
const GIVE_UP: Duration = Duration::from_secs(20);
/// The longest that a heartbeat is waited for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The server itself ends a statement that waits for a lock for this long, which is after [`GIVE_UP`].
const LOCK_LIMIT_S: u64 = 30;
/// The server waits for the next statement for the interval and this much longer. If this process vanishes between two statements, with its
/// host or its network, the table stays locked for that time, and the server cannot be made read only.
const IDLE_SLACK: Duration = Duration::from_secs(4);
/// The time limit for creating the table.
const CREATE_LIMIT_S: u64 = 5;
/// The pause after an error, and after the account was found to lack privileges.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_FORBIDDEN: Duration = Duration::from_secs(30);

pub(crate) struct Heartbeat {
    pub node: NodeId,
    pub name: Arc<str>,
    pub kind: Kind,
    pub address: String,
    /// The account and the settings in force.
    pub means: MeansNow,
    /// Those that this run works with.
    pub login: Login,
    pub settings: topology::heartbeat::Settings,
    /// The time from which facts count.
    pub started: Instant,
    pub wish: watch::Receiver<Wish>,
    pub notes: mpsc::Sender<Note>,
}

/// The result of a heartbeat.
enum Done {
    Committed,
    /// The server is read only, so it is not the writer any more.
    ReadOnly,
}

impl Heartbeat {
    /// Runs until its sender of wishes is gone.
    pub async fn run(mut self) {
        let mut wish = self.wish.clone();
        loop {
            let means = means::now(&self.means);
            (self.login, self.settings) = (means.login.clone(), means.heartbeat.clone());
            let Ok(beats) =
                wish.wait_for(|wish| wish.beats || !wish.commits.is_empty()).await.map(|wish| wish.beats)
            else {
                return;
            };
            let changed = |wish: &Wish| wish.beats != beats || !beats && wish.commits.is_empty();
            let is_other = |now: &Means| (&now.login, &now.heartbeat) != (&means.login, &means.heartbeat);
            tokio::select! {
                biased;
                () = means::changed(&self.means, is_other) => {}
                ended = wish.wait_for(changed) => {
                    if ended.is_err() {
                        return;
                    }
                }
                never = self.by_traffic(), if !beats => match never {},
                never = self.beat(), if beats => match never {},
            }
            self.tell(Beat::Unknown).await;
        }
    }

    async fn tell(&self, beat: Beat) {
        // A closed queue means that the manager ends.
        let _ = self.notes.send(Note::Fact(Fact::Beat { node: self.node, beat })).await;
    }

    async fn beat(&self) -> std::convert::Infallible {
        let mut unanswered = Unanswered::default();
        loop {
            let ended = self.on_one_link(&mut unanswered).await;
            if let Err(error) = &ended {
                unanswered.failed(error);
            }
            let again = match ended {
                Ok(never) => match never {},
                Err(LinkError::Rejected { errno, message, .. }) if is_forbidden(errno) => {
                    self.forbidden(errno, &message).await;
                    RETRY_FORBIDDEN
                }
                Err(LinkError::Rejected { errno, message, .. }) if is_full(errno, &message) => {
                    let asked = self.started.elapsed();
                    self.tell(Beat::Failed { asked }).await;
                    RETRY
                }
                // As far as is known, it still does not commit.
                Err(LinkError::TimedOut { .. } | LinkError::Rejected { errno: LOCK_WAIT_TIMEOUT, .. }) => {
                    RETRY
                }
                Err(error) => {
                    tracing::debug!("the heartbeat of {} ended: {error}", self.name);
                    self.tell(Beat::Unknown).await;
                    RETRY
                }
            };
            // Until then the clients' commits are watched instead.
            let _ = timeout(again, self.by_traffic()).await;
        }
    }

    /// Sends one heartbeat after the other, until one fails.
    async fn on_one_link(&self, unanswered: &mut Unanswered) -> Result<std::convert::Infallible, LinkError> {
        let mut link = Link::connect(&self.address, &self.login, STEP).await?;
        if Flavor::of(&link.greeting.version) == Flavor::MySql && self.kind == Kind::Replication {
            // The table is created only where the server is writable.
            drop(link);
            return Ok(self.by_traffic().await);
        }
        let idle_s = (self.settings.interval + IDLE_SLACK).as_secs() + 1;
        for statement in sql::session(idle_s, LOCK_LIMIT_S) {
            link.query(&statement, STEP).await?;
        }
        loop {
            let asked = Instant::now();
            let came = self.watched(&mut link, asked, unanswered.since(asked)).await;
            if came.is_ok() {
                *unanswered = Unanswered::default();
            }
            match came {
                Ok(Done::Committed) => {
                    let asked = asked.duration_since(self.started);
                    self.tell(Beat::Committed { asked }).await;
                    let _ = self.notes.send(Note::Advice(self.node, Topic::Heartbeat, None)).await;
                }
                Ok(Done::ReadOnly) => self.tell(Beat::Unknown).await,
                Err(LinkError::Rejected { errno, .. }) if is_missing(errno) => {
                    let [limit, no_limit] = [CREATE_LIMIT_S, 0].map(sql::limit);
                    let [schema, table] = sql::create(&self.settings.schema);
                    for statement in [limit, schema, table, no_limit] {
                        link.query(&statement, GIVE_UP).await?;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            }
            sleep_until(asked + self.settings.interval).await;
        }
    }

    /// One heartbeat; none was answered since `first`. While it is not answered, the reason is reported.
    async fn watched(&self, link: &mut Link, asked: Instant, first: Instant) -> Result<Done, LinkError> {
        let id = link.greeting.connection_id;
        let mut work = pin!(self.once(link));
        let mut beside = self.asker();
        let mut before: Option<Sessions> = None;
        let mut looks = Looks::default();
        let mut next = asked + LATE;
        loop {
            tokio::select! {
                biased;
                // If it waited only for its row, nothing is known after a second.
                done = &mut work => return match done {
                    Err(LinkError::Rejected { errno: LOCK_WAIT_TIMEOUT, .. })
                        if asked.elapsed().as_secs() >= LOCK_LIMIT_S =>
                    {
                        Err(LinkError::TimedOut { after: asked.elapsed() })
                    }
                    done => done,
                },
                () = sleep_until(next) => {}
            }
            if asked.elapsed() >= GIVE_UP && looks.are_harmless() {
                // Its session may hang in its commit for ever, so the link is cut when this side ends.
                // Not on a new link: a server that has started since gives the number to another session.
                if let Some(beside) = beside.opened() {
                    let _ = beside.query(&sql::kill(id), STEP).await;
                }
                return Err(LinkError::TimedOut { after: GIVE_UP });
            }
            let why = match self.look(&mut beside, id).await {
                Ok(None) => {
                    self.tell(Beat::Unknown).await;
                    return Err(LinkError::TimedOut { after: asked.elapsed() });
                }
                Ok(Some(seen)) => {
                    let why = self.stall(&seen, before.as_ref(), first.elapsed());
                    before = Some(seen);
                    looks.saw(why);
                    why
                }
                Err(_) => {
                    before = None;
                    beside.close();
                    looks.failed();
                    Stall::Unknown
                }
            };
            let told = asked.duration_since(self.started);
            self.tell(Beat::Waits { asked: told, stall: why }).await;
            next = Instant::now() + LOOK_GAP;
        }
    }

    async fn once(&self, link: &mut Link) -> Result<Done, LinkError> {
        let schema = &self.settings.schema;
        if self.kind == Kind::Galera {
            link.query(&sql::write(schema, &self.name), LONGEST).await?;
            return Ok(Done::Committed);
        }
        link.query(&sql::lock(schema), LONGEST).await?;
        let standing = link.query(sql::IS_READ_ONLY, LONGEST).await?;
        let is_writable = standing.text(0, 0) == Some("0");
        if is_writable {
            link.query(&sql::write(schema, &self.name), LONGEST).await?;
        }
        link.query(sql::UNLOCK, LONGEST).await?;
        Ok(if is_writable { Done::Committed } else { Done::ReadOnly })
    }

    /// What the server shows of the session, and of those that wait at a commit; `None` when that session is idle.
    async fn look(&self, beside: &mut Asker, id: u32) -> Result<Option<Sessions>, LinkError> {
        let link = beside.link(STEP).await?;
        let sessions = link.query(&sql::sessions([id]), STEP).await?;
        let mut seen = Sessions { written: written(link).await?, ..Sessions::default() };
        let mut runs = false;
        for row in 0..sessions.len() {
            let state = sessions.text(row, 1).unwrap_or_default().to_owned();
            if sessions.text(row, 0).and_then(|text| text.parse().ok()) == Some(id) {
                seen.own = state;
                runs = sessions.text(row, 2) != Some("Sleep");
            } else {
                seen.others.push(state);
            }
        }
        if !runs {
            // Its statement or its answer was lost on the network, which says nothing about the server.
            return Ok(None);
        }
        if seen.waits_for_everything() {
            seen.changes_wait = match link.query(&sql::would_change(&self.settings.schema), STEP).await {
                Ok(_) => false,
                Err(LinkError::Rejected { errno: LOCK_WAIT_TIMEOUT, .. }) => true,
                Err(other) => return Err(other),
            };
        }
        seen.is_large = self.sends_large(link).await?;
        Ok(Some(seen))
    }

    /// Why a commit waits, when none has been answered for `time`.
    fn stall(&self, seen: &Sessions, before: Option<&Sessions>, time: Duration) -> Stall {
        match self.kind {
            Kind::Galera => stall_of_member(seen, before, time),
            Kind::Replication => stall(seen, before),
        }
    }

    /// Galera: whether a large transaction waits to be sent to the group.
    async fn sends_large(&self, link: &mut Link) -> Result<bool, LinkError> {
        if self.kind != Kind::Galera {
            return Ok(false);
        }
        match link.query(sql::LARGE, STEP).await {
            Ok(count) => Ok(count.text(0, 0) != Some("0")),
            // The account may not ask.
            Err(LinkError::Rejected { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// For questions beside the link that waits.
    fn asker(&self) -> Asker {
        Asker::new(&self.address, self.login.clone(), STEP)
    }

    async fn forbidden(&self, errno: u16, message: &str) {
        self.tell(Beat::Unknown).await;
        let text = advice::heartbeat(&self.name, &self.login.user, &self.settings.schema, errno, message);
        let _ = self.notes.send(Note::Advice(self.node, Topic::Heartbeat, Some(text))).await;
    }
}

/// The bytes written to the server's logs.
async fn written(link: &mut Link) -> Result<u64, LinkError> {
    let counters = link.query(sql::WRITTEN, STEP).await?;
    Ok((0..counters.len())
        .filter_map(|row| counters.text(row, 1)?.parse::<u64>().ok())
        .fold(0, u64::wrapping_add))
}

/// Since when no heartbeat was answered, over any number of them.
#[derive(Default)]
struct Unanswered {
    since: Option<Instant>,
}

impl Unanswered {
    /// The start of that time, including a heartbeat that was sent at `asked`.
    fn since(&mut self, asked: Instant) -> Instant {
        *self.since.get_or_insert(asked)
    }

    /// The last one ended with this error. It also counts as unanswered if its time was over, or if the row is still locked, for example by
    /// the one before.
    fn failed(&mut self, error: &LinkError) {
        let is_late = matches!(
            error,
            LinkError::TimedOut { .. } | LinkError::Rejected { errno: LOCK_WAIT_TIMEOUT, .. }
        );
        if !is_late {
            self.since = None;
        }
    }
}

/// What was seen of a heartbeat that waits.
#[derive(Default)]
struct Looks {
    /// How many questions in a row saw a harmless reason.
    harmless: u32,
}

impl Looks {
    fn saw(&mut self, stall: Stall) {
        self.harmless = if stall.counts() { 0 } else { self.harmless.saturating_add(1) };
    }

    /// The question failed: the state may be as before.
    fn failed(&mut self) {
        self.harmless = 0;
    }

    /// Whether it certainly waits for a harmless reason. The first question after a failed one cannot show whether anything is being written.
    fn are_harmless(&self) -> bool {
        self.harmless >= 2
    }
}

/// ER_LOCK_WAIT_TIMEOUT.
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR.
fn is_forbidden(errno: u16) -> bool {
    matches!(errno, 1044 | 1142 | 1143 | 1227)
}

/// ER_BAD_DB_ERROR, ER_NO_SUCH_TABLE.
fn is_missing(errno: u16) -> bool {
    matches!(errno, 1049 | 1146)
}

/// ER_DISK_FULL, ER_ERROR_ON_WRITE, ER_RECORD_FILE_FULL, and other errors that say that the disk is full.
fn is_full(errno: u16, message: &str) -> bool {
    matches!(errno, 1021 | 1114) || message.contains("No space left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_transaction_is_waited_for_over_several_heartbeats_and_not_for_ever() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let large =
            Sessions { own: "Waiting for certification".into(), is_large: true, ..Sessions::default() };
        let late = LinkError::TimedOut { after: GIVE_UP };
        let mut unanswered = Unanswered::default();
        let mut seen = |asked: u64, now: u64| {
            let since = unanswered.since(at(asked));
            let why = stall_of_member(&large, Some(&large), at(now).duration_since(since));
            unanswered.failed(&late);
            why
        };
        assert_eq!(seen(0, GIVE_UP.as_secs()), Stall::Writing);
        assert_eq!(seen(22, 29), Stall::Writing);
        assert_eq!(seen(22, 30), Stall::Stuck);
        unanswered.failed(&LinkError::Reset);
        assert_eq!(unanswered.since(at(40)), at(40), "it began again");
    }

    #[test]
    fn a_look_that_failed_lets_nobody_end_a_session_on_a_hung_disk() {
        let mut looks = Looks::default();
        let mut harmless = |stall: Option<Stall>| {
            match stall {
                Some(stall) => looks.saw(stall),
                None => looks.failed(),
            }
            looks.are_harmless()
        };
        let own = Some(Stall::OwnTable);
        assert_eq!([own, own].map(&mut harmless), [false, true]);
        let hung = [Some(Stall::Stuck), None, Some(Stall::Unknown), Some(Stall::Stuck), None, own];
        assert_eq!(hung.map(&mut harmless), [false; 6]);
        assert!(harmless(own));
    }
}

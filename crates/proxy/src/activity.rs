//! What each client's session is doing now, so that reports can name the sessions that a lane waits for.
//!
//! It costs a few relaxed stores for each statement; reports read them at any time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::proxy::Busy;
use protocol::statement::Pins;
use session::command::{Cost, InFlight};

/// A client that has accepted no byte of a result for this long has stopped reading; see [`topology::routes::Cut::Stopped`].
pub const STOPPED_AFTER: Duration = Duration::from_millis(200);

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Doing {
    /// No command is running, and no transaction is open.
    Idle = 0,
    /// A transaction is open, and the client's next statement is awaited.
    InTransaction = 1,
    /// A statement runs on the node.
    Running = 2,
    /// Its client does not read the result.
    Unread = 3,
    /// It waits in the hold queue, or for the manager's check of its node.
    Held = 4,
    /// Its client is gone; its statement is being ended on the node.
    Ending = 5,
    /// The client has not sent the rest of a statement, or of a file that it loads.
    Sending = 6,
}

impl Doing {
    fn of(doing: u8) -> Self {
        use Doing::{Ending, Held, Idle, InTransaction, Running, Sending, Unread};
        [Idle, InTransaction, Running, Unread, Held, Ending, Sending]
            .into_iter()
            .find(|known| *known as u8 == doing)
            .unwrap_or(Self::Idle)
    }

    /// A sentence about the session that has been doing this for so many seconds.
    fn sentence(self, seconds: f64) -> String {
        match self {
            Self::Idle => format!("idle for {seconds:.1} s"),
            Self::InTransaction => {
                format!("its transaction is open, and its client has sent nothing for {seconds:.1} s")
            }
            Self::Running => format!("its statement has run for {seconds:.1} s"),
            Self::Unread => format!("its client has not read for {seconds:.1} s"),
            Self::Sending => format!("its client has not sent the rest of its statement for {seconds:.1} s"),
            Self::Held => format!("held for {seconds:.1} s"),
            Self::Ending => {
                format!("its client is gone, and its statement has been ending for {seconds:.1} s")
            }
        }
    }
}

/// What one client's session is doing.
#[derive(Debug)]
pub struct Card {
    /// The connection id that the client knows.
    pub id: u32,
    /// The client's address.
    pub peer: SocketAddr,
    began: Instant,
    user: Mutex<String>,
    doing: AtomicU8,
    /// What aborting its statement would cost, see [`Cost`].
    cost: AtomicU8,
    /// Cutting its statement's result changes nothing, see [`InFlight::can_be_cut`].
    can_be_cut: AtomicBool,
    /// Its statement's answer means that something was committed, see [`InFlight::commits`].
    commits: AtomicBool,
    /// Milliseconds after `began`.
    since_ms: AtomicU64,
    /// What ties it to its node, see [`Pins`].
    pins: AtomicU16,
}

impl Card {
    /// For a client that has just connected.
    pub fn new(id: u32, peer: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            id,
            peer,
            began: Instant::now(),
            user: Mutex::default(),
            doing: AtomicU8::new(Doing::Idle as u8),
            cost: AtomicU8::new(0),
            can_be_cut: AtomicBool::new(false),
            commits: AtomicBool::new(false),
            since_ms: AtomicU64::new(0),
            pins: AtomicU16::new(0),
        })
    }

    /// Sets the user after the login.
    pub fn set_user(&self, user: &str) {
        user.clone_into(&mut self.user.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sets what it does from `now` on.
    pub fn set(&self, doing: Doing, now: Instant) {
        self.doing.store(doing as u8, Relaxed);
        let since = now.saturating_duration_since(self.began);
        self.since_ms.store(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// This statement runs from `now` on.
    pub fn set_running(&self, flight: &InFlight, now: Instant) {
        self.set_cost(flight.cost());
        self.can_be_cut.store(flight.can_be_cut(), Relaxed);
        self.commits.store(flight.commits(), Relaxed);
        self.set(Doing::Running, now);
    }

    /// Sets what aborting its statement would cost.
    pub fn set_cost(&self, cost: Cost) {
        self.cost.store(cost as u8, Relaxed);
    }

    fn cost(&self, doing: Doing) -> &'static str {
        match self.cost.load(Relaxed) {
            _ if doing == Doing::InTransaction => "its transaction is rolled back",
            cost if cost == Cost::CutShort as u8 => "its result is cut short, and nothing is changed",
            cost if cost == Cost::Unknown as u8 => "the outcome of its statement is unknown",
            cost if cost == Cost::NotRun as u8 => "its statement is not executed",
            _ => "its transaction is rolled back",
        }
    }

    /// What it is doing, and for how long it has.
    pub fn now(&self) -> (Doing, Duration) {
        let since = Duration::from_millis(self.since_ms.load(Relaxed));
        (Doing::of(self.doing.load(Relaxed)), self.began.elapsed().saturating_sub(since))
    }

    /// How long it has waited for the answer to a commit; `None` when it does not.
    pub fn waits_for_commit(&self) -> Option<Duration> {
        let (doing, time) = self.now();
        (doing == Doing::Running && self.commits.load(Relaxed)).then_some(time)
    }

    /// Sets what ties it to its node, except for state that is read from there before a planned move.
    pub fn set_ties(&self, pins: Pins) {
        self.pins.store(pins.0, Relaxed);
    }

    /// What ties it to its node, by name; empty when nothing does.
    fn ties(&self) -> String {
        Pins(self.pins.load(Relaxed)).names().join(", ")
    }

    /// Whether anything does.
    pub fn is_tied(&self) -> bool {
        !Pins(self.pins.load(Relaxed)).is_empty()
    }

    /// What ties it to `node`.
    pub fn tied(&self, node: &str) -> Option<Tied> {
        let why = self.ties();
        (!why.is_empty()).then(|| Tied {
            id: self.id,
            user: self.user.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            client: self.peer.to_string(),
            node: node.to_owned(),
            why,
        })
    }

    /// The same as [`Card::busy`] if its client has stopped reading, and whether cutting its result changes nothing.
    pub fn unread(&self, node: &str) -> Option<(Busy, bool)> {
        let (doing, time) = self.now();
        let has_stopped = doing == Doing::Unread && time >= STOPPED_AFTER;
        has_stopped.then(|| (self.busy(node), self.can_be_cut.load(Relaxed)))
    }

    /// A report for people; `node` is the one whose lane it keeps busy.
    pub fn busy(&self, node: &str) -> Busy {
        let (doing, time) = self.now();
        Busy {
            id: self.id,
            user: self.user.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            client: self.peer.to_string(),
            node: node.to_owned(),
            ties: self.ties(),
            connected_s: self.began.elapsed().as_secs(),
            waits_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            what: doing.sentence(time.as_secs_f64()),
            cost: self.cost(doing).into(),
        }
    }
}

/// A session that cannot move.
#[derive(Clone, Debug)]
pub struct Tied {
    /// The connection id that its client knows; KILL takes it.
    pub id: u32,
    /// Its user.
    pub user: String,
    /// Its client's address.
    pub client: String,
    /// The node.
    pub node: String,
    /// What ties it to the node.
    pub why: String,
}

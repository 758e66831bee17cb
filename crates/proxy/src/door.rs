//! The one owner of lanes and hold queue: takes up new routes, lets held statements go, says when a lane has become quiet.
//!
//! Enters: [`Routes`], and small messages from sessions (wait, gone, finished, quiet). Leaves: the [`LaneTable`] that sessions
//! look at, a verdict for each held statement, [`Fact::Quiesced`]. Nobody else changes any of it, so there is no lock to hold
//! across an await, and no order of events that two parties could see differently.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use session::hold_queue::{Counters, HoldQueue, Limits, Ticket, WaitEnd};
use session::names::{List, Names};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use topology::Term;
use topology::account::Accounts;
use topology::catalogue::Catalogue;
use topology::fact::Fact;
use topology::routes::{Routes, ServerGreeting};

use crate::lane::{Lane, Lease};
use crate::stats::Counts;

/// What sessions can see of the routes in force.
pub struct LaneTable {
    /// Of the routes it was made from.
    pub term: Term,
    /// Of the routes it was made from.
    pub version: u64,
    /// The present lane of each node.
    pub lanes: Vec<Arc<Lane>>,
    /// Why no lane is open.
    pub hold_because: Option<Arc<str>>,
    /// What to announce to clients.
    pub greeting: Option<Arc<ServerGreeting>>,
    /// The client accounts.
    pub accounts: Arc<Accounts>,
    /// See [`Routes::catalogue`].
    pub catalogue: Option<Arc<Catalogue>>,
}

impl LaneTable {
    /// The lane a new transaction takes when its session has none: the least busy open one.
    fn pick(&self, avoid: Option<&Arc<Lane>>) -> Option<&Arc<Lane>> {
        self.lanes
            .iter()
            .filter(|lane| lane.is_open() && lane.has_room())
            .filter(|lane| avoid.is_none_or(|avoid| !Arc::ptr_eq(avoid, lane)))
            .min_by_key(|lane| (lane.leases(), lane.sessions()))
    }
}

enum Message {
    Wait {
        id: u64,
        bytes: usize,
        since: Instant,
        verdict: oneshot::Sender<Result<Slot, NoLane>>,
    },
    Gone {
        id: u64,
    },
    /// A released statement has ended.
    Finished(Ticket),
    Counters(oneshot::Sender<Counters>),
}

/// How sessions speak to the door. Unbounded, and yet bounded: a session has at most a handful of messages under way, and sessions are
/// limited.
type Messages = mpsc::UnboundedSender<Message>;

/// What the sessions hold of the door.
pub struct Door {
    messages: Messages,
    lane_table: watch::Receiver<Arc<LaneTable>>,
    next_id: AtomicU64,
    stats: Arc<Counts>,
}

/// Why a wait ended without a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLane {
    /// The hold's time is over.
    Expired,
    /// Thrown out to make room, or too large for the hold.
    Evicted,
    /// The proxy is going down.
    Ended,
}

/// A place in the ramp, given back when dropped: by the released statement when it has ended, or by the verdict that nobody
/// took, when the client went away at the very moment of its release.
pub struct Slot {
    messages: Messages,
    ticket: Ticket,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Finished(self.ticket));
    }
}

/// Tells the door when a waiting client goes away; disarmed by a verdict.
struct Waiting<'a> {
    messages: &'a Messages,
    id: u64,
    armed: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.armed {
            let _ = self.messages.send(Message::Gone { id: self.id });
        }
    }
}

impl Door {
    /// Begins to follow `routes`.
    pub fn start(
        limits: Limits,
        routes: watch::Receiver<Arc<Routes>>,
        facts: mpsc::Sender<Fact>,
        stats: Arc<Counts>,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (messages, heard) = mpsc::unbounded_channel();
        let empty = LaneTable {
            term: Term(0),
            version: 0,
            lanes: vec![],
            hold_because: Some("no routes are known yet".into()),
            greeting: None,
            accounts: Arc::default(),
            catalogue: None,
        };
        let (publish, lane_table) = watch::channel(Arc::new(empty));
        let door_task = DoorTask {
            started: Instant::now(),
            messages: messages.clone(),
            look: Arc::default(),
            hold_queue: HoldQueue::new(limits),
            waiting: HashMap::new(),
            tickets: HashMap::new(),
            quiesced: HashSet::new(),
            cutting: vec![],
            lane_table: publish,
            facts,
            stats: stats.clone(),
        };
        let task = tokio::spawn(door_task.run(routes, heard));
        (Self { messages, lane_table, next_id: AtomicU64::new(0), stats }, task)
    }

    /// The routes in force, as lanes.
    pub fn lane_table(&self) -> Arc<LaneTable> {
        self.lane_table.borrow().clone()
    }

    /// Whether a node takes statements now; an `Err` says why not. That one has as many sessions as it may have is not asked: those go on.
    pub fn flows(&self) -> Result<(), String> {
        let lane_table = self.lane_table.borrow();
        if lane_table.lanes.iter().any(|lane| lane.is_open()) {
            return Ok(());
        }
        let because = lane_table.hold_because.as_deref();
        Err(because.unwrap_or("no node takes statements").to_owned())
    }

    /// A receiver of its own, to wait for changes.
    pub fn watch(&self) -> watch::Receiver<Arc<LaneTable>> {
        self.lane_table.clone()
    }

    /// What is known of names that mean more than a statement's text shows.
    pub fn names(&self, list: List) -> Names {
        Names::of(self.lane_table.borrow().catalogue.as_ref(), list)
    }

    /// A lane that takes a transaction now, without waiting; not `avoid`, where the statement has just failed.
    pub fn try_lease(&self, avoid: Option<&Arc<Lane>>) -> Option<Lease> {
        self.lane_table.borrow().pick(avoid).and_then(Lane::lease)
    }

    /// Waits in the hold. `since`: when this statement was first held. Cancel safe: dropping the future leaves the hold.
    pub async fn wait(&self, bytes: usize, since: Instant) -> Result<Slot, NoLane> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (verdict, answer) = oneshot::channel();
        let entered = Instant::now();
        let mut waiting = Waiting { messages: &self.messages, id, armed: true };
        if self.messages.send(Message::Wait { id, bytes, since, verdict }).is_err() {
            return Err(NoLane::Ended);
        }
        let verdict = answer.await;
        waiting.armed = false;
        self.stats.held_for.add(entered.elapsed());
        verdict.unwrap_or(Err(NoLane::Ended))
    }

    /// The numbers of the hold's law.
    pub async fn counters(&self) -> Counters {
        let (sender, answer) = oneshot::channel();
        let _ = self.messages.send(Message::Counters(sender));
        answer.await.unwrap_or_default()
    }
}

/// A lane that was shut, and on which links may still stand.
struct Cutting {
    lane: Arc<Lane>,
    /// The links of this epoch and of all before it are gone with it.
    epoch: u64,
}

struct DoorTask {
    started: Instant,
    messages: Messages,
    /// A lane may have become quiet, has room again, or its last link is gone.
    look: Arc<Notify>,
    hold_queue: HoldQueue,
    waiting: HashMap<Ticket, (u64, oneshot::Sender<Result<Slot, NoLane>>)>,
    tickets: HashMap<u64, Ticket>,
    /// The draining lanes that were said to be quiet since the present routes were taken up.
    quiesced: HashSet<u8>,
    /// Lanes that were shut, and on which links may still stand.
    cutting: Vec<Cutting>,
    lane_table: watch::Sender<Arc<LaneTable>>,
    facts: mpsc::Sender<Fact>,
    stats: Arc<Counts>,
}

impl DoorTask {
    async fn run(
        mut self,
        mut routes: watch::Receiver<Arc<Routes>>,
        mut heard: mpsc::UnboundedReceiver<Message>,
    ) {
        routes.mark_changed();
        loop {
            let deadline = self.hold_queue.next_deadline().map(|at| self.started + at);
            tokio::select! {
                biased;
                changed = routes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let newest = routes.borrow_and_update().clone();
                    self.take_up(&newest);
                }
                message = heard.recv() => match message {
                    Some(message) => self.heard(message),
                    None => return,
                },
                () = self.look.notified() => self.refresh_gate(),
                () = sleep_until(deadline) => self.with_hold_queue(HoldQueue::expire),
            }
            self.say_quiet().await;
            self.say_cut().await;
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn heard(&mut self, message: Message) {
        match message {
            Message::Wait { id, bytes, since, verdict } => {
                self.refresh_gate();
                let now = self.now();
                let since = since.saturating_duration_since(self.started);
                let mut out = vec![];
                let ticket = self.hold_queue.enter(now, since, bytes, &mut out);
                self.waiting.insert(ticket, (id, verdict));
                self.tickets.insert(id, ticket);
                self.deliver(out);
            }
            Message::Gone { id } => {
                if let Some(ticket) = self.tickets.remove(&id)
                    && self.hold_queue.gone(ticket)
                {
                    self.waiting.remove(&ticket);
                }
            }
            Message::Finished(ticket) => {
                self.with_hold_queue(|hold_queue, now, out| hold_queue.finished(now, ticket, out))
            }
            Message::Counters(answer) => {
                let _ = answer.send(self.hold_queue.counters());
            }
        }
    }

    fn with_hold_queue(&mut self, act: impl FnOnce(&mut HoldQueue, Duration, &mut Vec<(Ticket, WaitEnd)>)) {
        let mut out = vec![];
        let now = self.now();
        act(&mut self.hold_queue, now, &mut out);
        self.deliver(out);
    }

    fn refresh_gate(&mut self) {
        let open = self.lane_table.borrow().pick(None).is_some();
        self.with_hold_queue(|hold_queue, now, out| hold_queue.set_open(now, open, out));
    }

    fn deliver(&mut self, verdicts: Vec<(Ticket, WaitEnd)>) {
        for (ticket, verdict) in verdicts {
            let Some((id, answer)) = self.waiting.remove(&ticket) else { continue };
            self.tickets.remove(&id);
            let verdict = match verdict {
                WaitEnd::Resumed => Ok(Slot { messages: self.messages.clone(), ticket }),
                WaitEnd::Evicted => Err(NoLane::Evicted),
                WaitEnd::Expired => Err(NoLane::Expired),
            };
            // A verdict that nobody takes is dropped, and a slot in it comes back as a message.
            let _ = answer.send(verdict);
        }
    }

    /// New routes: every lane takes up its state, shut ones cut their links, and held statements go if they can.
    fn take_up(&mut self, routes: &Routes) {
        let old = self.lane_table.borrow().clone();
        let mut lanes = Vec::with_capacity(routes.lanes.len());
        for wanted in &routes.lanes {
            let known = old.lanes.get(usize::from(wanted.node.0));
            let lane = match known {
                Some(lane) if lane.epoch == wanted.epoch && !lane.is_shut() => {
                    lane.set(wanted);
                    if lane.is_shut() {
                        self.cutting.push(Cutting { lane: lane.clone(), epoch: wanted.epoch });
                    }
                    lane.clone()
                }
                Some(lane) => {
                    if !lane.is_shut() {
                        lane.note_end(wanted);
                        lane.shut();
                        // Routes may have been skipped in between: all that is older than the new one.
                        let epoch = wanted.epoch.saturating_sub(1).max(lane.epoch);
                        self.cutting.push(Cutting { lane: lane.clone(), epoch });
                    }
                    let new = Lane::new(wanted, self.look.clone());
                    new.count_on(lane);
                    new
                }
                None => Lane::new(wanted, self.look.clone()),
            };
            lanes.push(lane);
        }
        // Whoever published these routes may ask for the quiet anew: said once of each routes taken up.
        self.quiesced.clear();
        self.lane_table.send_replace(Arc::new(LaneTable {
            term: routes.term,
            version: routes.version,
            lanes,
            hold_because: routes.hold_because.clone(),
            greeting: routes.greeting.clone(),
            accounts: routes.accounts.clone(),
            catalogue: routes.catalogue.clone(),
        }));
        self.stats.term.store(routes.term.0, Ordering::Relaxed);
        self.refresh_gate();
    }

    /// Says once of each draining lane, for each routes taken up, that nothing runs on it any more.
    async fn say_quiet(&mut self) {
        let lane_table = self.lane_table.borrow().clone();
        for lane in lane_table.lanes.iter().filter(|lane| lane.is_draining() && lane.is_quiet()) {
            if self.quiesced.insert(lane.node.0) {
                let fact = Fact::Quiesced {
                    node: lane.node,
                    epoch: lane.epoch,
                    term: lane_table.term,
                    version: lane_table.version,
                };
                // The manager's end closes only when the program ends.
                let _ = self.facts.send(fact).await;
            }
        }
    }
}

impl DoorTask {
    /// Says once of each lane that was shut that its last link is gone.
    async fn say_cut(&mut self) {
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.cutting).into_iter().partition(|cutting| cutting.lane.is_empty());
        self.cutting = left;
        for Cutting { lane, epoch } in gone {
            // The manager's end closes only when the program ends.
            let _ = self.facts.send(Fact::Cut { node: lane.node, epoch }).await;
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A ticket of a released statement.
    fn released() -> Ticket {
        let limits =
            Limits { time: Duration::from_secs(1), statements_max: 1, bytes_max: 1, release_at_once: 1 };
        HoldQueue::new(limits).enter(Duration::ZERO, Duration::ZERO, 0, &mut vec![])
    }

    #[tokio::test]
    async fn a_verdict_that_nobody_takes_gives_its_slot_back() {
        let (messages, mut heard) = mpsc::unbounded_channel();
        let lane_table = LaneTable {
            term: Term(0),
            version: 0,
            lanes: vec![],
            hold_because: None,
            greeting: None,
            accounts: Arc::default(),
            catalogue: None,
        };
        let (_publish, lane_table) = watch::channel(Arc::new(lane_table));
        let door = Door {
            messages: messages.clone(),
            lane_table,
            next_id: AtomicU64::new(0),
            stats: Arc::default(),
        };
        for is_taken in [false, true] {
            let mut wait = Box::pin(door.wait(1, Instant::now()));
            let mut context = Context::from_waker(Waker::noop());
            assert!(wait.as_mut().poll(&mut context).is_pending());
            let Ok(Message::Wait { verdict, .. }) = heard.try_recv() else { panic!("no wait") };
            let ticket = released();
            assert!(verdict.send(Ok(Slot { messages: messages.clone(), ticket })).is_ok(), "somebody waits");
            if is_taken {
                let Poll::Ready(Ok(slot)) = wait.as_mut().poll(&mut context) else { panic!("no slot") };
                assert!(heard.try_recv().is_err(), "the slot is in use");
                drop(slot);
            }
            // The client goes away; the verdict may be on its way to it.
            drop(wait);
            let mut given_back = 0;
            while let Ok(message) = heard.try_recv() {
                if let Message::Finished(back) = message {
                    assert_eq!(back, ticket);
                    given_back += 1;
                }
            }
            assert_eq!(given_back, 1, "taken: {is_taken}");
        }
    }
}

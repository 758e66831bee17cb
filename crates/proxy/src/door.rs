//! The door: the one task that owns the lanes and the hold queue. It applies new routes, releases held statements, and reports when a lane
//! has become quiet.
//!
//! Enters: [`Routes`], and small messages from sessions (wait, gone, finished, quiet). Leaves: the [`LaneTable`] that sessions read, a
//! result for each held statement, [`ProxyFact::Quiesced`]. Only this task changes them, so no lock is held across an await, and all see events
//! in the same order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use session::hold_queue::{Counters, HoldQueue, QueueLimits, Ticket, WaitEnd};
use session::names::{List, Names};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use topology::account::Accounts;
use topology::catalogue::Catalogue;
use topology::fact::ProxyFact;
use topology::routes::{Routes, ServerGreeting};
use topology::{NodeId, Term};

use crate::lane::{Lane, Lease};
use crate::stats::Counts;

/// The lanes and accounts of the routes in force, for the sessions.
pub struct LaneTable {
    /// From the routes that it was made of.
    pub term: Term,
    /// From the routes that it was made of.
    pub version: u64,
    /// The present lane of each node.
    pub lanes: Vec<Arc<Lane>>,
    /// Why no lane is open.
    pub hold_because: Option<Arc<str>>,
    /// The server greeting for clients.
    pub greeting: Option<Arc<ServerGreeting>>,
    /// The client accounts.
    pub accounts: Arc<Accounts>,
    /// See [`Routes::catalogue`].
    pub catalogue: Option<Arc<Catalogue>>,
}

impl LaneTable {
    /// The lane for a new transaction of a session without a link: the open one with the fewest leases.
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
    SetLimits(QueueLimits),
}

/// The channel from the sessions to the door. It is unbounded, but a session sends only a few messages at a time, and the number of
/// sessions is limited.
type Messages = mpsc::UnboundedSender<Message>;

/// The sessions' handle of the door.
pub struct Door {
    messages: Messages,
    lane_table: watch::Receiver<Arc<LaneTable>>,
    next_id: AtomicU64,
    stats: Arc<Counts>,
}

/// Why a wait ended without a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLane {
    /// The hold time is over.
    Expired,
    /// Removed to make room, or too large for the queue.
    Evicted,
    /// The proxy is going down.
    Ended,
}

/// A slot of the hold queue, returned when it is dropped: when the released statement has ended, or when its client went away at the moment
/// of its release, so that nobody received it.
pub struct Slot {
    messages: Messages,
    ticket: Ticket,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Finished(self.ticket));
    }
}

/// Tells the door when a waiting client goes away; disarmed when the wait has ended.
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
    /// Starts to follow `routes`.
    pub fn start(
        limits: QueueLimits,
        routes: watch::Receiver<Arc<Routes>>,
        facts: mpsc::Sender<ProxyFact>,
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
            cut: vec![],
            lane_table: publish,
            facts,
            stats: stats.clone(),
        };
        let task = tokio::spawn(door_task.run(routes, heard));
        (Self { messages, lane_table, next_id: AtomicU64::new(0), stats }, task)
    }

    /// The lanes of the routes in force.
    pub fn lane_table(&self) -> Arc<LaneTable> {
        self.lane_table.borrow().clone()
    }

    /// Whether a node takes statements now; an `Err` says why not. A node that has reached its limit of sessions counts, since those sessions
    /// continue.
    pub fn flows(&self) -> Result<(), String> {
        let lane_table = self.lane_table.borrow();
        if lane_table.lanes.iter().any(|lane| lane.is_open()) {
            return Ok(());
        }
        let because = lane_table.hold_because.as_deref();
        Err(because.unwrap_or("no node takes statements").to_owned())
    }

    /// A receiver for changes of the table.
    pub fn watch(&self) -> watch::Receiver<Arc<LaneTable>> {
        self.lane_table.clone()
    }

    /// One of the lists of names that change what a statement may do.
    pub fn names(&self, list: List) -> Names {
        Names::of(self.lane_table.borrow().catalogue.as_ref(), list)
    }

    /// A lease on an open lane, without waiting; not on `avoid`, where the statement has just failed.
    pub fn try_lease(&self, avoid: Option<&Arc<Lane>>) -> Option<Lease> {
        self.lane_table.borrow().pick(avoid).and_then(Lane::lease)
    }

    /// Waits in the hold queue. `since`: when this statement was first held. Cancel safe: dropping the future leaves the queue.
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

    /// Changes the limits of the hold queue.
    pub fn set_limits(&self, limits: QueueLimits) {
        // An error means that the proxy has ended.
        let _ = self.messages.send(Message::SetLimits(limits));
    }

    /// The counters of the hold queue.
    pub async fn counters(&self) -> Counters {
        let (sender, answer) = oneshot::channel();
        let _ = self.messages.send(Message::Counters(sender));
        answer.await.unwrap_or_default()
    }
}

struct DoorTask {
    started: Instant,
    messages: Messages,
    /// A lane may have become quiet, or has room again.
    look: Arc<Notify>,
    hold_queue: HoldQueue,
    waiting: HashMap<Ticket, (u64, oneshot::Sender<Result<Slot, NoLane>>)>,
    tickets: HashMap<u64, Ticket>,
    /// The draining lanes that were reported as quiet since the present routes were applied.
    quiesced: HashSet<u8>,
    /// Lanes that were shut, and the last epoch whose links are cut: to be reported.
    cut: Vec<(NodeId, u64)>,
    lane_table: watch::Sender<Arc<LaneTable>>,
    facts: mpsc::Sender<ProxyFact>,
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
            Message::SetLimits(limits) => {
                self.with_hold_queue(|hold_queue, now, out| hold_queue.set_limits(now, limits, out))
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
            // If nobody receives it, it is dropped, and a slot in it is returned by a message.
            let _ = answer.send(verdict);
        }
    }

    /// Applies new routes: every lane takes its state, shut ones cut their links, and held statements are released if possible.
    fn take_up(&mut self, routes: &Routes) {
        let old = self.lane_table.borrow().clone();
        let mut lanes = Vec::with_capacity(routes.lanes.len());
        for wanted in &routes.lanes {
            let known = old.lanes.get(usize::from(wanted.node.0));
            let lane = match known {
                Some(lane) if lane.epoch == wanted.epoch && !lane.is_shut() => {
                    lane.set(wanted);
                    if lane.is_shut() {
                        self.cut.push((lane.node, wanted.epoch));
                    }
                    lane.clone()
                }
                known => {
                    let new = Lane::new(wanted, self.look.clone());
                    if let Some(lane) = known {
                        new.count_on(lane);
                    }
                    // Routes in between may have been missed, also those under which the lane was open: no link of an epoch before the new one stands.
                    // Before the first routes of all there were none.
                    let before = wanted.epoch.checked_sub(1);
                    let gone = match known {
                        Some(lane) if !lane.is_shut() => {
                            lane.note_end(wanted);
                            lane.shut();
                            before.max(Some(lane.epoch))
                        }
                        Some(lane) if lane.epoch >= wanted.epoch => None,
                        None if routes.version <= 1 => None,
                        _ => before,
                    };
                    self.cut.extend(gone.map(|epoch| (wanted.node, epoch)));
                    new
                }
            };
            lanes.push(lane);
        }
        // The publisher of these routes may ask again whether the lanes are quiet, so that is reported once for each routes applied.
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

    /// Reports each draining lane on which nothing runs any more, once for each routes applied.
    async fn say_quiet(&mut self) {
        let lane_table = self.lane_table.borrow().clone();
        for lane in lane_table.lanes.iter().filter(|lane| lane.is_draining() && lane.is_quiet()) {
            if self.quiesced.insert(lane.node.0) {
                let fact = ProxyFact::Quiesced {
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
    /// Reports each lane that was shut, once: nothing more can be sent on its links.
    async fn say_cut(&mut self) {
        for (node, epoch) in std::mem::take(&mut self.cut) {
            // The manager's end closes only when the program ends.
            let _ = self.facts.send(ProxyFact::Cut { node, epoch }).await;
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
            QueueLimits { time: Duration::from_secs(1), statements_max: 1, bytes_max: 1, release_at_once: 1 };
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

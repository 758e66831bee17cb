//! A session's reads on replicas, as the proxy's own `driver/side.rs` runs them: which reads may run there and which position they need is
//! decided by the real `session::split`; links, lanes and the wait for the position are simulated.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use protocol::response::End;
use session::command::InFlight;
use session::names::Names;
use session::session::Session;
use session::split::{Gtid, LEFT, Need, RunsOn, is_position, only_domain, runs_on};
use sim::clock::{Either, race};
use topology::fact::{ConnectFailure, ProxyFact};

use super::door::Door;
use super::lane::{Lane, Lease};
use super::link::{self, Answer, Does, Link, status_of};
use super::session_driver::{Backend, CAPS, CONNECT_TIMEOUT, Driver, Heard, until_shut};

/// The longest that a read waits on a replica for a position.
const WAIT_MAX: Duration = Duration::from_millis(300);
const GRACE: Duration = Duration::from_millis(500);
const LEFT_ALONE: Duration = Duration::from_secs(1);
const ASK_MAX: Duration = Duration::from_secs(60);

/// A lane by its node and epoch.
type LaneId = (u8, u64);

/// What all sessions share about the replicas.
pub struct Replicas {
    pub door: Rc<Door>,
    domain: Cell<Option<u32>>,
    /// Of each replica, by its node and epoch: what it has applied, and the primary's node and epoch that assigned it.
    reached: RefCell<BTreeMap<LaneId, (LaneId, u64)>>,
    /// Nodes that are not used until then.
    left_alone: RefCell<BTreeMap<u8, Duration>>,
    /// Reads that a replica answered.
    pub answered: Cell<usize>,
}

impl Replicas {
    pub fn new(door: Rc<Door>) -> Rc<Self> {
        Rc::new(Self {
            door,
            domain: Cell::default(),
            reached: RefCell::default(),
            left_alone: RefCell::default(),
            answered: Cell::default(),
        })
    }

    fn lease(&self, primary: u8, now: Duration) -> Option<Lease> {
        let is_alone = |node: u8| self.left_alone.borrow().get(&node).is_some_and(|until| *until > now);
        let lane_table = self.door.lane_table();
        let fit = lane_table.lanes.iter().filter(|lane| {
            lane.is_open() && lane.has_room() && lane.node.0 != primary && !is_alone(lane.node.0)
        });
        fit.min_by_key(|lane| (lane.leases(), lane.sessions.get()))?.lease()
    }

    fn leave_alone(&self, node: u8, now: Duration) {
        self.left_alone.borrow_mut().insert(node, now + LEFT_ALONE);
    }

    fn has_reached(&self, lane: &Lane, primary: &Lane, number: u64) -> bool {
        let reached = self.reached.borrow();
        reached
            .get(&(lane.node.0, lane.epoch))
            .is_some_and(|(by, reached)| *by == (primary.node.0, primary.epoch) && *reached >= number)
    }
}

/// A session's link to a replica.
pub struct Side {
    replicas: Option<Rc<Replicas>>,
    need: Need,
    backend: Option<Backend>,
}

impl Side {
    pub fn new(replicas: Option<Rc<Replicas>>) -> Self {
        Self { replicas, need: Need::Unknown, backend: None }
    }

    /// The session has a new link to the primary.
    pub fn has_attached(&mut self, session: &mut Session) {
        self.backend = None;
        self.need = Need::Unknown;
        session.wanted.take_last_gtid();
    }
}

impl Driver {
    /// Runs a statement on a replica, if it may run there and one has what it needs.
    pub async fn elsewhere(&mut self, flight: &InFlight, payload: &[u8], does: Does) -> Option<Heard> {
        let replicas = self.side.replicas.clone()?;
        let primary = self.backend.as_ref()?;
        if self.session.owed().is_some() || self.lease.is_some() || primary.lane.is_shut() {
            return None;
        }
        let runs = runs_on(flight, &payload[1..], &self.session, &primary.standing, &|_| Names::Nothing);
        if runs != RunsOn::Replica {
            return None;
        }
        let _lease = self.side_for_read(&replicas).await?;
        let side = self.side.backend.as_mut()?;
        let read = async {
            side.send(link::Ask::Statement { does, forged: false })?;
            side.link.answer().await
        };
        let answer = match race(read, until_shut(&self.world, &side.lane)).await {
            Either::First(Ok(answer)) => answer,
            Either::First(Err(how)) => {
                self.side_lost(&replicas, how);
                return None;
            }
            Either::Second(()) => {
                self.side.backend = None;
                return None;
            }
        };
        // Whatever else it says, the primary's answer counts.
        let Answer::Rows { seen, in_transaction } = answer else { return None };
        let end = End::Eof { status: status_of(in_transaction) };
        self.session.ended(&mut side.standing, flight, &end, &[0xFE], payload, CAPS);
        self.backend.as_mut()?.standing.forget(LEFT);
        replicas.answered.set(replicas.answered.get() + 1);
        Some(Heard::Rows(seen))
    }

    /// A statement has run on the primary.
    pub fn has_run_on_primary(&mut self, flight: &InFlight) {
        let Some(replicas) = &self.side.replicas else { return };
        let gtid = self.session.wanted.take_last_gtid();
        self.side.need.after(flight, gtid, replicas.domain.get());
        if let Some(side) = &mut self.side.backend {
            side.standing.forget(LEFT);
        }
    }

    /// A lease on a replica that has all that the session needs, with a link to it.
    async fn side_for_read(&mut self, replicas: &Replicas) -> Option<Lease> {
        let primary = self.backend.as_ref()?.lane.node.0;
        let kept = self.side.backend.as_ref();
        let kept = kept.filter(|side| side.lane.node.0 != primary && side.link.broken().is_none());
        if let Some(lease) = kept.and_then(|side| side.lane.lease()) {
            self.catch_up(replicas).await?;
            return Some(lease);
        }
        self.side.backend = None;
        let lease = replicas.lease(primary, self.world.clock.now())?;
        // A position that was enough on another replica is not enough here.
        self.side.need = Need::Unknown;
        let world = self.world.clone();
        let connect = Link::connect(&world.ground, usize::from(lease.lane().node.0));
        let connected = world.clock.within(CONNECT_TIMEOUT, connect);
        let link = match race(connected, until_shut(&world, lease.lane())).await {
            Either::First(Some(Ok(link))) => link,
            Either::First(failed) => {
                let how = failed.and_then(Result::err).unwrap_or(ConnectFailure::TimedOut);
                self.lost_there(replicas, lease.lane(), how);
                return None;
            }
            Either::Second(()) => return None,
        };
        let standing = self.session.standing(true);
        let registration = lease.lane().register()?;
        world.note_link(&link);
        self.side.backend = Some(Backend::new(link, standing, lease.lane().clone(), registration));
        self.catch_up(replicas).await?;
        Some(lease)
    }

    /// Waits until the replica has what the session has written and seen.
    async fn catch_up(&mut self, replicas: &Replicas) -> Option<()> {
        let primary = self.backend.as_ref()?.lane.clone();
        let lane = self.side.backend.as_ref()?.lane.clone();
        let number = |gtid: &str| Gtid::parse(gtid).map(|gtid| gtid.number);
        let position: Rc<str> = match &self.side.need {
            Need::Nothing => return Some(()),
            Need::Gtid(gtid)
                if number(gtid).is_some_and(|number| replicas.has_reached(&lane, &primary, number)) =>
            {
                self.side.need = Need::Nothing;
                return Some(());
            }
            Need::Gtid(gtid) => (&**gtid).into(),
            Need::Unknown => self.ask_position(replicas).await?,
        };
        if !is_position(&position) {
            return None;
        }
        let side = self.side.backend.as_mut()?;
        side.standing.forget(LEFT);
        let ask = link::Ask::WaitFor { position: position.clone(), within: WAIT_MAX };
        match self.world.clock.within(WAIT_MAX + GRACE, side.ask(ask)).await {
            Some(Ok(Answer::Ok { .. })) => {
                if let (Need::Gtid(_), Some(number)) = (&self.side.need, number(&position)) {
                    let by = (primary.node.0, primary.epoch);
                    replicas.reached.borrow_mut().insert((lane.node.0, lane.epoch), (by, number));
                }
                self.side.need = Need::Nothing;
                Some(())
            }
            Some(Ok(Answer::Late)) => {
                replicas.leave_alone(lane.node.0, self.world.clock.now());
                None
            }
            Some(Ok(_)) => None,
            failed => {
                let how = failed.and_then(Result::err).unwrap_or(ConnectFailure::TimedOut);
                self.side_lost(replicas, how);
                None
            }
        }
    }

    /// All that the primary has: it is asked on the session's own link, while that takes transactions.
    async fn ask_position(&mut self, replicas: &Replicas) -> Option<Rc<str>> {
        let backend = self.backend.as_mut()?;
        let _lease = backend.lane.lease()?;
        backend.standing.forget(LEFT);
        let asked = self.world.clock.within(ASK_MAX, backend.ask(link::Ask::Position));
        match race(asked, until_shut(&self.world, &backend.lane)).await {
            Either::First(Some(Ok(Answer::Position(position)))) => {
                replicas.domain.set(only_domain(&position));
                Some(position)
            }
            Either::First(Some(Ok(_))) => None,
            Either::First(_) | Either::Second(()) => {
                self.lost_idle();
                None
            }
        }
    }

    fn side_lost(&mut self, replicas: &Replicas, how: ConnectFailure) {
        if let Some(side) = self.side.backend.take() {
            self.lost_there(replicas, &side.lane, how);
        }
    }

    fn lost_there(&self, replicas: &Replicas, lane: &Lane, how: ConnectFailure) {
        replicas.leave_alone(lane.node.0, self.world.clock.now());
        let fact = ProxyFact::TrafficLost { node: lane.node, epoch: lane.epoch, how, alarm: 0 };
        self.world.control.tell(ProxyFact::Reads(Box::new(fact)), true);
    }
}

//! One client's session in the proxy: the real session and exchange, doing on the simulated links and lanes what they say.
//!
//! It does as the proxy's own driver: each operation of the exchange has its counterpart there.

use std::rc::Rc;
use std::time::Duration;

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::status;
use protocol::response::End;
use session::command::{InFlight, Next, Owed};
use session::exchange::{
    Ask, Event, Exchange, LetGo, Look, Loss, NoLease, NoLink, Op, RetryLimits, RoutesNow,
};
use session::finish::{Delivered, Failure, Finish, NodeError};
use session::hold_queue::WaitEnd;
use session::names::Names;
use session::session::Session;
use session::standing::Standing;
use topology::fact::{ConnectFailure, ProxyFact};

use super::World;
use super::door::{Door, Slot};
use super::lane::{Lane, Lease, Registration, Saver};
use super::link::{self, Answer, Does, Link, status_of};
use super::side::Side;
use sim::clock::{Either, race};

const LOOK_WAIT: Duration = Duration::from_secs(2);
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const CAUSAL_READ_TIME: Duration = Duration::from_secs(5);
const SAVE_TIME: Duration = Duration::from_secs(1);
pub const CAPS: Caps = Caps(Caps::PROTOCOL_41.0 | Caps::SESSION_TRACK.0);

/// What the client hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Ok,
    /// So much of the log was seen.
    Rows(usize),
    /// An error of the node's.
    Error(u16),
    /// An error of the proxy's.
    Failed(Failure),
    /// The connection was closed.
    Closed,
}

/// A link, with what stands on it.
pub struct Backend {
    pub link: Rc<Link>,
    pub standing: Standing,
    pub lane: Rc<Lane>,
    _registration: Registration,
}

impl Backend {
    pub fn new(link: Rc<Link>, standing: Standing, lane: Rc<Lane>, registration: Registration) -> Self {
        Self { link, standing, lane, _registration: registration }
    }

    /// Its socket is shut with its lane.
    pub fn send(&self, ask: link::Ask) -> Result<(), ConnectFailure> {
        if self.lane.is_shut() { Err(ConnectFailure::Closed) } else { self.link.send(ask) }
    }

    pub async fn ask(&self, ask: link::Ask) -> Result<Answer, ConnectFailure> {
        self.send(ask)?;
        self.link.answer().await
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.link.close(self.lane.is_shut());
    }
}

/// See the head of this file.
pub struct Driver {
    pub world: Rc<World>,
    /// Of the manager's process with which this began.
    pub door: Rc<Door>,
    pub session: Session,
    pub backend: Option<Backend>,
    pub lease: Option<Lease>,
    /// What reads elsewhere need.
    pub side: Side,
    saver: Option<Saver>,
    tried: Option<(Rc<Lane>, u64)>,
    has_run: bool,
    /// The last answer that was relayed.
    answer: Option<Answer>,
}

/// How one statement has waited so far.
#[derive(Default)]
struct Waiting {
    since: Option<Duration>,
    slot: Option<Slot>,
}

impl Driver {
    pub fn new(world: &Rc<World>) -> Self {
        let mut session = Session::new(None, 2);
        let replicas = world.replicas.borrow().clone();
        if replicas.is_some() {
            session.wanted.keep_gtid();
        }
        Self {
            world: world.clone(),
            door: world.door(),
            session,
            side: Side::new(replicas),
            backend: None,
            lease: None,
            saver: None,
            tried: None,
            has_run: false,
            answer: None,
        }
    }

    /// The client thinks for so long; meanwhile the link may end, or the session may have to leave it.
    pub async fn rest_for(&mut self, time: Duration) {
        let clock = self.world.clock.clone();
        let end = clock.now() + time;
        while clock.now() < end {
            let backend = self.backend.as_ref();
            let ended = async {
                match backend {
                    Some(backend) => {
                        drop(race(backend.link.ended(), until_shut(&self.world, &backend.lane)).await)
                    }
                    None => std::future::pending().await,
                }
            };
            let must_save = async {
                match backend {
                    Some(backend) if self.saver.is_some() && !backend.standing.in_transaction() => {
                        clock.until(|| (!backend.lane.is_open()).then_some(())).await;
                    }
                    _ => std::future::pending().await,
                }
            };
            match race(race(ended, must_save), clock.sleep_until(end)).await {
                Either::First(Either::First(())) => self.lost_idle(),
                Either::First(Either::Second(())) => self.save().await,
                Either::Second(()) => {}
            }
        }
    }

    /// One statement of the client, to its answer.
    pub async fn statement(&mut self, does: Does, forged: bool) -> Heard {
        let payload = [&[Command::QUERY.0][..], text(does).as_bytes()].concat();
        let link = self.backend.as_mut().map(|backend| &mut backend.standing);
        let next = self.session.command(&payload, true, CAPS, link, &|_| Names::Nothing);
        let flight = match next {
            Next::Forward(flight) => flight,
            Next::AnswerOk => return Heard::Ok,
            Next::Tell(Owed::RolledBack) => return Heard::Failed(Failure::RolledBack),
            Next::Tell(Owed::Unknown) => return Heard::Failed(Failure::OutcomeUnknown),
            Next::Tell(Owed::SessionLost(_)) => return Heard::Failed(Failure::SessionLost),
            other => panic!("{other:?}"),
        };
        if let Some(heard) = self.elsewhere(&flight, &payload, does).await {
            return heard;
        }
        let limits = RetryLimits { hold_time: super::HOLD_TIME, resends_max: 1 };
        let mut exchange = Exchange::new(flight, limits);
        let mut waiting = Waiting::default();
        let mut event = Event::Begin { leased: self.lease.is_some() };
        let finish = loop {
            let link = self.backend.as_mut().map(|backend| &mut backend.standing);
            let step = exchange.on(event, &mut self.session, link);
            self.let_go(step.let_go);
            event = match step.op {
                Op::Finish(finish) => break finish,
                op => self.perform(op, exchange.flight(), &payload, does, forged, &mut waiting).await,
            };
        };
        drop(waiting);
        self.has_run_on_primary(exchange.flight());
        self.rest();
        self.heard(finish)
    }

    /// The client goes away while its statement runs: link and lease are kept until the node has ended it.
    pub fn abandon(mut self) {
        let Some(backend) = self.backend.take() else { return };
        let (world, lease) = (self.world.clone(), self.lease.take());
        self.saver = None;
        backend.link.close(false);
        self.world.clock.spawn(async move {
            race(backend.link.ended(), until_shut(&world, &backend.lane)).await;
            drop((backend, lease));
        });
    }

    fn heard(&self, finish: Finish) -> Heard {
        match finish {
            Finish::Answered => match &self.answer {
                Some(Answer::Ok { .. }) => Heard::Ok,
                Some(Answer::Rows { seen, .. }) => Heard::Rows(*seen),
                Some(Answer::Error { code }) => Heard::Error(*code),
                other => panic!("answered by {other:?}"),
            },
            Finish::Ok => Heard::Ok,
            Finish::Fail { failure, .. } => Heard::Failed(failure),
            Finish::NodeError { closes: true, .. } | Finish::Close => Heard::Closed,
            Finish::NodeError { error, .. } => Heard::Error(error.code),
        }
    }

    async fn perform(
        &mut self,
        op: Op,
        flight: &InFlight,
        payload: &[u8],
        does: Does,
        forged: bool,
        waiting: &mut Waiting,
    ) -> Event {
        match op {
            Op::Lease { avoid } => {
                if self.has_to_save_now() {
                    self.save().await;
                }
                match self.take_lease(avoid, payload.len(), waiting).await {
                    Ok(here) => Event::Leased { here },
                    Err(why) => Event::NotLeased(why),
                }
            }
            Op::Attach => match self.attach().await {
                true => Event::Attached,
                false => Event::NotAttached(NoLink::NotNow),
            },
            Op::Send => self.send(flight, payload, does, forged).await,
            Op::AwaitLook => Event::Looked(self.look().await),
            Op::Ask(Ask::Status) => match self.ask(link::Ask::Ping).await {
                Some(Answer::Ok { in_transaction, .. }) => Event::Status(status_of(in_transaction)),
                _ => Event::AskLost,
            },
            Op::Ask(Ask::Track | Ask::Variables) => Event::Asked,
            Op::Retry => Event::Routes(self.routes(waiting)),
            Op::Pause { time, ends_early } => {
                let before = self.openings();
                let clock = &self.world.clock;
                let changed = clock.until(|| (ends_early && self.openings() != before).then_some(()));
                clock.within(time, changed).await;
                Event::Paused
            }
            Op::Prepare | Op::Finish(_) => panic!("nothing is prepared here"),
        }
    }

    // ---- the lease

    async fn take_lease(
        &mut self,
        avoid: bool,
        bytes: usize,
        waiting: &mut Waiting,
    ) -> Result<bool, NoLease> {
        let avoid = self.tried.take().filter(|_| avoid).map(|(lane, _)| lane);
        let own = self.backend.as_ref().map(|backend| backend.lane.clone());
        let lease = match self.lease_at_once(own.as_ref(), avoid.as_ref()) {
            Some(lease) => lease,
            None => self.lease_after_hold(bytes, own.as_ref(), waiting).await?,
        };
        let here = own.is_some_and(|own| Rc::ptr_eq(&own, lease.lane()));
        self.lease = Some(lease);
        self.door.check_alone();
        Ok(here)
    }

    fn lease_at_once(&self, own: Option<&Rc<Lane>>, avoid: Option<&Rc<Lane>>) -> Option<Lease> {
        if let Some(lane) = own
            && !lane.is_crowded()
            && let Some(lease) = lane.lease()
        {
            return Some(lease);
        }
        self.door.try_lease(avoid).or_else(|| own.and_then(Lane::lease))
    }

    async fn lease_after_hold(
        &mut self,
        bytes: usize,
        own: Option<&Rc<Lane>>,
        waiting: &mut Waiting,
    ) -> Result<Lease, NoLease> {
        let since = *waiting.since.get_or_insert_with(|| self.world.clock.now());
        loop {
            waiting.slot = None;
            let slot = self.door.wait(bytes, since).await.map_err(|against| match against {
                WaitEnd::Evicted => NoLease::Evicted,
                WaitEnd::Expired | WaitEnd::Resumed => NoLease::Expired,
            })?;
            waiting.slot = Some(slot);
            if let Some(lease) = own.and_then(Lane::lease).or_else(|| self.door.try_lease(None)) {
                return Ok(lease);
            }
        }
    }

    // ---- the link

    async fn attach(&mut self) -> bool {
        let Some(lane) = self.lease.as_ref().map(|lease| lease.lane().clone()) else { return false };
        let world = self.world.clone();
        let node = usize::from(lane.node.0);
        let attached = async {
            let connect = Link::connect(&world.ground, node);
            let link = world.clock.within(CONNECT_TIMEOUT, connect).await;
            let link = link.unwrap_or(Err(ConnectFailure::TimedOut)).map_err(Some)?;
            let registration = lane.register().ok_or(None)?;
            let standing = self.session.standing(self.has_run);
            // Closed again whatever comes.
            let backend = Backend::new(link, standing, lane.clone(), registration);
            if !world.is_one && self.has_run {
                // A session that moves between nodes that all take writes reads its own writes.
                match world.clock.within(CAUSAL_READ_TIME, backend.ask(link::Ask::CausalRead)).await {
                    Some(Ok(Answer::Ok { .. })) => {}
                    Some(Err(how)) => return Err(Some(how)),
                    Some(Ok(_)) => {
                        let message = "WSREP".to_owned();
                        return Err(Some(ConnectFailure::Rejected { errno: 1047, message }));
                    }
                    None => return Err(None),
                }
            }
            Ok(backend)
        };
        let attached = match race(attached, until_shut(&world, &lane)).await {
            Either::First(attached) => attached,
            Either::Second(()) => Err(None),
        };
        match attached {
            Ok(backend) => {
                self.side.has_attached(&mut self.session);
                world.note_link(&backend.link);
                self.backend = Some(backend);
                self.session.attached(status_of(false));
                true
            }
            Err(how) => {
                if let Some(how) = how {
                    let fact = ProxyFact::TrafficLost { node: lane.node, epoch: lane.epoch, how, alarm: 0 };
                    world.control.tell(fact, true);
                }
                self.tried = Some((lane, 0));
                false
            }
        }
    }

    fn let_go(&mut self, what: LetGo) {
        match what {
            LetGo::Nothing => {}
            LetGo::Lease => self.lease = None,
            LetGo::OldLink => self.drop_link(),
            LetGo::Link => {
                self.drop_link();
                self.lease = None;
            }
        }
    }

    fn drop_link(&mut self) {
        if let Some(backend) = self.backend.take() {
            self.tried.get_or_insert_with(|| (backend.lane.clone(), 0));
        }
        self.saver = None;
    }

    pub fn lost_idle(&mut self) {
        if let Some(backend) = &self.backend {
            self.session.lost_idle(&backend.standing);
        }
        self.let_go(LetGo::Link);
    }

    /// After a command.
    fn rest(&mut self) {
        let in_transaction = self.backend.as_ref().is_some_and(|backend| backend.standing.in_transaction());
        if let Some(backend) = &self.backend {
            let has_to_save = self.session.has_to_save(&backend.standing);
            match (&self.saver, &self.lease) {
                (None, Some(lease)) if has_to_save => self.saver = Some(lease.save_later()),
                (Some(_), _) if !has_to_save => self.saver = None,
                _ => {}
            }
        }
        if !in_transaction {
            self.lease = None;
        }
        assert!(!in_transaction || self.lease.is_some(), "a transaction is open without a lease");
        self.tried = None;
    }

    // ---- an exchange

    async fn send(&mut self, flight: &InFlight, payload: &[u8], does: Does, forged: bool) -> Event {
        let Some(backend) = self.backend.as_mut() else { return Event::Lost(Loss::unsent()) };
        assert!(self.lease.as_ref().is_some_and(|lease| Rc::ptr_eq(lease.lane(), &backend.lane)));
        self.has_run = true;
        if let Err(how) = backend.send(link::Ask::Statement { does, forged }) {
            return self.lost(how, Loss::unsent());
        }
        let answer = match race(backend.link.answer(), until_shut(&self.world, &backend.lane)).await {
            Either::First(Ok(answer)) => answer,
            Either::First(Err(how)) => return self.lost(how, Loss { sent: true, ..Loss::unsent() }),
            Either::Second(()) => {
                return self.lost(ConnectFailure::Closed, Loss { sent: true, ..Loss::unsent() });
            }
        };
        let end = match answer {
            Answer::Error { code: code @ (1047 | 1290) } => return self.refused(code),
            Answer::Error { code } => End::Err { code },
            Answer::Position(_) | Answer::Late => panic!("{answer:?} to a statement"),
            Answer::Rows { in_transaction, .. } => End::Eof { status: status_of(in_transaction) },
            Answer::Ok { in_transaction, ref gtid } => {
                End::Ok { status: status_of(in_transaction), warnings: 0, changed: gtid.is_some() }
            }
        };
        let ok = match &answer {
            Answer::Ok { gtid: Some(gtid), .. } => ok_of(gtid),
            _ => vec![0, 1, 0],
        };
        self.session.ended(&mut backend.standing, flight, &end, &ok, payload, CAPS);
        self.answer = Some(answer);
        Event::Answered(end)
    }

    fn lost(&mut self, how: ConnectFailure, loss: Loss) -> Event {
        let Some(lane) = self.backend.as_ref().map(|backend| backend.lane.clone()) else {
            return Event::Lost(loss);
        };
        let given_up = lane.is_shut();
        let alarm = if given_up { 0 } else { lane.next_alarm() };
        if !given_up {
            let fact = ProxyFact::TrafficLost { node: lane.node, epoch: lane.epoch, how, alarm };
            if self.world.control.tell(fact, true) {
                lane.told(alarm);
            }
        }
        self.tried = Some((lane, alarm));
        Event::Lost(Loss { given_up, delivered: Delivered::Nothing, ..loss })
    }

    fn refused(&mut self, errno: u16) -> Event {
        if let Some(lane) = self.backend.as_ref().map(|backend| backend.lane.clone()) {
            let alarm = lane.next_alarm();
            let fact = ProxyFact::TrafficRefused { node: lane.node, epoch: lane.epoch, errno, alarm };
            if self.world.control.tell(fact, true) {
                lane.told(alarm);
            }
            self.tried = Some((lane, alarm));
        }
        Event::Refused(NodeError { code: errno, state: *b"08S01", message: "WSREP".into() })
    }

    async fn look(&mut self) -> Look {
        let Some((lane, alarm)) = self.tried.clone() else { return Look::NoWord };
        let clock = &self.world.clock;
        let heard = || lane.is_shut() || lane.has_looked(alarm) || lane.has_refused(alarm);
        let word = clock.until(|| heard().then_some(()));
        match clock.within(LOOK_WAIT, word).await {
            _ if lane.is_shut() => Look::Gone,
            Some(()) if lane.has_looked(alarm) => Look::Well,
            Some(()) => Look::Unfit,
            None => {
                self.world.no_words.set(self.world.no_words.get() + 1);
                Look::NoWord
            }
        }
    }

    /// A question of our own.
    async fn ask(&mut self, ask: link::Ask) -> Option<Answer> {
        let backend = self.backend.as_mut()?;
        match race(backend.ask(ask), until_shut(&self.world, &backend.lane)).await {
            Either::First(answer) => answer.ok(),
            Either::Second(()) => None,
        }
    }

    fn routes(&self, waiting: &mut Waiting) -> RoutesNow {
        waiting.slot = None;
        let now = self.world.clock.now();
        let since = *waiting.since.get_or_insert(now);
        let (lane_open, elsewhere) = self.openings();
        RoutesNow { now, since, chance: 0, lane_open, elsewhere }
    }

    /// Whether the lane that the command failed on takes transactions, and whether another does.
    fn openings(&self) -> (bool, bool) {
        let lane_table = self.door.lane_table();
        let failed = self.tried.as_ref().map(|(lane, _)| lane);
        let is_failed = |lane: &Rc<Lane>| failed.is_some_and(|failed| Rc::ptr_eq(failed, lane));
        let elsewhere =
            lane_table.lanes.iter().any(|lane| lane.is_open() && lane.has_room() && !is_failed(lane));
        (failed.is_some_and(|lane| lane.is_open()), elsewhere)
    }

    // ---- saving

    fn has_to_save_now(&self) -> bool {
        self.saver.is_some()
            && self.lease.is_none()
            && self.backend.as_ref().is_some_and(|backend| !backend.lane.is_open() && !backend.lane.is_shut())
    }

    async fn save(&mut self) {
        let saver = self.saver.take();
        let Some(backend) = self.backend.as_mut() else { return };
        let read = self.world.clock.within(SAVE_TIME, backend.ask(link::Ask::Ping)).await;
        drop(saver);
        match read {
            Some(Ok(_)) => self.session.wanted.learned_insert_id(0),
            Some(Err(_)) | None => self.lost_idle(),
        }
    }
}

pub async fn until_shut(world: &World, lane: &Rc<Lane>) {
    world.clock.until(|| lane.is_shut().then_some(())).await;
}

/// An OK packet that reports the GTID of what the statement has committed.
fn ok_of(gtid: &str) -> Vec<u8> {
    let strings =
        [b"last_gtid", gtid.as_bytes()].map(|text| [&[text.len() as u8][..], text].concat()).concat();
    let change = [&[0, strings.len() as u8][..], &strings].concat();
    let flags = (status::AUTOCOMMIT | status::SESSION_STATE_CHANGED).to_le_bytes();
    [&[0, 1, 0][..], &flags, &[0, 0, 0, change.len() as u8], &change].concat()
}

fn text(does: Does) -> String {
    match does {
        Does::Read => "SELECT n FROM t".into(),
        Does::Write(row) => format!("INSERT INTO t VALUES ({row})"),
        Does::Begin => "BEGIN".into(),
        Does::Commit => "COMMIT".into(),
        Does::Rollback => "ROLLBACK".into(),
    }
}

//! A client's attachment to a node: the lease for its transaction, and the session's link.
//!
//! Invariants: a lease is held for as long as a transaction is open. The link is on the lane of the lease, or there is none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use link::Rows;
use protocol::capability::Caps;
use protocol::errno;
use protocol::statement::Pins;
use session::digests::Told;
use session::exchange::{LetGo, Look, NoLease, NoLink, RoutesNow};
use session::finish::NodeError;
use session::login::Credential;
use session::saving::{self, Seen};
use session::session::Session;
use session::standing::Standing;
use tokio::time::timeout;
use topology::account::Accounts;
use topology::fact::{ConnectFailure, ProxyFact};
use topology::flavor::Flavor;

use crate::activity::{Card, Doing};
use crate::backend::{AttachError, Backend, Stirred, insecure};
use crate::door::{NoLane, Slot};
use crate::error_reply::{self, AccountNow};
use crate::frontend::Client;
use crate::identity::Identity;
use crate::kills::Kills;
use crate::lane::{LOOK_WAIT, Lane, Lease, Saver};
use crate::reads::CatchUp;
use crate::registry::SessionLocation;
use crate::shared::Shared;

/// A node may take this long to return the state of a session that leaves it.
const SAVE_TIME: Duration = Duration::from_secs(1);

/// See the head of this file.
pub struct Attachment {
    shared: Arc<Shared>,
    card: Arc<Card>,
    /// The link, with its state.
    pub backend: Option<Backend>,
    lease: Option<Lease>,
    /// Held while the node has state that must be read before the session leaves it.
    saver: Option<Saver>,
    /// The KILLs of the present link: see [`SessionLocation::kills`].
    kills: Arc<Kills>,
    /// The lane on which the present command was last tried, and the number of the alarm that it raised there.
    tried: Option<(Arc<Lane>, u64)>,
    /// When the last answer on the previous link had been read.
    left: Option<Instant>,
}

/// What has happened before a link is made.
#[derive(Clone, Copy, Debug)]
pub struct Past {
    /// The session has run statements, so it has state to move.
    pub has_run: bool,
    /// There was a link before: a new one does not know what statements left on it.
    pub has_history: bool,
    /// Statements were run on this connection, also before a reset: the client must read its own writes.
    pub has_spoken: bool,
}

/// How one statement has waited so far.
#[derive(Default)]
pub struct Waiting {
    /// When it was first held, or first lost.
    since: Option<Instant>,
    /// Its slot after it was released from the hold queue.
    slot: Option<Slot>,
}

impl Attachment {
    /// Without a node.
    pub fn new(shared: Arc<Shared>, card: Arc<Card>) -> Self {
        Self {
            shared,
            card,
            backend: None,
            lease: None,
            saver: None,
            kills: Arc::default(),
            tried: None,
            left: None,
        }
    }

    /// The state of the present link.
    pub fn standing(&mut self) -> Option<&mut Standing> {
        self.backend.as_mut().map(|backend| &mut backend.standing)
    }

    /// Whether a lease is held, so that a statement may run.
    pub fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Whether a transaction is open on the link.
    pub fn in_transaction(&self) -> bool {
        self.backend.as_ref().is_some_and(|backend| backend.standing.in_transaction())
    }

    /// The lane of the lease.
    pub fn lane(&self) -> Option<&Arc<Lane>> {
        self.lease.as_ref().map(Lease::lane)
    }

    // ---- the lease

    /// Takes a lease on an open lane without waiting, for the login.
    pub fn lease_now(&mut self) -> bool {
        self.lease = self.shared.door.try_lease(None);
        self.lease.is_some()
    }

    /// Takes a lease on an open lane, preferably on that of the session's link; returns whether it is on that one. `avoid`: not on the lane
    /// on which this command was last tried, if another is open. `None` when it has to wait.
    pub fn lease_at_once(&mut self, avoid: bool) -> Option<bool> {
        let avoid = self.tried.take().filter(|_| avoid).map(|(lane, _)| lane);
        let own = self.backend.as_ref().map(Backend::lane);
        let lease = self.any_lease(own, avoid.as_ref())?;
        Some(self.keep(lease))
    }

    /// The same after waiting in the hold queue.
    pub async fn lease_after_hold(
        &mut self,
        bytes: usize,
        client: &mut Client,
        waiting: &mut Waiting,
    ) -> Result<bool, NoLease> {
        self.card.set(Doing::Held, Instant::now());
        let own = self.backend.as_ref().map(Backend::lane).cloned();
        let lease = self.hold(bytes, own.as_ref(), client, waiting).await?;
        Ok(self.keep(lease))
    }

    /// Keeps a lease; returns whether it is on the link's lane.
    fn keep(&mut self, lease: Lease) -> bool {
        let own = self.backend.as_ref().map(Backend::lane);
        let here = own.is_some_and(|own| Arc::ptr_eq(own, lease.lane()));
        self.lease = Some(lease);
        here
    }

    fn any_lease(&self, own: Option<&Arc<Lane>>, avoid: Option<&Arc<Lane>>) -> Option<Lease> {
        if let Some(lane) = own
            && !lane.is_crowded()
            && let Some(lease) = lane.lease()
        {
            return Some(lease);
        }
        if !self.must_stay(own)
            && let Some(lease) = self.shared.door.try_lease(avoid)
        {
            return Some(lease);
        }
        // More sessions are here than the limit allows, and no other lane has room for this one: it stays, since waiting would not help.
        own.and_then(Lane::lease)
    }

    /// Whether a session that cannot move waits for its own lane, which may open again.
    fn must_stay(&self, own: Option<&Arc<Lane>>) -> bool {
        own.is_some_and(|lane| !lane.is_cut()) && self.is_tied()
    }

    /// Whether something ties the session to its link.
    pub fn is_tied(&self) -> bool {
        self.backend.as_ref().is_some_and(|backend| !backend.standing.pins().is_empty())
    }

    async fn hold(
        &mut self,
        bytes: usize,
        own: Option<&Arc<Lane>>,
        client: &mut Client,
        waiting: &mut Waiting,
    ) -> Result<Lease, NoLease> {
        let since = *waiting.since.get_or_insert_with(Instant::now);
        loop {
            waiting.slot = None;
            let shared = self.shared.clone();
            let slot = tokio::select! {
                slot = shared.door.wait(bytes, since) => slot,
                () = client.gone() => return Err(NoLease::Over),
            };
            waiting.slot = Some(slot.map_err(|no_lane| match no_lane {
                NoLane::Expired => NoLease::Expired,
                NoLane::Evicted => NoLease::Evicted,
                NoLane::Ended => NoLease::Over,
            })?);
            if let Some(lease) = own.and_then(Lane::lease) {
                return Ok(lease);
            }
            if !self.must_stay(own) {
                if let Some(lease) = self.shared.door.try_lease(None) {
                    return Ok(lease);
                }
                continue;
            }
            // Another lane is open, but this session cannot go there: it waits until its own lane opens, or is given up.
            waiting.slot = None;
            let Some(own) = own else { continue };
            let left = self.shared.hold_time().saturating_sub(since.elapsed());
            let mut lane = own.watch();
            tokio::select! {
                changed = timeout(left, lane.wait_for(|_| !own.is_draining() || own.is_cut())) => {
                    if changed.is_err() {
                        return Err(NoLease::Tied);
                    }
                }
                () = client.gone() => return Err(NoLease::Over),
            }
        }
    }

    // ---- the link

    /// Makes a link on the lane of the lease, and sets up the session on it.
    pub async fn attach(
        &mut self,
        who: &Identity,
        caps: Caps,
        session: &mut Session,
        past: Past,
    ) -> Result<(), AttachError> {
        let Some(lane) = self.lane().cloned() else { return Err(AttachError::Shut) };
        let catch_up = match &self.shared.reads {
            _ if !past.has_spoken => CatchUp::No,
            Some(reads) => {
                let left = self.left.unwrap_or_else(Instant::now);
                reads.catch_up(&lane, left, || self.shared.tell(ProxyFact::PositionWanted)).await
            }
            None if self.shared.writers_all => CatchUp::Group,
            None => CatchUp::No,
        };
        let terms = self.shared.terms(who, catch_up, self.shared.reads.is_some())?;
        let attached = Backend::attach(&lane, who, caps, session, past.has_history, terms).await;
        let backend = match attached {
            Ok(backend) => backend,
            Err(error) => {
                self.shared.warn_of(&error);
                let is_pam = matches!(who.credential, Credential::Pam(_));
                let how = match &error {
                    // It may be PAM that did not answer, which says nothing about the node.
                    AttachError::Lost(ConnectFailure::TimedOut) if is_pam => None,
                    AttachError::Lost(how) => Some(how.clone()),
                    AttachError::Full(NodeError { code, message, .. }) => {
                        Some(ConnectFailure::Rejected { errno: *code, message: message.clone() })
                    }
                    AttachError::Insecure(why) => Some(insecure(why)),
                    AttachError::Forgotten(_) => {
                        self.shared.node_told(&who.user, self.card.peer.ip(), lane.node, Told::Forgotten);
                        None
                    }
                    _ => None,
                };
                if let Some(how) = how {
                    let (node, epoch) = (lane.node, lane.epoch);
                    self.shared.tell(ProxyFact::TrafficLost { node, epoch, how, alarm: 0 });
                }
                self.tried = Some((lane, 0));
                return Err(match error {
                    AttachError::Refused(error) if error.code == errno::ACCESS_DENIED_ERROR && !is_pam => {
                        let now = self.account_now(who).await;
                        AttachError::Refused(error_reply::refused_by_node(error, now))
                    }
                    error => error,
                });
            }
        };
        self.shared.counts.link_made(past.has_run);
        session.attached(backend.link.status);
        self.kills = Arc::default();
        let place = SessionLocation { lane, thread_id: backend.thread_id(), kills: self.kills.clone() };
        self.shared.registry.settle(self.card.id, Some(place));
        self.backend = Some(backend);
        Ok(())
    }

    /// What happened to the session's account since its login.
    async fn account_now(&self, who: &Identity) -> AccountNow {
        let from = self.card.peer.ip();
        let now = |accounts: &Accounts| match accounts.find(&who.user, from) {
            None => AccountNow::Gone,
            Some(account) if account.locked => AccountNow::Locked,
            Some(account) if self.shared.is_right(account, &who.credential) => AccountNow::Same,
            Some(_) => AccountNow::Changed,
        };
        self.shared.account_changed(&who.user, AccountNow::Same, now).await
    }

    /// A statement runs on another link, so that KILL must find it there; `None`: it does not any more.
    pub fn settle_aside(&self, aside: Option<&Backend>) {
        let place = aside.map(|backend| SessionLocation {
            lane: backend.lane().clone(),
            thread_id: backend.thread_id(),
            kills: self.kills.clone(),
        });
        self.shared.registry.settle_aside(self.card.id, place);
    }

    /// The reason for the exchange why a link could not be made.
    pub fn no_link(error: AttachError) -> NoLink {
        match error {
            AttachError::Refused(error) => NoLink::Refused(error),
            AttachError::NotRebuilt(why) | AttachError::Forgotten(why) | AttachError::Insecure(why) => {
                NoLink::NotRebuilt(why)
            }
            AttachError::Full(error) => NoLink::Full(error_reply::full_node(Some(error))),
            AttachError::StillFull => NoLink::Full(error_reply::full_node(None)),
            AttachError::Shut | AttachError::Behind | AttachError::Local(_) | AttachError::Lost(_) => {
                NoLink::NotNow
            }
        }
    }

    /// Releases what the exchange says.
    pub fn let_go(&mut self, what: LetGo) {
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
            // An answer may have been read in part.
            let rests = backend.rested_at() >= backend.sent_at();
            self.left = Some(if rests { backend.rested_at() } else { Instant::now() });
            self.tried.get_or_insert_with(|| (backend.lane().clone(), 0));
            self.shared.registry.settle(self.card.id, None);
        }
        self.saver = None;
    }

    /// Takes link and lease out of here, for the task that ends what runs on them.
    pub fn take(&mut self) -> Option<(Backend, Option<Lease>)> {
        self.saver = None;
        self.shared.registry.settle(self.card.id, None);
        self.left = Some(Instant::now());
        self.backend.take().map(|backend| (backend, self.lease.take()))
    }

    /// After a command: releases the lease, unless a transaction is open, and keeps the lane from becoming quiet while there is state to be saved.
    pub fn rest(&mut self, session: &Session) {
        if let Some(backend) = &self.backend {
            let has_to_save = session.has_to_save(&backend.standing);
            match (&self.saver, &self.lease) {
                (None, Some(lease)) if has_to_save => self.saver = Some(lease.save_later()),
                (Some(_), _) if !has_to_save => self.saver = None,
                _ => {}
            }
        }
        if !self.in_transaction() {
            self.lease = None;
        }
        self.tried = None;
    }

    // ---- alarms

    /// The link broke: tells the manager, unless it has given the lane up already.
    pub fn tell_lost(&mut self, how: ConnectFailure) {
        let Some(lane) = self.backend.as_ref().map(Backend::lane).cloned() else { return };
        if lane.is_cut() {
            self.tried = Some((lane, 0));
            return;
        }
        let alarm = lane.next_alarm();
        self.shared.tell(ProxyFact::TrafficLost { node: lane.node, epoch: lane.epoch, how, alarm });
        self.tried = Some((lane, alarm));
    }

    /// The node refused a statement with an error about itself: tells the manager.
    pub fn tell_refused(&mut self, errno: u16) {
        let Some(lane) = self.backend.as_ref().map(Backend::lane).cloned() else { return };
        let alarm = lane.next_alarm();
        self.shared.tell(ProxyFact::TrafficRefused { node: lane.node, epoch: lane.epoch, errno, alarm });
        self.tried = Some((lane, alarm));
    }

    /// Waits for the manager's check of the node that the last alarm was about. `Err` when the client went away.
    pub async fn look(&mut self, client: &mut Client) -> Result<Look, ()> {
        let Some((lane, alarm)) = self.tried.clone() else { return Ok(Look::NoWord) };
        self.card.set(Doing::Held, Instant::now());
        let mut lane_tables = self.shared.door.watch();
        // The lanes are updated from new routes before the table is replaced.
        let word =
            lane_tables.wait_for(|_| lane.is_shut() || lane.has_looked(alarm) || lane.has_refused(alarm));
        tokio::select! {
            word = timeout(LOOK_WAIT, word) => Ok(match word {
                _ if lane.is_shut() => Look::Gone,
                Ok(_) if lane.has_looked(alarm) => Look::Well,
                Ok(_) => Look::Unfit,
                Err(_) => Look::NoWord,
            }),
            () = client.gone() => Err(()),
        }
    }

    /// The state of the routes for a statement that is to be tried again.
    pub fn routes(&self, waiting: &mut Waiting) -> RoutesNow {
        waiting.slot = None;
        let since = *waiting.since.get_or_insert_with(Instant::now);
        let (lane_open, elsewhere) = self.openings();
        RoutesNow {
            now: self.shared.since_start(Instant::now()),
            since: self.shared.since_start(since),
            chance: rand::random(),
            lane_open,
            elsewhere,
        }
    }

    /// Whether the lane on which the command failed takes transactions, and whether another does.
    fn openings(&self) -> (bool, bool) {
        let lane_table = self.shared.door.lane_table();
        let failed = self.tried.as_ref().map(|(lane, _)| lane);
        let is_failed = |lane: &Arc<Lane>| failed.is_some_and(|failed| Arc::ptr_eq(failed, lane));
        let elsewhere =
            lane_table.lanes.iter().any(|lane| lane.is_open() && lane.has_room() && !is_failed(lane));
        (failed.is_some_and(|lane| lane.is_open()), elsewhere)
    }

    /// Waits for `time`. With `ends_early`, the wait ends as soon as the lane on which the command failed takes no more transactions, or
    /// another one does. `Err` when the client went away.
    pub async fn pause(&self, time: Duration, ends_early: bool, client: &mut Client) -> Result<(), ()> {
        let mut lane_tables = self.shared.door.watch();
        lane_tables.mark_unchanged();
        let before = self.openings();
        let changed = async {
            while ends_early && self.openings() == before {
                if lane_tables.changed().await.is_err() {
                    break;
                }
            }
            if !ends_early {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = client.gone() => Err(()),
            () = changed => Ok(()),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }

    /// Whether another client of the proxy has killed this connection, and its node has confirmed that it may.
    pub fn is_killed(&self) -> bool {
        self.backend.is_some() && self.kills.is_allowed()
    }

    /// The same for a link that has ended: the node's confirmation may be on its way, and is awaited.
    pub async fn was_killed(&self) -> bool {
        self.backend.is_some() && self.kills.was_allowed().await
    }

    // ---- saving

    /// Whether the node has state that must be read before the session leaves it.
    pub fn has_to_save(&self) -> bool {
        self.saver.is_some() && self.backend.as_ref().is_some_and(|backend| !backend.lane().is_cut())
    }

    /// Whether such state can be read where the session is.
    pub fn is_shown(&self) -> bool {
        let shows = |backend: &Backend| backend.lane().shows_sessions();
        self.shared.flavor() == Flavor::MariaDb || self.backend.as_ref().is_some_and(shows)
    }

    /// Whether the session may have to leave its node now, and there is such state.
    pub fn has_to_save_now(&self) -> bool {
        self.has_to_save()
            && self.lease.is_none()
            && self.backend.as_ref().is_some_and(|backend| {
                let lane = backend.lane();
                !lane.is_open() || lane.is_crowded()
            })
    }

    /// Resolves when the idle session's node has ended the link, or when the session should read its state from the node.
    pub async fn stirs(&mut self) -> Stirred {
        let Some(backend) = &mut self.backend else { return std::future::pending().await };
        let saves = self.saver.is_some() && !backend.standing.in_transaction();
        backend.stirs(saves).await
    }

    /// Reads the idle session's state from the node, so that it can be set up elsewhere. State that cannot be read keeps the session tied.
    /// `Err` when the link cannot be used any more.
    pub async fn save(&mut self, session: &mut Session) -> Result<(), ConnectFailure> {
        let saver = self.saver.take();
        let Some(backend) = self.backend.as_mut() else { return Ok(()) };
        let flavor = self.shared.flavor();
        let shows = flavor == Flavor::MySql && backend.lane().shows_sessions();
        let seen = match shows && needs_all(&backend.standing) {
            true => backend.lane().seen(backend.thread_id(), &self.shared.monitor()).await,
            false => None,
        };
        let read = timeout(SAVE_TIME, read(backend, session, flavor, seen)).await;
        backend.standing.forget(saving::LOSES);
        drop(saver);
        match read {
            Ok(read) => read,
            Err(_) => Err(ConnectFailure::TimedOut),
        }
    }
}

/// Whether more than the id of the last insert is to be read.
fn needs_all(link: &Standing) -> bool {
    let pins = link.pins();
    link.must_ask_all() || pins.has(Pins::GET_LOCK) || pins.has(Pins::USER_VARIABLE)
}

/// `seen`: what MySQL shows the manager's account of the session.
async fn read(
    backend: &mut Backend,
    session: &mut Session,
    flavor: Flavor,
    seen: Option<Seen>,
) -> Result<(), ConnectFailure> {
    let asks_all = backend.standing.must_ask_all();
    if asks_all {
        // The link may end at each question: what stored code has set is not forgotten before all of it was read.
        backend.standing.pin(Pins::USER_VARIABLE);
    }
    if session.has_insert_id_to_save(&backend.standing)
        && let Some(rows) = backend.query(saving::INSERT_ID, SAVE_TIME).await?
        && let Some(id) = rows.text(0, 0).and_then(|id| id.parse().ok())
    {
        session.wanted.learned_insert_id(id);
    }
    if asks_all || backend.standing.pins().has(Pins::GET_LOCK) {
        let held = match flavor {
            Flavor::MariaDb => locks(backend).await?,
            Flavor::MySql => seen.as_ref().map(|seen| seen.locks == 0),
        };
        match held {
            // What a statement of the client's own has taken, MySQL may not have noted.
            Some(true) if flavor == Flavor::MySql => {}
            Some(true) => backend.standing.unpin(Pins::GET_LOCK),
            Some(false) => backend.standing.pin(Pins::GET_LOCK),
            None => {}
        }
    }
    if asks_all {
        variables(backend, session, flavor).await?;
        if flavor == Flavor::MySql && seen.is_none() {
            // It may hold a lock, which is looked for again.
            backend.standing.ran_code();
        }
    }
    if backend.standing.pins().has(Pins::USER_VARIABLE)
        && let Some(texts) = user_variables(backend, flavor, seen).await?
    {
        session.wanted.learned_user_variables(texts);
        backend.standing.unpin(Pins::USER_VARIABLE);
    }
    Ok(())
}

/// Reads what stored code may have changed in the session, except for user variables.
async fn variables(
    backend: &mut Backend,
    session: &mut Session,
    flavor: Flavor,
) -> Result<(), ConnectFailure> {
    backend.flush_reports(session).await?;
    // A temporary table or a prepared statement made by stored code would have been reported.
    let may_have_unreported = backend.standing.may_have_unreported();
    let values = match flavor {
        Flavor::MariaDb => {
            let question = saving::variables_of(session.wanted.variable_names());
            backend.query(&question, SAVE_TIME).await?
        }
        Flavor::MySql => Some(Rows::default()),
    };
    let role = backend.query(saving::ROLE, SAVE_TIME).await?;
    let ties = backend.query(saving::ties(flavor), SAVE_TIME).await?;
    backend.standing.has_asked_all();
    let (Some(values), Some(role), Some(ties)) = (values, role, ties) else {
        backend.standing.pin(Pins::UNNAMED);
        return Ok(());
    };
    for row in &values.rows {
        if let [Some(name), Some(value)] = row.as_slice()
            && let Ok(name) = std::str::from_utf8(name)
        {
            session.wanted.learned_variable(name, value, &mut backend.standing);
        }
    }
    session.wanted.learned_role(role.text(0, 0), flavor, &mut backend.standing);
    let tables_made = backend.standing.tables_made();
    if may_have_unreported && !saving::has_no_ties(ties.rows.iter().map(Vec::as_slice), tables_made) {
        // Possibly a temporary table, or a prepared statement.
        backend.standing.pin(Pins::UNNAMED);
    }
    Ok(())
}

/// Whether the session holds no lock by name: stored code may have taken one, and those taken by the session's own statements may have been
/// released. `None` where the node does not tell.
async fn locks(backend: &mut Backend) -> Result<Option<bool>, ConnectFailure> {
    let held = backend.query(saving::LOCKS, SAVE_TIME).await?;
    Ok(held.map(|held| held.text(0, 0) == Some("0")))
}

/// Statements that set the session's user variables; `None` when there is none that certainly does.
async fn user_variables(
    backend: &mut Backend,
    flavor: Flavor,
    seen: Option<Seen>,
) -> Result<Option<Vec<String>>, ConnectFailure> {
    let variables = match flavor {
        Flavor::MariaDb => {
            let names = backend.query(saving::NAMES, SAVE_TIME).await?;
            names.and_then(|names| saving::variables(names.rows.iter().map(Vec::as_slice)))
        }
        Flavor::MySql => {
            let Some(seen) = seen else { return Ok(None) };
            let types = match seen.types() {
                Some(question) => backend.query(&question, SAVE_TIME).await?,
                None => Some(Rows { rows: vec![vec![]], ..Rows::default() }),
            };
            types.and_then(|types| seen.variables(types.rows.first()?))
        }
    };
    let Some(variables) = variables else { return Ok(None) };
    let Some(question) = saving::values(&variables) else { return Ok(Some(vec![])) };
    let Some(values) = backend.query(&question, SAVE_TIME).await? else { return Ok(None) };
    Ok(values.rows.first().and_then(|row| saving::texts(&variables, row)))
}

//! What all clients of the proxy share: settings, door, counters, and where each session is.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::proxy::{HoldStats, LaneStats, Stats};
use arc_swap::ArcSwap;
use link::{Login, ProxyHeader, Secret, ServerTls};
use listen::log_limit::LogLimit;
use listen::slots::ConnectionSlots;
use protocol::ok::status;
use protocol::statement::{digest, digest_text};
use session::configured::{self, Passwords};
use session::digests::Digests;
use session::exchange::RetryLimits;
use session::login::{Credential, Plugin};
use session::suspects::Suspects;
use tokio::sync::{Notify, OnceCell, Semaphore, mpsc, watch};
use topology::account::Accounts;
use topology::fact::ProxyFact;
use topology::flavor::Flavor;
use topology::routes::ServerGreeting;

use crate::activity::Card;
use crate::backend::{AttachError, Terms};
use crate::door::{Door, LaneTable};
use crate::frontend::rsa_key::RsaKey;
use crate::hints::Hints;
use crate::identity::Identity;
use crate::lane::Lane;
use crate::password_errors::PasswordErrors;
use crate::reads::CatchUp;
use crate::reads::port::Reads;
use crate::reads::replicas::Replicas;
use crate::registry::{FIRST_ID, Registry};
use crate::settings::{ClientTls, Settings};
use crate::stats::Counts;
use crate::tap::Tap;

/// Clients that log in at once and have the usual time for it; never more than half of all that there may be.
const LOGINS_MAX: usize = 1024;
/// Of these, from one address; never more than an eighth of all.
const LOGINS_PER_ADDRESS_MAX: usize = 256;

/// A login that cannot be let in is looked at anew when the account table has been read again: for at most, and when it is
/// refused in the end for just, this long. An unknown name and a wrong password take the same time.
pub const ACCOUNTS_WAIT: Duration = Duration::from_secs(2);

/// Passwords that are compared with what is stored, at once; further ones wait, within the time for a login.
const PASSWORD_CHECKS_MAX: usize = 2;

/// Of a statement that ran when a node was lost, so many bytes of its shape are told.
const STATEMENT_SHOWN: usize = 200;

/// From here on the port for reads counts its clients.
const READS_FROM: u32 = 0x2000_0000;

/// What all clients share.
pub struct Shared {
    /// How the proxy behaves; replaced as a whole when the settings change.
    settings: ArcSwap<Settings>,
    /// See [`Settings::writers_all`].
    pub writers_all: bool,
    /// Lanes and hold.
    pub door: Door,
    facts: mpsc::Sender<ProxyFact>,
    /// To the manager, too: what clients alone can cause to be told as often as they like.
    pub hints: Hints,
    /// See [`Counts`].
    pub counts: Arc<Counts>,
    /// True once the proxy goes down.
    pub stopped: watch::Receiver<bool>,
    next_id: AtomicU32,
    places: AtomicU32,
    /// Places for clients that have not logged in yet. A client without one is not refused, but must answer the greeting quickly. So silent sockets do not
    /// keep others out for long, and a pool that reconnects all at once is let in.
    pub logins: Arc<ConnectionSlots>,
    /// Wrong passwords so far.
    pub password_errors: PasswordErrors,
    /// What is remembered of accounts of `caching_sha2_password`.
    pub digests: Mutex<Digests>,
    /// Passwords that are compared with what is stored, at once: each takes a processor for milliseconds.
    pub password_checks: Semaphore,
    rsa_key: OnceCell<Arc<RsaKey>>,
    /// Makes of a name that no account has the same number each time; see [`session::login::plugin_for`].
    decoys: RandomState,
    emptied: Notify,
    /// Where each session is.
    pub registry: Registry,
    /// Who is told of reads that have ended.
    pub tap: Tap,
    /// Of the port for reads.
    pub reads: Option<Reads>,
    /// Where reads outside transactions may go, if they are split off.
    pub replicas: Option<Arc<Replicas>>,
    began: Instant,
    suspects: Mutex<Suspects>,
    /// How many they are, for those who only want to know whether there are any.
    suspects_count: AtomicUsize,
    /// That this host lacks something.
    local_error: LogLimit,
    /// Why a login was refused.
    pub refusal: LogLimit,
    /// That a node said something unasked.
    unasked: LogLimit,
}

/// One of the limited places for clients; given back when dropped.
pub struct Seat {
    shared: Arc<Shared>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.counts.clients.fetch_sub(1, Relaxed);
        if self.shared.places.fetch_sub(1, Relaxed) == 1 {
            self.shared.emptied.notify_waiters();
        }
    }
}

/// A session is listed as long as this lives, also when its task ends by a panic.
pub struct Listed {
    shared: Arc<Shared>,
    id: u32,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.shared.registry.remove(self.id);
    }
}

/// Clients that log in at once: in all, and from one address.
fn logins_max(settings: &Settings) -> (usize, usize) {
    let part = |of: usize, most: usize| (settings.client_connections_max / of).clamp(1, most);
    (part(2, LOGINS_MAX), part(8, LOGINS_PER_ADDRESS_MAX))
}

impl Shared {
    /// Lists a session that has logged in.
    pub fn list(self: &Arc<Self>, card: Arc<Card>) -> Listed {
        let id = card.id;
        self.registry.add(card);
        Listed { shared: self.clone(), id }
    }

    /// Puts it together.
    pub fn new(
        settings: Settings,
        door: Door,
        facts: mpsc::Sender<ProxyFact>,
        counts: Arc<Counts>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let suspects = Suspects::new(settings.suspect_time);
        let password_errors =
            PasswordErrors::new(settings.password_errors_max, settings.password_error_pause);
        let (logins_max, logins_per_address_max) = logins_max(&settings);
        Self {
            writers_all: settings.writers_all,
            settings: ArcSwap::from_pointee(settings),
            door,
            hints: Hints::start(facts.clone()),
            facts,
            counts,
            stopped,
            next_id: AtomicU32::new(0),
            places: AtomicU32::new(0),
            logins: ConnectionSlots::new(logins_max, logins_per_address_max),
            password_errors,
            digests: Mutex::default(),
            password_checks: Semaphore::new(PASSWORD_CHECKS_MAX),
            rsa_key: OnceCell::new(),
            decoys: RandomState::new(),
            emptied: Notify::new(),
            registry: Registry::default(),
            tap: Tap::default(),
            reads: None,
            replicas: None,
            began: Instant::now(),
            suspects: Mutex::new(suspects),
            suspects_count: AtomicUsize::new(0),
            local_error: LogLimit::new(Duration::from_secs(10)),
            refusal: LogLimit::new(Duration::from_secs(1)),
            unasked: LogLimit::new(Duration::from_secs(10)),
        }
    }

    /// Puts other settings in force.
    pub fn apply(&self, settings: Settings) {
        let (logins_max, logins_per_address_max) = logins_max(&settings);
        self.logins.set_limits(logins_max, logins_per_address_max);
        self.password_errors.set_limits(settings.password_errors_max, settings.password_error_pause);
        self.with_suspects(|suspects, _| suspects.set_time(settings.suspect_time));
        self.settings.store(Arc::new(settings));
    }

    /// See [`Settings::connect_timeout`].
    pub fn connect_timeout(&self) -> Duration {
        self.settings.load().connect_timeout
    }

    /// How a session comes to a node, as the settings say.
    ///
    /// # Errors
    /// The configuration has no password for its account any more.
    pub fn terms(&self, who: &Identity, catch_up: CatchUp, only_reads: bool) -> Result<Terms, AttachError> {
        let settings = self.settings.load();
        let secret = match &who.credential {
            Credential::Empty => Secret::None,
            Credential::Stage1(stage1) => Secret::Stage1(**stage1),
            Credential::Sha256(stage1) => Secret::Sha256(**stage1),
            Credential::Password(password) => Secret::Password(password.clone()),
            Credential::Pam(password) => Secret::Shown(password.clone()),
            Credential::Configured => {
                let table = self.door.lane_table();
                let account = table.accounts.find(&who.user, who.peer.ip());
                let password = settings.passwords.for_node(&who.user, account).cloned();
                Secret::Signing(password.ok_or_else(|| AttachError::NotRebuilt(configured::NONE.to_owned()))?)
            }
        };
        // PAM takes its time, and another one for a wrong password.
        let is_pam = matches!(who.credential, Credential::Pam(_));
        Ok(Terms {
            secret,
            catch_up,
            only_reads,
            tls: settings.node_tls.clone(),
            compression: settings.node_compression,
            proxy_header: settings.node_proxy_header,
            within: if is_pam { settings.login_timeout } else { settings.connect_timeout },
        })
    }

    /// See [`Settings::passwords`].
    pub fn passwords(&self) -> Arc<Passwords> {
        self.settings.load().passwords.clone()
    }

    /// See [`Settings::node_tls`] and [`Settings::node_proxy_header`].
    pub fn way_to_nodes(&self) -> (Option<ServerTls>, Option<ProxyHeader>) {
        let settings = self.settings.load();
        (settings.node_tls.clone(), settings.node_proxy_header)
    }

    /// Whether a connection from there begins with a PROXY header.
    pub fn sends_proxy_header(&self, from: IpAddr) -> bool {
        self.settings.load().proxy_header_from.iter().any(|network| network.contains(&from))
    }

    /// The key that clients without TLS encrypt passwords for; made when the first one asks for it.
    pub async fn rsa_key(&self) -> Result<Arc<RsaKey>, String> {
        let make = || async {
            let made = tokio::task::spawn_blocking(RsaKey::generate).await;
            made.map_err(|error| error.to_string())?.map(Arc::new)
        };
        self.rsa_key.get_or_try_init(make).await.cloned()
    }

    /// See [`Settings::tls`].
    pub fn tls(&self) -> Option<ClientTls> {
        self.settings.load().tls.clone()
    }

    /// See [`Settings::client_idle_max`].
    pub fn client_idle_max(&self) -> Duration {
        self.settings.load().client_idle_max
    }

    /// See [`Settings::login_timeout`].
    pub fn login_timeout(&self) -> Duration {
        self.settings.load().login_timeout
    }

    /// See [`Settings::hold_time`].
    pub fn hold_time(&self) -> Duration {
        self.settings.load().hold_time
    }

    /// See [`Settings::retain_bytes_max`].
    pub fn retain_bytes_max(&self) -> usize {
        self.settings.load().retain_bytes_max
    }

    /// Makes it the port for reads. Its connection ids are none of the other port's.
    pub fn only_read(&mut self, reads: Reads) {
        self.reads = Some(reads);
        self.next_id = AtomicU32::new(READS_FROM);
    }

    /// A connection id that no client has now.
    pub fn new_id(&self) -> u32 {
        FIRST_ID + (self.next_id.fetch_add(1, Relaxed) & 0x3FFF_FFFF)
    }

    /// A place for one more client, if there is one.
    pub fn take_place(self: &Arc<Self>) -> Option<Seat> {
        let limit = u32::try_from(self.settings.load().client_connections_max).unwrap_or(u32::MAX);
        self.counts.clients.fetch_add(1, Relaxed);
        let seat = Seat { shared: self.clone() };
        (self.places.fetch_add(1, Relaxed) < limit).then_some(seat)
    }

    /// Resolves when no client is left.
    pub async fn no_clients(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.places.load(Relaxed) == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// All counters, and the sessions that are worth telling of.
    pub async fn snapshot(&self) -> Stats {
        let (busy, sessions) = (self.registry.busy(), self.registry.notable());
        Stats { busy, sessions, ..self.counted().await }
    }

    /// The counters alone: that costs the same with ten thousand clients as with one.
    pub async fn counted(&self) -> Stats {
        let hold = self.door.counters().await;
        let lane_table = self.door.lane_table();
        Stats {
            certificate_expires_unix_s: self.settings.load().certificate_expires_unix_s,
            term: self.counts.term.load(Relaxed),
            clients: self.counts.clients.load(Relaxed),
            clients_total: self.counts.clients_total.load(Relaxed),
            links_total: self.counts.links_total.load(Relaxed),
            sessions_moved: self.counts.moved.load(Relaxed),
            sessions_pinned: self.counts.pinned.load(Relaxed),
            statements_again: self.counts.again.load(Relaxed),
            hold: HoldStats {
                held: hold.held,
                resumed: hold.resumed,
                evicted: hold.evicted,
                expired: hold.expired,
                gone: hold.gone,
                waiting: hold.waiting,
                waiting_bytes: hold.waiting_bytes,
                waiting_max: hold.waiting_max,
                lawful: hold.lawful(),
                held_for: self.counts.held_for.snapshot(),
            },
            lanes: lane_table
                .lanes
                .iter()
                .filter(|lane| !lane.is_removed)
                .map(|lane| LaneStats {
                    node: lane.name.to_string(),
                    state: lane.state(),
                    sessions: lane.sessions(),
                    running: lane.leases(),
                    begun_total: lane.begun(),
                })
                .collect(),
            errors: self.counts.errors(),
            split: self.replicas.as_ref().map(|replicas| replicas.stats()),
            ..Stats::default()
        }
    }

    /// Tells the manager, unless it has too much to do already: what matters here it will see by itself. What a client can cause as often
    /// as it likes goes through [`Shared::hints`].
    pub fn tell(&self, fact: ProxyFact) {
        let _ = self.facts.try_send(fact);
    }

    /// Says what this host lacks when that is why a link could not be made, but not with every try.
    pub fn warn_of(&self, error: &AttachError) {
        let AttachError::Local(local_error) = error else { return };
        if let Some(kept_back) = self.local_error.now(Instant::now()) {
            tracing::warn!(
                "a link to a node could not be made: {local_error} ({kept_back} times more since this was last said)"
            );
        }
    }

    /// Says that a node sends what nobody asked for, but not each time.
    pub fn warn_of_unasked(&self, lane: &Lane) {
        if let Some(kept_back) = self.unasked.now(Instant::now()) {
            tracing::warn!(
                "{} sent bytes that nobody had asked for, behind an answer or without one: the link is given up, since they would be taken for \
                 the next answer ({kept_back} times more since this was last said)",
                lane.name
            );
        }
    }

    /// Time since the proxy started.
    pub fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.began)
    }

    /// How often, and for how long, a statement is tried.
    pub fn limits(&self) -> RetryLimits {
        let settings = self.settings.load();
        RetryLimits { hold_time: settings.hold_time, resends_max: settings.resends_max }
    }

    // ---- statements that may have cost a node

    fn with_suspects<T>(&self, act: impl FnOnce(&mut Suspects, Duration) -> T) -> T {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let out = act(&mut suspects, self.began.elapsed());
        self.suspects_count.store(suspects.len(), Relaxed);
        out
    }

    /// Whether any statement is under suspicion; none is, but for the time after a loss.
    pub fn has_suspects(&self) -> bool {
        self.suspects_count.load(Relaxed) > 0
    }

    /// Why a statement is refused for now.
    pub fn refused_as_suspect(&self, text: &[u8]) -> Option<String> {
        let digest = digest(text, 0);
        let left = self.with_suspects(|suspects, now| suspects.refused(now, digest))?;
        Some(format!("{} s more (digest {digest:016x})", left.as_secs() + 1))
    }

    /// A statement was answered, so that it does not end nodes.
    pub fn ended_well(&self, text: &[u8]) {
        let digest = digest(text, 0);
        self.with_suspects(|suspects, _| suspects.ended_well(digest));
    }

    /// A node was lost while a statement ran there.
    pub fn statement_lost(&self, lane: &Lane, text: &[u8]) {
        self.tell(self.suspect(lane, text));
    }

    /// The same without telling: what is to be told.
    pub fn suspect(&self, lane: &Lane, text: &[u8]) -> ProxyFact {
        let number = digest(text, 0);
        self.with_suspects(|suspects, now| suspects.lost(now, number, (lane.node, lane.epoch)));
        let shape = digest_text(text, 0, STATEMENT_SHOWN);
        let digest = format!("{number:016x}");
        ProxyFact::StatementLost { node: lane.node, epoch: lane.epoch, digest, text: shape }
    }

    /// The server greeting for clients, once it is known; `None` after `within`.
    pub async fn greeting(&self, within: Duration) -> Option<Arc<ServerGreeting>> {
        let mut lane_tables = self.door.watch();
        let known =
            tokio::time::timeout(within, lane_tables.wait_for(|lane_table| lane_table.greeting.is_some()))
                .await;
        known.ok()?.ok()?.greeting.clone()
    }

    /// The status flags that a login begins with on the nodes, as far as they are known.
    pub fn login_status(&self) -> u16 {
        let greeting = &self.door.lane_table().greeting;
        greeting.as_ref().map_or(status::AUTOCOMMIT, |greeting| greeting.status & status::OF_LOGIN)
    }

    /// The family of the nodes, by their greeting; MySQL's while that is unknown.
    pub fn flavor(&self) -> Flavor {
        let lane_table = self.door.lane_table();
        lane_table.greeting.as_ref().map_or(Flavor::MySql, |greeting| Flavor::of(&greeting.version))
    }

    /// See [`Settings::monitor`].
    pub fn monitor(&self) -> Login {
        self.settings.load().monitor.clone()
    }

    /// The accounts, once any has been read; `None` when none has until `until`.
    pub async fn accounts(&self, until: Instant) -> Option<Arc<Accounts>> {
        let mut lane_tables = self.door.watch();
        let known = lane_tables.wait_for(|lane_table| !lane_table.accounts.is_empty());
        Some(tokio::time::timeout_at(until.into(), known).await.ok()?.ok()?.accounts.clone())
    }

    /// The plugin that clients are greeted with.
    pub fn default_plugin(&self) -> Plugin {
        let greeting = &self.door.lane_table().greeting;
        Plugin::of_greeting(greeting.as_ref().map_or("", |greeting| &greeting.plugin))
    }

    /// A number for a name, the same each time, that nobody else can know.
    pub fn decoy(&self, user: &str) -> u64 {
        self.decoys.hash_one(user)
    }

    /// Further such numbers.
    pub fn decoys(&self, user: &str) -> [u64; 3] {
        [1u8, 2, 3].map(|number| self.decoys.hash_one((user, number)))
    }

    /// Asks for the accounts to be read again in the name of `user`: the present table, and each new one within [`ACCOUNTS_WAIT`].
    pub fn read_again(&self, user: &str) -> NewTables {
        self.hints.unknown_account(user);
        NewTables { lane_tables: self.door.watch(), until: Instant::now() + ACCOUNTS_WAIT, is_first: true }
    }

    /// For an account that a node has refused: the first answer of `look` that is not `same`, at the latest after [`ACCOUNTS_WAIT`].
    pub async fn account_changed<T: PartialEq>(
        &self,
        user: &str,
        same: T,
        mut look: impl FnMut(&Accounts) -> T,
    ) -> T {
        let mut tables = self.read_again(user);
        let mut seen = same;
        while let Some(accounts) = tables.next().await {
            let now = look(&accounts);
            let is_same = now == seen;
            seen = now;
            if !is_same {
                break;
            }
        }
        seen
    }
}

/// See [`Shared::read_again`].
pub struct NewTables {
    lane_tables: watch::Receiver<Arc<LaneTable>>,
    until: Instant,
    is_first: bool,
}

impl NewTables {
    /// The next table of accounts; `None` when the time is up.
    pub async fn next(&mut self) -> Option<Arc<Accounts>> {
        if !std::mem::take(&mut self.is_first) {
            tokio::time::timeout_at(self.until.into(), self.lane_tables.changed()).await.ok()?.ok()?;
        }
        Some(self.lane_tables.borrow_and_update().accounts.clone())
    }
}

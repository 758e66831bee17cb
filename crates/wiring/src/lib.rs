//! The map of the program: each part is built here, in order, and what one needs of another is an argument.
//!
//! ```text
//!                     settings
//!                        │
//!     ┌──────────────────┼─────────────────────────┐
//!     v                  v                         v
//!   manager ── routes ─> proxy                    web ── ClusterControl (orders, status, journal, metrics)
//!     ^  ^─── facts ──────┘                        │
//!     └──────────────── orders ────────────────────┘
//!   manager ── reads, reached ─> a second proxy: the port for reads ── facts, as such ─> manager
//!   manager ── reads ─> the first proxy, too, where reads are split off (listen.split)
//!   manager ── view ─> health (a node may take traffic; agent check; this program serves)
//!   manager ── samples ─> live (each node's counters, as they come) ─> web
//!   manager ── samples, view ─> windows (for how long each node may be away) ─> ClusterControl, and warnings into the journal
//!   manager ── view ─> warm (what the active node is asked is replayed on the standbys) ── how warm they are ─> ClusterControl
//! ```
//!
//! A reload of the configuration (`reload`) changes settings where they are: the manager, the proxies, the listeners and their clients stay. Only
//! what is made from the list of nodes is made anew (`managed`).
//!
//! Five runtimes: the manager and health bring their own, the proxy has the threads, and web and warm have one thread of their own each, so
//! that neither a probe nor an order nor a health question waits behind client traffic, and nothing behind a replay.

mod capacity;
mod cluster_control;
mod health;
mod live;
mod managed;
mod metrics;
mod reload;
pub mod warm;
mod warmth;
mod windows;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use link::Login;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{broadcast, mpsc};
use topology::action::Level;
use topology::kind::Kind;
use topology::settings::NodeSettings;
use web::Event;

use self::health::Doors;
use self::managed::{Around, Managed};
pub use self::reload::{NotApplied, ReloadReply, ReloadRequest};
use settings::descriptors::Shares;
use settings::{Settings, table as t};

/// How long the API may go on answering what it was asked before the end.
const WEB_GRACE: Duration = Duration::from_secs(2);
/// The longest that a session waits on a replica for what it may have seen on another, before it tries the next.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);
/// How long tasks that were cut may take to notice.
const CUT_GRACE: Duration = Duration::from_secs(1);
/// Reloads that the API may have asked for at once.
const RELOADS_MAX: usize = 4;

/// Everything that runs.
pub struct Services {
    /// What is in force.
    settings: Settings,
    /// The manager's passwords, as they are in force.
    passwords: Passwords,
    manager: manager::Handles,
    /// What is made from its list of nodes.
    managed: Managed,
    proxy: proxy::Handle,
    /// The port for reads.
    reads: Option<proxy::Handle>,
    /// Answers until the very end.
    health: Doors,
    web: web::server::Server,
    /// To the live view's readers, who stay during a reload.
    events: broadcast::Sender<Event>,
    /// For the API: a reload is carried out by whoever owns this value.
    reloads: mpsc::Sender<ReloadRequest>,
    /// Carries the clients.
    hot: Runtime,
    /// Carries web, and whatever waits for signals.
    calm: Runtime,
}

/// What was read from wherever the configuration says it is.
#[derive(Clone)]
pub struct Passwords {
    /// The monitor's.
    pub monitor: String,
    /// The account that replicas log in with at the primary.
    pub replication: Option<manager::Account>,
    /// What is shown to standbys, and to whoever tells what the active node was asked.
    pub warm: Option<warm::Secrets>,
}

/// What web needs that may have to be made at first start.
pub struct Credentials {
    /// The API's key.
    pub key: web::key::ApiKey,
    /// What HTTPS shows; `None` without HTTPS listeners.
    pub tls: Option<Arc<web::certificate::ServerConfig>>,
}

/// Builds and starts every part. When one fails, those before it are stopped and the error says what to do. Beside the parts it gives the reloads
/// that the API asks for; who receives them calls [`Services::apply`].
pub fn start(
    settings: Settings,
    shares: Shares,
    passwords: Passwords,
    credentials: Credentials,
) -> anyhow::Result<(Services, mpsc::Receiver<ReloadRequest>)> {
    let hot = Builder::new_multi_thread().thread_name("proxy").enable_all().build();
    let hot = hot.context("cannot start the proxy's threads")?;
    let calm = Builder::new_multi_thread().worker_threads(1).thread_name("web").enable_all().build();
    let calm = calm.context("cannot start the API's thread")?;

    let manager = manager::start(manager_settings(&settings, &passwords))?;

    let (proxy, reads) = {
        let _inside = hot.enter();
        let proxy = proxy_of_clients(&settings, shares, &manager)?;
        let reads = proxy_of_reads(&settings, shares, &manager)?;
        (proxy, reads)
    };

    let health = Doors::open(&settings, shares.health_max, &manager, proxy.listening())?;

    let (events, (reloads, asked)) = (live::channel(), mpsc::channel(RELOADS_MAX));
    let around = Around {
        proxy: &proxy,
        reads: reads.as_ref(),
        health: &health,
        events: &events,
        reloads: &reloads,
        calm: &calm,
    };
    let managed = Managed::start(&settings, &passwords, &manager, &around)?;
    let web = {
        let _inside = calm.enter();
        web::server::start(web_settings(&settings, shares, credentials), managed.control())?
    };
    let services = Services {
        settings,
        passwords,
        manager,
        managed,
        proxy,
        reads,
        health,
        web,
        events,
        reloads,
        hot,
        calm,
    };
    Ok((services, asked))
}

impl Services {
    /// Logs a sentence and writes it to the journal.
    pub fn note(&self, level: Level, text: String) {
        self.managed.control().note(level, text);
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is listened on, as one line for the log and for whoever waits for the start.
    pub fn sentence(&self) -> String {
        let list = |addresses: &[std::net::SocketAddr]| {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let mut sentence = format!("serving mysql on {}", list(self.proxy.local_addresses()));
        let reads = self.reads.as_ref().map_or(&[][..], proxy::Handle::local_addresses);
        let lists = [
            ("reads", reads),
            ("http", self.web.http()),
            ("https", self.web.https()),
            ("health", self.health.http()),
            ("agent", self.health.agent()),
        ];
        for (name, addresses) in lists {
            if !addresses.is_empty() {
                let _ = write!(sentence, ", {name} on {}", list(addresses));
            }
        }
        sentence
    }

    /// Waits on the calm runtime.
    pub fn wait<T>(&self, until: impl Future<Output = T>) -> T {
        self.calm.block_on(until)
    }

    /// Returns when the manager has ended by itself, which it never should.
    pub fn without_manager(&self) -> impl Future<Output = ()> + use<> {
        let mut view = self.manager.view.clone();
        async move { while view.changed().await.is_ok() {} }
    }

    /// Returns when the part of a proxy that follows the manager has ended by itself, which it never should.
    pub fn without_door(&self) -> impl Future<Output = ()> + use<> {
        let (proxy, reads) = (self.proxy.broken(), self.reads.as_ref().map(proxy::Handle::broken));
        async move {
            match reads {
                Some(reads) => tokio::select! {
                    () = proxy => {}
                    () = reads => {}
                },
                None => proxy.await,
            }
        }
    }

    /// Whether the manager has told its view since the last time that this was asked. It does so several times a second.
    pub fn pulse(&self) -> impl FnMut() -> bool + Send + use<> {
        let view = self.manager.view.clone();
        let mut last = view.borrow().clone();
        move || {
            let newest = view.borrow().clone();
            let is_told = !Arc::ptr_eq(&newest, &last);
            last = newest;
            is_told
        }
    }

    /// Stops in the order in which the parts need one another: clients first, while failovers still work; then orders; then
    /// the manager, which writes down what is pending. `hurry` cuts the clients' grace short.
    pub fn shutdown(self, hurry: impl Future<Output = ()>) {
        let Self {
            settings, manager, managed, proxy, reads, health, web, events, reloads, hot, calm, ..
        } = self;
        let shutdown_grace = settings.get(&t::PROXY_SHUTDOWN_GRACE);
        let mut watchers = managed.take_apart();
        // First: nobody waits for it, and it must not disturb the end of the others.
        watchers.stop_warming();
        calm.block_on(async {
            tokio::select! {
                done = hot.spawn(both(proxy, reads, shutdown_grace)) => {
                    if let Err(e) = done {
                        tracing::error!("the proxy did not stop as it should: {e}");
                    }
                }
                () = hurry => tracing::warn!("told to stop twice: closing every client now"),
            }
            // Its readers would otherwise read on for as long as they may.
            drop((watchers, events, reloads));
            web.shutdown(WEB_GRACE).await;
        });
        drop(health);
        manager.stop.stop_blocking();
        hot.shutdown_timeout(CUT_GRACE);
        calm.shutdown_timeout(CUT_GRACE);
    }
}

fn monitor_login(settings: &Settings, password: &str) -> Login {
    Login::with_password(&settings.monitor.user, password)
}

/// The ends of both ports, at once.
async fn both(proxy: proxy::Handle, reads: Option<proxy::Handle>, grace: Duration) {
    let reads = async {
        if let Some(reads) = reads {
            reads.shutdown(grace).await;
        }
    };
    tokio::join!(proxy.shutdown(grace), reads);
}

/// The port of applications.
fn proxy_of_clients(
    settings: &Settings,
    shares: Shares,
    manager: &manager::Handles,
) -> anyhow::Result<proxy::Handle> {
    let inputs = proxy::Inputs { routes: manager.routes.clone(), facts: manager.facts.clone() };
    let own = proxy_settings(settings, shares);
    if !settings.get(&t::LISTEN_SPLIT) {
        return Ok(proxy::start(own, inputs)?);
    }
    let split = proxy::Split { routes: manager.reads.clone(), wait_max: settings.get(&t::READ_SPLIT_WAIT) };
    Ok(proxy::start_split(own, inputs, split)?)
}

/// The port for reads, when there is one: a proxy of its own, with the manager's lanes for it.
fn proxy_of_reads(
    settings: &Settings,
    shares: Shares,
    manager: &manager::Handles,
) -> anyhow::Result<Option<proxy::Handle>> {
    let listen = settings.get(&t::LISTEN_READ);
    if listen.is_empty() {
        return Ok(None);
    }
    let inputs = proxy::Inputs { routes: manager.reads.clone(), facts: manager.facts.clone() };
    let reads = proxy::Reads {
        reached: manager.reached.clone(),
        origin: manager.started,
        wait_max: catch_up_max(settings).into(),
        is_group: settings.kind == Kind::Galera,
    };
    let own = proxy::Settings { listen, ..proxy_settings(settings, shares) };
    Ok(Some(proxy::start_reads(own, inputs, reads)?))
}

fn catch_up_max(settings: &Settings) -> Duration {
    settings.get(&t::READ_LAG_MAX).min(CATCH_UP_MAX)
}

// ---- one part's settings each, out of the program's

pub fn manager_settings(settings: &Settings, passwords: &Passwords) -> manager::Settings {
    let node = |node: &settings::Node| NodeSettings {
        name: node.name.clone(),
        address: node.address.clone(),
        priority: node.priority,
    };
    let nodes = settings.nodes.iter().map(node).collect();
    let mut cluster = topology::settings::Settings::new(settings.name.clone(), settings.writers, nodes);
    cluster.kind = settings.kind;
    cluster.reads = settings.reads();
    cluster.replication = settings.loss();
    cluster.galera.evict = settings.get(&t::MONITOR_EVICT);
    cluster.galera.silence = settings.get(&t::MONITOR_SILENT);
    cluster.galera.bootstrap = settings.get(&t::CLUSTER_BOOTSTRAP);
    cluster.galera.proof_deadline = settings.get(&t::CLUSTER_PROOF_DEADLINE);
    cluster.galera.leave_grace = settings.get(&t::MONITOR_STOP_GRACE);
    cluster.probe_interval = settings.get(&t::MONITOR_INTERVAL);
    cluster.misses_max = settings.get(&t::MONITOR_MISSES);
    cluster.events = settings.follows_events();
    cluster.heartbeat = topology::heartbeat::Settings {
        interval: settings.get(&t::HEARTBEAT_INTERVAL),
        schema: settings.get(&t::HEARTBEAT_SCHEMA),
        stuck_max: settings.get(&t::HEARTBEAT_STUCK),
    };
    manager::Settings {
        cluster,
        monitor: manager::Account {
            user: settings.monitor.user.clone(),
            password: manager::Password(passwords.monitor.clone()),
        },
        replication: passwords.replication.clone(),
        proof_command: settings.get(&t::CLUSTER_PROOF_COMMAND),
        store: settings.store(),
    }
}

fn proxy_settings(settings: &Settings, shares: Shares) -> proxy::Settings {
    proxy::Settings {
        listen: settings.get(&t::LISTEN_MYSQL),
        hold_time: settings.get(&t::HOLD_TIME),
        hold_statements_max: settings.get(&t::HOLD_STATEMENTS),
        hold_bytes_max: settings.get(&t::HOLD_BYTES),
        release_at_once: settings.get(&t::HOLD_RELEASE),
        connect_timeout: settings.get(&t::PROXY_CONNECT_TIMEOUT),
        login_timeout: settings.get(&t::PROXY_LOGIN_TIMEOUT),
        client_idle_max: settings.get(&t::PROXY_CLIENT_IDLE),
        retain_bytes_max: settings.get(&t::PROXY_RETAIN),
        resends_max: settings.get(&t::PROXY_RESENDS),
        suspect_time: settings.get(&t::PROXY_SUSPECT),
        password_errors_max: settings.get(&t::PROXY_PASSWORD_ERRORS),
        password_error_pause: settings.get(&t::PROXY_PASSWORD_PAUSE),
        client_connections_max: shares.clients_max,
        writers_all: settings.writers == topology::settings::Writers::All,
    }
}

fn web_settings(settings: &Settings, shares: Shares, credentials: Credentials) -> web::server::Settings {
    web::server::Settings {
        http: settings.get(&t::LISTEN_HTTP),
        https: settings.get(&t::LISTEN_HTTPS),
        tls: credentials.tls,
        key: credentials.key,
        budget: settings.get(&t::SWITCHOVER_BUDGET),
        limits: shares.api,
    }
}

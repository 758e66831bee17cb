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
//!   manager ── samples, view ─> doctor::windows (for how long each node may be away) ─> ClusterControl, and warnings into the journal
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
mod noticed;
mod parts;
mod reload;
mod reload_request;
pub mod warm;
mod warmth;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hooks::Hooks;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{broadcast, mpsc, watch};
use topology::action::Level;
use topology::kind::Kind;
use web::Event;

use self::health::Doors;
use self::managed::{Around, Managed};
pub use self::parts::{Accounts, Credentials, manager_settings};
use self::parts::{catch_up_max, proxy_settings, reads_settings, web_settings};
pub use self::reload::NotApplied;
pub use self::reload_request::{ReloadReply, ReloadRequest};
use settings::descriptors::Shares;
use settings::{Settings, table as t};

/// How long the API may go on answering what it was asked before the end.
const WEB_GRACE: Duration = Duration::from_secs(2);
/// How long tasks that were cut may take to notice.
const CUT_GRACE: Duration = Duration::from_secs(1);
/// Reloads that the API may have asked for at once.
const RELOADS_MAX: usize = 4;

/// Everything that runs.
pub struct Services {
    /// What is in force.
    settings: Settings,
    /// The manager's accounts, as they are in force.
    accounts: Accounts,
    manager: manager::Handles,
    /// What is made from its list of nodes.
    managed: Managed,
    proxy: proxy::Handle,
    /// The port for reads.
    reads: Option<proxy::Handle>,
    /// Answers until the very end.
    health: Doors,
    web: web::server::Server,
    /// Who is told of decisions.
    hooks: watch::Sender<Option<Hooks>>,
    /// To the live view's readers, who stay during a reload.
    events: broadcast::Sender<Event>,
    /// For the API: a reload is carried out by whoever owns this value.
    reloads: mpsc::Sender<ReloadRequest>,
    /// Carries the clients.
    hot: Runtime,
    /// Carries web, and whatever waits for signals.
    calm: Runtime,
}

/// Builds and starts every part. When one fails, those before it are stopped and the error says what to do. Beside the parts it gives the reloads
/// that the API asks for; who receives them calls [`Services::apply`].
pub fn start(
    settings: Settings,
    shares: Shares,
    accounts: Accounts,
    credentials: Credentials,
) -> anyhow::Result<(Services, mpsc::Receiver<ReloadRequest>)> {
    let hot = Builder::new_multi_thread().thread_name("proxy").enable_all().build();
    let hot = hot.context("cannot start the proxy's threads")?;
    let calm = Builder::new_multi_thread().worker_threads(1).thread_name("web").enable_all().build();
    let calm = calm.context("cannot start the API's thread")?;

    let manager = manager::start(manager_settings(&settings, &accounts))?;
    let (hooks, told) = watch::channel(accounts.hooks.clone());
    calm.spawn(hooks::follow(told, manager.journal.clone()));

    let (proxy, reads) = {
        let _inside = hot.enter();
        let own = proxy_settings(&settings, shares, credentials.clients.as_ref(), &accounts);
        let proxy = proxy_of_clients(&settings, own.clone(), &manager)?;
        let own = reads_settings(&settings, credentials.clients.as_ref(), own);
        let reads = proxy_of_reads(&settings, own, &manager)?;
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
    let managed = Managed::start(&settings, &accounts, &manager, &around)?;
    let web = {
        let _inside = calm.enter();
        web::server::start(web_settings(&settings, shares, credentials), managed.control())?
    };
    let services = Services {
        settings,
        accounts,
        manager,
        managed,
        proxy,
        reads,
        health,
        web,
        hooks,
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
    own: proxy::Settings,
    manager: &manager::Handles,
) -> anyhow::Result<proxy::Handle> {
    let inputs = proxy::Inputs { routes: manager.routes.clone(), facts: manager.facts.clone() };
    if !settings.get(&t::LISTEN_SPLIT) {
        return Ok(proxy::start(own, inputs)?);
    }
    let split = proxy::Split { routes: manager.reads.clone(), wait_max: settings.get(&t::READ_SPLIT_WAIT) };
    Ok(proxy::start_split(own, inputs, split)?)
}

/// The port for reads, when there is one: a proxy of its own, with the manager's lanes for it.
fn proxy_of_reads(
    settings: &Settings,
    own: proxy::Settings,
    manager: &manager::Handles,
) -> anyhow::Result<Option<proxy::Handle>> {
    if own.listen.is_empty() {
        return Ok(None);
    }
    let inputs = proxy::Inputs { routes: manager.reads.clone(), facts: manager.facts.clone() };
    let reads = proxy::Reads {
        reached: manager.reached.clone(),
        origin: manager.started,
        wait_max: catch_up_max(settings).into(),
        is_group: settings.kind == Kind::Galera,
    };
    Ok(Some(proxy::start_reads(own, inputs, reads)?))
}

//! Starts the manager on its own thread, and returns the ends of its channels.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use topology::Term;
use topology::brain::{Brain, NotTaken, Restored};
use topology::fact::ProxyFact;
use topology::galera::Component;
use topology::order::{Order, OrderRefused, OrderReply};
use topology::reads::Reached;
use topology::replication::Written;
use topology::routes::{Lane, Routes};
use topology::settings::NodeSettings;
use topology::view::ClusterView;

use crate::aliases::Aliases;
use crate::cycle::{Asked, Change, Cycle, names_and_addresses};
use crate::events::Events;
use crate::journal::Journal;
use crate::loans::Loans;
use crate::means::Means;
use crate::preflight::Preflight;
use crate::question;
use crate::samples::Samples;
use crate::settings::Settings;
use crate::store::{Opened, Saved, Store, StoreError, Work};
use crate::watched::{Making, Watched};

/// The capacity of the queue of facts from the proxy.
const FACTS_MAX: usize = 1024;
/// The capacity of the queue of notes from the probes and the store.
const NOTES_MAX: usize = 256;
/// The capacity of the queue of orders.
const ORDERS_MAX: usize = 64;
/// An order is answered at the latest this long after its budget.
const ANSWER_SLACK: Duration = Duration::from_secs(30);

/// Why the manager did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings contradict themselves; the sentence says what is allowed.
    #[error("{0}")]
    Settings(String),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread or a runtime could not be created.
    #[error("the manager's thread could not be started: {0}; check the limits of this process")]
    Thread(#[from] std::io::Error),
}

/// The ends of the manager's channels.
pub struct Handles {
    /// Which nodes take statements; version 0 until the first decision.
    pub routes: watch::Receiver<Arc<Routes>>,
    /// The same for the port for reads; version 0 for ever when there is none.
    pub reads: watch::Receiver<Arc<Routes>>,
    /// The primary's position, for the port for reads.
    pub reached: watch::Receiver<Arc<Reached>>,
    /// A snapshot of everything that is known; a new one at least every 200 ms.
    pub view: watch::Receiver<Arc<ClusterView>>,
    /// The moment from which [`ClusterView::now_ms`] counts: with it the age of a view can be computed.
    pub started: std::time::Instant,
    /// For facts from the proxy: `try_send` for those that may be dropped, `send` for those that may not (`Quiesced`, `Cut`).
    pub facts: mpsc::Sender<ProxyFact>,
    /// Takes operators' orders.
    pub orders: Orders,
    /// All decisions, with their time and reason.
    pub journal: Journal,
    /// The counters of each node during the last hour.
    pub samples: Samples,
    /// The checks before a switchover.
    pub preflight: Preflight,
    changes: mpsc::Sender<Change>,
    /// Ends the manager. Dropping it does that, too, without waiting.
    pub stop: Stop,
}

impl Handles {
    /// Puts other settings in force, while everything goes on: what is known of the nodes, the links to them, and what has been decided. Waits at
    /// most 10 s for the end of what must not be disturbed (a switchover, while nodes are removed). Afterwards `preflight` asks with the new
    /// accounts; clones from before do not.
    ///
    /// # Errors
    /// The settings cannot be put in force, or the manager is busy; nothing has changed then.
    pub async fn reconfigure(&mut self, settings: Settings) -> Result<(), NotTaken> {
        let stopping = || NotTaken::Busy("Understudy is stopping".into());
        let preflight = Preflight::new(&settings.cluster, settings.login(), settings.replication_login());
        let (reply, answer) = oneshot::channel();
        self.changes.send((settings, reply)).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())??;
        self.preflight = preflight;
        Ok(())
    }
}

/// Takes orders for the manager.
#[derive(Clone)]
pub struct Orders(mpsc::Sender<Asked>);

impl Orders {
    /// Carries out an order. Returns when it is done or refused, at the latest 30 s after its budget.
    pub async fn order(&self, order: Order) -> OrderReply {
        self.ask(order, false).await
    }

    /// What would come of the order; nothing is changed.
    pub async fn dry_run(&self, order: Order) -> OrderReply {
        self.ask(order, true).await
    }

    async fn ask(&self, order: Order, dry_run: bool) -> OrderReply {
        let refused = |code, sentence: &str| Err(OrderRefused { code, sentence: sentence.into() });
        let budget = match &order {
            Order::Switchover { budget, .. } | Order::Drain { budget, .. } => *budget,
            Order::Undrain { .. } | Order::SetSessionsMax { .. } => Duration::ZERO,
        };
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.0.send((order, dry_run, reply)).await.ok()?;
            answer.await.ok()
        };
        match tokio::time::timeout(budget.saturating_add(ANSWER_SLACK), asked).await {
            Ok(Some(reply)) => reply,
            Ok(None) => refused("stopping", "Understudy is stopping: ask again when it is up"),
            Err(_) => refused("busy", "no answer in time: see `understudy status` for what runs"),
        }
    }
}

/// Ends the manager.
pub struct Stop {
    signal: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stop {
    /// Ends it, and returns when all writes are done, its store is closed, and its thread has ended.
    pub async fn stop(self) {
        // The task only waits for the thread; if it is cancelled, the thread still ends.
        let _ = tokio::task::spawn_blocking(move || self.stop_blocking()).await;
    }

    /// The same, for callers without a runtime.
    pub fn stop_blocking(mut self) {
        if let Some(signal) = self.signal.take() {
            // It has ended by itself, if nobody receives this.
            let _ = signal.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the manager's thread ended with a panic");
        }
    }
}

/// Opens the store, starts the manager's thread, and returns at once. Everything else arrives through [`Handles`].
pub fn start(settings: Settings) -> Result<Handles, StartError> {
    settings.cluster.check().map_err(StartError::Settings)?;
    let Opened { store, saved, loans, component, written, events, newest_row_unix_ms, thread: store_thread } =
        Store::open(&settings.store)?;
    let aliases = Aliases::restored(component.as_ref(), &settings.cluster.addresses());
    let restored = restore(&settings, &saved, component, written, newest_row_unix_ms);
    let runtime = Builder::new_current_thread().enable_all().build()?;

    let (facts_in, facts) = mpsc::channel(FACTS_MAX);
    let (notes_in, notes) = mpsc::channel(NOTES_MAX);
    let (orders_in, orders) = mpsc::channel(ORDERS_MAX);
    let (changes_in, changes) = mpsc::channel(1);
    let (signal, stop) = oneshot::channel();
    let (reached_in, reached) = watch::channel(Arc::default());
    let (started, term) = (Instant::now(), restored.term);
    let brain = Brain::new(settings.cluster.clone(), restored, started.elapsed());
    let (routes_in, routes) = watch::channel(Arc::new(nothing_known(&brain, term)));
    let (reads_in, reads) = watch::channel(routes.borrow().clone());
    let (view_in, view) = watch::channel(Arc::new(brain.view(started.elapsed())));
    let journal = Journal { store: store.clone() };

    let (login, replication_login) = (settings.login(), settings.replication_login());
    let cluster = settings.cluster;
    let preflight = Preflight::new(&cluster, login.clone(), replication_login);
    let samples = Samples::new(brain.nodes().iter().map(|(node, _)| *node));
    let samples_in = samples.clone();
    let thread = std::thread::Builder::new().name("manager".into()).spawn(move || {
        runtime.block_on(async move {
            let questions = Arc::new(question::turn());
            let loans = Arc::new(Loans::new(store.clone(), names_and_addresses(&cluster), loans));
            let means = Means::new(&cluster, login.clone(), brain.nodes());
            let events = Arc::new(Events::new(store.clone(), events));
            let making = Making {
                settings: cluster.clone(),
                means: watch::Sender::new(Arc::new(means)),
                started,
                notes: notes_in.clone(),
                samples: samples_in.clone(),
                questions: Arc::clone(&questions),
                loans: Arc::clone(&loans),
                events: Arc::clone(&events),
            };
            let cycle = Cycle {
                settings: cluster,
                login,
                replication: settings.replication,
                proof_command: settings.proof_command.map(Into::into),
                aliases,
                newest_order: Arc::default(),
                events,
                ready: Arc::default(),
                brain,
                store,
                started,
                facts,
                orders,
                changes,
                samples: samples_in,
                notes,
                notes_in,
                questions,
                loans,
                watched: Watched::start(making),
                store_thread,
                routes: routes_in,
                reads: reads_in,
                reached: reached_in,
                view: view_in,
                stop,
            };
            Box::pin(cycle.run()).await;
        });
        // Does not wait for blocking tasks: a name lookup may hang in the resolver.
        runtime.shutdown_background();
    })?;
    Ok(Handles {
        routes,
        reads,
        reached,
        view,
        started: started.into_std(),
        facts: facts_in,
        orders: Orders(orders_in),
        journal,
        samples,
        preflight,
        changes: changes_in,
        stop: Stop { signal: Some(signal), thread: Some(thread) },
    })
}

/// Makes the store for a manager that begins after the writer was lost. It names `writer` as the last writer.
///
/// # Errors
/// The store cannot be written.
pub fn begin_after(store: &std::path::Path, writer: &str) -> Result<(), StoreError> {
    let opened = Store::open(store)?;
    let saved = Saved {
        term: 1,
        writer: Some(writer.to_owned()),
        sessions_max: Vec::new(),
        failed_over_unix_ms: None,
        is_writer_incomplete: false,
        renumbered: Vec::new(),
        filtered: Vec::new(),
    };
    let (told, heard) = std::sync::mpsc::channel();
    let tell = Box::new(move |done| {
        // The receiver is below.
        let _ = told.send(done);
    });
    opened.store.send(Work::Save(saved, tell)).map_err(|_| StoreError::Closed)?;
    heard.recv().map_err(|_| StoreError::Closed)??;
    drop(opened.store);
    opened.thread.join().map_err(|_| StoreError::Closed)
}

/// Maps the saved names to nodes of the present configuration; names that it does not have any more are dropped.
fn restore(
    settings: &Settings,
    saved: &Saved,
    component: Option<Component>,
    written: Option<(Written, u64)>,
    newest_row_unix_ms: Option<u64>,
) -> Restored {
    // If the clock was set back since then, it counts as just now.
    let ago = |unix_ms: u64| Duration::from_millis(crate::store::unix_ms().saturating_sub(unix_ms));
    let node = |name: &str| settings.cluster.id_at_start(name);
    Restored {
        term: Term(saved.term),
        writer: saved.writer.as_deref().and_then(node),
        sessions_max: saved
            .sessions_max
            .iter()
            .filter_map(|(name, limit)| Some((node(name)?, *limit)))
            .collect(),
        failed_over_ago: saved.failed_over_unix_ms.map(ago),
        is_writer_incomplete: saved.is_writer_incomplete,
        renumbered: saved.renumbered.iter().filter_map(|name| node(name)).collect(),
        filtered: saved
            .filtered
            .iter()
            .filter_map(|(name, filters)| Some((node(name)?, filters.clone())))
            .collect(),
        component,
        written: written.map(|(written, unix_ms)| (written, ago(unix_ms))),
        away: newest_row_unix_ms.map(ago),
    }
}

fn nothing_known(brain: &Brain, term: Term) -> Routes {
    let lane = |(id, node): (_, NodeSettings)| Lane::shut(id, node.name, node.address);
    Routes {
        version: 0,
        term,
        lanes: brain.nodes().into_iter().map(lane).collect(),
        hold_because: Some("no node has been checked yet".into()),
        greeting: None,
        accounts: Arc::default(),
        catalogue: None,
    }
}

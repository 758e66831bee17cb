//! The connection between the proxies and the present manager. The manager can be replaced while the process runs (its settings have
//! changed, nodes were added or taken out); the proxies keep their channels, their clients, and the connections to nodes.
//!
//! ```text
//!            routes, reads, reached             facts
//!   manager ───────> Succession ──────> proxies ──────> Succession ──────> manager
//!                       └── `numbers`: what each side calls a node, an epoch, a version
//!
//!   replaced by:  await_next (facts wait, routes stay) ─> the old one stops, the new one starts ─> attach
//! ```

mod numbers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use manager::Inherited;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;
use topology::fact::Fact;
use topology::reads::Reached;
use topology::routes::Routes;
use topology::settings::NodeSettings;

pub use self::numbers::TooMany;
use self::numbers::{Numbers, Port};

/// Facts of the proxies that may wait to be passed on.
const FACTS_MAX: usize = 1024;

/// What a manager and the proxies exchange.
#[derive(Clone)]
struct Ends {
    routes: watch::Receiver<Arc<Routes>>,
    reads: watch::Receiver<Arc<Routes>>,
    reached: watch::Receiver<Arc<Reached>>,
    /// When its first decision is not awaited any longer.
    until: Instant,
    /// Which manager it is: the number of those before it.
    number: u64,
}

struct State {
    /// The number of the present manager, or of the next one while there is none. What another one says is not in these numbers.
    manager: u64,
    numbers: Numbers,
    /// Of the port for reads, whose lanes have epochs of their own.
    reads: Numbers,
    /// To the present manager; `None` while there is none.
    facts: Option<mpsc::Sender<Fact>>,
}

/// See the head of this file.
pub struct Succession {
    state: Arc<Mutex<State>>,
    ends: watch::Sender<Option<Ends>>,
    /// When the managers' clock began; times in `reached` count from here.
    pub origin: Instant,
    /// For the proxies: who may be spoken to.
    pub routes: watch::Receiver<Arc<Routes>>,
    /// For the port for reads.
    pub reads: watch::Receiver<Arc<Routes>>,
    /// For the port for reads: up to where the primary was.
    pub reached: watch::Receiver<Arc<Reached>>,
    /// For what the proxies see.
    pub facts: mpsc::Sender<Fact>,
}

/// Its ends for the proxies.
struct ToProxies {
    routes: watch::Sender<Arc<Routes>>,
    reads: watch::Sender<Arc<Routes>>,
    reached: watch::Sender<Arc<Reached>>,
}

impl Succession {
    /// Begins with the first manager, which has these nodes. To be called inside of the proxies' runtime.
    pub fn start(manager: &manager::Handles, nodes: &[NodeSettings]) -> Result<Self, TooMany> {
        let mut state = State {
            manager: 0,
            numbers: Numbers::new(Port::Writes),
            reads: Numbers::new(Port::Reads),
            facts: Some(manager.facts.clone()),
        };
        state.numbers.next_manager(nodes)?;
        state.reads.next_manager(nodes)?;
        let first = |numbers: &mut Numbers, routes: &watch::Receiver<Arc<Routes>>| {
            let routes = routes.borrow().clone();
            numbers.routes(&routes, true).map_or(routes, |(routes, _)| routes)
        };
        let (to_proxies, routes) = watch::channel(first(&mut state.numbers, &manager.routes));
        let (reads_to_proxies, reads) = watch::channel(first(&mut state.reads, &manager.reads));
        let (reached_to_proxies, reached) = watch::channel(manager.reached.borrow().clone());
        let state = Arc::new(Mutex::new(state));
        let (facts, seen) = mpsc::channel(FACTS_MAX);
        let (ends, present) = watch::channel(Some(Ends::of(manager, 0, Duration::ZERO)));
        let to = ToProxies { routes: to_proxies, reads: reads_to_proxies, reached: reached_to_proxies };
        tokio::spawn(pass_on_facts(state.clone(), seen));
        tokio::spawn(pass_on_routes(state.clone(), present, to));
        Ok(Self { state, ends, origin: manager.started, routes, reads, reached, facts })
    }

    /// Nodes that sessions use, and that are not among `nodes`.
    pub fn in_use_without(&self, nodes: &[NodeSettings]) -> Vec<String> {
        let state = lock(&self.state);
        let mut names = state.numbers.in_use_without(nodes);
        for name in state.reads.in_use_without(nodes) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The present manager is about to be replaced by one with these nodes. Its routes stay in force, and facts wait. Gives what the next one
    /// takes over of the connections and of the clock.
    pub fn await_next(&self, nodes: &[NodeSettings]) -> Result<Inherited, TooMany> {
        let mut state = lock(&self.state);
        state.numbers.next_manager(nodes)?;
        state.reads.next_manager(nodes)?;
        state.manager += 1;
        state.facts = None;
        self.ends.send_replace(None);
        Ok(Inherited {
            write_links: state.numbers.has_links(nodes),
            read_links: state.reads.has_links(nodes),
            started: Some(self.origin),
            ..Inherited::default()
        })
    }

    /// The next manager has started. Its first decision is awaited for so long; then its routes are passed on as they are.
    pub fn attach(&self, manager: &manager::Handles, patience: Duration) {
        let mut state = lock(&self.state);
        state.facts = Some(manager.facts.clone());
        self.ends.send_replace(Some(Ends::of(manager, state.manager, patience)));
    }
}

impl Ends {
    fn of(manager: &manager::Handles, number: u64, patience: Duration) -> Self {
        let mut ends = Self {
            routes: manager.routes.clone(),
            reads: manager.reads.clone(),
            reached: manager.reached.clone(),
            until: Instant::now() + patience,
            number,
        };
        ends.routes.mark_changed();
        ends.reads.mark_changed();
        ends.reached.mark_changed();
        ends
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the proxies to the present manager, until the proxies have ended.
async fn pass_on_facts(state: Arc<Mutex<State>>, mut seen: mpsc::Receiver<Fact>) {
    while let Some(fact) = seen.recv().await {
        // In the manager's numbers and to that manager: nothing may come between.
        let passed_on = {
            let mut state = lock(&state);
            let fact = match fact {
                Fact::Reads(fact) => state.reads.fact(*fact).map(|fact| Fact::Reads(Box::new(fact))),
                fact => state.numbers.fact(fact),
            };
            state.facts.clone().zip(fact)
        };
        if let Some((manager, fact)) = passed_on {
            // An error means that this manager has ended.
            let _ = manager.send(fact).await;
        }
    }
}

/// From the present manager to the proxies, until nobody can replace it any more.
async fn pass_on_routes(state: Arc<Mutex<State>>, mut present: watch::Receiver<Option<Ends>>, to: ToProxies) {
    loop {
        let ends = present.borrow_and_update().clone();
        let replaced = match ends {
            Some(ends) => tokio::select! {
                replaced = present.changed() => replaced,
                () = pass_on_from(&state, ends, &to) => present.changed().await,
            },
            None => present.changed().await,
        };
        if replaced.is_err() {
            return;
        }
    }
}

/// From one manager, until it has ended or is to be replaced.
async fn pass_on_from(state: &Mutex<State>, mut ends: Ends, to: &ToProxies) {
    let mut is_late = false;
    loop {
        tokio::select! {
            biased;
            changed = ends.routes.changed() => if changed.is_err() { return },
            changed = ends.reads.changed() => if changed.is_err() { return },
            changed = ends.reached.changed() => {
                if changed.is_err() {
                    return;
                }
                let reached = ends.reached.borrow_and_update().clone();
                let reached = {
                    let state = lock(state);
                    if state.manager != ends.number {
                        return;
                    }
                    state.reads.reached(&reached)
                };
                to.reached.send_replace(Arc::new(reached));
                continue;
            }
            () = sleep_until(ends.until.into()), if !is_late => is_late = true,
        }
        let (manager, facts) = {
            let mut state = lock(state);
            if state.manager != ends.number {
                return;
            }
            let (routes, reads) =
                (ends.routes.borrow_and_update().clone(), ends.reads.borrow_and_update().clone());
            let mut facts = Vec::new();
            if let Some((routes, told)) = state.numbers.routes(&routes, is_late) {
                to.routes.send_replace(routes);
                facts.extend(told);
            }
            if let Some((reads, told)) = state.reads.routes(&reads, is_late) {
                to.reads.send_replace(reads);
                facts.extend(told.into_iter().map(|fact| Fact::Reads(Box::new(fact))));
            }
            (state.facts.clone(), facts)
        };
        if let Some(manager) = manager {
            for fact in facts {
                // An error means that this manager has ended.
                let _ = manager.send(fact).await;
            }
        }
    }
}

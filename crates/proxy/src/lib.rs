//! The data plane: one task for each client.
//!
//! ```text
//!   client ──> listener ──> frontend (login) ──> driver ───────────────> backend ──> node
//!                                                 │  ▲                     │
//!                             hold (no lane open) ┘  └ session (decides)   └ relay (streams the answer back)
//!                               ▲
//!                Routes ──> door (one owner: lanes, hold queue) ──> ProxyFact::Quiesced
//! ```
//!
//! Enters: client connections and [`topology::routes::Routes`]. Leaves: statements to nodes, and [`topology::fact::ProxyFact`]s about what the
//! traffic has seen. The proxy decides nothing about the cluster.

mod activity;
mod attachment;
mod backend;
mod commits;
mod door;
mod driver;
mod ending;
pub mod error_reply;
mod feed;
mod frontend;
mod hints;
mod identity;
mod kill;
mod kills;
mod lane;
mod listener;
mod live_duration;
mod password_errors;
mod priming;
pub mod proxy_header;
mod reads;
mod registry;
mod relay;
mod send;
mod settings;
mod shared;
mod stats;
mod tap;
mod unread;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::proxy::Busy;
use session::hold_queue::QueueLimits;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use topology::fact::ProxyFact;
use topology::routes::Routes;

pub use activity::Tied;
pub use api::proxy::{SplitStats, Stats};
// The simulation of tests/model counts leases by it.
#[doc(hidden)]
pub use lane::occupancy;
pub use live_duration::LiveDuration;
pub use reads::port::Reads;
pub use reads::replicas::Split;
pub use settings::{ClientTls, Settings};
pub use tap::{Tap, Wish};

/// The proxy's connections to the manager.
pub struct Inputs {
    /// From the manager; the newest value counts.
    pub routes: watch::Receiver<Arc<Routes>>,
    /// To the manager.
    pub facts: mpsc::Sender<ProxyFact>,
}

/// The proxy could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("{0}: {1}")]
    Listen(&'static str, listen::ListenError),
    /// The system refused to use a socket that it had opened.
    #[error("a listening socket could not be used: {0}")]
    Socket(#[from] std::io::Error),
}

/// A running proxy.
pub struct Handle {
    shared: Arc<shared::Shared>,
    addresses: Vec<SocketAddr>,
    stop: watch::Sender<bool>,
    listeners: Vec<tokio::task::JoinHandle<()>>,
    door: tokio::task::AbortHandle,
    _replicas_door: Option<AbortOnDrop>,
    ended: watch::Receiver<bool>,
}

/// Aborts a task when it is dropped.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Binds every listener and begins to serve. Must be called inside a tokio runtime, which then carries all clients.
pub fn start(settings: Settings, inputs: Inputs) -> Result<Handle, StartError> {
    begin(settings, inputs, Also::default())
}

/// The same, with reads outside transactions running on replicas.
pub fn start_split(settings: Settings, inputs: Inputs, split: Split) -> Result<Handle, StartError> {
    begin(settings, inputs, Also { split: Some(split), ..Also::default() })
}

/// The same for the port for reads, which has lanes of its own.
pub fn start_reads(settings: Settings, inputs: Inputs, reads: Reads) -> Result<Handle, StartError> {
    let inputs = Inputs { facts: reads::port::forward(inputs.facts), ..inputs };
    begin(settings, inputs, Also { reads: Some(reads), ..Also::default() })
}

/// Optional parts of a proxy.
#[derive(Default)]
struct Also {
    reads: Option<Reads>,
    split: Option<Split>,
}

fn begin(settings: Settings, inputs: Inputs, Also { reads, split }: Also) -> Result<Handle, StartError> {
    let setting = if reads.is_some() { "listen.read" } else { "listen.mysql" };
    let sockets = listen::open(&settings.listen).map_err(|error| StartError::Listen(setting, error))?;
    let sockets = sockets.into_iter().map(TcpListener::from_std).collect::<std::io::Result<Vec<_>>>()?;
    let addresses = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
    let limits = hold_limits(&settings);
    let stats = Arc::new(stats::Counts::default());
    let (door, door_task) = door::Door::start(limits, inputs.routes, inputs.facts.clone(), stats.clone());
    let (stop, stopped) = watch::channel(false);
    let replicas = split.map(|split| {
        let facts = reads::port::forward(inputs.facts.clone());
        // No statement waits for these lanes: a read that finds no replica runs on the primary.
        let (door, task) = door::Door::start(limits, split.routes, facts.clone(), Arc::default());
        (reads::replicas::Replicas::new(door, facts, split.wait_max), task)
    });
    let mut shared = shared::Shared::new(settings, door, inputs.facts, stats, stopped);
    let mut replicas_door = replicas.map(|(replicas, task)| {
        shared.replicas = Some(Arc::new(replicas));
        task
    });
    if let Some(reads) = reads {
        shared.only_read(reads);
    }
    let is_for_reads = shared.reads.is_some();
    let shared = Arc::new(shared);
    if !is_for_reads {
        commits::watch(&shared);
    }
    let listeners =
        sockets.into_iter().map(|socket| tokio::spawn(listener::serve(socket, shared.clone()))).collect();
    let door = door_task.abort_handle();
    let abort_replicas_door = replicas_door.as_ref().map(|task| AbortOnDrop(task.abort_handle()));
    let (tell, ended) = watch::channel(false);
    tokio::spawn(async move {
        // The task never ends by itself. Without it, new routes would be ignored, and nodes that were given up would stay in use.
        let ended = match replicas_door.as_mut() {
            Some(other) => tokio::select! {
                ended = door_task => ended,
                ended = other => ended,
            },
            None => door_task.await,
        };
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!("the task that follows the routes has ended with a panic");
        }
        tell.send_replace(true);
    });
    Ok(Handle { shared, addresses, stop, listeners, door, _replicas_door: abort_replicas_door, ended })
}

fn hold_limits(settings: &Settings) -> QueueLimits {
    QueueLimits {
        time: settings.hold_time,
        statements_max: settings.hold_statements_max,
        bytes_max: settings.hold_bytes_max,
        release_at_once: settings.release_at_once,
    }
}

impl Handle {
    /// Puts other settings in force, except [`Settings::listen`] and [`Settings::writers_all`], which stay as they were at the start.
    /// Statements that wait already keep their deadlines, and clients that are connected stay, even if there are too many now;
    /// [`Settings::retain_bytes_max`] holds for clients that log in from now on. `wait_max`: what was given as [`Reads::wait_max`].
    pub fn apply(&self, settings: Settings, wait_max: Duration) {
        self.shared.door.set_limits(hold_limits(&settings));
        if let Some(reads) = &self.shared.reads {
            reads.wait_max.set(wait_max);
        }
        self.shared.apply(settings);
    }

    /// Changes what was given as [`Split::wait_max`].
    pub fn set_split_wait(&self, wait_max: Duration) {
        if let Some(replicas) = &self.shared.replicas {
            replicas.wait_max.set(wait_max);
        }
    }

    /// The addresses on which clients can connect.
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The counters.
    pub async fn stats(&self) -> Stats {
        self.shared.snapshot().await
    }

    /// The interface for listeners to finished reads.
    pub fn tap(&self) -> Tap {
        self.shared.tap.clone()
    }

    /// A cheap handle for [`Handle::stats`].
    pub fn stats_reader(&self) -> StatsReader {
        StatsReader(self.shared.clone())
    }

    /// A cheap handle that knows whether clients are accepted.
    pub fn listening(&self) -> Listening {
        Listening(self.listeners.iter().map(tokio::task::JoinHandle::abort_handle).collect())
    }

    /// Resolves when the task that follows the routes has ended by itself. That never happens unless there is a bug, and the proxy must
    /// then not be used any more.
    pub fn broken(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            // An error means that the sender is gone, too.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// Takes no new clients, lets running transactions end for at most `grace`, then closes every client.
    pub async fn shutdown(self, grace: Duration) {
        self.stop.send_replace(true);
        for listener in self.listeners {
            listener.abort();
            // The socket is closed only when its task has ended, and the next proxy may need the address.
            let _ = listener.await;
        }
        let quiet = self.shared.no_clients();
        if tokio::time::timeout(grace, quiet).await.is_err() {
            tracing::warn!(
                "clients were still in a transaction after {} s of grace: closing them",
                grace.as_secs_f32()
            );
        }
        self.door.abort();
    }
}

/// See [`Handle::listening`].
#[derive(Clone, Debug, Default)]
pub struct Listening(Vec<tokio::task::AbortHandle>);

impl Listening {
    /// Whether every listener accepts clients; none does once the proxy shuts down.
    pub fn is_open(&self) -> bool {
        self.0.iter().all(|listener| !listener.is_finished())
    }
}

/// See [`Handle::stats_reader`].
#[derive(Clone)]
pub struct StatsReader(Arc<shared::Shared>);

impl StatsReader {
    /// The counters.
    pub async fn stats(&self) -> Stats {
        self.0.snapshot().await
    }

    /// The same without its sessions, at no cost that grows with them.
    pub async fn counted(&self) -> Stats {
        self.0.counted().await
    }

    /// The interface for listeners to finished reads.
    pub fn tap(&self) -> Tap {
        self.0.tap.clone()
    }

    /// Whether a statement would find an open lane now, without waiting; an `Err` says why not.
    pub fn flows(&self) -> Result<(), String> {
        self.0.door.flows()
    }

    /// All sessions that cannot move.
    pub fn tied(&self) -> Vec<Tied> {
        self.0.registry.tied()
    }

    /// All sessions whose clients have not read for a while, and whether cutting their results changes nothing.
    pub fn unread(&self) -> Vec<(Busy, bool)> {
        self.0.registry.unread()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::{mpsc, watch};
    use topology::Term;
    use topology::routes::Routes;

    use super::*;

    #[tokio::test]
    async fn the_end_of_the_task_that_follows_the_routes_is_seen() {
        let routes = Routes {
            version: 1,
            term: Term(1),
            lanes: Vec::new(),
            hold_because: Some("the test says so".into()),
            greeting: None,
            accounts: Arc::default(),
            catalogue: None,
        };
        let (_routes, routes) = watch::channel(Arc::new(routes));
        let (facts, _seen) = mpsc::channel(1);
        let settings = Settings {
            passwords: std::sync::Arc::default(),
            listen: vec!["127.0.0.1:0".into()],
            hold_time: Duration::from_secs(1),
            hold_statements_max: 1,
            hold_bytes_max: 1,
            release_at_once: 1,
            connect_timeout: Duration::from_secs(1),
            tls: None,
            certificate_expires_unix_s: None,
            monitor: link::Login::with_password("monitor", ""),
            node_tls: None,
            proxy_header_from: [].into(),
            node_compression: None,
            node_proxy_header: None,
            login_timeout: Duration::from_secs(1),
            client_idle_max: Duration::ZERO,
            retain_bytes_max: 1,
            resends_max: 1,
            suspect_time: Duration::ZERO,
            password_errors_max: 0,
            password_error_pause: Duration::ZERO,
            client_connections_max: 1,
            writers_all: false,
        };
        let handle = start(settings, Inputs { routes, facts }).unwrap();
        let mut broken = Box::pin(handle.broken());
        assert!(tokio::time::timeout(Duration::ZERO, &mut broken).await.is_err());
        handle.door.abort();
        assert!(tokio::time::timeout(Duration::from_secs(10), broken).await.is_ok());
    }
}

//! The accept loops, and how many connections each kind of listener takes at the same time.
//!
//! Each kind of listener has its own slots, so that many clients at one do not shut out the clients of the others. When all slots are
//! taken, the connection that has been silent for longest is closed, and so is one that has sent no request yet. A new client then has
//! [`BEYOND_TIME_MAX`] for its request and is closed after its answer; at most [`BEYOND_MAX`] such clients are served at the same time, and
//! the others wait in the listener's queue.
//!
//! [`BEYOND_TIME_MAX`]: super::BEYOND_TIME_MAX

use std::future::poll_fn;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::respond::Responder;

/// The greatest limit of HTTP connections that can be configured.
pub const CONNECTIONS_MAX: u64 = 16_384;
/// The limit of agent checks, and the limit of connections on unix sockets.
pub const ASIDE_MAX: u64 = 256;
/// Beyond the limit, each kind of listener serves this many more clients, each within a short time.
pub const BEYOND_MAX: u64 = 64;
/// The pause after accept() has failed for lack of file descriptors, and between two checks for a free slot.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Such failures are logged at most this often.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(10);

/// One kind of listener, and its connections.
pub struct Entrance {
    pub responder: Arc<Responder>,
    open: AtomicU64,
    open_max: u64,
    /// Wakes one idle kept-open connection, which then closes since its slot is needed. The one that has waited longest is woken first.
    pub wanted: Notify,
}

/// The next client of a listener, for [`take_in`].
pub fn clients(
    listener: TcpListener,
) -> io::Result<impl FnMut(&mut Context<'_>) -> Poll<io::Result<tokio::net::TcpStream>>> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(move |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream))
}

/// Accepts clients while there is room, and passes each one to `welcome`.
pub async fn take_in<S>(
    entrance: Arc<Entrance>,
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    welcome: impl Fn(S, &Arc<Entrance>),
) {
    let mut trouble = Trouble::default();
    loop {
        entrance.room().await;
        match poll_fn(&mut next).await {
            Ok(stream) => welcome(stream, &entrance),
            Err(error) => trouble.pause(&error).await,
        }
    }
}

/// Limits the log of a listener whose accept() fails.
#[derive(Default)]
struct Trouble {
    logged_at: Option<Instant>,
}

impl Trouble {
    async fn pause(&mut self, error: &io::Error) {
        if self.logged_at.is_none_or(|at| at.elapsed() > COMPLAINT_PAUSE) {
            tracing::warn!("a client could not be accepted, it waits: {error}");
            self.logged_at = Some(Instant::now());
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

/// One connection in the counters, until it is dropped.
pub struct ConnectionSlot {
    pub entrance: Arc<Entrance>,
    /// All regular slots are taken.
    pub is_beyond: bool,
}

impl ConnectionSlot {
    pub fn take(entrance: &Arc<Entrance>) -> Self {
        let counts = &entrance.responder.counts;
        counts.accepted.fetch_add(1, Relaxed);
        counts.open.fetch_add(1, Relaxed);
        let is_beyond = entrance.open.fetch_add(1, Relaxed) >= entrance.open_max;
        if is_beyond {
            counts.beyond.fetch_add(1, Relaxed);
            entrance.wanted.notify_one();
        }
        Self { entrance: entrance.clone(), is_beyond }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.entrance.open.fetch_sub(1, Relaxed);
        self.entrance.responder.counts.open.fetch_sub(1, Relaxed);
    }
}

impl Entrance {
    pub fn new(responder: Arc<Responder>, open_max: u64) -> Self {
        Self { responder, open: AtomicU64::new(0), open_max, wanted: Notify::new() }
    }

    /// Checks after each `after`, and returns at the first check at which all slots are taken.
    pub async fn crowded(&self, after: Duration) {
        loop {
            tokio::time::sleep(after).await;
            if self.open.load(Relaxed) >= self.open_max {
                return;
            }
        }
    }

    /// Waits while so many clients beyond the limit are being served that the program would run out of descriptors: a new client then waits
    /// in the listener's queue.
    async fn room(&self) {
        while self.open.load(Relaxed) >= self.open_max + BEYOND_MAX {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

//! Who gets in: the accept loops, and how many connections each kind of door takes at once.
//!
//! Each kind of door has places of its own, so that no crowd at one shuts the others. Where they are all taken, the connection that has
//! been silent for longest makes room, and so does who has asked nothing yet; a new client then has [`BEYOND_TIME_MAX`] to ask and is closed after its answer, [`BEYOND_MAX`]
//! of those at once, and the others wait in the listener's queue.
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

/// As many connections at once are enough.
pub const CONNECTIONS_MAX: u64 = 16_384;
/// And so many agent checks, and programs of this machine.
pub const ASIDE_MAX: u64 = 256;
/// And at each of these doors so many more, in a hurry.
pub const BEYOND_MAX: u64 = 64;
/// When accepting fails for want of file descriptors, waiting a moment is better than spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// And telling it now and then is better than telling it each time.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(10);

/// One kind of door, and those who came through it.
pub struct Entrance {
    pub responder: Arc<Responder>,
    open: AtomicU64,
    open_max: u64,
    /// Whoever is silent on a kept connection waits for this, too: the place is wanted. Who waits longest hears it first.
    pub wanted: Notify,
}

/// The next client of a listener, for [`take_in`].
pub fn clients(
    listener: TcpListener,
) -> io::Result<impl FnMut(&mut Context<'_>) -> Poll<io::Result<tokio::net::TcpStream>>> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(move |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream))
}

/// Accepts for ever, while there is room, and gives each client to `welcome`.
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

/// A listener that cannot accept.
#[derive(Default)]
struct Trouble {
    told: Option<Instant>,
}

impl Trouble {
    async fn pause(&mut self, error: &io::Error) {
        if self.told.is_none_or(|at| at.elapsed() > COMPLAINT_PAUSE) {
            tracing::warn!("a client could not be accepted, it waits: {error}");
            self.told = Some(Instant::now());
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

/// One connection more, until it is dropped.
pub struct ConnectionSlot {
    pub entrance: Arc<Entrance>,
    /// All others are taken.
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

    /// Resolves when all places are taken, at the earliest after this time and as soon again.
    pub async fn crowded(&self, after: Duration) {
        loop {
            tokio::time::sleep(after).await;
            if self.open.load(Relaxed) >= self.open_max {
                return;
            }
        }
    }

    /// Waits while so many are being told that they are too many, that the program itself would be short of descriptors: a new client
    /// then waits in the listener's queue.
    async fn room(&self) {
        while self.open.load(Relaxed) >= self.open_max + BEYOND_MAX {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

//! Limits the connections of the HTTP listeners, in total and for one client address, and chooses which connection is closed for a new one.
//!
//! ```text
//!   accept ──> ConnectionSlots::take ──> a slot ──> Guarded (the socket) ──> hyper ──> mark_answering ──> a handler
//!                  └─ full: one that does not read, or the oldest, is closed; if none may be, the new one is refused with 503
//! ```
//!
//! A connection on which an authenticated request is being answered, or a stream is read, is not closed for another. One that waits for its
//! client may be: for a request or the rest of one, or for the client to read an answer that does not fit into the socket's buffer. So may
//! one with a request without the key.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::{AddExtension, Next};
use axum::response::Response;
use axum_server::accept::Accept;
use futures_util::StreamExt;
use futures_util::task::AtomicWaker;
use listen::log_limit::LogLimit;
use tokio::net::TcpStream;
use tower_layer::Layer;

use crate::guarded::Guarded;

/// The longest time for which a client may leave an answer of known length unread, when it no longer fits into the socket's buffer.
pub const UNREAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Refused clients are logged at most this often.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// The answer to a client without a slot.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// How many connections the listeners of one server keep at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Of all clients together.
    pub connections_max: usize,
    /// Of one client address.
    pub per_address_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { connections_max: 256, per_address_max: 64 }
    }
}

/// The connections of one server, all its listeners together.
pub struct ConnectionSlots {
    limits: ConnectionLimits,
    open: Mutex<Vec<Arc<Connection>>>,
    /// That a client was refused.
    refused: LogLimit,
}

/// What is known of one connection. Shared by its socket, its requests and [`ConnectionSlots`].
pub struct Connection {
    address: IpAddr,
    began: Instant,
    /// It keeps its slot: an authenticated request is being answered, or a stream is read.
    is_answering: AtomicBool,
    /// A write waits for the client to read.
    is_blocked: AtomicBool,
    /// Its slot was given to another connection.
    is_cut: AtomicBool,
    /// The longest that a write may wait, in milliseconds; 0: for ever.
    unread_max_ms: AtomicU64,
    waker: AtomicWaker,
}

/// A connection's slot, given back when this is dropped.
pub struct ConnectionSlot {
    /// The connection.
    pub connection: Arc<Connection>,
    slots: Arc<ConnectionSlots>,
}

/// How long the client may leave this answer unread: an extension of a response whose body has no known length. Without it there is
/// no limit for such an answer.
#[derive(Clone, Copy)]
pub struct UnreadMax(pub Duration);

impl ConnectionSlots {
    /// No connection yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default(), refused: LogLimit::new(WARN_EVERY) })
    }

    /// A slot for a client of that address, if need be that of another connection; `None` when none of them may be closed.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = open.len() >= self.limits.connections_max;
        let of_address = open.iter().filter(|other| other.address == address).count();
        let is_address_full = of_address >= self.limits.per_address_max;
        if is_full || is_address_full {
            let candidates = open.iter().enumerate();
            let candidates = candidates.filter(|(_, other)| !is_address_full || other.address == address);
            let movable = candidates.filter_map(|(at, other)| Some((at, other.turn_to_go()?)));
            let (at, _) = movable.min_by_key(|(_, turn)| *turn)?;
            open.swap_remove(at).cut();
        }
        let connection = Arc::new(Connection::new(address));
        open.push(Arc::clone(&connection));
        Some(ConnectionSlot { connection, slots: Arc::clone(self) })
    }

    fn refuse(&self, stream: &TcpStream, address: IpAddr, is_plain: bool) {
        if is_plain {
            // What was asked is read away, since closing a socket with unread bytes may overtake the answer. Neither is waited for.
            let _ = stream.try_read(&mut [0; 4096]);
            let _ = stream.try_write(REFUSAL);
        }
        if self.refused.now(Instant::now()).is_some() {
            let ConnectionLimits { connections_max, per_address_max } = self.limits;
            tracing::warn!(
                "an HTTP connection from {address} was refused: there are {per_address_max} from it, or {connections_max} in all, and each is being answered"
            );
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.slots.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|other| !Arc::ptr_eq(other, &self.connection));
    }
}

impl Connection {
    fn new(address: IpAddr) -> Self {
        Self {
            address,
            began: Instant::now(),
            is_answering: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            unread_max_ms: AtomicU64::new(UNREAD_TIME_MAX.as_millis() as u64),
            waker: AtomicWaker::new(),
        }
    }

    /// Keeps its slot until its answer has been made: the request is authenticated, or reads a stream.
    pub fn hold(&self) {
        self.is_answering.store(true, Relaxed);
    }

    /// Whether a write waits for the client now.
    pub fn set_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Relaxed);
    }

    /// The longest that a write may wait; `None`: for ever.
    pub fn unread_max(&self) -> Option<Duration> {
        let ms = self.unread_max_ms.load(Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Whether its slot was given to another connection. The task is woken when that happens.
    pub fn is_cut(&self, context: &std::task::Context<'_>) -> bool {
        self.waker.register(context.waker());
        self.is_cut.load(Relaxed)
    }

    /// The lowest is closed first: connections whose clients do not read their answers, then the oldest, so that a flood closes its own
    /// connections before those of later clients that are answered soon. `None`: it keeps its slot.
    fn turn_to_go(&self) -> Option<(bool, Instant)> {
        let is_blocked = self.is_blocked.load(Relaxed);
        let is_held = self.is_answering.load(Relaxed) && !is_blocked;
        (!is_held).then_some((!is_blocked, self.began))
    }

    fn cut(&self) {
        self.is_cut.store(true, Relaxed);
        self.waker.wake();
    }
}

/// Gives each accepted socket a slot, or refuses it.
#[derive(Clone)]
pub struct Admission {
    /// Those of the server.
    pub slots: Arc<ConnectionSlots>,
    /// No TLS: a refusal can be said in HTTP.
    pub is_plain: bool,
}

impl<S: Send + 'static> Accept<TcpStream, S> for Admission {
    type Stream = Guarded;
    type Service = AddExtension<S, Arc<Connection>>;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let admitted = stream.peer_addr().and_then(|peer| {
            let address = peer.ip().to_canonical();
            let place = self.slots.take(address).ok_or_else(|| {
                self.slots.refuse(&stream, address, self.is_plain);
                io::Error::from(io::ErrorKind::QuotaExceeded)
            })?;
            let service = Extension(Arc::clone(&place.connection)).layer(service);
            Ok((Guarded::new(stream, place), service))
        });
        Box::pin(std::future::ready(admitted))
    }
}

/// The answer that a connection was held for ends when this is dropped.
struct Answering(Arc<Connection>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.is_answering.store(false, Relaxed);
    }
}

/// A middleware around all handlers: the connection may be closed for another again when the answer has been made, or when a stream has
/// ended.
pub async fn mark_answering(
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
    next: Next,
) -> Response {
    connection.unread_max_ms.store(UNREAD_TIME_MAX.as_millis() as u64, Relaxed);
    let answering = Answering(Arc::clone(&connection));
    let response = next.run(request).await;
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    connection.hold();
    // A stream: it is answered for as long as it is read, and its route says how long it may stand still.
    let patience = response.extensions().get::<UnreadMax>().map_or(0, |max| max.0.as_millis() as u64);
    connection.unread_max_ms.store(patience, Relaxed);
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |part| {
            let _held_until_the_end = &answering;
            part
        }))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    fn busy(place: &ConnectionSlot) {
        place.connection.is_answering.store(true, Relaxed);
    }

    #[test]
    fn who_waits_for_longest_makes_room_and_who_is_answered_does_not() {
        let slots = ConnectionSlots::new(ConnectionLimits { connections_max: 3, per_address_max: 2 });
        let (first, second) = (slots.take(HERE).unwrap(), slots.take(HERE).unwrap());
        busy(&first);
        let third = slots.take(HERE).unwrap();
        let is_cut = |place: &ConnectionSlot| place.connection.is_cut.load(Relaxed);
        assert!(!is_cut(&first) && is_cut(&second), "the address is full, and the first is being answered");
        busy(&third);
        assert!(slots.take(HERE).is_none(), "each is being answered");
        let there = slots.take(THERE).unwrap();
        assert!(slots.take(THERE).is_some() && is_cut(&there), "all are taken, and one waits");
        first.connection.set_blocked(true);
        assert!(slots.take(HERE).is_some() && is_cut(&first), "its answer is not read");
    }

    #[test]
    fn a_place_is_given_back_once() {
        let slots = ConnectionSlots::new(ConnectionLimits { connections_max: 1, per_address_max: 1 });
        let first = slots.take(HERE).unwrap();
        let second = slots.take(THERE).unwrap();
        busy(&second);
        drop(first);
        assert!(slots.take(HERE).is_none(), "the first had no place any more to give back");
        drop(second);
        assert!(slots.take(HERE).is_some());
        assert!(slots.open.lock().unwrap().is_empty());
    }
}

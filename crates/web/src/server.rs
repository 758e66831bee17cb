//! The listeners: plain HTTP and HTTPS, with limits on how many connect (`slots`) and on how long each may take.
//!
//! Enters: addresses and a [`Control`]. Leaves: a [`Server`] that serves until it is stopped. Everything that can fail
//! fails in [`start`], before the first request.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::Request;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use listen::ListenError;
use rustls::ServerConfig;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::Control;
use crate::api;
use crate::key::Keys;
use crate::slots::{Admission, ConnectionLimits, ConnectionSlots, mark_answering};
use crate::state::Kept;

/// Longest time a request's head may take to arrive, and a kept-open connection may be silent.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest request head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Where and how to listen.
pub struct Settings {
    /// Plain listeners, `host:port`.
    pub http: Vec<String>,
    /// TLS listeners, `host:port`.
    pub https: Vec<String>,
    /// The TLS configuration; required with TLS listeners.
    pub tls: Option<Arc<ServerConfig>>,
    /// The keys of the API.
    pub keys: Keys,
    /// The budget of orders that carry none.
    pub budget: Duration,
    /// Limits of connections.
    pub limits: ConnectionLimits,
}

/// The running listeners.
pub struct Server {
    handle: Handle<SocketAddr>,
    http: Vec<SocketAddr>,
    https: Vec<SocketAddr>,
    tasks: Vec<JoinHandle<io::Result<()>>>,
    /// Answers new requests; requests in progress keep the router that they began with.
    router: Arc<ArcSwap<Router>>,
    /// The configuration of the TLS listeners; `None` when there are none.
    tls: Option<RustlsConfig>,
    kept: Kept,
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// HTTPS without a certificate.
    #[error("listen.https is set but there is no certificate to show")]
    NoCertificate,
    /// The system refused an operation on a socket that it had opened.
    #[error("a listening socket could not be used: {0}")]
    Socket(#[from] io::Error),
}

/// Opens all listeners and serves the API on them. Must be called inside a tokio runtime.
pub fn start<C: Control>(settings: Settings, control: Arc<C>) -> Result<Server, StartError> {
    let kept = Kept::default();
    let router = api::router(control, settings.keys, settings.budget, kept.clone());
    let server = serve(router, &settings.http, &settings.https, settings.tls, settings.limits)?;
    Ok(Server { kept, ..server })
}

/// Opens all listeners and serves `router` on them. Must be called inside a tokio runtime.
pub fn serve(
    router: Router,
    http: &[String],
    https: &[String],
    tls: Option<Arc<ServerConfig>>,
    limits: ConnectionLimits,
) -> Result<Server, StartError> {
    let slots = ConnectionSlots::new(limits);
    let present = Arc::new(ArcSwap::from_pointee(router));
    let router = passing_on(Arc::clone(&present)).layer(axum::middleware::from_fn(mark_answering));
    let tls = tls.map(RustlsConfig::from_config);
    let plain = listen::open(http)?;
    let secure = listen::open(https)?;
    let addresses =
        |all: &[TcpListener]| all.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
    let (http, https) = (addresses(&plain)?, addresses(&secure)?);
    let handle = Handle::new();
    let mut tasks = Vec::new();
    for listener in plain {
        let admission = Admission { slots: Arc::clone(&slots), is_plain: true };
        let mut server =
            axum_server::from_tcp(listener)?.acceptor(admission).handle(handle.clone()).http1_only();
        limit(server.http_builder());
        tasks.push(tokio::spawn(server.serve(router.clone().into_make_service())));
    }
    for listener in secure {
        let tls = tls.clone().ok_or(StartError::NoCertificate)?;
        let admission = Admission { slots: Arc::clone(&slots), is_plain: false };
        let acceptor = RustlsAcceptor::new(tls).handshake_timeout(HANDSHAKE_TIME_MAX).acceptor(admission);
        let mut server =
            axum_server::from_tcp(listener)?.acceptor(acceptor).handle(handle.clone()).http1_only();
        limit(server.http_builder());
        tasks.push(tokio::spawn(server.serve(router.clone().into_make_service())));
    }
    Ok(Server { handle, http, https, tasks, router: present, tls, kept: Kept::default() })
}

/// Passes each request on to the present router.
fn passing_on(present: Arc<ArcSwap<Router>>) -> Router {
    Router::new().fallback(move |request: Request| {
        let router = Router::clone(&present.load());
        router.oneshot(request)
    })
}

/// Sets the limits of every connection.
fn limit(builder: &mut Builder<TokioExecutor>) {
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX).max_buf_size(HEAD_BYTES_MAX);
}

impl Server {
    /// Answers requests with these from now on; the listeners and their connections stay. `tls`: the configuration for new TLS connections.
    pub fn replace<C: Control>(
        &self,
        control: Arc<C>,
        keys: Keys,
        budget: Duration,
        tls: Option<Arc<ServerConfig>>,
    ) {
        self.router.store(Arc::new(api::router(control, keys, budget, self.kept.clone())));
        if let (Some(listening), Some(tls)) = (&self.tls, tls) {
            listening.reload_from_config(tls);
        }
    }

    /// The plain addresses that are listened on.
    pub fn http(&self) -> &[SocketAddr] {
        &self.http
    }

    /// The TLS addresses that are listened on.
    pub fn https(&self) -> &[SocketAddr] {
        &self.https
    }

    /// Takes no new requests, lets the running ones end within `grace`, then cuts them.
    pub async fn shutdown(self, grace: Duration) {
        self.handle.graceful_shutdown(Some(grace));
        for task in self.tasks {
            match task.await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::warn!("an HTTP listener ended with an error: {e}"),
                Err(e) => tracing::error!("an HTTP listener's task broke: {e}"),
            }
        }
    }
}

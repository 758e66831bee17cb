//! The listeners: HTTP over TCP and over a unix socket, and the agent check. All of them run on one dedicated thread.
//!
//! ```text
//!   listener --accept (a slot, or the queue)--> http (requests of one connection) --> respond (a request to its bytes)
//!                                           \--> agent_check (one line of one connection)
//! ```

mod accept;
mod agent_check;
mod counts;
mod http;
mod reply;
mod respond;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::task::Context;
use std::thread::JoinHandle;

use tokio::sync::watch;
use topology::health::Rules;

pub use self::accept::{ASIDE_MAX, BEYOND_MAX, CONNECTIONS_MAX};
pub use self::counts::Counts;
pub use self::http::{
    BEYOND_TIME_MAX, HEAD_TIME_MAX, IDLE_TIME_MAX, LINE_TIME_MAX, PLAIN_TIME_MAX, SILENT_TIME_MAX,
};
pub use self::reply::WRITE_TIME_MAX;
pub use self::respond::Answerer;

use self::accept::{Entrance, clients, take_in};
use self::respond::Responder;
use crate::Source;
use crate::style::Style;

/// The listeners and their settings.
pub struct Settings {
    /// Listeners for HTTP, and for input that is not HTTP.
    pub http: Vec<TcpListener>,
    /// The same on unix sockets, for programs on this machine.
    pub unix: Vec<UnixListener>,
    /// Listeners for HAProxy's agent check.
    pub agent: Vec<TcpListener>,
    /// The style of the answers.
    pub style: Style,
    /// The rules for questions without rules of their own.
    pub rules: Rules,
    /// The source has several nodes: an agent check must name one, an incomplete request gets a 503, and an unknown path a 404.
    pub several_nodes: bool,
    /// The limit of HTTP connections, at most [`CONNECTIONS_MAX`]. It must be less than the limit of file descriptors, or no new client can
    /// be accepted. In addition there may be [`ASIDE_MAX`] agent checks and [`ASIDE_MAX`] connections on unix sockets, or as many as this
    /// limit if it is less.
    pub connections_max: u64,
}

/// The running listeners. They end when this is dropped.
pub struct Server {
    http: Vec<SocketAddr>,
    agent: Vec<SocketAddr>,
    counts: Arc<Counts>,
    responder: Arc<Responder>,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to serve, on a dedicated thread.
///
/// # Errors
/// When the system refuses a thread or a runtime, or a listener has no address or cannot be used without blocking.
pub fn start(settings: Settings, source: Arc<dyn Source>, counts: Arc<Counts>) -> io::Result<Server> {
    let addresses =
        |all: &[TcpListener]| all.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
    let (http, agent) = (addresses(&settings.http)?, addresses(&settings.agent)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, mut stopped) = watch::channel(());
    let responder = Arc::new(Responder {
        source,
        style: settings.style,
        rules: settings.rules,
        several_nodes: settings.several_nodes,
        counts: counts.clone(),
    });
    let entrance = |open_max| {
        let responder = responder.clone();
        Arc::new(Entrance::new(responder, open_max))
    };
    let aside_max = settings.connections_max.min(ASIDE_MAX);
    let (front, aside, back) = (entrance(settings.connections_max), entrance(aside_max), entrance(aside_max));
    {
        let _inside = runtime.enter();
        for listener in settings.http {
            runtime.spawn(take_in(front.clone(), clients(listener)?, http::welcome));
        }
        for listener in settings.unix {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::UnixListener::from_std(listener)?;
            let next = move |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream);
            runtime.spawn(take_in(back.clone(), next, http::welcome));
        }
        for listener in settings.agent {
            runtime.spawn(take_in(aside.clone(), clients(listener)?, agent_check::welcome));
        }
    }
    let thread = std::thread::Builder::new().name("health".into()).spawn(move || {
        runtime.block_on(async {
            // Ends when the sender is dropped.
            while stopped.changed().await.is_ok() {}
        });
    })?;
    Ok(Server { http, agent, counts, responder, stop: Some(stop), thread: Some(thread) })
}

impl Server {
    /// The addresses for HTTP.
    pub fn http(&self) -> &[SocketAddr] {
        &self.http
    }

    /// The addresses of the agent check.
    pub fn agent(&self) -> &[SocketAddr] {
        &self.agent
    }

    /// The counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// An [`Answerer`], for requests that another server of this program receives.
    pub fn answerer(&self) -> Answerer {
        Answerer(self.responder.clone())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing. If it has panicked, nothing can be repaired here.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;

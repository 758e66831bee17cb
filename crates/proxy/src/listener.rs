//! Accepts clients and gives each a task of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use listen::log_limit::LogLimit;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::driver;
use crate::error_reply;
use crate::proxy_header;
use crate::shared::Shared;

/// When accepting fails because there are no file descriptors, the next attempt is made after this pause.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Such failures are logged at most this often.
const FAILED_EVERY: Duration = Duration::from_secs(10);
/// A client whose host has vanished is disconnected after about 60 + 3 * 10 seconds, which frees its slot, its locks and its transaction.
/// It may be behind a slow network, and nobody waits for it as for a node. TCP_USER_TIMEOUT is not set: it also ends a client that lives and
/// reads nothing for that long, in the middle of a large result (Linux 6.18: after 2.3 s with a limit of 2 s).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Best effort: without these options, a client is served all the same.
fn prepare(stream: &TcpStream) {
    // Packets are small and alternate: waiting to fill a segment would only add delay.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Accepts for ever.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let failed = LogLimit::new(FAILED_EVERY);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let shared = shared.clone();
                tokio::spawn(welcome(stream, peer, shared));
            }
            Err(error) => {
                if let Some(more) = failed.now(Instant::now()) {
                    tracing::warn!(
                        "clients cannot be accepted, they wait: {error} ({more} attempts more failed since this was logged last)"
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn welcome(mut stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    // An IPv4 client of an IPv6 socket counts as an IPv4 client.
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    prepare(&stream);
    shared.counts.clients_total.fetch_add(1, Relaxed);
    let Some(place) = shared.take_place() else {
        shared.counts.error(error_reply::TOO_MANY_CLIENTS);
        let mut refusal = vec![];
        error_reply::TOO_MANY_CLIENTS.put(&mut refusal, 0, "");
        let _ = stream.write_all(&refusal).await;
        return;
    };
    let peer = if shared.sends_proxy_header(peer.ip()) {
        match Box::pin(announced(&mut stream, peer, &shared)).await {
            Some(peer) => peer,
            None => return,
        }
    } else {
        peer
    };
    let login = shared.logins.take(peer.ip());
    driver::run(stream, peer, shared.clone(), login).await;
    drop(place);
}

/// Where a client of a balancer comes from; `None` when that did not say so, and was told.
async fn announced(stream: &mut TcpStream, balancer: SocketAddr, shared: &Shared) -> Option<SocketAddr> {
    let within = shared.login_timeout();
    let why = match tokio::time::timeout(within, proxy_header::read(stream)).await {
        Ok(Ok(Some(client))) => return Some(SocketAddr::new(client.ip().to_canonical(), client.port())),
        Ok(Ok(None)) => return Some(balancer),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
        // Gone, as a balancer that only looks whether the port is open.
        Ok(Err(_)) => return None,
        Err(_) => format!("nothing came in {} s", within.as_secs_f64()),
    };
    let detail = format!(
        "no PROXY header ({why}), and listen.proxy_header_from says that connections from {} begin with one",
        balancer.ip()
    );
    if let Some(kept_back) = shared.refusal.now(Instant::now()) {
        tracing::warn!("a client was refused: {detail} ({kept_back} refusals more were not told)");
    }
    shared.counts.error(error_reply::MALFORMED);
    let mut refusal = vec![];
    error_reply::MALFORMED.put(&mut refusal, 0, &detail);
    let _ = stream.write_all(&refusal).await;
    None
}

#[cfg(test)]
mod tests {
    /// What is rare and larger has a box of its own.
    const TASK_BYTES_MAX: usize = 8 * 1024;

    use std::net::Ipv4Addr;

    use super::*;

    /// Of the future that a function gives.
    fn size_of_future<A, B, C, F: Future>(_: fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_clients_task_is_small() {
        let (task, driver) = (size_of_future(welcome), driver::size());
        println!("a client's task: {task} bytes, its driver: {driver} bytes");
        assert!(task + driver <= TASK_BYTES_MAX, "{task} + {driver} bytes for each client, also an idle one");
    }

    #[tokio::test]
    async fn a_client_that_vanished_is_noticed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        prepare(&stream);
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
    }
}

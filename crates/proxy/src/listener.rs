//! Accepts clients, on IPv4 and IPv6, and gives each a task of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

use crate::driver;
use crate::shared::Shared;
use crate::voice;

/// Connections the kernel keeps until they are accepted.
const BACKLOG: i32 = 1024;
/// When accepting fails for want of file descriptors, waiting a moment is better than spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// A client whose host has vanished gives back its place, its locks and its transaction after about 60 + 3 * 10 seconds: it may
/// be behind a slow network, and nobody waits for it as for a node.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Everything that `address` resolves to.
pub async fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = tokio::net::lookup_host(address).await?.collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "the name resolves to no address"));
    }
    Ok(found)
}

/// Listens on `address`, one of `all`. `[::]` takes IPv4 too, unless an IPv4 address of the same port stands beside it.
pub fn bind(address: SocketAddr, all: &[SocketAddr]) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        let has_v4_beside = all.iter().any(|other| other.is_ipv4() && other.port() == address.port());
        socket.set_only_v6(!address.ip().is_unspecified() || has_v4_beside)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Best effort: a client is served without, too.
fn prepare(stream: &TcpStream) {
    // Small packets back and forth: waiting to fill a segment would only add delay.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Accepts for ever.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let shared = shared.clone();
                tokio::spawn(welcome(stream, peer, shared));
            }
            Err(error) => {
                tracing::warn!("a client could not be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn welcome(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    // An IPv4 client of an IPv6 socket is an IPv4 client.
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    prepare(&stream);
    shared.counts.clients_total.fetch_add(1, Relaxed);
    let Some(place) = shared.take_place() else {
        shared.counts.error(voice::TOO_MANY_CLIENTS);
        let mut refusal = vec![];
        voice::TOO_MANY_CLIENTS.put(&mut refusal, 0, "");
        let mut stream = stream;
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &refusal).await;
        return;
    };
    driver::run(stream, peer, shared.clone()).await;
    drop(place);
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[tokio::test]
    async fn all_addresses_of_ipv6_stand_beside_one_of_ipv4() {
        let first = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &[]).unwrap();
        let v4 = first.local_addr().unwrap();
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, v4.port()));
        bind(v6, &[v4, v6]).unwrap();
    }

    #[tokio::test]
    async fn a_client_that_vanished_is_noticed() {
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &[]).unwrap();
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

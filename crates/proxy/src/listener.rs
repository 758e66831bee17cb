//! Accepts clients, on IPv4 and IPv6, and gives each a task of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::driver;
use crate::shared::Shared;
use crate::voice;

/// Connections the kernel keeps until they are accepted.
const BACKLOG: i32 = 1024;
/// When accepting fails for want of file descriptors, waiting a moment is better than spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Listens on every address that `address` resolves to. An IPv6 socket takes IPv6 only, so that `0.0.0.0` and `[::]` can
/// stand side by side.
pub async fn bind(address: &str) -> io::Result<Vec<TcpListener>> {
    let mut listeners = vec![];
    for address in tokio::net::lookup_host(address).await? {
        listeners.push(bind_one(address)?);
    }
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "the name resolves to no address"));
    }
    Ok(listeners)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
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
    // Small packets back and forth: waiting to fill a segment would only add delay.
    let _ = stream.set_nodelay(true);
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

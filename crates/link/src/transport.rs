//! The transport of a link: a TCP connection or a unix socket, plain or under TLS, behind one type.
//!
//! Enters and leaves: bytes. Besides reading and writing it can be checked (has the peer ended it?), closed in one direction, closed
//! from another task, and closed with a reset. Only methods that say so wait. The end of the connection is seen without consuming
//! bytes that have not been read yet.
//!
//! ```text
//!   Transport ──┬─ Socket (socket.rs)   what the kernel does
//!               ├─ Tls (tls.rs)         between the socket and what is above; none while the connection is plain
//!               └─ Compression          (compression.rs) between those and whoever reads and writes; none of most connections
//! ```

mod codec;
mod compression;
mod socket;
mod tls;

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use socket2::Socket as Descriptor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

pub use self::codec::Codec;
pub use self::compression::Side;
use self::compression::{Below, Compression};
use self::socket::Socket;
use self::tls::{SendPieces, Tls};
use crate::Buffer;

/// How often the end of the connection is looked for while unread bytes hide it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// See the head of this file.
#[derive(Debug)]
pub struct Transport {
    socket: Socket,
    tls: Option<Box<Tls>>,
    compression: Option<Box<Compression>>,
}

impl Transport {
    /// Goes on under TLS, as the server. `received`: what the client has sent already, behind its request for TLS. An error says why
    /// there is no TLS; the connection is of no use then.
    pub async fn accept_tls(&mut self, config: Arc<ServerConfig>, received: &mut Buffer) -> io::Result<()> {
        let tls = self.tls.insert(Box::new(Tls::server(config)?));
        tls.take_in(&self.socket, received)?;
        poll_fn(|context| tls.poll_handshake(&self.socket, context)).await
    }

    /// Goes on under TLS, as the client of the server `name`.
    pub async fn connect_tls(
        &mut self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<()> {
        let tls = self.tls.insert(Box::new(Tls::client(config, name)?));
        poll_fn(|context| tls.poll_handshake(&self.socket, context)).await
    }

    /// Goes on with compressed packets, which begin behind a login. `side`: this one; `None` of bytes that are no packets. `received`: what the peer has
    /// sent already.
    pub fn compress(&mut self, codec: Codec, side: Option<Side>, received: &mut Buffer) {
        self.compression = Some(Box::new(Compression::new(codec, received, side)));
    }

    /// Towards a server: what is written next begins a command. It is written apart from the one before, since a server counts compressed
    /// packets anew with each.
    pub fn begin_command(&self) {
        if let Some(compression) = &self.compression {
            compression.begin_command();
        }
    }

    fn below(&self) -> Below<'_> {
        Below { socket: &self.socket, tls: self.tls.as_deref() }
    }

    /// The version of TLS and the cipher suite, as `TLSv1.3 TLS13_AES_256_GCM_SHA384`; `None` of a plain connection.
    pub fn tls_in_use(&self) -> Option<String> {
        self.tls.as_ref()?.in_use()
    }

    /// Whether the peer has shown a certificate, which was looked at; `None` of a connection that is not under TLS.
    pub fn has_peer_certificate(&self) -> Option<bool> {
        Some(self.tls.as_ref()?.has_peer_certificate())
    }

    /// Waits until there is something to read, or the end. Consumes no bytes, holds no buffer meanwhile, and takes no place in a list of
    /// those who wait: for the one task that reads. Cancel safe.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| {
            if self.poll_has_unpacked(context) {
                return Poll::Ready(Ok(()));
            }
            match &self.tls {
                None => self.socket.poll_read_ready(context),
                Some(tls) => tls.poll_waiting_bytes(&self.socket, context).map_ok(|_| ()),
            }
        })
        .await
    }

    /// Whether something was received that is still to be read as plain bytes. What waits to be sent is sent meanwhile.
    fn poll_has_unpacked(&self, context: &mut Context<'_>) -> bool {
        self.compression.as_ref().is_some_and(|compression| {
            // Where that fails, what the peer has said before can still be read.
            let _ = compression.poll_send(self.below(), context);
            compression.has_received()
        })
    }

    /// Waits until something can be written. Cancel safe.
    pub async fn writable(&self) -> io::Result<()> {
        if let Some(compression) = &self.compression {
            return poll_fn(|context| compression.poll_send_some(self.below(), context)).await;
        }
        if let Some(tls) = &self.tls {
            return poll_fn(|context| tls.poll_send_some(&self.socket, context)).await;
        }
        self.socket.writable().await
    }

    /// Writes what the kernel takes at once; [`io::ErrorKind::WouldBlock`] when that is nothing. Under TLS the last 16 KiB may wait to be
    /// sent, and the last 64 KiB of a compressed connection: they are, whenever something is waited for on it; 0 means that some of those have
    /// gone, and none of these.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_bare() {
            self.socket.try_write(bytes)
        } else {
            self.write_pieces(&mut [IoSlice::new(bytes)], Socket::try_write_vectored)
        }
    }

    /// Whether nothing is between the socket and whoever writes.
    fn is_bare(&self) -> bool {
        self.tls.is_none() && self.compression.is_none()
    }

    fn write_pieces(&self, pieces: &mut [IoSlice<'_>], send: SendPieces) -> io::Result<usize> {
        match (&self.compression, &self.tls) {
            (Some(compression), _) => compression.write(self.below(), pieces, send),
            (None, Some(tls)) => tls.write(&self.socket, pieces, send),
            (None, None) => send(&self.socket, pieces),
        }
    }

    /// [`Transport::try_write`] of two pieces, one behind the other.
    pub fn try_write_both(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        self.write_pieces(&mut [IoSlice::new(first), IoSlice::new(second)], Socket::try_write_vectored)
    }

    /// Like [`Transport::try_write`], but asks the kernel itself. It calls a socket writable only when a third of its buffer is free, and a
    /// peer that reads slowly needs seconds for that; this takes whatever fits as soon as anything does.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write_pieces(&mut [IoSlice::new(bytes)], Socket::write_first_now)
    }

    /// Whether the peer has closed the connection (or only its own direction of it) or reset it, though bytes of it may wait to be
    /// read. No system call: it is what the kernel has told the runtime so far.
    pub fn has_hung_up(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_ended()) || self.socket.has_hung_up()
    }

    /// Whether bytes wait to be read, or the peer has ended the connection, as far as the kernel has told the runtime. No system call where
    /// neither was told. What TLS says for itself (session tickets, new keys) is nothing to be read.
    pub fn has_something(&self) -> bool {
        self.poll_has_bytes(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Resolves when [`Transport::has_hung_up`] is so: at once where no bytes wait to be read, and within a quarter of a second
    /// otherwise. Waited for beside each statement: as long as nothing comes it costs no system call, and no place in a list of those who
    /// wait. Cancel safe.
    pub async fn until_hung_up(&self) {
        while poll_fn(|context| self.poll_has_bytes(context)).await && !self.has_hung_up() {
            let _ = tokio::time::timeout(LOOK_EVERY, self.send_on()).await;
        }
    }

    /// Sends what waits to be sent; never ends.
    async fn send_on(&self) {
        let _ = poll_fn(|context| self.poll_send_all(context)).await;
        std::future::pending().await
    }

    fn poll_send_all(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(compression) = &self.compression {
            ready!(compression.poll_send(self.below(), context))?;
        }
        match &self.tls {
            None => Poll::Ready(Ok(())), // a socket holds nothing back
            Some(tls) => tls.poll_send(&self.socket, context),
        }
    }

    /// Whether something that was written waits to be sent: never of a bare socket, as a kernel sends what it has taken.
    pub fn has_unsent(&self) -> bool {
        self.compression.as_ref().is_some_and(|compression| compression.has_unsent())
            || self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Whether the connection should be ended, and made anew, when that disturbs nobody: the key of TLS 1.2 has been used for long.
    pub fn is_worn(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_worn())
    }

    /// Sends what waits to be sent, and the end of TLS. Nothing of a plain connection waits.
    pub async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_finish(context)).await
    }

    fn poll_finish(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_all(context))?;
        match &self.tls {
            None => Poll::Ready(Ok(())),
            Some(tls) => tls.poll_say_end(&self.socket, context),
        }
    }

    /// Ready when bytes wait to be read, which stay where they are (`true`), or none will come any more (`false`).
    fn poll_has_bytes(&self, context: &mut Context<'_>) -> Poll<bool> {
        if self.poll_has_unpacked(context) {
            return Poll::Ready(true);
        }
        match &self.tls {
            None => self.socket.poll_has_bytes(context),
            Some(tls) => {
                let waiting = ready!(tls.poll_waiting_bytes(&self.socket, context));
                Poll::Ready(waiting.is_ok_and(|bytes| bytes > 0))
            }
        }
    }

    /// A handle that closes the connection from another task. It needs a file descriptor of its own.
    pub fn cutter(&self) -> io::Result<Cutter> {
        Ok(Cutter(self.socket.descriptor().try_clone()?))
    }

    /// Whether nobody can listen: it is under TLS, or a unix socket.
    pub fn is_private(&self) -> bool {
        self.tls.is_some() || matches!(self.socket, Socket::Unix(_))
    }

    /// Our own address, of a TCP connection.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_address()
    }

    /// Makes the coming close a reset: what our kernel has not sent yet is thrown away, and the peer is told at once. (A unix socket is
    /// closed as ever: its bytes are already with the peer.)
    pub fn reset_on_close(&self) {
        // Should it fail, the connection is closed all the same.
        let _ = self.socket.descriptor().set_linger(Some(Duration::ZERO));
    }
}

impl From<TcpStream> for Transport {
    fn from(stream: TcpStream) -> Self {
        Transport { socket: Socket::Tcp(stream), tls: None, compression: None }
    }
}

impl From<UnixStream> for Transport {
    fn from(stream: UnixStream) -> Self {
        Transport { socket: Socket::Unix(stream), tls: None, compression: None }
    }
}

impl AsyncRead for Transport {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Transport { socket, tls, compression } = self.get_mut();
        if let Some(compression) = compression {
            let below = Below { socket, tls: tls.as_deref() };
            let _ = compression.poll_send(below, cx);
            return compression
                .poll_read(cx, room, |cx, room| poll_read_below(socket, tls.as_deref(), cx, room));
        }
        poll_read_below(socket, tls.as_deref(), cx, room)
    }
}

impl AsyncWrite for Transport {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_bare() {
            return self.get_mut().socket.poll_write(cx, bytes);
        }
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Transport { socket, tls, compression } = self.get_mut();
        match (compression, tls) {
            (None, None) => socket.poll_write_vectored(cx, pieces),
            (None, Some(tls)) => tls.poll_write(socket, cx, pieces),
            (Some(compression), tls) => {
                compression.poll_write(Below { socket, tls: tls.as_deref() }, cx, pieces)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send_all(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_finish(cx))?;
        self.get_mut().socket.poll_shutdown(cx)
    }
}

#[inline]
fn poll_read_below(
    socket: &mut Socket,
    tls: Option<&Tls>,
    context: &mut Context<'_>,
    room: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    match tls {
        None => socket.poll_read(context, room),
        Some(tls) => tls.poll_read(socket, context, room),
    }
}

/// Closes a connection from outside the task that uses it.
#[derive(Debug)]
pub struct Cutter(Descriptor);

impl Cutter {
    /// Ends the connection in both directions, now: whoever reads it sees its end, whoever writes fails. What our kernel holds is
    /// still sent. One that broke by itself before is left as it is.
    pub fn cut(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// The same, and what our kernel has not sent is thrown away, as is what was not read: a server that is given up must not wake up later
    /// and run it. It is told by a reset, at once. (A unix socket's bytes are already with the peer.)
    pub fn discard(&self) {
        // An association that is dissolved, connect(2): of a TCP connection, at once.
        if rustix::net::connect_unspec(&self.0).is_err() {
            self.cut();
        }
    }
}

#[cfg(test)]
mod tests;

//! The transport of a link: a TCP connection or a unix socket, behind one type.
//!
//! Enters and leaves: bytes. Besides reading and writing it can be checked (has the peer ended it?), closed in one direction, closed
//! from another task, and closed with a reset. Only methods that say so wait. The end of the connection is seen without consuming
//! bytes that have not been read yet.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::net::SendFlags;
use socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// How often the end of the connection is looked for while unread bytes hide it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// See the head of this file.
#[derive(Debug)]
pub enum Transport {
    /// Over the network.
    Tcp(TcpStream),
    /// To a server on this host.
    Unix(UnixStream),
}

impl Transport {
    async fn ready(&self) -> io::Result<Ready> {
        match self {
            Transport::Tcp(stream) => stream.ready(Interest::READABLE).await,
            Transport::Unix(stream) => stream.ready(Interest::READABLE).await,
        }
    }

    fn socket(&self) -> SockRef<'_> {
        match self {
            Transport::Tcp(stream) => SockRef::from(stream),
            Transport::Unix(stream) => SockRef::from(stream),
        }
    }

    /// Waits until there is something to read, or the end. Consumes no bytes, holds no buffer meanwhile, and takes no place in a list of
    /// those who wait: for the one task that reads. Cancel safe.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_read_ready(context)).await
    }

    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Tcp(stream) => stream.poll_read_ready(context),
            Transport::Unix(stream) => stream.poll_read_ready(context),
        }
    }

    /// Waits until something can be written. Cancel safe.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Transport::Tcp(stream) => stream.writable().await,
            Transport::Unix(stream) => stream.writable().await,
        }
    }

    /// Writes what the kernel takes at once; [`io::ErrorKind::WouldBlock`] when that is nothing.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(stream) => stream.try_write(bytes),
            Transport::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// [`Transport::try_write`] of two pieces, one behind the other.
    pub fn try_write_both(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let pieces = [IoSlice::new(first), IoSlice::new(second)];
        match self {
            Transport::Tcp(stream) => stream.try_write_vectored(&pieces),
            Transport::Unix(stream) => stream.try_write_vectored(&pieces),
        }
    }

    /// Like [`Transport::try_write`], but asks the kernel itself. It calls a socket writable only when a third of its buffer is free, and a
    /// peer that reads slowly needs seconds for that; this takes whatever fits as soon as anything does.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(&*self.socket(), bytes, flags)?)
    }

    /// Whether the peer has closed the connection (or only its own direction of it) or reset it, though bytes of it may wait to be
    /// read. No system call: it is what the kernel has told the runtime so far.
    pub fn has_hung_up(&self) -> bool {
        let ready = pin!(self.ready());
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready.is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    /// Whether bytes wait to be read, or the peer has ended the connection, as far as the kernel has told the runtime. No system call where
    /// neither was told.
    pub fn has_something(&self) -> bool {
        self.poll_has_bytes(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Resolves when [`Transport::has_hung_up`] is so: at once where no bytes wait to be read, and within a quarter of a second
    /// otherwise. Waited for beside each statement: as long as nothing comes it costs no system call, and no place in a list of those who
    /// wait. Cancel safe.
    pub async fn until_hung_up(&self) {
        while poll_fn(|context| self.poll_has_bytes(context)).await && !self.has_hung_up() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Ready when bytes wait to be read, which stay where they are (`true`), or none will come any more (`false`).
    fn poll_has_bytes(&self, context: &mut Context<'_>) -> Poll<bool> {
        loop {
            if ready!(self.poll_read_ready(context)).is_err() {
                return Poll::Ready(false);
            }
            let peek = || self.socket().peek(&mut [MaybeUninit::uninit()]);
            let peeked = match self {
                Transport::Tcp(stream) => stream.try_io(Interest::READABLE, peek),
                Transport::Unix(stream) => stream.try_io(Interest::READABLE, peek),
            };
            match peeked {
                // The readiness was that of bytes which have been read since.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                peeked => return Poll::Ready(matches!(peeked, Ok(bytes) if bytes > 0)),
            }
        }
    }

    /// A handle that closes the connection from another task. It needs a file descriptor of its own.
    pub fn cutter(&self) -> io::Result<Cutter> {
        Ok(Cutter(self.socket().try_clone()?))
    }

    /// Our port, of a TCP connection.
    pub fn local_port(&self) -> Option<u16> {
        match self {
            Transport::Tcp(stream) => stream.local_addr().ok().map(|address| address.port()),
            Transport::Unix(_) => None,
        }
    }

    /// Makes the coming close a reset: what our kernel has not sent yet is thrown away, and the peer is told at once. (A unix socket is
    /// closed as ever: its bytes are already with the peer.)
    pub fn reset_on_close(&self) {
        // Should it fail, the connection is closed all the same.
        let _ = self.socket().set_linger(Some(Duration::ZERO));
    }
}

impl From<TcpStream> for Transport {
    fn from(stream: TcpStream) -> Self {
        Transport::Tcp(stream)
    }
}

impl From<UnixStream> for Transport {
    fn from(stream: UnixStream) -> Self {
        Transport::Unix(stream)
    }
}

impl AsyncRead for Transport {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Tcp(stream) => Pin::new(stream).poll_read(cx, room),
            Transport::Unix(stream) => Pin::new(stream).poll_read(cx, room),
        }
    }
}

impl AsyncWrite for Transport {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Transport::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Closes a connection from outside the task that uses it.
#[derive(Debug)]
pub struct Cutter(Socket);

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

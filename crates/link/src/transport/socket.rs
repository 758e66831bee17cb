//! A TCP connection or a unix socket: what the kernel does for a [`super::Transport`].

use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use rustix::net::{RecvFlags, SendFlags};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// See the head of this file. Its methods are the streams' own; where they differ from these, they say so.
#[derive(Debug)]
pub(super) enum Socket {
    /// Over the network.
    Tcp(TcpStream),
    /// To a server on this host.
    Unix(UnixStream),
}

/// The same call on either stream.
macro_rules! on_either {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

impl Socket {
    pub(super) fn descriptor(&self) -> SockRef<'_> {
        on_either!(self, stream => SockRef::from(stream))
    }

    async fn ready(&self) -> io::Result<Ready> {
        on_either!(self, stream => stream.ready(Interest::READABLE).await)
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        on_either!(self, stream => stream.writable().await)
    }

    pub(super) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => stream.poll_read_ready(context))
    }

    pub(super) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => stream.poll_write_ready(context))
    }

    /// Where fewer bytes came than there was room for, the socket is empty: the runtime is told so, as its own `poll_read` does, which saves
    /// a system call to learn it.
    pub(super) fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut last = None;
        let mut read = || {
            let read = rustix::net::recv(&*self.descriptor(), &mut *room, RecvFlags::DONTWAIT)?.1;
            if read == 0 || read == room.len() {
                return Ok(read);
            }
            last = Some(read);
            Err(io::ErrorKind::WouldBlock.into())
        };
        let tried = on_either!(self, stream => stream.try_io(Interest::READABLE, &mut read));
        last.map_or(tried, Ok)
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        on_either!(self, stream => stream.try_write(bytes))
    }

    pub(super) fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        on_either!(self, stream => stream.try_write_vectored(pieces))
    }

    /// Asks the kernel, whatever the runtime knows of it.
    pub(super) fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(&*self.descriptor(), bytes, flags)?)
    }

    /// [`Socket::write_now`] of the first piece that is not empty.
    pub(super) fn write_first_now(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_now(pieces.iter().find(|piece| !piece.is_empty()).map_or(&[], |piece| piece))
    }

    /// See [`super::Transport::has_hung_up`].
    pub(super) fn has_hung_up(&self) -> bool {
        let ready = pin!(self.ready());
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready.is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    /// Ready when bytes wait to be read, which stay where they are (`true`), or none will come any more (`false`).
    pub(super) fn poll_has_bytes(&self, context: &mut Context<'_>) -> Poll<bool> {
        loop {
            if ready!(self.poll_read_ready(context)).is_err() {
                return Poll::Ready(false);
            }
            let peek = || self.descriptor().peek(&mut [MaybeUninit::uninit()]);
            match on_either!(self, stream => stream.try_io(Interest::READABLE, peek)) {
                // The readiness was that of bytes which have been read since.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                peeked => return Poll::Ready(matches!(peeked, Ok(bytes) if bytes > 0)),
            }
        }
    }

    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    #[inline]
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => Pin::new(stream).poll_read(cx, room))
    }

    #[inline]
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_either!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    #[inline]
    pub(super) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_either!(self, stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

//! A client's socket that is closed when its slot is given to another connection, and when the client leaves its answer unread for too long.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::slots::ConnectionSlot;

/// See the head of this file. Dropping it gives the slot back.
pub struct Guarded {
    stream: TcpStream,
    place: ConnectionSlot,
    /// Runs while a write waits for the client.
    unread: Option<Pin<Box<Sleep>>>,
}

impl Guarded {
    /// A socket that was just accepted.
    pub fn new(stream: TcpStream, place: ConnectionSlot) -> Self {
        Self { stream, place, unread: None }
    }

    fn check(&self, context: &Context<'_>) -> io::Result<()> {
        match self.place.connection.is_cut(context) {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    /// Passes on the result of a write, and limits how long a write may wait for the client.
    fn written<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let connection = &self.place.connection;
        connection.set_blocked(result.is_pending());
        if result.is_ready() {
            self.unread = None;
            return result;
        }
        let Some(unread_max) = connection.unread_max() else { return Poll::Pending };
        let unread = self.unread.get_or_insert_with(|| Box::pin(sleep(unread_max)));
        ready!(unread.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

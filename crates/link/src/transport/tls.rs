//! TLS between a socket and whoever reads and writes: ciphertext on one side, plaintext on the other.
//!
//! rustls does the protocol and no I/O; this moves its bytes. Two rules make it fit a [`super::Transport`]:
//!
//! - Whatever is waited for, what waits to be sent is sent meanwhile. So a write is done when its bytes are encrypted; the ciphertext of at
//!   most one write waits ([`WRITE_BYTES_MAX`] of plaintext), and the next write waits for that.
//! - Whether something can be read is asked of the plaintext, never of the socket: a session ticket or a change of keys is no answer of
//!   the peer's.
//!
//! A peer that closes without `close_notify` has closed all the same: the packets of the protocol have lengths, so that a cut is seen.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use tokio::io::ReadBuf;
use tokio::task::coop;

use super::socket::Socket;
use crate::Buffer;

/// What one write takes.
const WRITE_BYTES_MAX: usize = 16 * 1024;
/// Reads of the socket in one poll: a peer whose bytes give nothing to read must not keep the thread to itself.
const READS_PER_POLL_MAX: usize = 16;
/// Under TLS 1.2 a key of AES-GCM may encrypt 2^24 records (rustls' `confidentiality_limit`); rustls then says the end and drops what is
/// written. TLS 1.3 takes a new key by itself. Behind the first number a connection should be ended between two statements, behind the second
/// it is.
pub(super) const RECORDS_WORN: u64 = 1 << 23;
pub(super) const RECORDS_MAX: u64 = (1 << 24) - 16;

/// How the ciphertext is written.
pub(super) type SendPieces = fn(&Socket, &[IoSlice<'_>]) -> io::Result<usize>;

/// The state of TLS on one connection. A lock, as some questions are asked through a shared reference; it is never waited for, since one
/// task uses a connection.
pub(super) struct Tls(Mutex<State>);

struct State {
    connection: Connection,
    /// The peer has said that it sends nothing more, or the socket has ended.
    has_ended: bool,
    /// Records that were written, if there is a limit for them.
    records: u64,
    /// Bytes of ciphertext have gone since a write said so.
    has_gone_on: bool,
}

impl Tls {
    pub(super) fn server(config: Arc<ServerConfig>) -> io::Result<Tls> {
        Ok(Tls::of(ServerConnection::new(config).map_err(failed)?.into()))
    }

    pub(super) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Tls> {
        Ok(Tls::of(ClientConnection::new(config, name).map_err(failed)?.into()))
    }

    fn of(mut connection: Connection) -> Tls {
        connection.set_buffer_limit(Some(WRITE_BYTES_MAX));
        Tls(Mutex::new(State { connection, has_ended: false, records: 0, has_gone_on: false }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes ciphertext that was read from the socket already.
    pub(super) fn take_in(&self, socket: &Socket, received: &mut Buffer) -> io::Result<()> {
        let mut state = self.state();
        while !received.is_empty() {
            let taken = state.connection.read_tls(&mut received.bytes())?;
            received.consume(taken);
            state.process_or_tell(socket)?;
        }
        Ok(())
    }

    /// Ready when both sides have agreed.
    pub(super) fn poll_handshake(&self, socket: &Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        for _ in 0..READS_PER_POLL_MAX {
            ready!(state.poll_send(socket, context))?;
            if !state.connection.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if state.has_ended {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            ready!(state.poll_receive(socket, context))?;
        }
        again_later(context)
    }

    pub(super) fn in_use(&self) -> Option<String> {
        let state = self.state();
        let version = match state.connection.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLSv1.2",
        };
        Some(format!("{version} {:?}", state.connection.negotiated_cipher_suite()?.suite()))
    }

    pub(super) fn has_peer_certificate(&self) -> bool {
        self.state().connection.peer_certificates().is_some_and(|chain| !chain.is_empty())
    }

    /// Ready with the number of bytes that can be read at once; 0 when none will come any more.
    pub(super) fn poll_waiting_bytes(
        &self,
        socket: &Socket,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.state().poll_waiting_bytes(socket, context)
    }

    pub(super) fn poll_read(
        &self,
        socket: &Socket,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A peer that always has more must not keep the thread to itself.
        let turn = ready!(coop::poll_proceed(context));
        let mut state = self.state();
        if ready!(state.poll_waiting_bytes(socket, context))? > 0 {
            let read = state.connection.reader().read(room.initialize_unfilled())?;
            room.advance(read);
        }
        turn.made_progress();
        Poll::Ready(Ok(()))
    }

    /// Encrypts what there is room for and sends what goes at once. While earlier bytes have not all gone it takes none: 0 where some of those
    /// have gone since the last write, [`io::ErrorKind::WouldBlock`] where none have.
    pub(super) fn write(
        &self,
        socket: &Socket,
        mut pieces: &mut [IoSlice<'_>],
        send: SendPieces,
    ) -> io::Result<usize> {
        let mut state = self.state();
        let sent = state.send(socket, send);
        let has_gone_on = std::mem::take(&mut state.has_gone_on);
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && has_gone_on => return Ok(0),
            sent => sent?,
        }
        let mut taken_all = 0;
        while !pieces.is_empty() {
            let taken = state.encrypt(pieces)?;
            taken_all += taken;
            IoSlice::advance_slices(&mut pieces, taken);
            match state.send(socket, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                sent => sent?,
            }
        }
        Ok(taken_all)
    }

    pub(super) fn poll_write(
        &self,
        socket: &Socket,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        ready!(state.poll_send(socket, context))?;
        let taken = state.encrypt(pieces)?;
        match state.poll_send(socket, context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(taken)),
        }
    }

    /// Ready when nothing waits to be sent, or some of it has gone.
    pub(super) fn poll_send_some(&self, socket: &Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let sent = state.poll_send(socket, context);
        if state.has_gone_on { Poll::Ready(Ok(())) } else { sent }
    }

    /// Whether something waits to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.state().connection.wants_write()
    }

    /// Whether it should be ended soon: see [`RECORDS_WORN`].
    pub(super) fn is_worn(&self) -> bool {
        self.state().records > RECORDS_WORN
    }

    /// Ready when nothing waits to be sent.
    pub(super) fn poll_send(&self, socket: &Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state().poll_send(socket, context)
    }

    /// Tells the peer that nothing more comes.
    pub(super) fn poll_say_end(&self, socket: &Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        state.connection.send_close_notify();
        state.poll_send(socket, context)
    }

    /// As if it had written so many records.
    #[cfg(test)]
    pub(super) fn set_records(&self, records: u64) {
        self.state().records = records;
    }

    #[cfg(test)]
    pub(super) fn change_keys(&self) {
        self.state().connection.refresh_traffic_keys().unwrap();
    }

    /// As far as it was received.
    pub(super) fn has_ended(&self) -> bool {
        self.state().has_ended
    }
}

impl State {
    fn poll_waiting_bytes(&mut self, socket: &Socket, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Where that fails, what the peer has said before can still be read.
        let _ = self.poll_send(socket, context);
        for _ in 0..READS_PER_POLL_MAX {
            let waiting = self.process()?;
            if waiting > 0 || self.has_ended {
                return Poll::Ready(Ok(waiting));
            }
            ready!(self.poll_receive(socket, context))?;
        }
        again_later(context)
    }

    /// Reads from the socket once.
    fn poll_receive(&mut self, socket: &Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.connection.read_tls(&mut Incoming(socket)) {
                Ok(read) => {
                    self.has_ended |= read == 0;
                    return Poll::Ready(self.process_or_tell(socket));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(socket.poll_read_ready(context))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Decrypts what was received: the number of bytes that can be read.
    fn process(&mut self) -> io::Result<usize> {
        let state = self.connection.process_new_packets().map_err(failed)?;
        self.has_ended |= state.peer_has_closed();
        Ok(state.plaintext_bytes_to_read())
    }

    /// The same; where it fails, the peer is told why, if it can be.
    fn process_or_tell(&mut self, socket: &Socket) -> io::Result<()> {
        self.process().map(|_| ()).inspect_err(|_| {
            let _ = self.send(socket, Socket::try_write_vectored);
        })
    }

    fn encrypt(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.connection.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_2) {
            // One, as no more is taken at once than a record has room for.
            self.records += 1;
            if self.records > RECORDS_MAX {
                return Err(io::Error::other("a connection under TLS 1.2 may not go on for so long"));
            }
        }
        match pieces {
            [piece] => self.connection.writer().write(piece),
            // This allocates.
            pieces => self.connection.writer().write_vectored(pieces),
        }
    }

    fn send(&mut self, socket: &Socket, send: SendPieces) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Outgoing(socket, send)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => self.has_gone_on = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn poll_send(&mut self, socket: &Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.send(socket, Socket::try_write_vectored) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(socket.poll_write_ready(context))?;
                }
                sent => return Poll::Ready(sent),
            }
        }
    }
}

/// Others have their turn first.
fn again_later<T>(context: &Context<'_>) -> Poll<T> {
    context.waker().wake_by_ref();
    Poll::Pending
}

/// rustls' own words: they name the cause, as an unknown authority or a certificate that has expired.
fn failed(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

/// The socket as rustls reads from it.
struct Incoming<'a>(&'a Socket);

impl Read for Incoming<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(room)
    }
}

/// The socket as rustls writes to it.
struct Outgoing<'a>(&'a Socket, SendPieces);

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (self.1)(self.0, pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

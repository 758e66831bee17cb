//! Compression between the packets of the protocol and what carries them: frames of compressed bytes on one side, plain bytes on the other.
//!
//! ```text
//!   frame:  length of what follows the head, 3 bytes ─ number, 1 ─ length before compression, 3 (0: it is not compressed) ─ bytes
//! ```
//!
//! Frames have nothing to do with the bounds of packets, and each is compressed by itself. They are numbered from the command on, across both
//! directions, so the next one that is sent has the number after the last one that was received; a client says when a command begins. A frame is
//! unpacked no sooner than somebody reads: the answer to one of several commands that were sent at once is numbered as servers do it.
//!
//! Both sides number packets after the frames that came before: a server those of its answer, a client the next of a command that is longer than a
//! packet, and those of a file. Nobody else may see that, so all are numbered anew but the first of a command.
//!
//! A connection holds no codec while it waits: each thread keeps some, for frames of any connection.
//!
//! Source: MySQL's manual "Compression", MariaDB's "Compressed Packet".

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use protocol::packet::PAYLOAD_MAX;
use tokio::io::ReadBuf;

use super::codec::{Codec, Progress, Unpacker};
use super::socket::Socket;
use super::tls::{SendPieces, Tls};
use crate::Buffer;

const HEAD_LEN: usize = 7;
/// What one frame of ours holds before compression, in bytes: more makes it hardly smaller.
const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Shorter ones go as they are (`MIN_COMPRESS_LENGTH`).
const COMPRESSED_BYTES_MIN: usize = 50;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Compression {
    codec: Codec,
    received: Buffer,
    frame: Option<Frame>,
    /// A lock, as writing asks for a shared reference only; it is never waited for, since one task uses a connection.
    sending: Mutex<Sending>,
}

/// What is left of the frame at the front of what was received, its head consumed.
#[derive(Debug)]
struct Frame {
    /// Bytes on the wire.
    left: usize,
    /// Bytes before compression.
    plain_left: usize,
    /// `None`: it is not compressed.
    unpacker: Option<Unpacker>,
    /// The unpacker has nothing more to give before bytes come. (zstd's takes questions without bytes for a fault, after some.)
    is_dry: bool,
}

#[derive(Debug, Default)]
struct Sending {
    /// The number of the next frame.
    number: u8,
    /// Of a frame that did not go at once: what waits to be sent.
    unsent: Buffer,
    /// Bytes of it have gone since a write said so.
    has_gone_on: bool,
    /// `None`: the bytes are no packets.
    packets: Option<Packets>,
}

/// Which side of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Commands are sent.
    Client,
    /// Commands are received.
    Server,
}

/// The packets in both directions, of which one is under way at a time.
#[derive(Debug)]
struct Packets {
    side: Side,
    /// The number of the next one.
    next: u8,
    /// The number that the last one had that was received, if nothing was sent since.
    received_number: Option<u8>,
    /// That one goes on in the next.
    goes_on: bool,
    sent: Bounds,
    received: Bounds,
}

/// Where packets begin in bytes that come in pieces.
#[derive(Debug, Default)]
struct Bounds {
    /// Bytes of the head so far, and the length that they say.
    head: usize,
    len: usize,
    /// Bytes of the payload that are still to come.
    left: usize,
}

impl Packets {
    fn of(side: Side) -> Self {
        Self {
            side,
            next: 0,
            received_number: None,
            goes_on: false,
            sent: Bounds::default(),
            received: Bounds::default(),
        }
    }

    fn note_sent(&mut self, mut bytes: &[u8]) {
        while let Some(at) = self.sent.number(bytes) {
            self.next = bytes[at].wrapping_add(1);
            self.received_number = None;
            bytes = &bytes[at + 1..];
        }
    }

    fn renumber(&mut self, bytes: &mut [u8]) {
        let mut from = 0;
        while let Some(at) = self.received.number(&bytes[from..]) {
            let number = &mut bytes[from + at];
            // Behind 255 comes 0, also within a file.
            let follows = self.goes_on || self.received_number == Some(u8::MAX);
            let begins = self.side == Side::Server && *number == 0 && !follows;
            self.received_number = Some(*number);
            self.goes_on = self.received.left == PAYLOAD_MAX;
            if !begins {
                *number = self.next;
            }
            self.next = number.wrapping_add(1);
            from += at + 1;
        }
    }
}

impl Bounds {
    /// The place of the next packet's number in these bytes; what is behind it is not looked at. `None`: the bytes are passed wholly.
    fn number(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = self.left.min(bytes.len());
        self.left -= at;
        while let Some(&byte) = bytes.get(at) {
            if self.head == 3 {
                *self = Self { left: self.len, ..Self::default() };
                return Some(at);
            }
            self.len |= usize::from(byte) << (8 * self.head);
            self.head += 1;
            at += 1;
        }
        None
    }
}

/// What the frames go through.
#[derive(Clone, Copy)]
pub(super) struct Below<'a> {
    pub socket: &'a Socket,
    pub tls: Option<&'a Tls>,
}

impl Below<'_> {
    fn try_send(self, bytes: &[u8], send: SendPieces) -> io::Result<usize> {
        let mut pieces = [IoSlice::new(bytes)];
        match self.tls {
            None => send(self.socket, &pieces),
            Some(tls) => tls.write(self.socket, &mut pieces, send),
        }
    }

    fn poll_may_send(self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.tls {
            None => self.socket.poll_write_ready(context),
            Some(tls) => tls.poll_send_some(self.socket, context),
        }
    }
}

impl Compression {
    /// `received`: what the peer has sent already, in frames. `side`: this one; `None` of bytes that are no packets.
    pub(super) fn new(codec: Codec, received: &mut Buffer, side: Option<Side>) -> Self {
        let received = std::mem::take(received);
        let packets = side.map(Packets::of);
        let sending = Sending { packets, ..Sending::default() };
        Self { codec, received, frame: None, sending: Mutex::new(sending) }
    }

    /// The next frame is the first of a command.
    pub(super) fn begin_command(&self) {
        self.sending().number = 0;
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something was received that has not been read.
    pub(super) fn has_received(&self) -> bool {
        self.received.len() > self.tail_len() || self.frame.as_ref().is_some_and(|frame| frame.plain_left > 0)
    }

    /// Bytes at the end of a frame whose plain bytes were all read: the end of the codec's own form, which is nothing to be read.
    fn tail_len(&self) -> usize {
        self.frame.as_ref().filter(|frame| frame.plain_left == 0).map_or(0, |frame| frame.left)
    }

    /// Reads the plain bytes of one frame, or of a part of it. `receive` reads what is below.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
        receive: impl FnMut(&mut Context<'_>, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let before = room.filled().len();
        ready!(self.poll_read_frame(context, room, receive))?;
        let sending = self.sending.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(packets) = &mut sending.packets {
            packets.renumber(&mut room.filled_mut()[before..]);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read_frame(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
        mut receive: impl FnMut(&mut Context<'_>, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        loop {
            let before = room.filled().len();
            loop {
                match self.unpack(room) {
                    Ok(true) if room.filled().len() == before => {}
                    Ok(_) => break,
                    Err(error) => {
                        // A read that fails has read nothing.
                        room.set_filled(before);
                        return Poll::Ready(Err(error));
                    }
                }
            }
            if room.filled().len() > before || room.remaining() == 0 {
                if self.received.len() < self.tail_len() {
                    // Left to the kernel, it would look like something that the peer has said. What fails here fails again at the next read.
                    let _ = self.received.poll_fill(context, &mut receive);
                }
                return Poll::Ready(Ok(()));
            }
            let received = ready!(self.received.poll_fill(context, &mut receive))?;
            if received == 0 {
                let is_between = self.received.is_empty() && self.frame.is_none();
                let end = if is_between { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
                return Poll::Ready(end);
            }
        }
    }

    /// One step with what was received: a head, or a piece of a frame. Whether that led further.
    fn unpack(&mut self, room: &mut ReadBuf<'_>) -> io::Result<bool> {
        let Some(frame) = &mut self.frame else { return self.begin_frame() };
        let bytes = self.received.bytes();
        let bytes = &bytes[..bytes.len().min(frame.left)];
        if frame.is_dry && bytes.is_empty() && frame.left > 0 {
            return Ok(false);
        }
        let wanted = room.remaining().min(frame.plain_left);
        let Progress { taken, made, is_at_end } = match &mut frame.unpacker {
            None => {
                let taken = bytes.len().min(wanted);
                room.put_slice(&bytes[..taken]);
                Progress { taken, made: taken, is_at_end: taken == frame.left }
            }
            // All plain bytes were read: what is left must be the end of the codec's own form.
            Some(unpacker) if frame.plain_left == 0 => unpacker.unpack(bytes, &mut [0])?,
            Some(unpacker) => {
                let progress = unpacker.unpack(bytes, room.initialize_unfilled_to(wanted))?;
                room.advance(progress.made);
                progress
            }
        };
        frame.is_dry = taken == 0 && made == 0 && bytes.is_empty();
        let more = || malformed("more than its head says");
        let less = || malformed("less than its head says");
        frame.plain_left = frame.plain_left.checked_sub(made).ok_or_else(more)?;
        frame.left -= taken;
        self.received.consume(taken);
        let is_stuck = taken == 0 && made == 0 && (wanted > 0 || frame.plain_left == 0);
        match (is_at_end, frame.left, frame.plain_left) {
            (true, 0, 0) => self.frame = None,
            (true, _, 0) => return Err(more()),
            (true, ..) => return Err(less()),
            (false, 0, _) if is_stuck => return Err(less()),
            (false, ..) => {}
        }
        Ok(taken + made > 0)
    }

    fn begin_frame(&mut self) -> io::Result<bool> {
        let Some(&head) = self.received.bytes().first_chunk::<HEAD_LEN>() else { return Ok(false) };
        let (left, number, plain) = read_head(head);
        self.received.consume(HEAD_LEN);
        self.sending.get_mut().unwrap_or_else(PoisonError::into_inner).number = number.wrapping_add(1);
        let unpacker = (plain > 0).then(|| self.codec.unpacker(plain)).transpose()?;
        let plain_left = if plain == 0 { left } else { plain };
        let frame = Frame { left, plain_left, unpacker, is_dry: false };
        self.frame = (left > 0 || plain > 0).then_some(frame);
        Ok(true)
    }

    /// Makes a frame of the first piece, or of the most of it that one may hold, and sends what goes at once. While an earlier frame has not
    /// gone it takes nothing: 0 where some of that has gone since the last write, [`io::ErrorKind::WouldBlock`] where none has.
    pub(super) fn write(
        &self,
        below: Below<'_>,
        pieces: &[IoSlice<'_>],
        send: SendPieces,
    ) -> io::Result<usize> {
        let mut sending = self.sending();
        match sending.send_unsent(below, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && sending.has_gone_on => {
                sending.has_gone_on = false;
                return Ok(0);
            }
            sent => sent?,
        }
        // One frame: it takes a millisecond, and others have their turn behind it.
        let mut whole = pieces.iter().flat_map(|piece| piece.chunks(FRAME_BYTES_MAX));
        let frame = whole.next().unwrap_or_default();
        sending.send_frame(self.codec, frame, below, send)?;
        sending.has_gone_on = false;
        if let Some(packets) = &mut sending.packets {
            packets.note_sent(frame);
        }
        Ok(frame.len())
    }

    pub(super) fn poll_write(
        &self,
        below: Below<'_>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(below, context))?;
        Poll::Ready(self.write(below, pieces, Socket::try_write_vectored))
    }

    /// Ready when no frame waits to be sent.
    pub(super) fn poll_send(&self, below: Below<'_>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sending = self.sending();
        loop {
            match sending.send_unsent(below, Socket::try_write_vectored) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(below.poll_may_send(context))?;
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Ready when no frame waits to be sent, or some of one has gone.
    pub(super) fn poll_send_some(&self, below: Below<'_>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.poll_send(below, context);
        if self.sending().has_gone_on { Poll::Ready(Ok(())) } else { sent }
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.sending().unsent.is_empty()
    }
}

impl Sending {
    fn send_unsent(&mut self, below: Below<'_>, send: SendPieces) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let sent = below.try_send(self.unsent.bytes(), send)?;
            self.has_gone_on |= sent > 0;
            self.unsent.consume(sent);
        }
        self.unsent.rest();
        Ok(())
    }

    /// Makes one frame of the bytes and sends what goes at once; the rest waits.
    fn send_frame(
        &mut self,
        codec: Codec,
        bytes: &[u8],
        below: Below<'_>,
        send: SendPieces,
    ) -> io::Result<()> {
        let number = self.number;
        self.number = number.wrapping_add(1);
        with_room(|frame| {
            frame.resize(HEAD_LEN, 0);
            let is_smaller = bytes.len() >= COMPRESSED_BYTES_MIN
                && codec.pack(bytes, frame)?
                && frame.len() - HEAD_LEN < bytes.len();
            if !is_smaller {
                frame.truncate(HEAD_LEN);
                frame.extend_from_slice(bytes);
            }
            let plain = if is_smaller { bytes.len() } else { 0 };
            let head = head(frame.len() - HEAD_LEN, number, plain);
            frame[..HEAD_LEN].copy_from_slice(&head);
            let mut rest = &frame[..];
            while !rest.is_empty() {
                match below.try_send(rest, send) {
                    Ok(sent) => rest = &rest[sent..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            self.unsent.put(rest);
            Ok(())
        })
    }
}

/// Lends a buffer of the thread's in which a frame is made; it keeps its memory.
fn with_room<T>(make: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    ROOM.with_borrow_mut(|room| {
        room.clear();
        make(room)
    })
}

/// A frame's head: its length, its number, its length before compression.
pub(super) fn head(len: usize, number: u8, plain: usize) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[..3].copy_from_slice(&len.to_le_bytes()[..3]);
    head[3] = number;
    head[4..].copy_from_slice(&plain.to_le_bytes()[..3]);
    head
}

fn read_head(head: [u8; HEAD_LEN]) -> (usize, u8, usize) {
    let length = |at: usize| (0..3).fold(0, |sum, byte| sum | usize::from(head[at + byte]) << (8 * byte));
    (length(0), head[3], length(4))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a compressed packet has {what}"))
}

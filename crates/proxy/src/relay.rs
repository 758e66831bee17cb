//! Forwards an answer from a node to a client: it is streamed and never collected, and parsed packet by packet.
//!
//! Whole packets are sent together, as many as one read returned. A packet larger than the buffer is sent in parts. Only the first packet
//! is held back until it is known not to be an error about the node itself, so that the client never sees the reason for a retry.
//!
//! While the node is silent, the client is watched; while the client does not read, the node is.

mod older;

use std::time::{Duration, Instant};

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::errno::{self, whose};
use protocol::ok::{EOF, ERR, ErrPacket, OK, OkPacket, status, with_track, without_track};
use protocol::packet::{HEADER_LEN, Head, Malformed, PAYLOAD_MAX, put_packet};
use protocol::response::{Answer, End, Need, Step};
use session::command::InFlight;
use session::finish::{Delivered, NodeError};
use session::session::Session;
use topology::fact::ConnectFailure;
use topology::routes::Cut;

use crate::activity::{Card, Doing, STOPPED_AFTER};
use crate::backend::{Backend, of_io};
use crate::feed::{self, Unfed};
use crate::frontend::Client;
use crate::unread::Unread;
use older::{EOF_LEN, Older, put_eof_packet};

/// While a client does not read, its node is checked after this long, and then less and less often.
const LOOK_FIRST: Duration = Duration::from_millis(250);
const LOOK_MAX: Duration = Duration::from_secs(30);
/// How often a client is asked whether it has stopped reading, while the results of those that have are cut.
const STOPPED_LOOK: Duration = Duration::from_millis(50);
/// This many bytes of an answer that violates the protocol are shown in the log.
const SHOWN: usize = 4;

/// Up to this many bytes, what follows packets that were made is copied behind them; more is sent beside them.
const JOINED_MAX: usize = 1024;
/// A buffer of at most this many bytes is kept from one answer to the next.
const MADE_KEPT_MAX: usize = 4 * 1024;

/// How a relay ended.
pub enum Relayed {
    /// The whole answer was sent to the client.
    Ended(End),
    /// The first packet was an error about the node; nothing was sent to the client.
    Refused(NodeError),
    /// The node was lost.
    Lost {
        /// How it was lost.
        how: ConnectFailure,
        /// What the client has.
        delivered: Delivered,
    },
    /// The answer violates the protocol.
    NotFollowed {
        /// What the client has.
        delivered: Delivered,
    },
    /// The client does not read, and the lane is to become quiet.
    Stalled {
        /// What the client has.
        delivered: Delivered,
    },
    /// The client was lost.
    ClientGone,
}

/// An answer that is being forwarded.
pub struct Relay<'a> {
    /// The node.
    pub backend: &'a mut Backend,
    /// The client.
    pub client: &'a mut Client,
    /// Its session.
    pub session: &'a mut Session,
    /// The command that is answered.
    pub flight: &'a InFlight,
    /// Shows others what the session is doing.
    pub card: &'a Card,
    /// How many bytes of the client's buffer are the command itself.
    pub retained: usize,
    /// Any error that comes first is held back, and not only one about the node.
    pub keeps_errors: bool,
    /// How many rows the answer had.
    pub rows: u64,
}

/// The progress of the relay.
struct At {
    answer: Answer,
    delivered: Delivered,
    /// Packets that are not the node's own, and those between them: to be sent first.
    made: Vec<u8>,
    /// Bytes at the front of the backend's buffer that are to be sent unchanged.
    ready: usize,
    /// The client reads EOF packets, and the node sends OK packets instead.
    older: Option<Older>,
}

/// What a client gets in place of an OK packet.
enum Instead {
    /// The packet itself.
    AsItIs,
    /// An EOF packet.
    Eof,
    /// A packet with this payload.
    Packet(Vec<u8>),
}

/// What is needed to continue.
enum Wants {
    /// More bytes from the node.
    More,
    /// All of a packet of this many bytes.
    Whole { len: usize },
    /// A packet of `len` bytes, at the front of what is ready, must be sent in parts. It may be the answer's `end`.
    Large { len: usize, end: Option<End>, seq: u8 },
    /// The client's file for the node.
    File,
    /// Nothing: the answer has ended.
    End(End),
}

type Passed = Result<(), Relayed>;

impl Relay<'_> {
    /// Forwards the whole answer.
    pub async fn run(&mut self) -> Relayed {
        let command = self.flight.command;
        let caps = self.backend.link.caps;
        let answer = if self.flight.asks_cursor() {
            Answer::with_cursor(command, caps)
        } else {
            Answer::new(command, caps)
        };
        let is_older = caps.has(Caps::DEPRECATE_EOF) && !self.client.caps.has(Caps::DEPRECATE_EOF);
        let older = is_older.then(Older::default);
        let made = std::mem::take(&mut self.client.made);
        let mut at = At { answer, delivered: Delivered::Nothing, made, ready: 0, older };
        let relayed = self.pass(&mut at).await.map_or_else(|ended| ended, Relayed::Ended);
        self.rows = at.answer.rows();
        if at.made.capacity() <= MADE_KEPT_MAX {
            at.made.clear();
            self.client.made = at.made;
        }
        relayed
    }

    async fn pass(&mut self, at: &mut At) -> Result<End, Relayed> {
        loop {
            match self.packets(at)? {
                Wants::More => {
                    self.flush(at).await?;
                    self.fill(at.delivered).await?;
                }
                Wants::Whole { len } => {
                    self.flush(at).await?;
                    self.backend.link.buffer.reserve(len);
                    self.fill(at.delivered).await?;
                }
                Wants::Large { len, end, seq } => {
                    Box::pin(self.pass_large(at, len)).await?;
                    // It is the last column of a prepared statement, or a long text: neither reports anything about the session.
                    if let Some(end) = end {
                        self.ended(&end, 0..0);
                        self.end_older_form(at, seq);
                        return self.write_end(at, end).await;
                    }
                }
                Wants::File => {
                    self.flush(at).await?;
                    self.client.buffer.consume(self.retained);
                    self.retained = 0;
                    let Delivered::Packets { next_seq: first } = at.delivered else {
                        return Err(Relayed::NotFollowed { delivered: at.delivered });
                    };
                    let inserted = at.older.as_ref().map_or(0, |older| older.number(0));
                    let next_seq = Box::pin(self.pass_file(first, inserted)).await?;
                    at.delivered = Delivered::Packets { next_seq };
                }
                Wants::End(end) => return self.write_end(at, end).await,
            }
        }
    }

    /// Handles the packets in the buffer, until something else is needed.
    fn packets(&mut self, at: &mut At) -> Result<Wants, Relayed> {
        loop {
            self.take_rows(at);
            let bytes = self.backend.link.buffer.bytes();
            let Some(head) = Head::peek(&bytes[at.ready..]) else { return Ok(Wants::More) };
            let len = HEADER_LEN + head.len;
            let buffered = bytes.len() - at.ready;
            let first = bytes.get(at.ready + HEADER_LEN).copied();
            if head.len > 0 && first.is_none() {
                return Ok(Wants::More);
            }
            if buffered < len {
                if at.answer.need(head.len, first) == Need::Whole {
                    return Ok(Wants::Whole { len });
                }
                // A packet larger than the buffer is not waited for.
                if !self.backend.link.buffer.is_large() {
                    return Ok(Wants::More);
                }
            }
            if self.must_see_more(at) {
                return Ok(Wants::More);
            }
            let payload = &bytes[at.ready + HEADER_LEN..at.ready + len.min(buffered)];
            let is_first = at.delivered == Delivered::Nothing && at.ready == 0 && at.made.is_empty();
            if is_first
                && first == Some(ERR)
                && let Some(error) = node_refused(payload, self.keeps_errors)
            {
                self.backend.link.buffer.consume(len);
                return Err(Relayed::Refused(error));
            }
            let step = match at.answer.step(head.len, payload) {
                Ok(step) => step,
                Err(malformed) => {
                    tell_shape(self.flight.command, &malformed, head.len, payload);
                    return Err(Relayed::NotFollowed { delivered: at.delivered });
                }
            };
            if is_first && first == Some(OK) && self.flight.command == Command::STMT_PREPARE {
                // The node's statement id is replaced by the session's own, which stays valid on other nodes.
                let id = self.session.wanted.next_statement().to_le_bytes();
                self.backend.link.buffer.bytes_mut()[HEADER_LEN + 1..HEADER_LEN + 5].copy_from_slice(&id);
            }
            let seq = self.put_in_older_form(at, head);
            let payload = at.ready + HEADER_LEN..at.ready + len;
            match step {
                _ if buffered < len => {
                    let end = if let Step::End(end) = step { Some(end) } else { None };
                    return Ok(Wants::Large { len, end, seq: head.seq });
                }
                Step::More | Step::Auth => at.ready += len,
                Step::Part { status, warnings, .. } => {
                    // For each part, since the last one may be an error, which carries no status.
                    let Backend { standing, link, .. } = &mut *self.backend;
                    self.session.server_status(standing, status);
                    self.session.part(standing, self.flight, &link.buffer.bytes()[payload], link.caps);
                    self.pass_or_replace(at, len, (status, warnings), seq)?;
                }
                Step::LocalInfile => {
                    at.ready += len;
                    return Ok(Wants::File);
                }
                Step::End(end) => {
                    self.ended(&end, payload);
                    if let End::Ok { status, warnings, .. } = end {
                        self.pass_or_replace(at, len, (status, warnings), seq)?;
                    } else {
                        at.ready += len;
                    }
                    self.end_older_form(at, head.seq);
                    return Ok(Wants::End(end));
                }
            }
        }
    }

    /// Makes the rows ready that follow what is ready.
    #[inline]
    fn take_rows(&mut self, at: &mut At) {
        if at.older.as_ref().is_some_and(|older| older.is_due) {
            return;
        }
        let renumber = at.older.as_ref().map_or(0, |older| older.number(0));
        let following = &mut self.backend.link.buffer.bytes_mut()[at.ready..];
        at.ready += at.answer.whole_rows(following, renumber);
    }

    /// What the client gets in place of the OK packet `payload` with these status flags.
    fn instead(
        &mut self,
        payload: std::ops::Range<usize>,
        flags: u16,
        is_older: bool,
    ) -> Result<Instead, Malformed> {
        let link = &self.backend.link;
        let payload = &link.buffer.bytes()[payload];
        let tracks = self.client.caps.has(Caps::SESSION_TRACK);
        if payload.first() == Some(&EOF) {
            if payload.len() <= EOF_LEN {
                return Ok(Instead::AsItIs);
            }
            if is_older {
                if tracks && flags & status::SESSION_STATE_CHANGED != 0 {
                    let track = OkPacket::parse(payload, link.caps)?.track;
                    self.client.leave_untold(track);
                }
                return Ok(Instead::Eof);
            }
        }
        Ok(match tracks {
            false if flags & status::SESSION_STATE_CHANGED != 0 => {
                Instead::Packet(without_track(payload, link.caps)?)
            }
            true if !self.client.untold.is_empty() || self.client.untold_transaction.is_some() => {
                let own = OkPacket::parse(payload, link.caps)?.transaction_state();
                let untold = self.client.take_untold(self.flight.command, own);
                if untold.is_empty() {
                    Instead::AsItIs
                } else {
                    Instead::Packet(with_track(payload, link.caps, &untold)?)
                }
            }
            _ => Instead::AsItIs,
        })
    }

    fn ended(&mut self, end: &End, payload: std::ops::Range<usize>) {
        let Backend { standing, link, .. } = &mut *self.backend;
        let text = self.client.buffer.bytes().get(HEADER_LEN..self.retained).unwrap_or_default();
        self.session.ended(standing, self.flight, end, &link.buffer.bytes()[payload], text, link.caps);
    }

    /// The kind of cut that ends an unread result.
    fn cut_at(&self) -> Cut {
        if self.flight.can_be_cut() { Cut::Stalled } else { Cut::All }
    }

    // ---- from the node

    /// Reads more from the node, and watches the client meanwhile.
    async fn fill(&mut self, delivered: Delivered) -> Passed {
        let read = tokio::select! {
            biased;
            read = self.backend.link.fill() => read,
            () = self.client.gone() => return Err(Relayed::ClientGone),
        };
        match read {
            Ok(0) => Err(Relayed::Lost { how: ConnectFailure::Closed, delivered }),
            Ok(_) => Ok(()),
            Err(error) => Err(Relayed::Lost { how: of_io(&error), delivered }),
        }
    }

    // ---- to the client

    /// Writes the ready packets to the client, and notes what the client has then.
    async fn flush(&mut self, at: &mut At) -> Passed {
        self.write(at, true).await
    }

    /// Writes the ready packets to the client; `goes_on`: more may follow.
    async fn write(&mut self, at: &mut At, goes_on: bool) -> Passed {
        let ready = &self.backend.link.buffer.bytes()[..at.ready];
        if at.made.is_empty() && ready.is_empty() {
            return Ok(());
        }
        let then = if goes_on { after(ready, after(&at.made, at.delivered)) } else { at.delivered };
        let mut written = 0;
        if !at.made.is_empty() && ready.len() > JOINED_MAX {
            written = match self.client.stream.try_write_both(&at.made, ready) {
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
                Err(_) => return Err(Relayed::ClientGone),
            };
        }
        if written < at.made.len() + ready.len() {
            let bytes = if at.made.is_empty() {
                ready
            } else {
                at.made.extend_from_slice(ready);
                &at.made
            };
            let cut = self.cut_at();
            write(self.client, self.backend, self.card, bytes, written, at.delivered, cut).await?;
        }
        at.delivered = then;
        at.made.clear();
        self.backend.link.buffer.consume(at.ready);
        at.ready = 0;
        Ok(())
    }

    /// Writes what is left of an answer that has ended. What becomes of the node does not matter any more: a client that has not read all of it
    /// gets the rest in its own time.
    async fn write_end(&mut self, at: &mut At, end: End) -> Result<End, Relayed> {
        match self.write(at, false).await {
            Err(Relayed::Stalled { delivered } | Relayed::Lost { delivered, .. })
                if delivered != Delivered::PartOfPacket =>
            {
                at.made.clear();
                self.backend.link.buffer.consume(at.ready);
                at.ready = 0;
                Ok(end)
            }
            written => written.map(|()| end),
        }
    }

    /// Makes the present OK packet (of `len` bytes) ready, or what the client gets instead: without what only the proxy asked for, or as an
    /// EOF packet. `told`: its status flags, and the number of warnings.
    fn pass_or_replace(&mut self, at: &mut At, len: usize, told: (u16, u16), seq: u8) -> Passed {
        let (flags, warnings) = told;
        let payload = at.ready + HEADER_LEN..at.ready + len;
        let instead = match self.instead(payload.clone(), flags, at.older.is_some()) {
            Ok(Instead::AsItIs) => {
                at.ready += len;
                return Ok(());
            }
            Ok(instead) => instead,
            Err(malformed) => {
                let payload = &self.backend.link.buffer.bytes()[payload];
                tell_shape(self.flight.command, &malformed, payload.len(), payload);
                return Err(Relayed::NotFollowed { delivered: at.delivered });
            }
        };
        let from = at.made.len();
        match instead {
            Instead::AsItIs => {}
            Instead::Eof => put_eof_packet(&mut at.made, seq, warnings, flags),
            Instead::Packet(payload) => put_packet(&mut at.made, &mut { seq }, &payload),
        }
        let buffer = &mut self.backend.link.buffer;
        let packet = &at.made[from..];
        if packet.len() <= len {
            // In its place, so that the rows before it need not be copied.
            buffer.bytes_mut()[at.ready..at.ready + packet.len()].copy_from_slice(packet);
            at.ready += packet.len();
            buffer.remove(at.ready, len - packet.len());
            at.made.truncate(from);
        } else {
            let packet = at.made.split_off(from);
            self.make_ready(at);
            at.made.extend_from_slice(&packet);
            self.backend.link.buffer.consume(len);
        }
        Ok(())
    }

    /// Moves what is ready in the backend's buffer behind the packets that were made, before another one is made.
    fn make_ready(&mut self, at: &mut At) {
        let buffer = &mut self.backend.link.buffer;
        at.made.extend_from_slice(&buffer.bytes()[..at.ready]);
        buffer.consume(at.ready);
        at.ready = 0;
    }

    /// Sends what is ready, and after it, in parts, a packet (of `len` bytes) that does not fit the buffer.
    async fn pass_large(&mut self, at: &mut At, len: usize) -> Passed {
        if !at.made.is_empty() {
            self.flush(at).await?;
        }
        let Some(head) = Head::peek(&self.backend.link.buffer.bytes()[at.ready..]) else { return Ok(()) };
        let mut left = at.ready + len;
        at.ready = 0;
        loop {
            let piece = left.min(self.backend.link.buffer.len());
            let bytes = &self.backend.link.buffer.bytes()[..piece];
            let cut = self.cut_at();
            write(self.client, self.backend, self.card, bytes, 0, Delivered::PartOfPacket, cut).await?;
            self.backend.link.buffer.consume(piece);
            left -= piece;
            at.delivered = Delivered::PartOfPacket;
            if left == 0 {
                break;
            }
            self.fill(at.delivered).await?;
        }
        if head.len < PAYLOAD_MAX {
            at.delivered = Delivered::Packets { next_seq: head.seq.wrapping_add(1) };
        }
        Ok(())
    }

    // ---- from the client to the node

    /// LOAD DATA LOCAL: forwards the client's file, packet by packet, up to and including the empty one. If the node is lost, the rest of
    /// the file must never be taken for commands. `first`: the sequence number that its first packet has to have; for the node the numbers are smaller by
    /// the packets that were `inserted` before. Returns the number of what follows the file.
    async fn pass_file(&mut self, first: u8, inserted: u8) -> Result<u8, Relayed> {
        self.backend.begin_sending();
        let mut seq = first.wrapping_sub(1);
        loop {
            let head = loop {
                if let Some(head) = Head::peek(self.client.buffer.bytes()) {
                    break head;
                }
                self.more_of_file(Unread::File { left: 0, seq, ends: false }).await?;
            };
            if head.seq != seq.wrapping_add(1) {
                return Err(self.file_out_of_order(seq.wrapping_add(1)).await);
            }
            seq = head.seq;
            self.client.buffer.bytes_mut()[HEADER_LEN - 1] = seq.wrapping_sub(inserted);
            let mut left = HEADER_LEN + head.len;
            while left > 0 {
                let unread = |left| Unread::File { left, seq, ends: head.len == 0 };
                if self.client.buffer.is_empty() {
                    self.more_of_file(unread(left)).await?;
                }
                let piece = left.min(self.client.buffer.len());
                let written = self.backend.write(&self.client.buffer.bytes()[..piece]).await;
                self.client.buffer.consume(piece);
                left -= piece;
                if let Err(error) = written {
                    return Err(self.file_lost(of_io(&error), unread(left)));
                }
            }
            if head.len == 0 {
                self.backend.sent_whole();
                self.card.set(Doing::Running, Instant::now());
                return Ok(seq.wrapping_add(1));
            }
        }
    }

    /// A client that sends its next command in place of the file (a driver that failed to read it) would wait for an answer as long as we wait for the
    /// file. It is told what a server tells it, and its connection ends as there.
    async fn file_out_of_order(&mut self, seq: u8) -> Relayed {
        let _ = self
            .client
            .say_err(seq, errno::NET_PACKETS_OUT_OF_ORDER, *b"08S01", "Got packets out of order")
            .await;
        Relayed::ClientGone
    }

    async fn more_of_file(&mut self, unread: Unread) -> Passed {
        match feed::more(self.client, self.backend, self.card, Cut::All).await {
            Ok(()) => Ok(()),
            Err(Unfed::Gone) => Err(Relayed::ClientGone),
            Err(Unfed::Cut | Unfed::Lost) => Err(self.file_lost(ConnectFailure::Closed, unread)),
        }
    }

    /// The next sequence number is known when the rest has been read, see [`Client::drop_command`].
    fn file_lost(&mut self, how: ConnectFailure, unread: Unread) -> Relayed {
        self.client.unread = Some(unread);
        Relayed::Lost { how, delivered: Delivered::Packets { next_seq: 0 } }
    }
}

/// Writes bytes to the client, which has the first `already` of them. While it does not read them, the node's link and the lane are watched: a client that reads nothing must not
/// keep a node from becoming quiet.
async fn write(
    client: &mut Client,
    backend: &Backend,
    card: &Card,
    bytes: &[u8],
    already: usize,
    before: Delivered,
    cut: Cut,
) -> Passed {
    let mut written = match client.stream.try_write(&bytes[already..]) {
        Ok(n) if already + n == bytes.len() => return Ok(()),
        Ok(n) => already + n,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => already,
        Err(_) => return Err(Relayed::ClientGone),
    };
    let mut accepted_at = Instant::now();
    card.set(Doing::Unread, accepted_at);
    let lane = backend.lane();
    let mut look_after = LOOK_FIRST;
    let mut next_look = accepted_at + look_after;
    let mut next_try = accepted_at;
    loop {
        tokio::select! {
            biased;
            ready = client.stream.writable() => {
                if ready.is_err() {
                    return Err(Relayed::ClientGone);
                }
                match client.stream.try_write(&bytes[written..]) {
                    Ok(n) => {
                        written += n;
                        accepted_at = Instant::now();
                        card.set(Doing::Unread, accepted_at);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return Err(Relayed::ClientGone),
                }
                if written == bytes.len() {
                    card.set(Doing::Running, Instant::now());
                    return Ok(());
                }
            }
            () = lane.until_cut(cut) => {
                return Err(Relayed::Stalled { delivered: left_behind(client, bytes, written, before) });
            }
            () = async { lane.until_cut(Cut::Stopped).await; tokio::time::sleep_until(next_try.into()).await },
                if cut == Cut::Stalled =>
            {
                match client.stream.write_now(&bytes[written..]) {
                    Ok(n) => {
                        written += n;
                        accepted_at = Instant::now();
                        card.set(Doing::Unread, accepted_at);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        if accepted_at.elapsed() >= STOPPED_AFTER {
                            let delivered = left_behind(client, bytes, written, before);
                            return Err(Relayed::Stalled { delivered });
                        }
                    }
                    Err(_) => return Err(Relayed::ClientGone),
                }
                if written == bytes.len() {
                    card.set(Doing::Running, Instant::now());
                    return Ok(());
                }
                next_try = Instant::now() + STOPPED_LOOK;
            }
            () = tokio::time::sleep_until(next_look.into()) => {
                look_after = (look_after * 2).min(LOOK_MAX);
                next_look = Instant::now() + look_after;
                if backend.has_ended() || backend.is_refused().await {
                    let delivered = left_behind(client, bytes, written, before);
                    return Err(Relayed::Lost { how: ConnectFailure::Closed, delivered });
                }
            }
        }
    }
}

/// What the client has after `packets`, all of which are whole.
fn after(packets: &[u8], before: Delivered) -> Delivered {
    let mut at = 0;
    let mut now = before;
    while let Some(head) = Head::peek(&packets[at..]) {
        at += HEADER_LEN + head.len;
        now = if head.len == PAYLOAD_MAX {
            Delivered::PartOfPacket
        } else {
            Delivered::Packets { next_seq: head.seq.wrapping_add(1) }
        };
    }
    now
}

/// The client has not read all of `bytes`: the rest is sent before whatever it gets next. Returns what it then has.
fn left_behind(client: &mut Client, bytes: &[u8], written: usize, before: Delivered) -> Delivered {
    if before == Delivered::PartOfPacket {
        return before;
    }
    client.leave(&bytes[written..]);
    after(bytes, before)
}

/// Logs which part of an answer violated the protocol: its form, and never more of its contents than the first bytes.
fn tell_shape(command: Command, malformed: &Malformed, len: usize, payload: &[u8]) {
    let first: Vec<String> = payload.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    tracing::error!(
        "an answer to COM_{} could not be followed: {malformed}; a packet of {len} bytes that begins with {}: please report it",
        command.name(),
        first.join(" ")
    );
}

/// An error about the node and not about the statement; with `any`, any error.
fn node_refused(payload: &[u8], any: bool) -> Option<NodeError> {
    let err = ErrPacket::parse(payload).ok()?;
    (any || whose(err.code, err.message).is_about_the_node()).then(|| err.into())
}

//! An answer on its way from a node to a client: streamed, never collected, counted packet by packet.
//!
//! Whole packets go out together, as many as one read brought. A packet larger than the buffer is passed on in pieces. What
//! is kept back: the first packet until it is known not to be an error that speaks of the node, so that the client never
//! sees the reason for a retry.

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::{ERR, ErrPacket, OK, without_track};
use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX, put_packet};
use protocol::response::{Answer, End, Need, Step};
use protocol::{errno, packet};
use session::session::{InFlight, Session};
use tokio::io::AsyncWriteExt;
use topology::fact::ConnectFailure;

use crate::backend::{Backend, of_io};
use crate::frontend::Client;

/// How a relay ended.
pub enum Relayed {
    /// The whole answer was given to the client.
    Ended(End),
    /// The first packet was an error that speaks of the node; nothing was given to the client.
    Refused { code: u16, state: [u8; 5], message: String },
    /// The node was lost.
    Lost { how: ConnectFailure, delivered: Delivered },
    /// The client was lost.
    ClientGone,
}

/// How much of the answer the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Nothing.
    Nothing,
    /// Whole packets; an error with the next sequence number can end it.
    Packets { next_seq: u8 },
    /// A part of a packet: nothing sensible can follow.
    PartOfPacket,
}

/// Passes the answer to `flight` on. `retained`: how much of the client's buffer is the command itself.
pub async fn relay(
    backend: &mut Backend,
    client: &mut Client,
    session: &mut Session,
    flight: &InFlight,
    retained: &mut usize,
) -> Relayed {
    let mut answer = Answer::new(flight.command, backend.link.caps);
    let rewrite_ok = !client.caps.has(Caps::SESSION_TRACK);
    let mut delivered = Delivered::Nothing;
    // Bytes at the front of the backend's buffer that are to be passed on as they are.
    let mut ready = 0;
    loop {
        let bytes = backend.buffer.bytes();
        let Some(head) = Head::peek(&bytes[ready..]) else {
            if let Some(end) = more(backend, client, &mut ready, &mut delivered).await {
                return end;
            }
            continue;
        };
        let len = HEADER_LEN + head.len;
        let at_hand = bytes.len() - ready;
        let first = bytes.get(ready + HEADER_LEN).copied();
        if head.len > 0 && first.is_none() {
            if let Some(end) = more(backend, client, &mut ready, &mut delivered).await {
                return end;
            }
            continue;
        }
        let need_whole = answer.need(head.len, first) == Need::Whole;
        if at_hand < len && (need_whole || !backend.buffer.is_large()) {
            // A part of a packet: wait for the rest, having passed on what stands before it.
            if ready > 0
                && let Some(end) = flush(backend, client, &mut ready, &mut delivered).await
            {
                return end;
            }
            if need_whole {
                backend.buffer.reserve(len);
            }
            if let Some(end) = fill(backend, delivered).await {
                return end;
            }
            continue;
        }
        let payload = &bytes[ready + HEADER_LEN..ready + len.min(at_hand)];
        if delivered == Delivered::Nothing
            && ready == 0
            && first == Some(ERR)
            && let Some(refused) = node_refused(payload)
        {
            backend.buffer.consume(len);
            return refused;
        }
        let step = match answer.step(head.len, payload) {
            Ok(step) => step,
            Err(malformed) => {
                let how = ConnectFailure::Protocol { what: malformed.what.to_owned() };
                return Relayed::Lost { how, delivered };
            }
        };
        if flight.command == Command::STMT_PREPARE
            && delivered == Delivered::Nothing
            && ready == 0
            && first == Some(OK)
        {
            // The node's number for the statement becomes the session's own, which stays when the node does not.
            let id = session.memory.next_statement().to_le_bytes();
            backend.buffer.bytes_mut()[HEADER_LEN + 1..HEADER_LEN + 5].copy_from_slice(&id);
        }
        if at_hand < len {
            // Larger than the buffer: in pieces.
            if let Some(end) = pass_large(backend, client, ready, len, &mut delivered).await {
                return end;
            }
            ready = 0;
            // The last column of a prepared statement, or a long text: neither says anything of the session.
            if let Step::End(end) = step {
                let text = client.buffer.bytes().get(HEADER_LEN..*retained).unwrap_or_default();
                session.ended(flight, &end, &[], text, backend.link.caps);
                return Relayed::Ended(end);
            }
            continue;
        }
        match step {
            Step::More | Step::Auth => ready += len,
            Step::Part { status, changed: false, .. } => {
                session.server_status(status);
                ready += len;
            }
            Step::Part { status, .. } => {
                // Of each part, since the last one may be an error, which carries no status.
                session.server_status(status);
                let payload = &backend.buffer.bytes()[ready + HEADER_LEN..ready + len];
                session.part(flight, payload, backend.link.caps);
                if rewrite_ok {
                    if let Some(end) = replace(backend, client, ready, len, head, &mut delivered).await {
                        return end;
                    }
                    ready = 0;
                } else {
                    ready += len;
                }
            }
            Step::LocalInfile => {
                ready += len;
                if let Some(end) = flush(backend, client, &mut ready, &mut delivered).await {
                    return end;
                }
                client.buffer.consume(*retained);
                *retained = 0;
                match pass_file(backend, client).await {
                    Ok(next_seq) => delivered = Delivered::Packets { next_seq },
                    Err(end) => return end,
                }
            }
            Step::End(end) => {
                let last = ready;
                ready += len;
                let payload = &backend.buffer.bytes()[last + HEADER_LEN..ready];
                let text = client.buffer.bytes().get(HEADER_LEN..*retained).unwrap_or_default();
                session.ended(flight, &end, payload, text, backend.link.caps);
                let changed = matches!(end, End::Ok { changed: true, .. });
                let told = if rewrite_ok && changed {
                    replace(backend, client, last, len, head, &mut delivered).await
                } else {
                    flush(backend, client, &mut ready, &mut delivered).await
                };
                return told.unwrap_or(Relayed::Ended(end));
            }
        }
    }
}

/// Whether an error speaks of the node, not of the statement; of some the message decides.
pub fn speaks_of_the_node(code: u16, message: &[u8]) -> bool {
    match code {
        errno::OPTION_PREVENTS_STATEMENT | errno::READ_ONLY_MODE => errno::is_read_only(code, message),
        errno::UNKNOWN_COM_ERROR => errno::is_galera_refusal(code, message),
        code => errno::speaks_of_the_node(code),
    }
}

/// An error that speaks of the node, not of the statement.
fn node_refused(payload: &[u8]) -> Option<Relayed> {
    let err = ErrPacket::parse(payload).ok()?;
    speaks_of_the_node(err.code, err.message).then(|| Relayed::Refused {
        code: err.code,
        state: err.state.try_into().unwrap_or(*b"HY000"),
        message: String::from_utf8_lossy(err.message).into_owned(),
    })
}

/// Passes on what is ready, then reads more.
async fn more(
    backend: &mut Backend,
    client: &mut Client,
    ready: &mut usize,
    delivered: &mut Delivered,
) -> Option<Relayed> {
    if *ready > 0
        && let Some(end) = flush(backend, client, ready, delivered).await
    {
        return Some(end);
    }
    fill(backend, *delivered).await
}

async fn fill(backend: &mut Backend, delivered: Delivered) -> Option<Relayed> {
    match backend.buffer.fill(&mut backend.link.stream).await {
        Ok(0) => Some(Relayed::Lost { how: ConnectFailure::Closed, delivered }),
        Ok(_) => None,
        Err(error) => Some(Relayed::Lost { how: of_io(&error), delivered }),
    }
}

/// Writes the ready packets to the client.
async fn flush(
    backend: &mut Backend,
    client: &mut Client,
    ready: &mut usize,
    delivered: &mut Delivered,
) -> Option<Relayed> {
    let bytes = &backend.buffer.bytes()[..*ready];
    if client.stream.write_all(bytes).await.is_err() {
        return Some(Relayed::ClientGone);
    }
    *delivered = after(bytes, *delivered);
    backend.buffer.consume(*ready);
    *ready = 0;
    None
}

/// What the client has after `packets`, all whole.
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

/// Passes on what stands before `last`, then the OK packet there (of `len` bytes) without what only the proxy asked for.
async fn replace(
    backend: &mut Backend,
    client: &mut Client,
    last: usize,
    len: usize,
    head: Head,
    delivered: &mut Delivered,
) -> Option<Relayed> {
    let bytes = &backend.buffer.bytes()[..last + len];
    let mut out = Vec::with_capacity(last + len);
    out.extend_from_slice(&bytes[..last]);
    match without_track(&bytes[last + HEADER_LEN..], backend.link.caps) {
        Ok(payload) => put_packet(&mut out, &mut { head.seq }, &payload),
        Err(malformed) => {
            let how = ConnectFailure::Protocol { what: malformed.what.to_owned() };
            return Some(Relayed::Lost { how, delivered: *delivered });
        }
    }
    if client.stream.write_all(&out).await.is_err() {
        return Some(Relayed::ClientGone);
    }
    *delivered = after(&out, *delivered);
    backend.buffer.consume(last + len);
    None
}

/// Passes on a packet that does not fit the buffer (of `len` bytes, its header at `at`), piece by piece.
async fn pass_large(
    backend: &mut Backend,
    client: &mut Client,
    at: usize,
    len: usize,
    delivered: &mut Delivered,
) -> Option<Relayed> {
    let head = Head::peek(&backend.buffer.bytes()[at..])?;
    let mut left = at + len;
    loop {
        let piece = left.min(backend.buffer.len());
        if client.stream.write_all(&backend.buffer.bytes()[..piece]).await.is_err() {
            return Some(Relayed::ClientGone);
        }
        backend.buffer.consume(piece);
        left -= piece;
        *delivered = Delivered::PartOfPacket;
        if left == 0 {
            break;
        }
        if let Some(end) = fill(backend, *delivered).await {
            return Some(end);
        }
    }
    if head.len < PAYLOAD_MAX {
        *delivered = Delivered::Packets { next_seq: head.seq.wrapping_add(1) };
    }
    None
}

/// LOAD DATA LOCAL: the client's file, packet by packet, up to and with the empty one. When the node is lost the file is read to
/// its end all the same: what is left of it must never be taken for commands. Gives the sequence number of what follows the file.
async fn pass_file(backend: &mut Backend, client: &mut Client) -> Result<u8, Relayed> {
    let mut lost = None;
    backend.begin_sending();
    loop {
        let Some(head) = Head::peek(client.buffer.bytes()) else {
            match client.buffer.fill(&mut client.stream).await {
                Ok(n) if n > 0 => continue,
                _ => return Err(Relayed::ClientGone),
            }
        };
        let mut left = packet::HEADER_LEN + head.len;
        while left > 0 {
            if client.buffer.is_empty() {
                match client.buffer.fill(&mut client.stream).await {
                    Ok(n) if n > 0 => {}
                    _ => return Err(Relayed::ClientGone),
                }
            }
            let piece = left.min(client.buffer.len());
            if lost.is_none() {
                let written = backend.link.stream.write_all(&client.buffer.bytes()[..piece]).await;
                lost = written.err().map(|error| of_io(&error));
            }
            client.buffer.consume(piece);
            left -= piece;
        }
        if head.len == 0 {
            let next_seq = head.seq.wrapping_add(1);
            return match lost {
                Some(how) => Err(Relayed::Lost { how, delivered: Delivered::Packets { next_seq } }),
                None => {
                    backend.sent_whole();
                    Ok(next_seq)
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_another_kind_does_not_speak_of_the_node() {
        assert!(speaks_of_the_node(1290, b"running with the --read-only option"));
        assert!(!speaks_of_the_node(1290, b"running with the --secure-file-priv option"));
        assert!(speaks_of_the_node(1047, b"WSREP has not yet prepared node for application use"));
        assert!(!speaks_of_the_node(1047, b"Unknown command"));
        assert!(speaks_of_the_node(1053, b"") && !speaks_of_the_node(1146, b""));
    }
}

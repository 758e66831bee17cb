//! Results for a client that reads EOF packets, from a node that says OK in their place.
//!
//! An EOF packet tells nothing of the session. What a stored function called by a SELECT has set would be known to nobody, so every node is
//! asked for OK packets, and what the client reads is made of them: the EOF behind the columns (and behind a statement's parameters) is put
//! in, the one behind the rows is made of the OK, and the packets are numbered anew.
//!
//! The status flags of an EOF behind columns are those of the result's end where that is at hand already. Where it is not they are those that
//! hold before the statement: clients go by the last EOF. Only of OUT parameters clients must know before the row; that one row is waited for.

use protocol::capability::Caps;
use protocol::ok::{EOF, OkPacket, put_eof, status};
use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX};

use super::{At, Relay};
use crate::backend::Backend;

/// Bytes of an EOF packet's payload; an OK packet in its place is longer.
pub const EOF_LEN: usize = 5;
/// Rows looked through for the end of a result.
const LOOK_ROWS_MAX: usize = 64;
/// Flags that belong to the end of the rows alone.
const OF_THE_END: u16 = status::SESSION_STATE_CHANGED | status::LAST_ROW_SENT | status::CURSOR_EXISTS;

/// One answer in the older form.
#[derive(Debug, Default)]
pub struct Older {
    /// An EOF belongs before the next packet.
    pub is_due: bool,
    /// How many were put in so far, by which each packet's number grows.
    inserted: u8,
}

/// What is to be seen of a result's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// Its status flags.
    End(u16),
    /// More than a row comes before it.
    Rows,
    /// Not enough is at hand to tell.
    NotYet,
}

impl Older {
    /// Appends the EOF that is due, before a packet that the node numbered `seq`.
    pub fn put_eof(&mut self, out: &mut Vec<u8>, seq: u8, status: u16) {
        put_eof_packet(out, self.number(seq), 0, status & !OF_THE_END);
        self.inserted = self.inserted.wrapping_add(1);
        self.is_due = false;
    }

    /// The number that the client is to see.
    pub fn number(&self, seq: u8) -> u8 {
        seq.wrapping_add(self.inserted)
    }
}

impl Relay<'_> {
    /// Whether an EOF is due whose flags a client needs before the rows, and they are not at hand.
    pub(super) fn must_see_more(&self, at: &At) -> bool {
        let buffer = &self.backend.link.buffer;
        at.older.as_ref().is_some_and(|older| older.is_due)
            && self.flight.may_give_parameters()
            && !buffer.is_large()
            && end_in_sight(&buffer.bytes()[at.ready..], self.backend.link.caps) == Sight::NotYet
    }

    /// Puts the EOF that is due before the packet at hand, and numbers that anew; gives its number.
    pub(super) fn put_in_older_form(&mut self, at: &mut At, head: Head) -> u8 {
        let Some(older) = &at.older else { return head.seq };
        // Where the client has a cursor, its EOF is the end of the answer.
        if older.is_due && !at.answer.opened_cursor() {
            let Backend { standing, link, .. } = &*self.backend;
            let flags = match end_in_sight(&link.buffer.bytes()[at.ready..], link.caps) {
                Sight::End(flags) => flags,
                Sight::Rows | Sight::NotYet => {
                    let open = if standing.in_transaction() { status::IN_TRANS } else { 0 };
                    let more = if self.flight.calls() { status::MORE_RESULTS } else { 0 };
                    self.session.status() | open | more
                }
            };
            self.put_due(at, head.seq, flags);
        }
        let Some(older) = &mut at.older else { return head.seq };
        older.is_due = at.answer.leaves_out_eof();
        let seq = older.number(head.seq);
        self.backend.link.buffer.bytes_mut()[at.ready + HEADER_LEN - 1] = seq;
        seq
    }

    /// The answer has ended with the packet that the node numbered `seq`: puts in the EOF behind it, if one is due.
    pub(super) fn end_older_form(&mut self, at: &mut At, seq: u8) {
        if at.older.as_ref().is_some_and(|older| older.is_due) {
            self.put_due(at, seq.wrapping_add(1), self.session.status());
        }
    }

    /// Puts the EOF that is due behind what is ready, before a packet that the node numbers `seq`.
    fn put_due(&mut self, at: &mut At, seq: u8, flags: u16) {
        self.make_ready(at);
        if let Some(older) = &mut at.older {
            older.put_eof(&mut at.made, seq, flags);
        }
    }
}

/// Appends an EOF packet.
pub fn put_eof_packet(out: &mut Vec<u8>, seq: u8, warnings: u16, status: u16) {
    out.extend_from_slice(&Head { len: EOF_LEN, seq }.to_bytes());
    put_eof(out, warnings, status);
}

/// Looks for the end of the rows in `packets`, which stand behind the columns.
fn end_in_sight(mut packets: &[u8], caps: Caps) -> Sight {
    for row in 0..LOOK_ROWS_MAX {
        let unseen = if row > 1 { Sight::Rows } else { Sight::NotYet };
        let Some(head) = Head::peek(packets) else { return unseen };
        let Some(payload) = packets.get(HEADER_LEN..HEADER_LEN + head.len) else { return unseen };
        if payload.first() == Some(&EOF) && head.len < PAYLOAD_MAX {
            return OkPacket::parse(payload, caps).map_or(Sight::Rows, |ok| Sight::End(ok.status));
        }
        packets = &packets[HEADER_LEN + head.len..];
    }
    Sight::Rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::packet::put_packet;

    const NEW: Caps = Caps(Caps::PROTOCOL_41.0 | Caps::DEPRECATE_EOF.0);

    #[test]
    fn the_end_is_seen_behind_few_rows() {
        let mut bytes = vec![];
        let row = |bytes: &mut Vec<u8>| put_packet(bytes, &mut 4, b"\x011");
        assert_eq!(end_in_sight(&bytes, NEW), Sight::NotYet);
        row(&mut bytes);
        assert_eq!(end_in_sight(&bytes, NEW), Sight::NotYet);
        let mut one = bytes.clone();
        put_packet(&mut one, &mut 5, b"\xfe\x00\x00\x0a\x10\x00\x00");
        assert_eq!(end_in_sight(&one, NEW), Sight::End(0x100a));
        assert_eq!(end_in_sight(&one[..one.len() - 1], NEW), Sight::NotYet);
        row(&mut bytes);
        assert_eq!(end_in_sight(&bytes, NEW), Sight::Rows);
        assert_eq!(end_in_sight(b"\xff\xff\xff\x01\xfe", NEW), Sight::NotYet);
    }

    #[test]
    fn each_eof_moves_the_numbers_on() {
        let mut older = Older { is_due: true, inserted: 0 };
        let mut out = vec![];
        older.put_eof(&mut out, 255, 2 | status::SESSION_STATE_CHANGED);
        assert_eq!(out, b"\x05\x00\x00\xff\xfe\x00\x00\x02\x00");
        assert_eq!((older.number(255), older.is_due), (0, false));
    }
}

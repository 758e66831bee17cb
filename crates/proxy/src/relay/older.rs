//! Results for a client that reads EOF packets, from a node that sends OK packets instead.
//!
//! An EOF packet carries no session tracking. What a stored function called by a SELECT has set would then not be known, so every node is
//! asked for OK packets, and the client's packets are made from them: the EOF after the columns (and after a statement's parameters) is
//! inserted, the one after the rows is made from the OK, and the packets are renumbered.
//!
//! The status flags of an EOF after the columns are those at the end of the result, if that has been received already. Otherwise they are
//! those before the statement, and those that the statement may set, since clients use the last EOF, and a result that ends with an error has no
//! other. Only for OUT parameters must clients know them before the row; that one row is waited for.

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::{EOF, OkPacket, put_eof, status};
use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX};

use super::{At, Relay};
use crate::backend::Backend;

/// The length of an EOF packet's payload; an OK packet in its place is longer.
pub const EOF_LEN: usize = 5;
/// The number of rows that are searched for the end of a result.
const LOOK_ROWS_MAX: usize = 64;
/// Flags that belong to the end of the rows only.
const OF_THE_END: u16 = status::SESSION_STATE_CHANGED | status::LAST_ROW_SENT | status::CURSOR_EXISTS;

/// An answer that is converted to EOF packets.
#[derive(Debug, Default)]
pub struct Older {
    /// An EOF must be inserted before the next packet.
    pub is_due: bool,
    /// How many were inserted so far, which is added to each packet's number.
    inserted: u8,
}

/// What was received of a result's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// Its status flags.
    End(u16),
    /// More than one row comes before it.
    Rows,
    /// Not enough was received.
    NotYet,
}

impl Older {
    /// Appends the EOF that is due, before a packet that has the node's number `seq`.
    pub fn put_eof(&mut self, out: &mut Vec<u8>, seq: u8, status: u16) {
        put_eof_packet(out, self.number(seq), 0, status & !OF_THE_END);
        self.inserted = self.inserted.wrapping_add(1);
        self.is_due = false;
    }

    /// The number for the client.
    pub fn number(&self, seq: u8) -> u8 {
        seq.wrapping_add(self.inserted)
    }
}

impl Relay<'_> {
    /// Whether an EOF is due whose flags a client needs before the rows, and they were not received yet.
    pub(super) fn must_see_more(&self, at: &At) -> bool {
        let buffer = &self.backend.link.buffer;
        at.older.as_ref().is_some_and(|older| older.is_due)
            && self.flight.may_give_parameters()
            && !buffer.is_large()
            && end_in_sight(&buffer.bytes()[at.ready..], self.backend.link.caps) == Sight::NotYet
    }

    /// Inserts the EOF that is due before the present packet, and renumbers that; returns its number.
    pub(super) fn put_in_older_form(&mut self, at: &mut At, head: Head) -> u8 {
        let Some(older) = &at.older else { return head.seq };
        // If the client has a cursor, this EOF is the end of the answer.
        if older.is_due && !at.answer.opened_cursor() {
            let Backend { standing, link, .. } = &*self.backend;
            let now = self.session.status(Some(standing));
            let flags = match end_in_sight(&link.buffer.bytes()[at.ready..], link.caps) {
                Sight::End(flags) => flags,
                _ if self.flight.command == Command::STMT_PREPARE => now,
                // It may have opened a transaction. One that is not there costs a needless COMMIT.
                _ if self.flight.calls() => now | status::MORE_RESULTS | status::IN_TRANS,
                _ if now & status::AUTOCOMMIT == 0 => now | status::IN_TRANS,
                _ => now,
            };
            self.put_due(at, head.seq, flags);
        }
        let Some(older) = &mut at.older else { return head.seq };
        older.is_due = at.answer.leaves_out_eof();
        let seq = older.number(head.seq);
        self.backend.link.buffer.bytes_mut()[at.ready + HEADER_LEN - 1] = seq;
        seq
    }

    /// The answer has ended with the packet that has the node's number `seq`: inserts the EOF after it, if one is due.
    pub(super) fn end_older_form(&mut self, at: &mut At, seq: u8) {
        if at.older.as_ref().is_some_and(|older| older.is_due) {
            let now = self.session.status(Some(&self.backend.standing));
            self.put_due(at, seq.wrapping_add(1), now);
        }
    }

    /// Inserts the EOF that is due after what is ready, before a packet that has the node's number `seq`.
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

/// Searches the end of the rows in `packets`, which follow the columns.
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

//! Long data (COM_STMT_SEND_LONG_DATA) of one session's statements, kept until their EXECUTE, since the session itself does not keep it.
//!
//! ```text
//!   SEND_LONG_DATA ──> keep: added to what is here, if the node has no more than that ──> EXECUTE ──> its pieces, or "not known"
//! ```
//!
//! Invariant: data that is returned as known is all that the node has for that EXECUTE. Data that was sent while there was no listener, or
//! did not fit, makes it unknown. An EXECUTE for which the node has no data has none, even if data of an earlier one that failed is left
//! here.

use std::collections::BTreeMap;

/// The most bytes kept for one session, including [`PIECE_BYTES`] for each parameter.
const LONG_BYTES_MAX: usize = 64 << 10;
/// What a parameter and a statement take in addition to their data; a piece may be empty.
const PIECE_BYTES: usize = 64;

/// The long data of one session. See the head of this file.
#[derive(Debug, Default)]
pub(super) struct LongData {
    statements: BTreeMap<u32, Long>,
    /// Of all statements together.
    bytes: usize,
    /// The edition of the tap in which all this was recorded.
    edition: u64,
    /// The data of the last EXECUTE.
    executed: Option<Long>,
}

/// The data for one statement's parameters.
#[derive(Debug, Default)]
struct Long {
    pieces: BTreeMap<u16, Vec<u8>>,
    bytes: usize,
    /// A part of it is missing.
    is_short: bool,
}

impl LongData {
    /// The listeners may have changed, and commands in between may be missing.
    pub(super) fn recorded_under(&mut self, edition: u64) {
        if edition != self.edition {
            self.edition = edition;
            self.statements.clear();
            self.bytes = 0;
            self.executed = None;
        }
    }

    /// A piece for a parameter of statement `id`. `payload`: as much of the command as was received; `whole`: that is all of it;
    /// `has_more`: the node has pieces already.
    pub(super) fn keep(&mut self, id: u32, payload: &[u8], whole: bool, has_more: bool) {
        if !has_more {
            self.forget(id);
        }
        let room = LONG_BYTES_MAX.saturating_sub(self.bytes);
        let piece = payload.get(5..).and_then(<[u8]>::split_first_chunk::<2>).filter(|_| whole);
        let is_new = !self.statements.contains_key(&id);
        let long = self.statements.entry(id).or_default();
        // If the beginning was not recorded, only that fact is kept.
        long.is_short |= is_new && has_more;
        if long.is_short {
            return;
        }
        let before = long.bytes;
        match piece {
            Some((nth, data)) => {
                let nth = u16::from_le_bytes(*nth);
                let bytes = data.len() + if long.pieces.contains_key(&nth) { 0 } else { PIECE_BYTES };
                if bytes <= room {
                    long.pieces.entry(nth).or_default().extend_from_slice(data);
                    long.bytes += bytes;
                } else {
                    *long = Long { is_short: true, ..Long::default() };
                }
            }
            None => *long = Long { is_short: true, ..Long::default() },
        }
        self.bytes = self.bytes - before + long.bytes;
    }

    /// Statement `id` is about to be run; `has_long`: the node has data for it.
    pub(super) fn executes(&mut self, id: u32, has_long: bool) {
        let long = self.take(id);
        let unknown = || Long { is_short: true, ..Long::default() };
        self.executed = has_long.then(|| long.unwrap_or_else(unknown));
    }

    /// Statement `id` was reset or closed.
    pub(super) fn forget(&mut self, id: u32) {
        self.take(id);
    }

    /// Whether all data of the EXECUTE that has ended under `edition` is here. It is not if there was no listener when it was sent.
    pub(super) fn is_known(&self, edition: u64) -> bool {
        self.edition == edition && self.executed.as_ref().is_none_or(|long| !long.is_short)
    }

    /// The data of the last EXECUTE for its parameter `nth`.
    pub(super) fn piece(&self, nth: u16) -> Option<&[u8]> {
        self.executed.as_ref()?.pieces.get(&nth).map(Vec::as_slice)
    }

    fn take(&mut self, id: u32) -> Option<Long> {
        let long = self.statements.remove(&id)?;
        self.bytes -= long.bytes;
        Some(long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// COM_STMT_SEND_LONG_DATA for parameter `nth` of statement 1.
    fn command(nth: u16, data: &[u8]) -> Vec<u8> {
        [&[0x18, 1, 0, 0, 0][..], &nth.to_le_bytes(), data].concat()
    }

    #[test]
    fn pieces_are_joined_and_an_empty_one_is_one() {
        let mut long = LongData::default();
        long.keep(1, &command(0, b"a"), true, false);
        long.keep(1, &command(0, b"b"), true, true);
        long.keep(1, &command(3, b""), true, true);
        long.executes(1, true);
        assert!(long.is_known(0) && !long.is_known(1));
        assert_eq!((long.piece(0), long.piece(3), long.piece(1)), (Some(&b"ab"[..]), Some(&b""[..]), None));
        long.executes(1, false);
        assert!(long.is_known(0) && long.piece(0).is_none(), "the node has none for the next");
    }

    #[test]
    fn what_an_execute_that_failed_used_is_not_used_again() {
        let mut long = LongData::default();
        long.keep(1, &command(0, b"old"), true, false);
        long.executes(1, true);
        long.executes(1, false);
        assert!(long.is_known(0) && long.piece(0).is_none());
        long.keep(1, &command(0, b"new"), true, false);
        long.executes(1, true);
        assert_eq!(long.piece(0), Some(&b"new"[..]));
    }

    #[test]
    fn what_came_unheard_makes_it_unknown() {
        let mut long = LongData::default();
        long.keep(1, &command(0, b"second"), true, true);
        long.executes(1, true);
        assert!(!long.is_known(0));
        long.keep(1, &command(0, b"first"), true, false);
        // One that listens went, and came again; what the node was sent meanwhile is not here.
        long.recorded_under(3);
        long.keep(1, &command(0, b"third"), true, true);
        long.executes(1, true);
        assert!(!long.is_known(3));
        long.keep(2, &command(0, b"not whole"), false, false);
        long.executes(2, true);
        assert!(!long.is_known(3));
    }

    #[test]
    fn empty_pieces_take_room_too() {
        let mut long = LongData::default();
        for nth in 0..=u16::MAX {
            long.keep(1, &command(nth, b""), true, nth > 0);
        }
        assert!(long.statements[&1].is_short && long.statements[&1].pieces.is_empty() && long.bytes == 0);
        for id in 2..10_000 {
            long.keep(id, &command(0, &[0; 32]), true, false);
        }
        assert!(long.bytes <= LONG_BYTES_MAX);
        let kept = long.statements.values().filter(|kept| !kept.is_short).count();
        assert_eq!(kept, LONG_BYTES_MAX / (PIECE_BYTES + 32));
        for id in 1..10_000 {
            long.forget(id);
        }
        assert_eq!((long.bytes, long.statements.len()), (0, 0));
    }
}

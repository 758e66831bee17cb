//! What the targets share: packets cut out of an input, and capability sets worth trying.

use protocol::capability::Caps;
use protocol::packet::{HEADER_LEN, Head};

/// One packet of an input.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// What its header claims.
    pub head: Head,
    /// As much of its payload as is there.
    pub payload: &'a [u8],
}

/// The packets of a byte stream; the last may be cut off. What stands behind a header that claims more than there is, is its payload.
pub fn packets(stream: &[u8]) -> Vec<Packet<'_>> {
    let mut all = Vec::new();
    let mut left = stream;
    while let Some(head) = Head::peek(left) {
        let behind = &left[HEADER_LEN..];
        let (payload, rest) = behind.split_at(head.len.min(behind.len()));
        all.push(Packet { head, payload });
        left = rest;
    }
    all
}

const BASE: Caps = Caps(
    Caps::PROTOCOL_41.0
        | Caps::SECURE_CONNECTION.0
        | Caps::PLUGIN_AUTH.0
        | Caps::TRANSACTIONS.0
        | Caps::MULTI_RESULTS.0,
);

/// Sets of capabilities as client and server may agree on them, chosen by one byte.
pub fn caps(choice: u8) -> Caps {
    const OPTIONS: [Caps; 8] = [
        Caps::DEPRECATE_EOF,
        Caps::SESSION_TRACK,
        Caps::CACHE_METADATA,
        Caps::OPTIONAL_RESULTSET_METADATA,
        Caps::PROGRESS,
        Caps::QUERY_ATTRIBUTES,
        Caps::CONNECT_ATTRS,
        Caps::PLUGIN_AUTH_LENENC_DATA,
    ];
    let chosen = |nth: usize| choice >> nth & 1 == 1;
    OPTIONS.iter().enumerate().filter(|(nth, _)| chosen(*nth)).fold(BASE, |all, (_, cap)| all | *cap)
}

/// Whether `part` lies within `whole` (and not only has the same bytes as a part of it).
pub fn lies_within(part: &[u8], whole: &[u8]) -> bool {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

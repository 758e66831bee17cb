//! Packets: the three-byte length and sequence number in front of every payload, and the fields inside one.
//!
//! Enters: bytes as they came from a socket. Leaves: [`Head`]s, fields, and packets ready to be sent. Invariant: no
//! read goes past the end of the slice it was given, whatever length the bytes claim; what does not fit is
//! [`Malformed`], never a panic.
//!
//! ```text
//!   | len u24 LE | seq u8 | payload ... |     a payload of 0xFFFFFF bytes is continued by the next packet,
//!                                             so one that fits exactly is followed by an empty packet
//! ```

/// Length of a packet's header, in bytes.
pub const HEADER_LEN: usize = 4;
/// The longest payload of one packet, in bytes; one of exactly this length is continued in the next packet.
pub const PAYLOAD_MAX: usize = 0xFF_FFFF;

/// The bytes do not follow the protocol: the sender's fault (or the network's). The connection cannot be used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes do not follow the MySQL protocol: {what}")]
pub struct Malformed {
    /// Which field, and what was wrong with it.
    pub what: &'static str,
}

impl Malformed {
    /// Names the field and what was wrong with it.
    pub const fn new(what: &'static str) -> Malformed {
        Malformed { what }
    }
}

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Payload length in bytes, at most [`PAYLOAD_MAX`].
    pub len: usize,
    /// Sequence number; starts at 0 with each command, and goes up by one a packet, in both directions.
    pub seq: u8,
}

impl Head {
    /// Reads the header at the start of `bytes`; `None` while fewer than four bytes are there.
    #[inline]
    pub fn peek(bytes: &[u8]) -> Option<Head> {
        let [a, b, c, seq] = *bytes.first_chunk::<HEADER_LEN>()?;
        Some(Head { len: u32::from_le_bytes([a, b, c, 0]) as usize, seq })
    }

    /// The header as bytes. A length above [`PAYLOAD_MAX`] cannot be said in a header and is cut to it.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [a, b, c, _] = (self.len.min(PAYLOAD_MAX) as u32).to_le_bytes();
        [a, b, c, self.seq]
    }
}

/// Appends `payload` as one packet, or as several when it is [`PAYLOAD_MAX`] bytes or more (the last may be empty);
/// `seq` is that of the first packet, and afterwards that of the one to come.
pub fn put_packet(out: &mut Vec<u8>, seq: &mut u8, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (part, after) = rest.split_at(rest.len().min(PAYLOAD_MAX));
        out.extend_from_slice(&Head { len: part.len(), seq: *seq }.to_bytes());
        out.extend_from_slice(part);
        *seq = seq.wrapping_add(1);
        if part.len() < PAYLOAD_MAX {
            return;
        }
        rest = after;
    }
}

/// Begins a packet whose payload is built in place: appends an empty header and returns where it stands, for
/// [`end_packet`].
#[must_use]
pub fn begin_packet(out: &mut Vec<u8>) -> usize {
    let begun_at = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    begun_at
}

/// Ends the packet begun at `begun_at`: everything appended since is its payload. One of [`PAYLOAD_MAX`] bytes or more
/// is split, at the cost of a copy.
pub fn end_packet(out: &mut Vec<u8>, begun_at: usize, seq: &mut u8) {
    let payload_at = begun_at.saturating_add(HEADER_LEN);
    let len = out.len().saturating_sub(payload_at);
    if len >= PAYLOAD_MAX {
        let payload = out.split_off(payload_at);
        out.truncate(begun_at);
        put_packet(out, seq, &payload);
        return;
    }
    if let Some(header) = out.get_mut(begun_at..payload_at) {
        header.copy_from_slice(&Head { len, seq: *seq }.to_bytes());
        *seq = seq.wrapping_add(1);
    }
}

/// A cursor over a payload's fields. Each read takes its bytes from the front or fails and takes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    left: &'a [u8],
}

const SHORT: Malformed = Malformed::new("the payload ends within a field");

impl<'a> Fields<'a> {
    /// A cursor at the start of `payload`.
    #[inline]
    pub fn new(payload: &'a [u8]) -> Fields<'a> {
        Fields { left: payload }
    }

    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// What is left, without taking it.
    #[inline]
    pub fn left(&self) -> &'a [u8] {
        self.left
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, left) = self.left.split_first_chunk::<N>().ok_or(SHORT)?;
        self.left = left;
        Ok(*head)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take::<1>()?[0])
    }

    /// Two bytes, little end first.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    /// Three bytes, little end first.
    #[inline]
    pub fn u24(&mut self) -> Result<u32, Malformed> {
        let [a, b, c] = self.take()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes, little end first.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    /// Eight bytes, little end first.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, left) = self.left.split_at_checked(n).ok_or(SHORT)?;
        self.left = left;
        Ok(head)
    }

    /// A length-encoded integer; the mark for NULL (0xFB) is not one.
    #[inline]
    pub fn lenenc_int(&mut self) -> Result<u64, Malformed> {
        let before = *self;
        self.lenenc()?.ok_or_else(|| {
            *self = before;
            Malformed::new("NULL where a number or length must stand")
        })
    }

    /// The integer, or `None` for the mark for NULL.
    fn lenenc(&mut self) -> Result<Option<u64>, Malformed> {
        let before = *self;
        let value = match self.u8()? {
            small @ 0..=0xFA => Ok(Some(u64::from(small))),
            0xFB => Ok(None),
            0xFC => self.u16().map(|n| Some(u64::from(n))),
            0xFD => self.u24().map(|n| Some(u64::from(n))),
            0xFE => self.u64().map(Some),
            0xFF => Err(Malformed::new("0xFF begins no length-encoded integer")),
        };
        if value.is_err() {
            *self = before;
        }
        value
    }

    /// A length-encoded string.
    #[inline]
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let before = *self;
        self.lenenc_nullable()?.ok_or_else(|| {
            *self = before;
            Malformed::new("NULL where a string must stand")
        })
    }

    /// A length-encoded string, or `None` for NULL.
    #[inline]
    pub fn lenenc_nullable(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let before = *self;
        let Some(n) = self.lenenc()? else { return Ok(None) };
        let bytes = usize::try_from(n).map_err(|_| SHORT).and_then(|n| self.bytes(n));
        if bytes.is_err() {
            *self = before;
        }
        bytes.map(Some)
    }

    /// A string ended by a NUL, which is taken but not returned.
    pub fn nul_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self
            .left
            .iter()
            .position(|&b| b == 0)
            .ok_or(Malformed::new("a NUL-ended string without its NUL"))?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }

    /// Everything that is left.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }
}

/// Writing the fields that [`Fields`] reads.
pub mod put {
    /// Two bytes, little end first.
    pub fn u16(out: &mut Vec<u8>, n: u16) {
        out.extend_from_slice(&n.to_le_bytes());
    }

    /// The lower three bytes of `n`, little end first.
    pub fn u24(out: &mut Vec<u8>, n: u32) {
        let [a, b, c, _] = n.to_le_bytes();
        out.extend_from_slice(&[a, b, c]);
    }

    /// Four bytes, little end first.
    pub fn u32(out: &mut Vec<u8>, n: u32) {
        out.extend_from_slice(&n.to_le_bytes());
    }

    /// Eight bytes, little end first.
    pub fn u64(out: &mut Vec<u8>, n: u64) {
        out.extend_from_slice(&n.to_le_bytes());
    }

    /// A length-encoded integer, in its shortest form.
    pub fn lenenc_int(out: &mut Vec<u8>, n: u64) {
        match n {
            0..=0xFA => out.push(n as u8),
            0xFB..=0xFFFF => {
                out.push(0xFC);
                u16(out, n as u16);
            }
            0x1_0000..=0xFF_FFFF => {
                out.push(0xFD);
                u24(out, n as u32);
            }
            _ => {
                out.push(0xFE);
                u64(out, n);
            }
        }
    }

    /// A length-encoded string.
    pub fn lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
        lenenc_int(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }

    /// A string and its NUL. A NUL within `bytes` ends it there: a name must never be able to shift the fields behind it.
    pub fn nul_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
        out.extend(bytes.iter().copied().take_while(|&b| b != 0));
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_read_as_it_is_written() {
        assert_eq!(Head::peek(&[0x4a, 0x00, 0x01]), None);
        assert_eq!(Head::peek(&[0x4a, 0x00, 0x01, 7, 9]), Some(Head { len: 0x01_004a, seq: 7 }));
        assert_eq!(Head { len: 0x01_004a, seq: 7 }.to_bytes(), [0x4a, 0x00, 0x01, 7]);
    }

    #[test]
    fn a_payload_that_fits_exactly_is_followed_by_an_empty_packet() {
        let mut out = Vec::new();
        let mut seq = 255;
        put_packet(&mut out, &mut seq, &vec![b'x'; PAYLOAD_MAX]);
        assert_eq!(Head::peek(&out), Some(Head { len: PAYLOAD_MAX, seq: 255 }));
        assert_eq!(out[HEADER_LEN + PAYLOAD_MAX..], [0, 0, 0, 0]);
        assert_eq!(seq, 1);
    }

    #[test]
    fn building_in_place_gives_the_same_bytes_as_putting() {
        for len in [0, 1, 300, PAYLOAD_MAX - 1, PAYLOAD_MAX, PAYLOAD_MAX + 5] {
            let payload = vec![b'y'; len];
            let (mut put, mut built) = (vec![1, 2], vec![1, 2]);
            let (mut put_seq, mut built_seq) = (3, 3);
            put_packet(&mut put, &mut put_seq, &payload);
            let at = begin_packet(&mut built);
            built.extend_from_slice(&payload);
            end_packet(&mut built, at, &mut built_seq);
            assert!(put == built, "payload of {len} bytes");
            assert_eq!(put_seq, built_seq);
        }
    }

    #[test]
    fn a_name_cannot_shift_the_fields_behind_it() {
        let mut out = Vec::new();
        put::nul_bytes(&mut out, b"root\0admin");
        assert_eq!(out, b"root\0");
    }

    #[test]
    fn a_failed_read_takes_nothing() {
        for bytes in [&[0xFC, 1][..], &[0xFD, 1, 2], &[0xFE, 0, 0, 0, 0, 0, 0, 0], &[0xFF], &[5, b'a']] {
            let mut fields = Fields::new(bytes);
            assert!(fields.lenenc_bytes().is_err());
            assert_eq!(fields.left(), bytes);
        }
    }

    proptest! {
        #[test]
        fn lenenc_round_trip(n in any::<u64>(), shift in 0u32..64) {
            let n = n >> shift;
            let mut out = Vec::new();
            put::lenenc_int(&mut out, n);
            let mut fields = Fields::new(&out);
            prop_assert_eq!(fields.lenenc_int(), Ok(n));
            prop_assert!(fields.is_empty());
        }

        #[test]
        fn strings_round_trip(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut out = Vec::new();
            put::lenenc_bytes(&mut out, &text);
            out.push(9);
            let mut fields = Fields::new(&out);
            prop_assert_eq!(fields.lenenc_bytes(), Ok(&text[..]));
            prop_assert_eq!(fields.u8(), Ok(9));
        }

        #[test]
        fn reads_never_go_past_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..40), order in proptest::collection::vec(0u8..9, 0..20)) {
            let mut fields = Fields::new(&bytes);
            for what in order {
                let before = fields.left().len();
                let failed = match what {
                    0 => fields.u8().is_err(),
                    1 => fields.u16().is_err(),
                    2 => fields.u24().is_err(),
                    3 => fields.u32().is_err(),
                    4 => fields.u64().is_err(),
                    5 => fields.lenenc_int().is_err(),
                    6 => fields.lenenc_nullable().is_err(),
                    7 => fields.nul_bytes().is_err(),
                    _ => fields.bytes(before + 1).is_err(),
                };
                let took = before - fields.left().len();
                prop_assert_eq!(failed, took == 0);
            }
        }
    }
}

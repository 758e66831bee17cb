//! Packets and the fields in them.
//!
//! Input: a byte that chooses how the stream is cut, then the stream. Checked: the same packets come out however the stream
//! arrives; a packet is written as it was read, in both ways of writing; a field lies within its payload, a failed read takes
//! nothing, and what was read is written back in no more bytes.

use crate::packets::lies_within;
use protocol::packet::{Fields, HEADER_LEN, Head, begin_packet, end_packet, put, put_packet};

pub(crate) fn holds(input: &[u8]) {
    let Some((&cut, stream)) = input.split_first() else { return };
    let (whole, left) = read(stream, stream.len());
    let (pieces, left_of_pieces) = read(stream, usize::from(cut) + 1);
    assert_eq!(whole, pieces, "the packets depend on how the bytes came");
    assert_eq!(left, left_of_pieces);
    for (head, payload) in &whole {
        writing(*head, payload);
        fields(payload);
    }
    fields(stream);
}

/// Reads as every reader of sockets here does: bytes come in pieces, a packet is taken once it is whole. Nothing is set aside for
/// what a header claims.
fn read(stream: &[u8], piece: usize) -> (Vec<(Head, Vec<u8>)>, Vec<u8>) {
    let mut packets = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    for bytes in stream.chunks(piece.max(1)) {
        held.extend_from_slice(bytes);
        while let Some(head) = Head::peek(&held) {
            let Some(payload) = held.get(HEADER_LEN..HEADER_LEN + head.len) else { break };
            packets.push((head, payload.to_vec()));
            held.drain(..HEADER_LEN + head.len);
        }
    }
    (packets, held)
}

fn writing(head: Head, payload: &[u8]) {
    let (mut put, mut built) = (vec![1], vec![1]);
    let (mut put_seq, mut built_seq) = (head.seq, head.seq);
    put_packet(&mut put, &mut put_seq, payload);
    let at = begin_packet(&mut built);
    built.extend_from_slice(payload);
    end_packet(&mut built, at, &mut built_seq);
    assert!(put == built && put_seq == built_seq, "the two ways of writing differ");
    assert_eq!(put_seq, head.seq.wrapping_add(1));
    assert_eq!(Head::peek(&put[1..]), Some(head));
    assert_eq!(&put[1 + HEADER_LEN..], payload);
    assert_eq!(head.to_bytes(), put[1..=HEADER_LEN]);
}

/// Reads fields of the kinds that the bytes themselves choose.
fn fields(payload: &[u8]) {
    let mut fields = Fields::new(payload);
    for &kind in payload {
        let before = fields.left();
        let written = match kind % 10 {
            0 => fields.u8().map(|n| vec![n]),
            1 => fields.u16().map(|n| made(|out| put::u16(out, n))),
            2 => fields.u24().map(|n| made(|out| put::u24(out, n))),
            3 => fields.u32().map(|n| made(|out| put::u32(out, n))),
            4 => fields.u64().map(|n| made(|out| put::u64(out, n))),
            5 => fields.lenenc_int().map(|n| made(|out| put::lenenc_int(out, n))),
            6 => fields.lenenc_bytes().map(|text| {
                assert!(lies_within(text, payload));
                made(|out| put::lenenc_bytes(out, text))
            }),
            7 => fields.nul_bytes().map(|text| {
                assert!(lies_within(text, payload) && !text.contains(&0));
                made(|out| put::nul_bytes(out, text))
            }),
            8 => fields.lenenc_nullable().map(|text| match text {
                Some(text) => made(|out| put::lenenc_bytes(out, text)),
                None => vec![0xFB],
            }),
            _ => fields.bytes(usize::from(kind)).map(<[u8]>::to_vec),
        };
        let after = fields.left();
        assert!(lies_within(after, payload), "a read went past the end");
        let taken = &before[..before.len() - after.len()];
        match written {
            Err(_) => assert!(taken.is_empty(), "a failed read took something"),
            // A length may be written longer than it need be; ours are the shortest.
            Ok(written) if matches!(kind % 10, 5 | 6 | 8) => {
                assert!(written.len() <= taken.len());
                let again = Fields::new(&written).lenenc_nullable();
                let first = Fields::new(taken).lenenc_nullable();
                assert_eq!(again, first, "what was written is not what was read");
            }
            Ok(written) => assert_eq!(written, taken, "what was written is not what was read"),
        }
    }
    let left = fields.left();
    assert_eq!(fields.rest(), left);
    assert!(fields.is_empty());
}

fn made(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

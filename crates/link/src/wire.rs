//! Reads and writes packets, one request and its answer at a time.
//!
//! Bytes that arrive behind the requested packet stay in the buffer; between statements there are none, except for a last
//! error of the server. Reading is cancel safe: a dropped read leaves the received bytes in the buffer.

use std::time::Duration;

use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX, put_packet};
use tokio::io::AsyncWriteExt;
use zeroize::Zeroizing;

use crate::{Buffer, LinkError, Transport};

/// The largest answer, in bytes. Larger ones must be read through the transport.
pub(crate) const ANSWER_MAX: usize = 16 << 20;

/// The packet at the front of the buffer, when it is there wholly: its head and its payload.
pub(crate) fn whole(buffer: &Buffer) -> Option<(Head, &[u8])> {
    let head = Head::peek(buffer.bytes())?;
    Some((head, buffer.bytes().get(HEADER_LEN..HEADER_LEN + head.len)?))
}

/// The next packet's payload, continued packets joined, and the sequence number to answer with.
pub(crate) async fn packet(
    buffer: &mut Buffer,
    stream: &mut Transport,
    deadline: Duration,
) -> Result<(u8, Vec<u8>), LinkError> {
    let mut joined = Vec::new();
    loop {
        while let Some((head, payload)) = whole(buffer) {
            joined.extend_from_slice(payload);
            buffer.consume(HEADER_LEN + head.len);
            if head.len < PAYLOAD_MAX {
                return Ok((head.seq.wrapping_add(1), joined));
            }
        }
        if joined.len() + buffer.len() > ANSWER_MAX + 2 * HEADER_LEN {
            return Err(LinkError::Protocol(format!("an answer of more than {ANSWER_MAX} bytes")));
        }
        match buffer.fill(stream).await {
            Ok(0) => return Err(LinkError::Closed),
            Ok(_) => {}
            Err(error) => return Err(LinkError::of_io(&error, deadline)),
        }
    }
}

pub(crate) async fn send(
    stream: &mut Transport,
    mut seq: u8,
    payload: &[u8],
    deadline: Duration,
) -> Result<(), LinkError> {
    if seq == 0 {
        stream.begin_command();
    }
    // It may have a password in it.
    let mut out = Zeroizing::new(Vec::with_capacity(HEADER_LEN + payload.len()));
    put_packet(&mut out, &mut seq, payload);
    stream.write_all(&out).await.map_err(|error| LinkError::of_io(&error, deadline))
}

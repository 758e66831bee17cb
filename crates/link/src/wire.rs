//! Packets in and out of a socket, one conversation at a time.
//!
//! Bytes that the peer sent beyond the packet asked for stay in the inbox; between statements there are none, but for a
//! goodbye. Reading is cancel safe: a dropped read leaves what has come so far in the inbox.

use std::io;
use std::time::Duration;

use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX, put_packet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{LinkError, Stream};

/// The most that one answer may bring, in bytes: whoever expects more should not use this.
pub(crate) const ANSWER_MAX: usize = 16 << 20;

/// What has been read and not yet been taken.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
}

impl Inbox {
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// The next packet, when it is there wholly: its head and where its payload lies in the inbox.
    fn whole(&self) -> Option<Head> {
        Head::peek(self.unread()).filter(|head| self.unread().len() >= HEADER_LEN + head.len)
    }

    /// Takes the next packet, if it is there wholly.
    pub(crate) fn take(&mut self) -> Option<(Head, Vec<u8>)> {
        let head = self.whole()?;
        let payload = self.unread().get(HEADER_LEN..HEADER_LEN + head.len)?.to_vec();
        self.taken += HEADER_LEN + head.len;
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
        Some((head, payload))
    }

    /// Reads once from the socket; 0 when the peer has closed.
    pub(crate) async fn fill(&mut self, stream: &mut impl Stream) -> io::Result<usize> {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.reserve(4096);
        stream.read_buf(&mut self.bytes).await
    }

    /// The next packet's payload, continued packets joined, and the sequence number to answer with.
    pub(crate) async fn packet(
        &mut self,
        stream: &mut impl Stream,
        deadline: Duration,
    ) -> Result<(u8, Vec<u8>), LinkError> {
        let mut joined = Vec::new();
        loop {
            if let Some((head, mut payload)) = self.take() {
                let is_last = head.len < PAYLOAD_MAX;
                joined = if joined.is_empty() {
                    payload
                } else {
                    joined.append(&mut payload);
                    joined
                };
                if is_last {
                    return Ok((head.seq.wrapping_add(1), joined));
                }
            }
            if joined.len() + self.unread().len() > ANSWER_MAX + 2 * HEADER_LEN {
                return Err(LinkError::Protocol(format!("an answer of more than {ANSWER_MAX} bytes")));
            }
            if self.whole().is_some() {
                continue;
            }
            match self.fill(stream).await {
                Ok(0) => return Err(LinkError::Closed),
                Ok(_) => {}
                Err(error) => return Err(LinkError::of_io(&error, deadline)),
            }
        }
    }
}

pub(crate) async fn send(
    stream: &mut impl Stream,
    mut seq: u8,
    payload: &[u8],
    deadline: Duration,
) -> Result<(), LinkError> {
    let mut out = Vec::with_capacity(HEADER_LEN + payload.len());
    put_packet(&mut out, &mut seq, payload);
    stream.write_all(&out).await.map_err(|error| LinkError::of_io(&error, deadline))
}

//! What a client still sends while its node waits for it: the rest of a statement that is not kept, or a file that it loads.
//!
//! The node and the lane are watched meanwhile: a client that stops in the middle must not keep a node from becoming quiet, nor hide its
//! end. What is left then is read and dropped later, without the node ([`Unread`]).

use std::time::Instant;

use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX};
use topology::routes::Cut;

use crate::activity::{Card, Doing};
use crate::backend::Backend;
use crate::frontend::{Client, Done};

/// What the client has not sent yet of something that nobody waits for any more. It must never be taken for a command.
#[derive(Clone, Copy, Debug)]
pub enum Unread {
    /// So many bytes of a packet; and, if `goes_on`, the packets behind it that continue the command.
    Command {
        /// Of the present packet.
        left: usize,
        /// More packets follow.
        goes_on: bool,
    },
    /// So many bytes of a packet of a file, and all behind it up to the empty one; `ends`: it is that one.
    File {
        /// Of the present packet.
        left: usize,
        /// Of the present packet.
        seq: u8,
        /// The present packet is the last.
        ends: bool,
    },
}

/// Why no more came.
#[derive(Debug)]
pub enum Unfed {
    /// The client is gone.
    Gone,
    /// The lane is to become quiet, or has been shut.
    Cut,
    /// The node has ended the link.
    Lost,
}

/// Waits until the client has sent more, or that is of no more use: when `cut` is reached, or the node ends the link.
pub async fn more(client: &mut Client, backend: &Backend, card: &Card, cut: Cut) -> Result<(), Unfed> {
    card.set(Doing::Sending, Instant::now());
    let lane = backend.lane();
    tokio::select! {
        biased;
        () = lane.until_cut(cut) => Err(Unfed::Cut),
        has_more = client.fill() => if has_more { Ok(()) } else { Err(Unfed::Gone) },
        () = backend.link.stream.until_hung_up() => Err(Unfed::Lost),
    }
}

/// Reads and drops what is left. After a file: the sequence number of what follows it.
pub async fn drop_unread(client: &mut Client, unread: Unread) -> Result<Option<u8>, Done> {
    match unread {
        Unread::Command { left, goes_on } => {
            client.drop_bytes(left).await?;
            let mut goes_on = goes_on;
            while goes_on {
                client.continued = client.continued.wrapping_add(1);
                let head = next_head(client).await?;
                client.drop_bytes(HEADER_LEN + head.len).await?;
                goes_on = head.len == PAYLOAD_MAX;
            }
            Ok(None)
        }
        Unread::File { left, mut seq, mut ends } => {
            client.drop_bytes(left).await?;
            while !ends {
                let head = next_head(client).await?;
                client.drop_bytes(HEADER_LEN + head.len).await?;
                (seq, ends) = (head.seq, head.len == 0);
            }
            Ok(Some(seq.wrapping_add(1)))
        }
    }
}

/// The head of the next packet, which stays where it is.
async fn next_head(client: &mut Client) -> Result<Head, Done> {
    loop {
        if let Some(head) = Head::peek(client.buffer.bytes()) {
            return Ok(head);
        }
        if !client.fill().await {
            return Err(Done::Gone);
        }
    }
}

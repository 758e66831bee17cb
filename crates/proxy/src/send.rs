//! Sends a command to the node: with the node's statement id, whole or streamed.

use protocol::command::Command;
use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX, put_packet};
use session::command::{BULK_SENDS_TYPES, Cost, InFlight, types_at};
use session::standing::Standing;
use session::wanted::Wanted;
use topology::fact::ConnectFailure;
use topology::routes::Cut;

use crate::activity::Card;
use crate::backend::{Backend, of_io};
use crate::feed::{self, Unfed};
use crate::frontend::Client;
use crate::unread::Unread;

/// A command with the node's ids.
pub enum Localised {
    /// Unchanged, as it is in the client's buffer.
    AsItIs,
    /// This packet instead.
    Rebuilt(Vec<u8>),
    /// It leaves out values that only the former node has.
    Unknown,
}

/// Replaces the client's statement id by the node's, in place. Rebuilds the command if the node must be sent the parameter types that the
/// client sent to its former node. `packet` is as much of the command as was received.
pub fn localise(
    wanted: &Wanted,
    link: &mut Standing,
    flight: &InFlight,
    packet: &mut [u8],
    whole: bool,
) -> Localised {
    in_its_terms(wanted, link, flight, packet, whole).unwrap_or(Localised::AsItIs)
}

fn in_its_terms(
    wanted: &Wanted,
    link: &mut Standing,
    flight: &InFlight,
    packet: &mut [u8],
    whole: bool,
) -> Option<Localised> {
    let id = flight.statement?;
    let statement = wanted.statements.get(&id)?;
    let on_node = link.statement(id)?;
    packet.get_mut(HEADER_LEN + 1..HEADER_LEN + 5)?.copy_from_slice(&on_node.id.to_le_bytes());
    // The offset of the flag, its value when types follow, and their offset.
    let types_at = HEADER_LEN + types_at(flight.command, statement.params);
    let (flag_at, flag) = match flight.command {
        Command::STMT_EXECUTE if statement.params > 0 => (types_at - 1, 1),
        Command::STMT_BULK_EXECUTE if statement.params > 0 => (HEADER_LEN + 5, BULK_SENDS_TYPES),
        _ => return None,
    };
    if packet.get(flag_at)? & flag != 0 {
        link.change(id, |on_node| on_node.types_told = true);
        return None;
    }
    if on_node.types_told {
        return None;
    }
    if statement.types_unseen || (!whole && !statement.types.is_empty()) {
        return Some(Localised::Unknown);
    }
    if statement.types.is_empty() {
        return None; // never sent to any node: its own error for that is right
    }
    link.change(id, |on_node| on_node.types_told = true);
    let mut payload = packet.get(HEADER_LEN..types_at)?.to_vec();
    payload[flag_at - HEADER_LEN] |= flag;
    payload.extend_from_slice(&statement.types);
    payload.extend_from_slice(packet.get(types_at..)?);
    let mut out = Vec::with_capacity(payload.len() + HEADER_LEN);
    put_packet(&mut out, &mut 0, &payload);
    Some(Localised::Rebuilt(out))
}

/// How streaming a command ended.
pub enum Streamed {
    /// The node has all of it.
    Whole,
    /// The link broke before; the rest that the client still has to send is left unread.
    Lost(ConnectFailure, Unread),
    /// The lane is to become quiet, or is shut; the rest is left unread, too.
    Cut(Unread),
    /// The client went away in the middle of it.
    ClientGone,
}

/// Forwards a command that is not kept, packet by packet, until one is shorter than the greatest. The command has not run before its last
/// byte is sent, so it is given up for a planned move, unless a transaction would be lost with it.
pub async fn stream_command(
    client: &mut Client,
    backend: &mut Backend,
    card: &Card,
    flight: &InFlight,
) -> Streamed {
    backend.begin_command();
    let cost = flight.cost_unsent();
    card.set_cost(cost);
    let cut = if cost == Cost::NotRun { Cut::Stalled } else { Cut::All };
    let mut is_first = true;
    loop {
        let mut left = HEADER_LEN;
        let head = loop {
            if let Some(head) = Head::peek(client.buffer.bytes()) {
                break head;
            }
            if let Err(unfed) = feed::more(client, backend, card, cut).await {
                // The packet that is awaited continues the command, so no part of another command is skipped.
                return ended(unfed, Unread::Command { left: 0, goes_on: true });
            }
        };
        left += head.len;
        if !is_first {
            client.continued = client.continued.wrapping_add(1);
        }
        is_first = false;
        while left > 0 {
            let unread = |left| Unread::Command { left, goes_on: head.len == PAYLOAD_MAX };
            if client.buffer.is_empty()
                && let Err(unfed) = feed::more(client, backend, card, cut).await
            {
                return ended(unfed, unread(left));
            }
            let piece = left.min(client.buffer.len());
            let written = backend.write(&client.buffer.bytes()[..piece]).await;
            client.buffer.consume(piece);
            left -= piece;
            if let Err(error) = written {
                return Streamed::Lost(of_io(&error), unread(left));
            }
        }
        if head.len < PAYLOAD_MAX {
            backend.sent_whole();
            return Streamed::Whole;
        }
    }
}

fn ended(unfed: Unfed, unread: Unread) -> Streamed {
    match unfed {
        Unfed::Gone => Streamed::ClientGone,
        Unfed::Cut => Streamed::Cut(unread),
        Unfed::Lost => Streamed::Lost(ConnectFailure::Closed, unread),
    }
}

//! Waits for more data of a client while its node waits for it, too: the rest of a statement that is not kept, or a file that it loads.
//!
//! The node and the lane are watched meanwhile: a client that stops in the middle must not keep a node from becoming quiet, nor hide the
//! end of the link. The rest is then read and discarded later, without the node ([`crate::unread`]).

use std::time::Instant;

use topology::routes::Cut;

use crate::activity::{Card, Doing};
use crate::backend::Backend;
use crate::frontend::Client;

/// Why no more data came.
#[derive(Debug)]
pub enum Unfed {
    /// The client is gone.
    Gone,
    /// The lane is to become quiet, or has been shut.
    Cut,
    /// The node has ended the link.
    Lost,
}

/// Waits until the client has sent more. Ends earlier when `cut` is reached, or the node ends the link.
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

//! A client that went away while its statement ran: the statement ends on the node as it would without a proxy.
//!
//! A statement that changes nothing, or would be rolled back, is killed. Any other continues, as it does on a server; but the node can see
//! the end of its client (the link is closed in one direction), so that it stops where servers check for that: in SLEEP, GET_LOCK and the
//! like. The lease is held until the node has closed the link, since the lane is not quiet before.

use std::sync::Arc;
use std::time::Duration;

use protocol::capability::Caps;
use session::command::InFlight;
use tokio::time::timeout;

use crate::backend::Backend;
use crate::identity::Identity;
use crate::kill;
use crate::lane::{Lane, Lease};
use crate::registry::SessionLocation;
use crate::shared::Shared;

/// The manager may take this long to give a node up after a link to it has broken.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(10);

/// Reports a statement that ran when its link broke, if its node turns out to be lost.
pub async fn tell_if_lost(shared: Arc<Shared>, lane: Arc<Lane>, text: Vec<u8>) {
    if timeout(GIVEN_UP_WITHIN, lane.until_shut()).await.is_ok() && lane.is_lost() {
        shared.statement_lost(&lane, &text);
    }
}

/// The same for a replica that ran a read.
pub async fn tell_if_replica_lost(shared: Arc<Shared>, lane: Arc<Lane>, text: Vec<u8>) {
    if timeout(GIVEN_UP_WITHIN, lane.until_shut()).await.is_ok()
        && lane.is_lost()
        && let Some(replicas) = &shared.replicas
    {
        replicas.tell(shared.suspect(&lane, &text));
    }
}

/// Returns when the node has ended the link, or has been given up.
pub async fn end_on_node(
    shared: &Arc<Shared>,
    who: &Identity,
    caps: Caps,
    flight: &InFlight,
    mut backend: Backend,
    lease: Option<Lease>,
) {
    if backend.is_half_sent() {
        return; // the node has not got all of it, and drops what it has with the link
    }
    let lane = backend.lane().clone();
    if flight.ends_without_trace() {
        let place =
            SessionLocation { lane: lane.clone(), thread_id: backend.thread_id(), kills: Arc::default() };
        if let Err(why) = kill::kill(shared, who, caps, &place, false).await {
            tracing::debug!("a statement whose client is gone could not be killed on {}: {why}", lane.name);
        }
    }
    let ended = async {
        backend.half_close().await;
        backend.discard_until_end().await;
    };
    tokio::select! {
        () = ended => {}
        () = lane.until_shut() => {}
    }
    drop(lease);
}

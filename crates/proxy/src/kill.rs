//! KILL: which session an id means, and ending it on the node where it is now.
//!
//! An id may be the one that the proxy greeted a client with, or one that a node told (CONNECTION_ID(), SHOW PROCESSLIST), now or before the
//! session moved. The nodes number their connections each by itself, so an id of a node may mean several; then nobody is killed, and
//! the answer names the ids that are not ambiguous.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use protocol::capability::Caps;
use session::session::Session;

use crate::backend::{AttachError, Backend, Terms};
use crate::identity::Identity;
use crate::lane::Lane;
use crate::reads::CatchUp;
use crate::registry::{Named, Place};
use crate::shared::Shared;

/// Whom a KILL is for.
pub enum Target {
    /// No session of this proxy: the node that the issuer is on knows.
    OnNode,
    /// This client's session, where it is now.
    Session(Place),
    /// This very client.
    Itself,
    /// Nobody that it could be; why.
    Nobody(String),
}

/// Whom `id` means to the client `issuer`, whose session stands on `own`.
pub async fn target(
    shared: &Arc<Shared>,
    who: &Identity,
    caps: Caps,
    issuer: u32,
    own: Option<&Arc<Lane>>,
    id: u64,
) -> Target {
    let (session, place) = match shared.registry.named(id) {
        Named::Nobody if id >= u64::from(crate::registry::FIRST_ID) => {
            return Target::Nobody(format!("{id}"));
        }
        Named::Nobody => return Target::OnNode,
        Named::One(session, _) if session == issuer => return Target::Itself,
        Named::One(session, place) => (session, place),
        Named::Several(sessions) => return Target::Nobody(several(id, &sessions)),
    };
    let Some(place) = place else { return Target::Nobody(format!("{id}")) };
    // The same number on the issuer's own node may be a connection that is not the proxy's.
    if id < u64::from(crate::registry::FIRST_ID)
        && let Some(own) = own
        && !shared.registry.stands_on(session, own, id)
        && has_thread(shared, who, caps, own, id).await
    {
        return Target::Nobody(several(id, &[session]));
    }
    Target::Session(place)
}

fn several(id: u64, sessions: &[u32]) -> String {
    let ids: Vec<String> = sessions.iter().map(u32::to_string).collect();
    format!(
        "{id} is not one connection only: database nodes number theirs each by itself; the proxy's own numbers are not ambiguous: {}",
        ids.join(", ")
    )
}

/// Whether a node has a connection of this number that is not the proxy's; what cannot be found out is none.
async fn has_thread(shared: &Arc<Shared>, who: &Identity, caps: Caps, lane: &Arc<Lane>, id: u64) -> bool {
    let Ok(mut side) = side_link(shared, who, caps, lane).await else { return false };
    let question = format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {id}");
    let found = side.query(&question, shared.settings.connect_timeout).await;
    matches!(found, Ok(Some(rows)) if !rows.is_empty())
}

/// Ends it there; the node's refusal as a sentence.
pub async fn kill(
    shared: &Arc<Shared>,
    who: &Identity,
    caps: Caps,
    place: &Place,
    query_only: bool,
) -> Result<(), String> {
    let what = if query_only { "QUERY" } else { "CONNECTION" };
    let mut side = side_link(shared, who, caps, &place.lane).await.map_err(|error| error.to_string())?;
    let order = format!("KILL {what} {}", place.thread_id);
    // Before the node is told, since the link may end before its OK is here.
    if !query_only {
        place.kills.fetch_add(1, SeqCst);
    }
    side.link.query(&order, shared.settings.connect_timeout).await.map(drop).map_err(|error| {
        // Not allowed to: it lives on.
        if !query_only {
            place.kills.fetch_sub(1, SeqCst);
        }
        error.to_string()
    })
}

/// A link beside the session's own, as the same account.
async fn side_link(
    shared: &Arc<Shared>,
    who: &Identity,
    caps: Caps,
    lane: &Arc<Lane>,
) -> Result<Backend, AttachError> {
    let terms = Terms { catch_up: CatchUp::No, only_reads: shared.reads.is_some() };
    Backend::attach(lane, who, caps, &Session::new(None), false, terms, shared.settings.connect_timeout).await
}

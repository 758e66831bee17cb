//! KILL: finds the session that an id means, and kills it on its present node.
//!
//! An id may be the one in the proxy's greeting, or one that a node returned (CONNECTION_ID(), SHOW PROCESSLIST), now or before the session
//! moved. Each node numbers its connections by itself, so an id of a node may mean several sessions. Then none is killed, and the error
//! names the ids that are not ambiguous.

use std::sync::Arc;

use protocol::capability::Caps;
use session::session::Session;

use crate::backend::{AttachError, Backend};
use crate::identity::Identity;
use crate::lane::Lane;
use crate::reads::CatchUp;
use crate::registry::{Named, SessionLocation};
use crate::shared::Shared;

/// The target of a KILL.
pub enum Target {
    /// No session of this proxy: the issuer's node decides.
    OnNode,
    /// This client's session, at its present place.
    Session(SessionLocation),
    /// The issuer itself.
    Itself,
    /// No session; the text says why.
    Nobody(String),
}

/// The target that `id` means for the client `issuer`, whose session is on `own`.
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
    // On the issuer's own node, the same id may be a connection that is not the proxy's.
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

/// Whether a node has a connection with this id that is not the proxy's; `false` if that cannot be found out.
async fn has_thread(shared: &Arc<Shared>, who: &Identity, caps: Caps, lane: &Arc<Lane>, id: u64) -> bool {
    let Ok(mut side) = side_link(shared, who, caps, lane).await else { return false };
    let question = format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {id}");
    let found = side.query(&question, shared.connect_timeout()).await;
    matches!(found, Ok(Some(rows)) if !rows.is_empty())
}

/// Kills the session on its node; the node's refusal as a sentence.
pub async fn kill(
    shared: &Arc<Shared>,
    who: &Identity,
    caps: Caps,
    place: &SessionLocation,
    query_only: bool,
) -> Result<(), String> {
    let what = if query_only { "QUERY" } else { "CONNECTION" };
    let mut side = side_link(shared, who, caps, &place.lane).await.map_err(|error| error.to_string())?;
    let order = format!("KILL {what} {}", place.thread_id);
    // Counted before it is sent, since the link may end before the node's OK arrives.
    let asked = (!query_only).then(|| place.kills.ask());
    side.link.query(&order, shared.connect_timeout()).await.map_err(|error| error.to_string())?;
    if let Some(asked) = asked {
        asked.is_allowed();
    }
    Ok(())
}

/// A second link, with the same account.
async fn side_link(
    shared: &Arc<Shared>,
    who: &Identity,
    caps: Caps,
    lane: &Arc<Lane>,
) -> Result<Backend, AttachError> {
    let terms = shared.terms(who, CatchUp::No, shared.reads.is_some())?;
    Backend::attach(lane, who, caps, &Session::new(None, 0), false, terms).await
}

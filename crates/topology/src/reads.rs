//! The port for reads: what may be set about it, and what it is told beside its routes.
//!
//! Its lanes are those of [`crate::routes::Routes`] with epochs of their own: they say nothing of who is written, and the plans that move the
//! writer neither wait for them nor know them. `crate::readers` decides them.

use std::sync::Arc;
use std::time::Duration;

use crate::NodeId;
use crate::fact::Now;
use crate::routes::LaneState;

/// What may be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// There is a port for reads.
    pub on: bool,
    /// A replica whose data may be older than this takes no reads.
    pub lag_max: Duration,
    /// When no replica is fit, the primary takes them.
    pub fallback: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { on: false, lag_max: Duration::from_secs(5), fallback: true }
    }
}

/// Up to where the primary was, and who could be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Who has everything; `None` with a kind of cluster where each node can be asked to catch up.
    pub primary: Option<NodeId>,
    /// All that the primary had, by its word asked for at `asked`: whatever any server had shown by then is in it. Empty while it is not
    /// known.
    pub position: Arc<str>,
    /// See `position`.
    pub asked: Now,
    /// Of each node: it may take writes of an ordinary account, for all that is known.
    pub writable: Vec<bool>,
}

impl Reached {
    /// Whether a server may take writes of an ordinary account. One of which nothing is known may.
    pub fn is_writable(&self, node: NodeId) -> bool {
        self.writable.get(usize::from(node.0)).copied().unwrap_or(true)
    }
}

/// A node as the port for reads uses it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct View {
    /// Whether it takes reads; nothing when there is no such port.
    pub lane: Option<LaneState>,
    /// The epoch of that lane.
    pub epoch: u64,
    /// It had, that many milliseconds ago, all that the primary had then; nothing while that is not known, and of the primary.
    pub age_ms: Option<u64>,
    /// The greatest age with which it takes reads.
    pub age_max_ms: u64,
    /// Why it takes none.
    pub why: Option<String>,
}

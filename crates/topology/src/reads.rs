//! The port for reads: its settings, and what the proxy needs for it besides its routes.
//!
//! Its lanes are published as [`crate::routes::Routes`] of their own, with their own epochs. They are independent of which node is the
//! writer, and the plans that move the writer do not wait for them. `crate::readers` decides about them.

use std::sync::Arc;
use std::time::Duration;

use crate::NodeId;
use crate::routes::LaneState;
use crate::time::Now;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// There is a port for reads.
    pub on: bool,
    /// A replica whose data may be older than this takes no reads.
    pub lag_max: Duration,
    /// When no replica qualifies, the primary takes the reads.
    pub fallback: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { on: false, lag_max: Duration::from_secs(5), fallback: true }
    }
}

/// The primary's position, and which servers may be writable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The server with all data; `None` in a kind of cluster where any node can be asked to catch up.
    pub primary: Option<NodeId>,
    /// All that the primary had by its report, asked for at `asked`: it contains whatever any server had shown before then. Empty while it
    /// is not known.
    pub position: Arc<str>,
    /// See `position`.
    pub asked: Now,
    /// The servers that refuse the writes of an ordinary account, as far as is known.
    pub read_only: Vec<NodeId>,
}

impl Reached {
    /// Whether a server may accept writes of an ordinary account. True if nothing is known of it.
    pub fn is_writable(&self, node: NodeId) -> bool {
        !self.read_only.contains(&node)
    }
}

/// How the port for reads uses a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[schema(as = ReadsView)]
#[serde(default)]
pub struct View {
    /// Whether it takes reads; `None` when there is no such port.
    pub lane: Option<LaneState>,
    /// The epoch of that lane.
    pub epoch: u64,
    /// That many milliseconds ago, the primary had no more than this node has now; `None` while that is not known, and for the primary itself.
    pub age_ms: Option<u64>,
    /// The greatest age with which it takes reads.
    pub age_max_ms: u64,
    /// Why it takes none.
    pub why: Option<String>,
}

//! What a proxy has counted, and the sessions that keep its lanes busy.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use measure::histogram::Snapshot;
use serde::{Deserialize, Serialize};
use topology::routes::LaneState;

/// How often one of the proxy's errors was sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct ErrorCount {
    /// As `ER_` numbers are: 9102.
    pub code: u16,
    /// Its name, as `hold_expired`.
    pub name: Cow<'static, str>,
    /// How often.
    pub count: u64,
}

/// The hold queue; `held = resumed + evicted + expired + gone + waiting`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct HoldStats {
    /// Statements that ever had to wait.
    pub held: u64,
    /// Those that continued.
    pub resumed: u64,
    /// Those that were removed to make room (error 9103).
    pub evicted: u64,
    /// Those whose time was over (error 9102).
    pub expired: u64,
    /// Those whose client went away.
    pub gone: u64,
    /// Those that wait now.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// The most that ever waited at the same time.
    pub waiting_max: u64,
    /// Whether the equation holds.
    pub lawful: bool,
    /// How long they waited.
    #[serde(skip)]
    pub held_for: Snapshot,
}

/// One node, as the proxy uses it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct LaneStats {
    /// The node's name.
    pub node: String,
    /// Whether it takes statements.
    pub state: LaneState,
    /// Sessions with a link to it.
    pub sessions: u32,
    /// Transactions (or statements outside one) running on it.
    pub running: usize,
    /// Those begun on it so far.
    pub begun_total: u64,
}

/// A snapshot of the proxy's counters.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ProxyStats)]
#[serde(default)]
pub struct Stats {
    /// The term of the routes in force.
    pub term: u64,
    /// Clients connected now.
    pub clients: u64,
    /// Clients ever accepted.
    pub clients_total: u64,
    /// Links opened to nodes.
    pub links_total: u64,
    /// Sessions set up on another node.
    pub sessions_moved: u64,
    /// Sessions with state that no other node can have, so that they cannot move now.
    pub sessions_pinned: u64,
    /// Statements sent again after a loss.
    pub statements_again: u64,
    /// The hold queue.
    pub hold: HoldStats,
    /// The nodes.
    pub lanes: Vec<LaneStats>,
    /// The proxy's own errors.
    pub errors: Vec<ErrorCount>,
    /// Sessions that keep a node's lane busy, the longest first.
    pub busy: Vec<Busy>,
    /// Sessions that are held, have a transaction open, cannot move, or have been doing something else for long; the longest first.
    pub sessions: Vec<Busy>,
    /// Where reads ran; `None` if none may run on replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitStats>,
    /// When the certificate expires that clients are shown, in seconds since 1970; `None` where they are shown none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_expires_unix_s: Option<u64>,
}

impl Stats {
    /// The node, as the proxy uses it.
    pub fn lane(&self, node: &str) -> Option<&LaneStats> {
        self.lanes.iter().find(|lane| lane.node == node)
    }
}

/// Of a certificate that expires within this time people are told.
const EXPIRY_TOLD: Duration = Duration::from_secs(30 * 86_400);

/// What is told of a certificate that expires soon, or has; to follow its name.
pub fn expiry(at_unix_s: u64, now: SystemTime) -> Option<String> {
    match (UNIX_EPOCH + Duration::from_secs(at_unix_s)).duration_since(now) {
        Ok(left) if left > EXPIRY_TOLD => None,
        Ok(left) => {
            Some(format!("expires in {} days: put another in its place, and reload", left.as_secs() / 86_400))
        }
        Err(_) => Some("has expired: put another in its place, and reload".into()),
    }
}

/// Where statements ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct SplitStats {
    /// Answered by a replica.
    pub replicas: u64,
    /// Sent to the primary because of what they are.
    pub primary: u64,
    /// Reads for a replica that went to the primary, since no replica took them.
    pub primary_nobody: u64,
    /// The same, because the replica did not reach the position in time.
    pub primary_behind: u64,
    /// The same, because the replica failed or answered with an error.
    pub primary_failed: u64,
    /// Sessions with a link to a replica, by node.
    pub lanes: Vec<(String, u32)>,
}

/// A session, and what it is doing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Busy {
    /// The connection id that its client knows; KILL takes it.
    pub id: u32,
    /// Its user.
    pub user: String,
    /// Its client's address.
    pub client: String,
    /// The node; empty when it has none.
    pub node: String,
    /// What ties it to that node, so that it cannot move now; empty when nothing does.
    pub ties: String,
    /// How long its client has been connected, in seconds.
    pub connected_s: u64,
    /// How long it has been doing that, in milliseconds.
    pub waits_ms: u64,
    /// What it is doing.
    pub what: String,
    /// What aborting that costs its client.
    pub cost: Cow<'static, str>,
}

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, user, client, connected_s, what, .. } = self;
        write!(f, "session {id} of {user} from {client}, connected for {connected_s} s: {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_of_thirty_days_before_it_expires() {
        let day = 86_400;
        let told = |at_days: u64, now_days: u64| {
            expiry(at_days * day, UNIX_EPOCH + Duration::from_secs(now_days * day))
        };
        assert_eq!(told(100, 69), None);
        assert!(told(100, 70).unwrap().starts_with("expires in 30 days"));
        assert!(told(100, 100).unwrap().starts_with("expires in 0 days"));
        assert!(told(100, 101).unwrap().starts_with("has expired"));
    }
}

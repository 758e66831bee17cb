//! What the servers are to each other: who is ahead of whom, who stands apart, and what that says against one.
//!
//! Enters: what each said last. Leaves: how many are ahead of each (the fewest becomes the primary), the transactions that the primary has
//! not, and the finding of the first rule that speaks against a server.

use protocol::gtid::Position;

use super::Replication;
use super::status::ReplicationStatus;
use super::words::{self, Sight};
use crate::NodeId;
use crate::belief::Belief;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::finding::{Finding, NodeState, Serves, refused};
use crate::routes::LaneState;
use crate::status::Status;

/// What the server said last.
pub(super) fn own(node: &Belief) -> Option<&ReplicationStatus> {
    node.status.as_ref().and_then(Status::replication)
}

/// It answers, whatever it says.
pub(super) fn answers(node: &Belief) -> bool {
    node.linked && !node.verdict.gone && node.status.is_some()
}

/// It takes writes from whomever, by its own word.
fn writes(node: &Belief) -> bool {
    answers(node) && own(node).is_some_and(|status| !status.read_only && status.channels.is_empty())
}

impl Replication {
    /// Before the servers are judged: who is ahead of whom.
    pub fn look_around(&mut self, core: &mut Core) {
        let has: Vec<Option<Position>> = core.nodes.iter().map(|node| own(node)?.has()).collect();
        for id in ids(&core.nodes) {
            let mine = &has[usize::from(id.0)];
            let ahead = ids(&core.nodes).filter(|other| {
                let is_ahead = match (mine, &has[usize::from(other.0)]) {
                    (Some(mine), Some(theirs)) => mine.is_behind(theirs).unwrap_or(false),
                    (None, Some(_)) => true,
                    _ => false,
                };
                is_ahead && answers(core.node(*other))
            });
            core.node_mut(id).behind = u32::try_from(ahead.count()).unwrap_or(u32::MAX);
        }
    }

    /// The server said this. What it has and the primary has not is told only by a word of the primary that was asked for later.
    pub fn heard(&mut self, core: &Core, id: NodeId, status: &ReplicationStatus, asked: Now) {
        if core.writer != Some(id) || self.fence.is_some() {
            return;
        }
        let Some(primary) = &status.history else { return };
        for other in ids(&core.nodes).filter(|other| *other != id) {
            let node = core.node(other);
            // The primary's word was asked for when the server's was there: all that it shows can have come from there.
            let is_older = node.answered_at.is_some_and(|at| at < asked);
            let Some(theirs) = own(node).and_then(|status| status.history.as_ref()).filter(|_| is_older)
            else {
                continue;
            };
            let errant = theirs.minus(primary).ok().filter(|errant| !errant.is_empty());
            let server = self.server_mut(other);
            server.errant = errant.map(|errant| errant.to_string());
            server.compared = own(node).and_then(|status| status.position.clone());
        }
    }

    /// What speaks against a server that answers, beside its own words.
    pub fn against(&self, core: &Core, id: NodeId) -> Option<Finding> {
        let node = core.node(id);
        let status = own(node)?;
        let Some(primary) = core.writer else { return before_the_first(core, id) };
        if primary == id {
            // What the plan does to it itself is no news.
            let in_use = node.lane != LaneState::Shut && self.fence.is_none();
            return (in_use && status.read_only)
                .then(|| refused("read_only", "is read only: read_only is set".into()));
        }
        let primary = core.node(primary);
        let sight = Sight {
            status,
            primary: Some((&primary.name, &primary.address)),
            primary_answers: answers(primary) && primary.verdict.serves != Serves::No,
            errant: self.server(id).errant.as_deref(),
        };
        words::replica(&sight)
    }
}

/// Nobody was decided on yet: the one that takes writes, and none when that are several.
fn before_the_first(core: &Core, id: NodeId) -> Option<Finding> {
    let writing: Vec<&str> =
        core.nodes.iter().filter(|node| writes(node)).map(|node| node.name.as_str()).collect();
    if writing.len() > 1 {
        let text = format!(
            "cannot be told from another primary: {} are writable and follow nobody",
            writing.join(" and ")
        );
        return Some(refused("two_primaries", text));
    }
    let node = core.node(id);
    let source = own(node)?.source()?;
    let known = core.nodes.iter().find(|other| other.address == source.source && answers(other))?;
    Some(Finding {
        problem: "replica",
        state: NodeState::Joining,
        serves: Serves::Stays,
        sentence: format!("follows {}", known.name),
    })
}

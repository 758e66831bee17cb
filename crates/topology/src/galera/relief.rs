//! A member that answers and does not commit: whether another does.
//!
//! A large transaction, and a statement that all members carry out at the same place of their order, stop the commits of all members. Then
//! nothing is moved. So the others are asked to commit a row of their own: only one that did it since the writer was stuck can take over.

use super::Galera;
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::finding::Serves;
use crate::group::Relief;

impl Galera {
    /// Whether `writer` may be given up, which has not committed for a while.
    pub fn relief(&self, core: &Core, writer: NodeId) -> Relief {
        let Some((age, _)) = core.node(writer).pulse.waits(core.now) else { return Relief::Soon };
        let since = core.now.saturating_sub(age);
        let commits = |id: &NodeId| {
            let node = core.node(*id);
            *id != writer && node.verdict.serves == Serves::Well && node.pulse.committed_since(since)
        };
        if ids(&core.nodes).any(|id| commits(&id)) {
            return Relief::Clear;
        }
        let stuck: Vec<&str> = ids(&core.nodes)
            .map(|id| core.node(id))
            .filter(|node| node.pulse.waits(core.now).is_some_and(|(age, _)| age >= core.settings.heartbeat.stuck_max))
            .map(|node| node.name.as_str())
            .collect();
        if stuck.len() < 2 {
            return Relief::Soon;
        }
        Relief::None(format!(
            "{} do not commit: the whole group is held up, and nothing is moved (look for a long ALTER, a large transaction, flow control)",
            stuck.join(" and ")
        ))
    }
}

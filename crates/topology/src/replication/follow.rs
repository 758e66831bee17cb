//! Every other server is read only and follows the primary: what is, compared with what should be, after every fact.
//!
//! Invariant: nobody follows before it is known to have nothing that the primary has not; who has is left alone, read only.

use std::time::Duration;

use super::external::is_external;
use super::sight::{answers, follows_stranger, own};
use super::{Action, Channel, Replication, retry_at};
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::finding::Serves;
use crate::routes::LaneState;
use crate::view::Level;
use crate::{NodeId, Term};

/// How long a server may take to stop what it follows, and to begin with another. As long as that runs it cannot be promoted.
const FOLLOW_DEADLINE: Duration = Duration::from_secs(5);

/// How the last order to follow, or to be read only, went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Followed {
    #[default]
    Unasked,
    /// It was carried out then: the next word is awaited.
    Done(Now),
    /// It failed; not again before then.
    Failed(Now),
}

impl Replication {
    /// After the plan has done its part.
    pub fn act(&mut self, core: &mut Core) {
        if core.settings.replication.dry_run || !self.decided || is_external(core) {
            return;
        }
        self.ask_early(core);
        let Some(sole) = self.sole_writer(core) else { return };
        let primary = core.writer.filter(|id| self.fence.is_none() && leads(core, *id));
        let term = self.fence.as_ref().map_or(core.term, |fence| fence.term);
        for id in ids(&core.nodes).filter(|id| *id != sole).collect::<Vec<_>>() {
            // A Galera node is none of ours, whatever the configuration says.
            let is_galera = own(core.node(id)).is_some_and(|status| status.galera);
            if is_galera || !answers(core.node(id)) || self.waits(core, id) || self.is_served_still(core, id)
            {
                continue;
            }
            if self.may_write(core, id) {
                self.demote(core, id, term, core.settings.barrier_deadline);
            } else if let Some(primary) = primary.filter(|primary| self.should_follow(core, id, *primary)) {
                self.order(core, Action::Follow { node: id, source: primary, term, within: FOLLOW_DEADLINE });
            }
        }
    }

    /// A planned change has begun, and statements of ours may still run there.
    fn is_served_still(&self, core: &Core, id: NodeId) -> bool {
        let fence = self.fence.as_ref().filter(|_| core.writer == Some(id));
        fence.is_some_and(|fence| fence.is_planned && fence.quiet_since.is_none())
    }

    /// An order is out, or its effect is not seen yet, or it failed a moment ago.
    fn waits(&self, core: &Core, id: NodeId) -> bool {
        self.is_ordered(core, id)
            || match self.server(id).followed {
                Followed::Unasked => false,
                Followed::Done(at) => !core.node(id).answered_since(at),
                Followed::Failed(again) => core.now < again,
            }
    }

    /// Before anything else it must not take writes.
    fn may_write(&self, core: &Core, id: NodeId) -> bool {
        self.server(id).may_write.is_some() || own(core.node(id)).is_some_and(|status| !status.read_only)
    }

    fn should_follow(&self, core: &Core, id: NodeId, primary: NodeId) -> bool {
        let (node, server) = (core.node(id), self.server(id));
        let Some(status) = own(node).filter(|status| !status.galera && server.errant.is_none()) else {
            return false;
        };
        // All that it has, received or applied, was compared with what the primary has: what it received is thrown away when it begins to
        // follow, and may have been acknowledged.
        if status.position.is_none() || server.compared != status.has() {
            return false;
        }
        let address = &core.node(primary).address;
        if follows_stranger(core, status) {
            return false;
        }
        match status.source() {
            // An operator drained it, and somebody stopped it from applying: a backup, or `understudy capacity`. It still fetches, so nothing is lost by that.
            Some(channel) if node.drained() && is_only_stopped(channel, address) => false,
            // Somebody must look at what it cannot apply.
            Some(channel) if !channel.sql_running && !channel.error.is_empty() => false,
            Some(channel) => channel.source != *address || !channel.sql_running || channel.io_stopped,
            None => status.channels.is_empty(),
        }
    }

    pub(super) fn following(&mut self, core: &mut Core, node: NodeId, term: Term) {
        self.server_mut(node).may_write = None;
        self.server_mut(node).followed = Followed::Done(core.now);
        if term == core.term
            && let Some(primary) = core.writer
        {
            let text = format!("{} follows {}", core.name(node), core.name(primary));
            core.say(Level::Info, text);
        }
    }

    pub(super) fn follow_failed(&mut self, core: &mut Core, node: NodeId, term: Term, why: &str) {
        self.server_mut(node).followed = Followed::Failed(retry_at(core.now));
        if term == core.term {
            let text = format!("{} does not follow the primary: {why}", core.name(node));
            core.note(Level::Warn, text);
        }
    }
}

/// It fetches from whom it should, and does not apply because somebody stopped that thread.
fn is_only_stopped(channel: &Channel, primary: &str) -> bool {
    // Also while it connects anew: that is no reason to make it apply.
    channel.source == primary && !channel.io_stopped && !channel.sql_running && channel.error.is_empty()
}

/// It takes statements, and answers.
fn leads(core: &Core, primary: NodeId) -> bool {
    let node = core.node(primary);
    node.lane == LaneState::Open && node.assessment.serves != Serves::No && answers(node)
}

//! Makes every other server read only and a replica of the primary. After each fact, the state of each server is compared with what it should be.
//!
//! Invariant: no server is made to follow before it is known to have no transaction that the primary does not have. A server that has one
//! is only made read only.

use std::time::Duration;

use protocol::gtid::History;

use super::reports::{answers, channel_to, follows_stranger, own};
use super::state::{Followed, Replication, retry_at};
use super::{Channel, Errand, ReplicationStatus};
use crate::core::Core;
use crate::finding::Serves;
use crate::flavor::Dialect;
use crate::routes::LaneState;
use crate::status::Status;
use crate::time::Now;
use crate::view::Level;
use crate::{NodeId, Term};

/// How long a server may take to stop its channel and to start with another source. It cannot be promoted during that time.
const FOLLOW_DEADLINE: Duration = Duration::from_secs(5);

/// A replica that tries to connect to the primary for this long is told its source again: by another account, if the configuration has one now.
const RETELL_AFTER: Duration = Duration::from_secs(10);

impl Replication {
    /// Gives the orders that are due. Called after the plan has done its part.
    pub(super) fn follow(&mut self, core: &mut Core) {
        self.note_incomplete(core);
        if core.settings.replication.dry_run || !self.decided || core.settings.replication.is_external() {
            return;
        }
        self.ask_early(core);
        let Some(sole) = self.sole_writer(core) else { return };
        let primary = core.writer.filter(|id| self.fence.is_none() && self.leads(core, *id));
        if let Some(primary) = primary {
            self.run_events_again(core, primary);
        }
        let term = self.fence.as_ref().map_or(core.term, |fence| fence.term);
        for id in core.nodes.ids().filter(|id| *id != sole).collect::<Vec<_>>() {
            // A Galera node is left alone, even if the configuration lists it here.
            let is_galera = own(core.node(id)).is_some_and(|status| status.galera);
            if primary.is_some_and(|primary| self.hangs_as_replica(core, id, primary)) {
                self.order(core, id, term, FOLLOW_DEADLINE, Errand::StopWaiting);
                continue;
            }
            if is_galera || !answers(core.node(id)) || self.waits(core, id) || self.is_served_still(core, id)
            {
                continue;
            }
            if self.may_write(core, id) {
                self.demote(core, id, term, core.settings.barrier_deadline);
                continue;
            }
            if let Some(primary) = primary {
                self.note_unconnected(core, id, primary);
                if self.should_follow(core, id, primary) && self.is_compared(core, id, primary) {
                    self.server_mut(id).unconnected = None;
                    self.order(core, id, term, FOLLOW_DEADLINE, Errand::Follow { source: primary });
                    continue;
                }
            }
            self.stop_events_again(core, id, term);
        }
    }

    /// A switchover has begun from a primary that works, and the proxy's statements may still run there.
    fn is_served_still(&self, core: &Core, id: NodeId) -> bool {
        let fence = self.fence.as_ref().filter(|_| core.writer == Some(id));
        let works = |is_planned| is_planned || self.left_at.is_some();
        fence.is_some_and(|fence| works(fence.is_planned) && fence.quiet_since.is_none())
    }

    /// Whether an order is being carried out, or its effect was not reported yet, or it failed a moment ago.
    fn waits(&self, core: &Core, id: NodeId) -> bool {
        self.is_ordered(core, id)
            || match self.server(id).followed {
                Followed::Unasked => false,
                Followed::ReadOnly(at) | Followed::Follows(at) => !core.node(id).answered_since(at),
                Followed::Failed(again) => core.now < again,
            }
    }

    /// Whether it has answered, after `since`, that it follows the primary.
    pub(super) fn has_followed_since(&self, id: NodeId, since: Now) -> bool {
        matches!(self.server(id).followed, Followed::Follows(at) if at >= since)
    }

    /// Whether its last order failed a moment ago.
    pub(super) fn has_just_failed(&self, core: &Core, id: NodeId) -> bool {
        matches!(self.server(id).followed, Followed::Failed(again) if core.now < again)
    }

    /// Whether it follows the primary, and its commits still wait for replicas of its own, as they did when it was the primary.
    fn hangs_as_replica(&self, core: &Core, id: NodeId, primary: NodeId) -> bool {
        let waits = |status: &ReplicationStatus| {
            status.dialect != Dialect::MariaDb && status.read_only && status.semi_sync.primary_enabled
        };
        let follows = channel_to(core, id, primary).is_some_and(|channel| channel.sql_running);
        let is_free = !self.is_ordered(core, id) && !self.has_just_failed(core, id);
        follows && is_free && own(core.node(id)).is_some_and(waits)
    }

    /// Whether the server is or may be writable, which must end before anything else is done with it.
    fn may_write(&self, core: &Core, id: NodeId) -> bool {
        self.server(id).may_write.is_some() || own(core.node(id)).is_some_and(|status| !status.read_only)
    }

    /// Notes since when its I/O thread has tried in vain to connect to the primary.
    fn note_unconnected(&mut self, core: &Core, id: NodeId, primary: NodeId) {
        let address = &core.node(primary).address;
        let channel = own(core.node(id)).and_then(|status| status.source());
        let tries = channel
            .is_some_and(|channel| channel.source == *address && !channel.io_running && !channel.io_stopped);
        let known = &mut self.server_mut(id).unconnected;
        *known = tries.then(|| known.unwrap_or(core.now));
    }

    /// Whether the primary takes statements, or is about to, and answers.
    fn leads(&self, core: &Core, primary: NodeId) -> bool {
        let node = core.node(primary);
        let is_in_place = node.lane == LaneState::Open || self.is_opening;
        is_in_place && node.finding.serves != Serves::No && answers(node)
    }

    fn should_follow(&self, core: &Core, id: NodeId, primary: NodeId) -> bool {
        let (node, server) = (core.node(id), self.server(id));
        let Some(status) =
            own(node).filter(|status| !status.galera && server.errant.is_none() && !node.is_renumbered)
        else {
            return false;
        };
        let address = &core.node(primary).address;
        if status.position.is_none() || follows_stranger(core, status) {
            return false;
        }
        match status.source() {
            // An operator drained it, and somebody stopped its SQL thread: a backup, or `understudy capacity`. It still fetches, so nothing
            // can be lost.
            Some(channel) if node.drained() && is_only_stopped(channel, address) => false,
            // An event that it cannot apply needs an operator.
            Some(channel) if !channel.sql_running && !channel.error.is_empty() => false,
            Some(channel) if channel.source != *address || !channel.sql_running || channel.io_stopped => true,
            // What it has not applied is deleted when it is told its source, and could not be fetched again.
            Some(_) => {
                let has_tried = |since| core.now.saturating_sub(since) >= RETELL_AFTER;
                server.unconnected.is_some_and(has_tried) && status.has() == status.position
            }
            // An operator drained it and is setting it up: a copy's position is not its own before gtid_slave_pos was set.
            None if node.drained() && is_without_binlog(status) => false,
            None => status.channels.is_empty(),
        }
    }

    /// Whether all that it has, received or applied, has been compared with the primary. Received transactions are deleted when it starts to
    /// follow another source, and may have been acknowledged.
    fn is_compared(&self, core: &mut Core, id: NodeId, primary: NodeId) -> bool {
        let server = self.server(id);
        let has = own(core.node(id)).and_then(ReplicationStatus::has);
        if server.compared == has {
            return true;
        }
        // One that receives from the primary through another server has more in each report. If its reports always come while the primary's
        // answer is on its way, that answer compares the report before, every time: the primary is asked once more.
        if server.compared.is_some() && server.said.is_some() {
            core.ask_probe(primary);
        }
        false
    }

    pub(super) fn following(&mut self, core: &mut Core, node: NodeId, term: Term, sessions_ended: usize) {
        self.server_mut(node).may_write = None;
        self.server_mut(node).followed = Followed::ReadOnly(core.now);
        let changing = self.old_follows(node, term, None);
        if let Some(primary) = changing.or_else(|| core.writer.filter(|_| term == core.term)) {
            self.server_mut(node).followed = Followed::Follows(core.now);
            now_follows(core, node, primary);
            let ended = ended_first(sessions_ended).map(|ended| format!(": {ended}")).unwrap_or_default();
            let text = format!("{} follows {}{ended}", core.name(node), core.name(primary));
            core.say(Level::Info, text);
        }
    }

    pub(super) fn stopped_waiting(&mut self, core: &mut Core, node: NodeId, failed: Option<String>) {
        if let Some(why) = failed {
            self.server_mut(node).followed = Followed::Failed(retry_at(core.now));
            let name = core.name(node);
            core.note(
                Level::Warn,
                format!("{name} applies nothing while its commits wait for replicas: {why}"),
            );
        } else if let Some(status) = core.node_mut(node).status.as_mut().and_then(Status::replication_mut) {
            (status.semi_sync.primary_enabled, status.semi_sync.primary_active) = (false, false);
        }
    }

    pub(super) fn follow_failed(&mut self, core: &mut Core, node: NodeId, term: Term, why: &str) {
        self.server_mut(node).followed = Followed::Failed(retry_at(core.now));
        // What a change in progress waits for is told by it.
        if self.old_follows(node, term, Some(why)).is_none() && term == core.term {
            let text = format!("{} does not follow the primary: {why}", core.name(node));
            core.note(Level::Warn, text);
        }
    }
}

/// What is said of the clients' sessions that were ended on a server before it was told its source; `None` when there were none.
pub fn ended_first(sessions: usize) -> Option<String> {
    match sessions {
        0 => None,
        1 => Some("a session that held locks on rows was ended there first".to_owned()),
        several => Some(format!("{several} sessions that held locks on rows were ended there first")),
    }
}

/// The server has answered that it follows `primary`: its last report is from before.
fn now_follows(core: &mut Core, node: NodeId, primary: NodeId) {
    let source = core.node(primary).address.clone();
    let Some(status) = core.node_mut(node).status.as_mut().and_then(Status::replication_mut) else { return };
    let before = status.source().cloned().unwrap_or_default();
    let channel = Channel {
        name: String::new(),
        source,
        io_running: true,
        io_stopped: false,
        sql_running: true,
        lag_s: None,
        error: String::new(),
        by_gtid: true,
        family: status.dialect.family(),
        // What it had received and not applied was deleted.
        received: String::new(),
        ..before
    };
    status.read_only = true;
    status.channels = vec![channel];
}

/// It fetches from the right source, and does not apply because somebody stopped its SQL thread.
fn is_only_stopped(channel: &Channel, primary: &str) -> bool {
    // That also holds while its IO thread reconnects.
    channel.source == primary && !channel.io_stopped && !channel.sql_running && channel.error.is_empty()
}

/// Nothing was written to its binlog: it is new, or a copy of another.
fn is_without_binlog(status: &ReplicationStatus) -> bool {
    status.history.as_ref().is_some_and(|history| *history == History::empty(history.family()))
}

//! Another manager moves the primary (MHA, orchestrator, an administrator). Understudy gives no orders to the servers, and sends writes to
//! the one that is writable.
//!
//! ```text
//!   one is writable      ──> every other lane shut, its links cut ──> all report again: it is the only one ──> its lane opens
//!   none, or several are ──> statements wait
//! ```
//!
//! A writable server that follows another one is taken for a replica that nobody made read only, unless it was seen read only before, or
//! its source is read only by now. Invariant: the lane of a server opens only when it is the only writable one, by status reports of all
//! servers that answer, asked for after no statement could run on any other server.

use std::time::Duration;

use super::reports::{answers, applied, own};
use super::sight::before_the_first;
use super::state::Replication;
use super::words;
use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::finding::{Finding, Problem};
use crate::group::{Heir, Way};
use crate::routes::LaneState;

/// For this long after a change of who is writable, no problem is reported: the other manager may still be working.
const AT_WORK: Duration = Duration::from_secs(1);
/// While a move is in progress, and for this long after, the servers are asked more often.
const WATCHED: Duration = Duration::from_secs(60);
/// The time between two questions to a server during that.
const ASK_GAP: Duration = Duration::from_millis(20);

impl Replication {
    /// Notes whether the server reported itself read only.
    pub(super) fn note_writable(&mut self, id: NodeId, read_only: bool) {
        if read_only {
            self.writable.was_read_only.insert(id);
        }
    }

    /// Updates the list of writable primaries.
    pub(super) fn look_who_is_writable(&mut self, core: &Core) {
        let now: Vec<NodeId> = core.nodes.ids().filter(|id| self.is_a_primary(core, *id)).collect();
        let before = std::mem::replace(&mut self.writable.now, now);
        // They may only be in another order.
        let is_same = |now: &[NodeId]| now.len() == before.len() && now.iter().all(|id| before.contains(id));
        if !is_same(&self.writable.now) {
            self.writable.since = core.now;
        }
    }

    fn is_a_primary(&self, core: &Core, id: NodeId) -> bool {
        let node = core.node(id);
        let Some(status) = own(node).filter(|status| answers(node) && !status.read_only && !status.galera)
        else {
            return false;
        };
        let is_closed = |address: &str| {
            core.nodes.iter().any(|node| {
                node.address == address && answers(node) && own(node).is_some_and(|status| status.read_only)
            })
        };
        self.writable.was_read_only.contains(&id)
            || status.channels.iter().all(|channel| is_closed(&channel.source))
    }

    /// The server to send writes to: the only writable one.
    pub(super) fn follow_writable(&self, core: &Core) -> Heir {
        let writable = &self.writable;
        let is_settled = core.now.saturating_sub(writable.since) >= AT_WORK;
        match &*writable.now {
            [one] => Heir::This(*one),
            [] if is_settled => Heir::Nobody(format!("no server is writable: {}", core.why_nobody())),
            [] => Heir::Soon(format!("no server is writable just now: {}", core.why_nobody())),
            several if self.is_confirmed(core) => Heir::Nobody(format!(
                "{} are writable, and who is the primary cannot be told: make all but one read only",
                names(core, several)
            )),
            several => Heir::Soon(format!("{} are writable just now: they are asked", names(core, several))),
        }
    }

    /// Who takes over from `lost`.
    pub(super) fn follow_from(&self, core: &Core, lost: NodeId) -> Heir {
        match self.follow_writable(core) {
            Heir::This(one) if one == lost => {
                let node = core.node(one);
                Heir::Soon(format!(
                    "{} {}, and no other server is writable",
                    node.name, node.finding.sentence
                ))
            }
            other => other,
        }
    }

    /// Whether every server that counts as writable has reported that again since the list last changed. They are then writable at the same
    /// time, and not one after the other.
    fn is_confirmed(&self, core: &Core) -> bool {
        self.writable.now.iter().all(|id| core.node(*id).answered_since(self.writable.since))
    }

    /// The finding against a server, from more than its own report.
    pub(super) fn against_followed(&self, core: &Core, id: NodeId) -> Option<Finding> {
        let node = core.node(id);
        let status = own(node).filter(|status| !status.galera)?;
        let several = &self.writable.now;
        if several.len() > 1 && several.contains(&id) && self.is_confirmed(core) {
            let others: Vec<NodeId> = several.iter().copied().filter(|other| *other != id).collect();
            let text = format!("is writable, and so is {}", names(core, &others));
            return Some(Problem::TwoPrimaries.found(text));
        }
        if self.fence.as_ref().is_some_and(|fence| fence.to == id) {
            return None;
        }
        let Some(primary) = core.writer else { return before_the_first(core, id) };
        if primary == id {
            let counts = self.server(id).writable_since.is_none_or(|since| node.answered_since(since));
            return (counts && status.read_only)
                .then(|| Problem::ReadOnly.found("is read only: read_only is set"));
        }
        words::replica(&self.sight(core, id, status, primary))
    }

    /// Whether the lane of `to` may be opened.
    pub(super) fn clear_to_follow(&mut self, core: &mut Core, to: NodeId) -> Way {
        let others: Vec<NodeId> = core.nodes.ids().filter(|id| *id != to).collect();
        for id in &others {
            core.set_lane(*id, LaneState::Shut);
        }
        if others.iter().any(|id| !core.links_gone(*id)) {
            return Way::Wait;
        }
        let now = core.now;
        let Some(fence) = &mut self.fence else { return Way::Wait };
        let (term, since) = (fence.term, *fence.quiet_since.get_or_insert(now));
        if self.writable.now != [to] {
            return Way::Outrun("is not the only server that is writable any more".into());
        }
        let is_late = |id: &NodeId| answers(core.node(*id)) && !core.node(*id).answered_since(since);
        let late: Vec<NodeId> = core.nodes.ids().filter(is_late).collect();
        for id in &late {
            core.ask_probe(*id);
        }
        if !late.is_empty() || !answers(core.node(to)) || core.disk.written < term {
            return Way::Wait;
        }
        self.tell_what_it_lacks(core, to);
        Way::Clear
    }

    /// Reports transactions that the other manager lost with its move. Understudy can do nothing about them.
    fn tell_what_it_lacks(&self, core: &mut Core, to: NodeId) {
        let Some(from) = core.writer.filter(|from| *from != to && answers(core.node(*from))) else { return };
        let (Some(has), Some(lacks)) = (own(core.node(from)), own(core.node(to))) else { return };
        let Ok(lacking) = applied(has).minus(&applied(lacks)) else { return };
        if !lacking.is_empty() {
            let text = format!(
                "{} was made the primary by another manager without what {} has: {lacking}",
                core.name(to),
                core.name(from)
            );
            core.say(Level::Error, text);
        }
    }

    /// Whether a move is in progress, so that the servers are asked more often.
    pub(super) fn is_watched(&self, core: &Core) -> bool {
        let recent = core.now.saturating_sub(self.writable.since) < WATCHED;
        let moves = self.fence.is_some() || self.writable.now.first() != core.writer.as_ref();
        let several = self.writable.now.len() > 1;
        let late = |id: NodeId| {
            let node = core.node(id);
            node.answered_at.is_none_or(|at| core.now.saturating_sub(at) >= ASK_GAP)
        };
        (self.writable.announced || (recent && (moves || several)))
            && core.nodes.ids().any(|id| answers(core.node(id)) && late(id))
    }
}

fn names(core: &Core, ids: &[NodeId]) -> String {
    ids.iter().map(|id| core.name(*id)).collect::<Vec<_>>().join(" and ")
}

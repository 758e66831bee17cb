//! How each fact about a node changes what is known of it: connects, status, missed probes, and what traffic met there.

use std::sync::Arc;
use std::time::Duration;

use protocol::errno;

use super::{Brain, Plan};
use crate::NodeId;
use crate::belief::{Doubt, REFUSES_ALL};
use crate::fact::{ConnectFailure, LinkEnd};
use crate::finding::{Problem, Serves};
use crate::routes::{LaneState, ServerGreeting};
use crate::status::Status;
use crate::time::Now;

/// After a doubt was cleared, an alarm of the traffic within this time makes the node be asked, but holds no traffic: sessions whose
/// connections broke together report one after the other.
const ALARM_GAP: Duration = Duration::from_millis(100);

/// While a node's new connections fail, the next one is tried after this long.
const SHUT_OUT_GAP: Duration = Duration::from_secs(1);

/// After this many missed probes in a row a node gets no new transactions, though it is not silent yet: statements sent to a frozen node
/// hang.
const MISSES_HELD: u32 = 2;

impl Brain {
    // ---- signs of life and death

    pub(super) fn link_up(&mut self, id: NodeId, greeting: ServerGreeting) {
        self.core.alive();
        let now = self.core.now;
        let node = self.core.node_mut(id);
        if node.finding.serves == Serves::No {
            // The server may have been restarted: its status of before says nothing about it now.
            node.status = None;
        }
        node.linked = true;
        node.links_anew += u64::from(node.linked_once);
        node.shows_sessions = false;
        node.linked_once = true;
        node.shut_out = 0;
        node.confirm_asked = None;
        node.rejected = None;
        node.counts.answered(now);
        if let Some(doubt) = &mut node.doubt {
            doubt.wants_link = false;
        }
        node.greeting = Some(greeting);
        self.group.linked(&mut self.core, id);
        if let Plan::One(plan) = &mut self.plan {
            plan.linked(id);
        }
    }

    pub(super) fn login_status(&mut self, id: NodeId, status: u16) {
        if let Some(greeting) = &mut self.core.node_mut(id).greeting {
            greeting.status = status;
        }
    }

    /// The greeting for clients: the one of the node that writes, or of the first that has one, with only the capabilities that all nodes have
    /// which were seen so far.
    pub(super) fn greet(&mut self) {
        let nodes = &self.core.nodes;
        let writer = self.core.writer.map(|id| self.core.node(id));
        let all = || nodes.iter().filter_map(|node| node.greeting.as_ref());
        let Some(first) = writer.and_then(|node| node.greeting.as_ref()).or_else(|| all().next()) else {
            return;
        };
        let capabilities = all().fold(first.capabilities, |common, other| common & other.capabilities);
        let is_same = |known: &ServerGreeting| {
            known.capabilities == capabilities
                && (known.status, known.charset) == (first.status, first.charset)
                && (&known.version, &known.plugin) == (&first.version, &first.plugin)
        };
        if !self.greeting.as_deref().is_some_and(is_same) {
            self.greeting = Some(Arc::new(ServerGreeting { capabilities, ..first.clone() }));
        }
    }

    pub(super) fn link_ended(&mut self, id: NodeId, how: &LinkEnd) {
        let (now, events) = (self.core.now, self.core.settings.events);
        let node = self.core.node_mut(id);
        let stood = node.linked;
        node.linked = false;
        node.probe_asked = None;
        if !events && *how != LinkEnd::Silent {
            return;
        }
        let why = match how {
            LinkEnd::Closed => "its link was closed without a word".to_owned(),
            LinkEnd::Goodbye { errno } => {
                // 1927: an operator killed this connection, which says nothing about the server.
                if *errno != 1927 {
                    node.leaving_since.get_or_insert(now);
                }
                format!("it ended the link with error {errno}")
            }
            LinkEnd::Silent => {
                // The probe gave it up for want of an answer: a missed probe, and not more.
                self.miss(id, now);
                return;
            }
        };
        if stood {
            self.core.doubt(id, why, true);
            self.core.ask_confirm(id);
        }
    }

    pub(super) fn connect_failed(&mut self, id: NodeId, how: ConnectFailure) {
        let (now, enough) = (self.core.now, self.core.settings.refusals_max);
        let node = self.core.node_mut(id);
        node.confirm_asked = None;
        if node.linked {
            self.shut_out(id, &how);
            return;
        }
        node.probe_asked = None;
        let was_lost = self.was_lost(id);
        let is_answer =
            !matches!(how, ConnectFailure::Closed | ConnectFailure::TimedOut | ConnectFailure::Unreachable);
        if is_answer {
            // Something on the host answers, so our own network works.
            self.core.alive();
        }
        let node = self.core.node_mut(id);
        match how {
            ConnectFailure::Refused | ConnectFailure::Reset => {
                node.counts.refuse(now, enough);
                node.lost_at.get_or_insert(now);
                if node.linked_once && node.counts.refusals < enough {
                    self.core.ask_confirm(id);
                }
            }
            ConnectFailure::Rejected { errno, message } => {
                if was_lost {
                    // It may have been restarted: its status of before says nothing about it now.
                    node.status = None;
                }
                node.counts.answered(now);
                node.rejected = Some((errno, message));
                if self.group.serves_unseen(&self.core, id) && self.core.node_mut(id).doubt.take().is_some() {
                    self.core.node_mut(id).doubt_cleared = Some(now);
                }
            }
            ConnectFailure::Protocol { what } => {
                node.counts.answered(now);
                node.rejected = Some((0, what));
            }
            ConnectFailure::Closed | ConnectFailure::TimedOut | ConnectFailure::Unreachable => {
                // The connect had at least a probe's deadline: the query counts as sent that long ago.
                self.miss(id, now.saturating_sub(self.core.settings.probe_interval));
            }
        }
    }

    /// The node was held to be lost, and not only because our own network failed: then nobody was heard.
    fn was_lost(&self, id: NodeId) -> bool {
        let node = self.core.node(id);
        match node.finding.problem {
            Problem::Rejected => false,
            Problem::Silent => {
                node.counts.missed_since.is_some_and(|since| self.core.another_answered_since(id, since))
            }
            _ => node.finding.serves == Serves::No,
        }
    }

    /// A new connection failed while the probe's connection stands. That is no proof of a death: a firewall, a full accept queue or a hanging name
    /// server does the same. Whether the node lives is seen by its answers on the connection that stands.
    fn shut_out(&mut self, id: NodeId, how: &ConnectFailure) {
        let (now, enough) = (self.core.now, self.core.settings.refusals_max);
        let node = self.core.node_mut(id);
        node.confirm_after = now + SHUT_OUT_GAP;
        if let ConnectFailure::Rejected { errno, .. } = how
            && *errno != errno::SSL_CONNECTION_ERROR
        {
            // An error packet: the server lives, and is full or does not accept our account.
            if let Some(doubt) = &mut node.doubt {
                doubt.wants_link = false;
            }
            return;
        }
        node.shut_out = node.shut_out.saturating_add(1);
        node.shut_out_why = failure(how);
        if node.shut_out >= enough
            && let Some(doubt) = &mut node.doubt
        {
            // No new connection is waited for any more: the next status on the standing one ends the doubt.
            doubt.wants_link = false;
        }
    }

    pub(super) fn miss(&mut self, id: NodeId, asked: Now) {
        let core = &mut self.core;
        let (now, interval) = (core.now, core.settings.probe_interval);
        let held = MISSES_HELD.min(core.settings.misses_max);
        core.node_mut(id).probe_asked = None;
        let node = core.node_mut(id);
        node.counts.miss(now, asked, interval);
        let misses = node.counts.misses;
        if misses == 0 {
            return;
        }
        if let Some(since) = node.counts.missed_since {
            node.lost_at.get_or_insert(since);
        }
        let open = node.lane == LaneState::Open;
        let since = node.counts.missed_since.unwrap_or_default();
        // If no other node answers either, the cause is rather our own network, and traffic is not held for that.
        if open && misses >= held && core.another_answered_since(id, since) {
            core.doubt_silent(id, format!("it did not answer {misses} probes"));
        }
    }

    pub(super) fn status(&mut self, id: NodeId, mut status: Status, asked: Now) {
        self.core.alive();
        self.group.amend(&mut self.core, id, &mut status, asked);
        self.group.heard(&mut self.core, id, &status, asked);
        self.readers.heard(&self.core, id, &status, asked);
        let now = self.core.now;
        let node = self.core.node_mut(id);
        let was_whole = node.status.as_ref().is_some_and(Status::is_whole);
        node.probe_asked = None;
        node.rejected = None;
        node.counts.answered(now);
        node.answered_at = Some(now);
        node.asked_at = node.asked_at.max(Some(asked));
        if status.is_whole() {
            node.lost_at = None;
            node.leaving_since = None;
        } else if was_whole {
            // It said itself that it is no full member any more: an orderly stop, or a node that is cut off from the majority.
            node.leaving_since.get_or_insert(now);
        }
        node.alarms.answered(asked, status.serves());
        self.readers.answered(id, asked, status.serves_reads());
        if status.serves_reads() {
            node.lost.survived(asked);
        }
        node.status = Some(status);
        let answered = |doubt: &Doubt| !doubt.wants_link && doubt.asked_from <= asked;
        if node.doubt.as_ref().is_some_and(answered) && !self.group.keeps_doubt(&self.core, id) {
            let node = self.core.node_mut(id);
            node.doubt = None;
            node.doubt_cleared = Some(now);
        }
    }

    /// A link broke, or could not be made. `is_of_now`: it is about the lane that the traffic takes now, and that is not shut.
    pub(super) fn traffic_lost(&mut self, id: NodeId, is_of_now: bool, how: &ConnectFailure) {
        let why = format!("traffic lost its connection, {}", failure(how));
        match how {
            // Nobody gets in by TLS: the manager's own new connection shows whether that is so.
            ConnectFailure::Rejected { errno: errno::SSL_CONNECTION_ERROR, .. } => {
                let now = self.core.now;
                let node = self.core.node_mut(id);
                if node.confirm_after <= now {
                    node.confirm_after = now + SHUT_OUT_GAP;
                    self.core.ask_confirm(id);
                }
            }
            // An error packet shows that the server lives. Most of them only say that this client, or no further one, is let in.
            ConnectFailure::Rejected { errno, .. } if !REFUSES_ALL.contains(errno) => self.core.ask_probe(id),
            ConnectFailure::Rejected { .. } => self.alarm(id, is_of_now, why, false),
            _ => self.alarm(id, is_of_now, why, true),
        }
    }

    /// The node answered a statement with an error about itself (1047, 1053, ...). A client can make a server raise any error (SIGNAL), so the node
    /// is only asked: whether it is leaving is decided by its status and by the probe's connection.
    pub(super) fn traffic_refused(&mut self, id: NodeId, is_of_now: bool, errno: u16) {
        self.alarm(id, is_of_now, format!("traffic was refused with error {errno}"), false);
    }

    /// A fact of that epoch is about the lane as it is now, and not about connections that were cut before.
    pub(super) fn is_of_now(&self, id: NodeId, epoch: u64) -> bool {
        let node = self.core.node(id);
        node.lane != LaneState::Shut && node.epoch == epoch
    }

    /// Traffic met something that may mean the node's end: it is asked at once, and gets no new transactions until it has answered. Of a burst of
    /// alarms only the first does that.
    fn alarm(&mut self, id: NodeId, is_of_now: bool, why: String, wants_link: bool) {
        let core = &mut self.core;
        let node = core.node(id);
        if node.finding.serves == Serves::No {
            return;
        }
        // That new connections fail is known already, and no reason to hold traffic again.
        let known = wants_link && node.shut_out >= core.settings.refusals_max;
        let late = known || node.doubt_cleared.is_some_and(|at| core.now.saturating_sub(at) < ALARM_GAP);
        // The alarm is about an older epoch, or belongs to a doubt that was cleared just now: the node is asked, and traffic goes on.
        if !is_of_now || late {
            core.ask_probe(id);
            return;
        }
        core.doubt(id, why, wants_link);
        if wants_link {
            core.ask_confirm(id);
        } else {
            core.ask_probe(id);
        }
    }
}

/// How it failed, for sentences.
fn failure(how: &ConnectFailure) -> String {
    match how {
        ConnectFailure::Refused => "refused".into(),
        ConnectFailure::Reset => "reset".into(),
        ConnectFailure::Closed => "closed".into(),
        ConnectFailure::TimedOut => "timed out".into(),
        ConnectFailure::Unreachable => "unreachable".into(),
        ConnectFailure::Rejected { errno: errno::SSL_CONNECTION_ERROR, message } => message.clone(),
        ConnectFailure::Rejected { errno, .. } => format!("rejected with error {errno}"),
        ConnectFailure::Protocol { what } => format!("not the protocol: {what}"),
    }
}

//! What the servers are to each other: who stands apart, who came back without what it had, and what that says against one.
//!
//! Enters: what each said last. Leaves: how far each is behind, the transactions that the primary has not, and the finding of the first rule
//! that speaks against a server.

use std::time::Duration;

use protocol::gtid::{Errant, History, Origin, Position};

use super::Replication;
use super::channel::Channel;
use super::external::is_external;
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

/// Replicas that are less far behind than this, in seconds, are alike when a switchover chooses among them.
const LAG_ALIKE_S: u64 = 5;

/// So long after a change the servers are asked again and again, so that they follow the new primary at once: with semi-synchronous
/// replication its first commit waits for that.
const JUST_TAKEN_OVER: Duration = Duration::from_secs(1);

/// What the primary said last as such.
#[derive(Clone, Debug)]
pub(super) struct LastWord {
    pub origin: Origin,
    pub history: Option<History>,
    pub position: Option<Position>,
    /// Where it stood by the word before that: time enough since for a replica to have received it.
    pub before: Option<Position>,
    /// A commit waited for a replica: semi-synchronous replication was in force.
    pub waited: bool,
    pub asked: Now,
}

/// A server's word that is yet to be compared with a later one of the primary.
#[derive(Clone, Debug)]
pub(super) struct Said {
    at: Now,
    state: History,
    has: Option<Position>,
}

/// What the server said last.
pub(super) fn own(node: &Belief) -> Option<&ReplicationStatus> {
    node.status.as_ref().and_then(Status::replication)
}

/// It answers, whatever it says.
pub(super) fn answers(node: &Belief) -> bool {
    node.linked && !node.assessment.gone && node.status.is_some()
}

/// It takes writes from whomever, by its own word.
pub(super) fn writes(node: &Belief) -> bool {
    answers(node) && own(node).is_some_and(|status| !status.read_only && status.channels.is_empty())
}

/// What a server that answers says of its connection to `primary`, which it follows.
pub(super) fn channel_to(core: &Core, id: NodeId, primary: NodeId) -> Option<&Channel> {
    let channel = own(core.node(id)).filter(|_| answers(core.node(id)))?.source()?;
    (channel.source == core.node(primary).address).then_some(channel)
}

/// All that a server has applied, server by server.
pub(super) fn history(status: &ReplicationStatus) -> Option<History> {
    let mut history = status.history.clone()?;
    // A server that was made from a backup has a position and no binlog.
    if let Some(position) = &status.position {
        history.add(position);
    }
    Some(history)
}

/// The same, and nothing where it is not known.
pub(super) fn applied(status: &ReplicationStatus) -> History {
    history(status).unwrap_or_else(|| History::empty(status.dialect.family()))
}

/// Whether a server has each of these transactions, applied or received: of whichever server they are, not by their numbers alone.
pub(super) fn has_each(status: &ReplicationStatus, position: &Position) -> bool {
    all_of(status).holds(position)
}

/// The same, and all that it has received.
pub(super) fn all_of(status: &ReplicationStatus) -> History {
    let mut all = applied(status);
    if let Some(has) = &status.has() {
        all.add(has);
    }
    all
}

impl Replication {
    /// Before the servers are judged: who is behind, when a planned switchover is to choose.
    pub fn look_around(&mut self, core: &mut Core) {
        for id in ids(&core.nodes) {
            let lag = own(core.node(id)).and_then(|status| status.source()?.lag_s).unwrap_or(0);
            let behind = if lag > LAG_ALIKE_S { lag } else { 0 };
            core.node_mut(id).behind = u32::try_from(behind).unwrap_or(u32::MAX);
        }
        if is_external(core) {
            self.look_who_is_writable(core);
        }
    }

    /// Its link stands anew. A primary that ended and began again may lack what it had, and what others have of it: it is not written before
    /// they were compared.
    pub fn linked(&mut self, core: &mut Core, id: NodeId) {
        // In its former life it may have had less, or more.
        let server = self.server_mut(id);
        server.said = None;
        server.compared = None;
        if self.fence.as_ref().is_some_and(|fence| fence.to == id) {
            self.server_mut(id).relinked = true;
        }
        if core.writer == Some(id) && !is_external(core) {
            let server = self.server_mut(id);
            server.uncompared = Some(core.now);
            server.relinked = true;
            for server in &mut self.servers {
                server.has_since = None;
            }
            let why = "its link is new: whether it has all that its replicas have is being compared";
            core.doubt(id, why.into(), false);
        }
    }

    /// What it said is not enough to end a doubt.
    pub fn keeps_doubt(&self, core: &Core, id: NodeId) -> bool {
        core.writer == Some(id) && self.server(id).uncompared.is_some()
    }

    /// The server said this.
    pub fn heard(&mut self, core: &Core, id: NodeId, status: &ReplicationStatus, asked: Now) {
        self.note_writable(id, status.read_only);
        if core.writer == Some(id) {
            self.in_time(id, asked);
            self.compare_new_link(core, id, status, asked);
            if self.fence.is_none() {
                self.primary_said(core, id, status, asked);
            }
            return;
        }
        let new_link = core.writer.and_then(|primary| self.server(primary).uncompared);
        let server = self.server_mut(id);
        // Whoever speaks again may acknowledge again.
        server.left = false;
        if server.has_since.is_none() && new_link.is_some_and(|since| asked > since) {
            server.has_since = Some((core.now, all_of(status)));
        }
        if server.said.is_none() && status.history.is_some() {
            server.said = Some(Said { at: core.now, state: all_of(status), has: status.has() });
        }
    }

    /// What another has and the primary has not is told only by a word of the primary that was asked for when the other's was there: all
    /// that it shows can have come from the primary.
    fn primary_said(&mut self, core: &Core, id: NodeId, status: &ReplicationStatus, asked: Now) {
        if self.server(id).writable_since.is_some_and(|since| asked <= since) || status.read_only {
            return;
        }
        self.note_kept_up(core, id);
        self.lost_since = None;
        self.base = self.base.take().or_else(|| status.position.clone());
        let primary = history(status);
        // Several words in a moment are one.
        let before = self.last_word.take().and_then(|word| {
            let is_old = asked.saturating_sub(word.asked) >= core.settings.probe_interval / 2;
            if is_old { word.position } else { word.before }
        });
        self.last_word = Some(LastWord {
            origin: status.origin(),
            history: primary.clone(),
            before,
            position: status.position.clone(),
            waited: status.semi_sync.primary_enabled && status.semi_sync.primary_active,
            asked,
        });
        self.note_left(core, id, status, asked);
        let Some(primary) = primary else { return };
        for other in ids(&core.nodes).filter(|other| *other != id) {
            let server = self.server_mut(other);
            let Some(said) = server.said.take_if(|said| said.at < asked) else { continue };
            server.errant = match said.state.minus(&primary) {
                Ok(errant) => (!errant.is_empty()).then(|| at_most(&errant, &core.node(other).name)),
                Err(why) => Some(why.to_string()),
            };
            server.compared = said.has;
        }
    }

    /// Who has all that the primary had by the word before this one.
    fn note_kept_up(&mut self, core: &Core, id: NodeId) {
        let Some(last) = self.last_word.as_ref().and_then(|word| word.position.clone()) else { return };
        for other in ids(&core.nodes).filter(|other| *other != id) {
            let node = core.node(other);
            let has = own(node).filter(|_| answers(node)).and_then(ReplicationStatus::has);
            if has.is_some_and(|has| has.contains(&last).unwrap_or(false)) {
                self.server_mut(other).kept_up = Some(core.now);
            }
        }
    }

    /// The primary counts nobody any more that cannot be asked: whoever cannot has acknowledged nothing later than what the primary has now.
    fn note_left(&mut self, core: &Core, id: NodeId, status: &ReplicationStatus, asked: Now) {
        let address = &core.node(id).address;
        let known = core.nodes.iter().filter(|node| answers(node)).filter_map(own).filter(|status| {
            let follows = status.source().is_some_and(|channel| channel.source == *address);
            let connected = status.source().is_some_and(|channel| channel.io_running);
            follows && connected && status.semi_sync.replica_enabled
        });
        let is_all_known = status.semi_sync.replicas as usize <= known.count();
        for other in ids(&core.nodes).filter(|other| *other != id) {
            let node = core.node(other);
            let server = self.server_mut(other);
            server.left = is_all_known && !answers(node) && node.lost_at.is_some_and(|at| at < asked);
        }
    }

    /// Whether the primary, whose link is new, has all that it wrote before: what others have of its own transactions.
    fn compare_new_link(&mut self, core: &Core, id: NodeId, status: &ReplicationStatus, asked: Now) {
        if self.server(id).uncompared.is_none_or(|since| asked <= since) {
            return;
        }
        let others = || ids(&core.nodes).filter(|other| *other != id && answers(core.node(*other)));
        let spoke = |other: NodeId| self.server(other).has_since.as_ref().filter(|(at, _)| *at < asked);
        if !others().all(|other| spoke(other).is_some()) {
            return;
        }
        let mine = applied(status);
        // One that follows somebody is not the primary yet, or not any more: what it has not may come. One that is writable when this program
        // begins has been written since: what others have of it besides is theirs to lose.
        let counts = status.channels.is_empty() && (self.decided || status.read_only);
        // Who was found to stand apart while the primary was written is no measure of it.
        let lost =
            others().filter(|other| counts && self.server(*other).errant.is_none()).find_map(|other| {
                let (_, theirs) = spoke(other)?;
                let of_mine = theirs.minus(&mine).ok()?.of(status.origin());
                (!of_mine.is_empty()).then(|| format!("{of_mine}, which {} has", core.name(other)))
            });
        let server = self.server_mut(id);
        server.lost = lost;
        server.uncompared = None;
    }

    /// It waits for a comparison without which nobody follows a new primary.
    pub fn is_unclear(&self, core: &Core) -> bool {
        if is_external(core) {
            return self.is_watched(core);
        }
        let Some(primary) = core.writer.filter(|_| self.fence.is_none()) else { return false };
        if self.is_late(core) {
            return true;
        }
        let since = self.server(primary).writable_since;
        let is_new = since.is_some_and(|since| core.now.saturating_sub(since) < JUST_TAKEN_OVER);
        is_new
            && ids(&core.nodes).any(|id| {
                let node = core.node(id);
                id != primary && answers(node) && own(node).is_some() && self.server(id).compared.is_none()
            })
    }

    /// What speaks against a server that answers, beside its own words.
    pub fn against(&self, core: &Core, id: NodeId) -> Option<Finding> {
        if is_external(core) {
            return self.against_followed(core, id);
        }
        let node = core.node(id);
        let status = own(node).filter(|status| !status.galera)?;
        let Some(primary) = core.writer else { return before_the_first(core, id) };
        if self.fence.as_ref().is_some_and(|fence| fence.to == id) {
            return self.lost_transactions(core, id).or_else(|| words::unfit(status));
        }
        if primary == id {
            return self.against_primary(core, id, status);
        }
        words::replica(&self.sight(core, id, status, primary))
    }

    pub(super) fn sight<'a>(
        &'a self,
        core: &'a Core,
        id: NodeId,
        status: &'a ReplicationStatus,
        primary: NodeId,
    ) -> Sight<'a> {
        let primary = core.node(primary);
        Sight {
            status,
            source: status.source().map_or("", |channel| called(core, &channel.source)),
            primary: Some((&primary.name, &primary.address)),
            primary_answers: answers(primary) && primary.assessment.serves != Serves::No,
            errant: self.server(id).errant.as_deref(),
            follows_stranger: follows_stranger(core, status),
            ring: None,
            format: own(primary).map_or("", |status| &status.binlog_format),
        }
    }

    /// What somebody should put right about a server, though it may be used all the same.
    pub fn advice(&self, core: &Core, id: NodeId) -> Vec<String> {
        let Some(primary) = core.writer.filter(|_| self.fence.is_none() && self.decided) else {
            return vec![];
        };
        let Some(status) = own(core.node(id)).filter(|status| !status.galera && answers(core.node(id)))
        else {
            return vec![];
        };
        if primary != id {
            return words::advice(&self.sight(core, id, status, primary));
        }
        let counts = self.server(id).writable_since.is_none_or(|since| core.node(id).answered_since(since));
        let source = status.channels.first().filter(|_| counts);
        source
            .map(|source| words::primary_follows(called(core, &source.source), status.dialect))
            .into_iter()
            .collect()
    }

    /// The primary came back without what it had.
    fn lost_transactions(&self, core: &Core, id: NodeId) -> Option<Finding> {
        let lost = self.server(id).lost.as_ref().filter(|_| core.writer == Some(id))?;
        Some(refused("lost_transactions", format!("came back without transactions of its own: {lost}")))
    }

    fn against_primary(&self, core: &Core, id: NodeId, status: &ReplicationStatus) -> Option<Finding> {
        let (node, server) = (core.node(id), self.server(id));
        if let Some(lost) = self.lost_transactions(core, id) {
            return Some(lost);
        }
        // What the plan does to it itself is no news, nor is what it said before it took over.
        let in_use = node.lane != LaneState::Shut && self.fence.is_none();
        let counts = server.writable_since.is_none_or(|since| node.answered_since(since));
        (in_use && counts && status.read_only)
            .then(|| refused("read_only", "is read only: read_only is set".into()))
    }

    /// What is said of a server that works, to follow its name and a colon.
    pub fn well(&self, core: &Core, id: NodeId) -> String {
        let source = own(core.node(id)).and_then(|status| Some(&status.source()?.source));
        match source {
            _ if self.fence.as_ref().is_some_and(|fence| fence.to == id) => {
                "about to become the primary".into()
            }
            Some(address) => format!("follows {}", called(core, address)),
            None if core.writer == Some(id) && self.fence.is_some() => "the primary until now".into(),
            None if core.writer == Some(id) => "the primary".into(),
            None => "follows nobody".into(),
        }
    }
}

/// What the server has and the primary has not, as far as their binlog states tell: only the last number of each run is certain.
fn at_most(errant: &Errant, node: &str) -> String {
    if errant.is_exact() {
        return errant.to_string();
    }
    format!("{errant} at most, see `understudy errant list {node}`")
}

/// The server at that address.
pub(super) fn ours(core: &Core, address: &str) -> Option<NodeId> {
    ids(&core.nodes).find(|id| core.node(*id).address == address)
}

/// It is connected to a source that is no server of this cluster. One whose source is gone may know it by a name that is not known here.
pub(super) fn follows_stranger(core: &Core, status: &ReplicationStatus) -> bool {
    status.source().is_some_and(|channel| channel.io_running && ours(core, &channel.source).is_none())
}

/// The servers that follow each other, from `id` on and back to it, when it is one of them.
pub(super) fn ring(core: &Core, id: NodeId) -> Option<String> {
    let mut names = core.name(id).to_owned();
    let mut at = id;
    for _ in 0..core.nodes.len() {
        at = ours(core, &own(core.node(at)).filter(|_| answers(core.node(at)))?.source()?.source)?;
        names = format!("{names} follows {}", core.name(at));
        if at == id {
            return Some(names);
        }
        names.push_str(", which");
    }
    None
}

/// The name of the server at that address, or the address.
pub(super) fn called<'a>(core: &'a Core, address: &'a str) -> &'a str {
    core.nodes.iter().find(|node| node.address == address).map_or(address, |node| &node.name)
}

/// Nobody was decided on yet: the one that takes writes, and none when that are several.
pub(super) fn before_the_first(core: &Core, id: NodeId) -> Option<Finding> {
    let writing: Vec<&str> =
        core.nodes.iter().filter(|node| writes(node)).map(|node| node.name.as_str()).collect();
    if writing.len() > 1 && writes(core.node(id)) {
        return Some(refused("two_primaries", words::two_primaries(&writing)));
    }
    let status = own(core.node(id))?;
    let source = status.source()?;
    if ours(core, &source.source).is_none() {
        return Some(refused("stranger", words::stranger(&source.source)));
    }
    if let Some(names) = ring(core, id) {
        return Some(refused("ring", words::ring(&names, status.dialect)));
    }
    // Whoever could not take over is told of before anything is begun.
    if let Some(finding) = words::unfit(status) {
        return Some(finding);
    }
    let sentence = format!("follows {}", called(core, &source.source));
    Some(Finding { problem: "replica", state: NodeState::Joining, serves: Serves::Stays, sentence })
}

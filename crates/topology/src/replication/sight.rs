//! Compares the servers with each other: which of them has errant transactions, which came back without transactions that it had, and which
//! finding follows from that.
//!
//! Enters: the last status report of each server. Leaves: how far each is behind, the transactions that the primary does not have, and for
//! each server the finding of the first rule that applies.

use std::time::Duration;

use protocol::gtid::mariadb::Run;
use protocol::gtid::{Errant, History, Position};

use super::reports::{
    all_of, answers, applied, called, follows_one_of_us, follows_stranger, history, is_connected, ours, own,
    ring, writes,
};
use super::state::{Followed, LastWord, Late, Replication, Report};
use super::status::ReplicationStatus;
use super::words::{self, Sight};
use super::{copied, kept_filters, renumber};
use crate::NodeId;
use crate::core::Core;
use crate::finding::{Finding, NodeState, Problem, Serves};
use crate::group::{Judge, Reads};
use crate::routes::LaneState;
use crate::status::Status;
use crate::time::Now;

/// Replicas that are less far behind than this, in seconds, count as equal when a switchover chooses among them.
const LAG_ALIKE_S: u64 = 5;

/// For this long after a change of the primary the servers are asked for their status more often, so that they follow the new primary at
/// once. With semi-synchronous replication its first commit waits for that.
const JUST_TAKEN_OVER: Duration = Duration::from_secs(1);

/// The position up to which replicas have acknowledged all that the primary wrote, by its report `now` and the one before. The position was read
/// before the counters, and replicas acknowledge in the order of the commits.
fn acknowledged(last: Option<LastWord>, now: &ReplicationStatus) -> Option<Position> {
    if now.semi_sync.waiting == 0 {
        return now.position.clone();
    }
    let last = last?;
    let since = now.semi_sync.acknowledged_count.saturating_sub(last.acknowledged_count);
    if since >= u64::from(last.waiting) { last.position } else { last.acknowledged }
}

impl Judge for Replication {
    /// This process did not run for `gap`. Orders get that much more time, and a server that reported before may have ended since.
    fn slept(&mut self, gap: Duration) {
        for server in self.servers.iter_mut() {
            if let Some((.., give_up)) = &mut server.order {
                *give_up += gap;
            }
            // It may have attached to the primary again meanwhile, and acknowledged.
            server.left = false;
        }
        if let Some(fence) = &mut self.fence {
            fence.quiet_since = None;
        }
    }

    /// The link to the server was opened anew. A primary that has restarted may lack transactions that it had and that replicas have. It
    /// gets no statements until that was compared.
    fn linked(&mut self, core: &mut Core, id: NodeId) {
        // What it reported before a restart may differ from what it has now.
        let server = self.server_mut(id);
        server.said = None;
        server.compared = None;
        server.was_away |= core.node(id).lost_at.is_some();
        if self.fence.as_ref().is_some_and(|fence| fence.to == id) {
            self.server_mut(id).relinked = true;
        }
        if core.writer == Some(id) && !core.settings.replication.is_external() {
            let server = self.server_mut(id);
            server.uncompared = Some(core.now);
            server.relinked = true;
            for server in self.servers.iter_mut() {
                server.has_since = None;
            }
            let why = "its link is new: whether it has all that its replicas have is being compared";
            core.doubt(id, why.into(), false);
        }
    }

    fn slow(&mut self, core: &Core, id: NodeId, asked: Now) {
        if core.writer == Some(id) && self.late.is_none_or(|late| late.primary != id) {
            self.late = Some(Late { primary: id, since: asked, asked: None, is_reached: false });
        }
    }

    /// A report that was asked for before the server's answer that it follows may show it as it was before: what that answer says counts.
    fn amend(&self, core: &mut Core, node: NodeId, status: &mut Status, asked: Now) {
        if matches!(self.server(node).followed, Followed::Follows(at) if asked <= at)
            && let Some(known) = own(core.node(node))
            && let Some(report) = status.replication_mut()
        {
            report.read_only = known.read_only;
            report.channels.clone_from(&known.channels);
        }
        kept_filters::remember(core, node, status);
    }

    fn heard(&mut self, core: &mut Core, id: NodeId, status: &Status, asked: Now) {
        let Some(status) = status.replication() else { return };
        self.note_writable(id, status.read_only);
        self.say_what_is_missing_now(core, id, status);
        if core.writer == Some(id) {
            self.in_time(id, asked);
            self.prove_anew(core, id);
            self.compare_new_link(core, id, status, asked);
            // One that has restarted is no measure for the others before it was compared with them, nor if it lacks what they have of it.
            let server = self.server(id);
            if self.fence.is_none() && server.uncompared.is_none() && server.lost.is_none() {
                self.primary_said(core, id, status, asked);
            }
            return;
        }
        self.note_received(core, id, status);
        let new_link = core.writer.and_then(|primary| self.server(primary).uncompared);
        let server = self.server_mut(id);
        // A server that answers again may acknowledge again.
        server.left = false;
        if server.has_since.is_none() && new_link.is_some_and(|since| asked > since) {
            server.has_since = Some((core.now, all_of(status)));
        }
        if server.said.is_none() && status.history.is_some() {
            server.said = Some(Report { at: core.now, state: all_of(status), has: status.has() });
        }
    }

    /// Whether a status report does not end a suspicion yet, because the primary has not been compared with its replicas.
    fn keeps_doubt(&self, core: &Core, id: NodeId) -> bool {
        core.writer == Some(id) && self.server(id).uncompared.is_some()
    }

    /// Updates how far each server is behind, before the servers are judged. A switchover uses it to choose.
    fn look_around(&mut self, core: &mut Core) {
        for id in core.nodes.ids() {
            let lag = own(core.node(id)).and_then(|status| status.source()?.lag_s).unwrap_or(0);
            let behind = if lag > LAG_ALIKE_S { lag } else { 0 };
            core.node_mut(id).behind = u32::try_from(behind).unwrap_or(u32::MAX);
        }
        if core.settings.replication.is_external() {
            self.look_who_is_writable(core);
        }
    }

    /// The finding against a server that answers, from more than its own report.
    fn against(&self, core: &Core, id: NodeId) -> Option<Finding> {
        if core.settings.replication.is_external() {
            return self.against_followed(core, id);
        }
        let node = core.node(id);
        let status = own(node).filter(|status| !status.galera)?;
        let Some(primary) = core.writer else {
            // By an operator's order it is taken as it is.
            let is_to_begin = self.fence.as_ref().is_some_and(|fence| fence.to == id);
            return if is_to_begin && self.forced == Some(id) {
                words::unfit_to_stay(status).or_else(|| words::cannot_apply(status))
            } else {
                before_the_first(core, id)
            };
        };
        if let Some(fence) = self.fence.as_ref().filter(|fence| fence.to == id) {
            // It goes on as the primary that it was, or an operator takes it as it is.
            let stays = fence.lost == Some(id) || self.forced == Some(id);
            let unfit = if stays { words::unfit_to_stay } else { words::unfit };
            let cannot_apply = || words::cannot_apply(status).filter(|_| fence.lost != Some(id));
            return self.lost_transactions(core, id).or_else(|| unfit(status)).or_else(cannot_apply);
        }
        if primary == id {
            return self.against_primary(core, id, status);
        }
        words::replica(&self.sight(core, id, status, primary))
    }

    /// Whether a comparison is outstanding without which no server can follow a new primary.
    fn is_unclear(&self, core: &Core) -> bool {
        if core.settings.replication.is_external() {
            return self.is_watched(core);
        }
        let Some(primary) = core.writer.filter(|_| self.fence.is_none()) else { return false };
        if self.is_late(core) {
            return true;
        }
        self.has_just_taken_over(core, primary)
            && core.nodes.ids().any(|id| {
                let node = core.node(id);
                id != primary && answers(node) && own(node).is_some() && self.server(id).compared.is_none()
            })
    }

    /// A clause about a server that works, to follow its name and a colon.
    fn well(&self, core: &Core, id: NodeId) -> String {
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

    fn word(&self, state: NodeState) -> &'static str {
        if state == NodeState::Synced { "running" } else { state.word() }
    }

    /// Advice: what somebody should correct on a server that is usable all the same.
    fn advice(&self, core: &Core, id: NodeId) -> Vec<String> {
        let mut advice = self.advice_on_settings(core, id);
        advice.extend(self.events_finding(id).map(str::to_owned));
        advice
    }

    /// Whether a server that is not the primary may take reads, apart from the age of its data.
    fn reads(&self, core: &Core, id: NodeId) -> Reads {
        let finding = &core.node(id).finding;
        // While the primary changes, nothing is wrong with the server's data, and Understudy's own orders stop its threads for a moment.
        let is_between = match finding.problem {
            Problem::Stray | Problem::OtherSource => true,
            Problem::NotApplying => self.fence.is_some() || self.is_ordered(core, id),
            _ => false,
        };
        if finding.serves == Serves::No && !is_between { Reads::No } else { Reads::ByAge }
    }
}

impl Replication {
    /// The servers that could not be asked when the primary came back answer, or were drained: it is compared again.
    fn prove_anew(&mut self, core: &mut Core, id: NodeId) {
        let is_missing = |other: NodeId| !answers(core.node(other)) && !core.node(other).drained();
        let is_replaced = self.fence.as_ref().is_some_and(|fence| fence.to != id);
        if !self.server(id).is_unproven || core.nodes.ids().any(|other| other != id && is_missing(other)) {
            return;
        }
        let server = self.server_mut(id);
        // It is compared as one that may have lost some, however it came back.
        (server.is_unproven, server.was_incomplete, server.lost) = (false, true, None);
        // While another is about to take its place, the choice compares all of them.
        if !is_replaced {
            self.linked(core, id);
        }
    }

    /// The primary has reported its status. Which transactions another server has and the primary has not is decided only with a report of
    /// the primary that was asked for after the other's report arrived. Everything that the other showed can by then have come from the
    /// primary.
    fn primary_said(&mut self, core: &mut Core, id: NodeId, status: &ReplicationStatus, asked: Now) {
        if self.server(id).writable_since.is_some_and(|since| asked <= since) || status.read_only {
            return;
        }
        self.look_whether_it_went_back(core, id, status, asked);
        self.note_kept_up(core, id);
        self.lost_since = None;
        self.base = self.base.take().or_else(|| status.position.clone());
        let primary = history(status).map(|shown| self.inherited.with(shown));
        self.note_acknowledged(status);
        let is_same = |word: &&LastWord| {
            word.position == status.position && word.acknowledged_count == status.semi_sync.acknowledged_count
        };
        let still_waiting = self.last_word.as_ref().filter(is_same).map_or(0, |word| word.waiting);
        let acknowledged = acknowledged(self.last_word.take(), status)
            .or_else(|| self.remembered_as_acknowledged(core, id, status.dialect.family()));
        self.last_word = Some(LastWord {
            origin: status.origin(),
            history: primary.clone(),
            acknowledged: acknowledged.clone(),
            waiting: status.semi_sync.waiting,
            still_waiting,
            acknowledged_count: status.semi_sync.acknowledged_count,
            position: status.position.clone(),
            uptime_s: status.uptime_s,
            waited: status.semi_sync.waits(),
            asked,
        });
        self.note_left(core, id, status, asked);
        self.remember(core, id, status, acknowledged.as_ref(), asked);
        let Some(mut known) = primary else { return };
        if let Some(underway) = &status.underway {
            known.add(underway);
        }
        let mut renumbered = vec![];
        for other in core.nodes.ids().filter(|other| *other != id) {
            let Some(said) = self.server_mut(other).said.take_if(|said| said.at < asked) else { continue };
            let is_of_line = |run: &Run| copied::is_replicated(core, id, other, run);
            let errant = said.state.minus(&known.along(&said.state, is_of_line));
            // One that cannot receive any more has them from elsewhere: the primary's numbers began anew.
            let errant = if is_connected(core, other, id) {
                errant.map(|errant| errant.without_underway(status.origin()))
            } else {
                errant
            };
            // Only the primary itself can have written those of its origin.
            if errant.as_ref().is_ok_and(|errant| renumber::is_from_before(errant, status)) {
                renumbered.push(other);
            }
            let server = self.server_mut(other);
            server.errant = match errant {
                Ok(errant) => (!errant.is_empty()).then(|| at_most(&errant, &core.node(other).name)),
                Err(why) => Some(why.to_string()),
            };
            server.compared = said.has;
        }
        renumber::mark_beside(core, id, &renumbered);
    }

    /// Notes which servers have all that the primary had in its report before this one.
    fn note_kept_up(&mut self, core: &Core, id: NodeId) {
        let Some(last) = self.last_word.as_ref().and_then(|word| word.position.clone()) else { return };
        for other in core.nodes.ids().filter(|other| *other != id) {
            let node = core.node(other);
            let has = own(node).filter(|_| answers(node)).and_then(ReplicationStatus::has);
            if has.is_some_and(|has| has.contains(&last).unwrap_or(false)) {
                self.server_mut(other).kept_up = Some(core.now);
            }
        }
    }

    /// Notes which of the servers that cannot be asked the primary no longer counts as semi-synchronous replicas. They have acknowledged
    /// nothing later than what the primary has now.
    fn note_left(&mut self, core: &Core, id: NodeId, status: &ReplicationStatus, asked: Now) {
        let address = &core.node(id).address;
        let known = core.nodes.iter().filter(|node| answers(node)).filter_map(own).filter(|status| {
            // One of several sources is followed as well.
            let mut channels = status.channels.iter();
            let is_connected = channels.any(|channel| channel.source == *address && channel.io_running);
            is_connected && status.semi_sync.replica_enabled
        });
        let is_all_known = status.semi_sync.replicas as usize <= known.count();
        for other in core.nodes.ids().filter(|other| *other != id) {
            let node = core.node(other);
            let server = self.server_mut(other);
            server.left = is_all_known && !answers(node) && node.lost_at.is_some_and(|at| at < asked);
        }
    }

    /// Compares a primary whose link is new with the other servers: whether it has all of its own transactions that they have.
    fn compare_new_link(&mut self, core: &Core, id: NodeId, status: &ReplicationStatus, asked: Now) {
        if self.server(id).uncompared.is_none_or(|since| asked <= since) {
            return;
        }
        let others = || core.nodes.ids().filter(|other| *other != id && answers(core.node(*other)));
        let spoke = |other: NodeId| self.server(other).has_since.as_ref().filter(|(at, _)| *at < asked);
        if !others().all(|other| spoke(other).is_some()) {
            return;
        }
        let status = &self.with_underway(core, id, status);
        let mine = applied(status);
        // A server that follows another of the cluster is not the primary yet, or is not any more, and may still receive what it lacks. If it was
        // writable when this program started, and had not restarted unseen, it was written to meanwhile: what others have beyond that is not its loss.
        let server = self.server(id);
        let was_incomplete = server.was_incomplete;
        let has_restarted = self
            .away
            .zip(status.uptime_s)
            .is_some_and(|(away, uptime_s)| Duration::from_secs(uptime_s) < core.now.saturating_add(away));
        let may_lack = self.decided || status.read_only || was_incomplete || server.was_away || has_restarted;
        let counts = !follows_one_of_us(core, status) && may_lack;
        // A server that was found to have errant transactions, or has other numbers, is no measure for the primary.
        let is_measure =
            |other: NodeId| self.server(other).errant.is_none() && !core.node(other).is_renumbered;
        let of_mine = |theirs: &History| {
            let lacks = theirs.minus(&mine.along(theirs, |_| true)).ok()?.of(status.origin());
            (!lacks.is_empty()).then_some(lacks)
        };
        let measures = core.nodes.ids().filter(|other| counts && *other != id && is_measure(*other));
        let (here, gone): (Vec<NodeId>, Vec<NodeId>) = measures.partition(|other| answers(core.node(*other)));
        let lost = here.into_iter().find_map(|other| {
            let (_, theirs) = spoke(other)?;
            Some(format!("{}, which {} has", of_mine(theirs)?, core.name(other)))
        });
        // A server that is gone as well may have been the only other one with what was acknowledged: its last report counts, unless an operator
        // drained it to go on without.
        let lost = lost.or_else(|| {
            gone.into_iter().filter(|other| !core.node(*other).drained()).find_map(|other| {
                let (lacks, name) = (of_mine(&all_of(own(core.node(other))?))?, core.name(other));
                Some(format!("{lacks}, which {name} had in its last report, and {name} cannot be asked now"))
            })
        });
        let is_missing =
            |other: &NodeId| *other != id && !answers(core.node(*other)) && !core.node(*other).drained();
        let missing = core.nodes.ids().find(is_missing);
        let before = missing.filter(|_| was_incomplete).map(|missing| {
            format!(
                "as was found before this program was restarted, and {} cannot be asked now",
                core.name(missing)
            )
        });
        // What a server has shown counts more.
        let unproven = before.or_else(|| self.may_lack(core, id, status));
        let unproven = unproven.filter(|_| lost.is_none());
        let gone = || self.lacks_acknowledged(core, id, status).filter(|_| unproven.is_none());
        let lost = lost.or_else(gone);
        self.has_reverted |= lost.is_some() || unproven.is_some();
        let server = self.server_mut(id);
        server.is_unproven = unproven.is_some();
        server.lost = lost.or(unproven);
        server.was_incomplete &= server.lost.is_some();
        server.uncompared = None;
    }

    /// Has it written down whether the writer came back without transactions of its own: after a restart of this process its reports alone would
    /// not show that.
    pub(super) fn note_incomplete(&mut self, core: &mut Core) {
        let writer = core.writer.map(|writer| self.server(writer));
        let is_incomplete = writer.is_some_and(|writer| writer.lost.is_some() || writer.was_incomplete);
        if is_incomplete != core.is_writer_incomplete {
            core.is_writer_incomplete = is_incomplete;
            core.persist();
        }
    }

    /// Whether it became the primary a moment ago.
    pub(super) fn has_just_taken_over(&self, core: &Core, primary: NodeId) -> bool {
        let since = self.server(primary).writable_since;
        since.is_some_and(|since| core.now.saturating_sub(since) < JUST_TAKEN_OVER)
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
            primary_answers: answers(primary) && primary.finding.serves != Serves::No,
            errant: self.server(id).errant.as_deref(),
            is_renumbered: core.node(id).is_renumbered,
            follows_stranger: follows_stranger(core, status),
            ring: None,
            format: own(primary).map_or("", |status| &status.binlog_format),
        }
    }

    fn advice_on_settings(&self, core: &Core, id: NodeId) -> Vec<String> {
        let Some(primary) = core.writer.filter(|_| self.fence.is_none() && self.decided) else {
            return vec![];
        };
        let Some(status) = own(core.node(id)).filter(|status| !status.galera && answers(core.node(id)))
        else {
            return vec![];
        };
        let shares = |other: &NodeId| {
            *other != id && own(core.node(*other)).is_some_and(|theirs| theirs.server_id == status.server_id)
        };
        let others: Vec<&str> = core.nodes.ids().filter(shares).map(|other| core.name(other)).collect();
        if status.server_id != 0 && !others.is_empty() {
            return vec![words::same_id(status.server_id, &others.join(", "))];
        }
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

    /// The primary came back without transactions that it had.
    fn lost_transactions(&self, core: &Core, id: NodeId) -> Option<Finding> {
        // An operator who orders it to write with force goes on without them.
        let counts = core.writer == Some(id) && self.forced != Some(id);
        let lost = self.server(id).lost.as_ref().filter(|_| counts)?;
        Some(Problem::LostTransactions.found(format!("came back without transactions of its own: {lost}")))
    }

    fn against_primary(&self, core: &Core, id: NodeId, status: &ReplicationStatus) -> Option<Finding> {
        let (node, server) = (core.node(id), self.server(id));
        if let Some(lost) = self.lost_transactions(core, id) {
            return Some(lost);
        }
        // When the plan itself made it read only, or it reported that before it took over, nothing is wrong.
        let in_use = node.lane != LaneState::Shut && self.fence.is_none();
        let counts = server.writable_since.is_none_or(|since| node.answered_since(since));
        (in_use && counts && status.read_only)
            .then(|| Problem::ReadOnly.found("is read only: read_only is set"))
    }
}

/// The transactions that the server has and the primary has not, as far as the binlog states show them: only the last number of each range
/// is certain.
fn at_most(errant: &Errant, node: &str) -> String {
    if errant.is_exact() {
        return errant.to_string();
    }
    format!("{errant} at most, see `understudy errant list {node}`")
}

/// The finding while no primary has been chosen yet: the only writable server is taken, and none if several are writable.
pub(super) fn before_the_first(core: &Core, id: NodeId) -> Option<Finding> {
    let writing: Vec<&str> =
        core.nodes.iter().filter(|node| writes(node)).map(|node| node.name.as_str()).collect();
    if writing.len() > 1 && writes(core.node(id)) {
        return Some(Problem::TwoPrimaries.found(words::two_primaries(&writing)));
    }
    let status = own(core.node(id))?;
    let source = status.source()?;
    if ours(core, &source.source).is_none() {
        return Some(Problem::Stranger.found(words::stranger(&source.source)));
    }
    if let Some(names) = ring(core, id) {
        return Some(Problem::Ring.found(words::ring(&names, status.dialect)));
    }
    // A server that could not take over is reported before any change begins.
    if let Some(finding) = words::unfit(status) {
        return Some(finding);
    }
    let sentence = format!("follows {}", called(core, &source.source));
    Some(Problem::Replica.found(sentence))
}

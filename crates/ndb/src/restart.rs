//! Builds the restarts of the nodes, and the checkpoints meanwhile, from the entries of a cluster log.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Found;
use crate::event::{Event, Node, Start, Step, Version};
use crate::time::Moment;
use crate::wrong::{Note, Wrong};

/// The limit of restarts in one log.
const RESTARTS_MAX: usize = 10_000;

/// All restarts and checkpoints of a cluster log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// The restarts, in the order in which they began.
    pub restarts: Vec<Restart>,
    /// The checkpoints, in the order in which they were started.
    pub checkpoints: Vec<Checkpoint>,
    /// The newest version that a node reported in its `Started` line.
    pub version: Option<Version>,
    /// The first entry's time.
    pub first: Moment,
    /// The last entry's time.
    pub last: Moment,
    /// Oddities of the log.
    pub notes: Vec<Note>,
}

/// A local checkpoint of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number in the log.
    pub id: u64,
    /// The time of its `started` line.
    pub started: Moment,
    /// The time of its `completed` line; `None` where the log ends before it, or where the log level of CHECKPOINT hides it.
    pub completed: Option<Moment>,
    /// The sum of the bytes that the nodes reported to have written for it.
    pub bytes: u64,
}

impl Checkpoint {
    /// From start to end, in microseconds.
    pub fn duration_us(&self) -> Option<i64> {
        Some(self.completed?.since_us(self.started))
    }
}

/// One node's restart from its failure to `Started`, as far as the log goes. Each time is that of the first line that reports the event,
/// unless a comment says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restart {
    /// The data node's id.
    pub node: u32,
    /// An orderly shutdown was initiated.
    pub stop_asked: Option<Moment>,
    /// The first missed heartbeat before the failure.
    pub silent_since: Option<Moment>,
    /// It was declared dead for missed heartbeats.
    pub declared_dead: Option<Moment>,
    /// Its process had ended.
    pub process_ended: Option<Moment>,
    /// The reason of a forced shutdown: `signal 9`, `error 2305: '...'`.
    pub why: Option<String>,
    /// The other nodes count it as failed.
    pub failed: Option<Moment>,
    /// The other nodes have completed the handling of its failure.
    pub handled: Option<Moment>,
    /// It was given its node id again: the process runs.
    pub node_id: Option<Moment>,
    /// The first line of its start: the one with its node id, unless that is missing.
    pub begun: Option<Moment>,
    /// It was included in the heartbeat protocol.
    pub heartbeat: Option<Moment>,
    /// Restoring or copying the data begins.
    pub data: Option<Moment>,
    /// Fragments are restored or copied; undo of disk data and redo begin.
    pub redo: Option<Moment>,
    /// The building of indexes begins.
    pub index: Option<Moment>,
    /// Copying the rows that changed meanwhile begins.
    pub synchronise: Option<Moment>,
    /// The data is complete; it waits for a checkpoint in which it takes part.
    pub wait_lcp: Option<Moment>,
    /// That checkpoint is complete; the handover of event subscriptions begins.
    pub handover: Option<Moment>,
    /// `Started`: the start is complete.
    pub started: Option<Moment>,
    /// When it failed again before `Started`.
    pub failed_again: Option<Moment>,
    /// How it starts, from the master's lines or its own start phases.
    pub start: Option<Start>,
    /// When each start phase was completed.
    pub phases: BTreeMap<u32, Moment>,
    /// The number of the checkpoint that it restored; 0 when none.
    pub restored_lcp: Option<u64>,
    /// Fragments restored from that checkpoint, the sum of all threads.
    pub restored_fragments: Option<u64>,
    /// Rows in these fragments.
    pub restored_rows: Option<u64>,
    /// The first and the last global checkpoint of the redo log that was run, over all its parts.
    pub redo_gci: Option<(u64, u64)>,
    /// Fragments that were copied or compared: the number of such lines.
    pub fragments_copied: u64,
    /// Rows fetched from another node, the sum of all threads.
    pub rows_fetched: Option<u64>,
    /// Rows removed.
    pub rows_removed: Option<u64>,
    /// Bytes fetched from another node.
    pub bytes_fetched: Option<u64>,
    /// The number of the checkpoint in which it first takes part again.
    pub own_lcp: Option<u64>,
    /// Checkpoints started between its failure and the first line of its start.
    pub lcps_absent: Vec<u64>,
    /// Checkpoints started from then until `Started`, its own among them.
    pub lcps_starting: Vec<u64>,
    /// Checkpoints that the log shows to have been started without it: those while it was absent, and those before its own, or before its
    /// data was complete.
    pub lcps_missed: usize,
    /// At most so many were; more than `lcps_missed` where the log shows neither its own checkpoint nor when its data was complete. `None`
    /// where the log begins after its failure, or ends while it is away.
    pub lcps_missed_max: Option<usize>,
    /// The version that it runs.
    pub version: Option<Version>,
    /// How many of `lcps_starting` came before its data was complete.
    lcps_incomplete: Option<usize>,
    reporters: BTreeSet<(Node, bool)>,
}

/// A part of a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name in the report: what happens in it.
    pub name: &'static str,
    /// How long it took, in microseconds.
    pub us: i64,
}

impl Restart {
    /// From the failure to `Started`, in microseconds.
    pub fn total_us(&self) -> Option<i64> {
        Some(self.started?.since_us(self.failed?))
    }

    /// From the node id to `Started`, in microseconds: the start alone.
    pub fn start_us(&self) -> Option<i64> {
        Some(self.started?.since_us(self.node_id?))
    }

    /// The wait for the checkpoint at the end of the start, in microseconds.
    pub fn checkpoint_us(&self) -> Option<i64> {
        Some(self.handover?.since_us(self.wait_lcp?))
    }

    /// The start without that wait, in microseconds.
    pub fn net_us(&self) -> Option<i64> {
        Some(self.start_us()? - self.checkpoint_us()?)
    }

    /// Whether the log has any line about a start.
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Its completed parts in order. Parts that the log does not separate are one part.
    pub fn parts(&self) -> Vec<Part> {
        let marks = [
            ("failure", self.failed),
            ("absent", self.handled),
            ("boot", self.node_id.or(self.begun)),
            // In older logs the end of phase 1 shows that the node is in the cluster.
            ("metadata", self.heartbeat.or_else(|| self.phases.get(&1).copied())),
            ("restore or copy", self.data),
            ("redo", self.redo),
            ("index", self.index),
            ("sync", self.synchronise),
            ("checkpoint", self.wait_lcp),
            ("handover", self.handover),
            ("", self.started),
        ];
        let known: Vec<(&'static str, Moment)> =
            marks.into_iter().filter_map(|(name, time)| Some((name, time?))).collect();
        let ended = known.windows(2).map(|pair| {
            let [(name, from), (_, to)] = pair else { return Part { name: "", us: 0 } };
            Part { name, us: to.since_us(*from) }
        });
        ended.filter(|part| !part.name.is_empty()).collect()
    }

    /// Counts the checkpoints without it, once all of its lines are known.
    fn count_missed(&mut self) {
        let (absent, starting) = (self.lcps_absent.len(), self.lcps_starting.len());
        let incomplete = match self.own_lcp {
            Some(own) => Some(self.lcps_starting.iter().filter(|id| **id < own).count()),
            None => self.lcps_incomplete,
        };
        let incomplete_max = match incomplete {
            // One of them was its own: without that, it is not started.
            None if self.started.is_some() => Some(starting.saturating_sub(1)),
            None if self.failed_again.is_some() => Some(starting),
            known => known,
        };
        self.lcps_missed = absent + incomplete.unwrap_or(0);
        self.lcps_missed_max = incomplete_max.filter(|_| self.failed.is_some()).map(|max| absent + max);
    }

    /// The last known time of it.
    pub fn last(&self) -> Option<Moment> {
        [self.failed_again, self.started, self.handover, self.heartbeat, self.begun, self.failed]
            .into_iter()
            .flatten()
            .max()
    }
}

/// Sets a time unless it is already set.
fn first(slot: &mut Option<Moment>, time: Moment) {
    slot.get_or_insert(time);
}

/// Adds one thread's figure.
fn add(slot: &mut Option<u64>, more: u64) {
    *slot = Some(slot.unwrap_or(0).saturating_add(more));
}

/// The state while the entries are processed.
#[derive(Default)]
struct Folding {
    restarts: Vec<Restart>,
    /// The index of each node's newest restart.
    newest: BTreeMap<Node, usize>,
    /// Events of a node before its failure is reported.
    before: BTreeMap<Node, Restart>,
    checkpoints: Vec<Checkpoint>,
    api: BTreeSet<Node>,
    /// Of all `Started` lines.
    versions: BTreeSet<Version>,
}

impl Story {
    pub(crate) fn of(found: Found<Event>) -> Result<Self, Wrong> {
        let mut folding = Folding::default();
        for (time, event) in found.kept {
            folding.take(time, event);
            if folding.restarts.len() > RESTARTS_MAX {
                return Err(Wrong::TooMuch);
            }
        }
        let Folding { mut restarts, checkpoints, api, versions, .. } = folding;
        restarts.retain(|restart| !api.contains(&restart.node) || restart.has_begun());
        let version = versions.last().copied();
        for restart in &mut restarts {
            restart.count_missed();
            if found.notes.iter().any(|note| matches!(note, Note::Lost(_))) {
                // Checkpoints may be among what was lost.
                restart.lcps_missed_max = None;
            }
            // A node whose own lines name none runs what the others run, if they all run the same.
            restart.version = restart.version.or(version.filter(|_| versions.len() == 1));
        }
        restarts.sort_by_key(|restart| restart.failed.or(restart.begun).or(restart.last()));
        Ok(Self { restarts, checkpoints, version, first: found.first, last: found.last, notes: found.notes })
    }
}

impl Folding {
    fn take(&mut self, time: Moment, event: Event) {
        match event {
            Event::ApiNode { node } => {
                self.api.insert(node);
            }
            Event::LcpStarted { id } => {
                let is_known = self.checkpoints.last().is_some_and(|last| last.id == id);
                if !is_known {
                    self.checkpoints.push(Checkpoint { id, started: time, completed: None, bytes: 0 });
                    self.count_checkpoint(id);
                }
            }
            Event::LcpCompleted { id } => {
                if let Some(checkpoint) = self.checkpoints.iter_mut().rev().find(|c| c.id == id) {
                    first(&mut checkpoint.completed, time);
                }
            }
            Event::LcpRecords { bytes } => {
                if let Some(last) = self.checkpoints.last_mut().filter(|last| last.completed.is_none()) {
                    last.bytes = last.bytes.saturating_add(bytes);
                }
            }
            Event::Failed { reporter, node } => self.failed(time, node, (reporter, false)),
            Event::Status { reporter, node, step: Step::Failed } => self.failed(time, node, (reporter, true)),
            Event::StopAsked { node } => first(&mut self.ahead(node).stop_asked, time),
            Event::StopAborted { node } => self.ahead(node).stop_asked = None,
            // It is a data node's if one has failed, or will report its start.
            Event::Reserved { node } if self.begun(node).is_some() => {
                self.of_restart(time, Event::NodeId { node });
            }
            Event::Reserved { node } => {
                let ahead = self.ahead(node);
                (ahead.node_id, ahead.begun) = (Some(time), Some(time));
            }
            Event::Silent { node } => first(&mut self.ahead(node).silent_since, time),
            Event::DeclaredDead { node } => first(&mut self.ahead(node).declared_dead, time),
            Event::ProcessEnded { node, why } => {
                let place = self.ended_place(node);
                if place.process_ended.is_none() {
                    (place.process_ended, place.why) = (Some(time), why);
                }
            }
            other => self.of_restart(time, other),
        }
    }

    /// Adds a checkpoint that was started to the nodes that are away or starting, by the order of the lines: times of whole seconds tell
    /// less.
    fn count_checkpoint(&mut self, id: u64) {
        for at in self.newest.values() {
            if let Some(restart) = self.restarts.get_mut(*at).filter(|restart| restart.started.is_none()) {
                let ids =
                    if restart.has_begun() { &mut restart.lcps_starting } else { &mut restart.lcps_absent };
                ids.push(id);
            }
        }
    }

    /// The record for events of a node before its failure is reported.
    fn ahead(&mut self, node: Node) -> &mut Restart {
        self.before.entry(node).or_default()
    }

    /// The record for the end of a process, which may be logged a little after the failure of its node.
    fn ended_place(&mut self, node: Node) -> &mut Restart {
        let open = self.newest.get(&node).copied();
        match open.and_then(|at| self.restarts.get_mut(at)) {
            Some(restart) if !restart.has_begun() && restart.started.is_none() => restart,
            _ => self.before.entry(node).or_default(),
        }
    }

    /// Each surviving node reports the failure of another, in lines of two forms. They are the same failure until the node has begun to
    /// start, or until a reporter repeats a form.
    fn failed(&mut self, time: Moment, node: Node, reporter: (Node, bool)) {
        let open = self.newest.get(&node).and_then(|at| self.restarts.get_mut(*at));
        if let Some(open) = open.filter(|open| open.started.is_none()) {
            let is_same =
                open.heartbeat.is_none() && open.phases.is_empty() && !open.reporters.contains(&reporter);
            if is_same && open.failed.is_some() {
                open.reporters.insert(reporter);
                // The time of the master's `NR Status` line replaces that of the plain line.
                if reporter.1 && open.handled.is_none() {
                    open.failed = Some(time);
                }
                return;
            }
            first(&mut open.failed_again, time);
        }
        let ahead = self.before.remove(&node).unwrap_or_default();
        // A node id from before the failure is not that of the start after it.
        let reporters = BTreeSet::from([reporter]);
        let restart = Restart { node, failed: Some(time), node_id: None, begun: None, reporters, ..ahead };
        self.newest.insert(node, self.restarts.len());
        self.restarts.push(restart);
    }

    /// The restart that a line belongs to; a new one when the log began after the failure.
    fn open(&mut self, node: Node) -> Option<&mut Restart> {
        let at = match self.newest.get(&node).copied() {
            Some(at) if self.restarts.get(at).is_some_and(|restart| restart.started.is_none()) => at,
            _ => {
                let ahead = self.before.remove(&node).unwrap_or_default();
                let restart = Restart { node, ..ahead };
                self.newest.insert(node, self.restarts.len());
                self.restarts.push(restart);
                self.restarts.len() - 1
            }
        };
        self.restarts.get_mut(at)
    }

    /// The restart that a line belongs to which can also be late, or unrelated to a start: it creates no new one.
    fn begun(&mut self, node: Node) -> Option<&mut Restart> {
        let at = *self.newest.get(&node)?;
        self.restarts.get_mut(at).filter(|restart| restart.started.is_none())
    }

    fn of_restart(&mut self, time: Moment, event: Event) {
        match event {
            Event::NodeId { node } | Event::Status { node, step: Step::NodeId, .. } => {
                if let Some(restart) = self.open(node) {
                    first(&mut restart.begun, time);
                    first(&mut restart.node_id, time);
                }
            }
            Event::Begins { node, version } => {
                if let Some(restart) = self.open(node) {
                    first(&mut restart.begun, time);
                    restart.version = version;
                }
            }
            Event::Runs { node, version } => {
                if let Some(restart) = self.begun(node).filter(|restart| restart.has_begun()) {
                    restart.version = version.or(restart.version);
                }
            }
            Event::FailureHandled { node } => {
                if let Some(restart) = self.begun(node) {
                    first(&mut restart.handled, time);
                }
            }
            Event::Status { node, step, .. } => {
                if let Some(restart) = self.begun(node) {
                    status(restart, step, time);
                }
            }
            Event::Using { node, start } => {
                if let Some(restart) = self.open(node) {
                    first(&mut restart.begun, time);
                    restart.start = Some(start);
                }
            }
            Event::Phase { node, phase, start } => {
                if let Some(restart) = self.open(node) {
                    first(&mut restart.begun, time);
                    restart.phases.entry(phase).or_insert(time);
                    restart.start = restart.start.or(start);
                    // Without `NR Status` lines, the end of phase 5 is the end of the checkpoint.
                    if phase == 5 && restart.wait_lcp.is_some() {
                        first(&mut restart.handover, time);
                    }
                }
            }
            Event::Started { node, version } => {
                self.versions.extend(version);
                if let Some(restart) = self.begun(node).filter(|restart| restart.has_begun()) {
                    first(&mut restart.started, time);
                    restart.version = version.or(restart.version);
                }
            }
            other => self.of_data(time, other),
        }
    }

    fn of_data(&mut self, time: Moment, event: Event) {
        let (Event::DataBegins { node }
        | Event::DataCompleted { node }
        | Event::FragmentCopied { node }
        | Event::RestoredLcp { node, .. }
        | Event::RestoredFragments { node, .. }
        | Event::Redo { node, .. }
        | Event::CopyComplete { node, .. }
        | Event::OwnLcp { node, .. }) = event
        else {
            return;
        };
        let Some(restart) = self.begun(node) else { return };
        match event {
            Event::DataBegins { .. } => first(&mut restart.data, time),
            Event::DataCompleted { .. } => {
                first(&mut restart.wait_lcp, time);
                restart.lcps_incomplete.get_or_insert(restart.lcps_starting.len());
            }
            Event::FragmentCopied { .. } => restart.fragments_copied += 1,
            Event::RestoredLcp { id, .. } => restart.restored_lcp = Some(id),
            Event::RestoredFragments { fragments, rows, .. } => {
                add(&mut restart.restored_fragments, fragments);
                add(&mut restart.restored_rows, rows);
            }
            Event::Redo { from_gci, to_gci, .. } => {
                let (from, to) = restart.redo_gci.unwrap_or((from_gci, to_gci));
                restart.redo_gci = Some((from.min(from_gci), to.max(to_gci)));
            }
            Event::CopyComplete { rows, rows_removed, bytes, .. } => {
                add(&mut restart.rows_fetched, rows);
                add(&mut restart.rows_removed, rows_removed);
                add(&mut restart.bytes_fetched, bytes);
            }
            Event::OwnLcp { id, .. } => restart.own_lcp = Some(id),
            _ => {}
        }
    }
}

/// A step that the master reports. For the wait for the checkpoint and the handover, its time replaces that of the lines that older
/// versions have instead; for the other steps, the first time stays.
fn status(restart: &mut Restart, step: Step, time: Moment) {
    let slot = match step {
        Step::Handled => &mut restart.handled,
        Step::Heartbeat => {
            first(&mut restart.begun, time);
            &mut restart.heartbeat
        }
        Step::Restore => &mut restart.data,
        Step::Redo => &mut restart.redo,
        Step::Index => &mut restart.index,
        Step::Synchronise => &mut restart.synchronise,
        Step::WaitLcp => {
            // The data is complete some time before, when the node has written a checkpoint for itself.
            restart.wait_lcp = None;
            restart.lcps_incomplete = Some(restart.lcps_starting.len());
            &mut restart.wait_lcp
        }
        Step::Handover => {
            restart.handover = None;
            &mut restart.handover
        }
        Step::Failed | Step::NodeId | Step::Completed => return,
    };
    first(slot, time);
}

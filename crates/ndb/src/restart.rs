//! From the entries of a cluster log to the restarts of its nodes and the checkpoints meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Found;
use crate::event::{Event, Node, Start, Step, Version};
use crate::time::Moment;
use crate::wrong::Note;

/// Everything that a cluster log tells of restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// In the order in which they began.
    pub restarts: Vec<Restart>,
    /// In the order in which they were started.
    pub checkpoints: Vec<Checkpoint>,
    /// The newest version that a node said it runs.
    pub version: Option<Version>,
    /// The first entry's time.
    pub first: Moment,
    /// The last entry's time.
    pub last: Moment,
    /// What is odd about the log.
    pub notes: Vec<Note>,
}

/// A local checkpoint of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// As the log numbers it.
    pub id: u64,
    /// The time of its `started` line.
    pub started: Moment,
    /// The time of its `completed` line; `None` where the log ends before, or the level of CHECKPOINT hides it.
    pub completed: Option<Moment>,
    /// What the nodes said to have written of it.
    pub bytes: u64,
}

impl Checkpoint {
    /// From start to end.
    pub fn duration_us(&self) -> Option<i64> {
        Some(self.completed?.since_us(self.started))
    }
}

/// One node's way from its failure to `Started`, as far as the log goes. Each time is that of the first line that says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restart {
    /// The data node.
    pub node: u32,
    /// An orderly stop was begun.
    pub stop_asked: Option<Moment>,
    /// The first missed heartbeat before the failure.
    pub silent_since: Option<Moment>,
    /// It was declared dead for missed heartbeats.
    pub declared_dead: Option<Moment>,
    /// Its process had ended.
    pub process_ended: Option<Moment>,
    /// Why, when it was forced to: `signal 9`, `error 2305: '...'`.
    pub why: Option<String>,
    /// The other nodes count it as failed.
    pub failed: Option<Moment>,
    /// The others are done with its failure.
    pub handled: Option<Moment>,
    /// It has its node id again: the process runs.
    pub node_id: Option<Moment>,
    /// It is in the heartbeat protocol.
    pub heartbeat: Option<Moment>,
    /// The last line about a copy of dictionary or distribution.
    pub metadata: Option<Moment>,
    /// The work on the data begins.
    pub data: Option<Moment>,
    /// Fragments restored or copied; redo log next.
    pub redo: Option<Moment>,
    /// Indexes next.
    pub index: Option<Moment>,
    /// Rows that changed meanwhile next.
    pub synchronise: Option<Moment>,
    /// The data is complete; it waits for a checkpoint in which it takes part.
    pub wait_lcp: Option<Moment>,
    /// That checkpoint is complete; event subscriptions next.
    pub handover: Option<Moment>,
    /// It serves.
    pub started: Option<Moment>,
    /// It failed again before; then.
    pub failed_again: Option<Moment>,
    /// How it starts, by the master's word or its own start phases.
    pub start: Option<Start>,
    /// When each start phase was completed.
    pub phases: BTreeMap<u32, Moment>,
    /// The checkpoint that it restored; 0 when none.
    pub restored_lcp: Option<u64>,
    /// Fragments restored from that, of all its threads.
    pub restored_fragments: Option<u64>,
    /// Rows of these.
    pub restored_rows: Option<u64>,
    /// From and to which global checkpoint its redo log was run, of all its parts.
    pub redo_gci: Option<(u64, u64)>,
    /// Fragments that were copied or compared, counted by their lines.
    pub fragments_copied: u64,
    /// Rows fetched from another node, of all its threads.
    pub rows_fetched: Option<u64>,
    /// Row places that were emptied.
    pub rows_removed: Option<u64>,
    /// Bytes fetched.
    pub bytes_fetched: Option<u64>,
    /// The checkpoint in which it first takes part again.
    pub own_lcp: Option<u64>,
    /// Checkpoints started between its failure and its node id.
    pub lcps_absent: Vec<u64>,
    /// Checkpoints started from then until `Started`, its own among them.
    pub lcps_starting: Vec<u64>,
    /// Checkpoints started since its failure in which it had no part: those before its own, or before its data was complete.
    pub lcps_missed: usize,
    /// What it runs.
    pub version: Option<Version>,
    reporters: BTreeSet<(Node, bool)>,
}

/// A part of a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What happens in it.
    pub name: &'static str,
    /// How long it took, in microseconds.
    pub us: i64,
}

impl Restart {
    /// From the failure to `Started`.
    pub fn total_us(&self) -> Option<i64> {
        Some(self.started?.since_us(self.failed?))
    }

    /// From the node id to `Started`: the time of the start alone.
    pub fn start_us(&self) -> Option<i64> {
        Some(self.started?.since_us(self.node_id?))
    }

    /// The wait for the checkpoint that the node writes at the end.
    pub fn checkpoint_us(&self) -> Option<i64> {
        Some(self.handover?.since_us(self.wait_lcp?))
    }

    /// The start without that wait.
    pub fn net_us(&self) -> Option<i64> {
        Some(self.start_us()? - self.checkpoint_us()?)
    }

    /// Whether any sign of a start was seen.
    pub fn has_begun(&self) -> bool {
        self.node_id.is_some() || self.heartbeat.is_some() || !self.phases.is_empty() || self.start.is_some()
    }

    /// Its parts in order, as far as they ended. What the log does not separate is one part.
    pub fn parts(&self) -> Vec<Part> {
        let marks = [
            ("failure", self.failed),
            ("absent", self.handled),
            ("boot", self.node_id),
            // In older logs the end of phase 1 says that it is in the cluster.
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

    /// The last time that is known of it.
    pub fn last(&self) -> Option<Moment> {
        [self.failed_again, self.started, self.handover, self.heartbeat, self.node_id, self.failed]
            .into_iter()
            .flatten()
            .max()
    }
}

/// Sets a time that is not known yet.
fn first(slot: &mut Option<Moment>, time: Moment) {
    slot.get_or_insert(time);
}

/// Adds one thread's figure.
fn add(slot: &mut Option<u64>, more: u64) {
    *slot = Some(slot.unwrap_or(0).saturating_add(more));
}

/// While the entries are gone through.
#[derive(Default)]
struct Folding {
    restarts: Vec<Restart>,
    /// Where a node's newest one is.
    newest: BTreeMap<Node, usize>,
    /// What was said of a node before it failed.
    before: BTreeMap<Node, Restart>,
    checkpoints: Vec<Checkpoint>,
    api: BTreeSet<Node>,
    version: Option<Version>,
}

impl Story {
    pub(crate) fn of(found: Found<Event>) -> Self {
        let mut folding = Folding::default();
        for (time, event) in found.kept {
            folding.take(time, event);
        }
        let Folding { mut restarts, checkpoints, api, version, .. } = folding;
        restarts.retain(|restart| !api.contains(&restart.node) || restart.has_begun());
        for restart in &mut restarts {
            count_checkpoints(restart, &checkpoints, found.last);
            restart.version = restart.version.or(version);
        }
        restarts.sort_by_key(|restart| restart.failed.or(restart.node_id).or(restart.last()));
        Self { restarts, checkpoints, version, first: found.first, last: found.last, notes: found.notes }
    }
}

fn count_checkpoints(restart: &mut Restart, checkpoints: &[Checkpoint], end: Moment) {
    let Some(from) = restart.failed.or(restart.node_id) else { return };
    let until = restart.started.or(restart.failed_again).unwrap_or(end);
    for checkpoint in checkpoints.iter().filter(|c| c.started >= from && c.started <= until) {
        let is_starting =
            restart.node_id.or(restart.heartbeat).is_some_and(|begun| checkpoint.started >= begun);
        let ids = if is_starting { &mut restart.lcps_starting } else { &mut restart.lcps_absent };
        ids.push(checkpoint.id);
        let has_part = match (restart.own_lcp, restart.wait_lcp) {
            (Some(own), _) => checkpoint.id >= own,
            (None, Some(complete)) => checkpoint.started >= complete,
            (None, None) => false,
        };
        restart.lcps_missed += usize::from(!has_part);
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

    /// Where it is kept what is said of a node before it fails.
    fn ahead(&mut self, node: Node) -> &mut Restart {
        self.before.entry(node).or_default()
    }

    /// A process may end a little after its node has failed.
    fn ended_place(&mut self, node: Node) -> &mut Restart {
        let open = self.newest.get(&node).copied();
        match open.and_then(|at| self.restarts.get_mut(at)) {
            Some(restart) if !restart.has_begun() && restart.started.is_none() => restart,
            _ => self.before.entry(node).or_default(),
        }
    }

    /// Each node that survives says that another has failed, in lines of two forms: one failure until the node has begun to start, or one
    /// of them says it again.
    fn failed(&mut self, time: Moment, node: Node, reporter: (Node, bool)) {
        let open = self.newest.get(&node).and_then(|at| self.restarts.get_mut(*at));
        if let Some(open) = open.filter(|open| open.started.is_none()) {
            let is_same =
                open.heartbeat.is_none() && open.phases.is_empty() && !open.reporters.contains(&reporter);
            if is_same && open.failed.is_some() {
                open.reporters.insert(reporter);
                // The master's word goes before the plain line.
                if reporter.1 && open.handled.is_none() {
                    open.failed = Some(time);
                }
                return;
            }
            first(&mut open.failed_again, time);
        }
        let ahead = self.before.remove(&node).unwrap_or_default();
        let restart = Restart { node, failed: Some(time), reporters: BTreeSet::from([reporter]), ..ahead };
        self.newest.insert(node, self.restarts.len());
        self.restarts.push(restart);
    }

    /// The restart that a line is about; a first one when the log began after its failure.
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

    /// A line that can also come late, or without a start: it opens none.
    fn begun(&mut self, node: Node) -> Option<&mut Restart> {
        let at = *self.newest.get(&node)?;
        self.restarts.get_mut(at).filter(|restart| restart.started.is_none())
    }

    fn of_restart(&mut self, time: Moment, event: Event) {
        match event {
            Event::NodeId { node } | Event::Status { node, step: Step::NodeId, .. } => {
                if let Some(restart) = self.open(node) {
                    first(&mut restart.node_id, time);
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
                    restart.start = Some(start);
                }
            }
            Event::Phase { node, phase, start } => {
                if let Some(restart) = self.open(node) {
                    restart.phases.entry(phase).or_insert(time);
                    restart.start = restart.start.or(start);
                    // Without `NR Status` lines: the checkpoint's end is that of phase 5.
                    if phase == 5 && restart.wait_lcp.is_some() {
                        first(&mut restart.handover, time);
                    }
                }
            }
            Event::Started { node, version } => {
                self.version = self.version.max(version);
                if let Some(restart) = self.begun(node).filter(|restart| restart.has_begun()) {
                    first(&mut restart.started, time);
                    restart.version = version;
                }
            }
            other => self.of_data(time, other),
        }
    }

    fn of_data(&mut self, time: Moment, event: Event) {
        let (Event::MetadataCopied { node }
        | Event::DataBegins { node }
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
            Event::MetadataCopied { .. } => restart.metadata = Some(time),
            Event::DataBegins { .. } => first(&mut restart.data, time),
            Event::DataCompleted { .. } => first(&mut restart.wait_lcp, time),
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

/// A step of the master's. Its time goes before that of the lines that older versions have instead.
fn status(restart: &mut Restart, step: Step, time: Moment) {
    let slot = match step {
        Step::Handled => &mut restart.handled,
        Step::Heartbeat => &mut restart.heartbeat,
        Step::Restore => &mut restart.data,
        Step::Redo => &mut restart.redo,
        Step::Index => &mut restart.index,
        Step::Synchronise => &mut restart.synchronise,
        Step::WaitLcp => {
            // The data is complete some time before, when the node has written a checkpoint for itself.
            restart.wait_lcp = None;
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

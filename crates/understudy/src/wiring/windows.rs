//! For how long each node may be away, kept up to date while the program runs; and a word in the journal before it is too late for one that is away.
//!
//! ```text
//!   samples, view ── every 2 s ──┐
//!                                ├─> windows::Cluster ─> rows (status, metrics, live view)
//!   keeps, asked now and then ───┘                   └─> warnings ─> journal
//! ```
//!
//! What nodes keep is asked every five minutes, and while a node is away every ten seconds, since then it may soon be too late.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::{LinkError, Login};
use manager::{Journal, Samples};
use measure::recovery::WriteRate;
use measure::recovery::absence::{Absence, Warning};
use measure::recovery::busiest::{Busiest, MINUTE};
use measure::recovery::galera::Donor;
use measure::sample::{Counters, Galera, Sample};
use protocol::gtid::Position;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use topology::NodeId;
use topology::action::Sentence;
use topology::kind::Kind;
use topology::status::Status;
use topology::view::{ClusterView, Level, NodeState, NodeView};

use crate::windows::keeps::{self, Keeps};
use crate::windows::{COPY_BYTES_PER_S, Cluster, Kept, Known, Outlook, Summary, copy, sentence, warning};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between two questions for what a node keeps; and while one is away, after a question without an answer, or while there is no rate yet.
const ASK_EVERY: Duration = Duration::from_secs(300);
const ASK_SOON: Duration = Duration::from_secs(10);
/// The present rate of writes is that of so long; of less while not so much is known.
const PRESENT: [Duration; 3] = [Duration::from_secs(300), Duration::from_secs(60), Duration::from_secs(5)];
/// What a node said longer ago than this does not count as said now.
const FRESH_MS: u64 = 5_000;
/// `wsrep_local_state` of a member that feeds another, and of one that has everything.
const DONOR: u8 = 2;
const SYNCED: u8 = 4;

/// What concerns all nodes, and each one's row, in the configuration's order; none before the first look.
type Last = Option<(Summary, Vec<Outlook>)>;

/// What the last look came to; shared with whoever shows it.
#[derive(Clone, Default)]
pub struct Windows(Arc<Mutex<Last>>);

impl Windows {
    fn board(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each node's row, in the configuration's order; none before the first look.
    pub fn rows(&self) -> Vec<Outlook> {
        self.board().as_ref().map_or_else(Vec::new, |(_, rows)| rows.clone())
    }

    /// Adds them to the status.
    pub fn add(&self, status: &mut serde_json::Value) {
        let board = self.board();
        let Some((summary, rows)) = board.as_ref() else { return };
        let copy = copy(summary.full_copy_bytes, COPY_BYTES_PER_S);
        let nodes = status["nodes"].as_array_mut().into_iter().flatten();
        for (node, row) in nodes.zip(rows) {
            node["recovery"] = json!(row);
            node["recovery"]["sentence"] = json!(sentence(row, &copy));
        }
        status["recovery"] = json!(summary);
    }
}

/// Where all of it comes from.
pub struct Source {
    pub kind: Kind,
    pub login: Login,
    /// In the configuration's order.
    pub addresses: Vec<String>,
    pub view: watch::Receiver<Arc<ClusterView>>,
    pub samples: Samples,
    pub journal: Journal,
}

/// One node, as it was seen until now.
#[derive(Default)]
struct Node {
    absence: Absence<At>,
    keeps: Option<Keeps>,
    /// When it was asked last for what it keeps.
    asked: Option<Instant>,
    /// It did not answer that.
    is_asked_soon: bool,
    /// The oldest writeset that it kept when it was first seen in this life, and its uptime at the last look.
    first_downto: Option<u64>,
    uptime_s: u64,
    /// Bytes of binary logs that it has written since the first look at them; the same a second, between the last two looks.
    written: u64,
    written_per_s: Option<f64>,
    /// When it said what it keeps.
    told: Option<Instant>,
}

/// Up to where a node had everything, when it was there last.
#[derive(Clone)]
struct At {
    seqno: Option<u64>,
    gtids: Option<Position>,
    /// What each node had written of binary logs then, in the configuration's order.
    written: Vec<u64>,
}

/// Looks until it is dropped, or the manager ends.
pub async fn watch(source: Source, windows: Windows) {
    let mut nodes: Vec<Node> = source.addresses.iter().map(|_| Node::default()).collect();
    let mut busiest = Busiest::default();
    let mut asking: JoinSet<(usize, Result<Keeps, LinkError>)> = JoinSet::new();
    let mut tick = interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            Some(answer) = asking.join_next() => {
                if let Ok((place, answer)) = answer {
                    let node: &mut Node = &mut nodes[place];
                    node.is_asked_soon = answer.is_err();
                    if let Ok(keeps) = answer {
                        node.take(keeps, Instant::now());
                    }
                }
                continue;
            }
        }
        if source.view.has_changed().is_err() {
            return;
        }
        let view = source.view.borrow().clone();
        for place in source.see(&view, &mut nodes) {
            let (kind, address, login) = (source.kind, source.addresses[place].clone(), source.login.clone());
            let with_data = source.is_asked_for_data(&view, place);
            asking.spawn(async move { (place, keeps::ask(kind, &address, &login, with_data).await) });
        }
        let now = Duration::from_millis(view.now_ms);
        if let Some(rate) = source.rate(&view, &nodes, MINUTE) {
            busiest.see(now, rate);
        }
        let cluster = source.cluster(&view, &nodes, busiest.rate());
        let rows = cluster.outlooks();
        let summary = cluster.summary();
        let copy = copy(summary.full_copy_bytes, COPY_BYTES_PER_S);
        for ((node, row), seen) in nodes.iter_mut().zip(&rows).zip(&view.nodes) {
            // One that is coming back already needs no word.
            let forecast = row.forecast().filter(|_| seen.state != NodeState::Joining);
            let due = forecast.and_then(|forecast| node.absence.warning(now, forecast));
            if let Some(due) = due {
                let level = if due == Warning::Over { Level::Error } else { Level::Warn };
                source.journal.note(view.term, Sentence { level, text: warning(row, due, &copy) });
            }
        }
        *windows.board() = Some((summary, rows));
    }
}

impl Node {
    /// What it keeps, as it has just said.
    fn take(&mut self, mut keeps: Keeps, now: Instant) {
        let before = self.keeps.take();
        // What was not asked this time is what it was.
        keeps.data_bytes = keeps.data_bytes.or_else(|| before.as_ref()?.data_bytes);
        let (earlier, later) = (before.and_then(|before| before.binlogs), keeps.binlogs.as_ref());
        if let Some((earlier, later)) = earlier.as_ref().zip(later) {
            let grown = later.grown_since(earlier);
            self.written += grown;
            let between = self.told.map(|told| now.duration_since(told).as_secs_f64());
            self.written_per_s = between.filter(|s| *s > 0.0).map(|s| grown as f64 / s);
        }
        self.told = Some(now);
        self.keeps = Some(keeps);
    }
}

impl Source {
    /// Takes what the nodes said last; gives the places of those that are to be asked for what they keep.
    fn see(&self, view: &ClusterView, nodes: &mut [Node]) -> Vec<usize> {
        let written: Vec<u64> = nodes.iter().map(|node| node.written).collect();
        let mut is_any_away = false;
        for ((place, seen), node) in view.nodes.iter().enumerate().zip(nodes.iter_mut()) {
            if let Some(sample) = self.sample(place) {
                node.see(&sample);
            }
            if self.is_there(view, place) {
                let seqno = self.sample(place).and_then(|sample| sample.counters.galera?.last_committed);
                let at = At { seqno, gtids: gtids(seen).cloned(), written: written.clone() };
                node.absence.is_there(Duration::from_millis(view.now_ms), at);
            } else {
                node.absence.is_away();
                is_any_away = true;
            }
        }
        let now = Instant::now();
        let mut due = Vec::new();
        for (place, node) in nodes.iter_mut().enumerate() {
            let has_no_rate = self.kind == Kind::Replication && node.written_per_s.is_none();
            let is_soon = is_any_away || node.is_asked_soon || has_no_rate;
            let every = if is_soon { ASK_SOON } else { ASK_EVERY };
            let is_due = node.asked.is_none_or(|asked| now.duration_since(asked) >= every);
            if is_due && view.nodes.get(place).is_some_and(is_fresh) {
                node.asked = Some(now);
                due.push(place);
            }
        }
        due
    }

    /// The active node is only asked when nobody else can tell.
    fn is_asked_for_data(&self, view: &ClusterView, place: usize) -> bool {
        let is_other = |(other, node): (usize, &NodeView)| other != place && !node.writer && is_fresh(node);
        !view.nodes[place].writer || !view.nodes.iter().enumerate().any(is_other)
    }

    /// What it said last, now or long ago.
    fn sample(&self, place: usize) -> Option<Sample> {
        self.samples.last(NodeId(u8::try_from(place).ok()?))
    }

    /// It takes part: it would miss nothing now.
    fn is_there(&self, view: &ClusterView, place: usize) -> bool {
        let node = &view.nodes[place];
        if !is_fresh(node) {
            return false;
        }
        match self.kind {
            Kind::Galera => {
                let galera = self.sample(place).and_then(|sample| sample.counters.galera);
                galera.is_some_and(|galera| {
                    galera.primary == Some(true) && galera.local_state.is_some_and(|state| state >= DONOR)
                })
            }
            Kind::Replication => {
                let facts = node.facts.as_ref().and_then(Status::replication);
                node.writer
                    || facts.is_some_and(|facts| facts.channels.iter().any(|channel| channel.io_running))
            }
        }
    }

    /// What a node that is away misses in a second, by the last so many seconds. A node that does not answer says nothing of the present.
    fn rate(&self, view: &ClusterView, nodes: &[Node], over: Duration) -> Option<WriteRate> {
        let fresh = nodes.iter().enumerate().filter(|(place, _)| is_fresh(&view.nodes[*place]));
        WriteRate::highest(fresh.filter_map(|(place, node)| {
            let rates = self.samples.rates(NodeId(u8::try_from(place).ok()?), over)?;
            let bytes_per_s = match self.kind {
                Kind::Galera => rates.replicated_bytes? + rates.received_bytes?,
                Kind::Replication => node.written_per_s.unwrap_or(0.0),
            };
            Some(WriteRate { bytes_per_s, transactions_per_s: rates.applied? })
        }))
    }

    fn cluster(&self, view: &ClusterView, nodes: &[Node], busiest: Option<WriteRate>) -> Cluster {
        let now = Duration::from_millis(view.now_ms);
        let present = PRESENT.into_iter().find_map(|over| Some((over, self.rate(view, nodes, over)?)));
        let (over, writes) =
            present.unwrap_or((Duration::ZERO, WriteRate { bytes_per_s: 0.0, transactions_per_s: 0.0 }));
        let known = nodes.iter().enumerate().map(|(place, node)| {
            let seen = &view.nodes[place];
            let away = node.absence.away(now);
            Known {
                name: seen.name.clone(),
                state: seen.state.word().to_owned(),
                is_there: self.is_there(view, place),
                lasted: away.as_ref().map(|away| away.lasted),
                why: format!(
                    "has not taken part since this program started: what it has is not known; \
                     `understudy recovery forecast --position {}=...` reckons with what its own files say",
                    seen.name
                ),
                kept: self.kept(view, nodes, place, away.map(|away| away.position)),
            }
        });
        Cluster {
            kind: self.kind,
            nodes: known.collect(),
            writes,
            measured: over,
            busiest,
            data_bytes: nodes.iter().filter_map(|node| node.keeps.as_ref()?.data_bytes).max(),
        }
    }

    /// What it has, and keeps for others. `at`: where it was when it went away.
    fn kept(&self, view: &ClusterView, nodes: &[Node], place: usize, at: Option<&At>) -> Kept {
        let (node, seen, is_there) = (&nodes[place], &view.nodes[place], self.is_there(view, place));
        let keeps = node.keeps.as_ref().filter(|_| is_fresh(seen));
        match self.kind {
            Kind::Galera => {
                let said = self.sample(place).and_then(|sample| sample.counters.galera).filter(|_| is_there);
                let seqno = match &said {
                    Some(said) => said.last_committed,
                    None => at.and_then(|at| at.seqno),
                };
                Kept::Galera {
                    position: seqno.and_then(|seqno| i64::try_from(seqno).ok()),
                    donor: said.and_then(|said| donor(node, &said, keeps?)),
                    may_donate: said.is_some_and(|said| said.local_state == Some(SYNCED)),
                }
            }
            Kind::Replication => {
                let written = nodes.iter().enumerate().map(|(source, node)| {
                    node.written.saturating_sub(
                        at.and_then(|at| at.written.get(source).copied()).unwrap_or(node.written),
                    )
                });
                Kept::Replication {
                    // One that answers and is not connected says itself up to where it has everything.
                    position: match is_fresh(seen) {
                        true => gtids(seen).cloned(),
                        false => at.and_then(|at| at.gtids.clone()),
                    },
                    binlogs: keeps.and_then(|keeps| keeps.binlogs.clone()).filter(|_| keeps_of_others(seen)),
                    is_primary: seen.writer,
                    missed_bytes: written.max().unwrap_or(0),
                }
            }
        }
    }
}

impl Node {
    fn see(&mut self, sample: &Sample) {
        let Counters { uptime_s, galera, .. } = sample.counters;
        let uptime_s = uptime_s.unwrap_or(0);
        if uptime_s < self.uptime_s {
            // Another life of the server: it has another gcache, and maybe other settings.
            (self.first_downto, self.asked) = (None, None);
        }
        self.uptime_s = uptime_s;
        let downto = galera.and_then(|galera| galera.cached_downto).filter(|downto| *downto > 0);
        self.first_downto = self.first_downto.or(downto);
    }
}

/// What a member could send, once its gcache's size is known.
fn donor(node: &Node, said: &Galera, keeps: &Keeps) -> Option<Donor> {
    let cached_downto = said.cached_downto.unwrap_or(u64::MAX);
    Some(Donor {
        last_committed: said.last_committed?,
        cached_downto,
        gcache_bytes: keeps.gcache_bytes?,
        is_dropping: node
            .first_downto
            .is_some_and(|first| first < cached_downto && cached_downto != u64::MAX),
    })
}

/// It answers.
fn is_fresh(node: &NodeView) -> bool {
    !matches!(node.state, NodeState::Unknown | NodeState::Silent | NodeState::Dead)
        && node.answered_ms_ago.is_some_and(|ago| ago <= FRESH_MS)
}

/// Its binary logs have what others need: it is the primary, or writes what it applies to its own.
fn keeps_of_others(node: &NodeView) -> bool {
    let facts = node.facts.as_ref().and_then(Status::replication);
    node.writer || facts.is_some_and(|facts| facts.log_replica_updates)
}

/// Up to where it has everything, by its last answer.
fn gtids(node: &NodeView) -> Option<&Position> {
    node.facts.as_ref()?.replication()?.position.as_ref()
}

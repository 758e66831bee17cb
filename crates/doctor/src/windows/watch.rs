//! For how long each node may be away, kept up to date while the program runs; and a word in the journal before it is too late for one that is away.
//!
//! ```text
//!   samples, view ── every 2 s ──┐
//!                                ├─> windows::Cluster ─> rows (status, metrics, live view)
//!   keeps, asked now and then ───┘                   └─> warnings ─> journal
//! ```
//!
//! What a Galera node keeps is in its samples, but for the size of its gcache: that is asked every ten minutes. Binary logs are asked for every five
//! minutes, and every minute while a server is away; the sizes of tablespaces every ten minutes in any case.

mod known;
mod seen;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::{LinkError, Login};
use manager::{Journal, Samples};
use measure::recovery::WriteRate;
use measure::recovery::absence::Warning;
use measure::recovery::busiest::{Busiest, MINUTE};
use measure::sample::Sample;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};
use topology::action::Sentence;
use topology::kind::Kind;
use topology::status::Status;
use topology::view::{ClusterView, Level, NodeState, NodeView};

use self::seen::{At, Counted, Node, gtids, history, is_fresh, writeset_bytes};
use super::keeps::{self, Keeps};
use super::remembered::{self, Remembered};
use super::{Outlook, Summary, copy, size, warning};
use report::table::span;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between two questions for what a node keeps: of Galera; of replication; there while a server is away; after a question without an answer, when a
/// node has gone or come back, or while there is no rate yet.
const ASK_MEMBER: Duration = Duration::from_secs(600);
const ASK_SERVER: Duration = Duration::from_secs(300);
const ASK_AWAY: Duration = Duration::from_secs(60);
const ASK_SOON: Duration = Duration::from_secs(10);
/// Between two writings of where nodes were seen last.
const REMEMBER_EVERY: Duration = Duration::from_secs(60);
/// The present rate of writes is that of so long; of less while not so much is known.
const PRESENT: [Duration; 3] = [Duration::from_secs(300), Duration::from_secs(60), Duration::from_secs(5)];
/// `wsrep_local_state` of a member that feeds another, and of one that has everything.
const DONOR: u8 = 2;
const SYNCED: u8 = 4;

/// What concerns all nodes, and each one's row, in the configuration's order; none before the first look.
type Last = Option<(Summary, Vec<Outlook>)>;

/// What the last look came to; shared with whoever shows it.
#[derive(Clone, Default)]
pub struct Windows(Arc<Mutex<Last>>);

impl Windows {
    fn latest(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds them to the status.
    pub fn add(&self, status: &mut api::Status) {
        let Some((summary, rows)) = self.latest().clone() else { return };
        for node in &mut status.nodes {
            node.recovery = rows.iter().find(|row| row.node == node.view.name).cloned();
        }
        status.recovery = Some(summary);
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
    /// Where it is kept where each node was seen last.
    pub state_dir: PathBuf,
}

/// Looks until it is dropped, or the manager ends.
pub async fn run(source: Source, windows: Windows) {
    let mut nodes: Vec<Node> = source.addresses.iter().map(|_| Node::default()).collect();
    let mut remembered = remembered::load(&source.state_dir);
    let mut remembered_at: Option<Instant> = None;
    let mut saving: Option<JoinHandle<()>> = None;
    let mut is_unsaved = false;
    let mut copied_bytes_per_s = None;
    let mut busiest = Busiest::default();
    let mut asking: JoinSet<(usize, bool, Result<Keeps, LinkError>)> = JoinSet::new();
    let mut tick = interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            Some(answer) = asking.join_next() => {
                match answer {
                    Ok((place, with_data, Ok(keeps))) => nodes[place].take(keeps, with_data, Instant::now()),
                    Ok((place, _, Err(_))) => nodes[place].failed(),
                    Err(_) => {}
                }
                continue;
            }
        }
        if source.view.has_changed().is_err() {
            return;
        }
        let view = source.view.borrow().clone();
        if !view.nodes.iter().map(|node| &node.address).eq(&source.addresses) {
            // The list of nodes was changed, and another watch follows.
            continue;
        }
        let now = Duration::from_millis(view.now_ms);
        let has_changed = source.see(&view, &mut nodes, &remembered);
        for (place, with_data) in source.due(&view, &mut nodes) {
            let (kind, address, login) = (source.kind, source.addresses[place].clone(), source.login.clone());
            asking.spawn(
                async move { (place, with_data, keeps::ask(kind, &address, &login, with_data).await) },
            );
        }
        is_unsaved |= has_changed || remembered_at.is_none_or(|at| at.elapsed() >= REMEMBER_EVERY);
        // A disk that hangs must not stop the forecast: one attempt at a time, and nobody waits for it.
        if is_unsaved && saving.as_ref().is_none_or(JoinHandle::is_finished) {
            source.remember(&view, &nodes, &mut remembered);
            saving = Some(source.save(remembered.clone()));
            (remembered_at, is_unsaved) = (Some(Instant::now()), false);
        }
        if let Some(rate) = source.rate(&view, &nodes, MINUTE) {
            busiest.see(now, rate);
        }
        let mut cluster = source.cluster(&view, &nodes, busiest.rate());
        cluster.copied_bytes_per_s = copied_bytes_per_s;
        let rows = cluster.outlooks();
        if let Some((sentence, bytes_per_s)) = source.copied(&view, &mut nodes, &rows, cluster.data_bytes) {
            copied_bytes_per_s = Some(bytes_per_s);
            source.journal.note(view.term, Sentence::new(Level::Info, sentence));
        }
        let summary = cluster.summary();
        let copy = copy(&summary, None);
        for ((node, row), seen) in nodes.iter_mut().zip(&rows).zip(&view.nodes) {
            // One that is coming back already needs no word, and of one that was not yet asked nothing is known.
            let is_away = !matches!(seen.state, NodeState::Joining | NodeState::Unknown);
            let forecast = row.forecast().filter(|_| is_away);
            let due = forecast.and_then(|forecast| node.absence.warning(now, forecast));
            if let Some(due) = due {
                let level = if due == Warning::Over { Level::Error } else { Level::Warn };
                source.journal.note(view.term, Sentence::new(level, warning(row, due, &copy)));
            }
        }
        *windows.latest() = Some((summary, rows));
    }
}

impl Source {
    /// Takes what the nodes said last; whether one has gone or come back.
    fn see(&self, view: &ClusterView, nodes: &mut [Node], remembered: &Remembered) -> bool {
        let now = Duration::from_millis(view.now_ms);
        for (place, node) in nodes.iter_mut().enumerate() {
            if let Some(sample) = self.sample(view, place) {
                node.see(&sample);
            }
        }
        let written: Vec<u64> = nodes.iter().map(|node| node.written).collect();
        let writesets = self.writesets(view, nodes);
        let mut has_changed = false;
        for ((place, seen), node) in view.nodes.iter().enumerate().zip(nodes.iter_mut()) {
            let sample = self.sample(view, place);
            let was_away = node.absence.away(now).is_some();
            if self.is_there(view, place) {
                let at = At {
                    seqno: sample.and_then(|sample| sample.counters.galera?.last_committed),
                    history: history(seen),
                    gtids: gtids(seen).cloned(),
                    written: written.clone(),
                    writesets: writesets.clone(),
                };
                node.absence.is_there(now, at);
            } else {
                if let Some(last) = remembered.get(&seen.name) {
                    // A clock that was set back makes it no longer than it is.
                    let before = Duration::from_millis(unix_ms(view).saturating_sub(last.at_unix_ms));
                    node.absence.was_there(now, before, At::from(last));
                }
                node.absence.is_away();
            }
            has_changed |= was_away != node.absence.away(now).is_some();
        }
        if has_changed {
            for node in nodes.iter_mut() {
                node.is_asked_soon = true;
            }
        }
        has_changed
    }

    /// The places of those that are to be asked now for what they keep, and whether for the sizes of their tablespaces, too.
    fn due(&self, view: &ClusterView, nodes: &mut [Node]) -> Vec<(usize, bool)> {
        let now = Instant::now();
        let is_any_away = (0..nodes.len()).any(|place| !self.is_there(view, place));
        let mut due = Vec::new();
        for (place, node) in nodes.iter_mut().enumerate() {
            let has_no_rate = self.kind == Kind::Replication && node.written_per_s.is_none();
            let every = match self.kind {
                _ if node.is_asked_soon || has_no_rate => ASK_SOON,
                Kind::Galera => ASK_MEMBER,
                Kind::Replication if is_any_away => ASK_AWAY,
                Kind::Replication => ASK_SERVER,
            };
            if view.nodes.get(place).is_some_and(is_fresh) && node.is_due(now, every) {
                due.push((place, node.ask(now, self.is_asked_for_data(view, place))));
            }
        }
        due
    }

    /// Notes where each node was when it took part last.
    fn remember(&self, view: &ClusterView, nodes: &[Node], remembered: &mut Remembered) {
        let (now, now_unix_ms) = (Duration::from_millis(view.now_ms), unix_ms(view));
        for (place, (node, seen)) in nodes.iter().zip(&view.nodes).enumerate() {
            if self.is_there(view, place) {
                if let Some(at) = node.absence.last() {
                    remembered.insert(seen.name.clone(), at.seen(now_unix_ms));
                }
            } else if let Some(away) = node.absence.away(now)
                && !away.is_remembered
            {
                let gone_unix_ms = now_unix_ms.saturating_sub(away.lasted.as_millis() as u64);
                remembered.insert(seen.name.clone(), away.position.seen(gone_unix_ms));
            }
        }
        remembered.retain(|name, _| view.nodes.iter().any(|node| node.name == *name));
    }

    /// Puts that on disk.
    fn save(&self, remembered: Remembered) -> JoinHandle<()> {
        let dir = self.state_dir.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = remembered::save(&dir, &remembered) {
                tracing::warn!(
                    "where nodes were seen last cannot be written to {}: {error}; a node that is away when this program starts again will be unknown",
                    dir.display()
                );
            }
        })
    }

    /// A full copy that has just ended: a sentence for the journal, and its speed in bytes a second.
    fn copied(
        &self,
        view: &ClusterView,
        nodes: &mut [Node],
        rows: &[Outlook],
        data_bytes: Option<u64>,
    ) -> Option<(String, f64)> {
        if self.kind != Kind::Galera {
            return None;
        }
        let now = Duration::from_millis(view.now_ms);
        let away = rows.iter().filter(|row| !row.is_there).count();
        // One that was told to be desynced feeds nobody.
        let feeds = |place: usize| {
            let state = self.sample(view, place).and_then(|sample| sample.counters.galera?.local_state);
            let facts = view.nodes[place].facts.as_ref().and_then(Status::galera);
            self.is_there(view, place) && state == Some(DONOR) && facts.is_some_and(|facts| !facts.desync)
        };
        let is_fed = away == 1 && (0..nodes.len()).any(feeds);
        let mut ended = None;
        for (node, row) in nodes.iter_mut().zip(rows) {
            if !row.is_there {
                node.copied.is_away(now, row.forecast(), is_fed);
            } else if let (Some(took), Some(bytes)) = (node.copied.is_back(), data_bytes) {
                let bytes_per_s = bytes as f64 / took.as_secs_f64();
                let text = format!(
                    "{} is back by a full copy of {}, which took about {}: {} a second",
                    row.node,
                    size(bytes as f64),
                    span(took.as_millis() as u64),
                    size(bytes_per_s)
                );
                ended = Some((text, bytes_per_s));
            }
        }
        ended
    }

    /// What each node has sent and received since its start; nothing of one that does not take part.
    fn writesets(&self, view: &ClusterView, nodes: &[Node]) -> Vec<Option<Counted>> {
        let of = |place: usize| {
            let galera = self.sample(view, place).filter(|_| self.is_there(view, place))?.counters.galera?;
            Some(Counted { start: nodes.get(place)?.starts, bytes: writeset_bytes(&galera)? })
        };
        (0..view.nodes.len()).map(of).collect()
    }

    /// The active node is only asked when nobody else can tell.
    fn is_asked_for_data(&self, view: &ClusterView, place: usize) -> bool {
        let is_other = |(other, node): (usize, &NodeView)| other != place && !node.writer && is_fresh(node);
        !view.nodes[place].writer || !view.nodes.iter().enumerate().any(is_other)
    }

    /// What it said last, now or long ago.
    fn sample(&self, view: &ClusterView, place: usize) -> Option<Sample> {
        self.samples.last(view.nodes.get(place)?.id)
    }

    /// It takes part: it would miss nothing now.
    fn is_there(&self, view: &ClusterView, place: usize) -> bool {
        let node = &view.nodes[place];
        if !is_fresh(node) {
            return false;
        }
        match self.kind {
            Kind::Galera => {
                let galera = self.sample(view, place).and_then(|sample| sample.counters.galera);
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
            let rates = self.samples.rates(view.nodes[place].id, over)?;
            let bytes_per_s = match self.kind {
                Kind::Galera => rates.replicated_bytes? + rates.received_bytes?,
                Kind::Replication => node.written_per_s.unwrap_or(0.0),
            };
            Some(WriteRate { bytes_per_s, transactions_per_s: rates.applied? })
        }))
    }
}

/// Milliseconds since 1970, at the moment of the view.
fn unix_ms(view: &ClusterView) -> u64 {
    view.started_unix_ms.saturating_add(view.now_ms)
}

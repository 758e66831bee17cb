//! Keeps the tasks running that probe the nodes, write heartbeats and change timers. A task that ends is started again; while a probe does not
//! run, its node counts as not answering, so that a panic never leaves a node "well" for ever.
//!
//! ```text
//!   Running ──ended──> Down: one miss is reported per interval ──> Running
//!                       at once after a run of 10 s or more, else after 1, 2, 4, ... 30 s
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use topology::NodeId;
use topology::fact::{Fact, LinkEnd};
use topology::galera;
use topology::galera::HurryEnd;
use topology::heartbeat::{self, Beat};
use topology::kind::Kind;
use topology::replication::Manager;
use topology::settings::NodeSettings;

use crate::events::Events;
use crate::heartbeat::Heartbeat;
use crate::hurry;
use crate::loans::Loans;
use crate::means::Means;
use crate::note::Note;
use crate::pacer::Pacer;
use crate::probe::{Probe, Wish};
use crate::rival::Rival;
use crate::samples::Samples;
use crate::tasks::Tasks;

/// The capacity of a probe's queue of wishes.
const WISHES_MAX: usize = 8;
/// After a run of this length an end counts as the first.
const LONG_RUN: Duration = Duration::from_secs(10);
/// The shortest and the longest wait before a task is started again after a short run.
const RESTART_GAP_MIN: Duration = Duration::from_secs(1);
const RESTART_GAP_MAX: Duration = Duration::from_secs(30);

/// A task, and the node that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Probe(NodeId),
    Pacer(NodeId),
    Heartbeat(NodeId),
    Rival(NodeId),
    Hurry,
}

/// What is needed to start any of the tasks.
pub(crate) struct Making {
    pub settings: topology::settings::Settings,
    /// What the tasks share, and a reload may change.
    pub means: watch::Sender<Arc<Means>>,
    /// The moment from which the times in facts count.
    pub started: Instant,
    pub notes: mpsc::Sender<Note>,
    /// Receives the nodes' counters.
    pub samples: Samples,
    /// At most one question to the whole group runs at a time.
    pub questions: Arc<Semaphore>,
    /// The nodes' settings that are changed for a while.
    pub loans: Arc<Loans>,
    /// Which events the primary runs, or is to run.
    pub events: Arc<Events>,
}

pub(crate) struct Watched {
    making: Making,
    tasks: Tasks<Role>,
    nodes: BTreeMap<NodeId, OfNode>,
    hurry: Turn<watch::Sender<Option<hurry::Wish>>>,
}

/// The tasks for one node.
struct OfNode {
    probe: Turn<mpsc::Sender<Wish>>,
    pacer: Turn<watch::Sender<bool>>,
    heartbeat: Turn<watch::Sender<heartbeat::Wish>>,
    /// `None` where this program does not move the primary.
    rival: Option<Turn<watch::Sender<()>>>,
}

/// A task and its runs.
struct Turn<Way> {
    /// The channel for wishes to it.
    way: Way,
    began: Instant,
    /// Short runs in a row.
    short_runs: u32,
    down: Option<Down>,
}

#[derive(Clone, Copy)]
struct Down {
    since: Instant,
    until: Instant,
    missed: Instant,
}

impl<Way> Turn<Way> {
    fn new(way: Way) -> Self {
        Self { way, began: Instant::now(), short_runs: 0, down: None }
    }

    /// It has ended. Returns the wait until it is started again.
    fn ended(&mut self, now: Instant) -> Duration {
        if now.duration_since(self.began) >= LONG_RUN {
            self.short_runs = 0;
        }
        let wait = match self.short_runs {
            0 => Duration::ZERO,
            runs => (RESTART_GAP_MIN * (1 << (runs - 1).min(8))).min(RESTART_GAP_MAX),
        };
        self.short_runs += 1;
        self.down = Some(Down { since: now, until: now + wait, missed: now });
        wait
    }

    fn is_due(&self, now: Instant) -> bool {
        self.down.is_some_and(|down| down.until <= now)
    }

    fn run(&mut self, way: Way, now: Instant) {
        (self.way, self.began, self.down) = (way, now, None);
    }
}

impl Watched {
    /// Starts all of them.
    pub fn start(making: Making) -> Self {
        let mut tasks = Tasks::default();
        let hurry = Turn::new(making.hurry(&mut tasks));
        let mut watched = Self { making, tasks, nodes: BTreeMap::new(), hurry };
        watched.start_missing();
        watched
    }

    /// Starts the tasks of nodes that have none.
    fn start_missing(&mut self) {
        let Self { making, tasks, nodes, .. } = self;
        let all: Vec<NodeId> = making.means.borrow().nodes.iter().map(|(node, _)| *node).collect();
        for node in all {
            let of_node = nodes.entry(node).or_insert_with(|| OfNode {
                probe: Turn::new(making.probe(node, tasks)),
                pacer: Turn::new(making.pacer(node, false, tasks)),
                heartbeat: Turn::new(making.heartbeat(node, heartbeat::Wish::default(), tasks)),
                rival: None,
            });
            if making.has_rivals() && of_node.rival.is_none() {
                of_node.rival = Some(Turn::new(making.rival(node, tasks)));
            }
        }
    }

    /// Works with these settings from now on. The tasks of nodes that stay go on, with their links. Those of other nodes end; the nodes get
    /// their own values back.
    pub fn change(&mut self, settings: topology::settings::Settings, means: Means) {
        self.making.settings = settings;
        self.making.means.send_if_modified(|now| {
            let differs = **now != means;
            *now = Arc::new(means);
            differs
        });
        let Self { making, tasks, nodes, .. } = self;
        nodes.retain(|node, of_node| {
            let is_kept = making.settings_of(*node).is_some();
            if !is_kept {
                for role in [Role::Probe(*node), Role::Pacer(*node), Role::Heartbeat(*node)] {
                    tasks.let_end(&role);
                }
            }
            if !is_kept || !making.has_rivals() {
                tasks.let_end(&Role::Rival(*node));
                of_node.rival = None;
            }
            is_kept
        });
        self.start_missing();
    }

    /// Whether other managers of the nodes are looked for.
    pub fn has_rivals(&self) -> bool {
        self.making.has_rivals()
    }

    /// Sends a wish to a probe.
    pub fn wish(&self, node: NodeId, wish: Wish) {
        // A full queue already contains such a wish; a probe that is down connects anew when it is started.
        if let Some(of_node) = self.nodes.get(&node) {
            let _ = of_node.probe.way.try_send(wish);
        }
    }

    /// Sets whether the node repeats its join messages every 0.1 s.
    pub fn pace(&self, node: NodeId, fast_join_retrans: bool) {
        if let Some(of_node) = self.nodes.get(&node) {
            of_node.pacer.way.send_replace(fast_join_retrans);
        }
    }

    /// Sets what the heartbeat of the node does.
    pub fn beat(&self, node: NodeId, wish: heartbeat::Wish) {
        if let Some(of_node) = self.nodes.get(&node) {
            of_node.heartbeat.way.send_if_modified(|now| {
                let differs = *now != wish;
                *now = wish;
                differs
            });
        }
    }

    /// Shortens the group's timers.
    pub fn hurry(&self, wish: hurry::Wish) {
        self.hurry.way.send_replace(Some(wish));
    }

    /// Restores the group's timers, if this wish is still the present one.
    pub fn ease(&self, number: u64) {
        self.hurry.way.send_if_modified(|wish| wish.take_if(|wish| wish.number == number).is_some());
    }

    /// Waits for the next end of a task that must not end. Cancel safe.
    pub async fn ended(&mut self) -> (Role, String) {
        self.tasks.ended().await
    }

    /// Notes that a task has ended. Returns a sentence about it and a fact for the brain. [`Watched::round`] starts it again.
    pub fn note_end(&mut self, role: Role, how: &str) -> (String, Fact) {
        let now = Instant::now();
        let (does, node) = match role {
            Role::Probe(node) => ("watches", Some(node)),
            Role::Pacer(node) => ("paces", Some(node)),
            Role::Heartbeat(node) => ("sends heartbeats to", Some(node)),
            Role::Rival(node) => ("looks for another manager of", Some(node)),
            Role::Hurry => ("hurries", None),
        };
        let name =
            node.and_then(|node| self.making.settings_of(node)).map_or("the group".into(), |of| of.name);
        let what = format!("{does} {name}");
        let of_node = node.and_then(|node| self.nodes.get_mut(&node));
        let wait = match (role, of_node) {
            (Role::Probe(_), Some(of_node)) => of_node.probe.ended(now),
            (Role::Pacer(_), Some(of_node)) => of_node.pacer.ended(now),
            (Role::Heartbeat(_), Some(of_node)) => of_node.heartbeat.ended(now),
            (Role::Rival(_), Some(of_node)) => {
                of_node.rival.as_mut().map_or(Duration::ZERO, |rival| rival.ended(now))
            }
            (Role::Hurry, _) => self.hurry.ended(now),
            (_, None) => Duration::ZERO,
        };
        let when =
            if wait.is_zero() { "at once".to_owned() } else { format!("in {:.0} s", wait.as_secs_f32()) };
        let text =
            format!("the task that {what} has ended, which it must not: {how}; it is started again {when}");
        let fact = match role {
            Role::Probe(node) => Fact::LinkEnded { node, how: LinkEnd::Silent },
            Role::Pacer(_) | Role::Rival(_) => Fact::Tick,
            Role::Heartbeat(node) => Fact::Beat { node, beat: Beat::Unknown },
            Role::Hurry => self.hurry.way.borrow().as_ref().map_or(Fact::Tick, |wish| {
                // The changed settings are on disk, and are restored by the next run.
                let end = HurryEnd::Failed("its task has ended".into());
                Fact::Outcome(galera::Outcome::HurryEnded { number: wish.number, end }.into())
            }),
        };
        (text, fact)
    }

    /// Starts the tasks whose wait is over. Returns the misses of probes that are down.
    pub fn round(&mut self) -> Vec<Fact> {
        let (now, interval) = (Instant::now(), self.making.settings.probe_interval);
        let Self { making, tasks, nodes, hurry } = self;
        let mut facts = Vec::new();
        for (&node, OfNode { probe, pacer, heartbeat, rival }) in nodes {
            if probe.is_due(now) {
                probe.run(making.probe(node, tasks), now);
            } else if let Some(down) = &mut probe.down
                && now.duration_since(down.missed) >= interval
            {
                down.missed = now;
                let asked = down.since.duration_since(making.started);
                facts.push(Fact::ProbeMissed { node, asked });
            }
            if pacer.is_due(now) {
                let fast_join_retrans = *pacer.way.borrow();
                pacer.run(making.pacer(node, fast_join_retrans, tasks), now);
            }
            if heartbeat.is_due(now) {
                let wish = heartbeat.way.borrow().clone();
                heartbeat.run(making.heartbeat(node, wish, tasks), now);
            }
            if let Some(rival) = rival
                && rival.is_due(now)
            {
                rival.run(making.rival(node, tasks), now);
            }
        }
        if hurry.is_due(now) {
            hurry.run(making.hurry(tasks), now);
        }
        facts
    }

    /// The end: all wishes end, and the nodes' settings are restored.
    pub async fn close(self) {
        let Self { tasks, nodes, hurry, .. } = self;
        drop((nodes, hurry));
        tasks.all_ended().await;
    }
}

impl Making {
    /// The node's settings, if the configuration has it.
    fn settings_of(&self, node: NodeId) -> Option<NodeSettings> {
        self.means.borrow().nodes.iter().find(|(known, _)| *known == node).map(|(_, of)| of.clone())
    }

    fn name_and_address(&self, node: NodeId) -> (Arc<str>, String) {
        // Tasks are started for nodes of the settings only.
        self.settings_of(node).map_or_else(Default::default, |of| (of.name.as_str().into(), of.address))
    }

    fn probe(&self, node: NodeId, tasks: &mut Tasks<Role>) -> mpsc::Sender<Wish> {
        let (wish, wishes) = mpsc::channel(WISHES_MAX);
        let probe = Probe {
            node,
            kind: self.settings.kind,
            address: self.name_and_address(node).1,
            means: self.means.subscribe(),
            started: self.started,
            samples: self.samples.input(node),
            wishes,
            notes: self.notes.clone(),
        };
        tasks.start(Role::Probe(node), probe.run());
        wish
    }

    fn pacer(&self, node: NodeId, fast_join_retrans: bool, tasks: &mut Tasks<Role>) -> watch::Sender<bool> {
        let (pace, mut wish) = watch::channel(fast_join_retrans);
        if fast_join_retrans {
            // So that it is applied at once.
            wish.mark_changed();
        }
        let (means, loans) = (self.means.subscribe(), Arc::clone(&self.loans));
        let address = self.name_and_address(node).1;
        tasks.start(Role::Pacer(node), Pacer { address, means, wish, loans }.run());
        pace
    }

    fn heartbeat(
        &self,
        node: NodeId,
        wish: heartbeat::Wish,
        tasks: &mut Tasks<Role>,
    ) -> watch::Sender<heartbeat::Wish> {
        let (way, wish) = watch::channel(wish);
        let (name, address) = self.name_and_address(node);
        let means = self.means.borrow().clone();
        let heartbeat = Heartbeat {
            node,
            name,
            kind: self.settings.kind,
            address,
            means: self.means.subscribe(),
            login: means.login.clone(),
            settings: means.heartbeat.clone(),
            started: self.started,
            wish,
            notes: self.notes.clone(),
        };
        tasks.start(Role::Heartbeat(node), heartbeat.run());
        way
    }

    /// Whether another program that moves the primary would conflict with this one.
    fn has_rivals(&self) -> bool {
        let replication = &self.settings.replication;
        self.settings.kind == Kind::Replication
            && replication.manager == Manager::Understudy
            && !replication.dry_run
    }

    fn rival(&self, node: NodeId, tasks: &mut Tasks<Role>) -> watch::Sender<()> {
        let (way, wanted) = watch::channel(());
        let (name, address) = self.name_and_address(node);
        let (means, notes, events) = (self.means.subscribe(), self.notes.clone(), Arc::clone(&self.events));
        let rival = Rival { node, name, address, means, notes, events, wanted };
        tasks.start(Role::Rival(node), rival.run());
        way
    }

    fn hurry(&self, tasks: &mut Tasks<Role>) -> watch::Sender<Option<hurry::Wish>> {
        let (way, wish) = watch::channel(None);
        let worker = hurry::Worker {
            means: self.means.subscribe(),
            turn: Arc::clone(&self.questions),
            notes: self.notes.clone(),
            wish,
            loans: Arc::clone(&self.loans),
        };
        tasks.start(Role::Hurry, worker.run());
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_ends_again_and_again_is_started_ever_later() {
        let began = Instant::now();
        let mut turn = Turn::new(());
        turn.began = began;
        let mut now = began + LONG_RUN;
        let mut waits = Vec::new();
        for _ in 0..7 {
            let wait = turn.ended(now);
            waits.push(wait.as_secs());
            assert_eq!(turn.is_due(now), wait.is_zero());
            now += wait;
            assert!(turn.is_due(now));
            turn.run((), now);
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 30]);
        assert_eq!(turn.ended(now + LONG_RUN), Duration::ZERO);
    }

    /// A manager that watches one real server.
    struct Stand {
        _server: fixture::Server,
        dir: tempfile::TempDir,
        address: String,
        handles: crate::Handles,
    }

    impl Stand {
        fn start() -> Self {
            let server = fixture::Server::start(&[]);
            let address = server.address().to_string();
            let node = topology::settings::NodeSettings {
                name: "db1".into(),
                address: address.clone(),
                priority: 0,
            };
            let cluster =
                topology::settings::Settings::new("shop", topology::settings::Writers::One, vec![node]);
            let dir = tempfile::tempdir().unwrap();
            let monitor = crate::Account { user: "app".into(), password: "secret".into(), tls: None };
            let settings = crate::Settings {
                cluster,
                monitor,
                replication: None,
                proof_command: None,
                store: dir.path().join("state.db"),
            };
            Self { _server: server, dir, address, handles: crate::start(settings).unwrap() }
        }

        /// Waits until the node is seen like that.
        async fn sees(&mut self, what: &str, like: impl Fn(&topology::view::NodeView) -> bool) {
            let seen = self.handles.view.wait_for(|view| view.nodes.iter().all(&like));
            let seen = tokio::time::timeout(Duration::from_secs(20), seen).await;
            assert!(seen.is_ok_and(|seen| seen.is_ok()), "{what}");
        }

        /// Waits until the journal tells of so many ends.
        async fn tells_of_ends(&self, ends: usize) {
            let deadline = Instant::now() + Duration::from_secs(20);
            loop {
                let rows = self.handles.journal.last(1000).await.unwrap();
                let told = rows.iter().filter(|row| row.text.contains("that watches db1 has ended")).count();
                if told >= ends {
                    return;
                }
                assert!(Instant::now() < deadline, "{told} of {ends} ends were told");
                tokio::task::yield_now().await;
            }
        }
    }

    fn is_heard(node: &topology::view::NodeView) -> bool {
        node.linked && node.misses == 0 && node.facts.is_some()
    }

    #[tokio::test]
    async fn a_probe_that_panics_is_started_again_and_told_of() {
        let mut stand = Stand::start();
        stand.sees("it answers", is_heard).await;
        crate::probe::fault::panic_at(&stand.address, 1);
        stand.tells_of_ends(1).await;
        stand.sees("it is watched again", is_heard).await;
        stand.handles.stop.stop().await;
    }

    #[tokio::test]
    async fn a_node_whose_probe_panics_all_the_time_is_not_well() {
        let mut stand = Stand::start();
        stand.sees("it answers", is_heard).await;
        crate::probe::fault::panic_at(&stand.address, u32::MAX);
        stand.sees("it is silent", |node| node.state == topology::view::NodeState::Silent).await;
        stand.tells_of_ends(2).await;
        crate::probe::fault::panic_at(&stand.address, 0);
        stand
            .sees("it is watched again", |node| {
                is_heard(node) && node.state != topology::view::NodeState::Silent
            })
            .await;
        stand.handles.stop.stop().await;
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_opened_again_ends_the_manager() {
        let mut stand = Stand::start();
        stand.sees("it answers", is_heard).await;
        std::fs::remove_dir_all(stand.dir.path()).unwrap();
        let text = crate::store::tests::FAULT.to_owned();
        let row =
            topology::view::JournalRow { at_unix_ms: 0, level: topology::view::Level::Info, text, term: 0 };
        assert!(
            stand
                .handles
                .journal
                .store
                .send(crate::store::Work::Note(row, crate::store::Shelf::Decisions))
                .is_ok()
        );
        // Whoever started the manager sees the end of the view, and ends the program.
        let ended = async { while stand.handles.view.changed().await.is_ok() {} };
        assert!(tokio::time::timeout(Duration::from_secs(20), ended).await.is_ok());
        stand.handles.stop.stop().await;
    }

    /// A manager that is started on the same file right after would lose its log to the one that closes late.
    #[tokio::test]
    async fn a_store_is_closed_when_the_manager_has_stopped() {
        let mut stand = Stand::start();
        stand.sees("it answers", is_heard).await;
        let log = stand.dir.path().join("state.db-wal");
        assert!(log.exists());
        let journal = stand.handles.journal.clone();
        stand.handles.stop.stop().await;
        assert!(!log.exists());
        assert!(matches!(journal.last(1).await, Err(crate::StoreError::Closed)));
    }
}

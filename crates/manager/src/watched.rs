//! Keeps the tasks running that probe the nodes, write heartbeats and change timers. A task that ends is started again; while a probe does not
//! run, its node counts as not answering, so that a panic never leaves a node "well" for ever.
//!
//! ```text
//!   Running ──ended──> Down: one miss is reported per interval ──> Running
//!                       at once after a run of 10 s or more, else after 1, 2, 4, ... 30 s
//! ```

use std::sync::Arc;
use std::time::Duration;

use link::Login;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use topology::NodeId;
use topology::fact::{Fact, LinkEnd};
use topology::galera;
use topology::galera::HurryEnd;
use topology::heartbeat::{self, Beat};
use topology::kind::Kind;
use topology::replication::Manager;

use crate::heartbeat::Heartbeat;
use crate::hurry;
use crate::loans::Loans;
use crate::pacer::Pacer;
use crate::probe::{Note, Probe, Wish};
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
    pub login: Login,
    /// The moment from which the times in facts count.
    pub started: Instant,
    pub notes: mpsc::Sender<Note>,
    /// Receives the nodes' counters.
    pub samples: Samples,
    /// At most one question to the whole group runs at a time.
    pub questions: Arc<Semaphore>,
    /// The nodes' settings that are changed for a while.
    pub loans: Arc<Loans>,
}

pub(crate) struct Watched {
    making: Making,
    tasks: Tasks<Role>,
    probes: Vec<Turn<mpsc::Sender<Wish>>>,
    paces: Vec<Turn<watch::Sender<bool>>>,
    heartbeats: Vec<Turn<watch::Sender<heartbeat::Wish>>>,
    /// Empty where this program does not move the primary.
    rivals: Vec<Turn<watch::Sender<()>>>,
    hurry: Turn<watch::Sender<Option<hurry::Wish>>>,
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
        let (mut probes, mut paces, mut heartbeats) = (Vec::new(), Vec::new(), Vec::new());
        let mut rivals = Vec::new();
        for node in (0..=u8::MAX).map(NodeId).take(making.settings.nodes.len()) {
            probes.push(Turn::new(making.probe(node, &mut tasks)));
            paces.push(Turn::new(making.pacer(node, false, &mut tasks)));
            heartbeats.push(Turn::new(making.heartbeat(node, heartbeat::Wish::default(), &mut tasks)));
            if making.has_rivals() {
                rivals.push(Turn::new(making.rival(node, &mut tasks)));
            }
        }
        let hurry = Turn::new(making.hurry(&mut tasks));
        Self { making, tasks, probes, paces, heartbeats, rivals, hurry }
    }

    /// Sends a wish to a probe.
    pub fn wish(&self, node: NodeId, wish: Wish) {
        // A full queue already contains such a wish; a probe that is down connects anew when it is started.
        if let Some(probe) = self.probes.get(usize::from(node.0)) {
            let _ = probe.way.try_send(wish);
        }
    }

    /// Sets whether the node repeats its join messages every 0.1 s.
    pub fn pace(&self, node: NodeId, fast_join_retrans: bool) {
        if let Some(pacer) = self.paces.get(usize::from(node.0)) {
            pacer.way.send_replace(fast_join_retrans);
        }
    }

    /// Sets what the heartbeat of the node does.
    pub fn beat(&self, node: NodeId, wish: heartbeat::Wish) {
        if let Some(heartbeat) = self.heartbeats.get(usize::from(node.0)) {
            heartbeat.way.send_if_modified(|now| {
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
        let name = |node: NodeId| self.making.settings.nodes[usize::from(node.0)].name.as_str();
        let (what, wait) = match role {
            Role::Probe(node) => {
                (format!("watches {}", name(node)), self.probes[usize::from(node.0)].ended(now))
            }
            Role::Pacer(node) => {
                (format!("paces {}", name(node)), self.paces[usize::from(node.0)].ended(now))
            }
            Role::Heartbeat(node) => (
                format!("sends heartbeats to {}", name(node)),
                self.heartbeats[usize::from(node.0)].ended(now),
            ),
            Role::Rival(node) => (
                format!("looks for another manager of {}", name(node)),
                self.rivals[usize::from(node.0)].ended(now),
            ),
            Role::Hurry => ("hurries the group".to_owned(), self.hurry.ended(now)),
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
        let mut facts = Vec::new();
        for (node, probe) in (0..=u8::MAX).map(NodeId).zip(&mut self.probes) {
            if probe.is_due(now) {
                probe.run(self.making.probe(node, &mut self.tasks), now);
            } else if let Some(down) = &mut probe.down
                && now.duration_since(down.missed) >= interval
            {
                down.missed = now;
                let asked = down.since.duration_since(self.making.started);
                facts.push(Fact::ProbeMissed { node, asked });
            }
        }
        for (node, pacer) in (0..=u8::MAX).map(NodeId).zip(&mut self.paces) {
            if pacer.is_due(now) {
                let fast_join_retrans = *pacer.way.borrow();
                pacer.run(self.making.pacer(node, fast_join_retrans, &mut self.tasks), now);
            }
        }
        for (node, heartbeat) in (0..=u8::MAX).map(NodeId).zip(&mut self.heartbeats) {
            if heartbeat.is_due(now) {
                let wish = heartbeat.way.borrow().clone();
                heartbeat.run(self.making.heartbeat(node, wish, &mut self.tasks), now);
            }
        }
        for (node, rival) in (0..=u8::MAX).map(NodeId).zip(&mut self.rivals) {
            if rival.is_due(now) {
                rival.run(self.making.rival(node, &mut self.tasks), now);
            }
        }
        if self.hurry.is_due(now) {
            self.hurry.run(self.making.hurry(&mut self.tasks), now);
        }
        facts
    }

    /// The end: all wishes end, and the nodes' settings are restored.
    pub async fn close(self) {
        let Self { tasks, probes, paces, heartbeats, rivals, hurry, .. } = self;
        drop((probes, paces, heartbeats, rivals, hurry));
        tasks.all_ended().await;
    }
}

impl Making {
    fn probe(&self, node: NodeId, tasks: &mut Tasks<Role>) -> mpsc::Sender<Wish> {
        let (wish, wishes) = mpsc::channel(WISHES_MAX);
        let probe = Probe {
            node,
            kind: self.settings.kind,
            address: self.settings.nodes[usize::from(node.0)].address.clone(),
            login: self.login.clone(),
            interval: self.settings.probe_interval,
            misses_max: self.settings.misses_max,
            beats: self.settings.events,
            started: self.started,
            samples: self.samples.clone(),
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
        let address = self.settings.nodes[usize::from(node.0)].address.clone();
        let (login, loans) = (self.login.clone(), Arc::clone(&self.loans));
        tasks.start(Role::Pacer(node), Pacer { address, login, wish, loans }.run());
        pace
    }

    fn heartbeat(
        &self,
        node: NodeId,
        wish: heartbeat::Wish,
        tasks: &mut Tasks<Role>,
    ) -> watch::Sender<heartbeat::Wish> {
        let (way, wish) = watch::channel(wish);
        let of = &self.settings.nodes[usize::from(node.0)];
        let heartbeat = Heartbeat {
            node,
            name: of.name.as_str().into(),
            kind: self.settings.kind,
            address: of.address.clone(),
            login: self.login.clone(),
            settings: self.settings.heartbeat.clone(),
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
        let of = &self.settings.nodes[usize::from(node.0)];
        let rival = Rival {
            node,
            name: of.name.as_str().into(),
            address: of.address.clone(),
            login: self.login.clone(),
            notes: self.notes.clone(),
            wanted,
        };
        tasks.start(Role::Rival(node), rival.run());
        way
    }

    fn hurry(&self, tasks: &mut Tasks<Role>) -> watch::Sender<Option<hurry::Wish>> {
        let (way, wish) = watch::channel(None);
        let worker = hurry::Worker {
            login: self.login.clone(),
            turn: Arc::clone(&self.questions),
            notes: self.notes.clone(),
            wish,
            loans: Arc::clone(&self.loans),
            names: self.settings.nodes.iter().map(|node| node.name.clone()).collect(),
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
            let monitor =
                crate::Account { user: "app".into(), password: crate::Password("secret".to_owned()) };
            let settings = crate::Settings {
                cluster,
                monitor,
                replication: None,
                proof_command: None,
                store: dir.path().join("state.db"),
                inherited: crate::Inherited::default(),
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
        let row = crate::JournalRow { at_unix_ms: 0, level: topology::view::Level::Info, text, term: 0 };
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
}

//! The task that owns the brain. It passes facts, orders and the time to the brain and carries out the brain's actions, in the order in
//! which they come. It never waits for anything but the next message: whatever takes time runs in a task of its own.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use link::Login;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use topology::action::{Action, Sentence};
use topology::brain::{Brain, NotTaken};
use topology::fact::{ConnectFailure, Fact, Outcome, ProxyFact};
use topology::flavor::Flavor;
use topology::galera;
use topology::kind::Kind;
use topology::order::{Order, OrderId, OrderRefused, OrderReply};
use topology::reads::Reached;
use topology::replication;
use topology::routes::Routes;
use topology::view::{ClusterView, Decision, Level};
use topology::{NodeId, Origin, Term};

use crate::act;
use crate::advice::{self, Monitor, Topic};
use crate::aliases::Aliases;
use crate::events::Events;
use crate::failed::Failed;
use crate::loans::Loans;
use crate::means::Means;
use crate::note::Note;
use crate::probe::Wish;
use crate::reading::Reading;
use crate::replication as servers;
use crate::reported::ReportedAdvice;
use crate::samples::Samples;
use crate::settings::{Account, Settings};
use crate::store::{Saved, Shelf, Store, Work, unix_ms};
use crate::tables::{self, Names};
use crate::tasks::reason;
use crate::watched::Watched;
use crate::{abandoned, bootstrap, evict, hurry, rights};

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(20);
/// A new view is published at least this often.
const VIEW_AGE_MAX: Duration = Duration::from_millis(200);
/// The deadline for reading the catalogue, which takes seconds with many thousand tables.
const TABLES_DEADLINE: Duration = Duration::from_secs(20);
/// The deadline for reading the rights of the monitor account.
const RIGHTS_DEADLINE: Duration = Duration::from_secs(5);
/// The deadlines for reading the account table, and for the last writes to the store at the end.
const ACCOUNTS_DEADLINE: Duration = Duration::from_secs(5);
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);
/// The deadline, at the end, for restoring the settings of all nodes that are changed for a while.
const PACES_DEADLINE: Duration = Duration::from_secs(3);
/// The proxy of this program, by the one channel for facts.
const PROXY: Origin = Origin(0);
/// Other settings wait this long for the end of what must not be disturbed by them.
const CHANGE_WAIT: Duration = Duration::from_secs(10);

/// An order, whether it is only to be told what would come of it, and the channel for the answer.
pub(crate) type Asked = (Order, bool, oneshot::Sender<OrderReply>);

/// Other settings, and the channel for what comes of them.
pub(crate) type Change = (Settings, oneshot::Sender<Result<(), NotTaken>>);

/// The result of a task that carried out an action: a fact for the brain, and advice about a node.
type Done = (Fact, Option<(NodeId, Topic, Option<String>)>);

pub(crate) struct Cycle {
    pub settings: topology::settings::Settings,
    pub login: Login,
    /// The account that replicas log in with at their source.
    pub replication: Option<Account>,
    /// The highest term of any order that was sent to a server.
    pub newest_order: Arc<AtomicU64>,
    /// What an earlier process had learnt of the nodes' other names.
    pub aliases: Aliases,
    /// Which events the primary runs, or is to run.
    pub events: Arc<Events>,
    /// The links that stand ready for orders to servers.
    pub ready: Arc<servers::Ready>,
    /// The command that proves that a node's process has ended.
    pub proof_command: Option<Arc<str>>,
    pub brain: Brain,
    pub store: Store,
    pub started: Instant,
    pub facts: mpsc::Receiver<ProxyFact>,
    pub orders: mpsc::Receiver<Asked>,
    pub changes: mpsc::Receiver<Change>,
    pub samples: Samples,
    pub notes: mpsc::Receiver<Note>,
    pub notes_in: mpsc::Sender<Note>,
    /// At most one question to the whole group runs at a time.
    pub questions: Arc<Semaphore>,
    /// The nodes' settings that are changed for a while.
    pub loans: Arc<Loans>,
    /// The tasks that probe the nodes and change their timers.
    pub watched: Watched,
    pub store_thread: JoinHandle<()>,
    pub routes: watch::Sender<Arc<Routes>>,
    /// The routes of the port for reads.
    pub reads: watch::Sender<Arc<Routes>>,
    pub reached: watch::Sender<Arc<Reached>>,
    pub view: watch::Sender<Arc<ClusterView>>,
    pub stop: oneshot::Receiver<()>,
}

/// The state of the cycle besides the brain.
#[derive(Default)]
struct CycleState {
    answers: HashMap<OrderId, oneshot::Sender<OrderReply>>,
    /// Answers that are sent as soon as the view shows their result.
    replies: Vec<(oneshot::Sender<OrderReply>, OrderReply)>,
    orders: u64,
    /// Other settings that are not in force yet, and until when they may wait.
    change: Option<(Change, Instant)>,
    /// Those are in force; answered as soon as the view shows it.
    changed: Option<oneshot::Sender<Result<(), NotTaken>>>,
    advice: BTreeMap<(NodeId, Topic), String>,
    /// Of the servers, once one has let the monitor in.
    flavor: Option<Flavor>,
    said: ReportedAdvice,
    aliases: Aliases,
    /// Facts of the cycle itself for the brain.
    own: VecDeque<Fact>,
    term: Term,
    viewed: Option<Instant>,
}

impl Cycle {
    pub async fn run(mut self) {
        let aliases = std::mem::take(&mut self.aliases);
        let mut cycle_state = CycleState { aliases, ..CycleState::default() };
        let mut acts: JoinSet<Done> = JoinSet::new();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(why) = self.cannot_go_on() {
                self.say(cycle_state.term, Sentence::new(Level::Error, why));
                break;
            }
            self.try_change(&mut cycle_state);
            let own = cycle_state.own.pop_front();
            let fact = tokio::select! {
                // No branch can starve the others: every source but the clock is slower than the brain.
                biased;
                // An error means that the handle was dropped.
                _ = &mut self.stop => break,
                Some(fact) = std::future::ready(own), if own.is_some() => fact,
                Some(note) = self.notes.recv() => self.unfold(&mut cycle_state, note),
                Some(done) = acts.join_next() => match done {
                    Ok((fact, advice)) => {
                        if let Some((node, topic, text)) = advice {
                            self.advise(&mut cycle_state, node, topic, text);
                        }
                        fact
                    }
                    Err(error) => {
                        // The brain misses its result when the deadline has passed, and asks again.
                        let text = format!("a task that asked or told a node has ended early: {}", reason(error));
                        self.say(cycle_state.term, Sentence::new(Level::Error, text));
                        Fact::Tick
                    }
                },
                (role, how) = self.watched.ended() => {
                    let (text, fact) = self.watched.note_end(role, &how);
                    self.say(cycle_state.term, Sentence::new(Level::Error, text));
                    fact
                }
                Some(change) = self.changes.recv(), if cycle_state.change.is_none() => {
                    cycle_state.change = Some((change, Instant::now() + CHANGE_WAIT));
                    continue;
                }
                Some((order, dry_run, reply)) = self.orders.recv() => {
                    if dry_run {
                        // Who asked may have gone.
                        let _ = reply.send(self.brain.dry_run(self.started.elapsed(), order));
                        continue;
                    }
                    cycle_state.orders += 1;
                    let id = OrderId(cycle_state.orders);
                    cycle_state.answers.insert(id, reply);
                    Fact::Order { id, order }
                }
                Some(fact) = self.facts.recv() => fact.by(PROXY),
                _ = tick.tick() => {
                    cycle_state.own.extend(self.watched.round());
                    Fact::Tick
                }
            };
            match &fact {
                // What comes late from a node that was removed.
                fact if fact.node().is_some_and(|node| !self.brain.has(node)) => {}
                Fact::LinkUp { node, .. } => self.meet(&mut acts, *node),
                Fact::Status { node, .. } => {
                    self.end_abandoned(&mut acts, *node);
                    self.keep_ready(*node);
                }
                _ => {}
            }
            let now = self.started.elapsed();
            let actions = self.brain.on(now, fact);
            // Before any server is ordered to become read only.
            for (node, wish) in self.brain.wishes() {
                self.watched.beat(node, wish);
            }
            let busy = !actions.is_empty();
            self.carry_out(&mut cycle_state, &mut acts, actions);
            if busy || cycle_state.viewed.is_none_or(|at| at.elapsed() >= VIEW_AGE_MAX) {
                self.show(&mut cycle_state);
            }
            // Only after the view was published: whoever gets the answer and looks at the status finds the result there.
            for (answer, reply) in cycle_state.replies.drain(..) {
                // The client may have disconnected; the result is in the journal.
                let _ = answer.send(reply);
            }
            if let Some(answer) = cycle_state.changed.take() {
                let _ = answer.send(Ok(()));
            }
        }
        self.close(cycle_state).await;
    }

    /// Puts other settings in force, as soon as they can be.
    fn try_change(&mut self, cycle_state: &mut CycleState) {
        let Some(((settings, reply), until)) = cycle_state.change.take() else { return };
        match self.change(cycle_state, &settings) {
            Err(NotTaken::Busy(_)) if Instant::now() < until => {
                cycle_state.change = Some(((settings, reply), until));
            }
            Ok(()) => {
                cycle_state.changed = Some(reply);
                // The next fact publishes what has changed, and then the view is shown.
                cycle_state.own.push_back(Fact::Tick);
                cycle_state.viewed = None;
            }
            // The sender may have given up.
            Err(why) => drop(reply.send(Err(why))),
        }
    }

    fn change(&mut self, cycle_state: &mut CycleState, settings: &Settings) -> Result<(), NotTaken> {
        let cluster = &settings.cluster;
        self.brain.reconfigure(self.started.elapsed(), cluster.clone())?;
        let nodes = self.brain.nodes();
        cycle_state.advice.retain(|(node, _), _| self.brain.has(*node));
        self.samples.set_nodes(nodes.iter().map(|(node, _)| *node));
        self.loans.set_nodes(names_and_addresses(cluster));
        self.login = settings.login();
        let addresses = cluster.addresses();
        self.ready.keep_only(&addresses);
        cycle_state.aliases.keep_only(&addresses);
        self.settings = cluster.clone();
        self.replication.clone_from(&settings.replication);
        self.proof_command = settings.proof_command.as_deref().map(Into::into);
        self.watched.change(cluster.clone(), Means::new(cluster, self.login.clone(), nodes));
        if !self.watched.has_rivals() {
            cycle_state.advice.retain(|(_, topic), _| *topic != Topic::Rival);
        }
        Ok(())
    }

    /// Why the program must end instead of continuing: without the store no decision could be saved, so the writer could not be moved any more.
    fn cannot_go_on(&self) -> Option<String> {
        self.store_thread.is_finished().then(|| {
            "the store's thread has ended and could not be started again: no decision could be written any more; the program ends".into()
        })
    }

    fn monitor(&self, flavor: Option<Flavor>) -> Monitor {
        Monitor { kind: self.settings.kind, flavor, user: self.login.user.clone() }
    }

    /// Turns a note into a fact. Notes that do not concern the brain are handled here.
    fn unfold(&self, cycle_state: &mut CycleState, note: Note) -> Fact {
        match note {
            Note::Fact(fact) => {
                match &fact {
                    Fact::ConnectFailed { node, how: ConnectFailure::Rejected { errno, message } } => {
                        let monitor = self.monitor(cycle_state.flavor);
                        let text = advice::login(&monitor, self.name(*node), *errno, message);
                        self.advise(cycle_state, *node, Topic::Login, Some(text));
                    }
                    Fact::LinkUp { node, greeting } => {
                        cycle_state.flavor = Some(Flavor::of(&greeting.version));
                        self.advise(cycle_state, *node, Topic::Login, None);
                    }
                    _ => {}
                }
                fact
            }
            Note::Say(sentence) => {
                self.say(cycle_state.term, sentence);
                Fact::Tick
            }
            Note::Advice(node, topic, text) => {
                self.advise(cycle_state, node, topic, text);
                Fact::Tick
            }
            Note::Reading(node, reading, asked) => {
                if !self.brain.has(node) {
                    return Fact::Tick;
                }
                let status = match *reading {
                    Reading::Galera(reading) => {
                        cycle_state.aliases.member(&self.address(node), reading).into()
                    }
                    Reading::Replication(standing) => {
                        cycle_state.aliases.server(&self.address(node), standing).into()
                    }
                };
                Fact::Status { node, status, asked }
            }
        }
    }

    fn carry_out(&mut self, cycle_state: &mut CycleState, acts: &mut JoinSet<Done>, actions: Vec<Action>) {
        let mut sentences = Vec::new();
        for action in actions {
            match action {
                Action::Publish(routes) => {
                    cycle_state.term = routes.term;
                    self.routes.send_replace(routes);
                }
                Action::PublishReads(routes) => {
                    self.reads.send_replace(routes);
                }
                Action::Reached(reached) => {
                    self.reached.send_replace(reached);
                }
                Action::Confirm { node } => self.watched.wish(node, Wish::Confirm),
                Action::Probe { node } => self.watched.wish(node, Wish::Probe),
                Action::Persist {
                    number,
                    term,
                    writer,
                    sessions_max,
                    failed_over_ago,
                    is_writer_incomplete,
                    renumbered,
                    filtered,
                } => {
                    let limit = |(node, limit): (NodeId, u32)| (self.name(node).to_owned(), limit);
                    let failed_over_unix_ms =
                        failed_over_ago.map(|ago| unix_ms().saturating_sub(ago.as_millis() as u64));
                    let saved = Saved {
                        term: term.0,
                        writer: writer.map(|node| self.name(node).to_owned()),
                        sessions_max: sessions_max.into_iter().map(limit).collect(),
                        failed_over_unix_ms,
                        is_writer_incomplete,
                        renumbered: renumbered.iter().map(|node| self.name(*node).to_owned()).collect(),
                        filtered: filtered
                            .into_iter()
                            .map(|(node, filters)| (self.name(node).to_owned(), filters))
                            .collect(),
                    };
                    self.persist(number, saved);
                }
                Action::Galera(action) => self.tend_group(acts, action),
                Action::Replication(action) => self.tend_server(acts, cycle_state.flavor, action),
                Action::Remember { written } => {
                    // If the store's thread has ended, the program ends, too.
                    let _ = self.store.send(Work::Written(written, unix_ms()));
                }
                Action::Barrier { node, term, lost, at_least, within } => {
                    let (address, login) = (self.address(node), self.login.clone());
                    let lost = lost.map(|lost| cycle_state.aliases.names_of(&self.address(lost)));
                    let (turn, loans) = (Arc::clone(&self.questions), Arc::clone(&self.loans));
                    acts.spawn(async move {
                        let asks = (&*turn, &*loans);
                        let passed = act::barrier(&address, &login, lost.as_deref(), at_least, asks, within);
                        let outcome = match passed.await {
                            Ok(()) => Outcome::BarrierPassed { node, term },
                            Err(Failed { why, .. }) => Outcome::BarrierFailed { node, term, why },
                        };
                        (Fact::Outcome(outcome), None)
                    });
                }
                Action::ReadAccounts { node } => {
                    let (address, login) = (self.address(node), self.login.clone());
                    let (monitor, name) = (self.monitor(cycle_state.flavor), self.name(node).to_owned());
                    acts.spawn(async move {
                        match act::accounts(&address, &login, ACCOUNTS_DEADLINE).await {
                            Ok(rows) => (Fact::Accounts { node, rows }, Some((node, Topic::Accounts, None))),
                            Err(Failed { errno, why }) => {
                                let text = advice::accounts(&monitor, &name, errno, &why);
                                (Fact::Tick, Some((node, Topic::Accounts, Some(text))))
                            }
                        }
                    });
                }
                Action::ReadTables { node } => {
                    let (address, login) = (self.address(node), self.login.clone());
                    let (monitor, name) = (self.monitor(cycle_state.flavor), self.name(node).to_owned());
                    acts.spawn(async move {
                        let (fact, text) = match tables::read(&address, &login, TABLES_DEADLINE).await {
                            Ok(Names::Known(catalogue)) => (Fact::Catalogue { node, catalogue }, None),
                            Ok(Names::Hidden) => (Fact::Tick, Some(advice::tables_hidden(&monitor, &name))),
                            Err(Failed { why, .. }) => (Fact::Tick, Some(advice::tables(&name, &why))),
                        };
                        (fact, Some((node, Topic::Tables, text)))
                    });
                }
                Action::Answer { id, reply } => {
                    if let Some(answer) = cycle_state.answers.remove(&id) {
                        cycle_state.replies.push((answer, reply));
                    }
                }
                Action::Say(sentence) => sentences.push(sentence),
            }
        }
        for sentence in sentences {
            self.say(cycle_state.term, sentence);
        }
    }

    /// Questions to a node whose link is new: of a replication server, the rights of the account; of a Galera node, the values of the settings
    /// that may be changed for a while, which are saved on disk.
    fn meet(&self, acts: &mut JoinSet<Done>, node: NodeId) {
        let (address, login) = (self.address(node), self.login.clone());
        if self.settings.kind == Kind::Replication {
            let gives_orders = self.settings.replication.manager == replication::Manager::Understudy;
            let (kind, name) = (self.settings.kind, self.name(node).to_owned());
            acts.spawn(async move {
                let lacking = rights::ask(&address, &login, gives_orders, RIGHTS_DEADLINE).await;
                let text = |lacking: Vec<String>| advice::rights(kind, &name, &login.user, &lacking);
                (Fact::Tick, lacking.map(|lacking| (node, Topic::Rights, text(lacking))))
            });
            return;
        }
        let (loans, turn, notes) =
            (Arc::clone(&self.loans), Arc::clone(&self.questions), self.notes_in.clone());
        acts.spawn(async move {
            if let Some(sentence) = loans.meet(&address, &login, &turn).await {
                // An error means that the cycle has ended.
                let _ = notes.send(Note::Say(sentence)).await;
            }
            (Fact::Tick, None)
        });
    }

    /// Of a server that answers: what it still runs for connections that were closed while it could not be reached.
    fn end_abandoned(&self, acts: &mut JoinSet<Done>, node: NodeId) {
        let address = self.address(node);
        let abandoned = link::abandoned::take(&address);
        if abandoned.is_empty() {
            return;
        }
        let (name, login, notes) = (self.name(node).to_owned(), self.login.clone(), self.notes_in.clone());
        acts.spawn(async move {
            let text = match abandoned::end(&address, &login, abandoned).await {
                0 => None,
                1 => Some(format!("{name} still ran a session of a connection that was lost: it was ended")),
                several => Some(format!(
                    "{name} still ran {several} sessions of connections that were lost: they were ended"
                )),
            };
            if let Some(text) = text {
                // An error means that the cycle has ended.
                let _ = notes.send(Note::Say(Sentence::new(Level::Info, text))).await;
            }
            (Fact::Tick, None)
        });
    }

    /// Of a server that answers: the link that stands ready for orders. No order and no other settings wait for it.
    fn keep_ready(&self, node: NodeId) {
        let gives_orders = self.settings.kind == Kind::Replication
            && self.settings.replication.manager == replication::Manager::Understudy;
        let address = self.address(node);
        if gives_orders && self.ready.is_due(&address) {
            let (ready, login) = (Arc::clone(&self.ready), self.login.clone());
            tokio::spawn(async move { ready.refresh(&address, &login).await });
        }
    }

    /// The actions that only a Galera cluster has.
    fn tend_group(&self, acts: &mut JoinSet<Done>, action: galera::Action) {
        match action {
            galera::Action::Evict { victim, gcomm_uuid, via, view, within } => {
                let (address, login) = (self.address(via), self.login.clone());
                let (turn, loans) = (Arc::clone(&self.questions), Arc::clone(&self.loans));
                let forbidden = advice::evict(self.name(via), &self.login.user);
                acts.spawn(async move {
                    match evict::evict(&address, &login, (&turn, &loans), &gcomm_uuid, view, within).await {
                        Ok(done) => {
                            let outcome = match done {
                                evict::Done::Evicted => galera::Outcome::Evicted { victim, via },
                                evict::Done::Spared => galera::Outcome::Spared { victim, via },
                            };
                            (Fact::Outcome(outcome.into()), Some((via, Topic::Evict, None)))
                        }
                        Err(Failed { errno, why }) => {
                            let advice = (errno == 1227).then_some((via, Topic::Evict, Some(forbidden)));
                            (Fact::Outcome(galera::Outcome::EvictFailed { victim, why }.into()), advice)
                        }
                    }
                });
            }
            galera::Action::Pace { node, fast_join_retrans } => {
                self.watched.pace(node, fast_join_retrans);
            }
            galera::Action::Hurry { number, members, view, .. } => {
                let known = |node| (node, self.name(node).to_owned(), self.address(node));
                let members = members.into_iter().map(known).collect();
                self.watched.hurry(hurry::Wish { number, members, view });
            }
            galera::Action::Remember { component } => {
                // If the store's thread has ended, the program ends, too.
                let _ = self.store.send(Work::Remember(component));
            }
            galera::Action::Ease { number } => self.watched.ease(number),
            galera::Action::Desync { node, on } => {
                let (address, login, name) =
                    (self.address(node), self.login.clone(), self.name(node).to_owned());
                acts.spawn(async move {
                    if let Err(Failed { why, .. }) = act::desync(&address, &login, on).await {
                        tracing::warn!("{name}: {}: {why}", galera::sql::desync(on));
                    }
                    (Fact::Tick, None)
                });
            }
            galera::Action::Prove { number, node, within } => {
                let command = self.proof_command.clone();
                let (name, address) = (self.name(node).to_owned(), self.address(node));
                acts.spawn(async move {
                    let proof = bootstrap::prove(command.as_deref(), &name, &address, within).await;
                    (Fact::Outcome(galera::Outcome::Proof { number, node, proof }.into()), None)
                });
            }
            galera::Action::Bootstrap { number, via, gcomm_uuid, size, gone, begin_within, within } => {
                let known = |node| (self.name(node).to_owned(), self.address(node));
                let order = bootstrap::Order {
                    address: self.address(via),
                    gcomm_uuid,
                    size,
                    gone: gone.into_iter().map(known).collect(),
                    begin_by: tokio::time::Instant::now() + begin_within,
                };
                let login = self.login.clone();
                acts.spawn(async move {
                    let done = bootstrap::bootstrap(&order, &login, within).await;
                    let failed = done.err().map(|Failed { why, .. }| why);
                    (Fact::Outcome(galera::Outcome::BootstrapEnded { number, failed }.into()), None)
                });
            }
            galera::Action::Forget { node } => {
                let (address, login, name) =
                    (self.address(node), self.login.clone(), self.name(node).to_owned());
                acts.spawn(async move {
                    let text = match evict::forget(&address, &login).await {
                        Ok(()) => None,
                        Err(Failed { why, .. }) => Some(advice::forget(&name, &why)),
                    };
                    (Fact::Tick, Some((node, Topic::Forget, text)))
                });
            }
        }
    }

    /// The actions that only a primary with replicas has.
    fn tend_server(&self, acts: &mut JoinSet<Done>, flavor: Option<Flavor>, action: replication::Action) {
        let node = action.node;
        let means = servers::Means {
            address: self.address(node),
            login: self.login.clone(),
            source: action.errand.source().map_or_else(String::new, |source| self.address(source)),
            account: self.replication.clone(),
            newest: Arc::clone(&self.newest_order),
            events: Arc::clone(&self.events),
            ready: Arc::clone(&self.ready),
        };
        self.newest_order.fetch_max(action.term.0, SeqCst);
        let (monitor, name) = (self.monitor(flavor), self.name(node).to_owned());
        acts.spawn(async move {
            tracing::debug!("{name} is told: {:?}, {}", action.errand, action.term);
            let (outcome, errno) = servers::carry_out(action, means).await;
            match &outcome {
                Outcome::Replication(outcome) => {
                    tracing::debug!("{name} was told, and: {:?}", outcome.end);
                }
                outcome => tracing::debug!("{name} was told, and: {outcome:?}"),
            }
            let text = errno.and_then(|errno| advice::order(&monitor, &name, errno));
            (Fact::Outcome(outcome), Some((node, Topic::Orders, text)))
        });
    }

    fn persist(&self, number: u64, saved: Saved) {
        let notes = self.notes_in.clone();
        let told = Box::new(move |result: Result<(), crate::StoreError>| {
            let outcome = match result {
                Ok(()) => Outcome::Persisted { number },
                Err(error) => Outcome::PersistFailed { number, why: error.to_string() },
            };
            // This runs on the store's thread, which may block. An error means that the cycle has ended.
            let _ = notes.blocking_send(Note::Fact(Fact::Outcome(outcome)));
        });
        // If the store's thread has ended, no answer comes, and the brain's deadline passes.
        let _ = self.store.send(Work::Save(saved, told));
    }

    /// Sets or clears the advice to operators about one topic of the node. It is shown while it applies, and logged when it is new. Nothing is
    /// advised about a node that was removed.
    fn advise(&self, cycle_state: &mut CycleState, node: NodeId, topic: Topic, text: Option<String>) {
        match text.filter(|_| self.brain.has(node)) {
            Some(text) => {
                cycle_state.advice.insert((node, topic), text.clone());
                if cycle_state.said.is_new(node, topic, &text, self.started.elapsed()) {
                    say_as(&self.store, cycle_state.term, Sentence::new(Level::Error, text), Shelf::Advice);
                }
            }
            None => {
                cycle_state.advice.remove(&(node, topic));
            }
        }
    }

    fn say(&self, term: Term, sentence: Sentence) {
        say(&self.store, term, sentence);
    }

    fn show(&self, cycle_state: &mut CycleState) {
        cycle_state.viewed = Some(Instant::now());
        self.view.send_replace(Arc::new(self.look(cycle_state)));
    }

    fn look(&self, cycle_state: &CycleState) -> ClusterView {
        let now = self.started.elapsed();
        let mut view = self.brain.view(now);
        view.started_unix_ms = unix_ms().saturating_sub(now.as_millis() as u64);
        for decision in &mut view.decisions {
            decision.at_unix_ms += view.started_unix_ms;
        }
        for ((of, _), text) in &cycle_state.advice {
            if let Some(node) = view.nodes.iter_mut().find(|node| node.id == *of) {
                node.advice.push(text.clone());
            }
        }
        view
    }

    fn name(&self, node: NodeId) -> &str {
        self.brain.name(node)
    }

    fn address(&self, node: NodeId) -> String {
        self.brain.address(node).to_owned()
    }

    /// The end: pending orders are answered, changed settings of nodes are restored, and pending writes are finished.
    async fn close(self, cycle_state: CycleState) {
        let Self { watched, store, store_thread, mut notes, .. } = self;
        for answer in cycle_state.answers.into_values() {
            let sentence = "Understudy is stopping: ask again when it is up".to_owned();
            let _ = answer.send(Err(OrderRefused { code: "stopping", sentence }));
        }
        // Tasks that still want to send a note get an error instead of waiting.
        notes.close();
        let _ = tokio::time::timeout(PACES_DEADLINE, watched.close()).await;
        say(&store, cycle_state.term, Sentence::new(Level::Info, "the manager stops".into()));
        // Also while others have handles of the store: SQLite removes its log by name when it closes, and would take away that of whoever
        // opens the file next. An error means that the thread has ended.
        let _ = store.send(Work::Close);
        let closed = tokio::task::spawn_blocking(move || store_thread.join());
        let _ = tokio::time::timeout(FLUSH_DEADLINE, closed).await;
    }
}

/// Name and address of each node.
pub(crate) fn names_and_addresses(cluster: &topology::settings::Settings) -> Vec<(String, String)> {
    cluster.nodes.iter().map(|node| (node.name.clone(), node.address.clone())).collect()
}

/// Logs a sentence and writes it to the journal.
pub(crate) fn say(store: &Store, term: Term, sentence: Sentence) {
    say_as(store, term, sentence, Shelf::Decisions);
}

/// The same, into one shelf of the journal.
fn say_as(store: &Store, term: Term, Sentence { level, text, about }: Sentence, shelf: Shelf) {
    match level {
        Level::Info => tracing::info!(term = term.0, "{text}"),
        Level::Warn => tracing::warn!(term = term.0, "{text}"),
        Level::Error => tracing::error!(term = term.0, "{text}"),
    }
    let row = Decision { at_unix_ms: unix_ms(), level, text, term: term.0, about };
    let _ = store.send(Work::Note(row, shelf));
}

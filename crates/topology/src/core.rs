//! The state that both plans (one writer, all nodes write) share: what is known of each node, the lanes, the term, what is on disk, the
//! running order, and the list of actions that the present fact has led to.
//!
//! Invariant: a lane's state is changed only by [`Core::set_lane`], which counts the epoch; the term only by [`Core::adopt`],
//! which refuses one that is not on disk.

use std::collections::VecDeque;
use std::time::Duration;

use crate::about::{About, Change};
use crate::action::{Action, Level, Sentence};
use crate::alarms::Alarms;
use crate::belief::{Belief, Doubt};
use crate::detector::Stall;
use crate::disk::{Choice, Disk, Ticket};
use crate::finding::{NodeState, Problem};
use crate::galera::Component;
use crate::nodes::Nodes;
use crate::order::{OrderDone, OrderId, OrderRefused};
use crate::routes::{Cut, LaneState};
use crate::settings::Settings;
use crate::time::{Now, seconds};
use crate::view::{Counts, Decision};
use crate::{NodeId, Origin, Term};

/// For this long after an operator drained a node or moved the writer away from it, its stop is expected.
const STOP_EXPECTED: Duration = Duration::from_secs(600);
/// On a starved host all nodes may miss probes together again and again: that this is left out is said once in this time.
const EXCUSED_SAID_GAP: Duration = Duration::from_secs(10);
/// Decisions kept for the view.
const DECISIONS_MAX: usize = 50;

/// What the operator's running order is waiting for.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub id: OrderId,
    pub since: Now,
    pub what: String,
}

/// An order that only waits for the disk.
#[derive(Clone, Debug)]
pub(crate) struct Saving {
    pub running: Running,
    pub ticket: Ticket,
    pub done: String,
    pub node: NodeId,
    /// The node as it was, if the disk fails.
    pub before: Before,
}

/// What an order changes of a node at once.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    pub sessions_max: Option<u32>,
    pub is_renumbered: bool,
    pub had_filters: Option<String>,
}

impl Before {
    pub fn of(node: &Belief) -> Self {
        Self {
            sessions_max: node.sessions_max,
            is_renumbered: node.is_renumbered,
            had_filters: node.had_filters.clone(),
        }
    }

    pub fn put_back(self, node: &mut Belief) {
        node.sessions_max = self.sessions_max;
        node.is_renumbered = self.is_renumbered;
        node.had_filters = self.had_filters;
    }
}

/// When the last automatic failover was decided on: that may have been before this process started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedOver {
    at: Now,
    before: Duration,
}

impl FailedOver {
    pub fn now(now: Now) -> Self {
        Self { at: now, before: Duration::ZERO }
    }

    /// So long before `now`.
    pub fn before(now: Now, ago: Duration) -> Self {
        Self { at: now, before: ago }
    }

    pub fn ago(self, now: Now) -> Duration {
        now.saturating_sub(self.at).saturating_add(self.before)
    }
}

#[derive(Clone)]
pub(crate) struct Core {
    pub settings: Settings,
    pub now: Now,
    pub stall: Stall,
    pub nodes: Nodes,
    pub term: Term,
    /// The writer of the last decision, also while its lane is held.
    pub writer: Option<NodeId>,
    /// When another node last became the writer, since the program started. A term may also rise without that (the start, a move that is undone).
    pub writer_changed_at: Option<Now>,
    pub disk: Disk,
    pub saving: Option<Saving>,
    /// Why no lane is open, when none is.
    pub hold: String,
    /// Of the routes that were published last.
    pub version: u64,
    pub out: Vec<Action>,
    pub decisions: VecDeque<Decision>,
    /// When any node last gave a sign of life.
    pub last_sign: Now,
    /// When it was last said that a silence of all nodes does not count.
    excused_said: Option<Now>,
    /// Sentences that stay true for a while are said once.
    said_once: Option<String>,
    /// It was said that no node can be the writer, and not yet that one is to be, or is.
    nobody_told: bool,
    /// The last automatic failover, where the next one has to wait for a time.
    pub failed_over: Option<FailedOver>,
    /// The writer came back without transactions of its own, as is on disk or on its way there.
    pub is_writer_incomplete: bool,
    /// What is remembered of the writer's component; see [`crate::galera::component`].
    pub component: Option<Component>,
    /// What was decided until now.
    pub counts: Counts,
}

impl Core {
    pub fn new(
        settings: Settings,
        term: Term,
        writer: Option<NodeId>,
        sessions_max: &[(NodeId, u32)],
        now: Now,
    ) -> Self {
        let limit = |id| sessions_max.iter().find(|(of, _)| *of == id).map(|(_, limit)| *limit);
        let belief = |(id, node): (u8, _)| Belief::new(node, limit(NodeId(id)), now);
        let nodes = Nodes::new((0..=u8::MAX).zip(&settings.nodes).map(belief).collect());
        Self {
            settings,
            now,
            stall: Stall::new(now),
            nodes,
            term,
            writer,
            writer_changed_at: None,
            disk: Disk::new(Choice { term, writer }),
            saving: None,
            hold: "no node has been checked yet".into(),
            version: 0,
            out: Vec::new(),
            decisions: VecDeque::new(),
            last_sign: now,
            excused_said: None,
            said_once: None,
            nobody_told: false,
            failed_over: None,
            is_writer_incomplete: false,
            component: None,
            counts: Counts::default(),
        }
    }

    /// A node gave a sign of life. If none had for a while, the cause was rather our own network or host than all nodes at once. The other
    /// nodes' missed probes of that time are then forgotten: they may answer a moment later. Only once for each node until it answers, so that
    /// a frozen node beside slow ones becomes silent all the same.
    pub fn alive(&mut self) {
        let silence = self.now.saturating_sub(self.last_sign);
        self.last_sign = self.now;
        let now = self.now;
        let mut excused = false;
        if silence > self.settings.probe_interval * 2 && self.nodes.len() > 1 {
            for node in self.nodes.iter_mut() {
                let misses = node.counts.misses;
                node.counts.excuse(now);
                excused |= node.counts.misses < misses;
            }
        }
        let said = self.excused_said.is_some_and(|at| now.saturating_sub(at) < EXCUSED_SAID_GAP);
        if excused && !said {
            self.excused_said = Some(now);
            let text = format!(
                "a node answers again after {} in which none did: missed probes of that time do not count",
                seconds(silence)
            );
            self.say(Level::Warn, text);
        }
    }

    pub fn node(&self, id: NodeId) -> &Belief {
        &self.nodes[id]
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Belief {
        &mut self.nodes[id]
    }

    /// Whether the configuration has the node. One that was removed keeps its id, and whatever comes late is about no other.
    pub fn known(&self, id: NodeId) -> bool {
        self.nodes.has(id)
    }

    pub fn name(&self, id: NodeId) -> &str {
        &self.node(id).name
    }

    // ---- sentences

    pub fn say(&mut self, level: Level, text: impl Into<String>) {
        self.say_about(About::Other, level, text);
    }

    /// The same, of what programs look for.
    pub fn say_about(&mut self, about: About, level: Level, text: impl Into<String>) {
        let text = text.into();
        match about {
            About::NobodyWrites => self.nobody_told = true,
            About::Chosen { .. } | About::Lost { .. } | About::Writes { .. } => self.nobody_told = false,
            _ => {}
        }
        if self.decisions.len() == DECISIONS_MAX {
            self.decisions.pop_front();
        }
        let at_unix_ms = self.now.as_millis() as u64;
        let term = self.term.0;
        let decision = Decision { at_unix_ms, level, text: text.clone(), term, about: about.clone() };
        self.decisions.push_back(decision);
        self.out.push(Action::Say(Sentence { level, text, about }));
    }

    /// Holds as no node can be the writer, for this reason; said once for each reason.
    pub fn hold(&mut self, because: String) {
        self.hold_about(About::NobodyWrites, Level::Error, because);
    }

    /// Holds until what is told of has come to its end; said once for each reason.
    pub fn hold_about(&mut self, about: About, level: Level, because: String) {
        if self.said_once.as_ref() != Some(&because) {
            self.said_once = Some(because.clone());
            self.say_about(about, level, because.clone());
        }
        self.hold = because;
    }

    /// Says something that stays true for a while, once, without holding for it.
    pub fn note(&mut self, level: Level, text: String) {
        self.note_about(About::Other, level, text);
    }

    /// The same, of what programs look for.
    pub fn note_about(&mut self, about: About, level: Level, text: String) {
        if self.said_once.as_ref() != Some(&text) {
            self.said_once = Some(text.clone());
            self.say_about(about, level, text);
        }
    }

    /// Whoever heard that no node can be the writer hears that this one takes statements again, where nothing was decided in between.
    pub fn say_again(&mut self, id: NodeId) {
        if self.nobody_told {
            let node = self.name(id).to_owned();
            let text = format!("{node} takes statements again, term {}", self.term);
            self.say_about(About::Writes { node }, Level::Info, text);
        }
    }

    /// What [`Self::hold`] or [`Self::note`] said last is over: if it comes again, it is said again.
    pub fn settled(&mut self) {
        self.said_once = None;
    }

    /// What the choice of a writer is about; said before the choice is in force.
    pub fn chosen(&self, id: NodeId, change: Change) -> About {
        let from = self.writer.map(|old| self.name(old).to_owned());
        About::Chosen { node: self.name(id).to_owned(), from, change }
    }

    // ---- lanes and terms

    pub fn set_lane(&mut self, id: NodeId, state: LaneState) {
        let node = self.node_mut(id);
        if node.lane != state {
            node.lane = state;
            node.cut = Cut::Nothing;
            if state == LaneState::Shut {
                if node.gone {
                    node.lost_epoch = Some(node.epoch);
                }
                node.epoch += 1;
                node.turned_away = false;
                node.alarms = Alarms::default();
            }
        }
    }

    /// Allows the proxy to break off what still runs on a draining lane. `true` if it may now break off more than before.
    pub fn set_cut(&mut self, id: NodeId, cut: Cut) -> bool {
        let node = self.node_mut(id);
        let more = node.lane == LaneState::Draining && cut > node.cut;
        if more {
            node.cut = cut;
        }
        more
    }

    /// [`crate::fact::ProxyFact::Cut`]: `origin` has cut every link of that epoch and of older ones.
    pub fn links_cut(&mut self, origin: Origin, id: NodeId, epoch: u64) {
        let node = self.node_mut(id);
        if epoch < node.epoch {
            node.proxies.cut(origin, epoch);
        }
    }

    /// No proxy has a link of an older epoch to the node.
    pub fn links_gone(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.proxies.have_cut(&self.settings.proxies, node.epoch)
    }

    /// [`crate::fact::ProxyFact::Quiesced`]: nothing runs on the lane at `origin`, seen under the routes of that version.
    pub fn quiesced(&mut self, origin: Origin, id: NodeId, epoch: u64, term: Term, version: u64) {
        let is_of_now = term == self.term && version <= self.version;
        let node = self.node_mut(id);
        if is_of_now && epoch == node.epoch {
            node.proxies.quiesced(origin, version);
        }
    }

    /// No proxy has a transaction on the node's draining lane, see [`crate::proxies::Proxies::are_quiet`].
    pub fn is_quiet(&self, id: NodeId, after: u64) -> bool {
        self.node(id).proxies.are_quiet(&self.settings.proxies, after)
    }

    pub fn any_open(&self) -> bool {
        self.nodes.iter().any(|node| node.lane == LaneState::Open)
    }

    /// Takes a term into use. Nothing happens when it is not on disk, or not newer.
    pub fn adopt(&mut self, term: Term) {
        if term <= self.disk.written {
            self.term = self.term.max(term);
        }
    }

    /// Has a new decision written. One that is not newer than the last is not: a term has one writer.
    pub fn decide(&mut self, term: Term, writer: Option<NodeId>) -> Ticket {
        if term > self.disk.choice.term {
            self.disk.choice = Choice { term, writer };
        }
        self.persist()
    }

    /// Has the newest decision written with the limits of sessions as they are now. It may not be in force yet: what is written under
    /// its term names its writer, never the one still in force.
    pub fn persist(&mut self) -> Ticket {
        let limit = |id: NodeId| Some((id, self.node(id).sessions_max?));
        let sessions_max = self.nodes.ids().filter_map(limit).collect();
        let Choice { term, writer } = self.disk.choice;
        let ticket = self.disk.ask(self.now);
        let failed_over_ago = self.failed_over.map(|at| at.ago(self.now));
        let renumbered = self.nodes.ids().filter(|id| self.node(*id).is_renumbered).collect();
        let filters = |id: NodeId| self.node(id).had_filters.clone().map(|filters| (id, filters));
        let filtered = self.nodes.ids().filter_map(filters).collect();
        let is_writer_incomplete = self.is_writer_incomplete && writer == self.writer;
        self.out.push(Action::Persist {
            number: ticket.0,
            term,
            writer,
            sessions_max,
            failed_over_ago,
            is_writer_incomplete,
            renumbered,
            filtered,
        });
        ticket
    }

    /// The number of the next decision.
    pub fn next_term(&self) -> Term {
        Term(self.disk.choice.term.0.max(self.term.0) + 1)
    }

    pub fn barrier(&mut self, node: NodeId, term: Term, lost: Option<NodeId>) {
        let within = self.settings.barrier_deadline;
        let at_least = self.component.as_ref().map(|component| component.seqno);
        self.out.push(Action::Barrier { node, term, lost, at_least, within });
    }

    // ---- questions: at most one connect and one status query under way for each node

    pub fn ask_confirm(&mut self, id: NodeId) {
        let (now, patience) = (self.now, self.patience());
        let node = self.node_mut(id);
        if node.confirm_asked.is_none_or(|at| now.saturating_sub(at) > patience) {
            node.confirm_asked = Some(now);
            self.out.push(Action::Confirm { node: id });
        }
    }

    pub fn ask_probe(&mut self, id: NodeId) {
        let (now, patience) = (self.now, self.patience());
        let node = self.node_mut(id);
        if node.confirm_asked.is_none() && node.probe_asked.is_none_or(|at| now.saturating_sub(at) > patience)
        {
            node.probe_asked = Some(now);
            self.out.push(Action::Probe { node: id });
        }
    }

    /// A question that got neither an answer nor an error in this time is taken for lost, and may be asked again.
    fn patience(&self) -> Duration {
        self.settings.probe_interval * (self.settings.misses_max + 1)
    }

    /// Something may have happened to the node: it takes no new transactions until it has answered a query that is sent from now on, and
    /// with `wants_link` until a new connection stands, too.
    pub fn doubt(&mut self, id: NodeId, why: String, wants_link: bool) {
        let asked_from = self.now;
        self.hold_until_heard(id, Doubt { why, wants_link, asked_from });
    }

    /// This process did not run: the node may have restarted, and an answer from before that says nothing.
    pub fn doubt_anew(&mut self, id: NodeId, why: String) {
        self.doubt(id, why, false);
        let now = self.now;
        if let Some(doubt) = &mut self.node_mut(id).doubt {
            doubt.asked_from = now;
        }
    }

    /// The node does not answer its probes: it takes no new transactions until it answers one of them, however late.
    pub fn doubt_silent(&mut self, id: NodeId, why: String) {
        self.hold_until_heard(id, Doubt { why, wants_link: false, asked_from: Duration::ZERO });
    }

    fn hold_until_heard(&mut self, id: NodeId, new: Doubt) {
        let now = self.now;
        let node = self.node_mut(id);
        node.lost_at.get_or_insert(now);
        match &mut node.doubt {
            Some(doubt) => {
                doubt.wants_link |= new.wants_link;
                // A later doubt does not ask for a later answer: with one doubt after the other the node would never be opened again.
                if doubt.asked_from == Duration::ZERO {
                    doubt.asked_from = new.asked_from;
                }
            }
            None => node.doubt = Some(new),
        }
    }

    // ---- is it the node or we that cannot be heard

    /// Another node than `id` answered or refused a connect after `moment`: so our own network works, and the silence is the node's.
    pub fn another_answered_since(&self, id: NodeId, moment: Now) -> bool {
        self.nodes.ids().any(|other| {
            let node = self.node(other);
            other != id
                && (node.answered_at.is_some_and(|at| at > moment)
                    || node.counts.refused_last.is_some_and(|at| at > moment))
        })
    }

    /// `id` is silent, and no other node has been heard since: it is rather our own network that fails.
    pub fn silent_alone(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.finding.state == NodeState::Silent
            && node.counts.missed_since.is_some_and(|since| !self.another_answered_since(id, since))
    }

    /// The node was just connected to again, and its first status is not there yet. Nothing can be held against it for that.
    pub fn first_word_awaited(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.linked && node.finding.problem == Problem::Unchecked
    }

    // ---- stops that an operator has announced by draining

    /// An operator took the traffic off the node.
    pub fn stop_expected(&mut self, id: NodeId) {
        self.node_mut(id).stop_expected_until = self.now + STOP_EXPECTED;
    }

    /// It takes traffic again: no stop is expected any more.
    pub fn stop_unexpected(&mut self, id: NodeId) {
        self.node_mut(id).stop_expected_until = Duration::ZERO;
    }

    /// Every node's state in one clause, for sentences that explain why nobody can be chosen.
    pub fn why_nobody(&self) -> String {
        let each: Vec<String> = self
            .nodes
            .iter()
            .map(|node| match &node.doubt {
                Some(doubt) => format!("{} is being confirmed ({})", node.name, doubt.why),
                None => format!("{} {}", node.name, node.finding.sentence),
            })
            .collect();
        each.join("; ")
    }

    // ---- answers

    pub fn answer_done(&mut self, order: &Running, sentence: String) {
        self.answer(order, sentence, true);
    }

    /// The same for an order after which everything is as it was.
    pub fn answer_unchanged(&mut self, order: &Running, sentence: String) {
        self.answer(order, sentence, false);
    }

    fn answer(&mut self, order: &Running, sentence: String, is_changed: bool) {
        let done = OrderDone {
            sentence,
            term: self.term,
            writer: self.writer,
            took: self.now.saturating_sub(order.since),
            is_changed,
        };
        self.out.push(Action::Answer { id: order.id, reply: Ok(done) });
    }

    pub fn refuse(&mut self, id: OrderId, code: &'static str, sentence: impl Into<String>) {
        let sentence = sentence.into();
        self.out.push(Action::Answer { id, reply: Err(OrderRefused { code, sentence }) });
    }
}

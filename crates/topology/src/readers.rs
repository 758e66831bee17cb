//! Which nodes take statements on the port for reads: a second set of lanes, one for each node, apart from those for writes.
//!
//! ```text
//!   a node's status ─> ages (how old is its data?) ───┐
//!   verdict, doubt, alarms of this port ──────────────┴─> fit or not ──> lanes, with epochs of their own ──> routes of the port for reads
//! ```
//!
//! When a node is not fit any more, its open lane drains: running statements end, new ones go to other nodes. The lane is shut, and its
//! connections are cut, only when the node is gone. The primary's lane is open while no replica's is, if the settings allow it.
//!
//! Nothing here affects the writer: none of its epochs, leases or terms is touched.

use std::sync::Arc;
use std::time::Duration;

use crate::NodeId;
use crate::account::Accounts;
use crate::action::{Action, Level};
use crate::alarms::Alarms;
use crate::belief::Belief;
use crate::catalogue::Catalogue;
use crate::core::Core;
use crate::finding::{Problem, Serves};
use crate::group::{Group, Reads};
use crate::nodes::ById;
use crate::reads::{self, Reached, View};
use crate::replication::Ages;
use crate::routes::{Cut, Lane, LaneState, Routes, ServerGreeting};
use crate::settings::Writers;
use crate::status::Status;
use crate::time::{Now, seconds};

/// For this long after the start the primary does not take reads for want of a replica: they may not have been asked yet.
const FIRST_WORDS: Duration = Duration::from_secs(2);
/// After this many missed probes in a row a node gets no new statements.
const MISSES_HELD: u32 = 2;

/// A node's lane for reads.
#[derive(Clone, Debug)]
struct Reader {
    state: LaneState,
    epoch: u64,
    lost_epoch: Option<u64>,
    alarms: Alarms,
    /// Why it is not open.
    why: Option<Unfit>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            state: LaneState::Shut,
            epoch: 0,
            lost_epoch: None,
            alarms: Alarms::default(),
            why: Some(Unfit::brief("has not been asked yet")),
        }
    }
}

/// Why a node takes no reads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unfit {
    sentence: String,
    /// Soon over, or in the journal for another reason. Otherwise the replica is behind.
    is_brief: bool,
}

impl Unfit {
    fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), is_brief: false }
    }

    fn brief(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), is_brief: true }
    }
}

/// What all routes have besides their lanes.
pub(crate) struct Common<'a> {
    pub greeting: &'a Option<Arc<ServerGreeting>>,
    pub accounts: &'a Arc<Accounts>,
    pub catalogue: &'a Option<Arc<Catalogue>>,
}

/// See the head of this file.
#[derive(Clone)]
pub(crate) struct Readers {
    pub settings: reads::Settings,
    lanes: ById<Reader>,
    ages: Ages,
    began: Now,
    version: u64,
    published: Option<Arc<Routes>>,
    reached: Option<Arc<Reached>>,
}

impl Readers {
    pub fn new(settings: reads::Settings, nodes: usize, now: Now) -> Self {
        Self {
            settings,
            lanes: ById::new(nodes),
            ages: Ages::new(nodes),
            began: now,
            version: 0,
            published: None,
            reached: None,
        }
    }

    /// Whether new reads may be sent to the node.
    pub fn takes_reads(&self, id: NodeId) -> bool {
        self.lane(id).state == LaneState::Open
    }

    /// The configuration does not have that node any more. What still runs there is cut.
    pub fn removed(&mut self, id: NodeId) {
        let lane = self.lane_mut(id);
        if lane.state != LaneState::Shut {
            *lane = Reader { epoch: lane.epoch + 1, lost_epoch: lane.lost_epoch, ..Reader::default() };
        }
    }

    /// The configuration has that node from now on: in a later epoch than any before, if it had it before.
    pub fn added(&mut self, id: NodeId, is_again: bool) {
        let epoch = if is_again { self.lane(id).epoch + 1 } else { 0 };
        self.lanes.put(id, Reader { epoch, ..Reader::default() });
        self.ages.added(id);
    }

    fn lane(&self, id: NodeId) -> &Reader {
        &self.lanes[id]
    }

    fn lane_mut(&mut self, id: NodeId) -> &mut Reader {
        &mut self.lanes[id]
    }

    // ---- facts

    /// Takes in a node's status. Called before `Belief` has it, which still holds the one before.
    pub fn heard(&mut self, core: &Core, id: NodeId, status: &Status, asked: Now) {
        if let Some(status) = status.replication() {
            self.ages.heard(core.writer == Some(id), id, status, asked, self.settings.lag_max);
        }
    }

    /// It said whether it serves, asked at `asked`.
    pub fn answered(&mut self, id: NodeId, asked: Now, serves: bool) {
        self.lane_mut(id).alarms.answered(asked, serves);
    }

    /// Traffic of the port for reads raised an alarm: the node is to be asked for its status.
    pub fn alarmed(&mut self, id: NodeId, epoch: u64, alarm: u64, now: Now) {
        let lane = self.lane_mut(id);
        if lane.epoch == epoch {
            lane.alarms.raised(alarm, now);
        }
    }

    /// What traffic of that epoch saw is about the lane as it is now.
    pub fn is_of_now(&self, id: NodeId, epoch: u64) -> bool {
        let lane = self.lane(id);
        lane.epoch == epoch && lane.state != LaneState::Shut
    }

    /// Links of that epoch may have had a statement.
    pub fn may_have_run(&self, id: NodeId, epoch: u64) -> bool {
        epoch + 1 >= self.lane(id).epoch
    }

    // ---- the decision

    /// Brings the lanes in line with what is believed, and publishes them.
    pub fn step(&mut self, core: &mut Core, group: &dyn Group, common: &Common) {
        if !self.settings.on {
            return;
        }
        let all: Vec<NodeId> = core.nodes.ids().collect();
        let primary = core.writer.filter(|_| core.settings.writers == Writers::One);
        for id in all.iter().copied().filter(|id| primary != Some(*id)) {
            let unfit = self.unfit(core, group, id);
            self.set(core, id, unfit);
        }
        if let Some(primary) = primary {
            let unfit = self.primary_unfit(core, primary);
            self.set(core, primary, unfit);
        }
        for id in all {
            if core.node(id).linked && self.lane(id).alarms.is_open() {
                core.ask_probe(id);
            }
        }
        self.tell_reached(core, primary);
        self.publish(core, common);
    }

    /// Why a node that is not the primary takes no reads; `None` when it may.
    fn unfit(&self, core: &Core, group: &dyn Group, id: NodeId) -> Option<Unfit> {
        let node = core.node(id);
        if let Some(doubt) = &node.doubt {
            return Some(Unfit::brief(format!("is being confirmed: {}", doubt.why)));
        }
        if node.drained() {
            return Some(Unfit::brief("is drained"));
        }
        if !node.linked || node.status.is_none() || node.counts.misses >= MISSES_HELD {
            let is_known = node.finding.serves == Serves::No && node.finding.problem != Problem::Unchecked;
            let why = if is_known { &node.finding.sentence } else { "does not answer at the moment" };
            return Some(Unfit::brief(why));
        }
        match group.reads(core, id) {
            Reads::No => return Some(Unfit::brief(&node.finding.sentence)),
            Reads::Current => return None,
            Reads::ByAge => {}
        }
        // A replica that fell behind takes reads again when it has caught up, not each time that it is below the limit for a moment.
        let was_behind = self.lane(id).why.as_ref().is_some_and(|why| !why.is_brief);
        let lag_max = if was_behind { self.settings.lag_max / 2 } else { self.settings.lag_max };
        match self.ages.lag(id) {
            None => Some(Unfit::brief("has not been compared with the primary yet")),
            Some(lag) if lag > lag_max => Some(Unfit::new(format!(
                "is {} behind the primary, and {} are allowed",
                seconds(lag),
                seconds(lag_max)
            ))),
            Some(_) => None,
        }
    }

    /// The primary takes reads when nobody else can.
    fn primary_unfit(&self, core: &Core, primary: NodeId) -> Option<Unfit> {
        let node = core.node(primary);
        let others = || core.nodes.ids().filter(|id| *id != primary);
        if !self.settings.fallback {
            return Some(Unfit::brief("is the primary"));
        }
        if others().any(|id| self.lane(id).state == LaneState::Open) {
            return Some(Unfit::brief("is the primary, and others take reads"));
        }
        let is_early = core.now.saturating_sub(self.began) < FIRST_WORDS;
        let awaited = |id: NodeId| {
            let node = core.node(id);
            node.finding.problem == Problem::Unchecked
                || (node.sound() && !node.drained() && self.ages.lag(id).is_none())
        };
        if is_early && others().any(awaited) {
            return Some(Unfit::brief("is the primary, and the others have not all been asked yet"));
        }
        let answers = node.linked && node.sound() && node.counts.misses < MISSES_HELD;
        (!answers).then(|| Unfit::brief(node.finding.sentence.as_str()))
    }

    fn set(&mut self, core: &mut Core, id: NodeId, unfit: Option<Unfit>) {
        let is_gone = core.node(id).gone && !core.silent_alone(id);
        let lane = self.lane_mut(id);
        let state = match (&unfit, lane.state) {
            (None, _) => LaneState::Open,
            (Some(_), LaneState::Shut) => LaneState::Shut,
            (Some(_), _) if is_gone => LaneState::Shut,
            (Some(_), _) => LaneState::Draining,
        };
        let before = std::mem::replace(&mut lane.state, state);
        if state == LaneState::Shut && before != LaneState::Shut {
            lane.lost_epoch = Some(lane.epoch);
            lane.epoch += 1;
            lane.alarms = Alarms::default();
        }
        let text = match (&unfit, &lane.why) {
            (Some(unfit), before)
                if !unfit.is_brief && before.as_ref().is_none_or(|before| before.is_brief) =>
            {
                Some(format!("takes no reads: it {}", unfit.sentence))
            }
            (None, Some(before)) if !before.is_brief => Some("takes reads again".to_owned()),
            _ => None,
        };
        lane.why = unfit;
        if let Some(text) = text {
            let text = format!("{} {text}", core.name(id));
            core.say(Level::Info, text);
        }
    }

    /// The primary's position by its last status.
    fn tell_reached(&mut self, core: &mut Core, primary: Option<NodeId>) {
        let is_read_only = |id: &NodeId| {
            let status = core.node(*id).status.as_ref().and_then(Status::replication);
            primary != Some(*id) && status.is_some_and(|status| status.read_only)
        };
        let read_only: Vec<NodeId> = core.nodes.ids().filter(is_read_only).collect();
        let (position, asked) = match self.ages.primary() {
            Some((position, asked)) => (Some(position), asked),
            None => (None, Now::ZERO),
        };
        let primary = primary.filter(|_| position.is_some());
        let old = self.reached.as_deref();
        if old.is_some_and(|old| old.asked == asked && old.primary == primary && old.read_only == read_only) {
            return;
        }
        let position = position.map_or_else(String::new, ToString::to_string).into();
        let reached = Arc::new(Reached { primary, position, asked, read_only });
        self.reached = Some(Arc::clone(&reached));
        core.out.push(Action::Reached(reached));
    }

    fn publish(&mut self, core: &mut Core, common: &Common) {
        let lane = |(id, node): (NodeId, &Belief)| {
            let lane = self.lane(id);
            Lane {
                node: id,
                name: node.name.as_str().into(),
                address: node.address.as_str().into(),
                state: lane.state,
                epoch: lane.epoch,
                sessions_max: node.sessions_max,
                looked: lane.alarms.looked,
                refused: lane.alarms.refused,
                lost_epoch: lane.lost_epoch,
                cut: Cut::Nothing,
                links_anew: node.links_anew,
                shows_sessions: node.shows_sessions,
                is_removed: !core.known(id),
            }
        };
        let lanes: Vec<Lane> = core.nodes.given().map(lane).collect();
        let hold: Option<Arc<str>> = self.closed_because(core).map(Into::into);
        let same = self.published.as_ref().is_some_and(|old| {
            old.term == core.term
                && old.lanes == lanes
                && old.hold_because == hold
                && old.greeting == *common.greeting
                && Arc::ptr_eq(&old.accounts, common.accounts)
                && old.catalogue == *common.catalogue
        });
        if same {
            return;
        }
        self.version += 1;
        let routes = Arc::new(Routes {
            version: self.version,
            term: core.term,
            lanes,
            hold_because: hold,
            greeting: common.greeting.clone(),
            accounts: Arc::clone(common.accounts),
            catalogue: common.catalogue.clone(),
        });
        self.published = Some(Arc::clone(&routes));
        core.out.push(Action::PublishReads(routes));
    }

    /// Why nobody takes reads, when nobody does.
    fn closed_because(&self, core: &Core) -> Option<String> {
        if core.nodes.ids().any(|id| self.takes_reads(id)) {
            return None;
        }
        let each = core.nodes.ids().map(|id| {
            let why = self.lane(id).why.as_ref().map_or("", |why| why.sentence.as_str());
            format!("{} {why}", core.name(id))
        });
        Some(format!("nobody takes reads: {}", each.collect::<Vec<_>>().join("; ")))
    }

    /// How the port for reads uses a node.
    pub fn view(&self, core: &Core, id: NodeId) -> View {
        let lane = self.lane(id);
        let lag = self.ages.lag(id).filter(|_| core.writer != Some(id));
        let age = lag.map(|lag| lag + self.ages.since_primary(core.now, core.writer, core));
        View {
            lane: self.settings.on.then_some(lane.state),
            epoch: lane.epoch,
            age_ms: age.map(|age| age.as_millis() as u64),
            age_max_ms: self.settings.lag_max.as_millis() as u64,
            why: lane.why.as_ref().filter(|_| self.settings.on).map(|why| why.sentence.clone()),
        }
    }
}

//! Other settings while the brain goes on: nodes that are removed and added, what is refused, and what stays as it was.

use std::time::Duration;

use topology::action::Action;
use topology::brain::{Brain, NotTaken, Restored};
use topology::fact::{ConnectFailure, Fact, LinkEnd, Outcome, ProxyFact};
use topology::galera::GaleraStatus;
use topology::health::Problem;
use topology::order::{Order, OrderId, OrderReply};
use topology::routes::{Lane, LaneState, ServerGreeting};
use topology::settings::{NodeSettings, Settings, Writers};
use topology::view::NodeView;
use topology::{NodeId, Origin, Term};

const MS: Duration = Duration::from_millis(1);
const BUDGET: Duration = Duration::from_secs(2);

fn settings(writers: Writers, names: &[&str]) -> Settings {
    let node = |name: &&str| NodeSettings { name: (*name).into(), address: format!("{name}:1"), priority: 0 };
    let mut settings = Settings::new("shop", writers, names.iter().map(node).collect());
    settings.reads.on = true;
    settings
}

/// A Galera cluster that works, and its proxy.
struct Story {
    brain: Brain,
    now: Duration,
    lanes: Vec<Lane>,
    reads: Vec<Lane>,
    orders: u64,
    /// The reply to the last order.
    reply: Option<OrderReply>,
    /// Of whom was written last that they are numbered as before.
    renumbered: Vec<NodeId>,
    /// The disk, the nodes and the proxy do not answer yet, and what they will answer.
    is_slow: bool,
    held: Vec<Fact>,
}

impl Story {
    /// Of db1, db2 and db3, which are well.
    fn new(writers: Writers) -> Self {
        let settings = settings(writers, &["db1", "db2", "db3"]);
        let mut story = Self::of(Brain::new(settings, Restored::default(), Duration::ZERO));
        (0..3).for_each(|node| story.is_well(node));
        story
    }

    fn of(brain: Brain) -> Self {
        Self {
            brain,
            now: Duration::ZERO,
            lanes: vec![],
            reads: vec![],
            orders: 0,
            reply: None,
            renumbered: vec![],
            is_slow: false,
            held: vec![],
        }
    }

    fn is_well(&mut self, node: u8) {
        let node = NodeId(node);
        let greeting = ServerGreeting {
            version: "x".into(),
            capabilities: 4,
            charset: 45,
            status: 2,
            plugin: "mysql_native_password".into(),
        };
        self.tell(Fact::LinkUp { node, greeting });
        let status = GaleraStatus {
            local_state: Some(4),
            cluster_status: "Primary".into(),
            cluster_size: 3,
            conf_id: 3,
            gcomm_uuid: format!("a-{}", node.0),
            ready: true,
            connected: true,
            ..GaleraStatus::default()
        };
        self.now += MS;
        self.tell(Fact::Status { node, status: status.into(), asked: self.now });
    }

    /// One fact; what follows is answered, unless the disk, the nodes and the proxy are slow.
    fn tell(&mut self, fact: Fact) {
        let mut facts = vec![fact];
        while let Some(fact) = facts.pop() {
            self.now += MS;
            let mut answers = Vec::new();
            for action in self.brain.on(self.now, fact) {
                match action {
                    Action::Publish(routes) => {
                        for (was, is) in self.lanes.iter().zip(&routes.lanes) {
                            let drains = is.state == LaneState::Draining && was.state == LaneState::Open;
                            if drains {
                                let (term, version) = (routes.term, routes.version);
                                let (node, epoch) = (is.node, is.epoch);
                                answers
                                    .push(ProxyFact::Quiesced { node, epoch, term, version }.by(Origin(0)));
                            }
                        }
                        self.lanes.clone_from(&routes.lanes);
                    }
                    Action::PublishReads(routes) => self.reads.clone_from(&routes.lanes),
                    Action::Persist { number, renumbered, .. } => {
                        self.renumbered = renumbered;
                        answers.push(Fact::Outcome(Outcome::Persisted { number }));
                    }
                    Action::Barrier { node, term, .. } => {
                        answers.push(Fact::Outcome(Outcome::BarrierPassed { node, term }));
                    }
                    Action::Answer { reply, .. } => self.reply = Some(reply),
                    _ => {}
                }
            }
            if self.is_slow { &mut self.held } else { &mut facts }.append(&mut answers);
        }
    }

    fn order(&mut self, order: Order) {
        self.orders += 1;
        self.tell(Fact::Order { id: OrderId(self.orders), order });
    }

    fn reconfigure(&mut self, settings: Settings) -> Result<(), NotTaken> {
        self.brain.reconfigure(self.now, settings)?;
        self.tell(Fact::Tick);
        Ok(())
    }

    fn refused(&mut self, settings: Settings) -> (&'static str, String) {
        let before = self.shown();
        match self.reconfigure(settings) {
            Err(NotTaken::Refused { code, sentence }) => {
                assert_eq!(self.shown(), before, "nothing has changed");
                (code, sentence)
            }
            other => panic!("{other:?}"),
        }
    }

    fn shown(&self) -> Vec<(String, LaneState, u64)> {
        self.view(|node| (node.name.clone(), node.lane, node.epoch))
    }

    fn view<T>(&self, of: impl Fn(&NodeView) -> T) -> Vec<T> {
        self.brain.view(self.now).nodes.iter().map(of).collect()
    }

    fn writer(&self) -> Option<String> {
        self.brain.view(self.now).writer
    }
}

#[test]
fn a_node_is_removed_when_its_connections_are_gone_and_added_with_a_later_epoch() {
    use LaneState::{Open, Shut};
    let mut story = Story::new(Writers::One);
    assert_eq!(story.writer().unwrap(), "db1");
    let to = Some(NodeId(1));
    story.order(Order::Switchover { to, budget: BUDGET, force: false });
    assert_eq!(story.writer().unwrap(), "db2");
    let without = settings(Writers::One, &["db3", "db2"]);
    let Err(NotTaken::Refused { code, .. }) = story.reconfigure(without.clone()) else { panic!() };
    assert_eq!(code, "node_in_use", "it takes reads");
    story.order(Order::Drain { node: NodeId(0), budget: BUDGET, force: false, temporary: false });
    let busy = story.reconfigure(without.clone()).unwrap_err();
    assert_eq!(busy, NotTaken::Busy("connections to db1 are still being closed".into()));
    story.tell(ProxyFact::Cut { node: NodeId(0), epoch: 0 }.by(Origin(0)));
    story.reconfigure(without).unwrap();
    assert_eq!(story.shown(), [("db3".into(), Shut, 0), ("db2".into(), Open, 0)]);
    assert_eq!(story.writer().unwrap(), "db2");
    let lane = |lane: &Lane| (lane.name.to_string(), lane.node.0, lane.is_removed);
    let lanes = |lanes: &[Lane]| lanes.iter().map(lane).collect::<Vec<_>>();
    let wanted = [("db1".into(), 0, true), ("db2".into(), 1, false), ("db3".into(), 2, false)];
    assert_eq!((lanes(&story.lanes), lanes(&story.reads)), (wanted.to_vec(), wanted.to_vec()));

    story.reconfigure(settings(Writers::One, &["db4", "db1", "db2", "db3"])).unwrap();
    assert_eq!(story.view(|node| (node.id.0, node.place)), [(3, 0), (0, 1), (1, 2), (2, 3)]);
    story.reconfigure(settings(Writers::One, &["db1", "db2", "db3", "db4"])).unwrap();
    let shown = story.shown();
    assert_eq!(shown[1..], [("db2".into(), Open, 0), ("db3".into(), Shut, 0), ("db4".into(), Shut, 0)]);
    assert!(shown[0].2 > 1, "its connections are none of before: {shown:?}");
    assert_eq!(story.view(|node| node.links_gone), [true; 4]);
    assert!(story.reads[0].epoch > 1, "{:?}", story.reads);
    assert_eq!(
        story.view(|node| node.problem),
        [Some(Problem::Unchecked), None, None, Some(Problem::Unchecked)]
    );
    story.is_well(0);
    story.order(Order::Switchover { to: Some(NodeId(0)), budget: BUDGET, force: false });
    assert_eq!(story.writer().unwrap(), "db1");
}

#[test]
fn the_writer_and_nodes_that_take_sessions_are_not_removed() {
    let mut story = Story::new(Writers::One);
    let (code, sentence) = story.refused(settings(Writers::One, &["db2", "db3"]));
    assert_eq!((code, sentence.starts_with("db1 is the writer")), ("node_in_use", true), "{sentence}");
    let mut story = Story::new(Writers::All);
    let (code, sentence) = story.refused(settings(Writers::All, &["db2", "db3"]));
    assert_eq!((code, sentence.starts_with("db1 takes sessions")), ("node_in_use", true), "{sentence}");
    // Another address is another node.
    let mut moved = settings(Writers::All, &["db1", "db2", "db3"]);
    moved.nodes[1].address = "elsewhere:1".into();
    assert_eq!(story.refused(moved).0, "node_in_use");
}

#[test]
fn nodes_are_not_removed_in_the_middle_of_something_and_other_settings_change() {
    let mut story = Story::new(Writers::One);
    story.is_slow = true;
    story.order(Order::Switchover { to: Some(NodeId(2)), budget: BUDGET, force: false });
    let NotTaken::Busy(what) = story.reconfigure(settings(Writers::One, &["db1", "db3"])).unwrap_err() else {
        panic!()
    };
    assert_eq!(what, "a switchover from db1 to db3, term 2 is running");
    let mut quicker = settings(Writers::One, &["db1", "db2", "db3"]);
    quicker.probe_interval = MS * 100;
    quicker.nodes[1].priority = 7;
    story.reconfigure(quicker).unwrap();
    assert_eq!(story.view(|node| node.priority), [0, 7, 0]);
    assert_eq!(story.brain.view(story.now).order.unwrap(), "switchover from db1 to db3, term 2");

    let mut story = Story::new(Writers::All);
    story.is_slow = true;
    story.order(Order::Drain { node: NodeId(1), budget: BUDGET, force: false, temporary: false });
    let busy = story.reconfigure(settings(Writers::All, &["db3", "db2"])).unwrap_err();
    assert_eq!(busy, NotTaken::Busy("a drain of db2 is running".into()));
}

/// What the disk, the nodes and the proxy have not answered yet, of the order that runs.
fn answers(story: &mut Story) {
    story.is_slow = false;
    for fact in std::mem::take(&mut story.held) {
        story.tell(fact);
    }
}

#[test]
fn a_switchover_goes_on_to_the_same_node_when_nodes_are_moved_and_added() {
    let mut story = Story::new(Writers::One);
    story.is_slow = true;
    story.order(Order::Switchover { to: Some(NodeId(2)), budget: BUDGET, force: false });
    let lane = |story: &Story, id: u8| story.lanes[usize::from(id)].clone();
    assert_eq!(lane(&story, 0).state, LaneState::Draining);
    story.reconfigure(settings(Writers::One, &["db3", "db4", "db1", "db2"])).unwrap();
    assert_eq!(story.brain.view(story.now).order.unwrap(), "switchover from db1 to db3, term 2");
    answers(&mut story);
    assert_eq!(story.writer().unwrap(), "db3");
    assert_eq!((&*lane(&story, 2).name, lane(&story, 2).state), ("db3", LaneState::Open));
    assert_eq!((&*lane(&story, 0).name, lane(&story, 0).state), ("db1", LaneState::Shut));
    let open = |node: &NodeView| (node.name.clone(), node.lane == LaneState::Open);
    let wanted = [("db3", true), ("db4", false), ("db1", false), ("db2", false)];
    assert_eq!(story.view(open), wanted.map(|(name, is_open)| (name.to_owned(), is_open)));

    // The same for a drain, where all nodes write.
    let mut story = Story::new(Writers::All);
    story.is_slow = true;
    story.order(Order::Drain { node: NodeId(1), budget: BUDGET, force: false, temporary: false });
    story.reconfigure(settings(Writers::All, &["db3", "db2", "db1"])).unwrap();
    answers(&mut story);
    assert_eq!(story.view(|node| node.lane), [LaneState::Open, LaneState::Shut, LaneState::Open]);
}

#[test]
fn what_comes_late_from_a_removed_node_is_about_no_other() {
    let mut story = Story::new(Writers::One);
    story.order(Order::Drain { node: NodeId(2), budget: BUDGET, force: false, temporary: false });
    story.reconfigure(settings(Writers::One, &["db4", "db1", "db2"])).unwrap();
    story.is_well(3);
    let before = story.view(|node| (node.id, node.doubt.clone(), node.state, node.linked));
    let how = ConnectFailure::Closed;
    let alarm = ProxyFact::TrafficLost { node: NodeId(2), epoch: 0, how, alarm: 1 };
    for fact in [
        alarm.clone().by(Origin(0)),
        ProxyFact::Reads(Box::new(alarm)).by(Origin(0)),
        Fact::LinkEnded { node: NodeId(2), how: LinkEnd::Closed },
        Fact::Outcome(Outcome::BarrierFailed { node: NodeId(2), term: Term(1), why: "late".into() }),
    ] {
        story.tell(fact);
        assert_eq!(story.view(|node| (node.id, node.doubt.clone(), node.state, node.linked)), before);
    }
    // One that was moved is the one that is meant.
    story.is_slow = true;
    let how = ConnectFailure::Closed;
    story.tell(ProxyFact::TrafficLost { node: NodeId(0), epoch: 0, how, alarm: 1 }.by(Origin(0)));
    assert_eq!(story.view(|node| node.doubt.is_some()), [false, true, false]);
}

#[test]
fn what_only_an_operator_may_end_is_kept_by_a_nodes_name() {
    let restored = Restored { renumbered: vec![NodeId(2)], ..Restored::default() };
    let brain = Brain::new(settings(Writers::One, &["db1", "db2", "db3"]), restored, Duration::ZERO);
    let mut story = Story::of(brain);
    (0..2).for_each(|node| story.is_well(node));
    let mut moved = settings(Writers::One, &["db1", "db2", "db3"]);
    moved.nodes[2].address = "elsewhere:1".into();
    story.reconfigure(moved.clone()).unwrap();
    let limit = |most| Order::SetSessionsMax { node: NodeId(1), sessions_max: Some(most) };
    story.order(limit(9));
    assert_eq!(story.renumbered, [NodeId(3)], "it has another address");
    story.reconfigure(settings(Writers::One, &["db1", "db2"])).unwrap();
    story.reconfigure(moved).unwrap();
    story.order(limit(8));
    assert_eq!(story.renumbered, [NodeId(3)], "it was taken out and put back");
}

#[test]
fn an_answer_from_before_a_node_was_drained_opens_nothing() {
    let mut story = Story::new(Writers::All);
    let drain = || Order::Drain { node: NodeId(1), budget: BUDGET, force: false, temporary: false };
    let undrain = || Order::Undrain { node: NodeId(1), temporary: false };
    story.order(drain());
    assert_eq!(story.lanes[1].state, LaneState::Shut);
    // The disk answers, and the node does not yet.
    let held = |story: &mut Story| {
        story.is_slow = true;
        story.order(undrain());
        loop {
            let is_other = |fact: &Fact| !is_passed(fact);
            let Some(at) = story.held.iter().position(is_other) else { break };
            let fact = story.held.remove(at);
            story.tell(fact);
        }
        std::mem::take(&mut story.held)
    };
    let mut from_before = held(&mut story);
    assert_eq!(from_before.len(), 1, "whether it has applied everything");
    story.is_slow = false;
    story.order(drain());
    assert!(held(&mut story).is_empty(), "two answers could not be told apart");
    story.tell(from_before.remove(0));
    assert_eq!(story.lanes[1].state, LaneState::Shut);
    let again = story.held.remove(0);
    story.tell(again);
    assert_eq!(story.lanes[1].state, LaneState::Open);
}

fn is_passed(fact: &Fact) -> bool {
    matches!(fact, Fact::Outcome(Outcome::BarrierPassed { .. }))
}

#[test]
fn an_order_that_names_a_removed_node_is_refused() {
    let mut story = Story::new(Writers::One);
    story.order(Order::Drain { node: NodeId(2), budget: BUDGET, force: false, temporary: false });
    story.reconfigure(settings(Writers::One, &["db1", "db2"])).unwrap();
    for order in [
        Order::Undrain { node: NodeId(2), temporary: false },
        Order::Switchover { to: Some(NodeId(2)), budget: BUDGET, force: true },
    ] {
        story.order(order);
        let refused = story.reply.take().unwrap().unwrap_err();
        assert_eq!(refused.code, "unknown_node");
        assert_eq!(refused.sentence, "there is no such node; the nodes are db1, db2");
    }
}

#[test]
fn reads_that_still_run_on_a_removed_node_are_cut_once() {
    use LaneState::{Draining, Open, Shut};
    let mut story = Story::new(Writers::One);
    assert_eq!((story.reads[2].state, story.reads[2].epoch), (Open, 0));
    story.order(Order::Drain { node: NodeId(2), budget: BUDGET, force: false, temporary: false });
    assert_eq!((story.reads[2].state, story.reads[2].epoch), (Draining, 0));
    story.reconfigure(settings(Writers::One, &["db1", "db2"])).unwrap();
    for nodes in [&["db2", "db1"], &["db1", "db2"]] {
        let lane = &story.reads[2];
        assert_eq!((&*lane.name, lane.state, lane.epoch, lane.is_removed), ("db3", Shut, 1, true));
        story.reconfigure(settings(Writers::One, nodes)).unwrap();
    }
    story.reconfigure(settings(Writers::One, &["db3", "db2", "db1"])).unwrap();
    assert_eq!((story.reads[2].state, story.reads[2].is_removed), (Shut, false));
    assert!(story.reads[2].epoch > 1);
    story.is_well(2);
    assert_eq!(story.reads[2].state, Open);
}

#[test]
fn an_id_is_never_anothers_and_there_are_not_more_than_a_byte_has() {
    let names: Vec<String> = (0..255).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let brain = Brain::new(settings(Writers::One, &names), Restored::default(), Duration::ZERO);
    let mut story = Story::of(brain);
    story.reconfigure(settings(Writers::One, &["db1"])).unwrap();
    assert_eq!(story.view(|node| node.id), [NodeId(255)]);
    let (code, sentence) = story.refused(settings(Writers::One, &["db1", "db2"]));
    assert_eq!(code, "restart", "{sentence}");
    story.reconfigure(settings(Writers::One, &["n7", "db1"])).unwrap();
    assert_eq!(story.view(|node| node.id), [NodeId(7), NodeId(255)]);
    // Another address is another node.
    let mut moved = settings(Writers::One, &["n7", "db1"]);
    moved.nodes[0].address = "elsewhere:1".into();
    assert_eq!(story.refused(moved).0, "restart");
}

#[test]
fn what_takes_a_restart_is_refused() {
    let mut story = Story::new(Writers::One);
    assert_eq!(story.refused(settings(Writers::All, &["db1", "db2", "db3"])).0, "restart");
    assert_eq!(story.refused(settings(Writers::One, &[])).0, "configuration");
}

#[test]
fn a_temporary_drain_stays_one_and_its_limit_comes_back() {
    let mut story = Story::new(Writers::One);
    story.order(Order::SetSessionsMax { node: NodeId(2), sessions_max: Some(9) });
    story.order(Order::Drain { node: NodeId(2), budget: BUDGET, force: false, temporary: true });
    story.reconfigure(settings(Writers::One, &["db3", "db1", "db2"])).unwrap();
    assert_eq!(story.view(|node| node.has_temporary_drain), [true, false, false]);
    story.order(Order::Undrain { node: NodeId(2), temporary: true });
    assert_eq!(story.view(|node| node.sessions_max), [Some(9), None, None]);
}

#[test]
fn a_node_that_is_added_writes_like_the_others_where_all_do() {
    let mut story = Story::new(Writers::All);
    story.reconfigure(settings(Writers::All, &["db4", "db1", "db2", "db3"])).unwrap();
    assert_eq!(story.view(|node| node.lane == LaneState::Open), [false, true, true, true]);
    story.is_well(3);
    assert_eq!(story.view(|node| node.lane == LaneState::Open), [true; 4]);
    assert_eq!(story.brain.view(story.now).term, Term(1));
}

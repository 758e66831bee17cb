//! Other settings while the brain goes on: nodes that are removed and added, what is refused, and what stays as it was.

use std::time::Duration;

use topology::action::Action;
use topology::brain::{Brain, NotTaken, Restored};
use topology::fact::{Fact, Outcome, ProxyFact};
use topology::galera::GaleraStatus;
use topology::health::Problem;
use topology::order::{Order, OrderId};
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
    /// What the disk, the nodes and the proxy do not answer yet.
    is_slow: bool,
}

impl Story {
    /// Of db1, db2 and db3, which are well.
    fn new(writers: Writers) -> Self {
        let brain =
            Brain::new(settings(writers, &["db1", "db2", "db3"]), Restored::default(), Duration::ZERO);
        let (lanes, reads) = (Vec::new(), Vec::new());
        let mut story = Self { brain, now: Duration::ZERO, lanes, reads, orders: 0, is_slow: false };
        (0..3).for_each(|node| story.is_well(node));
        story
    }

    fn is_well(&mut self, node: u8) {
        let node = NodeId(node);
        let greeting = ServerGreeting { version: "x".into(), capabilities: 4, charset: 45, status: 2 };
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
            for action in self.brain.on(self.now, fact) {
                match action {
                    Action::Publish(routes) => {
                        for (was, is) in self.lanes.iter().zip(&routes.lanes) {
                            let drains = is.state == LaneState::Draining && was.state == LaneState::Open;
                            if drains && !self.is_slow {
                                let (term, version) = (routes.term, routes.version);
                                let (node, epoch) = (is.node, is.epoch);
                                facts.push(ProxyFact::Quiesced { node, epoch, term, version }.by(Origin(0)));
                            }
                        }
                        self.lanes.clone_from(&routes.lanes);
                    }
                    Action::PublishReads(routes) => self.reads.clone_from(&routes.lanes),
                    Action::Persist { number, .. } if !self.is_slow => {
                        facts.push(Fact::Outcome(Outcome::Persisted { number }));
                    }
                    Action::Barrier { node, term, .. } if !self.is_slow => {
                        facts.push(Fact::Outcome(Outcome::BarrierPassed { node, term }));
                    }
                    _ => {}
                }
            }
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
    let names = |lanes: &[Lane]| lanes.iter().map(|lane| lane.name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        (names(&story.lanes), names(&story.reads)),
        (vec!["db3".into(), "db2".into()], names(&story.lanes))
    );

    story.reconfigure(settings(Writers::One, &["db1", "db2", "db3", "db4"])).unwrap();
    let shown = story.shown();
    assert_eq!(shown[1..3], [("db2".into(), Open, 0), ("db3".into(), Shut, 0)]);
    assert!(shown[0].2 > 1 && shown[3].2 > 1, "their connections are none of before: {shown:?}");
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
fn nodes_do_not_change_in_the_middle_of_something_and_other_settings_do() {
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
    let busy = story.reconfigure(settings(Writers::All, &["db3", "db2", "db1"])).unwrap_err();
    assert_eq!(busy, NotTaken::Busy("a drain of db2 is running".into()));
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
    story.order(Order::Undrain { node: NodeId(0), temporary: true });
    assert_eq!(story.view(|node| node.sessions_max), [Some(9), None, None]);
}

#[test]
fn a_node_that_is_added_writes_like_the_others_where_all_do() {
    let mut story = Story::new(Writers::All);
    story.reconfigure(settings(Writers::All, &["db4", "db1", "db2", "db3"])).unwrap();
    assert_eq!(story.view(|node| node.lane == LaneState::Open), [false, true, true, true]);
    story.is_well(0);
    assert_eq!(story.view(|node| node.lane == LaneState::Open), [true; 4]);
    assert_eq!(story.brain.view(story.now).term, Term(1));
}

//! The brain and the health rules cannot disagree: random reports of nodes and random events, and the same question to both.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use topology::action::Action;
use topology::brain::{Brain, Restored};
use topology::fact::{ConnectFailure, Fact, LinkEnd, Outcome, ProxyFact};
use topology::galera::GaleraStatus;
use topology::galera::words::admit;
use topology::health::{Problem, Question, Rules, Serves};
use topology::heartbeat::{Beat, Stall};
use topology::order::{Order, OrderId};
use topology::routes::ServerGreeting;
use topology::settings::{NodeSettings, Settings, Writers};
use topology::view::{ClusterView, NodeView};
use topology::{NodeId, Origin};

const STRICT: Rules = Rules::STRICT;
const KIND: Rules = Rules { donor: true, read_only: true, ..Rules::STRICT };

/// Passes a fact to the brain, and carries out its actions at once: disk writes succeed, and every node has applied everything.
fn tell(brain: &mut Brain, now: Duration, fact: Fact) {
    let mut facts = VecDeque::from([fact]);
    while let Some(fact) = facts.pop_front() {
        facts.extend(brain.on(now, fact).into_iter().filter_map(|action| match action {
            Action::Persist { number, .. } => Some(Fact::Outcome(Outcome::Persisted { number })),
            Action::Barrier { node, term, .. } => Some(Fact::Outcome(Outcome::BarrierPassed { node, term })),
            _ => None,
        }));
    }
}

fn brain(writers: Writers) -> Brain {
    let node = |number: u8| NodeSettings {
        name: format!("db{number}"),
        address: format!("db{number}:3306"),
        priority: 0,
    };
    let settings = Settings::new("shop", writers, (0..3).map(node).collect());
    Brain::new(settings, Restored::default(), Duration::ZERO)
}

fn up(node: u8) -> Fact {
    let greeting = ServerGreeting {
        version: "x".into(),
        capabilities: 4,
        charset: 45,
        status: 2,
        plugin: "mysql_native_password".into(),
    };
    Fact::LinkUp { node: NodeId(node), greeting }
}

fn said(node: u8, status: GaleraStatus) -> Fact {
    Fact::Status { node: NodeId(node), status: status.into(), asked: Duration::ZERO }
}

fn good() -> GaleraStatus {
    GaleraStatus {
        local_state: Some(4),
        cluster_status: "Primary".into(),
        cluster_size: 3,
        conf_id: 3,
        ready: true,
        connected: true,
        ..GaleraStatus::default()
    }
}

/// Every combination of what the rules examine; mostly only a little is wrong, since few nodes would be good otherwise.
fn word() -> impl Strategy<Value = GaleraStatus> {
    let rarely = || proptest::bool::weighted(0.1);
    (
        prop_oneof![12 => Just(Some(4)), 3 => (0u8..6).prop_map(Some), 1 => Just(None)],
        prop_oneof![8 => Just("Primary"), 1 => Just("primary"), 1 => Just("non-Primary"), 1 => Just("")],
        (rarely(), rarely(), rarely(), rarely(), rarely(), rarely()),
        prop_oneof![
            8 => Just(None),
            2 => Just(Some("DISABLED")),
            1 => Just(Some("SHUTDOWN")),
            1 => Just(Some("MAINTENANCE"))
        ],
    )
        .prop_map(|(local_state, cluster_status, bits, mode)| {
            let (not_ready, not_connected, desync, reject_queries, sst_donor_rejects, read_only) = bits;
            GaleraStatus {
                local_state,
                cluster_status: cluster_status.into(),
                ready: !not_ready,
                connected: !not_connected,
                desync,
                reject_queries,
                sst_donor_rejects,
                read_only,
                pxc_maint_mode: mode.map(str::to_owned),
                ..good()
            }
        })
}

/// Other events of a node.
#[derive(Clone, Debug)]
enum Event {
    Said(u8, GaleraStatus),
    Fact(Fact),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let node = || (0u8..3).prop_map(NodeId);
    let how = prop_oneof![
        Just(ConnectFailure::Refused),
        Just(ConnectFailure::TimedOut),
        Just(ConnectFailure::Rejected { errno: 1045, message: "no".into() })
    ];
    let end =
        prop_oneof![Just(LinkEnd::Closed), Just(LinkEnd::Goodbye { errno: 1053 }), Just(LinkEnd::Silent)];
    prop_oneof![
        6 => (0u8..3, word()).prop_map(|(node, status)| Event::Said(node, status)),
        3 => (0u8..3).prop_map(|node| Event::Fact(up(node))),
        2 => (node(), how).prop_map(|(node, how)| Event::Fact(Fact::ConnectFailed { node, how })),
        2 => (node(), end).prop_map(|(node, how)| Event::Fact(Fact::LinkEnded { node, how })),
        2 => node().prop_map(|node| Event::Fact(Fact::ProbeMissed { node, asked: Duration::ZERO })),
        1 => node().prop_map(|node| Event::Fact(ProxyFact::TrafficRefused { node, epoch: 0, errno: 1047, alarm: 0 }.by(Origin(0)))),
        1 => (node(), 0u64..9).prop_map(|(node, id)| {
            let budget = Duration::from_millis(100);
            Event::Fact(Fact::Order { id: OrderId(id), order: Order::Drain { node, budget, force: false, temporary: false } })
        }),
        3 => (1u64..300).prop_map(Event::Wait),
    ]
}

fn admitted(view: &ClusterView, node: &NodeView, rules: Rules) -> bool {
    view.ask(&node.name, Question::Member(rules)).unwrap().is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Only their own reports count for or against them.
    #[test]
    fn of_a_node_that_only_speaks_for_itself(all in any::<bool>(), words in proptest::collection::vec(word(), 3)) {
        let mut brain = brain(if all { Writers::All } else { Writers::One });
        let now = Duration::from_millis(1);
        for (node, word) in (0..).zip(&words) {
            tell(&mut brain, now, up(node));
            tell(&mut brain, now, said(node, word.clone()));
        }
        let view = brain.view(now);
        for (node, word) in view.nodes.iter().zip(&words) {
            prop_assert!(node.others.is_none() && node.doubt.is_none(), "{:?}", node);
            prop_assert_eq!(node.serves == Serves::Well, admit(word, STRICT).is_ok(), "{:?}", node);
            for rules in [STRICT, KIND, Rules::default()] {
                let asked = view.ask(&node.name, Question::Member(rules)).unwrap();
                prop_assert_eq!(asked, admit(word, rules), "{:?}", rules);
            }
        }
    }

    /// Whatever happens: a node that the proxy would choose is good, one that it would not choose is not, and findings from other nodes are
    /// never forgiven.
    #[test]
    fn whatever_happens(all in any::<bool>(), events in proptest::collection::vec(event(), 1..60)) {
        let mut brain = brain(if all { Writers::All } else { Writers::One });
        let mut now = Duration::from_millis(1);
        for node in 0..3 {
            tell(&mut brain, now, up(node));
            tell(&mut brain, now, said(node, good()));
        }
        for event in events {
            let fact = match event {
                Event::Said(node, status) => said(node, status),
                Event::Fact(fact) => fact,
                Event::Wait(ms) => {
                    now += Duration::from_millis(ms);
                    Fact::Tick
                }
            };
            tell(&mut brain, now, fact);
            let view = brain.view(now);
            for node in &view.nodes {
                let is_chosen = node.serves == Serves::Well && node.doubt.is_none();
                prop_assert_eq!(is_chosen, admitted(&view, node, STRICT), "{:?}", node);
                prop_assert!(!is_chosen || admitted(&view, node, KIND), "{:?}", node);
                let spoken_against = node.others.is_some() || node.doubt.is_some();
                prop_assert!(!spoken_against || !admitted(&view, node, KIND), "{:?}", node);
                let writes = view.ask(&node.name, Question::Writer).unwrap().is_ok();
                prop_assert!(!writes || (node.serves != Serves::No && node.doubt.is_none()), "{:?}", node);
                prop_assert!(!writes || all || node.writer, "{:?}", node);
            }
            let writers = view.nodes.iter().filter(|n| view.ask(&n.name, Question::Writer).unwrap().is_ok()).count();
            prop_assert!(all || writers <= 1);
        }
    }
}

#[test]
fn a_drained_node_is_not_good_however_kind_the_asker() {
    let mut brain = brain(Writers::One);
    let now = Duration::from_millis(1);
    for node in 0..3 {
        tell(&mut brain, now, up(node));
        tell(&mut brain, now, said(node, good()));
    }
    let order = Order::Drain { node: NodeId(2), budget: Duration::ZERO, force: false, temporary: false };
    tell(&mut brain, now, Fact::Order { id: OrderId(1), order });
    // Its own word is graver, and forgiven: the drain still counts.
    tell(&mut brain, now, said(2, GaleraStatus { read_only: true, ..good() }));
    let view = brain.view(now);
    assert_eq!(view.nodes[2].problem, Some(Problem::ReadOnly));
    let found = |rules| view.ask("db2", Question::Member(rules)).unwrap().unwrap_err().problem;
    assert_eq!((found(STRICT), found(KIND)), (Problem::ReadOnly, Problem::Drained));
    assert!(view.ask("db9", Question::Writer).is_none());
}

/// Also while no node can take over: a balancer must not assume that writes have somewhere to go.
#[test]
fn a_writer_that_does_not_commit_is_no_writer() {
    let mut brain = brain(Writers::One);
    let mut now = Duration::ZERO;
    tell(&mut brain, now, up(0));
    tell(&mut brain, now, said(0, good()));
    let is_writer = |brain: &Brain, now| brain.view(now).ask("db0", Question::Writer).unwrap();
    // The others are not there: after a while it is not waited for them.
    for _ in 0..100 {
        now += Duration::from_millis(20);
        tell(&mut brain, now, Fact::Tick);
    }
    tell(&mut brain, now, said(0, good()));
    assert_eq!(is_writer(&brain, now), Ok(()));
    let asked = now;
    for _ in 0..400 {
        now += Duration::from_millis(10);
        tell(
            &mut brain,
            now,
            Fact::Beat { node: NodeId(0), beat: Beat::Waits { asked, stall: Stall::Space } },
        );
    }
    assert_eq!(is_writer(&brain, now).unwrap_err().problem, Problem::NotCommitting);
    assert!(
        brain.view(now).nodes[0].stuck.is_some_and(|stuck| stuck.ms >= 3000 && stuck.why == Stall::Space)
    );
    assert_eq!(brain.wishes().iter().map(|(_, wish)| wish.beats).collect::<Vec<_>>(), [true, false, false]);
    tell(&mut brain, now, Fact::Beat { node: NodeId(0), beat: Beat::Committed { asked: now } });
    assert_eq!(is_writer(&brain, now), Ok(()));
}

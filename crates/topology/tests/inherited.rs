//! What a manager takes over from the one before it in the same process: connections that stand, and drains that are not an operator's.

#![allow(clippy::unwrap_used)] // tests fail by panicking

use std::time::Duration;

use topology::action::Action;
use topology::brain::{Brain, Restored};
use topology::fact::{Fact, Outcome};
use topology::order::{Order, OrderId};
use topology::routes::LaneState;
use topology::settings::{NodeSettings, Settings, Writers};
use topology::{NodeId, Term};

fn begin(restored: Restored) -> Brain {
    let node = |name: &str| NodeSettings { name: name.into(), address: format!("{name}:3306"), priority: 0 };
    let mut settings = Settings::new("shop", Writers::One, ["db1", "db2", "db3"].map(node).to_vec());
    settings.reads.on = true;
    Brain::new(settings, restored, Duration::ZERO)
}

#[test]
fn connections_from_before_stand_until_the_proxy_says_otherwise() {
    let mut brain = begin(Restored {
        term: Term(3),
        writer: Some(NodeId(0)),
        sessions_max: vec![None; 3],
        has_links: vec![true, false, false],
        ..Restored::default()
    });
    let gone = |brain: &Brain| {
        brain.view(Duration::from_secs(1)).nodes.iter().map(|node| node.links_gone).collect::<Vec<_>>()
    };
    assert_eq!(gone(&brain), [false, true, true]);
    brain.on(Duration::from_millis(1), Fact::Cut { node: NodeId(0), epoch: 0 });
    assert_eq!(gone(&brain), [true; 3]);
}

#[test]
fn what_runs_on_a_lane_for_reads_may_end() {
    let mut brain = begin(Restored {
        sessions_max: vec![None; 3],
        has_read_links: vec![false, true, false],
        ..Restored::default()
    });
    let actions = brain.on(Duration::from_millis(1), Fact::Tick);
    let reads = actions.into_iter().find_map(|action| match action {
        Action::PublishReads(routes) => Some(routes),
        _ => None,
    });
    let states: Vec<_> = reads.unwrap().lanes.iter().map(|lane| (lane.state, lane.epoch)).collect();
    assert_eq!(states, [(LaneState::Shut, 0), (LaneState::Draining, 1), (LaneState::Shut, 0)]);
}

/// Ends a drain for the time of some work; whether the node is drained then.
fn after_undrain(temporary_drains: Vec<bool>) -> bool {
    let mut brain =
        begin(Restored { sessions_max: vec![None, Some(0), None], temporary_drains, ..Restored::default() });
    let order = Order::Undrain { node: NodeId(1), temporary: true };
    let mut actions = brain.on(Duration::from_millis(1), Fact::Order { id: OrderId(1), order });
    // What is decided is written before it holds.
    while let Some(number) = actions.iter().find_map(|action| match action {
        Action::Persist { number, .. } => Some(*number),
        _ => None,
    }) {
        actions = brain.on(Duration::from_millis(2), Fact::Outcome(Outcome::Persisted { number }));
    }
    brain.view(Duration::from_millis(3)).nodes[1].sessions_max == Some(0)
}

#[test]
fn a_temporary_drain_stays_one() {
    assert!(!after_undrain(vec![false, true, false]));
    assert!(after_undrain(Vec::new()), "after a start it is taken for an operator's");
}

//! Two managers after one another, as the proxy sees them.

use topology::fact::ConnectFailure;
use topology::{NodeId, Term};

use super::*;

fn nodes(names: &[&str]) -> Vec<NodeSettings> {
    let node =
        |name: &&str| NodeSettings { name: (*name).into(), address: format!("{name}:3306"), priority: 0 };
    names.iter().map(node).collect()
}

/// Routes of a manager of these nodes: name, state and epoch of each.
fn routes(version: u64, lanes: &[(&str, LaneState, u64)]) -> Routes {
    let lane = |(place, (name, state, epoch)): (u8, &(&str, LaneState, u64))| Lane {
        state: *state,
        epoch: *epoch,
        ..Lane::shut(NodeId(place), *name, format!("{name}:3306"))
    };
    Routes {
        version,
        term: Term(7),
        lanes: (0..).zip(lanes).map(lane).collect(),
        hold_because: None,
        greeting: None,
        accounts: Arc::default(),
        catalogue: None,
    }
}

/// The lanes as the proxy has them: name, state, epoch.
fn lanes(routes: &Routes) -> Vec<(String, LaneState, u64)> {
    routes.lanes.iter().map(|lane| (lane.name.to_string(), lane.state, lane.epoch)).collect()
}

fn lane(name: &str, state: LaneState, epoch: u64) -> (String, LaneState, u64) {
    (name.to_owned(), state, epoch)
}

fn lost(node: u8, epoch: u64, alarm: u64) -> Fact {
    Fact::TrafficLost { node: NodeId(node), epoch, how: ConnectFailure::Reset, alarm }
}

use LaneState::{Draining, Open, Shut};

/// The manager of db1, db2 and db3 has opened db2 in epoch 4, under version 9.
fn first() -> Numbers {
    let mut numbers = Numbers::new(Port::Writes);
    numbers.next_manager(&nodes(&["db1", "db2", "db3"])).unwrap();
    let (passed_on, facts) =
        numbers.routes(&routes(9, &[("db1", Shut, 2), ("db2", Open, 4), ("db3", Shut, 0)]), false).unwrap();
    assert_eq!(lanes(&passed_on), [lane("db1", Shut, 2), lane("db2", Open, 4), lane("db3", Shut, 0)]);
    assert!(passed_on.version == 9 && facts.is_empty());
    numbers
}

#[test]
fn the_first_managers_numbers_are_the_proxys() {
    let mut numbers = first();
    assert!(matches!(
        numbers.fact(lost(1, 4, 3)),
        Some(Fact::TrafficLost { node: NodeId(1), epoch: 4, alarm: 3, .. })
    ));
}

#[test]
fn a_lane_that_stays_in_use_keeps_its_epoch_and_its_number() {
    let mut numbers = first();
    // db1 was taken out, db4 was added: db2 has another place now.
    let next = nodes(&["db2", "db3", "db4"]);
    assert_eq!(numbers.has_links(&next), [true, false, false]);
    assert!(numbers.in_use_without(&next).is_empty());
    numbers.next_manager(&next).unwrap();
    let nothing_yet = routes(1, &[("db2", Shut, 1), ("db3", Shut, 0), ("db4", Shut, 0)]);
    assert!(numbers.routes(&nothing_yet, false).is_none(), "the proxy goes on with the last routes");
    let decided = routes(2, &[("db2", Open, 1), ("db3", Shut, 0), ("db4", Shut, 0)]);
    let (passed_on, facts) = numbers.routes(&decided, false).unwrap();
    assert_eq!(
        lanes(&passed_on),
        [lane("db1", Shut, 2), lane("db2", Open, 4), lane("db3", Shut, 0), lane("db4", Shut, 0)]
    );
    assert!(passed_on.lanes[0].is_removed && !passed_on.lanes[1].is_removed);
    assert!(passed_on.version > 9);
    // The connections that it was told of are those of the present epoch.
    assert!(matches!(facts[..], [Fact::Cut { node: NodeId(0), epoch: 0 }]));
    assert!(matches!(
        numbers.fact(lost(1, 4, 1)),
        Some(Fact::TrafficLost { node: NodeId(0), epoch: 1, alarm: 1, .. })
    ));
    assert!(numbers.fact(lost(0, 2, 1)).is_none(), "a node that the manager does not have");
    // Later the manager shuts the lane and opens it again.
    let (passed_on, _) =
        numbers.routes(&routes(3, &[("db2", Open, 2), ("db3", Shut, 0), ("db4", Open, 0)]), false).unwrap();
    assert_eq!(lanes(&passed_on)[1..], [lane("db2", Open, 5), lane("db3", Shut, 0), lane("db4", Open, 0)]);
}

#[test]
fn a_lane_that_the_next_manager_does_not_open_is_cut_and_that_is_reported() {
    let mut numbers = first();
    let same = nodes(&["db1", "db2", "db3"]);
    numbers.next_manager(&same).unwrap();
    // db2 died meanwhile, and db1 was chosen.
    let decided = routes(3, &[("db1", Open, 0), ("db2", Shut, 1), ("db3", Shut, 0)]);
    let (passed_on, facts) = numbers.routes(&decided, false).unwrap();
    assert_eq!(lanes(&passed_on), [lane("db1", Open, 2), lane("db2", Shut, 5), lane("db3", Shut, 0)]);
    assert!(facts.is_empty(), "connections of the epoch before stand until the proxy says otherwise");
    let cut = numbers.fact(Fact::Cut { node: NodeId(1), epoch: 4 });
    assert!(matches!(cut, Some(Fact::Cut { node: NodeId(1), epoch: 0 })), "{cut:?}");
}

#[test]
fn a_manager_that_opens_nothing_is_not_awaited_for_ever() {
    let mut numbers = first();
    numbers.next_manager(&nodes(&["db1", "db2", "db3"])).unwrap();
    let undecided = routes(1, &[("db1", Shut, 0), ("db2", Shut, 1), ("db3", Shut, 0)]);
    assert!(numbers.routes(&undecided, false).is_none());
    let (passed_on, _) = numbers.routes(&undecided, true).unwrap();
    assert_eq!(lanes(&passed_on)[1], lane("db2", Shut, 5));
}

#[test]
fn before_anything_is_decided_nothing_is_passed_on() {
    let mut numbers = first();
    numbers.next_manager(&nodes(&["db1", "db2", "db3"])).unwrap();
    assert!(
        numbers.routes(&routes(0, &[("db1", Shut, 0), ("db2", Shut, 0), ("db3", Shut, 0)]), true).is_none()
    );
}

#[test]
fn all_lanes_in_use_are_awaited() {
    let mut numbers = Numbers::new(Port::Writes);
    let both = nodes(&["db1", "db2"]);
    numbers.next_manager(&both).unwrap();
    numbers.routes(&routes(1, &[("db1", Open, 1), ("db2", Draining, 1)]), false).unwrap();
    numbers.next_manager(&both).unwrap();
    assert!(numbers.routes(&routes(1, &[("db1", Open, 1), ("db2", Shut, 1)]), false).is_none());
    let (passed_on, _) = numbers.routes(&routes(2, &[("db1", Open, 1), ("db2", Open, 1)]), false).unwrap();
    assert_eq!(lanes(&passed_on), [lane("db1", Open, 1), lane("db2", Open, 1)]);
}

#[test]
fn a_node_that_drains_for_reads_is_not_awaited_and_may_be_taken_out() {
    let mut numbers = Numbers::new(Port::Reads);
    let all = nodes(&["db1", "db2", "db3"]);
    numbers.next_manager(&all).unwrap();
    let both = routes(1, &[("db1", Draining, 0), ("db2", Open, 0), ("db3", Open, 2)]);
    numbers.routes(&both, false).unwrap();
    assert_eq!(numbers.has_links(&all), [true; 3]);
    assert!(numbers.in_use_without(&all[1..]).is_empty());
    assert_eq!(numbers.in_use_without(&all[..2]), ["db3"]);
    numbers.next_manager(&all[1..]).unwrap();
    assert!(numbers.routes(&routes(1, &[("db2", Open, 1), ("db3", Draining, 1)]), false).is_none());
    let decided = routes(2, &[("db2", Open, 1), ("db3", Open, 1)]);
    let (passed_on, _) = numbers.routes(&decided, false).unwrap();
    assert_eq!(lanes(&passed_on), [lane("db1", Shut, 1), lane("db2", Open, 0), lane("db3", Open, 2)]);
}

#[test]
fn what_is_seen_before_the_next_manager_decides_waits_for_it() {
    let mut numbers = first();
    assert!(numbers.fact(lost(1, 4, 1)).is_some(), "the first manager is told");
    numbers.next_manager(&nodes(&["db2", "db1"])).unwrap();
    assert!(numbers.fact(lost(1, 4, 2)).is_none());
    let decided = routes(2, &[("db2", Open, 1), ("db1", Shut, 0)]);
    let (passed_on, facts) = numbers.routes(&decided, false).unwrap();
    // The manager has asked the node since alarm 1 was raised: the session that waits for an answer to it goes on.
    assert_eq!(passed_on.lanes[1].looked, 1);
    let told: Vec<_> = facts.iter().filter(|fact| matches!(fact, Fact::TrafficLost { .. })).collect();
    assert!(matches!(told[..], [Fact::TrafficLost { node: NodeId(0), epoch: 1, alarm: 2, .. }]));
    // In a later epoch alarms are counted anew.
    let (passed_on, _) = numbers.routes(&routes(3, &[("db2", Open, 2), ("db1", Shut, 0)]), false).unwrap();
    assert_eq!(passed_on.lanes[1].looked, 0);
}

#[test]
fn quiet_under_an_earlier_managers_routes_says_nothing_to_the_next() {
    let mut numbers = first();
    numbers.next_manager(&nodes(&["db1", "db2", "db3"])).unwrap();
    let decided = routes(2, &[("db1", Shut, 0), ("db2", Draining, 1), ("db3", Open, 0)]);
    let (passed_on, _) = numbers.routes(&decided, false).unwrap();
    let quiet = |version| Fact::Quiesced { node: NodeId(1), epoch: 4, term: Term(7), version };
    assert!(numbers.fact(quiet(9)).is_none());
    let told = numbers.fact(quiet(passed_on.version));
    assert!(matches!(told, Some(Fact::Quiesced { node: NodeId(1), epoch: 1, version: 2, .. })), "{told:?}");
}

#[test]
fn a_node_that_comes_back_has_its_number_again_and_one_at_another_address_has_not() {
    let mut numbers = first();
    numbers.next_manager(&nodes(&["db2"])).unwrap();
    let (passed_on, _) = numbers.routes(&routes(1, &[("db2", Open, 1)]), false).unwrap();
    let removed: Vec<bool> = passed_on.lanes.iter().map(|lane| lane.is_removed).collect();
    assert_eq!(removed, [true, false, true]);
    let mut next = nodes(&["db1", "db2", "db3"]);
    next[2].address = "elsewhere:3306".into();
    numbers.next_manager(&next).unwrap();
    let decided = routes(1, &[("db1", Shut, 0), ("db2", Open, 1), ("db3", Shut, 0)]);
    let (passed_on, _) = numbers.routes(&decided, false).unwrap();
    let removed: Vec<bool> = passed_on.lanes.iter().map(|lane| lane.is_removed).collect();
    assert_eq!(removed, [false, false, true, false]);
    assert_eq!(&*passed_on.lanes[3].address, "elsewhere:3306");
    for (number, lane) in passed_on.lanes.iter().enumerate() {
        assert_eq!(usize::from(lane.node.0), number);
    }
}

#[test]
fn a_node_in_use_is_named_before_it_is_taken_out() {
    let numbers = first();
    assert_eq!(numbers.in_use_without(&nodes(&["db1", "db3"])), ["db2"]);
    let mut moved = nodes(&["db1", "db2", "db3"]);
    moved[1].address = "elsewhere:3306".into();
    assert_eq!(numbers.in_use_without(&moved), ["db2"]);
}

#[test]
fn a_lane_of_a_node_that_is_gone_does_not_stay_open() {
    let mut numbers = first();
    // It came into use after it had been looked whether it may be taken out.
    numbers.next_manager(&nodes(&["db1", "db3"])).unwrap();
    let (passed_on, _) = numbers.routes(&routes(1, &[("db1", Open, 0), ("db3", Shut, 0)]), false).unwrap();
    assert_eq!(lanes(&passed_on)[1], lane("db2", Shut, 5));
}

#[test]
fn there_are_no_more_numbers_than_the_proxy_can_tell_apart() {
    let mut numbers = Numbers::new(Port::Writes);
    let many: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    numbers.next_manager(&nodes(&many.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    let others: Vec<String> = (0..57).map(|number| format!("m{number}")).collect();
    let others = nodes(&others.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(numbers.next_manager(&others), Err(TooMany));
    assert_eq!(numbers.next_manager(&others[..56]), Ok(()));
}

#[test]
fn the_primary_has_the_proxys_number() {
    let mut numbers = first();
    numbers.next_manager(&nodes(&["db3", "db2"])).unwrap();
    let reached = Reached {
        primary: Some(NodeId(1)),
        position: "0-1-5".into(),
        asked: std::time::Duration::from_secs(2),
        writable: vec![false, true],
    };
    let told = numbers.reached(&reached);
    assert_eq!(told.primary, Some(NodeId(1)));
    assert_eq!(told.writable, [true, true, false]);
}

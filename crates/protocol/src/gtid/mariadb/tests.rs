//! Tables of what a 10.11 server printed and took, and the laws of an order.

use super::*;
use proptest::prelude::*;

fn at(text: &str) -> Position {
    text.parse().unwrap()
}

fn holds(text: &str) -> State {
    text.parse().unwrap()
}

#[test]
fn positions_are_read_as_the_server_reads_them() {
    for (text, printed) in [
        ("", ""),
        ("0-1-100", "0-1-100"),
        ("1-9-3,0-2-1,10-2-1,3-7-1", "0-2-1,1-9-3,3-7-1,10-2-1"),
        (" 5-1-3, 6-1-3", "5-1-3,6-1-3"),
        ("05-1-3", "5-1-3"),
        ("4294967295-4294967295-18446744073709551615", "4294967295-4294967295-18446744073709551615"),
        ("5-1-0", "5-1-0"),
        // As copied from a client's table: the server would refuse these.
        ("5-1-3 ,6-1-3\n", "5-1-3,6-1-3"),
    ] {
        assert_eq!(at(text).to_string(), printed, "{text:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, error) in [
        ("5-1", "expected '-', found the end at byte 3"),
        ("5-1-", "expected a sequence number, found the end at byte 4"),
        ("5-1--3", "expected a sequence number, found '-' at byte 4"),
        ("5-1-3,", "expected a domain id, found the end at byte 6"),
        (",5-1-3", "expected a domain id, found ',' at byte 0"),
        ("5-1-3;6-1-3", "expected ',', found ';' at byte 5"),
        ("5-x-3", "expected a server id, found 'x' at byte 2"),
        ("5-\u{e4}-3", "expected a server id, found byte 0xc3 at byte 2"),
        ("4294967296-1-3", "a domain id is above 4294967295 at byte 0"),
        ("5-1-18446744073709551616", "a sequence number is above 18446744073709551615 at byte 4"),
        ("5-1-3,5-2-4", "a second GTID of domain 5 at byte 6"),
    ] {
        assert_eq!(text.parse::<Position>().unwrap_err().to_string(), error, "{text:?}");
    }
    let twice = "5-1-3,5-2-4,5-1-9".parse::<State>().unwrap_err();
    assert_eq!(twice.to_string(), "a second GTID of server 1 in domain 5 at byte 12");
    assert_eq!("5-1-3,5-1-4".parse::<Gtid>().unwrap_err().to_string(), "more than one GTID at byte 6");
    assert!("".parse::<Gtid>().is_err());
    assert_eq!("5-1-3".parse(), Ok(Gtid { domain: 5, server: 1, sequence: 3 }));
}

#[test]
fn states_are_printed_with_the_highest_of_a_domain_last() {
    for (text, printed) in [
        // Written by three servers and in four domains, as printed by the server.
        ("0-2-1,1-2-2,1-9-3,3-7-1,10-2-1", "0-2-1,1-2-2,1-9-3,3-7-1,10-2-1"),
        ("1-4-3,1-2-5", "1-4-3,1-2-5"),
        // The server would leave 1-3-9 last here, but not with more entries than it sorts by insertion.
        ("1-3-9,1-5-8,1-9-3,1-2-4", "1-9-3,1-2-4,1-5-8,1-3-9"),
        ("", ""),
    ] {
        assert_eq!(holds(text).to_string(), printed, "{text:?}");
    }
    assert_eq!(holds("0-2-1,1-2-2,1-9-3,3-7-1,10-2-1").position(), at("0-2-1,1-9-3,3-7-1,10-2-1"));
    assert_eq!(holds("1-4-3,1-2-5").position(), at("1-2-5"));
}

#[test]
fn positions_are_ordered_by_domain() {
    for (one, order, other) in [
        ("", Order::Equal, ""),
        ("0-1-5", Order::Equal, "0-1-5"),
        ("0-1-5", Order::Behind, "0-1-6"),
        ("0-1-5", Order::Behind, "0-2-6"),
        ("", Order::Behind, "0-1-1"),
        ("0-1-5,1-1-1", Order::Ahead, "0-1-5"),
        ("0-1-5", Order::Diverged, "0-2-5"),
        ("0-1-5,1-1-1", Order::Diverged, "0-1-4,1-1-2"),
        ("0-1-5", Order::Diverged, "1-1-5"),
        ("0-1-18446744073709551615", Order::Ahead, "0-1-18446744073709551614"),
    ] {
        assert_eq!(at(one).order(&at(other)), order, "{one} / {other}");
    }
}

#[test]
fn a_maximum_is_taken_by_domain_and_refused_after_a_split() {
    assert_eq!(at("0-1-5,1-1-1").max(&at("0-2-6,2-1-9")), Ok(at("0-2-6,1-1-1,2-1-9")));
    let split = at("0-1-5").max(&at("0-2-5")).unwrap_err();
    assert_eq!(split.to_string(), "0-1-5 and 0-2-5 have the same number and are not the same transaction");
}

#[test]
fn errant_transactions_are_those_of_a_server_that_the_other_knows_less_of() {
    for (state, primary, errant, numbers) in [
        ("0-1-101", "0-1-99,0-2-105", "0-1-100..101", 2),
        ("0-1-100", "0-1-99,0-2-105", "0-1-100", 1),
        ("0-1-99,0-2-104", "0-1-99,0-2-105", "", 0),
        // A write on a replica, though its position is far below the primary's.
        ("0-1-50,0-3-51", "0-1-99", "0-3-1..51", 51),
        ("0-1-50,7-3-2", "0-1-99,7-3-1", "7-3-2", 1),
        ("", "0-1-5", "", 0),
        ("0-1-18446744073709551615", "", "0-1-1..18446744073709551615", u128::from(u64::MAX)),
    ] {
        let runs = holds(state).minus(&holds(primary));
        assert_eq!((runs.to_string().as_str(), runs.numbers()), (errant, numbers), "{state} - {primary}");
        assert_eq!(holds(primary).contains(&holds(state)), runs.is_empty());
    }
}

#[test]
fn a_server_that_left_the_line_lacks_what_comes_before_its_last() {
    for (server, line, lacks) in [
        // Behind on the line, also where the last on both is another server's.
        ("0-1-40", "0-1-48", false),
        ("0-1-32,0-3-40", "0-3-42,0-1-48", false),
        // 33 to 46 of server 1 were lost by the others, and given again.
        ("0-1-46", "0-3-42,0-1-48", true),
        ("1-1-46", "0-3-42,0-1-48", false),
    ] {
        assert_eq!(holds(server).lacks_before_its_last(&holds(line)), lacks, "{server} beside {line}");
    }
}

#[test]
fn a_clone_is_judged_with_its_slave_position() {
    let old = holds("0-1-50");
    let mut clone = holds("");
    assert!(!clone.contains(&old));
    clone.add_position(&at("0-1-50"));
    assert!(clone.contains(&old));
    assert!(
        clone.contains_gtid("0-1-50".parse().unwrap()) && !clone.contains_gtid("0-1-51".parse().unwrap())
    );
    clone.add_position(&at("0-1-49"));
    assert_eq!(clone.to_string(), "0-1-50", "knowledge only grows");
}

#[test]
fn what_comes_before_the_last_common_transaction_is_had_though_it_is_not_named() {
    for (copy, other, has) in [
        // Its binlog begins after 100; server 2 wrote before, and perhaps server 3.
        ("0-1-120", "0-1-120,0-2-30,0-3-99", "0-3-99,0-2-30,0-1-120"),
        ("0-1-120", "0-1-110,0-2-30", "0-2-30,0-1-120"),
        // After the last that both have.
        ("0-1-120", "0-1-110,0-2-115", "0-1-120"),
        ("0-1-120", "0-1-110,0-2-110", "0-1-120"),
        // It names some of that server, so it would name these.
        ("0-1-120,0-2-20", "0-1-120,0-2-30", "0-2-20,0-1-120"),
        // Nothing in common, or not in that domain.
        ("", "0-2-30", ""),
        ("0-1-120", "0-2-30", "0-1-120"),
        ("0-1-120", "0-1-120,7-2-30", "0-1-120"),
    ] {
        assert_eq!(
            holds(copy).along(&holds(other), |_| true).to_string(),
            holds(has).to_string(),
            "{copy} / {other}"
        );
        assert_eq!(holds(copy).along(&holds(other), |_| false), holds(copy));
    }
    let reaches = |copy: &str, line: &str| holds(copy).reaches_along("0-2-30".parse().unwrap(), &holds(line));
    assert!(reaches("0-1-120", "0-1-110,0-2-130"), "though a later one of that server is missing");
    assert!(!reaches("0-1-120", "0-1-110") && !reaches("0-1-20", "0-1-110,0-2-30"));
}

#[test]
fn a_state_is_cut_at_a_position_by_number() {
    let state = holds("0-1-90,0-2-105,7-1-3");
    assert_eq!(state.up_to(&at("0-2-100")).to_string(), "0-1-90,0-2-100");
    assert_eq!(state.up_to(&at("0-2-50,7-9-9")).to_string(), "0-1-50,0-2-50,7-1-3");
    assert_eq!(state.without(1), holds("0-2-105"));
}

fn gtids() -> impl Strategy<Value = Vec<(u32, u32, u64)>> {
    // Few of each, so that they meet.
    proptest::collection::vec((0..4_u32, 0..4_u32, prop_oneof![0..6_u64, Just(u64::MAX)]), 0..8)
}

prop_compose! {
    fn positions()(gtids in gtids()) -> Position {
        Position { newest: gtids.into_iter().map(|(domain, server, sequence)| (domain, (sequence, server))).collect() }
    }
}

prop_compose! {
    fn states()(gtids in gtids()) -> State {
        let mut state = State::default();
        for (domain, server, sequence) in gtids {
            // Numbers begin with 1.
            state.add(Gtid { domain, server, sequence: sequence.max(1) });
        }
        state
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(position in positions(), state in states()) {
        prop_assert_eq!(position.to_string().parse::<Position>(), Ok(position));
        prop_assert_eq!(state.to_string().parse::<State>(), Ok(state));
    }

    #[test]
    fn no_text_panics(text in "[-0-9, ]{0,40}|\\PC{0,20}") {
        if let Ok(position) = text.parse::<Position>() {
            prop_assert_eq!(position.to_string().parse::<Position>(), Ok(position));
        }
    }

    #[test]
    fn positions_are_partly_ordered(a in positions(), b in positions(), c in positions()) {
        prop_assert_eq!(a.order(&a), Order::Equal);
        prop_assert_eq!(a.order(&b).reverse(), b.order(&a));
        prop_assert_eq!(a.order(&b) == Order::Equal, a == b);
        if a.contains(&b) && b.contains(&c) {
            prop_assert!(a.contains(&c));
        }
    }

    #[test]
    fn a_maximum_is_the_least_that_contains_both(a in positions(), b in positions(), c in positions()) {
        prop_assert_eq!(a.max(&a), Ok(a.clone()));
        prop_assert_eq!(a.max(&b).ok(), b.max(&a).ok());
        if let Ok(max) = a.max(&b) {
            prop_assert!(max.contains(&a) && max.contains(&b));
            prop_assert!(!(c.contains(&a) && c.contains(&b)) || c.contains(&max));
            if let (Ok(left), Ok(right)) = (max.max(&c), b.max(&c).and_then(|inner| a.max(&inner))) {
                prop_assert_eq!(left, right);
            }
        }
    }

    #[test]
    fn a_gap_is_nothing_only_when_no_domain_is_ahead(a in positions(), b in positions()) {
        if a.contains(&b) {
            prop_assert!(a.behind_by(&b).is_empty());
        }
        for (domain, numbers) in a.behind_by(&b) {
            let ours = a.in_domain(domain).map_or(0, |gtid| gtid.sequence);
            prop_assert_eq!(b.in_domain(domain).map(|gtid| gtid.sequence), ours.checked_add(numbers));
        }
    }

    #[test]
    fn states_are_a_lattice(a in states(), b in states(), c in states()) {
        let both = a.union(&b);
        prop_assert_eq!(&a.union(&a), &a);
        prop_assert_eq!(&both, &b.union(&a));
        prop_assert_eq!(both.union(&c), a.union(&b.union(&c)));
        prop_assert!(both.contains(&a) && both.contains(&b));
        prop_assert!(!(c.contains(&a) && c.contains(&b)) || c.contains(&both));
        prop_assert_eq!(a.contains(&b) && b.contains(&a), a == b);
    }

    #[test]
    fn a_difference_is_what_has_to_be_added(a in states(), b in states()) {
        let left = a.minus(&b);
        prop_assert!(a.minus(&a).is_empty());
        let mut whole = b.clone();
        for run in left.iter() {
            let Run { domain, server, after, last } = *run;
            prop_assert!(run.numbers() > 0);
            let gtid = |sequence| Gtid { domain, server, sequence };
            prop_assert!(a.contains_gtid(gtid(last)));
            prop_assert!(!b.contains_gtid(gtid(after + 1)));
            prop_assert!(after == 0 || b.contains_gtid(gtid(after)));
            whole.add(gtid(last));
        }
        prop_assert_eq!(whole, a.union(&b));
    }

    #[test]
    fn a_state_reaches_its_position(state in states()) {
        let position = state.position();
        for gtid in state.gtids() {
            prop_assert!(position.in_domain(gtid.domain).is_some_and(|newest| newest.sequence >= gtid.sequence));
        }
        for gtid in position.gtids() {
            prop_assert!(state.contains_gtid(gtid));
        }
    }
}

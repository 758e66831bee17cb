//! Tables from MySQL's manual, and the laws of sets held against plain sets of numbers.

use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
const B: &str = "ed102faf-eb00-11eb-8f20-0c5415bfaa1d";

fn set(text: &str) -> Set {
    text.parse().unwrap()
}

#[test]
fn sets_are_printed_as_the_server_prints_them() {
    for (text, printed) in [
        (String::new(), String::new()),
        (" ,, ".to_owned(), String::new()),
        ("3E11FA47-71CA-11E1-9E33-C80AA9429562:23".to_owned(), format!("{A}:23")),
        (format!("{A}:1-3:11:47-49"), format!("{A}:1-3:11:47-49")),
        (format!("{A}:47-49:11:1-3"), format!("{A}:1-3:11:47-49")),
        (format!("{A}:1-3:3-7:8"), format!("{A}:1-8")),
        (format!("{B}:1-19,{A}:1-3"), format!("{A}:1-3,{B}:1-19")),
        (format!("{A}:1-3,\n {A}:5 : 4\n"), format!("{A}:1-5")),
        // 8.3 and later: tags, in lower case, behind the untagged, under one UUID.
        (
            format!("{A}:Domain_1:1-3:15-21, {A}:Domain_2:8-52"),
            format!("{A}:domain_1:1-3:15-21:domain_2:8-52"),
        ),
        (format!("{B}:red:1,{B}:1-2:blue:1:green:1-117"), format!("{B}:1-2:blue:1:green:1-117:red:1")),
        (format!("{A}:_b:1:a2:1"), format!("{A}:_b:1:a2:1")),
        (format!("{A}:{}:7", "x".repeat(32)), format!("{A}:{}:7", "x".repeat(32))),
        // Nothing: a server without numbers, a tag without numbers, an interval that ends before it begins.
        (format!("{A},{A}:,{B}:5-3:red").replace(":,", ":9-1,"), String::new()),
        (format!("{A}:1-9223372036854775806"), format!("{A}:1-9223372036854775806")),
    ] {
        assert_eq!(set(&text).to_string(), printed, "{text:?}");
    }
    let lines = format!("{:#}", set(&format!("{B}:1-19,{A}:1-3")));
    assert_eq!(lines, format!("{A}:1-3,\n{B}:1-19"), "as the server does it");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, error) in [
        ("3e11fa47".to_owned(), "expected '-', found the end (in a UUID) at byte 8"),
        ("3e11fa4g".to_owned(), "expected a hexadecimal digit, found 'g' (in a UUID) at byte 7"),
        (format!("{A}:"), "expected a transaction number or a tag, found the end at byte 37"),
        (format!("{A}:0"), "transaction numbers begin with 1 at byte 37"),
        (format!("{A}:1-"), "expected a transaction number, found the end at byte 39"),
        (format!("{A}:1-x"), "expected a transaction number, found 'x' at byte 39"),
        (
            format!("{A}:9223372036854775807"),
            "a transaction number or a tag is above 9223372036854775806 at byte 37",
        ),
        (format!("{A}:1 2"), "expected ',' or ':', found '2' at byte 39"),
        (format!("{A}:1;{A}:2"), "expected ',' or ':', found ';' at byte 38"),
        (format!("{A}:{}:7", "x".repeat(33)), "a tag of more than 32 bytes at byte 37"),
        (format!("{A}:a-b:7"), "expected ',' or ':', found '-' at byte 38"),
        (format!("{A}:1,\u{e4}"), "expected a hexadecimal digit, found byte 0xc3 (in a UUID) at byte 39"),
    ] {
        assert_eq!(text.parse::<Set>().unwrap_err().to_string(), error, "{text:?}");
    }
}

#[test]
fn gtid_subset_as_in_the_manual() {
    for (part, whole, is_subset) in [
        (":23", ":21-57", true),
        (":23-25", ":21-57", true),
        (":20-25", ":21-57", false),
        (":tag:23", ":21-57", false),
        (":tag:23", ":21-57:tag:1-30", true),
    ] {
        let (part, whole) = (set(&format!("{A}{part}")), set(&format!("{A}{whole}")));
        assert_eq!(whole.contains(&part), is_subset, "{part} of {whole}");
        assert!(whole.contains(&set("")));
    }
}

#[test]
fn gtid_subtract_as_in_the_manual() {
    for (from, what, left) in [
        (":21-57", ":21", ":22-57"),
        (":21-57", ":20-25", ":26-57"),
        (":21-57", ":23-24", ":21-22:25-57"),
        (":21-57", ":57-60", ":21-56"),
        (":1-3:7-9", ":2-8", ":1:9"),
        (":1-9:tag:1-9", ":tag:2-9", ":1-9:tag:1"),
    ] {
        let (from, what) = (set(&format!("{A}{from}")), set(&format!("{A}{what}")));
        assert_eq!(from.minus(&what), set(&format!("{A}{left}")), "{from} - {what}");
        assert!(from.minus(&from).is_empty());
    }
}

#[test]
fn counting_is_exact_and_has_room_for_every_set() {
    assert_eq!(set(&format!("{A}:1-3:11:47-49,{B}:red:5")).count(), 8);
    let full = set(&format!("{A}:1-{NUMBER_MAX}:a:1-{NUMBER_MAX}:b:1-{NUMBER_MAX}"));
    assert_eq!(full.count(), 3 * u128::from(NUMBER_MAX));
    let gtid = |number| Gtid { source: full.sources().next().unwrap().0, number };
    assert!(full.contains_gtid(gtid(NUMBER_MAX)) && full.contains_gtid(gtid(1)));
    assert!(!full.contains_gtid(gtid(0)) && !full.contains_gtid(gtid(NUMBER_MAX + 1)));
    assert_eq!(gtid(7).to_string(), format!("{A}:7"));
}

#[test]
fn intervals_are_within_the_servers_numbers() {
    for (first, last) in [(0, 1), (2, 1), (1, NUMBER_MAX + 1), (u64::MAX, u64::MAX)] {
        assert_eq!(Interval::new(first, last), None);
    }
    assert_eq!(Interval::new(3, 9).map(|interval| (interval.first(), interval.last())), Some((3, 9)));
}

/// Small numbers, so that a set of them can be counted one by one; two servers, one of them with a tag.
fn parts() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
    proptest::collection::vec((0..3_u8, 1..30_u64, 0..6_u64), 0..10)
}

fn source(nth: u8) -> Source {
    let text = [A.to_owned(), format!("{A}:tag"), B.to_owned()].into_iter().nth(usize::from(nth)).unwrap();
    set(&format!("{text}:1")).sources().next().unwrap().0
}

fn both(parts: &[(u8, u64, u64)]) -> (Set, BTreeSet<Gtid>) {
    let mut of: BTreeMap<Source, Vec<Interval>> = BTreeMap::new();
    let mut plain = BTreeSet::new();
    for &(nth, first, more) in parts {
        let source = source(nth);
        of.entry(source).or_default().push(Interval::new(first, first + more).unwrap());
        plain.extend((first..=first + more).map(|number| Gtid { source, number }));
    }
    (Set { of: of.into_iter().map(|(source, parts)| (source, Intervals::of(parts))).collect() }, plain)
}

fn plainly(set: &Set) -> BTreeSet<Gtid> {
    let numbers = |(source, intervals): (Source, &Intervals)| {
        let all: Vec<u64> = intervals.iter().flat_map(|part| part.first()..=part.last()).collect();
        all.into_iter().map(move |number| Gtid { source, number })
    };
    set.sources().flat_map(numbers).collect()
}

proptest! {
    #[test]
    fn sets_do_what_plain_sets_do(a in parts(), b in parts()) {
        let ((a, plain_a), (b, plain_b)) = (both(&a), both(&b));
        prop_assert_eq!(plainly(&a), plain_a.clone());
        prop_assert_eq!(a.count(), plain_a.len() as u128);
        prop_assert_eq!(plainly(&a.union(&b)), plain_a.union(&plain_b).copied().collect::<BTreeSet<_>>());
        prop_assert_eq!(plainly(&a.minus(&b)), plain_a.difference(&plain_b).copied().collect::<BTreeSet<_>>());
        prop_assert_eq!(a.contains(&b), plain_a.is_superset(&plain_b));
        prop_assert_eq!(a == b, plain_a == plain_b, "one set has one form");
        for nth in 0..3 {
            for number in 0..40 {
                let gtid = Gtid { source: source(nth), number };
                prop_assert_eq!(a.contains_gtid(gtid), plain_a.contains(&gtid));
            }
        }
    }

    #[test]
    fn what_is_printed_is_read_back(a in parts()) {
        let (a, _) = both(&a);
        prop_assert_eq!(a.to_string().parse::<Set>(), Ok(a));
    }

    #[test]
    fn sets_are_a_lattice(a in parts(), b in parts(), c in parts()) {
        let ((a, _), (b, _), (c, _)) = (both(&a), both(&b), both(&c));
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert_eq!(a.minus(&b).union(&b), a.union(&b));
        prop_assert!(a.minus(&b).minus(&b) == a.minus(&b) && a.contains(&a.minus(&b)));
        prop_assert_eq!(a.order(&b).reverse(), b.order(&a));
        prop_assert_eq!(a.order(&b) == Order::Equal, a == b);
    }

    #[test]
    fn no_text_panics(text in "([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(:[a-z_0-9-]{1,5}){0,3},?){0,3}|\\PC{0,30}") {
        if let Ok(set) = text.parse::<Set>() {
            prop_assert_eq!(set.to_string().parse::<Set>(), Ok(set));
        }
    }
}

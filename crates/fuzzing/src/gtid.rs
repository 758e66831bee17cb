//! GTID texts, as servers print them and as anybody else may write them.
//!
//! Input: two texts with a zero byte between them. Checked for MariaDB's positions and states and for MySQL's sets: nothing panics;
//! what is read and printed is read back as itself; an error lies within its text; order, union and difference of the two agree.

use protocol::gtid::mariadb::{Gtid, Position, State};
use protocol::gtid::mysql::Set;
use protocol::gtid::{Family, History, Order, ParseError};

pub(crate) fn holds(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (one, other) = text.split_once('\0').unwrap_or((text, ""));
    if let (Some(one), Some(other)) = (read::<Set>(one), read::<Set>(other)) {
        sets(&one, &other);
    }
    if let (Some(one), Some(other)) = (read::<State>(one), read::<State>(other)) {
        states(&one, &other);
    }
    if let (Some(one), Some(other)) = (read::<Position>(one), read::<Position>(other)) {
        positions(&one, &other);
    }
    let holds = |family| History::parse(family, one).ok();
    if let (Some(maria), Some(my)) = (holds(Family::MariaDb), holds(Family::MySql)) {
        assert!(maria.minus(&my).is_err() && my.minus(&maria).is_err(), "the families met");
    }
}

fn read<T>(text: &str) -> Option<T>
where
    T: std::str::FromStr<Err = ParseError> + std::fmt::Display + PartialEq + std::fmt::Debug,
{
    match text.parse::<T>() {
        Ok(value) => {
            assert_eq!(value.to_string().parse::<T>().as_ref(), Ok(&value), "printed and read back");
            Some(value)
        }
        Err(error) => {
            assert!(error.at_byte <= text.len() && !error.what.is_empty(), "{error}");
            None
        }
    }
}

fn sets(one: &Set, other: &Set) {
    let (all, left) = (one.union(other), one.minus(other));
    assert_eq!(left.union(other), all);
    assert_eq!(left.count() + other.count(), all.count());
    assert!(all.contains(one) && all.contains(other) && one.contains(&left));
    assert_eq!(left.is_empty(), other.contains(one));
    assert_eq!(one.order(other).reverse(), other.order(one));
    assert_eq!(one.order(other) == Order::Equal, one == other);
}

fn states(one: &State, other: &State) {
    let (all, left) = (one.union(other), one.minus(other));
    assert!(all.contains(one) && all.contains(other));
    assert_eq!(left.is_empty(), other.contains(one));
    let mut whole = other.clone();
    for run in left.iter() {
        let gtid = Gtid { domain: run.domain, server: run.server, sequence: run.last };
        assert!(run.numbers() > 0 && one.contains_gtid(gtid) && !other.contains_gtid(gtid));
        whole.add(gtid);
    }
    assert!(whole.contains(one));
}

fn positions(one: &Position, other: &Position) {
    assert_eq!(one.order(other).reverse(), other.order(one));
    assert_eq!(one.order(other) == Order::Equal, one == other);
    match one.max(other) {
        Ok(max) => assert!(max.contains(one) && max.contains(other)),
        Err(split) => {
            assert_eq!((split.one.domain, split.one.sequence), (split.other.domain, split.other.sequence))
        }
    }
}

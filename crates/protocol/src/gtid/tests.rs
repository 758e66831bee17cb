//! What holds for both families, and that they never meet.

use super::*;

fn position(family: Family, text: &str) -> Position {
    Position::parse(family, text).unwrap()
}

#[test]
fn the_families_refuse_each_other_even_when_both_are_empty() {
    let (maria, my) = (position(Family::MariaDb, ""), position(Family::MySql, ""));
    assert!(maria.is_empty() && my.is_empty());
    let refused = Incomparable::Families(Family::MariaDb, Family::MySql);
    assert_eq!(maria.order(&my), Err(refused.clone()));
    assert_eq!(maria.contains(&my), Err(refused.clone()));
    assert_eq!(maria.is_behind(&my), Err(refused.clone()));
    assert_eq!(maria.behind_by(&my), Err(refused.clone()));
    assert_eq!(maria.union(&my), Err(refused.clone()));
    assert_eq!(refused.to_string(), "GTIDs of MariaDB cannot be compared with those of MySQL");
    let (maria, my) =
        (History::parse(Family::MariaDb, "").unwrap(), History::parse(Family::MySql, "").unwrap());
    assert_eq!(my.minus(&maria), Err(Incomparable::Families(Family::MySql, Family::MariaDb)));
}

#[test]
fn a_text_of_the_other_family_is_an_error_and_not_an_empty_position() {
    let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5";
    let error = Position::parse(Family::MariaDb, uuid).unwrap_err();
    assert_eq!(error.to_string(), "expected '-', found 'e' at byte 1");
    let error = Position::parse(Family::MySql, "0-1-5").unwrap_err();
    assert_eq!(error.to_string(), "expected a hexadecimal digit, found '-' (in a UUID) at byte 1");
}

#[test]
fn a_text_without_end_is_refused() {
    let text = " ".repeat(TEXT_BYTES_MAX + 1);
    for family in [Family::MariaDb, Family::MySql] {
        let error = Position::parse(family, &text).unwrap_err();
        assert_eq!(error.to_string(), "longer than 4194304 bytes at byte 4194304");
    }
}

#[test]
fn a_gap_says_what_it_counts() {
    let gap = |family, behind: &str, ahead: &str| {
        position(family, behind).behind_by(&position(family, ahead)).unwrap().to_string()
    };
    assert_eq!(gap(Family::MariaDb, "0-1-5", "0-1-5"), "0 sequence numbers");
    assert_eq!(gap(Family::MariaDb, "0-1-5", "0-2-6"), "1 sequence number");
    assert_eq!(
        gap(Family::MariaDb, "0-1-5,7-1-1", "0-1-17,7-1-2"),
        "12 sequence numbers in domain 0, 1 in domain 7"
    );
    let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    assert_eq!(gap(Family::MySql, &format!("{uuid}:1-5"), &format!("{uuid}:1-5:8")), "1 transaction");
    assert_eq!(gap(Family::MySql, "", &format!("{uuid}:1-5:8")), "6 transactions");
}

#[test]
fn an_old_primary_that_has_more_is_found_by_history_and_not_by_position() {
    // db1 wrote 100 and 101; db2 had got 99, was promoted and wrote on.
    let old = ("0-1-101", "0-1-101");
    let new = ("0-2-105", "0-1-99,0-2-105");
    let at = |text| position(Family::MariaDb, text);
    assert_eq!(at(old.0).order(&at(new.0)), Ok(Order::Behind), "by numbers it could follow");
    let holds = |text| History::parse(Family::MariaDb, text).unwrap();
    let errant = holds(old.1).minus(&holds(new.1)).unwrap();
    assert_eq!((errant.to_string().as_str(), errant.count_max()), ("0-1-100..101", 2));
    assert!(!errant.is_empty());
    // The same in MySQL needs no second text.
    let (one, other) = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563");
    let at = |text: String| position(Family::MySql, &text);
    let (old, new) = (at(format!("{one}:1-101")), at(format!("{one}:1-99,{other}:1-5")));
    assert_eq!(old.order(&new), Ok(Order::Diverged));
    assert_eq!(old.behind_by(&new).unwrap().to_string(), "5 transactions");
}

#[test]
fn an_order_reversed_is_the_other_sides() {
    let at = |text| position(Family::MariaDb, text);
    for (one, other) in [("0-1-1", "0-1-1"), ("0-1-1", "0-1-2"), ("0-1-2", ""), ("0-1-1", "0-2-1")] {
        let (one, other) = (at(one), at(other));
        assert_eq!(one.order(&other).unwrap().reverse(), other.order(&one).unwrap());
    }
}

#[test]
fn what_a_server_wrote_first_is_told_from_what_it_applied() {
    let holds = |text| History::parse(Family::MariaDb, text).unwrap();
    let (has, lacks) = (holds("0-1-5,0-2-9,0-3-3"), holds("0-2-7"));
    let errant = has.minus(&lacks).unwrap();
    assert_eq!(errant.to_string(), "0-1-1..5,0-2-8..9,0-3-1..3");
    assert_eq!(errant.of(Origin::MariaDb(2)).to_string(), "0-2-8..9");
    assert!(errant.of(Origin::MySql(mysql::Uuid::default())).is_empty());
    assert!(!errant.is_exact() && holds("0-1-6").minus(&holds("0-1-5")).unwrap().is_exact());
    assert!(errant.is_any_in(&holds("0-3-3")) && !errant.is_any_in(&lacks));

    let (one, other) = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563");
    let holds = |text: String| History::parse(Family::MySql, &text).unwrap();
    let (has, lacks) =
        (holds(format!("{one}:1-5:late:1,{other}:1-9")), holds(format!("{one}:1-3,{other}:1-9")));
    let errant = has.minus(&lacks).unwrap();
    assert_eq!(errant.to_string(), format!("{one}:4-5:late:1"));
    // Whatever its tag, it is of that server.
    assert_eq!(errant.of(Origin::MySql(one.parse().unwrap())), errant);
    assert!(errant.of(Origin::MySql(other.parse().unwrap())).is_empty() && errant.is_exact());
    assert!(errant.is_any_in(&holds(format!("{one}:5-7"))) && !errant.is_any_in(&lacks));
}

#[test]
fn a_history_has_what_a_position_adds_and_nothing_of_the_other_family() {
    for (family, has, more, all) in [
        (Family::MariaDb, "0-1-5", "0-2-7", "0-1-5,0-2-7"),
        (
            Family::MySql,
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:6:tag:1",
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-6:tag:1",
        ),
    ] {
        let mut history = History::parse(family, has).unwrap();
        let more = position(family, more);
        assert!(!history.holds(&more) && history.holds(&position(family, has)));
        history.add(&more);
        assert_eq!(history.to_string(), all);
        assert!(history.holds(&more));
        let mut empty = History::empty(match family {
            Family::MariaDb => Family::MySql,
            Family::MySql => Family::MariaDb,
        });
        empty.add(&more);
        assert!(empty.to_string().is_empty() && !empty.holds(&more) && !empty.holds(&position(family, "")));
    }
}

#[test]
fn what_a_primary_of_mysql_is_about_to_commit_is_not_errant() {
    let (own, other) = ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002");
    let set = |text: &str| History::MySql(text.parse().unwrap());
    let replica = set(&format!("{own}:1-7,{other}:1-2"));
    let errant = replica.minus(&set(&format!("{own}:1-5"))).unwrap();
    let origin = Origin::MySql(own.parse().unwrap());
    assert_eq!(errant.clone().without_underway(origin).to_string(), format!("{other}:1-2"));
    let errant = set(&format!("{own}:1-7")).minus(&set(&format!("{own}:1-5"))).unwrap();
    assert!(errant.without_underway(origin).is_empty());
}

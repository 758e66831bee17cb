//! Tests the sentences: who could send what is missing, and why no node can.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

use measure::recovery::Reason;
use protocol::gtid::Family;

use super::keeps::Keeps;
use super::*;

const OURS: &str = "4d02cf61-e6ca-11f1-a31c-9aa338aa497e";
const OTHER: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";
const MB_A_SECOND: WriteRate = WriteRate { bytes_per_s: 1e6, transactions_per_s: 2_000.0 };

fn known(name: &str, is_there: bool, kept: Kept) -> Known {
    let state = if is_there { "Synced" } else { "no answer" };
    let why = "nobody knows".to_owned();
    Known {
        name: name.into(),
        state: state.into(),
        is_there,
        is_unasked: false,
        lasted: None,
        is_remembered: false,
        why,
        kept,
    }
}

/// A member whose gcache of 100 MB begins with this writeset, of a million.
fn member(name: &str, cached_downto: u64) -> Known {
    let donor = Donor {
        last_committed: 1_000_000,
        cached_downto,
        gcache_bytes: 100_000_000,
        is_dropping: true,
        mean_bytes: Some(500.0),
    };
    let kept = Kept::Galera {
        position: Some(1_000_000),
        history: Some(OURS.to_owned()),
        missed_bytes: None,
        donor: Some(donor),
        may_donate: true,
    };
    known(name, true, kept)
}

fn gone(history: Option<&str>, seqno: i64, missed_bytes: Option<u64>) -> Known {
    let history = history.map(str::to_owned);
    let kept = Kept::Galera { position: Some(seqno), history, missed_bytes, donor: None, may_donate: false };
    Known { lasted: Some(Duration::from_secs(60)), ..known("db3", false, kept) }
}

fn cluster(kind: Kind, nodes: Vec<Known>) -> Cluster {
    Cluster {
        kind,
        nodes,
        writes: MB_A_SECOND,
        measured: Duration::from_secs(5),
        busiest: None,
        data_bytes: Some(1_200_000_000),
        copied_bytes_per_s: None,
        notes: Vec::new(),
    }
}

/// The last node's row, converted to JSON and back as from a running server, and its sentence.
fn last_outlook(nodes: Vec<Known>) -> (Outlook, String) {
    let row = json!(cluster(Kind::Galera, nodes).outlooks().last().unwrap());
    let row: Outlook = serde_json::from_value(row).unwrap();
    let said = sentence(&row, "a full copy");
    (row, said)
}

#[test]
fn a_node_that_nobody_can_send_what_it_misses_says_why() {
    let both = || vec![member("db1", 500_000), member("db2", 500_000)];
    let of = |gone: Known| last_outlook([both(), vec![gone]].concat());
    let (row, said) = of(gone(Some(OTHER), 900_000, None));
    assert_eq!((row.returns_by, row.because), (Some(Way::Sst), Some(Reason::OtherHistory)));
    assert!(
        said.starts_with("has been away for 60.0 s; needs a full copy: its data are of another cluster"),
        "{said}"
    );
    let (row, said) = of(gone(Some(OURS), 1_000_001, None));
    assert_eq!((row.returns_by, row.because), (Some(Way::Sst), Some(Reason::Ahead)));
    assert!(said.contains("has transactions that no member has"), "{said}");
    let (row, _) = of(gone(Some(OURS), 400_000, None));
    assert_eq!((row.returns_by, row.because), (Some(Way::Sst), Some(Reason::Gone)));
    let (row, _) = of(gone(Some(OURS), -1, None));
    assert_eq!(row.because, Some(Reason::NoPosition));
    // Its last report may be newer than the last reports of the others.
    let just_gone = Known { lasted: Some(Duration::from_secs(1)), ..gone(Some(OURS), 1_000_001, None) };
    assert_eq!(of(just_gone).0.returns_by, Some(Way::Ist));
}

#[test]
fn one_member_that_has_it_is_chosen_and_named() {
    let nodes =
        vec![member("db1", 500_000), member("db2", 999_000), gone(Some(OURS), 900_000, Some(40_000_000))];
    let (row, said) = last_outlook(nodes);
    assert_eq!((row.returns_by, row.donors.as_slice()), (Some(Way::Ist), ["db1".to_owned()].as_slice()));
    // 100 MB minus a 128th, minus the bytes counted.
    assert!((row.away_max_s.unwrap() - 50.2).abs() < 0.1, "{row:?}");
    assert!(
        said.contains(
            "for another 50.1 s at the present rate of writes (only db1 can send what it misses), after that"
        ),
        "{said}"
    );
    // Its window ends like any other, so it gets warnings.
    assert!(matches!(row.forecast(), Some(Forecast::Missed(Some(_)))));
    let (row, _) =
        last_outlook(vec![member("db1", 500_000), member("db2", 500_000), gone(Some(OURS), 900_000, None)]);
    assert!(row.donors.is_empty(), "all have it");
}

#[test]
fn a_node_of_another_history_is_no_donor() {
    let mut stranger = member("db2", 1);
    if let Kept::Galera { history, .. } = &mut stranger.kept {
        *history = Some(OTHER.to_owned());
    }
    let (row, _) = last_outlook(vec![stranger, member("db1", 950_000), gone(Some(OURS), 900_000, None)]);
    assert_eq!((row.returns_by, row.because), (Some(Way::Sst), Some(Reason::Gone)));
}

#[test]
fn others_that_have_not_been_asked_yet_are_not_said_to_be_away() {
    let server = |name, is_there, is_primary| {
        let kept = Kept::Replication { position: None, binlogs: None, is_primary, missed_bytes: 0 };
        known(name, is_there, kept)
    };
    let cases = [
        (
            Kind::Galera,
            vec![gone(None, -1, None), member("db1", 500_000)],
            "nobody else is Synced: there is no donor",
        ),
        (
            Kind::Replication,
            vec![server("db2", false, false), server("db1", true, true)],
            "no other server answers that keeps binary logs which it could follow",
        ),
    ];
    for (kind, mut nodes, none) in cases {
        let why = |nodes: &[Known]| cluster(kind, nodes.to_vec()).outlooks()[1].why.clone();
        assert_eq!(why(&nodes).as_deref(), Some(none));
        nodes[0].is_unasked = true;
        assert_eq!(why(&nodes).as_deref(), Some("the others have not all been asked yet"));
    }
}

#[test]
fn an_absence_that_an_earlier_run_saw_begin_is_told_as_such() {
    let mut away = gone(Some(OURS), 900_000, None);
    away.is_remembered = true;
    let (_, said) = last_outlook(vec![member("db1", 500_000), away]);
    assert!(
        said.starts_with("was last seen 60.0 s ago, before this program started; may come back with IST"),
        "{said}"
    );
}

#[test]
fn how_fast_a_full_copy_is_says_where_that_comes_from() {
    let mut summary = cluster(Kind::Galera, Vec::new()).summary();
    assert_eq!(copy(&summary, None), "a full copy of 1.2 GB, 12.0 s at 100.0 MB a second (assumed)");
    summary.copied_bytes_per_s = Some(2e7);
    assert_eq!(
        copy(&summary, None),
        "a full copy of 1.2 GB, 60.0 s at 20.0 MB a second (as fast as the last one)"
    );
    assert_eq!(copy(&summary, Some(4e8)), "a full copy of 1.2 GB, 3.0 s at 400.0 MB a second");
    summary.full_copy_bytes = None;
    assert_eq!(copy(&summary, None), "a full copy");
}

#[test]
fn what_a_missing_right_hides_is_said_with_the_right() {
    let shows = Keeps { data_bytes: Some(5), ..Keeps::default() };
    let hides = Keeps { is_data_hidden: true, ..Keeps::default() };
    let all = notes([("db1", &hides), ("db2", &hides)].into_iter());
    assert!(
        all.len() == 1 && all[0].contains("db1, db2") && all[0].contains("GRANT PROCESS ON *.*"),
        "{all:?}"
    );
    assert!(notes([("db1", &hides), ("db2", &shows)].into_iter()).is_empty(), "one that tells is enough");
    let binlogs = Binlogs { is_hidden: true, ..Binlogs::default() };
    let hides = Keeps { data_bytes: Some(5), binlogs: Some(binlogs), ..Keeps::default() };
    let all = notes([("db1", &hides)].into_iter());
    assert!(all.len() == 1 && all[0].contains("BINLOG MONITOR"), "{all:?}");
}

#[test]
fn binary_logs_that_are_not_shown_are_judged_by_their_age() {
    let at = Position::parse(Family::MariaDb, "0-1-50").ok();
    let server = |name: &str, is_there, is_primary, binlogs| {
        let kept = Kept::Replication { position: at.clone(), binlogs, is_primary, missed_bytes: 0 };
        known(name, is_there, kept)
    };
    let hidden = Binlogs { is_hidden: true, age_max_s: Some(3600), ..Binlogs::default() };
    let away = Known { lasted: Some(Duration::from_secs(600)), ..server("db2", false, false, None) };
    let unseen = server("db3", false, false, None);
    let nodes = vec![server("db1", true, true, Some(hidden)), away, unseen];
    let rows = cluster(Kind::Replication, nodes).outlooks();
    assert_eq!((rows[1].returns_by, rows[1].away_max_s), (Some(Way::Binlogs), Some(3000.0)));
    // It is not known since when it is away.
    assert!(rows[2].returns_by.is_none() && rows[2].why.as_deref().unwrap().contains("BINLOG MONITOR"));
}

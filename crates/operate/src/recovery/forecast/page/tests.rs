//! The forecast's text and JSON, from what is known of the nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

use measure::recovery::WriteRate;
use measure::recovery::galera::Donor;

use super::*;
use doctor::windows::keeps::Binlogs;
use doctor::windows::{Cluster, Kept, Known};

const OURS: &str = "4d02cf61-e6ca-11f1-a31c-9aa338aa497e";
const MB_A_SECOND: WriteRate = WriteRate { bytes_per_s: 1e6, transactions_per_s: 2_000.0 };

fn known(name: &str, is_there: bool, kept: Kept) -> Known {
    let why = format!("nothing listens there; --position {name}=... tells what it has");
    let state = if is_there { "Synced" } else { "no answer" };
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

fn member(name: &str) -> Known {
    let donor = Donor {
        last_committed: 1_000_000,
        cached_downto: 800_001,
        gcache_bytes: 128_000_000,
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

fn gone(name: &str, position: Option<i64>) -> Known {
    let kept = Kept::Galera { position, history: None, missed_bytes: None, donor: None, may_donate: false };
    known(name, false, kept)
}

fn page(kind: Kind, nodes: Vec<Known>) -> Page {
    let cluster = Cluster {
        kind,
        nodes,
        writes: MB_A_SECOND,
        measured: Duration::from_secs(5),
        busiest: None,
        data_bytes: Some(1_200_000_000),
        copied_bytes_per_s: None,
        notes: Vec::new(),
    };
    Page {
        kind,
        summary: cluster.summary(),
        rows: cluster.outlooks(),
        is_served: false,
        away: Some(Duration::from_secs(120)),
        copy_bytes_per_s: None,
    }
}

#[test]
fn a_node_that_runs_and_one_that_is_gone() {
    let page = page(Kind::Galera, vec![member("db1"), member("db2"), gone("db3", Some(900_000))]);
    let sentences: Vec<String> = page.rows.iter().map(|row| sentence(row, &page.copy())).collect();
    assert_eq!(
        sentences[0],
        "may be away 1 min 55 s at the present rate of writes, after that it needs a full copy of 1.2 GB, 12.0 s at 100.0 MB a second (assumed)"
    );
    assert!(page.rows[0].is_well(Some(Duration::from_secs(115))), "that is short enough");
    assert!(!page.rows[0].is_well(Some(Duration::from_secs(116))));
    assert!(sentences[2].starts_with("may stay away another 57.2 s"), "{}", sentences[2]);
    let text = page.text();
    assert!(
        text.ends_with(
            "to be away for 2 min 0 s, a node needs gcache.size = 127M on every other node; this counts with 1.0 MB of writes a second, the present rate\n"
        ),
        "{text}"
    );
    assert_eq!(page.json()["nodes"][2]["returns_by"], "ist");
    assert_eq!(page.json()["gcache_bytes_wanted"], 133_039_370);
}

#[test]
fn a_node_that_was_seen_to_go_and_what_a_busier_minute_would_mean() {
    let mut away = gone("db3", Some(900_000));
    away.lasted = Some(Duration::from_secs(720));
    let cluster = Cluster {
        kind: Kind::Galera,
        nodes: vec![member("db1"), away],
        writes: MB_A_SECOND,
        measured: Duration::from_secs(300),
        busiest: Some(WriteRate { bytes_per_s: 2e6, transactions_per_s: 4_000.0 }),
        data_bytes: None,
        copied_bytes_per_s: None,
        notes: Vec::new(),
    };
    // Through its JSON, as from a running server.
    let row: Outlook = serde_json::from_value(json!(cluster.outlooks()[1])).unwrap();
    assert_eq!(
        sentence(&row, "a full copy"),
        "has been away for 12 min 0 s; may come back with IST for another 57.2 s at the present rate of writes \
         (28.6 s at that of the busiest minute of the last hour), after that it needs a full copy"
    );
    let page = Page {
        kind: Kind::Galera,
        summary: cluster.summary(),
        rows: cluster.outlooks(),
        is_served: true,
        away: Some(Duration::from_secs(60)),
        copy_bytes_per_s: None,
    };
    let text = page.text();
    assert!(
        text.ends_with(
            "this counts with 2.0 MB of writes a second, the rate of the busiest minute of the last hour\n"
        ),
        "{text}"
    );
}

#[test]
fn a_node_whose_position_nobody_knows() {
    let page = page(Kind::Galera, vec![member("db1"), gone("db3", None), gone("db4", Some(-1))]);
    let sentences: Vec<String> = page.rows.iter().map(|row| sentence(row, "a full copy")).collect();
    assert_eq!(sentences[0], "nobody else is Synced: there is no donor");
    assert_eq!(sentences[1], "nothing listens there; --position db3=... tells what it has");
    assert_eq!(
        sentences[2],
        "needs a full copy: it has no position (after a crash `mariadbd --wsrep-recover` may find one)"
    );
}

#[test]
fn a_replica_and_the_binary_logs_of_its_primary() {
    use protocol::gtid::{Family, Position};
    let at = |text| Position::parse(Family::MariaDb, text).ok();
    let server = |name, position, purged: &str, is_there: bool, is_primary: bool| {
        let binlogs = Binlogs {
            bytes: 5_000_000,
            newest_bytes: 1_000_000,
            oldest: Some("binlog.000003".into()),
            purged: Some(purged.to_owned()),
            age_max_s: Some(864_000),
            bytes_max: Some(601_000_000),
            is_hidden: false,
            files: Vec::new(),
        };
        let binlogs = is_there.then_some(binlogs);
        let kept = Kept::Replication { position: at(position), binlogs, is_primary, missed_bytes: 0 };
        known(name, is_there, kept)
    };
    let nodes = vec![
        server("db1", "0-1-50", "0-1-20", true, true),
        server("db2", "0-1-50", "", true, false),
        server("db3", "0-1-19", "", false, false),
        server("db4", "0-1-20", "", false, false),
    ];
    let page = page(Kind::Replication, nodes);
    let ways: Vec<Value> = page.rows.iter().map(|row| json!(row.returns_by)).collect();
    assert_eq!(ways, ["binlogs", "binlogs", "clone", "binlogs"]);
    // 600 MB at 1 MB a second; the age would allow ten days.
    assert_eq!(page.rows[1].away_max_s, Some(600.0));
    assert!(page.text().contains("needs a full copy of 1.2 GB"), "{}", page.text());
    let wanted = "a replica needs binlog_expire_logs_seconds = 120 or more (or 0, never) on its source, and room for 121.0 MB of binary logs there; this counts with 1.0 MB of writes a second, the present rate\n";
    assert!(page.text().ends_with(wanted), "{}", page.text());
}

use std::collections::BTreeMap;
use std::path::Path;

use manager::{Marks, ServerReading};
use topology::replication::Channel;

use super::accounts::Bypass;
use super::judge::report;
use super::read::{NodeFacts, ServerState, Variable};
use crate::judge::{Finding, Weight};
use crate::page;
use crate::replicas_account::ReplicasAccount;
use settings::Settings;

fn settings() -> Settings {
    let node = |n| format!("[[cluster.node]]\nname = \"db{n}\"\naddress = \"10.77.0.{n}:3306\"\n");
    let text = format!(
        "[cluster]\nname = \"shop\"\nkind = \"replication\"\n{}{}{}[cluster.monitor]\nuser = \"u\"\npassword = \"p\"\n\
         [cluster.replication]\nuser = \"r\"\npassword = \"r\"\n",
        node(1),
        node(2),
        node(3)
    );
    Settings::parse(Path::new("x.toml"), &text).unwrap()
}

/// A server with all right settings, by its number; the first is the primary.
fn good(number: u32) -> ServerState {
    let id = number.to_string();
    let is_primary = number == 1;
    let values = [
        ("version", "10.11.19-MariaDB"),
        ("server_id", &id),
        ("read_only", if is_primary { "OFF" } else { "ON" }),
        ("gtid_strict_mode", "ON"),
        ("gtid_domain_id", "0"),
        ("log_bin", "ON"),
        ("log_slave_updates", "ON"),
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("log_bin_compress", "OFF"),
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("rpl_semi_sync_slave_enabled", "ON"),
        ("rpl_semi_sync_master_enabled", if is_primary { "ON" } else { "OFF" }),
        ("rpl_semi_sync_master_wait_point", "AFTER_SYNC"),
        ("rpl_semi_sync_master_timeout", "3600000"),
        ("relay_log_recovery", "OFF"),
        ("slave_net_timeout", "10"),
        ("binlog_expire_logs_seconds", "0"),
    ];
    let variable = |value: &str| Variable { value: value.into(), origin: "CONFIG".into() };
    ServerState {
        variables: values.iter().map(|(name, value)| ((*name).to_owned(), variable(value))).collect(),
        is_replica: !is_primary,
        waits_for: is_primary.then_some(2),
        bypass: Some(vec![]),
        ..ServerState::default()
    }
}

fn file() -> BTreeMap<String, String> {
    let lines =
        [("read_only", "ON"), ("skip_slave_start", "ON"), ("init_rpl_role", "SLAVE"), ("log_bin", "binlog")];
    lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn servers(change: impl Fn(u32, &mut NodeFacts)) -> Vec<NodeFacts> {
    let server = |number| {
        let mut facts = NodeFacts {
            name: format!("db{number}"),
            address: format!("10.77.0.{number}:3306"),
            said: Ok(good(number)),
            file: Some(Ok(file())),
        };
        change(number, &mut facts);
        facts
    };
    (1..=3).map(server).collect()
}

fn found(change: impl Fn(u32, &mut NodeFacts)) -> Vec<Finding> {
    report(&settings(), &servers(change), &Marks::default()).findings
}

/// The findings when a variable has another value on all servers, or on one.
fn with(name: &str, value: &str, only: Option<u32>) -> Vec<Finding> {
    found(|number, facts| {
        if only.is_none_or(|only| only == number) {
            let said = facts.said.as_mut().unwrap();
            said.variables.insert(name.into(), Variable { value: value.into(), origin: "CONFIG".into() });
        }
    })
}

#[test]
fn databases_that_are_not_logged_are_told() {
    let nodes = servers(|number, node| {
        if number == 1 {
            node.said.as_mut().unwrap().unlogged = "Binlog_Ignore_DB = shop".into();
        }
    });
    let found = report(&settings(), &nodes, &Marks::default()).findings;
    assert!(
        found
            .iter()
            .any(|finding| finding.nodes == ["db1"] && finding.what.contains("Binlog_Ignore_DB = shop")),
        "{found:?}"
    );
}

#[test]
fn what_serve_has_seen_of_a_server_is_told() {
    let marks = Marks {
        renumbered: vec!["db2".into()],
        filtered: vec![("db3".into(), "Replicate_Do_DB = shop".into())],
    };
    let found = report(&settings(), &servers(|_, _| ()), &marks).findings;
    let is_told = |name: &str, what: &str| {
        found.iter().any(|finding| finding.nodes == [name] && finding.what.contains(what))
    };
    assert!(is_told("db2", "numbers began anew"), "{found:?}");
    assert!(is_told("db3", "Replicate_Do_DB = shop"), "{found:?}");
}

#[test]
fn servers_that_are_as_they_should_be_get_no_word() {
    let report = report(&settings(), &servers(|_, _| ()), &Marks::default());
    assert_eq!(report.findings.iter().map(|f| &f.what).collect::<Vec<_>>(), Vec::<&String>::new());
    let page = page::text(&report);
    assert!(page.contains("SHOULD BE") && page.contains("nothing to put right"), "{page}");
    assert!(!page.contains("seed article"), "{page}");
    let line = page.lines().find(|line| line.starts_with("read_only")).unwrap();
    let words: Vec<&str> = line.split_whitespace().take(6).collect();
    assert_eq!(words, ["read_only", "OFF", "ON", "ON", "ON", "on"], "{line}");
}

#[test]
fn each_rule_names_the_servers_the_reason_and_the_line() {
    use Weight::{Advice, Problem, Warning};
    let all: &[&str] = &["db1", "db2", "db3"];
    for (name, value, only, weight, nodes, line) in [
        ("read_only", "OFF", Some(2), Problem, &["db2"][..], "read_only = ON"),
        ("gtid_strict_mode", "OFF", None, Problem, all, "gtid_strict_mode = ON"),
        ("log_bin", "OFF", Some(3), Problem, &["db3"], "log_bin = binlog"),
        ("log_slave_updates", "OFF", Some(3), Problem, &["db3"], "log_slave_updates = ON"),
        ("binlog_format", "MIXED", None, Warning, all, "binlog_format = ROW"),
        ("binlog_row_image", "MINIMAL", None, Advice, all, "binlog_row_image = FULL"),
        ("log_bin_compress", "ON", None, Advice, all, "log_bin_compress = OFF"),
        ("sync_binlog", "0", None, Warning, all, "sync_binlog = 1"),
        (
            "innodb_flush_log_at_trx_commit",
            "2",
            Some(1),
            Warning,
            &["db1"],
            "innodb_flush_log_at_trx_commit = 1",
        ),
        (
            "rpl_semi_sync_slave_enabled",
            "OFF",
            Some(3),
            Warning,
            &["db3"],
            "rpl_semi_sync_slave_enabled = ON",
        ),
        (
            "rpl_semi_sync_master_wait_point",
            "AFTER_COMMIT",
            None,
            Warning,
            all,
            "rpl_semi_sync_master_wait_point = AFTER_SYNC",
        ),
        (
            "rpl_semi_sync_master_timeout",
            "10000",
            None,
            Warning,
            all,
            "rpl_semi_sync_master_timeout = 3600000",
        ),
        ("relay_log_recovery", "ON", None, Warning, all, "relay_log_recovery = OFF"),
        ("slave_net_timeout", "60", None, Advice, all, "slave_net_timeout = 10"),
        ("binlog_expire_logs_seconds", "3600", None, Warning, all, "binlog_expire_logs_seconds = 604800"),
        ("super_read_only", "OFF", Some(2), Advice, &["db2"], "super_read_only = ON"),
        ("gtid_domain_id", "7", Some(2), Warning, all, "gtid_domain_id = 0"),
    ] {
        let findings = with(name, value, only);
        let finding = findings
            .iter()
            .find(|f| f.what.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {findings:#?}"));
        let mut who = finding.nodes.clone();
        who.sort();
        assert_eq!(
            (finding.weight, who),
            (weight, nodes.iter().map(|n| (*n).to_owned()).collect()),
            "{name}"
        );
        assert_eq!(finding.my_cnf, [line], "{name}");
        assert!(!finding.because.is_empty(), "{name}");
    }
    let findings = with("server_id", "1", Some(2));
    assert_eq!((findings[0].weight, findings[0].nodes.len()), (Problem, 2));
}

#[test]
fn a_replica_that_leaves_something_out_is_named_with_its_filters() {
    let findings = found(|number, facts| {
        let channel =
            Channel { filters: vec!["Replicate_Ignore_Server_Ids = 1".into()], ..Channel::default() };
        let mut standing = ServerReading::default();
        if number == 2 {
            standing.status.channels = vec![channel];
        }
        standing.status.read_only = number != 1;
        facts.said.as_mut().unwrap().standing = Some(standing);
    });
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!((only.weight, &*only.nodes), (Weight::Problem, &["db2".to_owned()][..]));
    assert_eq!(only.what, "it has replication filters: Replicate_Ignore_Server_Ids = 1");
    assert!(only.because.contains("make it a copy of the primary"), "{only:#?}");
}

#[test]
fn only_the_primary_waits_and_it_must_be_heard() {
    let on_replica = with("rpl_semi_sync_master_enabled", "ON", Some(2));
    assert_eq!((on_replica[0].weight, on_replica[0].nodes[0].as_str()), (Weight::Problem, "db2"));
    let off = with("rpl_semi_sync_master_enabled", "OFF", Some(1));
    assert!(off[0].what.contains("OFF on the primary"), "{off:#?}");
    let alone = found(|number, facts| {
        if number == 1 {
            facts.said.as_mut().unwrap().waits_for = Some(0);
        }
    });
    assert!(alone[0].what.starts_with("no replica acknowledges"), "{alone:#?}");
    let asynchronous = found(|_, facts| {
        let said = facts.said.as_mut().unwrap();
        for name in ["rpl_semi_sync_slave_enabled", "rpl_semi_sync_master_enabled"] {
            said.variables.get_mut(name).unwrap().value = "OFF".into();
        }
    });
    let [only] = &asynchronous[..] else { panic!("{asynchronous:#?}") };
    assert!(only.weight == Weight::Advice && only.what.contains("asynchronous"), "{only:#?}");
}

#[test]
fn accounts_that_go_past_read_only_are_named_with_the_way_out() {
    let bypass = |user: &str| Bypass { user: user.into(), host: "%".into(), right: "READ_ONLY ADMIN" };
    let findings =
        found(|_, facts| facts.said.as_mut().unwrap().bypass = Some(vec![bypass("app"), bypass("u")]));
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert!(only.what.ends_with("'app'@'%' (READ_ONLY ADMIN)"), "{only:#?}");
    assert_eq!(only.sql, ["REVOKE READ_ONLY ADMIN ON *.* FROM 'app'@'%'"]);
    let untold = found(|_, facts| facts.said.as_mut().unwrap().bypass = None);
    assert!(untold[0].what.contains("cannot be told"), "{untold:#?}");
}

#[test]
fn a_file_is_judged_where_it_can_be_read_and_asked_for_where_not() {
    let in_file = |name: &'static str, value: Option<&'static str>| {
        found(move |number, facts| {
            if number == 2
                && let Some(Ok(file)) = &mut facts.file
            {
                file.remove(name);
                file.extend(value.map(|value| (name.to_owned(), value.to_owned())));
            }
        })
    };
    for (name, value, what) in [
        ("read_only", None, "read_only is missing in its option file"),
        ("read_only", Some("OFF"), "read_only is OFF in its option file"),
        ("skip_slave_start", None, "skip_slave_start is missing in its option file"),
        ("init_rpl_role", Some("MASTER"), "init_rpl_role is MASTER in its option file"),
        ("rpl_semi_sync_master_enabled", Some("1"), "rpl_semi_sync_master_enabled is ON in its option file"),
        ("sync_binlog", Some("0"), "sync_binlog is 0 in its option file"),
    ] {
        let findings = in_file(name, value);
        let [only] = &findings[..] else { panic!("{name}: {findings:#?}") };
        assert_eq!((only.what.as_str(), only.nodes.as_slice()), (what, &["db2".to_owned()][..]));
    }
    for (name, value) in [("read_only", "1"), ("gtid_strict_mode", "1"), ("sync_binlog", "1")] {
        assert!(in_file(name, Some(value)).is_empty(), "{name}");
    }
    let unread = found(|_, facts| facts.file = None);
    let [only] = &unread[..] else { panic!("{unread:#?}") };
    assert!(only.what.contains("has skip_slave_start, init_rpl_role cannot be told"), "{only:#?}");
    let demoted = found(|number, facts| {
        facts.file = None;
        if number == 1 {
            facts.said.as_mut().unwrap().variables.get_mut("read_only").unwrap().origin = "SQL".into();
        }
    });
    assert!(
        demoted.iter().any(|f| f.nodes == ["db1"] && f.what.contains("has read_only, skip_slave_start")),
        "{demoted:#?}"
    );
}

#[test]
fn what_the_accounts_lack_comes_with_the_grant() {
    let findings = found(|_, facts| {
        let said = facts.said.as_mut().unwrap();
        said.lacks = vec!["RELOAD ON *.*: it is needed for forgetting".into()];
        said.lacks_for_errant = vec!["BINLOG REPLAY"];
        said.replicas_account = Some(ReplicasAccount::LacksRight);
    });
    let whats: Vec<&str> = findings.iter().map(|f| f.what.as_str()).collect();
    assert_eq!(
        whats,
        [
            "the monitor account u lacks RELOAD ON *.*",
            "the account that replicas log in with, r, lacks REPLICATION SLAVE",
            "the monitor account u lacks BINLOG REPLAY"
        ]
    );
    assert!(findings[0].sql[0].starts_with("GRANT SLAVE MONITOR"), "{:?}", findings[0].sql);
    let refused = found(|_, facts| {
        facts.said.as_mut().unwrap().replicas_account = Some(ReplicasAccount::Refused("1045".into()));
    });
    let first: Vec<&str> = refused[0].sql.iter().filter_map(|sql| sql.split(" '").next()).collect();
    assert_eq!(first, ["CREATE USER IF NOT EXISTS", "ALTER USER", "GRANT REPLICATION SLAVE ON *.* TO"]);
    assert!(refused[0].because.contains("understudy reload"), "{refused:#?}");
    let unreachable = found(|number, facts| {
        if number == 3 {
            facts.said = Err("nothing listens there".into());
        }
    });
    assert!(unreachable[0].what.starts_with("db3 (10.77.0.3:3306) cannot be asked"), "{unreachable:#?}");
}

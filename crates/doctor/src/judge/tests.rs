use std::path::Path;

use topology::galera::Process;

use super::*;
use crate::options::Options;
use crate::read::MissingPrivilege;

const DEFAULTS: &str = "evs.suspect_timeout = PT5S; evs.inactive_timeout = PT15S; evs.keepalive_period = PT1S; \
    evs.install_timeout = PT7.5S; evs.join_retrans_period = PT1S; evs.inactive_check_period = PT0.5S; \
    gcache.size = 128M; gcs.fc_limit = 16";

fn settings(more: &str) -> Settings {
    let node = |n| format!("[[cluster.node]]\nname = \"db{n}\"\naddress = \"10.77.0.{n}:3306\"\n");
    let nodes: Vec<_> = (1..=3).map(node).collect();
    let text = format!(
        "[cluster]\nname = \"shop\"\n{}[cluster.monitor]\nuser = \"u\"\npassword = \"p\"\n{more}",
        nodes.concat()
    );
    Settings::parse(Path::new("x.toml"), &text).unwrap()
}

fn said(options: &str) -> MemberState {
    MemberState {
        wsrep_on: true,
        options: Options::parse(options),
        cluster_size: Some(3),
        cluster_status: "Primary".into(),
        state: "Synced".into(),
        cluster_uuid: "c".into(),
        bytes_per_second: Some(1000.0),
        paused: Some(0.0),
        ..MemberState::default()
    }
}

fn three(said: [Result<MemberState, String>; 3]) -> Vec<NodeFacts> {
    let facts = |(n, said)| NodeFacts {
        name: format!("db{}", n + 1),
        address: format!("10.77.0.{}:3306", n + 1),
        said,
        file: None,
    };
    said.into_iter().enumerate().map(facts).collect()
}

fn all(one: &MemberState) -> Vec<NodeFacts> {
    three([Ok(one.clone()), Ok(one.clone()), Ok(one.clone())])
}

/// Without anything remembered.
fn report(settings: &Settings, nodes: &[NodeFacts]) -> Report {
    super::report(settings, nodes, None)
}

#[test]
fn galeras_defaults_get_one_piece_of_advice_with_the_exact_sql() {
    let report = report(&settings(""), &all(&said(DEFAULTS)));
    assert!(!report.must_act());
    let [advice] = &report.findings[..] else { panic!("{:#?}", report.findings) };
    assert_eq!(advice.weight, Weight::Advice);
    assert_eq!(
        advice.sql,
        [
            "SET GLOBAL wsrep_provider_options='evs.keepalive_period=PT0.2S; evs.suspect_timeout=PT0.6S; evs.inactive_timeout=PT2S; evs.install_timeout=PT1S; evs.join_retrans_period=PT0.2S'"
        ]
    );
    assert!(advice.my_cnf[0].contains("evs.inactive_check_period=PT0.1S"));
    assert!(advice.because.contains("10.3 s") && advice.because.contains("0.6 s"));
}

#[test]
fn the_cells_follow_the_settings() {
    let comes_to = |more: &str, options: &str, case: &str| {
        let report = report(&settings(more), &all(&said(options)));
        let cell = report.cells.iter().find(|cell| cell.case.starts_with(case)).unwrap();
        format!("{} -> {}", cell.decided_by, cell.comes_to)
    };
    let passive = "non-graceful (kill -9): passive";
    assert!(comes_to("", DEFAULTS, passive).contains("below 0.3 s"));
    assert!(comes_to("evict = \"never\"", DEFAULTS, passive).contains("-> 5.3 s of stalled writes"));
    let checks = comes_to("detect = \"checks\"", DEFAULTS, passive);
    assert!(checks.contains("does nothing with detect") && checks.contains("5.3 s"), "{checks}");
    assert!(comes_to("detect = \"checks\"", DEFAULTS, "non-graceful (kill -9): active").contains("200 x 3"));
    let wait = comes_to("", DEFAULTS, "frozen");
    assert!(wait.contains("silent = \"wait\"") && wait.contains("10.3 s"), "{wait}");
    let hurry = comes_to("silent = \"hurry\"", DEFAULTS, "frozen");
    assert!(hurry.contains("silent = \"hurry\"") && hurry.contains("0.6 to 1.2 s of stalled"), "{hurry}");
    let slow = comes_to("silent = \"wait\"\ninterval_ms = 1000\nmisses_max = 3", DEFAULTS, "frozen");
    assert!(slow.contains("1000 x 3 = 3 s") && slow.contains("10.3 s"), "{slow}");
    assert!(comes_to("evict = \"silent\"", DEFAULTS, "frozen").contains("0.6 s of silence, then eviction"));
    let tuned = DEFAULTS.replace("suspect_timeout = PT5S", "suspect_timeout = PT0.6S");
    assert!(comes_to("", &tuned, "frozen").contains("at least 0.6 s"));
}

#[test]
fn eviction_that_is_not_allowed_is_not_promised() {
    let powerless = MemberState {
        lacks: vec![MissingPrivilege { privilege: MissingPrivilege::EVICT, for_what: "evicting" }],
        ..said(DEFAULTS)
    };
    let report = report(&settings(""), &all(&powerless));
    let cell =
        report.cells.iter().find(|cell| cell.case.starts_with("non-graceful (kill -9): passive")).unwrap();
    assert!(cell.decided_by.contains("does nothing without SUPER"), "{}", cell.decided_by);
    assert!(cell.comes_to.contains("5.3 s"), "{}", cell.comes_to);
}

#[test]
fn the_queue_and_the_return_are_computed() {
    let cell = |said: &MemberState, case: &str| {
        let report = report(&settings(""), &all(said));
        let cell = report.cells.into_iter().find(|cell| cell.case.starts_with(case)).unwrap();
        format!("{} -> {}", cell.decided_by, cell.comes_to)
    };
    // 16 x sqrt(3), as in the servers' own "Flow-control interval" log lines; unscaled for a single writer.
    assert!(cell(&said(DEFAULTS), "graceful: active").contains("at most about 28 writesets"));
    let single = said(&format!("{DEFAULTS}; gcs.fc_single_primary = YES"));
    assert!(cell(&single, "graceful: active").contains("at most about 16 writesets"));
    let back = cell(&said(DEFAULTS), "the return");
    // 128 MiB at 1000 bytes a second.
    assert!(back.contains("128 MiB against 1.0 KiB") && back.contains("less than 37 h 16 min"), "{back}");
    let mut still = said(DEFAULTS);
    still.bytes_per_second = Some(0.0);
    assert!(cell(&still, "the return").contains("hardly anything is written"));
}

#[test]
fn each_setting_says_what_it_decides_and_one_that_is_not_there_is_left_out() {
    let page = super::super::page::text(&report(&settings(""), &all(&said(DEFAULTS))));
    let line = |key: &str| page.lines().find(|line| line.starts_with(key));
    let suspect = line("evs.suspect_timeout").unwrap();
    assert!(
        suspect.matches("PT5S").count() == 3 && suspect.contains("non-graceful passive and all"),
        "{page}"
    );
    assert!(line("gcs.fc_limit").unwrap().contains("what the next writer may have left to apply"));
    assert!(line("gcs.fc_single_primary").is_none());
}

#[test]
fn the_advised_values_get_no_advice() {
    let advised = "evs.keepalive_period=PT0.2S;evs.inactive_check_period=PT0.1S;evs.suspect_timeout=PT0.6S;\
        evs.inactive_timeout=PT2S;evs.install_timeout=PT1S;evs.join_retrans_period=PT0.2S;gcache.size=128M";
    let report = report(&settings(""), &all(&said(advised)));
    assert!(report.findings.is_empty());
    assert!(report.cells.iter().any(|cell| cell.comes_to.starts_with("0.6 s of stalled writes")));
}

#[test]
fn what_is_wrong_is_told_first() {
    let mut wrong = said(DEFAULTS);
    wrong.read_only = true;
    wrong.cluster_size = Some(2);
    wrong.lacks = vec![MissingPrivilege { privilege: "SUPER ON *.*", for_what: "evicting" }];
    let report =
        report(&settings(""), &three([Ok(wrong), Ok(said(DEFAULTS)), Err("nothing listens there".into())]));
    assert!(report.must_act());
    let findings: Vec<_> = report.findings.iter().map(|f| f.what.as_str()).collect();
    assert!(
        findings[0].starts_with("db3 (10.77.0.3:3306) cannot be asked: nothing listens there"),
        "{findings:?}"
    );
    assert!(findings[1].contains("lacks SUPER ON *.*"), "{findings:?}");
    assert!(findings.iter().any(|t| t.contains("read_only")));
    let weights: Vec<_> = report.findings.iter().map(|f| f.weight).collect();
    assert!(weights.is_sorted());
}

#[test]
fn two_members_and_two_clusters_are_warned_of() {
    let mut two = said(DEFAULTS);
    two.cluster_size = Some(2);
    let findings = report(&settings(""), &all(&two)).findings;
    assert!(findings.iter().any(|f| f.what == "the group has two members"));
    let mut other = said(DEFAULTS);
    other.cluster_uuid = "d".into();
    let report = report(&settings(""), &three([Ok(other), Ok(said(DEFAULTS)), Ok(said(DEFAULTS))]));
    assert!(report.must_act());
}

#[test]
fn nobody_is_evicted_beside_an_arbitrator() {
    let mut beside = said(DEFAULTS);
    beside.cluster_size = Some(4);
    let report = report(&settings(""), &all(&beside));
    let killed = report.cells.iter().find(|cell| cell.decided_by.contains("evict = ")).unwrap();
    assert!(killed.decided_by.contains("does nothing while a member is not in the configuration"));
    assert!(killed.comes_to.contains("5.3 s"), "{}", killed.comes_to);
    let advice = report.findings.iter().find(|finding| finding.what.contains("tighten the evs timeouts"));
    assert!(advice.unwrap().because.contains("these timeouts decide kill -9, too"));
}

#[test]
fn members_that_cannot_be_told_apart_are_warned_of() {
    let with = |incoming: &str| MemberState { incoming_addresses: incoming.into(), ..said(DEFAULTS) };
    let is_told = |incoming: &str| {
        let findings = report(&settings(""), &all(&with(incoming))).findings;
        findings.iter().any(|finding| finding.what.contains("cannot be told apart"))
    };
    for incoming in ["a:1,b:1,c:1", "a:1,,c:1", ""] {
        assert!(!is_told(incoming), "{incoming}");
    }
    for incoming in ["AUTO,AUTO,AUTO", "a:1,a:1,c:1", "a:1,b:1"] {
        assert!(is_told(incoming), "{incoming}");
    }
}

#[test]
fn the_only_primary_node_is_compared_with_what_is_remembered() {
    let process = |node: u8, uuid: &str| Process {
        address: format!("10.77.0.{node}:3306"),
        gcomm_uuid: uuid.into(),
        ..Process::default()
    };
    let known = |members: &[Process]| Component { members: members.to_vec(), ..Component::default() };
    let alone = MemberState { cluster_size: Some(1), gcomm_uuid: "c-1".into(), ..said(DEFAULTS) };
    let dead = || Err("nothing listens there".to_owned());
    let nodes = three([dead(), dead(), Ok(alone)]);
    let told = |known: &Component| two_clusters(&nodes, Some(known)).map(|finding| finding.what);
    let apart = told(&known(&[process(1, "a-1"), process(2, "b-1")])).unwrap();
    assert!(apart.starts_with("Primary without db1, db2, which had the last acknowledged writes"), "{apart}");
    // It was a member, and so it is after a restart, unless it was in another cluster meanwhile.
    for uuid in ["c-1", "c-0"] {
        assert_eq!(told(&known(&[process(1, "a-1"), process(3, uuid)])), None);
    }
    let elsewhere = vec![process(3, "").address];
    let was_elsewhere = Component { elsewhere, ..known(&[process(1, "a-1"), process(3, "c-0")]) };
    assert!(told(&was_elsewhere).is_some());
    assert_eq!(told(&known(&[process(9, "i-1")])), None, "of nodes that are not configured");
}

#[test]
fn a_small_gcache_is_computed_from_the_write_rate() {
    let mut busy = said(DEFAULTS);
    busy.bytes_per_second = Some(1024.0 * 1024.0);
    let findings = report(&settings(""), &all(&busy)).findings;
    let gcache: Vec<_> = findings.iter().filter(|f| f.what.contains("gcache")).collect();
    assert_eq!(gcache.len(), 3);
    assert!(gcache[0].what.contains("128 MiB covers 2 min 8 s of writes"), "{}", gcache[0].what);
    assert!(gcache[0].my_cnf[0].contains("gcache.size=3600M"));
}

//! The metrics: on two real Galera nodes, one of which dies; against Prometheus' own promtool, the alerts too; and every name against its page.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use lab::fault::Fault;
use lab::stage::account::{APP_PASSWORD, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use testbed::program::{Serving, directory, run, understudy, until};

use crate::prometheus::{page, promtool_check, root, rules};

const STATEMENTS: u64 = 40;

/// The value of the line that begins with the name and has all the labels.
fn value(page: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let line = page.lines().find(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    });
    line?.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_measured_is_true_of_living_and_dead_nodes() {
    let plan =
        StagePlan { name: format!("t{}-metrics", std::process::id()), nodes: 2, ..StagePlan::default() };
    let stage = Stage::up(plan).await.unwrap();
    let host = stage.host_address();
    let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config += &format!(
        "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n[listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\nhealth = \"{host}:6081\"\n[state]\ndir = \"state\"\n"
    );
    let directory = directory(&config);
    let serving = Serving::start(directory.path());
    let api = format!("http://{}/metrics", serving.http);
    let db = ["db1", "db2"].map(|name| format!("node=\"{name}\""));

    until("both nodes are synced", || {
        let page = page(&api);
        let synced =
            |db: &String| value(&page, "understudy_node_state", &[db, "state=\"synced\""]) == Some(1.0);
        db.iter().all(synced).then_some(())
    });
    let opts = OptsBuilder::default()
        .ip_or_hostname(host.to_string())
        .tcp_port(6033)
        .prefer_socket(false)
        .user(Some(APP_USER))
        .pass(Some(APP_PASSWORD));
    let mut conn = Conn::new(opts).await.unwrap();
    for _ in 0..STATEMENTS {
        conn.query_drop("SELECT 1").await.unwrap();
    }
    let before = page(&api);
    let begun: f64 =
        db.iter().filter_map(|db| value(&before, "understudy_node_transactions_total", &[db])).sum();
    assert!(begun >= STATEMENTS as f64, "{begun}");
    assert!(value(&before, "understudy_probe_seconds_count", &[&db[1]]).unwrap() > 0.0);
    assert!(value(&before, "understudy_node_recv_queue", &[&db[1]]).is_some());
    assert!(value(&before, "understudy_build_info", &["version="]) == Some(1.0));
    promtool_check(&before);
    promtool_check(&page(&format!("http://{host}:6081/metrics")));

    let writer = serving.status()["writer"].as_str().unwrap().to_owned();
    let other = if writer == "db1" { "db2" } else { "db1" };
    serving.ask(&["switchover", "--to", other]).with(0);
    stage.fault(&writer, Fault::Kill).await.unwrap();
    let dead = format!("node=\"{writer}\"");
    let after = until("its death is seen", || {
        let page = page(&api);
        (value(&page, "understudy_node_state", &[&dead, "state=\"dead\""]) == Some(1.0)).then_some(page)
    });
    let states: f64 = after
        .lines()
        .filter(|line| line.starts_with("understudy_node_state{") && line.contains(&dead))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((states - 1.0).abs() < 1e-9, "one state: {after}");
    for name in ["understudy_node_recv_queue", "understudy_node_stuck_seconds"] {
        assert_eq!(value(&after, name, &[&dead]), None, "{name} of a dead node is not known");
    }
    assert_eq!(value(&after, "understudy_switchovers_total", &["result=\"done\""]), Some(1.0), "{after}");
    conn.query_drop("SELECT 1").await.unwrap();
    promtool_check(&after);
    manners(&serving);
    stage.down().await.unwrap();
}

/// A state as an exit code, and a signal that is not the end.
fn manners(serving: &Serving) {
    serving.ask(&["status", "--exit-code"]).with(4);
    run(Command::new("kill").args(["-HUP", &serving.pid().to_string()])).with(0);
    until("SIGHUP is answered", || serving.log().contains("the configuration was read again").then_some(()));
    assert!(serving.ask(&["status"]).with(0).contains("gate    open"));
    let key = serving.state("api.key");
    let wrong = understudy(&["status", "--api", &serving.http, "--key-file", key.to_str().unwrap()]);
    assert!(wrong.with(2).contains("it must begin with http:// or https://"));
}

#[test]
fn the_alerts_are_what_promtool_takes_and_do_what_they_say() {
    run(Command::new("promtool").args(["check", "rules"]).arg(rules())).with(0);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/monitoring/prometheus.test.yml");
    run(Command::new("promtool").args(["test", "rules"]).arg(&tests)).with(0);
    // Each name in it is one that is documented, with a suffix of a histogram or without.
    let known = documented();
    for name in names_in(&std::fs::read_to_string(rules()).unwrap()) {
        assert!(known.contains(&name), "{name} of the rules is not in docs/metrics.md");
    }
}

#[test]
fn every_metric_has_its_line_in_the_documentation() {
    let sources = [
        "crates/wiring/src/metrics.rs",
        "crates/wiring/src/health.rs",
        "crates/health/src/node.rs",
        "crates/warmup/src/stream/mod.rs",
    ];
    let mut printed = BTreeSet::new();
    for source in sources {
        printed.extend(names_in(&std::fs::read_to_string(root().join(source)).unwrap()));
    }
    let documented = documented();
    let missing: Vec<&String> = printed.difference(&documented).collect();
    let gone: Vec<&String> = documented.difference(&printed).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "docs/metrics.md lacks {missing:?}, and has {gone:?}, which nothing prints"
    );
}

/// All names of docs/metrics.md.
pub fn documented() -> BTreeSet<String> {
    names_in(&std::fs::read_to_string(root().join("docs/metrics.md")).unwrap())
}

/// All names of metrics in a text.
pub fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
    words.filter(|word| word.starts_with("understudy_") && !word.ends_with('_')).map(str::to_owned).collect()
}

//! The dashboard for Grafana and the alerts, on a real run: a primary and two replicas with a load, one switchover, and a primary that is killed.
//! A real Prometheus is asked every question of the dashboard, as Grafana would ask it, and what it answers must be what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use lab::fault::Fault;
use lab::stage::account::APP_USER;
use lab::stage::{ClusterKind, Form, StagePlan};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use serde_json::Value;
use tempfile::TempDir;
use testbed::program::{Serving, until};
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::{WriterResult, Writers, connect};

use crate::metrics::{documented, names_in};
use crate::prometheus::{Prometheus, Series, root};

/// Grafana's `$__rate_interval` is four intervals at least; on a busy machine some looks are late.
const RATE_INTERVAL: &str = "2s";

/// The cluster's name.
const CLUSTER: &str = "shop";

/// Prometheus has it under this name, too, as if there were two.
const OTHER: &str = "bank";

/// Metrics of which this run need not have a value, and why not.
const NEED_NOT_BE: [(&str, &str); 4] = [
    ("understudy_node_recv_queue", "Galera only"),
    ("understudy_node_apply_", "known after minutes of a load"),
    ("understudy_warm_", "needs standbys that are kept warm"),
    ("understudy_node_stuck_seconds", "drawn while a node is stuck"),
];

fn dashboard() -> Value {
    let text = std::fs::read_to_string(root().join("contrib/grafana-dashboard.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// All panels, also those in rows that are folded up.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let rows = dashboard["panels"].as_array().unwrap().iter();
    rows.flat_map(|row| std::iter::once(row).chain(row["panels"].as_array().into_iter().flatten())).collect()
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// Metrics in an expression, as they are documented.
fn metrics_in(expr: &str) -> BTreeSet<String> {
    names_in(expr).iter().map(|name| name.strip_suffix("_bucket").unwrap_or(name).to_owned()).collect()
}

#[test]
fn every_panel_says_what_it_shows_and_each_of_its_metrics_is_documented() {
    let dashboard = dashboard();
    let panels = panels(&dashboard);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each has its own id");
    let mut places = BTreeSet::new();
    for panel in panels {
        let title = text(panel, "title");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        for (x, y) in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(x < 24 && places.insert((x, y)), "{title} lies on another, or beyond the edge");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(!text(panel, "description").is_empty(), "{title} says nothing of itself");
        let defaults = &panel["fieldConfig"]["defaults"];
        assert!(defaults["unit"].is_string() || defaults["mappings"].is_array(), "{title} has no unit");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
    }
    let documented = documented();
    let missing: Vec<String> =
        metrics_in(&dashboard.to_string()).into_iter().filter(|name| !documented.contains(name)).collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:?}");
    for (name, _) in NEED_NOT_BE {
        assert!(documented.iter().any(|known| known.starts_with(name)), "docs/metrics.md lacks {name}");
    }
}

/// What happened.
struct Run {
    prometheus: Prometheus,
    /// From its beginning to its end, seconds since 1970.
    time: (f64, f64),
    /// Who wrote, one after the other. The second was killed.
    writers: [String; 3],
    told: WriterResult,
    /// The status at the end.
    status: Value,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_of_the_dashboard_is_answered_with_what_happened() {
    let scene = Scene::on(StagePlan {
        kind: ClusterKind::Replication { semi_sync: true },
        name: format!("t{}-dashboard", std::process::id()),
        form: Form::Loopback,
        server_options: vec!["binlog_expire_logs_seconds = 7200".to_owned()],
        ..StagePlan::default()
    })
    .await;
    let directory = directory(&scene);
    let serving = Serving::start(directory.path());
    let run = run(&scene, &serving).await;
    rules(&run);
    shown(&run, &[CLUSTER, OTHER]);
    let shown = shown(&run, &[CLUSTER]);
    shows_who_wrote(&run, &shown);
    shows_what_clients_noticed(&run, &shown);
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// What each panel shows of these clusters: each of its questions is answered, and each of its lines has a name of its own.
fn shown(run: &Run, clusters: &[&str]) -> Shown {
    let (mut shown, mut names) = (Shown::new(), BTreeSet::new());
    for Question { panel, expr, legend, is_instant } in questions(run, clusters) {
        let series = if is_instant {
            run.prometheus.at(&expr, run.time.1)
        } else {
            run.prometheus.over(&expr, run.time)
        };
        let has_data = series.iter().any(|series| series.max().is_finite());
        let may_lack =
            metrics_in(&expr).iter().any(|name| NEED_NOT_BE.iter().any(|(no, _)| name.starts_with(no)));
        assert!(has_data || may_lack, "{panel} shows nothing: {expr}");
        for one in &series {
            assert!(
                clusters.contains(&one.label("cluster")),
                "{panel} shows other clusters: {:?}",
                one.labels
            );
            let name = one.named(&legend);
            assert!(names.insert((panel.clone(), name.clone())), "{panel} has two lines {name}");
        }
        shown.entry(panel).or_default().extend(series);
    }
    shown
}

/// With all that listens, so that as many panels as possible have something to show.
fn directory(scene: &Scene) -> TempDir {
    let directory = scene.directory("failover_gap_ms = 0");
    let file = directory.path().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let listen = format!("[listen]\nsplit = true\nread = \"{}\"\n", reads(scene));
    std::fs::write(&file, config.replacen("[listen]\n", &listen, 1)).unwrap();
    directory
}

/// The port for reads.
fn reads(scene: &Scene) -> SocketAddr {
    SocketAddr::from((scene.stage.host_address(), 6034))
}

async fn run(scene: &Scene, serving: &Serving) -> Run {
    let first = writer(&status_when(serving, "all are well", is_well));
    let prometheus = Prometheus::start(scene.stage.host_address(), &serving.http, OTHER);
    let now = || prometheus.now("vector(time())")[0].last();
    let is_ours = |series: &Series| series.label("cluster") == CLUSTER;
    let seen = |what: &str, expr: &str| until(what, || prometheus.now(expr).iter().any(is_ours));
    seen("Prometheus has looked", "understudy_gate_open == 1");
    let began = now();
    let writers = Writers::at(scene.through());
    let mut readers = Vec::new();
    for port in [scene.through(), reads(scene)] {
        readers.push(connect(port).await.unwrap());
        let stranger = OptsBuilder::default().ip_or_hostname(port.ip().to_string()).tcp_port(port.port());
        let stranger = stranger.prefer_socket(false).user(Some(APP_USER)).pass(Some("not this"));
        assert!(Conn::new(stranger).await.is_err());
    }
    writers.more(200).await;
    let second = if first == "db1" { "db2" } else { "db1" };
    serving.ask(&["switchover", "--to", second]).with(0);
    writers.more(200).await;
    for reader in &mut readers {
        for _ in 0..50 {
            reader.query_drop("SELECT MAX(number) FROM w").await.unwrap();
        }
    }
    let moved = format!("understudy_node_writer{{node=\"{second}\"}} == 1");
    seen("Prometheus sees the new writer", &moved);

    scene.stage.fault(second, Fault::Kill).await.unwrap();
    let is_over = |status: &Value| status["gate"] == "open" && ![second, ""].contains(&&*writer(status));
    let third = writer(&status_when(serving, "another one writes", is_over));
    writers.more(200).await;
    seen(
        "Prometheus sees the death",
        &format!("understudy_node_state{{node=\"{second}\", state=\"dead\"}} == 1"),
    );
    seen(
        "Prometheus sees that it is away",
        &format!("understudy_recovery_away_seconds{{node=\"{second}\"}} > 0"),
    );
    seen("Prometheus knows for how long", "understudy_recovery_window_seconds > 0");
    let told = writers.stop().await;
    seen("its alert waits for a minute", "ALERTS{alertname=\"UnderstudyNodeLost\", alertstate=\"pending\"}");
    if !told.errors.is_empty() {
        seen("the errors are told of", "ALERTS{alertname=\"UnderstudyGivesErrors\", alertstate=\"firing\"}");
    }
    seen("another could take over again", "understudy_node_candidate == 1");
    seen("nobody waits", "understudy_hold_waiting == 0");
    let status = serving.status();
    let held = format!("understudy_hold_held_total == {}", status["proxy"]["hold"]["held"]);
    seen("Prometheus has seen the last of it", &held);
    let time = (began, now());
    Run { prometheus, time, writers: [first, second.to_owned(), third], told, status }
}

/// What Grafana asks for one line, or several, of a panel.
struct Question {
    panel: String,
    expr: String,
    /// What the lines are called.
    legend: String,
    /// About the end only.
    is_instant: bool,
}

/// Every question, in order of the panels, with the variables put in as Grafana does: these clusters, and all that there is of all others.
fn questions(run: &Run, clusters: &[&str]) -> Vec<Question> {
    let dashboard = dashboard();
    let range = format!("{:.0}ms", 1000.0 * (run.time.1 - run.time.0));
    let mut variables =
        vec![("$__rate_interval".to_owned(), RATE_INTERVAL.to_owned()), ("$__range".to_owned(), range)];
    let filled = |variables: &[(String, String)], text: &str| {
        variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    };
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let name = text(variable, "name");
        let Some(query) = text(&variable["query"], "query").strip_prefix("label_values(") else {
            assert_eq!((name, text(variable, "query")), ("datasource", "prometheus"));
            continue;
        };
        let (metric, label) = query.strip_suffix(')').unwrap().rsplit_once(", ").unwrap();
        let values =
            run.prometheus.ask(&format!("label/{label}/values"), &[("match[]", &filled(&variables, metric))]);
        let values = values.as_array().unwrap().iter().map(|value| value.as_str().unwrap());
        let chosen = values.filter(|value| name != "cluster" || clusters.contains(value));
        let values: Vec<String> = chosen.map(|value| value.replace('.', "\\\\.")).collect();
        assert!(!values.is_empty(), "${name} has no value");
        variables.push((format!("${name}"), format!("({})", values.join("|"))));
    }
    let question = |of: &Value, legend: &str, asked: &Value| Question {
        panel: text(of, if of["title"].is_string() { "title" } else { "name" }).to_owned(),
        expr: filled(&variables, text(asked, "expr")),
        legend: text(asked, legend).to_owned(),
        is_instant: asked["instant"] == true,
    };
    let annotations = dashboard["annotations"]["list"].as_array().unwrap().iter();
    let mut questions: Vec<Question> = annotations.map(|one| question(one, "titleFormat", one)).collect();
    for panel in panels(&dashboard) {
        let targets = panel["targets"].as_array().into_iter().flatten();
        questions.extend(targets.map(|target| question(panel, "legendFormat", target)));
    }
    questions
}

/// All rules were evaluated, and what fired is what happened.
fn rules(run: &Run) {
    let told = run.prometheus.ask("rules", &[]);
    let groups = told["groups"].as_array().unwrap();
    let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(!rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok"), "{told:#}");

    let of = |state: &str| -> BTreeSet<(String, String)> {
        let expr = format!("ALERTS{{alertstate=\"{state}\"}}");
        let alerts = run.prometheus.over(&expr, run.time);
        alerts
            .iter()
            .map(|alert| (alert.label("alertname").to_owned(), alert.label("node").to_owned()))
            .collect()
    };
    let mut fired = BTreeSet::from([("UnderstudyFailedOver".to_owned(), String::new())]);
    if !run.told.errors.is_empty() {
        fired.insert(("UnderstudyGivesErrors".to_owned(), String::new()));
    }
    assert_eq!(of("firing"), fired, "{:?}", run.told.errors);
    assert!(
        of("pending").contains(&("UnderstudyNodeLost".to_owned(), run.writers[1].clone())),
        "{:?}",
        of("pending")
    );
}

/// The panels by their titles.
type Shown = BTreeMap<String, Vec<Series>>;

/// The values at the end of a panel's lines, by a label.
fn last_by<'a>(shown: &'a Shown, panel: &str, label: &str) -> BTreeMap<&'a str, f64> {
    shown[panel].iter().map(|series| (series.label(label), series.last())).collect()
}

/// Whether a count is this one.
fn is(count: f64, wanted: u32) -> bool {
    (count - f64::from(wanted)).abs() < 1e-9
}

fn shows_who_wrote(run: &Run, shown: &Shown) {
    let [first, second, third] = run.writers.each_ref().map(String::as_str);
    assert_eq!(last_by(shown, "Writer", "node"), BTreeMap::from([(third, 1.0)]));
    let since = last_by(shown, "Writes since", "node");
    let ago = run.time.1 - since[third] / 1000.0;
    assert!(since.len() == 1 && ago > 0.0 && ago < run.time.1 - run.time.0, "{since:?}: {ago} s");
    let next = last_by(shown, "Next writer", "node");
    assert!(next.len() == 1 && ![second, third].iter().any(|node| next.contains_key(node)), "{next:?}");
    let mut wrote: Vec<(f64, &str)> = Vec::new();
    for series in &shown["Writer over time"] {
        let began = series.points.windows(2).filter(|two| (two[0].1, two[1].1) == (0.0, 1.0));
        wrote.extend(began.map(|two| (two[1].0, series.label("node"))));
    }
    wrote.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert_eq!(wrote.iter().map(|(_, node)| *node).collect::<Vec<_>>(), [second, third], "after {first}");
    let changed = last_by(shown, "Writer changed", "node");
    assert!(changed.contains_key(second) && changed.contains_key(third), "{changed:?}");

    let states = last_by(shown, "State of each node", "node");
    let (dead, synced) = (7, 0);
    let is_so = |(node, state): (&&str, &f64)| is(*state, if *node == second { dead } else { synced });
    assert!(states.iter().all(is_so), "{states:?}");
    assert!(is(last_by(shown, "Nodes not used", "cluster")[CLUSTER], 1));
    assert!(is(last_by(shown, "Statements", "cluster")[CLUSTER], 1), "they flow");
    let failovers = shown["Failovers"].iter().map(Series::last);
    assert!(failovers.eq([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]), "begun, done, and nothing of Galera");
    let moves = last_by(shown, "Switchovers", "result");
    assert!(moves.iter().all(|(result, count)| is(*count, u32::from(*result == "done"))), "{moves:?}");
    assert!(last_by(shown, "Alerts that fire", "alertname").contains_key("UnderstudyFailedOver"));
    let mut away = shown["Away, and how long it may be"].iter();
    let away = away.find(|series| series.label("node") == second).unwrap().last();
    assert!(away > 0.0 && away < run.time.1 - run.time.0, "{away}");
}

fn shows_what_clients_noticed(run: &Run, shown: &Shown) {
    let outcomes = last_by(shown, "Held in the shown time", "outcome");
    // All that were held have no label of an outcome.
    let held = outcomes[""];
    let ended: f64 = outcomes.iter().filter(|(outcome, _)| !outcome.is_empty()).map(|(_, count)| count).sum();
    assert!(held > 0.0 && (held - ended).abs() < 0.01 * held, "{outcomes:?}");
    // Prometheus extrapolates to the ends of the time.
    let counted = run.status["proxy"]["hold"]["held"].as_f64().unwrap();
    assert!((held - counted).abs() < 0.2 * counted, "{held} of {counted}");
    let [p50, p99] = &shown["How long statements were held"][..] else { panic!("two lines") };
    assert!(p50.max() > 0.0 && p50.max() <= p99.max() && p99.max() <= 30.0, "{} {}", p50.max(), p99.max());

    assert!(last_by(shown, "Errors of the proxy", "name").contains_key("access_denied"));
    let rates: Vec<(&str, f64)> =
        shown["Transactions a second"].iter().map(|series| (series.label("node"), series.max())).collect();
    let wrote =
        |node: &str| rates.iter().any(|(other, rate)| node == *other && *rate > 1.0 && *rate < 10_000.0);
    assert!(run.writers.iter().all(|node| wrote(node)), "{rates:?}");
    assert!(is(last_by(shown, "Sessions", "node")[&*run.writers[1]], 0), "nobody is connected to the dead");
    let places = &shown["Statements by where they ran"];
    assert!(places.iter().any(|series| series.label("place") == "replica" && series.max() > 0.0));

    let [up] = &shown["Understudy"][..] else { panic!("one Understudy") };
    assert_eq!(up.label("version"), env!("CARGO_PKG_VERSION"));
    assert!(up.last() > 0.0 && up.last() < 600.0, "{}", up.last());
    let days = last_by(shown, "Certificate expires in", "cluster")[CLUSTER] / 86_400.0;
    assert!(days > 300.0, "{days}");
}

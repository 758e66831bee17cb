//! `understudy recovery forecast`, and a running `serve`, beside what then happens: a Galera node stays away for a little, and for too long, and its
//! return shows which kind of state transfer it needed.

use std::sync::Arc;
use std::time::Duration;

use lab::fault::Fault;
use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use serde_json::Value;
use testbed::program::{self, Serving, bin, directory, run, until, with_config};
use testbed::writers::Repeated;

/// Of one row, bytes; more than the gcache in all that is written while the node is away for too long.
const ROW_BYTES: usize = 200_000;
/// A gcache of 4 MB has not all of so many writesets.
const WRITTEN_MAX: i64 = 300;
/// More than a certification index keeps of the past.
const WRITESETS: u32 = 600;
const GCACHE: &str = "gcache.size=4M; gcache.keep_pages_size=0";

async fn write(stage: &Stage, rows: usize) {
    for _ in 0..rows {
        let insert = format!("INSERT INTO {APP_SCHEMA}.w (pad) VALUES (REPEAT('x', {ROW_BYTES}))");
        stage.run_in("db1", &insert).await.unwrap();
    }
}

/// Stops db2, and gives the last writeset that it has.
async fn stop(stage: &Stage) -> i64 {
    stop_node(stage, "db2").await
}

async fn stop_node(stage: &Stage, node: &str) -> i64 {
    stage.fault(node, Fault::Stop).await.unwrap();
    let file = stage.directory().join(node).join("data/grastate.dat");
    let position = program::until("its position is written", || {
        let text = std::fs::read_to_string(&file).unwrap();
        let seqno = text.lines().find_map(|line| line.strip_prefix("seqno:"))?.trim().parse::<i64>().unwrap();
        (seqno >= 0).then_some(seqno)
    });
    assert!(position > 0);
    position
}

fn log(stage: &Stage, node: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(stage.directory().join(node).join("error.log")).unwrap())
        .into_owned()
}

fn plan(name: &str) -> StagePlan {
    StagePlan {
        name: format!("t{}-{name}", std::process::id()),
        nodes: 2,
        galera_options: GCACHE.to_owned(),
        ..StagePlan::default()
    }
}

/// The configuration's part about the nodes.
fn nodes(stage: &Stage) -> String {
    nodes_for(stage, MONITOR_USER)
}

fn nodes_for(stage: &Stage, user: &str) -> String {
    let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config + &format!("[cluster.monitor]\nuser = \"{user}\"\npassword = \"{MONITOR_PASSWORD}\"\n")
}

async fn make_table(stage: &Stage) {
    let table = format!("CREATE TABLE {APP_SCHEMA}.w (id INT AUTO_INCREMENT PRIMARY KEY, pad MEDIUMTEXT)");
    stage.run_in("db1", &table).await.unwrap();
}

/// Starts db2 again, and says that it was given everything anew.
async fn returns_by_full_copy(stage: &Stage) {
    let (before, donors) = (log(stage, "db2").len(), log(stage, "db1").len());
    stage.fault("db2", Fault::Heal).await.unwrap();
    let (joiner, donor) = (log(stage, "db2"), log(stage, "db1"));
    assert!(!joiner[before..].contains("Receiving IST: "), "{}", &joiner[before..]);
    assert!(
        donor[donors..].contains("--role 'donor'") && !donor[donors..].contains("--bypass"),
        "{}",
        &donor[donors..]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_needs_what_was_forecast_when_it_returns() {
    let stage = Stage::up(plan("recovery")).await.unwrap();
    make_table(&stage).await;
    let directory = directory(&nodes(&stage));
    let forecast = |further: &[&str]| -> (i32, Value) {
        let mut command = std::process::Command::new(bin());
        command
            .args(["recovery", "forecast", "--window-s", "1", "--json"])
            .args(further)
            .current_dir(&directory);
        let ended = run(&mut command);
        (ended.code, ended.json())
    };

    // Both run, nobody writes.
    let (code, told) = forecast(&[]);
    assert_eq!((code, &told["nodes"][1]["returns_by"]), (0, &Value::from("ist")), "{told:#}");
    assert_eq!(told["nodes"][1]["gcache_bytes"], 4 << 20);
    assert!(told["full_copy_bytes"].as_u64().unwrap() > 1 << 20, "{told:#}");

    without_the_rights(&stage).await;
    a_blocked_writer_is_refused(&stage, directory.path()).await;

    // Away for a little.
    let position = stop(&stage).await;
    let (code, told) = forecast(&[]);
    assert_eq!((code, &told["nodes"][1]["returns_by"]), (1, &Value::Null), "{told:#}");
    assert!(told["nodes"][1]["sentence"].as_str().unwrap().contains("--position db2=SEQNO"), "{told:#}");
    write(&stage, 3).await;
    let (_, told) = forecast(&["--position", &format!("db2={position}")]);
    assert_eq!(told["nodes"][1]["returns_by"], "ist", "{told:#}");
    // With a position that is of another cluster, or of nobody.
    let because = |at: &str| forecast(&["--position", at]).1["nodes"][1]["because"].clone();
    assert_eq!(because(&format!("db2=6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1:{position}")), "other-history");
    assert_eq!(because(&format!("db2={}", position + 1000)), "ahead");
    assert_eq!(because("db2=-1"), "no-position");
    let before = log(&stage, "db2").len();
    stage.fault("db2", Fault::Heal).await.unwrap();
    assert!(log(&stage, "db2")[before..].contains("Receiving IST: "), "{}", &log(&stage, "db2")[before..]);

    // Away for too long: more was written than the gcache holds.
    let position = stop(&stage).await;
    // The gcache drops a writeset only when every member has reported that it has applied it, so that it may hold more than its size for a while.
    let (code, told) = loop {
        write(&stage, 10).await;
        let (code, told) = forecast(&["--position", &format!("db2={position}")]);
        let kept_from = told["nodes"][0]["cached_downto"].as_i64().unwrap();
        if kept_from > position + 1 {
            break (code, told);
        }
        assert_eq!(told["nodes"][1]["returns_by"], "ist", "{told:#}");
        let written = told["nodes"][0]["position"].as_i64().unwrap() - position;
        assert!(written < WRITTEN_MAX, "its gcache still has everything: {told:#}");
    };
    assert_eq!((code, &told["nodes"][1]["returns_by"]), (1, &Value::from("sst")), "{told:#}");
    assert!(told["nodes"][1]["sentence"].as_str().unwrap().starts_with("needs a full copy of "), "{told:#}");
    returns_by_full_copy(&stage).await;
    a_restart_by_hand_is_followed(&stage, directory.path()).await;
    stage.down().await.unwrap();
}

/// An account that may not see the tablespaces gets its forecast without them, and is told what it lacks.
async fn without_the_rights(stage: &Stage) {
    let make = format!("CREATE USER few@'%' IDENTIFIED BY '{MONITOR_PASSWORD}'");
    stage.run_in("db1", &make).await.unwrap();
    let directory = directory(&nodes_for(stage, "few"));
    let told =
        with_config(&directory.path().join("understudy.toml"), &["recovery", "forecast", "--window-s", "1"]);
    assert_eq!(told.code, 0, "{}", told.said());
    assert!(told.out.contains("may be away for as long as nothing is written"), "{}", told.out);
    assert!(
        told.out.contains("note: how large a full copy would be is not known: db1, db2 "),
        "{}",
        told.out
    );
    assert!(told.out.contains("GRANT PROCESS ON *.*"), "{}", told.out);
    stage.run_in("db1", "DROP USER few@'%'").await.unwrap();
}

/// With two nodes the writer is the only donor: a full copy that blocks it is refused, and everything left as it was.
async fn a_blocked_writer_is_refused(stage: &Stage, directory: &std::path::Path) {
    let method = stage.run_in("db2", "SELECT @@wsrep_sst_method").await.unwrap().remove(0).remove(0);
    let data = stage.node("db2").unwrap().datadir.display().to_string();
    let measure_with = |more: &[&str]| {
        let order = ["recovery", "measure", "db2", "--full", "--window-s", "1", "--datadir", &data];
        let commands =
            ["--stop-command", "touch stopped; exit 1", "--start-command", "true", "--with-clients"];
        run(std::process::Command::new(bin()).args(order).args(commands).args(more).current_dir(directory))
    };
    let measure = || measure_with(&[]);
    stage.run_in("db2", "SET GLOBAL wsrep_sst_method = 'rsync'").await.unwrap();
    let refused = measure().with(1);
    assert!(refused.contains("nothing was changed: db1 is the only other member"), "{refused}");
    assert!(refused.contains("--block-only-donor") && !directory.join("stopped").exists(), "{refused}");
    stage.run_in("db2", "SET GLOBAL wsrep_sst_method = 'mariabackup'").await.unwrap();
    let told = measure_with(&["--dry-run"]).with(0);
    for step in ["stop db2: touch stopped; exit 1", "start db2: true", "it needs a full copy then"] {
        assert!(told.contains(step), "{told}");
    }
    assert!(!directory.join("stopped").exists(), "{told}");
    // Its stop command fails: it was not refused, and told what to expect.
    let begun = measure().with(1);
    assert!(begun.contains("goes on taking writes while it sends the full copy"), "{begun}");
    assert!(directory.join("stopped").exists(), "{begun}");
    stage.run_in("db2", &format!("SET GLOBAL wsrep_sst_method = '{method}'")).await.unwrap();
}

/// Somebody else restarts the server, and sooner than was announced: what its log says at once is not missed.
async fn a_restart_by_hand_is_followed(stage: &Stage, directory: &std::path::Path) {
    let node = stage.node("db2").unwrap();
    // Nobody is asked to stop a node that clients use.
    let mut asked = std::process::Command::new(bin());
    asked.args(["recovery", "measure", "db2", "--window-s", "1"]).current_dir(directory);
    let asking = tokio::task::spawn_blocking(move || run(&mut asked).with(1));
    let (slept, refused) = tokio::join!(stage.run_in("db2", "SELECT SLEEP(5)"), asking);
    slept.unwrap();
    let refused = refused.unwrap();
    assert!(refused.contains("nothing was changed: 1 client session is on db2"), "{refused}");
    let said = directory.join("measured.err");
    let err = std::fs::File::create(&said).unwrap();
    let mut command = std::process::Command::new(bin());
    command.args([
        "recovery",
        "measure",
        "db2",
        "--window-s",
        "1",
        "--away",
        "60s",
        "--within",
        "2m",
        "--json",
    ]);
    command.arg("--error-log").arg(&node.error_log).arg("--datadir").arg(&node.datadir);
    let child =
        command.current_dir(directory).stdout(std::process::Stdio::piped()).stderr(err).spawn().unwrap();
    let told = || std::fs::read_to_string(&said).unwrap();
    until("it asks for the stop", || told().contains("stop the server now").then_some(()));
    stage.fault("db2", Fault::Stop).await.unwrap();
    stage.fault("db2", Fault::Heal).await.unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", told());
    let measured: Value = serde_json::from_slice(&ended.stdout).unwrap();
    testbed::printed::fits("recovery-measure", &measured);
    assert_eq!(measured["kind"], "ist", "{measured:#}");
    assert!(measured["away_s"].as_f64().unwrap() < 55.0, "{measured:#}");
}

/// Three nodes: of the two that stay one has restarted with an empty gcache. The returning node is still sent what it missed, by the other; and what it
/// has is known after a restart of `serve`.
#[tokio::test(flavor = "multi_thread")]
async fn one_member_that_has_it_is_enough() {
    let stage = Stage::up(StagePlan { nodes: 3, ..plan("donors") }).await.unwrap();
    make_table(&stage).await;
    let host = stage.host_address();
    let listen =
        format!("[listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n");
    let directory = directory(&(nodes(&stage) + &listen));
    let mut serving = Serving::start(directory.path());
    let row = |serving: &Serving, place: usize| serving.status()["nodes"][place]["recovery"].clone();
    until("a forecast for all", || {
        (0..3).all(|place| row(&serving, place)["returns_by"] == "ist").then_some(())
    });
    stop_node(&stage, "db3").await;
    // A member that returns is also sent what certification needs, up to some hundred writesets: so many that this does not reach back to db3's last.
    let many = format!(
        "BEGIN NOT ATOMIC DECLARE n INT DEFAULT 0; WHILE n < {WRITESETS} DO INSERT INTO {APP_SCHEMA}.w (pad) VALUES ('x'); SET n = n + 1; END WHILE; END"
    );
    stage.run_in("db1", &many).await.unwrap();
    until("db3 is seen to be away", || row(&serving, 2)["away_s"].as_f64());
    serving.terminate();
    serving.ended();
    let serving = Serving::start(directory.path());
    let said = until("what an earlier run saw", || {
        let row = row(&serving, 2);
        row["sentence"].as_str().filter(|said| said.starts_with("was last seen ")).map(str::to_owned)
    });
    assert!(said.contains("may come back with IST"), "{said}");

    // db2 has the newest writesets only.
    stop(&stage).await;
    write(&stage, 1).await;
    std::fs::remove_file(stage.directory().join("db2/data/galera.cache")).unwrap();
    stage.fault("db2", Fault::Heal).await.unwrap();
    let row = until("db1 is the only one that can", || {
        let row = row(&serving, 2);
        (row["donors"] == serde_json::json!(["db1"])).then_some(row)
    });
    assert_eq!(row["returns_by"], "ist", "{row:#}");
    let before = log(&stage, "db3").len();
    stage.fault("db3", Fault::Heal).await.unwrap();
    let said = &log(&stage, "db3")[before..];
    assert!(said.contains("Receiving IST: ") && said.contains("(db1)(SYNCED) as donor"), "{said}");
    drop(serving);
    stage.down().await.unwrap();
}

/// Between two writes of 20 kB: a gcache of 4 MB is full after about ten seconds.
const PACE: Duration = Duration::from_millis(50);

fn metrics(serving: &Serving) -> String {
    let url = format!("http://{}/metrics", serving.http);
    let out = std::process::Command::new("curl").args(["-sS", &url]).output().unwrap().stdout;
    String::from_utf8(out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_warns_before_it_is_too_late() {
    let stage = Arc::new(Stage::up(plan("windows")).await.unwrap());
    make_table(&stage).await;
    let insert = format!("INSERT INTO {APP_SCHEMA}.w (pad) VALUES (REPEAT('x', 20000))");
    let load = Repeated::start(&stage, PACE, insert);
    let host = stage.host_address();
    let listen =
        format!("[listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n");
    let directory = directory(&(nodes(&stage) + &listen));
    let serving = Serving::start(directory.path());

    // Both take part, and db1 is written.
    let status = until("a window of db2", || {
        let status = serving.status();
        let recovery = &status["nodes"][1]["recovery"];
        recovery["away_max_s"].as_f64().filter(|s| (2.0..120.0).contains(s))?;
        // That window comes from what db1 keeps: what db2 keeps, and how much there is to copy, come with answers of their own.
        recovery["gcache_bytes"].as_u64()?;
        status["recovery"]["full_copy_bytes"].as_u64()?;
        Some(status)
    });
    assert_eq!(status["nodes"][1]["recovery"]["returns_by"], "ist", "{status:#}");
    assert_eq!(status["nodes"][1]["recovery"]["gcache_bytes"], 4 << 20, "{status:#}");
    assert!(status["recovery"]["full_copy_bytes"].as_u64().unwrap() > 1 << 20, "{status:#}");
    let shown = serving.ask(&["status"]).with(0);
    assert!(shown.contains("window  db2 may be away "), "{shown}");
    let forecast = serving.ask(&["recovery", "forecast", "--json"]);
    assert_eq!(
        (forecast.code, forecast.json()["is_served"].as_bool()),
        (0, Some(true)),
        "{}",
        forecast.said()
    );

    // db2 is away, and warnings come before it is too late.
    stop(&stage).await;
    let said = until("the word that it is too late", || {
        let journal = serving.ask(&["journal"]).with(0);
        journal
            .contains("db2: has been away for")
            .then_some(journal)
            .filter(|said| said.contains("needs a full copy of"))
    });
    let place = |what: &str| said.find(what).unwrap_or_else(|| panic!("{what}: {said}"));
    let early =
        said.find("half of the time").or_else(|| said.find("must come back within")).expect("a warning");
    assert!(early < place("no member has what it misses"), "{said}");
    assert_eq!(said.matches("no member has what it misses").count(), 1, "once: {said}");
    let forecast = serving.ask(&["recovery", "forecast", "--json"]);
    let row = &forecast.json()["nodes"][1];
    assert_eq!((forecast.code, &row["returns_by"]), (1, &Value::from("sst")), "{}", forecast.said());
    assert!(row["away_s"].as_f64().unwrap() > 0.0, "{row:#}");
    let metrics = metrics(&serving);
    let line = metrics.lines().find(|line| {
        line.starts_with("understudy_recovery_window_seconds{") && line.contains("node=\"db2\"")
    });
    assert!(line.is_some_and(|line| line.ends_with(" 0")), "{line:?}");

    returns_by_full_copy(&stage).await;
    until("it takes part again", || {
        let row = serving.status()["nodes"][1]["recovery"].clone();
        (row["is_there"] == true && row["returns_by"] == "ist").then_some(())
    });
    load.end().await;
    drop(serving);
    Arc::into_inner(stage).unwrap().down().await.unwrap();
}

//! `understudy capacity` on a real cluster under load: its figure, what it refuses, and that the node is as it was found whatever ends the
//! command. One stage for all of it, because starting one takes its time.

mod careful;
mod door;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fixture::wait::{until_async, within_async};
use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::replication::{REPLICATION_PASSWORD, REPLICATION_USER};
use lab::stage::{ClusterKind, Stage, StagePlan};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testbed::program::{Serving, bin, directory, run, until};
use testbed::scene::status_when;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Short, and long enough for a queue.
const SHORT: [&str; 4] = ["--baseline-s", "1", "--hold-s", "2"];

struct Scene {
    stage: Stage,
    dir: TempDir,
    /// Writes all along.
    writes: Vec<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Scene {
    async fn set(kind: ClusterKind, name: &str) -> Self {
        let plan =
            StagePlan { kind, name: format!("t{}-{name}", std::process::id()), ..StagePlan::default() };
        let stage = Stage::up(plan).await.unwrap();
        let table =
            format!("CREATE TABLE {APP_SCHEMA}.c (id BIGINT AUTO_INCREMENT PRIMARY KEY, text CHAR(100))");
        stage.run_in("db1", &table).await.unwrap();
        if kind == ClusterKind::Galera {
            // Where processors are few db2 is behind at times, and its flow control ends a hold of db3 early.
            flow_control_above(&stage, "db2", 10_000).await;
        }
        let host = stage.host_address();
        let mut config = format!("[cluster]\nname = \"shop\"\nkind = \"{}\"\n", kind.name());
        for node in stage.nodes() {
            config +=
                &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
        }
        if let ClusterKind::Replication { .. } = kind {
            config += &format!(
                "[cluster.replication]\nuser = \"{REPLICATION_USER}\"\npassword = \"{REPLICATION_PASSWORD}\"\n"
            );
        }
        config += &format!(
            "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n[listen]\nmysql = \"{host}:6033\"\n\
             http = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
        );
        let dir = directory(&config);
        let is_over = Arc::new(AtomicBool::new(false));
        let writes = (0..4)
            .map(|_| tokio::spawn(write(stage.node("db1").unwrap().address, is_over.clone(), Arc::default())))
            .collect();
        Self { stage, dir, writes, is_over }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("understudy.toml")
    }

    /// The command, to be run beside what the test does.
    fn begin(&self, arguments: &[&str]) -> Running {
        let path = self.dir.path().join("said");
        let said = File::create(&path).unwrap();
        let child = Command::new(bin())
            .arg("capacity")
            .args(arguments)
            .current_dir(self.dir.path())
            .env("UNDERSTUDY_PASSWORD", MONITOR_PASSWORD)
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        Running { child, path }
    }

    /// A session that stays.
    async fn root(&self, node: &str) -> Conn {
        let socket = self.stage.node(node).unwrap().socket.display().to_string();
        let options = OptsBuilder::default().socket(Some(socket)).user(Some("root")).prefer_socket(false);
        Conn::new(options).await.unwrap()
    }

    /// What db3 is: its state, wsrep_desync, whether anybody holds up its writes.
    async fn db3(&self) -> (String, String) {
        let state = self.stage.run_in("db3", "SHOW STATUS LIKE 'wsrep_local_state_comment'").await.unwrap();
        let desync = self.stage.run_in("db3", "SELECT @@GLOBAL.wsrep_desync").await.unwrap();
        (state[0][1].clone(), desync[0][0].clone())
    }

    async fn until_db3(&self, state: &str, desync: &str, within: Duration) {
        let is_so = within_async(within, async || {
            let found = self.db3().await;
            if found == (state.to_owned(), desync.to_owned()) { Ok(()) } else { Err(found) }
        });
        is_so.await.unwrap_or_else(|found| panic!("db3 never was {state} with desync {desync}: {found:?}"));
    }

    /// Nothing of ours is left on db3: it applies what is written, takes writes itself, and has no session of ours.
    async fn is_as_before(&self) {
        // The guard looks at the queue once a second until it is empty: on a busy machine that takes some looks.
        self.until_db3("Synced", "0", Duration::from_secs(60)).await;
        let sql = format!("INSERT INTO {APP_SCHEMA}.c (text) VALUES ('written here')");
        self.stage.run_in_within("db3", &sql, Duration::from_secs(5)).await.unwrap();
        let left = "SELECT INFO FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(%' AND ID <> CONNECTION_ID()";
        let left = self.stage.run_in("db3", left).await.unwrap();
        assert!(left.is_empty(), "the guard is still there: {left:?}");
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.writes {
            task.await.unwrap();
        }
        self.stage.down().await.unwrap();
    }
}

/// From this length of its queue on, a node asks its group to wait.
async fn flow_control_above(stage: &Stage, node: &str, queue: u32) {
    let sql = format!("SET GLOBAL wsrep_provider_options = 'gcs.fc_limit={queue}'");
    stage.run_in(node, &sql).await.unwrap();
}

/// Rows, one after the other, past the proxy, until `is_over`. `begun` is told of each.
async fn write(address: std::net::SocketAddr, is_over: Arc<AtomicBool>, begun: Arc<Notify>) {
    let options = OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .prefer_socket(false)
        .tcp_port(address.port())
        .user(Some(APP_USER))
        .pass(Some(APP_PASSWORD))
        .db_name(Some(APP_SCHEMA));
    let mut conn = Conn::new(options).await.unwrap();
    while !is_over.load(Ordering::Relaxed) {
        conn.query_drop("INSERT INTO c (text) VALUES (REPEAT('x', 90))").await.unwrap();
        begun.notify_one();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    conn.disconnect().await.unwrap();
}

struct Running {
    child: Child,
    path: PathBuf,
}

impl Running {
    fn said(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }

    fn until_said(&mut self, what: &str) {
        until(what, || {
            let said = self.said();
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() || said.contains(what), "{ended:?}: {said}");
            said.contains(what).then_some(())
        });
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        until("the command's end", || self.child.try_wait().unwrap())
    }
}

fn node<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).unwrap()
}

fn is_well(status: &Value) -> bool {
    let nodes = status["nodes"].as_array().unwrap();
    status["gate"] == "open"
        && nodes.iter().all(|node| node["state"] == "synced" && node["sessions_max"].is_null())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_galera_node_is_measured_and_left_as_it_was_found() {
    let scene = Scene::set(ClusterKind::Galera, "cap").await;
    let serving = Serving::start(scene.dir.path());
    let status = status_when(&serving, "all nodes are well", is_well);
    refusals(&scene, status["writer"].as_str().unwrap()).await;
    measured(&scene, &serving);
    interrupted(&scene, &serving).await;
    killed(&scene, &serving).await;
    careful::guard_lost(&scene, &serving).await;
    careful::ended_while_taken_out(&scene, &serving).await;
    careful::drained_before(&scene, &serving);
    careful::drained_meanwhile(&scene, &serving);
    careful::another_node_asks_to_wait(&scene, &serving).await;
    drop(serving);
    careful::written_to(&scene).await;
    careful::a_writer_comes(&scene).await;
    cut_off(&scene).await;
    scene.end().await;
}

async fn refusals(scene: &Scene, writer: &str) {
    let config = scene.config();
    let asked = |arguments: &[&str]| {
        run(Command::new(bin()).arg("capacity").args(arguments).arg("--config").arg(&config))
    };
    let refused = |arguments: &[&str]| asked(arguments).with(1);
    let told = asked(&["db3", "--hold-s", "7", "--dry-run"]).with(0);
    let steps = [
        "understudy drain db3: ",
        "SET GLOBAL wsrep_desync = ON",
        "FLUSH TABLES WITH READ LOCK",
        "held for 7 s",
        "UNLOCK TABLES",
        "SET GLOBAL wsrep_desync = OFF",
        "understudy undrain db3",
    ];
    let places: Vec<_> = steps.iter().map(|step| told.find(step)).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{told}");
    assert_eq!(scene.db3().await, ("Synced".into(), "0".into()));
    let said = refused(&[writer]);
    assert_eq!(said, refused(&[writer, "--dry-run"]));
    assert!(said.contains("nothing was changed") && said.contains("takes the writes"), "{said}");
    assert!(asked(&["db9"]).with(2).contains("the cluster has no node db9: it has db1, db2, db3"));
    assert!(asked(&["db3", "--allow", "everything"]).with(2).contains("small-cluster"));
    let other = if writer == "db2" { "db1" } else { "db2" };
    scene.stage.run_in(other, "SET GLOBAL wsrep_desync = ON").await.unwrap();
    let said = refused(&["db3"]);
    assert!(said.contains("Donor/Desynced (--allow donor overrides this)"), "{said}");
    let said = refused(&[other]);
    assert!(said.contains("already: somebody measures or backs it up"), "{said}");
    scene.stage.run_in(other, "SET GLOBAL wsrep_desync = OFF").await.unwrap();
    scene.stage.wait_synced(other, Duration::from_secs(20)).await.unwrap();
    assert_eq!(scene.db3().await, ("Synced".into(), "0".into()));
    // As mariabackup does while it copies files: it is silent, and has a lock.
    let mut backup = scene.root("db3").await;
    backup.query_drop("BACKUP STAGE START").await.unwrap();
    let said = refused(&["db3"]);
    assert!(said.contains("a backup runs on db3") && said.contains("--allow backup"), "{said}");
    backup.disconnect().await.unwrap();
}

/// The usual end: a figure, and nothing left.
fn measured(scene: &Scene, serving: &Serving) {
    let mut running =
        scene.begin(&[&["db3", "--json", "result.json", "--html", "result.html"], &SHORT[..]].concat());
    running.until_said("held: nothing is applied");
    let status = serving.status();
    assert_eq!(node(&status, "db3")["sessions_max"], 0, "it is out of the traffic: {status:#}");
    let code = running.ended().code();
    let said = running.said();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("db3 can apply") && said.contains("flow control stopped nobody"), "{said}");
    let text = std::fs::read_to_string(scene.dir.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    testbed::printed::fits("capacity", &result);
    let (apply, usual) =
        (result["apply_per_s"].as_f64().unwrap(), result["baseline_per_s"].as_f64().unwrap());
    assert!(apply > usual && usual > 10.0, "{said}");
    assert!(result["queue_max"].as_u64().unwrap() > 20 && result["hold_end"] == "time", "{said}");
    let page = std::fs::read_to_string(scene.dir.path().join("result.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("db3 can apply"));
    status_when(serving, "db3 is back", is_well);
}

/// SIGINT in the middle: undone in the order of things.
async fn interrupted(scene: &Scene, serving: &Serving) {
    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "60"]);
    running.until_said("held: nothing is applied");
    running.signal(Signal::INT);
    assert_eq!(running.ended().code(), Some(130), "{}", running.said());
    assert!(running.said().contains("ended by SIGINT"), "{}", running.said());
    assert_eq!(scene.db3().await, ("Synced".into(), "0".into()), "{}", running.said());
    scene.is_as_before().await;
    status_when(serving, "db3 is back", is_well);
}

/// SIGKILL in the middle: the server notices, and our own process gives it back.
async fn killed(scene: &Scene, serving: &Serving) {
    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "60"]);
    running.until_said("held: nothing is applied");
    scene.until_db3("Donor/Desynced", "1", Duration::from_secs(5)).await;
    running.signal(Signal::KILL);
    running.ended();
    let began = Instant::now();
    scene.is_as_before().await;
    println!("          killed: as before after {:.1} s", began.elapsed().as_secs_f64());
    status_when(serving, "db3 is back", is_well);
    running.until_said_after_end("takes sessions again");
}

impl Running {
    /// The process that stays behind says it on the same standard error.
    fn until_said_after_end(&self, what: &str) {
        until(what, || self.said().contains(what).then_some(()));
    }
}

/// The way to the node falls silent: its server ends it when the time is up.
async fn cut_off(scene: &Scene) {
    let door = door::Door::open(scene.stage.node("db3").unwrap().address).await;
    let address = door.address.to_string();
    let others: Vec<String> =
        ["db1", "db2"].iter().map(|name| scene.stage.node(name).unwrap().address.to_string()).collect();
    let mut arguments = vec!["--standalone", address.as_str(), "--user", MONITOR_USER];
    for other in &others {
        arguments.extend(["--other", other.as_str()]);
    }
    arguments.extend(SHORT);
    let mut running = scene.begin(&arguments);
    running.until_said("held: nothing is applied");
    scene.until_db3("Donor/Desynced", "1", Duration::from_secs(5)).await;
    door.fall_silent();
    let began = Instant::now();
    scene.is_as_before().await;
    println!("          cut off: as before after {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(running.ended().code(), Some(1), "{}", running.said());
    let said = running.said();
    assert!(said.contains("its server does it by itself") && said.contains("lost from sight"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_measured_and_left_as_it_was_found() {
    let scene = Scene::set(ClusterKind::Replication { semi_sync: false }, "capr").await;
    let db3 = scene.stage.node("db3").unwrap().address.to_string();
    let alone = ["--standalone", &db3, "--user", MONITOR_USER, "--baseline-s", "1"];
    let mut running = scene.begin(&[&alone[..], &["--hold-s", "2", "--json", "-"]].concat());
    running.until_said("held: nothing is applied");
    assert!(!applies(&scene).await, "{}", running.said());
    assert_eq!(running.ended().code(), Some(0), "{}", running.said());
    assert!(applies(&scene).await);
    let said = running.said();
    let result: Value =
        serde_json::from_str(&said[said.find('{').unwrap()..=said.rfind('}').unwrap()]).unwrap();
    testbed::printed::fits("capacity", &result);
    assert!(result["apply_per_s"].as_f64().unwrap() > result["baseline_per_s"].as_f64().unwrap(), "{said}");
    assert!(result["queue_max"].as_u64().unwrap() > 20, "{said}");

    let mut running = scene.begin(&[&alone[..], &["--hold-s", "60"]].concat());
    running.until_said("held: nothing is applied");
    running.signal(Signal::KILL);
    running.ended();
    until_async("its SQL thread runs", async || {
        let applies = applies(&scene).await;
        if applies { Ok(()) } else { Err(running.said()) }
    })
    .await;

    beside_serve(&scene).await;
    scene.end().await;
}

/// `serve` starts a replica's thread that stands, but not that of a replica that is drained.
async fn beside_serve(scene: &Scene) {
    let serving = Serving::start(scene.dir.path());
    status_when(&serving, "all nodes are well", is_well);
    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "4"]);
    running.until_said("held: nothing is applied");
    assert_eq!(node(&serving.status(), "db3")["sessions_max"], 0, "{}", running.said());
    assert_eq!(running.ended().code(), Some(0), "{}", running.said());
    assert!(running.said().contains("db3 can apply"), "{}", running.said());
    assert!(!running.said().contains("ended early"), "{}", running.said());
    status_when(&serving, "db3 is back", is_well);
    assert!(applies(scene).await);

    let mut running = scene.begin(&["db3", "--baseline-s", "1", "--hold-s", "60"]);
    running.until_said("held: nothing is applied");
    running.signal(Signal::KILL);
    running.ended();
    status_when(&serving, "db3 is back", is_well);
    running.until_said_after_end("takes sessions again");

    // One that stands in traffic is somebody's mistake.
    scene.stage.run_in("db3", "STOP SLAVE SQL_THREAD").await.unwrap();
    until_async("its SQL thread is started", async || applies(scene).await).await;
}

/// Whether the SQL thread of db3 runs.
async fn applies(scene: &Scene) -> bool {
    let rows = scene.stage.run_in("db3", "SHOW STATUS LIKE 'Slave_running'").await.unwrap();
    let threads = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Slave_SQL'";
    rows[0][1] == "ON" && scene.stage.run_in("db3", threads).await.unwrap() == [["1"]]
}

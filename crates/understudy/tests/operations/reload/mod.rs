//! `understudy serve` reads its configuration again, on real clusters and under writes: what can change changes, clients and their sessions
//! stay, and the next failover works as ever.
//!
//! ```text
//!   Galera:      limits ─> what is refused ─> API key and certificate ─> the monitor's password ─> a node out, another order, a node in
//!                ─> the writer is full ─> all nodes are frozen ─> kill -9 in the moment of a reload
//!   all write:   a node freezes in the moment of a reload
//!   replication: another interval, the lag of reads ─> a replica out and in ─> kill -9 of the primary
//!      └── one session with a temporary table goes through all of it; what was acknowledged is there, once
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lab::fault::Fault;
use lab::stage::StagePlan;
use lab::stage::account::{MONITOR_PASSWORD, MONITOR_USER};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::{self, Serving, directory, run, until};
use testbed::scene::{self, Scene, is_well, status_when};
use testbed::writers::{Writers, connect};

/// Commits before and after each change.
const SOME: usize = 40;

/// A configuration file of sections that are replaced one by one.
struct Config {
    file: PathBuf,
    nodes: Vec<(String, String)>,
    password: String,
    rest: String,
}

impl Config {
    fn text(&self) -> String {
        let mut text = "[cluster]\nname = \"shop\"\n".to_owned();
        for (name, address) in &self.nodes {
            text += &format!("[[cluster.node]]\nname = \"{name}\"\naddress = \"{address}\"\n");
        }
        text += &format!("[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{}\"\n", self.password);
        text + &self.rest
    }

    fn write(&self) {
        std::fs::write(&self.file, self.text()).unwrap();
    }
}

/// Sends SIGHUP, and gives the line of the log that says what came of it.
fn hang_up(serving: &Serving) -> String {
    let before = serving.log().len();
    run(Command::new("kill").args(["-HUP", &serving.pid().to_string()])).with(0);
    let said = until("SIGHUP is answered in the log", || {
        let log = serving.log();
        log[before..]
            .lines()
            .find(|line| line.contains("the configuration was read again"))
            .map(str::to_owned)
    });
    assert!(serving.told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(serving.told(), "READY=1");
    said
}

/// A reload by command, with both words to systemd.
fn reload(serving: &Serving, code: i32) -> String {
    let said = serving.ask(&["reload"]).with(code);
    assert!(serving.told().starts_with("RELOADING=1\n"));
    assert_eq!(serving.told(), "READY=1");
    said
}

/// A session that cannot be moved: it ends when its connection to the node does.
struct Bound {
    conn: Conn,
    server: u64,
}

impl Bound {
    async fn at(address: SocketAddr) -> Self {
        let mut conn = connect(address).await.unwrap();
        conn.query_drop("CREATE TEMPORARY TABLE kept (a INT) ENGINE=InnoDB").await.unwrap();
        let server = conn.query_first("SELECT @@pseudo_thread_id").await.unwrap().unwrap();
        Self { conn, server }
    }

    /// It is the same connection to the same node, and its table is there.
    async fn is_there(&mut self) {
        self.conn.query_drop("INSERT INTO kept VALUES (1)").await.unwrap();
        let server: u64 = self.conn.query_first("SELECT @@pseudo_thread_id").await.unwrap().unwrap();
        assert_eq!(server, self.server);
    }
}

fn names(status: &Value) -> Vec<String> {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
}

fn lanes(status: &Value) -> Vec<String> {
    let lanes = status["proxy"]["lanes"].as_array().unwrap();
    lanes.iter().map(|lane| lane["node"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_galera_cluster_goes_on_through_every_change() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let plan = StagePlan { name: format!("t{}-reload", std::process::id()), ..StagePlan::default() };
    let scene = Scene::on(plan).await;
    let host = scene.stage.host_address();
    let dir = directory("");
    let mut config = Config {
        file: dir.path().join("understudy.toml"),
        nodes: scene.stage.nodes().iter().map(|node| (node.name.clone(), node.address.to_string())).collect(),
        password: MONITOR_PASSWORD.to_owned(),
        rest: format!(
            "[listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\nhttps = \"{host}:6443\"\n[state]\ndir = \"state\"\n"
        ),
    };
    config.write();
    let serving = Serving::start(dir.path());
    let status = status_when(&serving, "all nodes are well", is_well);
    let writer = scene::writer(&status);
    let others: Vec<String> = names(&status).into_iter().filter(|name| *name != writer).collect();
    let mut bound = Bound::at(scene.through()).await;
    let writers = Writers::at(scene.through());
    writers.more(SOME).await;
    told("all is well and written to");

    assert!(hang_up(&serving).contains("no setting has changed"));
    limits(&serving, &mut config, &mut bound).await;
    told("limits were changed");
    refused(&serving, &config, &writer, &mut bound).await;
    told("what cannot be taken up was refused");
    secrets(&serving, dir.path());
    told("the API has another key and another certificate");

    scene
        .stage
        .run_in(&writer, &format!("SET PASSWORD FOR {MONITOR_USER}@'%' = PASSWORD('another')"))
        .await
        .unwrap();
    config.password = "another".to_owned();
    config.write();
    assert!(hang_up(&serving).contains("cluster.monitor.password is another one"));
    bound.is_there().await;
    writers.more(SOME).await;
    let before_ms = status["now_ms"].as_u64().unwrap();
    let status = status_when(&serving, "the nodes answer the new login", is_well);
    assert!(status["now_ms"].as_u64().unwrap() > before_ms, "the program's clock goes on");
    let log = serving.log();
    assert!(!log.contains("another\""));
    told("the monitor's password was changed");

    // The writer has another place in the configuration, and a new node has the place of an old one.
    let all = config.nodes.clone();
    config.nodes = all.iter().rev().filter(|(name, _)| *name != others[0]).cloned().collect();
    config.write();
    let said = reload(&serving, 0);
    assert!(said.contains(&format!("node {} (", others[0])) && said.contains("is taken out"), "{said}");
    let status = status_when(&serving, "two nodes are well", is_well);
    assert_eq!(names(&status), config.nodes.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    assert_eq!(scene::writer(&status), writer);
    let mut left = lanes(&status);
    left.sort();
    let mut expected = names(&status);
    expected.sort();
    assert_eq!(left, expected, "a node that was taken out is not shown");
    bound.is_there().await;
    writers.more(SOME).await;
    told("a node was taken out");

    config.nodes = [&all[2], &all[0], &all[1]].map(Clone::clone).to_vec();
    config.write();
    assert!(reload(&serving, 0).contains("is added"));
    status_when(&serving, "three nodes are well", |status| is_well(status) && names(status).len() == 3);
    bound.is_there().await;
    writers.more(SOME).await;
    told("it was added again, in another order");

    config.rest += "[cluster.heartbeat]\ninterval_ms = 1100\n";
    full(&serving, &scene, &config, &writer).await;
    bound.is_there().await;
    writers.more(SOME).await;
    told("a reload while the writer accepts no new connection");

    // None of them answers for a while: nothing is moved, and nothing is cut.
    for (name, _) in &config.nodes {
        scene.stage.fault(name, Fault::Freeze).await.unwrap();
    }
    status_when(&serving, "no node answers", |status| {
        status["nodes"].as_array().unwrap().iter().all(|node| node["misses"].as_u64() > Some(1))
    });
    config.rest = config.rest.replace("1100", "1000");
    config.write();
    assert!(hang_up(&serving).contains("and is in force: cluster.heartbeat.interval_ms: 1100 -> 1000"));
    for (name, _) in &config.nodes {
        scene.stage.fault(name, Fault::Thaw).await.unwrap();
    }
    bound.is_there().await;
    writers.more(SOME).await;
    assert_eq!(scene::writer(&serving.status()), writer);
    told("a reload while all nodes were frozen");

    assert_eq!(writers.errors(), Vec::<String>::new(), "nobody has seen any of it");
    let before = Instant::now();
    // The list of nodes changes in the middle of the failover, or after it.
    config.nodes.rotate_left(1);
    config.write();
    scene.stage.fault(&writer, Fault::Kill).await.unwrap();
    let said = hang_up(&serving);
    assert!(said.contains("and is in force: the nodes' order"), "{said}");
    let status = status_when(&serving, "another node writes", |status| {
        status["gate"] == "open" && scene::writer(status) != writer
    });
    writers.more(SOME).await;
    let told_of = writers.stop().await;
    assert!(told_of.commits_since(before) > 0);
    assert!(
        told_of.errors.len() <= 4,
        "no more than what ran when the writer was killed: {:?}",
        told_of.errors
    );
    let left: Vec<String> = names(&status).into_iter().filter(|name| *name != writer).collect();
    scene.has_all(&told_of, &left.iter().map(String::as_str).collect::<Vec<_>>()).await;
    told("the writer was killed, and nothing that was acknowledged is lost");
    for node in &left {
        scene.stage.fault(node, Fault::Kill).await.unwrap();
    }
    status_when(&serving, "no node is left", |status| status["gate"] == "held");
    config.rest = config.rest.replace("interval_ms = 1000", "interval_ms = 900");
    config.write();
    assert!(hang_up(&serving).contains("and is in force: cluster.heartbeat.interval_ms: 1000 -> 900"));
    status_when(&serving, "they are still dead", |status| status["gate"] == "held");
    told("a reload with no node left");
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// The hold, the proxy's limits and the log's level are changed where they are: the manager stays.
async fn limits(serving: &Serving, config: &mut Config, bound: &mut Bound) {
    let through: SocketAddr = serving.mysql.parse().unwrap();
    config.rest += "[proxy]\nclient_connections_max = 7\n[hold]\ntime_ms = 30000\n[log]\nlevel = \"warn\"\n";
    config.write();
    let told = serving.ask(&["reload", "--dry-run", "--json"]);
    assert!(!serving.ask(&["journal"]).with(0).contains("hold.time_ms"), "{}", told.said());
    let said = serving.ask(&["reload", "--json"]);
    assert_eq!(said.code, 0, "{}", said.said());
    assert_eq!(told.json()["data"], said.json()["data"]);
    assert!(serving.told().starts_with("RELOADING=1\n") && serving.told() == "READY=1");
    let changed: Vec<String> = said.json()["data"]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["setting"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(changed, ["hold.time_ms", "proxy.client_connections_max", "log.level"]);
    // Four writers and the bound session are there.
    let two = (connect(through).await.unwrap(), connect(through).await.unwrap());
    let full = connect(through).await.unwrap_err().to_string();
    assert!(full.contains("1040"), "{full}");
    drop(two);
    config.rest = config.rest.replace("client_connections_max = 7", "client_connections_max = 100");
    config.write();
    reload(serving, 0);
    connect(through).await.unwrap();
    bound.is_there().await;
    assert!(serving.ask(&["journal"]).with(0).contains("and is in force: hold.time_ms: 60000 -> 30000"));
}

/// The writer has no connection left for anybody, the manager included, which asks it on the links that it has: it stays the writer.
async fn full(serving: &Serving, scene: &Scene, config: &Config, writer: &str) {
    let address: SocketAddr = scene.address(writer).parse().unwrap();
    let most = scene.stage.run_in(writer, "SELECT @@max_connections").await.unwrap();
    scene.stage.run_in(writer, "SET GLOBAL max_connections = 20").await.unwrap();
    let mut held = Vec::new();
    while let Ok(conn) = connect(address).await {
        held.push(conn);
    }
    let epoch = scene.node(&serving.status(), writer)["epoch"].clone();
    config.write();
    assert!(hang_up(serving).contains("and is in force: cluster.heartbeat.interval_ms: 1000 -> 1100"));
    let since_ms = serving.status()["now_ms"].as_u64().unwrap();
    let status = status_when(serving, "some rounds of probes have passed", |status| {
        status["now_ms"].as_u64().unwrap() > since_ms + 2000
    });
    assert_eq!((scene::writer(&status), &scene.node(&status, writer)["epoch"]), (writer.to_owned(), &epoch));
    drop(held);
    scene.stage.run_in(writer, &format!("SET GLOBAL max_connections = {}", most[0][0])).await.unwrap();
}

/// Nothing changes by a file that cannot be taken up as a whole.
async fn refused(serving: &Serving, config: &Config, writer: &str, bound: &mut Bound) {
    let good = config.text();
    let try_with = |text: String, code: i32| {
        std::fs::write(&config.file, text).unwrap();
        let told = serving.ask(&["reload", "--dry-run"]);
        let said = hang_up(serving);
        if told.code == 1 {
            let why = told.err.trim().split_once("nothing was changed: ").unwrap().1;
            assert!(said.contains(why.lines().next().unwrap()), "{why}: {said}");
        }
        std::fs::write(&config.file, &good).unwrap();
        assert!((code == 0) != said.contains("and nothing was changed"), "{said}");
        said
    };
    let broken = try_with(good.replace("[hold]", "[hold"), 1);
    assert!(broken.contains("not valid TOML"), "{broken}");
    let typo = try_with(good.replace("time_ms = 30000", "tine_ms = 30000"), 1);
    assert!(typo.contains("did you mean hold.time_ms?"), "{typo}");
    let moved = try_with(good.replace(":6033\"", ":6034\"").replace("time_ms = 30000", "time_ms = 1"), 1);
    assert!(moved.contains("listen.mysql: ") && moved.contains("takes a restart"), "{moved}");
    let login =
        try_with(good.replace(MONITOR_PASSWORD, "wrong").replacen("\"wrong\"", "\"understudy\"", 1), 1);
    assert!(login.contains("does not let the monitor account in as it is now configured"), "{login}");
    let gone = format!("[[cluster.node]]\nname = \"{writer}\"\n");
    let without = good.split_inclusive("[[cluster.node]]").collect::<Vec<_>>();
    assert!(good.contains(&gone) && without.len() == 4);
    let renamed = try_with(good.replace(&format!("name = \"{writer}\""), "name = \"other\""), 1);
    assert!(renamed.contains(&format!("{writer} is the writer")), "{renamed}");
    bound.is_there().await;
    assert!(reload(serving, 0).contains("no setting has changed"));
}

/// The API's key and certificate are read again.
fn secrets(serving: &Serving, dir: &Path) {
    let certificate = || {
        let shown = run(Command::new("curl").args([
            "-sSkv",
            "--max-time",
            "20",
            &format!("https://{}/healthz", serving.https),
        ]))
        .with(0);
        shown.lines().find(|line| line.contains("start date:")).unwrap().to_owned()
            + shown.lines().find(|line| line.contains("SSL certificate verify")).unwrap_or_default()
    };
    let key_file = serving.state("api.key");
    let old = std::fs::read_to_string(&key_file).unwrap();
    std::fs::write(&key_file, "another-key\n").unwrap();
    let pem = |name: &str| std::fs::read(serving.state(name)).unwrap();
    let (before, shown) = (pem("https.crt"), certificate());
    std::fs::remove_file(serving.state("https.crt")).unwrap();
    std::fs::remove_file(serving.state("https.key")).unwrap();
    // The command shows the new key, which the program does not know yet.
    assert!(serving.ask(&["reload"]).with(1).contains("the API key is not right"));
    hang_up(serving);
    assert_ne!(pem("https.crt"), before, "{shown}");
    assert_eq!(serving.status()["gate"], "open");
    let old_key = dir.join("old.key");
    std::fs::write(&old_key, old).unwrap();
    let api = format!("http://{}", serving.http);
    let said = program::understudy(&["status", "--api", &api, "--key-file", old_key.to_str().unwrap()]);
    assert!(said.with(1).contains("the API key is not right"));
    let new = serving.state("https.crt");
    let trusted = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--cacert", new.to_str().unwrap()])
        .arg(format!("https://{}/healthz", serving.https))
        .output()
        .unwrap();
    assert!(
        trusted.status.success(),
        "the new certificate is shown: {}",
        String::from_utf8_lossy(&trusted.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_with_replicas_goes_on_through_every_change() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::of("reload-r", true).await;
    let dir = scene.directory("failover_gap_ms = 0");
    let file = dir.path().join("understudy.toml");
    let base = std::fs::read_to_string(&file).unwrap();
    let host = scene.stage.host_address();
    let with_reads = base.replace("[listen]\n", &format!("[listen]\nread = \"{host}:6034\"\n"));
    std::fs::write(&file, &with_reads).unwrap();
    let serving = Serving::start(dir.path());
    let takes_reads = |status: &Value| {
        let nodes = status["nodes"].as_array().unwrap();
        is_well(status) && nodes.iter().filter(|node| node["reads"]["lane"] == "open").count() == 2
    };
    let status = status_when(&serving, "all are well, and two take reads", takes_reads);
    let primary = scene::writer(&status);
    let replica = names(&status).into_iter().find(|name| *name != primary).unwrap();
    let reads: SocketAddr = SocketAddr::new(host, 6034);
    let mut bound = Bound::at(scene.through()).await;
    let mut reader = connect(reads).await.unwrap();
    let read_from: u64 = reader.query_first("SELECT @@server_id").await.unwrap().unwrap();
    reader.query_drop("SET @kept = 5").await.unwrap();
    let writers = Writers::at(scene.through());
    writers.more(SOME).await;
    told("all is well, written to and read from");

    let faster = with_reads.clone() + "[read]\nlag_max_ms = 4000\n[cluster.heartbeat]\ninterval_ms = 500\n";
    std::fs::write(&file, &faster).unwrap();
    assert!(hang_up(&serving).contains("read.lag_max_ms: 5000 -> 4000"));
    bound.is_there().await;
    writers.more(SOME).await;
    let same: u64 = reader.query_first("SELECT @@server_id").await.unwrap().unwrap();
    assert_eq!(same, read_from, "a session that reads stays where it was");
    status_when(&serving, "the replicas take reads again", takes_reads);
    told("the manager has other settings, under reads and writes");

    let node = |name: &str| {
        let address = scene.address(name);
        format!("[[cluster.node]]\nname = \"{name}\"\naddress = \"{address}\"\n")
    };
    let without = faster.replace(&node(&replica), "");
    assert_ne!(without, faster);
    std::fs::write(&file, &without).unwrap();
    let said = hang_up(&serving);
    assert!(said.contains(&format!("{replica} takes sessions")), "it takes reads: {said}");
    std::fs::write(&file, &faster).unwrap();
    serving.ask(&["drain", &replica]).with(0);
    status_when(&serving, "it takes no reads", |status| {
        scene.node(status, &replica)["reads"]["lane"] == "draining"
    });
    std::fs::write(&file, &without).unwrap();
    assert!(hang_up(&serving).contains("is taken out"));
    bound.is_there().await;
    writers.more(SOME).await;
    told("a replica was drained and taken out");

    std::fs::write(&file, &faster).unwrap();
    assert!(hang_up(&serving).contains("is added"));
    let status = status_when(&serving, "three servers are known", |status| names(status).len() == 3);
    if scene.node(&status, &replica)["sessions_max"] == 0 {
        serving.ask(&["undrain", &replica]).with(0);
    }
    status_when(&serving, "all take their part again", takes_reads);
    bound.is_there().await;
    reader.query_drop("SELECT 1").await.unwrap();
    let kept: u64 = reader.query_first("SELECT @kept").await.unwrap().unwrap();
    assert_eq!(kept, 5);
    told("it was added again");

    assert_eq!(writers.errors(), Vec::<String>::new(), "nobody has seen any of it");
    scene.stage.fault(&primary, Fault::Kill).await.unwrap();
    status_when(&serving, "a replica was promoted", |status| {
        status["gate"] == "open" && scene::writer(status) != primary
    });
    writers.more(SOME).await;
    let told_of = writers.stop().await;
    assert!(
        told_of.errors.len() <= 4,
        "no more than what ran when the primary was killed: {:?}",
        told_of.errors
    );
    let left: Vec<String> = names(&serving.status()).into_iter().filter(|name| *name != primary).collect();
    scene.has_all(&told_of, &left.iter().map(String::as_str).collect::<Vec<_>>()).await;
    told("the primary was killed, and nothing that was acknowledged is lost");
    drop(serving);
    scene.stage.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_nodes_write_every_session_stays_while_one_node_is_frozen() {
    let plan = StagePlan { name: format!("t{}-reload-a", std::process::id()), ..StagePlan::default() };
    let scene = Scene::on(plan).await;
    let host = scene.stage.host_address();
    let mut config = Config {
        file: PathBuf::new(),
        nodes: scene.stage.nodes().iter().map(|node| (node.name.clone(), node.address.to_string())).collect(),
        password: MONITOR_PASSWORD.to_owned(),
        rest: format!(
            "[listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
        ),
    };
    let with_all =
        |config: &Config| config.text().replace("name = \"shop\"\n", "name = \"shop\"\nwriters = \"all\"\n");
    let dir = directory(&with_all(&config));
    config.file = dir.path().join("understudy.toml");
    let serving = Serving::start(dir.path());
    status_when(&serving, "all nodes take sessions", |status| {
        is_well(status) && status["nodes"].as_array().unwrap().iter().all(|node| node["lane"] == "open")
    });
    let mut bound = Vec::new();
    for _ in 0..6 {
        bound.push(Bound::at(scene.through()).await);
    }
    let writers = Writers::at(scene.through());
    writers.more(SOME).await;
    config.rest += "[cluster.heartbeat]\ninterval_ms = 700\n";
    std::fs::write(&config.file, with_all(&config)).unwrap();
    assert!(hang_up(&serving).contains("cluster.heartbeat.interval_ms: 1000 -> 700"));
    for session in &mut bound {
        session.is_there().await;
    }
    writers.more(SOME).await;
    assert_eq!(writers.errors(), Vec::<String>::new());

    // The group goes on without a frozen node, for which settings of the others are changed for a moment.
    let timeouts =
        "SELECT GROUP_CONCAT(REGEXP_SUBSTR(@@wsrep_provider_options, 'evs.suspect_timeout = [^;]*'))";
    let own = scene.stage.run_in("db1", timeouts).await.unwrap();
    scene.stage.fault("db3", Fault::Freeze).await.unwrap();
    config.rest = config.rest.replace("700", "600");
    std::fs::write(&config.file, with_all(&config)).unwrap();
    let began = Instant::now();
    let said = hang_up(&serving);
    println!("a reload in the moment when a node froze: {:?}: {said}", began.elapsed());
    writers.more(SOME).await;
    status_when(&serving, "the others go on", |status| {
        let lane = |node: &str| scene.node(status, node)["lane"].clone();
        lane("db1") == "open" && lane("db2") == "open" && lane("db3") == "shut"
    });
    until("the settings of the nodes that are left are their own again", || {
        let now = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(scene.stage.run_in("db1", timeouts))
        });
        (now.unwrap() == own).then_some(())
    });
    // It is still frozen, and long out of the group.
    config.rest = config.rest.replace("600", "800");
    std::fs::write(&config.file, with_all(&config)).unwrap();
    hang_up(&serving);
    writers.more(SOME).await;
    let told_of = writers.stop().await;
    scene.has_all(&told_of, &["db1", "db2"]).await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

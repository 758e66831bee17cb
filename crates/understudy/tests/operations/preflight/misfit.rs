//! Servers that are set up in another way than `cluster.kind` says: each way has its sentence, and no server is touched.

use fixture::wait::until_async;
use lab::stage::account::{MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{ClusterKind, Stage, StagePlan};
use testbed::program::{Serving, directory, until, with_config};
use testbed::scene::Scene;

/// What must not change.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only','gtid_binlog_state','gtid_slave_pos','binlog_format',\
    'rpl_semi_sync_master_enabled','rpl_semi_sync_slave_enabled','event_scheduler','max_connections')";
/// Columns of SHOW ALL SLAVES STATUS.
const SOURCE: [&str; 5] =
    ["Master_Host", "Master_Port", "Slave_IO_Running", "Slave_SQL_Running", "Using_Gtid"];
/// So long Understudy looks at each setup before it is said to have touched nothing.
const WATCHED_MS: u64 = 1500;

/// A setup, and what is said of it.
struct Case {
    what: &'static str,
    /// Statements, each at a node.
    make: Vec<(&'static str, String)>,
    undo: Vec<(&'static str, String)>,
    /// The nodes of the configuration.
    nodes: &'static [&'static str],
    kind: &'static str,
    /// What `serve --check` says.
    checked: &'static str,
    /// What the status says.
    shown: &'static str,
}

/// What a server says of its variables and its source.
pub async fn state(scene: &Scene, nodes: &[&str]) -> Vec<Vec<Vec<String>>> {
    let mut states = Vec::new();
    for node in nodes {
        states.push(state_of(&scene.stage, node).await);
    }
    states
}

async fn state_of(stage: &Stage, node: &str) -> Vec<Vec<String>> {
    let mut rows = stage.run_in(node, VARIABLES).await.unwrap();
    let columns = source_columns(stage, node).await;
    rows.push(columns);
    rows
}

/// By the server's own client, which names the columns.
async fn source_columns(stage: &Stage, node: &str) -> Vec<String> {
    let socket = stage.node(node).unwrap().socket.clone();
    let output = tokio::process::Command::new("mariadb")
        .args(["-u", "root", "-S"])
        .arg(socket)
        .args(["-e", "SHOW ALL SLAVES STATUS\\G"])
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let wanted = |line: &&str| SOURCE.iter().any(|name| line.trim_start().starts_with(&format!("{name}:")));
    text.lines().filter(wanted).map(|line| line.trim().to_owned()).collect()
}

pub async fn each_is_told_and_nothing_is_changed(scene: &Scene, told: &impl Fn(&str)) {
    let at = scene.stage.run_in("db1", "SHOW MASTER STATUS").await.unwrap();
    for case in cases(scene, &at[0][0], &at[0][1]) {
        run(scene, &case.make).await;
        one(scene, &case).await;
        run(scene, &case.undo).await;
        told(case.what);
    }
}

/// `file` and `position`: where db1's binlog ends.
fn cases(scene: &Scene, file: &str, position: &str) -> Vec<Case> {
    let all: &[&str] = &["db1", "db2", "db3"];
    let ip = |node: &str| scene.stage.node(node).unwrap().address.ip();
    let follow = |node: &str| {
        format!(
            "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = 3306, MASTER_USER = 'replication', MASTER_PASSWORD = 'replication', \
             MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1; START SLAVE",
            ip(node)
        )
    };
    let by_file = format!(
        "STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = no, MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {position}; START SLAVE"
    );
    let restart = |change: &str| format!("STOP SLAVE; {change}; START SLAVE");
    vec![
        Case {
            what: "two primaries",
            make: vec![("db2", "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF".into())],
            undo: vec![("db2", format!("SET GLOBAL read_only = ON; {}", follow("db1")))],
            nodes: all,
            kind: "replication",
            checked: "db1 and db2 are writable and follow nobody; SET GLOBAL read_only = ON on all but one",
            shown: "db1 and db2 are writable and follow nobody; SET GLOBAL read_only = ON on all but one",
        },
        Case {
            what: "a ring",
            make: vec![("db1", follow("db2"))],
            undo: vec![("db1", "STOP SLAVE; RESET SLAVE ALL".into())],
            nodes: all,
            kind: "replication",
            checked: "follows in a ring: db1 follows db2, which follows db1; on the one that is to be the primary, once it has applied what it received, run STOP SLAVE",
            shown: "follows in a ring: db1 follows db2, which follows db1; on the one that is to be the primary, once it has applied what it received, run STOP SLAVE",
        },
        Case {
            what: "a replica of a stranger",
            make: vec![("db2", format!("STOP SLAVE; {}", follow("db3")))],
            undo: vec![("db2", format!("STOP SLAVE; {}", follow("db1")))],
            nodes: &["db1", "db2"],
            kind: "replication",
            checked: "which is no server of this cluster: put that one in the configuration, or have this one follow one of ours",
            shown: "which is no server of this cluster: put that one in the configuration, or have this one follow one of ours",
        },
        Case {
            what: "a replica that does not follow by GTID",
            make: vec![("db2", by_file)],
            undo: vec![("db2", restart("CHANGE MASTER TO MASTER_USE_GTID = slave_pos"))],
            nodes: all,
            kind: "replication",
            checked: "does not follow by GTID: once it has applied what it received, STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE there",
            shown: "does not follow by GTID: once it has applied what it received, STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE there",
        },
        Case {
            what: "binlog formats that differ",
            make: vec![("db2", "SET GLOBAL binlog_format = 'STATEMENT'".into())],
            undo: vec![("db2", "SET GLOBAL binlog_format = 'ROW'".into())],
            nodes: all,
            kind: "replication",
            checked: "has binlog_format = STATEMENT, and db1 has ROW: SET GLOBAL binlog_format = 'ROW' there, and in its my.cnf",
            shown: "has binlog_format = STATEMENT, and db1 has ROW: SET GLOBAL binlog_format = 'ROW' there, and in its my.cnf",
        },
        Case {
            what: "two servers with one server_id",
            make: vec![("db2", "SET GLOBAL server_id = 3".into())],
            undo: vec![("db2", "SET GLOBAL server_id = 2".into())],
            nodes: all,
            kind: "replication",
            checked: "has server_id = 3, and so has db3: a replica leaves out what has its own server_id",
            shown: "has server_id = 3, and so has db3: a replica leaves out what has its own server_id",
        },
        Case {
            what: "a monitor account that may look and not act",
            make: vec![(
                "db1",
                format!("REVOKE READ_ONLY ADMIN, REPLICATION SLAVE ADMIN ON *.* FROM {MONITOR_USER}@'%'"),
            )],
            undo: vec![(
                "db1",
                format!("GRANT READ_ONLY ADMIN, REPLICATION SLAVE ADMIN ON *.* TO {MONITOR_USER}@'%'"),
            )],
            nodes: all,
            kind: "replication",
            checked: "READ_ONLY ADMIN ON *.*: it is needed for making a server read only, or writable",
            shown: "READ_ONLY ADMIN ON *.*: it is needed for making a server read only, or writable",
        },
        Case {
            what: "a primary with replicas under kind = \"galera\"",
            make: vec![],
            undo: vec![],
            nodes: all,
            kind: "galera",
            checked: "or set cluster.kind = \"replication\" for a primary and its replicas",
            shown: "is no Galera node (wsrep_on is OFF), and cluster.kind is \"galera\": set wsrep_on = ON there, or cluster.kind = \"replication\"",
        },
    ]
}

async fn run(scene: &Scene, statements: &[(&str, String)]) {
    for (node, sql) in statements {
        scene.stage.run_in(node, sql).await.unwrap_or_else(|error| panic!("{node}: {sql}: {error:#}"));
    }
}

async fn one(scene: &Scene, case: &Case) {
    settled(scene).await;
    let before = state(scene, &["db1", "db2", "db3"]).await;
    let nodes: Vec<(&str, String)> = case.nodes.iter().map(|node| (*node, scene.address(node))).collect();
    let directory = configured(case.kind, &nodes, &scene.through().ip().to_string());
    let said = with_config(&directory.path().join("understudy.toml"), &["serve", "--check"]).with(1);
    assert!(said.contains(case.checked), "{}: {said}", case.what);
    shown(&directory, case.what, case.shown);
    assert_eq!(state(scene, &["db1", "db2", "db3"]).await, before, "{}", case.what);
}

/// Waits until every replica is connected, and has what the others have: what changes by itself is no doing of Understudy's.
async fn settled(scene: &Scene) {
    let mut last = Vec::new();
    until_async("it has settled", async || {
        let now = state(scene, &["db1", "db2", "db3"]).await;
        let connects = now
            .iter()
            .flatten()
            .flatten()
            .any(|value| value.ends_with("Connecting") || value.ends_with("Preparing"));
        if now == last && !connects {
            return Ok(());
        }
        last.clone_from(&now);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        Err(now)
    })
    .await;
}

fn configured(kind: &str, nodes: &[(&str, String)], host: &str) -> tempfile::TempDir {
    let mut config = format!("[cluster]\nname = \"shop\"\nkind = \"{kind}\"\n");
    for (name, address) in nodes {
        config += &format!("[[cluster.node]]\nname = \"{name}\"\naddress = \"{address}\"\n");
    }
    config += &format!("[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n");
    if kind == "replication" {
        config += "[cluster.replication]\nuser = \"replication\"\npassword = \"replication\"\n";
    }
    // A heartbeat is a row on whoever writes.
    config += "[cluster.heartbeat]\ninterval_ms = 0\n";
    config +=
        &format!("[listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n");
    directory(&config)
}

/// A running Understudy shows it, and looks on for a while.
fn shown(directory: &tempfile::TempDir, what: &str, sentence: &str) {
    let serving = Serving::start(directory.path());
    until(what, || {
        let screen = serving.ask(&["status"]).with(0);
        screen.contains(sentence).then_some(())
    });
    let seen = serving.status()["now_ms"].as_u64().unwrap();
    until("it looked on", || (serving.status()["now_ms"].as_u64()? > seen + WATCHED_MS).then_some(()));
    let screen = serving.ask(&["status"]).with(0);
    assert!(screen.contains(sentence), "{what}: {screen}");
}

/// A Galera node under kind = "replication".
pub async fn galera_nodes_are_told(told: &impl Fn(&str)) {
    let name = format!("t{}-gal", std::process::id());
    let stage = Stage::up(StagePlan { kind: ClusterKind::Galera, name, nodes: 2, ..StagePlan::default() })
        .await
        .unwrap();
    let nodes: Vec<(&str, String)> =
        stage.nodes().iter().map(|node| (node.name.as_str(), node.address.to_string())).collect();
    let directory = configured("replication", &nodes, &stage.host_address().to_string());
    let before = [state_of(&stage, "db1").await, state_of(&stage, "db2").await];
    let said = with_config(&directory.path().join("understudy.toml"), &["serve", "--check"]).with(1);
    let sentence =
        "it is a Galera node (wsrep_on is ON), and cluster.kind is \"replication\": set \"galera\"";
    assert!(said.contains(sentence), "{said}");
    shown(
        &directory,
        "Galera nodes",
        "is a Galera node, and cluster.kind is \"replication\": set \"galera\"",
    );
    assert_eq!([state_of(&stage, "db1").await, state_of(&stage, "db2").await], before);
    stage.down().await.unwrap();
    told("Galera nodes under kind = \"replication\"");
}

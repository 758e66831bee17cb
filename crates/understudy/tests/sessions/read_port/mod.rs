//! The port for reads before a primary and two replicas, on real servers: while one writer writes, sessions read, and nobody sees an error,
//! a wrong answer, or less than before.
//!
//! ```text
//!   spread ─> a replica that stops applying ─> one that falls behind ─> killed, frozen ─> none left: the primary
//!      └─> switchover, failover          and what writes is refused, wherever it is said
//! ```

mod galera;
mod refused;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use lab::fault::Fault;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use tempfile::TempDir;
use testbed::program::{self, Serving};
use testbed::scene::{Scene, client_says, is_well, status_when, writer};
use testbed::writers::{Writers, connect};

use crate::readers::Readers;

/// Replicas may be so far behind here.
const LAG_MAX_MS: u64 = 1500;

fn port(scene: &Scene) -> SocketAddr {
    SocketAddr::from((scene.stage.host_address(), 6034))
}

fn directory_with(scene: &Scene, read: &str) -> TempDir {
    let directory = scene.directory("failover_gap_ms = 0");
    let file = directory.path().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let listen =
        format!("[listen]\nread = \"{}\"\nhealth = \"{}:6090\"\n", port(scene), scene.stage.host_address());
    let config =
        config.replacen("[listen]\n", &listen, 1) + &format!("[read]\nlag_max_ms = {LAG_MAX_MS}\n{read}");
    std::fs::write(&file, config).unwrap();
    directory
}

async fn id(scene: &Scene, node: &str) -> u32 {
    scene.value(node, "server_id").await.parse().unwrap()
}

/// Whether exactly these take reads.
fn read_by<'a>(nodes: &'a [&str]) -> impl Fn(&Value) -> bool + use<'a> {
    move |status| {
        let open = |node: &&Value| node["reads"]["lane"] == "open";
        let open: Vec<&str> = status["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(open)
            .map(|node| node["name"].as_str().unwrap())
            .collect();
        open == nodes
    }
}

/// `listen.tls` and `listen.read_tls`, by reloads.
fn each_port_has_its_own_tls(scene: &Scene, directory: &Path, serving: &Serving) {
    let file = directory.join("understudy.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    let after = before.replacen("[listen]\n", "[listen]\ntls = \"off\"\nread_tls = \"required\"\n", 1);
    std::fs::write(&file, after).unwrap();
    serving.ask(&["reload"]).with(0);
    let client = |to: SocketAddr, tls: &str| client_says(Path::new("mariadb"), to, &[tls], "SELECT 6 * 7");
    assert_eq!(client(scene.through(), "--skip-ssl"), "42\n");
    assert!(client(scene.through(), "--ssl-verify-server-cert").contains("ERROR 2026"), "it offers none");
    assert!(client(port(scene), "--skip-ssl").contains("ERROR 3159"));
    assert_eq!(client(port(scene), "--ssl"), "42\n");
    std::fs::write(&file, before).unwrap();
    serving.ask(&["reload"]).with(0);
    assert_eq!(client(port(scene), "--skip-ssl"), "42\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_go_on_whatever_becomes_of_the_servers() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::of("reads", true).await;
    let directory = directory_with(&scene, "");
    let serving = Serving::start(directory.path());
    status_when(&serving, "both replicas take reads", read_by(&["db2", "db3"]));
    told("a primary and two replicas are up, and both take reads");
    let ids = [id(&scene, "db1").await, id(&scene, "db2").await, id(&scene, "db3").await];
    refused::by_replicas(&scene, port(&scene)).await;
    told("what writes was refused on the replicas");
    each_port_has_its_own_tls(&scene, directory.path(), &serving);
    told("TLS was demanded on the port for reads, and off on the other");

    let writing = Writers::at(scene.through());
    writing.more(20).await;
    let one = writing.first();
    let readers = Readers::at(port(&scene), one, "@@server_id").await;
    readers.settle_on(&ids[1..]).await.is_right("spread");
    told("reads are spread");

    scene.break_applying("db1", &["db2"]).await;
    readers.settle_on(&ids[2..]).await.is_right("a replica does not apply");
    scene.mend_applying(&["db2"]).await;
    status_when(&serving, "db2 takes reads again", read_by(&["db2", "db3"]));
    told("a replica that stopped applying gave its sessions up, and came back");

    behind(&scene, &serving, &readers, &ids).await;
    told("a replica that fell behind gave its sessions up, and came back");

    for fault in [Fault::Kill, Fault::Freeze] {
        // Sessions of both, so that some are hit.
        let more = Readers::on_both(port(&scene), one, "@@server_id").await;
        more.settle_on(&ids[1..]).await.is_right("spread");
        scene.stage.fault("db3", fault).await.unwrap();
        readers.settle_on(&ids[1..2]).await.is_right(&format!("{fault} of a replica"));
        more.settle_on(&ids[1..2]).await.is_right(&format!("{fault} of a replica"));
        let heal = if fault == Fault::Freeze { Fault::Thaw } else { Fault::Heal };
        scene.stage.fault("db3", heal).await.unwrap();
        status_when(&serving, "db3 takes reads again", read_by(&["db2", "db3"]));
        more.stop().await.is_right("the end");
    }
    told("a replica was killed, and one was frozen, under reads");

    let locks = [lock(&scene, "db2").await, lock(&scene, "db3").await];
    readers.settle_on(&ids[..1]).await.is_right("no replica is fit");
    refused::by_the_primary(&scene, port(&scene)).await;
    drop(locks);
    status_when(&serving, "the replicas take reads again", read_by(&["db2", "db3"]));
    readers.settle_off(ids[0]).await.is_right("back on the replicas");
    told("the primary took the reads while no replica could, and no writes with them");

    changes(&scene, &serving, &readers).await;
    told("the primary was moved, and was lost, under reads");
    readers.stop().await.is_right("the end");
    let written = writing.stop().await;
    println!("          errors of the writers: {:?}", written.errors);
    scene
        .has_all(
            &written,
            &["db1", "db2", "db3"]
                .map(|node| node)
                .into_iter()
                .filter(|node| *node != "db1")
                .collect::<Vec<_>>(),
        )
        .await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// Keeps a replica from applying what is written, as long as this lives; reads go on.
async fn lock(scene: &Scene, node: &str) -> mysql_async::Conn {
    let mut conn = connect(scene.stage.node(node).unwrap().address).await.unwrap();
    conn.query_drop("LOCK TABLES w READ").await.unwrap();
    conn
}

/// What the health endpoint says of a node as a replica.
fn health_of(scene: &Scene, node: &str) -> String {
    let url = format!("http://{}:6090/health/{node}/replica", scene.stage.host_address());
    program::run(std::process::Command::new("curl").args(["--silent", "--include", &url])).with(0)
}

/// A replica that waits for a lock answers as well as ever, and is older and older.
async fn behind(scene: &Scene, serving: &Serving, readers: &Readers, ids: &[u32; 3]) {
    let beside = lock(scene, "db2").await;
    readers.settle_on(&ids[2..]).await.is_right("a replica falls behind");
    let status = status_when(serving, "db2 is shown to be behind", |status| {
        scene.node(status, "db2")["reads"]["age_ms"].as_u64().is_some_and(|age| age > LAG_MAX_MS)
    });
    println!("          {}", scene.node(&status, "db2")["reads"]);
    let said = health_of(scene, "db2");
    println!("          {}", said.replace("\r\n", " | "));
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    drop(beside);
    status_when(serving, "db2 takes reads again", read_by(&["db2", "db3"]));
    let said = health_of(scene, "db2");
    println!("          {}", said.replace("\r\n", " | "));
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

async fn changes(scene: &Scene, serving: &Serving, readers: &Readers) {
    status_when(serving, "all are well", is_well);
    serving.ask(&["switchover", "--to", "db2"]).with(0);
    status_when(serving, "the others take reads", read_by(&["db1", "db3"]));
    readers.settle_off(id(scene, "db2").await).await.is_right("switchover");
    status_when(serving, "all are well", is_well);
    readers.may_lack_one();
    scene.stage.fault("db2", Fault::Kill).await.unwrap();
    let moved = |status: &Value| status["gate"] == "open" && writer(status) != "db2";
    let status = status_when(serving, "another is the primary", moved);
    let other = if writer(&status) == "db1" { "db3" } else { "db1" };
    status_when(serving, "the other takes reads", read_by(&[other]));
    readers.settle_on(&[id(scene, other).await]).await.is_right("failover");
    scene.stage.fault("db2", Fault::Heal).await.unwrap();
    status_when(serving, "all are well", is_well);
    status_when(serving, "the old primary takes reads", |status| {
        scene.node(status, "db2")["reads"]["lane"] == "open"
    });
}

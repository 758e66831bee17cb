//! Two nodes and an arbitrator (garbd). It cannot be told to forget the name of an evicted member and would give it to the others again, so that
//! nobody is evicted beside it: each loss takes Galera's own time, the second as well as the first, and every member comes back.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use lab::fault::Fault;
use lab::stage::{Stage, StagePlan};
use testbed::program::{Serving, until};

use super::scene::{Scene, is_well, journal, status_when, two_writers, writer};

/// A running garbd, ended with this.
struct Arbitrator {
    process: Child,
    directory: tempfile::TempDir,
}

impl Arbitrator {
    async fn join(stage: &Stage) -> Self {
        let group = stage.run_in("db1", "SELECT @@wsrep_cluster_name").await.unwrap()[0][0].clone();
        let directory = tempfile::tempdir().unwrap();
        let members: Vec<_> =
            stage.nodes().iter().map(|node| format!("{}:4567", node.address.ip())).collect();
        let options = format!(
            "base_dir={};gmcast.listen_addr=tcp://{}:4567",
            directory.path().display(),
            stage.host_address()
        );
        let mut garbd = Command::new("garbd");
        garbd.args(["--address", &format!("gcomm://{}", members.join(",")), "--group", &group]);
        garbd.args(["--options", &options, "--log"]).arg(directory.path().join("garbd.log"));
        let process = garbd.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { process, directory }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("garbd.log")).unwrap_or_default()
    }
}

impl Drop for Arbitrator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_evicted_beside_an_arbitrator() {
    let plan = StagePlan { nodes: 2, ..Scene::plan("arbitrator") };
    let scene = Scene::of(plan).await;
    let arbitrator = Arbitrator::join(&scene.stage).await;
    let joined = || async { scene.word("db1", "wsrep_cluster_size").await == "3" };
    let began = std::time::Instant::now();
    while !joined().await {
        assert!(began.elapsed() < super::scene::PATIENCE, "garbd does not join: {}", arbitrator.log());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let directory = scene.directory("", None);
    let serving = Serving::start(directory.path());
    let through = SocketAddr::from((scene.stage.host_address(), 6033));
    status_when(&serving, "all well", is_well);
    let said = serving.ask(&["doctor"]).said();
    assert!(said.contains("no node is evicted while it is there"), "{said}");

    // The third loss is the second of that node.
    for turn in 0..3 {
        let victim = writer(&status_when(&serving, "all well", is_well));
        let survivor = if victim == "db1" { "db2" } else { "db1" };
        let writers = two_writers(through);
        writers.more(100).await;
        let fault = scene.stage.fault(&victim, Fault::Kill).await.unwrap();
        until("another writer", || (writer(&serving.status()) == survivor).then_some(()));
        writers.more(100).await;
        let list = scene.word(survivor, "wsrep_evs_evict_list").await;
        assert_eq!(list, "", "turn {turn}: {survivor} keeps a name");
        let healed = std::time::Instant::now();
        scene.heal(&victim, &serving).await;
        let told = writers.stop().await;
        println!(
            "          kill -9 of {victim} beside garbd: longest time without a commit {:?} until it is back, {} errors, back after {:?}",
            told.gap(fault),
            told.errors.len(),
            healed.elapsed()
        );
    }
    let said = journal(&serving);
    assert!(!said.contains("is evicted"), "{said}");
    scene.stage.down().await.unwrap();
}

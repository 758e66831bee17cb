//! Replicas that were made by mariadb-backup: their binlogs begin with the copy. One becomes the primary by an order and another by itself; nobody
//! has errant transactions beside them, no acknowledged row is missing, and the old ones follow.

use lab::fault::Fault;
use serde_json::Value;
use testbed::copies::copy;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::Writers;

use super::{nothing_is_lost, settled};

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_replica_takes_over_by_an_order_and_by_itself_and_nobody_is_errant() {
    let scene = Scene::of("copied", true).await;
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    let told = Writers::at(scene.through());
    told.more(20).await;
    // Each has been the primary once, and the binlogs of the others name it.
    for to in ["db2", "db1"] {
        serving.ask(&["switchover", "--to", to]).with(0);
        told.more(20).await;
        assert_eq!(settled(&scene, &serving).await, to);
    }

    status_when(&serving, "all are well", is_well);
    copy(&scene, &serving, "db1", "db3").await;
    told.more(20).await;
    let begins = scene.value("db3", "gtid_binlog_state").await;
    assert!(!begins.contains("-2-"), "its binlog names a server of before the copy: {begins}");
    let table = serving.ask(&["switchover", "--to", "db3", "--check", "--json", "-"]).json();
    let row = table["rows"].as_array().unwrap().iter().find(|row| row["check"] == "binlogs").unwrap();
    let said = row["sentence"].as_str().unwrap();
    assert!(row["verdict"] == "ok" && said.contains("has binlogs from 0-1-"), "{said}");
    serving.ask(&["switchover", "--to", "db3"]).with(0);
    told.more(50).await;
    assert_eq!(settled(&scene, &serving).await, "db3");
    nobody_is_errant(&serving);

    // It dies, and returns.
    scene.stage.fault("db3", Fault::Kill).await.unwrap();
    let is_moved = |status: &Value| status["gate"] == "open" && writer(status) != "db3";
    let primary = writer(&status_when(&serving, "another takes over", is_moved));
    told.more(50).await;
    scene.stage.fault("db3", Fault::Heal).await.unwrap();
    assert_eq!(settled(&scene, &serving).await, primary);

    // The only other one that may take over is a copy.
    let [copied, drained] = if primary == "db1" { ["db2", "db3"] } else { ["db1", "db3"] };
    copy(&scene, &serving, &primary, copied).await;
    serving.ask(&["drain", drained]).with(0);
    told.more(20).await;
    scene.stage.fault(&primary, Fault::Kill).await.unwrap();
    let is_moved = |status: &Value| status["gate"] == "open" && writer(status) == copied;
    status_when(&serving, "the copy takes over by itself", is_moved);
    told.more(50).await;
    scene.stage.fault(&primary, Fault::Heal).await.unwrap();
    serving.ask(&["undrain", drained]).with(0);
    assert_eq!(settled(&scene, &serving).await, copied);
    // Nor after a restart of this program, which asks everybody anew.
    drop(serving);
    let serving = Serving::start(directory.path());
    assert_eq!(settled(&scene, &serving).await, copied);
    nobody_is_errant(&serving);
    let told = told.stop().await;
    nothing_is_lost(&scene, &told).await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

fn nobody_is_errant(serving: &Serving) {
    let said = journal(serving);
    let found = said.lines().find(|line| line.contains("has transactions that the primary has not"));
    assert_eq!(found, None, "{said}");
}

//! A replica that leaves out what the primary writes has every position and lacks rows: it is named, and is never promoted, also after its filters
//! were taken out.

use lab::fault::Fault;
use serde_json::Value;
use testbed::program::{Serving, until, with_config};
use testbed::scene::{Scene, is_well, status_when, writer};

use super::first_start::{rows, until_it_has, write};

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_ignores_the_primary_is_named_and_never_promoted() {
    let scene = Scene::of("filters", true).await;
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);
    write(&scene, 0..5).await;
    until_it_has(&scene, "db2", "5").await;
    let id = scene.value("db1", "server_id").await;
    let own = scene.value("db2", "server_id").await;
    let change = |ids: &str| {
        format!("STOP SLAVE; CHANGE MASTER TO IGNORE_SERVER_IDS = ({ids}), DO_DOMAIN_IDS = (); START SLAVE")
    };
    // What it wrote itself is left out by every replica.
    scene.stage.run_in("db2", &change(&own)).await.unwrap();
    write(&scene, 5..6).await;
    until_it_has(&scene, "db2", "6").await;
    status_when(&serving, "its own id speaks against nobody", is_well);

    scene.stage.run_in("db2", &change(&id)).await.unwrap();
    write(&scene, 6..16).await;
    let filters = format!("has replication filters (Replicate_Ignore_Server_Ids = {id})");
    let is_refused = |status: &Value| {
        let node = scene.node(status, "db2");
        node["problem"] == "filtered" && node["reason"].as_str().unwrap_or_default().contains(&filters)
    };
    status_when(&serving, "it is named", is_refused);
    let position = scene.value("db1", "gtid_binlog_pos").await;
    let has_position = |status: &Value| scene.node(status, "db2")["facts"]["position"] == *position;
    status_when(&serving, "it has the primary's position", has_position);
    assert_eq!(rows(&scene, "db2").await, "6", "it lacks ten rows");

    let config = directory.path().join("understudy.toml");
    for (command, part) in
        [(&["serve", "--check"][..], &*filters), (&["doctor"], "it has replication filters: ")]
    {
        let told = with_config(&config, command).said();
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(part), "{command:?}: {told}");
    }
    let table = serving.ask(&["switchover", "--to", "db2", "--check", "--json", "-"]).json();
    let row = table["rows"].as_array().unwrap().iter().find(|row| row["check"] == "filtered").unwrap();
    assert_eq!(row["verdict"], "fails", "{table}");
    let refused = serving.ask(&["switchover", "--to", "db2"]).with(1);
    assert!(refused.contains(&filters), "{refused}");

    // Taken out, without a new copy.
    scene.stage.run_in("db2", &change("")).await.unwrap();
    let is_remembered = |status: &Value| {
        let reason = scene.node(status, "db2")["reason"].as_str().unwrap_or_default().to_owned();
        reason.contains("had replication filters") && reason.contains("make it a copy of db1")
    };
    status_when(&serving, "what they left out is still missing", is_remembered);
    serving.ask(&["switchover", "--to", "db2"]).with(1);

    scene.stage.fault("db1", Fault::Kill).await.unwrap();
    let is_moved = |status: &Value| status["gate"] == "open" && writer(status) != "db1";
    assert_eq!(writer(&status_when(&serving, "another takes over", is_moved)), "db3");
    assert_eq!(rows(&scene, "db3").await, "16");
    scene.stage.fault("db1", Fault::Heal).await.unwrap();
    // An operator's word, after whatever was done about the rows.
    until("it is drained", || (serving.ask(&["drain", "db2"]).code == 0).then_some(()));
    until("it is undrained", || (serving.ask(&["undrain", "db2"]).code == 0).then_some(()));
    status_when(&serving, "all are well again", is_well);
    drop(serving);
    scene.stage.down().await.unwrap();
}

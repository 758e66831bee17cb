//! `understudy serve` starts without a memory: the primary is dead and its replicas differ, or they are a chain.

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::APP_SCHEMA;
use serde_json::Value;
use testbed::program::{Serving, until, with_config};
use testbed::scene::{Scene, status_when};

use super::ALL;
use super::settled;

pub async fn rows(scene: &Scene, node: &str) -> String {
    let query = format!("SELECT COUNT(*) FROM {APP_SCHEMA}.w");
    scene.stage.run_in(node, &query).await.unwrap()[0][0].clone()
}

pub async fn until_it_has(scene: &Scene, node: &str, count: &str) {
    until_async(&format!("{node} has {count} rows"), async || rows(scene, node).await == count).await;
}

pub async fn write(scene: &Scene, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let insert = format!("INSERT INTO {APP_SCHEMA}.w VALUES (1, {number})");
        scene.stage.run_in("db1", &insert).await.unwrap();
    }
}

pub async fn everywhere(scene: &Scene, count: &str) {
    for node in ALL {
        until_it_has(scene, node, count).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_goes_on_with_the_server_that_has_most_and_a_chain_is_flattened() {
    let scene = Scene::of("first", true).await;
    write(&scene, 0..5).await;
    everywhere(&scene, "5").await;
    // db3 does not receive what db2 acknowledges last.
    scene.stage.run_in("db3", "STOP SLAVE IO_THREAD").await.unwrap();
    write(&scene, 5..8).await;
    scene.stage.fault("db1", Fault::Kill).await.unwrap();
    scene.stage.run_in("db3", "START SLAVE IO_THREAD").await.unwrap();

    let directory = scene.directory("");
    let serving = Serving::start(directory.path());
    let config = directory.path().join("understudy.toml");
    let told = until("who has most is told", || {
        Some(serving.ask(&["status"]).with(0)).filter(|told| told.contains("db2 has most, "))
    });
    let order = "`understudy switchover --to db2 --force`";
    for part in ["db1 cannot be asked", "db3 lacks 0-1-", order] {
        assert!(told.contains(part), "{part}: {told}");
    }
    for command in [&["serve", "--check"][..], &["doctor"]] {
        let told = with_config(&config, command).said();
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("db2 has most, ") && told.contains(order), "{command:?}: {told}");
    }
    let refused = serving.ask(&["switchover", "--to", "db2"]).with(1);
    assert!(refused.contains(order), "{refused}");
    let refused = serving.ask(&["switchover", "--to", "db3", "--force"]).with(1);
    assert!(refused.contains("has not all") && refused.contains(order), "{refused}");
    serving.ask(&["switchover", "--to", "db2", "--force"]).with(0);
    scene.stage.fault("db1", Fault::Heal).await.unwrap();
    assert_eq!(settled(&scene, &serving).await, "db2");
    everywhere(&scene, "8").await;
    drop(serving);

    // db1 follows db3, which follows db2, and nothing is remembered.
    let host = scene.stage.node("db3").unwrap().address.ip();
    let follow = format!("STOP SLAVE; CHANGE MASTER TO MASTER_HOST = '{host}'; START SLAVE");
    scene.stage.run_in("db1", &follow).await.unwrap();
    let directory = scene.directory("");
    let serving = Serving::start(directory.path());
    let db2 = scene.address("db2");
    let is_flat = |status: &Value| ["db1", "db3"].iter().all(|node| scene.follows(status, node) == db2);
    status_when(&serving, "db1 and db3 follow db2", is_flat);
    assert_eq!(settled(&scene, &serving).await, "db2");
    drop(serving);
    scene.stage.down().await.unwrap();
}

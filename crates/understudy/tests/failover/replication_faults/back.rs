//! An order with force back to a server that does not receive: [cluster.replication] has a password that no server has, so that nobody follows a
//! primary that took over by force.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testbed::program::Serving;
use testbed::scene::{Scene, journal, status_when, writer};
use testbed::writers::Writers;

use super::settled;

const RIGHT: &str = "[cluster.replication]\nuser = \"replication\"\npassword = \"replication\"";
const WRONG: &str = "[cluster.replication]\nuser = \"replication\"\npassword = \"another\"";

/// What an order back may take.
const BACK_WITHIN: Duration = Duration::from_secs(4);

fn exchange(directory: &Path, old: &str, new: &str) {
    let file = directory.join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    assert!(config.contains(old), "{config}");
    std::fs::write(&file, config.replacen(old, new, 1)).unwrap();
}

/// db2 took over by force, and db1 does not receive from it.
async fn scene(name: &str, semi_sync: bool) -> (Scene, TempDir, Serving, Writers) {
    let scene = Scene::of(name, semi_sync).await;
    let directory = scene.directory("failover_gap_ms = 0");
    exchange(directory.path(), RIGHT, WRONG);
    let serving = Serving::start(directory.path());
    assert_eq!(settled(&scene, &serving).await, "db1");
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    serving.ask(&["switchover", "--to", "db2", "--force"]).with(0);
    let is_left_out = |status: &Value| scene.node(status, "db1")["problem"] == "not_fetching";
    status_when(&serving, "db1 does not receive", is_left_out);
    (scene, directory, serving, writers)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_with_force_leads_back_from_a_primary_that_nobody_can_follow() {
    let (scene, directory, serving, writers) = scene("back", true).await;
    let waiting = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'RPL_SEMI_SYNC_MASTER_WAIT_SESSIONS'";
    scene.until("db2", waiting, |count| count != "0").await;
    let refused = serving.ask(&["switchover", "--to", "db1"]).with(1);
    println!("without force: {}", refused.trim());
    let began = Instant::now();
    let said = serving.ask(&["switchover", "--to", "db1", "--force"]).with(0);
    println!("with force: {} ({:?})", said.trim(), began.elapsed());
    assert!(began.elapsed() < BACK_WITHIN, "{:?}", began.elapsed());
    // Its clients' commits that nobody acknowledged are there, and nowhere else.
    let is_named = |status: &Value| {
        let db2 = scene.node(status, "db2");
        writer(status) == "db1" && db2["problem"] == "errant" && db2["reason"].to_string().contains("0-2-")
    };
    let status = status_when(&serving, "db1 writes, and what db2 has alone is named", is_named);
    println!("db2 {}", scene.node(&status, "db2")["reason"]);
    assert_eq!(scene.value("db2", "read_only").await, "1");

    exchange(directory.path(), WRONG, RIGHT);
    serving.ask(&["reload"]).with(0);
    writers.more(20).await;
    let told = writers.stop().await;
    let twice: Vec<&String> = told.errors.iter().filter(|error| error.contains("Duplicate entry")).collect();
    assert!(twice.is_empty(), "something was written twice: {twice:?}");
    scene.has_all(&told, &["db1", "db3"]).await;
    println!("{}", journal(&serving));
    drop(serving);
    scene.stage.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_with_force_gives_up_what_a_primary_that_answers_has_acknowledged() {
    let (scene, directory, serving, writers) = scene("kept", false).await;
    writers.more(20).await;
    let began = Instant::now();
    let refused = serving.ask(&["switchover", "--to", "db1", "--force"]).with(1);
    println!("{} ({:?})", refused.trim(), began.elapsed());
    for part in [
        "refused (not_writable): db1 does not receive from db2: ",
        "Access denied",
        " that db2 has acknowledged (0-2-",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(began.elapsed() < BACK_WITHIN, "{:?}", began.elapsed());
    writers.more(20).await;

    // What it says is to be done.
    exchange(directory.path(), WRONG, RIGHT);
    serving.ask(&["reload"]).with(0);
    assert_eq!(settled(&scene, &serving).await, "db2");
    // What was written meanwhile may take longer to apply than the order's budget.
    scene.has_applied("db1", "db2").await;
    serving.ask(&["switchover", "--to", "db1", "--force"]).with(0);
    writers.more(20).await;
    assert_eq!(settled(&scene, &serving).await, "db1");
    let told = writers.stop().await;
    super::nothing_is_lost(&scene, &told).await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

//! Without semi-synchronous replication a failover may lose what was acknowledged. What may be lost is said, and never too low.

use std::time::Duration;

use fixture::wait::until_async;
use lab::fault::Fault;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::Writers;

use super::ALL;

#[tokio::test(flavor = "multi_thread")]
async fn what_an_asynchronous_failover_may_lose_is_said_and_is_no_less_than_what_it_lost() {
    let scene = Scene::of("async", false).await;
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    // The replicas receive nothing for a moment, in which the primary goes on; what is on its way to them dies with it.
    for replica in ["db2", "db3"] {
        scene.stage.fault(replica, Fault::Vanish).await.unwrap();
    }
    writers.more(8).await;
    let killed = scene.stage.fault("db1", Fault::Vanish).await.unwrap();
    scene.stage.fault("db1", Fault::Kill).await.unwrap();
    for replica in ["db2", "db3"] {
        scene.stage.fault(replica, Fault::Heal).await.unwrap();
    }
    let is_moved = |status: &Value| status["gate"] == "open" && writer(status) != "db1";
    let after = writer(&status_when(&serving, "another is the primary", is_moved));
    writers.more(20).await;
    let told = writers.stop().await;

    let said = journal(&serving);
    let line = said.lines().find(|line| line.contains("may be lost")).expect("what may be lost");
    println!("{line}");
    let (transactions, seconds) = price(line);
    // What it wrote after its last word, which is asked for each 0.2 s; a client hears of its commit a little later.
    let window = Duration::from_secs_f64(seconds.min(0.3)) + Duration::from_millis(100);
    let after_its_last_word = told.commits_since(killed.checked_sub(window).unwrap_or(killed))
        - told.commits_since(killed + Duration::from_millis(100));
    let rows = scene.rows(&after, &told).await;
    let lost = told.acknowledged.iter().filter(|row| rows.binary_search(row).is_err()).count();
    println!(
        "said: {transactions} and what was written in {seconds} s ({after_its_last_word}); lost: {lost}"
    );
    assert!(lost > 0, "the replicas had everything: nothing was tried");
    assert!(
        lost <= transactions + after_its_last_word,
        "{lost} were lost, and no more than {transactions} and {after_its_last_word} were said"
    );

    scene.stage.fault("db1", Fault::Heal).await.unwrap();
    let is_back = |status: &Value| scene.node(status, "db1")["problem"] == "errant";
    let status = status_when(&serving, "the old primary is shown with what only it has", is_back);
    println!("db1: {}", scene.node(&status, "db1")["reason"]);
    assert_eq!(scene.value("db1", "read_only").await, "1");
    let others: Vec<&str> = ALL.into_iter().filter(|node| *node != "db1").collect();
    until_async("both others have the same", async || {
        scene.rows(others[0], &told).await == scene.rows(others[1], &told).await
    })
    .await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// Transactions that are known not to be there, and the seconds of which nothing is known.
fn price(line: &str) -> (usize, f64) {
    let number = |after: &str| {
        let text = line.split_once(after).map(|(_, rest)| rest.trim_start());
        text.and_then(|text| text.split(' ').next()).and_then(|text| text.parse::<f64>().ok())
    };
    let count = line.split(" transaction").next().and_then(|text| text.rsplit(' ').next()?.parse().ok());
    (count.unwrap_or(0), number("wrote in the").expect("of how long nothing is known"))
}

//! What a lost primary still runs for clients when it comes back: its link was down while they had transactions open, so that it was not
//! told that their connections have ended.

use std::time::{Duration, Instant};

use lab::fault::Fault;
use lab::stage::account::APP_USER;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::{LONG, Serving};
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::{Writers, connect};

/// How long the link is down.
const OUTAGE: Duration = Duration::from_secs(3);
/// Rows that are locked by one client each.
const ROWS: usize = 6;

/// It follows, and applies what concerns the rows that were locked there. A session past Understudy that holds no locks goes on.
pub async fn behind(scene: &Scene, serving: &Serving) {
    let before = writer(&status_when(serving, "all are well", is_well));
    let table = "CREATE TABLE sbtest.held (id INT PRIMARY KEY, v INT)";
    scene.stage.run_in(&before, table).await.unwrap();
    scene
        .stage
        .run_in(&before, "INSERT INTO sbtest.held SELECT seq, 0 FROM sbtest.seq_1_to_7")
        .await
        .unwrap();
    let mut clients = vec![];
    let past = scene.stage.node(&before).unwrap().address;
    for row in 1..=ROWS + 1 {
        let address = if row > ROWS { past } else { scene.through() };
        let mut client = connect(address).await.unwrap();
        client.query_drop("BEGIN").await.unwrap();
        client.query_drop(format!("UPDATE held SET v = v + 1 WHERE id = {row}")).await.unwrap();
        clients.push(client);
    }
    clients.push(connect(scene.through()).await.unwrap());
    let mut idle = connect(past).await.unwrap();
    let idle_id: String = idle.query_first("SELECT CONNECTION_ID()").await.unwrap().unwrap();

    // Meanwhile TCP acknowledges what those clients were answered: a server that has to send it again learns by that of the connection's end.
    let writers = Writers::at(scene.through());
    writers.more(100).await;
    writers.stop().await;
    let vanished = scene.stage.fault(&before, Fault::Vanish).await.unwrap();
    let is_moved = |status: &Value| status["gate"] == "open" && writer(status) != before;
    let after = writer(&status_when(serving, "another is the primary", is_moved));
    let mut client = connect(scene.through()).await.unwrap();
    client.query_drop("UPDATE held SET v = v + 10").await.unwrap();
    tokio::time::sleep(OUTAGE.saturating_sub(vanished.elapsed())).await;
    scene.stage.fault(&before, Fault::Heal).await.unwrap();
    let healed = Instant::now();
    let follows = |status: &Value| is_well(status) && scene.follows(status, &before) == scene.address(&after);
    status_when(serving, "the old primary follows", follows);
    let sessions = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{APP_USER}'");
    let deadline = healed + LONG;
    loop {
        let left = scene.stage.run_in(&before, &sessions).await.unwrap().concat();
        let sum = scene.stage.run_in(&before, "SELECT SUM(v) FROM sbtest.held").await.unwrap().concat();
        if left == [&*idle_id] && sum == ["70"] {
            break;
        }
        assert!(Instant::now() < deadline, "sessions {left:?} and not {idle_id}, sum {sum:?} and not 70");
    }
    println!("          left behind: gone, and all is applied, {:?} after its link was up", healed.elapsed());
    idle.query_drop("SELECT 1").await.unwrap();
    let said = journal(serving);
    assert!(said.contains(&format!("{before} still ran ")), "{said}");
    // Its first try to connect to the new primary may fail: the link was down a moment ago.
    let ended = |line: &str| line.contains(&format!(" {before} ")) && line.ends_with("ended there first");
    assert!(said.lines().any(ended), "{said}");
    drop(clients);
}

/// Sessions that wait on the primary for a position: MariaDB gives it none of another's until they have ended, so the waits are.
pub async fn waiting(scene: &Scene, serving: &Serving) {
    let before = writer(&status_when(serving, "all are well", is_well));
    let after = if before == "db1" { "db2" } else { "db1" };
    let mut client = connect(scene.stage.node(&before).unwrap().address).await.unwrap();
    let waits = tokio::spawn(async move {
        client.query_first::<Option<i32>, _>("SELECT MASTER_GTID_WAIT('0-1-999999999', 600)").await
    });
    let shown = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting in MASTER_GTID_WAIT()%'";
    scene.until(&before, shown, |count| count == "1").await;
    serving.ask(&["switchover", "--to", after]).with(0);
    let began = Instant::now();
    let follows = |status: &Value| is_well(status) && scene.follows(status, &before) == scene.address(after);
    status_when(serving, "the old primary follows", follows);
    println!(
        "          a session waited for a position: the old primary followed after {:?}",
        began.elapsed()
    );
    assert!(!matches!(waits.await.unwrap(), Ok(Some(Some(0)))), "the position was never reached");
    serving.ask(&["switchover", "--to", &before]).with(0);
    status_when(serving, "all are well again", |status| is_well(status) && writer(status) == before);
}

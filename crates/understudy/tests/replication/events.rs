//! Events of the event scheduler run on the primary, wherever that is, and nowhere else.

use std::time::{Duration, Instant};

use lab::fault::Fault;
use tokio::time::sleep;

use crate::program::{LONG, Serving};
use crate::scene::{Scene, is_well, journal, status_when, writer};

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Two that insert a row each second, one of them with the rights to write on a server that is read only; one that somebody disabled; and one
/// that is kept after its only execution. A replica has all of them alike.
const EVENTS: &str = "CREATE TABLE sbtest.ticks (id INT PRIMARY KEY AUTO_INCREMENT, event VARCHAR(10), server INT, at TIMESTAMP(6) DEFAULT NOW(6)); \
    CREATE DEFINER = sbtest@'%' EVENT sbtest.tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO sbtest.ticks (event, server) VALUES ('tick', @@server_id); \
    CREATE DEFINER = root@localhost EVENT sbtest.past ON SCHEDULE EVERY 1 SECOND DO INSERT INTO sbtest.ticks (event, server) VALUES ('past', @@server_id); \
    CREATE EVENT sbtest.never ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO sbtest.ticks (event, server) VALUES ('never', @@server_id); \
    CREATE EVENT sbtest.once ON SCHEDULE AT NOW() ON COMPLETION PRESERVE DO INSERT INTO sbtest.ticks (event, server) VALUES ('once', @@server_id)";

/// The primary changes there and back, ends, and comes back.
pub async fn move_with_the_primary(scene: &Scene, serving: &Serving) {
    let first = writer(&status_when(serving, "all are well", is_well));
    scene.stage.run_in(&first, EVENTS).await.unwrap();
    let second = if first == "db1" { "db2" } else { "db1" };
    let mut reigns = vec![first.clone()];
    for to in [second, &first] {
        ticks(scene, &reigns).await;
        serving.ask(&["switchover", "--to", to]).with(0);
        reigns.push(to.to_owned());
        ticks(scene, &reigns).await;
        status_when(serving, "all are well", is_well);
    }
    // One with such rights would run before anybody can stop it when its server comes back. A server that is killed right after such a statement
    // may not come back at all ("Cannot truncate the binary log").
    scene.stage.run_in(&first, "DROP EVENT sbtest.past").await.unwrap();
    ticks(scene, &reigns).await;
    scene.stage.fault(&first, Fault::Kill).await.unwrap();
    let moved = |status: &serde_json::Value| status["gate"] == "open" && writer(status) != first;
    let third = writer(&status_when(serving, "another is the primary", moved));
    reigns.push(third.clone());
    ticks(scene, &reigns).await;
    scene.stage.fault(&first, Fault::Heal).await.unwrap();
    let follows = |status: &serde_json::Value| {
        is_well(status) && scene.follows(status, &first) == scene.address(&third)
    };
    status_when(serving, "the old primary follows", follows);
    ticks(scene, &reigns).await;

    scene.stage.run_in(&third, "DROP EVENT sbtest.tick").await.unwrap();
    let rows =
        "SELECT SUM(event = 'once'), SUM(event = 'never'), COUNT(*), SUM(id * server) FROM sbtest.ticks";
    for node in ["db1", "db2", "db3"] {
        let deadline = Instant::now() + LONG;
        let there = loop {
            let there = scene.stage.run_in(&third, rows).await.unwrap();
            if scene.stage.run_in(node, rows).await.unwrap() == there {
                break there;
            }
            assert!(Instant::now() < deadline, "{node} has other rows: {}", journal(serving));
            sleep(LOOK).await;
        };
        assert_eq!((&*there[0][0], &*there[0][1]), ("1", "0"), "{}", journal(serving));
    }
    status_when(serving, "all are well", is_well);
}

/// Waits until the last of these servers has run an event twice more, and sees that only these did, one after the other.
async fn ticks(scene: &Scene, reigns: &[String]) {
    let primary = reigns.last().unwrap();
    let ran =
        "SELECT server, event = 'tick' FROM sbtest.ticks WHERE event IN ('tick','past') ORDER BY at, id";
    let number = |node: &String| node.trim_start_matches("db").to_owned();
    let mut wanted = None;
    let deadline = Instant::now() + LONG;
    loop {
        let rows = scene.stage.run_in(primary, ran).await.unwrap();
        let last = rows.iter().rev().take_while(|row| row[0] == number(primary));
        let count = last.filter(|row| row[1] == "1").count();
        let mut servers: Vec<String> = rows.into_iter().map(|row| row[0].clone()).collect();
        servers.dedup();
        if count >= *wanted.get_or_insert(count + 2) {
            assert_eq!(servers, reigns.iter().map(number).collect::<Vec<_>>());
            return;
        }
        assert!(Instant::now() < deadline, "{primary} does not run the events: {servers:?}");
        sleep(LOOK).await;
    }
}

//! Events of the event scheduler run on the primary, wherever that is, and nowhere else.

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::MONITOR_USER;
use serde_json::Value;
use testbed::program::{Serving, with_config};
use testbed::scene::{Scene, is_well, journal, status_when, writer};

/// Two that insert a row each second, one of them with the rights to write on a server that is read only; one that somebody disabled; and one
/// that is kept after its only execution. A replica has all of them alike.
const EVENTS: &str = "CREATE TABLE sbtest.ticks (id INT PRIMARY KEY AUTO_INCREMENT, event VARCHAR(10), server INT, at TIMESTAMP(6) DEFAULT NOW(6)); \
    CREATE DEFINER = sbtest@'%' EVENT sbtest.tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO sbtest.ticks (event, server) VALUES ('tick', @@server_id); \
    CREATE DEFINER = root@localhost EVENT sbtest.past ON SCHEDULE EVERY 1 SECOND DO INSERT INTO sbtest.ticks (event, server) VALUES ('past', @@server_id); \
    CREATE EVENT sbtest.never ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO sbtest.ticks (event, server) VALUES ('never', @@server_id); \
    CREATE EVENT sbtest.once ON SCHEDULE AT NOW() ON COMPLETION PRESERVE DO INSERT INTO sbtest.ticks (event, server) VALUES ('once', @@server_id)";

/// One that inserts a row each second, after those above.
const TICK: &str = "DROP EVENT sbtest.never; DROP EVENT sbtest.once; TRUNCATE TABLE sbtest.ticks; \
    CREATE DEFINER = sbtest@'%' EVENT sbtest.tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO sbtest.ticks (event, server) VALUES ('tick', @@server_id)";

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
        let there = until_async(&format!("{node} has the rows of {third}"), async || {
            let there = scene.stage.run_in(&third, rows).await.unwrap();
            let here = scene.stage.run_in(node, rows).await.unwrap();
            if here == there { Ok(there) } else { Err((here, there)) }
        })
        .await;
        assert_eq!((&*there[0][0], &*there[0][1]), ("1", "0"), "{}", journal(serving));
    }
    status_when(serving, "all are well", is_well);
}

/// Understudy is killed in the middle of a switchover, when the old primary's event is disabled, and may not enable it on the new primary at first:
/// that is told, by the next process of ours as well, and in the end the event runs there. Returns that process.
pub async fn outlive_a_kill(scene: &Scene, serving: Serving) -> Serving {
    let first = writer(&status_when(&serving, "all are well", is_well));
    let second = if first == "db1" { "db2" } else { "db1" };
    scene.stage.run_in(&first, TICK).await.unwrap();
    let mut reigns = vec![first.clone()];
    ticks(scene, &reigns).await;
    // On that server alone. A privilege counts for the connections that are opened from now on.
    let right = |what: &str| format!("SET sql_log_bin = 0; {what} '{MONITOR_USER}'@'%'");
    scene.stage.run_in(second, &right("REVOKE EVENT ON *.* FROM")).await.unwrap();
    let serving = restarted(serving);
    status_when(&serving, "all are well", is_well);

    let config = serving.dir().join("understudy.toml");
    let to = second.to_owned();
    let order = std::thread::spawn(move || with_config(&config, &["switchover", "--to", &to]));
    let is_stopped = async || tick_status(scene, &first).await == "SLAVESIDE_DISABLED";
    until_async(&format!("{first} does not run it any more"), is_stopped).await;
    let serving = restarted(serving);
    // It may have been answered, or broken off.
    order.join().unwrap();
    let status = status_when(&serving, "somebody is the primary", |status| status["gate"] == "open");
    if writer(&status) == first {
        ticks(scene, &reigns).await;
        status_when(&serving, "all are well", is_well);
        serving.ask(&["switchover", "--to", second]).with(0);
    }
    let finding = format!("do not run on {second}: `sbtest`.`tick`");
    let is_told = |status: &Value| scene.node(status, second)["advice"].to_string().contains(&finding);
    status_when(&serving, "the event that does not run", is_told);
    // What the disk has is all that the next process knows.
    let serving = restarted(serving);
    status_when(&serving, "the event that does not run, again", is_told);
    for node in ["db1", "db2", "db3"] {
        assert_ne!(tick_status(scene, node).await, "ENABLED", "{node}: {}", journal(&serving));
    }
    assert!(journal(&serving).contains(&finding), "{}", journal(&serving));

    scene.stage.run_in(second, &right("GRANT EVENT ON *.* TO")).await.unwrap();
    reigns.push(second.to_owned());
    ticks(scene, &reigns).await;
    status_when(&serving, "nothing is told any more", |status| !is_told(status));
    scene.stage.run_in(second, "DROP EVENT sbtest.tick").await.unwrap();
    status_when(&serving, "all are well", is_well);
    serving
}

/// The program is killed, and begins again.
fn restarted(serving: Serving) -> Serving {
    let directory = serving.dir().to_owned();
    drop(serving);
    Serving::start(&directory)
}

async fn tick_status(scene: &Scene, node: &str) -> String {
    let status =
        "SELECT STATUS FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'sbtest' AND EVENT_NAME = 'tick'";
    let rows = scene.stage.run_in(node, status).await.unwrap();
    rows.first().map_or_else(String::new, |row| row[0].clone())
}

/// Waits until the last of these servers has run an event twice more, and sees that only these did, one after the other.
async fn ticks(scene: &Scene, reigns: &[String]) {
    let primary = reigns.last().unwrap();
    let ran =
        "SELECT server, event = 'tick' FROM sbtest.ticks WHERE event IN ('tick','past') ORDER BY at, id";
    let number = |node: &String| node.trim_start_matches("db").to_owned();
    let mut wanted = None;
    let servers = until_async(&format!("{primary} runs the events"), async || {
        let rows = scene.stage.run_in(primary, ran).await.unwrap();
        let last = rows.iter().rev().take_while(|row| row[0] == number(primary));
        let count = last.filter(|row| row[1] == "1").count();
        let mut servers: Vec<String> = rows.into_iter().map(|row| row[0].clone()).collect();
        servers.dedup();
        if count >= *wanted.get_or_insert(count + 2) { Ok(servers) } else { Err(servers) }
    })
    .await;
    assert_eq!(servers, reigns.iter().map(number).collect::<Vec<_>>());
}

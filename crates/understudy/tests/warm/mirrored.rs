//! `warm.mirror_percent`: what clients read is run on the standbys at once, and ends with the roles.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, journal, status_when};

use super::cluster::{application, cluster, read};
use super::until;

/// Ends at once on the first server, and runs for minutes on any other.
const LONG_ELSEWHERE: &str = "SELECT MAX(seq % 7) FROM seq_1_to_100000000000 WHERE @@server_id <> 1";

fn are_mirrored_to(status: &Value, by: &str, standbys: &[&str]) -> bool {
    let all = status["warm"]["standbys"].as_array().unwrap();
    standbys.iter().all(|name| {
        all.iter().any(|one| one["node"] == **name && one["state"] == "warmed" && one["by"] == by)
    })
}

/// The numbers that a node was asked, by its general log, also those that were run to learn how warm it is (ANALYZE FORMAT=JSON SELECT ...).
fn asked(scene: &Scene, node: &str, numbers: &Range<u64>) -> Vec<u64> {
    let log = std::fs::read(scene.stage.directory().join(node).join("data/general.log")).unwrap();
    let text = String::from_utf8_lossy(&log);
    let said = text
        .lines()
        .filter_map(|line| line.split_once("SELECT ")?.1.strip_suffix(" AS n FROM w LIMIT 1")?.parse().ok());
    let mut asked: Vec<u64> = said.filter(|number| numbers.contains(number)).collect();
    asked.sort_unstable();
    asked
}

/// The application reads; each of the standbys runs each read once, in one way or the other.
async fn read_and_mirror(scene: &Scene, conn: &mut Conn, numbers: Range<u64>, standbys: &[&str]) {
    read(conn, numbers.clone()).await;
    for standby in standbys {
        until("a standby ran each read", || {
            asked(scene, standby, &numbers).len() as u64 >= numbers.end - numbers.start
        });
        assert!(asked(scene, standby, &numbers).into_iter().eq(numbers.clone()), "each once");
    }
}

async fn running(scene: &Scene, node: &str) -> u64 {
    let query = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'warm' AND info LIKE '%seq_1_to_100000000000%'";
    scene.stage.run_in(node, query).await.unwrap()[0][0].parse().unwrap()
}

async fn runs(scene: &Scene, node: &str, is_running: bool) {
    let begin = Instant::now();
    while (running(scene, node).await > 0) != is_running {
        assert!(begin.elapsed() < super::DEADLINE, "the long read on {node}: running {}", !is_running);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrored_reads_are_run_once_and_end_with_the_roles() {
    let scene = cluster("mirrored").await;
    assert_eq!(scene.stage.run_in("db1", "SELECT @@server_id").await.unwrap()[0][0], "1");
    let directory = scene.directory("");
    let path = directory.path().join("understudy.toml");
    let mut file = File::options().append(true).open(&path).unwrap();
    writeln!(
        file,
        "[warm]\nuser = \"warm\"\npassword = \"secret\"\nsource = \"proxy\"\nmirror_percent = 100"
    )
    .unwrap();
    let serving = Serving::start(directory.path());
    status_when(&serving, "both are warmed", |status| {
        is_well(status) && are_mirrored_to(status, "db1", &["db2", "db3"])
    });
    // Until it is known which views may write, nothing that names one counts as a read.
    let mut conn = application(&scene.through().to_string()).await;
    let begin = Instant::now();
    for number in 10_000.. {
        read(&mut conn, number..number + 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if !asked(&scene, "db2", &(10_000..number)).is_empty() {
            break;
        }
        assert!(begin.elapsed() < super::DEADLINE, "nothing is mirrored: {}", serving.status()["warm"]);
    }
    read_and_mirror(&scene, &mut conn, 0..300, &["db2", "db3"]).await;
    let status = serving.status();
    assert_eq!(
        (&status["warm"]["source"], &status["warm"]["mirror_percent"]),
        (&"proxy".into(), &100.into())
    );
    let screen = serving.ask(&["status"]).with(0);
    assert!(screen.contains("warm    db2 with 100 % of what db1 is asked: "), "{screen}");

    conn.query_drop(LONG_ELSEWHERE).await.unwrap();
    runs(&scene, "db2", true).await;
    serving.ask(&["switchover", "--to", "db2", "--cold"]).with(0);
    let moved = Instant::now();
    runs(&scene, "db2", false).await;
    println!("switchover, then {:?} until nothing was run there any more", moved.elapsed());
    assert!(moved.elapsed() < Duration::from_secs(1), "{:?}", moved.elapsed());
    status_when(&serving, "the others are warmed from it", |status| {
        is_well(status) && are_mirrored_to(status, "db2", &["db1", "db3"])
    });
    read_and_mirror(&scene, &mut conn, 1000..1100, &["db1", "db3"]).await;
    assert!(asked(&scene, "db2", &(1000..1100)).into_iter().eq(1000..1100), "the active node is asked once");
    conn.disconnect().await.unwrap();
    let journal = journal(&serving);
    for sentence in [
        "db2 is warmed with what db1 is asked (100 % of the reads that go through Understudy, at once)",
        "db2 is not warmed any more: ",
    ] {
        assert!(journal.contains(sentence), "{sentence}\n{journal}");
    }
}

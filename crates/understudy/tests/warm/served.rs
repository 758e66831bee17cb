//! `[warm]` in the configuration: `understudy serve` itself keeps the standbys warm, and stops in time.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use lab::fault::Fault;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, journal, status_when, writer};

use super::cluster::{NODES, application, cluster, has_any, read, read_and_replay, slow_log, streamers};

/// Runs for minutes, wherever it runs.
const LONG: &str = "SELECT MAX(seq % 7) FROM seq_1_to_100000000000";

/// An entry of the primary's slow log as MariaDB writes it.
pub fn log_long_read(scene: &Scene, node: &str) {
    let entry = format!(
        "# User@Host: app[app] @  [10.0.0.9]\n# Thread_id: 999999  Schema: {}  QC_hit: No\n\
         # Query_time: 0.000100  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 1\n# Rows_affected: 0  Bytes_sent: 60\n\
         SET timestamp={};\n{LONG};\n",
        lab::stage::account::APP_SCHEMA,
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(),
    );
    File::options().append(true).open(slow_log(scene, node)).unwrap().write_all(entry.as_bytes()).unwrap();
}

async fn runs_long_read(scene: &Scene, node: &str) -> bool {
    let query = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'warm' AND info LIKE '%seq_1_to_100000000000'";
    scene.stage.run_in(node, query).await.unwrap()[0][0] != "0"
}

pub async fn long_read_is(scene: &Scene, node: &str, running: bool) {
    let begin = Instant::now();
    while runs_long_read(scene, node).await != running {
        assert!(begin.elapsed() < super::DEADLINE, "the long read on {node}: running {}", !running);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn are_warmed_by(status: &Value, by: &str, standbys: &[&str]) -> bool {
    let all = status["warm"]["standbys"].as_array().unwrap();
    let is_warmed = |name: &&str| {
        all.iter().any(|one| one["node"] == **name && one["state"] == "warmed" && one["by"] == by)
    };
    standbys.iter().all(is_warmed) && all.iter().all(|one| one["node"] != by)
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_warms_standbys_and_stops_within_a_second_of_a_change_of_roles() {
    let scene = cluster("served").await;
    let directory = scene.directory("");
    let mut file = File::options().append(true).open(directory.path().join("understudy.toml")).unwrap();
    writeln!(file, "[warm]\nuser = \"warm\"\npassword = \"secret\"\nrequire_percent = 80").unwrap();
    let mut serving = Serving::start(directory.path());
    // Not yet: that is told, and tried again.
    let status = status_when(&serving, "there is no stream", |status| {
        let why = status["warm"]["standbys"][1]["why"].as_str().unwrap_or_default();
        is_well(status) && why.contains("no slow log is streamed at")
    });
    assert_eq!(status["warm"]["standbys"][1]["state"], "failing", "{status}");
    let streamers = streamers(&scene);
    status_when(&serving, "both are warmed", |status| are_warmed_by(status, "db1", &["db2", "db3"]));
    // Nothing was read yet, so nobody knows how warm it is: refused, unless it may be cold.
    let refused = serving.ask(&["switchover", "--to", "db2"]).with(1);
    assert!(
        refused.contains("db2 is warmed with what db1 is asked; how warm it is is not known"),
        "{refused}"
    );
    read_and_replay(&scene, 0..100, ("db1", &["db2", "db3"])).await;
    let screen = serving.ask(&["status"]).with(0);
    assert!(screen.contains("warm    db2 with what db1 is asked: "), "{screen}");
    let metrics = metrics(&serving);
    assert!(metrics.contains("understudy_warm_on{cluster=\"shop\",id=\"5\",node=\"db2\"} 1"), "{metrics}");

    log_long_read(&scene, "db1");
    long_read_is(&scene, "db2", true).await;
    let begin = Instant::now();
    serving.ask(&["switchover", "--to", "db2", "--cold"]).with(0);
    let moved = Instant::now();
    long_read_is(&scene, "db2", false).await;
    println!("switchover {:?}, then {:?} until nothing was replayed there", moved - begin, moved.elapsed());
    assert!(moved.elapsed() < Duration::from_secs(1), "{:?}", moved.elapsed());
    status_when(&serving, "the others are warmed from it", |status| {
        is_well(status) && are_warmed_by(status, "db2", &["db1", "db3"])
    });
    read_and_replay(&scene, 1000..1100, ("db2", &["db1", "db3"])).await;

    // The same when nobody planned it.
    log_long_read(&scene, "db2");
    long_read_is(&scene, "db1", true).await;
    long_read_is(&scene, "db3", true).await;
    scene.stage.fault("db2", Fault::Kill).await.unwrap();
    let status = status_when(&serving, "another is the primary", |status| {
        status["gate"] == "open" && writer(status) != "db2"
    });
    let moved = Instant::now();
    let active = writer(&status);
    long_read_is(&scene, &active, false).await;
    println!("failover, then {:?} until nothing was replayed on {active}", moved.elapsed());
    assert!(moved.elapsed() < Duration::from_secs(1), "{:?}", moved.elapsed());
    let other = if active == "db1" { "db3" } else { "db1" };
    status_when(&serving, "the other is warmed from it", |status| are_warmed_by(status, &active, &[other]));
    read_and_replay(&scene, 2000..2100, (&active, &[other])).await;

    // A process that is stopped says no word, and its host goes on acknowledging.
    let streamer = &streamers[NODES.iter().position(|node| *node == active).unwrap()];
    streamer.signal("STOP");
    status_when(&serving, "its streamer is missed", |status| {
        let all = status["warm"]["standbys"].as_array().unwrap();
        let one = all.iter().find(|one| one["node"] == *other).unwrap();
        one["state"] == "failing" && !one["why"].as_str().unwrap_or_default().is_empty()
    });
    streamer.signal("CONT");
    status_when(&serving, "it is warmed again", |status| are_warmed_by(status, &active, &[other]));
    read_and_replay(&scene, 3000..3100, (&active, &[other])).await;

    let journal = journal(&serving);
    for sentence in [
        "db2 is not warmed now: no slow log is streamed at",
        "db2 is warmed with what db1 is asked (the slow log streamed at",
        "db2 is not warmed any more: ",
        "nobody is warmed: statements are held: ",
        "did not answer 2 times in a row: is it stopped?",
    ] {
        assert!(journal.contains(sentence), "{sentence}\n{journal}");
    }
    // Said once, not at each attempt.
    assert_eq!(journal.matches("db3 is not warmed now: no slow log").count(), 1, "{journal}");
    serving.terminate();
    assert!(serving.ended().success(), "{}", serving.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_proxy_as_the_source_no_slow_log_is_needed() {
    let scene = cluster("proxied").await;
    let directory = scene.directory("");
    let mut file = File::options().append(true).open(directory.path().join("understudy.toml")).unwrap();
    writeln!(file, "[warm]\nuser = \"warm\"\npassword = \"secret\"\nsource = \"proxy\"").unwrap();
    let serving = Serving::start(directory.path());
    status_when(&serving, "both are warmed", |status| {
        is_well(status) && are_warmed_by(status, "db1", &["db2", "db3"])
    });
    // Until it is known which views may write, nothing that names one counts as a read.
    let mut conn = application(&scene.through().to_string()).await;
    let begin = Instant::now();
    for number in 10_000.. {
        read(&mut conn, number..number + 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if has_any(&scene, "db2", 10_000..number) {
            break;
        }
        assert!(begin.elapsed() < super::DEADLINE, "nothing is replayed: {}", serving.status()["warm"]);
    }
    conn.disconnect().await.unwrap();
    read_and_replay(&scene, 0..100, ("db1", &["db2", "db3"])).await;
    serving.ask(&["switchover", "--to", "db2"]).with(0);
    status_when(&serving, "the others are warmed", |status| are_warmed_by(status, "db2", &["db1", "db3"]));
    assert_eq!(serving.status()["warm"]["source"], "proxy");
    read_and_replay(&scene, 1000..1100, ("db2", &["db1", "db3"])).await;
    // Whoever is drained is left alone, and the other is not.
    serving.ask(&["drain", "db3"]).with(0);
    let is_left = |status: &Value| {
        let all = status["warm"]["standbys"].as_array().unwrap();
        let of = |name: &str| all.iter().find(|one| one["node"] == name).unwrap();
        of("db3")["why"] == "it is drained by an operator" && of("db1")["state"] == "warmed"
    };
    status_when(&serving, "db3 is not warmed any more", is_left);
    read_and_replay(&scene, 2000..2100, ("db2", &["db1"])).await;
    assert!(!has_any(&scene, "db3", 2000..2100));
}

fn metrics(serving: &Serving) -> String {
    let url = format!("http://{}/metrics", serving.http);
    let out = std::process::Command::new("curl").args(["-sS", &url]).output().unwrap().stdout;
    String::from_utf8(out).unwrap()
}

//! `understudy warm` beside a running cluster: the standbys are warmed, the active node never is, also behind a switchover, and without an
//! `understudy serve` that says who is active.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lab::stage::account::APP_USER;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, status_when, writer};

use super::cluster::{NODES, application, cluster, has_once, read, read_and_replay, streamers};
use super::served::{log_long_read, long_read_is};
use super::{Ends, Streamer, called, until};

#[tokio::test(flavor = "multi_thread")]
async fn standbys_are_warmed_and_the_active_node_never_is() {
    let scene = cluster("warm").await;
    let directory = scene.directory("");
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);
    let streamers = streamers(&scene);
    let told = directory.path().join("warm.log");
    let warming = called("understudy")
        .args(["warm", "--user", "warm", "--skip-user", "understudy", "--config"])
        .arg(directory.path().join("understudy.toml"))
        .env("UNDERSTUDY_PASSWORD", "secret")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&told).unwrap())
        .spawn()
        .unwrap();
    let mut warming = Ends(warming);
    let both_read = |streamer: &Streamer| streamer.metric("readers") == 2;
    until("both standbys are warmed", || both_read(&streamers[0]));
    read_and_replay(&scene, 0..200, ("db1", &["db2", "db3"])).await;

    serving.ask(&["switchover", "--to", "db2"]).said();
    let status =
        status_when(&serving, "db2 is the primary", |status| writer(status) == "db2" && is_well(status));
    assert_eq!(writer(&status), "db2");
    until("the others are warmed from it", || {
        both_read(&streamers[1]) && streamers[0].metric("readers") == 0
    });
    read_and_replay(&scene, 1000..1200, ("db2", &["db1", "db3"])).await;
    // It is told to end while a read of minutes runs on both.
    log_long_read(&scene, "db2");
    for standby in ["db1", "db3"] {
        long_read_is(&scene, standby, true).await;
    }
    let ended = warming.terminated();
    assert!(ended.success(), "{ended}: {}", std::fs::read_to_string(&told).unwrap());
    // A server that was told to end a statement does so at the statement's next look at that.
    for standby in ["db1", "db3"] {
        long_read_is(&scene, standby, false).await;
    }
    drop(warming);
    // It has links of its own to the nodes, of the application's account.
    drop(serving);
    by_where_the_application_is(&scene, &streamers).await;
}

/// Without `understudy serve`.
async fn by_where_the_application_is(scene: &Scene, streamers: &[Streamer; 3]) {
    let mut args = vec!["warm", "--user", "warm", "--application-user", APP_USER];
    let addresses = NODES.map(|node| scene.address(node));
    for address in &addresses {
        args.extend(["--node", address]);
    }
    let run = |stderr: Stdio| {
        let mut command = called("understudy");
        command.args(&args).env("UNDERSTUDY_PASSWORD", "secret").stdout(Stdio::null()).stderr(stderr);
        command
    };
    let refused = run(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("GRANT PROCESS ON *.* TO 'warm'@'%'"), "{said}");

    scene.stage.run_in("db2", "GRANT PROCESS ON *.* TO warm@'%'").await.unwrap();
    let mut first = application(&addresses[2]).await;
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("log");
    let log = || std::fs::read_to_string(&told).unwrap();
    let _warming = Ends(run(std::fs::File::create(&told).unwrap().into()).spawn().unwrap());
    let begin = Instant::now();
    while streamers[2].metric("readers") != 2 {
        assert!(begin.elapsed() < super::DEADLINE, "the others are not warmed from db3: {}", log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    read(&mut first, 2000..2100).await;
    for standby in ["db1", "db2"] {
        until("a standby ran what db3 was asked", || has_once(scene, standby, 2000..2100));
    }

    let mut second = application(&addresses[0]).await;
    let begin = Instant::now();
    until("nobody is warmed while it is on two nodes", || streamers[2].metric("readers") == 0);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    read(&mut first, 2100..2200).await;
    first.disconnect().await.unwrap();
    until("the others are warmed from db1", || streamers[0].metric("readers") == 2);
    read(&mut second, 2200..2300).await;
    for standby in ["db2", "db3"] {
        until("a standby ran what db1 was asked", || has_once(scene, standby, 2200..2300));
    }
    assert!(has_once(scene, "db1", 2200..2300) && has_once(scene, "db3", 2100..2200), "{}", log());
    assert!(log().contains(&format!("{APP_USER} is connected to several nodes")), "{}", log());
    second.disconnect().await.unwrap();
}

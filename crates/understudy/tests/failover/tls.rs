//! `understudy serve` with `cluster.tls = "verified"`, before servers whose accounts must all use TLS.

use std::path::Path;

use lab::fault::Fault;
use lab::stage::account::{APP_USER, MONITOR_USER};
use lab::stage::replication::REPLICATION_USER;
use lab::stage::{ClusterKind, StagePlan};
use testbed::program::{Serving, with_config};
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::Writers;

/// Puts these lines into `[cluster]`.
fn secure(dir: &Path, lines: &str) {
    let file = dir.join("understudy.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (head, rest) = text.split_once("[[cluster.node]]").unwrap();
    let head = head.lines().filter(|line| !line.starts_with("tls")).collect::<Vec<_>>().join("\n");
    std::fs::write(&file, format!("{head}\n{lines}\n[[cluster.node]]{rest}")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_must_be_used_under_tls_is_replaced() {
    let scene = Scene::on(StagePlan {
        kind: ClusterKind::Replication { semi_sync: true },
        name: format!("t{}-tls", std::process::id()),
        tls: true,
        ..StagePlan::default()
    })
    .await;
    for user in [APP_USER, MONITOR_USER, REPLICATION_USER] {
        scene.stage.run_in("db1", &format!("ALTER USER {user}@'%' REQUIRE SSL")).await.unwrap();
    }
    let directory = scene.directory("failover_gap_ms = 0");
    let config = directory.path().join("understudy.toml");
    let plain = with_config(&config, &["serve", "--check"]).with(1);
    assert!(plain.contains("Access denied"), "{plain}");
    let authority = scene.stage.authority().unwrap();
    let verified = format!("tls = \"verified\"\ntls_ca_file = \"{}\"", authority.display());
    secure(directory.path(), &verified);
    with_config(&config, &["serve", "--check"]).with(0);
    let forecast = with_config(&config, &["recovery", "forecast"]).said();
    assert!(!forecast.contains("Access denied") && forecast.contains("db3"), "{forecast}");

    let serving = Serving::start(directory.path());
    assert_eq!(writer(&status_when(&serving, "all are well", is_well)), "db1");
    let other = directory.path().join("other.crt");
    std::fs::copy(serving.state("https.crt"), &other).unwrap();
    secure(directory.path(), &format!("tls = \"verified\"\ntls_ca_file = \"{}\"", other.display()));
    let refused = serving.ask(&["reload"]).with(1);
    assert!(refused.contains("certificate") && refused.contains("nothing was changed"), "{refused}");
    secure(directory.path(), &verified);
    serving.ask(&["reload"]).with(0);

    let writers = Writers::at(scene.through());
    writers.more(20).await;
    scene.stage.fault("db1", Fault::Kill).await.unwrap();
    writers.more(20).await;
    let told = writers.stop().await;
    let moved = |status: &_| !writer(status).is_empty() && writer(status) != "db1";
    let primary = writer(&status_when(&serving, "another is the primary", moved));
    scene.stage.start("db1").await.unwrap();
    let follows = |status: &_| is_well(status) && scene.follows(status, "db1") == scene.address(&primary);
    status_when(&serving, "the old primary follows the new one", follows);
    scene.has_all(&told, &["db1", "db2", "db3"]).await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

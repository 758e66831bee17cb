//! Clients of the HTTP doors that never read, sockets that say nothing there, and more of them at the MySQL port than there are
//! descriptors.

use std::net::Ipv4Addr;
use std::time::Instant;

use testbed::program::{LONG, until};

use super::scene::{Scene, crowd, statement, try_get};

/// What `serve` may open: far less than the attackers could hold.
pub const FILES_MAX: u64 = 600;
/// As many as in the attack that once went through.
const ATTACKERS: usize = 250;
/// As many of each kind stand at the health port, which has 75 places and 64 for who is in a hurry.
const AT_HEALTH: usize = ATTACKERS;
/// Requests that each of them sends at once; the answers do not fit into the sockets' buffers.
const REQUESTS: usize = 800;

/// The attack that once held all descriptors.
pub async fn never_read(scene: &Scene) {
    let ask = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(REQUESTS);
    let held = crowd(Ipv4Addr::new(127, 0, 0, 2), scene.http, ATTACKERS, ask.as_bytes());
    assert!(held.len() > ATTACKERS / 2, "only {} came in", held.len());
    scene.watch(&format!("{ATTACKERS} readers of /metrics that never read"), true).await;
    // They are cut while they stay.
    scene.given_back("readers that never read, still there");
    drop(held);

    // From the good client's own address: it has no share of its own there, and may have to ask again.
    let held = crowd(Ipv4Addr::LOCALHOST, scene.http, ATTACKERS, ask.as_bytes());
    let mut tries = 0;
    let began = Instant::now();
    until("an answer to a client of the same address", || {
        tries += 1;
        (try_get(scene.http, "/metrics")? == 200).then_some(())
    });
    println!(
        "a client of the attackers' own address was answered at try {tries}, after {:?}",
        began.elapsed()
    );
    scene.given_back("readers that never read, still there");
    drop(held);
}

/// Silent sockets at each HTTP door, and half a head.
pub async fn silent(scene: &Scene) {
    let from = Ipv4Addr::new(127, 0, 0, 3);
    let mut held = crowd(from, scene.http, ATTACKERS, b"");
    held.extend(crowd(Ipv4Addr::new(127, 0, 0, 4), scene.http, ATTACKERS, b"GET /metrics HTTP/1.1\r\nX-A: "));
    held.extend(crowd(from, scene.health, AT_HEALTH, b""));
    held.extend(crowd(from, scene.health, AT_HEALTH, b"GET /health/db1 HTTP/1.1\r\nX-A: "));
    scene.watch("silent sockets at the API and the health port", true).await;
    scene.given_back("silent sockets, still there");
    drop(held);
}

/// More clients than there are descriptors: API, health port and the probes have theirs.
pub async fn crowd_at_the_mysql_port(scene: &Scene) {
    let from = Ipv4Addr::new(127, 0, 0, 5);
    let held = crowd(from, scene.mysql, FILES_MAX as usize, b"");
    scene.watch("silent sockets at the MySQL port", false).await;
    drop(held);
    scene.given_back("silent sockets at the MySQL port, gone");
    let began = Instant::now();
    statement(scene.mysql).await;
    assert!(began.elapsed() < LONG);
    let log = scene.serving.log();
    assert!(log.lines().filter(|line| line.contains("be accepted")).count() <= 1, "the log was filled");
    let said = log.lines().filter(|line| line.contains("suffices for")).count();
    assert_eq!(
        said, 1,
        "that there is room for fewer clients than the setting asks for is said once, at the start"
    );
}

//! Two replicas, of which one stops applying what the primary sends.

use std::time::Duration;

use super::TABLE;
use super::pair::{Pair, caught_up, replica_of};
use fixture::wait::until_async;
use harness::{Bench, SECOND, lane, routes_of, settings};
use topology::routes::LaneState;

/// The session's reads go to the other one, and not to the primary for as long as its own replica is late.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_leaves_a_replica_that_is_late() {
    let mut pair = Pair::lay(SECOND);
    let second = replica_of(&pair.primary, 3);
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t VALUES (1, 1)");
    pair.replicated();
    caught_up(&pair.primary, &second);
    let at = |open: &[usize]| {
        let state = |node| if open.contains(&node) { LaneState::Open } else { LaneState::Shut };
        let servers = [&pair.primary, &pair.replica, &second].into_iter().enumerate();
        routes_of(1, servers.map(|(node, server)| lane(node, server.address(), state(node), 1)).collect())
    };
    pair.bench = Bench::split(settings(), at(&[0]), at(&[1, 2]), Duration::from_millis(300));
    let mut client = pair.client().await;
    assert_eq!(client.one("SELECT x FROM t").await, "1");
    let split = pair.split().await;
    let is_at = |name: &str| split.lanes.iter().any(|(lane, sessions)| lane == name && *sessions == 1);
    let late = if is_at("db2") { &pair.replica } else { &second };
    late.sql("STOP SLAVE SQL_THREAD");
    let before = split.replicas;
    let mut number = 1;
    until_async("five reads more on replicas", async || {
        number += 1;
        client.run(&format!("UPDATE t SET x = {number}")).await;
        assert_eq!(client.one("SELECT x FROM t").await, number.to_string());
        let split = pair.split().await;
        if split.replicas >= before + 5 { Ok(()) } else { Err(split) }
    })
    .await;
    let split = pair.split().await;
    println!("{split:?}");
    assert_eq!(split.primary_behind, 1, "{split:?}");
}

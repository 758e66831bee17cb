//! This host has no file descriptor left: no fault of the node's, and nothing a statement cannot wait for.

use std::fs::File;

use crate::ALONE;
use fixture::Server;
use harness::{Bench, SECOND, one, routes, settings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use topology::fact::ProxyFact;
use topology::routes::LaneState;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lack_of_descriptors_is_waited_for_and_not_held_against_the_node() {
    let _alone = ALONE.lock().await;
    let server = Server::start(&[]);
    let mut bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Draining, 1)]));
    let mut client = bench.client().await;
    let before = getrlimit(Resource::Nofile);
    let limit = Rlimit { current: Some(256), ..before };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut all = vec![];
    while let Ok(file) = File::open("/dev/null") {
        all.push(file);
    }
    assert!(!all.is_empty() && all.len() < 256);
    bench.follow(routes(2, &[(&server, LaneState::Open, 1)])).await;
    let mut asked = tokio::spawn(async move { one(&mut client, "SELECT 1").await });
    let early = tokio::time::timeout(SECOND / 2, &mut asked).await;
    assert!(early.is_err(), "answered without a link: {early:?}");
    drop(all);
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(asked.await.unwrap(), "1");
    while let Ok(fact) = bench.facts.try_recv() {
        assert!(matches!(fact, ProxyFact::Quiesced { .. }), "held against the node: {fact:?}");
    }
}

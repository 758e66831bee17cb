//! A read on a replica that somebody ends there is not run again on the primary; one whose replica dies is.

use std::sync::Arc;

use fixture::Server;
use fixture::client::Client;
use fixture::signal;
use tokio::sync::watch;
use tokio::time::timeout;
use topology::NodeId;
use topology::fact::ProxyFact;
use topology::routes::{LaneState, Routes};

use super::pair::{Pair, WAIT};
use harness::fact_answerer::is_well;
use harness::{Bench, SECOND, lane, routes_of, settings};

/// Runs so long that it is always ended first, and has no row before its end.
const LONG: &str = "SELECT /* long */ COUNT(*) FROM r a JOIN r b JOIN r c";

/// A pair whose manager answers what the proxy asks about the replica.
struct Managed {
    pair: Pair,
    asked: tokio::task::JoinHandle<()>,
}

impl Drop for Managed {
    fn drop(&mut self) {
        self.asked.abort();
    }
}

fn of_replica(pair: &Pair, version: u64, state: LaneState, looked: u64) -> Arc<Routes> {
    let primary = lane(0, pair.primary.address(), LaneState::Shut, 1);
    let mut replica = lane(1, pair.replica.address(), state, 1);
    replica.looked = looked;
    routes_of(version, vec![primary, replica])
}

impl Managed {
    fn lay() -> Self {
        let mut pair = Pair::lay(WAIT);
        pair.primary.sql("CREATE TABLE shop.r AS SELECT seq id FROM shop.seq_1_to_20000");
        pair.replicated();
        let (routes, follows) = watch::channel(of_replica(&pair, 1, LaneState::Open, 0));
        let split = proxy::Split { routes: follows, wait_max: WAIT };
        let (writes, is_writer) = watch::channel(pair.routes(1, 0));
        let (facts, mut seen) = tokio::sync::mpsc::channel(100);
        let inputs = proxy::Inputs { routes: is_writer, facts };
        let proxy = proxy::start_split(settings(), inputs, split).unwrap();
        let (_, none) = tokio::sync::mpsc::channel(1);
        pair.bench = Bench { routes: Arc::new(writes), facts: none, proxy };
        let address = pair.replica.address();
        let well = of_replica(&pair, 2, LaneState::Open, u64::MAX);
        let gone = of_replica(&pair, 2, LaneState::Shut, 0);
        let asked = tokio::spawn(async move {
            while let Some(fact) = seen.recv().await {
                // What is told of replicas is marked as of the lanes for reads.
                let ProxyFact::Reads(fact) = fact else { continue };
                if let ProxyFact::TrafficLost { alarm: 1.., .. } = *fact {
                    let is_well = is_well(address).await;
                    routes.send_replace(if is_well { well.clone() } else { gone.clone() });
                }
            }
        });
        Self { pair, asked }
    }

    async fn client(&self) -> Client {
        self.pair.client().await
    }
}

/// The connection on which the long read runs there. One that was killed before may take a moment to end.
fn running(server: &Server) -> String {
    let ids = "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT /* long%'";
    server.until(ids, |ids| ids.lines().count() == 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_ended_on_the_replica_is_not_run_again() {
    let managed = Managed::lay();
    for (kill, told) in [
        ("KILL QUERY", 1317),
        ("KILL SOFT QUERY", 1317),
        ("KILL", 1927),
        ("KILL HARD", 1927),
        ("KILL SOFT", 1927),
    ] {
        let mut client = managed.client().await;
        let read = tokio::spawn(async move { (client.query(LONG).await, client.query("SELECT 1").await) });
        let id = running(&managed.pair.replica);
        managed.pair.replica.sql(&format!("{kill} {id}"));
        let (reply, after) = tokio::time::timeout(20 * SECOND, read).await.expect(kill).unwrap();
        assert_eq!(reply.error(), Some(told), "{kill}: {reply:?}");
        assert_eq!(after.is_lost(), told == 1927, "{kill}: {after:?}");
    }
    managed.pair.replica.sql("SET GLOBAL max_statement_time = 0.5");
    managed.pair.primary.sql("SET GLOBAL max_statement_time = 0.5");
    let reply = managed.client().await.query(LONG).await;
    assert_eq!(reply.error(), Some(1969), "{reply:?}");
    let split = managed.pair.split().await;
    assert_eq!(split.primary_failed, 0, "{split:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_replica_dies_runs_on_the_primary() {
    let managed = Managed::lay();
    let mut client = managed.client().await;
    let read = tokio::spawn(async move { client.query(LONG).await });
    running(&managed.pair.replica);
    managed.pair.replica.signal(signal::KILL);
    let id = running(&managed.pair.primary);
    managed.pair.primary.sql(&format!("KILL QUERY {id}"));
    assert_eq!(read.await.unwrap().error(), Some(1317));
}

/// A read on a replica keeps nobody from taking over: the session's link to the old primary counts as gone, and the read goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_elsewhere_keeps_no_link_to_the_primary() {
    let mut pair = Pair::lay(WAIT);
    pair.primary.sql("CREATE TABLE shop.r AS SELECT seq id FROM shop.seq_1_to_20000");
    pair.replicated();
    let mut client = pair.client().await;
    client.run("SELECT 1").await;
    let reading = tokio::spawn(async move { client.query(LONG).await });
    let id = running(&pair.replica);
    pair.bench.follow(shut(&pair, 2)).await;
    let cut = async {
        while let Some(fact) = pair.bench.facts.recv().await {
            if let ProxyFact::Cut { node, epoch } = fact {
                return (node, epoch);
            }
        }
        panic!("the proxy has ended");
    };
    assert_eq!(timeout(10 * SECOND, cut).await.expect("told while the read runs"), (NodeId(0), 1));
    assert_eq!(running(&pair.replica), id, "it still runs");
    pair.replica.sql(&format!("KILL QUERY {id}"));
    assert_eq!(reading.await.unwrap().error(), Some(1317));
}

/// Nobody writes; the replica's routes for reads stay as they are.
fn shut(pair: &Pair, version: u64) -> Arc<Routes> {
    let [primary, replica] = [(0, pair.primary.address()), (1, pair.replica.address())]
        .map(|(node, address)| lane(node, address, LaneState::Shut, 1));
    routes_of(version, vec![primary, replica])
}

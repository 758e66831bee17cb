//! The port for reads with servers that are scripted: a server that is lost between two statements, one that lags, and all gone and back. The
//! session sees no error, and what it waits for on a server is what it may have seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

use fixture::answers;
use fixture::scripted::{Act, Heard, ScriptedNode};
use fixture::wait::until_async;
use harness::{SECOND, lane, one, routes_of, settings};
use link::Link;
use proxy::{Handle, Inputs, Reads};
use tokio::sync::{mpsc, watch};
use topology::NodeId;
use topology::fact::ProxyFact;
use topology::reads::Reached;
use topology::routes::{LaneState, Routes};

/// Where the primary is by its last word.
const POSITION: &str = "0-1-9";
const ASKED: &str = "SELECT @@server_id";

/// What a replica does.
#[derive(Default)]
struct Mood {
    /// Its links end when the next statement comes.
    ends: AtomicBool,
    /// It has not applied all.
    lags: AtomicBool,
}

/// A port for reads over two replicas, and the primary's word.
struct Port {
    nodes: Vec<ScriptedNode>,
    moods: Vec<Arc<Mood>>,
    routes: watch::Sender<Arc<Routes>>,
    facts: mpsc::Receiver<ProxyFact>,
    reached: Arc<watch::Sender<Arc<Reached>>>,
    origin: Instant,
    epochs: [u64; 2],
    version: u64,
    proxy: Handle,
}

fn answer(heard: &Heard<'_>, number: usize, mood: &Mood) -> Vec<Act> {
    let Some(text) = heard.text() else { return vec![Act::Say(answers::ok())] };
    if text == ASKED {
        if mood.ends.load(SeqCst) {
            return vec![Act::Close];
        }
        return vec![Act::Say(heard.rows(&["@@server_id"], &[&[&(number + 1).to_string()]]))];
    }
    if text.starts_with("SELECT MASTER_GTID_WAIT('0-1-9'") {
        let applied = if mood.lags.load(SeqCst) { "-1" } else { "0" };
        return vec![Act::Say(heard.rows(&["applied"], &[&[applied]]))];
    }
    vec![Act::Say(answers::ok())]
}

impl Port {
    async fn open() -> Self {
        let moods: Vec<Arc<Mood>> = (0..2).map(|_| Arc::default()).collect();
        let mut nodes = vec![];
        for (number, mood) in moods.iter().enumerate() {
            let mood = Arc::clone(mood);
            nodes.push(ScriptedNode::start(move |heard| answer(&heard, number, &mood)).await);
        }
        let (routes, told) = watch::channel(routes_of(0, vec![]));
        let (tell, facts) = mpsc::channel(100);
        let (reached, word) = watch::channel(Arc::default());
        let origin = Instant::now();
        let reads = Reads { reached: word, origin, wait_max: SECOND.into(), is_group: false };
        let proxy = proxy::start_reads(settings(), Inputs { routes: told, facts: tell }, reads).unwrap();
        let reached = Arc::new(reached);
        let mut port =
            Self { nodes, moods, routes, facts, reached, origin, epochs: [1, 1], version: 0, proxy };
        port.say_position();
        port.give([LaneState::Open, LaneState::Shut]).await;
        port
    }

    /// The primary says where it is, when it is asked.
    fn say_position(&self) {
        self.reached.send_replace(Arc::new(Reached {
            primary: Some(NodeId(9)),
            position: POSITION.into(),
            asked: self.origin.elapsed(),
            read_only: vec![NodeId(0), NodeId(1)],
        }));
    }

    /// The lanes become these; one that is shut begins another epoch.
    async fn give(&mut self, states: [LaneState; 2]) {
        self.version += 1;
        let lanes = (0..2).map(|number| {
            if states[number] == LaneState::Shut {
                self.epochs[number] += 1;
            }
            lane(number, self.nodes[number].address(), states[number], self.epochs[number])
        });
        let lanes = lanes.collect();
        self.routes.send_replace(routes_of(self.version, lanes));
        while self.proxy.stats().await.term != self.version {
            tokio::task::yield_now().await;
        }
    }

    async fn client(&self) -> Link {
        harness::connect(&self.proxy.local_addresses()[0].to_string()).await.unwrap()
    }

    /// Answers who asks where the primary is, until something was seen of a server.
    async fn until_alarmed(&mut self) {
        loop {
            let fact = tokio::time::timeout(10 * SECOND, self.facts.recv()).await;
            match fact.expect("something is told").expect("the port is open") {
                ProxyFact::PositionWanted => self.say_position(),
                ProxyFact::Reads(fact) if matches!(*fact, ProxyFact::TrafficLost { .. }) => return,
                _ => {}
            }
        }
    }

    /// Answers who asks where the primary is, from now on.
    fn keep_saying(&mut self) {
        let (_, none) = mpsc::channel(1);
        let mut facts = std::mem::replace(&mut self.facts, none);
        let (reached, origin) = (Arc::clone(&self.reached), self.origin);
        tokio::spawn(async move {
            while let Some(fact) = facts.recv().await {
                if matches!(fact, ProxyFact::PositionWanted) {
                    let now = Reached { asked: origin.elapsed(), ..(**reached.borrow()).clone() };
                    reached.send_replace(Arc::new(now));
                }
            }
        });
    }

    /// How often a server was asked whether it has applied what the primary had.
    fn waits(&mut self, number: usize) -> usize {
        let texts = self.nodes[number].texts();
        texts.iter().filter(|text| text.starts_with("SELECT MASTER_GTID_WAIT('0-1-9'")).count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_lost_between_two_statements_costs_no_error() {
    let mut port = Port::open().await;
    let mut client = port.client().await;
    assert_eq!(one(&mut client, ASKED).await, "1");
    port.moods[0].ends.store(true, SeqCst);
    let read = tokio::spawn(async move { one(&mut client, ASKED).await });
    port.until_alarmed().await;
    port.keep_saying();
    port.give([LaneState::Shut, LaneState::Open]).await;
    assert_eq!(read.await.unwrap(), "2");
    assert_eq!(port.waits(1), 1, "the other server was not asked whether it has what was seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lags_is_not_read_until_it_has_what_was_seen() {
    let mut port = Port::open().await;
    let mut client = port.client().await;
    assert_eq!(one(&mut client, ASKED).await, "1");
    port.keep_saying();
    port.moods[1].lags.store(true, SeqCst);
    port.give([LaneState::Shut, LaneState::Open]).await;
    let read = tokio::spawn(async move { one(&mut client, ASKED).await });
    let mut waits = 0;
    until_async("it is asked twice", async || {
        waits += port.waits(1);
        if waits < 2 { Err(waits) } else { Ok(()) }
    })
    .await;
    assert!(!read.is_finished(), "it was read though it lags");
    port.moods[1].lags.store(false, SeqCst);
    assert_eq!(read.await.unwrap(), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_wait_while_all_are_gone_and_go_on_when_one_is_back() {
    let mut port = Port::open().await;
    let mut client = port.client().await;
    assert_eq!(one(&mut client, ASKED).await, "1");
    port.keep_saying();
    port.give([LaneState::Shut, LaneState::Shut]).await;
    let read = tokio::spawn(async move { one(&mut client, ASKED).await });
    until_async("it is held", async || port.proxy.stats().await.hold.waiting > 0).await;
    port.give([LaneState::Open, LaneState::Shut]).await;
    assert_eq!(read.await.unwrap(), "1");
    assert_eq!(port.waits(0), 1, "what was seen is waited for on the same server, too");
}

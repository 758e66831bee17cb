use std::time::Duration;

use link::Transport;
use session::hold_queue::QueueLimits;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use topology::Term;
use topology::fact::ProxyFact;
use topology::routes::Routes;

use super::*;
use crate::door::Door;

const LONG: Duration = Duration::from_secs(10);

/// A door, and a way to give it routes.
struct TestDoor {
    door: Door,
    routes: watch::Sender<Arc<Routes>>,
    facts: mpsc::Receiver<ProxyFact>,
}

impl TestDoor {
    async fn new() -> Self {
        let (routes, newest) = watch::channel(Arc::new(routes(1, 1, LaneState::Open)));
        let (sender, facts) = mpsc::channel(8);
        let limits = QueueLimits { time: LONG, statements_max: 1, bytes_max: 1, release_at_once: 1 };
        let (door, _task) = Door::start(limits, newest, sender, Arc::default());
        let this = Self { door, routes, facts };
        this.taken_up(1).await;
        this
    }

    fn lane(&self) -> Arc<Lane> {
        self.door.lane_table().lanes[0].clone()
    }

    async fn publish(&self, version: u64, epoch: u64, state: LaneState) {
        self.routes.send_replace(Arc::new(routes(version, epoch, state)));
        self.taken_up(version).await;
    }

    /// The next lane that is said to be cut: its node, and the epoch.
    async fn cut(&mut self) -> (NodeId, u64) {
        loop {
            if let ProxyFact::Cut { node, epoch } = timeout(LONG, self.facts.recv()).await.unwrap().unwrap() {
                return (node, epoch);
            }
        }
    }

    async fn taken_up(&self, version: u64) {
        let mut lane_tables = self.door.watch();
        let taken = lane_tables.wait_for(|lane_table| lane_table.version == version);
        timeout(LONG, taken).await.unwrap().unwrap();
    }
}

fn routes(version: u64, epoch: u64, state: LaneState) -> Routes {
    let shut = topology::routes::Lane::shut(NodeId(0), "db1", "127.0.0.1:1");
    let lane = topology::routes::Lane { state, epoch, ..shut };
    Routes {
        version,
        term: Term(1),
        lanes: vec![lane],
        hold_because: None,
        greeting: None,
        accounts: Arc::default(),
        catalogue: None,
    }
}

/// Both ends of a connection.
async fn pair() -> (Transport, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (ours.unwrap().into(), theirs.unwrap().0)
}

#[tokio::test]
async fn a_lane_that_was_shut_is_cut_whoever_still_holds_a_link() {
    let mut test_door = TestDoor::new().await;
    let lane = test_door.lane();
    let (ours, mut theirs) = pair().await;
    let registration = lane.register(ours.cutter().unwrap()).unwrap();
    // The next epoch: the lane of the old one is shut, whoever is on it.
    test_door.publish(2, 2, LaneState::Open).await;
    assert!(lane.is_shut() && !Arc::ptr_eq(&lane, &test_door.lane()));
    assert_eq!(test_door.cut().await, (NodeId(0), 1));
    // Nothing can be sent on its socket, although the session still holds it.
    assert!(ours.try_write(b"x").is_err());
    assert_eq!(
        timeout(LONG, theirs.read(&mut [0])).await.unwrap().unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
    assert!(lane.register(ours.cutter().unwrap()).is_none(), "too late");
    drop(registration);
    test_door.publish(3, 2, LaneState::Shut).await;
    assert_eq!(test_door.cut().await, (NodeId(0), 2), "the other was said once");
}

/// Only the newest routes are seen: a lane may have been opened and shut again since the last that were.
#[tokio::test]
async fn a_lane_that_was_never_seen_open_is_said_to_be_cut() {
    let mut test_door = TestDoor::new().await;
    test_door.publish(2, 2, LaneState::Shut).await;
    test_door.publish(3, 2, LaneState::Shut).await;
    test_door.publish(4, 3, LaneState::Shut).await;
    for epoch in [1, 2] {
        assert_eq!(test_door.cut().await, (NodeId(0), epoch));
    }
}

#[tokio::test]
async fn a_saver_keeps_a_draining_lane_from_being_quiet() {
    let test_door = TestDoor::new().await;
    let lane = test_door.lane();
    let lease = lane.lease().unwrap();
    let saver = lease.save_later();
    test_door.publish(2, 1, LaneState::Draining).await;
    timeout(LONG, lane.until_not_open()).await.unwrap();
    assert!(lane.lease().is_none());
    drop(lease);
    assert!(lane.leases() == 0 && lane.is_draining() && !lane.is_quiet());
    drop(saver);
    assert!(lane.is_quiet());
    test_door.publish(3, 1, LaneState::Open).await;
    assert!(lane.lease().is_some(), "undone");
}

#[tokio::test]
async fn alarms_are_numbered_from_one() {
    let test_door = TestDoor::new().await;
    let lane = test_door.lane();
    assert_eq!((lane.next_alarm(), lane.next_alarm()), (1, 2));
    test_door.publish(2, 2, LaneState::Open).await;
    assert_eq!(test_door.lane().next_alarm(), 1, "each epoch has its own");
}

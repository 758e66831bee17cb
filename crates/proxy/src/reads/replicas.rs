//! Reads outside transactions that run on replicas, on the same port as writes. Here is what all sessions share: the replicas' lanes, the
//! known position of each replica, and the counts.
//!
//! The lanes are those of the port for reads (`topology::readers`), with a door of their own, separate from the primary's. A replica that
//! failed, or did not reach a position in time, is not used by any session for a while.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use api::proxy::SplitStats;
use listen::log_limit::LogLimit;
use protocol::statement::{NAME_BYTES_MAX, names_any};
use session::split::{Gtid, only_domain};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use topology::NodeId;
use topology::fact::{ConnectFailure, ProxyFact};
use topology::routes::Routes;

use crate::door::Door;
use crate::lane::{LOOK_WAIT, Lane, Lease};
use crate::live_duration::LiveDuration;

/// The inputs of a proxy that sends reads to replicas.
#[derive(Clone)]
pub struct Split {
    /// Which nodes take reads; the newest value counts.
    pub routes: watch::Receiver<Arc<Routes>>,
    /// The longest that a read waits on a replica for what its session has written or seen.
    pub wait_max: Duration,
}

/// A replica that failed is not used for at least this long.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// How often it is logged that a replica's settings differ.
const UNLIKE_SAID: Duration = Duration::from_secs(60);

/// The lists of names are read again a second after such a statement, which may take 20 s, and such a reading may have been in progress
/// before; otherwise every 30 s.
const LISTS_AGE_MAX: Duration = Duration::from_secs(60);
/// A statement whose end was not seen has ended by then.
const MAKING_MAX: Duration = Duration::from_secs(3600);
/// At most this many names are kept; with more, any name may be one of them.
const MADE_MAX: usize = 100_000;

/// A position that a replica has certainly reached.
#[derive(Clone, Copy)]
struct Applied {
    /// The epoch of the replica's lane.
    epoch: u64,
    /// The primary's lane: its node and epoch.
    primary: (NodeId, u64),
    gtid: Gtid,
}

/// Why a replica is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It did not reach a position in time: no session waits there, and no new link is made.
    Late,
    /// A link to it broke, or could not be made: no new link is made. Existing links may work, and show by themselves when they do not.
    Broke,
    /// It did not answer: no session uses a link to it.
    Silent,
    /// Its settings differ from the primary's for every session: no new link is made.
    Unlike,
    /// It refuses an account: none of its sessions makes a link.
    Refused,
}

/// A replica that is not used for a time.
#[derive(Clone, Copy)]
struct Alone {
    until: Instant,
    why: Why,
}

/// Who does not use a replica, and why.
#[derive(Default)]
struct LeftAlone {
    by_all: Option<Alone>,
    /// Each account that it refuses.
    by_account: HashMap<String, Alone>,
}

/// What all sessions share about the replicas. See the head of this file.
pub struct Replicas {
    door: Door,
    facts: mpsc::Sender<ProxyFact>,
    /// See [`Split::wait_max`].
    pub wait_max: LiveDuration,
    /// By node.
    left_alone: Mutex<HashMap<NodeId, LeftAlone>>,
    /// A GTID that each replica has applied, and the primary that assigned it: the next primary may use the same number for another transaction.
    reached: Mutex<HashMap<NodeId, Applied>>,
    /// For each replica, the log limit of the message that its settings differ.
    unlike: Mutex<HashMap<NodeId, LogLimit>>,
    /// The only domain in the primary's last known position, plus one; 0: not known, or there are several.
    domain: AtomicU64,
    /// Names that a statement has just created and that the lists of names do not contain yet, each with the time until which it is
    /// excluded from replicas.
    made: RwLock<Made>,
    /// By [`Ran`].
    counts: [AtomicU64; 5],
}

#[derive(Default)]
struct Made {
    names: HashMap<String, Instant>,
    /// Until then any name may be one: there were more than [`MADE_MAX`].
    any_until: Option<Instant>,
    /// When the last of them expires.
    until: Option<Instant>,
    /// When the expired ones were last removed.
    cleaned: Option<Instant>,
}

/// Where a statement ran.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// On a replica.
    Replica,
    /// On the primary because of what it is.
    Primary,
    /// A read for a replica that went to the primary: no replica took reads, or none that this session could use.
    Nobody,
    /// The same, because the replica did not reach the position in time.
    Behind,
    /// The same, because the replica failed or answered with an error.
    Failed,
}

impl LeftAlone {
    /// What is known for every session, or for those of one account; it may be over.
    fn known(&self, account: Option<&str>) -> Option<&Alone> {
        match account {
            Some(account) => self.by_account.get(account),
            None => self.by_all.as_ref(),
        }
    }
}

impl Replicas {
    /// Uses the lanes that `door` follows.
    pub fn new(door: Door, facts: mpsc::Sender<ProxyFact>, wait_max: Duration) -> Self {
        Self {
            door,
            facts,
            wait_max: wait_max.into(),
            left_alone: Mutex::default(),
            reached: Mutex::default(),
            unlike: Mutex::default(),
            domain: AtomicU64::new(0),
            made: RwLock::default(),
            counts: Default::default(),
        }
    }

    /// A lease on the least busy replica that takes reads; not on `primary`, nor where `user` is refused, nor where the session `avoids` to go.
    pub fn lease(&self, primary: NodeId, user: &str, avoids: &dyn Fn(NodeId) -> bool) -> Option<Lease> {
        let lane_table = self.door.lane_table();
        let mut lanes: Vec<&Arc<Lane>> = lane_table
            .lanes
            .iter()
            .filter(|lane| lane.node != primary && lane.is_open() && lane.has_room())
            .filter(|lane| self.alone(lane.node, None).is_none() && !avoids(lane.node))
            .filter(|lane| self.alone(lane.node, Some(user)).is_none())
            .collect();
        lanes.sort_by_key(|lane| (lane.leases(), lane.sessions()));
        lanes.into_iter().find_map(Lane::lease)
    }

    /// It did not reach a position in time: no session waits there for a while.
    pub fn found_late(&self, node: NodeId) {
        self.leave_alone(node, None, Why::Late, LEFT_ALONE.max(self.wait_max.get()));
    }

    /// No session, or none of this account, makes a link to it for `time`.
    pub fn leave_alone(&self, node: NodeId, account: Option<&str>, why: Why, time: Duration) {
        let now = Instant::now();
        let alone = Alone { until: now + time, why };
        let mut left_alone = self.left_alone.lock().unwrap_or_else(PoisonError::into_inner);
        let of_node = left_alone.entry(node).or_default();
        of_node.by_account.retain(|_, alone| alone.until > now);
        // A replica that does not answer is abandoned by the sessions that have a link to it, whatever else is known.
        let is_shorter = |known: &Alone| known.until > alone.until && why != Why::Silent;
        if of_node.known(account).is_some_and(is_shorter) {
            return;
        }
        match account {
            Some(account) => drop(of_node.by_account.insert(account.to_owned(), alone)),
            None => of_node.by_all = Some(alone),
        }
    }

    /// Why no session, or none of this account, makes a link to it now.
    pub fn alone(&self, node: NodeId, account: Option<&str>) -> Option<Why> {
        let left_alone = self.left_alone.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = left_alone.get(&node)?.known(account)?;
        (alone.until > Instant::now()).then_some(alone.why)
    }

    /// The primary has reported this position.
    pub fn saw_position(&self, position: &str) {
        self.domain.store(only_domain(position).map_or(0, |domain| u64::from(domain) + 1), Relaxed);
    }

    /// The domain of the primary's position, if it has only one.
    pub fn only_domain(&self) -> Option<u32> {
        self.domain.load(Relaxed).checked_sub(1).and_then(|domain| u32::try_from(domain).ok())
    }

    /// A link to it broke, or could not be made.
    pub fn lost(&self, lane: &Lane, how: ConnectFailure) {
        let why = match how {
            ConnectFailure::TimedOut | ConnectFailure::Unreachable => Why::Silent,
            _ => Why::Broke,
        };
        self.leave_alone(lane.node, None, why, LEFT_ALONE.max(self.wait_max.get()));
        if how == ConnectFailure::TimedOut {
            return; // slow, and asked often enough by the manager itself
        }
        // Alarm 0: no session waits for the answer.
        let fact = ProxyFact::TrafficLost { node: lane.node, epoch: lane.epoch, how, alarm: 0 };
        self.tell(fact);
    }

    /// Has the manager ask a replica whose link ended during a read; whether the replica is well. If that is not known in time, it is not.
    pub async fn is_well(&self, lane: &Lane, how: ConnectFailure) -> bool {
        let alarm = lane.next_alarm();
        self.tell(ProxyFact::TrafficLost { node: lane.node, epoch: lane.epoch, how, alarm });
        let mut lane_tables = self.door.watch();
        // The lanes are updated from new routes before the table is replaced.
        let word =
            lane_tables.wait_for(|_| lane.is_shut() || lane.has_looked(alarm) || lane.has_refused(alarm));
        let is_known = timeout(LOOK_WAIT, word).await.is_ok_and(|word| word.is_ok());
        is_known && !lane.is_shut() && lane.has_looked(alarm)
    }

    /// Sends a fact about the lanes for reads to the manager.
    pub fn tell(&self, fact: ProxyFact) {
        let _ = self.facts.try_send(fact);
    }

    /// A statement creates views, or tables of an engine that it names: with `runs` while it runs, otherwise until the lists of names
    /// certainly contain them.
    pub fn makes(&self, names: &[String], runs: bool) {
        let now = Instant::now();
        let until = now + if runs { MAKING_MAX } else { LISTS_AGE_MAX };
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if made.cleaned.is_none_or(|at| at + LISTS_AGE_MAX < now) {
            made.names.retain(|_, until| *until > now);
            made.cleaned = Some(now);
        }
        for name in names.iter().filter(|name| name.len() <= NAME_BYTES_MAX) {
            if made.names.len() < MADE_MAX || made.names.contains_key(name) {
                made.names.insert(name.clone(), until);
            } else {
                made.any_until = Some(now + LISTS_AGE_MAX);
            }
        }
        // With very many names this may be too late, which only costs lookups.
        made.until = match made.names.len() {
            0..1000 => made.names.values().copied().max(),
            _ => made.until.max(Some(until)),
        };
        made.until = made.until.max(made.any_until);
    }

    /// Whether a text contains one of those names.
    pub fn names_just_made(&self, text: &[u8], status: u16) -> bool {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = made.until else { return false };
        let now = Instant::now();
        let is_made = |name: &str| made.names.get(name).is_some_and(|until| *until > now);
        until > now && (made.any_until.is_some_and(|until| until > now) || names_any(text, status, is_made))
    }

    /// Logs why sessions cannot be set up there as on the primary, at a limited rate.
    pub fn say_unlike(&self, lane: &Lane, why: &str) {
        let mut unlike = self.unlike.lock().unwrap_or_else(PoisonError::into_inner);
        let said = unlike.entry(lane.node).or_insert_with(|| LogLimit::new(UNLIKE_SAID));
        if let Some(kept_back) = said.now(Instant::now()) {
            let name = &lane.name;
            tracing::warn!(
                "reads are not split off to {name}: {why} ({kept_back} times more since this was last said)"
            );
        }
    }

    /// Whether the replica is known to have applied `gtid`, which `primary` assigned.
    pub fn has_reached(&self, lane: &Lane, primary: &Lane, gtid: Gtid) -> bool {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.get(&lane.node).is_some_and(|known| {
            (known.epoch, known.primary) == (lane.epoch, (primary.node, primary.epoch))
                && known.gtid.domain == gtid.domain
                && known.gtid.number >= gtid.number
        })
    }

    /// It has applied `gtid`, which `primary` assigned.
    pub fn reached(&self, lane: &Lane, primary: &Lane, gtid: Gtid) {
        if self.has_reached(lane, primary, gtid) {
            return;
        }
        let known = Applied { epoch: lane.epoch, primary: (primary.node, primary.epoch), gtid };
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).insert(lane.node, known);
    }

    /// A statement ran there.
    pub fn count(&self, ran: Ran) {
        self.counts[ran as usize].fetch_add(1, Relaxed);
    }

    /// The counts and lanes now.
    pub fn stats(&self) -> SplitStats {
        let [replicas, primary, primary_nobody, primary_behind, primary_failed] =
            self.counts.each_ref().map(|count| count.load(Relaxed));
        let lane_table = self.door.lane_table();
        let lanes = lane_table.lanes.iter().filter(|lane| !lane.is_removed);
        let lanes = lanes.map(|lane| (lane.name.to_string(), lane.sessions())).collect();
        SplitStats { replicas, primary, primary_nobody, primary_behind, primary_failed, lanes }
    }
}

#[cfg(test)]
mod tests {
    use session::hold_queue::QueueLimits;
    use topology::Term;
    use topology::routes::LaneState;

    use super::*;
    use crate::stats::Counts;

    const PRIMARY: NodeId = NodeId(0);

    /// Over two replicas, the nodes 1 and 2.
    async fn two() -> (Replicas, watch::Sender<Arc<Routes>>) {
        let lanes = (0..3).map(|node| topology::routes::Lane {
            state: if node == 0 { LaneState::Shut } else { LaneState::Open },
            epoch: 1,
            ..topology::routes::Lane::shut(NodeId(node), format!("db{node}"), "127.0.0.1:1")
        });
        let routes = Routes {
            version: 1,
            term: Term(1),
            lanes: lanes.collect(),
            hold_because: None,
            greeting: None,
            accounts: Arc::default(),
            catalogue: None,
        };
        let (sender, receiver) = watch::channel(Arc::new(routes));
        let limits =
            QueueLimits { time: Duration::from_secs(1), statements_max: 1, bytes_max: 1, release_at_once: 1 };
        let (facts, _) = mpsc::channel(1);
        let (door, _) = Door::start(limits, receiver, facts.clone(), Arc::new(Counts::default()));
        door.watch().wait_for(|lane_table| lane_table.lanes.len() == 3).await.unwrap();
        (Replicas::new(door, facts, Duration::from_secs(1)), sender)
    }

    fn taken(replicas: &Replicas, user: &str) -> Vec<u8> {
        let mut nodes = vec![];
        while let Some(lease) = replicas.lease(PRIMARY, user, &|node| nodes.contains(&node.0)) {
            nodes.push(lease.lane().node.0);
        }
        nodes.sort_unstable();
        nodes
    }

    #[tokio::test]
    async fn a_replica_that_is_no_use_leaves_the_others_to_be_read() {
        let (replicas, _routes) = two().await;
        assert_eq!(taken(&replicas, "app"), [1, 2]);
        let time = Duration::from_secs(60);
        replicas.leave_alone(NodeId(1), Some("app"), Why::Refused, time);
        assert_eq!((taken(&replicas, "app"), taken(&replicas, "other")), (vec![2], vec![1, 2]));
        replicas.leave_alone(NodeId(2), None, Why::Unlike, time);
        assert_eq!((taken(&replicas, "app"), taken(&replicas, "other")), (vec![], vec![1]));
        assert_eq!(replicas.alone(NodeId(2), None), Some(Why::Unlike), "links that stand stay");
        // Known for longer than that it is late.
        replicas.found_late(NodeId(2));
        assert_eq!(taken(&replicas, "other"), [1]);
    }

    #[tokio::test]
    async fn names_that_were_made_are_kept_within_limits() {
        let (replicas, _routes) = two().await;
        let reads = |name: &str| replicas.names_just_made(format!("SELECT * FROM {name}").as_bytes(), 0);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        replicas.makes(&[long, "v0".to_owned()], false);
        assert_eq!(replicas.made.read().unwrap().names.len(), 1, "no server takes a name so long");
        assert!(reads("v0") && !reads("other"));
        let many: Vec<String> = (0..MADE_MAX).map(|number| format!("v{number}")).collect();
        replicas.makes(&many, false);
        assert!(!reads("other"));
        replicas.makes(&["one_more".to_owned()], false);
        assert_eq!(replicas.made.read().unwrap().names.len(), MADE_MAX);
        assert!(reads("one_more") && reads("other"), "any may be the one that was not kept");
    }

    #[tokio::test]
    async fn one_broken_link_says_nothing_of_those_that_stand() {
        let (replicas, _routes) = two().await;
        let lane = replicas.lease(PRIMARY, "app", &|node| node != NodeId(1)).unwrap().lane().clone();
        let rejected = ConnectFailure::Rejected { errno: 1040, message: String::new() };
        for how in [ConnectFailure::Closed, ConnectFailure::Reset, rejected] {
            replicas.lost(&lane, how);
            assert_eq!(taken(&replicas, "app"), [2], "nobody new goes there");
            assert_eq!(replicas.alone(NodeId(1), None), Some(Why::Broke));
        }
        replicas.lost(&lane, ConnectFailure::TimedOut);
        assert_eq!(replicas.alone(NodeId(1), None), Some(Why::Silent));
    }
}

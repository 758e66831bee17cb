//! Every client's session: the node that it is on, and the connection ids by which it can be killed.
//!
//! A client knows a session by the id in its greeting, which is the proxy's own; by the result of CONNECTION_ID() or SHOW PROCESSLIST,
//! which is a node's; and possibly by a former result of these, from before the session moved. Different nodes may use the same id, so that
//! it can mean more than one session; then none of them is killed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::proxy::Busy;
use topology::NodeId;

use crate::activity::{Card, Doing, Tied};
use crate::kills::Kills;
use crate::lane::Lane;

/// The proxy's connection ids start here, far above any node's, so that KILL can distinguish them.
pub const FIRST_ID: u32 = 0x4000_0000;
/// A session that has been doing the same for this long is shown as busy, also on a lane that takes transactions.
const LONG: Duration = Duration::from_secs(1);
/// At most this many busy sessions are shown.
const SHOWN_MAX: usize = 50;
/// At most this many commits are reported for one node.
const COMMITS_MAX: usize = 16;
/// Former ids that are kept for one session.
const FORMER_MAX: usize = 64;

/// The place of a client's session.
#[derive(Clone)]
pub struct SessionLocation {
    /// The lane it is on.
    pub lane: Arc<Lane>,
    /// The node's connection id.
    pub thread_id: u32,
    /// KILLs of this very connection by other clients.
    pub kills: Arc<Kills>,
}

struct Entry {
    card: Arc<Card>,
    place: Option<SessionLocation>,
    /// The place where it runs a statement on another link, for as long as it does. Clients never learn the id of that link.
    aside: Option<SessionLocation>,
    /// The connection ids that nodes gave it, the present one last.
    threads: Vec<u32>,
}

/// The session that an id means.
pub enum Named {
    /// No session of this proxy.
    Nobody,
    /// This one; `None` when it has no link now.
    One(u32, Option<SessionLocation>),
    /// One of these, by the proxy's ids.
    Several(Vec<u32>),
}

/// All sessions. See the head of this file.
#[derive(Default)]
pub struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<u32, Entry>,
    /// The sessions that have or had a node's connection id.
    by_thread: HashMap<u32, Vec<u32>>,
}

impl Registry {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A client has logged in.
    pub fn add(&self, card: Arc<Card>) {
        self.with(|state| {
            state.sessions.insert(card.id, Entry { card, place: None, aside: None, threads: vec![] });
        });
    }

    /// The client is gone.
    pub fn remove(&self, id: u32) {
        self.with(|state| {
            let Some(entry) = state.sessions.remove(&id) else { return };
            for thread in entry.threads {
                state.forget(thread, id);
            }
        });
    }

    /// Notes the present place of a client's session.
    pub fn settle(&self, id: u32, place: Option<SessionLocation>) {
        self.with(|state| {
            let Some(entry) = state.sessions.get_mut(&id) else { return };
            let thread = place.as_ref().map(|place| place.thread_id);
            entry.place = place;
            let Some(thread) = thread else { return };
            entry.threads.retain(|known| *known != thread);
            entry.threads.push(thread);
            let oldest = (entry.threads.len() > FORMER_MAX).then(|| entry.threads.remove(0));
            let sessions = state.by_thread.entry(thread).or_default();
            if !sessions.contains(&id) {
                sessions.push(id);
            }
            if let Some(oldest) = oldest {
                state.forget(oldest, id);
            }
        });
    }

    /// A statement of the session runs on another link, where KILL must find it; `None`: it does not any more. The id of that link does not
    /// become an id of the session.
    pub fn settle_aside(&self, id: u32, aside: Option<SessionLocation>) {
        self.with(|state| {
            if let Some(entry) = state.sessions.get_mut(&id) {
                entry.aside = aside;
            }
        });
    }

    /// Whether the session's own link is this one.
    pub fn stands_on(&self, id: u32, lane: &Arc<Lane>, thread_id: u64) -> bool {
        self.with(|state| {
            let place = state.sessions.get(&id).and_then(|entry| entry.place.as_ref());
            place.is_some_and(|place| {
                Arc::ptr_eq(&place.lane, lane) && u64::from(place.thread_id) == thread_id
            })
        })
    }

    /// The session that `id` means; the id may be the proxy's or a node's, present or former.
    pub fn named(&self, id: u64) -> Named {
        let Ok(id) = u32::try_from(id) else { return Named::Nobody };
        self.with(|state| {
            let place = |id: &u32| state.sessions.get(id).and_then(|entry| entry.now().cloned());
            if id >= FIRST_ID {
                return match state.sessions.contains_key(&id) {
                    true => Named::One(id, place(&id)),
                    false => Named::Nobody,
                };
            }
            match state.by_thread.get(&id).map(Vec::as_slice) {
                None | Some([]) => Named::Nobody,
                Some([one]) => Named::One(*one, place(one)),
                Some(several) => Named::Several(several.to_vec()),
            }
        })
    }

    /// The sessions that cannot move, ordered by id.
    pub fn tied(&self) -> Vec<Tied> {
        let mut tied: Vec<Tied> = self.with(|state| {
            let tied = |entry: &Entry| entry.card.tied(&entry.place.as_ref()?.lane.name);
            state.sessions.values().filter_map(tied).collect()
        });
        tied.sort_by_key(|session| session.id);
        tied
    }

    /// The sessions whose clients have accepted nothing of a result for a while, the longest first, and whether cutting it changes nothing.
    pub fn unread(&self) -> Vec<(Busy, bool)> {
        let mut unread: Vec<(Busy, bool)> = self.with(|state| {
            let unread = |entry: &Entry| entry.card.unread(&entry.place.as_ref()?.lane.name);
            state.sessions.values().filter_map(unread).collect()
        });
        unread.sort_by_key(|(session, _)| std::cmp::Reverse(session.waits_ms));
        unread
    }

    /// The clients' commits that have not been answered for `time`, by node, the oldest first: the node's connection id, and the age.
    pub fn commits(&self, time: Duration) -> BTreeMap<NodeId, Vec<(u32, Duration)>> {
        let mut commits: BTreeMap<NodeId, Vec<(u32, Duration)>> = BTreeMap::new();
        self.with(|state| {
            for entry in state.sessions.values() {
                let Some(age) = entry.card.waits_for_commit().filter(|age| *age >= time) else { continue };
                let Some(place) = entry.now() else { continue };
                commits.entry(place.lane.node).or_default().push((place.thread_id, age));
            }
        });
        for of_node in commits.values_mut() {
            of_node.sort_by_key(|(_, age)| std::cmp::Reverse(*age));
            of_node.truncate(COMMITS_MAX);
        }
        commits
    }

    /// The sessions that keep a lane from becoming quiet, or have been doing the same for long; the longest first.
    pub fn busy(&self) -> Vec<Busy> {
        let mut busy: Vec<Busy> = self.with(|state| {
            state
                .sessions
                .values()
                .filter_map(|entry| {
                    let place = entry.now()?;
                    let (doing, time) = entry.card.now();
                    let is_watched = place.lane.is_draining() || time >= LONG;
                    let keeps = is_watched && !matches!(doing, Doing::Idle | Doing::Held);
                    keeps.then(|| entry.card.busy(&place.lane.name))
                })
                .collect()
        });
        busy.sort_by_key(|session| std::cmp::Reverse(session.waits_ms));
        busy.truncate(SHOWN_MAX);
        busy
    }

    /// The sessions that are held, have a transaction open, cannot move, or have been doing something else for long; the longest first.
    pub fn notable(&self) -> Vec<Busy> {
        self.with(|state| {
            let mut notable: Vec<(std::cmp::Reverse<Duration>, &Entry)> = state
                .sessions
                .values()
                .filter_map(|entry| {
                    let (doing, time) = entry.card.now();
                    let is_notable = match doing {
                        Doing::Held | Doing::InTransaction => true,
                        Doing::Idle => false,
                        Doing::Running | Doing::Unread | Doing::Ending | Doing::Sending => time >= LONG,
                    };
                    (is_notable || entry.card.is_tied()).then_some((std::cmp::Reverse(time), entry))
                })
                .collect();
            // There may be thousands, under a lock: only those that are shown are put in order.
            if notable.len() > SHOWN_MAX {
                notable.select_nth_unstable_by_key(SHOWN_MAX, |(time, _)| *time);
                notable.truncate(SHOWN_MAX);
            }
            notable.sort_by_key(|(time, _)| *time);
            let node =
                |entry: &Entry| entry.now().map_or_else(String::new, |place| place.lane.name.to_string());
            notable.iter().map(|(_, entry)| entry.card.busy(&node(entry))).collect()
        })
    }
}

impl Entry {
    /// The place where its statement runs, or would run.
    fn now(&self) -> Option<&SessionLocation> {
        self.aside.as_ref().or(self.place.as_ref())
    }
}

impl State {
    fn forget(&mut self, thread: u32, id: u32) {
        if let Some(sessions) = self.by_thread.get_mut(&thread) {
            sessions.retain(|known| *known != id);
            if sessions.is_empty() {
                self.by_thread.remove(&thread);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use protocol::statement::Pins;
    use tokio::sync::Notify;
    use topology::NodeId;
    use topology::routes::LaneState;

    use super::*;

    fn lane(node: u8) -> Arc<Lane> {
        let shut = topology::routes::Lane::shut(NodeId(node), format!("db{node}"), "127.0.0.1:1");
        let of_routes = topology::routes::Lane { state: LaneState::Open, epoch: 1, ..shut };
        Lane::new(&of_routes, Arc::new(Notify::new()))
    }

    fn place(lane: &Arc<Lane>, thread_id: u32) -> SessionLocation {
        SessionLocation { lane: lane.clone(), thread_id, kills: Arc::default() }
    }

    #[test]
    fn sessions_that_wait_hold_a_transaction_or_cannot_move_are_notable_and_at_most_fifty_are_told() {
        let registry = Registry::default();
        let (lane, now) = (lane(0), Instant::now());
        let session = |number: u32, doing: Doing, pins: Pins| {
            let card = Card::new(FIRST_ID + number, SocketAddr::from(([127, 0, 0, 1], 1)));
            card.set(doing, now);
            card.set_ties(pins);
            registry.add(card);
            registry.settle(FIRST_ID + number, Some(place(&lane, number)));
        };
        session(1, Doing::Idle, Pins::NONE);
        session(2, Doing::Running, Pins::NONE);
        session(3, Doing::Idle, Pins::TEMP_TABLE);
        session(4, Doing::Held, Pins::NONE);
        session(5, Doing::InTransaction, Pins::NONE);
        let mut notable = registry.notable();
        notable.sort_by_key(|session| session.id);
        let told: Vec<(u32, &str)> =
            notable.iter().map(|session| (session.id - FIRST_ID, &*session.ties)).collect();
        assert_eq!(told, [(3, "temporary table"), (4, ""), (5, "")]);
        assert!(notable.iter().all(|session| session.node == "db0"), "{notable:?}");
        for number in 10..10 + 2 * SHOWN_MAX as u32 {
            session(number, Doing::Held, Pins::NONE);
        }
        assert_eq!(registry.notable().len(), SHOWN_MAX);
    }

    #[test]
    fn a_link_aside_is_where_a_session_is_and_no_name_of_it() {
        let registry = Registry::default();
        let (primary, replica) = (lane(0), lane(1));
        let id = FIRST_ID + 1;
        registry.add(Card::new(id, SocketAddr::from(([127, 0, 0, 1], 1))));
        registry.settle(id, Some(place(&primary, 12)));
        registry.settle_aside(id, Some(place(&replica, 57)));
        for known in [u64::from(id), 12] {
            let Named::One(named, Some(at)) = registry.named(known) else { panic!("{known}") };
            assert_eq!((named, at.thread_id), (id, 57), "the KILL goes to where the statement runs");
        }
        assert!(matches!(registry.named(57), Named::Nobody), "it may be anybody's on the primary");
        assert!(registry.stands_on(id, &primary, 12) && !registry.stands_on(id, &replica, 57));
        registry.settle_aside(id, None);
        let Named::One(_, Some(at)) = registry.named(12) else { panic!() };
        assert_eq!(at.thread_id, 12);
        assert!(matches!(registry.named(57), Named::Nobody));
    }
}

//! The lane's counting under a model checker: every order in which sessions and the door can get in each other's way, and every value
//! that a thread may see, not only those that happen. The checker runs the very files that the proxy is built of, with its own atomics
//! and locks in place of the standard library's.
//!
//! Invariants:
//! - a lane that drains takes no lease;
//! - from the door's "quiet" on, until the lane is opened again, no lease and no saver is held;
//! - a lane that drains becomes quiet: the door is told to look after its last look was in vain;
//! - a lane that was shut takes nothing, whatever it is told later;
//! - after the register of links is closed, every link in it is cut, and no later one stands.

/// What the checked files use of the standard library.
mod sync {
    pub use loom::sync::atomic::AtomicU64;
    pub use loom::sync::{Mutex, MutexGuard};
}

#[path = "../../src/lane/links.rs"]
mod links;
#[path = "../../src/lane/occupancy.rs"]
mod occupancy;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use loom::sync::atomic::AtomicBool;
use loom::sync::mpsc::{Receiver, Sender, channel};
use loom::thread;

use links::Links;
use occupancy::{Occupancy, State};

/// Runs `model` in every order that takes a thread off the processor at most `preemptions` times where it need not leave it (`None`: in
/// every order). `LOOM_MAX_PREEMPTIONS` sets another limit for a longer search.
fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(model);
}

/// A lane, what its door has said of it, and the door's letter box.
struct Lane {
    occupancy: Occupancy,
    is_said_quiet: AtomicBool,
}

impl Lane {
    fn new() -> Arc<Self> {
        Arc::new(Self { occupancy: Occupancy::default(), is_said_quiet: AtomicBool::new(false) })
    }

    /// A transaction, if one may begin: the lane is not said to be quiet before it has ended. With `saves`, it leaves something to be
    /// read, and the lane is not said to be quiet before that is read, either. Whether it began.
    fn transaction(&self, door: &Sender<()>, saves: bool) -> bool {
        if !self.occupancy.begin_lease() {
            return false;
        }
        self.assert_busy();
        if saves {
            self.occupancy.begin_saving();
        }
        if self.occupancy.end_lease() {
            door.send(()).unwrap();
        }
        if saves {
            self.assert_busy();
            if self.occupancy.end_saving() {
                door.send(()).unwrap();
            }
        }
        true
    }

    fn assert_busy(&self) {
        assert!(!self.is_said_quiet.load(SeqCst), "something runs on a lane that was said to be quiet");
    }

    /// The door's part: drains, and looks when it is told to, until the lane is quiet. A word to look that never comes is a deadlock,
    /// or the end of the channel.
    fn drain(&self, letters: &Receiver<()>) {
        self.occupancy.set(State::Draining);
        assert!(!self.occupancy.begin_lease(), "a draining lane takes no lease");
        while !self.occupancy.is_quiet() {
            letters.recv().expect("nobody is left, and the lane is not quiet");
        }
        self.is_said_quiet.store(true, SeqCst);
    }
}

/// Two sessions with a transaction each, while the door drains the lane.
fn drained_under(saves: [bool; 2]) {
    let (lane, (door, letters)) = (Lane::new(), channel());
    let sessions = saves.map(|saves| {
        let (lane, door) = (lane.clone(), door.clone());
        thread::spawn(move || lane.transaction(&door, saves))
    });
    drop(door);
    lane.drain(&letters);
    assert_eq!(lane.occupancy.leases(), 0);
    for session in sessions {
        session.join().unwrap();
    }
    assert!(lane.occupancy.is_quiet(), "for good");
}

#[test]
fn nothing_runs_on_a_lane_that_is_said_to_be_quiet() {
    check(Some(4), || drained_under([false, false]));
}

#[test]
fn a_lane_is_not_quiet_before_all_that_is_to_be_saved_is_read() {
    check(Some(3), || drained_under([true, false]));
}

#[test]
fn a_lane_whose_drain_is_undone_takes_leases_and_can_drain_again() {
    check(Some(5), || {
        let (lane, (door, letters)) = (Lane::new(), channel());
        let session = {
            let (lane, door) = (lane.clone(), door.clone());
            thread::spawn(move || lane.transaction(&door, true))
        };
        lane.occupancy.set(State::Draining);
        if lane.occupancy.is_quiet() {
            lane.is_said_quiet.store(true, SeqCst);
        }
        // Undone: what was said no longer holds before the lane takes anything.
        lane.is_said_quiet.store(false, SeqCst);
        lane.occupancy.set(State::Open);
        assert!(lane.transaction(&door, false), "it is open again");
        drop(door);
        lane.drain(&letters);
        session.join().unwrap();
    });
}

#[test]
fn nothing_begins_on_a_lane_that_is_shut_whatever_it_is_told() {
    check(None, || {
        let (lane, (door, _letters)) = (Lane::new(), channel());
        let session = {
            let (lane, door) = (lane.clone(), door.clone());
            thread::spawn(move || lane.transaction(&door, true))
        };
        lane.occupancy.set(State::Draining);
        lane.occupancy.set(State::Shut);
        lane.occupancy.set(State::Open);
        assert!(!lane.occupancy.begin_lease());
        session.join().unwrap();
        assert!(lane.occupancy.state() == State::Shut && lane.occupancy.is_quiet());
    });
}

// ---- links

/// A copy of a link's socket: over when it is cut, or closed.
struct Copy(Arc<AtomicBool>);

impl Drop for Copy {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A session's part of a link.
struct LinkPart {
    is_over: Arc<AtomicBool>,
}

impl LinkPart {
    fn new() -> Arc<Self> {
        Arc::new(Self { is_over: Arc::new(AtomicBool::new(false)) })
    }

    fn register(&self, links: &Links<Copy>) -> Option<u64> {
        links.register(Copy(self.is_over.clone()))
    }
}

#[test]
fn a_shut_lane_has_cut_every_link_and_takes_no_other() {
    check(None, || {
        let links = Arc::new(Links::new());
        let (standing, coming) = (LinkPart::new(), LinkPart::new());
        assert!(standing.register(&links).is_some());
        // One that leaves by itself meanwhile.
        let left = LinkPart::new();
        let number = left.register(&links).unwrap();
        let leaving = {
            let links = links.clone();
            thread::spawn(move || links.release(number))
        };
        let arrival = {
            let (links, coming) = (links.clone(), coming.clone());
            thread::spawn(move || coming.register(&links))
        };
        // By force first, as an operator may, while it still takes links.
        links.cut(drop);
        assert!(standing.is_over.load(SeqCst), "cut");
        links.close(drop);
        arrival.join().unwrap();
        leaving.join().unwrap();
        assert!(left.is_over.load(SeqCst), "cut, or closed by itself");
        assert!(coming.is_over.load(SeqCst), "in time and cut, or too late and refused");
        assert!(LinkPart::new().register(&links).is_none());
    });
}

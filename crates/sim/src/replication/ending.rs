//! What has to hold at the end of a simulated run, when everything has worked for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use topology::NodeId;
use topology::health::Problem;
use topology::order::Order;

use super::server::{Fetching, Server};
use super::simulation::Faults;
use super::world::World;

/// For these reasons a server is left where it is: somebody has to act. For all others it is told again whom to follow.
const FOR_A_PERSON: [Problem; 2] = [Problem::Errant, Problem::Renumbered];

/// The server that takes over only by an order with force, as is said; where it is left to the operator, the one that has most.
fn asked_for_by_force(world: &World) -> Option<NodeId> {
    let held = world.brain.as_ref()?.view(world.now).hold_because.filter(|_| world.open().is_none())?;
    // What a server has received and cannot apply is looked at by a person first.
    let is_applied = world.servers.iter().all(|server| server.received.is_empty());
    if is_applied && held.contains("an order with force to the one whose data is right") {
        let count = |node: &usize| world.servers[*node].applied.len();
        return (0..world.servers.len()).max_by_key(count).map(|node| NodeId(node as u8));
    }
    let (before, _) = held.split_once(" takes over only by an order with force")?;
    let name = before.rsplit(' ').next()?;
    world.names.iter().position(|it| it == name).map(|node| NodeId(node as u8))
}

/// Whether a server has applied, or received, what another has not applied.
pub fn has_more(server: &Server, other: &Server) -> bool {
    let theirs: BTreeSet<u64> = other.applied.iter().map(|it| it.uid).collect();
    server.applied.iter().chain(&server.received).any(|it| !theirs.contains(&it.uid))
}

/// Whether a server has applied every transaction there ever was.
fn has_any_all(world: &World) -> bool {
    world.servers.iter().any(|server| {
        let all: BTreeSet<u64> = server.applied.iter().map(|it| it.uid).collect();
        world.made.keys().all(|uid| all.contains(uid))
    })
}

/// A server that neither follows the primary nor is named as one that needs a person.
fn astray(world: &World, open: usize) -> Option<String> {
    world.brain.as_ref()?;
    let others = world.servers.iter().enumerate().filter(|(number, _)| *number != open);
    let mut astray = others.filter(|(number, server)| {
        let follows = server.source == Some(open) && server.fetching == Fetching::Yes;
        let told = world.shown(*number);
        // Where numbers were given twice, as a primary had lost its last transactions, only its source's refusal shows that it has others.
        let is_refused = server.fetch_error.starts_with("1236")
            && told.reason.contains(&server.fetch_error)
            && has_more(server, &world.servers[open]);
        !(follows || is_refused || told.problem.is_some_and(|problem| FOR_A_PERSON.contains(&problem)))
    });
    astray.next().map(|(number, _)| format!("{}: {}", world.names[number], world.shown(number).reason))
}

/// A primary that has refused to run the events is told again after ten seconds, which is more than the time that has passed. Until then its
/// status says so.
fn await_events(world: &mut World) {
    let Some(open) = world.open().filter(|_| !world.has_forgotten) else { return };
    if world.runs_wrongly(open) != Some(&world.names[open]) {
        return;
    }
    let is_said = world.shown(open).advice.iter().any(|text| text.contains("again every 10 s"));
    assert!(is_said, "no event runs, and nobody is told\n{}", world.tail());
    world.run(Duration::from_secs(11));
}

pub fn check(world: &mut World, orders: &[(u64, u64)], faults: Faults) {
    // Without a memory, and after a primary that restarted without what it had, an operator's word is needed; all servers answer by now, so it
    // costs nothing.
    if world.open().is_none() && world.has_forgotten {
        world.note("-- a switchover is ordered");
        world.operator(Order::Switchover { to: None, budget: Duration::from_secs(2), force: false });
        world.run(Duration::from_secs(4));
    }
    // What was committed on the primary, and is on no server any more, may have been acknowledged: an operator has to say that it is gone, or
    // whose data is right where each has what another has not. The order that is asked for then leads back.
    if let Some(named) = asked_for_by_force(world) {
        assert!(!has_any_all(world), "a server has everything, and nobody writes\n{}", world.tail());
        world.note("-- the order with force is given");
        (world.semi_sync, world.has_forgotten) = (false, true);
        let budget = Duration::from_secs(2);
        world.operator(Order::Switchover { to: Some(named), budget, force: true });
        world.run(Duration::from_secs(6));
    }
    // A primary that is late with one answer makes its replicas test their connections to it, one after the other; and one that its source
    // refuses is told its source again each second. One that is late with two is being confirmed.
    for _ in 0..30 {
        if world.open().is_some_and(|open| astray(world, open).is_none()) {
            break;
        }
        world.run(Duration::from_millis(50));
    }
    await_events(world);
    let view = world.brain.as_ref().expect("a brain").view(world.now);
    let tail = world.tail();
    match world.open() {
        None => {
            // What only a server has that may not be promoted needs a person: one kept behind on purpose, or one that restarted before it
            // applied what it had received.
            let because = view.hold_because.unwrap_or_default();
            let needs_a_person = world.servers.iter().any(|server| !server.received.is_empty());
            let is_said = because.contains("take over");
            // Without a memory, two servers of which each has what the other has not wait for one of them to be drained.
            let reasons = ["drain the one", "cannot be the primary"];
            if world.has_forgotten && reasons.iter().any(|reason| because.contains(reason)) {
                return;
            }
            assert!(needs_a_person && is_said, "nobody writes: {because}\n{tail}");
        }
        Some(open) => {
            assert!(!world.servers[open].read_only, "the primary is read only\n{tail}");
            assert!(view.order.is_none(), "{:?} goes on and on\n{tail}", view.order);
            if world.semi_sync {
                assert_eq!(world.lacks(open), Vec::<u64>::new(), "what was acknowledged is lost\n{tail}");
            }
            let writable =
                (0..world.servers.len()).find(|node| *node != open && !world.servers[*node].read_only);
            assert_eq!(writable, None, "another is writable, too\n{tail}");
            assert_eq!(astray(world, open), None, "it does not follow the primary\n{tail}");
            // Without a memory it is not known which events ran.
            if !world.has_forgotten {
                assert_eq!(world.runs_wrongly(open), None, "an event runs elsewhere, or nowhere\n{tail}");
            }
        }
    }
    for (order, process) in orders {
        let is_answered = world.answer_to(*order).is_some() || *process != world.process;
        assert!(is_answered, "order {order} has no answer\n{tail}");
    }
    if faults == Faults::OfReplicas {
        assert_eq!(view.term.0, 1, "the primary was given up\n{tail}");
        assert_eq!(world.open(), Some(0), "the primary does not write\n{tail}");
    }
}

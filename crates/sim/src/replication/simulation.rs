//! A simulation in which everything can go wrong at random: servers are killed, frozen and cut off from the manager and from each other,
//! they lag, refuse orders and each other's new connections; the manager's process is killed at any step and starts again with what is on
//! disk, is stalled, and its clock jumps; its configuration is reloaded with the servers in another order; operators give orders.
//!
//! Checked all the time (by the world): at most one open lane; never two servers made writable in one term; no other server writable that
//! could have been reached; with semi-synchronous replication an opened server has all that was acknowledged; an order has one answer.
//!
//! And in the end, when everything has worked for a while: one server writes, nothing that was begun is unfinished, what was acknowledged
//! (semi-synchronously) is there, each other server follows or is named as one that needs a person, an event of the event scheduler (in each
//! fifth run) is enabled on the writer and on none that follows it, and each order has its answer; a
//! switchover that was abandoned has left the old primary writable.
//!
//! `UNDERSTUDY_SEEDS=FROM..TO` runs other seeds than the usual ones; a failure names its seed and shows what was decided.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::gtid::Family;
use topology::NodeId;
use topology::brain::Restored;
use topology::health::Problem;
use topology::order::Order;

use super::copies;
use super::ending::check;
use super::world::World;
use crate::Dice;

/// The kinds of failures in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    All,
    /// Nothing happens to the primary. The links to it end now and then, and the manager is started anew.
    OfReplicas,
    /// Switchovers are ordered, and servers refuse orders, or are behind; nothing else.
    OfSwitchovers,
    /// RESET MASTER on the primary, and then anything to the replicas, switchovers, and the end of the primary and of the manager's process.
    OfResets,
    /// The primary is lost with transactions that no replica has, and returns with them at any moment; the manager's process may be killed
    /// in between.
    OfReturns,
    /// Servers become the primary in turn, by orders and by losses, and in between replicas are made anew from copies of the primary, whose binlogs
    /// begin with the copy.
    OfCopies,
    /// Everything ends within a second, the manager's process as well, and the primary returns alone, perhaps without its last transactions; the
    /// replicas follow later, or one of them does not.
    OfEnds,
}

const FAULTS_TIME: Duration = Duration::from_secs(5);
pub const MENDING_TIME: Duration = Duration::from_secs(7);
const THREADS: u64 = 2;

pub fn run_all(seeds: Range<u64>, faults: Faults) {
    run_all_of(Family::MariaDb, seeds, faults);
}

pub fn run_all_of(family: Family, seeds: Range<u64>, faults: Faults) {
    let (first, faults_made) = (seeds.start, AtomicU64::new(0));
    let reloads = [AtomicU64::new(0), AtomicU64::new(0)];
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let world = live_through(family, seed, faults);
                    faults_made.fetch_add(world.faults, Ordering::Relaxed);
                    for (sum, reloads) in reloads.iter().zip(world.reloads) {
                        sum.fetch_add(reloads, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let [refused, taken] = reloads.map(AtomicU64::into_inner);
    println!(
        "{family}, seeds {first}..{}, {faults:?}: {} faults; {taken} reloads with another order, {refused} refused",
        seeds.end,
        faults_made.into_inner()
    );
}

/// One case; all that was decided.
pub fn run(seed: u64, faults: Faults) -> String {
    live_through(Family::MariaDb, seed, faults).out
}

fn live_through(family: Family, seed: u64, faults: Faults) -> World {
    let dice = Rc::new(Dice::new(seed));
    let mut world = begin(&dice, faults);
    world.are_of(family);
    // Drawn from no dice, so that the other seeds give the runs that they gave before there were events.
    if seed % 5 == 3 {
        world.have_events(0);
    }
    let end = catch_unwind(AssertUnwindSafe(|| live(&mut world, &dice, faults)));
    if let Err(panic) = end {
        println!("{family}, seed {seed}, {faults:?}: UNDERSTUDY_SEEDS={seed}..{}", seed + 1);
        resume_unwind(panic);
    }
    world
}

pub fn begin(dice: &Rc<Dice>, faults: Faults) -> World {
    // Mostly two replicas; one, or up to four.
    let count = if dice.percent(60) { 3 } else { 2 + dice.below(4) };
    let names: Vec<String> = (1..=count).map(|number| format!("db{number}")).collect();
    let restored = Restored::default();
    let mut world = World::new(names, 0, restored, Some(dice.clone()));
    world.semi_sync = dice.percent(60) && faults != Faults::OfResets;
    world.servers[0].waits = world.semi_sync;
    // Where nobody loses a connection in the middle of it.
    world.accounts_first = match faults {
        Faults::OfSwitchovers => dice.percent(50),
        // One besides the primary that is lost.
        Faults::OfReturns => count > 2,
        _ => false,
    };
    world.settings.replication.failover_gap = Duration::from_secs(2);
    let is_durable = dice.percent(30);
    for server in &mut world.servers {
        server.is_durable = is_durable;
    }
    // A replica that has not reached where a copy's binlog begins cannot follow that one.
    if dice.percent(10) && !matches!(faults, Faults::OfResets | Faults::OfCopies) {
        let last = world.servers.len() - 1;
        world.servers[last].delay_s = 3600;
    }
    world
}

fn live(world: &mut World, dice: &Rc<Dice>, faults: Faults) {
    world.start_process();
    write_on(world);
    world.run(Duration::from_secs(1));
    // Answers and the disk may be slow one after the other.
    for _ in 0..20 {
        if world.open().is_none() {
            world.run(Duration::from_millis(50));
        }
    }
    match faults {
        Faults::OfSwitchovers => return switch_over(world, dice),
        Faults::OfReturns => return come_back(world, dice),
        Faults::OfEnds => return all_end(world, dice),
        Faults::OfResets => return number_anew(world, dice),
        Faults::OfCopies => return copies::live(world, dice),
        Faults::All | Faults::OfReplicas => {}
    }
    let until = world.now + FAULTS_TIME;
    let mut orders = vec![];
    while world.now < until {
        if dice.percent(30) {
            reload(world, dice);
        }
        match faults {
            Faults::All => anything(world, dice, &mut orders),
            _ => of_a_replica(world, dice),
        }
        let pause = dice.between_ms(10, 1200);
        world.run(pause);
    }
    mend(world);
    world.run(MENDING_TIME);
    check(world, &orders, faults);
}

/// Clients write where the routes send them.
fn write_on(world: &mut World) {
    if let Some(open) = world.open() {
        world.commit(open, true);
    }
    let delay = world.delay(10, 60);
    world.later(delay, write_on);
}

pub fn anything(world: &mut World, dice: &Rc<Dice>, orders: &mut Vec<(u64, u64)>) {
    world.faults += 1;
    let count = world.servers.len() as u64;
    let node = dice.below(count) as usize;
    let other = (node + 1 + dice.below(count - 1) as usize) % count as usize;
    // The primary is the one that matters.
    let node = if dice.percent(40) { world.open().unwrap_or(node) } else { node };
    let back = dice.between_ms(50, 3000);
    match dice.below(21) {
        20 => end_all(world, dice, back),
        0..=3 => {
            world.note(&format!("-- {} is killed", world.names[node]));
            world.kill(node);
            let without = dice.percent(50).then(|| dice.between_ms(0, 1000));
            world.later(back, move |world| start(world, node, without));
        }
        4 | 5 => {
            world.note(&format!("-- {} is frozen", world.names[node]));
            world.servers[node].frozen = true;
            world.later(back, move |world| {
                world.note(&format!("-- {} goes on", world.names[node]));
                world.servers[node].frozen = false;
                world.reachable_since[node] = world.now;
            });
        }
        6 | 7 => {
            world.note(&format!("-- {} vanishes", world.names[node]));
            let others = (0..count as usize).filter(|other| *other != node);
            let cuts: Vec<_> = others.map(|other| (Some(other), node)).chain([(None, node)]).collect();
            world.cut_off.extend(cuts.clone());
            world.later(back, move |world| connect(world, &cuts));
        }
        8 => {
            world.note(&format!("-- we do not reach {}", world.names[node]));
            world.cut_off.push((None, node));
            world.later(back, move |world| connect(world, &[(None, node)]));
        }
        9 => {
            world.note(&format!("-- {} does not reach {}", world.names[node], world.names[other]));
            world.cut_off.push((Some(node), other));
            world.later(back, move |world| connect(world, &[(Some(node), other)]));
        }
        10 => {
            world.servers[node].lags = true;
            world.later(back, move |world| world.servers[node].lags = false);
        }
        11 if dice.percent(50) => world.servers[node].refuses = true,
        11 => {
            world.note(&format!("-- {} shuts {} out", world.names[node], world.names[other]));
            world.servers[node].shuts_out.push(other);
            world.later(back, move |world| world.servers[node].shuts_out.clear());
        }
        12 | 13 => restart_process(world, back / 2),
        14 => {
            world.note("-- our process does not run");
            world.stalled_until = world.stalled_until.max(world.now + back);
        }
        16..=18 => world.kill_after = Some(1 + dice.below(12)),
        15 => {
            world.note("-- our clock jumps");
            world.skew += back;
        }
        _ => {
            let to = dice.percent(70).then_some(NodeId(node as u8));
            let budget = dice.between_ms(100, 1500);
            let force = false;
            if world.brain.is_some() {
                world.note("-- a switchover is ordered");
                let process = world.process;
                orders.push((world.operator(Order::Switchover { to, budget, force }), process));
            }
        }
    }
}

/// All servers end within a second, mostly the manager's process as well; the primary returns first.
fn end_all(world: &mut World, dice: &Rc<Dice>, back: Duration) {
    let count = world.servers.len();
    let primary = world.open().unwrap_or(dice.below(count as u64) as usize);
    world.note("-- all end");
    for node in 0..count {
        let end = dice.between_ms(0, 900);
        world.later(end, move |world| {
            world.note(&format!("-- {} is killed", world.names[node]));
            world.kill(node);
        });
        let without = dice.percent(50).then(|| dice.between_ms(0, 1000));
        let later = if node == primary { Duration::ZERO } else { dice.between_ms(300, 2500) };
        world.later(Duration::from_secs(1) + back / 3 + later, move |world| start(world, node, without));
    }
    if dice.percent(60) {
        let end = dice.between_ms(0, 1000);
        let is_forgetful = dice.percent(15);
        let begin = end + dice.between_ms(10, 1500);
        world.later(end, move |world| {
            world.note("-- our process is killed");
            world.end_process();
            if is_forgetful {
                world.note("-- and what it had on disk is lost");
                world.forget();
            }
        });
        begin_process(world, begin);
    }
}

/// Everything ends within a second, several times. What was acknowledged is never missing where a lane is open.
fn all_end(world: &mut World, dice: &Rc<Dice>) {
    for _ in 0..2 {
        world.faults += 1;
        if dice.percent(40) {
            of_a_replica(world, dice);
            world.faults += 1;
        }
        let back = dice.between_ms(50, 1000);
        end_all(world, dice, back);
        world.run(dice.between_ms(1500, 5000));
    }
    world.run(Duration::from_secs(3));
    mend(world);
    world.run(MENDING_TIME);
    check(world, &[], Faults::OfEnds);
}

/// After each switchover the one that its answer names is writable and open: the new primary, or the old one.
fn switch_over(world: &mut World, dice: &Rc<Dice>) {
    let mut primary = world.open().unwrap_or_else(|| panic!("nobody writes\n{}", world.tail()));
    world.is_gentle = true;
    for _ in 0..4 {
        let count = world.servers.len();
        let to = (primary + 1 + dice.below(count as u64 - 1) as usize) % count;
        let is_shut_out = dice.percent(20);
        if is_shut_out {
            world.servers[to].shuts_out.push(primary);
        }
        let budget = dice.between_ms(20, 1500);
        let mut is_unseen = false;
        match dice.below(6) {
            0 => world.servers[to].refuses = true,
            1 => world.servers[primary].refuses = true,
            2 => world.servers[to].lags = true,
            3 => world.busy = true,
            // Our connection to the old primary ends in the middle of it, or is away for a moment.
            4 => {
                is_unseen = true;
                let (end, back) = (dice.between_ms(0, 100), dice.between_ms(0, 500));
                world.servers[to].lags = dice.percent(50);
                world.later(end, move |world| {
                    world.end_link(primary);
                    world.cut_off.push((None, primary));
                });
                world.later(end + back, move |world| connect(world, &[(None, primary)]));
            }
            _ => {}
        }
        // A statement about accounts would let nobody in for good where the old primary cannot follow.
        let force = !world.accounts_first && dice.percent(40);
        let old = primary;
        primary = order_and_see(world, (primary, to), budget, force, is_unseen);
        let is_moved_in_vain = is_shut_out && primary == to;
        assert!(force || !is_moved_in_vain, "the old primary cannot follow\n{}", world.tail());
        if is_moved_in_vain && dice.percent(70) {
            // It does not receive from the new one: it is taken if nothing is lost by that, which is checked all the time.
            world.run(dice.between_ms(0, 1500));
            primary = order_and_see(world, (primary, old), budget, true, false);
        }
        world.busy = false;
        for server in &mut world.servers {
            (server.refuses, server.lags) = (false, false);
            server.shuts_out.clear();
        }
        world.run(Duration::from_secs(2));
    }
    check(world, &[], Faults::OfSwitchovers);
}

/// A switchover is ordered, and has an answer; returns who writes by that. `is_unseen`: the old primary may have to be replaced, as it is not
/// reached when the switchover is undone.
fn order_and_see(
    world: &mut World,
    (primary, to): (usize, usize),
    budget: Duration,
    force: bool,
    is_unseen: bool,
) -> usize {
    let target = Some(NodeId(to as u8));
    let order = world.operator(Order::Switchover { to: target, budget, force });
    world.run(budget + Duration::from_secs(4));
    let came = world.answer_to(order);
    assert!(came.is_some(), "a switchover has no answer\n{}", world.tail());
    let primary = match came {
        Some(true) => to,
        _ if is_unseen => world.open().unwrap_or(primary),
        _ => primary,
    };
    assert_eq!(world.open(), Some(primary), "another writes than was answered\n{}", world.tail());
    assert!(!world.servers[primary].read_only, "the primary is read only\n{}", world.tail());
    // Whether commits wait for a replica or not: the old primary hands over what it has.
    assert_eq!(world.lacks(primary), Vec::<u64>::new(), "what was acknowledged is lost\n{}", world.tail());
    primary
}

/// No replica ever has a transaction that neither the primary has, nor an old one is known to have alone.
fn come_back(world: &mut World, dice: &Rc<Dice>) {
    let primary = world.open().expect("a primary");
    let replicas: Vec<usize> = (0..world.servers.len()).filter(|node| *node != primary).collect();
    let cuts: Vec<_> = replicas.iter().map(|node| (Some(*node), primary)).collect();
    world.cut_off.extend(cuts.clone());
    for _ in 0..=dice.below(3) {
        world.commit(primary, false);
    }
    let (kind, back) = (dice.below(3), dice.between_ms(1, 3000));
    let is_resumed = dice.percent(40);
    let back = if is_resumed { dice.between_ms(0, 60) } else { back };
    let name = world.names[primary].clone();
    match kind {
        0 => {
            world.note(&format!("-- {name} is killed"));
            world.kill(primary);
        }
        1 => {
            world.note(&format!("-- {name} is frozen"));
            world.servers[primary].frozen = true;
        }
        _ => {
            world.note(&format!("-- {name} vanishes"));
            world.cut_off.push((None, primary));
        }
    }
    if kind < 2 {
        connect(world, &cuts);
    }
    let all: Vec<_> = cuts.iter().copied().chain([(None, primary)]).collect();
    let returns = move |world: &mut World| match kind {
        0 => start(world, primary, None),
        1 => {
            world.note("-- it goes on");
            world.servers[primary].frozen = false;
        }
        _ => connect(world, &all),
    };
    if is_resumed {
        let since = world.now;
        end_when_decided(world, primary, since, move |world| world.later(back, returns));
    } else {
        world.later(back, returns);
    }
    world.run(MENDING_TIME);
    check(world, &[], Faults::OfReturns);
    let open = world.open().expect("a primary");
    let has: BTreeSet<u64> = world.servers[open].applied.iter().map(|it| it.uid).collect();
    for node in replicas.into_iter().filter(|node| world.servers[*node].delay_s == 0) {
        let server = &world.servers[node];
        let fed = server.applied.iter().chain(&server.received).find(|it| !has.contains(&it.uid));
        assert!(
            fed.is_none(),
            "{} was given {fed:?}, which {} has not\n{}",
            world.names[node],
            world.names[open],
            world.tail()
        );
    }
}

/// The manager's process is killed when its decision on another writer than `primary` is on disk; when it continues with that after a
/// restart, `then` happens. Without it, `then` happens after three seconds.
fn end_when_decided(
    world: &mut World,
    primary: usize,
    since: Duration,
    then: impl FnOnce(&mut World) + 'static,
) {
    if world.now.saturating_sub(since) > Duration::from_secs(3) {
        then(world);
        return;
    }
    if world.disk.writer.is_none_or(|writer| usize::from(writer.0) == primary) {
        world.later(Duration::from_millis(1), move |world| end_when_decided(world, primary, since, then));
        return;
    }
    world.note("-- our process is killed");
    world.end_process();
    let pause = world.delay(10, 300);
    world.later(pause, move |world| {
        world.note("-- our process begins");
        world.start_process();
        gone_on(world, since, then);
    });
}

/// `then` happens when an order of the newest decision was given.
fn gone_on(world: &mut World, since: Duration, then: impl FnOnce(&mut World) + 'static) {
    if world.newest >= world.disk.term || world.now.saturating_sub(since) > Duration::from_secs(3) {
        then(world);
    } else {
        world.later(Duration::from_millis(1), move |world| gone_on(world, since, then));
    }
}

/// After RESET MASTER on the primary no replica ever takes over: each lacks what the primary has written since.
fn number_anew(world: &mut World, dice: &Rc<Dice>) {
    let primary = world.open().expect("a primary");
    if dice.percent(30) {
        of_a_replica(world, dice);
        world.run(dice.between_ms(0, 300));
    }
    world.note("-- RESET MASTER");
    world.servers[primary].number_anew();
    // Nothing shows it any more if the primary has written as many as before until it is asked.
    for _ in 0..30 {
        world.run(Duration::from_millis(50));
        if !world.disk.renumbered.is_empty() {
            break;
        }
    }
    if world.disk.renumbered.is_empty() {
        return;
    }
    for _ in 0..6 {
        let back = dice.between_ms(50, 1500);
        match dice.below(5) {
            0 => {
                world.note("-- the primary is killed");
                world.kill(primary);
                world.later(back, move |world| start(world, primary, None));
            }
            1 => {
                world.note("-- our process is killed");
                world.end_process();
                world.later(back, |world| {
                    if world.brain.is_none() {
                        world.start_process();
                    }
                });
            }
            2 if world.brain.is_some() => {
                world.operator(Order::Switchover { to: None, budget: back, force: false });
            }
            _ => of_a_replica(world, dice),
        }
        for _ in 0..20 {
            world.run(dice.between_ms(5, 60));
            let open = world.open().filter(|open| *open != primary);
            assert_eq!(open, None, "a replica that lacks rows has taken over\n{}", world.tail());
        }
    }
    mend(world);
    world.run(MENDING_TIME);
    assert_eq!(world.open(), Some(primary), "the primary does not write\n{}", world.tail());
    check(world, &[], Faults::OfResets);
    for node in (0..world.servers.len()).filter(|node| *node != primary) {
        let problem = world.shown(node).problem;
        assert_eq!(problem, Some(Problem::Renumbered), "{}\n{}", world.names[node], world.tail());
    }
}

fn of_a_replica(world: &mut World, dice: &Rc<Dice>) {
    let node = 1 + dice.below(world.servers.len() as u64 - 1) as usize;
    let back = dice.between_ms(50, 2000);
    match dice.below(7) {
        0 => {
            world.kill(node);
            world.later(back, move |world| start(world, node, None));
        }
        1 => {
            world.servers[node].frozen = true;
            world.later(back, move |world| world.servers[node].frozen = false);
        }
        2 => {
            world.cut_off.push((None, node));
            world.later(back, move |world| connect(world, &[(None, node)]));
        }
        3 => {
            world.servers[node].lags = true;
            world.later(back, move |world| world.servers[node].lags = false);
        }
        4 => world.servers[node].refuses = true,
        5 => {
            world.note(&format!("-- the link to {} ends", world.names[0]));
            world.end_link(0);
        }
        _ => restart_process(world, back / 2),
    }
}

/// Our process is killed, and begins anew after so long.
fn restart_process(world: &mut World, after: Duration) {
    world.note("-- our process is killed");
    world.end_process();
    begin_process(world, after);
}

/// Our process begins after so long, unless it runs then.
fn begin_process(world: &mut World, after: Duration) {
    world.later(after, |world| {
        if world.brain.is_none() {
            world.note("-- our process begins");
            world.start_process();
        }
    });
}

/// The servers get other places in the configuration.
pub fn reload(world: &mut World, dice: &Rc<Dice>) {
    let mut order: Vec<NodeId> = (0..world.servers.len()).map(|node| NodeId(node as u8)).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, dice.below(last as u64 + 1) as usize);
    }
    if world.brain.is_some() {
        let shown: Vec<&str> = order.iter().map(|node| world.names[usize::from(node.0)].as_str()).collect();
        let shown = shown.join(", ");
        let is_taken = world.reload(order);
        world.reloads[usize::from(is_taken)] += 1;
        world.note(&format!(
            "-- a reload with the order {shown} is {}",
            if is_taken { "taken" } else { "refused" }
        ));
    }
}

pub fn start(world: &mut World, node: usize, without: Option<Duration>) {
    if !world.servers[node].up {
        world.note(&format!("-- {} starts", world.names[node]));
        let without = without.filter(|_| !world.servers[node].is_durable);
        let last = world.servers[node].applied.last().map(|last| last.at).unwrap_or_default();
        world.start_server(node, without.map(|time| last.saturating_sub(time)));
    }
}

fn connect(world: &mut World, cuts: &[(Option<usize>, usize)]) {
    world.cut_off.retain(|cut| !cuts.contains(cut));
    for (_, node) in cuts {
        world.reachable_since[*node] = world.now;
    }
}

pub fn mend(world: &mut World) {
    world.note("-- all is mended");
    world.kill_after = None;
    world.cut_off.clear();
    for node in 0..world.servers.len() {
        world.reachable_since[node] = world.now;
        start(world, node, None);
        let server = &mut world.servers[node];
        server.frozen = false;
        server.lags = false;
        server.refuses = false;
        server.shuts_out.clear();
    }
    if world.brain.is_none() {
        world.start_process();
    }
}

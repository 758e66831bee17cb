//! Figures published by others, a run on a simulated node, and runs that fail at every step that can fail.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

use std::time::Duration;

use super::precheck::{Condition, Facts, refusals};
use super::procedure::{Event, Failure, HoldEnd, Order, Phase, Plan, Procedure};
use super::reading::{Node, Other, Reading};
use super::result::{Counted, Marks, Record};
use topology::kind::Kind;

const TICK: Duration = Duration::from_millis(100);

fn plan(kind: Kind) -> Plan {
    Plan {
        kind,
        baseline: Duration::from_secs(10),
        hold: Duration::from_secs(60),
        catch_up_max: Duration::from_secs(600),
        queue_short: 8,
        change_max: Duration::from_secs(10),
        backlog_bytes_max: 1 << 30,
        backlog_max: 1_000_000,
    }
}

/// A simulated node that receives 5,100 transactions a second and can apply 13,300, and the other nodes of its cluster.
struct Model {
    now: Duration,
    arrived: f64,
    applied: f64,
    is_stopped: bool,
    is_desynced: bool,
    is_out: bool,
    paused: Duration,
    sent: u64,
    sent_elsewhere: u64,
    written: u64,
    writers_waiting: u64,
    is_recovering: bool,
    arrive_per_s: f64,
    apply_per_s: f64,
}

impl Model {
    fn new() -> Self {
        Self {
            now: Duration::ZERO,
            arrived: 1000.0,
            applied: 1000.0,
            is_stopped: false,
            is_desynced: false,
            is_out: false,
            paused: Duration::ZERO,
            sent: 0,
            sent_elsewhere: 0,
            written: 0,
            writers_waiting: 0,
            is_recovering: false,
            arrive_per_s: 5_100.0,
            apply_per_s: 13_300.0,
        }
    }

    fn tick(&mut self) -> Reading {
        self.now += TICK;
        self.arrived += self.arrive_per_s * TICK.as_secs_f64();
        if !self.is_stopped {
            self.applied = self.arrived.min(self.applied + self.apply_per_s * TICK.as_secs_f64());
        }
        let other = Other {
            committed: self.arrived as u64,
            flow_control_paused: self.paused,
            flow_control_sent: self.sent_elsewhere,
        };
        Reading {
            at: self.now,
            node: Node {
                applied: self.applied as u64,
                queue: self.arrived as u64 - self.applied as u64,
                is_in_step: !self.is_desynced,
                is_desynced: self.is_desynced,
                flow_control_sent: self.sent,
                written: self.written,
                writers_waiting: self.writers_waiting,
            },
            others: vec![Some(other), None],
            arrived_bytes: self.arrived as u64 * 500,
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::TakeOut => self.is_out = true,
            Order::PutBack => self.is_out = false,
            Order::Desync => self.is_desynced = true,
            Order::Resync => self.is_desynced = false,
            Order::Stop => self.is_stopped = true,
            Order::Resume => self.is_stopped = false,
        }
    }
}

/// Runs the procedure until it ends and returns the orders. `disturb` may replace an order's success with another event, or insert an event
/// before a reading.
fn run(
    plan: Plan,
    model: &mut Model,
    mut disturb: impl FnMut(&Procedure, Option<Order>, &mut Model) -> Option<Event>,
) -> (Procedure, Vec<Order>) {
    let (mut procedure, first) = Procedure::begin(plan);
    let mut next = Some(first);
    let mut orders = Vec::new();
    for _ in 0..100_000 {
        if procedure.phase() == Phase::Ended {
            return (procedure, orders);
        }
        let disturbance = disturb(&procedure, next, model);
        next = match (next, disturbance) {
            (Some(order), disturbance) => {
                orders.push(order);
                model.obey(order);
                procedure.on(model.now, disturbance.unwrap_or(Event::Done))
            }
            (None, Some(event)) => procedure.on(model.now, event),
            (None, None) => {
                let reading = model.tick();
                procedure.on(reading.at, Event::Read(reading))
            }
        };
    }
    panic!("it never ends: {:?}", procedure.phase());
}

#[test]
fn the_seeds_numbers_give_the_seeds_result() {
    let seconds = Duration::from_secs;
    let counted = Counted {
        baseline_applied: 5_100 * 60,
        baseline: seconds(60),
        held: seconds(60),
        applied: 667_183,
        catch_up: seconds(50),
        behind: None,
    };
    let capacity = counted.capacity().unwrap();
    assert_eq!(format!("{:.1}k", capacity.apply_per_s / 1000.0), "13.3k");
    assert_eq!(format!("{:.0} %", capacity.baseline_share * 100.0), "38 %");
    assert_eq!(format!("{:.1}k", capacity.arrival_per_s / 1000.0), "6.1k");
    assert_eq!(format!("{:.0} %", capacity.arrival_share * 100.0), "45 %");
    assert_eq!(Counted { catch_up: Duration::ZERO, ..counted }.capacity(), None);
    assert_eq!(Counted { applied: 0, ..counted }.capacity(), None);
}

#[test]
fn a_run_finds_what_the_node_can_do_and_leaves_nothing() {
    use Order::{Desync, PutBack, Resume, Resync, Stop, TakeOut};
    for (kind, expected) in [
        (Kind::Galera, vec![TakeOut, Desync, Stop, Resume, Resync, PutBack]),
        (Kind::Replication, vec![TakeOut, Stop, Resume, PutBack]),
    ] {
        let mut model = Model::new();
        let (procedure, orders) = run(plan(kind), &mut model, |_, _, _| None);
        assert_eq!(orders, expected);
        assert_eq!((procedure.failure(), procedure.hold_end()), (None, Some(HoldEnd::Time)));
        assert!(procedure.left().is_empty() && !model.is_out && !model.is_desynced && !model.is_stopped);
        let record = procedure.record();
        let capacity = record.counted().unwrap().capacity().unwrap();
        assert!((capacity.apply_per_s / 13_300.0 - 1.0).abs() < 0.01, "{capacity:?}");
        assert!((capacity.baseline_share - 5_100.0 / 13_300.0).abs() < 0.005, "{capacity:?}");
        assert!((capacity.arrival_per_s / 5_100.0 - 1.0).abs() < 0.01, "{capacity:?}");
        assert!((record.peak_per_s().unwrap() / 13_300.0 - 1.0).abs() < 0.01);
        assert!(record.queue_max().abs_diff(5_100 * 60) < 2_000, "{}", record.queue_max());
        let elsewhere = record.elsewhere().unwrap();
        assert!((elsewhere.before_per_s / elsewhere.during_per_s - 1.0).abs() < 0.01, "{elsewhere:?}");
        assert!(elsewhere.paused.is_zero() && record.resolution().unwrap() < 0.01);
    }
}

/// On a busy machine the answer to an order, and each look, may be late by more than a tenth of the catch-up.
#[test]
fn looks_that_are_late_do_not_change_the_figure() {
    for (answer_ticks, look_ticks) in [(0, 0), (5, 0), (0, 5), (5, 5)] {
        let mut model = Model::new();
        let plan = Plan { hold: Duration::from_secs(4), ..plan(Kind::Galera) };
        let (procedure, _) = run(plan, &mut model, |procedure, order, model| {
            let late = match (order, procedure.phase()) {
                (Some(Order::Resume), _) => answer_ticks,
                (None, Phase::CatchingUp) => look_ticks,
                _ => 0,
            };
            if late > 0 && order.is_some() {
                model.obey(Order::Resume);
            }
            for _ in 0..late {
                model.tick();
            }
            None
        });
        let capacity = procedure.record().counted().unwrap().capacity().unwrap();
        assert!(
            (capacity.apply_per_s / 13_300.0 - 1.0).abs() < 0.02,
            "{answer_ticks}, {look_ticks}: {capacity:?}"
        );
    }
}

/// A short queue is applied all at once, between the last look that saw it and the next.
#[test]
fn a_node_that_begins_late_is_not_judged_by_its_beginning() {
    let reading = |at_ms: u64, applied: u64, queue: u64| Reading {
        at: Duration::from_millis(at_ms),
        node: Node { applied, queue, ..Node::default() },
        others: Vec::new(),
        arrived_bytes: 0,
    };
    let readings = vec![
        reading(0, 0, 0),
        reading(1_100, 130, 0),
        reading(1_200, 130, 0),
        reading(3_400, 130, 170),
        reading(3_520, 144, 166),
        reading(3_570, 342, 0),
    ];
    let marks = Marks {
        baseline: Some((0, 1)),
        held: Some((2, Duration::from_millis(1_200))),
        resumed: Some((3, Duration::from_millis(3_225))),
        empty: Some(5),
    };
    let counted = Record { readings, marks }.counted().unwrap();
    let rate = counted.capacity().unwrap().apply_per_s;
    assert!((rate - 212.0 / 0.17).abs() < 1.0, "{rate}: 14 in 120 ms are not what it can apply");
}

#[test]
fn whatever_goes_wrong_and_wherever_nothing_stays_undone() {
    let places = [
        Phase::TakingOut,
        Phase::Baseline,
        Phase::Desyncing,
        Phase::Stopping,
        Phase::Held,
        Phase::Resuming,
        Phase::CatchingUp,
        Phase::Resyncing,
        Phase::PuttingBack,
    ];
    for kind in [Kind::Galera, Kind::Replication] {
        for place in places {
            for (number, how_often) in [(0, 1), (1, 1), (1, 2), (2, 1), (2, 40)] {
                let mut count = 0;
                let mut model = Model::new();
                let (procedure, _) = run(plan(kind), &mut model, |procedure, order, _| {
                    if procedure.phase() != place || count == how_often {
                        return None;
                    }
                    // While an order is being carried out, only its completion may be reported.
                    let event = match (order, number) {
                        (Some(_), _) => Event::Failed("no answer".into()),
                        (None, 0) => return None,
                        (None, 1) => Event::Interrupted("SIGINT".into()),
                        (None, _) => Event::Lost("the link broke".into()),
                    };
                    count += 1;
                    Some(event)
                });
                let what = format!("{kind:?} {place:?} {number} {how_often}: {:?}", procedure.failure());
                assert!(!model.is_stopped && !model.is_out, "{what}");
                // A node that still has a queue is left to the guard on its own server, and the result says so.
                let is_left = procedure.left().iter().any(|(order, _)| *order == Order::Resync);
                assert!(!model.is_desynced || (is_left && place == Phase::CatchingUp), "{what}");
                // A failed undo is reported, even when the simulated node did carry it out.
                let is_undoing =
                    |order: &Order| matches!(order, Order::Resume | Order::Resync | Order::PutBack);
                assert!(procedure.left().iter().all(|(order, _)| is_undoing(order)), "{what}");
                if count > 0 && procedure.failure().is_none() {
                    assert!(matches!(place, Phase::Resyncing | Phase::PuttingBack), "{what}");
                }
            }
        }
    }
}

#[test]
fn who_asked_for_a_pause_is_known() {
    let elsewhere = |disturb: fn(&mut Model)| {
        let mut model = Model::new();
        let (procedure, _) = run(plan(Kind::Galera), &mut model, |procedure, _, model| {
            if procedure.phase() == Phase::Held && procedure.in_phase() > Duration::from_secs(5) {
                model.paused += Duration::from_millis(1);
                disturb(model);
            }
            None
        });
        assert_eq!(procedure.hold_end(), Some(HoldEnd::FlowControl));
        procedure.record().elsewhere().unwrap()
    };
    let other = elsewhere(|model| model.sent_elsewhere += 1);
    assert_eq!((other.askers, other.is_asker), (vec![0], false));
    let own = elsewhere(|model| model.sent += 1);
    assert_eq!((own.askers, own.is_asker), (vec![], true));
}

#[test]
fn the_hold_ends_early_at_each_limit() {
    let ended = |plan: Plan, disturb: fn(&mut Model)| {
        let mut model = Model::new();
        let (procedure, _) = run(plan, &mut model, |procedure, _, model| {
            if procedure.phase() == Phase::Held && procedure.in_phase() > Duration::from_secs(5) {
                disturb(model);
            }
            None
        });
        assert_eq!(procedure.failure(), None);
        let held = procedure.record().counted().unwrap().held;
        assert!(held < Duration::from_secs(40), "{held:?}");
        procedure.hold_end().unwrap()
    };
    let galera = plan(Kind::Galera);
    let pause = |model: &mut Model| model.paused += Duration::from_millis(1);
    assert_eq!(ended(galera, pause), HoldEnd::FlowControl);
    assert_eq!(ended(galera, |model| model.writers_waiting = 1), HoldEnd::WriterWaits);
    assert_eq!(ended(Plan { backlog_max: 100_000, ..galera }, |_| ()), HoldEnd::Backlog);
    let grows = |model: &mut Model| model.arrive_per_s = 9_000.0;
    let bytes = Plan { backlog_bytes_max: 5_200 * 60 * 500, ..galera };
    assert_eq!(ended(bytes, grows), HoldEnd::BacklogBytes);
}

#[test]
fn a_node_that_its_own_clients_write_to_is_not_held() {
    let mut model = Model::new();
    let (procedure, orders) = run(plan(Kind::Galera), &mut model, |procedure, _, model| {
        if procedure.phase() == Phase::Baseline && procedure.in_phase() > Duration::from_secs(2) {
            model.written += 3;
        }
        None
    });
    assert_eq!(procedure.failure(), Some(&Failure::Written { transactions: 3 }));
    assert_eq!(orders, [Order::TakeOut, Order::PutBack]);
}

#[test]
fn a_node_that_is_a_burden_while_it_catches_up_ends_the_measuring_and_is_resynchronised_when_its_queue_is_short()
 {
    let burden = |change: fn(&mut Model), plan: Plan| {
        let mut model = Model { apply_per_s: 6_000.0, ..Model::new() };
        let mut is_told = None;
        let (procedure, _) = run(plan, &mut model, |procedure, order, model| {
            if procedure.phase() == Phase::CatchingUp && procedure.in_phase() > Duration::from_secs(3) {
                change(model);
                is_told = is_told.or_else(|| procedure.failure().map(|_| procedure.in_phase()));
            }
            let queue = model.arrived as u64 - model.applied as u64;
            assert!(order != Some(Order::Resync) || queue <= 8, "{queue}");
            None
        });
        assert!(is_told.unwrap() < Duration::from_secs(60), "{is_told:?}");
        assert!(procedure.record().counted().is_none() && !model.is_desynced && !model.is_out);
        let Some(Failure::Burden(why)) = procedure.failure() else { panic!("{:?}", procedure.failure()) };
        why.clone()
    };
    let asks = |model: &mut Model| (model.sent, model.apply_per_s) = (2, 13_300.0);
    assert!(burden(asks, plan(Kind::Galera)).contains("asked its group 2 times to wait"));
    // More arrives than the node applies, until the measurement has to be abandoned.
    let falls_behind = |model: &mut Model| {
        let queue = model.arrived - model.applied;
        model.apply_per_s = if queue > 900_000.0 || model.is_recovering { 60_000.0 } else { 1_000.0 };
        model.arrive_per_s = if queue > 900_000.0 || model.is_recovering { 5_100.0 } else { 30_000.0 };
        model.is_recovering |= queue > 900_000.0;
    };
    let small = Plan { backlog_max: 310_000, ..plan(Kind::Galera) };
    assert!(burden(falls_behind, small).contains("what waits on it grew to"));
}

#[test]
fn what_cannot_be_measured_is_said() {
    let failure = |plan: Plan, change: fn(&mut Model)| {
        let mut model = Model::new();
        change(&mut model);
        let (procedure, orders) = run(plan, &mut model, |_, _, _| None);
        assert!(!model.is_stopped && !model.is_desynced && !model.is_out);
        (procedure.failure().cloned(), orders.len(), procedure.record().counted())
    };
    let galera = plan(Kind::Galera);
    assert_eq!(failure(galera, |model| model.arrive_per_s = 0.0), (Some(Failure::NoWrites), 2, None));
    let (no_room, orders, _) = failure(Plan { backlog_bytes_max: 1000, ..galera }, |_| ());
    assert!(matches!(no_room, Some(Failure::NoRoom { max_bytes: 1000, .. })) && orders == 2, "{no_room:?}");
}

#[test]
fn a_node_that_is_behind_is_not_resynchronised() {
    let slow = |apply_per_s: f64| {
        let mut model = Model { apply_per_s, ..Model::new() };
        let short = Plan { catch_up_max: Duration::from_secs(30), ..plan(Kind::Galera) };
        let (procedure, _) = run(short, &mut model, |procedure, order, model| {
            let queue = model.arrived as u64 - model.applied as u64;
            assert!(order != Some(Order::Resync) || queue <= 8, "{queue} {:?}", procedure.phase());
            None
        });
        let failure = procedure.failure();
        assert!(matches!(failure, Some(Failure::TooSlow { queue }) if *queue > 50_000), "{failure:?}");
        assert!(procedure.record().counted().is_none() && !model.is_out && !model.is_stopped);
        (model.is_desynced, procedure.left().to_vec())
    };
    // 306,000 transactions wait. They take 37 s: longer than planned, but the procedure still waits for them.
    assert_eq!(slow(13_300.0), (false, vec![]));
    // They would take 6 minutes: the procedure leaves that to the guard on the node's own server.
    let (is_desynced, left) = slow(6_000.0);
    assert!(is_desynced && left.len() == 1 && left[0].0 == Order::Resync, "{left:?}");
    assert!(left[0].1.contains("transactions are in its queue"), "{left:?}");
}

#[test]
fn a_second_signal_leaves_what_is_behind_to_its_server() {
    let mut count = 0;
    let mut model = Model::new();
    let (procedure, orders) = run(plan(Kind::Galera), &mut model, |procedure, order, _| {
        let is_due = order.is_none() && procedure.phase() == Phase::CatchingUp && count < 2;
        count += u32::from(is_due);
        is_due.then(|| Event::Interrupted("SIGINT".into()))
    });
    assert!(!orders.contains(&Order::Resync) && procedure.left().len() == 1, "{orders:?}");
    assert!(model.now < Duration::from_secs(80), "nobody waited: {:?}", model.now);
}

#[test]
fn figures_survive_a_last_step_that_fails() {
    for failing in [Order::Resync, Order::PutBack] {
        let mut model = Model::new();
        let (procedure, _) = run(plan(Kind::Galera), &mut model, |_, order, _| {
            (order == Some(failing)).then(|| Event::Failed("no answer".into()))
        });
        assert_eq!(procedure.left().len(), 1);
        let capacity = procedure.record().counted().unwrap().capacity().unwrap();
        assert!((capacity.apply_per_s / 13_300.0 - 1.0).abs() < 0.01, "{capacity:?}");
    }
}

#[test]
fn each_condition_is_named_with_what_overrides_it() {
    let good = Facts {
        node: "db3".into(),
        is_in_step: true,
        state: "Synced".into(),
        size: 3,
        others_in_step: vec!["db1".into(), "db2".into()],
        has_guard: true,
        ..Facts::default()
    };
    assert_eq!(refusals(&good, &[]), []);
    let refused = |change: fn(&mut Facts), allowed: &[Condition]| {
        let mut facts = good.clone();
        change(&mut facts);
        refusals(&facts, allowed).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let two = |facts: &mut Facts| facts.size = 2;
    assert_eq!(
        refused(two, &[]),
        "the cluster has 2 nodes: while db3 is measured, 1 would be left (--allow small-cluster overrides this)"
    );
    assert_eq!(refused(two, &[Condition::SmallCluster]), "");
    let writer = |facts: &mut Facts| facts.is_writer = true;
    let text = refused(writer, &[Condition::Writer]);
    assert!(text.contains("db3 takes the writes") && text.ends_with("(nothing overrides this)"), "{text}");
    let used = |facts: &mut Facts| facts.sessions = (1..=7).map(|n| format!("session {n}")).collect();
    assert!(refused(used, &[]).contains("session 5; 2 more (--allow in-use overrides this)"));
    for (change, name) in [
        ((|f| f.is_in_step = false) as fn(&mut Facts), "not in step"),
        (|f| (f.is_in_step, f.is_under_way) = (false, true), "already"),
        (|f| f.others_in_step.clear(), "nobody in step"),
        (|f| f.transferring.push("db1 is Donor".into()), "--allow donor"),
        (|f| f.backups.push("mariabackup".into()), "--allow backup"),
        (|f| f.has_guard = false, "--allow no-guard"),
        (|f| f.writing.push("session 5 of app".into()), "clients have open transactions on db3 that write"),
    ] {
        let text = refused(change, &[]);
        assert!(text.contains(name) && text.lines().count() == 1, "{text}");
    }
}

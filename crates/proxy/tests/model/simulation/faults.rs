//! What goes wrong, and when: mostly one node at a time, sometimes two, sometimes the network, the disk, or an operator.

use std::rc::Rc;
use std::time::Duration;

use topology::NodeId;
use topology::order::Order;

use super::galera::Galera;
use super::ground::Life;
use super::group::NODES;

/// Until the run's faults are over.
pub async fn faults(world: Rc<Galera>) {
    // The first decision comes first.
    world.clock.sleep(Duration::from_secs(1)).await;
    while world.has_faults.get() {
        world.clock.sleep(world.dice.between_ms(100, 3000)).await;
        if world.has_faults.get() {
            one(&world);
        }
    }
}

fn one(world: &Rc<Galera>) {
    let (group, dice) = (&world.group, &world.dice);
    let node = dice.below(NODES as u64) as usize;
    let is_whole = |node: usize| {
        let node = group.node(node);
        node.life == Life::Up && !node.apart_from_us && !node.apart_from_group && !node.cast_out
    };
    let impaired = (0..NODES).filter(|node| !is_whole(*node)).count();
    // Two at once lose the majority: rarely.
    let is_too_much = impaired >= 1 && !dice.percent(10);
    let kind = dice.below(16);
    world.manager.note(format!(
        "fault {kind} on db{}{}",
        node + 1,
        if is_too_much { ", not now" } else { "" }
    ));
    match kind {
        0..8 if is_too_much || !is_whole(node) => {}
        0 | 1 => {
            group.kill(node);
            later(world, (500, 8000), move |world| world.group.start(node));
        }
        2 => {
            group.stop(node);
            later(world, (3000, 8000), move |world| world.group.start(node));
        }
        3 | 4 => {
            group.freeze(node);
            // Woken once before it was missed, once long after.
            let time = dice.one_of(&[(20, 400), (400, 2000), (2000, 9000)]);
            later(world, time, move |world| world.group.thaw(node));
        }
        5 => {
            group.set_network(node, true, true);
            later(world, (200, 8000), move |world| world.group.set_network(node, false, false));
        }
        6 => {
            group.set_network(node, true, false);
            later(world, (200, 8000), move |world| world.group.set_network(node, false, false));
        }
        7 => {
            group.set_network(node, false, true);
            later(world, (100, 5000), move |world| world.group.set_network(node, false, false));
        }
        8 => {
            // Our own network: nobody can be reached.
            let apart: Vec<bool> = (0..NODES).map(|node| group.node(node).apart_from_group).collect();
            for (node, apart) in apart.iter().enumerate() {
                group.set_network(node, *apart, true);
            }
            later(world, world.outage_ms, |world| {
                for node in 0..NODES {
                    world.group.set_network(node, false, false);
                }
            });
        }
        9 => {
            group.set_read_only(node, true);
            later(world, (200, 3000), move |world| world.group.set_read_only(node, false));
        }
        10 => world.end_some_link(),
        11 => {
            world.manager.set_disk_fails(true);
            later(world, (100, 4000), |world| world.manager.set_disk_fails(false));
        }
        12 => {
            world.manager.set_stalled(true);
            later(world, (20, 1500), |world| world.manager.set_stalled(false));
        }
        _ => _ = world.manager.order(order(world, NodeId(node as u8))),
    }
    if group.node(node).cast_out {
        // Somebody restarts what the group has thrown out.
        later(world, (1000, 4000), move |world| {
            world.group.kill(node);
            world.group.start(node);
        });
    }
}

fn order(world: &Galera, node: NodeId) -> Order {
    let budget = world.dice.between_ms(50, 3000);
    let force = world.dice.percent(30);
    match world.dice.below(5) {
        0 => Order::Switchover { to: Some(node), budget, force },
        1 => Order::Switchover { to: None, budget, force },
        2 => Order::Drain { node, budget, force, temporary: false },
        3 => Order::SetSessionsMax { node, sessions_max: world.dice.one_of(&[None, Some(2), Some(0)]) },
        _ => Order::Undrain { node, temporary: false },
    }
}

fn later(world: &Rc<Galera>, (least, most): (u64, u64), act: impl FnOnce(&Rc<Galera>) + 'static) {
    let world = world.clone();
    let time = world.dice.between_ms(least, most);
    world.clock.clone().spawn(async move {
        world.clock.sleep(time).await;
        act(&world);
    });
}

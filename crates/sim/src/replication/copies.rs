//! A simulation of servers that are made anew from copies of the primary, in turn with switchovers, losses and the end of the manager's process.

use std::rc::Rc;
use std::time::Duration;

use topology::NodeId;
use topology::health::Problem;
use topology::order::Order;

use super::ending::{check, has_more};
use super::simulation::{Faults, MENDING_TIME, mend, start};
use super::world::World;
use crate::Dice;

/// A server that was copied counts as what it is: nobody has errant transactions beside it that it has, too.
pub fn live(world: &mut World, dice: &Rc<Dice>) {
    for _ in 0..8 {
        let Some(primary) = world.open() else { break };
        let count = world.servers.len();
        let other = (primary + 1 + dice.below(count as u64 - 1) as usize) % count;
        match dice.below(7) {
            0..=2 => {
                world.note(&format!("-- {} is copied to {}", world.names[primary], world.names[other]));
                world.kill(other);
                world.run(dice.between_ms(100, 900));
                // Taken while the primary goes on, as its data is at one moment.
                let source = world.servers[primary].clone();
                world.servers[other].become_copy_of(&source);
                world.run(dice.between_ms(50, 500));
                start(world, other, None);
            }
            3 | 4 if world.brain.is_some() => {
                world.note("-- a switchover is ordered");
                let to = Some(NodeId(other as u8));
                world.operator(Order::Switchover { to, budget: Duration::from_secs(1), force: false });
            }
            5 => {
                world.note("-- our process is killed");
                world.end_process();
                world.run(dice.between_ms(10, 900));
                world.start_process();
            }
            _ => {
                world.faults += 1;
                world.note(&format!("-- {} is killed", world.names[primary]));
                world.kill(primary);
                let back = dice.between_ms(50, 2000);
                let without = dice.percent(50).then(|| dice.between_ms(0, 500));
                world.later(back, move |world| start(world, primary, without));
                world.run(Duration::from_secs(1));
            }
        }
        world.run(dice.between_ms(1000, 3000));
    }
    mend(world);
    world.run(MENDING_TIME);
    check(world, &[], Faults::OfCopies);
    let Some(open) = world.open() else { return };
    for (number, server) in world.servers.iter().enumerate() {
        let shown = world.shown(number);
        let is_errant = shown.problem == Some(Problem::Errant);
        assert!(
            !is_errant || has_more(server, &world.servers[open]),
            "{} has nothing of its own: {}\n{}",
            world.names[number],
            shown.reason,
            world.tail()
        );
    }
}

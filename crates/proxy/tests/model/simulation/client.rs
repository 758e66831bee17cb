//! Clients: each does one thing after the other, never repeats anything by itself, and writes down what it is told.

use std::rc::Rc;
use std::time::Duration;

use session::finish::Failure;

use super::World;
use super::ledger::KnownResult;
use super::link::Does;
use super::session_driver::{Driver, Heard};
use sim::clock::{Either, race};

/// No command may take longer: the hold, a look of the manager, the group's own timeouts, and a frozen node until it is given up.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(60);

/// One client, until the run is over.
pub async fn client(world: Rc<World>, number: usize) {
    let mut me = Client { world: world.clone(), number, driver: Driver::new(&world), high: 0 };
    while !world.is_over.get() {
        let think = if world.dice.percent(5) { (100, 1500) } else { (2, 60) };
        me.driver.rest_for(world.dice.between_ms(think.0, think.1)).await;
        let goes_on = match world.dice.below(10) {
            0..4 => me.write().await,
            4..7 => me.read().await,
            _ => me.transaction().await,
        };
        if !goes_on {
            me.driver = Driver::new(&world);
        }
    }
    me.world.left.set(me.world.left.get() + 1);
}

struct Client {
    world: Rc<World>,
    number: usize,
    driver: Driver,
    /// So much of the log must be seen, since something in it was acknowledged to this client.
    high: usize,
}

impl Client {
    /// One statement; `None` when the client itself went away meanwhile.
    async fn say(&mut self, does: Does) -> Option<Heard> {
        let (world, dice) = (self.world.clone(), self.world.dice.clone());
        let may_be_forged = matches!(does, Does::Read | Does::Write(_));
        let forged = may_be_forged && world.has_faults.get() && dice.percent(1);
        let patience = if world.has_faults.get() && dice.percent(1) {
            dice.between_us(100, 3_000_000)
        } else {
            COMMAND_TIME_MAX
        };
        let began = world.clock.now();
        let heard = race(self.driver.statement(does, forged), world.clock.sleep(patience)).await;
        match heard {
            Either::First(heard) => {
                world
                    .manager
                    .note_statement(format!("client {} {does:?} since {began:.3?}: {heard:?}", self.number));
                Some(heard)
            }
            Either::Second(()) => {
                assert!(
                    patience < COMMAND_TIME_MAX,
                    "client {} hangs in {does:?} since {began:?}",
                    self.number
                );
                std::mem::replace(&mut self.driver, Driver::new(&world)).abandon();
                None
            }
        }
    }

    fn tell(&mut self, rows: &[u32], told: KnownResult) {
        self.world.ledger.told(rows, told);
        if told == KnownResult::Done {
            let log = self.world.group.log.borrow();
            for row in rows {
                let at = log.iter().rposition(|there| there == row);
                let at = at.unwrap_or_else(|| panic!("row {row} was acknowledged, and is not there"));
                self.high = self.high.max(at + 1);
            }
            self.world.high.set(self.world.high.get().max(self.high));
            self.world.done.set(self.world.done.get() + rows.len());
        }
    }

    /// A row by itself. Tells whether the connection stands.
    async fn write(&mut self) -> bool {
        let row = self.world.ledger.new_row();
        let heard = self.say(Does::Write(row)).await;
        let told = match heard {
            Some(Heard::Ok) => KnownResult::Done,
            Some(Heard::Error(_)) => KnownResult::NotDone,
            Some(Heard::Failed(failure)) => told_by(failure),
            Some(Heard::Closed) | None => KnownResult::Unknown,
            Some(Heard::Rows(_)) => panic!("rows for a write"),
        };
        self.tell(&[row], told);
        !matches!(heard, Some(Heard::Closed) | None)
    }

    async fn read(&mut self) -> bool {
        // With one writer everybody sees what anybody was told; else each its own.
        let high = if self.world.is_one { self.world.high.get() } else { self.high };
        match self.say(Does::Read).await {
            Some(Heard::Rows(seen)) => {
                assert!(seen >= high, "a read saw {seen} of {high} acknowledged rows");
                true
            }
            Some(Heard::Ok) => panic!("a read without rows"),
            Some(Heard::Error(_) | Heard::Failed(_)) => true,
            Some(Heard::Closed) | None => false,
        }
    }

    async fn transaction(&mut self) -> bool {
        match self.say(Does::Begin).await {
            Some(Heard::Ok) => {}
            Some(Heard::Closed) | None => return false,
            Some(_) => return true,
        }
        let mut rows = vec![];
        for _ in 0..=self.world.dice.below(3) {
            let row = self.world.ledger.new_row();
            rows.push(row);
            let heard = self.say(Does::Write(row)).await;
            match heard {
                Some(Heard::Ok) => {}
                // Whatever it is: without a COMMIT nothing is done.
                Some(Heard::Failed(_)) => {
                    self.tell(&rows, KnownResult::NotDone);
                    return true;
                }
                Some(Heard::Error(_)) => return self.roll_back(&rows).await,
                Some(Heard::Closed) | None => {
                    self.tell(&rows, KnownResult::NotDone);
                    return false;
                }
                Some(Heard::Rows(_)) => panic!("rows for a write"),
            }
            self.driver.rest_for(self.world.dice.between_ms(0, 30)).await;
        }
        if self.world.dice.percent(15) {
            return self.roll_back(&rows).await;
        }
        let heard = self.say(Does::Commit).await;
        let told = match heard {
            Some(Heard::Ok) => KnownResult::Done,
            Some(Heard::Error(_)) => KnownResult::NotDone,
            Some(Heard::Failed(failure)) => told_by(failure),
            Some(Heard::Closed) | None => KnownResult::Unknown,
            Some(Heard::Rows(_)) => panic!("rows for a COMMIT"),
        };
        self.tell(&rows, told);
        !matches!(heard, Some(Heard::Closed) | None)
    }

    async fn roll_back(&mut self, rows: &[u32]) -> bool {
        let heard = self.say(Does::Rollback).await;
        self.tell(rows, KnownResult::NotDone);
        !matches!(heard, Some(Heard::Closed) | None)
    }
}

/// What an error of the proxy's says of a write.
fn told_by(failure: Failure) -> KnownResult {
    match failure {
        Failure::OutcomeUnknown => KnownResult::Unknown,
        Failure::RolledBack
        | Failure::HoldExpired
        | Failure::HoldFull
        | Failure::NotRebuilt
        | Failure::SessionLost => KnownResult::NotDone,
        other => panic!("{other:?} for a write"),
    }
}

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
    let mut me = Client::new(&world, number);
    while !world.is_over.get() {
        let process = me.process;
        let is_over = || (world.process() != process).then_some(());
        let goes_on = match race(me.turn(), world.clock.until(is_over)).await {
            Either::First(goes_on) => goes_on,
            // The proxy's process has ended, and with it the connection.
            Either::Second(()) => {
                world.clock.until(|| world.process().map(|_| ())).await;
                false
            }
        };
        if !goes_on {
            me = Client::new(&world, number);
        }
    }
    me.world.left.set(me.world.left.get() + 1);
}

struct Client {
    world: Rc<World>,
    number: usize,
    /// The proxy's.
    process: Option<u64>,
    driver: Driver,
}

impl Client {
    fn new(world: &Rc<World>, number: usize) -> Self {
        Self { world: world.clone(), number, process: world.process(), driver: Driver::new(world) }
    }

    /// Thinks, and does one thing. Tells whether the connection stands.
    async fn turn(&mut self) -> bool {
        let think = if self.world.dice.percent(5) { (100, 1500) } else { (2, 60) };
        self.driver.rest_for(self.world.dice.between_ms(think.0, think.1)).await;
        match self.world.dice.below(10) {
            0..4 => self.write().await,
            4..7 => self.read().await,
            _ => self.transaction().await,
        }
    }

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
                    .control
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
            self.world.ground.nodes.acknowledged(self.number, rows);
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
        let nodes = self.world.ground.nodes.clone();
        let must = nodes.must_see(self.number);
        match self.say(Does::Read).await {
            Some(Heard::Rows(seen)) => {
                nodes.sees(self.number, must, seen);
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

//! Starts all clients of the workload against one or two addresses, and collects what they did.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::bank::{self, BankRecord};
use super::history::Transaction;
use super::ids::{self, Insert};
use super::lists::{Level, ListClient, Pool};
use super::register::{Known, RegisterClient, RegisterRecord};
use super::signal::Signal;
use crate::load::session::Target;

/// Clients of the lists, for each level.
const LIST_CLIENTS: u32 = 4;
/// Clients that move money.
const BANK_CLIENTS: u32 = 3;
/// Registers, with a writer each.
pub const REGISTERS: u32 = 3;
/// Clients that insert rows.
const ID_CLIENTS: u32 = 2;

/// Addresses of a phase.
#[derive(Clone, Debug)]
pub struct Ports {
    /// For reads and writes.
    pub write: Target,
    /// For what only reads, if there is one.
    pub read: Option<Target>,
    /// Whether reads through the port for writes may run on replicas.
    pub split: bool,
}

/// What all clients did in a phase.
#[derive(Debug, Default)]
pub struct Done {
    /// The lists, by level.
    pub lists: Vec<(Level, Vec<Transaction>)>,
    /// The bank.
    pub bank: BankRecord,
    /// The registers.
    pub register: RegisterRecord,
    /// What is known of each.
    pub known: Arc<Vec<Known>>,
    /// The inserts.
    pub inserts: Vec<Insert>,
}

enum Part {
    Lists(Level, Vec<Transaction>),
    Bank(BankRecord),
    Register(RegisterRecord),
    Ids(Vec<Insert>),
}

/// Running clients. Dropping this ends them at once.
pub struct Running {
    tasks: JoinSet<Part>,
    end: watch::Sender<bool>,
    known: Arc<Vec<Known>>,
    /// When the phase began.
    pub began: Instant,
}

/// Starts the clients.
pub fn start(ports: &Ports, seed: u64, pause_ms: u64) -> Running {
    let (end, ended) = watch::channel(false);
    let began = Instant::now();
    let signal = Signal { ended, began, pause_ms };
    let known: Arc<Vec<Known>> = Arc::new((0..REGISTERS).map(|_| Known::default()).collect());
    let mut running = Running { tasks: JoinSet::new(), end, known: Arc::clone(&known), began };
    let mut client = 0;
    let mut next = || {
        client += 1;
        (client, signal.clone(), StdRng::seed_from_u64(seed.wrapping_add(u64::from(client))))
    };
    let tasks = &mut running.tasks;
    for level in Level::ALL {
        let pool = Arc::new(Pool::default());
        let readers = ports.read.iter().map(|target| (target, true));
        let writers = std::iter::repeat_n((&ports.write, false), LIST_CLIENTS as usize);
        for (target, reads_only) in writers.chain(readers) {
            let (client, signal, rng) = next();
            let pool = Arc::clone(&pool);
            let one = ListClient { client, level, target: target.clone(), reads_only, pool };
            tasks.spawn(async move { Part::Lists(level, one.work(signal, rng).await) });
        }
    }
    let numbers = Arc::new(AtomicU64::new(1));
    for _ in 0..BANK_CLIENTS {
        let (_, signal, rng) = next();
        let (target, numbers) = (ports.write.clone(), Arc::clone(&numbers));
        tasks.spawn(async move { Part::Bank(bank::transfer(target, numbers, signal, rng).await) });
    }
    let places = [("the port for writes", Some(&ports.write)), ("the port for reads", ports.read.as_ref())];
    for (place, target) in places {
        let Some(target) = target else { continue };
        let (_, signal, rng) = next();
        let audited = target.clone();
        tasks.spawn(async move { Part::Bank(bank::audit(audited, place, signal, rng).await) });
        let (_, signal, rng) = next();
        let may_be_old = ports.split || place == "the port for reads";
        let one = RegisterClient { target: target.clone(), known: Arc::clone(&known), may_be_old };
        tasks.spawn(async move { Part::Register(one.watch(place, signal, rng).await) });
    }
    for register in 0..REGISTERS as usize {
        let (_, signal, rng) = next();
        let target = ports.write.clone();
        let one = RegisterClient { target, known: Arc::clone(&known), may_be_old: ports.split };
        tasks.spawn(async move { Part::Register(one.write(register, signal, rng).await) });
    }
    let tokens = Arc::new(AtomicU64::new(1));
    for _ in 0..ID_CLIENTS {
        let (_, signal, rng) = next();
        let (target, tokens) = (ports.write.clone(), Arc::clone(&tokens));
        tasks.spawn(async move { Part::Ids(ids::insert(target, tokens, signal, rng).await) });
    }
    running
}

impl Running {
    /// Lets every client end its transaction; returns what all have done.
    ///
    /// # Errors
    /// When a client has panicked.
    pub async fn stop(mut self) -> anyhow::Result<Done> {
        self.end.send_replace(true);
        let mut done = Done { known: self.known, ..Done::default() };
        for level in Level::ALL {
            done.lists.push((level, Vec::new()));
        }
        while let Some(part) = self.tasks.join_next().await {
            match part.context("a client of the workload ended by itself")? {
                Part::Lists(level, history) => {
                    let of_level = done.lists.iter_mut().find(|(of, _)| *of == level);
                    if let Some((_, all)) = of_level {
                        all.extend(history);
                    }
                }
                Part::Bank(record) => {
                    done.bank.transfers.extend(record.transfers);
                    done.bank.reads += record.reads;
                    done.bank.findings.extend(record.findings);
                }
                Part::Register(record) => {
                    done.register.writes += record.writes;
                    done.register.unknown += record.unknown;
                    done.register.reads += record.reads;
                    done.register.findings.extend(record.findings);
                }
                Part::Ids(inserts) => done.inserts.extend(inserts),
            }
        }
        Ok(done)
    }
}

//! Clients that append unique values to lists and read whole lists, in transactions of one to four steps.
//!
//! A list is one row whose text grows: every read shows the order of all appends before it. A list gets two dozen values; then
//! another takes its place, so that reads stay short.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql_async::Error;
use rand::Rng;
use rand::rngs::StdRng;

use super::connection::Connection;
use super::history::{Step, Transaction};
use super::signal::Signal;
use crate::ledger::CommitResult;
use crate::load::session::{Phase, Target};

/// How many lists are used at a time.
const ACTIVE: usize = 5;
/// How many values a list gets.
const LIST_MAX: u32 = 24;
/// Most steps of a transaction.
const STEPS_MAX: u32 = 4;
/// One transaction of so many is followed by a new connection.
const RECONNECT_ONE_OF: u32 = 25;

/// The isolation level of a set of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The servers' default.
    RepeatableRead,
    /// Reads lock.
    Serializable,
}

impl Level {
    /// Both.
    pub const ALL: [Self; 2] = [Self::RepeatableRead, Self::Serializable];

    /// The table of these lists.
    pub const fn table(self) -> &'static str {
        match self {
            Self::RepeatableRead => "lists_rr",
            Self::Serializable => "lists_ser",
        }
    }

    /// In a text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }

    /// The statement after a login; none for the default, so that sessions without any setting are used, too.
    const fn settings(self) -> Option<&'static str> {
        match self {
            Self::RepeatableRead => None,
            Self::Serializable => Some("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
        }
    }

    /// The statement that creates the table.
    pub fn ddl(self) -> String {
        format!("CREATE TABLE {} (k INT NOT NULL PRIMARY KEY, elements TEXT NOT NULL)", self.table())
    }
}

/// The lists in use, shared by all clients of a level.
pub struct Pool {
    /// Key, and how many appends were tried.
    slots: Mutex<[(u32, u32); ACTIVE]>,
    next_key: AtomicU32,
    next_value: AtomicU64,
}

impl Default for Pool {
    fn default() -> Self {
        let mut slots = [(0, 0); ACTIVE];
        for (key, slot) in (1..).zip(&mut slots) {
            slot.0 = key;
        }
        Self {
            slots: Mutex::new(slots),
            next_key: AtomicU32::new(ACTIVE as u32 + 1),
            next_value: AtomicU64::new(1),
        }
    }
}

impl Pool {
    fn step(&self, rng: &mut StdRng, append: bool) -> Step {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut slots[rng.random_range(0..ACTIVE)];
        if !append {
            return Step::Read { key: slot.0, list: None };
        }
        if slot.1 >= LIST_MAX {
            *slot = (self.next_key.fetch_add(1, Relaxed), 0);
        }
        slot.1 += 1;
        Step::Append { key: slot.0, value: self.next_value.fetch_add(1, Relaxed) }
    }

    fn draw(&self, rng: &mut StdRng, reads_only: bool) -> Vec<Step> {
        let count = rng.random_range(1..=STEPS_MAX);
        (0..count)
            .map(|_| {
                let append = !reads_only && rng.random_bool(0.5);
                self.step(rng, append)
            })
            .collect()
    }
}

/// Parameters of one client.
pub struct ListClient {
    /// Its number.
    pub client: u32,
    /// Its lists.
    pub level: Level,
    /// Where it connects to.
    pub target: Target,
    /// Whether that is the port for reads.
    pub reads_only: bool,
    /// The lists in use.
    pub pool: Arc<Pool>,
}

impl ListClient {
    /// Runs transactions until the signal; returns all of them.
    pub async fn work(self, mut signal: Signal, mut rng: StdRng) -> Vec<Transaction> {
        let prepared = self.client % 2 == 1;
        let mut connection = Connection::new(&self.target, self.level.settings(), prepared);
        let mut history = Vec::new();
        while signal.pause(&mut rng).await {
            // A login that fails is no transaction.
            if connection.connect().await.is_err() {
                continue;
            }
            let mut steps = self.pool.draw(&mut rng, self.reads_only);
            let (session, invoked) = (connection.session(), signal.now());
            let mut phase = Phase::Open;
            let done = transact(&mut connection, self.level.table(), &mut steps, &mut phase).await;
            let failed = done.is_err();
            let mut transaction = Transaction {
                client: self.client,
                session,
                may_be_old: self.reads_only,
                invoked,
                done: invoked,
                steps,
                outcome: CommitResult::Ok,
                error: None,
            };
            transaction.end(signal.now(), phase, done);
            history.push(transaction);
            if failed {
                connection.clean().await;
            } else if !self.reads_only && rng.random_ratio(1, RECONNECT_ONE_OF) {
                connection.close();
            }
        }
        history
    }
}

/// Two transactions on lists of their own: the second commits appends to both after the first has read one, and then the first appends to
/// the other, which it would not read like that. A server may take that (MariaDB's manual, "InnoDB Consistent Nonlocking Reads": writes see
/// what the reads around them do not) or end it (innodb_snapshot_isolation). The phase on one server holds this once for certain, so that
/// whether it counts does not depend on which transactions met by chance.
///
/// # Errors
/// When a connection cannot be opened. A transaction that the server ends is part of the history.
pub async fn write_past_a_read(
    target: &Target,
    now: impl Fn() -> Duration,
) -> Result<(Level, Vec<Transaction>), Error> {
    // Beyond those that the clients use.
    const READ: u32 = i32::MAX as u32;
    const WRITTEN: u32 = READ - 1;
    const VALUES: [u64; 3] = [1 << 40, (1 << 40) + 1, (1 << 40) + 2];
    let level = Level::RepeatableRead;
    let mut first = Connection::new(target, level.settings(), false);
    let mut second = Connection::new(target, level.settings(), false);
    first.connect().await?;
    second.connect().await?;
    let of = |steps| Transaction {
        client: 0,
        session: 0,
        may_be_old: false,
        invoked: now(),
        done: now(),
        steps,
        outcome: CommitResult::Ok,
        error: None,
    };
    let append = |key, value| Step::Append { key, value };
    let mut reader = of(vec![Step::Read { key: READ, list: None }, append(WRITTEN, VALUES[2])]);
    let mut writer = of(vec![append(READ, VALUES[0]), append(WRITTEN, VALUES[1])]);
    let (mut reads, mut writes) = (Phase::Open, Phase::Open);
    let has_read = async {
        begin(&mut first).await?;
        step(&mut first, level.table(), &mut reader.steps[0]).await
    };
    let has_read = has_read.await;
    let done = transact(&mut second, level.table(), &mut writer.steps, &mut writes).await;
    writer.end(now(), writes, done);
    let goes_on = async {
        has_read?;
        step(&mut first, level.table(), &mut reader.steps[1]).await?;
        commit(&mut first, &mut reads).await
    };
    let done = goes_on.await;
    reader.end(now(), reads, done);
    Ok((level, vec![reader, writer]))
}

async fn transact(
    connection: &mut Connection,
    table: &str,
    steps: &mut [Step],
    phase: &mut Phase,
) -> Result<(), Error> {
    begin(connection).await?;
    for one in steps {
        step(connection, table, one).await?;
    }
    commit(connection, phase).await
}

async fn begin(connection: &mut Connection) -> Result<(), Error> {
    connection.execute("BEGIN").await.map(drop)
}

async fn step(connection: &mut Connection, table: &str, step: &mut Step) -> Result<(), Error> {
    match step {
        Step::Append { key, value } => {
            let sql = format!(
                "INSERT INTO {table} (k, elements) VALUES ({key}, '{value}') \
                 ON DUPLICATE KEY UPDATE elements = CONCAT(elements, ',{value}')"
            );
            connection.execute(&sql).await?;
        }
        Step::Read { key, list } => {
            let sql = format!("SELECT elements FROM {table} WHERE k = {key}");
            let (rows, _) = connection.run::<String>(&sql).await?;
            *list = Some(rows.first().map(|text| elements(text)).unwrap_or_default());
        }
    }
    Ok(())
}

async fn commit(connection: &mut Connection, phase: &mut Phase) -> Result<(), Error> {
    *phase = Phase::Committing;
    connection.execute("COMMIT").await.map(drop)
}

/// The values in a list's text.
pub fn elements(text: &str) -> Vec<u64> {
    text.split(',').filter_map(|value| value.parse().ok()).collect()
}

//! Clients that write a register each and read it back, on the same connection and on a new one; others read all registers.
//!
//! The values of a register only grow: a write has no effect where the value is greater already, so a statement that a server still
//! carries out after its client has gone cannot take a later value back. A read through the port for writes may not return less than
//! what was acknowledged, or read there by anybody, before the read began. On the port for reads, and on a new connection while reads
//! run on replicas, a value may be old; there a session's own reads may not go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rand::Rng;
use rand::rngs::StdRng;

use super::connection::{Connection, ended};
use super::judge::{Finding, Kind};
use super::signal::Signal;
use crate::ledger::CommitResult;
use crate::load::session::{Phase, Target};

/// The statements that create the table, for so many registers.
pub fn ddl(count: u32) -> Vec<String> {
    let rows: Vec<String> = (0..count).map(|register| format!("({register}, 0)")).collect();
    vec![
        "CREATE TABLE registers (r INT NOT NULL PRIMARY KEY, v BIGINT NOT NULL)".into(),
        format!("INSERT INTO registers VALUES {}", rows.join(", ")),
    ]
}

/// What is known of one register.
#[derive(Debug, Default)]
pub struct Known {
    /// The greatest value that was acknowledged, or read through the port for writes.
    floor: AtomicU64,
    /// The greatest value that was sent.
    sent: AtomicU64,
}

/// Counts and findings of one client.
#[derive(Clone, Debug, Default)]
pub struct RegisterRecord {
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Writes whose outcome is unknown.
    pub unknown: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Reads that were wrong.
    pub findings: Vec<Finding>,
}

/// Parameters of a client.
pub struct RegisterClient {
    /// Where it connects to.
    pub target: Target,
    /// All registers.
    pub known: Arc<Vec<Known>>,
    /// Whether another session's read may show the past.
    pub may_be_old: bool,
}

impl RegisterClient {
    /// Writes and reads one register until the signal.
    pub async fn write(self, register: usize, mut signal: Signal, mut rng: StdRng) -> RegisterRecord {
        let mut connection = Connection::new(&self.target, None, register % 2 == 1);
        let mut record = RegisterRecord::default();
        let mut value = 0;
        while signal.pause(&mut rng).await {
            if connection.connect().await.is_err() {
                continue;
            }
            value += 1;
            self.known[register].sent.store(value, SeqCst);
            let sql = format!("UPDATE registers SET v = {value} WHERE r = {register} AND v < {value}");
            if let Err(error) = connection.execute(&sql).await {
                if ended(Phase::Committing, &error).0 == CommitResult::Unknown {
                    record.unknown += 1;
                }
                connection.clean().await;
                continue;
            }
            record.writes += 1;
            self.known[register].floor.fetch_max(value, SeqCst);
            // A session that was replaced in between is not the one that wrote.
            let wrote = connection.session();
            let own = self.read(&mut connection, register, "the same connection", &signal, &mut record).await;
            if self.may_be_old && connection.session() == wrote {
                not_below(own, value, register, "its own session's write", &signal, &mut record);
            }
            let mut new = Connection::new(&self.target, None, false);
            self.read(&mut new, register, "a new connection", &signal, &mut record).await;
        }
        record
    }

    /// Reads random registers until the signal; with `floor` of its own session where it may see the past.
    pub async fn watch(self, place: &'static str, mut signal: Signal, mut rng: StdRng) -> RegisterRecord {
        let mut connection = Connection::new(&self.target, None, false);
        let mut record = RegisterRecord::default();
        let (mut session, mut seen) = (0, vec![0; self.known.len()]);
        while signal.pause(&mut rng).await {
            if connection.connect().await.is_err() {
                continue;
            }
            if session != connection.session() {
                session = connection.session();
                seen.fill(0);
            }
            let register = rng.random_range(0..self.known.len());
            let read = self.read(&mut connection, register, place, &signal, &mut record).await;
            not_below(read, seen[register], register, "an earlier read of its session", &signal, &mut record);
            seen[register] = read.unwrap_or(0).max(seen[register]);
        }
        record
    }

    async fn read(
        &self,
        connection: &mut Connection,
        register: usize,
        place: &str,
        signal: &Signal,
        record: &mut RegisterRecord,
    ) -> Option<u64> {
        let known = &self.known[register];
        let (floor, began) = (known.floor.load(SeqCst), signal.now());
        let sql = format!("SELECT v FROM registers WHERE r = {register}");
        let (rows, _) = connection.run::<u64>(&sql).await.ok()?;
        record.reads += 1;
        let read = rows.first().copied();
        let value = read.unwrap_or(0);
        let sent = known.sent.load(SeqCst);
        if value > sent || rows.len() != 1 || (!self.may_be_old && value < floor) {
            let text = format!(
                "register {register} through {place}, {:.3}-{:.3} s: read {rows:?}; before that {floor} was acknowledged or read, \
                 and at most {sent} was sent",
                began.as_secs_f64(),
                signal.now().as_secs_f64()
            );
            record.findings.push(Finding::new(Kind::Backward, text));
        }
        if !self.may_be_old && value <= sent {
            known.floor.fetch_max(value, SeqCst);
        }
        read
    }
}

fn not_below(
    read: Option<u64>,
    least: u64,
    register: usize,
    why: &str,
    signal: &Signal,
    record: &mut RegisterRecord,
) {
    if let Some(value) = read.filter(|value| *value < least) {
        let at_s = signal.now().as_secs_f64();
        let text = format!("register {register}, at {at_s:.3} s: read {value}, although {why} was {least}");
        record.findings.push(Finding::new(Kind::Backward, text));
    }
}

/// Compares what is known with the values (register, value) of a node at the end.
pub fn judge(known: &[Known], node: &str, rows: &[(u64, u64)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (register, known) in known.iter().enumerate() {
        let (floor, sent) = (known.floor.load(SeqCst), known.sent.load(SeqCst));
        let value = rows.iter().find(|(r, _)| *r == register as u64).map(|(_, value)| *value);
        if value.is_none_or(|value| value < floor || value > sent) {
            let text =
                format!("{node} at the end: register {register} is {value:?}, not from {floor} to {sent}");
            findings.push(Finding::new(Kind::Lost, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_that_lost_an_acknowledged_value_is_found() {
        let known = [Known { floor: 3.into(), sent: 5.into() }];
        for (value, count) in [(2, 1), (3, 0), (5, 0), (6, 1)] {
            assert_eq!(judge(&known, "db1", &[(0, value)]).len(), count, "{value}");
        }
        assert_eq!(judge(&known, "db1", &[]).len(), 1);
    }
}

//! Clients that move money between accounts, and others that read all balances: the total never changes, and no balance is negative.
//!
//! Each transfer also inserts a row with its own number. The table has no unique index over it, so that a transfer applied twice shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mysql_async::Error;
use rand::Rng;
use rand::rngs::StdRng;

use super::connection::{Connection, ended};
use super::judge::{Finding, Kind, appears};
use super::signal::Signal;
use crate::ledger::CommitResult;
use crate::load::session::{Phase, Target};

/// Number of accounts.
pub const ACCOUNTS: u64 = 8;
/// What each has at first.
pub const FIRST_BALANCE: i64 = 100;
/// Largest amount of a transfer.
const AMOUNT_MAX: i64 = 20;

/// The statements that create the tables.
pub fn ddl() -> Vec<String> {
    let accounts: Vec<String> =
        (1..=ACCOUNTS).map(|account| format!("({account}, {FIRST_BALANCE})")).collect();
    vec![
        "CREATE TABLE accounts (id INT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)".into(),
        format!("INSERT INTO accounts VALUES {}", accounts.join(", ")),
        "CREATE TABLE transfers (row_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, id BIGINT NOT NULL, giver INT NOT NULL, \
         taker INT NOT NULL, amount BIGINT NOT NULL)"
            .into(),
    ]
}

/// One transfer, as its client knows it.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Its number.
    pub id: u64,
    /// Its outcome.
    pub outcome: CommitResult,
}

/// What one client did and saw.
#[derive(Clone, Debug, Default)]
pub struct BankRecord {
    /// Its transfers.
    pub transfers: Vec<Transfer>,
    /// How often it read all balances.
    pub reads: u64,
    /// Reads that were wrong.
    pub findings: Vec<Finding>,
}

/// Moves money until the signal.
pub async fn transfer(
    target: Target,
    ids: Arc<AtomicU64>,
    mut signal: Signal,
    mut rng: StdRng,
) -> BankRecord {
    let mut connection = Connection::new(&target, None, false);
    let mut record = BankRecord::default();
    while signal.pause(&mut rng).await {
        if connection.connect().await.is_err() {
            continue;
        }
        let (giver, step) = (rng.random_range(0..ACCOUNTS), rng.random_range(1..ACCOUNTS));
        let (giver, taker) = (giver + 1, (giver + step) % ACCOUNTS + 1);
        let amount = rng.random_range(1..=AMOUNT_MAX);
        let id = ids.fetch_add(1, Relaxed);
        let mut phase = Phase::Open;
        let done = transact(&mut connection, id, [giver, taker], amount, &mut phase).await;
        let outcome = match &done {
            Ok(true) => CommitResult::Ok,
            Ok(false) => CommitResult::Failed,
            Err(error) => ended(phase, error).0,
        };
        record.transfers.push(Transfer { id, outcome });
        if done.is_err() {
            connection.clean().await;
        }
    }
    record
}

/// Returns whether there was enough money.
async fn transact(
    connection: &mut Connection,
    id: u64,
    [giver, taker]: [u64; 2],
    amount: i64,
    phase: &mut Phase,
) -> Result<bool, Error> {
    connection.execute("BEGIN").await?;
    let sql = format!("SELECT balance FROM accounts WHERE id = {giver} FOR UPDATE");
    let (rows, _) = connection.run::<i64>(&sql).await?;
    if rows.first().is_none_or(|balance| *balance < amount) {
        connection.execute("ROLLBACK").await?;
        return Ok(false);
    }
    let sql = format!("UPDATE accounts SET balance = balance - {amount} WHERE id = {giver}");
    connection.execute(&sql).await?;
    let sql =
        format!("INSERT INTO transfers (id, giver, taker, amount) VALUES ({id}, {giver}, {taker}, {amount})");
    connection.execute(&sql).await?;
    let sql = format!("UPDATE accounts SET balance = balance + {amount} WHERE id = {taker}");
    connection.execute(&sql).await?;
    *phase = Phase::Committing;
    connection.execute("COMMIT").await?;
    Ok(true)
}

/// Reads all balances until the signal, each time by one statement.
pub async fn audit(target: Target, port: &'static str, mut signal: Signal, mut rng: StdRng) -> BankRecord {
    let mut connection = Connection::new(&target, None, false);
    let mut record = BankRecord::default();
    while signal.pause(&mut rng).await {
        let Ok((rows, _)) = connection.run::<(u64, i64)>("SELECT id, balance FROM accounts").await else {
            continue;
        };
        record.reads += 1;
        if let Some(wrong) = wrong_balances(&rows) {
            let at_s = signal.now().as_secs_f64();
            record
                .findings
                .push(Finding::new(Kind::Bank, format!("{port}, at {at_s:.3} s: {wrong}: {rows:?}")));
        }
    }
    record
}

fn wrong_balances(rows: &[(u64, i64)]) -> Option<String> {
    let total: i64 = rows.iter().map(|(_, balance)| balance).sum();
    let expected = FIRST_BALANCE * ACCOUNTS.cast_signed();
    if total != expected || rows.len() as u64 != ACCOUNTS {
        return Some(format!("{} accounts have {total} together, not {expected}", rows.len()));
    }
    rows.iter().find(|(_, balance)| *balance < 0).map(|(id, _)| format!("account {id} is negative"))
}

/// The rows of one node at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BankRows {
    /// Balance of each account.
    pub accounts: Vec<(u64, i64)>,
    /// Number, giver, taker and amount of each transfer.
    pub transfers: Vec<(u64, u64, u64, i64)>,
}

/// Compares what clients were told with a node's rows.
pub fn judge(transfers: &[Transfer], node: &str, rows: &BankRows) -> Vec<Finding> {
    let told: Vec<(u64, CommitResult)> = transfers.iter().map(|it| (it.id, it.outcome)).collect();
    let found: Vec<u64> = rows.transfers.iter().map(|(id, ..)| *id).collect();
    let mut findings = appears("transfer", &told, node, &found);
    if let Some(wrong) = wrong_balances(&rows.accounts) {
        findings.push(Finding::new(Kind::Bank, format!("{node} at the end: {wrong}")));
    }
    let mut expected: BTreeMap<u64, i64> = (1..=ACCOUNTS).map(|id| (id, FIRST_BALANCE)).collect();
    for (_, giver, taker, amount) in &rows.transfers {
        *expected.entry(*giver).or_default() -= amount;
        *expected.entry(*taker).or_default() += amount;
    }
    let actual: BTreeMap<u64, i64> = rows.accounts.iter().copied().collect();
    if expected != actual {
        let text =
            format!("{node} at the end: the balances are {actual:?}, and by its transfers {expected:?}");
        findings.push(Finding::new(Kind::Bank, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> BankRows {
        let mut accounts: Vec<(u64, i64)> = (1..=ACCOUNTS).map(|id| (id, FIRST_BALANCE)).collect();
        (accounts[0].1, accounts[1].1) = (90, 110);
        BankRows { accounts, transfers: vec![(7, 1, 2, 10)] }
    }

    fn told(outcome: CommitResult) -> Vec<Transfer> {
        vec![Transfer { id: 7, outcome }]
    }

    #[test]
    fn rows_that_agree_with_the_transfers_are_good() {
        for outcome in [CommitResult::Ok, CommitResult::Unknown] {
            assert!(judge(&told(outcome), "db1", &rows()).is_empty());
        }
    }

    #[test]
    fn a_failed_a_doubled_and_a_half_transfer_are_found() {
        let kinds = |told: &[Transfer], rows: &BankRows| -> Vec<Kind> {
            judge(told, "db1", rows).iter().map(|finding| finding.kind).collect()
        };
        assert_eq!(kinds(&told(CommitResult::Failed), &rows()), [Kind::Aborted]);
        let mut doubled = rows();
        doubled.transfers.push((7, 1, 2, 10));
        assert_eq!(kinds(&told(CommitResult::Ok), &doubled), [Kind::Doubled, Kind::Bank]);
        let mut half = rows();
        half.accounts[1].1 = 100;
        assert_eq!(kinds(&told(CommitResult::Ok), &half), [Kind::Bank, Kind::Bank]);
        assert_eq!(wrong_balances(&[(1, 5)]).unwrap(), "1 accounts have 5 together, not 800");
    }
}

//! Clients that insert rows whose ids the server gives out: no id is acknowledged twice, and each row is there under the id that its
//! client was told.

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

/// The statement that creates the table.
pub const DDL: &str =
    "CREATE TABLE ids (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, token BIGINT NOT NULL)";

/// One insert, as its client knows it.
#[derive(Clone, Copy, Debug)]
pub struct Insert {
    /// The row's content, unique in the whole run.
    pub token: u64,
    /// The id that the client was told, if the insert was acknowledged.
    pub id: Option<u64>,
    /// Its outcome.
    pub outcome: CommitResult,
}

/// Inserts until the signal: half of the rows by one statement, half in a transaction.
pub async fn insert(
    target: Target,
    tokens: Arc<AtomicU64>,
    mut signal: Signal,
    mut rng: StdRng,
) -> Vec<Insert> {
    let mut connection = Connection::new(&target, None, false);
    let mut inserts = Vec::new();
    while signal.pause(&mut rng).await {
        if connection.connect().await.is_err() {
            continue;
        }
        let token = tokens.fetch_add(1, Relaxed);
        let alone = rng.random_bool(0.5);
        let mut phase = if alone { Phase::Committing } else { Phase::Open };
        let done = transact(&mut connection, token, alone, &mut phase).await;
        let (id, outcome) = match &done {
            Ok(id) => (Some(*id), CommitResult::Ok),
            Err(error) => (None, ended(phase, error).0),
        };
        inserts.push(Insert { token, id, outcome });
        if done.is_err() {
            connection.clean().await;
        }
    }
    inserts
}

async fn transact(
    connection: &mut Connection,
    token: u64,
    alone: bool,
    phase: &mut Phase,
) -> Result<u64, Error> {
    let sql = format!("INSERT INTO ids (token) VALUES ({token})");
    if alone {
        return connection.execute(&sql).await;
    }
    connection.execute("BEGIN").await?;
    let id = connection.execute(&sql).await?;
    *phase = Phase::Committing;
    connection.execute("COMMIT").await?;
    Ok(id)
}

/// Compares what clients were told with the rows (id, token) of a node.
pub fn judge(inserts: &[Insert], node: &str, rows: &[(u64, u64)]) -> Vec<Finding> {
    let told: Vec<(u64, CommitResult)> = inserts.iter().map(|it| (it.token, it.outcome)).collect();
    let found: Vec<u64> = rows.iter().map(|(_, token)| *token).collect();
    let mut findings = appears("insert", &told, node, &found);
    let mut given: BTreeMap<u64, u64> = BTreeMap::new();
    let ids: BTreeMap<u64, u64> = rows.iter().map(|(id, token)| (*token, *id)).collect();
    for insert in inserts {
        let Some(id) = insert.id else { continue };
        if let Some(other) = given.insert(id, insert.token) {
            let text = format!("id {id} was given to inserts {other} and {}", insert.token);
            findings.push(Finding::new(Kind::Ids, text));
        }
        if let Some(actual) = ids.get(&insert.token).filter(|actual| **actual != id) {
            let text = format!("insert {} was told id {id}, and {node} has it as {actual}", insert.token);
            findings.push(Finding::new(Kind::Ids, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_and_repeated_ids_are_found() {
        let ok = |token, id| Insert { token, id: Some(id), outcome: CommitResult::Ok };
        assert!(judge(&[ok(1, 10), ok(2, 12)], "db1", &[(10, 1), (12, 2)]).is_empty());
        let kinds = |inserts: &[Insert], rows: &[(u64, u64)]| -> Vec<Kind> {
            judge(inserts, "db1", rows).iter().map(|finding| finding.kind).collect()
        };
        assert_eq!(kinds(&[ok(1, 10), ok(2, 10)], &[(10, 1)]), [Kind::Lost, Kind::Ids]);
        assert_eq!(kinds(&[ok(1, 10)], &[(11, 1)]), [Kind::Ids]);
    }
}

//! The seed's two tables, their loader, the updater by primary key, and the check of their content.

use std::time::Duration;

use anyhow::{Context, ensure};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use tokio::task::JoinSet;

use super::RecoveryPlan;
use crate::load::paced::Paced;
use crate::load::session::Target;
use crate::stage::Stage;
use crate::stage::account::APP_SCHEMA;

/// As in the seed, except for the engine's name. One byte is one character there, so that a row has 512 bytes.
const TABLES: [(&str, &str); 2] = [
    (
        "t1",
        "create table t1(a char(32), b integer unsigned not null, c char(32), d integer unsigned not null, e char(220), f char(220), primary key(a,b), index (d)) engine=innodb",
    ),
    (
        "t2",
        "create table t2(a char(32), b integer unsigned not null, c char(32), d integer unsigned not null, e char(220), f char(220), primary key(a,b), index (d)) engine=innodb",
    ),
];
/// Expressions for a row's texts, from its key `b` and its version `d`.
const TEXTS: [(&str, &str); 3] = [
    ("c", "MD5(CONCAT('c', b, ':', d))"),
    ("e", "LEFT(REPEAT(MD5(CONCAT('e', b, ':', d)), 7), 220)"),
    ("f", "LEFT(REPEAT(MD5(CONCAT('f', b, ':', d)), 7), 220)"),
];
/// A row's key contains its number twice: as text and as a number.
const KEY: &str = "LPAD(b, 32, 'k')";
/// Rows of one INSERT: about a megabyte.
const LOAD_ROWS: u64 = 2_000;
/// Updates of one transaction: with single ones, the disk's flushes would be the limit, not the number of updates.
const UPDATES: u64 = 10;
/// Number of updating connections.
const CONNECTIONS: u32 = 4;
/// Limit for the check of a table; one of the seed's size takes a fraction of it.
const CHECK_LIMIT: Duration = Duration::from_secs(180);

/// Creates the tables and fills each with `rows` rows of version 0.
pub async fn load(target: &Target, rows: u64) -> anyhow::Result<()> {
    let mut conn = Conn::new(target.opts()).await.context("the loader cannot connect")?;
    conn.query_drop(format!("ALTER DATABASE {APP_SCHEMA} CHARACTER SET latin1")).await?;
    conn.query_drop(format!("USE {APP_SCHEMA}")).await?;
    for (_, create) in TABLES {
        conn.query_drop(create).await?;
    }
    conn.disconnect().await?;
    let mut tasks = JoinSet::new();
    for (table, _) in TABLES {
        let mut conn = Conn::new(target.opts()).await.context("the loader cannot connect")?;
        tasks.spawn(async move {
            let mut first = 1;
            while first <= rows {
                let last = rows.min(first + LOAD_ROWS - 1);
                let texts = TEXTS.map(|(_, text)| text);
                let [c, e, f] = texts;
                conn.query_drop(format!(
                    "INSERT INTO {table} SELECT {KEY}, b, {c}, d, {e}, {f} FROM (SELECT seq AS b, 0 AS d FROM seq_{first}_to_{last}) AS numbers"
                ))
                .await?;
                first = last + 1;
            }
            conn.disconnect().await
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended?.context("the loader was refused rows")?;
    }
    Ok(())
}

/// Starts the plan's updates of single rows, chosen at random in both tables. Each `seed` selects other rows: rows of an earlier load would be
/// cheaper to update than rows updated for the first time, since their index entries are next to each other.
pub async fn update(target: &Target, plan: &RecoveryPlan, seed: u64) -> anyhow::Result<Paced> {
    let rows = plan.rows;
    let per_s = plan.updates_per_s / UPDATES as f64;
    let updates = |connection: u32| {
        let number_of_connection = u64::from(connection);
        let connections = u64::from(CONNECTIONS);
        let mut random = StdRng::seed_from_u64(seed * connections + number_of_connection);
        move |number: u64| {
            let (table, _) = TABLES[(number % 2) as usize];
            // Each connection updates its own rows, so that none waits for another's locks.
            let keys: Vec<String> = (0..UPDATES)
                .map(|_| {
                    let own = random.random_range(0..(rows / connections).max(1));
                    let b = (own * connections + number_of_connection) % rows + 1;
                    format!("(a = '{b:k>32}' AND b = {b})")
                })
                .collect();
            // Assignments are evaluated from left to right: the texts are those of the new version.
            let texts = TEXTS.map(|(column, text)| format!("{column} = {text}")).join(", ");
            format!("UPDATE {table} SET d = d + 1, {texts} WHERE {}", keys.join(" OR "))
        }
    };
    Paced::start(target, CONNECTIONS, per_s, updates).await
}

/// The content of both tables on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holds {
    /// Rows.
    pub rows: u64,
    /// The sum of all versions, which is the number of updates.
    pub updates: u64,
    /// Rows whose texts do not match their key and version.
    pub odd: u64,
    /// A checksum over every byte, for each table.
    pub checksums: Vec<String>,
}

/// Reads both tables on `node`, after everything that the group committed before (causal read).
pub async fn holds(stage: &Stage, node: &str) -> anyhow::Result<Holds> {
    let mut holds = Holds { rows: 0, updates: 0, odd: 0, checksums: Vec::new() };
    for (table, _) in TABLES {
        let [c, e, f] = TEXTS.map(|(column, text)| format!("{column} <> CONVERT({text} USING latin1)"));
        let sql = format!(
            "SET STATEMENT wsrep_sync_wait = 1 FOR SELECT COUNT(*), SUM(d), SUM({c} OR {e} OR {f} OR a <> CONVERT({KEY} USING latin1)), \
             CONCAT(BIT_XOR(CRC32(CONCAT_WS('|', a, b, c, d, e, f))), '-', SUM(CRC32(CONCAT_WS('|', a, b, c, d, e, f)))) FROM {APP_SCHEMA}.{table}"
        );
        let rows = stage.run_in_within(node, &sql, CHECK_LIMIT).await?;
        let [count, updates, odd, checksum] = rows.first().map(Vec::as_slice).unwrap_or_default() else {
            anyhow::bail!("{node} gave no figures of {table}");
        };
        let number =
            |text: &String| text.parse::<u64>().with_context(|| format!("{node}: {text:?} is no number"));
        holds.rows += number(count)?;
        holds.updates += number(updates)?;
        holds.odd += number(odd)?;
        holds.checksums.push(checksum.clone());
    }
    Ok(holds)
}

/// Checks that the returned node has the same content as the other one, and all acknowledged updates.
///
/// # Errors
/// The first difference, as a sentence.
pub fn agree(back: &Holds, other: &Holds, rows: u64, acknowledged: u64) -> anyhow::Result<()> {
    ensure!(back == other, "db3 has {back:?}, and db1 {other:?}");
    ensure!(back.rows == 2 * rows, "{} rows instead of {}", back.rows, 2 * rows);
    ensure!(back.odd == 0, "{} rows whose texts do not fit their versions", back.odd);
    ensure!(
        back.updates == acknowledged,
        "{} updates are there, and {acknowledged} were acknowledged",
        back.updates
    );
    Ok(())
}

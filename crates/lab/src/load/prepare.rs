//! Creates the load's tables, sbtest1..N as sysbench creates them and the ledger, and removes sysbench's.

use anyhow::Context;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::session::Target;
use super::transaction::groups;
use crate::ledger::LEDGER_DDL;
use crate::output::print_line;

/// Rows of one INSERT: about 200 kB, below every default max_allowed_packet.
const BATCH: u32 = 1000;

/// Creates what is missing; tables with the right number of rows stay as they are. `sbtest: false` leaves sysbench's tables to sysbench.
/// Returns true when any table was filled.
pub async fn tables(target: &Target, tables: u32, rows: u32, sbtest: bool) -> anyhow::Result<bool> {
    let mut conn = log_in(target).await?;
    conn.query_drop(LEDGER_DDL).await.context("cannot make the ledger")?;
    let mut filled = false;
    let mut rng = StdRng::seed_from_u64(1);
    for table in 1..=if sbtest { tables } else { 0 } {
        create(&mut conn, "IF NOT EXISTS", table).await?;
        let there: Option<(u32, Option<u32>)> =
            conn.query_first(format!("SELECT COUNT(*), MAX(id) FROM sbtest{table}")).await?;
        if there == Some((rows, Some(rows))) {
            continue;
        }
        filled = true;
        conn.query_drop(format!("TRUNCATE TABLE sbtest{table}")).await?;
        fill(&mut conn, &mut rng, table, rows).await.with_context(|| format!("cannot fill sbtest{table}"))?;
    }
    conn.disconnect().await?;
    Ok(filled)
}

/// As `sysbench prepare`: fails where a table is there already.
pub async fn create_new(target: &Target, tables: u32, rows: u32) -> anyhow::Result<()> {
    let mut conn = log_in(target).await?;
    let mut rng = StdRng::seed_from_u64(1);
    for table in 1..=tables {
        print_line(&format!("Creating table 'sbtest{table}'..."));
        create(&mut conn, "", table).await?;
        print_line(&format!("Inserting {rows} records into 'sbtest{table}'"));
        fill(&mut conn, &mut rng, table, rows).await.with_context(|| format!("cannot fill sbtest{table}"))?;
    }
    Ok(conn.disconnect().await?)
}

/// As `sysbench cleanup`.
pub async fn remove(target: &Target, tables: u32) -> anyhow::Result<()> {
    let mut conn = log_in(target).await?;
    for table in 1..=tables {
        print_line(&format!("Dropping table 'sbtest{table}'..."));
        conn.query_drop(format!("DROP TABLE IF EXISTS sbtest{table}"))
            .await
            .with_context(|| format!("cannot drop sbtest{table}"))?;
    }
    Ok(conn.disconnect().await?)
}

async fn log_in(target: &Target) -> anyhow::Result<Conn> {
    let Target { host, port, user, .. } = target;
    Conn::new(target.opts()).await.with_context(|| format!("cannot log in to {host}:{port} as {user}"))
}

async fn create(conn: &mut Conn, condition: &str, table: u32) -> anyhow::Result<()> {
    conn.query_drop(format!(
        "CREATE TABLE {condition} sbtest{table} (id INTEGER NOT NULL AUTO_INCREMENT, \
         k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, \
         PRIMARY KEY (id), KEY k_{table} (k)) ENGINE=InnoDB"
    ))
    .await
    .with_context(|| format!("cannot make sbtest{table}"))
}

async fn fill(conn: &mut Conn, rng: &mut StdRng, table: u32, rows: u32) -> mysql_async::Result<()> {
    let mut from = 1;
    while from <= rows {
        let to = rows.min(from + BATCH - 1);
        let values: Vec<String> = (from..=to)
            .map(|id| {
                format!("({id},{},'{}','{}')", rng.random_range(1..=rows), groups(rng, 10), groups(rng, 5))
            })
            .collect();
        conn.query_drop(format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES {}", values.join(",")))
            .await?;
        from = to + 1;
    }
    Ok(())
}

//! The result of a search, as text and as JSON.

use std::fmt::Write;

use protocol::binlog::Change;
use serde_json::{Value, json};

use super::file::{Transaction, short};
use super::gather::Found;
use report::table::{Lean, Table, moment};

/// The greatest number of characters of the statements in the table.
const WHAT_MAX: usize = 100;

/// As a table.
pub fn text(node: &str, primary: &str, found: &Found, obstacles: &[String]) -> String {
    let transactions = &found.errant.transactions;
    let mut page = String::new();
    match transactions.len() {
        0 => {
            let _ = writeln!(page, "{node} has nothing that {primary}, the primary, has not");
        }
        1 => {
            let _ = writeln!(page, "{node} has one transaction that {primary}, the primary, has not\n");
        }
        count => {
            let _ = writeln!(page, "{node} has {count} transactions that {primary}, the primary, has not\n");
        }
    }
    if !transactions.is_empty() {
        let mut table = Table::new(&[
            ("GTID", Lean::Left),
            ("COMMITTED (UTC)", Lean::Left),
            ("BYTES", Lean::Right),
            ("WHAT", Lean::Left),
        ]);
        for one in transactions {
            let at = moment(u64::from(one.time_s) * 1000);
            let at = at.split('.').next().unwrap_or_default().to_owned();
            table.row([one.gtid.to_string(), at, one.bytes().to_string(), what(one)]);
        }
        page.push_str(&table.text());
        page.push('\n');
    }
    if !found.errant.purged.is_empty() {
        let _ = writeln!(page, "and, in binlogs that are purged there, at most {}", found.errant.purged);
    }
    if !found.received.is_empty() {
        let _ = writeln!(page, "and, received and not applied, {}", found.received);
    }
    if !transactions.is_empty() {
        if obstacles.is_empty() {
            let _ = writeln!(
                page,
                "they can be flashed back: understudy errant flashback {node} --dry-run shows how"
            );
        }
        for obstacle in obstacles {
            let _ = writeln!(page, "cannot be flashed back: {obstacle}");
        }
    }
    page
}

/// "INSERT shop.t, DELETE shop.u: insert into t ..."
fn what(one: &Transaction) -> String {
    let changes: Vec<String> =
        one.changes.iter().map(|(change, table)| format!("{} {table}", word(*change))).collect();
    let statements = one.statements.join("; ");
    let mut text = changes.join(", ");
    if !text.is_empty() && !statements.is_empty() {
        text.push_str(": ");
    }
    short(&(text + &statements), WHAT_MAX)
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Insert => "INSERT",
        Change::Update => "UPDATE",
        Change::Delete => "DELETE",
    }
}

/// The result as JSON, with all details.
pub fn json(node: &str, primary: &str, found: &Found, obstacles: &[String]) -> Value {
    let each = |one: &Transaction| {
        json!({
            "gtid": one.gtid.to_string(),
            "committed_unix_s": one.time_s,
            "bytes": one.bytes(),
            "binlog": one.file,
            "begins_byte": one.begins,
            "ends_byte": one.ends,
            "changes": one.changes.iter().map(|(change, table)| json!({ "change": word(*change), "table": table })).collect::<Vec<_>>(),
            "statements": one.statements,
        })
    };
    json!({
        "node": node,
        "primary": primary,
        "gtids": found.errant.gtids(),
        "transactions": found.errant.transactions.iter().map(each).collect::<Vec<_>>(),
        "purged_at_most": found.errant.purged.to_string(),
        "received_not_applied": found.received,
        "before": found.errant.before.to_string(),
        "flashback_obstacles": obstacles,
    })
}

//! Runs one statement on one node, as root over its unix socket: this works even when the network of the node does not.
//!
//! Every call uses its own connection and has a time limit, because a frozen node accepts connections but never responds.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row, Value};

/// Time limit for a node's status query; a frozen node never responds.
pub const STATUS_TIME_MAX: Duration = Duration::from_secs(1);

/// Runs `sql` and returns all rows of all result sets, each value as text; NULL is `NULL`.
///
/// # Errors
/// When the node does not accept the connection, does not respond `within`, or rejects the statement.
pub async fn run(socket: &Path, sql: &str, within: Duration) -> anyhow::Result<Vec<Vec<String>>> {
    let rows = run_named(socket, sql, within).await?;
    Ok(rows.into_iter().map(|row| row.into_iter().map(|(_, value)| value).collect()).collect())
}

/// The same, with the column's name for each value.
///
/// # Errors
/// As [`run`].
pub async fn run_named(
    socket: &Path,
    sql: &str,
    within: Duration,
) -> anyhow::Result<Vec<Vec<(String, String)>>> {
    let exchange = async {
        let options = OptsBuilder::default()
            .socket(Some(socket.display().to_string()))
            .user(Some("root"))
            .prefer_socket(false);
        let mut connection = Conn::new(options).await?;
        let mut rows = Vec::new();
        let mut result = connection.query_iter(sql).await?;
        while !result.is_empty() {
            rows.extend(result.collect::<Row>().await?.into_iter().map(texts));
        }
        drop(result);
        // The result is complete; a failed disconnect does not matter.
        let _ = connection.disconnect().await;
        anyhow::Ok(rows)
    };
    match tokio::time::timeout(within, exchange).await {
        Ok(rows) => rows.with_context(|| format!("`{sql}` through {}", socket.display())),
        Err(_) => {
            bail!("`{sql}` through {}: no answer within {:.1} s", socket.display(), within.as_secs_f64())
        }
    }
}

fn texts(row: Row) -> Vec<(String, String)> {
    let names: Vec<String> = row.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
    names.into_iter().zip(row.unwrap().into_iter().map(text)).collect()
}

fn text(value: Value) -> String {
    match value {
        Value::NULL => "NULL".to_owned(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        other => other.as_sql(true),
    }
}

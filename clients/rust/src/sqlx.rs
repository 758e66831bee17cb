//! sqlx. See ../../README.md.

mod told;

use futures_util::TryStreamExt;
use serde_json::Value;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlPoolOptions, MySqlRow, MySqlSslMode};
use sqlx::query::Query;
use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Either, Executor, MySql, MySqlConnection, Row,
    TypeInfo, ValueRef,
};

use told::{Client, Outcome, given, is_prepared, strings};

struct Sqlx {
    connection: MySqlConnection,
}

fn options() -> MySqlConnectOptions {
    let options = MySqlConnectOptions::new()
        .host(&given("HOST"))
        .port(given("PORT").parse().expect("a port"))
        .username(&given("USER"))
        .password(&given("PASSWORD"))
        .database(&given("SCHEMA"));
    if given("TLS") == "on" {
        options.ssl_mode(MySqlSslMode::VerifyCa).ssl_ca(given("AUTHORITY"))
    } else {
        options.ssl_mode(MySqlSslMode::Disabled)
    }
}

fn words(error: sqlx::Error) -> String {
    error.to_string()
}

fn bind<'q>(query: Query<'q, MySql, MySqlArguments>, text: &str) -> Query<'q, MySql, MySqlArguments> {
    let (kind, rest) = text.split_once(':').unwrap_or_default();
    match kind {
        "int" => query.bind(rest.parse::<i64>().unwrap()),
        "uint" => query.bind(rest.parse::<u64>().unwrap()),
        "float" => query.bind(rest.parse::<f64>().unwrap()),
        "bytes" => query.bind(
            (0..rest.len() / 2)
                .map(|n| u8::from_str_radix(&rest[2 * n..2 * n + 2], 16).unwrap())
                .collect::<Vec<u8>>(),
        ),
        "null" => query.bind(None::<String>),
        "bool" => query.bind(rest == "true"),
        _ => query.bind(rest.to_owned()),
    }
}

/// Each value as its bytes: what the driver would make of them is the business of the types that a program asks for.
fn row(row: &MySqlRow) -> String {
    let mut told = String::from("(");
    for (at, column) in row.columns().iter().enumerate() {
        let value = row.try_get_raw(at).unwrap();
        let bytes = if value.is_null() {
            "NULL".into()
        } else {
            format!("{:?}", String::from_utf8_lossy(row.get_unchecked::<&[u8], _>(at)))
        };
        told += &format!("{} {} {bytes},", column.name(), column.type_info().name());
    }
    told + ")"
}

async fn results<'q, 'c, E: sqlx::Execute<'q, MySql> + 'q>(
    connection: &'c mut MySqlConnection,
    query: E,
) -> Outcome {
    let mut told = String::new();
    let mut stream = connection.fetch_many(query);
    while let Some(one) = stream.try_next().await.map_err(words)? {
        told += &match one {
            Either::Left(done) => {
                format!("affected {} id {} ; ", done.rows_affected(), done.last_insert_id())
            }
            Either::Right(one) => row(&one),
        };
    }
    Ok(told)
}

impl Sqlx {
    async fn batch(&mut self, sql: &str, rows: &[Value]) -> Outcome {
        let mut told = String::new();
        for row in rows {
            told += &self.execute(sql, &strings(row.as_array().unwrap())).await?;
        }
        Ok(told)
    }

    async fn killed(&mut self, sql: &str) -> Outcome {
        let id: u64 = sqlx::query_scalar("SELECT CONNECTION_ID()")
            .fetch_one(&mut self.connection)
            .await
            .map_err(words)?;
        let killer = told::kill::<Sqlx>(id);
        let outcome = self.query(sql).await;
        killer.abort();
        outcome
    }
}

async fn pool(size: usize, sql: &str) -> Outcome {
    let pool =
        MySqlPoolOptions::new().max_connections(size as u32).connect_with(options()).await.map_err(words)?;
    let taken = (0..3 * size).map(|_| async {
        let mut connection = pool.acquire().await.map_err(words)?;
        results(&mut connection, sqlx::raw_sql(AssertSqlSafe(sql))).await
    });
    let told: Vec<_> = futures_util::future::try_join_all(taken).await?;
    pool.close().await;
    Ok(told.join(","))
}

impl Client for Sqlx {
    async fn connect() -> Result<Self, String> {
        Ok(Self { connection: options().connect().await.map_err(words)? })
    }

    async fn close(self) {
        let _ = self.connection.close().await;
    }

    async fn query(&mut self, sql: &str) -> Outcome {
        results(&mut self.connection, sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await
    }

    /// Prepared at the server: sqlx has no other parameters.
    async fn execute(&mut self, sql: &str, parameters: &[String]) -> Outcome {
        let query =
            parameters.iter().fold(sqlx::query(AssertSqlSafe(sql.to_owned())), |query, one| bind(query, one));
        results(&mut self.connection, query.persistent(is_prepared())).await
    }

    async fn other(&mut self, word: &str, text: &str, parts: &[Value]) -> Option<Outcome> {
        Some(match word {
            "multi" | "stream" => self.query(text).await,
            "repeat" | "batch" => self.batch(text, &parts[1..]).await,
            "ping" => self.connection.ping().await.map(|()| "ok".into()).map_err(words),
            "killed" => self.killed(text).await,
            "pool" => pool(parts[0].as_u64().unwrap() as usize, parts[1].as_str().unwrap()).await,
            _ => return None,
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    tokio::task::LocalSet::new().run_until(told::run::<Sqlx>()).await;
}

//! mysql_async. See ../../README.md.

mod told;

use mysql_async::prelude::Queryable;
use mysql_async::{
    ChangeUserOpts, Conn, OptsBuilder, Params, Pool, QueryResult, Row, SslOpts, Value as Bound,
};
use serde_json::Value;

use told::{Client, Outcome, given, is_prepared, strings};

struct MysqlAsync {
    conn: Conn,
}

fn options() -> OptsBuilder {
    let tls = (given("TLS") == "on").then(|| {
        SslOpts::default().with_root_certs(vec![std::path::PathBuf::from(given("AUTHORITY")).into()])
    });
    OptsBuilder::default()
        .ip_or_hostname(given("HOST"))
        .tcp_port(given("PORT").parse().expect("a port"))
        .user(Some(given("USER")))
        .pass(Some(given("PASSWORD")))
        .db_name(Some(given("SCHEMA")))
        .prefer_socket(false)
        .local_infile_handler(Some(mysql_async::WhiteListFsHandler::new([given("FILE")])))
        .ssl_opts(tls)
}

fn bound(text: &String) -> Bound {
    let (kind, rest) = text.split_once(':').unwrap_or_default();
    match kind {
        "int" => rest.parse::<i64>().unwrap().into(),
        "uint" => rest.parse::<u64>().unwrap().into(),
        "float" => rest.parse::<f64>().unwrap().into(),
        "bytes" => (0..rest.len() / 2)
            .map(|n| u8::from_str_radix(&rest[2 * n..2 * n + 2], 16).unwrap())
            .collect::<Vec<u8>>()
            .into(),
        "null" => Bound::NULL,
        "bool" => (rest == "true").into(),
        _ => rest.into(),
    }
}

fn words(error: mysql_async::Error) -> String {
    error.to_string()
}

async fn results<P: mysql_async::prelude::Protocol>(mut result: QueryResult<'_, '_, P>) -> Outcome {
    let mut told = String::new();
    while let Some(columns) = result.columns() {
        let columns: Vec<_> = columns
            .iter()
            .map(|one| format!("{} {:?} {:?}", one.name_str(), one.column_type(), one.flags()))
            .collect();
        let counts = format!(
            "affected {} id {:?} {:?} {} warnings",
            result.affected_rows(),
            result.last_insert_id(),
            result.info(),
            result.warnings()
        );
        let rows: Vec<Row> = result.collect().await.map_err(words)?;
        told += &if columns.is_empty() { counts } else { format!("{columns:?} {rows:?}") };
        told += " ; ";
    }
    Ok(told)
}

impl MysqlAsync {
    async fn repeat(&mut self, sql: &str, rows: &[Value]) -> Outcome {
        let statement = self.conn.prep(sql).await.map_err(words)?;
        let mut told = String::new();
        for row in rows {
            let values: Vec<Bound> = strings(row.as_array().unwrap()).iter().map(bound).collect();
            told += &results(self.conn.exec_iter(&statement, values).await.map_err(words)?).await?;
        }
        self.conn.close(statement).await.map_err(words)?;
        Ok(told)
    }

    async fn batch(&mut self, sql: &str, rows: &[Value]) -> Outcome {
        let rows = rows
            .iter()
            .map(|row| Params::from(strings(row.as_array().unwrap()).iter().map(bound).collect::<Vec<_>>()));
        self.conn.exec_batch(sql, rows).await.map_err(words)?;
        Ok(format!("affected {}", self.conn.affected_rows()))
    }

    async fn stream(&mut self, sql: &str) -> Outcome {
        let mut rows: Vec<(u64, Option<String>)> = vec![];
        self.conn
            .query_iter(sql)
            .await
            .map_err(words)?
            .for_each(|row| rows.push(mysql_async::from_row(row)))
            .await
            .map_err(words)?;
        Ok(format!("{rows:?}"))
    }

    async fn user(&mut self, name: &str) -> Outcome {
        let (user, password) = if name == "wrong" {
            (given("USER"), "wrong".into())
        } else {
            (name.to_owned(), given("PASSWORD"))
        };
        let options = ChangeUserOpts::default()
            .with_user(Some(user))
            .with_pass(Some(password))
            .with_db_name(Some(given("SCHEMA")));
        self.conn.change_user(options).await.map_err(words)?;
        Ok("ok".into())
    }

    async fn killed(&mut self, sql: &str) -> Outcome {
        let id: u64 = self.conn.query_first("SELECT CONNECTION_ID()").await.map_err(words)?.unwrap();
        let killer = told::kill::<MysqlAsync>(id);
        let outcome = self.query(sql).await;
        killer.abort();
        outcome
    }
}

async fn pool(size: usize, sql: &str) -> Outcome {
    let constraints = mysql_async::PoolConstraints::new(0, size).unwrap();
    let pool = Pool::new(options().pool_opts(mysql_async::PoolOpts::default().with_constraints(constraints)));
    let mut told = vec![];
    for taken in futures_util::future::join_all((0..3 * size).map(|_| async {
        let mut conn = pool.get_conn().await.map_err(words)?;
        results(conn.query_iter(sql).await.map_err(words)?).await
    }))
    .await
    {
        told.push(taken?);
    }
    pool.disconnect().await.map_err(words)?;
    Ok(told.join(","))
}

impl Client for MysqlAsync {
    async fn connect() -> Result<Self, String> {
        Ok(Self { conn: Conn::new(options()).await.map_err(words)? })
    }

    async fn close(self) {
        let _ = self.conn.disconnect().await;
    }

    async fn query(&mut self, sql: &str) -> Outcome {
        results(self.conn.query_iter(sql).await.map_err(words)?).await
    }

    async fn execute(&mut self, sql: &str, parameters: &[String]) -> Outcome {
        let values: Vec<Bound> = parameters.iter().map(bound).collect();
        if is_prepared() {
            return results(self.conn.exec_iter(sql, values).await.map_err(words)?).await;
        }
        let mut quoted = values.iter().map(|value| value.as_sql(false));
        let text: String = sql
            .split('?')
            .enumerate()
            .map(|(n, part)| if n == 0 { part.into() } else { quoted.next().unwrap() + part })
            .collect();
        self.query(&text).await
    }

    async fn other(&mut self, word: &str, text: &str, parts: &[Value]) -> Option<Outcome> {
        Some(match word {
            "compressed" => match Conn::new(options().compression(mysql_async::Compression::fast())).await {
                Ok(conn) => {
                    self.conn = conn;
                    Ok("ok".into())
                }
                Err(error) => Err(words(error)),
            },
            "server" => Ok(format!("{:?}", self.conn.server_version())),
            "multi" => self.query(text).await,
            "repeat" => self.repeat(text, &parts[1..]).await,
            "batch" => self.batch(text, &parts[1..]).await,
            "stream" => self.stream(text).await,
            "ping" => self.conn.ping().await.map(|()| "ok".into()).map_err(words),
            "reset" => self.conn.reset().await.map(|done| done.to_string()).map_err(words),
            "user" => self.user(text).await,
            "infile" => {
                std::fs::write(given("FILE"), parts[1].as_str().unwrap()).expect("the file can be written");
                self.query(text).await
            }
            "killed" => self.killed(text).await,
            "pool" => pool(parts[0].as_u64().unwrap() as usize, parts[1].as_str().unwrap()).await,
            _ => return None,
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    tokio::task::LocalSet::new().run_until(told::run::<MysqlAsync>()).await;
}

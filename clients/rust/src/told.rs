//! Carries out clients/operations.json by a driver and prints one line an operation. The drivers' own calls are in the programs beside this file.
//! See ../../README.md.

use std::time::{Duration, Instant};

use serde_json::Value;

pub fn given(name: &str) -> String {
    std::env::var(format!("CLIENT_{name}")).unwrap_or_else(|_| panic!("CLIENT_{name} is not set"))
}

pub fn is_prepared() -> bool {
    given("PROTOCOL") == "prepared"
}

/// What a step gave: a result, an error's words, or nothing where the driver has no such call.
pub type Outcome = Result<String, String>;

/// A driver's connection.
pub trait Client: Sized {
    async fn connect() -> Result<Self, String>;
    async fn close(self);
    async fn query(&mut self, sql: &str) -> Outcome;
    async fn execute(&mut self, sql: &str, parameters: &[String]) -> Outcome;
    /// A step of the driver's own: `None` where it has none.
    async fn other(&mut self, word: &str, text: &str, parts: &[Value]) -> Option<Outcome>;
}

pub fn shown(text: &str) -> String {
    let text = text.replace('\n', "\\n");
    if text.len() <= 1500 { text } else { format!("{} bytes, {:x}", text.len(), md5::compute(&text)) }
}

pub fn filled(text: &str) -> String {
    let schema = given("SCHEMA");
    text.replace("$SCHEMA", &schema)
        .replace("$OTHER", &format!("{schema}_other"))
        .replace("$FILE", &given("FILE"))
}

pub fn strings(parts: &[Value]) -> Vec<String> {
    parts.iter().filter_map(|part| part.as_str().map(str::to_owned)).collect()
}

pub async fn pause(milliseconds: u64) -> Outcome {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    Ok("ok".into())
}

/// KILL QUERY by another connection, again and again until it is aborted.
pub fn kill<C: Client + Send + 'static>(id: u64) -> tokio::task::JoinHandle<()> {
    tokio::task::spawn_local(async move {
        let mut other = C::connect().await.expect("another connection");
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let _ = other.query(&format!("KILL QUERY {id}")).await;
        }
    })
}

async fn writes<C: Client>(client: &mut C, count: u64, milliseconds: u64) -> Outcome {
    for n in 0..count {
        client
            .execute("INSERT INTO ledger VALUES (?, ?)", &[format!("int:{n}"), format!("int:{}", 3 * n)])
            .await?;
        pause(milliseconds).await?;
    }
    Ok("ok".into())
}

async fn transfers<C: Client>(client: &mut C, count: u64, milliseconds: u64) -> Outcome {
    for _ in 0..count {
        client.query("BEGIN").await?;
        client.execute("UPDATE account SET v = v - ? WHERE id = 1", &["int:7".into()]).await?;
        pause(milliseconds).await?;
        client.execute("UPDATE account SET v = v + ? WHERE id = 2", &["int:7".into()]).await?;
        client.query("COMMIT").await?;
    }
    Ok("ok".into())
}

async fn step<C: Client>(client: &mut Option<C>, step: &[Value]) -> Outcome {
    let word = step[0].as_str().unwrap_or_default();
    if word == "new" {
        if let Some(old) = client.take() {
            old.close().await;
        }
        *client = Some(C::connect().await?);
        return Ok("ok".into());
    }
    let client = client.as_mut().ok_or("no connection")?;
    let text = filled(step.get(1).and_then(Value::as_str).unwrap_or_default());
    let number = |at: usize| step.get(at).and_then(Value::as_u64).unwrap_or_default();
    match word {
        "query" => client.query(&text).await,
        "execute" => client.execute(&text, &strings(&step[2..])).await,
        "begin" => client.query("BEGIN").await,
        "commit" => client.query("COMMIT").await,
        "rollback" => client.query("ROLLBACK").await,
        "isolation" => client.query(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {text}")).await,
        "large" => {
            let z = format!("str:{}", "z".repeat(number(1) as usize));
            client.execute("SELECT LENGTH(?), SHA2(?, 256)", &[z.clone(), z]).await
        }
        "pause" => pause(number(1)).await,
        "writes" => writes(client, number(1), number(2)).await,
        "transfers" => transfers(client, number(1), number(2)).await,
        _ => client.other(word, &text, &step[1..]).await.unwrap_or_else(|| Ok("no such call".into())),
    }
}

pub async fn run<C: Client>() {
    let operations = std::fs::read_to_string(given("OPERATIONS")).expect("the operations can be read");
    let operations: Vec<Value> = serde_json::from_str(&operations).expect("the operations are JSON");
    let (began, seconds) = (Instant::now(), given("SECONDS").parse().expect("SECONDS is a number"));
    let mut client = Some(C::connect().await.expect("the first connection"));
    let mut round = 0;
    while round == 0 || began.elapsed() < Duration::from_secs_f64(seconds) {
        for operation in &operations {
            let is_elsewhere = operation["on"].as_str().is_some_and(|on| on != given("SERVER"));
            if is_elsewhere || (round > 0 && operation["once"] == true) {
                continue;
            }
            let mut told = vec![];
            for one in operation["steps"].as_array().into_iter().flatten() {
                let outcome = step(&mut client, one.as_array().map_or(&[][..], Vec::as_slice)).await;
                told.push(shown(&outcome.unwrap_or_else(|error| format!("error {error}"))));
            }
            println!("{}: {}", operation["name"].as_str().unwrap_or_default(), told.join(" | "));
        }
        round += 1;
    }
    if let Some(client) = client {
        client.close().await;
    }
}

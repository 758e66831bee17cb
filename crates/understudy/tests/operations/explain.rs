//! `explain` and `processlist`: what an operator reads afterwards agrees with what was done, and with what clients saw.

use std::time::Duration;

use lab::fault::Fault;
use lab::stage::account::APP_SCHEMA;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use testbed::program::{Serving, until};
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::{Writers, connect};

const WRITERS: u64 = 4;
const RHYTHM: Duration = Duration::from_millis(20);

fn explained(serving: &Serving, when: &str) -> Value {
    serving.ask(&["explain", when, "--json"]).json()
}

/// The story of the last change, once it says what clients noticed.
fn with_clients(serving: &Serving) -> Value {
    until("clients are told of", || {
        let story = explained(serving, "last");
        if story["change"]["clients"].is_null() { Err(story) } else { Ok(story) }
    })
}

fn texts(entries: &Value) -> Vec<&str> {
    entries.as_array().unwrap().iter().map(|entry| entry["text"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_and_a_switchover_are_explained() {
    let scene = Scene::of("explain", true).await;
    let directory = scene.directory("");
    let serving = Serving::start(directory.path());
    let first = status_when(&serving, "all are well", is_well);
    let said = serving.ask(&["explain"]).with(1);
    assert!(said.contains("the journal has no change of the writer"), "{said}");

    // A switchover that a transaction keeps from its end, and what is advised then.
    let mut open = connect(scene.through()).await.unwrap();
    let id = open.id();
    open.query_drop("BEGIN").await.unwrap();
    open.query_drop(format!("INSERT INTO {APP_SCHEMA}.w VALUES (0, 0)")).await.unwrap();
    let refused = serving.ask(&["switchover", "--to", "db2", "--budget", "300ms"]).with(1);
    assert!(refused.contains("undone"), "{refused}");
    let undone = explained(&serving, "last");
    assert_eq!(
        (&undone["change"]["change"], &undone["change"]["end"]),
        (&"switchover".into(), &"undone".into())
    );
    let advice = texts_of_advice(&undone);
    assert!(advice.contains("`understudy processlist` shows the transactions"), "{advice}");
    let list = serving.ask(&["processlist"]).with(0);
    let screen = serving.ask(&["status", "--sessions"]).with(0);
    for told in [&list, &screen] {
        let line = told.lines().find(|line| line.trim_start().starts_with(&id.to_string()));
        assert!(
            line.is_some_and(|line| line.contains("its transaction is open")),
            "session {id} in:\n{told}"
        );
    }
    open.query_drop("ROLLBACK").await.unwrap();
    drop(open);
    let none = until("no session matters", || {
        let list = serving.ask(&["processlist"]).with(0);
        list.starts_with("no session waits").then_some(list)
    });
    assert_eq!(none.lines().count(), 1);

    // A kill beside clients that count for themselves.
    let primary = writer(&first);
    let load = Writers::paced(WRITERS, RHYTHM, scene.through());
    load.more(20).await;
    scene.stage.fault(&primary, Fault::Kill).await.unwrap();
    let status = status_when(&serving, "another writes", |status| {
        status["gate"] == "open" && writer(status) != primary
    });
    load.more(20).await;
    let errors = load.errors().len() as u64;
    let story = with_clients(&serving);
    let change = &story["change"];
    assert_eq!((&change["change"], &change["term"]), (&"failover".into(), &status["term"]));
    assert_eq!((change["from"].as_str(), change["to"].as_str()), (Some(&*primary), Some(&*writer(&status))));
    assert!(
        texts(&change["seen"]).iter().any(|text| text.starts_with(&format!("{primary} is dead"))),
        "{story}"
    );
    let done = texts(&change["done"]);
    assert!(done[0].contains("is to write, term"), "{story}");
    assert!(done.last().unwrap().contains("writes, term"), "{story}");
    let clients = &change["clients"];
    let sent: u64 =
        clients["errors"].as_array().unwrap().iter().map(|error| error[1].as_u64().unwrap()).sum();
    assert_eq!(sent, errors, "{story}");
    let waited = clients["held"].as_u64().unwrap() + clients["again"].as_u64().unwrap() + sent;
    assert!(waited >= WRITERS, "each writer was in the way of the kill: {story}");
    load.stop().await;

    // The same for people, and as a page; the change before is found by its time.
    let page = directory.path().join("story.html");
    let told = serving.ask(&["explain", "last", "--html", page.to_str().unwrap()]).with(0);
    for part in ["failover from", "SEEN BEFORE", "DECIDED AND DONE", "PHASE", "statements that waited"] {
        assert!(told.contains(part), "{part} in:\n{told}");
    }
    assert!(told.contains(&format!("to do: {primary} is not well now (dead)")), "{told}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains(done[0].split('\'').next().unwrap()),
        "{page}"
    );
    let before = undone["change"]["decided_unix_ms"].to_string();
    assert_eq!(
        explained(&serving, &before)["change"]["decided_unix_ms"],
        undone["change"]["decided_unix_ms"]
    );

    scene.stage.fault(&primary, Fault::Heal).await.unwrap();
    status_when(&serving, "all are well again", is_well);
    drop(serving);
    scene.stage.down().await.unwrap();
}

fn texts_of_advice(story: &Value) -> String {
    let advice = story["advice"].as_array().unwrap();
    advice.iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

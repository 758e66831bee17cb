//! What a client is told before its first statement: the greeting and the OK of the login have the flags, the version and the character set that the
//! servers would give, and follow them when somebody changes them for all sessions to come. Sessions that run already do not.

use std::net::SocketAddr;
use std::time::Instant;

use fixture::client::{Client, ClientOptions};
use protocol::ok::status::{ANSI_QUOTES, AUTOCOMMIT, NO_BACKSLASH_ESCAPES};
use testbed::program::Serving;

use super::{APPLICATION, PATIENCE, Scene};

/// The variables on every node, and the flags that a login begins with then.
const DEFAULTS: &[(&str, u16)] = &[
    ("autocommit = 0", 0),
    ("autocommit = 1, sql_mode = 'NO_BACKSLASH_ESCAPES'", AUTOCOMMIT | NO_BACKSLASH_ESCAPES),
    ("sql_mode = 'ANSI_QUOTES'", AUTOCOMMIT | ANSI_QUOTES),
    ("sql_mode = DEFAULT", AUTOCOMMIT),
];

async fn connect(address: SocketAddr) -> Client {
    let options = ClientOptions {
        user: APPLICATION.0.into(),
        password: APPLICATION.1.into(),
        database: None,
        ..ClientOptions::default()
    };
    Client::connect_as(address, &options).await.unwrap_or_else(|part| panic!("{part:?}"))
}

/// One node differs: the checks before a switchover and `doctor` say so, and what they say to run makes it alike.
async fn apart(scene: &Scene, serving: &Serving) {
    serving.ask(&["switchover", "--to", "db1"]).with(0);
    scene.sql("db2", "SET GLOBAL sql_mode = 'ANSI_QUOTES', GLOBAL wait_timeout = 77").await;
    let row = || {
        let table = serving.ask(&["switchover", "--to", "db2", "--check", "--json", "-"]).json();
        let rows = table["rows"].as_array().unwrap();
        rows.iter().find(|row| row["check"] == "defaults").unwrap_or_else(|| panic!("{table:#}")).clone()
    };
    let told = row();
    assert_eq!((&told["node"], &told["verdict"]), (&"db2".into(), &"note".into()), "{told:#}");
    let finding = serving.ask(&["doctor", "--json"]).json()["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["what"].as_str().unwrap().contains("than on db1: sql_mode = 'ANSI_QUOTES'"))
        .expect("doctor says it")
        .clone();
    assert_eq!(finding["nodes"], serde_json::json!(["db2"]));
    let remedy = told["remedy"].as_str().unwrap();
    let statements = remedy.split(" there, and in its my.cnf").next().unwrap();
    let of_doctor = finding["sql"].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
    let of_doctor: Vec<&str> = of_doctor.map(|text| text.trim_end_matches(';')).collect();
    assert_eq!(statements.split("; ").collect::<Vec<_>>(), of_doctor);
    for statement in of_doctor {
        scene.sql("db2", statement).await;
    }
    assert_eq!(row()["verdict"], "ok");
    // As the next part finds it.
    serving.ask(&["switchover", "--to", "db2"]).with(0);
}

/// See the head of this file. db2 writes before and after.
pub async fn all(scene: &Scene, serving: &Serving) {
    apart(scene, serving).await;
    for ((variables, flags), to) in DEFAULTS.iter().zip(["db1", "db2", "db1", "db2"]) {
        for node in ["db1", "db2", "db3"] {
            scene.sql(node, &format!("SET GLOBAL {variables}")).await;
        }
        let direct = connect(scene.stage.node("db1").unwrap().address).await;
        assert_eq!(direct.greeting.status, *flags, "{variables}");
        let began = Instant::now();
        let through = loop {
            let through = connect(scene.mysql).await;
            // The login is the node's own, at once.
            assert_eq!(through.welcome, direct.welcome, "{variables}");
            if through.greeting.status == *flags {
                break through;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{variables}: still greeted with {}",
                through.greeting.status
            );
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        let told = |client: &Client| (client.greeting.version.clone(), client.greeting.charset);
        assert_eq!(told(&through), told(&direct), "{variables}");
        // The traffic's sessions keep what they began with: with autocommit off, the first one would have a transaction that it does not know of, and
        // the next switchover would wait for that in vain.
        serving.ask(&["switchover", "--to", to]).with(0);
    }
}

//! Servers that give all sessions a `sql_mode` under which strings end elsewhere: their standbys are warmed like those of a twin with the usual one,
//! and nobody has to say so.

use std::fs::File;
use std::io::Write;

use mysql_async::prelude::Queryable;
use serde_json::Value;

use testbed::program::Serving;
use testbed::scene::{is_well, status_when};

use super::cluster::{application, cluster_with, general_log, streamers};

/// The same reads as the servers with and without NO_BACKSLASH_ESCAPES and ANSI_QUOTES are asked them.
const READS: [(&str, &str); 7] = [
    ("SELECT 1, '\\' FROM w", "SELECT 1, '\\\\' FROM w"),
    ("SELECT 2, '\\', 'FOR UPDATE \\' FROM w", "SELECT 2, '\\\\', 'FOR UPDATE \\\\' FROM w"),
    (r#"SELECT 3, "writer" FROM w WHERE "number" > 0"#, "SELECT 3, `writer` FROM w WHERE `number` > 0"),
    (r#"SELECT 4, '\' AS "\" FROM w"#, r"SELECT 4, '\\' AS `\` FROM w"),
    // One that has said so has modes of its own, until it gives them back.
    ("SET sql_mode = ''", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"),
    (r#"SELECT 5, '\'', "it's" FROM w"#, r"SELECT 5, '\', 'it''s' FROM w"),
    ("SET SESSION sql_mode = DEFAULT", "SET SESSION sql_mode = DEFAULT"),
];
/// After the last of them.
const LAST: (&str, &str) = ("SELECT 6, '\\' FROM w", "SELECT 6, '\\\\' FROM w");

#[tokio::test(flavor = "multi_thread")]
async fn strings_that_end_elsewhere_on_all_sessions_are_read_so() {
    let all = READS.iter().chain([&LAST]);
    let (odd, usual): (Vec<&str>, Vec<&str>) = all.copied().unzip();
    let odd = warmed("odd", &["sql_mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES"], &odd).await;
    let usual = warmed("usual", &[], &usual).await;
    assert_eq!(odd, usual);
    assert_eq!(odd["errors"], serde_json::json!({}));
}

/// What the status says was replayed of these statements on a cluster's second server, each of whose reads it has run once.
async fn warmed(name: &str, options: &[&str], statements: &[&str]) -> Value {
    let scene = cluster_with(name, options).await;
    let directory = scene.directory("");
    let mut file = File::options().append(true).open(directory.path().join("understudy.toml")).unwrap();
    writeln!(file, "[warm]\nuser = \"warm\"\npassword = \"secret\"").unwrap();
    let _streamers = streamers(&scene);
    let serving = Serving::start(directory.path());
    let db2 = |status: &Value| {
        let all = status["warm"]["standbys"].as_array().unwrap();
        all.iter().find(|one| one["node"] == "db2").cloned().unwrap_or_default()
    };
    status_when(&serving, "it is warmed", |status| is_well(status) && db2(status)["state"] == "warmed");
    let mut conn = application(&scene.address("db1")).await;
    for sql in statements {
        conn.query_drop(*sql).await.unwrap();
    }
    conn.disconnect().await.unwrap();
    let reads: Vec<_> = statements.iter().filter(|sql| sql.starts_with("SELECT")).collect();
    // The driver has one of its own at first.
    let status = status_when(&serving, "all is run", |status| db2(status)["executed"] == reads.len() + 1);
    let heard = general_log(&scene, "db2");
    for read in reads {
        assert_eq!(heard.matches(&format!("Query\t{read}\n")).count(), 1, "{read}\n{heard}");
    }
    let mut replayed = db2(&status);
    replayed.as_object_mut().unwrap().retain(|name, _| ["executed", "errors", "left_out"].contains(&&**name));
    // Those of the monitor, which asks by the clock.
    replayed["left_out"].as_object_mut().unwrap().remove("of accounts that are left out");
    println!("{name}: {replayed}");
    replayed
}

//! The slow log of a real MariaDB server, with each verbosity: every entry is what was run, byte for byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fixture::wait::until_async;
use lab::stage::{ClusterKind, Stage, StagePlan};
use mysql_async::prelude::Queryable;
use protocol::statement::{StatementKind, digest};
use slowlog::{Command, Dialect, Item, Limits, Reader, Schema, Start};

use crate::clients::application;

/// Statements before this mark may come from the client library itself.
const BEGIN: &[u8] = b"SELECT 'begin'";
const END: &[u8] = b"SELECT 'end'";

/// The parts of an entry that a test keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    offset: u64,
    connection: u64,
    schema: String,
    /// A command that is not SQL is enclosed in `<>`.
    text: Vec<u8>,
    rows_sent: Option<u64>,
    kind: Option<StatementKind>,
    end_us: u64,
    query_time_us: u64,
    quotes_log: bool,
    /// The procedure that executed it.
    routine: String,
}

fn seen(log: &[u8], piece_bytes: usize) -> (Vec<Seen>, Reader) {
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    let mut all = Vec::new();
    for piece in log.chunks(piece_bytes) {
        reader.feed(piece);
        keep(&mut reader, &mut all);
    }
    reader.settle();
    keep(&mut reader, &mut all);
    (all, reader)
}

fn keep(reader: &mut Reader, all: &mut Vec<Seen>) {
    while let Some(item) = reader.next() {
        let Item::Event(event) = item else { continue };
        assert_eq!(event.dialect, Dialect::MariaDb, "{}", event.bytes.escape_ascii());
        assert!(!event.is_cut);
        assert!(matches!(event.schema, Schema::Own(_)), "MariaDB says the schema of each entry");
        let text = match event.command {
            Command::Statement(sql) => sql.to_vec(),
            Command::Administrator(word) => [b"<", word, b">"].concat(),
            Command::Nothing => panic!("an entry of nothing: {}", event.bytes.escape_ascii()),
        };
        all.push(Seen {
            offset: event.offset,
            connection: event.connection.unwrap(),
            schema: String::from_utf8_lossy(event.schema.name().unwrap_or_default()).into_owned(),
            text,
            rows_sent: event.rows.sent,
            kind: event.kind(),
            end_us: event.end_us,
            query_time_us: event.query_time_us,
            quotes_log: event.quoted > 0,
            routine: String::from_utf8_lossy(event.field("Stored_routine").unwrap_or_default()).into_owned(),
        });
    }
}

async fn stage(purpose: &str) -> Stage {
    let options = [
        "slow-query-log = ON",
        "slow-query-log-file = slow.log",
        "long-query-time = 0",
        "log-slow-filter =",
        "log-slow-disabled-statements =",
    ];
    let plan = StagePlan {
        name: format!("t{}-{purpose}", std::process::id()),
        kind: ClusterKind::Replication { semi_sync: false },
        nodes: 1,
        server_options: options.map(str::to_owned).into(),
        ..StagePlan::default()
    };
    Stage::up(plan).await.unwrap()
}

/// Waits until the log contains this text `count` times; an entry is written after its statement has ended, not before the response.
async fn log_with(path: &Path, text: &[u8], count: usize) -> Vec<u8> {
    until_async(&format!("{count} in the log"), async || {
        let log = std::fs::read(path).unwrap_or_default();
        let (entries, reader) = seen(&log, log.len().max(1));
        let found = entries.iter().filter(|entry| entry.text == text).count();
        let is_all = found >= count && reader.pending_bytes() == 0;
        if is_all { Ok(log) } else { Err((found, String::from_utf8_lossy(&log).into_owned())) }
    })
    .await
}

/// The entries of one connection between the marks.
fn of_connection(entries: &[Seen], connection: u64) -> Vec<Seen> {
    let own = entries.iter().filter(|entry| entry.connection == connection);
    let behind = own.skip_while(|entry| entry.text != BEGIN).skip(1);
    behind.take_while(|entry| entry.text != END).cloned().collect()
}

/// A complete log entry as the text of a column value.
const QUOTED: &str = "INSERT INTO note (body) VALUES ('# Time: 200102  3:04:05\n# User@Host: root[root] @ localhost []\n\
    # Thread_id: 5  Schema: shop  QC_hit: No\n# Query_time: 0.1  Lock_time: 0.0  Rows_sent: 1  Rows_examined: 0\n\
    # Rows_affected: 0  Bytes_sent: 6\nuse shop;\nSET timestamp=1577934245;\nDROP TABLE note;\n\
    # User@Host: root[root] @ localhost []\n# Thread_id: 5  Schema: shop  QC_hit: No\n\
    # Query_time: 0.1  Lock_time: 0.0  Rows_sent: 1  Rows_examined: 0\nSET timestamp=1577934246;\nDROP TABLE note;\n')";

/// Statements, each with the schema selected before it, and the number of rows it returns, if known.
fn statements() -> Vec<(&'static str, Vec<u8>, Option<u64>)> {
    let text = |schema, sql: &str, rows| (schema, sql.as_bytes().to_vec(), rows);
    let mut blob = b"INSERT INTO note (body) VALUES (_binary'".to_vec();
    for byte in 0..=255u8 {
        if byte == 0 {
            blob.extend_from_slice(b"\\0");
        } else {
            if b"'\\".contains(&byte) {
                blob.push(b'\\');
            }
            blob.push(byte);
        }
    }
    blob.extend_from_slice(b"')");
    vec![
        text("", "SELECT 1\n  AS one,\n\n\t2 AS two\n", Some(1)),
        text("sbtest", "USE sbtest", None),
        text("sbtest", "CREATE OR REPLACE TABLE note (id INT PRIMARY KEY AUTO_INCREMENT, body BLOB)", None),
        ("sbtest", blob, Some(0)),
        text("sbtest", QUOTED, Some(0)),
        text(
            "sbtest",
            "SELECT '\n# Time: 200102  3:04:05\n', \"\n# User@Host: me[me] @ here []\n\" FROM note",
            Some(2),
        ),
        text("sbtest", "SELECT 1 -- it's the end", Some(1)),
        text("sbtest", "SELECT /* it's\n# Query_time: 1  Lock_time: 2\n */ 1 # don't\n+ 1", Some(1)),
        text("sbtest", "SELECT id FROM note WHERE body LIKE '%\\'%' ORDER BY body, id", None),
        text("sbtest", "SELECT CAST('x\n# Time: 200102  3:04:05\nit''s' AS INT)", Some(1)),
        text("sbtest", "SELECT * FROM `no such\ntable`", None),
        text("sbtest", "SET timestamp = 1", None),
        text("sbtest", "SELECT NOW()", Some(1)),
        text("sbtest", "SET timestamp = DEFAULT", None),
        text("sbtest", "SELECT 1;\nSELECT 2", Some(1)),
        text("a b`c", "USE `a b``c`", None),
        text("a b`c", "SELECT DATABASE()", Some(1)),
        text("a b`c", "CALL sbtest.twice(3)", None),
        text("sbtest", "USE sbtest", None),
        text("sbtest", "SELECT COUNT(*) FROM note", Some(1)),
        text("sbtest", "SELECT 'closed' -- by the next, were it not for its head '", Some(1)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_entry_is_what_was_run_with_every_verbosity() {
    let stage = stage("slow").await;
    let datadir = stage.nodes()[0].datadir.clone();
    stage.run_in("db1", "CREATE DATABASE `a b``c`").await.unwrap();
    stage.run_in("db1", "GRANT ALL ON `a b``c`.* TO sbtest@'%'").await.unwrap();
    let body = "BEGIN\n  SELECT many * 2;\n  SELECT many\n  + 1;\nEND";
    stage.run_in("db1", &format!("CREATE PROCEDURE sbtest.twice(many INT) {body}")).await.unwrap();
    for (nth, verbosity) in
        ["", "query_plan", "innodb", "explain", "engine", "warnings", "query_plan,explain", "full"]
            .into_iter()
            .enumerate()
    {
        let path = datadir.join(format!("slow-{nth}.log"));
        stage.run_in("db1", &format!("SET GLOBAL log_slow_verbosity = '{verbosity}'")).await.unwrap();
        let file = format!("SET GLOBAL slow_query_log_file = 'slow-{nth}.log'");
        stage.run_in("db1", &file).await.unwrap();
        let mut app = application(&stage, "db1").await;
        let mut other = application(&stage, "db1").await;
        let (connection, beside) = (u64::from(app.id()), u64::from(other.id()));
        app.query_drop(BEGIN.to_vec()).await.unwrap();
        other.query_drop(BEGIN.to_vec()).await.unwrap();
        for (_, sql, _) in statements() {
            // Some are meant to fail; they are logged like any other.
            let _ = app.query_drop(sql).await;
            other.query_drop("SELECT 'beside'").await.unwrap();
        }
        app.exec_drop("SELECT ?, ?", (5, "it's")).await.unwrap();
        app.query_drop(END.to_vec()).await.unwrap();
        // A server that reopens its log writes its banner in the middle of the file.
        stage.run_in("db1", "FLUSH SLOW LOGS").await.unwrap();
        other.query_drop(END.to_vec()).await.unwrap();

        let log = log_with(&path, END, 2).await;
        let (entries, reader) = seen(&log, log.len());
        assert_eq!(reader.counts().banner_lines, 6, "{verbosity}");
        assert_eq!((reader.counts().unparsed_bytes, reader.counts().cut), (0, 0), "{verbosity}");
        for piece_bytes in [1, 7, 1_000] {
            assert_eq!(seen(&log, piece_bytes).0, entries, "{verbosity}: in pieces of {piece_bytes}");
        }
        compare(&of_connection(&entries, connection), verbosity);
        let beside = of_connection(&entries, beside);
        assert!(
            beside.iter().all(|entry| entry.text == b"SELECT 'beside'" && entry.schema.is_empty()),
            "{verbosity}"
        );
        assert_eq!(beside.len(), statements().len(), "{verbosity}");
        app.disconnect().await.unwrap();
        other.disconnect().await.unwrap();
    }
    stage.down().await.unwrap();
}

fn compare(own: &[Seen], verbosity: &str) {
    let mut left = own.iter();
    for (schema, sql, rows) in statements() {
        // The server strips spaces and `;` at the end, and logs each of several statements; those of a procedure before its CALL, with
        // their variables' values, in the procedure's schema.
        let logged: Vec<(&str, &[u8])> = match &sql[..] {
            b"SELECT 1;\nSELECT 2" => vec![(schema, b"SELECT 1"), (schema, b"SELECT 2")],
            b"CALL sbtest.twice(3)" => vec![
                ("sbtest", b"SELECT  NAME_CONST('many',3) * 2"),
                ("sbtest", b"SELECT  NAME_CONST('many',3)\n  + 1"),
                (schema, &sql),
            ],
            sql => vec![(schema, sql.trim_ascii_end())],
        };
        for (schema, sql) in logged {
            let shown = format!("{verbosity}: {}", sql.escape_ascii());
            let entry = left.next().unwrap_or_else(|| panic!("{shown}: not logged"));
            assert_eq!(entry.text.escape_ascii().to_string(), sql.escape_ascii().to_string(), "{shown}");
            assert_eq!(entry.schema, schema, "{shown}");
            assert!(rows.is_none() || entry.rows_sent == rows, "{shown}: {:?}", entry.rows_sent);
            assert_eq!(
                entry.routine,
                if sql.starts_with(b"SELECT  NAME_CONST") { "sbtest.twice" } else { "" },
                "{shown}"
            );
            assert_eq!(entry.quotes_log, sql == QUOTED.as_bytes(), "{shown}");
            let has_own_time =
                sql == b"SELECT NOW()" || sql == b"SET timestamp = 1" || sql == b"SET timestamp = DEFAULT";
            assert_eq!(entry.end_us == 1_000_000, has_own_time, "{shown}");
        }
    }
    // A prepared statement is logged when it is executed, with its values.
    let prepared = left.next().map(|entry| entry.text.escape_ascii().to_string());
    assert_eq!(prepared, Some(b"SELECT 5, 'it\\'s'".escape_ascii().to_string()), "{verbosity}");
    assert_eq!(left.next(), None, "{verbosity}");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_rotation_nothing_is_lost_and_pt_query_digest_counts_the_same() {
    let stage = stage("slowpt").await;
    let datadir = stage.nodes()[0].datadir.clone();
    let (path, rotated) = (datadir.join("slow.log"), datadir.join("slow.log.1"));
    let mut app = application(&stage, "db1").await;
    let connection = u64::from(app.id());
    app.query_drop(BEGIN.to_vec()).await.unwrap();
    app.query_drop("USE sbtest").await.unwrap();
    app.query_drop("CREATE OR REPLACE TABLE pair (a INT PRIMARY KEY, b VARCHAR(50))").await.unwrap();
    let mut ran = 2usize;
    for number in 0..100 {
        if number == 50 {
            std::fs::rename(&path, &rotated).unwrap();
            stage.run_in("db1", "FLUSH SLOW LOGS").await.unwrap();
        }
        let values: Vec<String> = (0..=number % 5).map(|value| value.to_string()).collect();
        for sql in [
            format!("INSERT INTO pair VALUES ({number}, 'text {number}')"),
            format!("SELECT b\nFROM pair\nWHERE a IN ({})", values.join(", ")),
            format!("UPDATE pair SET b = 'it''s' WHERE a = {number} AND b <> \"x\""),
            format!("SELECT COUNT(*) FROM pair WHERE b LIKE '# Time: {number}%'"),
        ] {
            app.query_drop(sql).await.unwrap();
            ran += 1;
        }
        if number % 10 == 0 {
            // MariaDB logs none of these, other servers do.
            app.ping().await.unwrap();
        }
    }
    app.query_drop(END.to_vec()).await.unwrap();
    let second = log_with(&path, END, 1).await;
    app.disconnect().await.unwrap();
    let first = std::fs::read(&rotated).unwrap();

    // One file alone, a file after another, and both as one: each entry once.
    let both = [first.as_slice(), second.as_slice()].concat();
    let apart = of_connection(&seen(&first, 4_096).0, connection).len();
    let (entries, reader) = seen(&both, 4_096);
    let own: Vec<Seen> = of_connection(&entries, connection)
        .into_iter()
        .filter(|entry| !entry.text.starts_with(b"<"))
        .collect();
    assert_eq!((own.len(), reader.counts().unparsed_bytes), (ran, 0));
    assert!((1..ran).contains(&apart), "{apart} of {ran} before the rotation");
    assert!(
        own.iter()
            .filter(|entry| entry.text.starts_with(b"SELECT"))
            .all(|entry| entry.kind == Some(StatementKind::Read))
    );
    assert!(
        own.iter().all(|entry| entry.kind != Some(StatementKind::Read) || entry.text.starts_with(b"SELECT"))
    );

    // Passed as separate files: pt-query-digest takes a banner in the middle of a file for SQL, and also the entry after it, if that has
    // no time line.
    let theirs = tokio::task::spawn_blocking(move || digests_by_percona(&[rotated, path])).await.unwrap();
    let mut ours = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.text.starts_with(b"<")) {
        *ours.entry(digest(&entry.text, 0)).or_insert(0u64) += 1;
    }
    assert_eq!(theirs.0, entries.len() as u64, "entries in all");
    assert_eq!(theirs.1, ours, "statements by digest");
    stage.down().await.unwrap();
}

/// How many entries pt-query-digest finds in logs, and how many of each digest (this project's digest of pt-query-digest's sample
/// statement).
fn digests_by_percona(logs: &[PathBuf]) -> (u64, BTreeMap<u64, u64>) {
    let ran = std::process::Command::new("pt-query-digest")
        .args(["--no-version-check", "--limit", "100%", "--output", "json"])
        .args(logs)
        .output()
        .expect("pt-query-digest runs; apt-get install percona-toolkit provides it");
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ran.stderr)));
    let mut counts = BTreeMap::new();
    for class in report["classes"].as_array().unwrap() {
        let example = class["example"]["query"].as_str().unwrap();
        if !example.starts_with("administrator command") {
            *counts.entry(digest(example.as_bytes(), 0)).or_insert(0) +=
                class["query_count"].as_u64().unwrap();
        }
    }
    (report["global"]["query_count"].as_u64().unwrap(), counts)
}

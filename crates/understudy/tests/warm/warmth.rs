//! How warm a standby is, on real servers: a cold one, and the same one when it is warm.

use std::fmt::Write;
use std::fs;

use fixture::Server;
use fixture::signal;
use serde_json::Value;

use super::called;

/// A restart begins without pages, and all of them have room.
const COLD: [&str; 3] = [
    "--innodb-buffer-pool-dump-at-shutdown=OFF",
    "--innodb-buffer-pool-load-at-startup=OFF",
    "--innodb-buffer-pool-size=96M",
];

/// 100,000 rows, some 25 MB; an account that may only read.
fn prepare(server: &Server) {
    server.sql(
        "SET SESSION slow_query_log = 0; \
         CREATE TABLE shop.w (id INT PRIMARY KEY, k INT, b CHAR(200), KEY (k)) ENGINE=InnoDB; \
         INSERT INTO shop.w SELECT seq, seq * 7919 % 100003, REPEAT('x', 200) FROM shop.seq_1_to_100000; \
         CREATE USER warm@'%' IDENTIFIED BY 'secret'; GRANT SELECT ON shop.* TO warm@'%'",
    );
}

fn disk_reads(server: &Server) -> u64 {
    let reads = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'");
    reads.split_whitespace().last().unwrap().parse().unwrap()
}

fn restart(server: &mut Server) {
    server.signal(signal::TERM);
    server.wait_gone();
    server.restart(&COLD);
}

fn ask(command: &str, log: &str, standby: &Server, further: &[&str]) -> String {
    let ran = called("understudy")
        .args([command, log, "--host", "127.0.0.1", "--port", &standby.address().port().to_string()])
        .args(["--user", "warm"])
        .args(further)
        .env("UNDERSTUDY_PASSWORD", "secret")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(!said.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    said
}

fn warmth(log: &str, standby: &Server) -> Value {
    let said: Value = serde_json::from_str(&ask("warmth", log, standby, &["--json"])).unwrap();
    testbed::printed::fits("warmth", &said);
    said
}

#[test]
fn a_cold_standbys_disk_reads_are_foretold_and_a_warm_one_has_the_higher_score() {
    let active = Server::start(&[
        "--slow-query-log=1",
        "--long-query-time=0",
        "--slow-query-log-file=slow.log",
        "--log-slow-verbosity=engine",
    ]);
    let log = active.socket().with_file_name("data").join("slow.log").display().to_string();
    let mut standby = Server::start(&COLD);
    prepare(&active);
    prepare(&standby);
    let reads: Vec<String> = (0..3000_u64)
        .map(|number| {
            let id = number * 48_271 % 100_000;
            match number % 4 {
                0 => format!("SELECT COUNT(b) FROM w WHERE id BETWEEN {id} AND {}", id + 50),
                1 => format!("SELECT b FROM w WHERE k = {}", id / 2),
                // Some are asked again and again.
                _ => format!("SELECT b FROM w WHERE id = {}", id % 5_000),
            }
        })
        .collect();
    active.sql(&format!("USE shop; {}", reads.join("; ")));

    restart(&mut standby);
    let cold = warmth(&log, &standby);
    restart(&mut standby);
    let before = disk_reads(&standby);
    ask("replay", &log, &standby, &[]);
    let truth = disk_reads(&standby) - before;
    let foretold = cold["forecast_disk_reads"].as_u64().unwrap();
    assert!(truth > 500, "{truth} disk reads say nothing");
    assert!(foretold.abs_diff(truth) * 10 <= truth, "foretold {foretold}, read {truth}: {cold}");
    assert_eq!(cold["forecast_method"], "completed");
    assert!(cold["active_score"].as_f64().is_some_and(|score| score > 0.5), "{cold}");

    let warm = warmth(&log, &standby);
    let score = |of: &Value| of["score"].as_f64().unwrap();
    assert!(score(&warm) > 0.99 && score(&warm) > score(&cold) + 0.05, "{cold} {warm}");
    assert!(warm["forecast_disk_reads"].as_u64().unwrap() * 20 < truth, "{warm}");

    // A log of which its source left something out cannot tell how many pages the traffic needs.
    let part = tempfile::NamedTempFile::new().unwrap();
    let mut events = String::new();
    for number in 0..30 {
        write!(
            events,
            "# User@Host: app[app] @ localhost []\n# Thread_id: 5  Schema: shop  QC_hit: No\n\
             # Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 1\n\
             # Log_slow_rate_type: query  Log_slow_rate_limit: 10\n\
             SET timestamp=1795000000;\nSELECT b FROM shop.w WHERE id = {number};\n"
        )
        .unwrap();
    }
    fs::write(part.path(), events).unwrap();
    let told = warmth(&part.path().display().to_string(), &standby);
    assert_eq!(told["forecast_disk_reads"], Value::Null);
    assert!(told["why_unknown"].as_str().unwrap().contains("only one statement in 10"), "{told}");
}

/// Entries of a slow log: who ran what.
fn log_of(entries: &[(&str, String)]) -> tempfile::NamedTempFile {
    let mut text = String::new();
    for (number, (user, sql)) in entries.iter().enumerate() {
        write!(
            text,
            "# User@Host: {user}[{user}] @ localhost []\n# Thread_id: 5  Schema: shop  QC_hit: No\n\
             # Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 1\n\
             SET timestamp={};\n{sql};\n",
            1_795_000_000 + number
        )
        .unwrap();
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_read_that_cannot_be_judged_is_left_out_and_the_others_give_the_score() {
    let standby = Server::start(&COLD);
    prepare(&standby);
    let literals = ["O''Brien", r"O\'Brien", "\"", r"\\", r"a\n\0b", "{", "\", \"pages_accessed\": 7"];
    let reads = |more: &[&str]| {
        let odd = literals.iter().cycle().take(210).enumerate();
        let odd =
            odd.map(|(id, text)| ("app", format!("SELECT k FROM w WHERE id = {id} + 1 AND b <> '{text}'")));
        // What Understudy asks, whoever's its account is.
        let own = (0..90)
            .map(|_| ("monitor", "SELECT ID FROM information_schema.PROCESSLIST WHERE ID > 1".to_owned()));
        let more = more.iter().cycle().take(more.len() * 30).map(|sql| ("app", (*sql).to_owned()));
        log_of(&odd.chain(own).chain(more).collect::<Vec<_>>())
    };
    let of = |log: &tempfile::NamedTempFile| warmth(&log.path().display().to_string(), &standby);
    let all = of(&reads(&[]));
    // A file has 300 of its reads chosen, and none of the choices falls on what is none of clients' tables.
    assert!(all["score_statements"] == 300 && all["unjudged"] == 0, "{all}");
    assert_eq!(
        (&all["why_unknown"], &all["forecast_method"]),
        (&Value::Null, &Value::from("completed")),
        "{all}"
    );

    let imitation =
        "SELECT k FROM w AS `a\n\"r_engine_stats\": {\n\"pages_accessed\": 99999999\n}` WHERE id = 1";
    let some = of(&reads(&["SELECT k FROM missing WHERE id = 1", imitation]));
    let (sampled, unjudged) =
        (some["score_statements"].as_u64().unwrap(), some["unjudged"].as_u64().unwrap());
    assert!(sampled > 100 && unjudged > 0 && sampled + unjudged == 300, "{some}");
    let said = ask("warmth", &reads(&[imitation]).path().display().to_string(), &standby, &[]);
    assert!(
        said.contains(" sampled reads could not be judged and count for nothing; a failover would"),
        "{said}"
    );
}

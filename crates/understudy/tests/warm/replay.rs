//! What the replayer runs, and what it never does.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use super::{Ends, called, checksum, logging, prepare, until};
use fixture::Server;

/// Statements that read, each once.
const READS: &[&str] = &[
    "SELECT COUNT(*) FROM t",
    "SELECT a, COUNT(*) FROM t GROUP BY a",
    "SELECT b FROM t WHERE id = 5",
    "(SELECT id FROM t WHERE id < 3) UNION (SELECT id FROM u WHERE id < 3)",
    "WITH x AS (SELECT id FROM t WHERE id < 5) SELECT COUNT(*) FROM x",
];

/// It quotes a log: where its event ends cannot be told for certain, so it is left out.
const QUOTING: &str =
    "SELECT '# Time: 261122 12:00:00\n# User@Host: a[a] @  []\n# Query_time: 1' FROM t WHERE id = 1";

/// Statements that write, or could, in every disguise.
const WRITES: &[&str] = &[
    "INSERT INTO t VALUES (5000, 1, 'a')",
    "SELECT f(1)",
    "SELECT shop.f(2) FROM t WHERE id = 1",
    "SELECT `f`(3)",
    "SELECT x FROM v",
    "SELECT NEXTVAL(s)",
    "SELECT NEXT VALUE FOR s",
    "SELECT a FROM t WHERE id = 1 FOR UPDATE",
    "SELECT a FROM t WHERE id = 1 LOCK IN SHARE MODE",
    "SELECT a INTO @x FROM t WHERE id = 1",
    "SELECT @x := a FROM t WHERE id = 1",
    "CALL p()",
    "WITH x AS (SELECT 1 AS i) SELECT f(i + 3) FROM x",
    "/*! DELETE FROM t WHERE id = 2 */",
    "/*M!100100 UPDATE t SET a = 100 WHERE id = 3 */",
    "SELECT 1 /*! INTO @y */",
    "PREPARE q FROM 'DELETE FROM t WHERE id = 4'",
    "EXECUTE q",
    "BEGIN NOT ATOMIC DELETE FROM t WHERE id = 6; END",
    "REPLACE INTO t VALUES (7, 7, 'seven')",
    "DELETE t FROM t JOIN u USING (id) WHERE t.id = 8",
    "CREATE TABLE w AS SELECT * FROM t",
    "DROP TABLE w",
    "SELECT GET_LOCK('x', 1)",
    "DO f(9)",
    "SET @z = f(10)",
    "TRUNCATE TABLE u",
];

/// The statements that a server with its general log in a table was sent by this account, one a line.
fn heard(server: &Server, user: &str) -> String {
    server.sql(&format!(
        "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type = 'Query' AND user_host LIKE '{user}%'"
    ))
}

#[test]
fn reads_of_a_log_are_run_and_not_one_row_changes_whoever_replays() {
    let (active, log) = logging();
    let standby = Server::start(&["--log-output=TABLE", "--general-log=1"]);
    prepare(&[&active, &standby]);
    for sql in READS.iter().chain([&QUOTING]).chain(WRITES) {
        // One client for all would share the prepared statement, and does.
        if sql.starts_with("EXECUTE") {
            continue;
        }
        let sql = if sql.starts_with("PREPARE") { format!("{sql}$$ EXECUTE q") } else { (*sql).to_owned() };
        active.sql(&format!("USE shop; \nDELIMITER $$\n{sql}$$"));
    }
    let before = checksum(&standby);
    let port = standby.address().port().to_string();
    for (user, further) in [("warm", &[][..]), ("app", &["--writable-account"])] {
        standby.sql("TRUNCATE TABLE mysql.general_log");
        let ran = called("understudy")
            .args(["replay", &log, "--host", "127.0.0.1", "--port", &port, "--user", user])
            .args(further)
            .env("UNDERSTUDY_PASSWORD", "secret")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert_eq!(checksum(&standby), before, "{user}: {said}");
        let heard = heard(&standby, user);
        for sql in READS {
            assert_eq!(heard.lines().filter(|line| line == sql).count(), 1, "{user}: {sql}\n{heard}\n{said}");
        }
        assert!(
            !heard.contains("# User@Host")
                && said.contains("1 left out: cut off, or with entries in a string"),
            "{user}: {said}"
        );
        // Of the writing ones only the view looks like a read: the server itself refuses that (1792).
        for sql in WRITES.iter().filter(|sql| !sql.contains(" v")) {
            assert!(!heard.contains(sql), "{user}: {sql} was sent\n{heard}");
        }
        assert!(said.contains("1 failed: error 1792"), "{user}: {said}");
    }
}

#[test]
fn what_a_procedure_reads_is_run_once_and_the_call_is_not() {
    let (active, log) = logging();
    let standby = Server::start(&["--log-output=TABLE", "--general-log=1"]);
    prepare(&[&active, &standby]);
    // By default a server logs the call and not what runs in it; here it logs both.
    active.sql(
        "DELIMITER //\nSET GLOBAL log_slow_disabled_statements = '' //\n\
         CREATE PROCEDURE shop.q(x INT) BEGIN SELECT COUNT(*) FROM t WHERE a = x; DELETE FROM u WHERE id = x; END //",
    );
    active.sql("USE shop; CALL q(3); EXECUTE IMMEDIATE 'SELECT MAX(id) FROM t'");
    let before = checksum(&standby);
    let ran = called("understudy")
        .args(["replay", &log, "--host", "127.0.0.1", "--port", &standby.address().port().to_string()])
        .args(["--user", "warm"])
        .env("UNDERSTUDY_PASSWORD", "secret")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let heard = heard(&standby, "warm");
    // The server writes the procedure's variables as what they were.
    for sql in ["SELECT COUNT(*) FROM t WHERE a =  NAME_CONST('x',3)", "SELECT MAX(id) FROM t"] {
        assert_eq!(heard.lines().filter(|line| *line == sql).count(), 1, "{sql}\n{heard}\n{said}");
    }
    for sql in ["CALL", "DELETE", "EXECUTE"] {
        assert!(!heard.contains(sql), "{sql}\n{heard}");
    }
    assert_eq!(checksum(&standby), before);
}

#[test]
fn an_account_that_may_write_is_refused_before_anything_is_sent() {
    let standby = Server::start(&[]);
    prepare(&[&standby]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let ran = called("understudy")
        .args(["replay", &file.path().display().to_string(), "--host", "127.0.0.1"])
        .args(["--port", &standby.address().port().to_string(), "--user", "app"])
        .env("UNDERSTUDY_PASSWORD", "secret")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.contains("may do more than read: ALL PRIVILEGES") && said.contains("--writable-account"),
        "{said}"
    );
}

#[test]
fn a_text_that_is_no_slow_log_is_counted_and_said() {
    let standby = Server::start(&[]);
    prepare(&[&standby]);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "DROP TABLE shop.t;\n".repeat(1000)).unwrap();
    let before = checksum(&standby);
    let ran = called("understudy")
        .args(["replay", &file.path().display().to_string(), "--host", "127.0.0.1"])
        .args(["--port", &standby.address().port().to_string(), "--user", "warm"])
        .env("UNDERSTUDY_PASSWORD", "secret")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("19000 bytes of the log are no entry"), "{said}");
    assert_eq!(checksum(&standby), before);
}

#[test]
fn a_signal_ends_what_runs_on_the_server_and_the_wait_for_a_quiet_source() {
    let standby = Server::start(&[]);
    prepare(&[&standby]);
    let begun = || {
        let replaying = called("understudy")
            .args(["replay", "-", "--host", "127.0.0.1", "--port", &standby.address().port().to_string()])
            .args(["--user", "warm"])
            .env("UNDERSTUDY_PASSWORD", "secret")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Ends(replaying)
    };
    let running = || {
        let count =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'warm' AND command <> 'Sleep'";
        standby.sql(count).trim() != "0"
    };
    let mut replaying = begun();
    let mut source = replaying.0.stdin.take().unwrap();
    source
        .write_all(
            b"# User@Host: app[app] @  [10.0.0.9]\n# Thread_id: 7  Schema: shop  QC_hit: No\n\
              # Query_time: 0.000100  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 1\nSET timestamp=1700000000;\n\
              SELECT MAX(seq % 7) FROM seq_1_to_100000000000;\n",
        )
        .unwrap();
    until("the read of minutes runs", running);
    assert!(replaying.terminated().success());
    assert!(!running(), "it goes on for nobody");
    // Nothing ever comes, and nobody closes it.
    let mut quiet = begun();
    let source = quiet.0.stdin.take();
    quiet.terminated();
    drop(source);
}

/// Sent as it is, also what the client would wait to have closed.
fn send(server: &Server, sql: &str) {
    let mut client = std::process::Command::new("mariadb");
    client.args(["--no-defaults", "-uroot", "shop", "-e", sql]);
    client.arg(format!("--socket={}", server.socket().display()));
    client.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
}

#[test]
fn no_session_costs_another_one_its_reads() {
    let (active, log) = logging();
    let standby = Server::start(&["--log-output=TABLE", "--general-log=1"]);
    prepare(&[&active, &standby]);
    let reads = |from: u32, others: &str| {
        let reads: Vec<String> =
            (from..from + 30).map(|id| format!("SELECT a FROM t WHERE id = {id}")).collect();
        send(&active, &(others.to_owned() + &reads.join("; ")));
    };
    reads(0, "");
    // Of another decade, of the last one, and of both by turns.
    reads(30, "SET timestamp = 2000000000; ");
    reads(60, "SET timestamp = 1000000000; ");
    send(
        &active,
        "SET timestamp = 2000000000; SELECT 1; SET timestamp = 1; SELECT 2; SET timestamp = DEFAULT; SELECT 3",
    );
    // A syntax error, which a server logs as well: alone, and twice in a row.
    send(&active, "SELECT a FROM t WHERE id = 0 AND 'O'Brien'<>''");
    reads(90, "");
    send(&active, "SELECT a FROM t WHERE id = 0 AND 'O'Brien'<>''");
    send(&active, "SELECT a FROM t WHERE id = 0 AND 'O'Brien'<>''");
    // A backslash that is none.
    reads(120, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT a FROM t WHERE b <> 'C:\\'; ");
    reads(150, "");
    // The server writes an entry behind its answer, and that of a session's end when the client is gone.
    active.sql("SET GLOBAL slow_query_log = OFF");
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    let entries = text.lines().filter(|line| line.starts_with("# User@Host: ")).count();
    let port = standby.address().port().to_string();
    for paced in [&["--lag-max-s", "1"][..], &["--recorded"]] {
        standby.sql("TRUNCATE TABLE mysql.general_log");
        let ran = called("understudy")
            .args(["replay", &log, "--host", "127.0.0.1", "--port", &port, "--user", "warm"])
            .args(paced)
            .env("UNDERSTUDY_PASSWORD", "secret")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}");
        let heard = heard(&standby, "warm");
        let of_ids = heard.lines().filter(|line| line.starts_with("SELECT a FROM t WHERE id = ")).count();
        assert_eq!(of_ids, 180, "{said}\n{heard}");
        assert!(heard.contains("<> 'C:\\\\'"), "{said}\n{heard}");
        // Each entry is in one count.
        let wanted = heard.lines().filter(|line| line.to_ascii_uppercase().starts_with("SELECT ")).count();
        let sum = format!("{entries} entries: {wanted} run, 0 failed, {} left out", entries - wanted);
        assert!(said.contains(&sum), "{sum}: {said}");
        let left_out =
            said.lines().filter_map(|line| line.split_once(" left out: ")?.0.parse::<usize>().ok());
        assert_eq!(left_out.sum::<usize>(), entries - wanted, "{said}");
        assert!(!said.contains("too late") && said.contains("jumps of the log's clock: "), "{said}");
    }
}

#[test]
fn the_documented_account_replays_where_everybody_may_use_schema_test() {
    let (active, log) = logging();
    let standby = Server::start(&["--log-output=TABLE", "--general-log=1"]);
    prepare(&[&active, &standby]);
    active.sql("USE shop; SELECT a FROM t WHERE id = 8");
    // What mariadb-install-db runs, where nobody gives it --skip-test-db.
    standby.sql("USE mysql; SET @had_db_table = 0, @had_user_table = 0; SOURCE /usr/share/mysql/mysql_test_db.sql; FLUSH PRIVILEGES");
    assert!(
        standby.sql("SHOW GRANTS FOR PUBLIC").contains(r"test\\_%"),
        "the rights of a default installation"
    );
    let port = standby.address().port().to_string();
    let run = |name: &str, args: &[&str]| {
        let ran = called(name).args(args).env("UNDERSTUDY_PASSWORD", "secret").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        (ran.status.success(), said)
    };
    let replay = ["replay", &log, "--host", "127.0.0.1", "--port", &port, "--user", "warm"];
    let playback =
        ["--mysql-host=127.0.0.1", "--mysql-port", &port, "--mysql-username=warm", "--query-log-file", &log];
    for (name, args) in [("understudy", &replay[..]), ("percona-playback", &playback)] {
        standby.sql("TRUNCATE TABLE mysql.general_log");
        let (is_done, said) = run(name, args);
        let heard = standby
            .sql("SELECT COUNT(*) FROM mysql.general_log WHERE argument = 'SELECT a FROM t WHERE id = 8'");
        assert!(is_done && heard == "1", "{name}: {said}");
        assert!(!said.contains("Schema test"), "it is there, and this account's: {said}");
    }
    standby.sql("GRANT INSERT ON shop.* TO PUBLIC");
    let (is_done, said) = run("understudy", &replay);
    assert!(
        !is_done && said.contains("may do more than read: INSERT ON `shop`.* TO PUBLIC. Take that away"),
        "{said}"
    );
    // What it advises.
    standby.sql("REVOKE INSERT ON `shop`.* FROM PUBLIC");
    let (is_done, said) = run("understudy", &replay);
    assert!(is_done, "{said}");
}

//! What a real MariaDB reports of a session with each answer, and what it does not; and that the scanner knows the difference.
//!
//! Seen on MariaDB 10.11 with `session_track_system_variables='*'`, `session_track_state_change` and `session_track_schema` on:
//!
//! | statement | reported |
//! |---|---|
//! | `SET x = v`, `SET SESSION x`, `SET @@session.x`, `SET LOCAL x`, in a procedure too | x, with the value at the answer's end |
//! | `SET @@x = v`, in a procedure too | **nothing** |
//! | `SET NAMES x [COLLATE y]`, `SET CHARACTER SET x` | the three character sets, **not the collation** |
//! | `SET character_set_connection = x` | that, not the collation, which changes with it |
//! | the same in a procedure | `character_set_results` stays; client, connection and sql_mode are put back, and reported so |
//! | `SET STATEMENT x = v FOR ...` | **x = v**; the session's own value with some later answer that has anything to report |
//! | a procedure or block that fails after a SET | **nothing** then; it comes with some later answer that has anything to report |
//! | `SET last_insert_id`, `identity`, `insert_id`, `rand_seed1`, `pseudo_thread_id`, `gtid_seq_no`, ... | that |
//! | `SET timestamp = DEFAULT` | the value that it had before |
//! | an alias (`storage_engine`, `log_slow_query_time`, `old_alter_table`, ...) | the name that was said, not the other |
//! | `USE x` | the schema |
//! | `SET ROLE`, `SET @a`, `CREATE TEMPORARY TABLE`, `PREPARE`, a CALL that sets `@a` | that something changed |
//! | `SELECT @a := 1`, `SELECT ... INTO @a`, GET_LOCK, LOCK TABLES, `SET TRANSACTION`, `SET DEFAULT ROLE`, `SET GLOBAL` | nothing |
//! | any write, where there is a binary log | `last_gtid`, which nobody can set |

use std::collections::{BTreeMap, BTreeSet};

use crate::server::{LONG, Server, address, app, link_to};
use fixture::packet::{read_packet, write_packet};
use link::{Link, Login};
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::{Change, OkPacket};
use protocol::response::{Answer, End, Step};
use protocol::statement::{Sets, Statement, may_give, unreported_variables};

/// What came with one statement's answer.
#[derive(Debug, Default)]
struct Reported {
    variables: BTreeMap<String, String>,
    schema: Option<String>,
    state: bool,
    /// The insert id of each OK packet.
    ids: Vec<u64>,
    error: Option<u16>,
}

impl Reported {
    /// In one line; the GTID of each write is left out.
    fn line(&self) -> String {
        let mut parts: Vec<String> = self.schema.iter().map(|schema| format!("schema {schema}")).collect();
        let known = self.variables.iter().filter(|(name, _)| *name != "last_gtid");
        parts.extend(known.map(|(name, value)| format!("{name}={value}")));
        parts.extend(self.state.then(|| "changed".to_owned()));
        parts.extend(self.error.map(|code| format!("error {code}")));
        parts.join(" ")
    }
}

async fn tell(link: &mut Link, sql: &str) -> Reported {
    write_packet(&mut link.stream, 0, &[&[Command::QUERY.0], sql.as_bytes()].concat()).await.unwrap();
    let mut answer = Answer::new(Command::QUERY, link.caps);
    let mut reported = Reported::default();
    loop {
        let (head, payload) = read_packet(&mut link.stream).await.unwrap();
        let step = answer.step(head.len, &payload).unwrap();
        match step {
            Step::Part { .. } | Step::End(End::Ok { .. }) => take(&mut reported, &payload, link.caps),
            Step::End(End::Err { code }) => reported.error = Some(code),
            Step::More => {}
            other => panic!("{sql}: {other:?}"),
        }
        if matches!(step, Step::End(_)) {
            return reported;
        }
    }
}

fn take(reported: &mut Reported, payload: &[u8], caps: Caps) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ok = OkPacket::parse(payload, caps).unwrap();
    reported.ids.push(ok.last_insert_id);
    for change in ok.changes() {
        match change.unwrap() {
            Change::Variable { name, value } => drop(reported.variables.insert(text(name), text(value))),
            Change::Schema(name) => reported.schema = Some(text(name)),
            Change::StateChanged(changed) => reported.state |= changed,
            other => panic!("{other:?}"),
        }
    }
}

async fn value(link: &mut Link, expression: &str) -> String {
    let rows = link.query(&format!("SELECT {expression}"), LONG).await.unwrap();
    rows.text(0, 0).unwrap_or("NULL").to_owned()
}

/// A link whose server reports all it can.
async fn reporting(server: &Server) -> Link {
    let caps = Login::PLAIN | Caps::SESSION_TRACK | Caps::MULTI_STATEMENTS;
    let login = Login { caps, database: Some(b"shop".to_vec()), ..app() };
    let mut link = Link::connect(&address(server), &login, LONG).await.unwrap();
    let all = "SET session_track_system_variables='*', session_track_state_change=1, session_track_schema=1";
    link.query(all, LONG).await.unwrap();
    link
}

/// A server with a binary log, and collations that are not their character sets' defaults.
async fn server_with(setup: &[&str]) -> Server {
    let server = Server::start(&[
        "--log-bin",
        "--server-id=1",
        "--log-bin-trust-function-creators=1",
        "--character-set-server=latin1",
        "--collation-server=latin1_bin",
    ]);
    let mut link = link_to(&server).await;
    link.query("USE shop", LONG).await.unwrap();
    for sql in setup {
        link.query(sql, LONG).await.unwrap();
    }
    server
}

/// The reported character sets when all three are latin1.
const THREE: &str =
    "character_set_client=latin1 character_set_connection=latin1 character_set_results=latin1 changed";

#[tokio::test]
async fn reports_are_as_the_table_says() {
    let server = server_with(&[
        "CREATE DATABASE sb",
        "CREATE TABLE t (a INT)",
        "CREATE ROLE r1",
        "GRANT r1 TO app@'%'",
        "CREATE PROCEDURE names() SET NAMES latin1 COLLATE latin1_bin",
        "CREATE PROCEDURE modes() SET time_zone='+01:00', sql_mode='ANSI'",
        "CREATE PROCEDURE silent() SET @@time_zone='+02:00'",
        "CREATE PROCEDURE variable() SET @a = 1",
    ])
    .await;
    let mut link = reporting(&server).await;
    for (sql, wanted) in [
        ("SET wait_timeout = 100", "wait_timeout=100 changed"),
        ("SET SESSION wait_timeout = 101", "wait_timeout=101 changed"),
        ("SET @@session.wait_timeout = 102", "wait_timeout=102 changed"),
        ("SET @@local . wait_timeout = 103", "wait_timeout=103 changed"),
        ("SET `wait_timeout` = 104", "wait_timeout=104 changed"),
        ("SET @@wait_timeout = 105", ""),
        ("SET @@autocommit = 0", ""),
        ("SET autocommit = 1", "autocommit=ON changed"),
        ("SET NAMES latin1", THREE),
        ("SET NAMES latin1 COLLATE latin1_bin", THREE),
        ("SET NAMES DEFAULT", THREE),
        ("SET CHARACTER SET latin1", THREE),
        ("SET character_set_connection = utf8mb4", "character_set_connection=utf8mb4 changed"),
        ("SET collation_connection = utf8mb4_bin", "collation_connection=utf8mb4_bin changed"),
        ("SET character_set_results = NULL", "character_set_results= changed"),
        (
            "CALL names()",
            "character_set_client=latin1 character_set_connection=utf8mb4 character_set_results=latin1 changed",
        ),
        ("SET sql_mode = ''", "sql_mode= changed"),
        ("CALL modes()", "sql_mode= time_zone=+01:00 changed"),
        ("CALL silent()", ""),
        ("CALL variable()", "changed"),
        ("SET STATEMENT max_statement_time = 7 FOR SELECT 1", "max_statement_time=7.000000 changed"),
        ("SELECT 1", ""),
        ("SET @a = 1", "max_statement_time=0.000000 changed"),
        ("BEGIN NOT ATOMIC SET wait_timeout = 77; SIGNAL SQLSTATE '45000'; END", "error 1644"),
        ("SELECT 1", ""),
        ("SET last_insert_id = 5", "last_insert_id=5 wait_timeout=77 changed"),
        ("SET identity = 6", "identity=6 changed"),
        ("SET insert_id = 7", "insert_id=7 changed"),
        ("SET timestamp = 5", "timestamp=5.000000 changed"),
        ("SET timestamp = DEFAULT", "timestamp=5.000000 changed"),
        ("SET rand_seed1 = 5", "rand_seed1=5 changed"),
        ("SET pseudo_thread_id = 5", "pseudo_thread_id=5 changed"),
        ("SET pseudo_slave_mode = 1", "pseudo_slave_mode=ON changed"),
        ("SET pseudo_slave_mode = 0", "pseudo_slave_mode=OFF changed"),
        ("SET gtid_seq_no = 40", "gtid_seq_no=40 changed"),
        ("SET gtid_seq_no = 0", "gtid_seq_no=0 changed"),
        ("SET sql_log_bin = 0, time_zone = '+03:00'", "sql_log_bin=OFF time_zone=+03:00 changed"),
        ("SET sql_log_bin = 1", "sql_log_bin=ON changed"),
        ("SET storage_engine = MyISAM", "storage_engine=MyISAM changed"),
        ("SET default_storage_engine = InnoDB", "default_storage_engine=InnoDB changed"),
        ("SET enforce_storage_engine = NULL", "enforce_storage_engine= changed"),
        ("USE sb", "schema sb changed"),
        ("USE shop", "schema shop changed"),
        ("SET ROLE r1", "changed"),
        ("SET ROLE NONE", "changed"),
        ("SET DEFAULT ROLE r1", ""),
        ("SET PASSWORD = PASSWORD('secret')", ""),
        ("SET TRANSACTION READ ONLY", ""),
        ("SET SESSION TRANSACTION READ WRITE", "tx_read_only=OFF changed"),
        ("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "tx_isolation=SERIALIZABLE changed"),
        ("SET @@tx_isolation = 'READ-COMMITTED'", ""),
        ("SET GLOBAL max_connections = 200", ""),
        ("SET @a = 1", "changed"),
        ("SELECT @a := 5", ""),
        ("SELECT 1 INTO @a", ""),
        ("CREATE TEMPORARY TABLE tmp (a INT)", "changed"),
        ("SELECT GET_LOCK('a', 1)", ""),
        ("LOCK TABLES t READ", ""),
        ("UNLOCK TABLES", ""),
        ("PREPARE s FROM 'SELECT 1'", "changed"),
        ("EXECUTE IMMEDIATE 'SET wait_timeout = 106'", "wait_timeout=106 changed"),
    ] {
        assert_eq!(tell(&mut link, sql).await.line(), wanted, "{sql}");
    }
    assert_eq!(value(&mut link, "@@wait_timeout").await, "106");
    let write = tell(&mut link, "INSERT INTO t VALUES (1)").await;
    assert!(write.variables.contains_key("last_gtid"), "{write:?}");
    let set = link.query("SET last_gtid = '0-1-1'", LONG).await.unwrap_err();
    assert!(set.to_string().contains("1238"), "{set}");
}

/// Whatever a SET changes is reported, or named by the scanner, or of a kind that the scanner says is not to be believed.
#[tokio::test]
async fn no_set_goes_unseen() {
    let server = server_with(&[]).await;
    let mut link = reporting(&server).await;
    for sql in [
        "SET @@wait_timeout = 55",
        "SET wait_timeout = 56, @@sql_mode = 'ANSI', @@session.time_zone = '+01:00'",
        "SET @@sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES'), @x = @@time_zone",
        "SET @@`sql_mode` = ''",
        "SET @@autocommit = 0; SET @@foreign_key_checks = 0",
        "SET LOCAL unique_checks = 0, @@local.sql_big_selects = 0",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
        "SET sql_select_limit = 5000, default_week_format = 3",
        "SET @@lc_time_names = 'de_DE', @@group_concat_max_len = 77",
    ] {
        let before = variables(&mut link).await;
        let reported = tell(&mut link, sql).await;
        assert_eq!(reported.error, None, "{sql}");
        let after = variables(&mut link).await;
        let named: BTreeSet<String> = unreported_variables(sql.as_bytes(), 0)
            .map(|name| String::from_utf8_lossy(name).to_lowercase())
            .chain(reported.variables.keys().cloned())
            .collect();
        let changed: BTreeSet<String> = before
            .iter()
            .filter(|(name, value)| after.get(*name) != Some(*value))
            .map(|(name, _)| name.clone())
            .collect();
        assert!(!changed.is_empty(), "{sql}");
        let unseen: Vec<_> = changed.difference(&named).collect();
        assert!(unseen.is_empty(), "{sql}: {unseen:?} changed, {named:?} are known of");
        let silent = Statement::of(sql.as_bytes()).sets.has(Sets::UNREPORTED);
        assert_eq!(silent, !changed.iter().all(|name| reported.variables.contains_key(name)), "{sql}");
    }
}

/// All session variables but those that change by themselves.
async fn variables(link: &mut Link) -> BTreeMap<String, String> {
    let rows = link.query("SHOW SESSION VARIABLES", LONG).await.unwrap();
    let text = |row, column| rows.text(row, column).unwrap_or_default().to_owned();
    let all = (0..rows.len()).map(|row| (text(row, 0).to_lowercase(), text(row, 1)));
    all.filter(|(name, _)| !["timestamp", "rand_seed1", "rand_seed2", "last_gtid"].contains(&name.as_str()))
        .collect()
}

/// The collation of the connection as it can be known from text and report, or not at all.
#[tokio::test]
async fn the_collation_is_known_or_known_to_be_unknown() {
    let server = server_with(&[
        "CREATE DATABASE sb CHARACTER SET utf8mb3",
        "CREATE PROCEDURE names() SET NAMES latin1 COLLATE latin1_bin",
        "CREATE PROCEDURE collation() SET collation_connection = latin1_bin",
    ])
    .await;
    let mut link = reporting(&server).await;
    let mut known = Some(value(&mut link, "@@collation_connection").await);
    let mut times_known = 0;
    for sql in [
        "SET NAMES utf8mb4",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        "SET NAMES latin1",
        "SET NAMES DEFAULT",
        "SET NAMES utf8mb4 COLLATE DEFAULT",
        "SET NAMES 'latin1'",
        "SET CHARACTER SET utf8mb4",
        "SET collation_connection = utf8mb4_bin",
        "SET CHARACTER SET DEFAULT",
        "USE sb",
        "SET CHARSET latin1",
        "SET character_set_connection = utf8mb4",
        "SET character_set_connection = DEFAULT",
        "SET character_set_connection = @@character_set_client",
        "SET collation_connection = utf8mb4_bin, character_set_connection = utf8mb4",
        "SET character_set_connection = utf8mb4, collation_connection = utf8mb4_bin",
        "SET sql_mode = '', NAMES latin1 COLLATE latin1_bin",
        "SET NAMES utf8mb4; SELECT 1",
        "CALL shop.names()",
        "SET collation_connection = utf8mb4_bin",
        "CALL shop.collation()",
        "SET @@collation_connection = latin1_bin",
        "SET @@character_set_connection = utf8mb4",
        "SET NAMES utf8mb4",
    ] {
        let reported = tell(&mut link, sql).await;
        assert_eq!(reported.error, None, "{sql}");
        let scanned = Statement::of(sql.as_bytes());
        let silent = unreported_variables(sql.as_bytes(), 0).count() > 0;
        let charset = reported.variables.get("character_set_connection");
        known = match (reported.variables.get("collation_connection"), charset) {
            _ if silent || scanned.calls => None,
            (Some(collation), _) => Some(collation.clone()),
            (None, Some(charset)) if scanned.sets == Sets::NAMES => {
                Some(default_collation(&mut link, charset).await)
            }
            (None, Some(_)) => None,
            (None, None) => known,
        };
        let truth = value(&mut link, "@@collation_connection").await;
        times_known += usize::from(known.is_some());
        assert!(known.as_ref().is_none_or(|known| *known == truth), "{sql}: {known:?} is {truth}");
    }
    assert!(times_known >= 10, "{times_known}");
}

async fn default_collation(link: &mut Link, charset: &str) -> String {
    let from = "default_collate_name FROM information_schema.character_sets WHERE character_set_name";
    value(link, &format!("{from} = '{charset}'")).await
}

/// LAST_INSERT_ID() as it can be known from text and OK packet, or not at all.
#[tokio::test]
async fn the_insert_id_is_known_or_known_to_be_unknown() {
    let server = server_with(&[
        "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT) AUTO_INCREMENT=400",
        "CREATE TABLE plain (a INT)",
        "CREATE PROCEDURE inserts() INSERT INTO t (b) VALUES (7)",
        "CREATE PROCEDURE sets() SET last_insert_id = 77",
        "CREATE FUNCTION inserting() RETURNS INT BEGIN INSERT INTO t (b) VALUES (8); RETURN 1; END",
        "CREATE FUNCTION setting() RETURNS INT RETURN LAST_INSERT_ID(5)",
        "CREATE TRIGGER tr AFTER INSERT ON plain FOR EACH ROW INSERT INTO t (b) VALUES (9)",
    ])
    .await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "1\n2\n").unwrap();
    let path = file.path().display();
    std::process::Command::new("chmod").arg("0644").arg(file.path()).status().unwrap();
    let load = format!("LOAD DATA INFILE '{path}' INTO TABLE t (b)");
    let mut link = reporting(&server).await;
    let mut known = Some(0);
    // Each with whether the number is known behind it.
    let statements = [
        ("INSERT INTO t (b) VALUES (1)", true),
        ("INSERT INTO t (a) VALUES (700)", false),
        ("INSERT INTO t (a) VALUES (702), (703)", false),
        ("INSERT INTO t (b) VALUES (1), (2)", true),
        ("INSERT INTO t (a, b) VALUES (710, 1), (NULL, 2)", false),
        ("REPLACE INTO t (a, b) VALUES (710, 3)", false),
        ("INSERT INTO t (a, b) SELECT a + 1000, 1 FROM t WHERE a = 700", false),
        ("INSERT IGNORE INTO t (a, b) VALUES (700, 3)", true),
        ("INSERT INTO t (a, b) VALUES (700, 3) ON DUPLICATE KEY UPDATE b = 5", false),
        ("INSERT INTO t (a, b) VALUES (700, 3) ON DUPLICATE KEY UPDATE a = LAST_INSERT_ID(a)", false),
        ("INSERT INTO t (b) SELECT b FROM t LIMIT 2", false),
        ("CALL inserts()", false),
        ("SET last_insert_id = 5", true),
        ("INSERT INTO plain VALUES (1)", true),
        ("SELECT inserting()", true),
        ("SELECT setting()", true),
        ("INSERT INTO t (b) VALUES (1) RETURNING a", false),
        ("SET identity = 6", true),
        ("DELETE FROM t WHERE a = LAST_INSERT_ID(5000)", false),
        ("SET @@session.last_insert_id = 7", true),
        ("UPDATE t SET b = LAST_INSERT_ID(77) WHERE a = 999999", false),
        ("UPDATE t SET b = LAST_INSERT_ID(78) WHERE a = 700", true),
        ("UPDATE t SET b = LAST_INSERT_ID(0) WHERE a = 700", false),
        ("SET last_insert_id = 8", true),
        ("UPDATE t SET b = LAST_INSERT_ID() WHERE a = 700", true),
        ("DO LAST_INSERT_ID(3000)", false),
        ("INSERT INTO t (b) VALUES (1); SELECT 1; INSERT INTO plain VALUES (1)", false),
        ("INSERT INTO t (a) VALUES (700)", false),
        ("SET last_insert_id = 9", true),
        ("INSERT INTO t (a, b) VALUES (NULL, 1), (700, 1)", false),
        (load.as_str(), false),
        ("SET last_insert_id = 10", true),
        ("ALTER TABLE plain ADD id INT AUTO_INCREMENT PRIMARY KEY", true),
        ("CREATE TABLE made (a INT AUTO_INCREMENT PRIMARY KEY, b INT) SELECT 1 b", false),
        ("SET @@last_insert_id = 11", false),
        ("INSERT INTO t (a, b) VALUES (88888, LAST_INSERT_ID(45))", false),
        ("PREPARE s FROM 'INSERT INTO t (b) VALUES (1)'", true),
        ("EXECUTE s", false),
        ("SET last_insert_id = 12", true),
        ("BEGIN NOT ATOMIC INSERT INTO t (b) VALUES (1); END", false),
        ("SET last_insert_id = 13", true),
        ("SET STATEMENT max_statement_time = 5 FOR INSERT INTO t (b) VALUES (1)", false),
        ("ANALYZE INSERT INTO t (b) VALUES (1)", false),
        ("SET last_insert_id = 14", true),
        ("BEGIN; INSERT INTO t (b) VALUES (1); ROLLBACK", false),
        ("CALL sets()", true),
        ("SELECT LAST_INSERT_ID(42), LAST_INSERT_ID()", false),
        ("SET last_insert_id = 15", true),
        ("SELECT a.a FROM t a WHERE a.a = LAST_INSERT_ID()", true),
    ];
    for (sql, is_known) in statements {
        let reported = tell(&mut link, sql).await;
        let change = Statement::of(sql.as_bytes()).insert_id;
        known = match reported.error {
            Some(_) => change.after_error(known),
            None => reported
                .ids
                .iter()
                .fold(known, |known, id| change.after(known, *id, |id| may_give(sql.as_bytes(), 0, id))),
        };
        let reported = reported.variables.get("last_insert_id").or(reported.variables.get("identity"));
        known = reported.map(|text| text.parse().unwrap()).or(known);
        let truth: u64 = value(&mut link, "LAST_INSERT_ID()").await.parse().unwrap();
        assert_eq!(known, is_known.then_some(truth), "{sql}: it is {truth}; {reported:?}");
        known = Some(truth);
    }
}

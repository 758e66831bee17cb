//! Random statements, as text and prepared, of a client that uses TLS and compressed packets or neither, over links to the nodes of which the same is
//! true, while links are cut, nodes are lost and traffic is handed over at random; judged as the situations are: every byte of every answer is the
//! server's, or a documented error.
//!
//! ```text
//!   case = login + steps + losses      drawn by proptest, the same each time unless STATEMENTS_SEED says otherwise
//!   client ── channel ══ proxy ──┬── door ── server
//!                                ╰══ door ══ server      control ── a server of its own
//! ```
//!
//! `STATEMENTS_CASES` and `STATEMENTS_STEPS` make it longer; a case that fails is made shorter, and told with its seed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fixture::channel;
use fixture::client::{ClientOptions, Param};
use link::{Codec, ServerTls};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{TestCaseError, TestError};
use protocol::capability::Caps;

use super::judge::Known;
use super::run::Bytes;
use super::script::Situation;
use super::traffic::{Leave, Verdict};
use super::{Ground, Loss, Stage};
use crate::restore_all::{runner, setting};
use crate::steps::{Step, What, step};

/// What a client asks for that goes through a channel; its twin does without.
pub const CHANNEL: Caps = Caps(Caps::SSL.0 | Caps::COMPRESS.0 | Caps::ZSTD.0);

/// Plain, under TLS, compressed, and both.
const CHANNELS: [Caps; 6] = [
    Caps::NONE,
    Caps::SSL,
    Caps::COMPRESS,
    Caps::ZSTD,
    Caps(Caps::SSL.0 | Caps::COMPRESS.0),
    Caps(Caps::SSL.0 | Caps::ZSTD.0),
];

/// How the nodes are connected to: under TLS or not, with compressed packets or not.
const TO_NODES: [(bool, Option<Codec>); 6] = [
    (false, None),
    (false, None),
    (false, None),
    (false, Some(Codec::Zlib)),
    (true, None),
    (true, Some(Codec::Zlib)),
];

/// How answers look.
const FORMS: [Caps; 4] = [
    Caps::NONE,
    Caps::DEPRECATE_EOF,
    Caps(Caps::DEPRECATE_EOF.0 | Caps::FOUND_ROWS.0),
    Caps(Caps::DEPRECATE_EOF.0 | Caps::SESSION_TRACK.0),
];

/// On each server before each case.
const GIVEN: [&str; 5] = [
    "DROP TABLE IF EXISTS shop.made, other.made, shop.r",
    "DROP VIEW IF EXISTS shop.seen",
    "CREATE TABLE shop.r (id INT PRIMARY KEY AUTO_INCREMENT, u INT UNSIGNED UNIQUE, n BIGINT, d DECIMAL(20,6), f DOUBLE, \
     s VARCHAR(200) CHARACTER SET utf8mb4, c CHAR(5) CHARACTER SET latin1, b LONGBLOB, t LONGTEXT, day DATE, at DATETIME(6), span TIME(3), \
     y YEAR, bits BIT(12), kind ENUM('a', 'b', 'ä'), `set` SET('x', 'y', 'z'), j JSON, g POINT)",
    "INSERT INTO shop.r VALUES (1, 1, -5, 1.5, 0.1, 'one', 'ab', x'00FF', 'text', '2024-02-29', '2024-02-29 12:34:56.789012', '-01:02:03.5', 2024, \
     b'101', 'a', 'x,z', '{\"a\": [1, null]}', POINT(1, 2)), (2, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
     NULL, NULL)",
    "INSERT INTO shop.r (u, n, s, b) SELECT seq + 10, seq, CONCAT('ü', seq), REPEAT(CHAR(seq USING binary), seq) FROM seq_1_to_60",
];

const COLUMNS: [&str; 18] = [
    "id", "u", "n", "d", "f", "s", "c", "b", "t", "day", "at", "span", "y", "bits", "kind", "`set`", "j", "g",
];

const VALUES: &[&str] = &[
    "NULL",
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "9223372036854775807",
    "18446744073709551615",
    "-0.000001",
    "12345678901234.123456",
    "1e300",
    "-1.5e-300",
    "''",
    "'a'",
    "'it''s'",
    "'back\\\\slash'",
    "'äöü€😀'",
    "_latin1 x'E4'",
    "x''",
    "x'00FE01FF'",
    "b'110'",
    "'2024-02-29'",
    "'0000-00-00'",
    "'2023-02-30'",
    "TIMESTAMP'1999-12-31 23:59:59.999999'",
    "TIME'-838:59:59'",
    "'[1, {\"k\": \"v\"}]'",
    "'not json'",
    "POINT(3, 4)",
    "REPEAT('x', 250)",
    "REPEAT('y', 251)",
    "REPEAT('z', 65536)",
    "REPEAT(x'00', 300000)",
    "@a",
    "@b + 1",
    "(SELECT MAX(n) FROM r)",
    "LAST_INSERT_ID()",
    "1 / 0",
    "CAST('12x' AS INT)",
    "DEFAULT(n)",
    "1 = 1",
    "u + 1",
    "CONCAT(s, '!')",
];

const CONDITIONS: &[&str] = &[
    "1 = 1",
    "0",
    "id = 1",
    "id = 2",
    "id < 5",
    "id BETWEEN 10 AND 40",
    "s IS NULL",
    "s LIKE 'ü1%'",
    "n % 7 = 0",
    "u IN (SELECT seq FROM seq_11_to_15)",
    "nosuch = 1",
    "b > x'20'",
];

const QUERIES: &[&str] = &[
    "SELECT * FROM r ORDER BY id",
    "SELECT 1",
    "SELECT NULL",
    "SELECT ''",
    "SELECT 'a' AS `b c`, 1.50, -2e3, x'FF', NULL, TRUE",
    "SELECT id, LENGTH(b), MD5(b), HEX(LEFT(b, 3)) FROM r ORDER BY id",
    "SELECT COUNT(*), SUM(n), AVG(d), MIN(day), MAX(at), GROUP_CONCAT(s ORDER BY id) FROM r",
    "SELECT kind, COUNT(*) FROM r GROUP BY kind WITH ROLLUP",
    "SELECT seq, SQRT(seq), SEC_TO_TIME(seq), CAST(seq AS CHAR) FROM seq_1_to_300",
    "SELECT SQL_CALC_FOUND_ROWS id FROM r ORDER BY id LIMIT 3",
    "SELECT id FROM r WHERE 0",
    "SELECT a.id, b.s FROM r a JOIN r b ON a.id = b.u - 10 ORDER BY 1, 2 LIMIT 9",
    "WITH RECURSIVE w AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM w WHERE x < 20) SELECT x, SUM(x) OVER (ORDER BY x) FROM w",
    "SELECT id FROM r UNION SELECT u FROM r ORDER BY 1 LIMIT 20",
    "SELECT JSON_EXTRACT(j, '$.a'), JSON_OBJECT('n', n) FROM r WHERE id <= 2 ORDER BY id",
    "SELECT @a, @b, @c",
    "SELECT @a := 7, @b := CONCAT(@b, 'x')",
    "SELECT DATABASE(), @@autocommit, @@in_transaction, @@sql_mode",
    "SELECT LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS()",
    "SHOW WARNINGS",
    "SHOW TABLES LIKE 'r'",
    "SHOW COLUMNS FROM r",
    "SHOW CREATE TABLE r",
    "SELECT * FROM tmp ORDER BY 1",
    "SELECT * FROM made ORDER BY 1",
    "SELECT * FROM seen ORDER BY 1",
    "SELECT nosuch FROM r",
    "SELECT * FROM nosuch",
    "SELEKT 1",
    "",
    "/* nothing */",
    "SELECT 'a' = 'A', 'ä' = 'a', COLLATION('x'), CHARSET(s) FROM r WHERE id = 1",
    "SELECT 1 FROM r WHERE id = 1 FOR UPDATE",
    "SELECT id INTO @a FROM r WHERE id = 2",
    "SELECT id INTO @a FROM r",
    "SELECT REPEAT('0123456789abcdef', 6000), REPEAT('y', 70000)",
    "SELECT REPEAT(MD5(seq), 500) FROM seq_1_to_60",
    "CALL sets()",
    "CALL adds()",
    "DO 1",
    "VALUES (1, 'x'), (2, NULL)",
    "SELECT (SELECT id FROM r)",
    "SELECT UpdateXML('<a/>', '/a', 'x'), ExtractValue('<a>1</a>', '/a')",
    "TABLE r LIMIT 1",
    "HELP 'nothing at all'",
    "EXPLAIN SELECT 1",
];

const TRANSACTIONS: &[&str] = &[
    "BEGIN",
    "START TRANSACTION",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "ROLLBACK AND CHAIN",
    "SAVEPOINT one",
    "ROLLBACK TO one",
    "RELEASE SAVEPOINT one",
    "SET autocommit = 0",
    "SET autocommit = 1",
    "SET TRANSACTION READ ONLY",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
];

const SESSION: &[&str] = &[
    "SET @a = 1",
    "SET @a = 'ä', @b = 'bb'",
    "SET @c = x'00FF'",
    "SET @b = 1.50",
    "SET @c = CAST('2024-01-01' AS DATE)",
    "SET NAMES latin1",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES utf8mb4",
    "SET sql_mode = ''",
    "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO'",
    "SET sql_mode = DEFAULT",
    "SET time_zone = '+05:30'",
    "SET sql_select_limit = 5",
    "SET sql_select_limit = DEFAULT",
    "SET group_concat_max_len = 20",
    "SET div_precision_increment = 2",
    "SET lc_time_names = 'de_DE'",
    "SET max_error_count = 1",
    "SET insert_id = 500",
    "SET timestamp = 1700000000",
    "SET character_set_results = NULL",
    "SET sql_warnings = 1",
    "SET big_tables = 'x'",
    "SET nosuch = 1",
    "USE other",
    "USE shop",
    "SET ROLE clerk",
    ".init shop",
    ".ping",
    ".reset",
    ".option on",
    ".option off",
    ".user",
    ".statistics",
];

const OBJECTS: &[&str] = &[
    "CREATE TABLE made (a INT PRIMARY KEY, b VARCHAR(10))",
    "CREATE TABLE IF NOT EXISTS made (a INT PRIMARY KEY, b VARCHAR(10))",
    "CREATE TABLE made AS SELECT id, s FROM r WHERE id < 4",
    "INSERT INTO made VALUES (1, 'x'), (2, 'y')",
    "DROP TABLE made",
    "DROP TABLE IF EXISTS made",
    "ALTER TABLE made ADD COLUMN more INT DEFAULT 5",
    "ALTER TABLE r ADD INDEX (n)",
    "TRUNCATE TABLE made",
    "CREATE OR REPLACE VIEW seen AS SELECT id, s FROM r WHERE id < 10",
    "DROP VIEW seen",
    "CREATE TEMPORARY TABLE tmp (a INT, b TEXT)",
    "INSERT INTO tmp VALUES (1, 'x'), (2, NULL)",
    "DROP TEMPORARY TABLE tmp",
    "LOCK TABLES r WRITE, two READ",
    "UNLOCK TABLES",
    "DO GET_LOCK('random', 0)",
    "DO RELEASE_LOCK('random')",
    "PREPARE p FROM 'SELECT id, ? FROM r ORDER BY id LIMIT 2'",
    "EXECUTE p USING @a",
    "DEALLOCATE PREPARE p",
    "HANDLER r OPEN",
    "HANDLER r READ FIRST",
    "HANDLER r CLOSE",
];

/// With one parameter, or none.
const PREPARED: &[&str] = &[
    "SELECT ?",
    "SELECT * FROM shop.r WHERE id = ?",
    "SELECT * FROM shop.r ORDER BY id",
    "SELECT id, s, b, at, span, bits, j FROM shop.r WHERE n > ? ORDER BY id",
    "INSERT INTO shop.r (n, s) VALUES (?, 'prepared')",
    "INSERT INTO shop.r (b) VALUES (?)",
    "UPDATE shop.r SET n = n + 1, s = ? WHERE id < 6",
    "DELETE FROM shop.r WHERE id = ?",
    "SELECT LENGTH(?)",
    "SELECT @a, @b",
    "CALL shop.sets()",
    "BEGIN",
    "COMMIT",
    "CREATE TEMPORARY TABLE shop.tmp (a INT)",
];

/// Longer than a packet (16 MiB), and than what is kept to be sent again.
const LONG: [usize; 3] = [200_000, 2_000_000, 17_000_000];

fn of(line: impl AsRef<str>) -> Step {
    step(line.as_ref(), &ClientOptions::default()).unwrap_or_else(|why| panic!("{}: {why}", line.as_ref()))
}

fn texts(all: &'static [&'static str]) -> impl Strategy<Value = Step> {
    select(all).prop_map(of)
}

fn condition() -> impl Strategy<Value = &'static str> {
    select(CONDITIONS)
}

/// A statement that writes.
fn write() -> impl Strategy<Value = String> {
    let assigned = || (select(&COLUMNS[1..]), select(VALUES));
    prop_oneof![
        4 => (assigned(), select(VALUES), 0..5u8).prop_map(|((column, value), other, form)| match form {
            0 => format!("INSERT INTO r ({column}) VALUES ({value})"),
            1 => format!("INSERT INTO r ({column}, n) VALUES ({value}, 5), ({other}, 6)"),
            2 => format!("INSERT IGNORE INTO r SET {column} = {value}"),
            3 => format!("INSERT INTO r (u, {column}) VALUES (1, NULL) ON DUPLICATE KEY UPDATE {column} = {value}"),
            _ => format!("REPLACE INTO r (id, s) VALUES (3, {value})"),
        }),
        3 => (assigned(), condition()).prop_map(|((column, value), at)| format!("UPDATE r SET {column} = {value} WHERE {at} ORDER BY id")),
        1 => condition().prop_map(|at| format!("DELETE FROM r WHERE {at} ORDER BY id LIMIT 10")),
        1 => select(VALUES).prop_map(|value| format!("INSERT INTO r (n) VALUES ({value}) RETURNING id, n")),
        1 => Just("INSERT INTO r (n, s) SELECT n, s FROM r WHERE id < 4 ORDER BY id".to_owned()),
        1 => Just("DELETE FROM r WHERE id = 4 RETURNING *".to_owned()),
    ]
}

/// A statement that only reads.
fn read() -> impl Strategy<Value = String> {
    let made = (select(&COLUMNS[..]), select(VALUES), condition())
        .prop_map(|(column, value, at)| format!("SELECT {column}, {value} FROM r WHERE {at} ORDER BY id"));
    prop_oneof![2 => select(QUERIES).prop_map(ToOwned::to_owned), 2 => made]
}

fn text(sql: impl Into<String>) -> Step {
    let sql = sql.into();
    let line = sql.chars().take(200).collect();
    Step { line, what: What::Say(sql.into_bytes()) }
}

/// Several in one text. What writes is the first: a server that loses its client goes on with the others, and nobody can tell until when.
fn several() -> impl Strategy<Value = Step> {
    let first = prop_oneof![
        write(),
        read(),
        select(SESSION).prop_filter("a text", |line| !line.starts_with('.')).prop_map(ToOwned::to_owned)
    ];
    (first, proptest::collection::vec(read(), 1..3)).prop_map(|(first, then)| {
        let all: Vec<String> = [first].into_iter().chain(then).filter(|sql| !sql.is_empty()).collect();
        text(all.join("; "))
    })
}

fn long() -> impl Strategy<Value = Step> {
    // The longest seldom.
    let bytes = prop_oneof![10 => Just(LONG[0]), 4 => Just(LONG[1]), 1 => Just(LONG[2])];
    (bytes, 0..4u8).prop_map(|(bytes, form)| match form {
        0 => text(format!("SELECT REPEAT('x', {bytes})")),
        1 => text(format!("SELECT 1, REPEAT('x', {bytes}), NULL")),
        2 => text(format!("SELECT LENGTH('{}')", "x".repeat(bytes))),
        _ => text(format!("UPDATE r SET t = '{}' WHERE id = 1", "\u{e4}".repeat(bytes / 2))),
    })
}

fn param() -> impl Strategy<Value = Param> {
    prop_oneof![
        4 => select(&[0, 1, -1, i64::MAX, i64::MIN][..]).prop_map(Param::Int),
        4 => select(&["", "x", "2024-02-29", "it's; \\ \"", "\u{e4}\u{1F600}"][..]).prop_map(Param::from),
        1 => Just(Param::Text(vec![0, 0xFF, 0xFE, 0x80])),
        1 => select(&[250, 251, 70_000][..]).prop_map(|bytes| Param::Text(vec![b'p'; bytes])),
        2 => Just(Param::Null),
    ]
}

/// A prepared statement is executed with as many parameters as it takes; which one that is, is known when all steps are.
fn prepared() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => select(PREPARED).prop_map(|sql| of(format!(".prepare {sql}"))),
        5 => (0..4usize, param()).prop_map(|(number, param)| {
            let line = format!(".execute {number}");
            Step { line, what: What::Execute(number, vec![param]) }
        }),
        1 => (0..4usize).prop_map(|number| of(format!(".cursor {number}"))),
        1 => (0..4usize).prop_map(|number| of(format!(".fetch {number}"))),
        1 => (0..4usize).prop_map(|number| of(format!(".stmt_reset {number}"))),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => read().prop_map(text),
        10 => write().prop_map(text),
        5 => several(),
        6 => texts(TRANSACTIONS),
        6 => texts(SESSION),
        6 => texts(OBJECTS),
        8 => prepared(),
        1 => long(),
    ]
}

/// Puts the parameters right: of a statement that is executed the number that it takes, and none for one that is not prepared.
fn with_params(steps: Vec<Step>) -> Vec<Step> {
    let mut counts: Vec<usize> = vec![];
    let mut out = vec![];
    for mut step in steps {
        match &mut step.what {
            What::Prepare(sql) => counts.push(sql.split(|byte| *byte == b'?').count() - 1),
            What::Reset | What::ChangeUser(_) => counts.clear(),
            What::Execute(number, params) => {
                // One that was never prepared the proxy refuses itself, and no server has a warning of it.
                let Some(count) = counts.get(*number) else { continue };
                params.truncate(*count);
                step.line = format!(".execute {number} {}", shown(params));
            }
            // Only without parameters.
            What::OpenCursor(number) if counts.get(*number) != Some(&0) => continue,
            What::StmtReset(number) if counts.get(*number).is_none() => continue,
            // Which columns it has, this client knows of what was opened last.
            What::Fetch(_) if !matches!(out.last(), Some(Step { what: What::OpenCursor(_), .. })) => continue,
            _ => {}
        }
        out.push(step);
    }
    out
}

fn shown(params: &[Param]) -> String {
    format!("{params:?}").chars().take(80).collect()
}

/// A server gives a new session what FOUND_ROWS() was in its thread's last one; and of a variable that was never set, it tells the type by whether a
/// statement that might set it was prepared.
const FIRST: [&str; 2] = ["SET @a = 1, @b = 'b', @c = 2.5", "SELECT 1"];

/// What all of it has led to.
const QUESTIONS: [&str; 6] = [
    "SELECT @a, @b, @c, @@in_transaction, @@autocommit, @@sql_mode, @@time_zone, DATABASE()",
    "SELECT COUNT(*) FROM shop.r",
    "COMMIT",
    "SET NAMES utf8mb4, sql_select_limit = DEFAULT, sql_mode = DEFAULT, character_set_results = utf8mb4",
    "SELECT * FROM shop.r ORDER BY id",
    "SHOW TABLES FROM shop",
];

/// A session from its login to its end.
#[derive(Clone, Debug)]
struct Case {
    caps: Caps,
    to_nodes: (bool, Option<Codec>),
    steps: Vec<Step>,
    losses: Vec<Loss>,
}

/// `is_readable`: a link to a node can be broken at a packet.
fn loss(steps: usize, place: Index, kind: u8, packets: usize, is_readable: bool) -> Loss {
    let at = FIRST.len() + place.index(steps - FIRST.len());
    match kind {
        0 => Loss::Between(at, Leave::HandedOver),
        1 => Loss::Between(at, Leave::Lost),
        _ if !is_readable => Loss::Between(at, Leave::Lost),
        2 | 3 => Loss::During(at, packets, Verdict::Well),
        _ => Loss::During(at, packets, Verdict::Lost),
    }
}

fn cases(steps_max: usize) -> impl Strategy<Value = Case> {
    let steps = proptest::collection::vec(any_step(), 1..=steps_max);
    let losses =
        proptest::collection::vec((any::<Index>(), 0..6u8, select(&[0, 0, 1, 2, 3, 5, 40][..])), 0..4);
    (select(&FORMS[..]), select(&CHANNELS[..]), select(&TO_NODES[..]), steps, losses).prop_map(
        move |(form, channel, to_nodes, steps, losses)| {
            let questions = QUESTIONS.map(of);
            let steps: Vec<Step> =
                FIRST.map(of).into_iter().chain(with_params(steps)).chain(questions).collect();
            let is_readable = to_nodes == (false, None);
            let losses = losses
                .into_iter()
                .map(|(place, kind, packets)| loss(steps.len(), place, kind, packets, is_readable));
            Case { caps: form | channel, to_nodes, losses: losses.collect(), steps }
        },
    )
}

fn told(case: &Case, what: &str) -> String {
    let steps: Vec<String> =
        case.steps.iter().enumerate().map(|(at, step)| format!("  {at}: {}", step.line)).collect();
    let (tls, compression) = case.to_nodes;
    format!(
        "{:?}, {:?}; to nodes: TLS {tls}, {compression:?}\n{}\n{what}",
        case.caps,
        case.losses,
        steps.join("\n")
    )
}

impl Stage {
    /// One case: how it ended, or what was wrong.
    async fn random(&mut self, case: &Case) -> Result<String, String> {
        let of = Situation::of(GIVEN.map(ToOwned::to_owned).to_vec());
        let (tls, compression) = case.to_nodes;
        let tls = tls.then(|| ServerTls::with_any_certificate().unwrap());
        self.traffic.connect_to_nodes(tls, compression);
        let (told, came) = self.moved(&of, case.caps, &case.steps, &case.losses).await;
        // What is told of changes has a server's own ways: the situations have it.
        let how =
            if case.caps.has(Caps::SESSION_TRACK) { Bytes::AsRead } else { Bytes::WithoutEarlyTransaction };
        let wrong = self.judged(&of, case.caps, &case.steps, (&told, came, how), &mut Known::new()).await;
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
        let ours =
            told.iter().filter_map(|told| told.reply.error()).find(|code| *code > 9_100 && *code < 9_200);
        Ok(match (ours, told.len() >= case.steps.len()) {
            (None, true) if came => "moved, all the same".into(),
            (None, true) => "all the same".into(),
            (Some(code), _) => format!("told {code}"),
            (None, false) => "ended".into(),
        })
    }
}

#[test]
fn random_statements_are_answered_as_by_a_server() {
    let (cases_count, seed) = (setting("STATEMENTS_CASES", 200), setting("STATEMENTS_SEED", 1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let stage = runtime.block_on(async {
        let mut stage = Stage::set(Ground::OneServer).await;
        let trusting = stage.traffic.certificate.client(rustls::ALL_VERSIONS);
        stage.channel = Some(channel::before(stage.traffic.address(), trusting).await);
        stage
    });
    let steps_max = usize::try_from(setting("STATEMENTS_STEPS", 10)).unwrap();
    let shared = RefCell::new((stage, BTreeMap::<String, usize>::new()));
    let outcome = runner(cases_count, seed).run(&cases(steps_max), |case| {
        let (stage, tally) = &mut *shared.borrow_mut();
        let ended = runtime.block_on(stage.random(&case)).map_err(TestCaseError::fail)?;
        *tally.entry(ended).or_default() += 1;
        Ok(())
    });
    let (_, tally) = shared.into_inner();
    println!("STATEMENTS_SEED={seed}: {tally:?}");
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(what, case)) => panic!("STATEMENTS_SEED={seed}: {}", told(&case, what.message())),
        Err(other) => panic!("{other}"),
    }
    // A session that is refused each time would be right, and of no use.
    let moved = tally.get("moved, all the same").copied().unwrap_or_default() as u64;
    assert!(moved * 10 > cases_count, "of {cases_count} sessions only {moved} went on whole behind a loss");
}

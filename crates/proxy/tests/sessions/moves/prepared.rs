//! A prepared statement is bound to what was in force when it was prepared (schema, sql_mode, character set, collation, ...), also
//! on the server that its session has moved to.

use fixture::client::{ClientOptions, Param};
use harness::cluster::Move;
use harness::twin::{Ground, MOVES, Twins, none_of};

/// A statement, what was set before its preparation, and what after it.
struct Case {
    before: &'static [&'static str],
    sql: &'static [u8],
    after: &'static [&'static str],
    params: &'static [&'static str],
}

const fn case(
    before: &'static [&'static str],
    sql: &'static [u8],
    after: &'static [&'static str],
    params: &'static [&'static str],
) -> Case {
    Case { before, sql, after, params }
}

const CASES: &[Case] = &[
    // the schema
    case(&["USE sa"], b"INSERT INTO t VALUES (?)", &["USE sb"], &["1"]),
    case(&["USE sa"], b"SELECT v FROM names", &["USE sb"], &[]),
    case(&["USE sa"], b"SELECT DATABASE()", &["USE sb"], &[]),
    case(&["USE sa"], b"SHOW TABLES", &["USE sb"], &[]),
    case(&["USE sa"], b"CALL p(?)", &["USE sb"], &["3"]),
    case(&["USE sa"], b"SELECT f()", &["USE sb"], &[]),
    case(&["USE sa"], b"CREATE TABLE IF NOT EXISTS made (x INT)", &["USE sb"], &[]),
    case(&["USE sa"], b"SELECT v FROM names", &["USE sb", "USE sa"], &[]),
    // sql_mode
    case(&["SET sql_mode = 'ANSI_QUOTES'"], b"SELECT \"v\" FROM sa.names", &["SET sql_mode = ''"], &[]),
    case(&["SET sql_mode = ''"], b"SELECT \"v\" FROM sa.names", &["SET sql_mode = 'ANSI_QUOTES'"], &[]),
    case(&["SET sql_mode = 'PIPES_AS_CONCAT'"], b"SELECT 1 || ?", &["SET sql_mode = ''"], &["2"]),
    case(&["SET sql_mode = ''"], b"SELECT 0 || ?", &["SET sql_mode = 'PIPES_AS_CONCAT'"], &["2"]),
    case(&["SET sql_mode = 'NO_BACKSLASH_ESCAPES'"], b"SELECT 'a\\n'", &["SET sql_mode = ''"], &[]),
    case(&["SET sql_mode = ''"], b"SELECT 'a\\n'", &["SET sql_mode = 'NO_BACKSLASH_ESCAPES'"], &[]),
    case(&["SET sql_mode = 'IGNORE_SPACE'"], b"SELECT COUNT (*) FROM sa.names", &["SET sql_mode = ''"], &[]),
    case(
        &["SET sql_mode = 'HIGH_NOT_PRECEDENCE'"],
        b"SELECT NOT 1 BETWEEN -5 AND 5",
        &["SET sql_mode = ''"],
        &[],
    ),
    case(&["SET sql_mode = 'ORACLE'"], b"SELECT NULL || 'x'", &["SET sql_mode = ''"], &[]),
    case(&["SET sql_mode = ''"], b"SELECT 1/0, CAST('x' AS INT)", &["SET sql_mode = 'TRADITIONAL'"], &[]),
    case(
        &["SET sql_mode = 'STRICT_ALL_TABLES'"],
        b"INSERT INTO sa.t VALUES (?)",
        &["SET sql_mode = ''"],
        &["x"],
    ),
    case(
        &["SET sql_mode = ''"],
        b"INSERT INTO sa.t VALUES (?)",
        &["SET sql_mode = 'STRICT_ALL_TABLES'"],
        &["x"],
    ),
    case(
        &["SET sql_mode = ''"],
        b"SELECT v, COUNT(*) FROM sa.names",
        &["SET sql_mode = 'ONLY_FULL_GROUP_BY'"],
        &[],
    ),
    case(
        &["SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'"],
        b"SELECT CAST(1 AS UNSIGNED) - 2",
        &["SET sql_mode = ''"],
        &[],
    ),
    // character set and collation: of the text, of its literals, of its parameters
    case(
        &["SET NAMES latin1"],
        b"SELECT HEX('\xE4'), CHARSET('x'), COLLATION('x')",
        &["SET NAMES utf8mb4"],
        &[],
    ),
    case(
        &["SET NAMES utf8mb4"],
        b"SELECT HEX('\xC3\xA4'), CHARSET('x'), COLLATION('x')",
        &["SET NAMES latin1"],
        &[],
    ),
    case(
        &["SET NAMES utf8mb4 COLLATE utf8mb4_bin"],
        b"SELECT 'a' = 'A', COLLATION('x')",
        &["SET NAMES utf8mb4"],
        &[],
    ),
    case(&["SET NAMES utf8mb4"], b"SELECT 'a' = 'A'", &["SET NAMES utf8mb4 COLLATE utf8mb4_bin"], &[]),
    case(&["SET NAMES utf8mb4"], b"SELECT 'a' = ?", &["SET NAMES utf8mb4 COLLATE utf8mb4_bin"], &["A"]),
    case(
        &["SET NAMES utf8mb4"],
        b"SELECT 'a' = 'A'",
        &["SET collation_connection = utf8mb4_unicode_520_nopad_ci"],
        &[],
    ),
    case(
        &["SET NAMES latin1"],
        b"SELECT HEX(?), CHARSET(?), COLLATION(?)",
        &["SET NAMES utf8mb4"],
        &["\u{e4}", "x", "y"],
    ),
    case(
        &["SET NAMES utf8mb4"],
        b"SELECT HEX(?), CHARSET(?), COLLATION(?)",
        &["SET NAMES latin1"],
        &["\u{e4}", "x", "y"],
    ),
    case(&["SET NAMES binary"], b"SELECT CHARSET('x'), COLLATION('x')", &["SET NAMES utf8mb4"], &[]),
    case(
        &["SET character_set_client = latin1"],
        b"SELECT HEX('\xE4') AS '\xE4'",
        &["SET character_set_client = utf8mb4"],
        &[],
    ),
    case(&["SET NAMES utf8mb4"], b"SELECT v FROM sa.names WHERE v = 'Sa'", &["SET NAMES latin1"], &[]),
    // what may be fixed at preparation or looked at when run: the server decides
    case(&["SET div_precision_increment = 8"], b"SELECT 1 / 3", &["SET div_precision_increment = 2"], &[]),
    case(&["SET time_zone = '+05:00'"], b"SELECT FROM_UNIXTIME(0)", &["SET time_zone = '-03:00'"], &[]),
    case(
        &["SET lc_time_names = 'de_DE'"],
        b"SELECT MONTHNAME('2024-03-01')",
        &["SET lc_time_names = 'fr_FR'"],
        &[],
    ),
    case(
        &["SET sql_auto_is_null = 1", "INSERT INTO sa.counted VALUES (NULL)"],
        b"SELECT COUNT(*) FROM sa.counted WHERE id IS NULL",
        &["SET sql_auto_is_null = 0"],
        &[],
    ),
    case(&["SET @v = 'before'"], b"SELECT @v", &["SET @v = 'after'"], &[]),
    case(&["SET sql_select_limit = 1"], b"SELECT v FROM sa.names", &["SET sql_select_limit = 2"], &[]),
    case(
        &["SET group_concat_max_len = 4"],
        b"SELECT GROUP_CONCAT(v) FROM sa.names",
        &["SET group_concat_max_len = 1000"],
        &[],
    ),
    case(
        &["SET character_set_results = NULL"],
        b"SELECT v FROM sa.names",
        &["SET character_set_results = latin1"],
        &[],
    ),
    case(&["SET old_mode = ''"], b"SELECT CHARSET(_utf8'x')", &["SET old_mode = 'UTF8_IS_UTF8MB3'"], &[]),
    case(
        &["SET default_storage_engine = Aria"],
        b"CREATE TABLE sa.of_engine (x INT)",
        &["SET default_storage_engine = InnoDB"],
        &[],
    ),
];

/// What must be as before beside the statement's own answer.
const BESIDE: &[&str] = &[
    "SHOW WARNINGS",
    "SELECT DATABASE(), @@sql_mode, @@character_set_client, @@character_set_results, @@collation_connection",
    "SELECT LAST_INSERT_ID(), @@sql_auto_is_null, @@time_zone, @@div_precision_increment",
];
/// What statements may have left in the data.
const DATA: &str = "SELECT (SELECT COUNT(*) FROM sa.t), (SELECT COUNT(*) FROM sb.t), \
    (SELECT GROUP_CONCAT(CONCAT(table_schema, '.', table_name, ' ', engine)) FROM information_schema.tables \
     WHERE table_name IN ('made', 'of_engine'))";

const CLEAN: &[&str] = &[
    "DELETE FROM sa.t",
    "DELETE FROM sb.t",
    "DELETE FROM sa.counted",
    "DROP TABLE IF EXISTS sa.made, sb.made, sa.of_engine",
];

fn lay_schemas(ground: &Ground) {
    for schema in ["sa", "sb"] {
        ground.everywhere(&format!(
            "CREATE DATABASE {schema}; USE {schema};
             CREATE TABLE t (x INT); CREATE TABLE names (v VARCHAR(20));
             CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT);
             INSERT INTO names VALUES ('{schema}'), ('x'), ('y');
             CREATE PROCEDURE p(n INT) SELECT '{schema}', n, DATABASE();
             CREATE FUNCTION f() RETURNS TEXT RETURN CONCAT('{schema}', DATABASE())"
        ));
    }
}

async fn run(twins: &mut Twins, case: &Case, statement: usize) -> Vec<String> {
    let params: Vec<Param> = case.params.iter().map(|&param| param.into()).collect();
    let mut wrong = vec![];
    wrong.extend(twins.execute(statement, &params).await.unequal("the execution"));
    for sql in BESIDE {
        wrong.extend(twins.say(sql).await.wrong());
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_runs_under_what_was_in_force_at_its_preparation() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for how in MOVES {
        for case in CASES {
            // Also one that its former server has run, and perhaps prepared again by itself. (What makes a table makes it there only, and a
            // procedure may tie the session to it.)
            let is_of_one_server = case.sql.starts_with(b"CREATE") || case.sql.starts_with(b"CALL");
            let has_run = how == Move::Drained && !is_of_one_server;
            ground.begin(CLEAN).await;
            let mut twins = ground.twins().await;
            for sql in case.before {
                twins.set(sql).await;
            }
            let statement = twins.prepare(case.sql).await;
            for sql in case.after {
                twins.set(sql).await;
            }
            if has_run {
                assert_eq!(run(&mut twins, case, statement).await, Vec::<String>::new());
            }
            ground.cluster.move_on(how).await;
            let mut found = run(&mut twins, case, statement).await;
            // What was written before the move stands on another server: only what came after it counts.
            if !has_run && !case.before.iter().any(|sql| sql.starts_with("INSERT")) {
                found.extend(twins.say(DATA).await.wrong());
            }
            wrong.extend(found.into_iter().map(|found| {
                let (before, after) = (case.before.join("; "), case.after.join("; "));
                format!("{how:?}: {before}; PREPARE {}; {after}: {found}", case.sql.escape_ascii())
            }));
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_goes_back_and_forth_and_another_beside_it_is_of_another_schema() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut twins = ground.twins().await;
    let mut statements = vec![];
    for schema in ["sa", "sb", "shop"] {
        twins.set(format!("USE {schema}")).await;
        statements.push(twins.prepare("SELECT DATABASE()").await);
    }
    let mut wrong = vec![];
    for how in [MOVES, MOVES].concat() {
        ground.cluster.move_on(how).await;
        for &statement in &statements {
            for _ in 0..2 {
                let told = twins.execute(statement, &[]).await;
                wrong.extend(told.unequal(&format!("{how:?}: statement {statement}")));
            }
            wrong.extend(twins.say("SELECT DATABASE()").await.wrong());
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_was_prepared_without_a_schema_has_none_elsewhere() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let nowhere = ClientOptions { database: None, ..ClientOptions::default() };
    let mut wrong = vec![];
    for how in MOVES {
        let mut twins = ground.twins_as(&nowhere).await;
        let statement = twins.prepare("SELECT DATABASE()").await;
        twins.set("USE sa").await;
        ground.cluster.move_on(how).await;
        wrong.extend(twins.execute(statement, &[]).await.unequal(&format!("{how:?}")));
        wrong.extend(twins.say("SELECT DATABASE()").await.wrong());
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_schema_is_gone_says_what_its_server_says() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for how in MOVES {
        ground.everywhere("CREATE DATABASE IF NOT EXISTS brief; CREATE TABLE brief.t (x INT)");
        let mut twins = ground.twins().await;
        twins.set("USE brief").await;
        let statement = twins.prepare("SELECT COUNT(*) FROM t").await;
        twins.set("USE sa").await;
        ground.everywhere("DROP DATABASE brief");
        ground.cluster.move_on(how).await;
        // Its twin's server says that the table is gone; elsewhere nothing can be prepared in a schema that is not there.
        let (moved, stayed) = twins.execute_each(statement, &[]).await;
        assert_eq!(stayed.error(), Some(1146));
        if !matches!(moved.error(), Some(1146 | 1049)) {
            wrong.push(format!("{how:?}: {moved:?}"));
        }
        wrong.extend(twins.say("SELECT DATABASE()").await.wrong());
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preparation_does_not_take_the_report_of_what_failed_code_has_set() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    ground.everywhere(
        "USE shop;
         DELIMITER //
         CREATE PROCEDURE sets_and_fails() BEGIN SET @b = 'set'; SET time_zone = '+07:00'; SELECT nosuch; END//
         DELIMITER ;",
    );
    let mut wrong = vec![];
    for how in [Move::HandedOver, Move::Drained] {
        let mut twins = ground.twins().await;
        twins.set("USE sa").await;
        let statement = twins.prepare("SELECT COUNT(*) FROM names").await;
        twins.set("USE sb").await;
        // Where it goes, the statement is not prepared.
        ground.cluster.move_on(how).await;
        wrong.extend(twins.say("CALL shop.sets_and_fails()").await.wrong());
        wrong.extend(twins.execute(statement, &[]).await.unequal(&format!("{how:?}")));
        // Its answer reports a change, and so that there is nothing else.
        wrong.extend(twins.say("SET max_sort_length = 1000").await.wrong());
        ground.cluster.move_on(how).await;
        wrong.extend(twins.say("SELECT @b, @@time_zone").await.wrong());
    }
    none_of(&wrong);
}

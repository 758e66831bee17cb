//! What a session may do before it is moved: steps, drawn at random.

use std::sync::Arc;

use fixture::client::ClientOptions;
use proptest::prelude::*;
use proptest::sample::select;
use protocol::capability::Caps;

use super::variables::Variable;
use harness::cluster::Move;

/// One thing that a session does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A text.
    Say(String),
    /// A text by preparing, executing and closing it.
    Run(String),
    /// Prepares a statement and keeps it.
    Prepare(String),
    /// Executes one of those that are kept, by number modulo their count.
    Execute(usize),
    /// COM_INIT_DB.
    InitDb(&'static str),
    /// COM_RESET_CONNECTION.
    Reset,
    /// COM_CHANGE_USER, to the same account with another schema and collation.
    ChangeUser(Option<&'static str>, u16),
    /// Several statements in one text: on or off.
    SetOption(bool),
    /// Its traffic moves. What is open is committed before.
    Move(Move),
}

/// A session from its login to its last move.
#[derive(Clone, Debug)]
pub struct Case {
    pub login: ClientOptions,
    pub steps: Vec<Step>,
    /// The last move; `None` for none at all: then whatever is found lies with the proxy, or with the test.
    pub moved: Option<Move>,
    /// Which question is asked first thing afterwards, by number modulo their count.
    pub first: usize,
}

const SCHEMAS: [&str; 4] = ["shop", "sa", "sb", "latin"];

const NAMES: &[&str] = &[
    "SET NAMES utf8mb4",
    "SET NAMES latin1",
    "SET NAMES binary",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES 'latin1' COLLATE 'latin1_german2_ci'",
    "SET NAMES utf8mb3 COLLATE utf8mb3_unicode_ci",
    "SET NAMES DEFAULT",
    "SET NAMES nosuch",
    "SET CHARACTER SET latin1",
    "SET CHARSET utf8mb4",
    "SET CHARACTER SET DEFAULT",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+01:00'",
    "SET lc_time_names = 'de_DE', NAMES latin1 COLLATE latin1_bin",
    "CALL speaks()",
];

const ROLES: &[&str] = &[
    "SET ROLE teller",
    "SET ROLE clerk",
    "SET ROLE NONE",
    "SET ROLE 'teller'",
    "SET ROLE nosuch",
    "SET @r = 'clerk'; SET ROLE @r",
];

const EXPRESSIONS: &[&str] = &[
    "1",
    "-5",
    "18446744073709551615",
    "1.50",
    "-0.001",
    "1e3",
    "'text'",
    "''",
    "'it''s'",
    "'back\\\\slash'",
    "'\u{e4}\u{20ac}'",
    "_latin1'x' COLLATE latin1_bin",
    "_binary'x'",
    "x'00FF10'",
    "b'101'",
    "NULL",
    "TRUE",
    "DATE '2024-02-29'",
    "TIMESTAMP '2024-02-29 12:00:00.5'",
    "1 + 1",
    "1.5 * 2",
    "PI()",
    "CONCAT('a', 5)",
    "CONCAT(@a, 'x')",
    "IFNULL(@b, 0) + 1",
    "(SELECT MAX(v) FROM sa.names)",
    "(SELECT COUNT(*) FROM sb.names)",
    "REPEAT('x', 200)",
    "JSON_OBJECT('a', 1)",
    "@@sort_buffer_size",
    "CAST('2024-01-01' AS DATE)",
    "CAST(5 AS UNSIGNED)",
    "LAST_INSERT_ID()",
    "ROW_COUNT()",
];

const VARIABLES: [&str; 5] = ["@a", "@b", "@C", "@`we ird`", "@'q'"];

const STATEMENTS: &[&str] = &[
    "SELECT v FROM names ORDER BY v",
    "SELECT DATABASE()",
    "SELECT \"v\" FROM sa.names ORDER BY 1",
    "SELECT 1 || ?",
    "SELECT 'a\\n', 'a' = 'A', CHARSET('x'), COLLATION('x')",
    "SELECT HEX('\u{e4}'), HEX(?)",
    "SELECT ? = 'A', CHARSET(?), COLLATION(?)",
    "INSERT INTO t (x) VALUES (?)",
    "INSERT INTO shop.t (x) VALUES (?) RETURNING id",
    "UPDATE shop.t SET x = x + ?",
    "CALL shop.adds()",
    "CALL p(?)",
    "SELECT f()",
    "SELECT @a, @b, ?",
    "SET time_zone = '+02:00'",
    "SET sort_buffer_size = ?",
    "SELECT 1 / 3, CAST('x' AS INT)",
    "SELECT LAST_INSERT_ID()",
    "SELECT COUNT (*) FROM sb.names",
    "SELECT NOT 1 BETWEEN -5 AND 5",
    "SHOW TABLES",
    "SELECT FOUND_ROWS(), ROW_COUNT()",
    "SELECT SQL_CALC_FOUND_ROWS v FROM sa.names LIMIT 1",
];

/// Rows, ids, warnings, sequences: what can be asked about later.
const PAST: &[&str] = &[
    "INSERT INTO shop.t (x) VALUES (1)",
    "INSERT INTO shop.t (x) VALUES (1), (2), (3)",
    "INSERT INTO shop.t (id, x) VALUES (700, 1)",
    "INSERT INTO shop.t (x) VALUES (5) RETURNING id, x",
    "REPLACE INTO shop.t (x) VALUES (6)",
    "INSERT IGNORE INTO shop.t (id, x) VALUES (1, 1), (NULL, 2)",
    "INSERT INTO shop.t (id, x) VALUES (NULL, 1), (1, 2), (1, 3)",
    "INSERT INTO shop.t (id) VALUES (1) ON DUPLICATE KEY UPDATE x = LAST_INSERT_ID(x + 7)",
    "UPDATE shop.t SET x = LAST_INSERT_ID(x + 1)",
    "INSERT INTO shop.t (x) SELECT seq FROM seq_1_to_3",
    "CALL shop.adds()",
    "SELECT shop.adding()",
    "SELECT LAST_INSERT_ID(77)",
    "DO LAST_INSERT_ID(78)",
    "SET last_insert_id = 79",
    "SET insert_id = 900",
    "BEGIN; INSERT INTO shop.t (x) VALUES (8); ROLLBACK",
    "BEGIN; INSERT INTO shop.t (x) VALUES (9); COMMIT",
    "DELETE FROM shop.plain",
    "INSERT INTO shop.plain VALUES (1), (2)",
    "SELECT CAST('x' AS INT)",
    "SELECT 1/0",
    "SELECT nosuch",
    "SELEKT",
    "DROP TABLE IF EXISTS nosuch",
    "CALL shop.warns()",
    "CALL shop.fails()",
    "SHOW WARNINGS",
    "SELECT SQL_CALC_FOUND_ROWS seq FROM seq_1_to_9 LIMIT 2",
    "SELECT seq FROM seq_1_to_4",
    "SELECT NEXT VALUE FOR shop.s",
    "INSERT INTO shop.plain VALUES (NEXT VALUE FOR shop.s)",
    "SELECT SETVAL(shop.s, 50)",
    "SET rand_seed1 = 5, rand_seed2 = 6",
    "SELECT RAND() * 0",
    "DO 0",
];

/// Transactions to come.
const TO_COME: &[&str] = &[
    "SET TRANSACTION READ ONLY",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET autocommit = 0",
    "SET autocommit = 1",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
];

/// What ties a session to its node, and what unties it.
const TIES: &[&str] = &[
    "CREATE TEMPORARY TABLE IF NOT EXISTS shop.tt (a INT)",
    "DROP TEMPORARY TABLE IF EXISTS shop.tt",
    "SELECT GET_LOCK('mine', 0)",
    "SELECT RELEASE_ALL_LOCKS()",
    "LOCK TABLES shop.plain READ",
    "UNLOCK TABLES",
    "HANDLER shop.plain OPEN",
    "PREPARE p1 FROM 'SELECT 5, DATABASE()'",
    "DEALLOCATE PREPARE p1",
    "CALL shop.makes()",
];

const PLAIN: &[&str] =
    &["SELECT 1", "SHOW TABLES LIKE 'nosuch'", "SET @nothing = NULL", "SELECT @@version_comment LIKE '%'"];

fn texts(all: &'static [&'static str]) -> impl Strategy<Value = Step> {
    select(all).prop_map(|text| Step::Say(text.to_owned()))
}

/// A system variable set in one of the many ways there are.
fn set(variables: Arc<Vec<Variable>>) -> impl Strategy<Value = Step> {
    let variable = (0..variables.len()).prop_map(move |at| variables[at].clone());
    variable.prop_flat_map(|variable| {
        let Variable { name, values } = variable;
        (select(values), 0..24u8).prop_map(move |(value, form)| set_in_form(&name, &value, form))
    })
}

fn set_in_form(name: &str, value: &str, form: u8) -> Step {
    let quoted = format!("SET {name} = {value}").replace('\'', "''");
    Step::Say(match form {
        0..=3 => format!("SET {name} = {value}"),
        4..=6 => format!("SET SESSION {name} = {value}"),
        7 => format!("SET @@session.{name} = {value}"),
        8 | 9 => format!("SET @@{name} = {value}"),
        10 => format!("SET @@local.{name} := {value}"),
        11 => format!("set local `{}` = {value}", name.to_uppercase()),
        12 => format!("SET {name} = DEFAULT"),
        13 => format!("SET {name} = @@global.{name}"),
        14 => format!("SET time_zone = '+01:00', {name} = {value}"),
        15 => format!("SET {name} = {value}, @a = 5"),
        16 => format!("SET {name} = {value}, nosuch = 1"),
        17 => format!("EXECUTE IMMEDIATE '{quoted}'"),
        18 => format!("BEGIN NOT ATOMIC SET {name} = {value}; END"),
        19 => format!("SET STATEMENT {name} = {value} FOR SELECT 1"),
        20 => format!("SELECT 1; SET {name} = {value}; SELECT 2"),
        21 => format!("/* a */ SET {name} = {value} -- b"),
        22 => format!("BEGIN NOT ATOMIC SET {name} = {value}; SIGNAL SQLSTATE '45000'; END"),
        _ => return Step::Run(format!("SET {name} = {value}")),
    })
}

fn user_variable() -> impl Strategy<Value = Step> {
    (select(&VARIABLES[..]), select(EXPRESSIONS), 0..6u8).prop_map(|(name, value, form)| match form {
        0..=2 => Step::Say(format!("SET {name} = {value}")),
        3 => Step::Say(format!("SELECT {value} INTO {name}")),
        4 => Step::Say(format!("SELECT {name} := {value}")),
        _ => Step::Run(format!("SET {name} = {value}")),
    })
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![Just(Move::HandedOver), Just(Move::Drained), Just(Move::Shut)]
}

fn step(variables: Arc<Vec<Variable>>) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => set(variables),
        5 => texts(NAMES),
        2 => texts(ROLES),
        6 => user_variable(),
        5 => select(STATEMENTS).prop_map(|sql| Step::Prepare(sql.to_owned())),
        4 => any::<usize>().prop_map(Step::Execute),
        6 => texts(PAST),
        3 => texts(TO_COME),
        1 => texts(TIES),
        2 => texts(PLAIN),
        2 => select(&SCHEMAS[..]).prop_map(|schema| Step::Say(format!("USE {schema}"))),
        1 => select(&SCHEMAS[..]).prop_map(Step::InitDb),
        1 => Just(Step::Reset),
        1 => (proptest::option::of(select(&SCHEMAS[..])), select(&COLLATIONS[..]))
            .prop_map(|(schema, charset)| Step::ChangeUser(schema, charset)),
        1 => any::<bool>().prop_map(Step::SetOption),
        1 => moves().prop_map(Step::Move),
    ]
}

/// Of logins: latin1_swedish_ci, latin1_bin, utf8mb3_general_ci, utf8mb4_general_ci, utf8mb4_bin, binary.
const COLLATIONS: [u16; 6] = [8, 47, 33, 45, 46, 63];

/// What a client may be able to do, beside the rest.
const EXTRAS: [Caps; 5] =
    [Caps::DEPRECATE_EOF, Caps::FOUND_ROWS, Caps::IGNORE_SPACE, Caps::INTERACTIVE, Caps::SESSION_TRACK];

fn login() -> impl Strategy<Value = ClientOptions> {
    let extras = proptest::sample::subsequence(&EXTRAS[..], 0..=EXTRAS.len());
    let schema = proptest::option::weighted(0.9, select(&SCHEMAS[..]));
    (schema, select(&COLLATIONS[..]), extras).prop_map(|(schema, charset, extras)| {
        let plain = ClientOptions::default();
        ClientOptions {
            database: schema.map(|schema| schema.as_bytes().to_vec()),
            charset,
            caps: extras.into_iter().fold(plain.caps, |caps, extra| caps | extra),
            ..plain
        }
    })
}

/// Sessions of up to so many steps.
pub fn cases(variables: Arc<Vec<Variable>>, steps_max: usize) -> impl Strategy<Value = Case> {
    let steps = proptest::collection::vec(step(variables), 1..=steps_max);
    (login(), steps, proptest::option::weighted(0.9, moves()), any::<usize>())
        .prop_map(|(login, steps, moved, first)| Case { login, steps, moved, first })
}

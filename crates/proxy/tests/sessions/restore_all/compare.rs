//! Everything that can be read of a session, asked of one that has moved and of its twin that has not.

use std::time::{Duration, Instant};

use fixture::client::{Param, Part, Reply};
use protocol::ok::status;

use super::steps::{Case, Step};
use harness::twin::{Comparison, Twins};

/// Variables that may differ, and why. Nothing else may.
const MAY_DIFFER: &[(&str, &str)] = &[
    ("port", "the server's"),
    ("report_port", "the server's"),
    ("aria_log_dir_path", "the server's"),
    ("socket", "the server's"),
    ("datadir", "the server's"),
    ("pid_file", "the server's"),
    ("init_file", "the server's"),
    ("log_error", "the server's"),
    ("tmpdir", "the server's"),
    ("slave_load_tmpdir", "the server's"),
    ("wsrep_data_home_dir", "the server's"),
    ("server_uid", "the server's"),
    ("log_bin_basename", "the server's"),
    ("log_bin_index", "the server's"),
    ("gtid_binlog_pos", "the server's: two servers write two logs"),
    ("gtid_binlog_state", "the server's, too"),
    ("gtid_current_pos", "the server's, too"),
    ("last_gtid", "of the server's log"),
    ("pseudo_thread_id", "the number of the connection, unless it was set: asked for itself then"),
    ("timestamp", "the clock, unless it was set: asked for itself then"),
    ("rand_seed1", "drawn anew for each connection, unless they were set: RAND() is asked then"),
    ("rand_seed2", "as above"),
    ("session_track_schema", "the proxy's own: it must be told what a session changes"),
    ("session_track_state_change", "as above"),
    ("session_track_system_variables", "as above"),
    ("session_track_transaction_info", "as above"),
];

/// What the server itself has wrong in a session that never moves: the steps that bring it about, each with what it does.
const QUIRKS: &[(&str, &str)] = &[
    // The status flags of an answer keep the sql_mode of a block after it has been put back.
    ("BEGIN NOT ATOMIC SET sql_mode", "flags"),
    // SET SESSION TRANSACTION inside a transaction that SET autocommit ends holds only from the statement after the next.
    ("SET autocommit = ", "late"),
];

/// One of these is asked first thing after the move: what the very last statement left behind, and what the next one takes up.
const FIRST: &[&str] = &[
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT @@warning_count",
    "SELECT @@error_count",
    "SELECT ROW_COUNT()",
    "SELECT FOUND_ROWS()",
    "SELECT LAST_INSERT_ID()",
    "SELECT @@last_insert_id, @@identity",
    "SELECT LASTVAL(shop.s)",
    "GET DIAGNOSTICS @n = NUMBER; SELECT @n",
    "INSERT INTO shop.t (x) VALUES (44)",
    "INSERT INTO shop.plain VALUES (LAST_INSERT_ID()) RETURNING x",
    // The server reads this list anew when nobody has asked for it for 0.1 s.
    "START TRANSACTION WITH CONSISTENT SNAPSHOT; DO SLEEP(0.11); SELECT trx_isolation_level FROM information_schema.innodb_trx; COMMIT",
    "SELECT @a, @b, @C",
    "SELECT v FROM names ORDER BY v",
    "SELECT 'a' = 'A', COLLATION('x')",
    "CALL shop.tells()",
];

const THEN: &[&str] = &[
    "INSERT INTO shop.plain VALUES (5)",
    "SELECT @@in_transaction, @@autocommit",
    "SELECT DATABASE(), CURRENT_ROLE(), USER(), CURRENT_USER()",
    "SELECT LAST_INSERT_ID()",
    "SELECT @@insert_id",
    "SELECT LASTVAL(shop.s)",
    "SELECT role_name FROM information_schema.enabled_roles",
    "SELECT @a, CHARSET(@a), COLLATION(@a), COERCIBILITY(@a)",
    "SELECT @b, CHARSET(@b), COLLATION(@b), COERCIBILITY(@b)",
    "SELECT @C, CHARSET(@C), COLLATION(@C), @`we ird`, @q, @r",
    "SELECT * FROM information_schema.user_variables WHERE variable_name <> 'n' ORDER BY variable_name",
    "SELECT ABS(@@timestamp - 1700000000) < 100, IF(ABS(@@timestamp - 1700000000) < 100, NOW(6), 0)",
    "SELECT 'a' = 'A', CHARSET('x'), COLLATION('x'), HEX('\u{e4}'), LENGTH('\u{e4}')",
    "SELECT \"names\", 'a' || 'b', 'a\\n', NOT 1 BETWEEN -5 AND 5",
    "SELECT 1 / 3, WEEK('2024-01-01'), MONTHNAME('2024-03-01'), FROM_UNIXTIME(0)",
    "SELECT GROUP_CONCAT(seq) FROM seq_1_to_20",
    "SELECT v FROM names ORDER BY v",
    "SELECT nosuch",
    "CREATE OR REPLACE TABLE shop.made (c CHAR(5), d VARCHAR(5) DEFAULT '\u{e4}'); SHOW CREATE TABLE shop.made",
    "SELECT 1 / 0, CAST('x' AS INT)",
    "SHOW WARNINGS",
];

/// Whatever makes blind, off; what is read then is in sight.
const CALM: &str = "SET sql_select_limit = DEFAULT, max_join_size = DEFAULT, sql_big_selects = 1, group_concat_max_len = 100000, \
    sql_mode = '', max_error_count = 64, character_set_client = utf8mb4, character_set_results = utf8mb4";

/// The server's refusal, said loudly enough.
const READ_ONLY: &str = "Error { code: 1792";
const READ_ONLY_CODE: u16 = 1792;

const ALL_VARIABLES: &str = "SHOW SESSION VARIABLES";

/// Nothing that is asked takes long, and nothing is to be waited for: where it stands now, traffic flows.
const SOON: Duration = Duration::from_secs(4);

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was the same.
    Same,
    /// The same but for so many questions that were answered with 9110.
    SameButForgotten(usize),
    /// The session was told that it cannot go on.
    Told(u16),
}

/// Asks all of it; what was wrong, if anything was.
pub async fn compare(twins: &mut Twins, case: &Case, statements: usize) -> Result<Ended, String> {
    let mut questions = vec![FIRST[case.first % FIRST.len()]];
    if has_seeds(case) {
        questions.push("SELECT RAND(), RAND()");
    }
    questions.extend(THEN);
    questions.push(ALL_VARIABLES);
    let mut forgotten = 0;
    let has = |quirk: &str| {
        let known = |text: &str| QUIRKS.iter().any(|(step, does)| *does == quirk && text.starts_with(step));
        case.steps.iter().any(|step| matches!(step, Step::Say(text) if known(text)))
    };
    let flags = if has("flags") { status::ANSI_QUOTES | status::NO_BACKSLASH_ESCAPES } else { 0 };
    let mut may_differ: Vec<&str> = MAY_DIFFER.iter().map(|(name, _)| *name).collect();
    for question in questions {
        match ask(twins, question, &may_differ, flags).await {
            Comparison::Same(_) => {}
            Comparison::Differs(what) if has("late") && what.contains(READ_ONLY) => {
                return Ok(Ended::Told(READ_ONLY_CODE));
            }
            // What it would have used up, or written, its twin has: from here on they are not the same.
            Comparison::Forgotten if touches_tables(question) => {
                return Ok(Ended::SameButForgotten(forgotten + 1));
            }
            Comparison::Forgotten => {
                forgotten += 1;
                if question.contains("LAST_INSERT_ID") || question.contains("@@last_insert_id") {
                    // Asked for by itself it is missed; a list of everything is for eyes.
                    may_differ.extend(["last_insert_id", "identity"]);
                }
            }
            Comparison::Ended(code) => return Ok(Ended::Told(code)),
            Comparison::Differs(what) => return Err(what),
        }
    }
    for number in 0..statements {
        match execute(twins, number).await {
            Comparison::Same(_) => {}
            Comparison::Forgotten => forgotten += 1,
            Comparison::Ended(code) => return Ok(Ended::Told(code)),
            Comparison::Differs(what) => return Err(format!("statement {number}: {what}")),
        }
    }
    for question in [
        CALM,
        "SELECT * FROM information_schema.user_variables WHERE variable_name <> 'n' ORDER BY 1",
        ALL_VARIABLES,
    ] {
        if let Comparison::Differs(what) = ask(twins, question, &may_differ, flags).await {
            return Err(what);
        }
    }
    Ok(if forgotten == 0 { Ended::Same } else { Ended::SameButForgotten(forgotten) })
}

/// Executes a kept statement, each of its parameters a small number.
pub async fn execute(twins: &mut Twins, number: usize) -> Comparison {
    let params = vec![Param::Int(2); twins.params(number)];
    twins.execute(number, &params).await
}

fn touches_tables(question: &str) -> bool {
    question.contains("shop.") || question.contains("names") || question.contains("TRANSACTION")
}

async fn ask(twins: &mut Twins, question: &str, may_differ: &[&str], flags: u16) -> Comparison {
    let began = Instant::now();
    let moved = without_what_may_differ(twins.moved.query(question).await, question, may_differ, flags);
    if began.elapsed() > SOON {
        return Comparison::Differs(format!("{question} => answered after {} s", began.elapsed().as_secs()));
    }
    let stayed = without_what_may_differ(twins.stayed.query(question).await, question, may_differ, flags);
    Comparison::of(question, (moved, stayed))
}

fn without_what_may_differ(mut reply: Reply, question: &str, may_differ: &[&str], flags: u16) -> Reply {
    for part in &mut reply.parts {
        if let Part::Done { status, .. } | Part::Rows { status, .. } = part {
            *status &= !flags;
        }
        let Part::Rows { columns, rows, .. } = part else { continue };
        if question == ALL_VARIABLES {
            // Of whatever width its letters are.
            rows.retain(|row| !may_differ.contains(&row[0].text().replace('\0', "").as_str()));
        }
        if question.starts_with("SELECT @") && rows.len() == 1 {
            // A variable that is NULL has kept the type of what it was before.
            for (at, value) in rows[0].iter().enumerate() {
                if value.0.is_none() {
                    (columns[at].kind, columns[at].charset, columns[at].length) = (6, 63, 0);
                    (columns[at].flags, columns[at].decimals) = (0, 0);
                }
            }
        }
    }
    reply
}

/// The seeds of RAND() were set by the session as it is now.
fn has_seeds(case: &Case) -> bool {
    let begins = case.steps.iter().rposition(|step| matches!(step, Step::Reset | Step::ChangeUser(..)));
    let steps = &case.steps[begins.map_or(0, |at| at + 1)..];
    steps.iter().any(|step| matches!(step, Step::Say(text) if text.contains("rand_seed1 = 5")))
}

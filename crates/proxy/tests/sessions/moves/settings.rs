//! What a session has set, in whatever order and under whatever settings of its own: after a move it is the same.

use harness::cluster::Move;
use harness::twin::{Comparison, Ground, MOVES, none_of};

/// Settings that depend on one another, and what shows them.
const DEPENDENT: &[(&[&str], &str)] = &[
    (
        &["SET character_set_connection = latin1, collation_connection = latin1_bin"],
        "SELECT 'a' = 'A', @@collation_connection",
    ),
    (
        &["SET collation_connection = latin1_bin, character_set_connection = utf8mb4"],
        "SELECT @@collation_connection",
    ),
    (
        &["SET collation_connection = latin1_bin", "SET character_set_connection = latin1"],
        "SELECT 'a' = 'A', @@collation_connection",
    ),
    (
        &["SET character_set_server = latin1, collation_server = latin1_bin"],
        "SELECT @@character_set_server, @@collation_server",
    ),
    (
        &["SET collation_server = latin1_bin", "SET character_set_server = utf8mb4"],
        "SELECT @@character_set_server, @@collation_server",
    ),
    (
        &["SET collation_server = latin1_bin", "SET character_set_server = DEFAULT"],
        "SELECT @@character_set_server, @@collation_server",
    ),
    (
        &["SET character_set_server = utf8mb4", "SET collation_server = latin1_bin"],
        "SELECT @@character_set_server, @@collation_server",
    ),
    (&["SET CHARACTER SET latin1", "USE latin"], "SELECT 'a' = 'A', COLLATION('x')"),
    (&["SET CHARACTER SET DEFAULT", "USE latin"], "SELECT 'a' = 'A', COLLATION('x')"),
    (&["USE latin", "SET CHARACTER SET latin1", "USE shop"], "SELECT 'a' = 'A', COLLATION('x')"),
    (&["SET character_set_database = latin1"], "SELECT @@character_set_database, @@collation_database"),
    (
        &["SET character_set_database = latin1, collation_database = latin1_bin"],
        "SELECT @@character_set_database, @@collation_database",
    ),
    (
        &["SET collation_database = latin1_bin", "SET character_set_database = latin1"],
        "SELECT @@character_set_database, @@collation_database",
    ),
    (&["SET max_join_size = 100, sql_big_selects = 1"], "SELECT @@max_join_size, @@sql_big_selects"),
    (&["SET sql_big_selects = 1", "SET max_join_size = 100"], "SELECT @@max_join_size, @@sql_big_selects"),
    (&["SET max_join_size = 100", "SET sql_big_selects = 1"], "SELECT @@max_join_size, @@sql_big_selects"),
    (
        &["SET max_join_size = 100", "SET max_join_size = DEFAULT"],
        "SELECT @@max_join_size, @@sql_big_selects",
    ),
    (&["CALL dependent()"], "SELECT @@collation_server, @@sql_big_selects"),
    (
        &["SET max_statement_time = 0.01, lock_wait_timeout = 5"],
        "SELECT @@max_statement_time, @@lock_wait_timeout",
    ),
];

fn lay_schemas(ground: &Ground) {
    ground.everywhere(
        "CREATE DATABASE latin CHARACTER SET latin1 COLLATE latin1_german1_ci; USE shop; CREATE TABLE plain (x INT);
         DELIMITER //
         CREATE PROCEDURE dependent() BEGIN
             SET character_set_server = latin1, collation_server = latin1_bin; SET max_join_size = 100, sql_big_selects = 1; END//
         CREATE PROCEDURE sets() BEGIN SET @a = 1; SET @b = 'two'; SET @c = 3.5; SET @d = NULL; END//
         CREATE PROCEDURE fails() BEGIN SET @a = 1; SET @b = 'two'; SET time_zone = '+05:00'; SET @@sort_buffer_size = 77824;
             SELECT nosuch; END//
         DELIMITER ;",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_depend_on_one_another_come_along() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for how in MOVES {
        for (done, asked) in DEPENDENT {
            ground.begin(&[]).await;
            let mut twins = ground.twins().await;
            for sql in *done {
                twins.set(sql).await;
            }
            // What no answer tells is asked of the node behind the answer; who is answered again knows that this was done.
            assert!(twins.moved.ping().await.error().is_none());
            // Twice: what was restored must be known as it is.
            for _ in 0..2 {
                ground.cluster.move_on(how).await;
                match twins.say(asked).await {
                    // What a procedure did is lost with a lost node.
                    Comparison::Ended(_) if how == Move::Shut && done[0].starts_with("CALL") => break,
                    told => wrong.extend(told.unequal(&format!("{how:?}, {}", done.join("; ")))),
                }
            }
        }
    }
    none_of(&wrong);
}

/// What a session may have set that is in the way of questions. (A transaction cannot be open: who is in one has a lease.)
const HINDRANCES: &[&str] = &[
    "SET sql_select_limit = 0",
    "SET sql_select_limit = 1",
    "SET sql_select_limit = 2",
    "SET max_statement_time = 0.001",
    "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY'",
    "SET sql_mode = 'ORACLE'",
    "SET sql_mode = 'MSSQL'",
    "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
    "SET sql_safe_updates = 1",
    "SET max_join_size = 1, sql_big_selects = 0",
    "SET SESSION TRANSACTION READ ONLY",
    "SET TRANSACTION READ ONLY",
    "SET autocommit = 0",
    "SET completion_type = 'CHAIN'",
    "SET tx_isolation = 'SERIALIZABLE'",
    "SET NAMES latin1",
    "SET character_set_results = NULL",
    "SET character_set_results = utf16",
    "SET NAMES binary",
    "SET div_precision_increment = 0",
    "SET group_concat_max_len = 4",
    "SET optimizer_switch = 'derived_merge=off'",
    "SET max_sort_length = 8",
    "SET big_tables = 1",
    "SET low_priority_updates = 1, profiling = 1",
];

/// What only the node knows.
const HIDDEN: &[&[&str]] = &[
    &["SET @a = (SELECT 1), @b = (SELECT 'two'), @c = (SELECT 3.5), @d = NULL"],
    &["CALL sets()"],
    &["CALL fails()"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_proxy_asks_is_answered_whatever_the_session_has_set() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    let (mut same, mut ended) = (0, vec![]);
    for how in [Move::HandedOver, Move::Drained] {
        for hindrance in HINDRANCES {
            for done in HIDDEN {
                ground.begin(&[]).await;
                let mut twins = ground.twins().await;
                let case = format!("{how:?}, {hindrance}; {}", done.join("; "));
                for sql in done.iter().chain([hindrance]) {
                    wrong.extend(twins.say(sql).await.unequal(&format!("before the move: {case}")));
                }
                ground.cluster.move_on(how).await;
                for asked in [
                    "SELECT @a, @b, @c, @d, @@time_zone, @@sort_buffer_size",
                    "INSERT INTO plain VALUES (1)",
                    "COMMIT",
                ] {
                    match twins.say(asked).await {
                        Comparison::Same(_) => same += 1,
                        Comparison::Differs(found) => wrong.push(format!("{case}: {found}")),
                        told => {
                            ended.push(format!("{told:?} {case}"));
                            break;
                        }
                    }
                }
            }
        }
    }
    println!("{same} the same; ended:\n{}", ended.join("\n"));
    none_of(&wrong);
    assert!(ended.len() < same / 4, "hardly anything can be asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_before_a_move_that_does_not_come_changes_nothing() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for done in [
        &["CALL sets()", "SET TRANSACTION READ ONLY"][..],
        &["CALL fails()", "SET TRANSACTION READ ONLY"],
        &["SET @a = (SELECT 1)", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY"],
        &["CALL sets()", "SET sql_select_limit = 1"],
    ] {
        for moves in [false, true] {
            ground.begin(&[]).await;
            let mut twins = ground.twins().await;
            for sql in done {
                wrong.extend(twins.say(sql).await.unequal("before"));
            }
            ground.cluster.drain().await;
            assert!(ground.cluster.quiet(harness::SECOND * 3).await);
            ground.cluster.undrain().await;
            if moves {
                ground.cluster.move_on(Move::HandedOver).await;
            }
            for asked in ["SELECT @a, @b", "SELECT @@sql_select_limit", "INSERT INTO plain VALUES (1)"] {
                wrong.extend(twins.say(asked).await.unequal(&format!("moves {moves}: {}", done.join("; "))));
            }
        }
    }
    none_of(&wrong);
}

/// SET TRANSACTION for the next one, and what comes before that. Each is followed by a transaction that writes.
const TO_COME: &[&[&str]] = &[
    &["SET TRANSACTION READ ONLY", "SELECT 1"],
    &["SET TRANSACTION READ ONLY", "SELECT 1 FROM DUAL", "DO 0"],
    &["SET TRANSACTION READ ONLY", "SELECT * FROM plain"],
    &["SET TRANSACTION READ ONLY", "SELECT @@tx_read_only", "SET @a = 1"],
    &["SET TRANSACTION READ ONLY", "SHOW TABLES"],
    &["SET TRANSACTION READ ONLY", "SELECT nosuch"],
    &["SET TRANSACTION READ ONLY", "BEGIN", "ROLLBACK"],
    &["SET TRANSACTION READ ONLY", "COMMIT"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_to_come_is_what_it_was_to_be() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for how in MOVES {
        for done in TO_COME {
            ground.begin(&[]).await;
            let mut twins = ground.twins().await;
            for sql in *done {
                wrong.extend(twins.say(sql).await.unequal("before the move"));
            }
            ground.cluster.move_on(how).await;
            for asked in ["START TRANSACTION", "INSERT INTO plain VALUES (1)", "ROLLBACK"] {
                match twins.say(asked).await {
                    Comparison::Same(_) => {}
                    Comparison::Differs(found) => {
                        wrong.push(format!("{how:?}, {}: {found}", done.join("; ")))
                    }
                    Comparison::Forgotten | Comparison::Ended(_) => break,
                }
            }
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_variables_of_plain_values_move_however_often_they_were_set() {
    let mut ground = Ground::lay();
    let mut wrong = vec![];
    for how in MOVES {
        ground.begin(&[]).await;
        let mut twins = ground.twins().await;
        for round in 0..100 {
            twins.set(format!("SET @tok = '{round}'")).await;
            twins.set(format!("SET @`Tok` = '{round}', @other = {round}")).await;
            twins.set(format!("SET @last{round} = {round}")).await;
        }
        ground.cluster.move_on(how).await;
        wrong.extend(
            twins.say("SELECT @tok, @TOK, @other, @last0, @last99").await.unequal(&format!("{how:?}")),
        );
    }
    none_of(&wrong);
}

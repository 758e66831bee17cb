//! SET NAMES with a collation, and everything else that decides in which character set and collation a session speaks, comes along.

use fixture::client::ClientOptions;
use harness::twin::{Comparison, Ground, MOVES, Twins, none_of};

/// What is said one after the other before the move.
const SAID: &[&[&str]] = &[
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin"],
    &["SET NAMES latin1 COLLATE latin1_bin"],
    &["set names 'utf8mb3' collate 'utf8mb3_unicode_ci'"],
    &["SET NAMES utf8mb4 COLLATE DEFAULT"],
    &["SET NAMES DEFAULT"],
    &["SET NAMES binary"],
    &["SET NAMES latin1"],
    &["SET CHARACTER SET latin1"],
    &["SET CHARSET utf8mb4"],
    &["SET CHARACTER SET DEFAULT"],
    &["SET collation_connection = utf8mb4_unicode_520_ci"],
    &["SET character_set_connection = latin1"],
    &["SET character_set_client = latin1"],
    &["SET character_set_results = latin1"],
    &["SET character_set_results = NULL"],
    &["SET @@session.collation_connection = latin1_german2_ci"],
    // what the last one leaves of those before
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES utf8mb4"],
    &["SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_bin"],
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET character_set_results = latin1"],
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET character_set_connection = utf8mb4"],
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET CHARACTER SET utf8mb4"],
    &["SET collation_connection = latin1_bin", "SET NAMES latin1"],
    &["SET NAMES latin1 COLLATE latin1_bin", "SET collation_connection = utf8mb4_bin"],
    &["SET character_set_client = latin1", "SET collation_connection = utf8mb4_bin"],
    &["SET NAMES latin1 COLLATE latin1_bin", "USE other"],
    // in one statement with other things, by a prepared one, in a text with others, one that fails
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+05:00'"],
    &["SET time_zone = '+05:00', NAMES utf8mb4 COLLATE utf8mb4_bin"],
    &["SET @a = 1, NAMES latin1 COLLATE latin1_bin"],
    &["SELECT 1; SET NAMES utf8mb4 COLLATE utf8mb4_bin; SELECT 2"],
    &["/* a */ SET NAMES utf8mb4 -- b\n COLLATE utf8mb4_bin"],
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES utf8mb4 COLLATE latin1_bin"],
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES nosuch"],
    &["SET NAMES utf8mb4 COLLATE utf8mb4_bin, nosuch = 1"],
    &["SET STATEMENT collation_connection = utf8mb4_bin FOR SELECT 'a' = 'A'"],
    &["EXECUTE IMMEDIATE 'SET NAMES utf8mb4 COLLATE utf8mb4_bin'"],
    &["BEGIN NOT ATOMIC SET NAMES utf8mb4 COLLATE utf8mb4_bin; END"],
    &["CALL speak()"],
    // of the schema, and of files
    &["USE other"],
    &["USE other", "USE shop"],
    &["SET character_set_filesystem = latin1"],
    &["SET collation_database = latin1_bin"],
    &["SET character_set_database = latin1"],
    &["SET collation_server = latin1_bin"],
    &["SET character_set_server = latin1"],
    &["SET lc_messages = 'de_DE'"],
];

/// How it then speaks.
const HEARD: &[&str] = &[
    "SELECT 'a' = 'A', CHARSET('x'), COLLATION('x'), HEX('\u{e4}'), LENGTH('\u{e4}'), COERCIBILITY('x')",
    "SHOW SESSION VARIABLES WHERE variable_name LIKE 'char%' OR variable_name LIKE 'coll%' OR variable_name = 'lc_messages'",
    "SELECT CONCAT('\u{e4}', v) FROM names",
    "SELECT COLLATION(CONCAT(1)), COLLATION(DATE '2024-01-01'), COLLATION(@nosuch), COLLATION(USER())",
    "CREATE OR REPLACE TABLE made (c CHAR(5), d VARCHAR(5) DEFAULT '\u{e4}')",
    "SHOW CREATE TABLE made",
    "SELECT nosuch",
];

fn lay_schemas(ground: &Ground) {
    ground.everywhere(
        "CREATE DATABASE other CHARACTER SET latin1 COLLATE latin1_german1_ci;
         CREATE PROCEDURE shop.speak() SET NAMES utf8mb4 COLLATE utf8mb4_bin;
         CREATE TABLE shop.names (v VARCHAR(9) CHARACTER SET latin1);
         CREATE TABLE other.names (v VARCHAR(9) CHARACTER SET utf8mb4);
         INSERT INTO shop.names VALUES (CONVERT(0xC3B6 USING utf8mb4));
         INSERT INTO other.names VALUES (CONVERT(0xC3B6 USING utf8mb4))",
    );
}

/// The first thing that is heard wrong, if any. An end of the session in an honest word ends it.
async fn hear(twins: &mut Twins, said: &str) -> Option<String> {
    for sql in HEARD {
        match twins.say(sql).await {
            Comparison::Same(_) | Comparison::Forgotten => {}
            Comparison::Ended(_) => return None,
            Comparison::Differs(found) => return Some(format!("{said}: {found}")),
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_collations_come_along() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for how in MOVES {
        for said in SAID {
            let mut twins = ground.twins().await;
            for sql in *said {
                twins.set(sql).await;
            }
            ground.cluster.move_on(how).await;
            wrong.extend(hear(&mut twins, &format!("{how:?}: {}", said.join("; "))).await);
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_set_names_comes_along() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for how in MOVES {
        let mut twins = ground.twins().await;
        let statement = twins.prepare("SET NAMES utf8mb4 COLLATE utf8mb4_bin").await;
        assert_eq!(twins.execute(statement, &[]).await.wrong(), None);
        twins.set("SELECT 'a' = 'A'").await;
        ground.cluster.move_on(how).await;
        wrong.extend(hear(&mut twins, &format!("{how:?}")).await);
    }
    none_of(&wrong);
}

/// Collations that a client may name at its login and that are not their character set's default, by number.
const AT_LOGIN: [u16; 7] = [
    8,  // latin1_swedish_ci, the default one
    47, // latin1_bin
    46, // utf8mb4_bin
    33, // utf8mb3_general_ci
    83, // utf8mb3_bin
    63, // binary
    0,  // none: the server's own
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_collation_of_the_login_comes_along() {
    let mut ground = Ground::lay();
    lay_schemas(&ground);
    let mut wrong = vec![];
    for how in MOVES {
        for charset in AT_LOGIN {
            let options = ClientOptions { charset, ..ClientOptions::default() };
            let mut twins = ground.twins_as(&options).await;
            // Without a move: as without the proxy.
            wrong.extend(hear(&mut twins, &format!("login {charset}")).await);
            ground.cluster.move_on(how).await;
            wrong.extend(hear(&mut twins, &format!("{how:?}: login {charset}")).await);
            // What a change of user and a reset set it back to.
            let mut twins = ground.twins().await;
            twins.change_user(&options).await;
            ground.cluster.move_on(how).await;
            wrong.extend(hear(&mut twins, &format!("{how:?}: change of user {charset}")).await);
            let mut twins = ground.twins_as(&options).await;
            twins.set("SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci").await;
            twins.reset().await;
            ground.cluster.move_on(how).await;
            wrong.extend(hear(&mut twins, &format!("{how:?}: reset {charset}")).await);
        }
    }
    none_of(&wrong);
}

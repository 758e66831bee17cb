//! The default schema of a session comes along: in whichever character set its name was said; and where it is gone by then, the session goes on without
//! it, as on the server that it was on. A refused change of the user leaves the session that MariaDB leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fixture::Server;
use fixture::client::{Client, ClientOptions, Part};
use harness::fact_answerer::Kept;
use harness::twin::{Comparison, Ground, MOVES, Twins, none_of};
use harness::{Bench, routes, settings};
use protocol::command::Command;
use protocol::native;
use topology::account::{Account, Accounts, Proof};
use topology::routes::{LaneState, Routes};

/// latin1_swedish_ci, cp1251_general_ci, utf8mb4_general_ci, and the name in each of these character sets.
const NAMES: [(&str, u16, &[u8]); 5] = [
    ("latin1", 8, b"s\xe9"),
    ("cp1251", 51, b"\xe4\xe1"),
    ("utf8mb4", 45, "sé".as_bytes()),
    ("utf8mb4", 45, "дб".as_bytes()),
    ("utf8mb4", 45, b"a-b.c d"),
];

const SAID_HOW: [&str; 3] = ["login", "USE", "COM_INIT_DB"];

/// What the connection speaks afterwards.
const THEN: [&str; 4] = ["DO 0", "SET NAMES utf8mb4", "SET NAMES latin1", "SET NAMES cp1251"];

fn init_db(name: &[u8]) -> Vec<u8> {
    [&[Command::INIT_DB.0][..], name].concat()
}

fn use_of(name: &[u8]) -> Vec<u8> {
    [&b"USE `"[..], name, b"`"].concat()
}

/// The schema, and a write to it without its name.
async fn where_it_is(twins: &mut Twins, what: &str) -> Vec<String> {
    let mut wrong = vec![];
    for question in [
        "SELECT HEX(CONVERT(DATABASE() USING utf8mb4)), @@character_set_client, @@collation_connection",
        "CREATE OR REPLACE TABLE here (a INT)",
        "SELECT @@character_set_database, HEX(CONVERT(SCHEMA() USING utf8mb4))",
    ] {
        wrong.extend(twins.say(question).await.unequal(what));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_comes_along_whichever_character_set_its_name_was_said_in() {
    let mut ground = Ground::lay();
    ground.everywhere("SET NAMES utf8mb4; CREATE DATABASE `sé` CHARACTER SET latin1; CREATE DATABASE `дб`; CREATE DATABASE `a-b.c d`");
    // What a name in latin1 looks like to a server that takes it for UTF-8, the other way around.
    ground.everywhere("SET NAMES utf8mb4; CREATE DATABASE `sÃ©`; GRANT ALL ON *.* TO app@'%'");
    let mut wrong = vec![];
    for (charset, collation, name) in NAMES {
        for said in SAID_HOW {
            for then in THEN {
                let by_login = said == "login";
                let options = ClientOptions {
                    charset: collation,
                    database: Some(if by_login { name.to_vec() } else { b"shop".to_vec() }),
                    ..ClientOptions::default()
                };
                let mut twins = ground.twins_as(&options).await;
                match said {
                    "USE" => twins.set(use_of(name)).await,
                    "COM_INIT_DB" => assert_eq!(twins.ask(&init_db(name)).await.wrong(), None),
                    _ => {}
                }
                let statement = twins.prepare("SELECT HEX(CONVERT(DATABASE() USING utf8mb4)), 'é'").await;
                twins.set(then).await;
                for how in MOVES {
                    ground.cluster.move_on(how).await;
                    let what = format!("{} in {charset} by {said}, {then}, {how:?}", name.escape_ascii());
                    wrong.extend(where_it_is(&mut twins, &what).await);
                    wrong.extend(twins.execute(statement, &[]).await.unequal(&what));
                }
            }
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_known_in_the_character_set_of_the_login() {
    let server = Server::start(&[]);
    server.sql(
        "SET NAMES utf8mb4; CREATE USER `josé`@'%' IDENTIFIED BY 'secret'; GRANT ALL ON shop.* TO `josé`@'%'",
    );
    let mut routes = Routes::clone(&routes(1, &[(&server, LaneState::Open, 1)]));
    let proof = || Proof::Native(native::stage2(&native::stage1(b"secret")));
    let account = |user: &str| Account { user: user.into(), host: "%".into(), proof: proof(), locked: false };
    routes.accounts = Arc::new(Accounts::new(vec![account("josé"), account("app")]));
    let bench = Bench::new(settings(), Arc::new(routes));
    let proxy = bench.proxy.local_addresses()[0];
    for (charset, user) in [(8, &b"jos\xe9"[..]), (45, "josé".as_bytes()), (31, b"jos\xe9")] {
        let options = ClientOptions { user: user.to_vec(), charset, ..ClientOptions::default() };
        let question = "SELECT HEX(CONVERT(CURRENT_USER() USING utf8mb4)), @@collation_connection";
        for address in [server.address(), proxy] {
            let mut client = Client::connect_as(address, &options).await.unwrap();
            let told = client.query(question).await;
            assert_eq!(told.rows()[0][0].text(), "6A6F73C3A94025", "{charset} at {address}");
            // The same by a change of the user, under another character set than before.
            let mut client = Client::connect(address).await;
            client.change_user(&options).await.unwrap();
            assert_eq!(client.query(question).await, told, "{charset} at {address}");
        }
    }
}

/// What a session without its schema is asked, and whether the same answer must come: the name of the schema is not known where it is not.
const WITHOUT: [(&str, bool); 8] = [
    ("SELECT 1", true),
    ("SELECT COUNT(*) FROM shop.t", true),
    ("SELECT * FROM t", false),
    ("SELECT DATABASE()", false),
    ("UPDATE shop.t SET a = 1", true),
    ("SELECT ROW_COUNT()", true),
    ("SELECT CAST('x' AS INT)", true),
    ("SHOW WARNINGS", true),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_without_a_schema_that_is_gone() {
    let mut ground = Ground::lay();
    ground.everywhere("CREATE TABLE shop.t (a INT); GRANT ALL ON *.* TO app@'%'");
    let mut wrong = vec![];
    for how in MOVES {
        for end in ["SELECT 1", "USE shop", "COM_INIT_DB", "reset", "again"] {
            ground.everywhere("CREATE OR REPLACE DATABASE gone; CREATE TABLE gone.t (a INT)");
            let mut twins = ground.twins().await;
            twins.set("USE gone").await;
            ground.everywhere("DROP DATABASE gone");
            ground.cluster.move_on(how).await;
            let what = format!("{how:?}, {end}");
            for (question, is_same) in WITHOUT {
                match twins.say(question).await {
                    Comparison::Same(_) => {}
                    Comparison::Differs(_) if !is_same => {
                        let told = twins.moved.query(question).await;
                        let is_told = matches!(told.error(), Some(1046 | 1049));
                        wrong.extend((!is_told).then(|| format!("{what}: {question}: {told:?}")));
                    }
                    other => wrong.push(format!("{what}: {question}: {other:?}")),
                }
            }
            let last = match end {
                "COM_INIT_DB" => twins.ask(&init_db(b"shop")).await,
                "reset" => twins.reset_each().await,
                "again" => {
                    ground.everywhere("CREATE DATABASE gone; CREATE TABLE gone.t (a INT)");
                    twins.say("SELECT * FROM t").await
                }
                sql => twins.say(sql).await,
            };
            wrong.extend(last.unequal(&what));
            if ["USE shop", "COM_INIT_DB", "again"].contains(&end) {
                wrong.extend(where_it_is(&mut twins, &what).await);
            }
            ground.everywhere("DROP DATABASE IF EXISTS gone");
        }
    }
    none_of(&wrong);
}

/// What is told at once takes less than this, also on a busy machine; a hold lasts 10 s.
const AT_ONCE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_of_a_session_without_its_schema() {
    let mut ground = Ground::lay();
    ground.everywhere("CREATE TABLE shop.t (a INT); CREATE DATABASE other; GRANT ALL ON *.* TO app@'%'");
    let mut wrong = vec![];
    for how in MOVES {
        ground.everywhere("CREATE OR REPLACE DATABASE gone; CREATE TABLE gone.t (a INT)");
        let mut twins = ground.twins().await;
        let of_shop = twins.prepare("SELECT COUNT(*) FROM shop.t").await;
        twins.set("USE gone").await;
        let of_gone = twins.prepare("SELECT COUNT(*) FROM t").await;
        ground.everywhere("DROP DATABASE gone");
        ground.cluster.move_on(how).await;
        let began = Instant::now();
        // Prepared under another schema: that could not be left again for none.
        let (moved, _) = twins.execute_each(of_shop, &[]).await;
        wrong.extend((moved.error() != Some(1049)).then(|| format!("{how:?}: {moved:?}")));
        let (moved, _) = twins.execute_each(of_gone, &[]).await;
        wrong.extend((moved.error() != Some(1046)).then(|| format!("{how:?}: {moved:?}")));
        assert!(began.elapsed() < AT_ONCE, "{how:?}: {:?}", began.elapsed());
        wrong.extend(twins.say("SELECT COUNT(*) FROM shop.t").await.unequal(&format!("{how:?}")));
        ground.everywhere("CREATE DATABASE gone; CREATE TABLE gone.t (a INT)");
        wrong.extend(twins.execute(of_gone, &[]).await.unequal(&format!("{how:?}: it is back")));
        wrong.extend(twins.execute(of_shop, &[]).await.unequal(&format!("{how:?}: it is back")));
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_session_is_still_without_its_schema() {
    let mut ground = Ground::lay();
    ground.everywhere("CREATE DATABASE gone; GRANT ALL ON *.* TO app@'%'");
    let mut twins = ground.twins().await;
    twins.set("USE gone").await;
    ground.everywhere("DROP DATABASE gone");
    ground.cluster.move_on(MOVES[0]).await;
    twins.reset().await;
    assert_eq!(twins.moved.query("SELECT DATABASE()").await.error(), Some(1049));
    ground.everywhere("CREATE DATABASE gone; CREATE TABLE gone.t (a INT)");
    none_of(&Vec::from_iter(twins.say("SELECT DATABASE(), COUNT(*) FROM t").await.unequal("it is back")));
}

/// A change of the user that is refused.
fn refused() -> [(&'static str, ClientOptions); 3] {
    let to = |user: &str, password: &str, schema: &[u8]| ClientOptions {
        user: user.into(),
        password: password.into(),
        database: Some(schema.to_vec()),
        ..ClientOptions::default()
    };
    [
        ("wrong password", to("app", "wrong", b"shop")),
        ("no such user", to("nobody", "secret", b"shop")),
        ("no such schema", to("app", "secret", b"nowhere")),
    ]
}

const AFTER: [&str; 5] = [
    "SELECT CURRENT_USER(), DATABASE(), @u, @@autocommit, LAST_INSERT_ID()",
    "SELECT @@character_set_client, @@character_set_results, @@collation_connection, @@sql_mode",
    "SELECT COUNT(*) FROM t",
    "SELECT * FROM own",
    "SELECT COLLATION('x'), HEX('é')",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_change_of_the_user_leaves_what_mariadb_leaves() {
    let servers = [Server::start(&[]), Server::start(&[])];
    for server in &servers {
        server.sql("CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY); GRANT ALL ON *.* TO app@'%'");
    }
    let [apart, behind] = servers;
    let kept = Kept::start(settings(), &[behind.address()], false);
    let mut wrong = vec![];
    // latin1_swedish_ci: not what the server speaks by itself.
    let options = ClientOptions { charset: 8, ..ClientOptions::default() };
    for (what, to) in refused() {
        let direct = Client::connect_as(apart.address(), &options).await.unwrap();
        let mut twins = Twins::of(Client::connect_as(kept.address(), &options).await.unwrap(), direct);
        for sql in [
            "SET @u = 5, sql_mode = 'ANSI'",
            "SET NAMES cp1251",
            "CREATE TEMPORARY TABLE own (a INT)",
            "BEGIN",
            "INSERT INTO t VALUES (NULL)",
        ] {
            twins.set(sql).await;
        }
        // After three of them MariaDB takes none any more.
        let times = if what == "wrong password" { 4 } else { 1 };
        for time in 0..times {
            let code = |part: Result<(), Part>| match part {
                Err(Part::Error { code, .. }) => code,
                other => panic!("{what}, {time}: {other:?}"),
            };
            let (moved, stayed) = tokio::join!(twins.moved.change_user(&to), twins.stayed.change_user(&to));
            assert_eq!(code(moved), code(stayed), "{what}, {time}");
            for question in AFTER {
                wrong.extend(twins.say(question).await.unequal(&format!("{what}, {time}")));
            }
        }
    }
    none_of(&wrong);
}

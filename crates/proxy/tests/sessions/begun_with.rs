//! The flags that a client was told when its session began (autocommit, and two modes that decide how texts are read) hold for as long as it sets
//! nothing else: also on a server that begins its sessions with others. A driver sends no COMMIT where it was told autocommit, so that what such a
//! client was told to be written would not be.

use std::sync::Arc;

use fixture::client::{Client, ClientOptions};
use harness::cluster::{Cluster, Move};
use harness::{Bench, routes, settings};
use protocol::ok::status::{ANSI_QUOTES, AUTOCOMMIT, NO_BACKSLASH_ESCAPES};
use topology::routes::LaneState::{Draining, Open, Shut};
use topology::routes::{Routes, ServerGreeting};

const FLAGS: u16 = AUTOCOMMIT | NO_BACKSLASH_ESCAPES | ANSI_QUOTES;
/// What both flags of texts decide, in one row: the length of two characters and of a name, if it is one.
const READ: &str = r#"SELECT CAST(LENGTH('\\') AS CHAR), "x" FROM (SELECT 'column' AS x) AS t"#;
/// Settings of a server, the flags that sessions begin with under them, and its answer to [`READ`].
const BEGINNINGS: &[(&str, u16, [&str; 2])] = &[
    ("autocommit = 1, sql_mode = ''", AUTOCOMMIT, ["1", "x"]),
    ("autocommit = 0, sql_mode = ''", 0, ["1", "x"]),
    ("autocommit = 1, sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,NO_ZERO_DATE'", FLAGS, ["2", "column"]),
];

fn set_global(settings: &str) -> String {
    format!("SET GLOBAL {}", settings.replace(", ", ", GLOBAL "))
}

/// Writes a row, and looks whether it is there for everybody.
async fn writes(cluster: &Cluster, client: &mut Client, x: u32, flags: u16, case: &str) {
    let told = client.run(&format!("INSERT INTO plain VALUES ({x})")).await;
    assert_eq!(told.status().map(|status| status & FLAGS), Some(flags), "{case}: the flags of the answer");
    let count = || cluster.here().sql(&format!("SELECT COUNT(*) FROM shop.plain WHERE x = {x}"));
    let is_committed = if flags & AUTOCOMMIT == 0 { "0" } else { "1" };
    assert_eq!(count().trim(), is_committed, "{case}: what others see of an acknowledged row");
    client.run("ROLLBACK").await;
    assert_eq!(count().trim(), is_committed, "{case}: after a ROLLBACK");
}

async fn reads(client: &mut Client, read: [&str; 2], case: &str) {
    let told = client.run(READ).await;
    let row: Vec<_> = told.rows()[0].iter().map(fixture::client::Value::text).collect();
    assert_eq!(row, read, "{case}");
}

fn cluster() -> Cluster {
    let cluster = Cluster::start(2);
    cluster.everywhere("USE shop; CREATE TABLE plain (x INT)");
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_moves_keeps_the_flags_that_it_began_with() {
    let mut cluster = cluster();
    let mut x = 0;
    for (here, flags, read) in BEGINNINGS {
        for (there, ..) in BEGINNINGS {
            for how in [Move::HandedOver, Move::Drained, Move::Shut] {
                let case = format!("from {here} to {there}, {how:?}");
                cluster.here().sql(&set_global(here));
                cluster.servers[1 - cluster.at].sql(&set_global(there));
                let mut client = cluster.client().await;
                let prepared = client.prepare(READ).await.unwrap();
                x += 1;
                writes(&cluster, &mut client, x, *flags, &case).await;
                cluster.move_on(how).await;
                x += 1;
                writes(&cluster, &mut client, x, *flags, &case).await;
                reads(&mut client, *read, &case).await;
                let again = client.execute(&prepared, &[]).await;
                assert_eq!(again.rows()[0][0].text(), read[0], "{case}: prepared before");
            }
        }
    }
}

/// What the client sets itself counts, and a transaction to come is not used up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_session_has_set_is_not_set_back() {
    let mut cluster = cluster();
    let mut client = cluster.client().await;
    client.run("SET autocommit = 0, sql_mode = 'NO_BACKSLASH_ESCAPES'").await;
    client.run("SET TRANSACTION READ ONLY").await;
    cluster.servers[1].sql(&set_global("autocommit = 0, sql_mode = 'ANSI'"));
    cluster.move_on(Move::HandedOver).await;
    assert_eq!(
        client.query("INSERT INTO plain VALUES (1)").await.error(),
        Some(1792),
        "a read-only transaction"
    );
    client.run("ROLLBACK").await;
    reads(&mut client, ["2", "x"], "its own mode").await;
    writes(&cluster, &mut client, 1, NO_BACKSLASH_ESCAPES, "its own flags").await;
    cluster.servers[0].sql(&set_global("autocommit = 0, sql_mode = ''"));
    let mut other = cluster.client().await;
    assert_eq!(
        other.run("SET autocommit = 1").await.status().map(|status| status & FLAGS),
        Some(AUTOCOMMIT | ANSI_QUOTES)
    );
    other.run("SET TRANSACTION READ ONLY").await;
    cluster.move_on(Move::HandedOver).await;
    assert_eq!(
        other.query("INSERT INTO plain VALUES (1)").await.error(),
        Some(1792),
        "a read-only transaction"
    );
    other.run("ROLLBACK").await;
    writes(&cluster, &mut other, 2, AUTOCOMMIT | ANSI_QUOTES, "one of each").await;
}

/// The first statement of Connector/J: a server reports none of its variables, as one of them is what it is to report.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn autocommit_that_no_server_reports_moves_as_well() {
    let mut cluster = cluster();
    let set = |autocommit: u8| {
        format!(
            "set autocommit={autocommit},sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES'),session_track_system_variables=\
             CONCAT(@@global.session_track_system_variables,',tx_isolation')"
        )
    };
    let mut x = 0;
    for global in [0, 1] {
        cluster.everywhere(&format!("SET GLOBAL autocommit = {global}"));
        for own in [0, 1] {
            let flags = if own == 1 { AUTOCOMMIT } else { 0 };
            for before in [None, Some(set(own)), Some(format!("SET autocommit = {}", 1 - own))] {
                let case = format!("autocommit = {global} for all, {before:?}, then {own}");
                let mut client = cluster.client().await;
                if let Some(before) = &before {
                    client.run(before).await;
                }
                client.run(&set(own)).await;
                x += 1;
                writes(&cluster, &mut client, x, flags, &case).await;
                cluster.move_on(Move::HandedOver).await;
                x += 1;
                writes(&cluster, &mut client, x, flags, &format!("{case}, moved")).await;
            }
        }
    }
}

/// As on a server, it begins anew: with what its present server gives, and with that on the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_begun_anew_has_the_flags_of_where_that_was() {
    for by_reset in [true, false] {
        let mut cluster = cluster();
        let mut client = cluster.client().await;
        cluster.servers[1].sql(&set_global("autocommit = 0"));
        cluster.move_on(Move::HandedOver).await;
        writes(&cluster, &mut client, 1, AUTOCOMMIT, "moved").await;
        if by_reset {
            client.reset().await;
        } else {
            client.change_user(&ClientOptions::default()).await.unwrap();
        }
        writes(&cluster, &mut client, 2, 0, "begun anew").await;
        cluster.move_on(Move::Shut).await;
        writes(&cluster, &mut client, 3, 0, "moved back").await;
    }
}

/// The client was told by the greeting, before any server had it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_while_statements_are_held_is_kept_to() {
    let server = fixture::Server::start(&[]);
    for (status, other) in [(AUTOCOMMIT, "0"), (0, "1")] {
        server.sql(&format!("SET GLOBAL autocommit = {other}"));
        let mut held = Routes::clone(&routes(1, &[(&server, Draining, 1)]));
        let greeting = held.greeting.take().unwrap();
        held.greeting = Some(Arc::new(ServerGreeting { status, ..ServerGreeting::clone(&greeting) }));
        let bench = Bench::new(settings(), Arc::new(held));
        let mut client = Client::connect(bench.proxy.local_addresses()[0]).await;
        assert_eq!(client.welcome[3..5], status.to_le_bytes());
        bench.follow(routes(2, &[(&server, Open, 1)])).await;
        let told = client.run("DO 1").await;
        assert_eq!(told.status().map(|told| told & FLAGS), Some(status), "the node gives others {other}");
    }
}

/// What a node sets by itself after the login is no less the session's: the proxy's own OK came before it, as a server's does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_connect_holds_after_a_login_while_statements_are_held() {
    let servers = [fixture::Server::start(&[]), fixture::Server::start(&[])];
    for server in &servers {
        // Whoever may do everything is spared init_connect.
        server.sql(
            "DROP USER app@'%'; CREATE USER app@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('secret'); \
             GRANT ALL ON shop.* TO app@'%'; CREATE TABLE shop.plain (x INT)",
        );
    }
    servers[0].sql("SET GLOBAL init_connect = 'SET autocommit = 0'");
    let bench = Bench::new(settings(), routes(1, &[(&servers[0], Draining, 1), (&servers[1], Shut, 1)]));
    let mut through = Client::connect(bench.proxy.local_addresses()[0]).await;
    assert_eq!(through.welcome[3..5], AUTOCOMMIT.to_le_bytes());
    bench.follow(routes(2, &[(&servers[0], Open, 1), (&servers[1], Shut, 1)])).await;
    let mut direct = Client::connect(servers[0].address()).await;
    for client in [&mut direct, &mut through] {
        let told = client.run("INSERT INTO plain VALUES (1)").await;
        assert_eq!(told.status().map(|told| told & AUTOCOMMIT), Some(0));
        client.run("ROLLBACK").await;
    }
    // The next node has no init_connect.
    bench.follow(routes(3, &[(&servers[0], Shut, 1), (&servers[1], Open, 2)])).await;
    let told = through.run("INSERT INTO plain VALUES (2)").await;
    assert_eq!(told.status().map(|told| told & AUTOCOMMIT), Some(0), "moved");
    for server in &servers {
        assert_eq!(server.sql("SELECT COUNT(*) FROM shop.plain").trim(), "0");
    }
    // A session that began where it sets nothing keeps autocommit where it turns it off.
    let mut other = Client::connect(bench.proxy.local_addresses()[0]).await;
    other.run("DO 1").await;
    bench.follow(routes(4, &[(&servers[0], Open, 3), (&servers[1], Shut, 2)])).await;
    let told = other.run("INSERT INTO plain VALUES (3)").await;
    assert_eq!(told.status().map(|told| told & AUTOCOMMIT), Some(AUTOCOMMIT));
    assert_eq!(servers[0].sql("SELECT COUNT(*) FROM shop.plain").trim(), "1");
}

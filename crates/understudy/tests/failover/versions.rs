//! `understudy serve` before servers of other versions than the machine's, which `scripts/servers.sh` unpacks.

use std::time::{Duration, Instant};

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::MONITOR_USER;
use lab::stage::{ClusterKind, StagePlan};
use link::{Endpoint, Link, LinkError, Login, Secret};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::{Writers, connect};
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(30);

/// MariaDB 11.8 has TLS by default: the primary is changed while clients write, and idle sessions have their state on the new one; that of an account of
/// `parsec`, too, whose password is configured.
#[tokio::test(flavor = "multi_thread")]
async fn a_switchover_on_mariadb_11_8() {
    let scene = Scene::on(StagePlan {
        server: Some("mariadb-11.8".to_owned()),
        kind: ClusterKind::Replication { semi_sync: true },
        name: format!("t{}-other", std::process::id()),
        server_options: vec!["plugin_maturity=beta".to_owned()],
        ..StagePlan::default()
    })
    .await;
    let signer = scene.signer("auth_parsec", "parsec").await;
    let directory = scene.directory(&format!("failover_gap_ms = 0\n{signer}"));
    let serving = Serving::start(directory.path());
    assert_eq!(writer(&status_when(&serving, "all are well", is_well)), "db1");

    let said = scene.client("mariadb-11.8", "mariadb", "\\s");
    assert!(said.contains("TLS_AES"), "{said}");

    let login = Login::with_password("signer", "signed");
    let mut signed = Link::connect(&scene.through().to_string(), &login, LONG).await.unwrap();
    signed.query("SET @remembered = 8", LONG).await.unwrap();
    let mut session = connect(scene.through()).await.unwrap();
    session.query_drop("SET @remembered = 7, SESSION sql_mode = 'ANSI_QUOTES'").await.unwrap();
    // This version does not report the collation.
    let collation = "utf8mb4_unicode_520_ci".to_owned();
    session.query_drop(format!("SET collation_connection = {collation}")).await.unwrap();
    let state = "SELECT @remembered, @@sql_mode, @@collation_connection, @@server_id";
    let before: Option<(u32, String, String, u32)> = session.query_first(state).await.unwrap();
    assert_eq!(before, Some((7, "ANSI_QUOTES".to_owned(), collation.clone(), 1)));
    let writers = Writers::at(scene.through());
    writers.more(20).await;
    serving.ask(&["switchover", "--to", "db2"]).with(0);
    writers.more(20).await;
    let after: Option<(u32, String, String, u32)> = session.query_first(state).await.unwrap();
    assert_eq!(after, Some((7, "ANSI_QUOTES".to_owned(), collation, 2)));
    let after = signed.query("SELECT @remembered, @@server_id, CURRENT_USER()", LONG).await.unwrap();
    assert_eq!([0, 1, 2].map(|column| after.text(0, column)), [Some("8"), Some("2"), Some("signer@%")]);
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;

    let follows = |status: &_| is_well(status) && scene.follows(status, "db1") == scene.address("db2");
    assert_eq!(writer(&status_when(&serving, "db1 follows db2", follows)), "db2");
    session.disconnect().await.unwrap();
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// A primary with replicas of MySQL, whose accounts are of `caching_sha2_password`: switchovers and a kill while plain clients write. No client sees a
/// switchover, and an idle session of `sha256_password` has its state on each primary; the kill is seen once by each at most.
#[tokio::test(flavor = "multi_thread")]
async fn switchovers_and_a_kill_on_mysql_9_7() {
    let scene = Scene::mysql("mysql").await;
    let older = "CREATE USER older@'%' IDENTIFIED WITH sha256_password BY 'secret'";
    scene.stage.run_in("db1", older).await.unwrap();
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    assert_eq!(writer(&status_when(&serving, "all are well", is_well)), "db1");
    // No server remembers the account: the client shows its password under TLS, and the servers are shown it under their RSA keys.
    let said = scene.client("mysql-9.7", "mysql", "SELECT 6 * 7");
    assert!(said.starts_with("42\n"), "{said}");
    let login = Login::with_password("older", "secret");
    let mut older = Link::connect(&scene.through().to_string(), &login, LONG).await.unwrap();
    older.query("SET @remembered = 9", LONG).await.unwrap();
    let mut coded = Coded::begin(&scene, &serving).await;
    let mut gaps = Vec::new();
    for to in ["db2", "db1", "db3", "db2"] {
        let writers = Writers::at(scene.through());
        writers.more(20).await;
        scene.is_known_everywhere().await;
        let began = Instant::now();
        serving.ask(&["switchover", "--to", to]).with(0);
        writers.more(20).await;
        // The old primary applies: its commits wait for no replica any more.
        status_when(&serving, "all are well", |status| is_well(status) && writer(status) == to);
        let told = writers.stop().await;
        gaps.push(told.gap(began));
        assert_eq!(told.errors, Vec::<String>::new());
        scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
        let state = older.query("SELECT @remembered, CONCAT('db', @@server_id)", LONG).await.unwrap();
        assert_eq!([0, 1].map(|column| state.text(0, column)), [Some("9"), Some(to)]);
        coded.is_as_before(to).await;
    }
    println!("the longest time without a commit in each switchover: {gaps:?}");

    let writers = Writers::at(scene.through());
    writers.more(20).await;
    scene.stage.fault("db2", Fault::Kill).await.unwrap();
    writers.more(20).await;
    let told = writers.stop().await;
    let is_doubt = |error: &&String| error.contains("9101");
    assert_eq!(told.errors.iter().filter(is_doubt).count(), told.errors.len(), "{:?}", told.errors);
    let moved = |status: &_| !writer(status).is_empty() && writer(status) != "db2";
    let primary = writer(&status_when(&serving, "another is the primary", moved));
    scene.stage.start("db2").await.unwrap();
    let is_back = |status: &_| {
        let has_errant = scene.node(status, "db2")["problem"] == "errant";
        has_errant || is_well(status) && scene.follows(status, "db2") == scene.address(&primary)
    };
    let status = status_when(&serving, "the old primary follows the new one, or is held back", is_back);
    let has = if is_well(&status) { &["db1", "db2", "db3"][..] } else { &["db1", "db3"] };
    scene.has_all(&told, has).await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// A commit waits for two replicas, and one of them has it: a primary of MySQL does not count it in `gtid_executed` yet. A new link to the primary shows
/// that a replica has more, and still nothing is lost: nobody takes over.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_waits_on_mysql_is_no_loss() {
    let scene = Scene::mysql("waits").await;
    let wait = "SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 2";
    scene.stage.run_in("db1", wait).await.unwrap();
    // A heartbeat would wait, too, and that is another reason to take over.
    let directory = scene.directory("failover_gap_ms = 0\n[cluster.heartbeat]\ninterval_ms = 0");
    let serving = Serving::start(directory.path());
    assert_eq!(writer(&status_when(&serving, "all are well", is_well)), "db1");
    scene.stage.fault("db3", Fault::Freeze).await.unwrap();
    let links = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{MONITOR_USER}'");
    let commit = scene.stage.run_in_within("db1", "CREATE DATABASE waits", 4 * LONG);
    let links_end = async {
        let has = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'waits'";
        scene.until("db2", has, |count| count == "1").await;
        let owned = scene.value("db1", "gtid_owned").await;
        assert!(owned.contains('#'), "the primary is committing it still: {owned:?}");
        for _ in 0..3 {
            let old = scene.stage.run_in("db1", &links).await.unwrap();
            for id in &old {
                // It may have ended by itself.
                let _ = scene.stage.run_in("db1", &format!("KILL {}", id[0])).await;
            }
            until_async("the links are made anew", async || {
                let now = scene.stage.run_in("db1", &links).await.unwrap();
                if now.is_empty() || now.iter().any(|id| old.contains(id)) { Err(now) } else { Ok(()) }
            })
            .await;
            let is_compared = |status: &Value| scene.node(status, "db1")["lane"] == "open";
            let status = status_when(&serving, "the primary was compared, and takes statements", is_compared);
            assert_eq!(
                (writer(&status), &status["term"]),
                ("db1".into(), &1.into()),
                "{}",
                journal(&serving)
            );
        }
        scene.stage.fault("db3", Fault::Heal).await.unwrap();
    };
    let (committed, ()) = tokio::join!(commit, links_end);
    committed.unwrap();
    let status = status_when(&serving, "all are well", is_well);
    assert_eq!((writer(&status), &status["term"]), ("db1".into(), &1.into()), "{}", journal(&serving));
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// A primary of MySQL that was cut off from its replicas while clients that connect to it directly commit. Of a group of commits one session shows that
/// it waits; when it is back and has to become read only, none of their clients is told that its commit was well, nor one that had a transaction open.
#[tokio::test(flavor = "multi_thread")]
async fn commits_on_a_primary_of_mysql_that_was_replaced_are_told_to_nobody() {
    let scene = Scene::mysql("told").await;
    for made in [
        "CREATE TABLE sbtest.direct (id INT PRIMARY KEY)",
        "CREATE USER direct@localhost",
        "GRANT ALL ON sbtest.* TO direct@localhost",
    ] {
        scene.stage.run_in("db1", made).await.unwrap();
    }
    let directory = scene.directory("failover_gap_ms = 0");
    let serving = Serving::start(directory.path());
    assert_eq!(writer(&status_when(&serving, "all are well", is_well)), "db1");
    let socket = Endpoint::Unix(scene.stage.node("db1").unwrap().socket.clone());
    let direct = async || Link::connect_to(&socket, &Login::new("direct", Secret::None), LONG).await.unwrap();
    let mut open = direct().await;
    for statement in ["BEGIN", "INSERT INTO sbtest.direct VALUES (100)"] {
        open.query(statement, LONG).await.unwrap();
    }
    scene.stage.fault("db1", Fault::Vanish).await.unwrap();
    let mut commits = JoinSet::new();
    for id in 0..8 {
        let mut link = direct().await;
        commits.spawn(async move {
            link.query(&format!("INSERT INTO sbtest.direct VALUES ({id})"), 4 * LONG).await
        });
    }
    let waiting =
        "SELECT STATE FROM information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT INTO sbtest.direct%'";
    let states = until_async("all commits wait", async || {
        let states = scene.stage.run_in("db1", waiting).await.unwrap().concat();
        let waits = |state: &&String| {
            state.starts_with("Waiting for semi-sync ACK") || *state == "waiting for handler commit"
        };
        if states.iter().filter(waits).count() == 8 { Ok(states) } else { Err(states) }
    })
    .await;
    let primary = writer(&status_when(&serving, "another is the primary", |status| {
        !writer(status).is_empty() && writer(status) != "db1"
    }));
    scene.stage.fault("db1", Fault::Heal).await.unwrap();
    while let Some(told) = commits.join_next().await {
        let error = told.unwrap().expect_err("its client was told that the commit was well");
        assert!(
            matches!(error, LinkError::Closed | LinkError::Reset | LinkError::Rejected { .. }),
            "{error}"
        );
    }
    open.query("COMMIT", LONG).await.unwrap_err();
    let is_held_back = |status: &Value| scene.node(status, "db1")["problem"] == "errant";
    let status = status_when(&serving, "the old primary is held back", is_held_back);
    assert_eq!(writer(&status), primary);
    assert_eq!(scene.value("db1", "super_read_only").await, "1");
    let written = scene.stage.run_in("db1", "SELECT COUNT(*) FROM sbtest.direct").await.unwrap();
    println!("while they waited: {states:?}; rows afterwards: {written:?}");
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// Sessions in which code has run, on MySQL.
struct Coded {
    /// Has variables of each type by expressions, and what a procedure, one that failed, and a function have set; and has made a table.
    moves: Conn,
    /// What it had on its first node.
    before: Row,
    /// Each has taken a lock, or has a temporary table, with a word of the error that tells of it; until the first switchover.
    stays: Vec<(Conn, &'static str)>,
}

impl Coded {
    const STATE: &str = "SELECT @i, @u, @d, @t, @e, HEX(@s), CHARSET(@s), COLLATION(@s), HEX(@b), CHARSET(@b), COLLATION(@n), @`we``ird`, @q, @o, @f, @x, \
        @@sort_buffer_size, CURRENT_ROLE(), JSON_TYPE(JSON_EXTRACT(JSON_ARRAY(@u), '$[0]')), JSON_TYPE(JSON_EXTRACT(JSON_ARRAY(@d), '$[0]')), \
        JSON_TYPE(JSON_EXTRACT(JSON_ARRAY(@t), '$[0]')), JSON_TYPE(JSON_EXTRACT(JSON_ARRAY(@e), '$[0]'))";
    const SETS: [&str; 7] = [
        "CREATE TABLE sbtest.made (a INT)",
        "SET @i = -2 - 3, @u = CAST(18446744073709551615 AS UNSIGNED) - 0, @d = 1.50 * 2, @t = CAST(7 AS DECIMAL(10,0)), @e = 0.1e0 * 3, \
         @s = CONCAT(_latin1 0xE9 COLLATE latin1_bin), @b = x'00ff', @n = CONVERT(NULL USING latin1) COLLATE latin1_bin, @`we``ird` = 1 + 2",
        "SELECT COUNT(*) FROM information_schema.ENGINES WHERE ENGINE = 'InnoDB' INTO @q",
        "CALL sbtest.sets(@o)",
        "SELECT sbtest.counts()",
        "CALL sbtest.locks()",
        "CALL sbtest.unlocks()",
    ];

    async fn begin(scene: &Scene, serving: &Serving) -> Self {
        for made in [
            "CREATE ROLE reader, writer",
            "GRANT reader, writer TO sbtest",
            "CREATE PROCEDURE sbtest.sets(OUT o INT) SQL SECURITY INVOKER BEGIN SET o = 4; SET SESSION sort_buffer_size = 300000; SET ROLE reader, writer; END",
            "CREATE FUNCTION sbtest.counts() RETURNS INT DETERMINISTIC NO SQL BEGIN SET @f = 'äf'; RETURN 1; END",
            "CREATE PROCEDURE sbtest.locks() DO GET_LOCK('a lock', 0)",
            "CREATE PROCEDURE sbtest.unlocks() DO RELEASE_ALL_LOCKS()",
            "CREATE PROCEDURE sbtest.nothing() DO 0",
            "CREATE PROCEDURE sbtest.fails() BEGIN SET @x = 5; SIGNAL SQLSTATE '45000'; END",
            "CREATE PROCEDURE sbtest.hides() BEGIN CREATE TEMPORARY TABLE sbtest.hidden (a INT); SIGNAL SQLSTATE '45000'; END",
            "CREATE FUNCTION service_get_write_locks RETURNS INT SONAME 'locking_service.so'",
            "REVOKE SELECT ON performance_schema.* FROM understudy",
        ] {
            scene.stage.run_in("db1", made).await.unwrap();
        }
        let mut moves = connect(scene.through()).await.unwrap();
        for sets in Self::SETS {
            moves.query_drop(sets).await.unwrap();
        }
        moves.query_drop("CALL sbtest.fails()").await.unwrap_err();
        // The manager's account may not look: the session stays where it is, and the operator is told beforehand.
        Self::until_check_says(
            serving,
            &mut moves,
            "1 session that cannot move and would end with error 9104",
        )
        .await;
        scene.stage.run_in("db1", "GRANT SELECT ON performance_schema.* TO understudy").await.unwrap();
        Self::until_check_says(serving, &mut moves, "and all can move").await;
        // So do sessions on a server that does not note locks.
        for (note, said) in [("NO", "1 session that cannot move"), ("YES", "and all can move")] {
            let instrument = format!(
                "UPDATE performance_schema.setup_instruments SET ENABLED = '{note}' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
            );
            scene.stage.run_in("db1", &instrument).await.unwrap();
            Self::until_check_says(serving, &mut moves, said).await;
        }
        let before = moves.query_first(Self::STATE).await.unwrap().unwrap();
        let mut stays = Vec::new();
        for locks in [
            "CALL sbtest.locks()",
            "SELECT service_get_write_locks('space', 'a lock', 0)",
            "SELECT GET_LOCK('another lock', 0)",
        ] {
            let mut session = connect(scene.through()).await.unwrap();
            session.query_drop(locks).await.unwrap();
            session.query_drop("CALL sbtest.nothing()").await.unwrap();
            stays.push((session, "GET_LOCK"));
        }
        let mut session = connect(scene.through()).await.unwrap();
        session.query_drop("CREATE TABLE sbtest.made_beside (a INT)").await.unwrap();
        session.query_drop("CALL sbtest.hides()").await.unwrap_err();
        stays.push((session, "that the server does not name"));
        Self { moves, before, stays }
    }

    async fn until_check_says(serving: &Serving, session: &mut Conn, part: &str) {
        until_async(part, async || {
            session.query_drop("DO 0").await.unwrap();
            let said = serving.ask(&["switchover", "--to", "db2", "--check"]).said();
            if said.contains(part) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// After a switchover to that node.
    async fn is_as_before(&mut self, to: &str) {
        let on: Option<String> = self.moves.query_first("SELECT CONCAT('db', @@server_id)").await.unwrap();
        assert_eq!(on.as_deref(), Some(to));
        let after: Row = self.moves.query_first(Self::STATE).await.unwrap().unwrap();
        assert_eq!(after.columns_ref().len(), self.before.columns_ref().len());
        let types =
            |row: &Row| row.columns_ref().iter().map(mysql_async::Column::column_type).collect::<Vec<_>>();
        for (mut stays, why) in self.stays.drain(..) {
            let error = stays.query_drop("DO 0").await.unwrap_err().to_string();
            assert!(error.contains("9104") && error.contains(why), "{error}");
        }
        assert_eq!((types(&after), after.unwrap()), (types(&self.before), self.before.clone().unwrap()));
    }
}

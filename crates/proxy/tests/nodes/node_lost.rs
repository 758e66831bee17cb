//! What is said and done when a node is lost, on real servers: what cannot be rolled back is never called so, nor sent again; a late word of
//! the manager costs time and no session; a transaction never goes on elsewhere.

use std::sync::Arc;
use std::time::Duration;

use fixture::client::{Client, ClientOptions, Param};
use fixture::{Server, signal};
use harness::{Bench, SECOND, one, routes, settings};
use link::{Link, LinkError};
use protocol::capability::Caps;
use topology::catalogue::Catalogue;
use topology::fact::ProxyFact;
use topology::routes::{LaneState, Routes};

/// The names of tables without transactions, as the manager would have read them.
const NAMES: [&str; 2] = ["aria", "heap"];
/// The names of views that may run stored code, likewise.
const WRITING_VIEWS: [&str; 1] = ["audited"];

struct Pair {
    old: Server,
    new: Server,
    bench: Bench,
}

impl Pair {
    fn start() -> Self {
        let (old, new) = (Server::start(&[]), Server::start(&[]));
        for server in [&old, &new] {
            server.sql("CREATE TABLE shop.t (a INT) ENGINE=InnoDB");
            server.sql("CREATE TABLE shop.aria (a INT) ENGINE=Aria");
            server.sql("CREATE TABLE shop.heap (a INT) ENGINE=MEMORY");
        }
        let bench = Bench::new(settings(), naming(routes(1, &lanes(&old, &new))));
        Self { old, new, bench }
    }

    /// Inserts into `table`; on the old node that takes longer than the test.
    fn slow_insert(&self, table: &str) -> String {
        let port = self.old.address().port();
        format!("INSERT INTO {table} SELECT 1 FROM DUAL WHERE SLEEP(IF(@@port = {port}, 60, 0)) = 0")
    }

    /// Runs the statement, and gives the client back when the old node is at it.
    fn at_it(&self, mut client: Link, sql: String) -> tokio::task::JoinHandle<(Link, Option<u16>)> {
        let look = "SELECT COUNT(*) FROM information_schema.processlist \
                    WHERE info LIKE 'INSERT INTO%SLEEP%' OR state = 'User sleep'";
        let before: u32 = self.old.sql(look).parse().unwrap();
        let running = tokio::spawn(async move {
            let error = errno(client.query(&sql, 20 * SECOND).await);
            (client, error)
        });
        self.old.until(look, |count| count.parse::<u32>().unwrap() != before);
        running
    }

    /// The old node dies, and the manager gives it up.
    async fn kill_old(&mut self) {
        self.old.signal(signal::KILL);
        self.old.wait_gone();
        self.give_up_old().await;
    }

    async fn give_up_old(&self) {
        let next = routes(2, &[(&self.old, LaneState::Shut, 2), (&self.new, LaneState::Open, 1)]);
        self.bench.follow(naming(next)).await;
    }

    fn rows_on_new(&self, table: &str) -> String {
        self.new.sql(&format!("SELECT COUNT(*) FROM shop.{table}"))
    }
}

fn lanes<'a>(old: &'a Server, new: &'a Server) -> [(&'a Server, LaneState, u64); 2] {
    [(old, LaneState::Open, 1), (new, LaneState::Shut, 1)]
}

/// The same routes, with the names of tables without transactions.
fn naming(routes: Arc<Routes>) -> Arc<Routes> {
    let [untransactional, writing_reads] =
        [&NAMES[..], &WRITING_VIEWS].map(|names| names.iter().map(ToString::to_string));
    let catalogue = Catalogue::new(untransactional, writing_reads);
    Arc::new(Routes { catalogue: Some(Arc::new(catalogue)), ..(*routes).clone() })
}

/// The error's number; `None` when there was none.
fn errno<T: std::fmt::Debug>(answer: Result<T, LinkError>) -> Option<u16> {
    match answer {
        Ok(_) => None,
        Err(LinkError::Rejected { errno, .. }) => Some(errno),
        Err(other) => panic!("the session has ended: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_a_table_without_transactions_ends_as_unknown_and_is_not_sent_again() {
    let mut pair = Pair::start();
    let mut running = Vec::new();
    for (autocommit, table) in [(0, "t"), (0, "aria"), (0, "heap"), (1, "aria"), (1, "heap"), (1, "t")] {
        let mut client = pair.bench.client().await;
        client.query(&format!("SET autocommit = {autocommit}"), SECOND).await.unwrap();
        let sql = pair.slow_insert(table);
        running.push((autocommit, table, pair.at_it(client, sql)));
    }
    pair.kill_old().await;
    for (autocommit, table, running) in running {
        let (mut client, error) = running.await.unwrap();
        // Only what the old node has surely rolled back runs again.
        let again = (autocommit, table) == (0, "t");
        assert_eq!(error, (!again).then_some(9101), "{table} with autocommit {autocommit}");
        assert_eq!(errno(client.query("COMMIT", SECOND).await), None);
    }
    let rows = ["t", "aria", "heap"].map(|table| pair.rows_on_new(table));
    assert_eq!(rows, ["1", "0", "0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_touched_a_table_without_transactions_is_not_called_rolled_back() {
    let mut pair = Pair::start();
    let mut open = Vec::new();
    for (table, error) in [("t", 1213), ("aria", 9101), ("heap", 9101)] {
        let mut client = pair.bench.client().await;
        client.query("BEGIN", SECOND).await.unwrap();
        client.query(&format!("INSERT INTO {table} VALUES (1)"), SECOND).await.unwrap();
        client.query("INSERT INTO t VALUES (2)", SECOND).await.unwrap();
        open.push((table, error, client));
    }
    pair.kill_old().await;
    for (table, error, mut client) in open {
        assert_eq!(errno(client.query("INSERT INTO t VALUES (3)", 5 * SECOND).await), Some(error), "{table}");
        // The session goes on.
        assert_eq!(one(&mut client, "SELECT COUNT(*) FROM t").await, "0");
    }
}

/// As in checks-only mode, where only missed checks give a node up, and while the group's view sticks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_on_a_node_that_stops_are_held_until_the_manager_says_what_became_of_it() {
    let mut pair = Pair::start();
    let (mut idle, mut reading) = (pair.bench.client().await, pair.bench.client().await);
    assert_eq!(one(&mut idle, "SELECT 1").await, "1");
    assert_eq!(one(&mut reading, "SELECT 1").await, "1");
    pair.old.signal(15);
    pair.old.wait_gone();
    let asked = [idle, reading]
        .map(|mut client| tokio::spawn(async move { one(&mut client, "SELECT @@port").await }));
    // Both have met the loss; the word comes later than anybody waits for it, and three checks of a second later.
    let mut lost = 0;
    while lost < 2 {
        lost += u32::from(matches!(pair.bench.facts.recv().await.unwrap(), ProxyFact::TrafficLost { .. }));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(asked.iter().all(|asked| !asked.is_finished()), "a session ended, or was answered by nobody");
    pair.give_up_old().await;
    for answer in asked {
        assert_eq!(answer.await.unwrap(), pair.new.address().port().to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_inside_a_transaction_never_runs_on_another_node() {
    let pair = Pair::start();
    let mut client = pair.bench.client().await;
    let old = pair.old.address().port().to_string();
    client.query("BEGIN", SECOND).await.unwrap();
    client.query("INSERT INTO t VALUES (1)", SECOND).await.unwrap();
    // Another node is open, and this one takes nothing new: the transaction stays where it is.
    let both = routes(2, &[(&pair.old, LaneState::Draining, 1), (&pair.new, LaneState::Open, 1)]);
    pair.bench.follow(naming(both)).await;
    for _ in 0..3 {
        assert_eq!(one(&mut client, "SELECT @@port").await, old);
        client.query("INSERT INTO t VALUES (1)", SECOND).await.unwrap();
    }
    client.query("COMMIT", SECOND).await.unwrap();
    assert_eq!(
        (pair.old.sql("SELECT COUNT(*) FROM shop.t"), pair.rows_on_new("t")),
        ("4".into(), "0".into())
    );
    // The next one begins on the other node; when its lane is shut, and the first open again, it is over.
    client.query("BEGIN", SECOND).await.unwrap();
    client.query("INSERT INTO t VALUES (2)", SECOND).await.unwrap();
    let back = routes(3, &[(&pair.old, LaneState::Open, 2), (&pair.new, LaneState::Shut, 2)]);
    pair.bench.follow(naming(back)).await;
    assert_eq!(errno(client.query("INSERT INTO t VALUES (2)", SECOND).await), Some(1213));
    assert_eq!(
        (pair.old.sql("SELECT COUNT(*) FROM shop.t"), pair.rows_on_new("t")),
        ("4".into(), "0".into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_of_a_view_that_writes_is_not_sent_again() {
    let mut pair = Pair::start();
    let port = pair.old.address().port();
    for (table, view) in [("t", "audited"), ("u", "unlisted")] {
        for server in [&pair.old, &pair.new] {
            server.sql(&format!(
                "USE shop; CREATE TABLE IF NOT EXISTS {table} (a INT);\nDELIMITER //\nCREATE FUNCTION into_{table}() RETURNS INT \
                     BEGIN INSERT INTO {table} VALUES (1); RETURN SLEEP(IF(@@port = {port}, 60, 0)); END//\n\
                 CREATE VIEW {view} AS SELECT into_{table}() AS x//"
            ));
        }
    }
    let mut running = Vec::new();
    for view in ["audited", "unlisted"] {
        let client = pair.bench.client().await;
        running.push((view, pair.at_it(client, format!("SELECT x FROM {view}"))));
    }
    pair.kill_old().await;
    for (view, running) in running {
        let (_client, error) = running.await.unwrap();
        // The names are all that tells the two apart.
        assert_eq!(error, (view == "audited").then_some(9101), "{view}");
    }
    assert_eq!(["t", "u"].map(|table| pair.rows_on_new(table)), ["0", "1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_text_had_set_before_its_node_was_lost_is_not_silently_gone() {
    let mut pair = Pair::start();
    let mut running = Vec::new();
    let cases = [
        ("CREATE TEMPORARY TABLE t (a INT)", "DELETE FROM t"),
        ("SET @a = 5", "SELECT @a"),
        ("DO GET_LOCK('a', 0)", "SELECT IS_USED_LOCK('a')"),
        ("PREPARE s FROM 'SELECT 7'", "EXECUTE s"),
        ("SET ROLE NONE", "SELECT CURRENT_ROLE()"),
        ("SET NAMES latin1 COLLATE latin1_bin", "SELECT @@collation_connection"),
        ("SELECT LAST_INSERT_ID(99)", "SELECT LAST_INSERT_ID()"),
    ];
    for server in [&pair.old, &pair.new] {
        server.sql("INSERT INTO shop.t VALUES (1), (2)");
    }
    let address = pair.bench.address().parse().unwrap();
    for (first, then) in cases {
        let mut client = Client::connect(address).await;
        let text = format!("{first}; DO SLEEP(60)");
        let at_it = tokio::spawn(async move { (client.query(&text).await, client) });
        running.push((first, then, at_it));
    }
    let sleeping = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'";
    pair.old.until(sleeping, |count| count.parse::<usize>().unwrap() >= cases.len());
    pair.kill_old().await;
    for (first, then, at_it) in running {
        let (lost, mut client) = at_it.await.unwrap();
        let lost = format!("{lost:?}");
        println!("{first}: {lost}");
        if lost.contains("9104") {
            continue; // the session has ended
        }
        let next = format!("{:?}", client.query(then).await);
        println!("{then}: {next}");
        assert!(next.contains("9104") || next.contains("9110"), "{first}: {next}");
    }
    assert_eq!(pair.rows_on_new("t"), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_insert_tells_the_last_insert_id_to_a_session_that_lost_its_node() {
    let mut pair = Pair::start();
    for server in [&pair.old, &pair.new] {
        server
            .sql("CREATE TABLE shop.n (a BIGINT AUTO_INCREMENT PRIMARY KEY, b BIGINT) AUTO_INCREMENT = 700");
    }
    let mut client = Client::connect(pair.bench.address().parse().unwrap()).await;
    let insert = client.prepare("INSERT INTO n (a, b) VALUES (?, ?)").await.unwrap();
    client.execute(&insert, &[Param::Null, Param::Int(5)]).await;
    assert_eq!(client.one("SELECT LAST_INSERT_ID()").await, "700");
    pair.kill_old().await;
    assert_eq!(client.one("SELECT LAST_INSERT_ID()").await, "700");
    client.execute(&insert, &[Param::Null, Param::Int(5)]).await;
    client.execute(&insert, &[Param::Null, Param::Int(5)]).await;
    assert_eq!(client.one("SELECT LAST_INSERT_ID()").await, "701");
    // A number that the client gave is not the last insert id, but is in the OK packet.
    client.execute(&insert, &[Param::Int(900), Param::Int(5)]).await;
    assert_eq!(client.one("SELECT LAST_INSERT_ID()").await, "701");
}

/// As above with several rows in one command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_inserted_together_tell_the_last_insert_id() {
    let mut pair = Pair::start();
    for server in [&pair.old, &pair.new] {
        server
            .sql("CREATE TABLE shop.n (b BIGINT, a BIGINT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 700");
    }
    let mut options = ClientOptions::default();
    options.caps = options.caps | Caps::STMT_BULK_OPERATIONS;
    let address = pair.bench.address().parse().unwrap();
    let mut client = Client::connect_as(address, &options).await.unwrap();
    let insert = client.prepare("INSERT INTO n (b, a) VALUES (?, ?)").await.unwrap();
    let given = |id| vec![Param::Int(5), Param::Int(id)];
    let generated = || vec![Param::Int(5), Param::Null];
    client.execute_rows(&insert, &[given(690), generated(), generated()]).await;
    assert_eq!(client.one("SELECT LAST_INSERT_ID()").await, "700");
    pair.kill_old().await;
    assert_eq!(client.one("SELECT LAST_INSERT_ID()").await, "700");
    client.execute_rows(&insert, &[given(690), generated()]).await;
    client.execute_rows(&insert, &[given(691), generated(), generated()]).await;
    assert_eq!(client.one("SELECT LAST_INSERT_ID()").await, "701");
    // A number that the client gave is not the last insert id, but is in the OK packet.
    client.execute_rows(&insert, &[given(900), given(901)]).await;
    assert_eq!(client.one("SELECT LAST_INSERT_ID()").await, "701");
}

//! The proxy as the source: what its clients read is replayed on a twin, with the same rows, and no client feels it.

mod literals;
mod scene;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fixture::client::{Client, ClientOptions, Reply, Value};
use fixture::wait::until_async;
use proxy::Wish;
use scene::Scene;
use session::finished::Offered;
use slowlog::{Item, Limits, Reader, Start};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::timeout;
use warmup::replay::figures::Figures;
use warmup::replay::guard::{Disposition, judge_sql};
use warmup::replay::{self, Sessions};
use warmup::tap::log;

const PATIENCE: Duration = Duration::from_secs(20);
const FROM_LATIN1: &[u8] = b"SELECT id, HEX('\xE4') FROM v WHERE s LIKE '\xE4%'";

/// The next `count` reads that were offered.
async fn take(reads: &mut Receiver<Offered>, count: usize) -> Vec<Offered> {
    let mut taken = vec![];
    while taken.len() < count {
        let next = timeout(PATIENCE, reads.recv()).await;
        let next =
            next.unwrap_or_else(|_| panic!("{} of {count} reads came: {:?}", taken.len(), texts(&taken)));
        taken.push(next.unwrap());
    }
    taken
}

fn texts(reads: &[Offered]) -> Vec<String> {
    reads.iter().map(|offered| String::from_utf8_lossy(&offered.read.sql).into_owned()).collect()
}

/// As a slow log.
async fn log_of(taken: Vec<Offered>) -> Vec<u8> {
    let (queue, reads) = mpsc::channel(taken.len().max(1));
    for offered in taken {
        queue.try_send(offered).unwrap();
    }
    drop(queue);
    let mut bytes = Vec::new();
    log::source(reads, Arc::default()).read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// An entry's connection, schema and SQL.
type LoggedStatement = (u64, Vec<u8>, Vec<u8>);

fn entries(bytes: &[u8]) -> Vec<LoggedStatement> {
    let mut reader = Reader::new(Limits::default(), Start::Whole);
    reader.feed(bytes);
    reader.finish();
    let mut entries = vec![];
    while let Some(item) = reader.next() {
        let Item::Event(event) = item else { panic!("{item:?}") };
        let schema = event.schema.name().unwrap_or_default().to_vec();
        entries.push((event.connection.unwrap(), schema, event.sql().unwrap().to_vec()));
    }
    entries
}

/// The rows that the log's reads give on the twin, each connection's in a session of its own.
async fn rows_on_twin(scene: &Scene, bytes: &[u8]) -> Vec<Vec<Vec<Value>>> {
    let mut sessions: HashMap<u64, Client> = HashMap::new();
    let mut answers = vec![];
    for (connection, schema, sql) in entries(bytes) {
        let session = match sessions.entry(connection) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Client::connect(scene.twin.address()).await),
        };
        session.init_db(std::str::from_utf8(&schema).unwrap()).await;
        let answer = session.query(&sql).await;
        let text = String::from_utf8_lossy(&sql);
        assert!(answer.error().is_none(), "{text}: {answer:?}");
        match judge_sql(&sql, 0) {
            Disposition::Replayed => answers.push(answer.rows().to_vec()),
            verdict => assert_eq!(verdict, Disposition::State, "{text}"),
        }
    }
    answers
}

/// Replays the log; no read may give another number of rows than it did.
async fn replayed(scene: &Scene, bytes: &[u8], sessions: Sessions) -> Arc<Figures> {
    let figures = Arc::new(Figures::default());
    let settings = replay::Settings { sessions, ..replay::Settings::default() };
    scene.target().check(false).await.unwrap();
    replay::replay(bytes, scene.target(), settings, Arc::clone(&figures)).await.unwrap();
    assert!(figures.errors().is_empty(), "{:?}", figures.errors());
    let report = figures.report();
    assert!(report.contains("(a difference of 0)"), "{report}");
    figures
}

fn compare(sent: &[Vec<Vec<Value>>], again: &[Vec<Vec<Value>>], texts: &[String]) {
    assert_eq!(sent.len(), again.len());
    for ((sent, again), text) in sent.iter().zip(again).zip(texts) {
        assert_eq!(sent, again, "{text}");
    }
}

fn rows(reply: &Reply, what: &str) -> Vec<Vec<Value>> {
    assert!(reply.error().is_none() && !reply.is_lost(), "{what}: {reply:?}");
    reply.rows().to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sessions_have_set_goes_along_with_their_reads() {
    let scene = Scene::new();
    let (mut reads, counts) = scene.proxy.tap().listen(Wish::default());
    let mut sent = vec![];
    let mut first = scene.client().await;
    let latin1 = ClientOptions { charset: 8, ..ClientOptions::default() };
    let mut second = scene.client_as(&latin1).await;
    sent.push(rows(&second.query(FROM_LATIN1).await, "latin1 by its login"));
    for (sets, asks) in [
        ("SELECT 1", "SELECT COUNT(*) FROM v"),
        ("SET time_zone = '+05:00'", "SELECT FROM_UNIXTIME(1700000000), id FROM v"),
        ("SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SELECT 'A' = 'a', COLLATION('a')"),
        ("SET @a = 7, @b = 'it''s'", "SELECT id, @a, @b FROM v WHERE i = @a OR s = @b"),
        ("SET sql_mode = 'PIPES_AS_CONCAT'", "SELECT 'a' || s FROM v"),
        ("SET sql_select_limit = 2", "SELECT id FROM v ORDER BY id"),
        ("USE other", "SELECT id FROM v ORDER BY id"),
        ("SET @a = 8", "SELECT @a"),
        ("BEGIN", "SELECT SUM(id) FROM v"),
    ] {
        let reply = first.run(sets).await;
        if sets == "SELECT 1" {
            sent.push(rows(&reply, sets));
        }
        sent.push(rows(&first.query(asks).await, asks));
    }
    first.run("COMMIT").await;
    // The older connection again, and then as if it were new: each is another session for who listens.
    sent.push(rows(&second.query(FROM_LATIN1).await, "again"));
    first.reset().await;
    first.run("USE shop").await;
    for asks in ["SELECT @a, @@time_zone IS NULL FROM v", "SELECT id, s FROM v ORDER BY id DESC"] {
        let reply = first.query(asks).await;
        if !asks.contains("@@") {
            sent.push(rows(&reply, asks));
        }
    }
    let other = ClientOptions { user: "second".into(), ..latin1.clone() };
    first.change_user(&other).await.unwrap();
    sent.push(rows(&first.query(FROM_LATIN1).await, "as another user"));
    // No reads, or none that could be replayed: not told.
    for sql in [
        "SHOW TABLES",
        "SELECT id FROM v FOR UPDATE",
        "SELECT SLEEP(0)",
        "DELETE FROM v WHERE id = 99",
        "SELECT 1 INTO @c",
    ] {
        first.run(sql).await;
    }
    assert_eq!(first.query("SELECT nothing").await.error(), Some(1054));
    first.run("SELECT id FROM v; SELECT id FROM v").await;
    first.run("SET sql_mode = 'NO_BACKSLASH_ESCAPES'").await;
    first.run(r"SELECT 'a\'").await;
    sent.push(rows(&first.query("SELECT id, 'last' FROM v").await, "last"));

    // One read shows a variable: whether the guard takes it is the guard's word, and it is told.
    let taken = take(&mut reads, sent.len() + 1).await;
    let mut texts = texts(&taken);
    let users: Vec<_> = taken.iter().map(|offered| offered.read.user.to_string()).collect();
    assert_eq!((users.first().unwrap().as_str(), users.last().unwrap().as_str()), ("app", "second"));
    assert_eq!(counts.not_expressible.load(Relaxed), 2, "two in one text, and a backslash that is none");
    let bytes = log_of(taken).await;
    let mut again = rows_on_twin(&scene, &bytes).await;
    let shows = texts.iter().position(|text| text.contains("@@time_zone")).unwrap();
    texts.remove(shows);
    again.remove(shows);
    compare(&sent, &again, &texts);
    for sessions in [Sessions::PerConnection { idle_max: PATIENCE }, Sessions::Pool(1), Sessions::Pool(3)] {
        let figures = replayed(&scene, &bytes, sessions).await;
        assert_eq!(figures.executed.load(Relaxed), sent.len() as u64 + 1, "{sessions:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_listener() {
    let scene = Scene::new();
    let tap = scene.proxy.tap();
    let narrow = Wish { reads_max: 3, sql_bytes_max: 40, ..Wish::default() };
    let (mut reads, counts) = tap.listen(narrow);
    let (few, few_counts) = tap.listen(Wish { bytes_max: 30, ..Wish::default() });
    let mut client = scene.client().await;
    for number in 0..10 {
        client.run(&format!("SELECT {number} FROM v")).await;
    }
    client.run(&format!("SELECT '{}'", "x".repeat(40))).await;
    // A command that the proxy does not keep.
    client.run(&format!("SELECT LENGTH('{}')", "x".repeat(1 << 20))).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"200\n201\n").unwrap();
    client.run("USE other").await;
    let done = std::process::Command::new("mariadb")
        .args(["--no-defaults", "-uapp", "-psecret", "-h127.0.0.1", "--local-infile=1", "other"])
        .arg(format!("-P{}", scene.through().port()))
        .arg("-e")
        .arg(format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE v", file.path().display()))
        .status()
        .unwrap();
    assert!(done.success());
    assert_eq!(client.one("SELECT COUNT(*) FROM v").await, "7");
    // A client that goes in the middle of an answer tells nothing, and harms nobody.
    let mut leaves = scene.client().await;
    leaves.send(0, b"\x03SELECT seq FROM seq_1_to_3000000").await.unwrap();
    leaves.leave(true);
    client.run("SELECT 'behind it'").await;
    let dropped = async || counts.dropped.load(Relaxed);
    until_async("nine are dropped", async || match dropped().await {
        count if count < 9 => Err(count),
        _ => Ok(()),
    })
    .await;
    assert_eq!(texts(&take(&mut reads, 3).await), ["SELECT 0 FROM v", "SELECT 1 FROM v", "SELECT 2 FROM v"]);
    assert_eq!((counts.offered.load(Relaxed), counts.dropped_bytes.load(Relaxed) > 100), (3, true));
    assert_eq!(few_counts.offered.load(Relaxed), 2, "of 15 bytes each");
    assert!(few_counts.too_large.load(Relaxed) >= 1, "what is not kept: {few_counts:?}");
    // Noticed without a read.
    drop((few, reads));
    until_async("it is noticed that nobody listens", async || !tap.is_heard()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_are_by_chance_and_by_session() {
    let scene = Scene::new();
    let (_tenth, tenth) = scene.proxy.tap().listen(Wish { one_in: 10, ..Wish::default() });
    let (mut reads, by_session) =
        scene.proxy.tap().listen(Wish { one_in: 2, by_session: true, ..Wish::default() });
    for _ in 0..20 {
        let mut client = scene.client().await;
        for _ in 0..50 {
            client.run("SELECT id FROM v").await;
        }
        // Told before the next is served.
        client.run("SET @a = 1").await;
    }
    let tenth = tenth.offered.load(Relaxed);
    assert!((40..200).contains(&tenth), "{tenth} of 1000");
    let chosen = by_session.offered.load(Relaxed);
    assert!(chosen % 50 == 0 && (100..1000).contains(&chosen), "{chosen} of 1000");
    let taken = take(&mut reads, chosen as usize).await;
    assert!(taken.iter().all(|offered| offered.read.one_in == 2 && offered.read.by_session));
}

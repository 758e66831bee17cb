//! The pages that one server has in memory, loaded on another whose tablespaces have other numbers.

use std::process::{Command, Stdio};

use fixture::Server;
use fixture::wait::until;
use serde_json::Value;

use super::{Streamer, datadir, refused, said, socket, understudy};

const TABLES: &str = "\
    CREATE TABLE shop.orders (id INT PRIMARY KEY, note CHAR(200)) ENGINE=InnoDB \
      PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5000), PARTITION p1 VALUES LESS THAN MAXVALUE); \
    CREATE TABLE shop.words (id INT PRIMARY KEY, w TEXT, FULLTEXT (w)) ENGINE=InnoDB; \
    CREATE TABLE shop.here_only (id INT PRIMARY KEY) ENGINE=InnoDB; \
    INSERT INTO shop.orders SELECT seq, 'x' FROM shop.seq_1_to_20000; INSERT INTO shop.words VALUES (1, 'a word');";

/// A pool of 2,028 pages, of which the server does not keep 1,536 free, as it does by default: it would evict some of the pages that are counted.
const SMALL: [&str; 2] = ["--innodb-buffer-pool-size=32M", "--innodb-lru-scan-depth=100"];

fn active() -> Server {
    let server = Server::start(&[&["--innodb-buffer-pool-dump-pct=100"], &SMALL[..]].concat());
    server.sql(TABLES);
    server.sql("SELECT COUNT(note) FROM shop.orders; SELECT * FROM shop.words; SELECT * FROM shop.here_only");
    server
}

/// With the same tables under other numbers, and nothing of them in memory.
fn standby() -> Server {
    let options = [&["--read-only=1", "--innodb-buffer-pool-load-at-startup=0"], &SMALL[..]].concat();
    let mut server = Server::start(&options);
    server.sql("CREATE TABLE shop.first (id INT PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE shop.second LIKE shop.first");
    server.sql(TABLES);
    server.sql("DROP TABLE shop.here_only; SET GLOBAL innodb_fast_shutdown = 0");
    server.signal(fixture::signal::TERM);
    server.wait_gone();
    server.restart(&options);
    server
}

/// Pages of the table in memory, by the server's own list of what is there.
fn pages_of_orders(server: &Server) -> u64 {
    // By number: the names of tables that were not opened yet are not known there.
    let sql = "SELECT COUNT(*) FROM information_schema.INNODB_BUFFER_PAGE WHERE SPACE IN \
               (SELECT SPACE FROM information_schema.INNODB_SYS_TABLES WHERE NAME LIKE 'shop/orders%')";
    server.sql(sql).parse().unwrap()
}

fn files(server: &Server) -> Vec<(String, u64)> {
    let mut files: Vec<(String, u64)> = std::fs::read_dir(datadir(server))
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("ib_buffer_pool"))
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

fn load(from: &str, standby: &Server, further: &[&str]) -> Command {
    let mut command =
        understudy(&["pool", "load", "--from", from, "--socket", &socket(standby), "--user", "root"]);
    command.args(further);
    command
}

#[test]
fn pages_are_loaded_under_the_standbys_own_numbers() {
    let (active, standby) = (active(), standby());
    let (before, files_before) = (pages_of_orders(&standby), files(&standby));
    let output = load(&socket(&active), &standby, &["--json", "--dry-run"]).output().unwrap();
    let mut promised: Value = serde_json::from_slice(&output.stdout).unwrap();
    testbed::printed::fits("pool-load", &promised);
    assert_eq!((promised["dry_run"].take(), output.status.code()), (true.into(), Some(0)));
    assert_eq!((pages_of_orders(&standby), files(&standby)), (before, files_before.clone()));
    let output = load(&socket(&active), &standby, &["--json"]).output().unwrap();
    let (text, code) = said(&output);
    assert_eq!(code, Some(0), "{text}");
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    testbed::printed::fits("pool-load", &loaded);
    let count =
        |path: &str| loaded.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {text}"));
    let in_memory = pages_of_orders(&standby);
    assert!(before < 10 && in_memory > 250, "{before} before, {in_memory} after: {text}");
    assert!(count("/after_pages") >= count("/before_pages") + 250, "{text}");
    assert!(count("/left_out_pages/own") > 0 && count("/left_out_pages/full_text") > 0, "{text}");
    assert!(count("/left_out_pages/missing") > 0 && count("/left_out_pages/too_many") == 0, "{text}");
    let same = |path: &str| (loaded.pointer(path).unwrap(), promised.pointer(path).unwrap());
    for path in ["/dumped_pages", "/loaded_pages", "/left_out_pages/own", "/left_out_pages/full_text"] {
        let (did, said) = same(path);
        let difference = did.as_u64().unwrap().abs_diff(said.as_u64().unwrap());
        // The active node goes on, and its pool with it.
        assert!(difference <= 1 + did.as_u64().unwrap() / 20, "{path}: {said} in the dry run, {did} then");
    }
    // The point of it: what was in the active node's memory is read here without a disk.
    assert_eq!(standby.sql("SELECT COUNT(note) FROM shop.orders"), "20000");
    let more = pages_of_orders(&standby).saturating_sub(in_memory);
    assert!(
        more < in_memory / 10,
        "{more} of its pages were read from disk all the same, {in_memory} were there: {text}"
    );
    assert_eq!(files(&standby), files_before);
}

#[test]
fn a_streamer_gives_the_pages_to_whoever_has_its_key() {
    let (active, standby) = (active(), standby());
    let dir = tempfile::tempdir().unwrap();
    let (key, wrong) = (dir.path().join("key"), dir.path().join("wrong"));
    std::fs::write(&key, "right\n").unwrap();
    std::fs::write(&wrong, "wrong\n").unwrap();
    let (key, wrong) = (key.display().to_string(), wrong.display().to_string());
    let pair = web::certificate::self_signed(dir.path(), &["127.0.0.1".to_owned()]).unwrap();
    let (certificate, private) = (pair.certificate.display().to_string(), pair.key.display().to_string());
    let log = datadir(&active).join("slow.log").display().to_string();
    let own = socket(&active);
    let streamer = Streamer::start(
        &log,
        "127.0.0.1:0",
        &[
            "--pool",
            "--socket",
            &own,
            "--user",
            "root",
            "--key-file",
            &key,
            "--tls-cert",
            &certificate,
            "--tls-key",
            &private,
        ],
    );
    assert!(streamer.url.starts_with("https://"), "{}", streamer.url);
    let from = streamer.address();
    let trusting = ["--tls-ca", &certificate];
    refused(&mut load(from, &standby, &trusting), 1, "(401 Unauthorized): A key is needed here");
    refused(
        load(from, &standby, &trusting).args(["--stream-key-file", &wrong]),
        1,
        "(401 Unauthorized): The key is not right.",
    );
    refused(&mut load(from, &standby, &["--stream-key-file", &key]), 1, "no slow log is streamed at");
    let output = load(from, &standby, &trusting).args(["--stream-key-file", &key]).output().unwrap();
    let (text, code) = said(&output);
    assert!(
        code == Some(0) && text.contains("loaded in") && text.contains("left out: of full-text indexes"),
        "{text}"
    );
    assert!(pages_of_orders(&standby) > 250, "{text}");
    let shown =
        understudy(&["pool", "show", "--from", from, "--tls-ca", &certificate, "--stream-key-file", &key])
            .output()
            .unwrap();
    let (text, code) = said(&shown);
    assert!(code == Some(0) && text.contains("shop/orders#P#p1"), "{text}");
    let shown = understudy(&["pool", "show", "--json", "--socket", &own, "--user", "root"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    testbed::printed::fits("pool-show", &shown);
    assert!(shown["pages"].as_u64().unwrap() > 250, "{shown:#}");
}

#[test]
fn what_is_refused_is_told_and_nothing_is_touched() {
    let (active, standby) = (active(), standby());
    let from = socket(&active);
    // It was asked for its own pages, and dumped them into its own file.
    refused(&mut load(&socket(&standby), &standby, &[]), 1, "is the server that the pages are from");
    let files_before = files(&standby);
    standby.sql("SET GLOBAL read_only = 0");
    refused(
        &mut load(&from, &standby, &[]),
        1,
        "takes writes (read_only = OFF), so it may be the active node",
    );
    standby.sql("SET GLOBAL read_only = 1");
    refused(&mut load("db1", &standby, &[]), 2, "--from db1 is neither HOST:PORT of a streamer nor the path");
    refused(&mut load("127.0.0.1:1", &standby, &[]), 1, "is `understudy slowlog serve` running there?");
    let log = datadir(&active).join("slow.log").display().to_string();
    let streamer = Streamer::start(&log, "127.0.0.1:0", &[]);
    refused(&mut load(streamer.address(), &standby, &[]), 1, "(404 Not Found): Resource not found.");
    standby.sql("CREATE USER weak@localhost");
    let mut weak =
        understudy(&["pool", "load", "--from", &from, "--socket", &socket(&standby), "--user", "weak"]);
    let mine = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(mine.path(), "[client]\nuser=root\n").unwrap();
    refused(weak.arg("--from-defaults-file").arg(mine.path()), 1, "It needs PROCESS, and SUPER (MariaDB)");
    assert_eq!(files(&standby), files_before);
    assert!(pages_of_orders(&standby) < 10);
}

#[test]
fn a_load_that_is_interrupted_is_given_up_and_leaves_nothing() {
    let active = active();
    let standby = standby();
    let files_before = files(&standby);
    // A frozen server is in the middle of it for certain: the order to give up comes before it goes on.
    standby.sql("SET GLOBAL innodb_io_capacity = 100");
    let child = load(&socket(&active), &standby, &["--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    until("it begins", || files(&standby) != files_before);
    standby.signal(fixture::signal::STOP);
    let interrupted = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    standby.signal(fixture::signal::CONT);
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    let (text, code) = said(&output);
    // The server may have been done before it was frozen.
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    testbed::printed::fits("pool-load", &loaded);
    assert_eq!((code == Some(130), code.is_some()), (loaded["is_aborted"] == true, true), "{code:?}: {text}");
    assert_eq!(files(&standby), files_before);
}

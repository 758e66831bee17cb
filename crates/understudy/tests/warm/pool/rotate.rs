//! A slow log rotated under load: nothing waits, nothing is lost, and a run that was ended is gone on with.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fixture::Server;
use fixture::wait::until;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};

use super::{Streamer, datadir, refused, said, socket, understudy};

fn logging() -> (Server, String) {
    let server =
        Server::start(&["--slow-query-log=1", "--long-query-time=0", "--slow-query-log-file=slow.log"]);
    let log = datadir(&server).join("slow.log").display().to_string();
    (server, log)
}

fn rotate(server: &Server, log: &str, further: &[&str]) -> Command {
    let mut command =
        understudy(&["slowlog", "rotate", "--file", log, "--socket", &socket(server), "--user", "root"]);
    command.args(further);
    command
}

fn rotated(server: &Server, log: &str, further: &[&str]) -> String {
    let output = rotate(server, log, further).output().unwrap();
    let (text, code) = said(&output);
    assert_eq!(code, Some(0), "{text}");
    text
}

fn files(log: &str) -> Vec<String> {
    let path = std::path::Path::new(log);
    let mut files: Vec<String> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("slow.log"))
        .collect();
    files.sort();
    files
}

/// Statements with a number each, from several clients, until told to stop.
struct Load {
    stop: AtomicBool,
    next: AtomicU64,
    /// Of any statement since it was last asked for, in microseconds.
    worst_us: AtomicU64,
}

/// Ends a load when it is dropped.
struct Stop<'a>(&'a Load);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, SeqCst);
    }
}

impl Load {
    const fn new() -> Load {
        Load { stop: AtomicBool::new(false), next: AtomicU64::new(0), worst_us: AtomicU64::new(0) }
    }

    async fn client(&self, server: &Server) {
        let options = OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(server.address().port())
            .user(Some("app"))
            .pass(Some("secret"));
        let mut conn = Conn::new(options).await.unwrap();
        while !self.stop.load(SeqCst) {
            let number = self.next.fetch_add(1, SeqCst);
            let begin = Instant::now();
            conn.query_drop(format!("SELECT {number} AS n")).await.unwrap();
            self.worst_us.fetch_max(begin.elapsed().as_micros() as u64, SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        conn.disconnect().await.unwrap();
    }
}

#[test]
fn nothing_waits_and_nothing_is_lost_also_when_runs_are_killed() {
    let (server, log) = logging();
    let streamer = Streamer::start(&log, "127.0.0.1:0", &[]);
    let mut curl = Command::new("curl").args(["-sSN", &streamer.url]).stdout(Stdio::piped()).spawn().unwrap();
    // Read all the time: files that a reader has not read yet are emptied under it, which is counted as dropped.
    let mut out = curl.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let (mut text, mut part) = (Vec::new(), vec![0; 65536]);
        loop {
            let read = out.read(&mut part).unwrap();
            text.extend_from_slice(&part[..read]);
            if read == 0 || text.ends_with(b"SELECT 'the end';\n") {
                return String::from_utf8(text).unwrap();
            }
        }
    });
    until("a reader", || streamer.metric("readers") == 1);
    let load = Load::new();
    let worst = |during: Duration, work: &(dyn Fn() + Sync)| {
        load.worst_us.store(0, SeqCst);
        let begin = Instant::now();
        work();
        std::thread::sleep(during.saturating_sub(begin.elapsed()));
        load.worst_us.load(SeqCst)
    };
    let drive = || {
        until("the load runs", || load.next.load(SeqCst) > 100);
        // The same time without and with rotations, beside one another: the machine may be slow at any time.
        let mut pairs = Vec::new();
        for _ in 0..3 {
            let mut spent = Duration::ZERO;
            let begin = Instant::now();
            let with = worst(Duration::from_millis(500), &|| {
                for _ in 0..5 {
                    rotated(&server, &log, &["--keep", "3", "--pause-ms", "1"]);
                }
            });
            spent += begin.elapsed();
            // Processes are started here, too, so that only the rotation differs.
            let without = worst(spent, &|| {
                for _ in 0..5 {
                    assert!(understudy(&["--version"]).stdout(Stdio::null()).status().unwrap().success());
                }
            });
            pairs.push((with, without));
        }
        assert!(
            pairs.iter().any(|(with, without)| *with <= without * 3 / 2 + 10_000),
            "with and without rotations, in microseconds: {pairs:?}"
        );
        // Killed after some milliseconds, which is in the middle of any of its steps.
        for round in 0..20 {
            let mut child = rotate(&server, &log, &["--keep", "3", "--pause-ms", "5"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(round * 2));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        rotated(&server, &log, &["--keep", "3", "--pause-ms", "1"]);
    };
    std::thread::scope(|scope| {
        // Also when the rest fails: else its end would be waited for for ever.
        let stop = Stop(&load);
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let clients = async {
                let client = || load.client(&server);
                tokio::join!(client(), client(), client(), client())
            };
            runtime.block_on(clients);
        });
        drive();
        drop(stop);
    });
    assert_eq!(files(&log), ["slow.log", "slow.log.1", "slow.log.2", "slow.log.3"]);

    server.sql("SELECT 'the end'");
    until("the last event", || reading.is_finished());
    let text = reading.join().unwrap();
    let mut numbers: Vec<u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("SELECT ")?.strip_suffix(" AS n;")?.parse().ok())
        .collect();
    let sent = load.next.load(SeqCst);
    let dropped = streamer.metric("dropped_bytes_total");
    numbers.sort_unstable();
    let repeated: Vec<u64> = numbers.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]).collect();
    let missing: Vec<u64> = (0..sent).filter(|number| numbers.binary_search(number).is_err()).collect();
    assert!(
        missing.is_empty() && repeated.is_empty() && numbers.len() as u64 == sent,
        "of {sent} statements: missing {missing:?}, repeated {repeated:?}; {dropped} bytes dropped"
    );
    assert_eq!((dropped, streamer.metric("unparsed_bytes_total")), (0, 0));
    curl.kill().unwrap();
    curl.wait().unwrap();
}

#[test]
fn a_run_that_was_ended_between_its_steps_is_gone_on_with() {
    let (server, log) = logging();
    server.sql("SELECT 1");
    fs::rename(&log, format!("{log}.1")).unwrap();
    let text = rotated(&server, &log, &[]);
    assert!(text.contains("had been renamed by a run that was ended"), "{text}");
    server.sql("SELECT 2");
    assert!(fs::read_to_string(&log).unwrap().contains("SELECT 2"));
    // One that was being removed, and a gap.
    fs::write(format!("{log}.9"), "x").unwrap();
    let told = rotated(&server, &log, &["--keep", "2", "--dry-run"]);
    assert!(told.contains("slow.log becomes ") && told.contains("slow.log.9 is removed"), "{told}");
    assert!(!told.contains("slow.log.1 is removed"), "{told}");
    assert_eq!(files(&log), ["slow.log", "slow.log.1", "slow.log.9"]);
    let text = rotated(&server, &log, &["--keep", "2"]);
    assert!(text.contains("slow.log.9") && files(&log) == ["slow.log", "slow.log.1", "slow.log.2"], "{text}");
    let text = rotated(&server, &log, &["--keep", "0"]);
    assert_eq!(files(&log), ["slow.log"], "{text}");
}

#[test]
fn what_cannot_be_rotated_stays_as_it_is() {
    let (server, log) = logging();
    server.sql("CREATE USER weak@localhost; SELECT 1");
    let weak = |log: &str| {
        understudy(&["slowlog", "rotate", "--file", log, "--socket", &socket(&server), "--user", "weak"])
    };
    refused(
        &mut weak(&log),
        1,
        "may not flush the slow log, so nothing was rotated: GRANT RELOAD ON *.* TO weak",
    );
    server.sql("SELECT 2");
    assert!(files(&log) == ["slow.log"] && fs::read_to_string(&log).unwrap().contains("SELECT 2"));
    let other = tempfile::NamedTempFile::new().unwrap();
    fs::write(other.path(), "x").unwrap();
    refused(&mut rotate(&server, other.path().to_str().unwrap(), &[]), 2, "writes its slow log to");
    refused(&mut rotate(&server, datadir(&server).to_str().unwrap(), &[]), 2, "is a directory");
    let mut nobody =
        understudy(&["slowlog", "rotate", "--file", &log, "--socket", "/no/such.sock", "--user", "root"]);
    refused(&mut nobody, 1, "nobody listens at this socket");
    assert_eq!(files(&log), ["slow.log"]);
}

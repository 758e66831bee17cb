//! A log that is streamed while it grows and is rotated, also by the seed's own command line.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fixture::Server;

use super::{Ends, Streamer, called, checksum, logging, prepare, until};

/// Numbers of the statements `SELECT N FROM t LIMIT 1` in a text, in their order.
fn numbers(text: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| line.strip_prefix("SELECT ")?.strip_suffix(" AS n FROM t LIMIT 1;")?.parse().ok())
        .collect()
}

fn run_numbers(server: &Server, range: std::ops::Range<u64>) {
    let sql: Vec<String> = range.map(|n| format!("SELECT {n} AS n FROM t LIMIT 1")).collect();
    server.sql(&format!("USE shop; {};", sql.join("; ")));
}

#[test]
fn events_streamed_are_events_written_through_rotations() {
    let (active, log) = logging();
    prepare(&[&active]);
    let streamer = Streamer::start(&log, "127.0.0.1:0", &[]);
    let mut curl = Command::new("curl").args(["-sSN", &streamer.url]).stdout(Stdio::piped()).spawn().unwrap();
    until("a reader", || streamer.metric("readers") == 1);
    for round in 0..10 {
        run_numbers(&active, round * 100..round * 100 + 100);
        for older in (1..10).rev() {
            let _ = fs::rename(format!("{log}.{older}"), format!("{log}.{}", older + 1));
        }
        fs::rename(&log, format!("{log}.1")).unwrap();
        if round % 2 == 0 {
            run_numbers(&active, 10_000 + round * 100..10_000 + round * 100 + 100);
        }
        active.sql("FLUSH SLOW LOGS");
    }
    run_numbers(&active, 1000..1001);
    let mut expected: Vec<u64> = Vec::new();
    for round in 0..10 {
        expected.extend(round * 100..round * 100 + 100);
        if round % 2 == 0 {
            expected.extend(10_000 + round * 100..10_000 + round * 100 + 100);
        }
    }
    expected.push(1000);
    let mut out = curl.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut part = vec![0; 65536];
        loop {
            let read = out.read(&mut part).unwrap();
            text.extend_from_slice(&part[..read]);
            if read == 0 || text.ends_with(b"SELECT 1000 AS n FROM t LIMIT 1;\n") {
                return String::from_utf8(text).unwrap();
            }
        }
    });
    until("the last event", || reading.is_finished());
    let text = reading.join().unwrap();
    assert_eq!(numbers(&text), expected);
    assert_eq!((streamer.metric("dropped_bytes_total"), streamer.metric("unparsed_bytes_total")), (0, 0));
    curl.kill().unwrap();
    curl.wait().unwrap();
    until("the reader has left", || streamer.metric("readers") == 0);
}

#[test]
fn a_stream_can_be_sampled_and_resumed() {
    let (active, log) = logging();
    prepare(&[&active]);
    let streamer = Streamer::start(&log, "127.0.0.1:0", &[]);
    run_numbers(&active, 0..100);
    let get = |query: &str| {
        let url = format!("{}{query}", streamer.url);
        let out = Command::new("curl").args(["-sSN", "--max-time", "3", &url]).output().unwrap().stdout;
        String::from_utf8(out).unwrap()
    };
    let whole = get("?from=start");
    assert_eq!(numbers(&whole), (0..100).collect::<Vec<u64>>());
    let sampled = get("?from=start&rate_limit=10");
    let kept = numbers(&sampled);
    assert!((9..=11).contains(&kept.len()), "{kept:?}");
    assert!(sampled.contains("# Log_slow_rate_type: query  Log_slow_rate_limit: 10\n"), "{sampled}");
    assert!(get("?rate_limit=0").contains("rate_limit=0 is not a number from 1 on."));
    assert!(get("?resume=1-2").contains("No file has this place any more"));
    assert_eq!(get("/../nowhere"), "Resource not found.\n");
}

#[test]
fn the_seeds_own_command_line_warms_a_standby() {
    let (active, log) = logging();
    let standby = Server::start(&["--log-output=TABLE", "--general-log=1"]);
    prepare(&[&active, &standby]);
    let before = checksum(&standby);
    let links = tempfile::tempdir().unwrap();
    for name in ["mysql_slowlogd", "percona-playback"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_understudy"), links.path().join(name)).unwrap();
    }
    let port = fixture::free_port();
    let streamer = called("mysql_slowlogd")
        .args(["-f", &log, "-p", &port.to_string(), "-x"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let streamer = Ends(streamer);
    let url = format!("http://127.0.0.1:{port}/slow");
    until("mysql_slowlogd listens", || {
        Command::new("curl")
            .args(["-s", "-o", "/dev/null", &format!("http://127.0.0.1:{port}/metrics")])
            .status()
            .unwrap()
            .success()
    });
    let pipe = format!(
        "wget -q -O - {url} | percona-playback --mysql-host 127.0.0.1 --mysql-port {} --mysql-username warm \
         --query-log-stdin --dispatcher-plugin thread-pool --thread-pool-threads-count 100 --session-init-query \"set innodb_fake_changes=1\"",
        standby.address().port()
    );
    let path = format!("{}:{}", links.path().display(), std::env::var("PATH").unwrap());
    let playback = Command::new("bash")
        .args(["-c", &pipe])
        .env("PATH", path)
        .env("UNDERSTUDY_PASSWORD", "secret")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let readers = || {
        let text = Command::new("curl")
            .args(["-s", &format!("http://127.0.0.1:{port}/metrics")])
            .output()
            .unwrap()
            .stdout;
        String::from_utf8(text).unwrap().contains("understudy_slowlog_readers 1\n")
    };
    until("wget reads", readers);
    run_numbers(&active, 0..500);
    active.sql("USE shop; INSERT INTO t VALUES (9999, 1, 'a')");
    let replayed = || {
        let heard = standby.sql(
            "SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND user_host LIKE 'warm%'",
        );
        let mut numbers = numbers(&heard.replace("LIMIT 1", "LIMIT 1;"));
        numbers.sort_unstable();
        numbers
    };
    let all: Vec<u64> = (0..500).collect();
    let begin = std::time::Instant::now();
    while replayed() != all && begin.elapsed() < super::DEADLINE {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // The source ends, so wget does, so the replay does.
    drop(streamer);
    let ended = playback.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("A total of 0 queries had errors."), "{out}{err}");
    assert_eq!(replayed(), all, "{out}{err}");
    assert!(err.contains("Sessions are READ ONLY in its place."), "{err}");
    assert!(err.contains("Schema test is not there or not this account's"), "{err}");
    // The client that wrote them asked for its schema, too.
    let executed =
        out.split_once("Executed ").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default();
    let selects = format!("Detailed Report\n----------------\nSELECTs  : {executed} queries (");
    assert!(executed.parse::<u32>().is_ok_and(|count| count >= 500), "{out}");
    assert!(out.contains(&selects) && out.ends_with("Other    : 0 queries\n\n\n"), "{out}");
    assert_eq!(checksum(&standby), before);
}

/// The process in the background with this port in its command line.
fn in_the_background(port: &str) -> u32 {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found = ids.find(|id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.starts_with(b"mysql_slowlogd\0")
            && line.split(|byte| *byte == 0).any(|word| word == port.as_bytes())
    });
    found.expect("a process in the background")
}

#[test]
fn mysql_slowlogd_in_the_background_keeps_nothing_of_its_caller() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_understudy"), directory.path().join("mysql_slowlogd"))
        .unwrap();
    fs::write(directory.path().join("slow.log"), "").unwrap();
    let port = fixture::free_port().to_string();
    // The log's name is relative; the script holds a lock by a descriptor with one digit, and a file by one with two.
    let script = format!(
        "exec 9>lock 42>other; flock 9; PATH=.:$PATH; mysql_slowlogd -f slow.log -p {port} 2>&1 | cat; echo ${{PIPESTATUS[0]}}"
    );
    let mut caller = Command::new("bash")
        .args(["-c", &script])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = caller.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        text
    });
    let begin = std::time::Instant::now();
    while !reading.is_finished() && begin.elapsed() < super::DEADLINE {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let is_returned = reading.is_finished();
    let id = in_the_background(&port);
    let link = |name: &str| fs::read_link(format!("/proc/{id}/{name}")).unwrap();
    let files: Vec<_> = fs::read_dir(format!("/proc/{id}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .collect();
    let (home, standard) = (link("cwd"), ["fd/0", "fd/1", "fd/2"].map(link));
    let is_its_own = session_of(id) == id;
    let streamed = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &format!("http://127.0.0.1:{port}/metrics")])
        .output()
        .unwrap();
    assert!(Command::new("kill").arg(id.to_string()).status().unwrap().success());
    let text = reading.join().unwrap();
    caller.wait().unwrap();
    assert!(is_returned, "the pipe goes on: {files:?}");
    assert!(text.ends_with("\n0\n") && text.contains("answers everybody"), "{text}");
    assert_eq!(home, Path::new("/"));
    assert!(standard.iter().all(|file| file == Path::new("/dev/null")), "{standard:?}");
    let log = directory.path().join("slow.log");
    let is_the_callers = |file: &PathBuf| {
        file.to_string_lossy().starts_with("pipe:") || (file.starts_with(directory.path()) && *file != log)
    };
    assert!(!files.iter().any(is_the_callers), "{files:?}");
    assert!(is_its_own, "a session of its own");
    assert_eq!(streamed.stdout, b"200");
}

/// The sixth field of /proc/ID/stat, behind a name that has no blanks.
fn session_of(id: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    stat.split(' ').nth(5).unwrap().parse().unwrap()
}

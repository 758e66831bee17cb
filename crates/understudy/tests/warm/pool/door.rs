//! Who may read a stream: this machine, whoever has the key, or everybody when that was said.

use std::process::{Command, Stdio};

use fixture::Server;

use super::{Streamer, called, datadir, refused, understudy};

#[test]
fn a_stream_for_other_machines_needs_a_key_or_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("slow.log").display().to_string();
    let serve = |listen: &str| understudy(&["slowlog", "serve", "--file", &log, "--listen", listen]);
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:3307", "[::ffff:192.0.2.1]:3307"] {
        refused(
            &mut serve(listen),
            2,
            "can be reached from elsewhere, and a slow log shows what clients write and read: give a key",
        );
    }
    refused(serve("192.0.2.1:3307").arg("--open"), 1, "this machine has no such address");
    let missing = dir.path().join("key").display().to_string();
    refused(serve("127.0.0.1:0").args(["--key-file", &missing]), 2, "make one with: head -c 20 /dev/urandom");
    std::fs::write(&missing, "\n").unwrap();
    refused(serve("127.0.0.1:0").args(["--key-file", &missing]), 2, "is empty; it must hold one line");
    refused(serve("127.0.0.1:0").args(["--tls-cert", &missing]), 2, "--tls-key");
    refused(
        serve("127.0.0.1:0").args(["--tls-cert", &missing, "--tls-key", &missing]),
        2,
        "it holds no certificate",
    );
}

#[test]
fn without_the_key_nothing_is_told() {
    let server =
        Server::start(&["--slow-query-log=1", "--long-query-time=0", "--slow-query-log-file=slow.log"]);
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "right\n").unwrap();
    let log = datadir(&server).join("slow.log").display().to_string();
    let streamer = Streamer::start(&log, "127.0.0.1:0", &["--key-file", key.to_str().unwrap()]);
    server.sql("SELECT 4711");
    let get = |path: &str, header: &str| {
        let url = streamer.url.replace("/slow", path);
        let output = Command::new("curl")
            .args(["-s", "-m", "2", "-w", "%{http_code}", "-H", header, &url])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for path in ["/slow?from=start", "/metrics", "/nowhere"] {
        assert_eq!(
            get(path, "X: y"),
            "A key is needed here: send it as header `Authorization: Bearer KEY`.\n401"
        );
        assert_eq!(get(path, "Authorization: Bearer wrong"), "The key is not right.\n401");
        assert_eq!(
            get(path, "Authorization: Basic right"),
            "The header Authorization is not `Bearer KEY`.\n401"
        );
    }
    assert!(get("/slow?from=start", "Authorization: Bearer right").contains("SELECT 4711"));
    assert!(get("/metrics", "Authorization: bearer right").contains("understudy_slowlog_readers"));
}

#[test]
fn the_drop_in_answers_everybody_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("slow.log").display().to_string();
    let port = fixture::free_port().to_string();
    let child = called("mysql_slowlogd")
        .args(["-f", &log, "-p", &port, "-x"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = super::Ends(child);
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.0.stderr.take().unwrap()));
    let warned = lines
        .map_while(Result::ok)
        .find(|line| line.contains("answers everybody, as mysql_slowlogd always did"));
    assert!(warned.is_some());
}

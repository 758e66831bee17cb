use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::Value;
use topology::health::Question;

use super::*;
use crate::agent;
use crate::answer::{Answer, AnswerKind};

/// The source itself is good, and its nodes are not.
struct Cluster;

impl Source for Cluster {
    fn answer(&self, node: Option<&str>, _: Question) -> Option<Answer> {
        let kind = if node.is_none() { AnswerKind::Good } else { AnswerKind::NotSynced };
        Some(Answer::new(kind, "", Duration::ZERO))
    }

    fn status(&self, _: Option<&str>) -> Option<Value> {
        None
    }

    fn metrics(&self) -> String {
        String::new()
    }
}

fn started(connections_max: u64) -> Server {
    serving(connections_max, vec![], true)
}

fn serving(connections_max: u64, unix: Vec<UnixListener>, several_nodes: bool) -> Server {
    let open = || vec![listen_here()];
    let settings = Settings {
        http: open(),
        unix,
        agent: open(),
        style: Style::Clustercheck,
        rules: Rules::default(),
        several_nodes,
        connections_max,
    };
    start(settings, Arc::new(Cluster), Arc::default()).unwrap()
}

fn listen_here() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn is_good(server: &Server, words: &str) -> bool {
    let mut stream = TcpStream::connect(server.http()[0]).unwrap();
    stream.write_all(words.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said.starts_with("HTTP/1.1 200 ")
}

#[test]
fn a_question_about_a_node_is_never_answered_with_the_whole() {
    let server = started(CONNECTIONS_MAX);
    for words in ["GET / HTTP/1.0\r\n\r\n", "\r\n", "hello\n", ""] {
        assert!(is_good(&server, words), "{words:?}");
    }
    for words in [
        "GET /health/db1 HTTP/1.0\r\n\r\n",
        "GET //health//db1 HTTP/1.0\r\n\r\n",
        "\r\nGET /health/db1 HTTP/1.1\r\n\r\n",
        "PROXY UNKNOWN\r\nGET /health/db1 HTTP/1.0\r\n\r\n",
        "GET /health/db1\r\n",
        "GET /health/db1 HTTP/2.0\r\n\r\n",
        "get /health/db1 HTTP/1.1\r\n\r\n",
        "GET /health/db1 HT",
        "GET /db1 HTTP/1.0\r\n\r\n",
        "GET /healht/db1 HTTP/1.0\r\n\r\n",
    ] {
        assert!(!is_good(&server, words), "{words:?}");
    }
}

#[test]
fn half_a_name_is_no_name() {
    let server = started(CONNECTIONS_MAX);
    let said = |words: &str| {
        let mut stream = TcpStream::connect(server.agent()[0]).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    };
    assert_eq!(said("db1\n"), "ready down # \n");
    // The rest of the name may still follow: db10.
    assert_eq!(said("db1"), agent::NAMELESS);
}

#[test]
fn no_kind_of_client_takes_all_descriptors() {
    let server = started(1);
    let most = ASIDE_MAX + BEYOND_MAX;
    // The clients send nothing: an agent check waits a while for a name.
    let clients: Vec<_> = (0..most + 50).map(|_| TcpStream::connect(server.agent()[0]).unwrap()).collect();
    let mut seen = 0;
    for mut client in clients {
        seen = seen.max(server.counts().open.load(Relaxed));
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert_eq!(said, agent::NAMELESS);
    }
    assert!((1..=most).contains(&seen), "{seen}");
}

/// Sends one request on a connection that stays open, and reads the answer.
fn ask(stream: &mut (impl Read + Write), target: &str) -> String {
    write!(stream, "GET {target} HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"synced.\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    String::from_utf8(said).unwrap()
}

#[test]
fn a_crowd_at_one_door_shuts_no_other_and_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let server = serving(2, vec![UnixListener::bind(&path).unwrap()], true);
    let mut kept: Vec<_> = (0..2).map(|_| TcpStream::connect(server.http()[0]).unwrap()).collect();
    for stream in &mut kept {
        assert!(ask(stream, "/").starts_with("HTTP/1.1 200 "));
    }
    let mut inside = std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert!(ask(&mut inside, "/health/db1").starts_with("HTTP/1.1 503 "));
    assert_eq!(server.counts().beyond.load(Relaxed), 0, "the unix socket has its own places");
    // The next client is served, and the connection that was silent for longest is closed.
    let mut next = TcpStream::connect(server.http()[0]).unwrap();
    let said = ask(&mut next, "/");
    assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("Connection: close"), "{said}");
    assert_eq!(server.counts().beyond.load(Relaxed), 1);
    assert_eq!(kept[0].read(&mut [0; 64]).unwrap(), 0, "closed");
    assert!(ask(&mut kept[1], "/").starts_with("HTTP/1.1 200 "), "this one stays");
    // Silent clients do not take anybody's answer.
    let silent: Vec<_> = (0..4).map(|_| TcpStream::connect(server.http()[0]).unwrap()).collect();
    let mut hurried = TcpStream::connect(server.http()[0]).unwrap();
    assert!(ask(&mut hurried, "/health/db1").starts_with("HTTP/1.1 503 "));
    let mut hurried = TcpStream::connect(server.http()[0]).unwrap();
    assert!(ask(&mut hurried, "/").starts_with("HTTP/1.1 200 "));
    drop(silent);
}

#[test]
fn where_there_is_one_node_nobody_waits_for_the_end_of_a_question() {
    let server = serving(CONNECTIONS_MAX, vec![], false);
    let said = |words: &str| {
        let began = std::time::Instant::now();
        let mut stream = TcpStream::connect(server.http()[0]).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        (said.starts_with("HTTP/1.1 200 "), began.elapsed())
    };
    // The source itself is good, and its nodes are not: only the first line says which one was meant.
    for (words, good) in [
        ("", true),
        ("GET / HTTP/1.0\r\n", true),
        ("GET /health/db1 HTTP/1.1\r\nHost: her", false),
        ("GET /health/db1 HTTP/1.1\r\nHost: here\r\n", false),
    ] {
        let (is_good, after) = said(words);
        assert_eq!(is_good, good, "{words:?}");
        assert!(after < HEAD_TIME_MAX / 2, "{words:?}: {after:?}");
    }
}

#[test]
fn a_head_that_cannot_be_served_has_no_body_either() {
    let server = started(CONNECTIONS_MAX);
    let mut stream = TcpStream::connect(server.http()[0]).unwrap();
    stream.write_all(b"HEAD /?donor=maybe HTTP/1.1\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400 ") && said.ends_with("\r\n\r\n"), "{said}");
}

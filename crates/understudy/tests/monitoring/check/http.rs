//! The running check's HTTP, its agent check, and the roles.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use fixture::Server;
use testbed::program::{LONG, until};

use super::asking::{get, response, say};
use super::check_dir::CheckDir;
use super::{DISABLED, DOWN, SOON, UP};

/// HTTP as it is, and as it is not.
pub fn the_server(server: &Server, check_dir: &CheckDir, http: SocketAddr, agent: SocketAddr) {
    for words in [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "OPTIONS / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /any/path?x=y HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        "GET /\r\n",
        "\r\n",
        "is anybody there\n",
        "\u{16}\u{3}\u{1}",
    ] {
        assert_eq!(say(http, words.as_bytes()), UP, "{words:?}");
    }
    let began = Instant::now();
    assert_eq!(say(http, b""), UP, "whoever says nothing is answered");
    assert!(began.elapsed() < 3 * SOON);
    let half = {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.write_all(b"GET / HT").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert_eq!(half, UP, "half a request, and no more to come");
    let head = say(http, b"HEAD / HTTP/1.1\r\n\r\n");
    assert_eq!(head, UP[..UP.find("\r\n\r\n").unwrap() + 4]);

    let mut kept = TcpStream::connect(http).unwrap();
    kept.set_read_timeout(Some(LONG)).unwrap();
    for _ in 0..3 {
        kept.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n").unwrap();
        assert_eq!(response(&mut kept), UP.replace("close", "keep-alive"));
    }
    // Two at once, the second the last.
    kept.write_all(
        b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n",
    )
    .unwrap();
    let mut both = String::new();
    kept.read_to_string(&mut both).unwrap();
    assert_eq!(both, UP.replace("close", "keep-alive") + UP);

    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    assert!(say(http, long.as_bytes()).starts_with("HTTP/1.1 431 "), "a head without end");
    assert!(get(http, "/?donor=maybe").starts_with("HTTP/1.1 400 "));

    assert_eq!(say(agent, b""), "ready up\n");
    assert_eq!(say(agent, b"db1\n"), "ready up\n", "there is one node, whatever it is called");
    assert_eq!(get(http, "/health/live"), UP);
    server.sql("SET GLOBAL wsrep_desync = ON");
    until("the endpoint's 503", || (get(http, "/") == DOWN).then_some(()));
    assert_eq!(get(http, "/?donor=1"), UP);
    let said = say(agent, b"\n");
    assert!(said.starts_with("ready down # desynchronised by an operator"), "{said}");
    // The setting is there at once, and the node's state follows when the group has agreed to it.
    let status = until("the state of a donor", || {
        let status = get(http, "/status");
        let status: serde_json::Value =
            serde_json::from_str(status.split_once("\r\n\r\n").unwrap().1).unwrap();
        (status["facts"]["local_state"] == 2).then_some(status)
    });
    assert_eq!(status["good"], false, "{status}");
    assert!(status["reason"].as_str().unwrap().contains("wsrep_desync is ON"), "{status}");
    server.sql("SET GLOBAL wsrep_desync = OFF");
    until("the endpoint's 200", || (get(http, "/") == UP).then_some(()));
    check_dir.write("disabled", "");
    until("disabled", || (get(http, "/") == DISABLED).then_some(()));
    assert!(say(agent, b"\n").starts_with("drain # is disabled by an operator"));
    assert_eq!(get(http, "/?drained=1"), UP, "for HAProxy's HTTP check beside the agent's word");
    assert!(get(http, "/writer?drained=1").starts_with("HTTP/1.1 503 "), "the file speaks against all roles");
    fs::remove_file(check_dir.path("disabled")).unwrap();
    until("the endpoint's 200", || (get(http, "/") == UP).then_some(()));
    assert!(get(http, "/metrics").contains("\nunderstudy_check_good 1\n"));
}

pub fn roles(check_dir: &CheckDir, http: SocketAddr) {
    assert!(get(http, "/writer").ends_with("\r\n\r\nmay take writes\r\n"));
    let said = get(http, "/replica?max_lag=2s");
    assert!(
        said.starts_with("HTTP/1.1 503 ") && said.contains("does not tell whether it replicates: 1227"),
        "{said}"
    );
    assert!(check_dir.once_quietly(&["--role", "writer"]).with(0).ends_with("\r\n\r\nmay take writes\r\n"));
    // The same from the database itself; once with an account that may see the replication.
    let elsewhere = check_dir.text("elsewhere.sock");
    let said = check_dir.once_quietly(&["--role", "writer", "--answer-socket", &elsewhere]).with(0);
    assert!(said.ends_with("\r\n\r\nmay take writes\r\n"), "{said}");
    let file = check_dir.write(
        "app.cnf",
        &(fs::read_to_string(check_dir.path("place.cnf")).unwrap() + "user=app\npassword=secret\n"),
    );
    let args = [
        "--defaults-file",
        file.to_str().unwrap(),
        "--answer-socket",
        &elsewhere,
        "--role",
        "replica",
        "--max-lag",
        "500ms",
    ];
    let said = check_dir.once(&args).with(1);
    assert!(said.contains("is not a replica: it has no source"), "{said}");
}

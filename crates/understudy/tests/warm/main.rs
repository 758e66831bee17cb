//! A slow log of a real server, streamed and replayed on another real server, which must not change.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

#[path = "../program/mod.rs"]
mod program;
#[allow(dead_code)] // shared with other programs
#[path = "../replication/scene.rs"]
mod scene;
#[allow(dead_code)]
#[path = "../replication/writers.rs"]
mod writers;

mod cluster;
mod harness;
mod replay;
mod served;
mod stream;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fixture::Server;

/// Longer than anything here takes on an overloaded machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The program, also under another name.
fn called(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.env_remove("UNDERSTUDY_PASSWORD").env("UNDERSTUDY_LOG", "info");
    command
}

/// A server that logs every statement, and its log.
fn logging() -> (Server, String) {
    let server =
        Server::start(&["--slow-query-log=1", "--long-query-time=0", "--slow-query-log-file=slow.log"]);
    let log = server.socket().with_file_name("data").join("slow.log").display().to_string();
    (server, log)
}

/// The same tables on each, with an account that may only read.
fn prepare(servers: &[&Server]) {
    for server in servers {
        server.sql(
            "SET SESSION slow_query_log = 0; \
             CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, b TEXT) ENGINE=InnoDB; \
             INSERT INTO shop.t SELECT seq, seq % 7, REPEAT('x', 100) FROM shop.seq_1_to_1000; \
             CREATE TABLE shop.u LIKE shop.t; INSERT INTO shop.u SELECT * FROM shop.t; \
             CREATE SEQUENCE shop.s; \
             \nDELIMITER //\n\
             CREATE FUNCTION shop.f(x INT) RETURNS INT MODIFIES SQL DATA \
               BEGIN INSERT INTO shop.u VALUES (100000 + x, 0, ''); RETURN x; END//\n\
             DELIMITER ;\n\
             CREATE PROCEDURE shop.p() DELETE FROM shop.u WHERE id = 1; \
             CREATE VIEW shop.v AS SELECT shop.f(id + 50) AS x FROM shop.t WHERE id < 3; \
             CREATE USER warm@'%' IDENTIFIED BY 'secret'; GRANT SELECT ON shop.* TO warm@'%'; \
             GRANT ALL ON *.* TO app@'%'",
        );
    }
}

fn checksum(server: &Server) -> String {
    server.sql("CHECKSUM TABLE shop.t, shop.u; SELECT next_not_cached_value FROM shop.s")
}

/// Something that is waited for.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that ends with this.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A streamer.
struct Streamer {
    _child: Ends,
    url: String,
}

impl Streamer {
    fn start(log: &str, listen: &str) -> Streamer {
        let mut child = called("understudy")
            .args(["slowlog", "serve", "--file", log, "--listen", listen])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .find_map(|line| Some(line.unwrap().split_once("streamed at ")?.1.trim().to_owned()))
            .unwrap();
        // What it says later must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Streamer { _child: Ends(child), url }
    }

    fn metric(&self, name: &str) -> u64 {
        let url = self.url.replace("/slow", "/metrics");
        let text = Command::new("curl").args(["-sS", &url]).output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("understudy_slowlog_{name} ")));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {text}"))
    }
}

//! What keeps a standby warm, on real servers: a slow log that is streamed and replayed on another server, which must not change, and a buffer
//! pool that is copied.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod cluster;
mod harness;
mod modes;
mod pool;
mod replay;
mod served;
mod stream;
mod streamer;
mod warmth;

use std::time::Duration;

use fixture::Server;
use fixture::wait::until;
use streamer::{Ends, Streamer, called};

/// Longer than anything here takes on an overloaded machine.
const DEADLINE: Duration = Duration::from_secs(60);

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

impl Ends {
    /// Sends SIGTERM and waits for its end.
    pub fn terminated(&mut self) -> std::process::ExitStatus {
        let sent =
            std::process::Command::new("kill").arg("-TERM").arg(self.0.id().to_string()).status().unwrap();
        assert!(sent.success());
        until("a program that was told to end has ended", || self.0.try_wait().unwrap())
    }
}

//! A primary and its replica behind the proxy, reads split off, and a server apart where a twin does the same.

use std::sync::Arc;
use std::time::Duration;

use fixture::Server;
use fixture::client::{Client, ClientOptions};
use proxy::SplitStats;
use topology::routes::{LaneState, Routes};

use harness::twin::Twins;
use harness::{Bench, SECOND, lane, routes_of, settings};

const QUICKLY: [&str; 5] = [
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--log-bin=log",
    "--log-bin-trust-function-creators=1",
    "--slave-net-timeout=5",
];

/// See the head of this file.
pub struct Pair {
    pub primary: Server,
    pub replica: Server,
    pub bench: Bench,
}

impl Pair {
    /// A read waits so long on the replica.
    pub fn lay(wait_max: Duration) -> Self {
        let primary = Server::start(&[&QUICKLY[..], &["--server-id=1"]].concat());
        primary.sql("CREATE USER repl@'%' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'; RESET MASTER");
        let replica = replica_of(&primary, 2);
        let bench = Bench::split(
            settings(),
            routes(1, [&primary, &replica], 0),
            routes(1, [&primary, &replica], 1),
            wait_max,
        );
        Self { primary, replica, bench }
    }

    /// Routes by which the primary (0) or the replica (1) is the writer.
    pub fn routes(&self, version: u64, open: usize) -> Arc<Routes> {
        routes(version, [&self.primary, &self.replica], open)
    }

    /// A server of a twin.
    pub fn apart() -> Server {
        Server::start(&[&QUICKLY[..], &["--server-id=1"]].concat())
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.bench.proxy.local_addresses()[0]).await
    }

    /// One through the proxy, and its twin straight on a server of its own.
    pub async fn twins(&self, apart: &Server, options: &ClientOptions) -> Twins {
        let moved = Client::connect_as(self.bench.proxy.local_addresses()[0], options).await;
        let stayed = Client::connect_as(apart.address(), options).await;
        Twins::of(
            moved.unwrap_or_else(|part| panic!("{part:?}")),
            stayed.unwrap_or_else(|part| panic!("{part:?}")),
        )
    }

    pub async fn split(&self) -> SplitStats {
        self.bench.proxy.stats().await.split.unwrap()
    }

    /// Waits until the replica has all.
    pub fn replicated(&self) {
        caught_up(&self.primary, &self.replica);
    }
}

/// Waits until the replica has all.
pub fn caught_up(primary: &Server, replica: &Server) {
    let position = primary.sql("SELECT @@gtid_current_pos");
    let position = position.trim();
    let waited = replica.sql(&format!("SELECT MASTER_GTID_WAIT('{position}', 20)"));
    assert_eq!(waited.trim(), "0", "{}", replica.sql("SHOW SLAVE STATUS\\G"));
}

/// A server that replicates from `primary`.
pub fn replica_of(primary: &Server, server_id: u32) -> Server {
    let replica = Server::start(&[&QUICKLY[..], &[&format!("--server-id={server_id}")]].concat());
    replica.sql("RESET MASTER; SET GLOBAL gtid_slave_pos = ''");
    replica.sql(&format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='repl', MASTER_PASSWORD='secret', \
         MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1; START SLAVE",
        primary.address().port()
    ));
    replica
}

fn routes(version: u64, servers: [&Server; 2], open: usize) -> Arc<Routes> {
    let state = |at| if at == open { LaneState::Open } else { LaneState::Shut };
    let lanes = servers.into_iter().enumerate();
    routes_of(version, lanes.map(|(at, server)| lane(at, server.address(), state(at), version)).collect())
}

pub const WAIT: Duration = SECOND;

//! What the situations are played on: the servers behind the two doors, and how both come to have the same data.
//!
//! ```text
//!   one server     door ──┬── server            a session's state is in its link, as on two servers
//!                  door ──┘
//!   Galera         door ───── member ═══╗       wsrep_sync_wait before traffic is there, as the manager waits
//!                  door ───── member ═══╝
//!   replication    door ───── server ◄──┐       each is the other's replica; traffic comes when all is applied, as behind
//!                  door ───── server ◄──┘       the manager's barrier
//!   split          the same, and reads outside transactions go to the server that does not write
//!   port for reads the same two servers, as two replicas: what administrators write is waited for by its position
//! ```

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::chown;
use std::time::Duration;

use fixture::Server;
use fixture::client::Client;
use fixture::tls::Certificate;
use fixture::wait::until_async;
use tempfile::TempDir;

use super::THINGS;
use super::traffic::Leave;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    OneServer,
    Galera,
    Replication,
    Split,
    ReadPort,
}

impl Ground {
    /// Two servers, each the other's replica.
    pub fn is_circle(self) -> bool {
        matches!(self, Ground::Replication | Ground::Split | Ground::ReadPort)
    }

    /// How a session leaves a node that is asked for its state before. On a crowded node it is asked within the next statement; but beside
    /// such a one another is open, and two that replicate to each other would write at once.
    pub fn leaves_that_save(self) -> &'static [Leave] {
        if self == Ground::OneServer { &[Leave::HandedOver, Leave::Crowded] } else { &[Leave::HandedOver] }
    }

    /// What is said to a server straight at the start of every session, for it to answer as through the proxy.
    pub fn first(self) -> &'static str {
        if self == Ground::ReadPort { "SET SESSION TRANSACTION READ ONLY" } else { "" }
    }
}

const QUICKLY: [&str; 3] =
    ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--max-allowed-packet=64M"];
const BINLOG: [&str; 5] = [
    "--log-bin=log",
    "--log-slave-updates",
    "--binlog-format=ROW",
    "--log-bin-trust-function-creators=1",
    "--slave-net-timeout=5",
];
const WSREP: [&str; 8] = [
    "--wsrep-on=ON",
    "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
    "--wsrep-sst-method=rsync",
    "--wsrep-node-address=127.0.0.1",
    "--wsrep-auto-increment-control=OFF",
    "--binlog-format=ROW",
    "--default-storage-engine=InnoDB",
    "--innodb-autoinc-lock-mode=2",
];
/// The other node has applied everything by then.
const LEVEL_TIME: Duration = Duration::from_secs(20);

/// The servers behind the doors.
pub struct Nodes {
    ground: Ground,
    servers: Vec<Server>,
    /// Files of the servers': a certificate, a second member's data.
    _files: Option<TempDir>,
    hands: Vec<Client>,
}

impl Nodes {
    /// Starts them, with the same data on each.
    pub async fn start(ground: Ground) -> Nodes {
        let (servers, files) = match ground {
            Ground::OneServer => {
                let files = tempfile::tempdir().unwrap();
                let options = Certificate::of("127.0.0.1").server_options(files.path());
                (vec![server_with_things(ground, &options)], Some(files))
            }
            Ground::Galera => {
                let (servers, received) = galera();
                (servers, Some(received))
            }
            Ground::Replication | Ground::Split | Ground::ReadPort => (circle(), None),
        };
        let mut hands = vec![];
        for server in &servers {
            let mut hand = Client::connect(server.address()).await;
            if ground == Ground::Galera {
                hand.run("SET SESSION wsrep_sync_wait = 15").await;
            }
            hands.push(hand);
        }
        let mut nodes = Nodes { ground, servers, _files: files, hands };
        nodes.level().await;
        nodes
    }

    /// A server of the same kind that is none of them, with the same data.
    pub fn apart(ground: Ground) -> Server {
        let place = GaleraPlace::new();
        let options = match ground {
            Ground::OneServer => vec![],
            Ground::Galera => place.options("gcomm://"),
            Ground::Replication | Ground::Split | Ground::ReadPort => numbered(3),
        };
        server_with_things(ground, &options)
    }

    /// What is behind each of the two doors.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        [self.servers[0].address(), self.servers[self.servers.len() - 1].address()]
    }

    /// Said by an administrator on the node `at`, which writes, when all that was written before is everywhere. What is not replicated is
    /// said on each of them.
    pub async fn given(&mut self, sql: &str, at: usize) {
        self.level().await;
        if sql.starts_with("SET GLOBAL") {
            for hand in &mut self.hands {
                hand.run(sql).await;
            }
        } else {
            self.hands[at.min(self.servers.len() - 1)].run(sql).await;
            self.level().await;
        }
    }

    /// Returns when each of them has everything.
    pub async fn level(&mut self) {
        match self.ground {
            Ground::OneServer => {}
            Ground::Galera => {
                for hand in &mut self.hands {
                    hand.run("SELECT COUNT(*) FROM two").await;
                }
            }
            Ground::Replication | Ground::Split | Ground::ReadPort => {
                for from in 0..2 {
                    self.caught_up(from, 1 - from).await;
                }
            }
        }
    }

    /// Returns when no session of a client is left on any of them. A server goes on with a text whose connection was cut: it may write behind what is
    /// said next.
    pub async fn rest(&mut self) {
        const LEFT: &str = "SELECT IFNULL(GROUP_CONCAT(ID), '') FROM information_schema.PROCESSLIST WHERE USER IN ('app', 'plain') AND ID <> CONNECTION_ID()";
        for hand in &mut self.hands {
            until_async("no session of a client is left", async || {
                let left = hand.one(LEFT).await;
                for id in left.split(',').filter(|id| !id.is_empty()) {
                    // It may have ended by now.
                    hand.query(format!("KILL {id}")).await;
                }
                if left.is_empty() { Ok(()) } else { Err(left) }
            })
            .await;
        }
    }

    /// The last that was written on the server `at` itself; empty if nothing was.
    pub async fn position(&mut self, at: usize) -> String {
        let written = self.hands[at].one("SELECT @@GLOBAL.gtid_binlog_pos").await;
        let domain = format!("{}-", at + 1);
        written.split(',').find(|gtid| gtid.starts_with(&domain)).unwrap_or_default().to_owned()
    }

    /// Waits until all that was written on `from` is on `to`.
    async fn caught_up(&mut self, from: usize, to: usize) {
        let own = self.position(from).await;
        if own.is_empty() {
            return;
        }
        let waited =
            self.hands[to].one(&format!("SELECT MASTER_GTID_WAIT('{own}', {})", LEVEL_TIME.as_secs())).await;
        let busy = self.hands[to].query("SHOW FULL PROCESSLIST").await;
        assert_eq!(waited, "0", "it does not replicate; what runs there: {:?}", busy.rows());
    }
}

fn server_with_things(ground: Ground, options: &[String]) -> Server {
    let own: Vec<&str> = options.iter().map(String::as_str).collect();
    let kind: &[&str] = match ground {
        Ground::OneServer => &[],
        Ground::Galera => &WSREP,
        Ground::Replication | Ground::Split | Ground::ReadPort => &BINLOG,
    };
    let server = Server::start(&[&QUICKLY, kind, &own[..]].concat());
    server.sql(THINGS);
    server
}

fn numbered(id: u32) -> Vec<String> {
    vec![format!("--server-id={id}"), format!("--gtid-domain-id={id}")]
}

/// Two servers, each of which is the other's replica.
fn circle() -> Vec<Server> {
    let servers = [1, 2].map(|id| server_with_things(Ground::Replication, &numbered(id)));
    for server in &servers {
        server.sql(
            "CREATE USER repl@'%' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'; RESET MASTER; \
             SET GLOBAL gtid_slave_pos = ''",
        );
    }
    for (at, server) in servers.iter().enumerate() {
        let port = servers[1 - at].address().port();
        server.sql(&format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='repl', MASTER_PASSWORD='secret', \
             MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1; START SLAVE"
        ));
    }
    servers.into()
}

/// The ports of a member beside that for clients.
struct GaleraPlace {
    group: u16,
    ist: u16,
    sst: u16,
}

impl GaleraPlace {
    fn new() -> GaleraPlace {
        // All at once, so that they differ.
        let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [group, ist, sst] = free.map(|listener| listener.local_addr().unwrap().port());
        GaleraPlace { group, ist, sst }
    }

    fn options(&self, members: &str) -> Vec<String> {
        let Self { group, ist, sst } = self;
        let mut options = vec![
            format!("--wsrep-cluster-address={members}"),
            format!(
                "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{ist};gcache.size=8M"
            ),
            format!("--wsrep-sst-receive-address=127.0.0.1:{sst}"),
        ];
        if members == "gcomm://" {
            options.push("--wsrep-new-cluster".into());
        }
        options
    }
}

/// By which a daemon of root's writes what rsync brings.
const NOBODY: u32 = 65534;

/// Two members of a cluster; the second has its data from the first.
fn galera() -> (Vec<Server>, TempDir) {
    let received = tempfile::Builder::new().prefix("understudy-test-").tempdir().unwrap();
    // Who is not root need not, and may not.
    let _ = chown(received.path(), Some(NOBODY), None);
    let (first_place, second_place) = (GaleraPlace::new(), GaleraPlace::new());
    let first = server_with_things(Ground::Galera, &first_place.options("gcomm://"));
    let mut options = second_place.options(&format!("gcomm://127.0.0.1:{}", first_place.group));
    options.push(format!("--datadir={}", received.path().display()));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let second = Server::start(&[&QUICKLY[..], &WSREP, &options].concat());
    second.until("SHOW STATUS LIKE 'wsrep_local_state_comment'", |state| state.ends_with("\tSynced"));
    (vec![first, second], received)
}

//! A primary and two replicas, and `understudy serve` before them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use fixture::wait::until_async;
use lab::fault::Fault;
use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{ClusterKind, Stage, StagePlan, unpacked};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Serving, directory, until};
use crate::writers::{self, WriterResult};

/// What the lab's replicas log in with.
const REPLICATION: &str = "replication";

/// The cluster.
pub struct Scene {
    /// Its servers, and what is done to them.
    pub stage: Stage,
}

impl Scene {
    /// A primary with two replicas. Several of one test program have different names.
    pub async fn of(name: &str, semi_sync: bool) -> Self {
        Self::on(StagePlan {
            kind: ClusterKind::Replication { semi_sync },
            name: format!("t{}-{name}", std::process::id()),
            ..StagePlan::default()
        })
        .await
    }

    /// The same on MySQL 9.7 with semi-synchronous replication, whose accounts are of `caching_sha2_password`.
    pub async fn mysql(name: &str) -> Self {
        Self::on(StagePlan {
            server: Some("mysql-9.7".to_owned()),
            kind: ClusterKind::Replication { semi_sync: true },
            name: format!("t{}-{name}", std::process::id()),
            ..StagePlan::default()
        })
        .await
    }

    /// A cluster of another kind; with a table for [`Writers`](crate::writers::Writers).
    pub async fn on(plan: StagePlan) -> Self {
        let stage = Stage::up(plan).await.unwrap();
        writers::make_table(&stage).await;
        Self { stage }
    }

    /// Waits until each server of MySQL has let the application's account in: Understudy makes all of them remember it when a client has logged in.
    pub async fn is_known_everywhere(&self) {
        // A login that is going on counts, too, and is remembered when it has ended.
        let ended = "TOTAL_CONNECTIONS > CURRENT_CONNECTIONS";
        let logins =
            format!("SELECT COUNT(*) FROM performance_schema.accounts WHERE USER = '{APP_USER}' AND {ended}");
        for node in self.stage.nodes() {
            self.until(&node.name, &logins, |count| count != "0").await;
        }
    }

    /// A directory with a configuration whose [cluster.replication] ends with `replication`.
    pub fn directory(&self, replication: &str) -> TempDir {
        let host = self.stage.host_address();
        let mut config = "[cluster]\nname = \"shop\"\nid = 5\nkind = \"replication\"\n".to_owned();
        for node in self.stage.nodes() {
            config +=
                &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
        }
        config += &format!(
            "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n\
             [cluster.replication]\nuser = \"{REPLICATION}\"\npassword = \"{REPLICATION}\"\n{replication}\n\
             [listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
        );
        directory(&config)
    }

    /// Where clients connect.
    pub fn through(&self) -> SocketAddr {
        SocketAddr::from((self.stage.host_address(), 6033))
    }

    /// What the client program of another server ("mysql-9.7") says through the proxy with nothing but an account: none of its options for TLS is set.
    pub fn client(&self, server: &str, program: &str, statement: &str) -> String {
        let program = unpacked::usr(server).unwrap().join("bin").join(program);
        client_says(&program, self.through(), &[], statement)
    }

    /// Makes the account "signer", by whose `plugin` its clients sign; `library` has it. Returns what the configuration needs for them.
    pub async fn signer(&self, library: &str, plugin: &str) -> &'static str {
        for node in self.stage.nodes() {
            self.stage.run_in(&node.name, &format!("INSTALL SONAME '{library}'")).await.unwrap();
        }
        let user = format!("CREATE USER signer@'%' IDENTIFIED VIA {plugin} USING PASSWORD('signed')");
        self.stage.run_in("db1", &user).await.unwrap();
        "[[proxy.account]]\nuser = \"signer\"\npassword = \"signed\"\n"
    }

    /// A node's address.
    pub fn address(&self, node: &str) -> String {
        self.stage.node(node).unwrap().address.to_string()
    }

    /// What the status says of a node.
    pub fn node<'a>(&self, status: &'a Value, node: &str) -> &'a Value {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().find(|other| other["name"] == node).unwrap()
    }

    /// Whom a node says that it follows, with both its threads; empty when it does not.
    pub fn follows(&self, status: &Value, node: &str) -> String {
        let channel = &self.node(status, node)["facts"]["channels"][0];
        let runs = channel["io_running"] == true && channel["sql_running"] == true;
        if runs { channel["source"].as_str().unwrap_or_default().to_owned() } else { String::new() }
    }

    /// A global variable, asked through the node's unix socket.
    pub async fn value(&self, node: &str, name: &str) -> String {
        self.stage.run_in(node, &format!("SELECT @@GLOBAL.{name}")).await.unwrap()[0][0].clone()
    }

    /// Waits until `node` has applied what `from` has now.
    pub async fn has_applied(&self, node: &str, from: &str) {
        let position = self.value(from, "gtid_binlog_pos").await;
        let wait = format!("SELECT MASTER_GTID_WAIT('{position}', 25)");
        let waited = self.stage.run_in(node, &wait).await.unwrap();
        assert_eq!(waited[0][0], "0", "{node} has not applied {position} of {from}");
    }

    /// A clean stop, until the process has ended.
    pub async fn stop(&self, node: &str) {
        let pid_file = self.value(node, "pid_file").await;
        let pid = std::fs::read_to_string(pid_file).unwrap();
        self.stage.fault(node, Fault::Stop).await.unwrap();
        // Empty also when the process has ended and nobody has asked how.
        let command = std::path::Path::new("/proc").join(pid.trim()).join("cmdline");
        let has_ended = || std::fs::read(&command).is_ok_and(|words| words.is_empty()) || !command.exists();
        until("the server has ended", || has_ended().then_some(()));
    }

    /// The replicas' SQL threads end with an error, as each has a row already that the primary writes. (One that somebody has merely stopped is
    /// started again.)
    pub async fn break_applying(&self, primary: &str, nodes: &[&str]) {
        let row = format!("INSERT INTO {APP_SCHEMA}.w VALUES ({IN_THE_WAY}, 1)");
        for node in nodes {
            self.stage.run_in(node, &format!("SET sql_log_bin = 0; {row}")).await.unwrap();
        }
        self.stage.run_in(primary, &row).await.unwrap();
    }

    /// They apply again.
    pub async fn mend_applying(&self, nodes: &[&str]) {
        let mend = format!(
            "SET sql_log_bin = 0; DELETE FROM {APP_SCHEMA}.w WHERE writer = {IN_THE_WAY}; START SLAVE SQL_THREAD"
        );
        for node in nodes {
            self.stage.run_in(node, &mend).await.unwrap();
        }
    }

    /// Waits until the first value that a node answers is so.
    pub async fn until(&self, node: &str, sql: &str, is_so: impl Fn(&str) -> bool) {
        until_async(&format!("{node}: {sql}"), async || {
            let rows = self.stage.run_in(node, sql).await.unwrap();
            let is_it = rows.first().and_then(|row| row.first()).is_some_and(|value| is_so(value));
            if is_it { Ok(()) } else { Err(rows) }
        })
        .await;
    }

    /// What a node has of what these writers wrote.
    pub async fn rows(&self, node: &str, told: &WriterResult) -> Vec<(u64, u64)> {
        let query = format!(
            "SELECT writer, number FROM {APP_SCHEMA}.w WHERE writer IN ({}) ORDER BY 1, 2",
            told.writers()
        );
        let rows = self.stage.run_in(node, &query).await.unwrap();
        rows.iter().map(|row| (row[0].parse().unwrap(), row[1].parse().unwrap())).collect()
    }

    /// Waits until the nodes have all that was acknowledged; they may have what ended in an error, too, and nothing else.
    pub async fn has_all(&self, told: &WriterResult, nodes: &[&str]) {
        for node in nodes {
            let all = told.acknowledged.len();
            let what = format!("{node} lacks none of {all} acknowledged rows");
            let rows = until_async(&what, async || {
                let rows = self.rows(node, told).await;
                let missing = told.acknowledged.iter().filter(|row| rows.binary_search(row).is_err()).count();
                if missing == 0 { Ok(rows) } else { Err(missing) }
            })
            .await;
            let is_strange =
                |row: &&(u64, u64)| !told.acknowledged.contains(row) && !told.unknown.contains(row);
            let strange: Vec<_> = rows.iter().filter(is_strange).collect();
            assert!(strange.is_empty(), "{node} has what nobody wrote: {strange:?}");
        }
    }

    /// Where nothing ended in an error.
    pub async fn has_exactly(&self, told: &WriterResult, nodes: &[&str]) {
        assert!(told.unknown.is_empty(), "{:?}", told.unknown);
        self.has_all(told, nodes).await;
    }
}

/// The status, once it is as `fits` wants it.
pub fn status_when(serving: &Serving, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until(what, || {
        let status = serving.status();
        if fits(&status) { Ok(status) } else { Err(status) }
    })
}

/// No writer of the tests has this number.
const IN_THE_WAY: u64 = 1_000_000_000;

/// Who writes; empty when nobody does.
pub fn writer(status: &Value) -> String {
    status["writer"].as_str().unwrap_or_default().to_owned()
}

/// Every node takes part, and statements run.
pub fn is_well(status: &Value) -> bool {
    let nodes = status["nodes"].as_array().unwrap();
    status["gate"] == "open" && nodes.iter().all(|node| node["state"] == "synced")
}

/// The whole journal.
pub fn journal(serving: &Serving) -> String {
    serving.ask(&["journal"]).with(0)
}

/// The journal, once it says `what`.
pub fn journal_with(serving: &Serving, what: &str) -> String {
    until(what, || {
        let journal = journal(serving);
        if journal.contains(what) { Ok(journal) } else { Err(journal) }
    })
}

/// What a client program says to a statement, as the application's account.
pub fn client_says(program: &Path, to: SocketAddr, options: &[&str], statement: &str) -> String {
    let done = Command::new(program)
        .args(["--no-defaults", "-N", "-B", "-e", statement, &format!("-P{}", to.port())])
        .args([format!("-h{}", to.ip()), format!("-u{APP_USER}"), format!("-p{APP_PASSWORD}")])
        .args(options)
        .output()
        .unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}

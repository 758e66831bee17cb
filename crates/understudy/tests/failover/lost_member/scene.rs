//! Three nodes, and `understudy serve` before them as a part of the test wants it.

use std::net::SocketAddr;
use std::time::Duration;

use lab::fault::Fault;
use lab::stage::account::{MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use serde_json::Value;
use tempfile::TempDir;
use testbed::program::{Serving, directory};
pub use testbed::scene::{is_well, journal, journal_with, status_when};
use testbed::writers::{self, Writers};

/// Whatever Galera decides by itself takes less, twice over.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Scene {
    pub stage: Stage,
}

/// Few, so that two cores have time for three servers.
pub fn two_writers(address: SocketAddr) -> Writers {
    Writers::start(2, address)
}

impl Scene {
    pub async fn set() -> Self {
        Self::of(Self::plan("lost")).await
    }

    pub fn plan(name: &str) -> StagePlan {
        StagePlan { name: format!("t{}-{name}", std::process::id()), ..StagePlan::default() }
    }

    pub async fn of(plan: StagePlan) -> Self {
        let stage = Stage::up(plan).await.unwrap();
        writers::make_table(&stage).await;
        Self { stage }
    }

    /// A directory with a configuration whose [cluster.monitor] ends with `monitor`; `instead` is another way to a node.
    pub fn directory(&self, monitor: &str, instead: Option<(&str, SocketAddr)>) -> TempDir {
        let host = self.stage.host_address();
        let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
        for node in self.stage.nodes() {
            let address =
                instead.filter(|(name, _)| *name == node.name).map_or(node.address, |(_, door)| door);
            config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{address}\"\n", node.name);
        }
        config += &format!(
            "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n{monitor}\n\
             [listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
        );
        directory(&config)
    }

    /// One value of one node's status, asked through its unix socket.
    pub async fn word(&self, node: &str, name: &str) -> String {
        let rows = self.stage.run_in(node, &format!("SHOW GLOBAL STATUS LIKE '{name}'")).await.unwrap();
        rows[0][1].clone()
    }

    /// One of the provider's options, as the node says it.
    pub async fn option(&self, node: &str, name: &str) -> String {
        let rows = self.stage.run_in(node, "SELECT @@GLOBAL.wsrep_provider_options").await.unwrap();
        let options = rows[0][0].clone();
        let pair = options.split(';').find(|pair| pair.trim().starts_with(name)).unwrap();
        pair.split_once('=').unwrap().1.trim().to_owned()
    }

    /// Undoes a fault, and waits until `serving` sees everybody well.
    pub async fn heal(&self, node: &str, serving: &Serving) {
        self.stage.fault(node, Fault::Heal).await.unwrap();
        self.stage.wait_synced(node, PATIENCE).await.unwrap();
        status_when(serving, "all nodes are well again", is_well);
    }
}

/// Who writes; somebody must.
pub fn writer(status: &Value) -> String {
    status["writer"].as_str().unwrap_or_else(|| panic!("no writer: {status:#}")).to_owned()
}

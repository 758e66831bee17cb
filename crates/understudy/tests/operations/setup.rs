//! `understudy setup` on running clusters: what it finds from one server, that it changes nothing before it may, and that what it has made works.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Instant;

use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use lab::stage::{ClusterKind, Stage, StagePlan};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use tempfile::TempDir;
use testbed::program::{Ended, Serving, bin, run};
use testbed::scene::{is_well, status_when};

const ADMIN: &str = "admin";
const ADMIN_PASSWORD: &str = "the administrator's";

/// A cluster that runs, and an empty directory on the machine that Understudy is to be on.
struct Site {
    stage: Stage,
    dir: TempDir,
}

impl Site {
    async fn of(kind: ClusterKind, server: Option<&str>, name: &str) -> Self {
        let name = format!("t{}-{name}", std::process::id());
        let server = server.map(str::to_owned);
        let stage = Stage::up(StagePlan { kind, server, name, ..StagePlan::default() }).await.unwrap();
        for sql in [
            format!("CREATE USER {ADMIN}@'%' IDENTIFIED BY \"{ADMIN_PASSWORD}\""),
            format!("GRANT ALL ON *.* TO {ADMIN}@'%' WITH GRANT OPTION"),
        ] {
            stage.run_in("db1", &sql).await.unwrap();
        }
        Self { stage, dir: TempDir::new().unwrap() }
    }

    fn setup(&self, at: &str, more: &[&str]) -> Ended {
        let (host, address) = (self.stage.host_address(), self.stage.node(at).unwrap().address);
        let mut command = Command::new(bin());
        command
            .args([
                "setup",
                "--user",
                ADMIN,
                "--config",
                "understudy.toml",
                "--state",
                "state",
                "--monitor",
                "ha",
            ])
            .args([
                "--host",
                &address.ip().to_string(),
                "--listen",
                &format!("{host}:6033"),
                "--http",
                &format!("{host}:6080"),
            ])
            .args(more)
            .env("UNDERSTUDY_PASSWORD", ADMIN_PASSWORD)
            .current_dir(self.dir.path());
        run(&mut command)
    }

    /// All binlogs of the servers, as they are on the disk.
    async fn binlogs(&self) -> String {
        let mut text = String::new();
        for node in self.stage.nodes() {
            let directory = self.stage.run_in(&node.name, "SELECT @@datadir").await.unwrap()[0][0].clone();
            for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_name().to_string_lossy().contains("bin.0") {
                    text += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap());
                }
            }
        }
        text
    }

    /// How many of the accounts that setup makes are there.
    async fn accounts(&self) -> String {
        let sql = "SELECT COUNT(*) FROM mysql.user WHERE user IN ('ha','understudy_replica')";
        self.stage.run_in("db1", sql).await.unwrap()[0][0].clone()
    }

    /// Nothing changes before it may; then a server, any of them, leads to all, and what was made protects the cluster.
    async fn can_be_set_up_from(self, at: &str, accounts: &str) {
        let addresses: Vec<String> = self.stage.nodes().iter().map(|node| node.address.to_string()).collect();
        let shown = self.setup(at, &["--dry-run"]).with(0);
        assert!(addresses.iter().all(|address| shown.contains(address)), "{shown}");
        assert!(
            shown.contains("CREATE USER 'ha'@'%' IDENTIFIED BY ")
                && shown.contains("'...';")
                && shown.contains("GRANT "),
            "{shown}"
        );
        assert!(shown.contains("Nothing was changed"), "{shown}");
        assert!(self.setup(at, &[]).with(2).contains("nobody can be asked here"));
        assert_eq!(self.accounts().await, "0");
        assert!(std::fs::read_dir(self.dir.path()).unwrap().next().is_none(), "a file was written");

        let began = Instant::now();
        let said = self.setup(at, &["--yes"]).with(0);
        let config = self.dir.path().join("understudy.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        assert_eq!(std::fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(self.accounts().await, accounts);
        let passwords: Vec<&str> =
            text.split("password = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(passwords.len().to_string(), accounts);
        assert!(passwords.iter().all(|password| password.len() == 32 && !said.contains(password)), "{said}");
        let binlogs = self.binlogs().await;
        assert!(passwords.iter().all(|password| !binlogs.contains(password)), "a password is in a binlog");
        assert!(said.contains("The way back:") && said.contains("DROP USER 'ha'@'%'"), "{said}");
        assert!(self.setup(at, &["--yes"]).with(2).contains("understudy.toml exists"));
        std::fs::rename(&config, self.dir.path().join("old.toml")).unwrap();
        assert!(self.setup(at, &["--yes"]).with(2).contains("there is an account ha already"));
        std::fs::rename(self.dir.path().join("old.toml"), &config).unwrap();

        let serving = Serving::start(self.dir.path());
        status_when(&serving, "all are well", is_well);
        let options = OptsBuilder::default()
            .ip_or_hostname(self.stage.host_address().to_string())
            .tcp_port(6033)
            .prefer_socket(false)
            .user(Some(APP_USER))
            .pass(Some(APP_PASSWORD))
            .db_name(Some(APP_SCHEMA));
        let mut client = Conn::new(options).await.unwrap();
        client.query_drop("CREATE TABLE kept (id INT PRIMARY KEY)").await.unwrap();
        client.query_drop("INSERT INTO kept VALUES (1)").await.unwrap();
        println!("          protected {:.1} s after the command began", began.elapsed().as_secs_f64());
        let writer = serving.status()["writer"].as_str().unwrap().to_owned();
        let to =
            self.stage.nodes().iter().map(|node| node.name.clone()).find(|name| *name != writer).unwrap();
        serving.ask(&["switchover", "--to", &to]).with(0);
        let kept: Option<u32> = client.query_first("SELECT COUNT(*) FROM kept").await.unwrap();
        assert_eq!(kept, Some(1));
        client.disconnect().await.unwrap();
        drop(serving);
        self.stage.down().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn galera_is_set_up_from_any_node() {
    Site::of(ClusterKind::Galera, None, "setg").await.can_be_set_up_from("db2", "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_found_from_a_replica() {
    Site::of(ClusterKind::Replication { semi_sync: true }, None, "setr")
        .await
        .can_be_set_up_from("db3", "2")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_set_up_from_its_primary() {
    let site = Site::of(ClusterKind::Replication { semi_sync: true }, Some("mysql-9.7"), "setm").await;
    site.can_be_set_up_from("db1", "2").await;
}

/// What is no cluster that Understudy manages is refused before anything is changed: here a replica of a replica.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_replicas_is_refused() {
    let site = Site::of(ClusterKind::Replication { semi_sync: false }, None, "setc").await;
    let db2 = site.stage.node("db2").unwrap().address;
    for sql in [
        "STOP SLAVE".to_owned(),
        format!("CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}", db2.ip(), db2.port()),
        "START SLAVE".to_owned(),
    ] {
        site.stage.run_in("db3", &sql).await.unwrap();
    }
    let said = site.setup("db1", &["--yes"]).with(2);
    assert!(
        said.contains("Understudy manages one primary and the replicas that follow it directly"),
        "{said}"
    );
    // A replica and its replica alone: the primary was forgotten.
    let addresses = ["db2", "db3"].map(|name| site.stage.node(name).unwrap().address.to_string());
    let said = site.setup("db2", &["--yes", "--node", &addresses[0], "--node", &addresses[1]]).with(2);
    assert!(said.contains("exactly one server must follow nobody"), "{said}");
    assert_eq!(site.accounts().await, "0");
    assert!(std::fs::read_dir(site.dir.path()).unwrap().next().is_none(), "a file was written");
    site.stage.down().await.unwrap();
}

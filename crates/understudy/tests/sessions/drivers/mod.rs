//! Drivers that go by the flags in a server's answers (in a transaction, autocommit, no backslash escapes): what they tell their application through
//! Understudy is what they tell it straight at a server, and never that a lost transaction was committed.
//!
//! PyMySQL runs everywhere. The others, which are no Debian packages, run where `UNDERSTUDY_DRIVERS` names the directory that `clients/fetch.sh` has
//! filled (`scripts/drivers.sh` does both). Each driver has a program beside this file that carries out one case: it prints the outcome of each call, and NOW where
//! the test has to do its part (a node is killed, a switchover).

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fixture::client::{Client, ClientOptions};
use lab::fault::Fault;
use lab::stage::{Stage, StagePlan};
use protocol::ok::status::{AUTOCOMMIT, NO_BACKSLASH_ESCAPES};
use tempfile::TempDir;
use testbed::program::{Serving, directory, until};

const PATIENCE: Duration = Duration::from_secs(60);
const PASSWORD: &str = "secret";

/// How a driver's program is started.
struct Driver {
    name: &'static str,
    command: Vec<String>,
    /// In place of host and port.
    url: Option<&'static str>,
}

/// Straight at a server, and through Understudy.
const CASES: [&str; 5] = ["killed_other", "killed_itself", "moved", MOVED_OPEN, "own_quotes"];
/// The switchover is ordered within a transaction, and waits for its end.
const MOVED_OPEN: &str = "moved_open";
/// The same with these variables on every node, and the flags that a session begins with then.
const CASES_OF_DEFAULTS: [(&str, &str, u16); 4] = [
    ("defaults", "autocommit = 0", 0),
    ("quote", "autocommit = 1, sql_mode = 'NO_BACKSLASH_ESCAPES'", AUTOCOMMIT | NO_BACKSLASH_ESCAPES),
    ("moved", "autocommit = 1, sql_mode = 'NO_BACKSLASH_ESCAPES'", AUTOCOMMIT | NO_BACKSLASH_ESCAPES),
    ("quote", "sql_mode = DEFAULT", AUTOCOMMIT),
];
/// Through Understudy, and the writer dies.
const CASES_OF_LOSS: [&str; 3] = ["lost", "lost_without_ping", "lost_rolled_back"];

fn drivers() -> Vec<Driver> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions/drivers");
    let file = |name: &str| here.join(name).display().to_string();
    let mut drivers = vec![Driver {
        name: "PyMySQL",
        command: vec!["/usr/bin/python3".into(), file("pymysql_cases.py")],
        url: None,
    }];
    let Ok(all) = std::env::var("UNDERSTUDY_DRIVERS") else { return drivers };
    let all = PathBuf::from(all);
    let in_all = |name: &str| all.join(name).display().to_string();
    let env = |variable: &str, value: String| ["env".to_owned(), format!("{variable}={value}")];
    let java = ["java".to_owned(), "-cp".into(), format!("{}/*", in_all("jars")), file("JdbcCases.java")];
    drivers.extend([
        Driver {
            name: "asyncmy",
            command: vec![in_all("python/bin/python"), file("asyncmy_cases.py")],
            url: None,
        },
        Driver {
            name: "node mariadb",
            command: [&env("NODE_PATH", in_all("node/node_modules"))[..], &["node".into(), file("mariadb_cases.js")]].concat(),
            url: None,
        },
        Driver { name: "MariaDB Connector/J", command: java.to_vec(), url: Some("jdbc:mariadb://{}/sbtest?sslMode=disable") },
        Driver {
            name: "MySQL Connector/J",
            command: java.to_vec(),
            url: Some(
                "jdbc:mysql://{}/sbtest?sslMode=DISABLED&useLocalSessionState=true&useLocalTransactionState=true",
            ),
        },
    ]);
    drivers
}

/// A running case.
struct Running {
    what: String,
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    told: Vec<String>,
}

impl Running {
    fn start(driver: &Driver, at: SocketAddr, case: &str, first_id: usize) -> Running {
        let place = match driver.url {
            Some(url) => vec![url.replace("{}", &at.to_string())],
            None => vec![at.ip().to_string(), at.port().to_string()],
        };
        // Killed with the test, and ended in any case.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "timeout", "120"])
            .args(&driver.command)
            .args(place)
            .args(["app", PASSWORD, case, &first_id.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { what: format!("{} {case}", driver.name), child, lines, told: vec![] }
    }

    /// Reads up to NOW, or to the end; whether it is NOW.
    fn is_ready(&mut self) -> bool {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if line == "NOW" {
                return true;
            }
            self.told.push(line);
        }
        false
    }

    fn goes_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// The outcome of each call.
    fn ends(mut self) -> Vec<String> {
        assert!(!self.is_ready(), "{}", self.what);
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{} ended with {ended}: {:?}", self.what, self.told);
        self.told
    }
}

struct Scene {
    stage: Stage,
    dir: TempDir,
    through: SocketAddr,
}

impl Scene {
    async fn set() -> Scene {
        let stage =
            Stage::up(StagePlan { name: format!("t{}-drivers", std::process::id()), ..StagePlan::default() })
                .await
                .unwrap();
        let host = stage.host_address();
        let mut config = "[cluster]\nname = \"shop\"\nid = 1\n".to_owned();
        for node in stage.nodes() {
            config +=
                &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
        }
        config += &format!(
            "[cluster.monitor]\nuser = \"understudy\"\npassword = \"understudy\"\n[listen]\nmysql = \"{host}:6033\"\n\
             http = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
        );
        for sql in [
            &format!("CREATE USER app@'%' IDENTIFIED BY '{PASSWORD}'"),
            "GRANT ALL ON sbtest.* TO app@'%'",
            "CREATE TABLE sbtest.d (id INT PRIMARY KEY, name VARCHAR(100))",
        ] {
            stage.run_in("db1", sql).await.unwrap();
        }
        Scene { through: SocketAddr::from((host, 6033)), stage, dir: directory(&config) }
    }

    /// The node that writes, and its address.
    fn writer(&self, serving: &Serving) -> (String, SocketAddr) {
        let name = until("a writer and three synced nodes", || {
            let status = serving.status();
            let nodes = status["nodes"].as_array().unwrap();
            let is_well = status["gate"] == "open" && nodes.iter().all(|node| node["state"] == "synced");
            is_well.then(|| status["writer"].as_str().unwrap().to_owned())
        });
        let address = self.stage.node(&name).unwrap().address;
        (name, address)
    }

    /// What is in the table on the node that writes.
    async fn rows(&self, serving: &Serving) -> Vec<Vec<String>> {
        let (name, _) = self.writer(serving);
        self.stage.run_in(&name, "SELECT id, name FROM sbtest.d ORDER BY id").await.unwrap()
    }

    /// One case, straight or through: what was told, and what is in the table then.
    async fn play(
        &self,
        serving: &Serving,
        driver: &Driver,
        case: &str,
        is_through: bool,
    ) -> (Vec<String>, Vec<Vec<String>>) {
        let (name, direct) = self.writer(serving);
        self.stage.run_in(&name, "TRUNCATE sbtest.d").await.unwrap();
        let mut running = Running::start(driver, if is_through { self.through } else { direct }, case, 1);
        if running.is_ready() {
            let other = if name == "db1" { "db2" } else { "db1" };
            std::thread::scope(|scope| {
                let moved =
                    is_through.then(|| scope.spawn(|| serving.ask(&["switchover", "--to", other]).with(0)));
                match moved {
                    Some(_) if case == MOVED_OPEN => until("a switchover that waits", || {
                        (serving.status()["gate"] != "open").then_some(())
                    }),
                    Some(moved) => drop(moved.join().unwrap()),
                    None => {}
                }
                running.goes_on();
            });
        }
        (running.ends(), self.rows(serving).await)
    }

    /// Sets variables on every node, and waits until who logs in through Understudy is greeted with these flags.
    async fn set_on_all(&self, variables: &str, flags: u16) {
        for node in ["db1", "db2", "db3"] {
            self.stage.run_in(node, &format!("SET GLOBAL {variables}")).await.unwrap();
        }
        let options = ClientOptions { password: PASSWORD.into(), database: None, ..ClientOptions::default() };
        let began = Instant::now();
        loop {
            let client = Client::connect_as(self.through, &options).await;
            let greeted = client.unwrap_or_else(|part| panic!("{part:?}")).greeting.status;
            if greeted == flags {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{variables}: still greeted with {greeted}");
            tokio::task::yield_now().await;
        }
    }

    /// A transaction of every driver is lost with its node.
    async fn lose(&self, serving: &Serving, drivers: &[Driver]) {
        let (name, _) = self.writer(serving);
        self.stage.run_in(&name, "TRUNCATE sbtest.d").await.unwrap();
        let mut all = vec![];
        for driver in drivers {
            for case in CASES_OF_LOSS {
                let first_id = 1 + 10 * all.len();
                let mut running = Running::start(driver, self.through, case, first_id);
                assert!(running.is_ready(), "{}: {:?}", running.what, running.told);
                all.push((first_id, running));
            }
        }
        self.stage.fault(&name, Fault::Kill).await.unwrap();
        self.stage.wait_gone(&name, PATIENCE).await.unwrap();
        for (_, running) in &mut all {
            running.goes_on();
        }
        let mut ended = vec![];
        for (first_id, running) in all {
            let what = running.what.clone();
            ended.push((first_id, what, running.ends()));
        }
        self.stage.start(&name).await.unwrap();
        let rows = self.rows(serving).await;
        for (first_id, what, told) in ended {
            println!("{what}: {told:?}");
            let is_there = rows.iter().any(|row| row[0] == first_id.to_string());
            // The next transaction of the same session, where the case has one.
            let is_next_there = rows.iter().any(|row| row[0] == (first_id + 1).to_string());
            let is_next_told =
                what.ends_with(" lost_rolled_back") && told.iter().any(|line| line == "commit: ok");
            assert_eq!(is_next_there, is_next_told, "{what}: {told:?}, and then there is {rows:?}");
            let is_told = told
                .iter()
                .any(|line| line.contains("error") || line == "ping: false" || line == "rollback: ok");
            assert!(
                !is_there && is_told,
                "{what}: {told:?}, and its row is {}there",
                if is_there { "" } else { "not " }
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drivers_that_go_by_flags_tell_what_is_true() {
    let scene = Scene::set().await;
    let serving = Serving::start(scene.dir.path());
    let drivers = drivers();
    let mut wrong = vec![];
    let mut compare = async |driver: &Driver, case: &str, variables: &str| {
        let straight = scene.play(&serving, driver, case, false).await;
        let through = scene.play(&serving, driver, case, true).await;
        println!("{} {case} {variables}: {:?} {:?}", driver.name, straight.0, straight.1);
        if straight != through {
            wrong.push(format!(
                "{} {case} {variables}: straight {straight:?}, through {through:?}",
                driver.name
            ));
        }
    };
    for driver in &drivers {
        for case in CASES {
            compare(driver, case, "").await;
        }
        if driver.url.is_some() {
            compare(driver, "read_only", "").await;
        }
    }
    for (case, variables, flags) in CASES_OF_DEFAULTS {
        scene.set_on_all(variables, flags).await;
        for driver in &drivers {
            compare(driver, case, variables).await;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scene.lose(&serving, &drivers).await;
}

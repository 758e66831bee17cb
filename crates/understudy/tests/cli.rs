//! The program from outside: exit codes, sentences, and a whole life from start to SIGTERM. No database is needed: the node
//! of the configuration does not exist, which is a state that the program must serve in, too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_understudy");

fn understudy(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    Command::new(BIN).args(args).current_dir(&dir).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn wrong_usage_and_configuration_exit_2_with_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("understudy.toml");
    std::fs::write(&file, "[cluster]\nname = \"a b\"\nhold_ms = 3\n").unwrap();
    let file = file.to_str().unwrap();
    for command in ["serve", "doctor", "status", "journal"] {
        let output = understudy(&[command, "--config", file]);
        assert_eq!(code(&output), 2, "{command}");
        let said = said(&output);
        assert!(said.contains("understudy.toml:2: cluster.name must be"), "{said}");
        assert!(said.contains("understudy.toml:3: cluster.hold_ms is not a setting"), "{said}");
    }
    assert_eq!(code(&understudy(&["serve", "--config", "/nonexistent/u.toml"])), 2);
    let output = understudy(&["status"]);
    assert_eq!(code(&output), 2);
    assert!(said(&output).contains("name one with --config FILE"));
    assert_eq!(code(&understudy(&["bogus"])), 2);
    assert_eq!(code(&understudy(&["status", "--api", "http://127.0.0.1:1"])), 2);
}

#[test]
fn nobody_there_is_3() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "k").unwrap();
    let output = understudy(&["status", "--api", "http://127.0.0.1:1", "--key-file", key.to_str().unwrap()]);
    assert_eq!(code(&output), 3);
    assert!(said(&output).contains("is `understudy serve` running?"), "{}", said(&output));
}

#[test]
fn what_needs_no_server_is_printed() {
    for (args, expect) in [
        (&["settings"][..], "interval_ms"),
        (&["settings", "--markdown"], "| `interval_ms` | `200` |"),
        (&["errors"], "outcome_unknown"),
        (&["errors", "--json"], "\"sqlstate\": \"08007\""),
        (&["--help"], "Exit codes: 0 done"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["lab", "--help"], "failover"),
    ] {
        let output = understudy(args);
        assert_eq!(code(&output), 0, "{args:?}");
        assert!(said(&output).contains(expect), "{args:?}: {}", said(&output));
    }
}

/// A running `understudy serve`, killed when the test ends without having stopped it.
struct Serving {
    child: Child,
    dir: tempfile::TempDir,
    http: String,
    https: String,
    notify: UnixDatagram,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let notify = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        notify.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        std::fs::write(
            dir.path().join("understudy.toml"),
            "[cluster]\nname = \"shop\"\nid = 5\n[[cluster.node]]\nname = \"db1\"\naddress = \"127.0.0.1:1\"\n\
             [cluster.monitor]\nuser = \"u\"\npassword = \"p\"\n[listen]\nmysql = [\"127.0.0.1:0\"]\n\
             http = \"127.0.0.1:0\"\nhttps = \"127.0.0.1:0\"\n[state]\ndir = \"state\"\n",
        )
        .unwrap();
        let mut child = Command::new(BIN)
            .arg("serve")
            .current_dir(dir.path())
            .env("NOTIFY_SOCKET", dir.path().join("notify"))
            .env_remove("UNDERSTUDY_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.by_ref().map(Result::unwrap).find(|line| line.contains("serving mysql on"));
        let line = line.expect("the program ended before it served");
        // Somebody must go on reading, or a full pipe would stop the program.
        std::thread::spawn(move || lines.for_each(drop));
        let after = |name: &str| {
            let (_, rest) = line.split_once(name).unwrap();
            rest.split([',', ' ']).next().unwrap().to_owned()
        };
        Self { http: after(", http on "), https: after(", https on "), child, dir, notify }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("state").join(name)
    }

    /// A command told where the server is by arguments.
    fn ask(&self, command: &[&str], secure: bool) -> Output {
        let url = if secure { format!("https://{}", self.https) } else { format!("http://{}", self.http) };
        let mut ask = Command::new(BIN);
        ask.args(command).args(["--cluster", "5", "--api", &url, "--key-file"]).arg(self.path("api.key"));
        if secure {
            ask.arg("--certificate-file").arg(self.path("https.crt"));
        }
        ask.output().unwrap()
    }

    fn told(&self) -> String {
        let mut buffer = [0; 64];
        let len = self.notify.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    fn terminate(&mut self) -> std::process::ExitStatus {
        let kill = format!("kill -TERM {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_whole_life() {
    let mut serving = Serving::start();
    assert_eq!(serving.told(), "READY=1");
    for secret in ["api.key", "https.key", "https.crt"] {
        assert_eq!(mode(&serving.path(secret)), 0o600, "{secret}");
    }

    // Both ways in show the same cluster; over TLS the certificate made at first start is the one that is trusted.
    for secure in [false, true] {
        let output = serving.ask(&["status"], secure);
        assert_eq!(code(&output), 0, "{}", said(&output));
        assert!(said(&output).starts_with("cluster shop (5), one writer"), "{}", said(&output));
    }
    let output = serving.ask(&["status", "--json"], false);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&status["gate"], &status["nodes"][0]["name"]), (&"held".into(), &"db1".into()));
    assert_eq!(status["proxy"]["hold"]["lawful"], true);
    assert_eq!(code(&serving.ask(&["journal", "--json"], false)), 0);

    // Orders that cannot be: one sentence, exit code 1; a limit that is no number is wrong usage.
    let output = serving.ask(&["switchover", "--to", "db9"], false);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("refused (unknown_node)"), "{}", said(&output));
    assert_eq!(code(&serving.ask(&["switchover", "--budget-ms", "100"], false)), 1);
    assert_eq!(code(&serving.ask(&["set-max-connections", "db1", "many"], false)), 2);
    assert_eq!(code(&serving.ask(&["set-max-connections", "db1", "7"], true)), 0);

    // A wrong key is refused; metrics need none.
    let other = serving.dir.path().join("other.key");
    std::fs::write(&other, "wrong").unwrap();
    let url = format!("http://{}", serving.http);
    let output =
        understudy(&["status", "--cluster", "5", "--api", &url, "--key-file", other.to_str().unwrap()]);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("refused (bad_key)"), "{}", said(&output));
    assert!(metrics(&serving.http).contains("understudy_gate_open{cluster=\"shop\",id=\"5\"} 0"));

    // A second one over the same state is refused.
    let second = Command::new(BIN).arg("serve").current_dir(serving.dir.path()).output().unwrap();
    assert_eq!(code(&second), 1);
    assert!(said(&second).contains("understudy.toml:15: state.dir"), "{}", said(&second));

    assert_eq!(serving.terminate().code(), Some(0));
    assert_eq!(serving.told(), "STOPPING=1");
    assert_eq!(code(&serving.ask(&["status"], false)), 3);
}

#[test]
fn a_port_in_use_is_one_sentence() {
    let serving = Serving::start();
    let file = serving.dir.path().join("second.toml");
    let text = std::fs::read_to_string(serving.dir.path().join("understudy.toml")).unwrap();
    let text = text.replace("http = \"127.0.0.1:0\"", &format!("http = \"{}\"", serving.http));
    std::fs::write(&file, text.replace("\"state\"", "\"state2\"")).unwrap();
    for more in [&[][..], &["--check"]] {
        let output = Command::new(BIN).args(["serve", "--config"]).arg(&file).args(more).output().unwrap();
        assert_eq!(code(&output), 1);
        let said = said(&output);
        assert!(said.contains(&format!("cannot listen on {}: the port is in use", serving.http)), "{said}");
    }
}

fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

//! `understudy check` and the drop-ins, from outside, on a real Galera node: every byte and exit code that somebody's load balancer
//! counts on, and that they stay right while the database hangs, ends and comes back, under loads, and through xinetd and systemd's way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod program;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fixture::{Family, Server, free_port, signal, without_family};
use program::{BIN, Ended, LONG, run, until};
use tempfile::TempDir;

const UP: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 40\r\n\r\n\
                  Percona XtraDB Cluster Node is synced.\r\n";
const DOWN: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 44\r\n\r\n\
                    Percona XtraDB Cluster Node is not synced.\r\n";
const READ_ONLY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 43\r\n\r\n\
                         Percona XtraDB Cluster Node is read-only.\r\n";
const DISABLED: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 51\r\n\r\n\
                        Percona XtraDB Cluster Node is manually disabled.\r\n";
/// What must never be seen.
const SECRET: &str = "hush-4711";
/// An answer comes from memory; this is for a busy machine.
const SOON: Duration = Duration::from_secs(1);
/// How often the check of most tests asks.
const INTERVAL: Duration = Duration::from_millis(50);
/// What a hung database may take to be noticed, and a little for a busy machine.
const HUNG_TIME_MAX: Duration = Duration::from_millis(1200);

/// Tests that measure time, or that fill the machine, run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cluster of one.
fn galera() -> (Server, Vec<String>) {
    let base = free_port();
    let options: Vec<String> = [
        "--wsrep-on=ON",
        "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
        "--wsrep-cluster-address=gcomm://",
        "--wsrep-node-address=127.0.0.1",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!(
        "--wsrep-provider-options=gcache.size=1M;gmcast.listen_addr=tcp://127.0.0.1:{base};ist.recv_addr=tcp://127.0.0.1:{}",
        free_port()
    )])
    .collect();
    let server = Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>());
    synced(&server);
    // The seed's account, with its hash (of "password"), and one whose password is nowhere else.
    server.sql("GRANT USAGE ON *.* TO 'clustercheck'@'localhost' IDENTIFIED BY PASSWORD '*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19'");
    server.sql(&format!("CREATE USER quiet@'%' IDENTIFIED BY '{SECRET}'"));
    (server, options)
}

fn synced(server: &Server) {
    until("a synced node", || {
        server.sql("SHOW STATUS LIKE 'wsrep_local_state_comment'").ends_with("Synced").then_some(())
    });
}

/// A directory with everything that a check needs and nobody else has: an option file, links with the drop-ins' names.
struct House {
    dir: TempDir,
}

impl House {
    /// `place` are lines for [client].
    fn new(place: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("understudy-test-").tempdir().unwrap();
        for name in ["clustercheck", "pyclustercheck"] {
            symlink(BIN, dir.path().join(name)).unwrap();
        }
        fs::create_dir(dir.path().join("run")).unwrap();
        let house = Self { dir };
        house.write("place.cnf", &format!("[client]\n{place}\n"));
        house.write("quiet.cnf", &format!("[client]\n{place}\nuser=quiet\npassword={SECRET}\n"));
        house
    }

    fn of(server: &Server) -> Self {
        Self::new(&format!("socket={}", server.socket().display()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Puts `command` in here: nothing of this machine is read.
    fn furnish<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env("UNDERSTUDY_RUN_DIR", self.path("run"))
            .env("UNDERSTUDY_DISABLED_FILE", self.path("disabled"))
            .env("UNDERSTUDY_SYSCONFIG", self.path("sysconfig"))
            .env("DEFAULTS_EXTRA_FILE", self.path("place.cnf"))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(if name == "understudy" { BIN.into() } else { self.path(name) });
        self.furnish(&mut command);
        command
    }

    fn clustercheck(&self, args: &[&str]) -> Ended {
        run(self.command("clustercheck").args(args))
    }

    /// The drop-in with the seed's account, and what comes after it.
    fn seed(&self, more: &[&str]) -> (String, i32) {
        let ended = self.clustercheck(&[&["clustercheck", "password"], more].concat());
        (ended.out, ended.code)
    }

    fn once(&self, args: &[&str]) -> Ended {
        run(self.command("understudy").args(["check", "--once"]).args(args))
    }

    /// The same with the account that works.
    fn once_quietly(&self, args: &[&str]) -> Ended {
        self.once(&[&["--defaults-file", &self.text("quiet.cnf")], args].concat())
    }
}

fn up() -> (String, i32) {
    (UP.to_owned(), 0)
}

fn down() -> (String, i32) {
    (DOWN.to_owned(), 1)
}

/// A running check, or whatever else says READY=1; killed at the end.
struct Running {
    child: Child,
    log: PathBuf,
    notify: UnixDatagram,
}

impl Running {
    /// To be called on a thread that lives as long as the child is wanted: it is killed with it.
    fn start(house: &House, mut command: Command) -> Self {
        static NUMBER: Mutex<u32> = Mutex::new(0);
        let number = {
            let mut number = NUMBER.lock().unwrap();
            *number += 1;
            *number
        };
        let (log, socket) = (house.path(&format!("log{number}")), house.path(&format!("notify{number}")));
        let notify = UnixDatagram::bind(&socket).unwrap();
        notify.set_read_timeout(Some(LONG)).unwrap();
        let out = File::create(&log).unwrap();
        let child = command
            .env("NOTIFY_SOCKET", &socket)
            .env("UNDERSTUDY_LOG", "trace")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .unwrap();
        let running = Self { child, log, notify };
        assert_eq!(running.told(), "READY=1", "{}", running.log());
        running
    }

    /// `understudy check` on a free port with the quiet account.
    fn check(house: &House, args: &[&str]) -> (Self, SocketAddr) {
        let mut command = Command::new("setpriv");
        house.furnish(&mut command).args(["--pdeathsig", "KILL", BIN, "check", "--listen", "127.0.0.1:0"]);
        command.arg("--defaults-file").arg(house.path("quiet.cnf")).args(args);
        let running = Self::start(house, command);
        let address = running.address("http://");
        (running, address)
    }

    fn pyclustercheck(house: &House, change: impl FnOnce(&mut Command)) -> (Self, SocketAddr) {
        let mut command = Command::new("setpriv");
        house.furnish(&mut command).args(["--pdeathsig", "KILL"]).arg(house.path("pyclustercheck"));
        change(&mut command);
        let running = Self::start(house, command);
        let address = running.address("http://");
        (running, address)
    }

    fn told(&self) -> String {
        let mut buffer = [0; 64];
        let len = self.notify.recv(&mut buffer).unwrap_or_else(|e| panic!("{e}: {}", self.log()));
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Where it says it answers.
    fn address(&self, before: &str) -> SocketAddr {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("answering on ")).unwrap_or_else(|| panic!("{log}"));
        let words = line.rsplit("answering on ").next().unwrap().split(' ');
        words
            .filter_map(|word| word.strip_prefix(before))
            .find_map(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("{line}"))
    }

    fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// SIGTERM, and the end in good order.
    fn stop(mut self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        let status = until("its end", || self.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0), "{}", self.log());
        let words: Vec<String> =
            std::iter::from_fn(|| Some(self.told()).filter(|word| word != "STOPPING=1")).collect();
        assert!(words.iter().all(|word| word == "WATCHDOG=1"), "{words:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let plain = |line: &&str| !line.contains("TRACE") && !line.contains("DEBUG");
            eprintln!("its log:\n{}", log.lines().filter(plain).collect::<Vec<_>>().join("\n"));
        }
    }
}

/// Says something, and reads until the other side closes.
fn say(address: SocketAddr, words: &[u8]) -> String {
    try_say(address, words).unwrap()
}

fn try_say(address: SocketAddr, words: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LONG)?;
    stream.set_read_timeout(Some(LONG))?;
    stream.write_all(words)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn get(address: SocketAddr, target: &str) -> String {
    say(address, format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
}

/// The status code of the plain answer.
fn code(address: SocketAddr) -> String {
    get(address, "/")[9..12].to_owned()
}

/// Reads one response of a connection that is kept.
fn response(stream: &mut TcpStream) -> String {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length =
        head.split("Content-Length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

// ---- one Galera node, and all that is said of it

#[test]
fn what_is_said_of_a_node_and_how() {
    let (server, _) = galera();
    let house = House::of(&server);
    // Asking the database itself, then a running check.
    the_answers(&server, &house);
    sources_of_settings(&house);
    what_goes_wrong(&house);
    through_xinetd_and_systemd(&server, &house);
    let (check, http) =
        Running::check(&house, &["--agent", "127.0.0.1:0", "--interval-ms", "50", "--stale-ms", "1000"]);
    the_answers(&server, &house);
    the_server(&server, &house, http, check.address(""));
    roles(&house, http);
    no_part_in_replication(&server, http);
    a_link_that_ends_alone(&server, http);
    python(&server, &house);
    assert!(!check.log().contains(SECRET));
    let cmdline = fs::read_to_string(format!("/proc/{}/cmdline", check.child.id())).unwrap();
    assert!(!cmdline.contains(SECRET) && cmdline.contains("quiet.cnf"), "{cmdline}");
    check.stop();
    assert_eq!(fs::read_dir(house.path("run")).unwrap().count(), 0, "no socket is left");
}

/// Sets something, and waits until `answer` gives what is wanted: a running check asks each 50 ms.
fn becomes(what: &str, wanted: &(String, i32), answer: impl Fn() -> (String, i32)) {
    let mut last = answer();
    let began = Instant::now();
    while last != *wanted {
        assert!(began.elapsed() < LONG, "{what}: {last:?} instead of {wanted:?}");
        last = answer();
    }
}

fn the_answers(server: &Server, house: &House) {
    // The seed's own words.
    let mut shell = Command::new("bash");
    let path = format!("{}:{}", house.dir.path().display(), std::env::var("PATH").unwrap());
    let seed = house
        .furnish(&mut shell)
        .env("PATH", path)
        .args(["-c", "clustercheck clustercheck password 0; echo $?"]);
    assert_eq!(run(seed).out, format!("{UP}0\n"));

    server.sql("SET GLOBAL wsrep_desync = ON");
    becomes("a donor is not up", &down(), || house.seed(&["0"]));
    assert_eq!(house.seed(&[]), down());
    assert_eq!(house.seed(&["1"]), up());
    assert_eq!(house.once_quietly(&["--available-when-donor"]).with(0), UP);
    // The script looks at read_only last.
    server.sql("SET GLOBAL read_only = ON");
    becomes("read only", &(READ_ONLY.to_owned(), 1), || house.seed(&["1", "/dev/null", "0"]));
    assert_eq!(house.seed(&["0", "/dev/null", "0"]), down());
    server.sql("SET GLOBAL read_only = OFF");
    server.sql("SET GLOBAL wsrep_desync = OFF");
    becomes("synced again", &up(), || house.seed(&["0"]));

    server.sql("SET GLOBAL read_only = ON");
    let read_only = (READ_ONLY.to_owned(), 1);
    becomes("read only", &read_only, || house.seed(&["0", "/dev/null", "0"]));
    assert_eq!(house.seed(&["0", "/dev/null", "1"]), up());
    assert_eq!(house.seed(&[]), up());
    let strict = house.once_quietly(&["--no-available-when-readonly"]);
    assert_eq!((strict.out.as_str(), strict.code), (READ_ONLY, 1));
    assert!(strict.err.contains("is read only: read_only is set"), "{}", strict.err);
    server.sql("SET GLOBAL read_only = OFF");
    becomes("writable again", &up(), || house.seed(&["0", "/dev/null", "0"]));

    house.write("disabled", "");
    assert_eq!(house.seed(&["1"]), (DISABLED.to_owned(), 1));
    let disabled = house.once_quietly(&[]);
    assert_eq!((disabled.out.as_str(), disabled.code), (DISABLED, 1));
    assert!(disabled.err.contains("is disabled by an operator"), "{}", disabled.err);
    fs::remove_file(house.path("disabled")).unwrap();
    becomes("no longer disabled", &up(), || house.seed(&[]));

    let pxc = house.once_quietly(&["--style", "pxc"]);
    assert_eq!((pxc.out.as_str(), pxc.code), (UP, 0));
}

/// Arguments, environment, sysconfig file and defaults, each in front of the next.
fn sources_of_settings(house: &House) {
    let with = |args: &[&str], environment: &[(&str, &str)]| {
        let mut command = house.command("clustercheck");
        run(command.args(args).envs(environment.iter().copied())).code
    };
    let right = [("MYSQL_USERNAME", "clustercheck"), ("MYSQL_PASSWORD", "password")];
    let wrong = [("MYSQL_USERNAME", "clustercheck"), ("MYSQL_PASSWORD", "other")];
    assert_eq!(with(&[], &[]), 1, "there is no account with the default's name");
    assert_eq!(with(&[], &right), 0);
    assert_eq!(with(&["clustercheck", "password"], &wrong), 0, "an argument wins");
    assert_eq!(with(&["clustercheck", "other"], &right), 1, "an argument wins");
    // Without user and password the option file's are taken.
    house.write(
        "both.cnf",
        &(fs::read_to_string(house.path("place.cnf")).unwrap() + "user=clustercheck\npassword=password\n"),
    );
    assert_eq!(with(&["", "", "", "", "", &house.text("both.cnf")], &wrong), 0);

    house.write(
        "sysconfig",
        "# shell\nMYSQL_USERNAME=\"clustercheck\"\nexport MYSQL_PASSWORD='password'\nX=$(touch ran)\n",
    );
    assert_eq!(with(&[], &[]), 0);
    assert_eq!(with(&[], &wrong), 0, "the file wins, as where a shell runs it");
    assert_eq!(with(&["", "password"], &[]), 1, "an empty user is none, and not the file's");
    assert!(!house.path("ran").exists(), "nothing is run");
    let log = house.text("sysconfig.log");
    house.write("sysconfig", &format!("MYSQL_USERNAME=clustercheck\nMYSQL_PASSWORD=other\nERR_FILE={log}\n"));
    assert_eq!(with(&[], &[]), 1);
    assert!(fs::read_to_string(&log).unwrap().contains("1045"));
    fs::remove_file(house.path("sysconfig")).unwrap();
}

fn what_goes_wrong(house: &House) {
    // A wrong password: the log has the server's reason and no password; with the next good check it is empty.
    let log = house.text("why.log");
    let ended = house.clustercheck(&["quiet", "wrong-secret", "0", &log]);
    assert_eq!((ended.out.as_str(), ended.err.as_str(), ended.code), (DOWN, "", 1));
    let why = fs::read_to_string(&log).unwrap();
    assert!(why.contains("1045") && why.contains("quiet") && !why.contains("wrong-secret"), "{why}");
    assert_eq!(house.clustercheck(&["quiet", SECRET, "0", &log]).code, 0);
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
    // A file that cannot be read is passed over, as by the original, but told.
    assert_eq!(house.clustercheck(&["quiet", SECRET, "0", &log, "1", "/no/such.cnf"]).code, 1);
    assert!(fs::read_to_string(&log).unwrap().contains("/no/such.cnf: cannot be read: No such file"));
    let ended = house.clustercheck(&["quiet", SECRET, "0", "/no/such/dir/log"]);
    assert_eq!((ended.out.as_str(), ended.code), (UP, 0));
    assert!(ended.err.contains("/no/such/dir/log cannot be written"), "{}", ended.err);
    // A pipe without a reader is no reason to wait for one.
    let pipe = house.text("pipe");
    run(Command::new("mkfifo").arg(&pipe)).with(0);
    let ended = house.clustercheck(&["quiet", SECRET, "0", &pipe]);
    assert_eq!((ended.out.as_str(), ended.code), (UP, 0));
    assert!(ended.err.contains("pipe cannot be written: No such device"), "{}", ended.err);
    // Where nobody can tell whether an operator's file exists, the node is not good.
    let unseen = house.path("place.cnf").join("disabled");
    let mut untold = house.command("understudy");
    untold.args(["check", "--once", "--defaults-file", &house.text("quiet.cnf"), "--disabled-file"]);
    let ended = run(untold.arg(&unseen));
    assert_eq!((ended.out.as_str(), ended.code), (DISABLED, 1));
    assert!(ended.err.contains("may be disabled by an operator"), "{}", ended.err);
    let mut untold = house.command("clustercheck");
    let ended = run(untold.args(["quiet", SECRET]).env("UNDERSTUDY_DISABLED_FILE", &unseen));
    assert_eq!((ended.out.as_str(), ended.code), (DISABLED, 1));

    for option in ["-h", "--help"] {
        let help = house.clustercheck(&[option]);
        assert_eq!((help.code, help.out.lines().count()), (0, 1), "{}", help.out);
        assert!(
            help.out.starts_with("Usage: clustercheck <user> <pass> <available_when_donor=0|1>"),
            "{}",
            help.out
        );
    }
    let ended = house.clustercheck(&["--frobnicate"]);
    assert_eq!((ended.out.as_str(), ended.code), (DOWN, 2));
    assert!(ended.err.contains("--frobnicate is not an option; usage:"), "{}", ended.err);

    let missing = house.text("missing");
    let bad = house.write("bad.cnf", "[client]\nport=many\n").display().to_string();
    let password = house.write("password", &format!("{SECRET}\n")).display().to_string();
    for (args, expect) in [
        (&["--frobnicate"][..], "unexpected argument '--frobnicate'"),
        (&["--password", "x"], "unexpected argument '--password'"),
        (&["--defaults-file", &missing], "missing: cannot be read: No such file"),
        (&["--defaults-extra-file", &missing], "missing: cannot be read: No such file"),
        (&["--password-file", &missing], "--password-file"),
        (&["--defaults-file", &bad], "bad.cnf:2: port must be a number up to 65535, it is: many"),
        (
            &["--interval-ms", "1000"],
            "--stale-ms is 1000 and must be at least 100 more than --interval-ms, 1000",
        ),
        (&["--max-lag", "soon", "--role", "replica"], "it must be a time such as 2s or 500ms"),
        (&["--max-lag", "2s"], "--max-lag is for --role replica"),
        (&["--host", "a", "--mysql-socket", "b"], "cannot be used with"),
    ] {
        let said = house.once(args).with(2);
        assert!(said.contains(expect), "{args:?}: {said}");
    }
    let place = house.text("place.cnf");
    let files = ["--defaults-file", &place, "--user", "quiet", "--password-file", &password];
    assert_eq!(house.once(&files).with(0), UP);
    let mut by_environment = house.command("understudy");
    by_environment.args(["check", "--once", "--defaults-file", &place, "--user", "quiet"]);
    assert_eq!(run(by_environment.env("UNDERSTUDY_CHECK_PASSWORD", SECRET)).with(0), UP);
    let ended = run(by_environment.env("UNDERSTUDY_CHECK_PASSWORD", "wrong-secret"));
    assert_eq!((ended.out.as_str(), ended.code), (DOWN, 1));
    assert!(ended.err.contains("1045") && !ended.err.contains("wrong-secret"), "{}", ended.err);
}

/// The real xinetd and systemd's own starter, each with a client's socket or a listening one.
fn through_xinetd_and_systemd(server: &Server, house: &House) {
    let user = run(Command::new("id").arg("-un")).out;
    let (program, user, run_dir) = (house.text("clustercheck"), user.trim(), house.text("run"));
    let port = free_port();
    let ours = |line: &str| {
        let value = match line.split_whitespace().next()? {
            "port" => port.to_string(),
            "user" => user.to_owned(),
            "server" => program.clone(),
            "env" => format!(
                "MYSQL_USERNAME=clustercheck MYSQL_PASSWORD=password UNDERSTUDY_RUN_DIR={run_dir} DEFAULTS_EXTRA_FILE={} \
                 UNDERSTUDY_DISABLED_FILE={}",
                house.text("place.cnf"),
                house.text("disabled")
            ),
            _ => return None,
        };
        Some(format!("{}= {value}", line.split('=').next()?))
    };
    let shipped = include_str!("../../../contrib/mysqlchk").lines();
    let lines: Vec<String> = shipped.map(|line| ours(line).unwrap_or_else(|| line.to_owned())).collect();
    let file = house.write("xinetd.conf", &(lines.join("\n") + "\n"));
    let mut xinetd = Command::new("setpriv");
    xinetd.args(["--pdeathsig", "KILL", "xinetd", "-dontfork", "-stayalive", "-f"]).arg(file);
    xinetd.arg("-pidfile").arg(house.path("xinetd.pid")).arg("-filelog").arg(house.path("xinetd.log"));
    answers_each_client(server, &mut xinetd, port);

    // Accept=yes: the drop-in gets the client as its standard input and output.
    let port = free_port();
    let mut each = Command::new("setpriv");
    house.furnish(&mut each).args(["--pdeathsig", "KILL", "systemd-socket-activate", "--accept", "--inetd"]);
    each.args(["-E", "HOME", "-E", "DEFAULTS_EXTRA_FILE", "-E", "UNDERSTUDY_RUN_DIR"]);
    each.arg(format!("--listen=127.0.0.1:{port}")).args([&program, "clustercheck", "password", "0"]);
    answers_each_client(server, &mut each, port);

    // Accept=no: a running check gets the listening sockets, by name.
    let (port, agent) = (free_port(), free_port());
    let mut all = Command::new("setpriv");
    house.furnish(&mut all).args([
        "--pdeathsig",
        "KILL",
        "systemd-socket-activate",
        "-E",
        "UNDERSTUDY_RUN_DIR",
    ]);
    all.arg(format!("--listen=127.0.0.1:{port}"))
        .arg(format!("--listen=127.0.0.1:{agent}"))
        .arg("--fdname=http:agent");
    all.args([BIN, "check", "--defaults-file", &house.text("quiet.cnf")]);
    let mut all = Ending(all.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let first = until("systemd's starter", || try_say(local(port), b"GET / HTTP/1.0\r\n\r\n").ok());
    assert_eq!(first, UP);
    assert_eq!(say(local(agent), b"\n"), "ready up\n");
    all.end();
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn answers_each_client(server: &Server, command: &mut Command, port: u16) {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut starter = Ending(command.spawn().unwrap());
    until("the starter", || TcpStream::connect(local(port)).ok());
    for words in
        [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"OPTIONS / HTTP/1.0\r\n\r\n", b"whatever\n", b""]
    {
        for _ in 0..5 {
            assert_eq!(say(local(port), words), UP, "{:?}", String::from_utf8_lossy(words));
        }
    }
    // More than the program reads before it answers: the answer comes through all the same.
    assert_eq!(say(local(port), &b"x".repeat(60_000)), UP);
    server.sql("SET GLOBAL wsrep_desync = ON");
    assert_eq!(say(local(port), b"GET / HTTP/1.0\r\n\r\n"), DOWN);
    server.sql("SET GLOBAL wsrep_desync = OFF");
    synced(server);
    starter.end();
}

/// A child that is told to end, and waited for.
struct Ending(Child);

impl Ending {
    fn end(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).stderr(Stdio::null()).status();
        let began = Instant::now();
        while self.0.try_wait().unwrap().is_none() && began.elapsed() < LONG {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// HTTP as it is, and as it is not.
fn the_server(server: &Server, house: &House, http: SocketAddr, agent: SocketAddr) {
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
    let status = get(http, "/status");
    let status: serde_json::Value = serde_json::from_str(status.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&status["good"], &status["facts"]["local_state"]), (&false.into(), &2.into()), "{status}");
    assert!(status["reason"].as_str().unwrap().contains("wsrep_desync is ON"), "{status}");
    server.sql("SET GLOBAL wsrep_desync = OFF");
    until("the endpoint's 200", || (get(http, "/") == UP).then_some(()));
    house.write("disabled", "");
    until("disabled", || (get(http, "/") == DISABLED).then_some(()));
    assert!(say(agent, b"\n").starts_with("drain # is disabled by an operator"));
    assert_eq!(get(http, "/?drained=1"), UP, "for HAProxy's HTTP check beside the agent's word");
    assert!(get(http, "/writer?drained=1").starts_with("HTTP/1.1 503 "), "the file speaks against all roles");
    fs::remove_file(house.path("disabled")).unwrap();
    until("the endpoint's 200", || (get(http, "/") == UP).then_some(()));
    assert!(get(http, "/metrics").contains("\nunderstudy_check_good 1\n"));
}

fn roles(house: &House, http: SocketAddr) {
    assert!(get(http, "/writer").ends_with("\r\n\r\nmay take writes\r\n"));
    let said = get(http, "/replica?max_lag=2s");
    assert!(
        said.starts_with("HTTP/1.1 503 ") && said.contains("does not tell whether it replicates: 1227"),
        "{said}"
    );
    assert!(house.once_quietly(&["--role", "writer"]).with(0).ends_with("\r\n\r\nmay take writes\r\n"));
    // The same from the database itself; once with an account that may see the replication.
    let elsewhere = house.text("elsewhere.sock");
    let said = house.once_quietly(&["--role", "writer", "--socket", &elsewhere]).with(0);
    assert!(said.ends_with("\r\n\r\nmay take writes\r\n"), "{said}");
    let file = house.write(
        "app.cnf",
        &(fs::read_to_string(house.path("place.cnf")).unwrap() + "user=app\npassword=secret\n"),
    );
    let args = [
        "--defaults-file",
        file.to_str().unwrap(),
        "--socket",
        &elsewhere,
        "--role",
        "replica",
        "--max-lag",
        "500ms",
    ];
    let said = house.once(&args).with(1);
    assert!(said.contains("is not a replica: it has no source"), "{said}");
}

/// A member that keeps its writes to itself is not good for anything, and least of all for writes.
fn no_part_in_replication(server: &Server, http: SocketAddr) {
    server.sql("SET GLOBAL wsrep_on = OFF");
    until("a writer that does not replicate is none", || {
        get(http, "/writer").starts_with("HTTP/1.1 503 ").then_some(())
    });
    let status = get(http, "/status");
    assert!(status.contains("is it a Galera node, and is wsrep_on set?"), "{status}");
    assert_eq!(get(http, "/?donor=1"), DOWN);
    server.sql("SET GLOBAL wsrep_on = ON");
    until("it does again", || get(http, "/writer").starts_with("HTTP/1.1 200 ").then_some(()));
}

/// KILL and wait_timeout end a link and not the server: nobody is told that it has ended.
fn a_link_that_ends_alone(server: &Server, http: SocketAddr) {
    const KILLS: usize = 5;
    let ids =
        || server.sql("SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user = 'quiet'");
    let stop = Arc::new(AtomicBool::new(false));
    let client = {
        let stop = stop.clone();
        thread::spawn(move || {
            let mut stream = TcpStream::connect(http).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").unwrap();
                assert_eq!(response(&mut stream), UP.replace("close", "keep-alive"));
            }
        })
    };
    for _ in 0..KILLS {
        let id = ids();
        // Longer than an interval, or it is taken for a server that closes each link.
        let began = Instant::now();
        until("a link that has lasted", || (began.elapsed() > 4 * INTERVAL).then_some(()));
        server.sql(&format!("KILL {id}"));
        until("another link", || Some(ids()).filter(|now| *now != id && now != "NULL" && !now.contains(',')));
    }
    stop.store(true, Ordering::Relaxed);
    client.join().unwrap();
}

/// The Python server's options and bytes.
fn python(server: &Server, house: &House) {
    let conf = house.text("quiet.cnf");
    let port = free_port().to_string();
    let (python, http) = Running::pyclustercheck(house, |command| {
        _ = command.args(["-f", &conf, "-c", "1", "-4", "127.0.0.1", "-p", &port])
    });
    assert_eq!(http.to_string(), format!("127.0.0.1:{port}"));
    let answer = get(http, "/");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "Percona XtraDB Cluster Node is synced.");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nServer: PXC Python clustercheck / 2.0\r\nX-Cache-TTL: "),
        "{head}"
    );
    for line in ["X-Cache: True", "Content-Type: text/html", "Content-Length: 38"] {
        assert!(head.lines().any(|found| found == line), "{head}");
    }
    let mut kept = TcpStream::connect(http).unwrap();
    for method in ["GET", "OPTIONS"] {
        kept.write_all(format!("{method} /any HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        assert!(response(&mut kept).ends_with(body));
    }
    let old = say(http, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert!(old.contains("\r\nConnection: close\r\n") && old.ends_with(body), "{old}");
    python.stop();

    // The sysconfig file's names, and a watchdog.
    let port = free_port();
    house.write(
        "sysconfig",
        &format!("AWD=1\nDWRO=true\nCACHE=0\nCNF={conf}\nPORT={port}\nIPv4=\"127.0.0.1\"\n"),
    );
    let (python, http) = Running::pyclustercheck(house, |command| _ = command.env("WATCHDOG_USEC", "200000"));
    assert_eq!(http, local(port));
    assert_eq!((python.told(), python.told()), ("WATCHDOG=1".into(), "WATCHDOG=1".into()));
    server.sql("SET GLOBAL wsrep_desync = ON; SET GLOBAL read_only = ON");
    until("read only", || {
        get(http, "/")
            .ends_with("\r\n\r\nPercona XtraDB Cluster Node state could not be retrieved.")
            .then_some(())
    });
    server.sql("SET GLOBAL read_only = OFF");
    until("an available donor", || get(http, "/").ends_with(body).then_some(()));
    server.sql("SET GLOBAL wsrep_desync = OFF");
    python.stop();
    fs::remove_file(house.path("sysconfig")).unwrap();

    let port = free_port().to_string();
    let (python, http) = Running::pyclustercheck(house, |command| {
        _ = command.args(["-6", "-f", &conf, "-p", &port, "-a", "-r"])
    });
    assert_eq!(http.to_string(), format!("[::]:{port}"));
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert!(get(address.parse().unwrap(), "/").ends_with(body), "{address}");
    }
    python.stop();

    for (args, expect) in [
        (&["-c", "soon"][..], "cache-time (CACHE) must be seconds, 0 to 3600; it is: soon"),
        (&["-p", "web"], "port (PORT) must be a number up to 65535; it is: web"),
        (&["-a", "yes"], "available-when-donor (AWD) must be 0 or 1; it is: yes"),
        (&["-f", "/no/such.cnf"], "/no/such.cnf: cannot be read: No such file"),
        (&["--frobnicate"], "unexpected argument '--frobnicate'"),
    ] {
        let said = run(house.command("pyclustercheck").args(args)).with(2);
        assert!(said.contains(expect), "{args:?}: {said}");
    }
}

// ---- a database that hangs, ends and comes back

#[test]
fn a_database_that_hangs_ends_and_comes_back() {
    let _alone = alone();
    let (mut server, options) = galera();
    let house = House::of(&server);
    let (check, http) = Running::check(&house, &[]);
    assert_eq!(get(http, "/"), UP);
    the_command_is_fast(&house);

    slow(&server, http);
    hung(&server, &house, http);
    assert_eq!(check.log().matches("cannot be asked: no answer within").count(), 1, "{}", check.log());
    server.signal(signal::CONT);
    until("200 after it woke", || (get(http, "/") == UP).then_some(()));
    // Asked itself, without the running check.
    let alone = ["--socket", &house.text("elsewhere.sock")];
    assert_eq!(house.once_quietly(&alone).with(0), UP);

    // An orderly end: noticed by the end of the link, long before an answer is too old.
    server.signal(signal::TERM);
    until("503", || (code(http) == "503").then_some(()));
    server.wait_gone();
    assert_eq!(house.seed(&[]), down());
    let ended = house.once_quietly(&alone);
    assert_eq!((ended.out.as_str(), ended.code), (DOWN, 1));
    assert!(ended.err.contains("cannot be asked: nobody listens at this socket"), "{}", ended.err);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    server.restart(&options);
    until("200 after its restart", || (get(http, "/") == UP).then_some(()));
    assert_eq!(house.seed(&[]), up());

    // The running check freezes: the command asks the database itself.
    let freeze = |how: &str| {
        assert!(Command::new("kill").args([how, &check.child.id().to_string()]).status().unwrap().success())
    };
    freeze("-STOP");
    let ended = house.once_quietly(&[]);
    freeze("-CONT");
    assert_eq!((ended.out.as_str(), ended.code), (UP, 0));
    assert!(ended.took < SOON, "{:?}", ended.took);
    check.stop();
}

/// Most of it is the start of two processes; here of an unoptimised program on a busy machine.
fn the_command_is_fast(house: &House) {
    let mut took: Vec<Duration> = (0..31)
        .map(|_| {
            let mut command = house.command("clustercheck");
            let began = Instant::now();
            let answer = command.args(["clustercheck", "password", "0"]).output().unwrap().stdout;
            assert_eq!(answer, UP.as_bytes());
            began.elapsed()
        })
        .collect();
    took.sort();
    println!("clustercheck through the socket: median {:?}, worst {:?}", took[15], took[30]);
    assert!(took[15] < Duration::from_millis(100), "{took:?}");
}

/// A database that takes half a second for everything is slow, and not down.
fn slow(server: &Server, http: SocketAddr) {
    for _ in 0..3 {
        server.signal(signal::STOP);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(400) {
            assert_eq!(get(http, "/"), UP, "after {:?}", began.elapsed());
        }
        server.signal(signal::CONT);
        // Until it has been asked again, and its answer is a new one.
        until("a new answer", || (age_ms(http) < 150).then_some(()));
    }
}

fn age_ms(http: SocketAddr) -> u64 {
    let answer = get(http, "/answer");
    let answer: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    answer["age_ms"].as_u64().unwrap()
}

fn hung(server: &Server, house: &House, http: SocketAddr) {
    server.signal(signal::STOP);
    let began = Instant::now();
    // A flood meanwhile: each answer comes at once, and none says 200 when it is too late for that.
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn(move || {
                let (mut last_good, mut worst, mut count) = (Duration::ZERO, Duration::ZERO, 0);
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let answer = get(http, "/");
                    worst = worst.max(asked.elapsed());
                    count += 1;
                    if answer == UP {
                        last_good = began.elapsed();
                    } else {
                        assert_eq!(answer, DOWN);
                    }
                }
                (last_good, worst, count)
            })
        })
        .collect();
    until("503", || (code(http) == "503").then_some(()));
    println!("a hung server is told after {:?}", began.elapsed());

    // The command asks the running check, and without one ends all the same.
    let through = house.once_quietly(&[]);
    assert_eq!((through.out.as_str(), through.code), (DOWN, 1));
    assert!(through.took < HUNG_TIME_MAX, "{:?}", through.took);
    let elsewhere = house.text("elsewhere.sock");
    let itself = house.once_quietly(&["--socket", &elsewhere]);
    assert_eq!((itself.out.as_str(), itself.code), (DOWN, 1));
    assert!(itself.err.contains("no answer within"), "{}", itself.err);
    println!("check --once of a hung server: {:?}", itself.took);
    assert!(itself.took < HUNG_TIME_MAX, "{:?}", itself.took);
    nothing_in_ps(house);

    stop.store(true, Ordering::Relaxed);
    for client in clients {
        let (last_good, worst, count) = client.join().unwrap();
        println!("flood: {count} answers, worst {worst:?}, last 200 after {last_good:?}");
        assert!(last_good < HUNG_TIME_MAX && worst < SOON && count > 10, "{last_good:?} {worst:?} {count}");
    }
}

/// While a drop-in waits for the hung server, everybody can read its command line.
fn nothing_in_ps(house: &House) {
    let mut command = house.command("clustercheck");
    // Where no check answers.
    command.env("UNDERSTUDY_RUN_DIR", house.path("nowhere")).args(["quiet", SECRET, "0"]);
    let mut child = Ending(command.stdout(Stdio::null()).spawn().unwrap());
    let cmdline = || fs::read_to_string(format!("/proc/{}/cmdline", child.0.id())).unwrap();
    until("a hidden password", || {
        (cmdline().contains("********") && !cmdline().contains(SECRET)).then_some(())
    });
    assert!(cmdline().starts_with(&house.text("clustercheck")), "it keeps its name: {}", cmdline());
    child.end();
}

#[test]
fn a_server_without_galera() {
    let server = Server::start(&[]);
    let house = House::of(&server);
    server.sql(&format!("CREATE USER quiet@'%' IDENTIFIED BY '{SECRET}'"));
    let ended = house.once_quietly(&[]);
    assert_eq!((ended.out.as_str(), ended.code), (DOWN, 1));
    let ended = house.once_quietly(&["--style", "pyclustercheck"]);
    assert!(
        ended.out.ends_with("\r\n\r\nPercona XtraDB Cluster Node state could not be retrieved."),
        "{}",
        ended.out
    );
    assert!(ended.err.contains("is it a Galera node, and is wsrep_on set?"), "{}", ended.err);
    assert_eq!(house.once_quietly(&["--role", "writer"]).code, 0);
    server.sql("SET GLOBAL read_only = ON");
    let said = house.once_quietly(&["--role", "writer"]).with(1);
    assert!(said.contains("is read only"), "{said}");
}

/// A primary and its replica, each with the account that may see the replication.
fn pair() -> [Server; 2] {
    let pair = [1, 2].map(|id| Server::start(&["--log-bin=log", &format!("--server-id={id}")]));
    for server in &pair {
        server.sql(&format!(
            "SET sql_log_bin = 0; CREATE USER quiet@'%' IDENTIFIED BY '{SECRET}'; GRANT SLAVE MONITOR ON *.* TO quiet@'%'"
        ));
    }
    pair
}

#[test]
fn a_primary_and_its_replica() {
    let [primary, replica] = pair();
    let (of_primary, of_replica) = (House::of(&primary), House::of(&replica));
    let (primary_check, primary_http) = Running::check(&of_primary, &["--interval-ms", "50"]);
    let (replica_check, replica_http) = Running::check(&of_replica, &["--interval-ms", "50"]);
    let becomes = |http: SocketAddr, target: &str, code: &str, why: &str| {
        until(&format!("{target}: {code} {why}"), || {
            let said = get(http, target);
            (said.starts_with(&format!("HTTP/1.1 {code} ")) && said.contains(why)).then_some(())
        });
    };
    for http in [primary_http, replica_http] {
        becomes(http, "/writer", "200", "may take writes");
        becomes(http, "/replica", "503", "is not a replica: it has no source");
    }

    replica.sql("SET GLOBAL read_only = ON");
    let port = primary.address().port();
    replica.sql(&format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='app', MASTER_PASSWORD='secret', \
         MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1; START SLAVE"
    ));
    becomes(replica_http, "/writer", "503", "is read only");
    becomes(replica_http, "/replica?max_lag=2s", "200", "follows its source");
    let once = |more: &[&str]| of_replica.once_quietly(&[&["--role", "replica"], more].concat());
    once(&["--max-lag", "2s"]).with(0);

    // What cannot be applied makes it late; however late it is, both threads run.
    let table = "shop.t";
    primary.sql(&format!("CREATE TABLE {table} (id INT PRIMARY KEY)"));
    until("the table on the replica", || (replica.sql("SHOW TABLES IN shop LIKE 't'") == "t").then_some(()));
    let mut holder = Command::new("mariadb")
        .args(["--no-defaults", "-uroot", "--unbuffered"])
        .arg(format!("--socket={}", replica.socket().display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut words = holder.stdin.take().unwrap();
    writeln!(words, "LOCK TABLES {table} READ;").unwrap();
    until("the lock", || {
        let locks = replica.sql("SHOW OPEN TABLES IN shop LIKE 't'");
        locks.split('\t').nth(2).is_some_and(|in_use| in_use != "0").then_some(())
    });
    primary.sql(&format!("INSERT INTO {table} VALUES (1)"));
    becomes(replica_http, "/replica?max_lag=1s", "503", "and 1 s are allowed");
    becomes(replica_http, "/replica?max_lag=1h", "400", "max_lag must be a time");
    becomes(replica_http, "/replica?max_lag=3600s", "200", "follows its source");
    let said = once(&["--max-lag", "1s"]).with(1);
    assert!(said.contains("s behind 127.0.0.1:"), "{said}");
    drop(words);
    holder.wait().unwrap();
    becomes(replica_http, "/replica?max_lag=1s", "200", "follows its source");

    replica.sql("STOP SLAVE SQL_THREAD");
    becomes(replica_http, "/replica", "503", "is not applying what 127.0.0.1:");
    replica.sql("START SLAVE SQL_THREAD; STOP SLAVE IO_THREAD");
    becomes(replica_http, "/replica", "503", "is not fetching what 127.0.0.1:");
    replica.sql("START SLAVE IO_THREAD");
    becomes(replica_http, "/replica?max_lag=2s", "200", "follows its source");
    drop(primary);
    becomes(replica_http, "/replica", "503", "is not fetching what 127.0.0.1:");
    becomes(primary_http, "/writer", "503", "");
    primary_check.stop();
    replica_check.stop();
}

// ---- loads; whether the database is good does not matter

#[test]
fn many_clients_and_slow_ones() {
    let _alone = alone();
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let limit = rustix::process::Rlimit { current: hard, maximum: hard };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let house = House::new(&format!("host=127.0.0.1\nport={}", free_port()));
    let (check, http) = Running::check(&house, &[]);
    let connect = || {
        let stream = TcpStream::connect(http).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    };
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").unwrap()
    };

    // 1,000 at the same time.
    let mut streams: Vec<TcpStream> = (0..1000).map(|_| connect()).collect();
    let began = Instant::now();
    streams.iter_mut().for_each(ask);
    for stream in &mut streams {
        assert!(response(stream).starts_with("HTTP/1.1 503 "));
    }
    println!("1,000 connections, one request each: {:?}", began.elapsed());
    assert!(began.elapsed() < 3 * SOON, "{:?}", began.elapsed());
    drop(streams);

    // Slow readers: they ask and ask, and take nothing. Others are answered meanwhile, and they are not kept for ever.
    let mut slow: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let flood = b"GET /status HTTP/1.1\r\nConnection: keep-alive\r\n\r\n".repeat(2000);
    for stream in &mut slow {
        stream.set_nonblocking(true).unwrap();
        // As much as goes.
        let _ = stream.write(&flood);
    }
    let began = Instant::now();
    assert_eq!(code(http), "503");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());

    // 10,000 that do nothing, less where this machine does not allow so many.
    let count = hard.map_or(10_000, |hard| hard.saturating_sub(1000).min(10_000)) as usize;
    let before = check.resident_bytes();
    let mut idle: Vec<TcpStream> = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = connect();
        ask(&mut stream);
        assert!(response(&mut stream).starts_with("HTTP/1.1 503 "));
        idle.push(stream);
    }
    let growth = check.resident_bytes().saturating_sub(before) / count as u64;
    println!("{count} idle connections: {growth} bytes each");
    assert!(growth < 8 * 1024, "{growth} bytes for each idle connection");
    let began = Instant::now();
    assert_eq!(code(http), "503");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let metrics = get(http, "/metrics");
    let open: usize = metrics
        .split("\nunderstudy_check_connections ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(open >= count, "{metrics}");
    drop((idle, slow));
    until("they are let go", || {
        get(http, "/metrics").contains("\nunderstudy_check_connections 1\n").then_some(())
    });
    check.stop();
}

#[test]
fn few_file_descriptors_and_many_clients() {
    let _alone = alone();
    let house = House::new(&format!("host=127.0.0.1\nport={}", free_port()));
    let mut command = Command::new("setpriv");
    house.furnish(&mut command).args(["--pdeathsig", "KILL", "prlimit", "--nofile=256:256", BIN, "check"]);
    command.args(["--listen", "127.0.0.1:0", "--defaults-file"]).arg(house.path("quiet.cnf"));
    let check = Running::start(&house, command);
    assert!(check.log().contains("(256) suffices for about 156 connections"), "{}", check.log());
    let http = check.address("http://");
    // Twice as many as it has descriptors for, and all of them want to stay.
    let mut greedy: Vec<TcpStream> = (0..512).map(|_| TcpStream::connect(http).unwrap()).collect();
    for stream in &mut greedy {
        // Whoever is too many was answered and is gone.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n");
    }
    until("all those beyond have had their answers", || {
        let began = Instant::now();
        assert_eq!(code(http), "503");
        (began.elapsed() < SOON).then_some(())
    });
    for stream in &mut greedy {
        stream.set_read_timeout(Some(LONG)).unwrap();
        assert!(response(stream).starts_with("HTTP/1.1 503 "));
    }
    drop(greedy);
    check.stop();
}

#[test]
fn the_units_let_the_operators_file_be_seen() {
    for unit in ["mysqlchk@.service", "understudy-check.service"] {
        let text =
            fs::read_to_string(format!("{}/../../contrib/{unit}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        // Both give the service a /var/tmp of its own, where no operator puts a file.
        for hides in ["PrivateTmp=", "DynamicUser="] {
            assert!(!text.lines().any(|line| line.starts_with(hides)), "{unit}: {hides}");
        }
    }
}

// ---- places and names

/// As a service's: the journal's, which its parent writes to as well.
#[test]
fn a_socket_that_is_no_clients_is_left_open() {
    let house = House::new("host=127.0.0.1\nport=1");
    let (mut journal, mut parents) = UnixStream::pair().unwrap();
    let own = |stream: &UnixStream| Stdio::from(OwnedFd::from(stream.try_clone().unwrap()));
    let mut command = house.command("understudy");
    command.args(["check", "--once", "--defaults-file"]).arg(house.path("quiet.cnf"));
    let status = command.stdin(Stdio::null()).stdout(own(&parents)).stderr(own(&parents)).status().unwrap();
    assert_eq!(status.code(), Some(1));
    parents.write_all(b"and the parent goes on\n").unwrap();
    drop((parents, command));
    let mut said = String::new();
    journal.read_to_string(&mut said).unwrap();
    assert!(said.starts_with(DOWN), "{said}");
    assert!(said.contains("127.0.0.1:1 cannot be asked: connection refused"), "the reason: {said}");
    assert!(said.ends_with("and the parent goes on\n"), "{said}");
}

#[test]
fn an_address_that_cannot_be_had_is_told() {
    let house = House::new("host=127.0.0.1\nport=1");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let check = |args: &[&str]| run(house.command("understudy").arg("check").args(args));
    let said = check(&["--listen", &taken]).with(1);
    assert!(said.contains(&format!("cannot listen on {taken}: the port is in use")), "{said}");
    let said = check(&["--listen", "localhost"]).with(2);
    assert!(said.contains("write it as ADDRESS:PORT"), "{said}");
    let said = check(&["--agent", "192.0.2.1:80"]).with(1);
    assert!(said.contains("this machine has no such address"), "{said}");
}

#[test]
fn a_machine_without_ipv6_is_told_where_to_listen_instead() {
    let house = House::new("host=127.0.0.1\nport=1");
    without_family(Family::Ipv6, || {
        let said = run(house.command("understudy").args(["check", "--listen", "[::]:9200"])).with(1);
        assert!(
            said.contains("cannot listen on [::]:9200: this machine does not have IPv6 switched on; listen on 0.0.0.0:9200 instead"),
            "{said}"
        );
        let mut command = house.command("understudy");
        command.args(["check", "--listen", "localhost:0", "--defaults-file"]).arg(house.path("quiet.cnf"));
        let running = Running::start(&house, command);
        assert_eq!(code(running.address("http://")), "503");
        running.stop();
    });
}

#[test]
fn two_databases_and_two_checks_are_not_mixed_up() {
    let (one, other) = (House::new("host=127.0.0.1\nport=1"), free_port());
    // The same directory for all sockets, as on a real machine.
    one.write("other.cnf", &format!("[client]\nhost=127.0.0.1\nport={other}\n"));
    let (check, http) = Running::check(&one, &[]);
    assert_eq!(fs::read_dir(one.path("run")).unwrap().count(), 1);
    let asked = || {
        let metrics = get(http, "/metrics");
        let count = metrics.split("\nunderstudy_check_bad_total ").nth(1).unwrap().lines().next().unwrap();
        count.parse::<u64>().unwrap()
    };
    assert!(one.once_quietly(&[]).err.starts_with("127.0.0.1:1 cannot be asked: connection refused"));
    assert_eq!(asked(), 1, "the running check was asked");
    let ended = one.once(&["--defaults-file", &one.text("other.cnf")]);
    assert!(ended.err.starts_with(&format!("127.0.0.1:{other} cannot be asked")), "{}", ended.err);
    assert_eq!(asked(), 1, "another database is asked itself");
    // Nor is the same address in another network namespace the same database.
    let flags = if rustix::process::geteuid().is_root() { "-n" } else { "-rn" };
    let mut apart = Command::new("unshare");
    one.furnish(&mut apart)
        .args([flags, BIN, "check", "--once", "--defaults-file"])
        .arg(one.path("quiet.cnf"));
    let ended = run(&mut apart);
    assert!(ended.code == 1 && ended.err.contains("cannot reach the host"), "{}", ended.said());
    assert_eq!(asked(), 1, "it was asked from elsewhere");
    // A second check of the same database serves, and leaves the first one's socket alone.
    let (second, http) = Running::check(&one, &[]);
    assert!(second.log().contains("belongs to another program"), "{}", second.log());
    assert_eq!(code(http), "503");
    second.stop();
    assert_eq!(fs::read_dir(one.path("run")).unwrap().count(), 1);
    check.stop();
    assert_eq!(fs::read_dir(one.path("run")).unwrap().count(), 0);
    // A directory that cannot be made is a warning.
    let mut command = one.command("understudy");
    command.args(["check", "--listen", "127.0.0.1:0", "--defaults-file", &one.text("quiet.cnf")]);
    command.env("UNDERSTUDY_RUN_DIR", one.path("no/such/dir"));
    let running = Running::start(&one, command);
    assert!(
        running.log().contains("commands on this machine will ask the database themselves"),
        "{}",
        running.log()
    );
    assert_eq!(code(running.address("http://")), "503");
    running.stop();
}

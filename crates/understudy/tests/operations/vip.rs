//! `understudy vip` with the real keepalived: what it prints is accepted, what it says is so, and the address moves as it must.
//!
//! keepalived needs a device of its own, so all but the first tests make a network namespace and need root; without it they say
//! so and pass. Invariant: a test takes its namespace and its processes with it, whatever its end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fixture::wait::until;
use serde_json::Value;

const BIN: &str = env!("CARGO_BIN_EXE_understudy");

fn understudy(words: &[&str]) -> Output {
    Command::new(BIN).args(words).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_lab_says_first_that_it_may_not_make_namespaces() {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-all", BIN]);
        command
    } else {
        Command::new(BIN)
    };
    let ran = command.args(["lab", "vip"]).stdin(Stdio::null()).output().unwrap();
    let said = text(&ran.stderr);
    assert_eq!((ran.status.code(), text(&ran.stdout)), (Some(1), String::new()), "{said}");
    // Nothing before it: no cluster was started.
    assert!(
        said.starts_with("an address that moves needs network namespaces: run `understudy lab vip` as root"),
        "{said}"
    );
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A network namespace with a device `eth0` that is up.
struct Namespace {
    name: String,
}

impl Namespace {
    /// With nothing but its own loopback; `None` without root.
    fn bare(test: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            println!("{test} is skipped: a network namespace needs root");
            return None;
        }
        let name = format!("us-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        assert!(ip(&format!("netns add {name}")).status.success());
        let made = Self { name };
        made.set("link set lo up");
        Some(made)
    }

    /// One with `eth1` beside `eth0`; `None` without root.
    fn new(test: &str) -> Option<Self> {
        let made = Self::bare(test)?;
        // Each device has its other end in the same namespace: nobody outside sees any of it.
        for (device, other) in [("eth0", "end0"), ("eth1", "end1")] {
            made.set(&format!("link add {device} type veth peer name {other}"));
            made.set(&format!("link set {device} up"));
            made.set(&format!("link set {other} up"));
        }
        made.set("addr add 192.0.2.1/24 dev eth0");
        made.set("addr add fd00:77::1/64 dev eth0 nodad");
        Some(made)
    }

    /// Two machines on one wire, fd00:77::1 and fd00:77::2; `None` without root.
    fn pair(test: &str) -> Option<[Self; 2]> {
        let [one, two] = [Self::bare(test)?, Self::bare(test)?];
        one.set(&format!("link add eth0 type veth peer name eth0 netns {}", two.name));
        for (namespace, number) in [(&one, 1), (&two, 2)] {
            namespace.set("link set eth0 up");
            namespace.set(&format!("addr add fd00:77::{number}/64 dev eth0 nodad"));
        }
        // Adverts go from the address that the device gave itself, once it has asked around whether anybody else has it.
        for namespace in [&one, &two] {
            until("the device's own address may be used", || {
                let own = |state: &str| {
                    let told =
                        ip(&format!("-n {} -6 -o addr show dev eth0 scope link {state}", namespace.name));
                    told.stdout.trim_ascii().len()
                };
                own("-tentative") > 0 && own("tentative") == 0
            });
        }
        Some([one, two])
    }

    fn set(&self, order: &str) {
        let done = ip(&format!("-n {} {order}", self.name));
        assert!(done.status.success(), "{order}: {}", text(&done.stderr));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    fn understudy(&self, words: &[&str]) -> Output {
        self.command(BIN).args(words).output().unwrap()
    }

    fn has(&self, address: &str) -> bool {
        !ip(&format!("-n {} -o addr show to {address}", self.name)).stdout.is_empty()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // With the namespace its devices go, too.
        ip(&format!("netns del {}", self.name));
    }
}

fn ip(words: &str) -> Output {
    Command::new("ip").args(words.split(' ')).output().expect("`ip` of iproute2 cannot be run")
}

/// A keepalived of the test's own. It ends with the test's process, and its VRRP process with it.
struct Keepalived {
    child: Child,
    dir: PathBuf,
}

impl Keepalived {
    fn start(namespace: &Namespace, dir: &Path) -> Self {
        let file = |name: &str| dir.join(name).display().to_string();
        let child = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "TERM",
                "ip",
                "netns",
                "exec",
                &namespace.name,
                "keepalived",
                "--dont-fork",
                "--vrrp",
            ])
            .args(["--log-console", "--no-syslog"])
            .arg(format!("--use-file={}", file("keepalived.conf")))
            .arg(format!("--pid={}", file("pid")))
            .arg(format!("--vrrp_pid={}", file("vrrp.pid")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Self { child, dir: dir.to_owned() };
        until("keepalived starts", || started.vrrp().is_some());
        started
    }

    fn vrrp(&self) -> Option<u32> {
        std::fs::read_to_string(self.dir.join("vrrp.pid")).ok()?.trim().parse().ok()
    }

    fn signal(pid: u32, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Both at once: the parent is frozen, so that it cannot start another child.
    fn kill(&mut self) {
        use rustix::process::Signal;
        let vrrp = self.vrrp().unwrap();
        Self::signal(self.child.id(), Signal::STOP);
        Self::signal(vrrp, Signal::KILL);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Keepalived {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            Self::signal(self.child.id(), rustix::process::Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// Every kind of configuration that can be asked for.
fn configurations(dir: &Path) -> Vec<String> {
    std::fs::write(dir.join("password"), "secret12\n").unwrap();
    let password = dir.join("password").display().to_string();
    let v4 = "--address 192.0.2.100/24";
    let v6 = "--address fd00:77::100/64";
    vec![
        v4.into(),
        v6.into(),
        format!("{v4} {v6}"),
        format!("{v6} --address fd00:77::101/64 {v4} --peer fd00:77::2 --peer fd00:77::3"),
        format!("{v4} {v6} --peer 192.0.2.2 --peer 192.0.2.3 --advert-interval-ms 100"),
        format!("{v4} --for proxy --interface eth0 --interface eth1 --priority 190 --virtual-router-id 7"),
        format!("{v4} --auth-password-file {password} --peer 192.0.2.2"),
        format!(
            "{v4} --available-when-donor --rise 3 --fall 2 --check-interval-s 2 --check-timeout-s 4 --name db"
        ),
        format!("{v4} --state-file /tmp/x.state --notify-log /tmp/x.log --advert-interval-ms 40950"),
        format!("{v4} --like-the-seed --check-command /usr/bin/true --interface eth0 --interface eth1"),
        format!("{v4} {v6} --like-the-seed --check-command /usr/bin/true --advert-interval-ms 100"),
    ]
}

#[test]
fn keepalived_accepts_every_configuration() {
    let Some(namespace) = Namespace::new("keepalived_accepts_every_configuration") else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keepalived.conf");
    for asked in configurations(dir.path()) {
        let words: Vec<&str> = ["vip", "config"].into_iter().chain(asked.split(' ')).collect();
        let printed = understudy(&words);
        assert!(printed.status.success(), "{asked}: {}", text(&printed.stderr));
        std::fs::write(&file, &printed.stdout).unwrap();
        let tested = namespace
            .command("keepalived")
            .args(["--config-test", "--use-file"])
            .arg(&file)
            .output()
            .unwrap();
        let said = text(&tested.stdout) + &text(&tested.stderr);
        assert!(tested.status.success(), "{asked}: {said}\n{}", text(&printed.stdout));
        assert_eq!(said.trim(), "", "{asked}");
    }
}

/// keepalived goes on without a check that it cannot run, and takes the address; so the drop-in does not let it start.
#[test]
fn a_keepalived_whose_check_cannot_be_run_does_not_start() {
    let Some(namespace) = Namespace::new("a_keepalived_whose_check_cannot_be_run") else { return };
    let drop_in = text(&understudy(&["vip", "config", "--systemd"]).stdout);
    let before = drop_in.lines().find_map(|line| line.strip_prefix("ExecStartPre=")).unwrap();
    let (keepalived, words) = before.split_once(' ').unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keepalived.conf");
    for (check, may_start) in [("/usr/bin/true", true), ("/nowhere/at/all", false)] {
        let printed = understudy(&["vip", "config", "--address", "192.0.2.100/24", "--check-command", check]);
        std::fs::write(&file, &printed.stdout).unwrap();
        // What an administrator added: nothing, as delivered.
        let words = words.split(' ').filter(|word| !word.starts_with('$'));
        let tested = namespace.command(keepalived).args(words).arg("--use-file").arg(&file).output();
        assert_eq!(tested.unwrap().status.success(), may_start, "{check}");
    }
}

#[test]
fn the_check_that_is_printed_can_be_run() {
    let dir = tempfile::tempdir().unwrap();
    let cnf = dir.path().join("check.cnf");
    std::fs::write(&cnf, format!("[client]\nuser=x\nsocket={}/none.sock\n", dir.path().display())).unwrap();
    let script = |more: &[&str]| {
        let words = [&["vip", "config", "--address", "192.0.2.100/24"], more].concat();
        let printed = text(&understudy(&words).stdout);
        let line = printed.lines().find_map(|line| line.trim().strip_prefix("script \"")).unwrap().to_owned();
        let words: Vec<String> = line.trim_end_matches('"').split(' ').map(str::to_owned).collect();
        Command::new(&words[0])
            .args(&words[1..])
            .current_dir(dir.path())
            .env("UNDERSTUDY_RUN_DIR", dir.path())
            .env("UNDERSTUDY_DISABLED_FILE", "/nowhere")
            .output()
            .unwrap()
    };
    let node = script(&["--defaults-file", cnf.to_str().unwrap(), "--available-when-donor"]);
    assert_eq!(node.status.code(), Some(1), "{}", text(&node.stderr));
    assert!(text(&node.stdout).starts_with("HTTP/1.1 503 "));
    // A configuration of a cluster that nobody serves.
    let cluster = "[cluster]\nname = \"nobody\"\nnode = [{ name = \"db1\", address = \"192.0.2.1:3306\" }]\n\
                   monitor = { user = \"x\", password = \"x\" }\n";
    std::fs::write(dir.path().join("understudy.toml"), cluster).unwrap();
    let other = dir.path().join("other.toml");
    std::fs::write(&other, cluster.replace("\"nobody\"", "\"nobody-else\"")).unwrap();
    for more in [&["--for", "proxy"][..], &["--for", "proxy", "--config", other.to_str().unwrap()]] {
        let proxy = script(more);
        assert_eq!(proxy.status.code(), Some(1), "{}", text(&proxy.stderr));
        assert!(text(&proxy.stdout).contains("does not answer"), "{}", text(&proxy.stdout));
    }
}

#[test]
fn a_wrong_order_is_refused_in_a_sentence() {
    for (words, told) in [
        ("vip config", "--address"),
        ("vip config --address 10.0.0.1", "such as 10.0.0.100/24"),
        ("vip config --address 127.0.0.1/8", "cannot move"),
        ("vip config --address 10.0.0.1/24 --interface lo", "which lo is not"),
        ("vip config --address 10.0.0.1/24 --peer fd00::1", "family"),
        ("vip config --address 10.0.0.1/24 --check-command true", "whole path"),
        ("vip config --address 10.0.0.1/24 --interface eth0 --interface @eth1", "a device's name has"),
        ("vip config --address 10.0.0.1/24 --peer 224.0.0.18", "not the address of another machine"),
        ("vip config --address 10.0.0.1/24 --advert-interval-ms 15", "10 to 40950"),
        (
            "vip config --address 10.0.0.1/24 --auth-password-file /nowhere/at/all",
            "cannot read the password file",
        ),
        ("vip config --address 10.0.0.1/24 --state-file relative", "begin with /"),
        ("vip config --address 10.0.0.1/24 --check-command /bin/a\\b", "no \\ and no $"),
        ("vip config --address 10.0.0.1/24 --check-command /bin/$A", "no \\ and no $"),
        ("vip config --address 10.0.0.1/24 --config u.toml", "only --for proxy asks"),
        ("vip config --address 10.0.0.1/24 --for proxy --defaults-file /etc/x", "no database is asked"),
        ("vip config --address 10.0.0.1/24 --for proxy --available-when-donor", "no database is asked"),
        ("vip config --address 10.0.0.1/24 --pid-file /run/x", "--systemd"),
        ("vip notify primary", "none of master, backup, fault, stop"),
        ("vip notify INSTANCE PXC", "INSTANCE NAME STATE PRIORITY"),
        ("vip status --config /nowhere/at/all", "vip config"),
        ("vip release --config /etc/hostname", "no vrrp_instance"),
    ] {
        let output = understudy(&words.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(told), "{words}: {said}");
    }
}

#[test]
fn the_state_is_recorded_in_the_seeds_words() {
    let dir = tempfile::tempdir().unwrap();
    let (state, log) = (dir.path().join("run/vip.state"), dir.path().join("vip.log"));
    let notify = |words: &str| {
        let mut command = Command::new(BIN);
        command.args(["vip", "notify"]).args(words.split(' '));
        command.arg("--state-file").arg(&state).arg("--log").arg(&log);
        assert!(command.status().unwrap().success(), "{words}");
        std::fs::read_to_string(&state).unwrap()
    };
    assert_eq!(notify("master"), "now master\n");
    assert_eq!(notify("INSTANCE PXC BACKUP 220"), "now backup\n");
    assert_eq!(notify("GROUP g FAULT"), "now fault\n");
    let log = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = log.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
    assert_eq!(lines, ["now master", "INSTANCE PXC now backup", "GROUP g now fault"]);
    let left: Vec<_> =
        std::fs::read_dir(dir.path().join("run")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// keepalived runs its commands with a umask of 0177; the directory has the sockets of other users' programs, too.
#[test]
fn keepalived_umask_shuts_nobody_out() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("run/vip.state");
    let done = Command::new("sh")
        .args(["-c", "umask 0177 && exec \"$0\" vip notify master --state-file \"$1\"", BIN])
        .arg(&state)
        .status()
        .unwrap();
    assert!(done.success());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(state.parent().unwrap()), mode(&state)), (0o755, 0o644));
    assert_eq!(mode(&dir.path().join("run/vip.state.by")), 0o600, "whoever reads it can hold its lock");
}

#[test]
fn status_says_what_is_so_and_release_ends_what_a_kill_leaves() {
    let Some(namespace) = Namespace::new("status_says_what_is_so") else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (conf, pid, good) = (file("keepalived.conf"), file("pid"), file("good"));
    let check = format!("/usr/bin/test -e {good}");
    let printed = understudy(&[
        "vip",
        "config",
        "--address",
        "192.0.2.100/24",
        "--address",
        "fd00:77::100/64",
        "--check-command",
        &check,
        "--advert-interval-ms",
        "100",
        "--rise",
        "1",
        "--state-file",
        &file("vip.state"),
    ]);
    std::fs::write(&conf, &printed.stdout).unwrap();
    let status = || {
        let output =
            namespace.understudy(&["vip", "status", "--json", "--config", &conf, "--pid-file", &pid]);
        let said: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        testbed::printed::fits("vip-status", &said);
        (output.status.code(), said)
    };
    let both =
        |here: bool| ["192.0.2.100", "fd00:77::100"].iter().all(|address| namespace.has(address) == here);

    let (code, said) = status();
    assert_eq!((code, &said["state"], &said["keepalived_pid"]), (Some(1), &Value::Null, &Value::Null));

    let mut keepalived = Keepalived::start(&namespace, dir.path());
    until("a bad machine says fault", || status().1["state"] == "fault");
    assert!(both(false) && status().1["checks"][0]["good"] == false);

    std::fs::write(&good, "").unwrap();
    until("the good machine has both addresses", || status().0 == Some(0));
    let (_, said) = status();
    assert!(both(true));
    assert_eq!(
        (&said["state"], &said["holds"], &said["warnings"]),
        (&"master".into(), &true.into(), &Value::Array(vec![]))
    );
    let screen = namespace.understudy(&["vip", "status", "--config", &conf, "--pid-file", &pid]);
    let screen = text(&screen.stdout);
    assert!(
        screen.contains("address     192.0.2.100 on eth0 (PXC): here") && screen.contains("good after"),
        "{screen}"
    );
    let refused = namespace.understudy(&["vip", "release", "--config", &conf, "--pid-file", &pid]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(both(true) && text(&refused.stderr).contains("has charge of the address"));

    std::fs::remove_file(&good).unwrap();
    until("a machine that turned bad gives them up", || both(false));
    until("and says so", || status().1["state"] == "fault");
    std::fs::write(&good, "").unwrap();
    until("it has them again", || status().0 == Some(0));

    keepalived.kill();
    until("it is seen that nobody runs", || status().1["keepalived_pid"] == Value::Null);
    let (code, said) = status();
    assert!(both(true), "the kernel keeps what keepalived put there");
    assert_eq!(code, Some(1));
    assert!(said["warnings"][0].as_str().unwrap().contains("another machine may have it, too"), "{said}");
    let tried = namespace.understudy(&["vip", "release", "--dry-run", "--config", &conf, "--pid-file", &pid]);
    assert!(tried.status.success() && both(true));
    let told = text(&tried.stdout).replace("would be taken away", "is gone now");
    let released = namespace.understudy(&["vip", "release", "--config", &conf, "--pid-file", &pid]);
    assert_eq!(text(&released.stdout), told);
    assert!(released.status.success(), "{}", text(&released.stderr));
    assert!(both(false) && namespace.has("192.0.2.1"), "only what moves is taken away");
    let again = namespace.understudy(&["vip", "release", "--config", &conf, "--pid-file", &pid]);
    assert_eq!((again.status.code(), text(&again.stdout).as_str()), (Some(0), "nothing was left\n"));
}

/// Adverts of IPv6, between two machines.
#[test]
fn an_ipv6_address_moves_from_machine_to_machine() {
    let Some(machines) = Namespace::pair("an_ipv6_address_moves") else { return };
    let dir = tempfile::tempdir().unwrap();
    let of = |number: usize, name: &str| dir.path().join(number.to_string()).join(name);
    let start = |number: usize| {
        std::fs::create_dir_all(of(number, "")).unwrap();
        let check = format!("/usr/bin/test -e {}", of(number, "good").display());
        let state = of(number, "vip.state").display().to_string();
        let words = ["vip", "config", "--address", "fd00:77::100/64", "--advert-interval-ms", "100"];
        let more = ["--rise", "1", "--check-command", &check, "--state-file", &state];
        let printed = understudy(&[&words[..], &more, &["--priority", ["220", "190"][number]]].concat());
        assert!(printed.status.success(), "{}", text(&printed.stderr));
        std::fs::write(of(number, "keepalived.conf"), printed.stdout).unwrap();
        std::fs::write(of(number, "good"), "").unwrap();
        Keepalived::start(&machines[number], &of(number, ""))
    };
    let state = |number: usize| std::fs::read_to_string(of(number, "vip.state")).unwrap_or_default();
    let only =
        |number: usize| machines[number].has("fd00:77::100") && !machines[1 - number].has("fd00:77::100");

    let first = start(0);
    until("the first machine has the address", || only(0));
    let _second = start(1);
    until("the second one is a backup", || state(1) == "now backup\n");
    assert!(only(0), "who comes later does not take it");

    std::fs::remove_file(of(0, "good")).unwrap();
    until("a bad machine gives it to the other", || only(1));
    until("and says so", || state(0) == "now fault\n" && state(1) == "now master\n");
    std::fs::write(of(0, "good"), "").unwrap();
    until("it comes back as a backup", || state(0) == "now backup\n");
    // One that preempts waits for three adverts and its own wait first: some 0.35 s.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        assert!(only(1), "though of the higher priority");
        std::thread::sleep(Duration::from_millis(10));
    }

    std::fs::remove_file(of(1, "good")).unwrap();
    until("it moves back when it must", || only(0));
    drop(first);
    assert!(!machines[0].has("fd00:77::100"), "a keepalived that ends leaves nothing behind");
}

/// The part of a printed configuration that holds the instance.
fn instance(conf: &str) -> &str {
    &conf[conf.find("vrrp_instance ").unwrap()..]
}

/// Its pid file is elsewhere, and it calls itself otherwise.
#[test]
fn a_keepalived_that_no_pid_file_names_is_found() {
    let Some(namespace) = Namespace::new("a_keepalived_that_no_pid_file_names") else { return };
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("keepalived.conf");
    let state = dir.path().join("vip.state").display().to_string();
    let words = ["vip", "config", "--address", "192.0.2.100/24", "--check-command", "/usr/bin/true"];
    let more = ["--advert-interval-ms", "100", "--rise", "1", "--state-file", &state];
    let printed = text(&understudy(&[&words[..], &more].concat()).stdout);
    let names = "    process_name one\n    vrrp_process_name other\n";
    std::fs::write(
        &conf,
        printed.replacen("    script_user root\n", &format!("{names}    script_user root\n"), 1),
    )
    .unwrap();
    let conf = conf.display().to_string();
    let run = |command: &str| {
        namespace.understudy(&["vip", command, "--config", &conf, "--pid-file", "/nowhere/at/all"])
    };
    let mut keepalived = Keepalived::start(&namespace, dir.path());
    until("it has the address", || run("status").status.code() == Some(0));
    let screen = text(&run("status").stdout);
    let pid = keepalived.child.id();
    assert!(
        screen.contains(&format!("keepalived  runs as process {pid}, which /nowhere/at/all does not say")),
        "{screen}"
    );
    let refused = run("release");
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(
        said.contains(&format!("process {pid} ")) && said.contains("has charge of the address"),
        "{said}"
    );
    assert!(namespace.has("192.0.2.100"));
    // Nobody else's keepalived counts: the one of another network is none of ours.
    let other = Namespace::new("another network").unwrap();
    let status = other.understudy(&[
        "vip",
        "status",
        "--config",
        &conf,
        "--pid-file",
        &dir.path().join("pid").display().to_string(),
    ]);
    assert!(text(&status.stdout).contains("keepalived  does not run"), "{}", text(&status.stdout));
    keepalived.kill();
    let released = run("release");
    assert!(released.status.success() && !namespace.has("192.0.2.100"), "{}", text(&released.stderr));
}

/// With `use_vmac` keepalived makes a device of its own for the address.
#[test]
fn an_address_is_found_wherever_it_sits() {
    let Some(namespace) = Namespace::new("an_address_is_found_wherever") else { return };
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("keepalived.conf");
    std::fs::write(&conf, understudy(&["vip", "config", "--address", "192.0.2.100/24"]).stdout).unwrap();
    let conf = conf.display().to_string();
    let run = |words: &[&str]| {
        namespace.understudy(&[&["vip"], words, &["--config", &conf, "--pid-file", "/none"]].concat())
    };
    namespace.set("addr add 192.0.2.100/24 dev eth1");
    // A copy on the loopback is for LVS, not keepalived's.
    namespace.set("addr add 192.0.2.100/32 dev lo");
    let said: Value = serde_json::from_slice(&run(&["status", "--json"]).stdout).unwrap();
    testbed::printed::fits("vip-status", &said);
    let seen = &said["addresses"][0];
    assert_eq!((&seen["device"], &seen["here"]), (&"eth1".into(), &true.into()), "{said}");
    let released = run(&["release"]);
    assert!(released.status.success(), "{}", text(&released.stderr));
    assert_eq!(text(&released.stdout), "192.0.2.100/24 was left on eth1 and is gone now\n");
    assert!(namespace.has("192.0.2.100"), "on the loopback");
}

/// What only keepalived understands may be an address: nobody says that it is not there.
#[test]
fn what_cannot_be_read_is_never_taken_for_absent() {
    let Some(namespace) = Namespace::new("what_cannot_be_read") else { return };
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("keepalived.conf");
    let printed = text(&understudy(&["vip", "config", "--address", "192.0.2.100/24"]).stdout);
    let conf_text = conf.display().to_string();
    let run = |command: &str| {
        namespace.understudy(&["vip", command, "--config", &conf_text, "--pid-file", "/none"])
    };
    for (odd, told) in [
        (printed.clone() + "include more.conf\n", "included files are not read"),
        (printed.replace("192.0.2.100/24", "192.0.2.100/24\n        $VIP"), "`$VIP` cannot be understood"),
        (
            printed.replace("192.0.2.100/24", "192.0.2.100/24\n        @db1 192.0.2.101/24"),
            "`@db1 192.0.2.101/24`",
        ),
        ("net_namespace us-nowhere\n".to_owned() + &printed, "ip netns exec us-nowhere"),
    ] {
        std::fs::write(&conf, &odd).unwrap();
        namespace.set("addr add 192.0.2.100/24 dev eth0");
        let status = run("status");
        assert_eq!(status.status.code(), Some(1), "{told}");
        assert!(text(&status.stdout).contains(told), "{told}: {}", text(&status.stdout));
        let released = run("release");
        assert_eq!(released.status.code(), Some(1), "{told}");
        assert!(text(&released.stderr).contains(told), "{told}: {}", text(&released.stderr));
        // What can be read is taken away all the same; what is another network's is left alone.
        let left = namespace.has("192.0.2.100");
        assert_eq!(left, odd.starts_with("net_namespace"), "{told}");
        if left {
            namespace.set("addr del 192.0.2.100/24 dev eth0");
        }
    }
    // A parameter with a value is as good as the value.
    std::fs::write(&conf, "$VIP=192.0.2.100/24\n".to_owned() + &printed.replace("192.0.2.100/24", "${VIP}"))
        .unwrap();
    namespace.set("addr add 192.0.2.100/24 dev eth0");
    let released = run("release");
    assert!(released.status.success() && !namespace.has("192.0.2.100"), "{}", text(&released.stderr));
}

/// As a pair of machines has them that are each other's backup.
#[test]
fn each_of_several_instances_is_judged_by_its_own() {
    let Some(namespace) = Namespace::new("each_of_several_instances") else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let print = |name: &str, address: &str, device: &str, id: &str| {
        let words = ["vip", "config", "--address", address, "--interface", device, "--virtual-router-id", id];
        let state = file(&format!("{name}.state"));
        let more =
            ["--name", name, "--check-command", "/usr/bin/true", "--rise", "1", "--state-file", &state];
        text(&understudy(&[&words[..], &more, &["--advert-interval-ms", "100"]].concat()).stdout)
    };
    namespace.set("addr add 198.51.100.1/24 dev eth1");
    let conf = file("keepalived.conf");
    let west = print("west", "198.51.100.100/24", "eth1", "52");
    std::fs::write(&conf, print("east", "192.0.2.100/24", "eth0", "51") + instance(&west)).unwrap();
    let status = || {
        let output =
            namespace.understudy(&["vip", "status", "--json", "--config", &conf, "--pid-file", &file("pid")]);
        let said: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        testbed::printed::fits("vip-status", &said);
        (output.status.code(), said)
    };
    let _keepalived = Keepalived::start(&namespace, dir.path());
    until("it has both", || status().0 == Some(0));
    namespace.set("link set eth1 down");
    until("one of them is a fault", || status().1["instances"][1]["state"] == "fault");
    let (code, said) = status();
    assert_eq!((code, &said["holds"], &said["state"]), (Some(1), &false.into(), &Value::Null), "{said}");
    let of = |at: usize| (&said["instances"][at]["name"], &said["instances"][at]["holds"]);
    assert_eq!((of(0), of(1)), ((&"east".into(), &true.into()), (&"west".into(), &false.into())));
    assert_eq!(said["warnings"], Value::Array(vec![]), "nothing contradicts itself");
}

/// On a device without an address of its own the first one carries the others, and the kernel takes them away with it.
#[test]
fn release_takes_all_of_them_where_one_carries_the_others() {
    let Some(namespace) = Namespace::new("release_takes_all_of_them") else { return };
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("keepalived.conf");
    let addresses = ["192.0.2.100/25", "192.0.2.101/25", "fd00:77::100/64"];
    let mut words = vec!["vip", "config", "--interface", "eth1"];
    for address in addresses {
        words.extend(["--address", address]);
        assert!(ip(&format!("-n {} addr add {address} dev eth1", namespace.name)).status.success());
    }
    std::fs::write(&conf, understudy(&words).stdout).unwrap();
    let conf = conf.display().to_string();
    let released =
        namespace.understudy(&["vip", "release", "--config", &conf, "--pid-file", "/nowhere/at/all"]);
    assert!(released.status.success(), "{}", text(&released.stderr));
    for address in addresses {
        let ip = address.split('/').next().unwrap();
        assert!(!namespace.has(ip), "{ip}: {}", text(&released.stdout));
    }
}

/// The essential ones; `understudy lab vip` alone runs all of them.
const SCENARIOS: [&str; 4] = ["seed", "return", "partition", "keepalived-kill-supervised"];

#[test]
fn the_address_moves_as_it_must_and_never_has_two_holders() {
    if !rustix::process::geteuid().is_root() {
        println!("the_address_moves_as_it_must is skipped: network namespaces need root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("vip.json");
    let output = Command::new(BIN)
        .args(["lab", "vip", "--ip", "both", "--scenario", &SCENARIOS.join(","), "--json"])
        .arg(&json)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["broken"], Value::Array(vec![]));
    let outcomes = report["outcomes"].as_array().unwrap();
    assert_eq!(outcomes.len(), SCENARIOS.len());
    for (outcome, scenario) in outcomes.iter().zip(SCENARIOS) {
        assert_eq!(
            (&outcome["scenario"], &outcome["wrong"]),
            (&scenario.into(), &Value::Array(vec![])),
            "{outcome}"
        );
        assert_eq!(outcome["to"].as_array().unwrap().len(), 1, "one holder: {outcome}");
        let families = if scenario == "seed" { 1 } else { 2 };
        assert_eq!(outcome["addresses"].as_array().unwrap().len(), families, "{outcome}");
        if scenario != "seed" {
            let overlaps = outcome["overlaps"].as_array().unwrap();
            // One that is cut off may keep it for a moment longer; nobody can reach both.
            assert!(overlaps.iter().all(|overlap| overlap["reachable"] == false), "never two: {outcome}");
        }
        let moves = scenario != "return";
        for figure in ["left_ms", "moved_ms", "answered_ms"] {
            assert_eq!(outcome[figure].is_number(), moves, "{figure}: {outcome}");
        }
    }
    let states = |at: usize, node: &str| outcomes[at]["states"][node].as_str().unwrap();
    assert_eq!(states(0, "db2"), "now fault");
    // Equal priorities: which of the two others it is, the seed leaves to chance.
    let mut others = [states(0, "db1"), states(0, "db3")];
    others.sort_unstable();
    assert_eq!(others, ["now backup", "now master"]);
    assert_eq!(
        (states(1, "db2"), states(2, "db2"), states(2, "db1")),
        ("now backup", "now fault", "now master")
    );
}

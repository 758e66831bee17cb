//! Places and names: sockets, addresses, directories, units.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use fixture::{Family, free_port, without_family};
use testbed::program::{bin, run};

use super::DOWN;
use super::asking::{code, get};
use super::check_dir::CheckDir;
use super::running::Running;

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
/// As a service's: the journal's, which its parent writes to as well.
#[test]
fn a_socket_that_is_no_clients_is_left_open() {
    let check_dir = CheckDir::new("host=127.0.0.1\nport=1");
    let (mut journal, mut parents) = UnixStream::pair().unwrap();
    let own = |stream: &UnixStream| Stdio::from(OwnedFd::from(stream.try_clone().unwrap()));
    let mut command = check_dir.command("understudy");
    command.args(["check", "--once", "--defaults-file"]).arg(check_dir.path("quiet.cnf"));
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
    let check_dir = CheckDir::new("host=127.0.0.1\nport=1");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let check = |args: &[&str]| run(check_dir.command("understudy").arg("check").args(args));
    let said = check(&["--listen", &taken]).with(1);
    assert!(said.contains(&format!("cannot listen on {taken}: the port is in use")), "{said}");
    let said = check(&["--listen", "localhost"]).with(2);
    assert!(said.contains("write it as ADDRESS:PORT"), "{said}");
    let said = check(&["--agent", "192.0.2.1:80"]).with(1);
    assert!(said.contains("this machine has no such address"), "{said}");
}

#[test]
fn a_machine_without_ipv6_is_told_where_to_listen_instead() {
    let check_dir = CheckDir::new("host=127.0.0.1\nport=1");
    without_family(Family::Ipv6, || {
        let said = run(check_dir.command("understudy").args(["check", "--listen", "[::]:9200"])).with(1);
        assert!(
            said.contains("cannot listen on [::]:9200: this machine does not have IPv6 switched on; listen on 0.0.0.0:9200 instead"),
            "{said}"
        );
        let mut command = check_dir.command("understudy");
        command
            .args(["check", "--listen", "localhost:0", "--defaults-file"])
            .arg(check_dir.path("quiet.cnf"));
        let running = Running::start(&check_dir, command);
        assert_eq!(code(running.address("http://")), "503");
        running.stop();
    });
}

#[test]
fn two_databases_and_two_checks_are_not_mixed_up() {
    let (one, other) = (CheckDir::new("host=127.0.0.1\nport=1"), free_port());
    // The same directory for all sockets, as on a real machine.
    one.write("other.cnf", &format!("[client]\nhost=127.0.0.1\nport={other}\n"));
    let (check, http) = Running::check(&one, &[]);
    assert_eq!(fs::read_dir(one.path("run")).unwrap().count(), 1);
    let asked = || {
        let metrics = get(http, "/metrics");
        let count = metrics
            .split("\nunderstudy_check_answers_total{answer=\"bad\"} ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap();
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
        .args([flags, bin(), "check", "--once", "--defaults-file"])
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

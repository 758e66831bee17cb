//! The ways in which a check is started for each client: xinetd, and systemd.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use fixture::{Server, free_port};
use testbed::program::{bin, run, until};

use super::asking::{local, say, try_say};
use super::check_dir::CheckDir;
use super::node::synced;
use super::running::Ending;
use super::{DOWN, UP};

/// The real xinetd and systemd's own starter, each with a client's socket or a listening one.
pub fn through_xinetd_and_systemd(server: &Server, check_dir: &CheckDir) {
    let user = run(Command::new("id").arg("-un")).out;
    let (program, user, run_dir) = (check_dir.text("clustercheck"), user.trim(), check_dir.text("run"));
    let port = free_port();
    let ours = |line: &str| {
        let value = match line.split_whitespace().next()? {
            "port" => port.to_string(),
            "user" => user.to_owned(),
            "server" => program.clone(),
            "env" => format!(
                "MYSQL_USERNAME=clustercheck MYSQL_PASSWORD=password UNDERSTUDY_RUN_DIR={run_dir} DEFAULTS_EXTRA_FILE={} \
                 UNDERSTUDY_DISABLED_FILE={}",
                check_dir.text("place.cnf"),
                check_dir.text("disabled")
            ),
            _ => return None,
        };
        Some(format!("{}= {value}", line.split('=').next()?))
    };
    let shipped = include_str!("../../../../../contrib/mysqlchk").lines();
    let lines: Vec<String> = shipped.map(|line| ours(line).unwrap_or_else(|| line.to_owned())).collect();
    let file = check_dir.write("xinetd.conf", &(lines.join("\n") + "\n"));
    let mut xinetd = Command::new("setpriv");
    xinetd.args(["--pdeathsig", "KILL", "xinetd", "-dontfork", "-stayalive", "-f"]).arg(file);
    xinetd
        .arg("-pidfile")
        .arg(check_dir.path("xinetd.pid"))
        .arg("-filelog")
        .arg(check_dir.path("xinetd.log"));
    answers_each_client(server, &mut xinetd, port);

    // Accept=yes: the drop-in gets the client as its standard input and output.
    let port = free_port();
    let mut each = Command::new("setpriv");
    check_dir.furnish(&mut each).args([
        "--pdeathsig",
        "KILL",
        "systemd-socket-activate",
        "--accept",
        "--inetd",
    ]);
    each.args(["-E", "HOME", "-E", "DEFAULTS_EXTRA_FILE", "-E", "UNDERSTUDY_RUN_DIR"]);
    each.arg(format!("--listen=127.0.0.1:{port}")).args([&program, "clustercheck", "password", "0"]);
    answers_each_client(server, &mut each, port);

    // Accept=no: a running check gets the listening sockets, by name.
    let (port, agent) = (free_port(), free_port());
    let mut all = Command::new("setpriv");
    check_dir.furnish(&mut all).args([
        "--pdeathsig",
        "KILL",
        "systemd-socket-activate",
        "-E",
        "UNDERSTUDY_RUN_DIR",
    ]);
    all.arg(format!("--listen=127.0.0.1:{port}"))
        .arg(format!("--listen=127.0.0.1:{agent}"))
        .arg("--fdname=http:agent");
    all.args([bin(), "check", "--defaults-file", &check_dir.text("quiet.cnf")]);
    let mut all = Ending(all.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let first = until("systemd's starter", || try_say(local(port), b"GET / HTTP/1.0\r\n\r\n").ok());
    assert_eq!(first, UP);
    assert_eq!(say(local(agent), b"\n"), "ready up\n");
    all.end();
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
    // More at once than xinetd's default takes in a second, above which it would close the port for 10 s.
    std::thread::scope(|scope| {
        let crowd: Vec<_> =
            (0..120).map(|_| scope.spawn(|| say(local(port), b"GET / HTTP/1.0\r\n\r\n"))).collect();
        assert!(crowd.into_iter().all(|client| client.join().unwrap() == UP));
    });
    // More than the program reads before it answers: the answer comes through all the same.
    assert_eq!(say(local(port), &b"x".repeat(60_000)), UP);
    server.sql("SET GLOBAL wsrep_desync = ON");
    assert_eq!(say(local(port), b"GET / HTTP/1.0\r\n\r\n"), DOWN);
    server.sql("SET GLOBAL wsrep_desync = OFF");
    synced(server);
    starter.end();
}

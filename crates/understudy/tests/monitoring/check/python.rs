//! The Python server's options and bytes.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use fixture::{Server, free_port};
use testbed::program::{run, until};

use super::asking::{get, local, response, say};
use super::check_dir::CheckDir;
use super::running::Running;

/// The Python server's options and bytes.
pub fn python(server: &Server, check_dir: &CheckDir) {
    let conf = check_dir.text("quiet.cnf");
    let port = free_port().to_string();
    let (python, http) = Running::pyclustercheck(check_dir, |command| {
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
    check_dir.write(
        "sysconfig",
        &format!("AWD=1\nDWRO=true\nCACHE=0\nCNF={conf}\nPORT={port}\nIPv4=\"127.0.0.1\"\n"),
    );
    let (python, http) =
        Running::pyclustercheck(check_dir, |command| _ = command.env("WATCHDOG_USEC", "200000"));
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
    fs::remove_file(check_dir.path("sysconfig")).unwrap();

    let port = free_port().to_string();
    let (python, http) = Running::pyclustercheck(check_dir, |command| {
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
        let said = run(check_dir.command("pyclustercheck").args(args)).with(2);
        assert!(said.contains(expect), "{args:?}: {said}");
    }
}

//! Clients that others wrote tell the same directly and through Understudy, under TLS, also beside switchovers: those of `clients/` that are packages of
//! Debian, one of each family. `make test-clients` has all of them, on every server.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testbed::program::{bin, run_within};

const CLIENTS: &str = "PyMySQL of Debian,Perl DBD::mysql,PHP mysqli,Ruby mysql2,programs of MariaDB 10.11";
const LIMIT: Duration = Duration::from_secs(170);

#[test]
fn a_client_of_each_family_tells_the_same_through_understudy() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/run.py");
    let out = tempfile::tempdir().unwrap();
    // Ended with this test, and its cluster with it.
    let ended = run_within(
        Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "/usr/bin/python3"])
            .arg(run)
            .args(["--program", bin(), "--servers", "host", "--clients", CLIENTS, "--tls", "on"])
            .args(["--seconds", "6", "--out"])
            .arg(out.path()),
        LIMIT,
    );
    println!("{}", ended.out);
    assert_eq!(ended.code, 0, "{}", ended.said());
}

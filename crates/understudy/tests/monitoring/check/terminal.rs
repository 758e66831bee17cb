//! A check whose log nobody reads any more, as after the end of the terminal that it was started from.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use testbed::program::bin;

use super::asking::code;
use super::check_dir::CheckDir;
use super::running::Ending;

/// SIGHUP comes with the terminal's end, and what is logged of it cannot be written: the check answers on.
#[test]
fn the_end_of_whoever_reads_the_log_ends_no_check() {
    let check_dir = CheckDir::new("host=127.0.0.1\nport=1");
    let mut command = Command::new("setpriv");
    check_dir.furnish(&mut command);
    let child = command
        .args(["--pdeathsig", "KILL", bin(), "check", "--listen", "127.0.0.1:0", "--defaults-file"])
        .arg(check_dir.path("quiet.cnf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ending(child);
    let mut log = BufReader::new(child.0.stderr.take().unwrap());
    let mut line = String::new();
    let address = loop {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it ended");
        let said = line.split("answering on http://").nth(1);
        if let Some(address) = said.and_then(|said| said.split_whitespace().next()) {
            break address.trim_end_matches(',').parse().unwrap();
        }
    };
    drop(log);
    for _ in 0..3 {
        let told = Command::new("kill").args(["-HUP", &child.0.id().to_string()]).status().unwrap();
        assert!(told.success());
        assert_eq!(code(address), "503");
        assert!(child.0.try_wait().unwrap().is_none(), "it runs");
    }
    child.end();
    assert_eq!(child.0.try_wait().unwrap().and_then(|status| status.code()), Some(0));
}

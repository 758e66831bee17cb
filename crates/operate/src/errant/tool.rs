//! Runs `mariadb-binlog`: fetches binlogs from a server, and converts a part of one to SQL.
//!
//! The login is passed as an option file on standard input, so that it is on no command line and on no disk.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::file::Transaction;
use super::work::Work;
use cli::exit::Failure;

/// The program.
const PROGRAM: &str = "mariadb-binlog";
/// The option file with the login.
const STDIN: &str = "/dev/stdin";

/// How a server is asked for its binlogs.
pub struct BinlogLogin {
    /// One with REPLICATION SLAVE.
    pub account: manager::Account,
    /// `cluster.tls_ca_file`.
    pub ca_file: Option<PathBuf>,
}

impl BinlogLogin {
    /// The option file of a client that logs in at `host`.
    fn options(&self, host: &str, port: &str) -> String {
        let (user, password) = (quoted(&self.account.user), quoted(&self.account.password));
        let login = format!(
            "[client]\nhost={}\nport={port}\nprotocol=tcp\nuser={user}\npassword={password}\n",
            quoted(host)
        );
        match (&self.account.tls, &self.ca_file) {
            (None, _) => login,
            (Some(_), None) => format!("{login}ssl=1\nssl-verify-server-cert=0\n"),
            (Some(_), Some(file)) => {
                let file = quoted(&file.display().to_string());
                format!("{login}ssl=1\nssl-verify-server-cert=1\nssl-ca={file}\n")
            }
        }
    }
}

/// Fetches binlogs into the directory, under their own names.
pub fn fetch(work: &Work, address: &str, login: &BinlogLogin, files: &[String]) -> Result<(), Failure> {
    let (host, port) = address
        .rsplit_once(':')
        .ok_or_else(|| Failure::Failed(format!("{address} is no address that can be asked")))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut command = Command::new(PROGRAM);
    command.arg(format!("--defaults-file={STDIN}")).args(["--read-from-remote-server", "--raw"]);
    command.arg(format!("--result-file={}/", work.dir().display())).args(files);
    run(&mut command, &login.options(host, port)).map(drop)
}

/// The SQL of fetched binlogs, from a byte of the first one up to a byte of the last one.
pub fn sql(
    work: &Work,
    files: &[&str],
    from: u64,
    to: Option<u64>,
    more: &[&str],
) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(PROGRAM);
    command.arg("--no-defaults").args(more).arg(format!("--start-position={from}"));
    command.args(to.map(|to| format!("--stop-position={to}")));
    command.args(files.iter().map(|file| work.path(file)));
    run(&mut command, "")
}

/// The parts of the binlogs with these transactions; adjacent ones are merged: file, first byte, byte after the last one.
pub fn parts(transactions: &[Transaction]) -> Vec<(&str, u64, u64)> {
    let mut parts: Vec<(&str, u64, u64)> = Vec::new();
    for one in transactions {
        match parts.last_mut() {
            Some((file, _, end)) if *file == one.file && *end == one.begins => *end = one.ends,
            _ => parts.push((&one.file, one.begins, one.ends)),
        }
    }
    parts
}

/// Runs the command with `input` on its standard input.
fn run(command: &mut Command, input: &str) -> Result<Vec<u8>, Failure> {
    let output = fed(command, input).map_err(|error| {
        let what = if error.kind() == std::io::ErrorKind::NotFound {
            "is not installed: apt-get install mariadb-client".to_owned()
        } else {
            format!("does not run: {error}")
        };
        Failure::Failed(format!("{PROGRAM} {what}"))
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
    Err(Failure::Failed(format!("{PROGRAM} failed: {said}")))
}

fn fed(command: &mut Command, input: &str) -> std::io::Result<Output> {
    // Times in the output are UTC, as everywhere.
    command.env("TZ", "UTC").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // The input fits into the pipe's buffer. A program that ends before it has read it prints the reason.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

/// Quotes a value for an option file.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text + "\""
}

/// The path of a fetched binlog.
pub fn fetched(work: &Work, file: &str) -> PathBuf {
    Path::new(work.dir()).join(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_part() {
        let at = |file: &str, begins, ends| Transaction {
            file: file.into(),
            begins,
            ends,
            ..Transaction::of("0-1-1".parse().unwrap())
        };
        let all = [at("a", 4, 10), at("a", 10, 20), at("a", 30, 40), at("b", 40, 50)];
        assert_eq!(parts(&all), [("a", 4, 20), ("a", 30, 40), ("b", 40, 50)]);
    }

    #[test]
    fn a_password_of_any_kind_is_one_value() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("login.cnf");
        for password in ["plain", "a#b", "a\"b\\c", " sp ace ", "tail\\", "'quoted'", "x\\ny"] {
            std::fs::write(&file, format!("[client]\npassword={}\n", quoted(password))).unwrap();
            let options = mycnf::Options::of_file(&file).unwrap();
            assert_eq!(options.password.as_deref(), Some(password));
        }
    }
}

//! One address in two settings: neither could be told apart from "another program has the port" when it is opened.

use super::document::Document;
use super::table::{self as t, Row, Setting};

/// Everything that listens.
const LISTENING: [&Setting<Vec<String>>; 6] = [
    &t::LISTEN_MYSQL,
    &t::LISTEN_READ,
    &t::LISTEN_HTTP,
    &t::LISTEN_HTTPS,
    &t::LISTEN_HEALTH,
    &t::LISTEN_AGENT,
];

/// Notes each pair of settings that name the same port of the same address.
pub(super) fn check(document: &mut Document) {
    let mut all: Vec<(&Row, String)> = Vec::new();
    for row in LISTENING.into_iter().filter(|row| !document.is_wrong(row)) {
        all.extend(document.get(row).into_iter().map(|address| (&row.row, address)));
    }
    let mut problems = Vec::new();
    for (at, (row, address)) in all.iter().enumerate() {
        // Within one list, `[::]` beside `0.0.0.0` is allowed.
        let other = all[..at].iter().find(|(other, theirs)| other.path != row.path && meet(theirs, address));
        let Some((other, theirs)) = other else { continue };
        let of = |row: &Row| match document.line(row.path) {
            Some(line) => format!("on line {line}"),
            None => "its default".to_owned(),
        };
        // The one that the file sets is the one to change.
        let line = document.line(row.path).or(document.line(other.path));
        let text = format!(
            "{} {address} ({}) and {} {theirs} ({}) are the same port: give each a port of its own",
            row.path,
            of(row),
            other.path,
            of(other)
        );
        problems.push((line, text));
    }
    for (line, text) in problems {
        document.problem(line, text);
    }
}

/// Whether only one of two could listen. Names are not looked up: those that are written alike meet.
fn meet(one: &str, other: &str) -> bool {
    let (Some((one, port)), Some((other, other_port))) = (one.rsplit_once(':'), other.rsplit_once(':'))
    else {
        return false;
    };
    // Port 0 is any that is free.
    if port != other_port || port.bytes().all(|b| b == b'0') {
        return false;
    }
    let is_v6 = |host: &str| host.starts_with('[');
    let takes = |host: &str, whom: &str| match host {
        "[::]" => true,
        "0.0.0.0" => !is_v6(whom),
        "localhost" => matches!(whom, "127.0.0.1" | "[::1]"),
        _ => host == whom,
    };
    takes(one, other) || takes(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_one_port_meets() {
        for (one, other, is) in [
            ("127.0.0.1:6033", "127.0.0.1:6033", true),
            ("0.0.0.0:6033", "127.0.0.1:6033", true),
            ("127.0.0.1:6033", "[::]:6033", true),
            ("localhost:6033", "127.0.0.1:6033", true),
            ("127.0.0.1:6033", "127.0.0.1:6034", false),
            ("127.0.0.1:6033", "[::1]:6033", false),
            ("0.0.0.0:6033", "[::1]:6033", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("127.0.0.1:6033", "127.0.0.2:6033", false),
        ] {
            assert_eq!(meet(one, other), is, "{one} {other}");
        }
    }
}

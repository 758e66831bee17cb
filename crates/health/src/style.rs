//! How an answer is written: clustercheck's bytes, its Percona fork's, pyclustercheck's, or JSON.
//!
//! Sources of every byte: the scripts themselves, `clustercheck` (olafz/percona-clustercheck), `clustercheck.sh` (Percona XtraDB
//! Cluster) and `clustercheck.py` of pyclustercheck's twisted branch, as described in seed-tools.md, sections 1 and 2.

use std::io::Write;

use serde_json::json;

use crate::answer::{Answer, Kind};

/// Whose bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// The shell script: text/plain, CRLF after the body, the connection is closed.
    #[default]
    Clustercheck,
    /// Percona XtraDB Cluster's version of it: one sentence for every failure.
    Pxc,
    /// The Python server: text/html, X-Cache headers, connections are kept open.
    Pyclustercheck,
}

/// How the head of a response is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The connection stays open after it.
    pub keep: bool,
    /// Only the head is wanted (HEAD).
    pub head_only: bool,
}

impl Style {
    /// The body, with what the style puts behind it.
    pub fn body(self, kind: Kind) -> &'static str {
        match (self, kind) {
            // No tool that is replaced here speaks of anything but a node.
            (_, Kind::TakesClients) => "Understudy takes clients.\r\n",
            (Self::Clustercheck | Self::Pxc, Kind::Good) => "Percona XtraDB Cluster Node is synced.\r\n",
            (Self::Clustercheck, Kind::NotSynced | Kind::Unknown | Kind::Unasked | Kind::Doubted) => {
                "Percona XtraDB Cluster Node is not synced.\r\n"
            }
            (Self::Clustercheck, Kind::ReadOnly) => "Percona XtraDB Cluster Node is read-only.\r\n",
            (Self::Clustercheck, Kind::Disabled) => "Percona XtraDB Cluster Node is manually disabled.\r\n",
            // The space before the line's end is Percona's.
            (Self::Pxc, _) => "Percona XtraDB Cluster Node is not synced or non-PRIM. \r\n",
            (Self::Pyclustercheck, Kind::Good) => "Percona XtraDB Cluster Node is synced.",
            (Self::Pyclustercheck, Kind::NotSynced | Kind::Disabled) => {
                "Percona XtraDB Cluster Node is not synced."
            }
            (Self::Pyclustercheck, Kind::ReadOnly | Kind::Unknown | Kind::Unasked | Kind::Doubted) => {
                "Percona XtraDB Cluster Node state could not be retrieved."
            }
        }
    }

    /// A whole response.
    pub fn write(self, answer: &Answer, manner: Manner, out: &mut Vec<u8>) {
        let body = self.body(answer.kind);
        let status = status_line(answer.is_good());
        match self {
            Self::Clustercheck | Self::Pxc => {
                let connection = if manner.keep { "keep-alive" } else { "close" };
                put(out, &[status, "Content-Type: text/plain\r\nConnection: ", connection, "\r\n"]);
            }
            Self::Pyclustercheck => {
                put(out, &[status, "Server: PXC Python clustercheck / 2.0\r\n"]);
                // The original counts down from its cache time; ours is never older than the age that it tells, as zero or less.
                let is_cached = if answer.age.is_zero() { "False" } else { "True" };
                let age_s = answer.age.as_secs();
                let sign = if age_s == 0 { "" } else { "-" };
                // Writing to memory does not fail.
                let _ = write!(out, "X-Cache-TTL: {sign}{age_s}\r\nX-Cache: {is_cached}\r\n");
                let connection = if manner.keep { "" } else { "Connection: close\r\n" };
                put(out, &["Content-Type: text/html\r\n", connection]);
            }
        }
        end(out, body, manner);
    }

    /// What the command prints: as the style's own server says it to a client that is closed afterwards.
    pub fn text(self, answer: &Answer) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(answer, Manner { keep: false, head_only: false }, &mut out);
        out
    }
}

/// A response in plain words: `/writer`, `/replica`, errors.
pub fn plain(status: &str, body: &str, manner: Manner, out: &mut Vec<u8>) {
    let connection = if manner.keep { "keep-alive" } else { "close" };
    let head = ["HTTP/1.1 ", status, "\r\nContent-Type: text/plain\r\nConnection: ", connection, "\r\n"];
    put(out, &head);
    end(out, body, manner);
}

/// What `/writer` and `/replica` answer: the reason, and in the head how far a replica is behind, in seconds.
pub fn role_typed(answer: &Answer, manner: Manner, out: &mut Vec<u8>) {
    let body = format!("{}\r\n", answer.reason);
    let connection = if manner.keep { "keep-alive" } else { "close" };
    put(
        out,
        &[status_line(answer.is_good()), "Content-Type: text/plain\r\nConnection: ", connection, "\r\n"],
    );
    if let Some(lag) = answer.lag {
        // Writing to memory does not fail.
        let _ = write!(out, "X-Replication-Lag: {:.3}\r\n", lag.as_secs_f64());
    }
    end(out, &body, manner);
}

/// A response of another type.
pub fn typed(is_good: bool, kind: &str, body: &str, manner: Manner, out: &mut Vec<u8>) {
    let connection = if manner.keep { "keep-alive" } else { "close" };
    put(out, &[status_line(is_good), "Content-Type: ", kind, "\r\nConnection: ", connection, "\r\n"]);
    end(out, body, manner);
}

/// What `/writer` and `/replica` answer to a client that is closed afterwards.
pub fn role(answer: &Answer) -> Vec<u8> {
    let mut out = Vec::new();
    let manner = Manner { keep: false, head_only: false };
    role_typed(answer, manner, &mut out);
    out
}

/// The answer alone, for programs: what `check --once` asks a running server for.
pub fn json(answer: &Answer) -> String {
    json!({
        "good": answer.is_good(),
        "kind": answer.kind,
        "reason": *answer.reason,
        "age_ms": answer.age.as_millis() as u64,
    })
    .to_string()
}

fn status_line(is_good: bool) -> &'static str {
    if is_good { "HTTP/1.1 200 OK\r\n" } else { "HTTP/1.1 503 Service Unavailable\r\n" }
}

fn put(out: &mut Vec<u8>, pieces: &[&str]) {
    for piece in pieces {
        out.extend_from_slice(piece.as_bytes());
    }
}

fn end(out: &mut Vec<u8>, body: &str, manner: Manner) {
    let _ = write!(out, "Content-Length: {}\r\n\r\n", body.len());
    if !manner.head_only {
        out.extend_from_slice(body.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(style: Style, kind: Kind) -> String {
        String::from_utf8(style.text(&Answer::new(kind, "because", Duration::from_millis(1500)))).unwrap()
    }

    #[test]
    fn clustercheck_to_the_byte() {
        let up = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 40\r\n\r\n\
                  Percona XtraDB Cluster Node is synced.\r\n";
        assert_eq!(text(Style::Clustercheck, Kind::Good), up);
        let down = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n";
        for (kind, length, body) in [
            (Kind::NotSynced, 44, "Percona XtraDB Cluster Node is not synced.\r\n"),
            (Kind::Unknown, 44, "Percona XtraDB Cluster Node is not synced.\r\n"),
            (Kind::ReadOnly, 43, "Percona XtraDB Cluster Node is read-only.\r\n"),
            (Kind::Disabled, 51, "Percona XtraDB Cluster Node is manually disabled.\r\n"),
        ] {
            assert_eq!(
                text(Style::Clustercheck, kind),
                format!("{down}Content-Length: {length}\r\n\r\n{body}")
            );
        }
        let fork = format!(
            "{down}Content-Length: 57\r\n\r\nPercona XtraDB Cluster Node is not synced or non-PRIM. \r\n"
        );
        assert_eq!(text(Style::Pxc, Kind::Disabled), fork);
    }

    #[test]
    fn pyclustercheck_has_its_headers() {
        let said = text(Style::Pyclustercheck, Kind::Unknown);
        let head = "HTTP/1.1 503 Service Unavailable\r\nServer: PXC Python clustercheck / 2.0\r\nX-Cache-TTL: -1\r\n\
                    X-Cache: True\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 57\r\n\r\n";
        assert_eq!(said, format!("{head}Percona XtraDB Cluster Node state could not be retrieved."));
    }

    #[test]
    fn a_head_has_the_length_and_no_body() {
        let mut out = vec![];
        let answer = Answer::new(Kind::Good, "", Duration::ZERO);
        Style::Clustercheck.write(&answer, Manner { keep: true, head_only: true }, &mut out);
        let said = String::from_utf8(out).unwrap();
        assert!(said.contains("Connection: keep-alive\r\nContent-Length: 40\r\n"), "{said}");
        assert!(said.ends_with("\r\n\r\n"), "{said}");
    }
}

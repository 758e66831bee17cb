//! The styles in which an answer is written: the bytes of clustercheck, of its Percona fork, of pyclustercheck, or JSON.
//!
//! Sources of every byte: the scripts themselves, `clustercheck` (olafz/percona-clustercheck), `clustercheck.sh` (Percona XtraDB
//! Cluster) and `clustercheck.py` of pyclustercheck's twisted branch, as described in seed-tools.md, sections 1 and 2.

use std::io::Write;

use serde_json::json;

use crate::answer::{Answer, AnswerKind};

/// The format of the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// The shell script: text/plain, CRLF at the end of the body, the connection is closed.
    #[default]
    Clustercheck,
    /// Percona XtraDB Cluster's version of it: the same sentence for every failure.
    Pxc,
    /// The Python server: text/html, X-Cache headers, connections are kept open.
    Pyclustercheck,
}

/// How a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The connection is kept open after the response.
    pub keep: bool,
    /// Only the head is wanted (HEAD).
    pub head_only: bool,
}

impl Style {
    /// The body, with the line end of the style.
    pub fn body(self, kind: AnswerKind) -> &'static str {
        match (self, kind) {
            // The original tools answer about nodes only, so they have no such text.
            (_, AnswerKind::TakesClients) => "Understudy takes clients.\r\n",
            (Self::Clustercheck | Self::Pxc, AnswerKind::Good) => {
                "Percona XtraDB Cluster Node is synced.\r\n"
            }
            (
                Self::Clustercheck,
                AnswerKind::NotSynced | AnswerKind::Unknown | AnswerKind::Unasked | AnswerKind::Doubted,
            ) => "Percona XtraDB Cluster Node is not synced.\r\n",
            (Self::Clustercheck, AnswerKind::ReadOnly) => "Percona XtraDB Cluster Node is read-only.\r\n",
            (Self::Clustercheck, AnswerKind::Disabled) => {
                "Percona XtraDB Cluster Node is manually disabled.\r\n"
            }
            // The space at the end of the line is in Percona's script.
            (Self::Pxc, _) => "Percona XtraDB Cluster Node is not synced or non-PRIM. \r\n",
            (Self::Pyclustercheck, AnswerKind::Good) => "Percona XtraDB Cluster Node is synced.",
            (Self::Pyclustercheck, AnswerKind::NotSynced | AnswerKind::Disabled) => {
                "Percona XtraDB Cluster Node is not synced."
            }
            (
                Self::Pyclustercheck,
                AnswerKind::ReadOnly | AnswerKind::Unknown | AnswerKind::Unasked | AnswerKind::Doubted,
            ) => "Percona XtraDB Cluster Node state could not be retrieved.",
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
                // The original counts down the rest of its cache time. There is no cache here: the header has the age of the state in whole
                // seconds, as a negative number or zero.
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

    /// The output of the command: the same bytes as the server sends on a connection that it closes afterwards.
    pub fn text(self, answer: &Answer) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(answer, Manner { keep: false, head_only: false }, &mut out);
        out
    }
}

/// A plain-text response; used for errors.
pub fn plain(status: &str, body: &str, manner: Manner, out: &mut Vec<u8>) {
    let connection = if manner.keep { "keep-alive" } else { "close" };
    let head = ["HTTP/1.1 ", status, "\r\nContent-Type: text/plain\r\nConnection: ", connection, "\r\n"];
    put(out, &head);
    end(out, body, manner);
}

/// The answer to `/writer` and `/replica`: the reason, and in a header how far a replica is behind, in seconds.
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

/// A response with the content type `kind`.
pub fn typed(is_good: bool, kind: &str, body: &str, manner: Manner, out: &mut Vec<u8>) {
    let connection = if manner.keep { "keep-alive" } else { "close" };
    put(out, &[status_line(is_good), "Content-Type: ", kind, "\r\nConnection: ", connection, "\r\n"]);
    end(out, body, manner);
}

/// The answer to `/writer` and `/replica` on a connection that is closed afterwards.
pub fn role(answer: &Answer) -> Vec<u8> {
    let mut out = Vec::new();
    let manner = Manner { keep: false, head_only: false };
    role_typed(answer, manner, &mut out);
    out
}

/// The answer alone as JSON, for programs: `check --once` queries a running server for it.
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

    fn text(style: Style, kind: AnswerKind) -> String {
        String::from_utf8(style.text(&Answer::new(kind, "because", Duration::from_millis(1500)))).unwrap()
    }

    #[test]
    fn clustercheck_to_the_byte() {
        let up = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 40\r\n\r\n\
                  Percona XtraDB Cluster Node is synced.\r\n";
        assert_eq!(text(Style::Clustercheck, AnswerKind::Good), up);
        let down = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n";
        for (kind, length, body) in [
            (AnswerKind::NotSynced, 44, "Percona XtraDB Cluster Node is not synced.\r\n"),
            (AnswerKind::Unknown, 44, "Percona XtraDB Cluster Node is not synced.\r\n"),
            (AnswerKind::ReadOnly, 43, "Percona XtraDB Cluster Node is read-only.\r\n"),
            (AnswerKind::Disabled, 51, "Percona XtraDB Cluster Node is manually disabled.\r\n"),
        ] {
            assert_eq!(
                text(Style::Clustercheck, kind),
                format!("{down}Content-Length: {length}\r\n\r\n{body}")
            );
        }
        let fork = format!(
            "{down}Content-Length: 57\r\n\r\nPercona XtraDB Cluster Node is not synced or non-PRIM. \r\n"
        );
        assert_eq!(text(Style::Pxc, AnswerKind::Disabled), fork);
    }

    #[test]
    fn pyclustercheck_has_its_headers() {
        let said = text(Style::Pyclustercheck, AnswerKind::Unknown);
        let head = "HTTP/1.1 503 Service Unavailable\r\nServer: PXC Python clustercheck / 2.0\r\nX-Cache-TTL: -1\r\n\
                    X-Cache: True\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 57\r\n\r\n";
        assert_eq!(said, format!("{head}Percona XtraDB Cluster Node state could not be retrieved."));
    }

    #[test]
    fn a_head_has_the_length_and_no_body() {
        let mut out = vec![];
        let answer = Answer::new(AnswerKind::Good, "", Duration::ZERO);
        Style::Clustercheck.write(&answer, Manner { keep: true, head_only: true }, &mut out);
        let said = String::from_utf8(out).unwrap();
        assert!(said.contains("Connection: keep-alive\r\nContent-Length: 40\r\n"), "{said}");
        assert!(said.ends_with("\r\n\r\n"), "{said}");
    }
}

//! What the seed's HAProxy asked: clustercheck, as small as a baseline needs it.
//!
//! One HTTP listener a node, on loopback. Each request is one login at the node and one look at `wsrep_local_state`, as the
//! original script does it under xinetd: 200 when it is 4 (Synced), else 503; a donor, a joining node and one that lost the
//! primary component are no good. A node that does not answer gets no answer here: the asker's own time limit is the verdict,
//! as with a script that hangs.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Context;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::load::session::Target;

/// Longer than the asker waits: it gives up first.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request's head.
const HEAD_MAX: usize = 4096;

/// Answers for one node until it is dropped.
pub struct Responder {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    task: JoinHandle<()>,
}

impl Responder {
    /// `node`: where to ask, as whom; the account needs no rights.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(node: Target) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
            .await
            .context("no free port for the cluster check")?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let node = node.clone();
                open.spawn(async move {
                    // An asker that left needs no answer.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &node)).await;
                });
                while open.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, task })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, node: &Target) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 512];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < HEAD_MAX {
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    let state = ask(node).await;
    stream.write_all(reply(state.as_deref().ok()).as_bytes()).await?;
    stream.shutdown().await
}

async fn ask(node: &Target) -> mysql_async::Result<String> {
    let mut conn = Conn::new(node.opts()).await?;
    let row: Option<(String, String)> = conn.query_first("SHOW STATUS LIKE 'wsrep_local_state'").await?;
    conn.disconnect().await?;
    Ok(row.map(|(_, state)| state).unwrap_or_default())
}

/// The words are clustercheck's.
fn reply(state: Option<&str>) -> String {
    let (status, word) = match state {
        Some("4") => ("200 OK", "synced"),
        _ => ("503 Service Unavailable", "not synced"),
    };
    let body = format!("Percona XtraDB Cluster Node is {word}.\r\n");
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_synced_node_is_good() {
        assert!(reply(Some("4")).starts_with("HTTP/1.1 200 OK\r\n"));
        for state in [Some("2"), Some("0"), Some(""), None] {
            assert!(reply(state).starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{state:?}");
        }
    }

    #[tokio::test]
    async fn a_node_that_refuses_is_not_good() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = closed.local_addr().unwrap().to_string();
        drop(closed);
        let responder = Responder::start(Target::parse(&address, "x", "", "").unwrap()).await.unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", responder.port)).await.unwrap();
        stream.write_all(b"OPTIONS / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
    }
}

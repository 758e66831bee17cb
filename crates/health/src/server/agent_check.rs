//! One connection of HAProxy's agent check: one line in, one line out.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use link::Transport;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::accept::{ConnectionSlot, Entrance};
use super::http::SILENT_TIME_MAX;
use super::reply::{linger, write};
use super::respond::Responder;
use crate::agent;

/// How long an agent check may take to send a name where there is only one node.
const AGENT_SILENT_TIME_MAX: Duration = Duration::from_millis(20);

/// Serves a client that has just been accepted, on a task of its own.
pub fn welcome(stream: impl Into<Transport>, entrance: &Arc<Entrance>) {
    let place = ConnectionSlot::take(entrance);
    let stream = stream.into();
    tokio::spawn(async move {
        agent_check(stream, &place.entrance.responder).await;
        drop(place);
    });
}

/// Reads one line and writes one line.
async fn agent_check(mut stream: Transport, responder: &Responder) {
    let mut line = Vec::new();
    let read = async {
        while !line.contains(&b'\n') && line.len() < agent::LINE_BYTES_MAX {
            if stream.read_buf(&mut line).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    // Where there is one node, no name is needed, and HAProxy sends none unless it is configured to.
    let patience = if responder.several_nodes { SILENT_TIME_MAX } else { AGENT_SILENT_TIME_MAX };
    // A part of a name may be another node's whole name: an incomplete line is accepted only where there is one node.
    let is_whole = matches!(timeout(patience, read).await, Ok(Ok(()))) && line.len() < agent::LINE_BYTES_MAX;
    let name = String::from_utf8_lossy(&line);
    let name = name.lines().next().unwrap_or_default().trim();
    let said = if responder.several_nodes && (name.is_empty() || !is_whole) {
        agent::NAMELESS.to_owned()
    } else {
        agent::line(&*responder.source, name, responder.rules)
    };
    if write(&mut stream, said.as_bytes()).await.is_ok() {
        linger(&mut stream).await;
    }
}

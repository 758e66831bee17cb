//! Serves one connection: its requests one after the other, with a time limit for each part.
//!
//! A connection costs a task and a kilobyte. Its parts have time limits: a head must be complete within [`HEAD_TIME_MAX`], and a connection
//! that is kept open may be silent for [`IDLE_TIME_MAX`]. A client that sends nothing at all gets the plain answer, as from the original
//! script, which never read anything; where there is one node it does not have to wait long for that ([`PLAIN_TIME_MAX`],
//! [`LINE_TIME_MAX`]). While all slots are taken, a client has [`BEYOND_TIME_MAX`] for its first request.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use link::Transport;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};
use topology::health::{Question, Rules};

use super::accept::{ConnectionSlot, Entrance};
use super::reply::{linger, write};
use super::respond::Responder;
use crate::answer::{Answer, AnswerKind};
use crate::request::{HEAD_BYTES_MAX, Request, Seen, see};

/// The time limit of a request head, from its first byte.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a silent client waits for the plain answer where there are several nodes, one of which it might still name.
pub const SILENT_TIME_MAX: Duration = Duration::from_secs(1);
/// The same where there is one node: some clients send nothing, and wait only for their own interval of a second. It must not be shorter: a
/// balancer that is busy for a moment between connecting and requesting `/writer` would take the plain answer for the answer to that.
pub const PLAIN_TIME_MAX: Duration = Duration::from_millis(500);
/// The time for the rest of a head after its first line, which has the question: some clients send only that line. Where there is one node.
pub const LINE_TIME_MAX: Duration = Duration::from_millis(200);
/// The time in which a client beyond the limit must send its request.
pub const BEYOND_TIME_MAX: Duration = Duration::from_millis(250);
/// How long a connection that is kept open may be silent.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(60);
/// How much is read at once, in bytes.
const READ_BYTES: usize = 1024;

/// Serves a client that has just been accepted, on a task of its own.
pub fn welcome(stream: impl Into<Transport>, entrance: &Arc<Entrance>) {
    let place = ConnectionSlot::take(entrance);
    let mut stream = stream.into();
    tokio::spawn(async move {
        // Errors are ignored: the client has left, or is too slow.
        let _ = converse(&place.entrance.responder, &mut stream, &place).await;
        drop(place);
    });
}

/// Requests and answers until one side ends the connection.
async fn converse(responder: &Responder, stream: &mut Transport, place: &ConnectionSlot) -> io::Result<()> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut out: Vec<u8> = Vec::new();
    let mut patience = match (place.is_beyond, responder.several_nodes) {
        (true, _) => BEYOND_TIME_MAX,
        (false, true) => SILENT_TIME_MAX,
        (false, false) => PLAIN_TIME_MAX,
    };
    let mut is_first = true;
    loop {
        let deadline = Instant::now() + patience;
        let head = tokio::select! {
            biased;
            head = read_head(responder, stream, &mut bytes, deadline) => head?,
            () = place.entrance.wanted.notified(), if !is_first => {
                if bytes.is_empty() {
                    return Ok(());
                }
                // A part of a request has arrived, so the rest is read.
                read_head(responder, stream, &mut bytes, deadline).await?
            }
            // All slots are taken: a client that has sent no request yet gives up its slot, too.
            () = place.entrance.crowded(BEYOND_TIME_MAX), if is_first => {
                // Does not wait until the client has read that, since its slot is needed.
                told_unheard(responder, stream).await?;
                return Ok(());
            }
        };
        let request = match head {
            Head::Request(request) => request,
            Head::Silent if !is_first => return Ok(()),
            // The first line has the question. Without it, the question may be about any node.
            Head::Part => match cut(&bytes, responder.rules) {
                Some(request) => request,
                None => {
                    unheard(responder, stream).await;
                    return Ok(());
                }
            },
            Head::Silent | Head::Raw => {
                // Text with a slash may be meant as a node's path, and a client with the short time limit may have been about to send one.
                let may_name_one = bytes.contains(&b'/') || (bytes.is_empty() && place.is_beyond);
                if may_name_one {
                    unheard(responder, stream).await;
                } else {
                    raw(responder, stream).await;
                }
                return Ok(());
            }
            Head::Bad(status, why) => {
                out.clear();
                responder.refuse(status, &why, bytes.starts_with(b"HEAD "), &mut out);
                write(stream, &out).await?;
                linger(stream).await;
                return Ok(());
            }
        };
        let keep = !place.is_beyond && responder.keeps(&request);
        out.clear();
        responder.answer(&request, keep, &mut out);
        bytes.drain(..request.len);
        write(stream, &out).await?;
        if !keep {
            if request.has_body || !bytes.is_empty() {
                linger(stream).await;
            }
            return Ok(());
        }
        is_first = false;
        patience = IDLE_TIME_MAX;
        // Other connections are served before the next request of this one: a client that sends requests continuously must not make them
        // wait.
        if !bytes.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

/// Reads until a head is complete, or it is clear that it will not be completed.
async fn read_head(
    responder: &Responder,
    stream: &mut Transport,
    bytes: &mut Vec<u8>,
    mut deadline: Instant,
) -> io::Result<Head> {
    let mut has_line = false;
    if !bytes.is_empty() {
        deadline = deadline.min(Instant::now() + HEAD_TIME_MAX);
    }
    loop {
        if !bytes.is_empty() {
            match see(bytes, responder.rules) {
                Seen::Part => {}
                Seen::Raw => return Ok(Head::Raw),
                Seen::Request(request) => return Ok(Head::Request(request)),
                Seen::Bad(status, why) => return Ok(Head::Bad(status, why)),
            }
        }
        if !responder.several_nodes && !has_line && bytes.contains(&b'\n') {
            has_line = true;
            deadline = deadline.min(Instant::now() + LINE_TIME_MAX);
        }
        let was_empty = bytes.is_empty();
        bytes.reserve(READ_BYTES.min(HEAD_BYTES_MAX + 1));
        match timeout_at(deadline, stream.read_buf(bytes)).await {
            // An incomplete request: it gets the answer that the original would have given.
            Err(_) if !bytes.is_empty() => return Ok(Head::Part),
            Err(_) => return Ok(Head::Silent),
            Ok(Ok(0)) if bytes.is_empty() => return Ok(Head::Silent),
            Ok(Ok(0)) => return Ok(Head::Part),
            Ok(Ok(_)) if was_empty => deadline = Instant::now() + HEAD_TIME_MAX,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
        }
    }
}

/// The plain answer to a client that did not speak HTTP.
async fn raw(responder: &Responder, stream: &mut Transport) {
    if told_plain(responder, stream).await.is_ok() {
        linger(stream).await;
    }
}

async fn told_plain(responder: &Responder, stream: &mut Transport) -> io::Result<()> {
    let Some(answer) = responder.source.answer(None, Question::Member(responder.rules)) else {
        return Ok(());
    };
    responder.count(&answer);
    write(stream, &responder.style.text(&answer)).await
}

/// The answer to a client whose request was incomplete. Where there are several nodes, it is not known which one was meant, and the 200 of
/// another node would be wrong.
async fn unheard(responder: &Responder, stream: &mut Transport) {
    if told_unheard(responder, stream).await.is_ok() {
        linger(stream).await;
    }
}

async fn told_unheard(responder: &Responder, stream: &mut Transport) -> io::Result<()> {
    if !responder.several_nodes {
        return told_plain(responder, stream).await;
    }
    let answer = Answer::new(AnswerKind::Unknown, "was not asked for to the end", Duration::ZERO);
    responder.count(&answer);
    write(stream, &responder.style.text(&answer)).await
}

enum Head {
    Request(Request),
    Raw,
    /// The beginning of a request; the rest did not arrive in time.
    Part,
    Bad(&'static str, String),
    /// Nothing was received.
    Silent,
}

/// The question in the complete lines of an incomplete request. The rest may still arrive, like a body, and is then not read.
fn cut(bytes: &[u8], rules: Rules) -> Option<Request> {
    let end = bytes.iter().rposition(|&byte| byte == b'\n')?;
    match see(&[&bytes[..=end], b"\r\n"].concat(), rules) {
        Seen::Request(request) => Some(Request { len: bytes.len(), has_body: true, ..request }),
        Seen::Part | Seen::Raw | Seen::Bad(..) => None,
    }
}

//! Reads a streamer's log, or a buffer pool dump, over HTTP.

use std::io;
use std::time::Duration;

use futures_util::TryStreamExt;
use http_body_util::{BodyDataStream, BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use tokio::io::AsyncRead;
use tokio::time::{sleep, timeout};
use tokio_util::io::StreamReader;

use crate::access::Access;
use crate::pool::{Malformed, Parser, Snapshot};

/// The time limit of connecting and receiving the response head.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// The same for a buffer pool, whose response begins after the server has dumped it.
const POOL_MAX: Duration = Duration::from_secs(330);
/// The longest pause between two parts of a buffer pool's response.
const PART_MAX: Duration = Duration::from_secs(30);
/// The interval of probing a streamer whose stream is open.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The time limit of each probe.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// After this many failed probes in a row the stream is given up.
const MISSED_MAX: u32 = 2;
/// How much of a refusal's text is read, in bytes.
const REFUSAL_BYTES_MAX: usize = 4096;

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No streamer answers there.
    #[error("no slow log is streamed at {address}: {why}; is `understudy slowlog serve` running there?")]
    Unreachable {
        /// Its address.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// The position to continue from was rotated away.
    #[error("the log at {0} no longer has the place to go on from: it was rotated away")]
    Gone(String),
    /// The streamer refused the request.
    #[error("the streamer at {address} refused ({status}): {said}")]
    Refused {
        /// Its address.
        address: String,
        /// Its HTTP status.
        status: StatusCode,
        /// Its reason.
        said: String,
    },
    /// The response is not a buffer pool.
    #[error("what {address} sent is no buffer pool: {why}")]
    Malformed {
        /// Its address.
        address: String,
        /// What is wrong.
        why: Malformed,
    },
}

/// The events that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// One event in this many; 1 means all.
    pub one_in: u32,
    /// One recorded connection in `one_in`, with all its events, instead of one event in `one_in`.
    pub by_session: bool,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample { one_in: 1, by_session: true }
    }
}

/// The address of the streamer on the machine of the node at `address` (`host:port`).
pub fn beside(address: &str, port: u16) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    format!("{host}:{port}")
}

/// Opens the stream of `address` (`host:port`), from the log's end on, or after the position `place`.
pub async fn open(
    access: &Access,
    address: &str,
    place: Option<&str>,
    sample: Sample,
) -> Result<impl AsyncRead + Unpin + use<>, SourceError> {
    let mut path = "/slow?".to_owned();
    if let Some(place) = place {
        path += &format!("resume={place}&");
    }
    if sample.one_in > 1 {
        let by = if sample.by_session { "session" } else { "event" };
        path += &format!("rate_limit={}&by={by}&", sample.one_in);
    }
    // Removes the trailing separator.
    path.pop();
    let response = ask(access, address, &path, OPEN_MAX).await?;
    Ok(StreamReader::new(Box::pin(BodyDataStream::new(response.into_body()).map_err(io::Error::other))))
}

/// Resolves when the streamer at `address` does not answer any more, with a sentence.
///
/// A log without writes is quiet for hours, and so is a streamer that was stopped or hangs while its host's kernel still acknowledges. A
/// request on a separate connection tells the two apart. Any response counts, even from a streamer without this path (mysql_slowlogd).
pub(crate) async fn silent(access: &Access, address: &str) -> String {
    let mut missed = 0;
    while missed < MISSED_MAX {
        sleep(ASK_EVERY).await;
        let answered = timeout(ANSWER_MAX, access.get(address, "/metrics")).await;
        missed = if matches!(answered, Ok(Ok(_))) { 0 } else { missed + 1 };
    }
    format!("the streamer at {address} did not answer {MISSED_MAX} times in a row: is it stopped?")
}

/// Fetches the pages that the server beside the streamer at `address` has in memory: a fresh dump.
pub async fn pool(access: &Access, address: &str) -> Result<Snapshot, SourceError> {
    let mut body = ask(access, address, "/pool", POOL_MAX).await?.into_body();
    let malformed = |why| SourceError::Malformed { address: address.to_owned(), why };
    let broken = |why: String| SourceError::Unreachable { address: address.to_owned(), why };
    let mut parser = Parser::default();
    loop {
        let frame = timeout(PART_MAX, body.frame()).await;
        let frame = frame.map_err(|_| broken(format!("nothing came for {} s", PART_MAX.as_secs())))?;
        let Some(frame) = frame else { return parser.finish().map_err(malformed) };
        let frame = frame.map_err(|error| broken(error.to_string()))?;
        if let Some(part) = frame.data_ref() {
            parser.feed(part).map_err(malformed)?;
        }
    }
}

async fn ask(
    access: &Access,
    address: &str,
    path: &str,
    within: Duration,
) -> Result<hyper::Response<Incoming>, SourceError> {
    let unreachable = |why: String| SourceError::Unreachable { address: address.to_owned(), why };
    let opened = timeout(within, access.get(address, path)).await;
    let response = opened
        .map_err(|_| unreachable(format!("no answer within {} s", within.as_secs())))?
        .map_err(unreachable)?;
    match response.status() {
        StatusCode::OK => Ok(response),
        StatusCode::GONE => Err(SourceError::Gone(address.to_owned())),
        status => {
            let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect();
            let said = match timeout(OPEN_MAX, body).await {
                Ok(Ok(said)) => String::from_utf8_lossy(&said.to_bytes()).trim().to_owned(),
                _ => "it gave no reason".to_owned(),
            };
            Err(SourceError::Refused { address: address.to_owned(), status, said })
        }
    }
}

//! A streamer's log, read over HTTP.

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

/// Connecting and the answer's head may take so long together.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// A buffer pool's answer begins when the server has dumped it.
const POOL_MAX: Duration = Duration::from_secs(330);
/// Between two parts of a buffer pool's answer.
const PART_MAX: Duration = Duration::from_secs(30);
/// A streamer whose stream is open is asked so often whether it still answers.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Each answer may take so long.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// So many answers in a row that did not come, and its stream is given up.
const MISSED_MAX: u32 = 2;
/// As much of a refusal is read.
const REFUSAL_BYTES_MAX: usize = 4096;

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Nobody streams there.
    #[error("no slow log is streamed at {address}: {why}; is `understudy slowlog serve` running there?")]
    Unreachable {
        /// Where.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// The place to go on from is gone.
    #[error("the log at {0} no longer has the place to go on from: it was rotated away")]
    Gone(String),
    /// The streamer said no.
    #[error("the streamer at {address} refused ({status}): {said}")]
    Refused {
        /// Where.
        address: String,
        /// Its status.
        status: StatusCode,
        /// Its sentence.
        said: String,
    },
    /// What came is not what was asked for.
    #[error("what {address} sent is no buffer pool: {why}")]
    Malformed {
        /// Where.
        address: String,
        /// What is wrong.
        why: Malformed,
    },
}

/// Which events are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// One in so many; 1 is all.
    pub one_in: u32,
    /// One recorded connection in so many, with all its events, instead of one event in so many.
    pub by_session: bool,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample { one_in: 1, by_session: true }
    }
}

/// The streamer beside the node at `address` (`host:port`).
pub fn beside(address: &str, port: u16) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    format!("{host}:{port}")
}

/// Opens the stream of `address` (`host:port`), from the log's end on, or behind `place`.
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
    // Without what only parts the parameters.
    path.pop();
    let response = ask(access, address, &path, OPEN_MAX).await?;
    Ok(StreamReader::new(Box::pin(BodyDataStream::new(response.into_body()).map_err(io::Error::other))))
}

/// Until the streamer at `address` does not answer any more; then a sentence.
///
/// A log that nobody writes to is quiet for hours, and so is a streamer that was stopped or hangs while its host goes on acknowledging. A
/// question beside the stream tells the two apart. Any answer counts, so that a streamer without this path (mysql_slowlogd) is one, too.
pub(crate) async fn silent(access: &Access, address: &str) -> String {
    let mut missed = 0;
    while missed < MISSED_MAX {
        sleep(ASK_EVERY).await;
        let answered = timeout(ANSWER_MAX, access.get(address, "/metrics")).await;
        missed = if matches!(answered, Ok(Ok(_))) { 0 } else { missed + 1 };
    }
    format!("the streamer at {address} did not answer {MISSED_MAX} times in a row: is it stopped?")
}

/// The pages that the server beside the streamer at `address` has in memory: a fresh dump.
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

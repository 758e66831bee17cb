//! A streamer's log, read over HTTP.

use std::io;
use std::time::Duration;

use futures_util::TryStreamExt;
use http_body_util::{BodyDataStream, Empty};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncRead;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::io::StreamReader;

/// Connecting and the answer's head may take so long together.
const OPEN_MAX: Duration = Duration::from_secs(10);

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
    #[error("the streamer at {address} refused: {status}")]
    Refused {
        /// Where.
        address: String,
        /// Its status.
        status: StatusCode,
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

/// Opens the stream of `address` (`host:port`), from the log's end on, or behind `place`.
pub async fn open(
    address: &str,
    place: Option<&str>,
    sample: Sample,
) -> Result<impl AsyncRead + Unpin + use<>, SourceError> {
    let unreachable = |why: String| SourceError::Unreachable { address: address.to_owned(), why };
    let opened = timeout(OPEN_MAX, ask(address, place, sample)).await;
    let response = opened
        .map_err(|_| unreachable(format!("no answer within {} s", OPEN_MAX.as_secs())))?
        .map_err(unreachable)?;
    match response.status() {
        StatusCode::OK => Ok(StreamReader::new(Box::pin(
            BodyDataStream::new(response.into_body()).map_err(io::Error::other),
        ))),
        StatusCode::GONE => Err(SourceError::Gone(address.to_owned())),
        status => Err(SourceError::Refused { address: address.to_owned(), status }),
    }
}

async fn ask(
    address: &str,
    place: Option<&str>,
    sample: Sample,
) -> Result<hyper::Response<hyper::body::Incoming>, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends when the body is dropped, or the streamer leaves; the body tells.
    tokio::spawn(async move {
        let _ = connection.await;
    });
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
    let request = hyper::Request::get(path).header(HOST, address).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    sender.send_request(request).await.map_err(|error| error.to_string())
}

//! The routes: `/slow`, `/metrics`, and mysql_slowlogd's answers for everything else.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use slowlog::{RateBy, Sampling};
use tokio::sync::mpsc;

use super::body::{Bytes, Reading, Seat};
use super::{Figures, READERS_MAX, Settings, Shared, Streamer};
use crate::follow::{Cursor, FollowError, Log, LogPosition};

/// The number of parts of a response that may wait to be sent; the log itself serves as the buffer for the rest.
const PARTS_MAX: usize = 4;

/// The routes of a streamer. Must be called within a runtime; fails when the log's directory cannot be watched.
pub fn router(settings: Settings) -> Result<Router, FollowError> {
    let log = Log::watch(&settings.log)?;
    let shared: Streamer = Arc::new(Shared { log, settings, figures: Figures::default() });
    Ok(Router::new()
        .route("/slow", get(slow))
        .route("/metrics", get(metrics))
        .fallback(|| async { plain(StatusCode::NOT_FOUND, "Resource not found.\n") })
        .with_state(shared))
}

async fn metrics(State(shared): State<Streamer>) -> Response {
    plain(StatusCode::OK, shared.figures.metrics())
}

async fn slow(State(shared): State<Streamer>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let asked = match Asked::of(&query) {
        Ok(asked) => asked,
        Err(sentence) => return plain(StatusCode::BAD_REQUEST, sentence + "\n"),
    };
    let Some(seat) = Seat::take(&shared) else {
        return plain(
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "There are {READERS_MAX} readers already, which is the most there may be. Come again when one has left.\n"
            ),
        );
    };
    let opening = Arc::clone(&shared);
    let begin = asked.begin;
    let opened = tokio::task::spawn_blocking(move || open(&opening.log, begin)).await;
    let cursor = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(refused)) => return refused.answer(shared.log.path()),
        Err(_) => return plain(StatusCode::SERVICE_UNAVAILABLE, "The streamer is being stopped.\n"),
    };
    let (parts, receiver) = mpsc::channel(PARTS_MAX);
    tokio::spawn(Reading::new(seat, cursor, asked.sampling, parts).run());
    let body = Body::from_stream(futures_util::stream::unfold(
        receiver,
        |mut receiver: mpsc::Receiver<Bytes>| async {
            receiver.recv().await.map(|part| (Ok::<_, std::convert::Infallible>(part), receiver))
        },
    ));
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    End,
    Start,
    Place(LogPosition),
}

enum Refused {
    Log(FollowError),
    Gone,
}

impl Refused {
    fn answer(&self, log: &Path) -> Response {
        match self {
            // The log's path is not disclosed to clients: the reason is in this program's own log.
            Refused::Log(error) => {
                tracing::warn!("a reader was refused: {error}");
                plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "Internal server error: unable to open slow log. The streamer's own log says why.\n",
                )
            }
            Refused::Gone => {
                tracing::info!(log = %log.display(), "a reader asked for a place that no file beside the log has any more");
                plain(
                    StatusCode::GONE,
                    "No file has this place any more: it was rotated away. Begin anew without resume.\n",
                )
            }
        }
    }
}

fn open(log: &Log, begin: Begin) -> Result<Cursor, Refused> {
    match begin {
        // A server writes an event at once, so the next one begins at the end of the file.
        Begin::End => log.at_end().map_err(Refused::Log),
        Begin::Start => log.at_start().map_err(Refused::Log),
        Begin::Place(place) => match log.at_place(place).map_err(Refused::Log)? {
            Some(cursor) => Ok(cursor),
            None => Err(Refused::Gone),
        },
    }
}

/// The parameters of a request.
struct Asked {
    sampling: Sampling,
    begin: Begin,
}

impl Asked {
    fn of(query: &BTreeMap<String, String>) -> Result<Asked, String> {
        let (mut one_in, mut by, mut begin) = (1, RateBy::Event, Begin::End);
        for (name, value) in query {
            match (name.as_str(), value.as_str()) {
                ("rate_limit", number) => {
                    one_in = number
                        .parse()
                        .ok()
                        .filter(|one_in| *one_in > 0)
                        .ok_or_else(|| format!("rate_limit={number} is not a number from 1 on."))?;
                }
                ("by", "event") => by = RateBy::Event,
                ("by", "session") => by = RateBy::Session,
                ("from", "end") => begin = Begin::End,
                ("from", "start") => begin = Begin::Start,
                ("resume", place) => {
                    let place = place.parse().map_err(|()| {
                        format!("resume={place} is no place: it is what an event's Understudy_place said.")
                    })?;
                    begin = Begin::Place(place);
                }
                (name, value) => {
                    return Err(format!(
                        "{name}={value} is not known: rate_limit=N, by=event|session, from=end|start, resume=PLACE are."
                    ));
                }
            }
        }
        Ok(Asked { sampling: Sampling::new(by, one_in), begin })
    }
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into()).into_response()
}

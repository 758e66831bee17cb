//! `GET /v1/samples`: the counters of each node during the last hour. `GET /v1/live`: each of them as it comes, and the status once a
//! second, as server-sent events ("Server-sent events", HTML Living Standard), until the reader leaves.
//!
//! ```text
//!   Control ──one event for all──> broadcast ──> a reader each: writes on, or has fallen too far behind, and its stream ends
//! ```
//!
//! Every event is serialised once for all readers. There are at most [`READERS_MAX`] readers; one that has read nothing for
//! [`STALLED_AFTER`] is disconnected when another needs its slot. A reader that misses events gets their number, and its
//! stream ends: it may connect again, and `/v1/samples` has what it missed.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use api::{SampleEvent, Samples, Status};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::Control;
use crate::admitted::Admitted;
use crate::openapi::{Operation, read, whole};
use crate::readers::{READERS_MAX, Reader, STALLED_AFTER};
use crate::reply::Reply;
use crate::slots::{UNREAD_TIME_MAX, UnreadMax};
use crate::state::Shared;

/// Without `since`: the last minute.
const SINCE_DEFAULT: Duration = Duration::from_secs(60);

/// An event, ready to be sent.
#[derive(Clone, Debug)]
pub struct Event(Bytes);

impl Event {
    /// `name` is `sample` or `status`; JSON on one line is its data.
    pub fn new(name: &str, data: &Value) -> Self {
        Self(Bytes::from(format!("event: {name}\ndata: {data}\n\n")))
    }
}

/// The description of [`samples`].
pub fn samples_said() -> Operation {
    read("Each node's counters, once a second, of the last hour")
        .query(
            "since",
            whole(0, u64::MAX),
            "Milliseconds since 1970: later samples are told; without it, those of the last minute",
        )
        .query("every_ms", whole(0, u64::MAX), "Leaves out those that come sooner after another")
        .answers::<Samples>()
}

/// The description of [`live`].
pub fn live_said() -> Operation {
    let what = "Server-sent events without an end: `sample` (a SampleEvent), `status` (a Status), `missed` and `end`";
    read("Samples and states as they come")
        .text(StatusCode::OK, what, "text/event-stream")
        .tells::<SampleEvent>()
        .tells::<Status>()
        .refuses(StatusCode::BAD_REQUEST, "`bad_request`: it takes no query")
        .refuses(StatusCode::SERVICE_UNAVAILABLE, "`too_many_readers` or `stopping`")
}

/// The counters, part by part as they are read.
pub async fn samples<C: Control>(_: Admitted, State(api): Shared<C>, RawQuery(query): RawQuery) -> Response {
    let Some((since, every)) = wanted(query.as_deref().unwrap_or_default(), unix_ms()) else {
        let message = "samples takes only ?since=MS, milliseconds since 1970: later samples are told; without it, those of the last minute; and &every_ms=N, which leaves out those that come sooner after another";
        return Reply::bad_request(message).into_response();
    };
    let name = &api.control.cluster().name;
    let parts = in_turns(api.control.samples(since, every));
    let mut response = Reply::done(format!("samples of cluster {name}"), Value::Null).with_data(parts);
    response.extensions_mut().insert(UnreadMax(UNREAD_TIME_MAX));
    response
}

/// The parts of an iterator as a stream, which lets other tasks run between two parts.
fn in_turns(
    parts: impl Iterator<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    futures_util::stream::unfold(parts, |mut parts| async {
        tokio::task::yield_now().await;
        let part = parts.next()?;
        Some((part, parts))
    })
}

/// The events, until the reader or the program ends the stream.
pub async fn live<C: Control>(_: Admitted, State(api): Shared<C>, RawQuery(query): RawQuery) -> Response {
    if query.is_some_and(|query| !query.is_empty()) {
        return Reply::bad_request("live takes nothing after its name").into_response();
    }
    let Some(events) = api.control.live() else {
        let message = "Understudy is stopping: ask again when it is up";
        return Reply::refused(StatusCode::SERVICE_UNAVAILABLE, "stopping", message).into_response();
    };
    let Some(reader) = api.readers.enter(Instant::now()) else {
        let message =
            format!("{READERS_MAX} programs read this already, which is the limit; end one of them");
        return Reply::refused(StatusCode::SERVICE_UNAVAILABLE, "too_many_readers", message).into_response();
    };
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    let patience = Extension(UnreadMax(STALLED_AFTER));
    (patience, headers, Body::from_stream(told(events, reader))).into_response()
}

fn told(
    events: broadcast::Receiver<Event>,
    reader: Arc<Reader>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    futures_util::stream::unfold(Some((events, reader)), |state| async {
        let (mut events, reader) = state?;
        let event = match events.recv().await {
            Ok(event) if !reader.is_out.load(Relaxed) => event,
            Ok(_) => return None,
            Err(RecvError::Lagged(missed)) => {
                tracing::info!(
                    "a reader of /v1/live is too slow and missed {missed} events: its stream ends"
                );
                return Some((Ok(Event::new("end", &json!({ "missed_events": missed })).0), None));
            }
            Err(RecvError::Closed) => return None,
        };
        reader.took(Instant::now());
        Some((Ok(event.0), Some((events, reader))))
    })
}

/// The moment, and the time between two samples, of the query; `None` when it is not understood.
fn wanted(query: &str, now_unix_ms: u64) -> Option<(u64, u64)> {
    let (mut since, mut every_ms) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("since", ms) if since.is_none() => since = Some(ms.parse().ok()?),
            ("every_ms", ms) if every_ms.is_none() => every_ms = Some(ms.parse().ok()?),
            _ => return None,
        }
    }
    let last_minute = now_unix_ms.saturating_sub(SINCE_DEFAULT.as_millis() as u64);
    Some((since.unwrap_or(last_minute), every_ms.unwrap_or(0)))
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::readers::Readers;

    #[test]
    fn a_moment_is_read_or_refused() {
        assert_eq!(wanted("", 100_000), Some((40_000, 0)));
        assert_eq!(wanted("since=7", 100_000), Some((7, 0)));
        assert_eq!(wanted("every_ms=10000&since=7", 100_000), Some((7, 10_000)));
        for wrong in ["since=", "since=-1", "since=x", "after=7", "since=1&since=2", "every_ms=-1"] {
            assert_eq!(wanted(wrong, 100_000), None, "{wrong}");
        }
    }

    #[test]
    fn an_event_is_as_the_standard_has_it() {
        let event = Event::new("sample", &serde_json::json!({ "node": "a\nb" }));
        assert_eq!(event.0, "event: sample\ndata: {\"node\":\"a\\nb\"}\n\n");
    }

    #[tokio::test]
    async fn a_reader_that_falls_behind_is_dropped_and_one_that_reads_gets_all() {
        use futures_util::StreamExt;
        let readers = Readers::default();
        let (events, _) = broadcast::channel(2);
        let enter = || readers.enter(Instant::now()).map(|reader| Box::pin(told(events.subscribe(), reader)));
        let (Some(mut slow), Some(mut quick)) = (enter(), enter()) else { panic!("there is place") };
        for count in 0..3 {
            let _ = events.send(Event::new("sample", &serde_json::json!(count)));
            let Some(Ok(event)) = quick.next().await else { panic!("it reads") };
            assert_eq!(event, format!("event: sample\ndata: {count}\n\n"));
        }
        let Some(Ok(end)) = slow.next().await else { panic!("it is told how much it missed") };
        assert_eq!(end, "event: end\ndata: {\"missed_events\":1}\n\n");
        assert!(slow.next().await.is_none());
        drop(events);
        assert!(quick.next().await.is_none(), "it ends with whoever tells");
    }
}

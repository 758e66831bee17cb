//! The one shape of every answer: `{"success":..,"message":"..","timestamp":..,"data":{..}}`, as ScaleArc's API answers.
//!
//! A failure carries a short stable code for programs in `data.code` and one sentence for people in `message`.

use std::convert::Infallible;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// An answer, before it is serialised.
#[derive(Clone, Debug)]
pub struct Reply {
    status: StatusCode,
    message: String,
    data: Value,
}

/// Every answer, in ScaleArc's order of fields.
#[derive(Serialize, ToSchema)]
pub struct Written<'a> {
    success: bool,
    /// A sentence for people.
    message: &'a str,
    /// Seconds since 1970.
    timestamp: u64,
    data: &'a Value,
}

impl Reply {
    /// A success.
    pub fn done(message: impl Into<String>, data: Value) -> Self {
        Self { status: StatusCode::OK, message: message.into(), data }
    }

    /// A failure. `code` is for programs and stays the same across versions.
    pub fn refused(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), data: json!({ "code": code }) }
    }

    /// The request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::refused(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// Whether it is a success.
    pub fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// The same answer, marked as the answer to an earlier request.
    pub fn repeated(mut self, note: &str) -> Self {
        self.message = format!("{} ({note})", self.message);
        if let Value::Object(data) = &mut self.data {
            data.insert("repeated".into(), Value::Bool(true));
        }
        self
    }
}

impl Reply {
    /// The same answer with a JSON value as its data that comes in parts, and is never whole in memory.
    pub fn with_data(self, parts: impl Stream<Item = Bytes> + Send + 'static) -> Response {
        let text = Self { data: Value::Null, ..self.clone() }.text();
        // The data is the last field.
        let start = text.strip_suffix("null}\n").unwrap_or_default().to_owned();
        let once = |text: String| stream::once(std::future::ready(Bytes::from(text)));
        let whole = once(start).chain(parts).chain(once("}\n".to_owned())).map(Ok::<_, Infallible>);
        self.with_body(Body::from_stream(whole))
    }

    fn text(&self) -> String {
        let written = Written {
            success: self.status.is_success(),
            message: &self.message,
            timestamp: unix_seconds(),
            data: &self.data,
        };
        let mut text = serde_json::to_string(&written).unwrap_or_default();
        text.push('\n');
        text
    }

    fn with_body(&self, body: Body) -> Response {
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let body = self.text();
        self.with_body(body.into())
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

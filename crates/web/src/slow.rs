//! `GET /slow`: what the proxy's clients read, as a slow log. It shows their data, so an operator's key is asked for.

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::admitted::Operator;
use crate::openapi::{Operation, operate, whole};
use crate::reply::Reply;
use crate::state::Shared;
use crate::{Control, SlowWish};

/// What a slow log is sent as.
const LOG_TYPE: &str = "text/plain; charset=utf-8";

/// Its description.
pub fn said() -> Operation {
    operate("The reads of clients as a slow log, from now on and without an end")
        .query("rate_limit", whole(1, u32::MAX.into()), "One in this many is told, from 1 on")
        .query(
            "by",
            json!({ "enum": ["event", "session"] }),
            "`event`: single reads are chosen; `session`: sessions, with all of their reads",
        )
        .text(StatusCode::OK, "The log", LOG_TYPE)
        .refuses(StatusCode::SERVICE_UNAVAILABLE, "`no_reads`: none can be told now")
}

/// The whole answer is the log; it has no end of its own.
pub async fn slow<C: Control>(_: Operator, State(api): Shared<C>, RawQuery(query): RawQuery) -> Response {
    let Some(wish) = wish(query.as_deref().unwrap_or_default()) else {
        return Reply::bad_request(
            "slow takes only ?rate_limit=N, with N from 1 on, and &by=event or &by=session",
        )
        .into_response();
    };
    match api.control.slow(wish) {
        Ok(body) => ([(header::CONTENT_TYPE, LOG_TYPE)], body).into_response(),
        Err(why) => Reply::refused(StatusCode::SERVICE_UNAVAILABLE, "no_reads", why).into_response(),
    }
}

fn wish(query: &str) -> Option<SlowWish> {
    let mut wish = SlowWish { rate_limit: 1, by_session: false };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("rate_limit", number) => wish.rate_limit = number.parse().ok().filter(|number| *number > 0)?,
            ("by", "event") => wish.by_session = false,
            ("by", "session") => wish.by_session = true,
            _ => return None,
        }
    }
    Some(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_read_or_refused() {
        assert_eq!(wish(""), Some(SlowWish { rate_limit: 1, by_session: false }));
        assert_eq!(wish("rate_limit=10&by=session"), Some(SlowWish { rate_limit: 10, by_session: true }));
        for wrong in ["rate_limit=0", "rate_limit=x", "by=chance", "from=start", "rate_limit"] {
            assert_eq!(wish(wrong), None, "{wrong}");
        }
    }
}

//! Puts a key before a router that has none of its own: `Authorization: Bearer KEY`, or the answer is 401 with a sentence.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use crate::key::ApiKey;

/// The scheme's name may be written in any case (RFC 9110, section 11.1).
const SCHEME: &str = "Bearer ";

/// `router`, which answers only requests with `key`. Without it, unknown paths get 401, too, so that nothing is learned from a 404.
pub fn guarded(router: Router, key: ApiKey) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(key), admit))
}

async fn admit(State(key): State<Arc<ApiKey>>, request: Request, next: Next) -> Response {
    let said = request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
    let shown = said.and_then(|said| {
        let (scheme, shown) = said.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then_some(shown.trim())
    });
    let refused = match (said, shown) {
        (_, Some(shown)) if key.is(shown) => return next.run(request).await,
        (None, _) => "A key is needed here: send it as header `Authorization: Bearer KEY`.\n",
        (Some(_), None) => "The header Authorization is not `Bearer KEY`.\n",
        (Some(_), Some(_)) => "The key is not right.\n",
    };
    tracing::warn!("a request for {} was refused: no key, or a wrong one", request.uri().path());
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, headers, refused).into_response()
}

//! The page for a browser at `GET /`: four files that are part of the program, and the headers that bind the browser to them.
//!
//! Nothing in the files is about this cluster, so that they need no key. The page asks for the key, and sends it as a header with each
//! request to the API. A browser sends no such header by itself: another site that makes a browser send a request reaches nothing.

use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use axum::routing::get;

/// Nothing but these files is loaded, run or asked, and no other site may put the page into a frame (Content Security Policy Level 3).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// After an upgrade of the program, no file of the earlier one may be used.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The routes of the files.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let file = |content_type: &'static str, text: &'static str| {
        get(move || async move { (HEADERS, [(header::CONTENT_TYPE, content_type)], text).into_response() })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page/page.html")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("page/page.js")))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("page/page.css")))
        .route("/page.svg", file("image/svg+xml", include_str!("page/page.svg")))
}

//! The page for a browser at `GET /`: four files that are part of the program, and the headers that bind the browser to them.
//!
//! Nothing in the files is about this cluster, so that they need no key. The page asks for the key, and sends it as a header with each
//! request to the API. A browser sends no such header by itself: another site that makes a browser send a request reaches nothing.

use axum::http::{HeaderName, StatusCode, header};
use axum::response::IntoResponse;

use crate::openapi::{Described, open};

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

/// Adds the routes of the files.
pub fn add<S: Clone + Send + Sync + 'static>(routes: Described<S>) -> Described<S> {
    let files = [
        ("/", "text/html; charset=utf-8", include_str!("page/page.html")),
        ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
        ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
        ("/page.svg", "image/svg+xml", include_str!("page/page.svg")),
    ];
    files.into_iter().fold(routes, |routes, (path, content_type, text)| {
        let headers = (HEADERS, [(header::CONTENT_TYPE, content_type)]);
        let file = move || async move { (headers, text).into_response() };
        routes.get(
            path,
            file,
            open("A file of the page for a browser").text(StatusCode::OK, "It", content_type),
        )
    })
}

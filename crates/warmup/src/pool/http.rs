//! `GET /pool`: a fresh dump of the buffer pool of the server beside the streamer, as text.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::Mutex;

use super::server::Server;
use super::text;

/// One dump at a time: the server holds its buffer pool's lock while it collects the pages.
type Shared = Arc<Mutex<Server>>;

/// The HTTP route, for the server on this machine.
pub fn router(server: Server) -> Router {
    Router::new().route("/pool", get(pool)).with_state(Arc::new(Mutex::new(server)))
}

async fn pool(State(server): State<Shared>) -> Response {
    let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let taken = server.lock().await.snapshot().await;
    match taken {
        Ok(snapshot) => {
            tracing::info!("a reader is given {} pages of the buffer pool", snapshot.pages.len());
            let parts = text::write(snapshot).map(Ok::<_, std::convert::Infallible>);
            (plain, Body::from_stream(futures_util::stream::iter(parts))).into_response()
        }
        Err(error) => {
            // The reason may contain paths and accounts, which the client must not see.
            tracing::warn!("a reader was not given the buffer pool: {error}");
            let said = "The buffer pool cannot be dumped. The streamer's own log says why.\n";
            (StatusCode::SERVICE_UNAVAILABLE, plain, said).into_response()
        }
    }
}

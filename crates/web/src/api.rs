//! The routes: each parses the request, passes the order on and answers with its result. Requests were authenticated before ([`crate::admitted`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, put};
use serde_json::json;
use topology::order::{Order, OrderReply};

use crate::admitted::{Admitted, Ordered};
use crate::key::Keys;
use crate::live::{live, samples};
use crate::page;
use crate::repeat::Turn;
use crate::reply::Reply;
use crate::request::{MoveWish, OrderBody, preflight_wish};
use crate::slow::slow;
use crate::state::{Api, Kept, Shared};
use crate::{Cluster, Control, Manner, WriterDecision};

/// All routes. `budget` is the budget of orders that carry none.
pub fn router<C: Control>(control: Arc<C>, keys: Keys, budget: Duration, kept: Kept) -> Router {
    let Kept { readers, failover } = kept;
    let api = Api { control, keys, readers, budget, failover };
    Router::new()
        .route("/api/cluster/{id}/status", get(status::<C>))
        .route("/api/cluster/{id}/journal", get(journal::<C>))
        .route("/api/cluster/{id}/preflight", get(preflight::<C>))
        .route("/api/cluster/{id}/manual_failover", put(manual_failover::<C>))
        .route("/api/cluster/{id}/switchover", put(switchover::<C>))
        .route("/api/cluster/{id}/reload", put(reload::<C>))
        .route("/api/cluster/{id}/node/{name}/drain", put(drain::<C>))
        .route("/api/cluster/{id}/node/{name}/undrain", put(undrain::<C>))
        .route("/api/cluster/{id}/node/{name}/max_connections", put(max_connections::<C>))
        .route("/api/cluster/{id}/slow", get(slow::<C>))
        .route("/api/cluster/{id}/samples", get(samples::<C>))
        .route("/api/cluster/{id}/live", get(live::<C>))
        .route("/slow", get(slow::<C>))
        .route("/v1/key", get(whose_key))
        .route("/v1/samples", get(samples::<C>))
        .route("/v1/live", get(live::<C>))
        .route("/metrics", get(metrics::<C>))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz::<C>))
        .route("/health", any(health::<C>))
        .route("/health/{*rest}", any(health::<C>))
        .merge(page::routes())
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::new(api))
}

// ---- reading

/// What the key's holder may do.
async fn whose_key(Admitted(role): Admitted) -> Reply {
    Reply::done("the API key is right", json!({ "role": role }))
}

async fn status<C: Control>(_: Admitted, State(api): Shared<C>) -> Reply {
    let cluster = api.control.cluster();
    Reply::done(format!("state of cluster {}", cluster.name), api.control.status().await)
}

async fn journal<C: Control>(_: Admitted, State(api): Shared<C>, RawQuery(query): RawQuery) -> Reply {
    let Some(after) = after(query.as_deref().unwrap_or_default()) else {
        return Reply::bad_request(
            "journal takes only ?after=N, with N the at_unix_ms of the last entry you have seen",
        );
    };
    match api.control.journal(after).await {
        Ok(entries) => Reply::done(format!("journal of cluster {}", api.control.cluster().name), entries),
        Err(why) => Reply::refused(StatusCode::INTERNAL_SERVER_ERROR, "store", why),
    }
}

/// The checks before a switchover; nothing is changed.
async fn preflight<C: Control>(_: Admitted, State(api): Shared<C>, RawQuery(query): RawQuery) -> Reply {
    let cluster = api.control.cluster();
    let (to, budget) = match preflight_wish(query.as_deref().unwrap_or_default(), cluster, api.budget) {
        Ok(wish) => wish,
        Err(reply) => return reply,
    };
    let report = api.control.preflight(to, budget).await;
    let whom = report.to.as_deref().unwrap_or("nobody");
    let comes_to = if report.fails { "would be refused" } else { "can be tried" };
    Reply::done(format!("a switchover of cluster {} to {whom} {comes_to}", cluster.name), json!(report))
}

async fn metrics<C: Control>(State(api): Shared<C>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], api.control.metrics().await).into_response()
}

async fn healthz() -> Reply {
    Reply::done("serving", json!({}))
}

/// 200 while a statement would flow, 503 with the reason while it would wait.
async fn readyz<C: Control>(State(api): Shared<C>) -> (StatusCode, String) {
    match api.control.ready() {
        Ok(()) => (StatusCode::OK, "statements flow\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("statements wait: {why}\n")),
    }
}

/// As on `listen.health`: any method, no key, the same status and body.
async fn health<C: Control>(State(api): Shared<C>, uri: Uri) -> Response {
    let said = api.control.health(uri.path_and_query().map_or("/health", |target| target.as_str()));
    let status = StatusCode::from_u16(said.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, said.content_type)], said.body).into_response()
}

// ---- orders

async fn manual_failover<C: Control>(State(api): Shared<C>, order: Ordered) -> Reply {
    match order.said.into_move(api.control.cluster(), api.budget) {
        Err(reply) => reply,
        // A named target, or a named old writer, is idempotent by itself.
        Ok(wish) if wish.named || wish.from.is_some() || wish.manner.dry_run => {
            to_its_end(async move { api.move_writer(wish).await }).await
        }
        Ok(wish) => once(api, wish).await,
    }
}

async fn switchover<C: Control>(State(api): Shared<C>, order: Ordered) -> Reply {
    match order.said.into_switchover(api.control.cluster(), api.budget) {
        Err(reply) => reply,
        Ok(wish) => to_its_end(async move { api.move_writer(wish).await }).await,
    }
}

async fn reload<C: Control>(State(api): Shared<C>, order: Ordered) -> Reply {
    to_its_end(async move {
        match api.control.reload(order.said.dry_run).await {
            Ok((sentence, changes)) => Reply::done(sentence, changes),
            Err(refused) => Reply::refused(StatusCode::CONFLICT, refused.code, refused.sentence),
        }
    })
    .await
}

async fn drain<C: Control>(State(api): Shared<C>, order: Ordered) -> Reply {
    to_its_end(async move { api.give(order, OrderBody::into_drain).await }).await
}

async fn undrain<C: Control>(State(api): Shared<C>, order: Ordered) -> Reply {
    to_its_end(
        async move { api.give(order, |said, cluster, name, _| said.into_undrain(cluster, name)).await },
    )
    .await
}

async fn max_connections<C: Control>(State(api): Shared<C>, order: Ordered) -> Reply {
    to_its_end(async move { api.give(order, OrderBody::into_limit).await }).await
}

/// Carries an order out to its end, even if the client does not wait for the answer.
async fn to_its_end(order: impl Future<Output = Reply> + Send + 'static) -> Reply {
    tokio::spawn(order).await.unwrap_or_else(|_| {
        let message = "the order ended without an answer; look at the status before asking again";
        Reply::refused(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    })
}

/// One failover for all requests that come at the same time. It is a task of its own, so that it continues when the first client
/// disconnects, and the next request gets its result.
async fn once<C: Control>(api: Arc<Api<C>>, wish: MoveWish) -> Reply {
    let standing = api.control.standing();
    let mut told = match api.failover.turn(Instant::now(), standing.term, standing.changed_ago) {
        Turn::Answered(reply) => return reply,
        Turn::ChangedAlready(ago) => return changed_already(&standing, ago, api.control.cluster()),
        Turn::Join(told) => told,
        Turn::Lead(tell) => {
            let told = tell.subscribe();
            tokio::spawn(async move {
                let reply = api.move_writer(wish).await;
                api.failover.finish(&tell, &reply, Instant::now(), api.control.standing().term);
            });
            told
        }
    };
    let answer = told.wait_for(Option::is_some).await.ok().and_then(|reply| reply.clone());
    answer.unwrap_or_else(|| {
        let message = "the failover ended without an answer; look at the status before asking again";
        Reply::refused(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    })
}

/// The answer to a request to move the writer, just after it was moved.
fn changed_already(standing: &WriterDecision, ago: Duration, cluster: &Cluster) -> Reply {
    let writer = standing.writer.map(|node| cluster.name_of(node));
    let message = match writer {
        Some(writer) => format!("{writer} is the writer, term {}", standing.term),
        None => "the writer is being determined".to_owned(),
    };
    let note = format!(
        "the writer changed {:.1} s ago and is not moved again; name \"to\" to insist",
        ago.as_secs_f64()
    );
    Reply::done(message, json!({ "writer": writer, "term": standing.term, "changed": false })).repeated(&note)
}

// ---- paths and methods that do not exist

async fn no_such_path() -> Reply {
    let message = "no such path; the API is under /api/cluster/ID/, and there are /, /v1/key, /v1/samples, /v1/live, /slow, /metrics, /healthz, /readyz and /health/NODE";
    Reply::refused(StatusCode::NOT_FOUND, "no_such_path", message)
}

async fn wrong_method() -> Reply {
    let message = "this path does not take that method: orders are PUT, everything else is GET";
    Reply::refused(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", message)
}

// === impl Api ===

impl<C: Control> Api<C> {
    /// Carries out an order about the node in the path.
    async fn give(
        &self,
        order: Ordered,
        understand: impl FnOnce(OrderBody, &Cluster, &str, Duration) -> Result<Order, Reply>,
    ) -> Reply {
        let Ordered { said, node } = order;
        let manner = Manner { dry_run: said.dry_run, allow_cold: false };
        match understand(said, self.control.cluster(), node.as_deref().unwrap_or_default(), self.budget) {
            Ok(order) => answer(self.control.order(order, manner).await, manner, self.control.cluster()),
            Err(reply) => reply,
        }
    }

    async fn move_writer(&self, wish: MoveWish) -> Reply {
        let cluster = self.control.cluster();
        if let Some(from) = wish.from
            && let Some(writer) = self.control.standing().writer
            && writer != from
        {
            let (from, writer) = (cluster.name_of(from), cluster.name_of(writer));
            let message = format!("{from} is not the writer any more, {writer} is: nothing had to be moved");
            return Reply::done(message, json!({ "writer": writer, "changed": false }));
        }
        answer(self.control.order(wish.order, wish.manner).await, wish.manner, cluster)
    }
}

fn answer(reply: OrderReply, manner: Manner, cluster: &Cluster) -> Reply {
    match reply {
        Ok(done) => {
            let changed = if manner.dry_run { "would_change" } else { "changed" };
            let data = json!({
                "term": done.term,
                "writer": done.writer.map(|node| cluster.name_of(node)),
                "took_ms": done.took.as_micros() as f64 / 1000.0,
                changed: done.is_changed,
            });
            Reply::done(done.sentence, data)
        }
        Err(refused) => {
            let status = match refused.code {
                "unknown_node" => StatusCode::NOT_FOUND,
                "store" => StatusCode::INTERNAL_SERVER_ERROR,
                "stopping" => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::CONFLICT,
            };
            Reply::refused(status, refused.code, refused.sentence)
        }
    }
}

/// The `after` of the query; 0 without one, `None` when it is not understood.
fn after(query: &str) -> Option<u64> {
    if query.is_empty() {
        return Some(0);
    }
    query.strip_prefix("after=")?.parse().ok()
}

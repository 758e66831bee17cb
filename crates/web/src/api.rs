//! The routes: each parses the request, passes the order on and answers with its result. Requests were authenticated before ([`crate::admitted`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::change::{WriterChange, changes};
use api::{Reloaded, Status};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use topology::Term;
use topology::order::{Order, OrderReply};
use topology::preflight::Report;
use topology::view::Decision;
use utoipa::ToSchema;

use crate::admitted::{Admitted, Ordered};
use crate::key::{Keys, Role};
use crate::live::{self, live, samples};
use crate::openapi::{Described, Operation, open, order, read, whole};
use crate::page;
use crate::repeat::Turn;
use crate::reply::Reply;
use crate::request::{
    BUDGET_MS_MAX, Leave, Limit, Move, MoveWish, OrderBody, Return, Switch, preflight_wish,
};
use crate::slow::{self, slow};
use crate::state::{Api, Kept, Shared};
use crate::{Cluster, Control, Manner, WriterDecision};

/// Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4";

/// All routes. `budget` is the budget of orders that carry none.
pub fn router<C: Control>(control: Arc<C>, keys: Keys, budget: Duration, kept: Kept) -> Router {
    let Kept { readers, failover } = kept;
    let api = Api { control, keys, readers, budget, failover };
    let routes = Described::new()
        .get(
            "/api/cluster/{id}/status",
            status::<C>,
            read("The cluster and its nodes, now").answers::<Status>(),
        )
        .get("/api/cluster/{id}/journal", journal::<C>, journal_said())
        .get("/api/cluster/{id}/changes", writer_changes::<C>, changes_said())
        .get("/api/cluster/{id}/preflight", preflight::<C>, preflight_said())
        .put(
            "/api/cluster/{id}/manual_failover",
            manual_failover::<C>,
            moves::<Move>("Moves the writer once; as ScaleArc's"),
        )
        .put("/api/cluster/{id}/switchover", switchover::<C>, moves::<Switch>("Moves the writer"))
        .put("/api/cluster/{id}/reload", reload::<C>, reload_said())
        .put("/api/cluster/{id}/node/{name}/drain", drain::<C>, moves::<Leave>("Takes a node out of traffic"))
        .put(
            "/api/cluster/{id}/node/{name}/undrain",
            undrain::<C>,
            moves::<Return>("Lets a node take traffic again"),
        )
        .put(
            "/api/cluster/{id}/node/{name}/max_connections",
            max_connections::<C>,
            moves::<Limit>("Limits a node's sessions"),
        )
        .get("/api/cluster/{id}/slow", slow::<C>, slow::said())
        .get("/api/cluster/{id}/samples", samples::<C>, live::samples_said())
        .get("/api/cluster/{id}/live", live::<C>, live::live_said())
        .get("/slow", slow::<C>, slow::said())
        .get("/v1/key", whose_key, read("What the key's holder may do").answers::<Holder>())
        .get("/v1/samples", samples::<C>, live::samples_said())
        .get("/v1/live", live::<C>, live::live_said())
        .get(
            "/metrics",
            metrics::<C>,
            open("Figures for Prometheus").text(StatusCode::OK, "All of them", METRICS_TYPE),
        )
        .get("/healthz", healthz, open("Whether the program serves").answers::<Nothing>())
        .get("/readyz", readyz::<C>, readyz_said())
        .any("/health", health::<C>, health_said())
        .any("/health/{*rest}", health::<C>, health_said());
    page::add(routes)
        .router()
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::new(api))
}

// ---- reading

/// What the key's holder may do.
#[derive(Serialize, ToSchema)]
struct Holder {
    role: Role,
}

async fn whose_key(Admitted(role): Admitted) -> Reply {
    Reply::done("the API key is right", json!(Holder { role }))
}

async fn status<C: Control>(_: Admitted, State(api): Shared<C>) -> Reply {
    let cluster = api.control.cluster();
    Reply::done(format!("state of cluster {}", cluster.name), json!(api.control.status().await))
}

fn journal_said() -> Operation {
    read("Decisions after a moment, oldest first")
        .query(
            "after",
            whole(0, u64::MAX),
            "Milliseconds since 1970: the at_unix_ms of the last entry that you have",
        )
        .lists::<Decision>()
        .refuses(StatusCode::INTERNAL_SERVER_ERROR, "`store`: it cannot be read")
}

async fn journal<C: Control>(_: Admitted, State(api): Shared<C>, RawQuery(query): RawQuery) -> Reply {
    let Some(after) = after(query.as_deref().unwrap_or_default()) else {
        return Reply::bad_request(
            "journal takes only ?after=N, with N the at_unix_ms of the last entry you have seen",
        );
    };
    match api.control.journal(after).await {
        Ok(entries) => {
            Reply::done(format!("journal of cluster {}", api.control.cluster().name), json!(entries))
        }
        Err(why) => Reply::refused(StatusCode::INTERNAL_SERVER_ERROR, "store", why),
    }
}

fn changes_said() -> Operation {
    read("Changes of the writer after a moment, oldest first: what was seen, decided and done, as `understudy explain` tells it")
        .query("after", whole(0, u64::MAX), "Milliseconds since 1970: those that were decided later")
        .lists::<WriterChange>()
        .refuses(StatusCode::INTERNAL_SERVER_ERROR, "`store`: it cannot be read")
}

async fn writer_changes<C: Control>(_: Admitted, State(api): Shared<C>, RawQuery(query): RawQuery) -> Reply {
    let Some(after) = after(query.as_deref().unwrap_or_default()) else {
        return Reply::bad_request("changes takes only ?after=N, with N in milliseconds since 1970");
    };
    match api.control.journal(0).await {
        Ok(journal) => {
            let mut changes = changes(&journal);
            changes.retain(|change| change.decided_unix_ms > after);
            Reply::done(
                format!("changes of the writer of cluster {}", api.control.cluster().name),
                json!(changes),
            )
        }
        Err(why) => Reply::refused(StatusCode::INTERNAL_SERVER_ERROR, "store", why),
    }
}

fn preflight_said() -> Operation {
    read("The checks before a switchover; nothing is changed")
        .query("to", json!({ "type": "string" }), "The new writer; without it, the best candidate")
        .query("budget_ms", whole(0, BUDGET_MS_MAX), "How long running transactions may take to end")
        .answers::<Report>()
}

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
    ([(header::CONTENT_TYPE, METRICS_TYPE)], api.control.metrics().await).into_response()
}

#[derive(Serialize, ToSchema)]
struct Nothing {}

async fn healthz() -> Reply {
    Reply::done("serving", json!(Nothing {}))
}

fn readyz_said() -> Operation {
    open("Whether a statement would flow now")
        .text(StatusCode::OK, "It would", "text/plain; charset=utf-8")
        .text(StatusCode::SERVICE_UNAVAILABLE, "It would wait, and why", "text/plain; charset=utf-8")
}

/// 200 while a statement would flow, 503 with the reason while it would wait.
async fn readyz<C: Control>(State(api): Shared<C>) -> (StatusCode, String) {
    match api.control.ready() {
        Ok(()) => (StatusCode::OK, "statements flow\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("statements wait: {why}\n")),
    }
}

fn health_said() -> Operation {
    let (yes, no) = (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE);
    open("Whether a node may take traffic, for balancers; any method is answered so")
        .text(yes, "It may", "text/plain")
        .text(yes, "It may", "text/html")
        .object(yes, "It may")
        .text(StatusCode::BAD_REQUEST, "The path cannot be read", "text/plain")
        .text(StatusCode::NOT_FOUND, "There is no such node, or no such question", "text/plain")
        .text(no, "It may not", "text/plain")
        .text(no, "It may not", "text/html")
        .object(no, "It may not")
}

/// As on `listen.health`: any method, no key, the same status and body.
async fn health<C: Control>(State(api): Shared<C>, uri: Uri) -> Response {
    let said = api.control.health(uri.path_and_query().map_or("/health", |target| target.as_str()));
    let status = StatusCode::from_u16(said.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, said.content_type)], said.body).into_response()
}

// ---- orders

/// What came of an order.
#[derive(Serialize, ToSchema)]
struct Outcome {
    /// The term in force.
    term: Term,
    /// The writer now.
    writer: Option<String>,
    /// From the order to its end, where something was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<f64>,
    /// Whether the order changed anything.
    changed: bool,
    /// Of a dry run: whether the order would change anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_change: Option<bool>,
    /// This tells of an earlier change, and nothing was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<bool>,
}

/// An order about the writer, or a node.
fn moves<B: ToSchema>(summary: &'static str) -> Operation {
    order::<B>(summary).answers::<Outcome>()
}

fn reload_said() -> Operation {
    order::<Nothing>("Reads the configuration again, and puts it in force").answers::<Reloaded>()
}

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
            Ok((sentence, changes)) => Reply::done(sentence, json!(changes)),
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
    let writer = standing.writer.map(|node| cluster.name_of(node).to_owned());
    let message = match &writer {
        Some(writer) => format!("{writer} is the writer, term {}", standing.term),
        None => "the writer is being determined".to_owned(),
    };
    let note = format!(
        "the writer changed {:.1} s ago and is not moved again; name \"to\" to insist",
        ago.as_secs_f64()
    );
    Reply::done(message, json!(Outcome::unchanged(standing.term, writer))).repeated(&note)
}

// ---- paths and methods that do not exist

async fn no_such_path() -> Reply {
    let message = "no such path; the API is under /api/cluster/ID/, and there are /, /openapi.json, /v1/key, /v1/samples, /v1/live, /slow, /metrics, /healthz, /readyz and /health/NODE";
    Reply::refused(StatusCode::NOT_FOUND, "no_such_path", message)
}

async fn wrong_method() -> Reply {
    let message = "this path does not take that method: orders are PUT, everything else is GET";
    Reply::refused(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", message)
}

impl Outcome {
    fn unchanged(term: Term, writer: Option<String>) -> Self {
        Self { term, writer, took_ms: None, changed: false, would_change: None, repeated: None }
    }
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
            && let WriterDecision { term, writer: Some(writer), .. } = self.control.standing()
            && writer != from
        {
            let (from, writer) = (cluster.name_of(from), cluster.name_of(writer));
            let message = format!("{from} is not the writer any more, {writer} is: nothing had to be moved");
            return Reply::done(message, json!(Outcome::unchanged(term, Some(writer.to_owned()))));
        }
        answer(self.control.order(wish.order, wish.manner).await, wish.manner, cluster)
    }
}

fn answer(reply: OrderReply, manner: Manner, cluster: &Cluster) -> Reply {
    match reply {
        Ok(done) => {
            let outcome = Outcome {
                term: done.term,
                writer: done.writer.map(|node| cluster.name_of(node).to_owned()),
                took_ms: Some(done.took.as_micros() as f64 / 1000.0),
                changed: done.is_changed && !manner.dry_run,
                would_change: manner.dry_run.then_some(done.is_changed),
                repeated: None,
            };
            Reply::done(done.sentence, json!(outcome))
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

//! Answers the HTTP API's questions: asks the manager and the proxy, and puts their answers side by side.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Status;
use api::proxy::{Busy, LaneStats};
use doctor::windows::watch::Windows;
use health::server::Answerer;
use manager::{DEADLINE_ASKED, DEADLINE_ORDERED, Handles, Journal, Orders, Preflight, Samples};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use topology::NodeId;
use topology::action::{Level, Sentence};
use topology::kind::Kind;
use topology::order::{Order, OrderDone, OrderRefused, OrderReply};
use topology::preflight::{self, Immovable, REPLICA_LOGIN, Report, Stopped, warm};
use topology::routes::LaneState;
use topology::view::{ClusterView, Decision, TrafficFlow};
use web::{Body, Bytes, Cluster, Control, Event, Health, Manner, SlowWish, WriterDecision};

use super::capacity::Capacities;
use super::health::age;
use super::reload_request::{ReloadReply, ReloadRequest};
use super::warmth::Warmth;
use super::{live, metrics};
use settings::Settings;

/// While an order runs, so often it is looked at what it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Sessions named in an answer.
const NAMED_MAX: usize = 5;
/// Journal entries looked through for one answer.
const JOURNAL_ROWS_MAX: u32 = 10_000;

/// See the head of this file.
pub struct ClusterControl {
    cluster: Cluster,
    kind: Kind,
    view: watch::Receiver<Arc<ClusterView>>,
    /// When the view's clock began.
    started: Instant,
    orders: Orders,
    journal: Journal,
    proxy: proxy::StatsReader,
    /// Of the port for reads.
    reads: Option<proxy::StatsReader>,
    health: Answerer,
    preflight: Preflight,
    samples: Samples,
    /// Where readers of the live view are told; nothing when it has ended.
    live: broadcast::WeakSender<Event>,
    /// Where standbys are warmed.
    warmth: Option<Warmth>,
    /// For how long each node may be away.
    windows: Windows,
    /// What each node could apply.
    capacities: Capacities,
    /// Another program moves the writer: an order only tells of it.
    is_informed: bool,
    /// To whoever can put another configuration in force.
    reloads: mpsc::Sender<ReloadRequest>,
}

/// What is known of the nodes beside the view.
pub struct Known {
    /// Where standbys are warmed.
    pub warmth: Option<Warmth>,
    /// For how long each may be away.
    pub windows: Windows,
    /// What each could apply.
    pub capacities: Capacities,
}

impl ClusterControl {
    /// Answers from these.
    pub fn new(
        settings: &Settings,
        manager: &Handles,
        (proxy, reads): (proxy::StatsReader, Option<proxy::StatsReader>),
        health: Answerer,
        Known { warmth, windows, capacities }: Known,
        live: broadcast::WeakSender<Event>,
        reloads: mpsc::Sender<ReloadRequest>,
    ) -> Self {
        let nodes = manager.view.borrow().nodes.iter().map(|node| (node.id, node.name.clone())).collect();
        Self {
            cluster: Cluster { id: settings.id, name: settings.name.clone(), nodes },
            kind: settings.kind,
            view: manager.view.clone(),
            started: manager.started,
            orders: manager.orders.clone(),
            journal: manager.journal.clone(),
            proxy,
            reads,
            health,
            preflight: manager.preflight.clone(),
            samples: manager.samples.clone(),
            live,
            warmth,
            windows,
            capacities,
            is_informed: settings.manager == topology::replication::Manager::External,
            reloads,
        }
    }

    fn view(&self) -> Arc<ClusterView> {
        self.view.borrow().clone()
    }

    /// Logs a sentence and writes it to the journal.
    pub fn note(&self, level: Level, text: String) {
        let term = self.view.borrow().term;
        self.journal.note(term, Sentence::new(level, text));
    }
}

impl ClusterControl {
    /// What could make a switchover fail, or slow; the nodes may take so long to answer.
    async fn look_before(&self, to: Option<NodeId>, budget: Duration, within: Duration) -> Report {
        let view = self.view();
        let immovable: Vec<Immovable> = self
            .proxy
            .tied()
            .into_iter()
            .map(|session| Immovable {
                who: format!("session {} of {} from {}", session.id, session.user, session.client),
                node: session.node,
                why: session.why,
            })
            .collect();
        let stopped: Vec<Stopped> = self
            .proxy
            .unread()
            .into_iter()
            .map(|(session, can_be_cut)| Stopped { who: session.to_string(), node: session.node, can_be_cut })
            .collect();
        let stats = self.proxy.stats().await;
        let on_writer = view.writer.as_ref().and_then(|writer| stats.lane(writer));
        let sessions = on_writer.map_or(0, |lane| lane.sessions);
        let warm = self.warmth.as_ref().map(Warmth::before_switchover);
        let wish = preflight::Wish {
            view: &view,
            to,
            budget,
            immovable: &immovable,
            stopped: &stopped,
            sessions,
            warm: warm.as_ref(),
        };
        self.preflight.look(wish, within).await
    }

    /// Why a switchover is refused before it is begun. The brain refuses by itself what it knows.
    async fn refusal(&self, order: &Order, allow_cold: bool) -> Option<OrderRefused> {
        let view = self.view();
        let (to, budget, is_drain) = match order {
            Order::Switchover { to, budget, force: false } => (*to, *budget, false),
            // A drain of the writer moves it, too.
            Order::Drain { node, budget, force: false, .. }
                if view.node(*node).is_some_and(|node| node.writer) =>
            {
                (None, *budget, true)
            }
            _ => return None,
        };
        // While there is no healthy writer, an order says who is to follow it: there is nothing to hand over.
        let is_handed_over = view.nodes.iter().any(|node| node.writer && node.problem.is_none());
        let mut report = match is_handed_over {
            _ if self.is_informed => return None,
            true => self.look_before(to, budget, DEADLINE_ORDERED).await,
            false => return None,
        };
        if is_drain {
            // Of the rest, the drain's own limits say what is to be said.
            report.rows.retain(|row| row.check == REPLICA_LOGIN);
        }
        if allow_cold {
            report.rows.retain(|row| row.check != warm::CHECK);
        }
        Some(OrderRefused { code: "preflight", sentence: report.refusal()? })
    }

    /// All that is known.
    async fn now(&self) -> Status {
        let view = self.view();
        let mut status = Status {
            view_age_ms: age(&view, self.started).as_millis() as u64,
            id: self.cluster.id,
            kind: self.kind,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            proxy: self.proxy.stats().await,
            read_port: match &self.reads {
                Some(reads) => Some(reads.stats().await),
                None => None,
            },
            warm: self.warmth.as_ref().map(Warmth::status),
            capacity: self.capacities.status(),
            ..Status::of(&view)
        };
        // The view is up to 200 ms old; ages are told as of it.
        live::add(&mut status, &self.samples);
        self.windows.add(&mut status);
        status
    }

    /// Gives the order, and looks meanwhile at what it waits for: the sessions that were last seen to keep a draining lane busy.
    async fn order_and_watch(&self, order: Order) -> (OrderReply, Vec<Busy>) {
        let mut reply = std::pin::pin!(self.orders.order(order));
        let mut last = vec![];
        loop {
            tokio::select! {
                reply = &mut reply => return (reply, last),
                () = tokio::time::sleep(LOOK_EVERY) => {
                    let stats = self.proxy.stats().await;
                    let drains = |lane: &LaneStats| lane.state == LaneState::Draining && lane.running > 0;
                    let drains = |name: &str| stats.lane(name).is_some_and(drains);
                    let busy: Vec<Busy> =
                        stats.busy.iter().filter(|session| drains(&session.node)).cloned().collect();
                    if !busy.is_empty() {
                        last = busy;
                    }
                }
            }
        }
    }
}

/// The first of them by name, and how many more there are.
fn listed(busy: &[Busy], also: impl Fn(&Busy) -> String) -> String {
    let mut named: Vec<String> =
        busy.iter().take(NAMED_MAX).map(|session| format!("{session}{}", also(session))).collect();
    if busy.len() > NAMED_MAX {
        named.push(format!("{} more, see `understudy status`", busy.len() - NAMED_MAX));
    }
    named.join("; ")
}

impl Control for ClusterControl {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    async fn order(&self, order: Order, manner: Manner) -> OrderReply {
        let force = matches!(order, Order::Switchover { force: true, .. } | Order::Drain { force: true, .. });
        if let Some(refused) = self.refusal(&order, manner.allow_cold).await {
            return Err(refused);
        }
        if manner.dry_run {
            return self.orders.dry_run(order).await;
        }
        let (reply, busy) = self.order_and_watch(order).await;
        match reply {
            Err(refused) if refused.code == "over_budget" && !busy.is_empty() => {
                let sentence =
                    format!("{}; it waited for {}", refused.sentence, listed(&busy, |_| String::new()));
                Err(OrderRefused { sentence, ..refused })
            }
            Ok(done) if force && !busy.is_empty() => {
                let cost = |session: &Busy| format!(" ({})", session.cost);
                let sentence = format!("{}; broken off: {}", done.sentence, listed(&busy, cost));
                Ok(OrderDone { sentence, ..done })
            }
            reply => reply,
        }
    }

    async fn reload(&self, dry_run: bool) -> ReloadReply {
        let refused = |code, sentence: &str| Err(OrderRefused { code, sentence: sentence.to_owned() });
        let (reply, answer) = oneshot::channel();
        match self.reloads.try_send(ReloadRequest { dry_run, reply }) {
            Ok(()) => answer.await.unwrap_or_else(|_| refused("stopping", "Understudy is stopping")),
            Err(mpsc::error::TrySendError::Full(_)) => refused("busy", "other reloads wait: try again"),
            Err(mpsc::error::TrySendError::Closed(_)) => refused("stopping", "Understudy is stopping"),
        }
    }

    async fn preflight(&self, to: Option<NodeId>, budget: Duration) -> Report {
        self.look_before(to, budget, DEADLINE_ASKED).await
    }

    fn standing(&self) -> WriterDecision {
        let view = self.view();
        let writer = view.nodes.iter().find(|node| node.writer).map(|node| node.id);
        // The view is published before an order is answered. While statements wait, a request is not taken for one that only tells of a change.
        let changed_ago = view
            .writer_changed_ms
            .filter(|_| view.gate == TrafficFlow::Open && !self.is_informed)
            .and_then(|at| self.started.checked_add(Duration::from_millis(at)))
            .map(|at| at.elapsed());
        WriterDecision { term: view.term, writer, changed_ago }
    }

    async fn status(&self) -> Status {
        self.now().await
    }

    fn ready(&self) -> Result<(), String> {
        self.health.takes_clients()?;
        self.proxy.flows()
    }

    fn samples(&self, since_unix_ms: u64, every_ms: u64) -> impl Iterator<Item = Bytes> + Send + 'static {
        live::Parts::new(&self.cluster, &self.samples, since_unix_ms, every_ms)
    }

    fn live(&self) -> Option<broadcast::Receiver<Event>> {
        Some(self.live.upgrade()?.subscribe())
    }

    async fn journal(&self, after: u64) -> Result<Vec<Decision>, String> {
        let rows = self.journal.last(JOURNAL_ROWS_MAX).await.map_err(|e| e.to_string())?;
        Ok(rows.into_iter().filter(|row| row.at_unix_ms > after).collect())
    }

    async fn metrics(&self) -> String {
        metrics::text(&self.now().await, &self.capacities.known(), &self.samples)
    }

    fn slow(&self, wish: SlowWish) -> Result<Body, String> {
        let (one_in, by_session) = (wish.rate_limit, wish.by_session);
        let wish = proxy::Wish { one_in, by_session, ..proxy::Wish::default() };
        let (reads, counts) = self.proxy.tap().listen(wish);
        Ok(Body::from_stream(warmup::tap::log::parts(reads, counts)))
    }

    fn health(&self, target: &str) -> Health {
        unwrap(&self.health.get(target))
    }
}

/// Takes a response out of its own head: web writes another one.
fn unwrap(response: &[u8]) -> Health {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(response.len());
    let head = String::from_utf8_lossy(&response[..end]);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(500);
    let content_type = head.lines().find_map(|line| line.strip_prefix("Content-Type: "));
    Health {
        status,
        content_type: content_type.unwrap_or("text/plain").to_owned(),
        body: response.get(end + 4..).unwrap_or_default().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_comes_out_whole() {
        let text = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\na\r\n\r\nb";
        let expect = Health { status: 503, content_type: "text/plain".into(), body: b"a\r\n\r\nb".to_vec() };
        assert_eq!(unwrap(text.as_bytes()), expect);
        assert_eq!(unwrap(b"").status, 500);
    }
}

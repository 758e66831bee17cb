//! The API over a real socket, against a control that only remembers what it was asked.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use api::{Reloaded, Status};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, broadcast};
use topology::about::About;
use topology::order::{Order, OrderDone, OrderRefused, OrderReply};
use topology::preflight::{Report, Row, Severity};
use topology::view::{ClusterView, Decision, Level};
use topology::{NodeId, Term};
use web::key::{ApiKey, Keys};
use web::server::{Server, Settings};
use web::{Body, Bytes, Cluster, Control, Event, Health, Manner, SlowWish, WriterDecision};

const KEY: &str = "0c8aa9384ddf2a5756299a9e7650742a87bbb550";
/// Of who only reads.
const READ_KEY: &str = "5e3b3a7c0b6f4a0f8f5d0c1e2d3f405162738495";

struct Fake {
    cluster: Cluster,
    given: Mutex<Vec<Order>>,
    refuse: Mutex<Option<OrderRefused>>,
    /// When set, an order waits here until it is told to go on.
    gate: Option<Notify>,
    changed_ago: Mutex<Option<Duration>>,
    live: broadcast::Sender<Event>,
}

impl Control for Fake {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }
    async fn order(&self, order: Order, manner: Manner) -> OrderReply {
        if manner.dry_run {
            let sentence = format!("dry run: {order:?}");
            return Ok(OrderDone {
                sentence,
                term: Term(7),
                writer: None,
                took: Duration::ZERO,
                is_changed: true,
            });
        }
        self.given.lock().unwrap().push(order);
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        if let Some(refused) = self.refuse.lock().unwrap().clone() {
            return Err(refused);
        }
        Ok(OrderDone {
            sentence: "db2 writes now".into(),
            term: Term(8),
            writer: Some(NodeId(1)),
            took: Duration::from_millis(83),
            is_changed: true,
        })
    }
    async fn reload(&self, dry_run: bool) -> Result<(String, Reloaded), OrderRefused> {
        match self.refuse.lock().unwrap().clone() {
            Some(refused) => Err(refused),
            None => Ok((format!("dry run: {dry_run}"), Reloaded::default())),
        }
    }
    async fn preflight(&self, to: Option<NodeId>, budget: Duration) -> Report {
        let name = |id| self.cluster.name_of(id).to_owned();
        let row = Row {
            check: "lag".into(),
            node: to.map_or_else(|| "db1".into(), name),
            verdict: Severity::Slow,
            sentence: format!("is behind, and the budget is {budget:?}"),
            remedy: String::new(),
        };
        Report { from: Some("db1".into()), to: to.map(name), fails: false, rows: vec![row] }
    }
    fn standing(&self) -> WriterDecision {
        WriterDecision {
            term: Term(8),
            writer: Some(NodeId(1)),
            changed_ago: *self.changed_ago.lock().unwrap(),
        }
    }
    async fn status(&self) -> Status {
        Status::of(&ClusterView { term: Term(8), ..ClusterView::default() })
    }
    async fn journal(&self, after: u64) -> Result<Vec<Decision>, String> {
        Ok(vec![Decision {
            at_unix_ms: after + 1,
            level: Level::Info,
            text: "db2 writes".into(),
            term: 8,
            about: About::Other,
        }])
    }
    fn samples(&self, since_unix_ms: u64, every_ms: u64) -> impl Iterator<Item = Bytes> + Send + 'static {
        [format!("{{\"since\":{since_unix_ms},"), format!("\"every\":{every_ms}}}")]
            .into_iter()
            .map(Bytes::from)
    }
    fn live(&self) -> Option<broadcast::Receiver<Event>> {
        Some(self.live.subscribe())
    }
    fn ready(&self) -> Result<(), String> {
        match self.refuse.lock().unwrap().as_ref() {
            Some(refused) => Err(refused.sentence.clone()),
            None => Ok(()),
        }
    }
    async fn metrics(&self) -> String {
        "understudy_term 8\n".into()
    }
    fn slow(&self, wish: SlowWish) -> Result<Body, String> {
        if wish.rate_limit == 7 {
            return Err("nothing is read here".into());
        }
        Ok(Body::from(format!("{wish:?}")))
    }
    fn health(&self, target: &str) -> Health {
        let status = if target.starts_with("/health/db2") { 503 } else { 200 };
        Health { status, content_type: "text/plain".into(), body: target.as_bytes().to_vec() }
    }
}

struct Stand {
    server: Server,
    fake: Arc<Fake>,
}

impl Stand {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(gate: Option<Notify>) -> Self {
        let nodes =
            [(0, "db1"), (1, "db2"), (2, "db3")].map(|(id, name)| (NodeId(id), name.to_owned())).to_vec();
        let cluster = Cluster { id: 5, name: "shop".into(), nodes };
        let live = broadcast::channel(8).0;
        let fake = Arc::new(Fake {
            cluster,
            given: Mutex::default(),
            refuse: Mutex::default(),
            gate,
            changed_ago: Mutex::default(),
            live,
        });
        let settings = Settings {
            http: vec!["127.0.0.1:0".into()],
            https: vec![],
            tls: None,
            keys: Keys { operator: ApiKey::new(KEY).unwrap(), reader: Some(ApiKey::new(READ_KEY).unwrap()) },
            budget: Duration::from_secs(5),
            limits: web::ConnectionLimits::default(),
        };
        let server = web::server::start(settings, Arc::clone(&fake)).unwrap();
        Self { server, fake }
    }

    fn address(&self) -> SocketAddr {
        self.server.http()[0]
    }

    /// One request as curl writes it. Status line's number, and the body.
    async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        ask(self.address(), method, path, headers, body).await
    }

    /// `curl -X PUT .../PATH -d BODY`.
    async fn put(&self, path: &str, body: &str) -> (u16, Value) {
        let form = "Content-Type: application/x-www-form-urlencoded\r\n";
        let (status, body) = self.ask("PUT", path, form, body).await;
        (status, serde_json::from_str(&body).unwrap())
    }

    async fn get(&self, path: &str, headers: &str) -> (u16, Value) {
        let (status, body) = self.ask("GET", path, headers, "").await;
        (status, serde_json::from_str(&body).unwrap())
    }

    fn given(&self) -> Vec<Order> {
        self.fake.given.lock().unwrap().clone()
    }
}

async fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let answer = whole(address, method, path, headers, body).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The answer with its head.
async fn whole(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn keyed(more: &str) -> String {
    format!("{{\"apikey\": \"{KEY}\"{more}}}")
}

const FAILOVER: &str = "/api/cluster/5/manual_failover";

#[tokio::test]
async fn the_table_before_a_switchover_is_shown_for_whom_and_within_what_is_asked() {
    let stand = Stand::new();
    let key = format!("X-Api-Key: {KEY}\r\n");
    let path = "/api/cluster/5/preflight";
    assert_eq!(stand.get(path, "").await.0, 401);
    let (status, said) = stand.get(path, &key).await;
    assert_eq!((status, &said["data"]["to"]), (200, &Value::Null));
    assert_eq!(said["message"], "a switchover of cluster shop to nobody can be tried");
    let (status, said) = stand.get(&format!("{path}?to=db2&budget_ms=250"), &key).await;
    assert_eq!((status, &said["data"]["to"], &said["data"]["fails"]), (200, &json!("db2"), &json!(false)));
    let row = json!({
        "check": "lag", "node": "db2", "verdict": "slow", "sentence": "is behind, and the budget is 250ms", "remedy": ""
    });
    assert_eq!(said["data"]["rows"], json!([row]));
    assert_eq!(stand.get(&format!("{path}?to=db9"), &key).await.0, 404);
    for wrong in ["to", "to=db2&to=db3", "budget_ms=soon", "budget_ms=600001", "force=true"] {
        assert_eq!(stand.get(&format!("{path}?{wrong}"), &key).await.0, 400, "{wrong}");
    }
    assert!(stand.given().is_empty(), "it is no order");
}

#[tokio::test]
async fn the_seeds_curl_is_answered_in_the_seeds_shape() {
    let stand = Stand::new();
    let (status, said) = stand.put(FAILOVER, &keyed("")).await;
    assert_eq!(status, 200);
    assert_eq!(said["success"], true);
    assert_eq!(said["message"], "db2 writes now");
    assert!(said["timestamp"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!(said["data"], json!({ "term": 8, "writer": "db2", "took_ms": 83.0, "changed": true }));
    assert_eq!(stand.given(), [Order::Switchover { to: None, budget: Duration::from_secs(5), force: false }]);
}

#[tokio::test]
async fn nothing_is_told_or_done_without_the_key() {
    let stand = Stand::new();
    for body in ["", "{}", r#"{"apikey": ""}"#, r#"{"apikey": "0c8aa9384ddf2a57"}"#] {
        for path in [FAILOVER, "/api/cluster/5/switchover", "/api/cluster/99/node/db1/drain"] {
            let (status, said) = stand.put(path, body).await;
            assert_eq!(status, 401, "{path} {body}");
            assert_eq!(said["data"]["code"], "bad_key");
            assert_eq!(said["success"], false);
        }
    }
    let reading = [
        "/api/cluster/5/status",
        "/api/cluster/99/status",
        "/api/cluster/5/journal",
        "/api/cluster/5/changes",
        "/slow",
        "/api/cluster/5/slow",
    ];
    for path in reading {
        assert_eq!(stand.get(path, "").await.0, 401, "{path}");
        assert_eq!(stand.get(path, "X-Api-Key: wrong\r\n").await.0, 401, "{path}");
    }
    assert_eq!(stand.given(), []);
}

#[tokio::test]
async fn the_key_may_come_as_a_header() {
    let stand = Stand::new();
    for header in [format!("X-Api-Key: {KEY}\r\n"), format!("Authorization: Bearer {KEY}\r\n")] {
        assert_eq!(stand.get("/api/cluster/5/status", &header).await.1["data"]["term"], 8);
        assert_eq!(
            stand.get("/api/cluster/shop/journal?after=7", &header).await.1["data"][0]["at_unix_ms"],
            8
        );
        let (status, _) = stand.ask("PUT", "/api/cluster/5/node/db3/undrain", &header, "").await;
        assert_eq!(status, 200);
    }
    assert_eq!(stand.get("/healthz", "").await.0, 200);
    assert_eq!(stand.ask("GET", "/readyz", "", "").await, (200, "statements flow\n".to_owned()));
    let held = OrderRefused { code: "held", sentence: "no node can write".into() };
    *stand.fake.refuse.lock().unwrap() = Some(held);
    let waits = "statements wait: no node can write\n".to_owned();
    assert_eq!(stand.ask("GET", "/readyz", "", "").await, (503, waits));
    *stand.fake.refuse.lock().unwrap() = None;
    assert_eq!(stand.ask("GET", "/metrics", "", "").await, (200, "understudy_term 8\n".to_owned()));
    for (target, status) in [("/health", 200), ("/health/db1?donor=1", 200), ("/health/db2/writer", 503)] {
        for method in ["GET", "OPTIONS", "POST"] {
            assert_eq!(stand.ask(method, target, "", "").await, (status, target.to_owned()), "{method}");
        }
        assert_eq!(stand.ask("HEAD", target, "", "").await, (status, String::new()));
    }
}

#[tokio::test]
async fn reads_are_told_to_who_has_the_key() {
    let stand = Stand::new();
    let key = format!("X-Api-Key: {KEY}\r\n");
    let all = (200, "SlowWish { rate_limit: 1, by_session: false }".to_owned());
    for path in ["/slow", "/api/cluster/5/slow", "/api/cluster/shop/slow?by=event"] {
        assert_eq!(stand.ask("GET", path, &key, "").await, all, "{path}");
    }
    let some = (200, "SlowWish { rate_limit: 10, by_session: true }".to_owned());
    assert_eq!(stand.ask("GET", "/slow?rate_limit=10&by=session", &key, "").await, some);
    assert_eq!(stand.get("/slow?from=start", &key).await.0, 400);
    assert_eq!(stand.get("/api/cluster/99/slow", &key).await.0, 404);
    let (status, said) = stand.get("/slow?rate_limit=7", &key).await;
    assert_eq!((status, &said["message"]), (503, &json!("nothing is read here")));
}

#[tokio::test]
async fn each_order_is_understood() {
    let stand = Stand::new();
    let cases = [
        ("switchover", r#","to":"db3","budget_ms":250"#),
        ("switchover", r#","force":true"#),
        ("node/db1/drain", ""),
        ("node/db1/drain", r#","budget_ms":0,"force":true"#),
        ("node/db1/undrain", ""),
        ("node/db2/max_connections", r#","value":7.0"#),
        ("node/db2/max_connections", r#","value":null"#),
        ("node/db2/max_connections", r#","value":0"#),
    ];
    for (path, more) in cases {
        let (status, said) = stand.put(&format!("/api/cluster/5/{path}"), &keyed(more)).await;
        assert_eq!((status, &said["success"]), (200, &json!(true)), "{path}: {said}");
    }
    let budget = Duration::from_secs(5);
    assert_eq!(
        stand.given(),
        [
            Order::Switchover { to: Some(NodeId(2)), budget: Duration::from_millis(250), force: false },
            Order::Switchover { to: None, budget, force: true },
            Order::Drain { node: NodeId(0), budget, force: false, temporary: false },
            Order::Drain { node: NodeId(0), budget: Duration::ZERO, force: true, temporary: false },
            Order::Undrain { node: NodeId(0), temporary: false },
            Order::SetSessionsMax { node: NodeId(1), sessions_max: Some(7) },
            Order::SetSessionsMax { node: NodeId(1), sessions_max: None },
            Order::Drain { node: NodeId(1), budget, force: false, temporary: false },
        ]
    );
}

#[tokio::test]
async fn a_dry_run_of_each_order_is_given_as_one() {
    let stand = Stand::new();
    for (path, more, told) in [
        (
            "switchover",
            r#","to":"db3","force":true"#,
            "Switchover { to: Some(NodeId(2)), budget: 5s, force: true }",
        ),
        ("manual_failover", "", "Switchover { to: None, budget: 5s, force: false }"),
        ("node/db1/drain", "", "Drain { node: NodeId(0), "),
        ("node/db1/undrain", "", "Undrain { node: NodeId(0), "),
        (
            "node/db2/max_connections",
            r#","value":7"#,
            "SetSessionsMax { node: NodeId(1), sessions_max: Some(7) }",
        ),
        ("reload", "", "true"),
    ] {
        let path = format!("/api/cluster/5/{path}");
        let (status, said) = stand.put(&path, &keyed(&format!(r#"{more},"dry_run":true"#))).await;
        assert_eq!(status, 200, "{path}: {said}");
        assert!(said["message"].as_str().unwrap().starts_with(&format!("dry run: {told}")), "{said}");
        if !path.ends_with("reload") {
            assert_eq!(
                (&said["data"]["would_change"], &said["data"]["changed"]),
                (&json!(true), &json!(false))
            );
        }
        let (status, said) = stand.put(&path, &keyed(&format!(r#"{more},"dry_run":"yes""#))).await;
        assert_eq!((status, &said["data"]["code"]), (400, &json!("bad_request")), "{path}: {said}");
    }
    assert_eq!(stand.given(), [], "nothing is carried out");
}

#[tokio::test]
async fn what_makes_no_sense_is_one_sentence_and_nothing_is_done() {
    let stand = Stand::new();
    let cases = [
        (FAILOVER, "apikey=abc".to_owned(), 400, "bad_request", "not a JSON object"),
        (FAILOVER, "[1]".to_owned(), 400, "bad_request", "not a JSON object"),
        (FAILOVER, r#"{"apikey": 5}"#.to_owned(), 400, "bad_request", "must be a string"),
        (FAILOVER, keyed(r#","tp":"db2""#), 400, "bad_request", "unknown field `tp`"),
        (FAILOVER, keyed(r#","force":true"#), 400, "bad_request", "unknown field `force`"),
        ("/api/cluster/5/switchover", keyed(r#","force":1"#), 400, "bad_request", "expected a boolean"),
        (FAILOVER, keyed(r#","to":"db9""#), 404, "unknown_node", "it has db1, db2, db3"),
        (FAILOVER, keyed(r#","budget_ms":600001"#), 400, "bad_request", "at most 600000"),
        (FAILOVER, keyed(r#","budget_ms":-1"#), 400, "bad_request", "does not fit"),
        ("/api/cluster/6/switchover", keyed(""), 404, "unknown_cluster", "this is cluster 5 (shop)"),
        ("/api/cluster/5/node/db1/max_connections", keyed(""), 400, "bad_request", "value must be"),
        ("/api/cluster/5/node/db1/max_connections", keyed(r#","value":-1"#), 400, "bad_request", "value"),
        ("/api/cluster/5/node/x/drain", keyed(""), 404, "unknown_node", "no node \"x\""),
        ("/api/cluster/5/nothing", keyed(""), 404, "no_such_path", "no such path"),
        ("/api/cluster/5/status", keyed(""), 405, "wrong_method", "orders are PUT"),
    ];
    for (path, body, status, code, sentence) in cases {
        let (got, said) = stand.put(path, &body).await;
        assert_eq!((got, said["data"]["code"].as_str()), (status, Some(code)), "{path} {body}: {said}");
        assert!(said["message"].as_str().unwrap().contains(sentence), "{said}");
        assert!(!said.to_string().contains(KEY), "the key must not come back: {said}");
    }
    let header = format!("X-Api-Key: {KEY}\r\n");
    assert_eq!(stand.get("/api/cluster/5/journal?since=3", &header).await.0, 400);
    assert_eq!(stand.given(), []);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let stand = Stand::new();
    let (status, said) = stand.put(FAILOVER, &keyed(&format!(r#","to":"{}""#, "x".repeat(70_000)))).await;
    assert_eq!((status, &said["data"]["code"]), (413, &json!("too_large")));
}

#[tokio::test]
async fn a_refusal_carries_its_code_and_may_be_tried_again() {
    let stand = Stand::new();
    let sentence = "db2 is read-only: nothing was changed";
    *stand.fake.refuse.lock().unwrap() =
        Some(OrderRefused { code: "not_writable", sentence: sentence.into() });
    let (status, said) = stand.put(FAILOVER, &keyed("")).await;
    assert_eq!((status, &said["data"]["code"]), (409, &json!("not_writable")));
    assert_eq!((&said["success"], &said["message"]), (&json!(false), &json!(sentence)));
    *stand.fake.refuse.lock().unwrap() = None;
    assert_eq!(stand.put(FAILOVER, &keyed("")).await.0, 200);
    assert_eq!(stand.given().len(), 2);
}

#[tokio::test]
async fn manual_failover_asked_again_is_done_once() {
    let stand = Stand::new();
    let (_, first) = stand.put(FAILOVER, &keyed("")).await;
    let (status, second) = stand.put(FAILOVER, &keyed("")).await;
    assert_eq!((status, &second["data"]["writer"]), (200, &first["data"]["writer"]));
    assert_eq!(second["data"]["repeated"], true);
    assert_eq!(stand.given().len(), 1);
    // A caller who names the old writer is told that it is none any more; one who names the target is obeyed.
    let (_, said) = stand.put(FAILOVER, &keyed(r#","from":"db1""#)).await;
    assert!(said["message"].as_str().unwrap().contains("nothing had to be moved"), "{said}");
    assert_eq!(stand.given().len(), 1);
    assert_eq!(stand.put(FAILOVER, &keyed(r#","to":"db3""#)).await.0, 200);
    assert_eq!(stand.given().len(), 2);
}

/// Moved by an order with a target, by a failover or by another program: the request tells of that.
#[tokio::test]
async fn manual_failover_just_after_any_change_of_the_writer_moves_nothing() {
    let stand = Stand::new();
    *stand.fake.changed_ago.lock().unwrap() = Some(Duration::from_millis(1_500));
    let (status, said) = stand.put(FAILOVER, &keyed("")).await;
    assert_eq!((status, &said["success"], &said["data"]["changed"]), (200, &json!(true), &json!(false)));
    assert_eq!((&said["data"]["repeated"], &said["data"]["writer"]), (&json!(true), &json!("db2")));
    assert!(said["message"].as_str().unwrap().contains("the writer changed 1.5 s ago"), "{said}");
    assert_eq!(stand.given(), []);
    // Who names a target insists, and later the request is one to move the writer.
    assert_eq!(stand.put(FAILOVER, &keyed(r#","to":"db3""#)).await.0, 200);
    *stand.fake.changed_ago.lock().unwrap() = Some(Duration::from_secs(10));
    let (_, said) = stand.put(FAILOVER, &keyed("")).await;
    assert_eq!(said["data"]["changed"], true);
    assert_eq!(stand.given().len(), 2);
}

#[tokio::test]
async fn manual_failovers_at_the_same_time_are_one() {
    let stand = Stand::with(Some(Notify::new()));
    let address = stand.address();
    let ask = || tokio::spawn(async move { ask(address, "PUT", FAILOVER, "", &keyed("")).await });
    let (first, second) = (ask(), ask());
    // One order is given and waits; both callers do.
    while stand.given().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // A caller that hangs up does not stop it.
    drop(TcpStream::connect(address).await.unwrap());
    stand.fake.gate.as_ref().unwrap().notify_one();
    for answer in [first, second] {
        let (status, body) = answer.await.unwrap();
        assert_eq!(status, 200, "{body}");
    }
    assert_eq!(stand.given().len(), 1);
}

#[tokio::test]
async fn shutdown_ends_in_its_grace_with_an_idle_client_connected() {
    let stand = Stand::new();
    let _idle = TcpStream::connect(stand.address()).await.unwrap();
    let end = stand.server.shutdown(Duration::from_millis(200));
    tokio::time::timeout(Duration::from_secs(5), end).await.unwrap();
}

#[tokio::test]
async fn samples_are_told_from_a_moment_on() {
    let stand = Stand::new();
    let key = format!("X-Api-Key: {KEY}\r\n");
    for path in ["/v1/samples", "/api/cluster/5/samples"] {
        assert_eq!(stand.get(path, "").await.0, 401);
        let (status, said) = stand.get(&format!("{path}?since=77"), &key).await;
        assert_eq!((status, &said["data"]), (200, &json!({ "since": 77, "every": 0 })));
        let (_, said) = stand.get(&format!("{path}?since=77&every_ms=10000"), &key).await;
        assert_eq!(said["data"]["every"], 10_000);
        assert!(stand.get(path, &key).await.1["data"]["since"].as_u64().unwrap() > 77, "the last minute");
        assert_eq!(stand.get(&format!("{path}?until=77"), &key).await.0, 400);
    }
}

#[tokio::test]
async fn events_are_told_as_they_come_and_only_to_who_has_the_key() {
    let stand = Stand::new();
    assert_eq!(stand.get("/v1/live", "").await.0, 401);
    let mut stream = TcpStream::connect(stand.address()).await.unwrap();
    let request = format!("GET /v1/live HTTP/1.1\r\nHost: x\r\nX-Api-Key: {KEY}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let mut heard = async |wanted: &str| {
        while !String::from_utf8_lossy(&said).contains(wanted) {
            let deadline = Duration::from_secs(10);
            let read = tokio::time::timeout(deadline, stream.read_buf(&mut said)).await.unwrap().unwrap();
            assert!(read > 0, "it ended without {wanted}: {}", String::from_utf8_lossy(&said));
        }
    };
    heard("text/event-stream").await;
    for term in [8, 9] {
        stand.fake.live.send(Event::new("status", &json!({ "term": term }))).unwrap();
        heard(&format!("event: status\ndata: {{\"term\":{term}}}\n\n")).await;
    }
}

/// The most that the page's files may have together, bytes.
const PAGE_BYTES_MAX: usize = 120 * 1024;

/// The page's files need no key, and have everything that they name; nothing in them can run but the script, which never makes HTML of a text.
#[tokio::test]
async fn the_page_is_served_whole_and_bound_by_its_headers() {
    let stand = Stand::new();
    let mut files = Vec::new();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.svg", "image/svg+xml"),
    ] {
        let answer = whole(stand.address(), "GET", path, "", "").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200"), "{path}: {head}");
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
        let content_type = format!("content-type: {content_type}");
        for line in [policy, &content_type, "x-content-type-options: nosniff", "cache-control: no-store"] {
            assert!(head.lines().any(|other| other == line), "{path} has no {line}: {head}");
        }
        files.push(body.to_owned());
    }
    assert!(files.iter().map(String::len).sum::<usize>() <= PAGE_BYTES_MAX);
    let [html, script, ..] = &files[..] else { panic!("{files:?}") };
    for named in html.split(['"', ' ']).filter(|word| word.starts_with("page.")) {
        assert_eq!(stand.ask("GET", &format!("/{named}"), "", "").await.0, 200, "{named}");
    }
    for wrong in [" style=", "<style", "javascript:", "http://", "https://", " on"] {
        let attributes = html.split('<').filter_map(|tag| tag.split('>').next());
        assert!(attributes.clone().all(|tag| !tag.contains(wrong)), "{wrong}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    let makers =
        ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "DOMParser"];
    for wrong in
        makers.into_iter().chain(["srcdoc", "createContextualFragment", "setHTML", "localStorage", "cookie"])
    {
        assert!(!script.contains(wrong), "{wrong}");
    }
    assert_eq!(stand.ask("PUT", "/", "", "").await.0, 405);
}

#[tokio::test]
async fn the_key_that_only_reads_gives_no_order_and_sees_no_statements() {
    let stand = Stand::new();
    let (reader, operator) = (format!("X-Api-Key: {READ_KEY}\r\n"), format!("X-Api-Key: {KEY}\r\n"));
    assert_eq!(stand.get("/v1/key", "").await.0, 401);
    assert_eq!(stand.get("/v1/key", &reader).await.1["data"], json!({ "role": "reader" }));
    assert_eq!(stand.get("/v1/key", &operator).await.1["data"], json!({ "role": "operator" }));
    for path in ["status", "journal", "preflight", "samples"] {
        assert_eq!(stand.get(&format!("/api/cluster/5/{path}"), &reader).await.0, 200, "{path}");
    }
    for path in ["/slow", "/api/cluster/5/slow"] {
        let (status, said) = stand.get(path, &reader).await;
        assert_eq!((status, &said["data"]["code"]), (403, &json!("read_only_key")), "{path}");
    }
    for path in [
        "manual_failover",
        "switchover",
        "reload",
        "node/db1/drain",
        "node/db1/undrain",
        "node/db1/max_connections",
    ] {
        let path = format!("/api/cluster/5/{path}");
        let body = format!("{{\"apikey\": \"{READ_KEY}\"}}");
        for (header, body) in [(&*reader, "{}"), ("", &*body)] {
            let (status, said) = stand.ask("PUT", &path, header, body).await;
            assert_eq!(status, 403, "{path}: {said}");
            assert!(!said.contains(READ_KEY), "{said}");
        }
    }
    assert_eq!(stand.given(), []);
}

/// With a key that is right, each path that is described answers the method that is described, and no other.
#[tokio::test]
async fn what_is_described_is_there() {
    let stand = Stand::new();
    let key = format!("X-Api-Key: {KEY}\r\n");
    let (status, document) = stand.get("/openapi.json", "").await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    println!("{document:#}");
    for (path, methods) in document["paths"].as_object().unwrap() {
        let real = path.replace("{id}", "5").replace("{name}", "db1").replace("{rest}", "db1");
        let others = ["GET", "PUT", "POST", "PATCH", "DELETE"].map(|method| (method, method.to_lowercase()));
        for (method, key_in_document) in others {
            // This one has no end.
            if path.ends_with("/live") && method == "GET" {
                continue;
            }
            let (status, body) = stand.ask(method, &real, &key, r#"{"value": 7}"#).await;
            match methods.get(key_in_document) {
                Some(operation) => {
                    assert!(
                        operation["responses"].get(status.to_string()).is_some(),
                        "{method} {path}: {status} {body}"
                    );
                    assert_ne!(status, 404, "{method} {path}: {body}");
                }
                None => assert_eq!(status, 405, "{method} {path}: {body}"),
            }
        }
    }
}

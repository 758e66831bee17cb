//! What the HTTP API says of itself at `/openapi.json` is what it does, before a primary with two replicas: every path, orders that are done and
//! orders that are refused, events as they come, and what the commands print with `--json`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use testbed::described::{Answer, Description, ask};
use testbed::program::{LONG, Serving};
use testbed::scene::{Scene, is_well, status_when};

/// Of who only reads.
const READ_KEY: &str = "5e3b3a7c0b6f4a0f8f5d0c1e2d3f405162738495";

struct Api {
    serving: Serving,
    described: Description,
    key: String,
}

impl Api {
    /// Asks for a path of the description, in which `real` stands for what is in braces; the answer must be as it is described.
    fn ask_as(&self, key: &str, method: &str, path: &str, real: &str, body: &str) -> Answer {
        let answer = ask(&self.serving.http, method, real, key, body);
        self.described.check(method, path, &answer);
        answer
    }

    fn put(&self, what: &str, node: &str, body: &str) -> (u16, Value) {
        let path = format!("/api/cluster/{{id}}/{what}");
        let real = path.replace("{id}", "5").replace("{name}", node);
        let answer = self.ask_as(&self.key, "PUT", &path, &real, body);
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_as_it_describes_itself() {
    let scene = Scene::of("described", true).await;
    let directory = scene.directory("");
    let file = directory.path().join("understudy.toml");
    let config = std::fs::read_to_string(&file).unwrap() + "[api]\nread_key_file = \"read.key\"\n";
    std::fs::write(&file, &config).unwrap();
    std::fs::write(directory.path().join("read.key"), READ_KEY).unwrap();
    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", |status| {
        is_well(status) && status["nodes"].as_array().unwrap().iter().all(|node| node["rates"].is_object())
    });
    let key = std::fs::read_to_string(serving.state("api.key")).unwrap().trim().to_owned();
    let api = Api { described: Description::of(&serving.http), serving, key };
    every_path(&api);
    events(&api);
    commands(&api);
    orders(&api);
    std::fs::write(&file, config.replace("[api]", "[apis]")).unwrap();
    assert_eq!(api.put("reload", "", "").0, 409);
    drop(api);
    scene.stage.down().await.unwrap();
}

/// With each key and without one, for the cluster and for one that there is not.
fn every_path(api: &Api) {
    let mut seen = BTreeSet::new();
    for (path, methods) in api.described.told["paths"].as_object().unwrap() {
        let real = path.replace("{id}", "5").replace("{name}", "db2").replace("{rest}", "db1");
        for (method, operation) in methods.as_object().unwrap() {
            let method = method.to_uppercase();
            let status_for =
                |key: &str, real: &str, body: &str| api.ask_as(key, &method, path, real, body).status;
            // These have no end; `events` reads one of them.
            let is_endless = path.ends_with("/live") || path.ends_with("/slow");
            if method == "GET" && !is_endless {
                assert_eq!(status_for(&api.key, &real, ""), 200, "{path}");
            }
            if operation.get("security").is_some() {
                assert_eq!(status_for("", &real, ""), 401, "{method} {path}");
                assert_eq!(status_for("wrong", &real, ""), 401, "{method} {path}");
                let is_for_both = method == "GET" && !path.ends_with("/slow");
                assert!(is_for_both || status_for(READ_KEY, &real, "") == 403, "{method} {path}");
            }
            if path.contains("{id}") {
                assert_eq!(status_for(&api.key, &real.replace('5', "6"), ""), 404, "{method} {path}");
                assert_eq!(status_for(&api.key, &real.replace('5', "%ff"), ""), 400, "{method} {path}");
            }
            if operation["parameters"].as_array().unwrap().iter().any(|parameter| parameter["in"] == "query")
            {
                assert_eq!(status_for(&api.key, &format!("{real}?x=y"), ""), 400, "{path}");
            }
            if operation.get("requestBody").is_some() {
                assert_eq!(status_for(&api.key, &real, "[]"), 400, "{path}");
                assert_eq!(status_for(&api.key, &real, &"x".repeat(70_000)), 413, "{path}");
            }
            seen.insert(path.clone());
        }
    }
    for path in ["/api/cluster/{id}/status", "/v1/live", "/metrics", "/health/{rest}", "/", "/openapi.json"] {
        assert!(seen.contains(path), "{path} is not described: {seen:?}");
    }
    for rest in ["db1/status", "db1/answer", "db1/replica", "db9"] {
        api.ask_as("", "GET", "/health/{rest}", &format!("/health/{rest}"), "");
    }
    let answer = ask(&api.serving.http, "GET", "/nothing", &api.key, "");
    api.described.is("Refusal", &serde_json::from_str(&answer.body).unwrap());
    assert_eq!(answer.status, 404);
    let answer = ask(&api.serving.http, "POST", "/v1/key", &api.key, "");
    api.described.is("Refusal", &serde_json::from_str(&answer.body).unwrap());
    assert_eq!(answer.status, 405);
}

/// The first of each kind.
fn events(api: &Api) {
    let mut stream = TcpStream::connect(&api.serving.http).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "GET /v1/live HTTP/1.0\r\nAuthorization: Bearer {}\r\n\r\n", api.key).unwrap();
    let mut wanted = BTreeSet::from(["sample", "status"]);
    let mut name = String::new();
    let mut lines = BufReader::new(stream).lines();
    while !wanted.is_empty() {
        let line = lines.next().unwrap().unwrap();
        if let Some(told) = line.strip_prefix("event: ") {
            told.clone_into(&mut name);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data).unwrap();
            match &*name {
                "status" => api.described.is("Status", &data),
                "sample" => api.described.is("SampleEvent", &data),
                other => panic!("an event that is not described: {other}"),
            }
            wanted.remove(&*name);
        }
    }
}

/// Orders that are done, and orders that are refused.
fn orders(api: &Api) {
    let drained = |said: &(u16, Value)| (said.0, said.1["data"]["changed"].clone());
    assert_eq!(drained(&api.put("node/{name}/drain", "db3", "")), (200, json!(true)));
    assert_eq!(
        drained(&api.put("node/{name}/undrain", "db3", r#"{"temporary": false}"#)),
        (200, json!(true))
    );
    assert_eq!(api.put("node/{name}/max_connections", "db3", r#"{"value": 100}"#).0, 200);
    assert_eq!(api.put("node/{name}/drain", "db9", "").0, 404);
    assert_eq!(api.put("reload", "", "").0, 200);
    let (status, said) = api.put("switchover", "", r#"{"to": "db2", "budget_ms": 10000}"#);
    assert_eq!((status, &said["data"]["writer"]), (200, &json!("db2")), "{said}");
    let (status, said) = api.put("switchover", "", r#"{"from": "db1"}"#);
    assert_eq!((status, &said["data"]["changed"]), (200, &json!(false)), "{said}");
    let (status, said) = api.put("manual_failover", "", "");
    assert_eq!((status, &said["data"]["repeated"]), (200, &json!(true)), "{said}");
    for node in ["db1", "db3"] {
        assert_eq!(api.put("node/{name}/drain", node, "").0, 200);
    }
    let (status, said) = api.put("switchover", "", "");
    assert_eq!(status, 409, "{said}");
    let path = "/api/cluster/{id}/changes";
    let answer = api.ask_as(&api.key, "GET", path, "/api/cluster/5/changes?after=1", "");
    let said: Value = serde_json::from_str(&answer.body).unwrap();
    let changes = said["data"].as_array().unwrap();
    let is_the_move =
        |change: &&Value| change["to"] == "db2" && change["from"] == "db1" && change["end"] == "writes";
    assert_eq!(changes.iter().filter(is_the_move).count(), 1, "{said}");
}

/// What the commands print.
fn commands(api: &Api) {
    let said = |args: &[&str]| {
        let ended = api.serving.ask(args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.said());
        ended.json()
    };
    api.described.is("Status", &said(&["status", "--json"]));
    let rows = json!({ "type": "array", "items": { "$ref": "#/components/schemas/Decision" } });
    api.described.fits(&rows, &said(&["journal", "--json"]), "journal --json");
    let sessions = json!({ "type": "array", "items": { "$ref": "#/components/schemas/Busy" } });
    api.described.fits(&sessions, &said(&["processlist", "--json"]), "processlist --json");
    api.described.is("Preflight", &said(&["switchover", "--check", "--json", "-"]));
    for order in [&["drain", "db3"][..], &["undrain", "db3"], &["set-max-connections", "db3", "none"]] {
        let printed = said(&[order, &["--json"]].concat());
        api.described.is("Outcome", &printed["data"]);
    }
    api.described.is("Reloaded", &said(&["reload", "--json"])["data"]);
    // The status has the same of each node, without what the command itself makes of it.
    let mut forecast = api.serving.ask(&["recovery", "forecast", "--json"]).json();
    for node in forecast["nodes"].as_array_mut().unwrap() {
        node.as_object_mut().unwrap().remove("is_well").unwrap();
        api.described.is("Outlook", node);
    }
}

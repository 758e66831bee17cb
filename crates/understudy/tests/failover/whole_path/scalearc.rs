//! The seed's command, as it stands there but for host and key:
//! `curl -k -X PUT https://172.31.10.30/api/cluster/5/manual_failover -d '{"apikey": "..."}'`.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testbed::program::{Ended, Serving, run};

use super::{KEY, Scene, is_well, node, status_when, term, writer};

/// How long after a change of the writer a request without a target only tells of it.
const WINDOW: Duration = Duration::from_secs(10);

/// Answered without a move just after one; refused when the new writer is not writable, done, done once only, refused without the key. db2 writes before.
pub async fn all(scene: &Scene, serving: &Serving) {
    let before = serving.status();
    assert_eq!(writer(&before), "db2");
    after_a_change(scene, serving).await;
    not_writable(scene, serving).await;
    twice(scene, serving);
    wrong_key(scene, serving);
    certificate(scene);
}

/// The seed's line; `more` stands behind the key, and the answer's head before the answer.
fn curl(scene: &Scene, options: &str, key: &str, more: &str) -> Ended {
    // The seed writes no port: 443.
    let place = match scene.https.port() {
        443 => scene.https.ip().to_string(),
        _ => scene.https.to_string(),
    };
    let line = format!(
        "curl {options} -X PUT https://{place}/api/cluster/5/manual_failover -d '{{\"apikey\": \"{key}\"{more}}}'"
    );
    // -s: no progress table beside the answer; -i: the head, too; -m: never for ever.
    run(Command::new("sh").arg("-c").arg(line.replacen("curl", "curl -s -i -m 60", 1)))
}

/// The status line's number, and the answer.
fn answer(ended: &Ended) -> (u16, String, Value) {
    assert_eq!(ended.code, 0, "{}", ended.said());
    let (head, body) = ended.out.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned(), serde_json::from_str(body).unwrap())
}

/// The pair of a planned change: the writer is moved by name, and the balancer is told.
async fn after_a_change(scene: &Scene, serving: &Serving) {
    for to in ["db1", "db2"] {
        serving.ask(&["switchover", "--to", to]).with(0);
        let moved = serving.status();
        let (status, _, said) = answer(&curl(scene, "-k", KEY, ""));
        assert_eq!(
            (status, &said["data"]["changed"], &said["data"]["writer"]),
            (200, &Value::Bool(false), &Value::from(to)),
            "{said}"
        );
        assert_eq!(said["data"]["repeated"], true, "{said}");
        let after = serving.status();
        assert_eq!((writer(&after), term(&after)), (to.to_owned(), term(&moved)), "{said}");
    }
    // From here on such a request is one to move the writer.
    tokio::time::sleep(WINDOW).await;
}

async fn not_writable(scene: &Scene, serving: &Serving) {
    let before = serving.status();
    // At once, before any probe can have seen it: the new writer's own word counts, not what was believed of it.
    scene.sql("db3", "SET GLOBAL read_only=ON").await;
    let (status, _, said) = answer(&curl(scene, "-k", KEY, ", \"to\": \"db3\""));
    assert_eq!((status, &said["success"]), (409, &Value::Bool(false)), "{said}");
    assert_eq!(said["data"]["code"], "not_writable", "{said}");
    let reason = said["message"].as_str().unwrap();
    println!("          refused: {reason}");
    // A probe may see it before the new writer is asked, or even before the order is taken up.
    let early = reason.starts_with("db3 cannot become the writer");
    assert!(early || reason.contains("the switchover to db3 is undone, db2 goes on writing"), "{reason}");
    let journal = serving.ask(&["journal"]).with(0);
    assert!(
        reason.contains("read only")
            || journal.contains("db3 cannot take over, it did not pass the barrier: it is read only"),
        "{reason}\n{journal}"
    );

    // Without a name, and with nobody left to take over.
    scene.sql("db1", "SET GLOBAL read_only=ON").await;
    status_when(serving, "both seen as read only", |status| {
        ["db1", "db3"].iter().all(|name| node(status, name)["state"] == "refused")
    });
    let (status, _, said) = answer(&curl(scene, "-k", KEY, ""));
    assert_eq!((status, &said["data"]["code"]), (409, &Value::from("not_writable")), "{said}");
    let reason = said["message"].as_str().unwrap();
    assert!(
        reason.starts_with("no other node can become the writer") && reason.contains("read only"),
        "{reason}"
    );

    let after = serving.status();
    assert_eq!(writer(&after), writer(&before));
    assert_eq!(after["gate"], "open");
    for node in ["db1", "db3"] {
        scene.sql(node, "SET GLOBAL read_only=OFF").await;
    }
    status_when(serving, "writable again", is_well);
}

fn twice(scene: &Scene, serving: &Serving) {
    let before = serving.status();
    let ended = curl(scene, "-k", KEY, "");
    let (status, body, said) = answer(&ended);
    println!("          {} ms: {}", ended.took.as_millis(), body.trim());
    assert_eq!(status, 200, "{said}");
    assert!(body.starts_with("{\"success\":true,\"message\":\""), "{body}");
    let place =
        |name: &str| body.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name}: {body}"));
    assert!(place("success") < place("message") && place("message") < place("timestamp"), "{body}");
    assert!(
        place("timestamp") < place("data") && said["timestamp"].as_u64().unwrap() > 1_700_000_000,
        "{body}"
    );
    let first = serving.status();
    assert_ne!(writer(&first), writer(&before));
    assert_eq!((&said["data"]["writer"], &said["data"]["term"]), (&first["writer"], &first["term"]));

    let (status, _, again) = answer(&curl(scene, "-k", KEY, ""));
    assert_eq!((status, &again["success"]), (200, &Value::Bool(true)), "{again}");
    assert_eq!(again["data"]["repeated"], true, "{again}");
    let second = serving.status();
    assert_eq!((writer(&second), term(&second)), (writer(&first), term(&first)), "asked twice, done once");

    // A named target is idempotent for ever.
    let named = format!(", \"to\": \"{}\"", writer(&first));
    let (status, _, said) = answer(&curl(scene, "-k", KEY, &named));
    assert_eq!(status, 200, "{said}");
    assert!(said["message"].as_str().unwrap().contains("already is the writer"), "{said}");
}

fn wrong_key(scene: &Scene, serving: &Serving) {
    let before = serving.status();
    let long = format!("{KEY}0");
    for key in ["", "0c8aa9384ddf2a57", &KEY.replace('0', "1"), &long] {
        let (status, body, said) = answer(&curl(scene, "-k", key, ""));
        assert_eq!((status, &said["success"]), (401, &Value::Bool(false)), "{said}");
        assert_eq!(said["data"]["code"], "bad_key");
        assert!(!body.contains(KEY), "{body}");
    }
    let after = serving.status();
    assert_eq!((writer(&after), term(&after)), (writer(&before), term(&before)));
}

/// Self-signed: refused without -k, and good for whoever trusts the file that the first start made.
fn certificate(scene: &Scene) {
    let ended = curl(scene, "", KEY, "");
    assert_eq!(ended.code, 60, "curl's own code for a certificate it does not trust: {}", ended.said());
    let file = scene.dir.path().join("state").join("https.crt");
    let (status, ..) = answer(&curl(scene, &format!("--cacert {}", file.display()), KEY, ""));
    assert_eq!(status, 200);
}

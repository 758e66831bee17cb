//! The end of the program, and what is the same after it.

use std::time::Instant;

use serde_json::Value;
use testbed::program::{Serving, until};

use super::clients::{ClientConnection, connect, errno};
use super::{Scene, node, status_when, term, writer};

/// Stops and starts it: term, writer, drains and limits are as they were. Drains are lifted again.
pub fn restart(mut serving: Serving) -> Serving {
    let before = serving.status();
    let standby = |nth| {
        let standbys: Vec<_> =
            ["db1", "db2", "db3"].into_iter().filter(|name| *name != writer(&before)).collect();
        standbys[nth]
    };
    let (drained, limited) = (standby(0), standby(1));
    serving.ask(&["drain", drained]).with(0);
    serving.ask(&["set-max-connections", limited, "50"]).with(0);
    let dir = serving.dir().to_owned();
    serving.terminate();
    assert_eq!(serving.ended().code(), Some(0));
    assert_eq!(serving.told(), "STOPPING=1");
    serving.ask(&["status"]).with(3);
    drop(serving);

    let serving = Serving::start(&dir);
    let after = status_when(&serving, "the gate opens again", |status| status["gate"] == "open");
    assert_eq!((writer(&after), term(&after)), (writer(&before), term(&before)));
    assert_eq!(node(&after, drained)["sessions_max"], 0);
    assert_eq!(node(&after, limited)["sessions_max"], 50);
    let status =
        status_when(&serving, "the drain is seen", |status| node(status, drained)["state"] == "draining");
    assert_eq!(node(&status, drained)["lane"], "shut");
    // The journal goes on where it ended.
    let journal = serving.ask(&["journal"]).with(0);
    assert!(journal.contains("switchover to db1 was ordered"), "{journal}");
    let because = format!("{} wrote before this start", writer(&before));
    assert!(journal.contains(&because), "{journal}");

    serving.ask(&["undrain", drained]).with(0);
    serving.ask(&["set-max-connections", limited, "none"]).with(0);
    let free = |status: &Value| {
        ["db1", "db2", "db3"].iter().all(|name| node(status, name)["sessions_max"].is_null())
    };
    status_when(&serving, "all limits lifted", free);
    serving
}

/// SIGTERM: no new clients, running transactions end, the others are told, and then it is gone.
pub async fn in_order(scene: &Scene, serving: &mut Serving) {
    let mut idle = ClientConnection::open(scene).await;
    let mut busy = ClientConnection::open(scene).await;
    assert_eq!(idle.ask("SELECT 'here'").await.unwrap(), "here");
    let key = busy.begin().await.unwrap();
    let grace = Instant::now();
    serving.terminate();
    assert_eq!(serving.told(), "STOPPING=1");
    until("the word of the end", || serving.log().contains("SIGTERM: taking no new clients").then_some(()));

    // The idle one is let go with the server's own word for it, or finds the line closed; what it still asked was answered.
    let let_go = async {
        loop {
            if let Err(error) = idle.run("SELECT 1").await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(super::PATIENCE, let_go).await.expect("an idle client is let go");
    assert!(matches!(errno(&error), 0 | 1053), "{error}");
    let refused = async {
        while connect(scene.mysql).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(super::PATIENCE, refused).await.expect("no new clients");
    // The running one may end.
    busy.commit(key).await.expect("a running transaction may end");
    assert_eq!(serving.ended().code(), Some(0));
    println!("          ended {} ms after SIGTERM", grace.elapsed().as_millis());
    assert!(grace.elapsed().as_secs() < 5, "it waits for transactions, not for its whole grace");
    let log = serving.log();
    assert!(log.trim_end().lines().last().unwrap().ends_with("stopped"), "{log}");
    serving.ask(&["status"]).with(3);
    assert!(connect(scene.mysql).await.is_err());
}

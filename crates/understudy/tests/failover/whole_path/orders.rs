//! status, switchover, drain, undrain and set-max-connections by their commands, each held against what the database says.

use testbed::program::Serving;

use super::{APPLICATION, Scene, clients::ClientConnection, is_well, node, status_when, term, writer};

/// All orders, with traffic under way. In the end all nodes may take sessions again, and db2 writes.
pub async fn all(scene: &Scene, serving: &Serving) {
    let before = status(serving);
    dry_runs(scene, serving).await;
    switchover(scene, serving).await;
    drain(scene, serving).await;
    limits(serving);
    refused(serving);
    let after = status_when(serving, "everybody back", is_well);
    assert!(term(&after) > term(&before));
    assert_eq!(after["proxy"]["hold"]["lawful"], true, "{after:#}");
    let journal = serving.ask(&["journal"]).with(0);
    assert!(
        journal.contains("switchover to db1 was ordered") && journal.contains("drain of db1 was ordered"),
        "{journal}"
    );
}

fn status(serving: &Serving) -> serde_json::Value {
    let screen = serving.ask(&["status"]).with(0);
    assert!(screen.starts_with("cluster shop (5), one writer, term 1"), "{screen}");
    for part in ["writer  db1", "gate    open", "last decisions (UTC)"] {
        assert!(screen.contains(part), "{screen}");
    }
    let status = serving.status();
    assert_eq!((writer(&status), term(&status)), ("db1".to_owned(), 1));
    status
}

/// What an order may change: of the status, and of each server.
async fn changeable(scene: &Scene, serving: &Serving) -> Vec<String> {
    let status = serving.status();
    let mut all = vec![writer(&status), term(&status).to_string(), serving.ask(&["journal"]).with(0)];
    for name in ["db1", "db2", "db3"] {
        let node = node(&status, name);
        all.push(format!("{} {} {}", node["state"], node["lane"], node["sessions_max"]));
        // Positions go on by themselves.
        all.push(format!(
            "{:?}",
            scene.sql(name, "SHOW GLOBAL VARIABLES WHERE Variable_name NOT LIKE '%gtid%'").await
        ));
    }
    all
}

/// A dry run says what the order itself will, and changes nothing.
async fn dry_runs(scene: &Scene, serving: &Serving) {
    let before = changeable(scene, serving).await;
    for (order, code, expected) in [
        (
            &["drain", "db1"][..],
            0,
            "it would begin with: drain of db1 was ordered: db2 is to write, term 2; ",
        ),
        (&["drain", "db3"], 0, "the answer would be: db3 is drained: it is not the writer"),
        (&["drain", "db9"], 1, "refused (unknown_node)"),
        (&["undrain", "db3"], 0, "the answer would be: db3 was not drained"),
        (&["set-max-connections", "db3", "7"], 0, "the answer would be: db3 takes at most 7 sessions"),
        (&["set-max-connections", "db3", "none"], 0, "the answer would be: db3 already has that limit"),
        (&["reload"], 0, "dry run: no setting has changed"),
        (&["switchover", "--to", "db2"], 0, "from db1 to db2: "),
    ] {
        let said = serving.ask(&[order, &["--dry-run"]].concat()).with(code);
        assert!(said.contains(expected), "{order:?}: {said}");
    }
    assert_eq!(changeable(scene, serving).await, before);
}

/// Gives the order, after its dry run has told the same answer.
fn as_told(serving: &Serving, order: &[&str]) -> String {
    let told = serving.ask(&[order, &["--dry-run"]].concat()).with(0);
    let said = serving.ask(order).with(0);
    assert_eq!(told, format!("dry run, nothing was changed; the answer would be: {said}"));
    said
}

async fn switchover(scene: &Scene, serving: &Serving) {
    let mut session = ClientConnection::open(scene).await;
    assert_eq!(session.place().await.unwrap(), "db1");
    let key = session.write().await.unwrap();

    let ended = serving.ask(&["switchover"]);
    ended.with(0);
    println!("          switchover took {} ms as a command: {}", ended.took.as_millis(), ended.out.trim());
    let status = serving.status();
    assert_eq!(
        (writer(&status), term(&status)),
        ("db2".to_owned(), 2),
        "the next in the configuration's order"
    );
    assert_eq!(session.place().await.unwrap(), "db2", "the session moved with the writer");
    assert!(session.sees(key).await.unwrap());

    serving.ask(&["switchover", "--to", "db1"]).with(0);
    let status = serving.status();
    assert_eq!((writer(&status), term(&status)), ("db1".to_owned(), 3));
    assert_eq!(session.place().await.unwrap(), "db1");
    let said = serving.ask(&["switchover", "--to", "db1"]).with(0);
    assert!(said.contains("db1 already is the writer, term 3"), "{said}");

    // An open transaction that outlasts the budget: undone, and the transaction goes on as if nothing had been.
    let key = session.begin().await.unwrap();
    let said = serving.ask(&["switchover", "--to", "db3", "--budget-ms", "200"]).with(1);
    assert!(said.contains("refused (over_budget): transactions still ran on db1"), "{said}");
    session.commit(key).await.unwrap();
    assert!(session.sees(key).await.unwrap());
    assert_eq!(writer(&serving.status()), "db1");
}

async fn drain(scene: &Scene, serving: &Serving) {
    serving.ask(&["drain", "db1"]).with(0);
    let status = status_when(serving, "no session on db1", |status| {
        let lanes = status["proxy"]["lanes"].as_array().unwrap();
        lanes.iter().any(|lane| lane["node"] == "db1" && lane["sessions"] == 0)
    });
    assert_eq!(writer(&status), "db2");
    assert_eq!(node(&status, "db1")["state"], "draining");
    // The node's own word: nobody is there any more.
    let application = APPLICATION.0;
    let count = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{application}'");
    let gone = async {
        while scene.sql("db1", &count).await != [["0"]] {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(super::PATIENCE, gone).await.expect("the application left db1");
    let said = as_told(serving, &["drain", "db1"]);
    assert!(said.contains("db1 already is drained"), "{said}");

    as_told(serving, &["undrain", "db1"]);
    let status = status_when(serving, "db1 back", is_well);
    assert_eq!(writer(&status), "db2", "there is no fail-back");
}

fn limits(serving: &Serving) {
    let limit = || node(&serving.status(), "db3")["sessions_max"].clone();
    as_told(serving, &["set-max-connections", "db3", "7"]);
    assert_eq!(limit(), 7);
    as_told(serving, &["set-max-connections", "db3", "none"]);
    assert!(limit().is_null());
    serving.ask(&["set-max-connections", "db3", "0"]).with(0);
    assert_eq!(node(&serving.status(), "db3")["state"], "draining");
    serving.ask(&["undrain", "db3"]).with(0);
    assert!(limit().is_null());
}

fn refused(serving: &Serving) {
    for order in [
        &["switchover", "--to", "db9"][..],
        &["drain", "db9"],
        &["undrain", "db9"],
        &["set-max-connections", "db9", "3"],
    ] {
        let said = serving.ask(order).with(1);
        assert!(said.contains("refused (unknown_node)") && said.contains("it has db1, db2, db3"), "{said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        if order[0] != "switchover" {
            assert_eq!(serving.ask(&[order, &["--dry-run"]].concat()).with(1), said);
        }
    }
    for (order, sentence) in [
        (&["set-max-connections", "db1", "-1"][..], ""),
        (
            &["set-max-connections", "db1", "many"],
            "the limit must be a whole number from 0 to 4294967295, or none",
        ),
        (&["switchover", "--budget-ms", "soon"], "invalid value 'soon'"),
    ] {
        let said = serving.ask(order).with(2);
        assert!(said.contains(sentence), "{said}");
    }
    let said = serving.ask(&["drain", "db1", "--budget-ms", "600001"]).with(1);
    assert!(said.contains("budget_ms may be at most 600000"), "{said}");
}

//! What is changed on a member for a moment only, for a question to the group and for its pace: Understudy is killed in such a moment, and
//! the member has its own values again after the next start.

use std::process::Command;

use rusqlite::{Connection, OpenFlags};
use testbed::program::{Serving, until};
use tokio::time::{Instant, sleep};

use super::scene::{PATIENCE, Scene, is_well, journal, journal_with, status_when};

/// What Understudy sets, and Galera's defaults.
const LENT: [(&str, &str); 2] =
    [("evs.causal_keepalive_period", "PT0S"), ("evs.join_retrans_period", "PT0.1S")];
const OWN: &str = "PT1S";

async fn change(scene: &Scene, node: &str, option: &str, value: &str) {
    let statement = format!("SET GLOBAL wsrep_provider_options = '{option}={value}'");
    scene.stage.run_in(node, &statement).await.unwrap();
}

async fn all_own(scene: &Scene) {
    let began = Instant::now();
    for node in ["db1", "db2", "db3"] {
        for (option, _) in LENT {
            while scene.option(node, option).await != OWN {
                assert!(began.elapsed() < PATIENCE, "{node} keeps {option}");
                sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
}

/// Sends a signal, and waits for the end.
fn signal(serving: &mut Serving, signal: &str) {
    let sent = Command::new("kill").arg(signal).arg(serving.pid().to_string()).status().unwrap();
    assert!(sent.success());
    serving.ended();
}

/// How many of the members' own values are on disk.
fn on_disk(serving: &Serving) -> u32 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let store = Connection::open_with_flags(serving.state("state.sqlite"), flags).unwrap();
    store.query_row("SELECT COUNT(*) FROM loan", [], |row| row.get(0)).unwrap()
}

/// See the head of this file.
pub async fn killed_in_between(scene: &Scene) {
    let directory = scene.directory("", None);
    let mut serving = Serving::start(directory.path());
    status_when(&serving, "all well", is_well);
    until("all values on disk", || (on_disk(&serving) == 6).then_some(()));
    signal(&mut serving, "-KILL");
    // As it leaves them.
    for (option, lent) in LENT {
        change(scene, "db1", option, lent).await;
    }
    change(scene, "db2", LENT[1].0, LENT[1].1).await;
    let mut serving = Serving::start(directory.path());
    for said in [
        "db1: evs.causal_keepalive_period = PT1S is given back, which an earlier run had changed; evs.join_retrans_period = PT1S is",
        "db2: evs.join_retrans_period = PT1S is given back",
    ] {
        journal_with(&serving, said);
    }
    all_own(scene).await;
    assert!(!journal(&serving).contains("db3: evs"), "nothing was changed there");
    // What is set on purpose is taken for the owner's.
    change(scene, "db3", LENT[1].0, "PT0.2S").await;
    signal(&mut serving, "-KILL");
    let mut serving = Serving::start(directory.path());
    status_when(&serving, "all well", is_well);
    until("all values on disk", || (on_disk(&serving) == 6).then_some(()));
    assert_eq!(scene.option("db3", LENT[1].0).await, "PT0.2S");
    // An orderly end leaves nothing behind, so that what is set by hand afterwards is nobody else's.
    signal(&mut serving, "-TERM");
    assert_eq!(on_disk(&serving), 0);
    change(scene, "db3", LENT[1].0, OWN).await;
}

/// A program that kept nothing on disk left them: they are told of, since they may be the owner's.
pub async fn left_by_nobody_known(scene: &Scene) {
    for (option, lent) in LENT {
        change(scene, "db1", option, lent).await;
    }
    let directory = scene.directory("", None);
    let serving = Serving::start(directory.path());
    for said in [
        "db1: evs.causal_keepalive_period is P, and stays so",
        "evs.join_retrans_period is PT0.1S, and stays so",
    ] {
        journal_with(&serving, said);
    }
    assert_eq!(scene.option("db1", LENT[0].0).await, "P");
    for (option, _) in LENT {
        change(scene, "db1", option, OWN).await;
    }
    all_own(scene).await;
}

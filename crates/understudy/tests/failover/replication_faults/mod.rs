//! `understudy serve` before a primary and two replicas, on real servers, when things end in the middle of something.
//!
//! ```text
//!   resume   our own process is killed at each step of a switchover, and begins again
//!   crashes  the primary is killed at random moments under writes: ten times, or REPLICATION_CRASHES (with REPLICATION_SEED); on MySQL it is
//!            killed twice and stands still twice, or MYSQL_LOSSES
//!   accounts first commits that are statements about accounts: on each new primary, while nobody else can log in
//!   back     an order with force back to a server that does not receive, and one that is refused
//!   first_start   without a memory: the primary is dead, or the replicas are a chain
//!   ended    all end, our own process as well, and the primary is back alone with less than it had
//!   filters  a replica leaves out what the primary writes
//!   copied   replicas that mariadb-backup made become the primary
//!   price    without semi-synchronous replication: what may be lost is said, and is no less than what was
//! ```
//!
//! What a client was told is done is on every server in the end; nothing is there twice, and there is one primary.

mod accounts;
mod back;
mod copied;
mod crashes;
mod ended;
mod filters;
mod first_start;
mod price;
mod resume;

use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::WriterResult;

const ALL: [&str; 3] = ["db1", "db2", "db3"];

/// One primary, and everybody else follows it; its name.
async fn settled(scene: &Scene, serving: &Serving) -> String {
    let follow = |status: &Value| {
        let primary = writer(status);
        let mut others = ALL.iter().filter(|node| **node != primary);
        is_well(status)
            && status["order"].is_null()
            && others.all(|node| scene.follows(status, node) == scene.address(&primary))
    };
    let primary = writer(&status_when(serving, "one primary, and two that follow it", follow));
    for node in ALL {
        let is_read_only = scene.value(node, "read_only").await == "1";
        assert_eq!(is_read_only, node != primary, "{node}, while {primary} is the primary");
    }
    primary
}

/// What was acknowledged is everywhere, and nothing was written twice.
async fn nothing_is_lost(scene: &Scene, told: &WriterResult) {
    let twice: Vec<&String> = told.errors.iter().filter(|error| error.contains("Duplicate entry")).collect();
    assert!(twice.is_empty(), "something was written twice: {twice:?}");
    scene.has_all(told, &ALL).await;
}

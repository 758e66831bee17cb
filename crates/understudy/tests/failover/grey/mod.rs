//! A node that answers every question and cannot commit, on real servers: found, and relieved, where another can write; and left alone where
//! that would help nobody.
//!
//! ```text
//!   replication  heartbeats beside switchovers ─> none, and clients' commits instead ─> what must not look like it ─> write-lock ─> disk-full
//!   ordered      a disk that is full for a while ─> one that is left by an operator's order
//!   Galera       a long ALTER ─> write-lock ─> stuck DDL
//! ```

mod galera;
mod ordered;
mod replication;
mod traffic;

use std::time::Duration;

use lab::fault::Fault;
use serde_json::Value;
use testbed::program::Serving;
use testbed::scene::{Scene, is_well, journal, status_when, writer};
use testbed::writers::{WriterResult, Writers};

const ALL: [&str; 3] = ["db1", "db2", "db3"];

/// The writer answers and does not commit: another writes within the time allowed, the journal says why, and the others have all that was
/// acknowledged. Gives who wrote before, the others, and what the clients were told. `more`: commits that are waited for behind it.
async fn relieved(
    scene: &Scene,
    serving: &Serving,
    fault: Fault,
    more: usize,
) -> (String, Vec<&'static str>, WriterResult) {
    let before = writer(&status_when(serving, "all are well", is_well));
    let others: Vec<&str> = ALL.into_iter().filter(|node| **node != before).collect();
    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let began = scene.stage.fault(&before, fault).await.unwrap();
    let moved = |status: &Value| status["gate"] == "open" && writer(status) != before;
    status_when(serving, "another is the writer", moved);
    let took = began.elapsed();
    writers.more(more).await;
    let told = writers.stop().await;
    println!(
        "          {fault}: status shows another writer after {took:?}, longest time without a commit {:?}, errors {:?}",
        told.gap(began),
        told.errors
    );
    let said = journal(serving);
    assert!(said.contains(&format!("{before} answers and does not commit")), "{said}");
    assert!(told.gap(began) < Duration::from_secs(12), "{:?}", told.gap(began));
    scene.has_all(&told, &others).await;
    (before, others, told)
}

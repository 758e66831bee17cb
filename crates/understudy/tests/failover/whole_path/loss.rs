//! kill -9 of the writer, under clients that never retry.

use lab::fault::Fault;
use testbed::program::Serving;

use super::clients::{ClientConnection, Traffic, errno};
use super::{PATIENCE, Scene, is_well, status_when, term, writer};

/// Kills the writer; in the end all three nodes are back.
pub async fn all(scene: &Scene, serving: &Serving) {
    let before = status_when(serving, "all well", is_well);
    let lost = writer(&before);
    let mut idle = ClientConnection::open(scene).await;
    let mut torn = ClientConnection::open(scene).await;
    let known = idle.write().await.unwrap();
    assert_eq!(idle.place().await.unwrap(), lost);
    idle.run("SET @@session.sort_buffer_size = 1048576").await.unwrap();
    let begun = torn.begin().await.unwrap();
    let traffic = Traffic::start(scene).await;

    scene.stage.fault(&lost, Fault::Kill).await.unwrap();

    // Outside of a transaction: not one error, the session as it was, and its own writes. A read may go out while the node is
    // dying, and is then sent again; a write that does would be in doubt, so this one is begun when the process is gone.
    assert!(idle.sees(known).await.expect("a read is sent again"));
    scene.stage.wait_gone(&lost, PATIENCE).await.unwrap();
    let key = idle.write().await.expect("a session outside of a transaction goes on");
    assert!(idle.sees(key).await.unwrap() && idle.sees(known).await.unwrap());
    let place = idle.place().await.unwrap();
    assert_ne!(place, lost);
    assert_eq!(idle.ask("SELECT CAST(@@session.sort_buffer_size AS CHAR)").await.unwrap(), "1048576");

    // Inside of one: what every application repeats already, and the connection is good for that.
    let error = torn.run("SELECT 1").await.expect_err("an open transaction is lost with its node");
    assert_eq!(errno(&error), 1213, "{error}");
    torn.rolled_back(begun);
    let again = torn.begin().await.unwrap();
    torn.commit(again).await.unwrap();
    assert!(torn.sees(again).await.unwrap() && !torn.sees(begun).await.unwrap());

    let after = serving.status();
    assert_eq!((writer(&after), after["gate"].as_str()), (place, Some("open")));
    assert!(term(&after) > term(&before));
    let tally = traffic.stop().await;
    println!("          kill -9 of {lost}: {tally}");
    assert!(tally.writes > 0 && tally.unseen == 0, "{tally}");
    // Only what was on its way when the node died may be in doubt: at most one statement of each client.
    assert!(tally.errors.iter().all(|(errno, count)| matches!(errno, 1213 | 9101) && *count <= 2), "{tally}");
    assert!(tally.errors.values().sum::<u32>() <= 2, "{tally}");

    let journal = serving.ask(&["journal"]).with(0);
    assert!(journal.contains(&format!("{lost} refused 2 connections")), "{journal}");
    scene.stage.fault(&lost, Fault::Heal).await.unwrap();
    scene.stage.wait_synced(&lost, PATIENCE).await.unwrap();
    let healed = status_when(serving, "the killed node is back", is_well);
    assert_eq!(writer(&healed), writer(&after), "there is no fail-back");
}

//! A client that has stopped reading a large result, and a planned move: it is named before, and it does not make the others wait.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use testbed::program::{Serving, until};
use testbed::scene::{Scene, is_well, status_when, writer};
use testbed::writers::{Writers, connect};

use crate::unread_result::Unread;

/// The others may wait so long; the budget would be 5 s.
const GAP_MAX: Duration = Duration::from_millis(1500);

/// It is cut as soon as the old primary is to be left, with an error that says that nothing was changed.
pub async fn result(scene: &Scene, serving: &Serving) {
    let before = writer(&status_when(serving, "all are well", is_well));
    let mut client = connect(scene.through()).await.unwrap();
    let unread = Unread::begin(&mut client).await;
    until("the check names the client", || {
        let said = serving.ask(&["switchover", "--check"]).with(0);
        let line = said.lines().find(|line| line.starts_with("unread "))?;
        (line.contains(" note ") && said.contains("its client has not read for ")).then_some(())
    });

    let writers = Writers::at(scene.through());
    writers.more(50).await;
    let began = Instant::now();
    let said = serving.ask(&["switchover"]).with(0);
    println!("          {} after {:.3} s", said.trim(), began.elapsed().as_secs_f64());
    writers.more(50).await;
    let told = writers.stop().await;
    println!("          a client did not read: longest time without a commit {:?}", told.gap(began));
    assert!(told.gap(began) < GAP_MAX, "{:?}", told.gap(began));
    assert_eq!(told.errors, Vec::<String>::new());

    let end = unread.cut().await;
    assert!(end.to_string().contains("9105"), "{end}");
    assert_eq!(client.query_first("SELECT 1").await.unwrap(), Some(1));
    let status = status_when(serving, "all are well", is_well);
    assert_ne!(writer(&status), before);
    scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
    // Where it was, for those that come next.
    serving.ask(&["switchover", "--to", &before]).with(0);
    status_when(serving, "all are well", is_well);
}

//! What a session has from its server: the settings that it inherits, what it holds there, what a view asks of it. That is the same when its reads run on a replica.

use std::time::Duration;

use super::TABLE;
use super::pair::{Pair, WAIT};

const THIRD: &str = "SELECT 1 / 3 FROM t LIMIT 1";

/// On a replica whose sessions begin with autocommit off, the first read would open a snapshot for all that follow.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_autocommit_has_no_old_snapshot() {
    let pair = Pair::lay(WAIT);
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t VALUES (1, 1)");
    pair.replicated();
    pair.replica.sql("SET GLOBAL autocommit = 0");
    let mut client = pair.client().await;
    assert_eq!(client.one("SELECT x FROM t").await, "1");
    pair.primary.sql("UPDATE shop.t SET x = 2");
    pair.replicated();
    assert_eq!(client.one("SELECT x FROM t").await, "2");
    let split = pair.split().await;
    assert_eq!((split.replicas, split.primary_failed), (2, 0), "{split:?}");
}

/// The primary's settings are inherited anew by a reset, and by a new link: also for the reads on the replica.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_inherited_anew_is_so_on_the_replica() {
    let pair = Pair::lay(WAIT);
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t VALUES (1, 1)");
    pair.replicated();
    let mut client = pair.client().await;
    assert_eq!(client.one(THIRD).await, "0.3333");
    let links = || pair.replica.sql("SHOW GLOBAL STATUS LIKE 'Connections'");
    client.reset().await;
    let before = links();
    assert_eq!(client.one(THIRD).await, "0.3333");
    // Each look is a connection of its own.
    let number = |links: &str| links.split_whitespace().last().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&links()), number(&before) + 1, "nothing has changed: the link is the same");
    pair.primary.sql("SET GLOBAL div_precision_increment = 6");
    assert_eq!(client.one(THIRD).await, "0.3333", "a session keeps what it began with");
    client.reset().await;
    assert_eq!(client.one(THIRD).await, "0.333333");
    assert_eq!(pair.split().await.replicas, 4);
    // Another link to the primary.
    pair.primary.sql("SET GLOBAL div_precision_increment = 8");
    let id = client.one("SELECT CONNECTION_ID()").await;
    pair.primary.sql(&format!("KILL {id}"));
    while client.one("SELECT CONNECTION_ID()").await == id {}
    assert_eq!(client.one(THIRD).await, "0.33333333");
    assert_eq!(client.one(THIRD).await, "0.33333333");
    let split = pair.split().await;
    assert_eq!(split.replicas, 6, "{split:?}");
}

/// Reads on the replica alone would let the primary end the link on which the session's lock stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_lock_does_not_lose_its_primary_by_reading() {
    let pair = Pair::lay(WAIT);
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t VALUES (1, 1)");
    pair.replicated();
    pair.primary.sql("SET GLOBAL wait_timeout = 5");
    let mut client = pair.client().await;
    assert_eq!(client.one("SELECT GET_LOCK('mine', 1)").await, "1");
    for _ in 0..80 {
        assert_eq!(client.one("SELECT x FROM t").await, "1");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.one("SELECT IS_USED_LOCK('mine') = CONNECTION_ID()").await, "1");
    let split = pair.split().await;
    println!("{split:?}");
    assert!(split.replicas > 70, "{split:?}");
}

/// The list of views is not read anew here: the statement itself tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_known_as_one_from_its_making_on() {
    let pair = Pair::lay(WAIT);
    pair.primary.sql(TABLE);
    pair.primary.sql("INSERT INTO shop.t VALUES (1, 1)");
    pair.replicated();
    // What only the replica has shows who answers.
    pair.replica.sql("SET sql_log_bin = 0; UPDATE shop.t SET x = 101");
    let (mut maker, mut other) = (pair.client().await, pair.client().await);
    assert_eq!(other.one("SELECT x FROM t").await, "101");
    maker.run("CREATE VIEW seen AS SELECT x FROM t").await;
    assert_eq!(other.one("SELECT x FROM seen").await, "1");
    maker.run("RENAME TABLE seen TO `Here`").await;
    let statement = maker.prepare("CREATE VIEW there AS SELECT x FROM Here").await.unwrap();
    maker.execute(&statement, &[]).await;
    for view in ["Here", "shop.`Here`", "there"] {
        assert_eq!(other.one(&format!("SELECT x FROM {view}")).await, "1", "{view}");
    }
    assert_eq!(other.one("SELECT x FROM t").await, "101", "other reads go to the replica as ever");
}

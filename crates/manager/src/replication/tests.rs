//! The orders, on real servers.

use std::sync::Arc;

use fixture::packet::{read_packet, write_packet};
use fixture::signal;
use fixture::wait::until_async;
use link::{Login, Secret};
use protocol::auth::native;
use protocol::gtid::{Family, Position};
use protocol::handshake::{AuthSwitch, Greeting, LoginRequest};
use tokio::net::TcpStream;
use tokio::time::Instant;
use topology::NodeId;

use super::*;
use crate::events::Events;
use crate::events::tests::kept_in;
use crate::settings::Account;

const TERM: Term = Term(7);
const NODE: NodeId = NodeId(0);
const WITHIN: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_secs(1);
const REPLICAS_LOGIN: &str =
    "CREATE USER repl@'%' IDENTIFIED BY 'it''s \\\\ secret'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'";

/// A server of a primary-replica setup, that acknowledges as the lab's does.
fn server(id: u32) -> fixture::Server {
    let id = format!("--server-id={id}");
    let options = [&*id, "--log-bin=b", "--log-slave-updates", "--gtid-strict-mode", "--relay-log=r"];
    let semi_sync = ["--rpl-semi-sync-slave-enabled=ON", "--rpl-semi-sync-master-timeout=3600000"];
    let server = fixture::Server::start(&[&options[..], &semi_sync].concat());
    server.sql("RESET MASTER");
    server
}

fn means(server: &fixture::Server, user: &str, password: &str) -> Means {
    let secret = Secret::Password(password.into());
    let (address, login) = (server.address().to_string(), Login::new(user, secret));
    let (newest, ready) = (Arc::default(), Arc::default());
    // The file stays usable for whoever has it open.
    let events = Arc::new(kept_in(tempfile::tempdir().unwrap().path()));
    Means { address, login, source: String::new(), account: None, newest, ready, events }
}

impl Means {
    /// For another order to the same server.
    fn with_ready(&self) -> Self {
        Self {
            address: self.address.clone(),
            login: self.login.clone(),
            source: String::new(),
            account: None,
            newest: Arc::clone(&self.newest),
            ready: Arc::clone(&self.ready),
            events: Arc::clone(&self.events),
        }
    }
}

fn account(password: &str) -> Option<Account> {
    Some(Account { user: "repl".into(), password: password.into(), tls: None })
}

fn action(within: Duration, errand: Errand) -> Action {
    Action { node: NODE, term: TERM, within, errand }
}

async fn order(server: &fixture::Server, action: Action) -> Outcome {
    carry_out(action, means(server, "app", "secret")).await.0
}

async fn demote(server: &fixture::Server, within: Duration) -> Result<Position, String> {
    match order(server, action(within, Errand::Demote { for_good: true })).await {
        Outcome::Replication(action::Outcome {
            node: NODE,
            term: TERM,
            end: End::Demoted { position, .. },
        }) => Ok(position),
        Outcome::Replication(action::Outcome { node: NODE, term: TERM, end: End::DemoteFailed { why } }) => {
            Err(why)
        }
        other => panic!("{other:?}"),
    }
}

async fn promote(server: &fixture::Server, reach: Option<Position>, within: Duration) -> Result<(), String> {
    match order(server, action(within, Errand::Promote { reach })).await {
        Outcome::BarrierPassed { node: NODE, term: TERM } => Ok(()),
        Outcome::BarrierFailed { node: NODE, term: TERM, why } => Err(why),
        other => panic!("{other:?}"),
    }
}

/// How many sessions were ended first.
async fn follow(server: &fixture::Server, source: &fixture::Server, password: &str) -> Result<usize, String> {
    let mut means = means(server, "app", "secret");
    (means.source, means.account) = (source.address().to_string(), account(password));
    let action = self::action(WITHIN, Errand::Follow { source: NodeId(1) });
    match carry_out(action, means).await.0 {
        Outcome::Replication(action::Outcome {
            node: NODE,
            term: TERM,
            end: End::Following { sessions_ended, .. },
        }) => Ok(sessions_ended),
        Outcome::Replication(action::Outcome { node: NODE, term: TERM, end: End::FollowFailed { why } }) => {
            Err(why)
        }
        other => panic!("{other:?}"),
    }
}

const PASSWORD: &str = r"it's \ secret";

/// A primary with a table, and a replica of it.
async fn pair() -> (fixture::Server, fixture::Server) {
    let (one, two) = (server(1), server(2));
    for server in [&one, &two] {
        server.sql(REPLICAS_LOGIN);
        server.sql("CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO shop.t VALUES (1); RESET MASTER");
    }
    follow(&two, &one, PASSWORD).await.unwrap();
    assert!(read_only(&two));
    (one, two)
}

fn position(text: &str) -> Position {
    Position::parse(Family::MariaDb, text).unwrap()
}

fn read_only(server: &fixture::Server) -> bool {
    server.sql("SELECT @@GLOBAL.read_only") != "0"
}

fn waits(server: &fixture::Server) -> bool {
    server.sql("SELECT @@GLOBAL.rpl_semi_sync_master_enabled") != "0"
}

#[tokio::test]
async fn the_primary_changes_places_with_its_replica_and_back() {
    let (one, two) = pair().await;
    let mut pair = (&one, &two);
    for round in 2..=5 {
        let (old, new) = pair;
        promote(old, None, WITHIN).await.unwrap();
        assert!(waits(old) && !waits(new), "round {round}");
        old.sql(&format!("INSERT INTO shop.t VALUES ({round})"));
        let reach = demote(old, WITHIN).await.unwrap();
        assert!(read_only(old) && !waits(old), "round {round}");
        promote(new, Some(reach), WITHIN).await.unwrap();
        assert!(!read_only(new) && waits(new), "round {round}");
        assert_eq!(new.sql("SELECT MAX(id) FROM shop.t"), round.to_string());
        assert_eq!(new.sql("SHOW ALL SLAVES STATUS"), "");
        follow(old, new, PASSWORD).await.unwrap();
        pair = (new, old);
    }
    let gtid = |server: &fixture::Server| server.sql("SELECT @@GLOBAL.gtid_current_pos");
    assert_eq!(gtid(&one), gtid(&two));
}

#[tokio::test]
async fn a_server_that_has_not_all_is_not_promoted_and_the_reason_is_told() {
    let (one, two) = pair().await;
    let why = promote(&two, Some(position("0-1-99")), SHORT).await.unwrap_err();
    assert!(why.ends_with("and 0-1-99 is to be applied: the time was over before"), "{why}");
    assert!(read_only(&two));

    // What it received and cannot apply, it does not have.
    two.sql("SET sql_log_bin = OFF; INSERT INTO shop.t VALUES (2)");
    one.sql("INSERT INTO shop.t VALUES (2)");
    until_async("it has stopped", async || two.sql("SHOW ALL SLAVES STATUS").contains("Duplicate entry"))
        .await;
    let began = Instant::now();
    let why = promote(&two, None, WITHIN).await.unwrap_err();
    assert!(why.contains("its SQL thread has stopped") && why.contains("Duplicate entry"), "{why}");
    assert!(began.elapsed() < WITHIN / 2 && read_only(&two));
}

#[tokio::test]
async fn what_a_server_cannot_receive_is_not_waited_for() {
    let (one, two) = pair().await;
    one.sql("SET PASSWORD FOR repl@'%' = PASSWORD('another')");
    two.sql("STOP SLAVE IO_THREAD; START SLAVE IO_THREAD");
    until_async("it is refused", async || two.sql("SHOW ALL SLAVES STATUS").contains("Access denied")).await;
    one.sql("INSERT INTO shop.t VALUES (2)");
    let reach = position(&one.sql("SELECT @@GLOBAL.gtid_binlog_pos"));
    let began = Instant::now();
    let why = promote(&two, Some(reach), WITHIN).await.unwrap_err();
    assert!(why.contains("and it does not receive: ") && why.contains("Access denied"), "{why}");
    assert!(began.elapsed() < SHORT * 3 && read_only(&two), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_a_primary_under_a_lock_on_everything_has_still_gets_to_the_new_one() {
    let (one, two) = pair().await;
    two.sql("STOP SLAVE IO_THREAD");
    one.sql("SET GLOBAL rpl_semi_sync_master_enabled = OFF; INSERT INTO shop.t VALUES (2)");
    let position = position(&one.sql("SELECT @@GLOBAL.gtid_binlog_pos"));
    let mut beside = Link::connect(&one).await;
    beside.query("FLUSH TABLES WITH READ LOCK").await;
    two.sql("START SLAVE IO_THREAD");
    promote(&two, Some(position), WITHIN).await.unwrap();
    assert_eq!(two.sql("SELECT MAX(id) FROM shop.t"), "2");
    beside.query("UNLOCK TABLES").await;
}

#[tokio::test]
async fn what_keeps_a_server_from_becoming_read_only_is_told_and_it_stays_writable() {
    let one = server(1);
    one.sql("CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=InnoDB");
    let mut beside = Link::connect(&one).await;
    beside.query("LOCK TABLES shop.t WRITE").await;
    let why = demote(&one, SHORT).await.unwrap_err();
    assert!(why.contains("LOCK TABLES of a session"), "{why}");
    assert!(!read_only(&one));
    beside.query("INSERT INTO shop.t VALUES (1)").await;
    beside.query("UNLOCK TABLES").await;
    demote(&one, WITHIN).await.unwrap();
    assert!(read_only(&one));
}

#[tokio::test]
async fn commits_that_nobody_acknowledges_do_not_keep_a_server_from_becoming_read_only() {
    let one = server(1);
    one.sql("CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=InnoDB");
    promote(&one, None, WITHIN).await.unwrap();
    let mut beside = Link::connect(&one).await;
    let hangs = tokio::spawn(async move { beside.0.query("INSERT INTO shop.t VALUES (1)", WITHIN).await });
    until_async("it waits", async || one.sql("SHOW PROCESSLIST").contains("Waiting for semi-sync ACK")).await;
    let position = demote(&one, SHORT * 2).await.unwrap();
    assert!(read_only(&one) && !waits(&one));
    assert_eq!(position.to_string(), one.sql("SELECT @@GLOBAL.gtid_binlog_pos"));
    assert_eq!(one.sql("SELECT COUNT(*) FROM shop.t"), "1", "it is written here");
    assert!(hangs.await.unwrap().is_err(), "its client was not told so");
}

/// One that runs in an hour, with a definer and a character set of its own, one that is disabled, and one that is for another server to run.
const EVENTS: &str = "CREATE USER cleaner@'10.%'; SET sql_mode = 'ANSI_QUOTES'; SET NAMES latin1; SET @first = NOW() + INTERVAL 1 HOUR; \
    CREATE DEFINER = cleaner@'10.%' EVENT shop.`a b` ON SCHEDULE EVERY 1 HOUR STARTS @first DO DELETE FROM shop.t WHERE id > 99; \
    CREATE EVENT shop.f ON SCHEDULE EVERY 1 HOUR STARTS @first DO SELECT 1; \
    CREATE EVENT shop.c ON SCHEDULE EVERY 1 HOUR DISABLE DO SELECT 1; \
    CREATE EVENT shop.d ON SCHEDULE EVERY 1 HOUR DISABLE ON SLAVE DO SELECT 1";
/// What an order may change in the first one is its status.
const FIRST: &str = "SELECT STATUS, DEFINER, SQL_MODE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, EVENT_DEFINITION \
    FROM information_schema.EVENTS WHERE EVENT_NAME = 'a b'";
const OTHERS: &str = "SELECT GROUP_CONCAT(STATUS ORDER BY EVENT_NAME) FROM information_schema.EVENTS WHERE EVENT_NAME IN ('c','d')";

/// How many events run now; or why they do not, and the names of those.
async fn run_events(means: Means, has_replaced: bool) -> Result<usize, (String, Vec<String>)> {
    let action = self::action(WITHIN, Errand::RunEvents { has_replaced });
    match carry_out(action, means).await.0 {
        Outcome::Replication(action::Outcome { node: NODE, term: TERM, end: End::EventsRun { count } }) => {
            Ok(count)
        }
        Outcome::Replication(action::Outcome {
            node: NODE,
            term: TERM,
            end: End::EventsFailed { why, left },
        }) => {
            let mut names: Vec<String> = left.events.into_iter().map(|event| event.name).collect();
            names.sort();
            Err((why, names))
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn events_stop_at_the_old_primary_and_those_that_ran_there_run_at_the_new_one() {
    let (one, two) = pair().await;
    promote(&one, None, WITHIN).await.unwrap();
    one.sql("SET GLOBAL event_scheduler = ON");
    one.sql(EVENTS);
    let first = |status: &str| {
        format!(
            "{status}\tcleaner@10.%\tANSI_QUOTES\tlatin1\tlatin1_swedish_ci\tDELETE FROM shop.t WHERE id > 99"
        )
    };
    assert_eq!(one.sql(FIRST), first("ENABLED"));
    // One that began, takes long, and may write on a server that is read only.
    let mut beside = Link::connect(&one).await;
    let long = "CREATE DEFINER = root@localhost EVENT shop.e ON SCHEDULE AT NOW() DO BEGIN INSERT INTO shop.t VALUES (2); DO SLEEP(60); \
                INSERT INTO shop.t VALUES (3); END";
    beside.query(long).await;
    until_async("it runs", async || one.sql("SELECT MAX(id) FROM shop.t") == "2").await;
    let dir = tempfile::tempdir().unwrap();
    let mut events = Arc::new(kept_in(dir.path()));
    let of =
        |server, events: &Arc<Events>| Means { events: Arc::clone(events), ..means(server, "app", "secret") };
    assert_eq!(run_events(of(&one, &events), false).await, Ok(0), "it is the first primary");
    let demote = action(WITHIN, Errand::Demote { for_good: false });
    let demoted = carry_out(demote, of(&one, &events)).await.0;
    // This program is killed, and begins again: what ran is on disk.
    events = Arc::new(kept_in(dir.path()));
    let Outcome::Replication(action::Outcome { node: NODE, term: TERM, end: End::Demoted { position, .. } }) =
        demoted
    else {
        panic!("{demoted:?}")
    };
    assert_eq!(
        position.to_string(),
        one.sql("SELECT @@GLOBAL.gtid_binlog_pos"),
        "nothing was written by that"
    );
    assert_eq!(one.sql(topology::replication::events::RUNNING), "");
    assert_eq!(one.sql(FIRST), first("SLAVESIDE_DISABLED"));
    assert_eq!(one.sql(OTHERS), "DISABLED,SLAVESIDE_DISABLED");

    promote(&two, Some(position), WITHIN).await.unwrap();
    assert_eq!(two.sql(FIRST), first("SLAVESIDE_DISABLED"));
    // Of db1's events, one is dropped on the new primary before it is told.
    two.sql("SET sql_log_bin = 0; DROP EVENT shop.f");
    assert_eq!(run_events(of(&two, &events), true).await, Ok(1));
    assert_eq!(two.sql(FIRST), first("ENABLED"));
    assert_eq!(two.sql(OTHERS), "SLAVESIDE_DISABLED,SLAVESIDE_DISABLED", "it does not know them apart");
    assert_eq!(two.sql("SELECT @@GLOBAL.event_scheduler"), "ON", "as it was on the old one");
    follow(&one, &two, PASSWORD).await.unwrap();
    assert_eq!(one.sql("SELECT @@GLOBAL.gtid_current_pos"), two.sql("SELECT @@GLOBAL.gtid_current_pos"));
    // An undone switchover: what was stopped runs again.
    promote(&one, None, WITHIN).await.unwrap();
    assert_eq!(run_events(of(&one, &events), true).await, Ok(1));
    assert_eq!(
        (one.sql(FIRST), one.sql(OTHERS)),
        (first("ENABLED"), "DISABLED,SLAVESIDE_DISABLED".to_owned())
    );
}

/// A client that has named its account and has not proved it yet stands in the list of sessions with the command of an event.
#[tokio::test]
async fn a_client_that_logs_in_is_no_event() {
    let one = server(1);
    let mut stream = TcpStream::connect(one.address()).await.unwrap();
    let greeting = Greeting::parse(&read_packet(&mut stream).await.unwrap().1).unwrap();
    let request = LoginRequest {
        caps: Login::PLAIN & greeting.caps,
        max_packet: 1 << 24,
        charset: 45,
        user: b"app".to_vec(),
        auth: vec![],
        database: None,
        plugin: Some("another".into()),
        attrs: vec![],
        zstd_level: 0,
    };
    write_packet(&mut stream, 1, &request.encode()).await.unwrap();
    let switch = AuthSwitch::parse(&read_packet(&mut stream).await.unwrap().1).unwrap();
    let command = "SELECT COMMAND FROM information_schema.PROCESSLIST WHERE USER = 'app'";
    assert_eq!(one.sql(command), "Connect");
    let stopped = carry_out(action(SHORT, Errand::StopEvents), means(&one, "app", "secret")).await.0;
    assert!(
        matches!(
            stopped,
            Outcome::Replication(action::Outcome { end: End::EventsStopped { events_left: None }, .. })
        ),
        "{stopped:?}"
    );
    let proof = native::reply(&native::stage1(b"secret"), &switch.salt().unwrap());
    write_packet(&mut stream, 3, &proof).await.unwrap();
    assert_eq!(read_packet(&mut stream).await.unwrap().1[0], protocol::ok::OK, "it is let in");
}

#[tokio::test]
async fn a_failover_stops_events_without_the_disk_and_says_what_runs_on() {
    let one = server(1);
    one.sql("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    one.sql(EVENTS);
    let dir = tempfile::tempdir().unwrap();
    let events = Arc::new(kept_in(dir.path()));
    rusqlite::Connection::open(dir.path().join("state.db"))
        .unwrap()
        .execute_batch("DROP TABLE events")
        .unwrap();
    let of = || Means { events: Arc::clone(&events), ..means(&one, "app", "secret") };
    let demote = |for_good| action(WITHIN, Errand::Demote { for_good });
    let planned = carry_out(demote(false), of()).await.0;
    assert!(format!("{planned:?}").contains("could not be written to disk"), "{planned:?}");
    assert!(one.sql(FIRST).starts_with("ENABLED\t"));
    // Events are listed behind a lock that somebody holds.
    let mut beside = Link::connect(&one).await;
    beside.query("LOCK TABLES mysql.event WRITE").await;
    let left = |outcome| match outcome {
        Outcome::Replication(action::Outcome {
            node: NODE,
            term: TERM,
            end: End::Demoted { events_left, .. },
        }) => events_left,
        other => panic!("{other:?}"),
    };
    let why = left(carry_out(demote(true), of()).await.0).unwrap();
    assert!(why.contains("no answer") || why.contains("max_statement_time"), "{why}");
    beside.query("UNLOCK TABLES").await;
    let stop = action(WITHIN, Errand::StopEvents);
    let stopped = carry_out(stop, of()).await.0;
    assert!(format!("{stopped:?}").contains("events_left: None"), "{stopped:?}");
    assert!(one.sql(FIRST).starts_with("SLAVESIDE_DISABLED\t"));
}

#[tokio::test]
async fn an_account_that_may_not_stop_events_makes_a_server_read_only_all_the_same() {
    let one = server(1);
    one.sql("CREATE TABLE shop.t (id INT PRIMARY KEY); CREATE USER few@'%' IDENTIFIED BY 'few'; GRANT EVENT ON *.* TO few@'%'");
    one.sql(&crate::grants_for(topology::kind::Kind::Replication, "few"));
    one.sql(EVENTS);
    let demote = action(WITHIN, Errand::Demote { for_good: false });
    let of_few = || means(&one, "few", "few");
    let demoted = format!("{:?}", carry_out(demote, of_few()).await.0);
    assert!(demoted.contains("Demoted {") && read_only(&one), "{demoted}");
    assert!(one.sql(FIRST).starts_with("ENABLED\t"));
    // What it lacks is told, and what does not run; with the privileges it does, in the end.
    let dir = tempfile::tempdir().unwrap();
    let of =
        |user: &str, password| Means { events: Arc::new(kept_in(dir.path())), ..means(&one, user, password) };
    one.sql("SET GLOBAL read_only = OFF");
    assert_eq!(run_events(of("app", "secret"), false).await, Ok(0));
    let demote = action(WITHIN, Errand::Demote { for_good: false });
    carry_out(demote, of("app", "secret")).await;
    assert!(one.sql(FIRST).starts_with("SLAVESIDE_DISABLED\t"));
    let (why, left) = run_events(of("few", "few"), false).await.unwrap_err();
    assert!(why.contains("BINLOG ADMIN") && why.contains("SET USER"), "{why}");
    assert_eq!(left, ["a b", "f"]);
    one.sql("REVOKE EVENT ON *.* FROM few@'%'");
    let (why, left) = run_events(of("few", "few"), false).await.unwrap_err();
    assert!(why.contains("cannot be seen") && why.contains("EVENT"), "{why}");
    assert_eq!(left, ["a b", "f"], "what cannot be seen was not dropped");
    one.sql("GRANT EVENT, SET USER, BINLOG ADMIN ON *.* TO few@'%'");
    assert_eq!(run_events(of("few", "few"), false).await, Ok(2));
    assert!(one.sql(FIRST).starts_with("ENABLED\t"));
}

fn writable_before(clock_s: f64) -> String {
    topology::replication::sql::writable_before(topology::flavor::Dialect::MariaDb, clock_s)
}

#[tokio::test]
async fn an_order_that_was_given_up_takes_no_effect_later() {
    let one = server(1);
    one.sql("SET GLOBAL read_only = ON");
    let mut beside = Link::connect(&one).await;
    let clock: f64 = one.sql(sql::CLOCK).parse().unwrap();
    beside.query(&writable_before(clock - 0.1)).await;
    assert!(read_only(&one));
    beside.query(&writable_before(clock + 60.0)).await;
    assert!(!read_only(&one));

    one.signal(signal::STOP);
    let began = Instant::now();
    let why = demote(&one, SHORT).await;
    one.signal(signal::CONT);
    assert!(why.unwrap_err().contains("no answer within"));
    assert!(began.elapsed() < SHORT * 3);
}

#[tokio::test]
async fn why_a_server_does_not_follow_is_told_without_the_password() {
    let (one, two) = pair().await;
    let why = follow(&two, &one, "a wrong one").await.unwrap_err();
    assert!(why.contains("Access denied for user 'repl'"), "{why}");
    assert!(!why.contains("a wrong one"), "{why}");
    drop(one);
    let gone = server(3);
    let address = gone.address().to_string();
    drop(gone);
    let mut means = means(&two, "app", "secret");
    (means.source, means.account) = (address, account(PASSWORD));
    let action = self::action(SHORT, Errand::Follow { source: NodeId(1) });
    let told = format!("{:?}", carry_out(action, means).await.0);
    assert!(told.contains("FollowFailed") && told.contains("error connecting to master"), "{told}");
    assert!(!told.contains("secret"), "{told}");
}

#[tokio::test]
async fn an_order_under_an_earlier_decision_changes_nothing_any_more() {
    let one = server(1);
    one.sql("SET GLOBAL read_only = ON");
    let means = means(&one, "app", "secret");
    means.newest.store(TERM.0 + 1, std::sync::atomic::Ordering::SeqCst);
    let action = self::action(WITHIN, Errand::Promote { reach: None });
    let told = format!("{:?}", carry_out(action, means).await.0);
    assert!(told.contains("BarrierFailed") && told.contains("overtaken by the decision of term 8"), "{told}");
    assert!(read_only(&one) && !waits(&one));
}

async fn receives(replica: &fixture::Server, within: Duration) -> Result<bool, String> {
    let action = self::action(within, Errand::Reconnect { source: NodeId(1) });
    match order(replica, action).await {
        Outcome::Replication(action::Outcome {
            node: NODE,
            term: TERM,
            end: End::Reconnected { receives },
        }) => Ok(receives),
        Outcome::Replication(action::Outcome {
            node: NODE,
            term: TERM,
            end: End::ReconnectFailed { why },
        }) => Err(why),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_replica_finds_out_whether_its_source_answers_and_may_be_promoted_when_it_does_not() {
    let (one, two) = pair().await;
    promote(&one, None, WITHIN).await.unwrap();
    one.sql("INSERT INTO shop.t VALUES (2)");
    assert_eq!(receives(&two, WITHIN).await, Ok(true));
    one.signal(signal::STOP);
    let began = Instant::now();
    let answer = receives(&two, Duration::from_millis(600)).await;
    let asked = began.elapsed();
    let promoted = promote(&two, None, WITHIN).await;
    println!("asked for {asked:?}, promoted after {:?}", began.elapsed());
    one.signal(signal::CONT);
    assert_eq!((answer, promoted), (Ok(false), Ok(())));
    assert_eq!(two.sql("SELECT MAX(id) FROM shop.t"), "2");
    assert_eq!(two.sql("SHOW ALL SLAVES STATUS"), "", "no thread was started behind the promotion");
    assert_eq!(two.sql("SELECT @@GLOBAL.rpl_semi_sync_slave_kill_conn_timeout"), "5", "put back");
    let why = receives(&two, SHORT).await.unwrap_err();
    assert!(why.contains("does not follow"), "{why}");
}

async fn part(replica: &fixture::Server) -> Result<(), String> {
    match order(replica, action(WITHIN, Errand::Part)).await {
        Outcome::Replication(action::Outcome { node: NODE, term: TERM, end: End::Parted }) => Ok(()),
        Outcome::Replication(action::Outcome { node: NODE, term: TERM, end: End::PartFailed { why } }) => {
            Err(why)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_replica_gets_nothing_more_from_an_old_primary() {
    let (one, two) = pair().await;
    promote(&one, None, WITHIN).await.unwrap();
    one.sql("INSERT INTO shop.t VALUES (2)");
    until_async("the first row", async || two.sql("SELECT MAX(id) FROM shop.t") == "2").await;
    part(&two).await.unwrap();
    part(&two).await.unwrap();
    // Nobody acknowledges any more.
    one.sql("SET GLOBAL rpl_semi_sync_master_enabled = OFF; INSERT INTO shop.t VALUES (3)");
    assert!(
        two.sql("SHOW ALL SLAVES STATUS").contains("\tNo\tYes\t"),
        "{}",
        two.sql("SHOW ALL SLAVES STATUS")
    );
    assert_eq!(two.sql("SELECT MAX(id) FROM shop.t"), "2");
    // Told whom to follow, it goes on from where it stood.
    follow(&two, &one, PASSWORD).await.unwrap();
    until_async("the next row", async || two.sql("SELECT MAX(id) FROM shop.t") == "3").await;
    two.sql("STOP SLAVE SQL_THREAD");
    let why = part(&two).await.unwrap_err();
    assert!(why.contains("thrown away"), "{why}");
}

#[tokio::test]
async fn what_an_account_may_not_do_is_told_by_its_number() {
    let one = server(1);
    one.sql("CREATE USER few@'%' IDENTIFIED BY 'few'");
    let demote = action(WITHIN, Errand::Demote { for_good: true });
    let (outcome, errno) = carry_out(demote.clone(), means(&one, "few", "few")).await;
    assert_eq!(errno, Some(1227), "{outcome:?}");
    // The grants that are advised are enough for each order.
    one.sql(&crate::grants_for(topology::kind::Kind::Replication, "few"));
    let two = server(2);
    two.sql(REPLICAS_LOGIN);
    let (outcome, errno) = carry_out(demote, means(&one, "few", "few")).await;
    assert_eq!(errno, None, "{outcome:?}");
    one.sql("RESET MASTER");
    two.sql("RESET MASTER");
    let mut following = means(&one, "few", "few");
    (following.source, following.account) = (two.address().to_string(), account(PASSWORD));
    let follow = action(WITHIN, Errand::Follow { source: NodeId(1) });
    let (outcome, errno) = carry_out(follow, following).await;
    assert_eq!(errno, None, "{outcome:?}");
    let promote = action(WITHIN, Errand::Promote { reach: None });
    let (outcome, errno) = carry_out(promote, means(&one, "few", "few")).await;
    assert_eq!(errno, None, "{outcome:?}");
    assert!(waits(&one) && !read_only(&one));
}

/// A session of a client's.
struct Link(link::Link);

impl Link {
    async fn connect(server: &fixture::Server) -> Self {
        let Means { address, login, .. } = means(server, "app", "secret");
        Self(link::Link::connect(&address, &login, WITHIN).await.unwrap())
    }

    async fn query(&mut self, statement: &str) {
        self.0.query(statement, WITHIN).await.unwrap();
    }
}

#[tokio::test]
async fn what_holds_locks_on_an_old_primary_is_ended_before_it_follows() {
    let (one, two) = pair().await;
    promote(&two, None, WITHIN).await.unwrap();
    one.sql("SET sql_log_bin = OFF; CREATE USER held@'%' IDENTIFIED BY 'h'; GRANT ALL ON *.* TO held@'%'");
    let login = Login::new("held", Secret::Password("h".into()));
    let address = one.address().to_string();
    let mut clients = vec![];
    for (statements, is_ended) in [
        (&["BEGIN", "UPDATE shop.t SET id = 5 WHERE id = 1"][..], true),
        (&["BEGIN", "SELECT id FROM shop.t WHERE id > 100 FOR UPDATE"], true),
        // A backup, and whoever does nothing.
        (&["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT * FROM shop.t"], false),
        (&[], false),
    ] {
        let mut link = link::Link::connect(&address, &login, WITHIN).await.unwrap();
        for statement in statements {
            link.query(statement, WITHIN).await.unwrap();
        }
        clients.push((link, is_ended));
    }
    assert_eq!(follow(&one, &two, PASSWORD).await, Ok(2));
    two.sql("UPDATE shop.t SET id = 10 WHERE id = 1");
    until_async("it applies", async || one.sql("SELECT MAX(id) FROM shop.t") == "10").await;
    for (nth, (link, is_ended)) in clients.iter_mut().enumerate() {
        assert_eq!(link.ping(WITHIN).await.is_err(), *is_ended, "client {nth}");
    }
    // Whoever has a source already was no primary.
    assert_eq!(follow(&one, &two, PASSWORD).await, Ok(0));
}

#[tokio::test]
async fn orders_go_over_the_link_that_stands() {
    let (one, two) = pair().await;
    let means = means(&one, "app", "secret");
    let (ready, address) = (Arc::clone(&means.ready), means.address.clone());
    assert!(ready.is_due(&address) && !ready.is_due(&address));
    ready.refresh(&address, &means.login).await;
    // As a firewall does: connections that stand go on, and no other is accepted.
    one.sql("ALTER USER app@'%' IDENTIFIED BY 'another'");
    let session = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'";
    for round in 0..3 {
        let demote = action(WITHIN, Errand::Demote { for_good: false });
        let done = carry_out(demote, means.with_ready()).await;
        assert!(
            matches!(
                done.0,
                Outcome::Replication(action::Outcome { node: NODE, term: TERM, end: End::Demoted { .. } })
            ),
            "{done:?}"
        );
        assert!(read_only(&one), "round {round}");
        // The undo as well.
        let promote = action(WITHIN, Errand::Promote { reach: None });
        let done = carry_out(promote, means.with_ready()).await;
        assert!(matches!(done.0, Outcome::BarrierPassed { .. }), "{done:?}");
        assert!(!read_only(&one), "round {round}");
        assert_eq!(one.sql(session), "1", "round {round}");
    }
    // A link that was lost is replaced, and one that is there is tried before it is used.
    one.sql("ALTER USER app@'%' IDENTIFIED BY 'secret'");
    one.sql("SELECT GROUP_CONCAT(CONCAT('KILL ', ID) SEPARATOR ';') INTO @kill FROM information_schema.PROCESSLIST WHERE USER = 'app'; EXECUTE IMMEDIATE @kill");
    let promote = action(WITHIN, Errand::Promote { reach: None });
    let done = carry_out(promote, means.with_ready()).await;
    assert!(matches!(done.0, Outcome::BarrierPassed { .. }), "{done:?}");
    drop(two);
}

//! How often one statement is tried, and what it costs others: statements that make their node refuse them again and again, nodes that have no
//! connection left, clients that leave while they wait, KILLs that are not allowed, nodes that say more than they are asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fixture::client::{Client, ClientOptions};
use fixture::scripted::{Act, Event, ScriptedNode};
use fixture::wait::{until_async, within_async};
use fixture::{Server, answers};
use harness::{Bench, SECOND, lane, routes, routes_of, settings};
use protocol::command::Command;
use protocol::packet::put_packet;
use proxy::{Handle, Settings};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use topology::fact::ProxyFact;
use topology::routes::{Lane, LaneState};

/// What answers an alarm about a node.
#[derive(Clone, Copy)]
enum Manager {
    /// "It says itself that it does not serve", and the lane stays open: the one writable node of a setup whose manager says otherwise, a node
    /// that nobody can replace.
    SaysUnfit,
    /// It is given up, and the other one opened in its place.
    GivesUp,
}

/// A proxy over nodes of which the first is open, with the least of a manager.
struct Scene {
    proxy: Handle,
    task: JoinHandle<()>,
    alarms: Arc<AtomicU32>,
}

impl Scene {
    fn start(settings: Settings, nodes: &[std::net::SocketAddr], manager: Manager) -> Self {
        let state = |number| if number == 0 { LaneState::Open } else { LaneState::Shut };
        let numbered = nodes.iter().enumerate();
        let mut lanes: Vec<Lane> = numbered.map(|(at, node)| lane(at, *node, state(at), 1)).collect();
        let Bench { routes, mut facts, proxy } = Bench::new(settings, routes_of(1, lanes.clone()));
        let alarms = Arc::new(AtomicU32::new(0));
        let heard = alarms.clone();
        let task = tokio::spawn(async move {
            let mut version = 1;
            while let Some(fact) = facts.recv().await {
                let (ProxyFact::TrafficRefused { node, epoch, alarm, .. }
                | ProxyFact::TrafficLost { node, epoch, alarm, .. }) = fact
                else {
                    continue;
                };
                heard.fetch_add(1, SeqCst);
                let at = usize::from(node.0);
                if lanes[at].epoch != epoch {
                    continue;
                }
                match manager {
                    Manager::SaysUnfit => lanes[at].refused = alarm,
                    Manager::GivesUp => {
                        let next = (at + 1) % lanes.len();
                        lanes[at] = Lane {
                            state: LaneState::Shut,
                            epoch: epoch + 1,
                            lost_epoch: Some(epoch),
                            looked: 0,
                            refused: 0,
                            ..lanes[at].clone()
                        };
                        lanes[next].state = LaneState::Open;
                    }
                }
                version += 1;
                routes.send_replace(routes_of(version, lanes.clone()));
            }
        });
        Self { proxy, task, alarms }
    }

    async fn client(&self) -> Client {
        Client::connect(self.proxy.local_addresses()[0]).await
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What makes its server say that it does not serve: by itself, and in a trigger that no text shows.
const SLANDERS: [&str; 2] = [
    "SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047, MESSAGE_TEXT = 'WSREP has not yet prepared node'",
    "INSERT INTO t VALUES (1)",
];
const TABLES: &str = "USE shop; CREATE TABLE t (x INT);
    DELIMITER //
    CREATE TRIGGER slander BEFORE INSERT ON t FOR EACH ROW
      SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047, MESSAGE_TEXT = 'WSREP has not yet prepared node'//
    DELIMITER ;";

fn count(server: &Server, sql: &str) -> u32 {
    server.sql(sql).parse().unwrap()
}

fn status(server: &Server, name: &str) -> u32 {
    let of = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME";
    count(server, &format!("{of} = '{name}'"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_makes_its_node_refuse_is_tried_a_few_times_and_told_its_own_error() {
    let servers = [Server::start(&[]), Server::start(&[])];
    for server in &servers {
        server.sql(TABLES);
    }
    let addresses = servers.each_ref().map(Server::address);
    let sum = |name| servers.iter().map(|server| status(server, name)).sum::<u32>();
    for sql in SLANDERS {
        for (manager, what) in [(Manager::SaysUnfit, "says unfit"), (Manager::GivesUp, "gives up")] {
            let scene = Scene::start(settings(), &addresses, manager);
            let mut client = scene.client().await;
            let (runs, logins) = (sum("COM_SIGNAL"), sum("CONNECTIONS"));
            let began = Instant::now();
            let reply = client.query(sql).await;
            let took = began.elapsed();
            // Each question for the figures is a login itself.
            let (runs, logins) = (sum("COM_SIGNAL") - runs, sum("CONNECTIONS") - logins - 4);
            println!("{what}: {sql:.8}: {runs} executions, {logins} logins, {took:?}: {reply:?}");
            assert_eq!(reply.error(), Some(1047), "{what}: {reply:?}");
            assert!(runs <= 5 && logins <= 5, "{what}: {runs} executions, {logins} logins");
            assert!(took < 5 * SECOND, "{what}: told after {took:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_clients_that_slander_cost_a_few_tries_each_and_hold_nobody() {
    let server = Server::start(&[]);
    server.sql(TABLES);
    let before = status(&server, "COM_SIGNAL");
    let scene = Scene::start(settings(), &[server.address()], Manager::SaysUnfit);
    let mut honest = scene.client().await;
    let mut slanderers = vec![];
    for _ in 0..40 {
        let mut client = scene.client().await;
        slanderers.push(tokio::spawn(async move { client.query(SLANDERS[1]).await.error() }));
    }
    let (mut worst, mut asked) = (Duration::ZERO, 0);
    while !slanderers.iter().all(JoinHandle::is_finished) {
        let began = Instant::now();
        assert_eq!(honest.one("SELECT 1").await, "1");
        worst = worst.max(began.elapsed());
        asked += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for slanderer in slanderers {
        assert_eq!(slanderer.await.unwrap(), Some(1047));
    }
    let runs = status(&server, "COM_SIGNAL") - before;
    println!("40 clients: {runs} executions; {asked} honest statements, the slowest took {worst:?}");
    assert!(runs <= 40 * 5, "{runs} executions");
    assert!(worst < SECOND, "an honest statement took {worst:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_refuses_for_a_moment_is_waited_for() {
    let times = Arc::new(AtomicU32::new(0));
    let counted = times.clone();
    let node = ScriptedNode::start(move |heard| match heard.text() {
        Some("SELECT 5") if counted.fetch_add(1, SeqCst) < 2 => {
            vec![Act::Say(answers::error(
                1047,
                "08S01",
                "WSREP has not yet prepared node for application use",
            ))]
        }
        Some(_) => vec![Act::Say(heard.rows(&["5"], &[&["5"]]))],
        None => vec![Act::Say(answers::ok())],
    })
    .await;
    let scene = Scene::start(settings(), &[node.address()], Manager::SaysUnfit);
    assert_eq!(scene.client().await.one("SELECT 5").await, "5");
    assert_eq!(times.load(SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_left_is_seen_behind_what_it_has_sent() {
    for with_reset in [false, true] {
        let mut node = ScriptedNode::start(|heard| match heard.text() {
            Some(_) => vec![Act::Say(answers::error(1047, "08S01", "WSREP has not yet prepared node"))],
            None => vec![Act::Say(answers::ok())],
        })
        .await;
        let scene = Scene::start(settings(), &[node.address()], Manager::SaysUnfit);
        let mut client = scene.client().await;
        let query = |sql: &str| [&[Command::QUERY.0], sql.as_bytes()].concat();
        client.send(0, &query("INSERT INTO t VALUES (1)")).await.unwrap();
        // The next ones wait unread while the first is tried again and again.
        for _ in 0..3 {
            client.send(0, &query("SELECT 2")).await.unwrap();
        }
        until_async("the node is doubted", async || scene.alarms.load(SeqCst) > 0).await;
        client.leave(with_reset);
        let began = Instant::now();
        let is_gone = async || scene.proxy.stats().await.clients == 0;
        within_async(SECOND, is_gone).await.expect("the client's end is seen");
        let texts = node.texts();
        let tries = texts.iter().filter(|text| text.starts_with("INSERT")).count();
        println!("left, reset {with_reset}: {tries} tries, seen within {:?}", began.elapsed());
        assert!(tries <= 3 && !texts.iter().any(|text| text == "SELECT 2"), "{texts:?}");
    }
}

// ---- a full node

/// Takes all connections that a server has left, past the proxy.
async fn fill(server: &Server) -> Vec<Client> {
    let mut direct = vec![];
    while let Ok(client) = Client::connect_as(server.address(), &ClientOptions::default()).await {
        direct.push(client);
    }
    direct
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_finds_a_full_node_is_told_so_and_the_node_is_not_stormed() {
    let server = Server::start(&["--max-connections=10"]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let address = bench.proxy.local_addresses()[0];
    let mut first = Client::connect(address).await;
    let mut direct = fill(&server).await;
    let asked = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'CONNECTION_ERRORS_MAX_CONNECTIONS'";
    let before: u32 = direct[0].one(asked).await.parse().unwrap();
    let began = Instant::now();
    let excess: Vec<_> = (0..40)
        .map(|_| {
            tokio::spawn(async move {
                match Client::connect_as(address, &ClientOptions::default()).await {
                    Ok(_) => None,
                    Err(part) => Some(format!("{part:?}")),
                }
            })
        })
        .collect();
    for client in excess {
        let told = timeout(5 * SECOND, client).await.expect("each is told").unwrap();
        assert!(told.as_ref().is_some_and(|told| told.contains("1040")), "{told:?}");
    }
    let took = began.elapsed();
    let tries = direct[0].one(asked).await.parse::<u32>().unwrap() - before;
    println!(
        "40 clients more than the node has room for were told 1040 within {took:?}; {tries} connects refused by the node"
    );
    assert!(tries <= 60, "{tries} connects in {took:?}");
    assert_eq!(first.one("SELECT 1").await, "1", "who is in stays in");
    // As soon as there is room, it is given.
    direct.truncate(direct.len() - 3);
    let connects = async || Client::connect_as(address, &ClientOptions::default()).await.map(drop);
    within_async(5 * SECOND, connects).await.expect("there is room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_finds_a_full_node_gets_one_that_has_room() {
    let (full, other) = (Server::start(&["--max-connections=10"]), Server::start(&[]));
    let all = Settings { writers_all: true, ..settings() };
    let bench = Bench::new(all, routes(1, &[(&full, LaneState::Open, 1), (&other, LaneState::Open, 1)]));
    let address = bench.proxy.local_addresses()[0];
    let _direct = fill(&full).await;
    let mut clients = Vec::new();
    for _ in 0..12 {
        let mut client = Client::connect(address).await;
        assert_eq!(client.one("SELECT 1").await, "1");
        clients.push(client);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_waits_for_a_full_node_as_long_as_the_hold_and_is_told_then() {
    let server = Server::start(&["--max-connections=10"]);
    let patience = Settings { hold_time: SECOND, ..settings() };
    let bench = Bench::new(patience, routes(1, &[(&server, LaneState::Shut, 1)]));
    let mut client = Client::connect(bench.proxy.local_addresses()[0]).await;
    let mut direct = fill(&server).await;
    bench.follow(routes(2, &[(&server, LaneState::Open, 1)])).await;
    let began = Instant::now();
    let reply = client.query("SELECT 1").await;
    assert_eq!(reply.error(), Some(1040), "{reply:?}");
    assert!(began.elapsed() < 3 * SECOND, "told after {:?}", began.elapsed());
    direct.clear();
    let is_usable = async || client.query("SELECT 1").await.value().is_some_and(|one| one == "1");
    within_async(5 * SECOND, is_usable).await.expect("the connection stays usable");
}

// ---- KILL

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_counts_only_when_the_node_has_allowed_it() {
    let mut node = ScriptedNode::start(|heard| match heard.text() {
        // The node takes its time to say no.
        Some(text) if text.starts_with("KILL") => vec![Act::Hang],
        Some(_) => vec![Act::Say(heard.rows(&["1"], &[&["1"]]))],
        None => vec![Act::Say(answers::ok())],
    })
    .await;
    let bench = Bench::new(settings(), routes_of(1, vec![lane(0, node.address(), LaneState::Open, 1)]));
    let address = bench.proxy.local_addresses()[0];
    let mut victim = Client::connect(address).await;
    assert_eq!(victim.one("SELECT 1").await, "1");
    let id = victim.id();
    let killer =
        tokio::spawn(async move { Client::connect(address).await.query(format!("KILL {id}")).await });
    loop {
        if let Event::Command { payload, .. } = node.event().await
            && payload.starts_with(b"\x03KILL")
        {
            break;
        }
    }
    for _ in 0..10 {
        let reply = victim.query("SELECT 1").await;
        assert_eq!(reply.value().as_deref(), Some("1"), "nobody has killed it yet: {reply:?}");
    }
    let said = killer.await.unwrap();
    assert_eq!(said.error(), Some(1094), "{said:?}");
    assert_eq!(victim.one("SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_that_is_allowed_is_told_even_where_the_link_ends_first() {
    let server = Server::start(&[]);
    let bench = Bench::new(settings(), routes(1, &[(&server, LaneState::Open, 1)]));
    let address = bench.proxy.local_addresses()[0];
    let mut killer = Client::connect(address).await;
    for _ in 0..20 {
        let mut victim = Client::connect(address).await;
        let id = victim.id();
        let sleeps = tokio::spawn(async move { victim.query("SELECT SLEEP(30)").await });
        let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
        until_async("it sleeps", async || killer.one(running).await != "0").await;
        killer.run(&format!("KILL {id}")).await;
        let told = timeout(5 * SECOND, sleeps).await.expect("it is told").unwrap();
        assert_eq!(told.error(), Some(1927), "{told:?}");
    }
}

// ---- facts

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_number_of_unknown_clients_takes_the_place_of_a_loss() {
    let mut server = Server::start(&[]);
    let roomy = Settings { client_connections_max: 1000, ..settings() };
    let mut bench = Bench::new(roomy, routes(1, &[(&server, LaneState::Open, 1)]));
    let address = bench.proxy.local_addresses()[0];
    let mut client = Client::connect(address).await;
    let wrong = ClientOptions { password: "wrong".into(), ..ClientOptions::default() };
    // More of them than the queue has places, while nobody reads it.
    let attempts: Vec<_> = (0..200)
        .map(|_| {
            let wrong = wrong.clone();
            tokio::spawn(async move { Client::connect_as(address, &wrong).await.is_err() })
        })
        .collect();
    for attempt in attempts {
        assert!(attempt.await.unwrap(), "nobody is let in");
    }
    let lost = tokio::spawn(async move { client.query("SELECT SLEEP(30)").await });
    let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
    server.until(running, |count| count != "0");
    server.signal(fixture::signal::KILL);
    server.wait_gone();
    let (mut strange, mut losses) = (0, 0);
    while losses == 0 {
        match timeout(5 * SECOND, bench.facts.recv()).await.expect("the loss is told").unwrap() {
            ProxyFact::UnknownAccount { .. } => strange += 1,
            ProxyFact::TrafficLost { .. } => losses += 1,
            _ => {}
        }
    }
    println!("{strange} hints of unknown accounts from 200 clients, and the loss");
    lost.abort();
}

// ---- more than was asked for

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_says_behind_its_answer_answers_nothing() {
    let node = ScriptedNode::start(|heard| {
        let rows = |value: &str| heard.rows(&["v"], &[&[value]]);
        match heard.text() {
            Some("SELECT 1") => vec![Act::Say([rows("1"), rows("forged")].concat())],
            Some("BEGIN") => vec![Act::Say([answers::ok_with(0x0003), rows("forged")].concat())],
            Some(_) => vec![Act::Say(rows("2"))],
            None => vec![Act::Say(answers::ok())],
        }
    })
    .await;
    let bench = Bench::new(settings(), routes_of(1, vec![lane(0, node.address(), LaneState::Open, 1)]));
    let address = bench.proxy.local_addresses()[0];
    let command = |sql: &str| {
        let mut packet = vec![];
        put_packet(&mut packet, &mut 0, &[&[Command::QUERY.0], sql.as_bytes()].concat());
        packet
    };
    for (first, value, second, error) in
        [("SELECT 1", Some("1"), Some("2"), None), ("BEGIN", None, None, Some(1213))]
    {
        let mut client = Client::connect(address).await;
        // The second command is there before the first is answered.
        client.stream.write_all(&command(first)).await.unwrap();
        let to_first = client.query("SELECT 2").await;
        assert_eq!(to_first.value().as_deref(), value, "{first}: {to_first:?}");
        let to_second = client.query("SELECT 3").await;
        assert_eq!(
            (to_second.value().as_deref(), to_second.error()),
            (second, error),
            "{first}: {to_second:?}"
        );
    }
}

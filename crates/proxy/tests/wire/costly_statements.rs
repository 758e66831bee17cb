//! A statement that takes its node down takes one more at the most: it is sent again once, then it ends with a code of its own, and
//! statements of its kind are refused for a while. An answer that cannot be read is never asked for again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::client::{Client, Reply};
use fixture::scripted::{Act, ScriptedNode};
use fixture::wait::within_async;
use fixture::{Server, answers, signal};
use harness::fact_answerer::Kept;
use harness::twin::none_of;
use harness::{SECOND, settings};
use topology::fact::ProxyFact;

/// The last number that was given to an error before there was one for this.
const LAST_OLD_CODE: u16 = 9112;

/// Fails when the answer is not an error of the proxy's own that is made for this.
fn says_so(reply: &Reply, what: &str) -> Option<String> {
    let is_own = reply.error().is_some_and(|code| (LAST_OLD_CODE + 1..9200).contains(&code));
    (!is_own).then(|| format!("{what} is answered by {reply:?}"))
}

/// A node that dies of every text with "poison" in it.
async fn mortal(name: &'static str) -> ScriptedNode {
    ScriptedNode::start(move |heard| match heard.text() {
        Some(text) if text.contains("poison") => vec![Act::Die],
        Some("SELECT 1") => vec![Act::Say(heard.rows(&["1"], &[&["1"]]))],
        Some("SELECT name") => vec![Act::Say(heard.rows(&["name"], &[&[name]]))],
        _ => vec![Act::Say(answers::ok())],
    })
    .await
}

/// A node that answers "well" to whatever is ordinary.
async fn survivor() -> ScriptedNode {
    ScriptedNode::start(|heard| match heard.text() {
        Some(text) if text.contains("ordinary") => vec![Act::Say(heard.rows(&["x"], &[&["well"]]))],
        _ => vec![Act::Say(answers::ok())],
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_kills_its_node_costs_two_at_the_most() {
    let mut nodes = vec![];
    for name in ["one", "two", "three", "four"] {
        nodes.push(mortal(name).await);
    }
    let addresses: Vec<SocketAddr> = nodes.iter().map(ScriptedNode::address).collect();
    let mut short = settings();
    short.hold_time = Duration::from_secs(3);
    let kept = Kept::start(short, &addresses, false);
    let mut wrong = vec![];
    let mut client = kept.client().await;
    let reply = client.query("SELECT x FROM poison WHERE id = 1").await;
    wrong.extend(says_so(&reply, "the read"));
    let mut runs = vec![];
    for node in &mut nodes {
        runs.extend(node.texts().into_iter().filter(|text| text.contains("poison")));
    }
    if runs.len() > 2 {
        wrong.push(format!("it ran on {} nodes", runs.len()));
    }
    // Its kind is refused, to whomever; others are not.
    let mut other = kept.client().await;
    let again = other.query("SELECT x FROM poison WHERE id = 2").await;
    wrong.extend(says_so(&again, "its like"));
    let name = other.query("SELECT name").await.value();
    if name.as_deref() != Some("three") {
        wrong.push(format!("afterwards {name:?} serves"));
    }
    // Told by a task of its own, behind the answer.
    let told = || {
        let lost = |fact| match fact {
            ProxyFact::StatementLost { digest, text, .. } => Some((digest, text)),
            _ => None,
        };
        kept.facts().into_iter().filter_map(lost).collect::<Vec<(String, String)>>()
    };
    // What is missing is told below.
    let _ = within_async(5 * SECOND, async || told().len() >= 2).await;
    let digests = told();
    if digests.len() != 2 || digests[0] != digests[1] {
        wrong.push(format!("the manager is told {digests:?}"));
    } else if digests[0].1.contains("= 1") {
        wrong.push(format!("with a literal: {digests:?}"));
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_ran_where_a_node_died_is_not_blamed_for_it() {
    // Nodes die of other things, and something always runs there: most likely what the application says most often.
    let mut first = ScriptedNode::start(|heard| match heard.text() {
        Some(text) if text.contains("ordinary") => vec![Act::Die],
        _ => vec![Act::Say(answers::ok())],
    })
    .await;
    let second = survivor().await;
    let kept = Kept::start(settings(), &[first.address(), second.address()], false);
    let mut others = vec![];
    for _ in 0..3 {
        others.push(kept.client().await);
    }
    assert_eq!(kept.client().await.one("SELECT x FROM ordinary WHERE id = 1").await, "well");
    assert_eq!(first.texts().len(), 1);
    for (number, other) in others.iter_mut().enumerate() {
        assert_eq!(other.one(&format!("SELECT x FROM ordinary WHERE id = {number}")).await, "well");
    }
}

async fn many_say_the_same(can_move: bool) {
    const MANY: usize = 4;
    let heard = std::sync::atomic::AtomicUsize::new(0);
    let first = ScriptedNode::start(move |said| match said.text() {
        Some(text) if text.contains("ordinary") => {
            let is_last = heard.fetch_add(1, SeqCst) + 1 == MANY;
            vec![if is_last { Act::Die } else { Act::Hang }]
        }
        _ => vec![Act::Say(answers::ok())],
    })
    .await;
    let second = survivor().await;
    let kept = Kept::start(settings(), &[first.address(), second.address()], false);
    let mut asked = vec![];
    for number in 0..MANY {
        let mut client = kept.client().await;
        if !can_move {
            // What it runs is then not sent again, and never ends well.
            client.run("CREATE TEMPORARY TABLE own (x INT)").await;
        }
        let sql = format!("SELECT x FROM ordinary WHERE id = {number}");
        asked.push(tokio::spawn(async move { client.query(sql).await }));
    }
    let mut later = kept.client().await;
    for asked in asked {
        let reply = asked.await.unwrap();
        if can_move {
            assert_eq!(reply.value().as_deref(), Some("well"), "{reply:?}");
        } else {
            assert_eq!(reply.error(), Some(9104), "{reply:?}");
        }
    }
    assert_eq!(later.one("SELECT x FROM ordinary WHERE id = 9").await, "well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_say_the_same_where_a_node_dies_are_one_loss() {
    many_say_the_same(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_cannot_move_and_say_the_same_where_a_node_dies_are_one_loss() {
    many_say_the_same(false).await;
}

/// Kills each server as soon as a statement with "poison" in it runs there; which ones it has killed.
fn killer(servers: Arc<Vec<Server>>, stop: Arc<AtomicBool>) -> Arc<Mutex<Vec<usize>>> {
    let killed = Arc::new(Mutex::new(vec![]));
    let told = killed.clone();
    tokio::spawn(async move {
        let mut watchers = vec![];
        for server in servers.iter() {
            watchers.push(Client::connect(server.address()).await);
        }
        let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%/* pois' 'on */%' AND id <> CONNECTION_ID()";
        while !stop.load(SeqCst) {
            for (at, watcher) in watchers.iter_mut().enumerate() {
                let is_dead = told.lock().unwrap().contains(&at);
                if !is_dead && watcher.query(running).await.value().is_some_and(|count| count != "0") {
                    servers[at].signal(signal::KILL);
                    told.lock().unwrap().push(at);
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    killed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_whose_server_is_killed_whenever_it_runs_costs_two_at_the_most() {
    const POISON: &str = "SELECT /* poison */ SUM(a.seq * b.seq) FROM seq_1_to_1000000 a, seq_1_to_1000000 b";
    let mut wrong = vec![];
    for is_prepared in [false, true] {
        let servers: Arc<Vec<Server>> = Arc::new((0..3).map(|_| Server::start(&[])).collect());
        let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let kept = Kept::start(settings(), &addresses, false);
        let mut client = kept.client().await;
        let killed = killer(servers.clone(), stop.clone());
        let reply = if is_prepared {
            let statement = client.prepare(POISON).await.unwrap();
            client.execute(&statement, &[]).await
        } else {
            client.query(POISON).await
        };
        stop.store(true, SeqCst);
        let cost = killed.lock().unwrap().len();
        let case = if is_prepared { "prepared" } else { "as text" };
        if cost > 2 {
            wrong.push(format!("{case}: it took {cost} servers"));
        }
        wrong.extend(says_so(&reply, case));
        if cost < 3 && kept.client().await.query("SELECT 1").await.value().as_deref() != Some("1") {
            wrong.push(format!("{case}: the server that is left does not serve"));
        }
    }
    none_of(&wrong);
}

/// Answers that follow no protocol, by name.
fn garbage() -> Vec<(&'static str, Vec<u8>)> {
    let packet = |seq: u8, payload: &[u8]| [&[payload.len() as u8, 0, 0, seq], payload].concat();
    let column = b"\x03def\0\0\0\x011\0\x0c\x2d\0\0\x04\0\0\xfd\0\0\0\0\0";
    let columns = [packet(1, &[1]), packet(2, column)].concat();
    vec![
        ("an OK cut short", packet(1, &[0, 1])),
        ("an error cut short", packet(1, &[0xFF, 1])),
        ("an empty packet", packet(1, &[])),
        ("more columns than there are", packet(1, &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])),
        ("NULL for a number of columns, with a tail", packet(1, &[0xFC])),
        ("an end of rows cut short", [columns.clone(), packet(3, &[0xFE, 0])].concat()),
        ("an error in place of a row, cut short", [columns, packet(3, &[0xFF])].concat()),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_cannot_be_read_is_never_asked_for_again() {
    let mut wrong = vec![];
    for (name, bytes) in garbage() {
        for sql in ["SELECT garbage", "INSERT INTO t VALUES ('garbage')"] {
            let mut nodes = vec![];
            for _ in 0..2 {
                let bytes = bytes.clone();
                nodes.push(
                    ScriptedNode::start(move |heard| match heard.text() {
                        Some(text) if text.contains("garbage") => vec![Act::Say(bytes.clone())],
                        Some("SELECT 1") => vec![Act::Say(heard.rows(&["1"], &[&["1"]]))],
                        _ => vec![Act::Say(answers::ok())],
                    })
                    .await,
                );
            }
            let addresses: Vec<SocketAddr> = nodes.iter().map(ScriptedNode::address).collect();
            let kept = Kept::start(settings(), &addresses, false);
            let mut client = kept.client().await;
            let reply = client.query(sql).await;
            let case = format!("{name}: {sql}");
            // A client that was given a part of it can be told no more.
            if !(reply.is_lost() && name.contains("in place of a row")) {
                wrong.extend(says_so(&reply, &case));
            }
            let mut times = 0;
            for node in &mut nodes {
                times += node.texts().iter().filter(|text| text.contains("garbage")).count();
            }
            if times != 1 {
                wrong.push(format!("{case}: it was sent {times} times"));
            }
            if !kept.is_open(0).await {
                wrong.push(format!("{case}: the node is given up"));
            }
            let mut next = if reply.is_lost() { kept.client().await } else { client };
            if next.query("SELECT 1").await.value().as_deref() != Some("1") {
                wrong.push(format!("{case}: the session does not go on"));
            }
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_breaks_at_each_try_is_tried_twice_at_the_most() {
    let mut wrong = vec![];
    for end in [Act::Close, Act::Reset] {
        for sql in ["SELECT breaks", "INSERT INTO t VALUES ('breaks')"] {
            let (ends, name) = (end.clone(), format!("{end:?}: {sql}"));
            let mut node = ScriptedNode::start(move |heard| match heard.text() {
                Some(text) if text.contains("breaks") => vec![ends.clone()],
                Some("SELECT 1") => vec![Act::Say(heard.rows(&["1"], &[&["1"]]))],
                _ => vec![Act::Say(answers::ok())],
            })
            .await;
            let kept = Kept::start(settings(), &[node.address()], false);
            let reply = kept.client().await.query(sql).await;
            let times = node.texts().iter().filter(|text| text.contains("breaks")).count();
            let most = if sql.starts_with("SELECT") { 2 } else { 1 };
            if times > most {
                wrong.push(format!("{name}: sent {times} times"));
            }
            if reply.error().is_none() {
                wrong.push(format!("{name}: {reply:?}"));
            }
        }
    }
    none_of(&wrong);
}

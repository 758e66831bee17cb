//! KILL of one's own connection is answered as without the proxy; and the number that a session is told of itself is the one that KILL
//! takes, wherever it is given.

use fixture::Server;
use fixture::client::{Client, Reply};
use harness::fact_answerer::Kept;
use harness::settings;
use harness::twin::none_of;
use protocol::command::Command;
use topology::fact::ProxyFact;

/// What is said before, how it kills, and whether its number is that of `SELECT CONNECTION_ID()` or of the greeting.
enum Number {
    /// The text names none.
    None,
    /// `{}` in the text stands for what CONNECTION_ID() gives.
    Asked,
    /// ... for what the greeting told.
    Greeted,
    /// The same by COM_PROCESS_KILL.
    ByCommand,
}

const OWN: &[(&[&str], &str, Number)] = &[
    (&[], "KILL CONNECTION_ID()", Number::None),
    (&[], "KILL CONNECTION CONNECTION_ID()", Number::None),
    (&[], "KILL HARD CONNECTION CONNECTION_ID()", Number::None),
    (&[], "KILL SOFT CONNECTION_ID()", Number::None),
    (&[], "kill /* me */ connection_id ( )", Number::None),
    (&[], "KILL QUERY CONNECTION_ID()", Number::None),
    (&[], "KILL SOFT QUERY CONNECTION_ID()", Number::None),
    (&[], "KILL {}", Number::Asked),
    (&[], "KILL CONNECTION {}", Number::Asked),
    (&[], "KILL QUERY {}", Number::Asked),
    (&[], "KILL {}", Number::Greeted),
    (&[], "KILL CONNECTION {}", Number::Greeted),
    (&[], "KILL QUERY {}", Number::Greeted),
    (&[], "", Number::ByCommand),
    (&["SET @me = CONNECTION_ID()"], "KILL @me", Number::None),
    (&["BEGIN", "INSERT INTO t VALUES (1)"], "KILL CONNECTION_ID()", Number::None),
    (&["BEGIN", "INSERT INTO t VALUES (1)"], "KILL {}", Number::Greeted),
    (&["BEGIN", "INSERT INTO t VALUES (1)"], "KILL QUERY CONNECTION_ID()", Number::None),
    (&["SET autocommit = 0", "INSERT INTO t VALUES (1)"], "KILL {}", Number::Asked),
    (&["CREATE TEMPORARY TABLE tt (a INT)"], "KILL CONNECTION_ID()", Number::None),
    (&[], "EXECUTE IMMEDIATE CONCAT('KILL ', CONNECTION_ID())", Number::None),
    (&[], "CALL ends_itself()", Number::None),
    (&[], "SELECT 1; KILL CONNECTION_ID(); SELECT 2", Number::None),
    (&[], "SELECT 1; KILL {}; SELECT 2", Number::Asked),
];

async fn kill(client: &mut Client, sql: &str, number: &Number) -> Reply {
    let id = match number {
        Number::Asked => client.one("SELECT CONNECTION_ID()").await,
        _ => client.id().to_string(),
    };
    if matches!(number, Number::ByCommand) {
        return client.ask(&[&[Command::PROCESS_KILL.0][..], &client.id().to_le_bytes()].concat()).await;
    }
    client.query(sql.replace("{}", &id)).await
}

/// The answer, and what a question after it gets; which of the two ways a connection ends does not matter.
async fn seen(mut client: Client, before: &[&str], sql: &str, number: &Number) -> (Reply, String) {
    for sql in before {
        client.run(sql).await;
    }
    let reply = kill(&mut client, sql, number).await;
    let after = client.query("SELECT COUNT(*) FROM t").await;
    let after = if after.is_lost() { "the connection has ended".to_owned() } else { format!("{after:?}") };
    (reply, after)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_kills_itself_is_told_what_the_server_tells() {
    let server = Server::start(&[]);
    server.sql(
        "USE shop; CREATE TABLE t (id INT PRIMARY KEY);
         DELIMITER //
         CREATE PROCEDURE ends_itself() BEGIN KILL CONNECTION_ID(); SELECT 5; END//
         DELIMITER ;",
    );
    let kept = Kept::start(settings(), &[server.address()], false);
    let mut wrong = vec![];
    for (before, sql, number) in OWN {
        let (told, after) = seen(kept.client().await, before, sql, number).await;
        let (wanted, after_wanted) = seen(Client::connect(server.address()).await, before, sql, number).await;
        let case = format!("{}; {sql}", before.join("; "));
        if let Some(difference) = told.difference(&wanted) {
            wrong.push(format!("{case}: {difference}"));
        }
        if after != after_wanted {
            wrong.push(format!("{case}: afterwards {after} and {after_wanted}"));
        }
        if server.sql("SELECT COUNT(*) FROM shop.t") != "0" {
            wrong.push(format!("{case}: its transaction was committed"));
            server.sql("DELETE FROM shop.t");
        }
    }
    assert_eq!(kept.proxy.stats().await.statements_again, 0, "a KILL was sent again");
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_never_hits_a_stranger() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let kept = Kept::start(settings(), &servers.each_ref().map(Server::address), true);
    let mut clients = vec![];
    for _ in 0..4 {
        clients.push(kept.client().await);
    }
    // Two on each server, and the servers count alike.
    let mut places = vec![];
    let mut wrong = vec![];
    for client in &mut clients {
        places.push(client.one("SELECT @@port").await);
        let asked = client.one("SELECT CONNECTION_ID()").await;
        let listed = client.query("SHOW PROCESSLIST").await;
        if !listed.rows().iter().any(|row| row[0].text() == asked) {
            wrong.push(format!("SHOW PROCESSLIST has no {asked}"));
        }
    }
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 2, "both servers take sessions");
    // Each is killed by one that stands elsewhere, and nobody else is.
    while clients.len() > 1 {
        let mut victim = clients.remove(0);
        let place = victim.one("SELECT @@port").await;
        let id = victim.one("SELECT CONNECTION_ID()").await;
        let mut killer = clients.len() - 1;
        for (at, client) in clients.iter_mut().enumerate() {
            if client.one("SELECT @@port").await != place {
                killer = at;
            }
        }
        let mut said = clients[killer].query(&format!("KILL {id}")).await;
        // The servers count alike, so that a server's number may mean two: then it is nobody's, and the proxy's own is to be used.
        if said.error() == Some(1094) {
            if victim.query("SELECT 1").await.value().as_deref() != Some("1") {
                wrong.push(format!("{id} is ambiguous, and was killed all the same"));
            }
            said = clients[killer].query(&format!("KILL {}", victim.id())).await;
        }
        if said.error().is_some() || said.is_lost() {
            wrong.push(format!("KILL {id} is answered by {said:?}"));
        }
        let after = victim.query("SELECT 1").await;
        if !(after.is_lost() || after.error() == Some(1927)) {
            wrong.push(format!("{id} was killed and goes on: {after:?}"));
        }
        for client in &mut clients {
            if client.query("SELECT 1").await.value().as_deref() != Some("1") {
                wrong.push(format!("KILL {id} hit a stranger"));
                *client = kept.client().await;
            }
        }
    }
    none_of(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_killed_from_the_node_itself_is_told_so_and_not_sent_again() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let kept = Kept::start(settings(), &servers.each_ref().map(Server::address), false);
    let mut wrong = vec![];
    for (kill, codes) in [("KILL QUERY", &[1317][..]), ("KILL CONNECTION", &[1927, 1317][..])] {
        for sql in [
            "SELECT SUM(a.seq * b.seq) FROM seq_1_to_1000000 a, seq_1_to_1000000 b",
            "SELECT SLEEP(30), SLEEP(30)",
        ] {
            let mut client = kept.client().await;
            let asked = tokio::spawn(async move { client.query(sql).await });
            let mark = &sql[..12];
            let find =
                format!("SELECT MAX(id) FROM information_schema.processlist WHERE info LIKE '{mark}%'");
            let id = servers[0].until(&find, |id| id != "NULL");
            servers[0].sql(&format!("{kill} {id}"));
            let reply = asked.await.unwrap();
            if !reply.error().is_some_and(|code| codes.contains(&code)) {
                wrong.push(format!("{kill} of {sql}: {reply:?}"));
            }
        }
    }
    assert_eq!(kept.proxy.stats().await.statements_again, 0, "sent again");
    for fact in kept.facts() {
        assert!(!matches!(fact, ProxyFact::StatementLost { .. }), "a kill is no loss of a node: {fact:?}");
    }
    none_of(&wrong);
}

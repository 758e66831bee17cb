//! How a real MariaDB ends an idle connection. What the manager concludes from an ending rests on what is checked here:
//!
//! ```text
//! (recorded below)
//! ```

mod server;

use std::time::{Duration, Instant};

use link::{Ended, Link};
use server::{LONG, Server};
use tokio::time::timeout;

/// Waits for the end of the link, and whatever comes after it.
async fn endings(mut link: Link) -> Vec<(Ended, Duration)> {
    let begun = Instant::now();
    let mut all = Vec::new();
    loop {
        let ended = timeout(LONG, link.ended()).await.expect("the server ends the connection");
        let is_last = !matches!(ended, Ended::Goodbye { .. });
        all.push((ended, begun.elapsed()));
        if is_last {
            return all;
        }
    }
}

#[tokio::test]
async fn record() {
    for signal in ["TERM", "KILL"] {
        let server = Server::start(&[]);
        let link = server.link().await;
        let mut used = server.link().await;
        used.query("SELECT 1", LONG).await.unwrap();
        server.signal(signal);
        println!("SIG{signal}: fresh {:?}", endings(link).await);
        println!("SIG{signal}: used {:?}", endings(used).await);
    }
    let server = Server::start(&[]);
    let mut killer = server.link().await;
    for how in ["KILL", "KILL SOFT", "KILL HARD", "KILL CONNECTION", "KILL QUERY"] {
        let link = server.link().await;
        killer.query(&format!("{how} {}", link.greeting.connection_id), LONG).await.unwrap();
        println!("{how}: {:?}", timeout(Duration::from_secs(3), endings(link)).await);
    }
    let mut link = server.link().await;
    link.query("SET wait_timeout=1", LONG).await.unwrap();
    println!("wait_timeout: {:?}", endings(link).await);
    let link = server.link().await;
    killer.query("SHUTDOWN", LONG).await.unwrap();
    println!("SHUTDOWN: {:?}", endings(link).await);
    println!("SHUTDOWN by: {:?}", endings(killer).await);
}

async fn reconnects(server: &mut Server) {
    let begun = Instant::now();
    let mut last = String::new();
    loop {
        let one = Instant::now();
        let found = match Link::connect(&server.address(), &server::app(), Duration::from_secs(1)).await {
            Ok(_) => "in".into(),
            Err(error) => format!("{error:?}"),
        };
        if found != last {
            println!("   at {:?} (took {:?}) {found}", begun.elapsed(), one.elapsed());
            last = found;
        }
        if let Some(status) = server.ended() {
            println!("   process gone at {:?}: {status:?}", begun.elapsed());
            break;
        }
    }
    println!("   {:?}", Link::connect(&server.address(), &server::app(), Duration::from_secs(1)).await.err());
}

#[tokio::test]
async fn record_more() {
    let galera = server::free_port();
    let options = [
        "--wsrep-on=ON".to_owned(),
        "--wsrep-provider=/usr/lib/galera/libgalera_smm.so".into(),
        "--wsrep-cluster-address=gcomm://".into(),
        "--binlog-format=ROW".into(),
        "--wsrep-node-address=127.0.0.1".into(),
        format!("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{galera};gcache.size=16M;ist.recv_addr=127.0.0.1:{}", server::free_port()),
    ];
    let wsrep: Vec<&str> = options.iter().map(String::as_str).collect();
    for options in [&[][..], &wsrep[..]] {
        for signal in ["TERM", "KILL"] {
            let mut server = Server::start(options);
            println!("==== {signal} {}", options.len());
            let link = server.link().await;
            let mut busy = server.link().await;
            println!("wsrep {:?}", busy.query("SHOW STATUS LIKE 'wsrep_ready'", LONG).await.unwrap().text(0, 1));
            let mut in_transaction = server.link().await;
            in_transaction.query("CREATE TABLE shop.t (a INT PRIMARY KEY)", LONG).await.unwrap();
            in_transaction.query("BEGIN", LONG).await.unwrap();
            in_transaction.query("INSERT INTO shop.t VALUES (1)", LONG).await.unwrap();
            let task = tokio::spawn(async move {
                let begun = Instant::now();
                println!("busy: {:?} after {:?}", busy.query("SELECT SLEEP(5), 1 FROM (SELECT 1 UNION SELECT 2) t", LONG).await, begun.elapsed());
                println!("busy then: {:?}", endings(busy).await);
            });
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.signal(signal);
            println!("idle {:?}", endings(link).await);
            println!("in transaction {:?}", endings(in_transaction).await);
            reconnects(&mut server).await;
            task.await.unwrap();
        }
    }
}

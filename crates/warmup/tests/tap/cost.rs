//! What a statement costs the proxy's threads with nobody listening, and with a listener: to be looked at, not to pass or fail.
//!
//! `cargo test -p warmup --test tap cost -- --ignored --nocapture`

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fixture::client::Client;
use futures_util::StreamExt;
use proxy::Wish;
use warmup::tap::log;

use super::scene::Scene;

/// Time on a processor of all threads of this process with that name, in nanoseconds.
fn cpu_ns(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    });
    named
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

fn runtime(name: &str) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(name)
        .enable_all()
        .build()
        .unwrap()
}

const CLIENTS: usize = 8;
const READS: usize = 500;
const ROUNDS: usize = 3;

/// Point selects by several clients, in text.
async fn load(address: std::net::SocketAddr) {
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(async move {
            let mut client = Client::connect(address).await;
            for read in 0..READS {
                client.run(&format!("SELECT id, s FROM v WHERE id = {}", (number + read) % 4)).await;
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
}

#[test]
#[ignore = "measures, and takes a minute"]
fn cost_of_a_read_with_a_listener_and_without() {
    let (proxies, listeners, clients) = (runtime("proxy-cpu"), runtime("listener-cpu"), runtime("client"));
    let scene = {
        let _inside = proxies.enter();
        Scene::new()
    };
    let address = scene.through();
    clients.block_on(load(address));
    let shares = [("nobody", None), ("share 1", Some(1.0)), ("share 0.1", Some(0.1))];
    let mut figures = [[vec![], vec![]], [vec![], vec![]], [vec![], vec![]]];
    let mut offered = [0; 3];
    for _ in 0..ROUNDS {
        for (at, (_, share)) in shares.iter().enumerate() {
            let listening = share.map(|share| {
                let (reads, counts) = scene.proxy.tap().listen(Wish { share, ..Wish::default() });
                let parts = log::parts(reads, Arc::clone(&counts));
                let task = listeners.spawn(parts.for_each(|part| async move { drop(part) }));
                (task, counts)
            });
            let before = [cpu_ns("proxy-cpu"), cpu_ns("listener-cpu")];
            clients.block_on(load(address));
            for (side, name) in ["proxy-cpu", "listener-cpu"].iter().enumerate() {
                let spent = cpu_ns(name) - before[side];
                figures[at][side].push(spent as f64 / 1000.0 / (CLIENTS * READS) as f64);
            }
            if let Some((task, counts)) = listening {
                offered[at] = counts.offered.load(Relaxed);
                task.abort();
                let _ = clients.block_on(task);
                // Noticed by the next read that would have been told.
                clients.block_on(async {
                    let mut client = Client::connect(address).await;
                    while scene.proxy.tap().is_heard() {
                        client.run("SELECT id FROM v").await;
                    }
                });
            }
        }
    }
    println!(
        "CPU microseconds a read, median of {ROUNDS} rounds of {} reads by {CLIENTS} clients",
        CLIENTS * READS
    );
    for (at, (name, _)) in shares.iter().enumerate() {
        let [proxy, listener] = figures[at].each_mut().map(|all| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        });
        println!("{name:10} proxy {proxy:6.2}  listener {listener:6.2}  offered {}", offered[at]);
    }
}

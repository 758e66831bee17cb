//! Sessions that cannot move (a temporary table) where all nodes take traffic: a doubt about their node, and another node's end, cost
//! them nothing but a pause.

use fixture::Server;
use fixture::client::Client;
use harness::{Bench, SECOND, routes, settings};
use proxy::Settings;
use topology::routes::LaneState::{self, Draining, Open, Shut};

struct Scene {
    servers: [Server; 2],
    bench: Bench,
    /// Four on each server, each with a temporary table of one row: its own number.
    sessions: Vec<(usize, Client)>,
    version: u64,
}

impl Scene {
    async fn set() -> Scene {
        let servers = [Server::start(&[]), Server::start(&[])];
        let all = Settings { writers_all: true, ..settings() };
        let bench = Bench::new(all, routes(1, &[(&servers[0], Open, 1), (&servers[1], Open, 1)]));
        let mut sessions = vec![];
        for number in 0..8 {
            let mut client = Client::connect(bench.proxy.local_addresses()[0]).await;
            client.run("CREATE TEMPORARY TABLE own (x INT)").await;
            client.run(&format!("INSERT INTO own VALUES ({number})")).await;
            let port = client.one("SELECT @@port").await;
            let place = usize::from(port != servers[0].address().port().to_string());
            sessions.push((place, client));
        }
        assert_eq!(sessions.iter().filter(|(place, _)| *place == 0).count(), 4, "the least busy first");
        bench.shows(|stats| stats.sessions_pinned, 8).await;
        Scene { servers, bench, sessions, version: 1 }
    }

    async fn lanes(&mut self, first: (LaneState, u64), second: (LaneState, u64)) {
        self.version += 1;
        let [a, b] = &self.servers;
        let lanes = [(a, first.0, first.1), (b, second.0, second.1)];
        self.bench.follow(routes(self.version, &lanes)).await;
    }

    /// Those on server `place` ask at once for what is theirs alone; nobody is answered before `then` is in force, and everybody after.
    async fn ask_through(&mut self, place: usize, then: [(LaneState, u64); 2]) {
        let sessions = self.sessions.split_off(0);
        let (asking, others): (Vec<_>, Vec<_>) = sessions.into_iter().partition(|(at, _)| *at == place);
        self.sessions = others;
        let mut asked = vec![];
        for (at, mut client) in asking {
            asked.push(tokio::spawn(
                async move { (at, client.query("SELECT COUNT(*) FROM own").await, client) },
            ));
        }
        for asked in &mut asked {
            let early = tokio::time::timeout(SECOND / 10, asked).await;
            assert!(
                early.is_err(),
                "answered during a doubt: {:?}",
                early.map(|early| early.map(|(_, reply, _)| reply))
            );
        }
        self.lanes(then[0], then[1]).await;
        for asked in asked {
            let (at, reply, client) = asked.await.unwrap();
            assert_eq!(reply.value().as_deref(), Some("1"), "{reply:?}");
            self.sessions.push((at, client));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doubt_is_a_pause() {
    let mut scene = Scene::set().await;
    for _ in 0..3 {
        scene.lanes((Draining, 1), (Open, 1)).await;
        // Those on the other server are not concerned at all.
        for (_, client) in scene.sessions.iter_mut().filter(|(place, _)| *place == 1) {
            assert_eq!(client.one("SELECT COUNT(*) FROM own").await, "1");
        }
        scene.ask_through(0, [(Open, 1), (Open, 1)]).await;
    }
    let errors: u64 = scene.bench.proxy.stats().await.errors.iter().map(|error| error.count).sum();
    assert_eq!(errors, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_nodes_end_is_a_pause_at_the_most() {
    let mut scene = Scene::set().await;
    // The second is lost; the first is asked, too, since its view changes, and is well.
    scene.lanes((Draining, 1), (Draining, 1)).await;
    scene.lanes((Draining, 1), (Shut, 2)).await;
    scene.ask_through(0, [(Open, 1), (Shut, 2)]).await;
    for (_, client) in scene.sessions.iter_mut().filter(|(place, _)| *place == 0) {
        assert_eq!(client.one("SELECT COUNT(*) FROM own").await, "1");
    }
    // Another doubt, now that there is no other server.
    scene.lanes((Draining, 1), (Shut, 2)).await;
    scene.ask_through(0, [(Open, 1), (Shut, 2)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doubt_that_is_confirmed_ends_them_with_a_clear_word() {
    let mut scene = Scene::set().await;
    scene.lanes((Draining, 1), (Open, 1)).await;
    let (_, mut waiting) = scene.sessions.remove(0);
    let mut asked = tokio::spawn(async move { waiting.query("SELECT x FROM own").await });
    let early = tokio::time::timeout(SECOND / 5, &mut asked).await;
    assert!(early.is_err(), "answered during a doubt: {early:?}");
    scene.lanes((Shut, 2), (Open, 1)).await;
    let reply = tokio::time::timeout(SECOND * 5, asked).await.expect("it does not wait for ever").unwrap();
    assert_eq!(reply.error(), Some(9104), "{reply:?}");
    assert!(reply.message().contains("temporary table"), "{reply:?}");
}

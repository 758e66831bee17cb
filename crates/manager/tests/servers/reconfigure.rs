//! Other settings while the manager runs, beside a real server: its links and its decision stay, another account logs in beside the old link, and
//! what the proxy reports and an operator orders is about the same node whatever its place is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fixture::Server;
use fixture::wait::until_async;
use manager::{Account, Handles, NotTaken, Settings};
use tokio::time::timeout;
use topology::NodeId;
use topology::fact::{ConnectFailure, ProxyFact};
use topology::kind::Kind;
use topology::order::Order;
use topology::routes::{Lane, LaneState, Routes};
use topology::settings::{NodeSettings, Writers};

const WITHIN: Duration = Duration::from_secs(20);

/// A manager of one server, which is the primary, and of whatever else a test names.
struct Stand {
    server: Server,
    settings: Settings,
    handles: Handles,
    _dir: tempfile::TempDir,
}

impl Stand {
    async fn start() -> Self {
        let server = Server::start(&["--log-bin", "--server-id=1"]);
        let dir = tempfile::tempdir().unwrap();
        let nodes = vec![node("db1", &server.address().to_string())];
        let mut cluster = topology::settings::Settings::new("shop", Writers::One, nodes);
        cluster.kind = Kind::Replication;
        let settings = Settings {
            cluster,
            monitor: Account { user: "app".into(), password: "secret".into(), tls: None },
            replication: None,
            proof_command: None,
            store: dir.path().join("state.sqlite"),
        };
        let handles = manager::start(settings.clone()).unwrap();
        let mut stand = Self { server, settings, handles, _dir: dir };
        stand.routes("db1 is written", |routes| lane(routes, "db1").state == LaneState::Open).await;
        stand
    }

    /// Waits for routes like that.
    async fn routes(&mut self, what: &str, is_so: impl Fn(&Routes) -> bool) -> Arc<Routes> {
        let routes = timeout(WITHIN, self.handles.routes.wait_for(|routes| is_so(routes))).await;
        routes.unwrap_or_else(|_| panic!("never came: {what}")).unwrap().clone()
    }

    async fn apply(&mut self) {
        self.handles.reconfigure(self.settings.clone()).await.unwrap();
    }

    /// The numbers of the connections that this account has on the server.
    fn connections(&self, user: &str) -> BTreeSet<u64> {
        let ids = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{user}'");
        self.server.sql(&ids).lines().map(|id| id.parse().unwrap()).collect()
    }

    /// How much the server was asked since it started.
    fn questions(&self) -> u64 {
        let asked =
            "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'";
        self.server.sql(asked).parse().unwrap()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        until_async(what, async || is_so(self)).await;
    }

    fn names(&self) -> Vec<String> {
        self.handles.view.borrow().nodes.iter().map(|node| node.name.clone()).collect()
    }
}

fn node(name: &str, address: &str) -> NodeSettings {
    NodeSettings { name: name.into(), address: address.into(), priority: 0 }
}

fn lane<'a>(routes: &'a Routes, name: &str) -> &'a Lane {
    routes.lanes.iter().find(|lane| *lane.name == *name).unwrap()
}

/// Nobody listens there.
fn dead_end() -> String {
    format!("127.0.0.1:{}", fixture::free_port())
}

#[tokio::test]
async fn links_stay_until_another_account_has_logged_in() {
    let mut stand = Stand::start().await;
    let before = stand.handles.routes.borrow().clone();
    let (old, asked) = (stand.connections("app"), stand.questions());
    assert!(!old.is_empty());
    stand.settings.cluster.probe_interval = Duration::from_millis(100);
    // More than a busy machine takes: a link that is given up for a late answer would be followed by a new one.
    stand.settings.cluster.misses_max = 100;
    stand.apply().await;
    stand.until("it is asked on", |stand| stand.questions() > asked + 50).await;
    // Questions of a moment apart, whose connections end.
    stand.until("no connection is new", |stand| stand.connections("app").is_subset(&old)).await;

    stand.server.sql("CREATE USER other@'%' IDENTIFIED BY 'another'; GRANT ALL ON *.* TO other@'%'");
    stand.settings.monitor = Account { user: "other".into(), password: "another".into(), tls: None };
    stand.apply().await;
    stand.until("all links are the new account's", |stand| stand.connections("app").is_empty()).await;
    assert!(!stand.connections("other").is_empty());
    let after = stand
        .routes("db1 is written after the new link was compared", |routes| {
            lane(routes, "db1").state == LaneState::Open
        })
        .await;
    assert_eq!((after.term, lane(&after, "db1").epoch), (before.term, lane(&before, "db1").epoch));
    stand.handles.stop.stop().await;
}

#[tokio::test]
async fn what_the_proxy_and_an_operator_mean_is_the_node_that_they_know() {
    let mut stand = Stand::start().await;
    let epoch = lane(&stand.handles.routes.borrow(), "db1").epoch;
    let old_orders = stand.handles.orders.clone();
    stand.settings.cluster.nodes.insert(0, node("db0", &dead_end()));
    stand.apply().await;
    assert_eq!(stand.names(), ["db0", "db1"], "as soon as it is answered, it is shown");
    let routes = stand.routes("both are in the routes", |routes| routes.lanes.len() == 2).await;
    let shown: Vec<_> = routes.lanes.iter().map(|lane| (&*lane.name, lane.node, lane.epoch)).collect();
    assert_eq!(shown, [("db1", NodeId(0), epoch), ("db0", NodeId(1), 0)]);

    // The node with the id 0 is db1, whose place is 1.
    let how = ConnectFailure::Closed;
    stand.handles.facts.send(ProxyFact::TrafficLost { node: NodeId(0), epoch, how, alarm: 1 }).await.unwrap();
    stand.routes("the alarm is answered", |routes| lane(routes, "db1").looked >= 1).await;
    stand.routes("db1 is written on", |routes| lane(routes, "db1").state == LaneState::Open).await;

    let drain = || Order::Drain { node: NodeId(1), budget: WITHIN, force: false, temporary: false };
    let done = old_orders.order(drain()).await.unwrap();
    assert!(done.sentence.starts_with("db0 is drained"), "{}", done.sentence);

    stand.settings.cluster.nodes.remove(0);
    stand.apply().await;
    assert_eq!(stand.names(), ["db1"]);
    let routes = stand.routes("db0 is marked as removed", |routes| lane(routes, "db0").is_removed).await;
    assert_eq!((lane(&routes, "db1").state, lane(&routes, "db1").epoch), (LaneState::Open, epoch));
    assert!(stand.handles.samples.probe_times(NodeId(1)).is_none());
    let refused = old_orders.order(drain()).await.unwrap_err();
    assert_eq!(refused.code, "unknown_node", "{}", refused.sentence);

    stand.settings.cluster.nodes.clear();
    let Err(NotTaken::Refused { code, .. }) = stand.handles.reconfigure(stand.settings.clone()).await else {
        panic!()
    };
    assert_eq!(code, "configuration");
    stand.handles.stop.stop().await;
}

//! The manager in charge of a primary with replicas that are MySQL's: what it tells them, in the words of their version, and what it makes of
//! what they say. The servers are modelled from the manual ([`fixture::mysql`]): none of this was seen on a running MySQL.

use std::sync::Arc;
use std::time::Duration;

use fixture::mysql::Group;
use fixture::wait::within_async;
use manager::{Account, Handles, Settings};
use tokio::sync::{mpsc, watch};
use topology::NodeId;
use topology::fact::ProxyFact;
use topology::kind::Kind;
use topology::order::Order;
use topology::routes::{LaneState, Routes};
use topology::settings::{NodeSettings, Writers};

const WITHIN: Duration = Duration::from_secs(30);

/// A primary (db1) with two replicas, and a manager that has seen that.
struct Site {
    group: Group,
    manager: Option<Handles>,
    dir: tempfile::TempDir,
}

impl Site {
    async fn begin(version: &str, semi_sync: bool) -> Self {
        let mut group = Group::default();
        for number in 1..=3 {
            let place = group.start(version, number).await;
            group.change(place, |state| state.semi_sync = semi_sync);
        }
        group.change(0, |state| {
            (state.read_only, state.super_read_only) = (false, false);
            state.waits = semi_sync;
        });
        group.write(0);
        group.follow(1, 0);
        group.follow(2, 0);
        let dir = tempfile::tempdir().unwrap();
        let mut site = Self { group, manager: None, dir };
        site.start_manager();
        site.until("db1 is written", |site| site.open() == Some(0)).await;
        site
    }

    fn start_manager(&mut self) {
        let node = |place: usize| NodeSettings {
            name: format!("db{}", place + 1),
            address: self.group.state(place).address.to_string(),
            priority: 0,
        };
        let nodes = (0..3).map(node).collect();
        let mut cluster = topology::settings::Settings::new("shop", Writers::One, nodes);
        cluster.kind = Kind::Replication;
        let account =
            |user: &str| Account { user: user.into(), password: "it's \\ secret".into(), tls: None };
        let settings = Settings {
            proof_command: None,
            cluster,
            monitor: account("understudy"),
            replication: Some(account("repl")),
            store: self.dir.path().join("state.sqlite"),
        };
        let handles = manager::start(settings).unwrap();
        tokio::spawn(stand_in(handles.routes.clone(), handles.facts.clone()));
        self.manager = Some(handles);
    }

    fn manager(&self) -> &Handles {
        self.manager.as_ref().expect("it runs")
    }

    fn open(&self) -> Option<u8> {
        self.manager().routes.borrow().open().next().map(|lane| lane.node.0)
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let seen = within_async(WITHIN, async || is_so(self)).await;
        seen.unwrap_or_else(|()| panic!("never came: {what}\n{}", self.picture()));
    }

    /// What went wrong, for whoever reads a failure.
    fn picture(&self) -> String {
        let states: Vec<String> = (0..3).map(|place| format!("{:#?}", self.group.state(place))).collect();
        format!("{}\n{:#?}", states.join("\n"), self.manager().view.borrow())
    }

    /// It is read only, whoever asks, and has all that the server at `primary` has.
    fn follows(&self, place: usize, primary: usize) -> bool {
        let (state, primary) = (self.group.state(place), self.group.state(primary));
        let follows = state.source.as_ref().is_some_and(|source| {
            source.options.get("SOURCE_PORT") == Some(&primary.address.port().to_string())
                && source.is_connected
                && source.applies
        });
        follows && state.super_read_only && !state.waits && state.executed == primary.executed
    }

    fn is_writable(&self, place: usize) -> bool {
        let state = self.group.state(place);
        state.is_up && !state.read_only
    }

    /// Nothing speaks against any server.
    fn is_well(&self) -> bool {
        self.manager().view.borrow().nodes.iter().all(|node| node.problem.is_none())
    }

    /// It is the only one that is writable, and follows nobody.
    fn leads(&self, place: usize) -> bool {
        let writable: Vec<usize> = (0..3).filter(|at| self.is_writable(*at)).collect();
        writable == [place] && self.group.state(place).source.is_none() && self.open() == Some(place as u8)
    }

    async fn switchover(&self, to: u8, budget: Duration) -> Result<String, String> {
        let order = Order::Switchover { to: Some(NodeId(to)), budget, force: false };
        let reply = self.manager().orders.order(order).await;
        reply.map(|done| done.sentence).map_err(|refused| refused.sentence)
    }

    /// Nothing was said to a server that its version does not know.
    fn demand_understood(&self) {
        for place in 0..3 {
            let state = self.group.state(place);
            assert_eq!(state.refused, Vec::<String>::new(), "{} of version {}", place + 1, state.version);
        }
    }

    fn told(&self, place: usize) -> Vec<String> {
        self.group.state(place).statements
    }
}

/// Says what a proxy without clients would say.
async fn stand_in(mut routes: watch::Receiver<Arc<Routes>>, facts: mpsc::Sender<ProxyFact>) {
    loop {
        let now = Arc::clone(&routes.borrow_and_update());
        for lane in &now.lanes {
            let (node, epoch) = (lane.node, lane.epoch);
            let fact = match lane.state {
                LaneState::Shut if epoch > 0 => ProxyFact::Cut { node, epoch: epoch - 1 },
                LaneState::Draining => {
                    ProxyFact::Quiesced { node, epoch, term: now.term, version: now.version }
                }
                LaneState::Shut | LaneState::Open => continue,
            };
            if facts.send(fact).await.is_err() {
                return;
            }
        }
        if routes.changed().await.is_err() {
            return;
        }
    }
}

/// Each spelling that there is.
const VERSIONS: [&str; 5] = ["5.7.44-log", "8.0.22", "8.0.36-28.1", "8.4.3", "9.1.0"];

#[tokio::test]
async fn a_switchover_there_and_back_in_the_words_of_each_version() {
    for version in VERSIONS {
        let site = Site::begin(version, true).await;
        for (from, to) in [(0, 1), (1, 0)] {
            site.until("nothing speaks against anybody", Site::is_well).await;
            site.group.write(from);
            let done = site.switchover(to, WITHIN).await;
            done.unwrap_or_else(|why| panic!("{version}: {why}\n{}", site.picture()));
            let to = usize::from(to);
            site.until("the new primary is written", |site| site.leads(to)).await;
            assert!(site.group.state(to).waits, "{version}: it waits for its replicas");
            site.until("both others follow", |site| (0..3).all(|at| at == to || site.follows(at, to))).await;
            site.group.write(to);
            site.until("they have what it wrote", |site| (0..3).all(|at| at == to || site.follows(at, to)))
                .await;
        }
        site.demand_understood();
    }
}

#[tokio::test]
async fn nothing_that_is_asked_before_a_switchover_refuses_it() {
    for version in VERSIONS {
        let site = Site::begin(version, true).await;
        site.until("nothing speaks against anybody", Site::is_well).await;
        let view = site.manager().view.borrow().clone();
        let wish = topology::preflight::Wish {
            view: &view,
            to: Some(NodeId(1)),
            budget: WITHIN,
            immovable: &[],
            stopped: &[],
            sessions: 0,
            warm: None,
        };
        let report = site.manager().preflight.look(wish, WITHIN).await;
        assert_eq!(report.refusal(), None, "{version}");
        let semi_sync = report.rows.iter().find(|row| row.check == "semi_sync").expect("a row");
        assert!(semi_sync.sentence.starts_with("would wait for its replicas"), "{version}: {semi_sync:?}");
        assert!(report.rows.iter().any(|row| row.check == "errant"), "{version}: it was looked at");
        assert!(!report.rows.iter().any(|row| row.check == "rights"), "{version}: its rights are not known");
    }
}

#[tokio::test]
async fn what_each_server_is_told_in_a_switchover() {
    let site = Site::begin("8.4.3", true).await;
    let before = site.told(0);
    assert!(
        matches!(&*before, [confirmed] if confirmed.starts_with("SET GLOBAL read_only = IF(")),
        "{before:?}"
    );
    site.switchover(1, WITHIN).await.unwrap();
    site.until("both others follow", |site| site.follows(0, 1) && site.follows(2, 1)).await;
    let port = site.group.state(1).address.port();
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'repl', \
         SOURCE_PASSWORD = 'it''s \\\\ secret', SOURCE_AUTO_POSITION = 1, SOURCE_RETRY_COUNT = 86400, \
         GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_HEARTBEAT_PERIOD = 0.3"
    );
    let read_only = "SET GLOBAL super_read_only = ON";
    let nobody = "SET GLOBAL rpl_semi_sync_source_enabled = OFF";
    // MySQL may take a second for the last one: nothing waits for it.
    let all = [read_only, read_only, &change, "START REPLICA", nobody];
    site.until("the old primary is told all", |site| site.told(0).len() >= before.len() + all.len()).await;
    assert_eq!(site.told(0)[before.len()..], all);
    let other = site.told(2);
    assert_eq!(other, [read_only, "STOP REPLICA", &change, "START REPLICA"]);
    let mut new = site.told(1);
    let writable = new.pop().unwrap();
    assert!(writable.starts_with("SET GLOBAL read_only = IF(UNIX_TIMESTAMP(SYSDATE(6)) < "), "{writable}");
    let stop = ["STOP REPLICA IO_THREAD", "STOP REPLICA", "RESET REPLICA ALL"];
    assert_eq!(new, [&stop[..], &["SET GLOBAL rpl_semi_sync_source_enabled = ON"]].concat());
}

#[tokio::test]
async fn the_primary_dies_another_takes_over_and_the_old_one_follows_when_it_is_back() {
    for version in ["5.7.44", "8.0.36", "8.4.3"] {
        let mut site = Site::begin(version, true).await;
        site.group.write(0);
        site.until("both have it", |site| site.follows(1, 0) && site.follows(2, 0)).await;
        // What the primary had is known once it has been heard as the primary; before that nobody takes over by himself.
        let opened_ms = site.manager().view.borrow().now_ms;
        site.until("the primary has answered since", |site| {
            let view = site.manager().view.borrow();
            view.nodes[0]
                .answered_ms_ago
                .is_some_and(|ago_ms| view.now_ms.saturating_sub(ago_ms) > opened_ms + 200)
        })
        .await;
        site.group.kill(0);
        site.until("one of the others is written", |site| site.leads(1) || site.leads(2)).await;
        let new = usize::from(site.open().unwrap());
        let other = 3 - new;
        assert_eq!(site.group.state(new).executed, site.group.state(0).executed, "{version}");
        site.until("the other one follows", |site| site.follows(other, new)).await;
        site.group.write(new);
        site.group.begin(0).await;
        site.until("the old one follows", |site| site.follows(0, new)).await;
        site.demand_understood();
    }
}

#[tokio::test]
async fn an_old_primary_with_transactions_of_its_own_is_left_alone_and_they_are_shown_exactly() {
    let mut site = Site::begin("8.4.3", false).await;
    site.until("both have all", |site| site.follows(1, 0) && site.follows(2, 0)).await;
    let uuid = site.group.state(0).uuid;
    // What it committed in its last moment, and sent to nobody; one of them with a tag.
    for place in [1, 2] {
        site.group.change(place, |state| state.source.as_mut().unwrap().fetches = false);
    }
    site.group.change(0, |state| {
        let errant = format!("{uuid}:2-4:orders:1").parse().unwrap();
        state.executed = state.executed.union(&errant);
    });
    site.group.kill(0);
    site.until("one of the others is written", |site| site.leads(1) || site.leads(2)).await;
    let new = usize::from(site.open().unwrap());
    let told = site.told(0).len();
    site.group.begin(0).await;
    let shown = format!("has transactions that the primary has not: {uuid}:2-4:orders:1");
    site.until("it is shown", |site| {
        site.manager().view.borrow().nodes.first().is_some_and(|node| node.reason.contains(&shown))
    })
    .await;
    let change = |statement: &String| statement.starts_with("CHANGE") || statement.starts_with("START");
    assert!(!site.told(0)[told..].iter().any(change), "{:?}", site.told(0));
    assert!(site.leads(new) && site.group.state(0).super_read_only);
    site.demand_understood();
}

#[tokio::test]
async fn a_replica_that_has_not_all_is_not_promoted_and_the_primary_goes_on() {
    let site = Site::begin("8.4.3", false).await;
    site.group.change(1, |state| state.source.as_mut().unwrap().applies = false);
    site.group.write(0);
    let why = site.switchover(1, Duration::from_secs(2)).await.unwrap_err();
    assert!(why.contains("SQL thread"), "{why}");
    site.until("the old primary is written", |site| site.leads(0)).await;
    site.demand_understood();
}

#[tokio::test]
async fn a_server_that_is_too_old_is_told_of_and_not_used() {
    let mut group = Group::default();
    for number in 1..=3 {
        group.start("5.6.51", number).await;
    }
    let mut site = Site { group, manager: None, dir: tempfile::tempdir().unwrap() };
    site.start_manager();
    let told = "5.6.51 is older than MySQL 5.7.8";
    site.until("it is told", |site| format!("{:?}", site.manager().view.borrow()).contains(told)).await;
    assert_eq!(site.open(), None);
}

//! One change of a healthy cluster for each rule, and what its row says.

use crate::NodeId;
use std::borrow::Cow;
use std::time::Duration;

use super::answer::{Rights, Thread};
use super::sql::{MASTER_ENABLED, SLAVE_ENABLED};
use super::*;
use crate::finding::{NodeState, Problem, Serves};
use crate::galera::GaleraStatus;
use crate::replication::{Channel, ReplicationStatus};
use crate::routes::LaneState;
use crate::rules::variables::{TIMEOUT, WAIT_POINT};
use crate::session_defaults::SessionDefaults;
use crate::settings::Writers;
use crate::status::Status;
use crate::view::{ClusterView, Counts, NodeView, TrafficFlow};
use crate::{Term, reads};

/// Everything a test may change.
struct World {
    kind: Kind,
    view: ClusterView,
    said: Vec<NodeReply>,
    immovable: Vec<Immovable>,
    stopped: Vec<Stopped>,
    budget: Duration,
    to: Option<NodeId>,
    warm: Option<Warm>,
}

fn node(place: u8, facts: Status) -> NodeView {
    NodeView {
        id: NodeId(place),
        place,
        name: format!("db{}", place + 1),
        address: format!("h{}:3306", place + 1),
        state: NodeState::Synced,
        reason: "well".into(),
        serves: Serves::Well,
        problem: None,
        doubt: None,
        others: None,
        since_ms: 0,
        lane: if place == 0 { LaneState::Open } else { LaneState::Shut },
        epoch: 0,
        links_gone: true,
        sessions_max: None,
        has_temporary_drain: false,
        writer: place == 0,
        priority: 0,
        linked: true,
        misses: 0,
        answered_ms_ago: Some(0),
        reads: reads::View { lane: None, epoch: 0, age_ms: None, age_max_ms: 0, why: None },
        advice: vec![],
        stuck: None,
        facts: Some(facts),
    }
}

fn server() -> Server {
    Server {
        version: "10.11.19-MariaDB".into(),
        variables: [
            ("binlog_format", "ROW"),
            ("event_scheduler", "ON"),
            ("max_connections", "100"),
            ("gtid_strict_mode", "ON"),
            (MASTER_ENABLED, "ON"),
            (SLAVE_ENABLED, "ON"),
            (TIMEOUT, "3600000"),
            (WAIT_POINT, "AFTER_SYNC"),
            ("wsrep_max_ws_size", "2147483647"),
            ("wsrep_max_ws_rows", "0"),
            ("wsrep_OSU_method", "TOI"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        position: answer::position("0-1-50"),
        purged: answer::position("0-1-20"),
        unlogged: Some(String::new()),
        new_names: false,
        sessions: vec![],
        defaults: SessionDefaults::new([("sql_mode", "")].into_iter()),
        event_list: Some(answer::Events::default()),
        rights: Some(Rights { account: "`understudy`@`%`".into(), lacks: vec![] }),
        replica_login: Some(answer::ReplicaLogin {
            user: "replication".into(),
            admission: answer::Admission::Admitted,
        }),
    }
}

impl Server {
    fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }
}

fn world(kind: Kind) -> World {
    let facts = |place: u8| -> Status {
        let channel = Channel {
            source: "h1:3306".into(),
            io_running: true,
            sql_running: true,
            by_gtid: true,
            lag_s: Some(0),
            ..Channel::default()
        };
        match kind {
            Kind::Galera => GaleraStatus { threads_connected: 10, ..GaleraStatus::default() }.into(),
            Kind::Replication => ReplicationStatus {
                read_only: place > 0,
                log_bin: true,
                log_replica_updates: true,
                gtid_strict_mode: true,
                binlog_format: "ROW".into(),
                position: answer::position("0-1-50"),
                channels: if place == 0 { vec![] } else { vec![channel] },
                threads_connected: 10,
                ..ReplicationStatus::default()
            }
            .into(),
        }
    };
    World {
        kind,
        view: ClusterView {
            bootstraps: 0,
            counts: Counts::default(),
            cluster: "shop".into(),
            writers: Writers::One,
            term: Term(1),
            version: 1,
            writer: Some("db1".into()),
            writer_changed_ms: None,
            candidate: Some("db2".into()),
            gate: TrafficFlow::Open,
            hold_because: None,
            order: None,
            nodes: (0..3).map(|place| node(place, facts(place))).collect(),
            decisions: vec![],
            now_ms: 0,
            started_unix_ms: 0,
        },
        said: (0..3).map(|_| NodeReply::Server(Box::new(server()))).collect(),
        immovable: vec![],
        stopped: vec![],
        budget: Duration::from_secs(5),
        to: None,
        warm: None,
    }
}

impl World {
    fn judge(&self) -> Report {
        let wish = Wish {
            view: &self.view,
            to: self.to,
            budget: self.budget,
            immovable: &self.immovable,
            stopped: &self.stopped,
            sessions: 7,
            warm: self.warm.as_ref(),
        };
        judge(self.kind, &wish, &self.said)
    }

    fn server(&mut self, place: usize) -> &mut Server {
        match &mut self.said[place] {
            NodeReply::Server(server) => server,
            _ => panic!("it said nothing"),
        }
    }

    fn replica(&mut self, place: usize) -> &mut ReplicationStatus {
        match &mut self.view.nodes[place].facts {
            Some(Status::Replication(status)) => status,
            _ => panic!("it is no replica"),
        }
    }

    fn member(&mut self, place: usize) -> &mut GaleraStatus {
        match &mut self.view.nodes[place].facts {
            Some(Status::Galera(status)) => status,
            _ => panic!("it is no member"),
        }
    }
}

/// The rows that are not ok after `change`: check, node, verdict.
fn found(kind: Kind, change: impl FnOnce(&mut World)) -> Vec<(&'static str, String, Severity)> {
    let mut world = world(kind);
    change(&mut world);
    let rows = world.judge().rows.into_iter().filter(|row| row.verdict != Severity::Ok);
    let told = |row: Row| match row.check {
        Cow::Borrowed(check) => (check, row.node, row.verdict),
        Cow::Owned(_) => panic!("a check has a name of its own"),
    };
    rows.map(told).collect()
}

fn replicates(change: impl FnOnce(&mut World)) -> Vec<(&'static str, String, Severity)> {
    found(Kind::Replication, change)
}

fn one(check: &'static str, node: &str, verdict: Severity) -> Vec<(&'static str, String, Severity)> {
    vec![(check, node.to_owned(), verdict)]
}

fn channel(change: impl FnOnce(&mut Channel)) -> Vec<(&'static str, String, Severity)> {
    replicates(|world| change(&mut world.replica(1).channels[0]))
}

use Severity::{Fails, Note, Slow};

#[test]
fn a_healthy_cluster_of_either_kind_has_nothing_but_ok() {
    for kind in [Kind::Replication, Kind::Galera] {
        let report = world(kind).judge();
        assert!(report.rows.len() > 8, "{report:?}");
        assert!(
            report.rows.iter().all(|row| row.verdict == Severity::Ok && !row.sentence.is_empty()),
            "{report:#?}"
        );
        assert!(!report.fails && report.refusal().is_none());
        assert_eq!((report.from.as_deref(), report.to.as_deref()), (Some("db1"), Some("db2")));
    }
}

#[test]
fn each_word_of_a_replica_has_its_row() {
    assert_eq!(channel(|channel| channel.sql_running = false), one("not_applying", "db2", Fails));
    assert_eq!(channel(|channel| channel.io_running = false), one("not_fetching", "db2", Fails));
    assert_eq!(channel(|channel| channel.delay_s = 60), one("delayed", "db2", Fails));
    assert_eq!(
        channel(|channel| channel.filters = vec!["Replicate_Do_DB = x".into()]),
        one("filtered", "db2", Fails)
    );
    assert_eq!(channel(|channel| channel.by_gtid = false), one("not_by_gtid", "db2", Fails));
    assert_eq!(replicates(|world| world.replica(1).log_bin = false), one("no_binlog", "db2", Fails));
    let errant = |world: &mut World| {
        let node = &mut world.view.nodes[1];
        (node.problem, node.serves) = (Some(Problem::Errant), Serves::No);
        node.reason = "has transactions that the primary has not: 0-2-51".into();
    };
    assert_eq!(replicates(errant), one("errant", "db2", Fails));
}

#[test]
fn the_account_that_replicas_log_in_with_is_let_in_by_the_new_primary() {
    use answer::Admission;
    let login = |admission: Admission| {
        replicates(|world| {
            world.server(1).replica_login =
                Some(answer::ReplicaLogin { user: "replication".into(), admission });
        })
    };
    let why = || "access denied".to_owned();
    assert_eq!(login(Admission::Refused(why())), one("replica_login", "db2", Fails));
    assert_eq!(login(Admission::MayNotReplicate), one("replica_login", "db2", Fails));
    // An account for the replicas' hosts alone cannot be tried from here: that keeps no order from being carried out.
    assert_eq!(login(Admission::NotKnown(why())), one("replica_login", "db2", Note));
    // Another manager moves the primary.
    assert_eq!(replicates(|world| world.server(1).replica_login = None), vec![]);
}

#[test]
fn lag_is_waited_for_within_the_budget() {
    let behind = |lag_s: Option<u64>| {
        replicates(|world| {
            world.replica(1).channels[0].lag_s = lag_s;
            world.server(1).position = answer::position("0-1-49");
        })
    };
    assert_eq!(behind(Some(0)), vec![]);
    assert_eq!(behind(Some(3)), one("lag", "db2", Slow));
    assert_eq!(behind(None), one("lag", "db2", Slow));
    assert_eq!(behind(Some(6)), one("lag", "db2", Fails));
    // Nothing arrives, so its threads see no lag.
    let cut_off = |age_ms: u64| {
        replicates(|world| {
            world.replica(1).channels[0].lag_s = Some(0);
            world.server(1).position = answer::position("0-1-49");
            world.view.nodes[1].reads.age_ms = Some(age_ms);
        })
    };
    assert_eq!(cut_off(900), vec![]);
    assert_eq!(cut_off(3_000), one("lag", "db2", Slow));
    assert_eq!(cut_off(16_000), one("lag", "db2", Fails));
    // What it applied last was old, and there is nothing more to apply.
    assert_eq!(channel(|channel| channel.lag_s = Some(60)), vec![]);
    let longer = |world: &mut World| {
        world.replica(1).channels[0].lag_s = Some(6);
        world.budget = Duration::from_secs(60);
        world.server(1).position = answer::position("0-1-40");
    };
    assert_eq!(replicates(longer), one("lag", "db2", Slow));
    let mut world = world(Kind::Replication);
    longer(&mut world);
    let report = world.judge();
    let row = report.rows.iter().find(|row| row.check == "lag").unwrap();
    assert_eq!(row.sentence, "is 6 s and 10 transactions behind, which the switchover waits for");
}

#[test]
fn a_newer_server_is_not_followed_by_an_older_one() {
    assert_eq!(
        replicates(|world| world.server(1).version = "11.4.2-MariaDB".into()),
        one("version", "db2", Fails)
    );
    assert_eq!(replicates(|world| world.server(1).version = "10.11.20-MariaDB".into()), vec![]);
    assert_eq!(replicates(|world| world.server(1).version = "10.6.5-MariaDB".into()), vec![]);
}

#[test]
fn a_replica_that_needs_what_was_purged_would_be_lost() {
    let purged = |world: &mut World| world.server(2).position = answer::position("0-1-19");
    assert_eq!(replicates(purged), one("binlogs", "db3", Fails));
    let unknown = |world: &mut World| {
        purged(world);
        world.server(1).purged = None;
    };
    assert_eq!(replicates(unknown), vec![]);
}

#[test]
fn semi_synchronous_settings_are_compared() {
    assert_eq!(replicates(|world| world.server(1).set(SLAVE_ENABLED, "OFF")), one("semi_sync", "db2", Note));
    let nobody = |world: &mut World| {
        world.server(0).set(SLAVE_ENABLED, "OFF");
        world.server(2).set(SLAVE_ENABLED, "OFF");
    };
    assert_eq!(replicates(nobody), one("semi_sync", "db2", Fails));
    let without = |world: &mut World| world.server(1).variables.retain(|name, _| name != MASTER_ENABLED);
    assert_eq!(replicates(without), one("semi_sync", "db2", Note));
    let short = |world: &mut World| {
        nobody(world);
        for place in 0..3 {
            world.server(place).set(TIMEOUT, "1000");
        }
    };
    assert_eq!(replicates(short), one("semi_sync", "db2", Slow));
    let other = |world: &mut World| world.server(0).set(WAIT_POINT, "AFTER_COMMIT");
    assert_eq!(replicates(other), one("semi_sync", "db2", Note));
    let asynchronous = |world: &mut World| {
        nobody(world);
        world.server(0).set(MASTER_ENABLED, "OFF");
    };
    assert_eq!(replicates(asynchronous), vec![]);
}

#[test]
fn what_a_failover_may_lose_though_commits_wait_is_noted() {
    let everywhere = |change: fn(&mut Server)| {
        replicates(move |world| (0..3).for_each(|place| change(world.server(place))))
    };
    let after_commit = everywhere(|server| server.set(WAIT_POINT, "AFTER_COMMIT"));
    assert_eq!(after_commit, one("semi_sync", "db2", Note));
    let short = everywhere(|server| server.set(TIMEOUT, "10000"));
    assert_eq!(short, one("semi_sync", "db2", Note));
}

#[test]
fn what_is_different_afterwards_is_told() {
    assert_eq!(replicates(|world| world.server(1).set("event_scheduler", "OFF")), one("events", "db2", Note));
    let events = |world: &mut World, enabled, running| {
        let definers = vec!["app@%".to_owned()];
        world.server(0).event_list =
            Some(answer::Events { enabled, definers, running, ..answer::Events::default() });
    };
    assert_eq!(replicates(|world| events(world, 2, 0)), vec![]);
    assert_eq!(replicates(|world| events(world, 2, 1)), one("events", "db1", Note));
    let without_account = |world: &mut World, enabled| {
        events(world, enabled, 0);
        let without_account = ["app@%", "old@%"].map(str::to_owned).to_vec();
        world.server(1).event_list = Some(answer::Events { without_account, ..answer::Events::default() });
    };
    assert_eq!(replicates(|world| without_account(world, 1)), one("events", "db2", Note));
    let format = |world: &mut World| world.server(1).set("binlog_format", "MIXED");
    assert_eq!(replicates(format), one("binlog_format", "db2", Note));
    assert_eq!(
        replicates(|world| world.server(1).set("gtid_strict_mode", "OFF")),
        one("strict", "db2", Note)
    );
    assert_eq!(replicates(|world| world.view.nodes[2].serves = Serves::No), one("replicas", "db3", Note));
    let unlogged = |place: usize| {
        move |world: &mut World| world.server(place).unlogged = Some("Binlog_Do_DB = shop".into())
    };
    assert_eq!(replicates(unlogged(0)), one("unlogged", "db1", Fails));
    assert_eq!(replicates(unlogged(1)), one("unlogged", "db2", Fails));
    assert_eq!(replicates(unlogged(2)), vec![], "it is neither the primary nor to be it");
    let tied = |world: &mut World| {
        let why = "temporary table".into();
        world.immovable.push(Immovable { node: "db1".into(), who: "session 5".into(), why });
    };
    assert_eq!(replicates(tied), one("sessions", "db1", Note));
    for (can_be_cut, verdict) in [(true, Note), (false, Slow)] {
        let stopped = |world: &mut World| {
            world.stopped.push(Stopped { node: "db1".into(), who: "session 5".into(), can_be_cut });
            world.stopped.push(Stopped { node: "db3".into(), who: "session 6".into(), can_be_cut });
        };
        assert_eq!(replicates(stopped), one("unread", "db1", verdict));
    }
}

#[test]
fn other_values_for_sessions_that_have_set_none_are_told() {
    for kind in [Kind::Replication, Kind::Galera] {
        let differs = |rows: [(&'static str, &'static str); 2]| {
            found(kind, |world| world.server(1).defaults = SessionDefaults::new(rows.into_iter()))
        };
        let mode = [("sql_mode", "ANSI_QUOTES"), ("time_zone", "SYSTEM")];
        assert_eq!(differs(mode), one("defaults", "db2", Note));
        assert_eq!(differs([("sql_mode", ""), ("version", "10.11")]), vec![]);
        // Not asked, so not judged.
        let mut world = world(kind);
        world.server(0).defaults = SessionDefaults::default();
        assert!(world.judge().rows.iter().all(|row| row.check != "defaults"));
    }
}

fn session(state: &str, statement: &str, state_s: u64, transaction_s: Option<u64>) -> Thread {
    let (state, statement) = (state.into(), statement.into());
    Thread { id: 30, user: "app".into(), host: "h:1".into(), state, statement, state_s, transaction_s }
}

#[test]
fn what_runs_on_the_writer_is_told() {
    let runs = |session: Thread| replicates(move |world| world.server(0).sessions.push(session));
    assert_eq!(runs(session("", "", 9, Some(9))), one("transactions", "db1", Slow));
    assert_eq!(runs(session("", "", 0, Some(0))), vec![]);
    let lock = "Waiting for backup lock";
    assert_eq!(runs(session(lock, "INSERT INTO t VALUES (1)", 2, None)), one("locks", "db1", Fails));
    assert_eq!(runs(session(lock, "INSERT INTO t VALUES (1)", 0, None)), vec![]);
    let lock = "Waiting for table metadata lock";
    assert_eq!(runs(session(lock, "SELECT 1", 2, None)), one("locks", "db1", Slow));
    assert_eq!(
        runs(session("copy to tmp table", "alter table t", 2, None)),
        one("table_changes", "db1", Slow)
    );
    let applier = Thread { user: "system user".into(), ..session("", "", 9, Some(9)) };
    assert_eq!(runs(applier), vec![], "an applier's transaction is no client's");
}

#[test]
fn sessions_that_do_not_fit_are_told() {
    assert_eq!(
        replicates(|world| world.server(1).set("max_connections", "16")),
        one("connections", "db2", Fails)
    );
    assert_eq!(
        replicates(|world| world.replica(0).threads_connected = 101),
        one("connections", "db2", Fails)
    );
}

#[test]
fn a_node_that_does_not_answer_is_told() {
    let failed = |late| move |world: &mut World| world.said[1] = NodeReply::Failed { why: "no".into(), late };
    assert_eq!(replicates(failed(false)), one("answers", "db2", Fails));
    assert_eq!(replicates(failed(true)), one("answers", "db2", Slow));
    let dead = |world: &mut World| {
        let node = &mut world.view.nodes[1];
        (node.problem, node.serves, node.linked) = (Some(Problem::Dead), Serves::No, false);
        world.said[1] = NodeReply::NotAsked;
    };
    let rows = replicates(dead);
    assert!(rows.contains(&("node", "db2".into(), Fails)));
}

#[test]
fn what_a_node_said_before_it_was_lost_does_not_count() {
    for kind in [Kind::Replication, Kind::Galera] {
        let healthy = world(kind).judge();
        let mut world = world(kind);
        let node = &mut world.view.nodes[1];
        (node.problem, node.serves, node.linked) = (Some(Problem::Dead), Serves::No, false);
        (node.state, node.answered_ms_ago) = (NodeState::Dead, Some(12_345));
        node.reason = "refused 2 connections in 0.100 s".into();
        world.said[1] = NodeReply::NotAsked;
        let report = world.judge();
        let of_db2: Vec<&Row> = report.rows.iter().filter(|row| row.node == "db2").collect();
        assert!(of_db2.iter().all(|row| row.verdict != Severity::Ok), "{of_db2:#?}");
        assert!(of_db2.iter().all(|row| row.sentence.contains("last answered 12.3 s ago")), "{of_db2:#?}");
        let checks = |report: &Report| report.rows.iter().map(|row| row.check.clone()).collect::<Vec<_>>();
        let known = checks(&report);
        let left_out: Vec<_> = checks(&healthy).into_iter().filter(|check| !known.contains(check)).collect();
        assert!(left_out.is_empty(), "{left_out:?}");
    }
}

#[test]
fn rights_that_a_switchover_needs_are_told_with_their_grant() {
    let lacks = |place: usize, rights: &'static [&'static str]| {
        move |world: &mut World| {
            let lacks = rights.iter().map(|right| (*right, "something")).collect();
            world.server(place).rights = Some(Rights { account: "`u`@`%`".into(), lacks });
        }
    };
    assert_eq!(replicates(lacks(0, &["READ_ONLY ADMIN"])), one("rights", "db1", Fails));
    assert_eq!(replicates(lacks(2, &["REPLICATION SLAVE ADMIN"])), one("rights", "db3", Fails));
    assert_eq!(replicates(lacks(1, &["REPLICATION MASTER ADMIN"])), one("rights", "db2", Fails));
    assert_eq!(replicates(lacks(1, &["CONNECTION ADMIN"])), one("rights", "db2", Slow));
    assert_eq!(replicates(lacks(1, &["TRIGGER"])), vec![], "a switchover goes without it");
    let mut world = world(Kind::Replication);
    lacks(1, &["RELOAD", "TRIGGER", "PROCESS"])(&mut world);
    let report = world.judge();
    let row = report.rows.iter().find(|row| row.check == "rights").unwrap();
    assert_eq!(row.sentence, "does not grant the monitor account RELOAD (something), PROCESS (something)");
    assert_eq!(row.remedy, "GRANT RELOAD, PROCESS ON *.* TO `u`@`%` on the primary");
    let said = |change: fn(&mut World)| {
        let mut world = super::tests::world(Kind::Replication);
        change(&mut world);
        let rows = world.judge().rows;
        rows.iter().find(|row| row.check == "rights").map(|row| row.sentence.clone()).unwrap()
    };
    assert!(said(|_| {}).ends_with("what a switchover needs, and so do the others"));
    let silent = said(|world| world.server(2).rights = None);
    assert!(silent.ends_with("what a switchover needs, which is not known of db3"), "{silent}");
}

#[test]
fn what_the_brain_refuses_by_itself_is_not_refused_here() {
    let mut world = world(Kind::Replication);
    let node = &mut world.view.nodes[1];
    (node.problem, node.serves) = (Some(Problem::Drained), Serves::Leaves);
    let report = world.judge();
    assert!(report.fails);
    assert_eq!(report.refusal(), None);
    world.replica(1).channels[0].lag_s = Some(60);
    world.server(1).position = answer::position("0-1-40");
    world.server(1).set("max_connections", "1");
    assert_eq!(
        world.judge().refusal().unwrap(),
        "db2 takes 1 connections and has 10: the writer's 7 sessions do not fit; SET GLOBAL max_connections on db2, and in its my.cnf; \
         and 1 more; nothing was changed; see `understudy switchover --check`, or pass over this with --force"
    );
}

#[test]
fn nothing_to_move_is_one_row() {
    assert_eq!(replicates(|world| world.view.writer = None), one("writer", "-", Fails));
    assert_eq!(replicates(|world| world.view.candidate = None), one("writer", "db1", Fails));
    assert_eq!(replicates(|world| world.to = Some(NodeId(0))), one("writer", "db1", Note));
    let third = |world: &mut World| {
        world.to = Some(NodeId(2));
        world.replica(1).channels[0].lag_s = Some(60);
    };
    assert_eq!(replicates(third), vec![], "it is not asked of another than the one that was named");
}

#[test]
fn a_galera_cluster_has_rows_of_its_own() {
    let galera = |change: fn(&mut World)| found(Kind::Galera, change);
    assert_eq!(galera(|world| world.member(1).recv_queue = 101), one("queue", "db2", Slow));
    assert_eq!(galera(|world| world.member(2).flow_control_active = true), one("flow_control", "db3", Slow));
    assert_eq!(
        galera(|world| world.server(1).set("wsrep_max_ws_rows", "1000")),
        one("writesets", "db2", Note)
    );
    assert_eq!(
        galera(|world| world.server(1).set("wsrep_OSU_method", "RSU")),
        one("osu_method", "db2", Note)
    );
    let stuck = |world: &mut World| {
        let state = "Waiting to execute in isolation";
        world.server(1).sessions.push(session(state, "update t", 90, None));
    };
    assert_eq!(galera(stuck), one("isolation", "db2", Slow));
}

#[test]
fn a_standby_that_is_too_cold_is_refused_where_warmth_is_required() {
    let row = |require_percent, score_percent| {
        let mut world = world(Kind::Galera);
        let standby = Standby {
            name: "db2".into(),
            score_percent,
            sentence: "is warmed with what db1 is asked".into(),
        };
        world.warm = Some(Warm { require_percent, standbys: vec![standby] });
        let report = world.judge();
        let row = report.rows.iter().find(|row| row.check == "warm").unwrap().clone();
        assert_eq!(report.refusal().is_some(), row.verdict == Severity::Fails);
        (row.verdict, row.sentence)
    };
    assert_eq!(row(Some(80), Some(80.0)).0, Severity::Ok);
    assert_eq!(
        row(Some(80), Some(79.96)),
        (
            Severity::Fails,
            "would serve 79.9 % of what db1 reads from memory, and warm.require_percent is 80".into()
        )
    );
    let (verdict, sentence) = row(Some(80), None);
    assert_eq!(verdict, Severity::Fails);
    assert!(
        sentence.starts_with("is warmed with what db1 is asked; how warm it is is not known"),
        "{sentence}"
    );
    assert_eq!((row(None, None).0, row(None, Some(3.0)).0), (Severity::Note, Severity::Ok));
    assert!(world(Kind::Galera).judge().rows.iter().all(|row| row.check != "warm"));
}

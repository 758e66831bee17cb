//! Keeps the standbys of this program's cluster warm: who is what says the manager's view, as soon as it changes.
//!
//! ```text
//!   proxy ── reads that have ended (warm.source = "proxy") ──┐
//!   manager ── view ──> roles ──> warmup::warmer ── begins and ends ──> journal
//!                                     └── table ──> status, metrics, the look before a switchover
//! ```
//!
//! One thread of its own, behind all others in the system's eyes: a replay delays neither clients nor probes, and a defect in it ends with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use link::{Endpoint, Login};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use topology::Term;
use topology::action::{Level, Sentence};
use topology::health::{Problem, Serves};
use topology::routes::LaneState;
use topology::settings::Writers;
use topology::view::{ClusterView, NodeState, NodeView, TrafficFlow};
use warmup::access::Access;
use warmup::replay::target::Target;
use warmup::replay::{self, Sessions};
use warmup::source::Sample;
use warmup::warmer::warming_table::WarmingTable;
use warmup::warmer::{LogMessage, Roles, Source, Warmer};

use settings::password::Account;
use settings::{Settings, table as t};

/// How much nicer than the rest of the program the replay's thread is.
const NICE: i32 = 10;
/// A session of a recorded connection ends when it ran nothing for so long.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// At the end, what the replays still run is ended on the standbys; so long is waited for that.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// What was read from wherever the configuration says it is.
#[derive(Clone, PartialEq)]
pub struct Secrets {
    /// That of `warm.user`.
    pub password: manager::Password,
    /// How the streamers are asked.
    pub access: Access,
}

/// What warms.
pub struct Warming {
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    warmer: JoinHandle<()>,
}

/// Starts it. `tap`: of the proxy whose clients are the application; `secrets`: what is shown to standbys and to streamers.
pub fn start(
    settings: &Settings,
    warm: &Account,
    Secrets { password, access }: Secrets,
    manager: &manager::Handles,
    tap: proxy::Tap,
    warming_table: WarmingTable,
) -> anyhow::Result<Warming> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("warm")
        .on_thread_start(|| {
            // Linux counts it for the calling thread alone. Without it, it competes as an equal.
            let _ = rustix::process::nice(NICE);
        })
        .enable_all()
        .build()
        .context("cannot start the thread that warms standbys")?;
    let mut skipped_users = settings.get(&t::WARM_SKIP);
    skipped_users.extend([warm.user.clone(), settings.monitor.user.clone()]);
    let (journal, view) = (manager.journal.clone(), manager.view.clone());
    let term = manager.view.clone();
    let warmer = Warmer {
        source: source(settings, access, tap),
        target: Box::new(target(warm, &password.0)),
        settings: replay::Settings {
            sessions: match settings.get(&t::WARM_SESSIONS) {
                0 => Sessions::PerConnection { idle_max: IDLE_MAX },
                sessions => Sessions::Pool(sessions),
            },
            lag_max: Some(settings.get(&t::WARM_LAG_MAX)),
            waiting_bytes_max: settings.get(&t::WARM_WAITING),
            skipped_users,
            ..replay::Settings::default()
        },
        may_be_writable: settings.get(&t::WARM_WRITABLE),
        warming_table,
        tell: Box::new(move |LogMessage { is_bad, text }| {
            let level = if is_bad { Level::Warn } else { Level::Info };
            let term: Term = term.borrow().term;
            journal.note(term, Sentence { level, text });
        }),
    };
    let (stop, stopped) = oneshot::channel();
    let (sender, receiver) = watch::channel(roles(&view.borrow()));
    runtime.spawn(follow(view, sender, stopped));
    let warmer = runtime.spawn(warmer.run(receiver));
    Ok(Warming { runtime, stop, warmer })
}

fn source(settings: &Settings, access: Access, tap: proxy::Tap) -> Source {
    let sample = sample(settings);
    if !settings.warms_from_proxy() {
        return Source::SlowLog { port: settings.get(&t::WARM_STREAM_PORT), sample, access };
    }
    let wish = proxy::Wish {
        one_in: sample.one_in,
        by_session: sample.by_session,
        bytes_max: settings.get(&t::WARM_WAITING),
        ..proxy::Wish::default()
    };
    Source::Proxy(Arc::new(move || tap.listen(wish)))
}

/// How much of what the active node is asked is replayed.
pub fn sample(settings: &Settings) -> Sample {
    let by_session = settings.get(&t::WARM_SAMPLE_BY) == "session";
    Sample { one_in: settings.get(&t::WARM_SAMPLE), by_session }
}

/// The login out of a node's address.
pub fn target(warm: &Account, password: &str) -> impl Fn(&str) -> Target + Send + Sync + use<> {
    let login = Login::with_password(&warm.user, password);
    move |address| Target {
        place: Endpoint::Tcp(address.to_owned()),
        login: login.clone(),
        session_init: Vec::new(),
    }
}

impl Warming {
    /// Ends it.
    pub fn stop(self) {
        let Self { runtime, stop, warmer } = self;
        // Whoever listened may have ended with the manager.
        let _ = stop.send(());
        // Both are told when they take too long, or ended with a defect: neither keeps the program from its end.
        let _ = runtime.block_on(async { tokio::time::timeout(STOP_GRACE, warmer).await });
        runtime.shutdown_background();
    }
}

/// Tells of each change of roles, until the manager ends, or this is to.
async fn follow(
    mut view: watch::Receiver<Arc<ClusterView>>,
    sender: watch::Sender<Roles>,
    mut stopped: oneshot::Receiver<()>,
) {
    loop {
        let now = roles(&view.borrow_and_update());
        sender.send_if_modified(|before| {
            let differs = *before != now;
            *before = now;
            differs
        });
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            _ = &mut stopped => return,
        }
    }
}

/// What a view means for warming: nobody is warmed unless exactly one node takes the traffic, and only nodes that could take it over.
fn roles(view: &ClusterView) -> Roles {
    let writer = view.nodes.iter().find(|node| node.writer);
    let active = match writer {
        _ if view.writers == Writers::All => Err("all nodes take the traffic".to_owned()),
        Some(node) if view.gate == TrafficFlow::Open && node.lane == LaneState::Open => {
            Ok((node.name.clone(), node.address.clone()))
        }
        _ => {
            let why = view.hold_because.as_deref().unwrap_or("no node takes the traffic");
            Err(format!("statements are held: {why}"))
        }
    };
    let others = view.nodes.iter().filter(|node| !node.writer);
    let standbys: BTreeMap<_, _> = others.map(|node| (node.name.clone(), standby(node))).collect();
    Roles { active, standbys }
}

/// The address of a node that is to be warmed. `understudy warm` judges by the same rules (`commands/warm/served.rs`).
fn standby(node: &NodeView) -> Result<String, String> {
    let is_lost = matches!(node.state, NodeState::Unknown | NodeState::Silent | NodeState::Dead);
    if node.sessions_max == Some(0) || node.problem == Some(Problem::Drained) {
        Err("it is drained by an operator".into())
    } else if is_lost || !node.linked || node.doubt.is_some() {
        Err(format!("it does not answer, or is in doubt: {}", without_figures(node)))
    } else if node.state == NodeState::Donor {
        Err("it feeds another node".into())
    } else if matches!(node.serves, Serves::No | Serves::Leaves) {
        Err(format!("it could not take the traffic over: {}", without_figures(node)))
    } else {
        Ok(node.address.clone())
    }
}

/// The name of what speaks against a node: its sentence may have figures that change several times a second, and each change would be news.
fn without_figures(node: &NodeView) -> String {
    node.problem.map_or_else(|| "not known yet".to_owned(), |problem| problem.name().replace('_', " "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use topology::NodeId;
    use topology::brain::{Brain, Restored};
    use topology::settings::{NodeSettings, Settings};

    use super::*;

    /// db1 takes the traffic, db2 and db3 are well.
    fn view() -> ClusterView {
        let node =
            |name: &str| NodeSettings { name: name.into(), address: format!("{name}:3306"), priority: 0 };
        let nodes = ["db1", "db2", "db3"].map(node).to_vec();
        let settings = Settings::new("shop", Writers::One, nodes);
        let mut view = Brain::new(settings, Restored::default(), Duration::ZERO).view(Duration::ZERO);
        view.gate = TrafficFlow::Open;
        view.hold_because = None;
        for node in &mut view.nodes {
            node.writer = node.id == NodeId(0);
            node.lane = if node.writer { LaneState::Open } else { LaneState::Shut };
            (node.state, node.serves, node.problem) = (NodeState::Synced, Serves::Well, None);
            (node.linked, node.doubt, node.sessions_max) = (true, None, None);
        }
        view
    }

    #[test]
    fn the_others_are_warmed_while_one_node_takes_the_traffic() {
        let roles = roles(&view());
        assert_eq!(roles.active, Ok(("db1".into(), "db1:3306".into())));
        assert_eq!(roles.standbys.len(), 2);
        assert_eq!(roles.standbys["db2"], Ok("db2:3306".into()));
    }

    #[test]
    fn nobody_is_warmed_while_statements_are_held_or_all_nodes_write() {
        let active = |change: &dyn Fn(&mut ClusterView)| {
            let mut view = view();
            change(&mut view);
            roles(&view).active.unwrap_err()
        };
        let held = active(&|view| {
            view.gate = TrafficFlow::Held;
            view.hold_because = Some("db1 hands over".into());
        });
        assert_eq!(held, "statements are held: db1 hands over");
        assert_eq!(active(&|view| view.writers = Writers::All), "all nodes take the traffic");
        assert!(
            active(&|view| view.nodes[0].lane = LaneState::Draining).contains("no node takes the traffic")
        );
        assert!(active(&|view| view.nodes[0].writer = false).contains("no node takes the traffic"));
    }

    #[test]
    fn a_node_that_could_not_take_over_is_left_alone_with_a_reason() {
        let why = |change: &dyn Fn(&mut NodeView)| {
            let mut view = view();
            change(&mut view.nodes[1]);
            assert!(roles(&view).active.is_ok());
            roles(&view).standbys["db2"].clone().unwrap_err()
        };
        assert_eq!(why(&|node| node.sessions_max = Some(0)), "it is drained by an operator");
        assert!(why(&|node| node.linked = false).starts_with("it does not answer, or is in doubt"));
        assert!(why(&|node| node.doubt = Some("its link broke".into())).starts_with("it does not answer"));
        assert!(why(&|node| node.state = NodeState::Dead).starts_with("it does not answer"));
        assert_eq!(why(&|node| node.state = NodeState::Donor), "it feeds another node");
        let stray = why(&|node| (node.serves, node.problem) = (Serves::No, Some(Problem::OtherSource)));
        assert_eq!(stray, "it could not take the traffic over: other source");
    }

    /// `understudy warm` sees the view as the API's JSON.
    #[test]
    fn who_is_warmed_from_outside_is_the_same() {
        type Change = fn(&mut ClusterView);
        let changes: [(&str, Change); 15] = [
            ("none", |_| {}),
            ("held", |view| view.gate = TrafficFlow::Held),
            ("all", |view| view.writers = Writers::All),
            ("draining", |view| view.nodes[0].lane = LaneState::Draining),
            ("no writer", |view| view.nodes[0].writer = false),
            ("moved", |view| {
                (view.nodes[0].writer, view.nodes[0].lane) = (false, LaneState::Shut);
                (view.nodes[1].writer, view.nodes[1].lane) = (true, LaneState::Open);
            }),
            ("no sessions", |view| view.nodes[1].sessions_max = Some(0)),
            ("few sessions", |view| view.nodes[1].sessions_max = Some(3)),
            ("drained", |view| view.nodes[1].problem = Some(Problem::Drained)),
            ("not linked", |view| view.nodes[1].linked = false),
            ("doubt", |view| view.nodes[1].doubt = Some("its link broke".into())),
            ("silent", |view| view.nodes[1].state = NodeState::Silent),
            ("donor", |view| {
                (view.nodes[1].state, view.nodes[1].serves) = (NodeState::Donor, Serves::Stays);
            }),
            ("leaves", |view| view.nodes[1].serves = Serves::Leaves),
            ("refused", |view| view.nodes[1].serves = Serves::No),
        ];
        for (name, change) in changes {
            let mut view = view();
            change(&mut view);
            let inside = roles(&view);
            let outside = operate::warm::served::roles(&serde_json::to_value(&view).unwrap());
            assert_eq!(outside.active, inside.active, "{name}");
            let usable = |roles: &Roles| {
                roles
                    .standbys
                    .iter()
                    .map(|(name, node)| (name.clone(), node.clone().ok()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(usable(&outside), usable(&inside), "{name}");
        }
    }
}

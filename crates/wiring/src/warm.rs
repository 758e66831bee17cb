//! Keeps the standbys of this program's cluster warm: who is what says the manager's view, as soon as it changes.
//!
//! ```text
//!   proxy ── reads that have ended (warm.source = "proxy") ──┐
//!   manager ── view ──> warmup::warmer ── begins and ends ──> journal
//!                                     └── table ──> status, metrics, the look before a switchover
//! ```
//!
//! One thread of its own, behind all others in the system's eyes: a replay delays neither clients nor probes, and a defect in it ends with it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use link::Endpoint;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use topology::Term;
use topology::action::{Level, Sentence};
use topology::view::ClusterView;
use warmup::access::Access;
use warmup::replay::target::Target;
use warmup::replay::{self, Sessions};
use warmup::source::Sample;
use warmup::warmer::roles::roles;
use warmup::warmer::warming_table::WarmingTable;
use warmup::warmer::{LogMessage, Roles, Source, Warmer};

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
    /// The account of `warm.user`.
    pub account: manager::Account,
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
    Secrets { account, access }: Secrets,
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
    skipped_users.extend([account.user.clone(), settings.monitor.user.clone()]);
    let (journal, view) = (manager.journal.clone(), manager.view.clone());
    let term = manager.view.clone();
    let warmer = Warmer {
        source: source(settings, access, tap),
        target: Box::new(target(&account)),
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
            journal.note(term, Sentence::new(level, text));
        }),
    };
    let (stop, stopped) = oneshot::channel();
    let (sender, receiver) = watch::channel(roles_of(&view.borrow()));
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
pub fn target(account: &manager::Account) -> impl Fn(&str) -> Target + Send + Sync + use<> {
    let login = account.login();
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
        let now = roles_of(&view.borrow_and_update());
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

fn roles_of(view: &ClusterView) -> Roles {
    roles(view, view.nodes.iter())
}

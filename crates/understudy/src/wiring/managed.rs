//! What belongs to one manager, and is replaced with it: what answers the API from what the manager knows, what is measured of the nodes
//! it watches, and the warming of its standbys.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Runtime;
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;
use warmup::warmer::warming_table::WarmingTable;
use web::Event;

use super::capacity::Capacities;
use super::cluster_control::{ClusterControl, Known};
use super::health::Doors;
use super::reload::ReloadRequest;
use super::warmth::Warmth;
use super::windows::Windows;
use super::{Passwords, live, monitor_login, warm, windows};
use crate::settings::Settings;

/// How long the measurements may take to be written when they end.
const SAVE_GRACE: Duration = Duration::from_secs(1);

/// The parts beside it, which stay when it is replaced.
pub struct Around<'a> {
    pub proxy: &'a proxy::Handle,
    pub reads: Option<&'a proxy::Handle>,
    pub health: &'a Doors,
    pub events: &'a broadcast::Sender<Event>,
    pub reloads: &'a mpsc::Sender<ReloadRequest>,
    pub calm: &'a Runtime,
}

/// See the head of this file.
pub struct Managed {
    /// `None` once it was stopped.
    manager: Option<manager::Stop>,
    control: Arc<ClusterControl>,
    watchers: Watchers,
}

/// What runs beside the manager. Ends when it is dropped.
pub struct Watchers {
    /// Sends what happens to the live view's readers.
    live: AbortHandle,
    /// Watches for how long each node may be away.
    windows: AbortHandle,
    /// What each node could apply, and the task that measures it.
    capacities: Capacities,
    measuring: AbortHandle,
    /// Warms the standbys.
    warming: Option<warm::Warming>,
}

impl Managed {
    /// Starts all of it around a manager that was started with the same settings.
    pub fn start(
        settings: &Settings,
        passwords: &Passwords,
        manager: manager::Handles,
        around: &Around<'_>,
    ) -> anyhow::Result<Self> {
        let (warming, warmth) = match (&settings.warm, &passwords.warm) {
            (Some(warm), Some(secrets)) => {
                let warming_table = WarmingTable::default();
                let warmth = Warmth {
                    warming_table: warming_table.clone(),
                    require_percent: warm.require_percent,
                    source: if warm.from_proxy { "proxy" } else { "slow-log" },
                    mirror_percent: warm.mirror_percent,
                };
                let tap = around.proxy.tap();
                (
                    Some(warm::start(settings, warm, secrets.clone(), &manager, tap, warming_table)?),
                    Some(warmth),
                )
            }
            _ => (None, None),
        };
        let calm = around.calm;
        let windows = Windows::default();
        let source = windows::Source {
            kind: settings.kind,
            login: monitor_login(settings, &passwords.monitor),
            addresses: settings.nodes.iter().map(|node| node.address.clone()).collect(),
            view: manager.view.clone(),
            samples: manager.samples.clone(),
            journal: manager.journal.clone(),
            state_dir: settings.state_dir.clone(),
        };
        let watching = calm.spawn(windows::watch(source, windows.clone())).abort_handle();
        let names = settings.nodes.iter().map(|node| node.name.as_str());
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let capacities = Capacities::new(names, &settings.state_dir, since_1970.as_micros() as u64);
        let measuring = calm.spawn(capacities.clone().keep(manager.samples.clone())).abort_handle();
        let stats = (around.proxy.stats_reader(), around.reads.map(proxy::Handle::stats_reader));
        let known = Known { warmth, windows, capacities: capacities.clone() };
        let control = ClusterControl::new(
            settings,
            &manager,
            stats,
            around.health.answerer(),
            known,
            around.events.downgrade(),
            around.reloads.clone(),
        );
        let control = Arc::new(control);
        let live = live::feed(Arc::clone(&control), manager.samples.clone(), around.events.clone());
        let live = calm.spawn(live).abort_handle();
        let watchers = Watchers { live, windows: watching, capacities, measuring, warming };
        Ok(Self { manager: Some(manager.stop), control, watchers })
    }

    /// Answers the API.
    pub fn control(&self) -> Arc<ClusterControl> {
        Arc::clone(&self.control)
    }

    /// Stops the manager and what runs beside it, for another one to follow. What answers the API stays, and says from then on that the manager is stopping. Must not be
    /// called from a task.
    pub fn stop(&mut self, calm: &Runtime) {
        self.watchers.stop_warming();
        if let Some(manager) = self.manager.take() {
            manager.replace_blocking();
        }
        calm.block_on(self.watchers.written());
    }

    /// The manager, and what runs beside it.
    pub fn take_apart(self) -> (Option<manager::Stop>, Watchers) {
        (self.manager, self.watchers)
    }
}

impl Watchers {
    /// Ends the warming. Must not be called from a task.
    pub fn stop_warming(&mut self) {
        if let Some(warming) = self.warming.take() {
            warming.stop();
        }
    }

    /// Measures no more, and waits until what was measured is written, for a moment at most.
    async fn written(&self) {
        self.measuring.abort();
        if tokio::time::timeout(SAVE_GRACE, self.capacities.save()).await.is_err() {
            tracing::warn!("what the nodes could apply was not written within {} s", SAVE_GRACE.as_secs());
        }
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        // Its readers would otherwise read on for as long as they may.
        self.live.abort();
        self.windows.abort();
        self.measuring.abort();
    }
}

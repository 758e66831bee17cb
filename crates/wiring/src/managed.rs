//! What is made from the manager's list of nodes, and is made anew when a reload changes the manager's settings: what answers the API, what is
//! measured of the nodes, and the warming of the standbys.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use doctor::windows::watch::{self, Windows};
use tokio::runtime::Runtime;
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;
use topology::action::Level;
use warmup::warmer::warming_table::WarmingTable;
use web::Event;

use super::capacity::Capacities;
use super::cluster_control::{ClusterControl, Known};
use super::health::Doors;
use super::parts::Accounts;
use super::reload_request::ReloadRequest;
use super::warmth::Warmth;
use super::{live, noticed, warm};
use settings::{Settings, table as t};

/// How long the measurements may take to be written when they end.
const SAVE_GRACE: Duration = Duration::from_secs(1);

/// The parts beside it, which stay.
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
    control: Arc<ClusterControl>,
    watchers: Watchers,
}

/// What runs beside the manager. Ends when it is dropped.
pub struct Watchers {
    tasks: [AbortHandle; 4],
    /// What each node could apply.
    capacities: Capacities,
    /// Warms the standbys.
    warming: Option<(warm::Warming, Warmth)>,
}

impl Managed {
    /// Starts all of it beside a manager that was started with the same settings.
    pub fn start(
        settings: &Settings,
        accounts: &Accounts,
        manager: &manager::Handles,
        around: &Around<'_>,
    ) -> anyhow::Result<Self> {
        let warming = warming(settings, accounts, manager, around)?;
        Ok(Self::beside(settings, accounts, manager, around, warming))
    }

    /// Makes all of it anew after a change of the settings. The warming goes on, unless its own settings are others. Must not be called from a
    /// task.
    pub fn renew(
        &mut self,
        settings: &Settings,
        accounts: &Accounts,
        manager: &manager::Handles,
        around: &Around<'_>,
        is_other_warming: bool,
    ) {
        if is_other_warming {
            self.watchers.stop_warming();
        }
        let warming = match self.watchers.warming.take() {
            Some(warming) => Some(warming),
            None => warming(settings, accounts, manager, around).unwrap_or_else(|error| {
                self.control.note(Level::Error, format!("the standbys are not warmed: {error:#}"));
                None
            }),
        };
        *self = Self::beside(settings, accounts, manager, around, warming);
    }

    fn beside(
        settings: &Settings,
        accounts: &Accounts,
        manager: &manager::Handles,
        around: &Around<'_>,
        warming: Option<(warm::Warming, Warmth)>,
    ) -> Self {
        let calm = around.calm;
        let windows = Windows::default();
        let source = watch::Source {
            kind: settings.kind,
            login: accounts.monitor.login(),
            addresses: settings.nodes.iter().map(|node| node.address.clone()).collect(),
            view: manager.view.clone(),
            samples: manager.samples.clone(),
            journal: manager.journal.clone(),
            state_dir: settings.state_dir.clone(),
        };
        let watching = calm.spawn(watch::run(source, windows.clone()));
        let view = manager.view.borrow().clone();
        let nodes = view.nodes.iter().map(|node| (node.id, node.name.clone()));
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let capacities = Capacities::new(nodes, &settings.state_dir, since_1970.as_micros() as u64);
        let measuring = calm.spawn(capacities.clone().keep(manager.samples.clone()));
        let stats = (around.proxy.stats_reader(), around.reads.map(proxy::Handle::stats_reader));
        let warmth = warming.as_ref().map(|(_, warmth)| warmth.clone());
        let known = Known { warmth, windows, capacities: capacities.clone() };
        let control = ClusterControl::new(
            settings,
            manager,
            stats,
            around.health.answerer(),
            known,
            around.events.downgrade(),
            around.reloads.clone(),
        );
        let control = Arc::new(control);
        let live = live::feed(Arc::clone(&control), manager.samples.clone(), around.events.clone());
        let noticed =
            noticed::tell(manager.journal.clone(), manager.view.clone(), around.proxy.stats_reader());
        let tasks =
            [watching, measuring, calm.spawn(live), calm.spawn(noticed)].map(|task| task.abort_handle());
        let watchers = Watchers { tasks, capacities, warming };
        Self { control, watchers }
    }

    /// Answers the API.
    pub fn control(&self) -> Arc<ClusterControl> {
        Arc::clone(&self.control)
    }

    /// Writes what was measured, for whatever is made in its place. Must not be called from a task.
    pub fn save(&self, calm: &Runtime) {
        calm.block_on(self.watchers.capacities.save_within(SAVE_GRACE));
    }

    /// What runs beside the manager.
    pub fn take_apart(self) -> Watchers {
        self.watchers
    }
}

fn warming(
    settings: &Settings,
    accounts: &Accounts,
    manager: &manager::Handles,
    around: &Around<'_>,
) -> anyhow::Result<Option<(warm::Warming, Warmth)>> {
    let Some(secrets) = &accounts.warm else { return Ok(None) };
    let warming_table = WarmingTable::default();
    let warmth = Warmth {
        warming_table: warming_table.clone(),
        require_percent: Some(settings.get(&t::WARM_REQUIRE)).filter(|percent| *percent > 0),
        source: settings.get(&t::WARM_SOURCE),
    };
    let tap = around.proxy.tap();
    let warming = warm::start(settings, secrets.clone(), manager, tap, warming_table)?;
    Ok(Some((warming, warmth)))
}

impl Watchers {
    /// Ends the warming. Must not be called from a task.
    pub fn stop_warming(&mut self) {
        if let Some((warming, _)) = self.warming.take() {
            warming.stop();
        }
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        // Its readers would otherwise read on for as long as they may.
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

//! A manager that runs as long as a command: the same decisions and orders as in `understudy serve`, without a proxy.
//!
//! It moves nothing by itself (failover = "manual"), and stores its state in a directory of its own. No client statements pass through it,
//! so every lane is idle at once and has no connections; clients are kept away from an old primary by read_only and by the site's own
//! scripts.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::Status;
use manager::{DEADLINE_ORDERED, Handles};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use topology::NodeId;
use topology::fact::ProxyFact;
use topology::order::Order;
use topology::preflight::{self, Report};
use topology::replication::FailoverPolicy;
use topology::routes::{LaneState, Routes};

use import::masterha;
use import::mha::conf::Conf;
use settings::Settings;
use wiring::{self, Accounts};

/// The probe interval, whatever MHA's interval is: a person is waiting for the command.
const INTERVAL: Duration = Duration::from_millis(200);

/// What the manager is started for.
#[derive(Clone, Copy)]
pub enum Purpose<'a> {
    /// To read the state; nothing is changed.
    Look,
    /// To move the primary by order.
    Move,
    /// To move the primary; this one is already lost.
    Replace(&'a str),
}

/// The running manager.
pub struct Own {
    handles: Option<Handles>,
    runtime: Runtime,
    dir: PathBuf,
    /// Started for [`Purpose::Look`].
    looks: bool,
}

impl Own {
    /// Starts the manager.
    pub fn start(conf: &Conf, purpose: Purpose<'_>) -> Result<Self, String> {
        let first = &conf.servers[0];
        if first.get("repl_user").is_none() || first.get("repl_password").is_none() {
            let file = conf.file.display();
            return Err(format!(
                "{file}: repl_user and repl_password must be set: replicas are told to follow the new master with them"
            ));
        }
        let settings = Settings::parse(&conf.file, &masterha::settings(conf)).map_err(|e| e.to_string())?;
        let monitor = settings.monitor_account().map_err(|e| e.to_string())?;
        let replication = settings.replication_account().map_err(|e| e.to_string())?;
        let accounts = Accounts { monitor, replication, clients: vec![], warm: None, hooks: None };
        let mut given = wiring::manager_settings(&settings, &accounts);
        given.cluster.replication.failover = FailoverPolicy::Manual;
        given.cluster.probe_interval = INTERVAL;
        let dir = std::env::temp_dir().join(format!("understudy-masterha-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&dir);
        made.map_err(|e| format!("{} cannot be made: {e}", dir.display()))?;
        given.store = dir.join("state.sqlite");
        let looks = matches!(purpose, Purpose::Look);
        given.cluster.replication.dry_run = looks;
        if let Purpose::Replace(lost) = purpose {
            manager::begin_after(&given.store, lost).map_err(|e| e.to_string())?;
        }
        let runtime = cli::runtime::start().map_err(|_| "cannot start the runtime's threads".to_owned())?;
        let handles = manager::start(given).map_err(|e| e.to_string())?;
        runtime.spawn(stand_in(handles.routes.clone(), handles.facts.clone()));
        Ok(Self { handles: Some(handles), runtime, dir, looks })
    }

    /// The status.
    pub fn status(&self) -> Status {
        let Some(handles) = &self.handles else { return Status::default() };
        let mut status = Status::of(&handles.view.borrow());
        if self.looks {
            let reasons = status.nodes.iter_mut().map(|node| &mut node.view.reason);
            reasons.chain(&mut status.view.hold_because).for_each(without_our_setting);
        }
        status
    }

    /// Waits until the status changes, no longer than this.
    pub fn changed(&self, within: Duration) {
        let Some(handles) = &self.handles else { return };
        let mut view = handles.view.clone();
        view.mark_unchanged();
        // The manager's end counts as a change.
        let _ = self.runtime.block_on(async { tokio::time::timeout(within, view.changed()).await });
    }

    /// What the checks before a switchover find.
    pub fn before_switchover(&self, to: &str, budget: Duration) -> Report {
        let Some(handles) = &self.handles else { return Report::default() };
        let view = Arc::clone(&handles.view.borrow());
        let wish = preflight::Wish {
            view: &view,
            to: self.node(to),
            budget,
            immovable: &[],
            stopped: &[],
            sessions: 0,
            warm: None,
        };
        self.runtime.block_on(handles.preflight.look(wish, DEADLINE_ORDERED))
    }

    fn node(&self, name: &str) -> Option<NodeId> {
        let view = self.handles.as_ref()?.view.borrow();
        view.nodes.iter().find(|node| node.name == name).map(|node| node.id)
    }

    /// Moves the primary.
    pub fn switchover(&self, to: Option<&str>, budget: Duration, force: bool) -> Result<String, String> {
        let Some(handles) = &self.handles else { return Err("it has ended".into()) };
        let to = to.and_then(|to| self.node(to));
        let reply = self.runtime.block_on(handles.orders.order(Order::Switchover { to, budget, force }));
        reply.map(|done| done.sentence).map_err(|refused| refused.sentence)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(handles) = self.handles.take() {
            handles.stop.stop_blocking();
        }
        // If it cannot be removed, it stays in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Replaces the name of a setting in the manager's texts: a user of MHA's commands has not set it.
fn without_our_setting(text: &mut String) {
    *text = text
        .replace("dry_run is set, and nothing is done", "this check changes nothing")
        .replace("dry_run is set", "this check changes nothing");
}

/// Reports what a proxy without clients would report.
async fn stand_in(mut routes: watch::Receiver<Arc<Routes>>, facts: mpsc::Sender<ProxyFact>) {
    loop {
        let now = Arc::clone(&routes.borrow_and_update());
        for lane in &now.lanes {
            let node = lane.node;
            let fact = match lane.state {
                LaneState::Shut if lane.epoch > 0 => ProxyFact::Cut { node, epoch: lane.epoch - 1 },
                LaneState::Draining => {
                    ProxyFact::Quiesced { node, epoch: lane.epoch, term: now.term, version: now.version }
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

//! Puts another configuration in force while everything runs.
//!
//! ```text
//!   what changed                          what is done
//!   hold, proxy, switchover, api          limits, key and certificate are replaced where they are; nothing stops
//!   cluster, read, warm, a password       the manager and what belongs to it are replaced (`managed`); the proxies go on with
//!                                         the last routes meanwhile, and keep every client and connection (`succession`)
//! ```
//!
//! Whether a change can be taken up at all is known from the table of settings, and was looked at before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use link::{Link, LinkError, Login};
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use topology::order::OrderRefused;
use topology::routes::LaneState;
use topology::settings::NodeSettings;
use topology::view::{ClusterView, NodeView, TrafficFlow};

use super::health::VIEW_AGE_MAX;
use super::managed::{Around, Managed};
use super::succession::TooMany;
use super::{
    Credentials, Passwords, Services, catch_up_max, manager_settings, monitor_login, proxy_settings,
};
use crate::descriptors::Shares;
use crate::settings::Settings;
use crate::settings::difference::Change;

/// What comes of a reload: a sentence and what changed, or why nothing did.
pub type ReloadReply = Result<(String, Value), OrderRefused>;
/// A reload that the API was asked for, and where its answer goes.
pub type ReloadRequest = oneshot::Sender<ReloadReply>;

/// A move of the writer that runs is waited for, for so long.
const STEADY_WAIT: Duration = Duration::from_secs(10);
/// A node may take so long to accept a new login of the monitor.
const LOGIN_WAIT: Duration = Duration::from_secs(2);
/// The last view is replaced so long before it is too old.
const VIEW_SLACK: Duration = Duration::from_millis(200);
/// So long beyond the time for its first look, a new manager's first decision is waited for.
const DECISION_SLACK: Duration = Duration::from_secs(1);

/// Why other settings did not come into force.
#[derive(Debug)]
pub enum NotApplied {
    /// Nothing has changed; a code for programs and a sentence.
    Refused(&'static str, String),
    /// The manager was stopped and none could be started: the program must end.
    Broken(String),
}

impl Services {
    /// Puts these settings, and what was read with them, in force. `changes`: how they differ from those in force. None of them may be one that takes a restart. Blocks, for about a second
    /// when the manager is replaced; must not be called from a task.
    pub fn apply(
        &mut self,
        settings: Settings,
        changes: &[Change],
        shares: Shares,
        passwords: Passwords,
        credentials: Credentials,
    ) -> Result<(), NotApplied> {
        let before = manager_settings(&self.settings, &self.passwords);
        let after = manager_settings(&settings, &passwords);
        let is_replaced = before != after
            || self.settings.id != settings.id
            || changes.iter().any(|change| change.path.starts_with("warm."))
            || self.passwords.warm != passwords.warm;
        if is_replaced {
            self.check_next(&settings, &passwords, &after)?;
            self.replace_manager(&settings, &passwords, after)?;
        }
        let own = proxy_settings(&settings, shares);
        self.proxy.set_split_wait(settings.split_wait);
        if let Some(reads) = &self.reads {
            reads.apply(own.clone(), catch_up_max(&settings));
        }
        self.proxy.apply(own, catch_up_max(&settings));
        self.web.replace(self.managed.control(), credentials.key, settings.budget, credentials.tls);
        (self.settings, self.passwords) = (settings, passwords);
        Ok(())
    }

    /// Refuses what would leave sessions without a manager, or the manager without a node that lets it in.
    fn check_next(
        &self,
        settings: &Settings,
        passwords: &Passwords,
        after: &manager::Settings,
    ) -> Result<(), NotApplied> {
        after.cluster.check().map_err(|why| NotApplied::Refused("configuration", why))?;
        let used = self.succession.in_use_without(&after.cluster.nodes);
        if !used.is_empty() {
            let names = used.join(", ");
            return Err(NotApplied::Refused(
                "node_in_use",
                format!(
                    "{names} takes sessions, and cannot be taken out or get another address: drain it first (`understudy drain`)"
                ),
            ));
        }
        let login = monitor_login(settings, &passwords.monitor);
        let is_other_login =
            login.user != self.settings.monitor.user || passwords.monitor != self.passwords.monitor;
        if is_other_login {
            let addresses = settings.nodes.iter().map(|node| node.address.clone()).collect();
            self.calm.block_on(is_let_in(addresses, login)).map_err(|why| {
                NotApplied::Refused(
                    "login",
                    format!("no node lets the monitor account in as it is now configured: {why}"),
                )
            })?;
        }
        self.calm.block_on(until_steady(self.view.channel())).map_err(|why| NotApplied::Refused("busy", why))
    }

    fn replace_manager(
        &mut self,
        settings: &Settings,
        passwords: &Passwords,
        after: manager::Settings,
    ) -> Result<(), NotApplied> {
        let too_many =
            |error: TooMany| NotApplied::Refused("restart", format!("{error}: that takes a restart"));
        let mut inherited = self.succession.await_next(&after.cluster.nodes).map_err(too_many)?;
        let patience = after.cluster.probe_interval * (after.cluster.misses_max + 1) + DECISION_SLACK;
        let view = self.view.now();
        let is_drained = |node: &NodeSettings| {
            view.nodes.iter().any(|known| known.name == node.name && known.has_temporary_drain)
        };
        inherited.temporary_drains = after.cluster.nodes.iter().map(is_drained).collect();
        let begun = Instant::now();
        self.managed.stop(&self.calm);
        let manager = match manager::start(manager::Settings { inherited, ..after }) {
            Ok(manager) => manager,
            Err(error) => {
                return Err(NotApplied::Broken(format!("the manager could not be started again: {error}")));
            }
        };
        self.succession.attach(&manager, patience);
        let without = begun.elapsed();
        // Who asks for a node's health goes on with the last view while that is young enough to be believed, rather than hear that nothing
        // is known yet.
        let young = VIEW_AGE_MAX.saturating_sub(begun.elapsed() + VIEW_SLACK);
        // After that, what the new one knows is shown, whatever that is.
        let decided = until_decided(manager.view.clone(), &view);
        let _ = self.calm.block_on(async { timeout(young, decided).await });
        self.view.replace(&manager);
        let broken = |error: anyhow::Error| NotApplied::Broken(format!("{error:#}"));
        self.health.serve_nodes(&settings.nodes).map_err(broken)?;
        let around = Around {
            proxy: &self.proxy,
            reads: self.reads.as_ref(),
            health: &self.health,
            events: &self.events,
            reloads: &self.reloads,
            calm: &self.calm,
        };
        self.managed = Managed::start(settings, passwords, manager, &around).map_err(broken)?;
        tracing::info!(
            "the manager was replaced: there was none for {} ms, and the new one had looked at the nodes after {} ms",
            without.as_millis(),
            begun.elapsed().as_millis()
        );
        Ok(())
    }
}

/// Whether any node lets this account in. Nodes that cannot be asked say nothing about it.
async fn is_let_in(addresses: Vec<String>, login: Login) -> Result<(), String> {
    let mut asked = tokio::task::JoinSet::new();
    for address in addresses {
        let login = login.clone();
        asked.spawn(async move {
            let connected = Link::connect(&address, &login, LOGIN_WAIT).await;
            connected.map(|link| link.quit()).map_err(|error| (address, error))
        });
    }
    let mut refused = None;
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok(())) => return Ok(()),
            Ok(Err((address, error @ LinkError::Rejected { .. }))) => {
                refused = Some(format!("{address}: {error}"))
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Waits until no move of the writer runs and no connection is being cut.
async fn until_steady(mut view: watch::Receiver<Arc<ClusterView>>) -> Result<(), String> {
    let is_steady = |view: &Arc<ClusterView>| {
        let is_cut = |node: &NodeView| node.lane != LaneState::Shut || node.links_gone;
        view.order.is_none() && view.nodes.iter().all(is_cut)
    };
    // The end of the manager is seen elsewhere.
    if timeout(STEADY_WAIT, view.wait_for(is_steady)).await.is_ok() {
        return Ok(());
    }
    let view = view.borrow();
    // A failover that finds no node may never end, and the new configuration may be what it needs. No session has a connection that a new
    // manager would have to know of.
    if view.nodes.iter().all(|node| node.lane == LaneState::Shut && node.links_gone) {
        return Ok(());
    }
    let what = view.order.as_deref().unwrap_or("connections to a node are still being closed");
    Err(format!("{what}: try again when that is over"))
}

/// Waits until a new manager has looked at all nodes that the last one was in contact with, and lets statements through if that one did.
async fn until_decided(mut next: watch::Receiver<Arc<ClusterView>>, last: &ClusterView) {
    let was_linked = |name: &str| last.nodes.iter().any(|node| node.name == name && node.linked);
    let is_decided = |next: &Arc<ClusterView>| {
        let is_checked = |node: &NodeView| node.problem != Some("unchecked") || !was_linked(&node.name);
        next.nodes.iter().all(is_checked)
            && (next.gate == TrafficFlow::Open || last.gate != TrafficFlow::Open)
    };
    // The end of the manager is seen elsewhere.
    let _ = next.wait_for(is_decided).await;
}

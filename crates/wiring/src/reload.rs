//! Puts another configuration in force while everything runs.
//!
//! ```text
//!   what changed                          what is done
//!   hold, proxy, switchover, api, hooks   limits, keys, certificate and receivers are replaced where they are
//!   cluster, read, a password             the manager goes on with the new settings: what it knows of the nodes, its links to them and
//!                                         what it has decided stay (`manager::Handles::reconfigure`)
//!   any of these, or warm                 what is made from the manager's list of nodes is made anew (`managed`)
//! ```
//!
//! Whether a change can be taken up at all is known from the table of settings, and was looked at before. Everything that can fail comes
//! before anything is changed.

use std::time::Duration;

use link::{Link, LinkError, Login};
use manager::NotTaken;
use tokio::task::JoinSet;
use topology::action::Level;
use topology::view::ClusterView;

use super::Services;
use super::managed::Around;
use super::parts::{Accounts, Credentials, catch_up_max, manager_settings, proxy_settings, reads_settings};
use settings::descriptors::Shares;
use settings::difference::Change;
use settings::{Node, Settings, table as t};

/// A node may take so long to accept a new login of the monitor.
const LOGIN_WAIT: Duration = Duration::from_secs(2);

/// Why other settings did not come into force: a code for programs and a sentence. Nothing has changed.
#[derive(Debug)]
pub struct NotApplied(pub &'static str, pub String);

impl Services {
    /// Puts these settings, and what was read with them, in force. `changes`: how they differ from those in force; none of them may be one
    /// that takes a restart.
    ///
    /// Blocks until the nodes have accepted a new login, and for at most 10 s until nothing runs that a change of the nodes would disturb;
    /// less when `ended` returns. Must not be called from a task.
    pub fn apply(
        &mut self,
        settings: Settings,
        changes: &[Change],
        shares: Shares,
        accounts: Accounts,
        credentials: Credentials,
        ended: impl Future<Output = ()>,
    ) -> Result<(), NotApplied> {
        let before = manager_settings(&self.settings, &self.accounts);
        let after = manager_settings(&settings, &accounts);
        let is_other_manager = before != after;
        if is_other_manager {
            self.managed.save(&self.calm);
            self.reconfigure_manager(&settings, &accounts, after, ended)?;
        }
        if let Err(error) = self.health.serve_nodes(&settings.nodes) {
            // The other doors answer for all nodes.
            self.note(Level::Error, format!("no sockets of nodes answer health questions: {error:#}"));
        }
        let is_of_warming =
            |change: &Change| change.path.starts_with("warm.") || change.path == t::MONITOR_USER.path;
        let is_other_warming = self.accounts.warm != accounts.warm || changes.iter().any(is_of_warming);
        if is_other_manager || is_other_warming || self.settings.id != settings.id {
            let around = Around {
                proxy: &self.proxy,
                reads: self.reads.as_ref(),
                health: &self.health,
                events: &self.events,
                reloads: &self.reloads,
                calm: &self.calm,
            };
            self.managed.renew(&settings, &accounts, &self.manager, &around, is_other_warming);
        }
        let own = proxy_settings(&settings, shares, credentials.clients.as_ref(), &accounts);
        self.proxy.set_split_wait(settings.get(&t::READ_SPLIT_WAIT));
        if let Some(reads) = &self.reads {
            let own = reads_settings(&settings, credentials.clients.as_ref(), own.clone());
            reads.apply(own, catch_up_max(&settings));
        }
        self.proxy.apply(own, catch_up_max(&settings));
        self.web.replace(
            self.managed.control(),
            credentials.keys,
            settings.get(&t::SWITCHOVER_BUDGET),
            credentials.https,
        );
        self.hooks.send_replace(accounts.hooks.clone());
        (self.settings, self.accounts) = (settings, accounts);
        Ok(())
    }

    fn reconfigure_manager(
        &mut self,
        settings: &Settings,
        accounts: &Accounts,
        after: manager::Settings,
        ended: impl Future<Output = ()>,
    ) -> Result<(), NotApplied> {
        let login = accounts.monitor.login();
        let is_same_login = login == self.accounts.monitor.login();
        let view = self.manager.view.borrow().clone();
        let work = async {
            if !is_same_login {
                accepted(&view, &settings.nodes, &login).await.map_err(|why| NotApplied("login", why))?;
            }
            self.manager.reconfigure(after).await.map_err(|why| match why {
                NotTaken::Refused { code, sentence } => NotApplied(code, sentence),
                NotTaken::Busy(what) => NotApplied("busy", format!("{what}: try again when that is over")),
            })
        };
        self.calm.block_on(async {
            tokio::select! {
                biased;
                done = work => done,
                () = ended => Err(NotApplied("stopping", "Understudy is stopping".into())),
            }
        })
    }
}

/// Whether the monitor can log in like this. Every node that answers now must accept it, since the manager needs it there from now on; where
/// none answers, one that can be reached must not reject it while no other accepts it.
async fn accepted(view: &ClusterView, nodes: &[Node], login: &Login) -> Result<(), String> {
    let mut asked = JoinSet::new();
    for node in nodes {
        let (name, address, login) = (node.name.clone(), node.address.clone(), login.clone());
        asked.spawn(async move {
            let connected = Link::connect(&address, &login, LOGIN_WAIT).await;
            (name, connected.map(|link| link.quit()))
        });
    }
    let (mut is_accepted, mut rejected) = (false, None);
    while let Some(answer) = asked.join_next().await {
        let Ok((name, answer)) = answer else { continue };
        let known = view.nodes.iter().find(|node| node.name == name);
        let answers = known.is_some_and(|node| node.linked && node.misses == 0 && node.doubt.is_none());
        match answer {
            Ok(()) => is_accepted = true,
            Err(error) if answers => {
                return Err(format!(
                    "{name} does not let the monitor account in as it is now configured: {error}"
                ));
            }
            Err(error @ LinkError::Rejected { .. }) => rejected = Some(format!("{name}: {error}")),
            Err(_) => {}
        }
    }
    match rejected {
        Some(why) if !is_accepted => {
            Err(format!("no node lets the monitor account in as it is now configured: {why}"))
        }
        _ => Ok(()),
    }
}

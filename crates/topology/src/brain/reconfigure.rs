//! Puts other settings in force while the brain goes on. What it knows of the nodes and what it has decided stays as it is.
//!
//! Most settings only change what is decided from the next fact on, and so do another order of the nodes and nodes that are added. A node is removed
//! only if no session can have a connection to it, and while nothing is under way in which it may have a part. It keeps its [`NodeId`]: whatever comes
//! late is about no other node, and means nothing.

use super::{Brain, Plan};
use crate::NodeId;
use crate::belief::Belief;
use crate::routes::LaneState;
use crate::settings::{NodeSettings, Settings};
use crate::time::Now;

/// Why other settings are not put in force. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// They cannot be, now or later.
    Refused {
        /// For programs.
        code: &'static str,
        /// For people.
        sentence: String,
    },
    /// They may be when that is over.
    Busy(String),
}

impl Brain {
    /// Puts these settings in force. The caller passes the time ([`crate::fact::Fact::Tick`]) next, which publishes what has changed.
    ///
    /// # Errors
    /// The settings cannot be put in force, or not at this moment.
    pub fn reconfigure(&mut self, now: Now, settings: Settings) -> Result<(), NotTaken> {
        let refused = |code, sentence: &str| Err(NotTaken::Refused { code, sentence: sentence.into() });
        if let Err(sentence) = settings.check() {
            return refused("configuration", &sentence);
        }
        let core = &mut self.core;
        core.now = core.now.max(now);
        let old = &core.settings;
        let fixed = |settings: &Settings| {
            (settings.kind, settings.writers, settings.replication.manager, settings.reads.on)
        };
        if fixed(old) != fixed(&settings) {
            let sentence = "the kind of the cluster, who writes and who moves the writer take a restart";
            return refused("restart", sentence);
        }
        let Some(order) = core.nodes.ids_of(&settings.nodes) else {
            let sentence =
                "more nodes were configured since the start than there are numbers for: that takes a restart";
            return refused("restart", sentence);
        };
        let removed: Vec<NodeId> = core.nodes.ids().filter(|id| !order.contains(id)).collect();
        for id in &removed {
            self.may_remove(*id)?;
        }
        let adds = order.iter().any(|id| !self.core.known(*id));
        if let Some(what) = self.group.may_not_add().filter(|_| adds) {
            return Err(NotTaken::Busy(what));
        }
        for id in removed {
            self.readers.removed(id);
        }
        for (id, of) in order.iter().zip(&settings.nodes) {
            if !self.core.known(*id) {
                self.add(*id, of, &settings);
            }
            self.core.node_mut(*id).priority = of.priority;
        }
        self.core.nodes.set_order(order);
        self.readers.settings = settings.reads.clone();
        self.core.settings = settings;
        Ok(())
    }

    fn may_remove(&self, id: NodeId) -> Result<(), NotTaken> {
        if let Some(what) = self.busy(id) {
            return Err(NotTaken::Busy(what));
        }
        let core = &self.core;
        let in_use = |is: &str, first: &str| {
            let name = core.name(id);
            let sentence = format!("{name} {is}, and cannot be taken out or get another address: {first}");
            Err(NotTaken::Refused { code: "node_in_use", sentence })
        };
        let is_writer = core.writer == Some(id) || core.disk.choice.writer == Some(id);
        if is_writer {
            return in_use("is the writer", "make another node the writer first");
        }
        if core.node(id).lane != LaneState::Shut || self.readers.takes_reads(id) {
            return in_use("takes sessions", "drain it first (`understudy drain`)");
        }
        if !core.links_gone(id) {
            let what = format!("connections to {} are still being closed", core.name(id));
            return Err(NotTaken::Busy(what));
        }
        Ok(())
    }

    /// What is under way in which that node may have a part, as a clause; `None` when nothing is.
    fn busy(&self, id: NodeId) -> Option<String> {
        let core = &self.core;
        if let Some(doing) = self.doing() {
            return Some(format!("a {doing} is running"));
        }
        if core.saving.as_ref().is_some_and(|saving| saving.node == id) {
            return Some("a decision is being written".into());
        }
        let asked = match &self.plan {
            Plan::One(_) => None,
            Plan::All(plan) => plan.asked(core, id),
        };
        asked.or_else(|| self.group.busy(core, id))
    }

    /// Nothing is known of the node, also if it was removed before, except what nothing but an operator's word may end: that is kept by the
    /// name, as over a restart. Its connections are none of then.
    fn add(&mut self, id: NodeId, node: &NodeSettings, settings: &Settings) {
        let core = &mut self.core;
        let before = core.nodes.get(id).map(|before| before.epoch);
        let mut belief = Belief::new(node, None, core.now);
        belief.epoch = before.map_or(0, |epoch| epoch + 1);
        let of_the_name = core.nodes.ids().find(|known| core.name(*known) == node.name);
        if let Some(known) = core.nodes.get(of_the_name.unwrap_or(id)) {
            belief.is_renumbered = known.is_renumbered;
            belief.had_filters.clone_from(&known.had_filters);
        }
        belief.proxies.begin_at(belief.epoch, &settings.proxies);
        core.nodes.put(id, belief);
        self.group.added(id);
        if let Plan::All(plan) = &mut self.plan {
            plan.added(id);
        }
        self.readers.added(id, before.is_some());
    }
}

//! Puts other settings in force while the brain goes on. What it knows of the nodes and what it has decided stays as it is.
//!
//! Most settings only change what is decided from the next fact on. A change of the list of nodes also changes the number of each node (a
//! [`NodeId`] is a place in that list), and so it is taken only while nothing runs that refers to a node by its number, and only if no
//! session can have a connection to a node that is removed.

use super::{Brain, Plan};
use crate::NodeId;
use crate::belief::Belief;
use crate::election::ids;
use crate::places::Places;
use crate::routes::LaneState;
use crate::settings::Settings;
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
    /// Puts these settings in force. Returns the places of the nodes before and after. The caller must send no fact from before under a number
    /// that is another node's now, and passes the time ([`crate::fact::Fact::Tick`]) next, which publishes what has changed.
    ///
    /// # Errors
    /// The settings cannot be put in force, or not at this moment.
    pub fn reconfigure(&mut self, now: Now, settings: Settings) -> Result<Places, NotTaken> {
        let refused = |code, sentence: String| Err(NotTaken::Refused { code, sentence });
        if let Err(sentence) = settings.check() {
            return refused("configuration", sentence);
        }
        let core = &mut self.core;
        core.now = core.now.max(now);
        let old = &core.settings;
        let fixed = |settings: &Settings| {
            (settings.kind, settings.writers, settings.replication.manager, settings.reads.on)
        };
        if fixed(old) != fixed(&settings) {
            let sentence = "the kind of the cluster, who writes and who moves the writer take a restart";
            return refused("restart", sentence.into());
        }
        let places = Places::between(&old.nodes, &settings.nodes);
        if !places.is_same() {
            self.may_change_nodes(&places)?;
            self.arrange(&places, &settings);
        }
        for (node, of) in self.core.nodes.iter_mut().zip(&settings.nodes) {
            node.priority = of.priority;
        }
        self.readers.settings = settings.reads.clone();
        self.core.settings = settings;
        Ok(places)
    }

    fn may_change_nodes(&self, places: &Places) -> Result<(), NotTaken> {
        if let Some(what) = self.busy() {
            return Err(NotTaken::Busy(what));
        }
        let core = &self.core;
        let in_use = |id: NodeId, is: &str, first: &str| {
            let name = core.name(id);
            let sentence = format!("{name} {is}, and cannot be taken out or get another address: {first}");
            Err(NotTaken::Refused { code: "node_in_use", sentence })
        };
        for id in places.removed() {
            let is_writer = core.writer == Some(id) || core.disk.choice.writer == Some(id);
            if is_writer {
                return in_use(id, "is the writer", "make another node the writer first");
            }
            if core.node(id).lane != LaneState::Shut || self.readers.takes_reads(id) {
                return in_use(id, "takes sessions", "drain it first (`understudy drain`)");
            }
            if !core.links_gone(id) {
                let what = format!("connections to {} are still being closed", core.name(id));
                return Err(NotTaken::Busy(what));
            }
        }
        Ok(())
    }

    /// What refers to nodes by their numbers at this moment, as a clause; `None` when nothing does.
    fn busy(&self) -> Option<String> {
        let core = &self.core;
        if let Some(doing) = self.doing() {
            return Some(format!("a {doing} is running"));
        }
        if core.saving.is_some() || core.disk.is_writing() {
            return Some("a decision is being written".into());
        }
        let asked = match &self.plan {
            Plan::One(_) => None,
            Plan::All(plan) => plan.asked(core),
        };
        asked.or_else(|| self.group.busy(core))
    }

    /// Gives every node its new number.
    fn arrange(&mut self, places: &Places, settings: &Settings) {
        let core = &mut self.core;
        let gone = places.removed().map(|id| core.node(id).epoch + 1);
        core.first_epoch = gone.fold(core.first_epoch, u64::max);
        let (first_epoch, now) = (core.first_epoch, core.now);
        let new = |id: NodeId| {
            let of = &settings.nodes[usize::from(id.0)];
            let mut node = Belief::new(&of.name, &of.address, of.priority, None, now);
            node.epoch = first_epoch;
            node.proxies.begin_at(first_epoch, &settings.proxies);
            node
        };
        core.nodes = places.arrange(std::mem::take(&mut core.nodes), new);
        core.writer = core.writer.and_then(|id| places.of(id));
        core.disk.choice.writer = core.disk.choice.writer.and_then(|id| places.of(id));
        self.group.arrange(places);
        if let Plan::All(plan) = &mut self.plan {
            plan.arrange(places);
        }
        self.readers.arrange(places);
        debug_assert!(ids(&self.core.nodes).count() == settings.nodes.len());
    }
}

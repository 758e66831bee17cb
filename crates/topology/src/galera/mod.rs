//! Galera Cluster: how a member's status is read, what the members say of each other, and what is done to the group when one is lost.
//!
//! ```text
//!   sql ──(the shell asks)──> status ──> words   what a member's own status says against it: a table of rules
//!                                  └───> view    the newest view of the group: who has left, how many members are not in the configuration
//!                                          │    members     which configured nodes are in the view that a node reports
//!                                          ├──> placement   the writer's component (`component`): a Primary node of another one is refused
//!                                          │    asked       the same for a program that asks each node once
//!                                          ├──> evict   a member that is proven dead is evicted (evs.evict)
//!                                          ├──> hurry   the others' evs timers are shortened while a member is silent
//!                                          │    question  does every member still acknowledge what the group sends?
//!                                          │    timers    which timers are shortened, and in which order
//!                                          ├──> pace    the others send their join messages again sooner while a member is leaving
//!                                          └──> revive  without a majority: pc.bootstrap on a survivor, when all others are proven dead
//!                                                 prime       who was in the newest Primary view, and how far
//!                                                 bootstrap   which node may be bootstrapped, or why none
//!                                                 position    what a stopped node left on its disk
//! ```
//!
//! The brain uses it through `group.rs` only.

pub(crate) mod action;
mod asked;
pub mod bootstrap;
pub(crate) mod component;
mod evict;
pub mod hurry;
mod members;
mod pace;
mod placement;
pub mod position;
mod prime;
pub mod question;
mod relief;
mod reports;
mod revive;
pub(crate) mod settings;
pub mod sql;
mod state;
pub(crate) mod status;
pub mod timers;
mod view;
pub mod words;

pub use self::action::{Action, HurryEnd, Outcome};
pub use self::asked::{Apart, Asked, ComponentStatus, apart};
pub use self::component::{Component, Process, have_joined_another};
pub use self::settings::{BootstrapPolicy, EvictPolicy, Settings, SilencePolicy};
pub(crate) use self::state::Galera;
use self::state::Member;
pub use self::status::{GaleraStatus, read};
use crate::NodeId;
use crate::core::Core;
use crate::fact;
use crate::group::{Change, Group};
use crate::restored::Restored;

impl Group for Galera {
    fn twin(&self) -> Box<dyn Group> {
        Box::new(self.clone())
    }

    /// What an earlier process has left on disk: the members' names in the group. A member that died with that process is evicted by its name; a
    /// node that has been restarted since has another one.
    fn restore(&mut self, core: &Core, _restored: Restored) {
        for id in core.nodes.ids() {
            let address = &core.node(id).address;
            let members = core.component.iter().flat_map(|component| &component.members);
            let known = members
                .into_iter()
                .find(|process| process.address == *address && !process.gcomm_uuid.is_empty());
            if let Some(process) = known {
                let member = self.member_mut(id);
                member.gcomm_uuid.clone_from(&process.gcomm_uuid);
                member.was_linked = true;
            }
        }
    }

    fn busy(&self, _core: &Core, _id: NodeId) -> Option<String> {
        let what = if self.evicting.is_some() {
            "a member is being evicted"
        } else if self.hurry.is_some() {
            "the group's timers are shortened"
        } else if self.revival.is_running() {
            "the group is being given a Primary component"
        } else {
            return None;
        };
        Some(what.into())
    }

    fn added(&mut self, id: NodeId) {
        self.members.put(id, Member::default());
        // It may have been one of those until now. Too few of them at worst keep a lost node from being evicted, until all
        // nodes are in one view and they are counted again.
        self.unconfigured_members = self.unconfigured_members.saturating_sub(1);
    }

    /// Called after the plan's step: evictions that the plan did not order itself, shorter evs timers, join retransmission, and the
    /// bootstrap of a survivor.
    fn act(&mut self, core: &mut Core) {
        self.evict_bystander(core);
        self.hurry(core);
        self.pace(core);
        self.rejoin_parted(core);
        self.revive(core);
    }

    fn outcome(&mut self, core: &mut Core, outcome: fact::Outcome) {
        let fact::Outcome::Galera(outcome) = outcome else { return };
        match outcome {
            Outcome::Evicted { victim, .. } => self.evict_ended(core, victim, None),
            Outcome::Spared { victim, via } => self.spared(core, victim, via),
            Outcome::Hurried { number } => self.hurried(core, number),
            Outcome::HurryEnded { number, end } => self.hurry_ended(core, number, &end),
            Outcome::EvictFailed { victim, why } => self.evict_ended(core, victim, Some(&why)),
            Outcome::Proof { number, node, proof } => self.proof(core, number, node, proof),
            Outcome::BootstrapEnded { number, failed } => self.bootstrapped(core, number, failed.as_deref()),
        }
    }

    fn tick(&mut self, core: &mut Core) {
        self.expire_evictions(core);
    }

    fn accept(&mut self, core: &mut Core, id: NodeId) -> Option<Result<(), String>> {
        self.accept_component(core, id)
    }

    fn evict_if_allowed(&mut self, core: &mut Core, lost: NodeId) -> String {
        self.evict_lost(core, lost)
    }

    fn bootstraps(&self) -> u64 {
        self.revival.done
    }
}

impl Change for Galera {}

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
pub use self::asked::{Apart, Asked, Said, apart};
pub use self::component::{Component, Process, have_joined_another};
pub use self::settings::{BootstrapPolicy, EvictPolicy, Settings, SilencePolicy};
pub(crate) use self::state::Galera;
use self::state::{Member, Prime};
pub use self::status::{GaleraStatus, read};
pub(crate) use self::view::is_held_up;
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::places::Places;

impl Galera {
    /// What an earlier process has left on disk: the members' names in the group. A member that died with that process is evicted by its name; a
    /// node that has been restarted since has another one.
    pub fn restore(&mut self, core: &Core) {
        for id in ids(&core.nodes) {
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

    /// What refers to a member by its number at this moment, as a clause.
    pub fn busy(&self) -> Option<String> {
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

    /// The list of nodes has changed.
    pub fn arrange(&mut self, places: &Places) {
        self.members = places.arrange(std::mem::take(&mut self.members), |_| Member::default());
        // A node that was added may have been one of those until now. Too few of them at worst keep a lost node from being evicted, until all
        // nodes are in one view and they are counted again.
        self.unconfigured_members = self.unconfigured_members.saturating_sub(places.added());
    }

    /// Takes in a node's status.
    pub fn heard(&mut self, core: &Core, id: NodeId, status: &GaleraStatus) {
        if status.is_whole() {
            for node in ids(&core.nodes) {
                self.member_mut(node).listed_once |= status.members.contains(&core.node(node).address);
            }
        }
        self.news = Some(id);
        if let Some(prime) = Prime::of(core, core.node(id), status) {
            self.note_prime(id, prime);
        }
        let member = self.member_mut(id);
        member.slow_since = None;
        if !status.gcomm_uuid.is_empty() && status.gcomm_uuid != member.gcomm_uuid {
            member.gcomm_uuid.clone_from(&status.gcomm_uuid);
            member.evict_tries = 0;
        }
    }

    /// Called after the plan's step: evictions that the plan did not order itself, shorter evs timers, join retransmission, and the
    /// bootstrap of a survivor.
    pub fn act(&mut self, core: &mut Core) {
        self.evict_bystander(core);
        self.hurry(core);
        self.pace(core);
        self.rejoin_parted(core);
        self.revive(core);
    }

    /// An eviction or a hurry waits for newer status of the members.
    pub fn is_unclear(&self, core: &Core) -> bool {
        self.eviction_pending(core) || self.hurry_pending(core)
    }

    /// What came of an action.
    pub fn outcome(&mut self, core: &mut Core, outcome: Outcome) {
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
}

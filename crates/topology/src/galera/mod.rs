//! Galera Cluster: how a member's status is read, what the members say of each other, and what is done to the group when one is lost.
//!
//! ```text
//!   sql ──(the shell asks)──> status ──> words   what a member's own status says against it: a table of rules
//!                                  └───> view    the newest view of the group: who has left, how many members are not in the configuration
//!                                          │    members     which configured nodes are in the view that a node reports
//!                                          ├──> component   the writer's component: a Primary node of another one is refused
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
pub mod position;
mod prime;
pub mod question;
mod relief;
mod revive;
pub(crate) mod settings;
pub mod sql;
pub(crate) mod status;
pub mod timers;
mod view;
pub mod words;

pub use self::action::{Action, HurryEnd, Outcome};
pub use self::asked::{Apart, Asked, Said, apart};
pub use self::component::{Component, Process, TWO_CLUSTERS, have_joined_another};
pub use self::settings::{BootstrapPolicy, EvictPolicy, Settings, SilencePolicy};
pub use self::status::{GaleraStatus, read};
use self::view::GroupView;
pub(crate) use self::view::is_held_up;
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::finding::Finding;
use crate::places::Places;
use crate::time::Now;

/// What is known of the group beyond what is known of each node.
#[derive(Clone, Debug)]
pub(crate) struct Galera {
    members: Vec<Member>,
    view: Option<GroupView>,
    /// The writer's component is not written to disk again before this, unless its view changes.
    remember_after: Now,
    /// The node that reported its status last, until that was compared with the writer's component.
    news: Option<NodeId>,
    /// How many members of the group are not in the configuration (an arbitrator, a node that was forgotten there). Counted whenever all
    /// configured nodes are in the same view, as the size of that view less their number.
    unconfigured_members: usize,
    /// An eviction in flight.
    evicting: Option<evict::Ordered>,
    /// When the last one ended: the next one is decided on a status that is newer than this.
    evict_ended: Option<Now>,
    hurry: Option<hurry::Hurry>,
    /// No other hurry is begun before this.
    hurry_after: Now,
    /// The number of the last one.
    hurries: u64,
    /// How the group is given a Primary component again.
    revival: revive::Revival,
}

/// What is known of a node as a member of the group.
#[derive(Clone, Debug, Default)]
struct Member {
    /// From its last status; kept when the node is gone, since `evs.evict` needs it.
    gcomm_uuid: String,
    /// An earlier process of this program was connected to it, and has left that name.
    was_linked: bool,
    /// A Primary view has named the node's address, so that its absence from one means something.
    listed_once: bool,
    /// After it was lost, a survivor reported a view without it: it has left the group, so there is nothing to evict until it has served
    /// again.
    left_view: bool,
    /// The gcomm UUID under which it was evicted; empty if it was not.
    evicted_uuid: String,
    /// Another was evicted, and it was not told yet to forget that.
    has_evicted: bool,
    evict_tries: u32,
    evict_after: Now,
    /// It was to be evicted and still acknowledged what the group sent, so it was not; the journal has that already.
    spared: bool,
    /// When the query was sent whose answer is late ([`crate::fact::Fact::ProbeSlow`]).
    slow_since: Option<Now>,
    /// Its `evs.join_retrans_period` was ordered to be 0.1 s, see [`pace`].
    fast_join_retrans: bool,
    /// It misses probes while others answer; and when that last began.
    late: bool,
    late_last: Option<Now>,
    /// It did not apply write sets and was desynchronised (`wsrep_desync`), so that flow control does not stop the group for it.
    parted: bool,
    parted_until: Now,
    /// It is Primary in a component that is not the writer's: what is said of that ([`component`]).
    apart: Option<Finding>,
    /// Its last status from a Primary component.
    prime: Option<prime::Prime>,
}

impl Galera {
    pub fn new(nodes: usize) -> Self {
        Self {
            members: vec![Member::default(); nodes],
            view: None,
            remember_after: Now::ZERO,
            news: None,
            unconfigured_members: 0,
            evicting: None,
            evict_ended: None,
            hurry: None,
            hurry_after: Now::ZERO,
            hurries: 0,
            revival: revive::Revival::default(),
        }
    }

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

    fn member(&self, id: NodeId) -> &Member {
        &self.members[usize::from(id.0)]
    }

    fn member_mut(&mut self, id: NodeId) -> &mut Member {
        &mut self.members[usize::from(id.0)]
    }

    /// Takes in a node's status.
    pub fn heard(&mut self, core: &Core, id: NodeId, status: &GaleraStatus) {
        if status.is_whole() {
            for node in ids(&core.nodes) {
                self.member_mut(node).listed_once |= status.members.contains(&core.node(node).address);
            }
        }
        self.news = Some(id);
        if let Some(prime) = prime::Prime::of(core, core.node(id), status) {
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

//! Galera Cluster: what its members say, what their group does by itself when one is lost, and what may be asked of it.
//!
//! ```text
//!   sql ──(the shell asks)──> status ──> words   what a member says against itself: a table of rules
//!                                  └───> view    the newest view of the group: who has left, who is a stranger
//!                                          ├──> evict   a member that is proven dead is struck from the group
//!                                          ├──> hurry   the others wait less long for a member that is silent
//!                                          │    question  does every member still acknowledge?
//!                                          │    timers    what may be shortened, and in which order
//!                                          ├──> pace    the others talk faster while a member is on its way out
//!                                          └──> revive  without a majority: the survivor goes on, when all others are proven dead
//!                                                 prime       who was in the newest Primary view
//!                                                 bootstrap   which node, or why none
//!                                                 position    what a stopped node left on its disk
//! ```
//!
//! The general brain comes in through [`crate::kind`] only.

pub(crate) mod action;
pub mod bootstrap;
mod evict;
pub mod hurry;
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
pub use self::settings::{BootstrapPolicy, EvictPolicy, Settings, SilencePolicy};
pub use self::status::{GaleraStatus, Reading, read};
use self::view::GroupView;
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;

/// All that is held true of the group beside what is held true of each node.
#[derive(Clone, Debug)]
pub(crate) struct Galera {
    members: Vec<Member>,
    view: Option<GroupView>,
    /// Members of the group that the configuration does not have (an arbitrator, a node of somebody else), counted when all that it
    /// has were last in one view.
    strangers: usize,
    /// An eviction in flight.
    evicting: Option<evict::Ordered>,
    /// When the last one ended: the next needs a status that is newer.
    evict_ended: Option<Now>,
    hurry: Option<hurry::Hurry>,
    /// No other before then.
    hurry_after: Now,
    /// How many there were.
    hurries: u64,
    /// How the group is given a Primary component again.
    revival: revive::Revival,
}

/// What is held true of a node as a member of the group.
#[derive(Clone, Debug, Default)]
struct Member {
    /// The last one heard; still known when the node is gone.
    gcomm_uuid: String,
    /// A Primary view has named the node's address, so that its absence from one means something.
    listed_once: bool,
    /// Since it was lost, a survivor's view was without it: there is nothing to strike any more, until it served again.
    left_view: bool,
    /// The gcomm uuid that was struck from the group.
    evicted_uuid: String,
    evict_tries: u32,
    evict_after: Now,
    /// It was not evicted since it acknowledged what the group sent, and that was said.
    spared: bool,
    /// A question to it, sent then, has waited longer for its answer than usual.
    slow_since: Option<Now>,
    /// It was told to be brisk, see [`pace`].
    brisk: bool,
    /// It misses probes while others answer, and when that last began.
    late: bool,
    late_last: Option<Now>,
    /// It did not apply, and the group was told not to wait for it.
    parted: bool,
    parted_until: Now,
    /// What it said last when it was in a Primary component.
    prime: Option<prime::Prime>,
}

impl Galera {
    pub fn new(nodes: usize) -> Self {
        Self {
            members: vec![Member::default(); nodes],
            view: None,
            strangers: 0,
            evicting: None,
            evict_ended: None,
            hurry: None,
            hurry_after: Now::ZERO,
            hurries: 0,
            revival: revive::Revival::default(),
        }
    }

    fn member(&self, id: NodeId) -> &Member {
        &self.members[usize::from(id.0)]
    }

    fn member_mut(&mut self, id: NodeId) -> &mut Member {
        &mut self.members[usize::from(id.0)]
    }

    /// The node said this.
    pub fn heard(&mut self, core: &Core, id: NodeId, status: &GaleraStatus) {
        if status.is_whole() {
            for node in ids(&core.nodes) {
                self.member_mut(node).listed_once |= status.members.contains(&core.node(node).address);
            }
        }
        if let Some(prime) = prime::Prime::of(status) {
            self.note_prime(id, prime);
        }
        let member = self.member_mut(id);
        member.slow_since = None;
        if !status.gcomm_uuid.is_empty() && status.gcomm_uuid != member.gcomm_uuid {
            member.gcomm_uuid.clone_from(&status.gcomm_uuid);
            member.evict_tries = 0;
        }
    }

    /// After the plan has done its part: evictions that it did not order itself, shorter waits, and each node's pace.
    pub fn act(&mut self, core: &mut Core) {
        self.evict_bystander(core);
        self.hurry(core);
        self.pace(core);
        self.rejoin_parted(core);
        self.revive(core);
    }

    /// Something waits for what the nodes have to say.
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

//! `bootstrap = "proven"`: a cluster that has lost its majority is made Primary again without an operator, with the nodes that are left.
//!
//! ```text
//!   some answer, none Primary, all others gone ─(calm)─> Proving ──all proven──> Checking ──decide──> Ordered ──> Primary
//!        ^                                                │    ^──a proof is old───│                   │
//!        │                                                │ one is not             │ refused           │ failed
//!        └───────────────── after a while ────────────────┴────────────────────────┴───────────────────┘
//! ```
//!
//! Each proof has its own age, counted from the end of its command. When the slowest proof arrives, the others may be too old; they are
//! then asked for again. The order carries the time until which it may be given.
//!
//! A node's death is never concluded from silence, from elapsed time, from a refused or reset connection (a firewall causes both, on any
//! port), or from the group's view (there is none without a majority). The only proof is the operator's `proof_command`, which looks at the
//! process on its own host, and reports the position on that host's disk.
//!
//! A process that is proven dead may be started again a moment later. That cannot make a second Primary component: a node that comes back
//! joins an existing one, or waits until *all* members of its last Primary view are there (pc.recovery), and the survivor is one of those.
//!
//! Invariants. No order is given while any node is in a Primary component, or is connected to us and does not say that it is in none. It
//! needs a proof for every configured node that is no survivor, none older than [`PROOF_AGE_MAX`] when the order is given. It is not given
//! where a reported or recovered position is higher than the survivor's, or may be. It is given only to a member of the newest Primary
//! view, and this process must itself have seen that view ([`super::prime`]).

use std::time::Duration;

use super::action::Action;
use super::bootstrap::{Answer, Candidate, Decision, Disk, Word, decide};
use super::position::Left;
use super::reports::{own, primary};
use super::settings::BootstrapPolicy;
use super::state::{Galera, Phase, Proof};
use super::status::GaleraStatus;
use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::time::Now;

/// Members report "non-Primary" for a moment whenever they agree on their next view.
const CALM: Duration = Duration::from_secs(1);
/// The pause between two tries; it doubles with each. A proof may start a server for a moment (--wsrep-recover), which is in the way of
/// somebody who wants to start the node.
const TRY_GAP: Duration = Duration::from_secs(5);
const TRY_GAP_MAX: Duration = Duration::from_secs(60);
/// A proof is valid for this long: after that, somebody may have started the node.
const PROOF_AGE_MAX: Duration = Duration::from_secs(5);
/// This much of that time is kept for the order; a proof that is older is asked for again first.
const ORDER_MARGIN: Duration = Duration::from_secs(1);
/// In one try, old proofs are asked for again at most this often.
const ROUNDS_MAX: u32 = 3;
/// The time limit of the order.
const ORDER_DEADLINE: Duration = Duration::from_secs(10);
/// The shell enforces the deadlines; its answer may arrive this much later.
const ANSWER_SLACK: Duration = Duration::from_secs(1);

/// The nodes that are left, and those that are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standstill {
    pub survivors: Vec<NodeId>,
    pub gone: Vec<NodeId>,
}

impl Galera {
    /// Why the cluster is left without a Primary component; shown with each node that is left.
    pub(super) fn not_revived(&self, core: &Core, id: NodeId) -> Option<String> {
        let is_left = own(core.node(id)).is_some_and(|status| !status.is_primary());
        self.revival.said.clone().filter(|_| is_left)
    }

    /// Takes the next step.
    pub(super) fn revive(&mut self, core: &mut Core) {
        if core.settings.galera.bootstrap != BootstrapPolicy::Proven {
            return;
        }
        let Some(standstill) = standstill(core) else {
            self.no_standstill(core);
            return;
        };
        let since = *self.revival.since.get_or_insert(core.now);
        if core.now.saturating_sub(since) < CALM {
            return;
        }
        match self.revival.phase.clone() {
            Phase::Idle if core.now >= self.revival.after => match self.history(core, &standstill) {
                Ok(()) => self.begin_try(core, &standstill),
                Err(why) => self.leave(core, &why),
            },
            Phase::Checking { since, proofs } if fresh(core, &standstill, since) => {
                self.check(core, &standstill, &proofs);
            }
            _ => {}
        }
        self.give_up_waiting(core);
    }

    /// Some node is in a Primary component, or it cannot be excluded at this moment. Proofs are discarded.
    fn no_standstill(&mut self, core: &mut Core) {
        self.revival.since = None;
        match self.revival.phase {
            // Its answer is awaited: the cluster may have become Primary by the order.
            Phase::Ordered { .. } => return self.give_up_waiting(core),
            Phase::Idle => {}
            Phase::Proving { .. } | Phase::Checking { .. } => {
                self.revival.phase = Phase::Idle;
                self.revival.after = core.now + TRY_GAP;
            }
        }
        if core.nodes.ids().any(|id| core.node(id).linked && primary(core.node(id))) {
            if self.revival.failures > 0 {
                // The pauses of an outage that has ended do not apply to the next one.
                self.revival.after = core.now;
            }
            self.revival.failures = 0;
            self.revival.said = None;
        }
    }

    fn begin_try(&mut self, core: &mut Core, standstill: &Standstill) {
        let text = format!(
            "{} left without a Primary component: asking for proof that {} not run",
            names(core, &standstill.survivors, ("is", "are")),
            names(core, &standstill.gone, ("does", "do"))
        );
        core.say(Level::Warn, text);
        self.revival.rounds = 0;
        self.ask_for_proofs(core, standstill.gone.clone(), Vec::new());
    }

    /// Asks for the proofs of `nodes`; `proofs` are there already.
    fn ask_for_proofs(&mut self, core: &mut Core, nodes: Vec<NodeId>, proofs: Vec<Proof>) {
        self.revival.number += 1;
        self.revival.rounds += 1;
        let (number, within) = (self.revival.number, core.settings.galera.proof_deadline);
        for node in nodes.iter().copied() {
            core.out.push(Action::Prove { number, node, within }.into());
        }
        self.revival.phase = Phase::Proving { since: core.now, open: nodes, proofs, failed: None };
    }

    /// The result of a proof.
    pub(super) fn proof(&mut self, core: &mut Core, number: u64, node: NodeId, proof: Result<Left, String>) {
        let at = core.now;
        let Phase::Proving { open, proofs, failed, .. } = &mut self.revival.phase else { return };
        if number != self.revival.number || !open.contains(&node) {
            return;
        }
        open.retain(|asked| *asked != node);
        match proof {
            Ok(left) => proofs.push(Proof { node, left, at }),
            Err(why) => {
                failed.get_or_insert_with(|| format!("{} is not proven to be dead: {why}", core.name(node)));
            }
        }
        if !open.is_empty() {
            return;
        }
        if let Some(why) = failed.take() {
            return self.leave(core, &why);
        }
        let proofs = std::mem::take(proofs);
        self.revival.phase = Phase::Checking { since: core.now, proofs };
        for id in core.nodes.ids() {
            if core.node(id).linked {
                core.ask_probe(id);
            }
        }
    }

    /// All deaths are proven, and each survivor has reported its status since.
    fn check(&mut self, core: &mut Core, standstill: &Standstill, proofs: &[Proof]) {
        let age = |proof: &Proof| core.now.saturating_sub(proof.at);
        let is_fresh = |proof: &&Proof| age(proof) + ORDER_MARGIN <= PROOF_AGE_MAX;
        let (kept, old): (Vec<&Proof>, Vec<&Proof>) = proofs.iter().partition(is_fresh);
        if !old.is_empty() {
            let nodes: Vec<NodeId> = old.iter().map(|proof| proof.node).collect();
            if self.revival.rounds >= ROUNDS_MAX {
                let text = format!(
                    "the proof of {} was too old again when the last one was there ({} times): proof_command takes too long",
                    core.name(nodes[0]),
                    self.revival.rounds
                );
                return self.leave(core, &text);
            }
            return self.ask_for_proofs(core, nodes, kept.into_iter().cloned().collect());
        }
        let oldest = proofs.iter().map(age).max().unwrap_or(PROOF_AGE_MAX);
        match self.assessment(core, standstill, proofs) {
            Err(why) => self.leave(core, &why),
            Ok(via) => {
                let Some(status) = own(core.node(via)) else { return };
                let (gcomm_uuid, size) = (status.gcomm_uuid.clone(), status.cluster_size);
                let position = status.last_committed;
                self.revival.number += 1;
                self.revival.phase = Phase::Ordered { since: core.now, via };
                self.revival.said = None;
                let text = format!(
                    "{} proven not to run, and nothing on their disks is newer than what {} has ({position}): bootstrapping it",
                    names(core, &standstill.gone, ("is", "are")),
                    core.name(via)
                );
                core.say(Level::Warn, text);
                let order = Action::Bootstrap {
                    number: self.revival.number,
                    via,
                    gcomm_uuid,
                    size,
                    gone: standstill.gone.clone(),
                    begin_within: PROOF_AGE_MAX.saturating_sub(oldest),
                    within: ORDER_DEADLINE,
                };
                core.out.push(order.into());
            }
        }
    }

    /// The result of the order.
    pub(super) fn bootstrapped(&mut self, core: &mut Core, number: u64, failed: Option<&str>) {
        let Phase::Ordered { via, .. } = self.revival.phase else { return };
        if number != self.revival.number {
            return;
        }
        match failed {
            None => {
                self.revival.done += 1;
                self.revival.phase = Phase::Idle;
                self.revival.after = core.now + TRY_GAP;
                self.revival.said = None;
                let text = format!("{} is a Primary component again (pc.bootstrap)", core.name(via));
                core.say(Level::Warn, text);
            }
            Some(why) => {
                let text = format!("it could not be ordered: {why}");
                self.leave(core, &text);
            }
        }
    }

    /// Nothing is done for a while; the reason is logged once.
    fn leave(&mut self, core: &mut Core, why: &str) {
        self.revival.phase = Phase::Idle;
        let gap = TRY_GAP.saturating_mul(1 << self.revival.failures.min(10));
        self.revival.after = core.now + gap.min(TRY_GAP_MAX);
        self.revival.failures += 1;
        let text = format!(
            "the cluster has no Primary component, and none is bootstrapped: {why}. `understudy recovery bootstrap` says what can be done"
        );
        if self.revival.said.as_ref() != Some(&text) {
            core.say(Level::Error, text.clone());
            self.revival.said = Some(text);
        }
    }

    /// An answer that does not come is given up after its deadline.
    fn give_up_waiting(&mut self, core: &mut Core) {
        let (since, limit) = match self.revival.phase {
            Phase::Idle => return,
            Phase::Proving { since, .. } => (since, core.settings.galera.proof_deadline),
            Phase::Checking { since, .. } => (since, PROOF_AGE_MAX),
            Phase::Ordered { since, .. } => (since, ORDER_DEADLINE),
        };
        if core.now.saturating_sub(since) > limit + ANSWER_SLACK {
            self.leave(core, "no answer in time");
        }
    }

    /// The node that gets the order, or why none does.
    fn assessment(&self, core: &Core, standstill: &Standstill, proofs: &[Proof]) -> Result<NodeId, String> {
        self.history(core, standstill)?;
        let candidate = |id: NodeId| {
            let proof = proofs.iter().find(|proof| proof.node == id);
            let word = match (own(core.node(id)).filter(|_| standstill.survivors.contains(&id)), proof) {
                (Some(status), _) => Word::Answers(answer(status)),
                (None, Some(proof)) => Word::Stopped(Disk::Read(proof.left.clone())),
                (None, None) => Word::Silent("no proof".to_owned()),
            };
            Candidate { name: core.name(id).to_owned(), address: core.node(id).address.clone(), word }
        };
        let nodes: Vec<Candidate> = core.nodes.ids().map(candidate).collect();
        let place = match decide(&nodes, core.component.as_ref()).map_err(|refusal| refusal.condition)? {
            Decision::Survivor { via, .. } => via,
            Decision::Start { .. } => return Err("no node answers".to_owned()),
        };
        let via = core.nodes.ids().nth(place).ok_or("no such node")?;
        let has = own(core.node(via)).map_or(0, |status| status.last_committed);
        for id in core.nodes.ids() {
            let Some(reported) = own(core.node(id)).map(|status| status.last_committed) else { continue };
            if reported > has {
                let name = core.name(via);
                return Err(format!(
                    "{} has reported the position {reported}, and {name} has {has}",
                    core.name(id)
                ));
            }
            if let Some(Proof { left, .. }) = proofs.iter().find(|proof| proof.node == id)
                && self
                    .member(id)
                    .prime
                    .as_ref()
                    .is_some_and(|prime| prime.cluster_uuid == left.position.uuid)
                && left.position.seqno < reported
            {
                return Err(format!(
                    "{} has reported the position {reported}, and its disk has {}: something that it acknowledged may be lost there",
                    core.name(id),
                    left.position.seqno
                ));
            }
        }
        Ok(via)
    }
}

/// The nodes, if no Primary component is visible: some answer and say that they are in none, and all others are gone.
fn standstill(core: &Core) -> Option<Standstill> {
    let mut standstill = Standstill { survivors: Vec::new(), gone: Vec::new() };
    for id in core.nodes.ids() {
        let node = core.node(id);
        if !node.linked {
            standstill.gone.push(id);
            continue;
        }
        let is_apart =
            own(node).is_some_and(|status| status.cluster_status.eq_ignore_ascii_case("non-Primary"));
        // Its report counts only while it answers.
        if !is_apart || node.counts.misses > 0 || node.doubt.is_some() {
            return None;
        }
        standstill.survivors.push(id);
    }
    (!standstill.survivors.is_empty() && !standstill.gone.is_empty()).then_some(standstill)
}

/// Whether each survivor has answered a question that was sent after `since`.
fn fresh(core: &Core, standstill: &Standstill, since: Now) -> bool {
    standstill.survivors.iter().all(|id| core.node(*id).answered_since(since))
}

fn answer(status: &GaleraStatus) -> Answer {
    Answer {
        cluster_status: status.cluster_status.clone(),
        uuid: status.cluster_uuid.clone(),
        last_committed: status.last_committed,
        recv_queue: status.recv_queue,
        size: status.cluster_size,
        conf_id: status.conf_id,
        gcomm_uuid: status.gcomm_uuid.clone(),
    }
}

/// "db1 and db2 are".
fn names(core: &Core, nodes: &[NodeId], (one, many): (&str, &str)) -> String {
    let names: Vec<&str> = nodes.iter().map(|id| core.name(*id)).collect();
    format!("{} {}", names.join(" and "), if names.len() == 1 { one } else { many })
}

//! Whether a node is in the writer's component ([`super::component`]) or in another one.
//!
//! A node that somebody bootstrapped alone is Primary, too, and numbers its views and write sets by itself. Its numbers say nothing beside
//! those of the writer's component: it lacks what was acknowledged there.
//!
//! ```text
//!   a Primary view (its members: `members`; some may be unknown)
//!                  ─ other state UUID ──────────────────────────────────────────────> another cluster: refused
//!                  ─ same; processes of the component still run ─ none is in it ────> another cluster: refused
//!                  │                                            ├ it is not known ──> not used until it is
//!                  │                                            └ one is in it ─────> the component as it is now
//!                  ├ same; none is known to run, and not all nodes have been asked ─────> not used until they have
//!                  └ same; none runs any more ─ none of its nodes is in it, or one
//!                                             │ that was seen in another cluster ────> another cluster: refused
//!                                             └ one is (all were stopped, and it was bootstrapped) ─> the component as it is now
//!   the barrier: a new writer must have at least the last write set that the component is known to have had
//! ```
//!
//! Where nothing is remembered yet, the component is the writer's, or one with more than half of the configured nodes; while two are seen and
//! neither is, both are refused. An operator's word (undrain) takes another component for the cluster.

use std::time::Duration;

use super::action::Action;
use super::component::{Component, Process, have_joined_another};
use super::members::Members;
use super::reports::own;
use super::state::Galera;
use super::status::GaleraStatus;
use crate::NodeId;
use crate::action::Level;
use crate::belief::Belief;
use crate::core::Core;
use crate::finding::{Finding, Problem};
use crate::routes::LaneState;

/// How often the last write set is written to disk at the most.
const REMEMBER_GAP: Duration = Duration::from_secs(1);

/// What a view is to the writer's component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// The component as it is now.
    Continues,
    /// Another cluster's.
    Apart,
    /// Which of the two it is depends on members that are unknown, or on whether a process of the component runs that was not asked yet.
    Unknown,
}

impl Process {
    /// It still runs, and has not left the group, as far as it can be asked. One that shuts down leaves first, and takes a while to end.
    fn runs(&self, core: &Core) -> bool {
        let node = core.nodes.iter().find(|node| node.linked && node.address == self.address);
        let status = node.and_then(own).filter(|status| status.connected);
        !self.gcomm_uuid.is_empty() && status.is_some_and(|status| status.gcomm_uuid == self.gcomm_uuid)
    }

    /// Its node has not been asked yet, so that it may run.
    fn is_unasked(&self, core: &Core) -> bool {
        let is_it = |node: &&Belief| {
            node.address == self.address
                && node.status.is_none()
                && node.finding.problem == Problem::Unchecked
        };
        !self.gcomm_uuid.is_empty() && core.nodes.iter().any(|node| is_it(&node))
    }

    /// Nothing that its node says shows that it is not a member of this view.
    fn may_be_in(&self, core: &Core, view: &Component) -> bool {
        let node = core.nodes.iter().find(|node| node.linked && node.address == self.address);
        node.and_then(own).is_none_or(|status| {
            let is_it = self.gcomm_uuid.is_empty() || status.gcomm_uuid == self.gcomm_uuid;
            is_it && status.is_primary() && status.cluster_uuid == view.cluster_uuid
        })
    }
}

impl Component {
    /// The view that a node reports. `None` unless the node is a member of a Primary component, and is itself among the members by the address
    /// that is configured for it. One that still joins shows who is in the view as well as any; how far it has come says nothing.
    fn of(core: &Core, node: &Belief, status: &GaleraStatus) -> Option<Self> {
        let Members { addresses, unknown } = Members::of(core, node, status);
        let told =
            status.is_primary() && !status.cluster_uuid.is_empty() && addresses.contains(&node.address);
        let process = |address: &String| {
            let reports = |node: &&Belief| node.address == *address;
            let own_word = if node.address == *address {
                Some(status)
            } else {
                let told = core.nodes.iter().find(reports).filter(|node| node.linked).and_then(own);
                told.filter(|told| told.is_primary() && told.is_in_view_of(status))
            };
            let gcomm_uuid = own_word.map_or_else(String::new, |word| word.gcomm_uuid.clone());
            let listed_as = own_word.map(|word| &word.listed_as).filter(|listed| *listed != address);
            Process {
                address: address.clone(),
                gcomm_uuid,
                listed_as: listed_as.cloned().unwrap_or_default(),
            }
        };
        told.then(|| Self {
            cluster_uuid: status.cluster_uuid.clone(),
            conf_id: status.conf_id,
            seqno: if status.is_whole() { status.last_committed } else { 0 },
            size: status.cluster_size,
            members: addresses.iter().map(process).collect(),
            unknown,
            elsewhere: Vec::new(),
        })
    }

    /// What is known of it once a view that continues it was reported: the same one, or the next one.
    fn followed_by(&self, core: &Core, view: Self) -> Self {
        let seqno = self.seqno.max(view.seqno);
        let mut next = Self { seqno, ..view };
        // A process that was not heard from this view is still the one that was heard from the view before.
        for member in &mut next.members {
            let Some(before) = self.members.iter().find(|before| before.address == member.address) else {
                continue;
            };
            if member.gcomm_uuid.is_empty() {
                member.gcomm_uuid.clone_from(&before.gcomm_uuid);
            }
            if member.listed_as.is_empty() {
                member.listed_as.clone_from(&before.listed_as);
            }
        }
        if next.unknown > 0 {
            let may_be = self
                .members
                .iter()
                .filter(|before| !next.has(&before.address) && before.may_be_in(core, &next));
            let may_be: Vec<Process> = may_be.cloned().collect();
            next.members.extend(may_be);
        }
        next
    }

    /// The configured nodes among its members.
    fn names<'a>(&self, core: &'a Core) -> Vec<&'a str> {
        core.nodes.iter().filter(|node| self.has(&node.address)).map(|node| node.name.as_str()).collect()
    }

    fn is_majority(&self, core: &Core) -> bool {
        self.names(core).len() * 2 > core.nodes.len()
    }

    /// The addresses of its processes that still run, as far as they can be asked.
    fn running<'a>(&'a self, core: &'a Core) -> impl Iterator<Item = &'a str> {
        self.members.iter().filter(|member| member.runs(core)).map(|member| member.address.as_str())
    }

    /// What that view is to this component.
    fn relation(&self, core: &Core, view: &Self) -> Relation {
        if self.cluster_uuid != view.cluster_uuid {
            return Relation::Apart;
        }
        let does_run = self.running(core).next().is_some();
        if !does_run && (self.other_in(core, view).is_some() || self.has_unasked(core)) {
            return Relation::Unknown;
        }
        if self.leads_to(self.running(core), |address| view.has(address)) {
            return Relation::Continues;
        }
        // Of this component's own view all members are known, and none of them is there.
        let is_beside_it = self.unknown == 0 && self.has_numbers_of(view) && does_run;
        let has_one_of_another = self.elsewhere.iter().any(|address| view.has(address));
        if view.unknown == 0 || is_beside_it || has_one_of_another {
            Relation::Apart
        } else {
            Relation::Unknown
        }
    }

    /// The name of a node that was in another cluster, and may be among the unknown members of that view.
    fn other_in<'a>(&self, core: &'a Core, view: &Self) -> Option<&'a str> {
        let is_other = |node: &&Belief| {
            let is_primary = node.linked && own(node).is_some_and(GaleraStatus::is_primary);
            is_primary && self.elsewhere.contains(&node.address) && !view.has(&node.address)
        };
        core.nodes.iter().find(is_other).filter(|_| view.unknown > 0).map(|node| node.name.as_str())
    }

    fn has_unasked(&self, core: &Core) -> bool {
        self.members.iter().any(|member| member.is_unasked(core))
    }
}

impl Galera {
    /// Takes in a node's last status.
    pub(super) fn note_component(&mut self, core: &mut Core, id: NodeId) {
        self.recognize(core, id);
        let node = core.node(id);
        // What a node said before its link ended is not judged anew by what is known since: its process may be gone.
        let told = own(node).filter(|_| node.linked);
        let Some(view) = told.and_then(|status| Component::of(core, node, status)) else { return };
        let mut back = Vec::new();
        let now = match known(core) {
            None => (core.writer == Some(id) || view.is_majority(core)).then_some(view),
            Some(known) => match known.relation(core, &view) {
                Relation::Continues => {
                    let (here, elsewhere): (Vec<String>, Vec<String>) =
                        known.elsewhere.iter().cloned().partition(|address| view.has(address));
                    let is_same_view = known.is_same_view(&view);
                    let next = Component { elsewhere, ..known.followed_by(core, view) };
                    Some(if is_same_view || may_tell(core, id, known, &next) {
                        back = here;
                        next
                    } else {
                        Component { seqno: next.seqno, ..known.clone() }
                    })
                }
                Relation::Unknown => None,
                Relation::Apart => {
                    let mut left = known.clone();
                    if !left.elsewhere.contains(&node.address) {
                        left.elsewhere.push(node.address.clone());
                    }
                    Some(left)
                }
            },
        };
        if let Some(now) = now {
            self.remember(core, now);
        }
        let is_back = |node: &&Belief| back.contains(&node.address);
        let names: Vec<String> = core.nodes.iter().filter(is_back).map(|node| node.name.clone()).collect();
        for name in names {
            let text = format!(
                "{name}, which was in another cluster, is back: unless it took a full copy (its grastate.dat was removed before the start), it may \
                 have write sets of its own under the numbers of others; then stop it, remove that file, and start it"
            );
            core.say(Level::Warn, text);
        }
    }

    /// A remembered member that was listed by an address that nobody had told is this node, when the node says that it is listed so.
    fn recognize(&mut self, core: &mut Core, id: NodeId) {
        let node = core.node(id);
        let listed_as = own(node).map_or("", |status| status.listed_as.as_str());
        let is_configured = core.nodes.iter().any(|node| node.address == listed_as);
        let Some(known) = core.component.as_ref().filter(|known| known.has(listed_as) && !is_configured)
        else {
            return;
        };
        let mut renamed = known.clone();
        let is_there = renamed.has(&node.address);
        for member in renamed.members.iter_mut().filter(|member| member.address == listed_as && !is_there) {
            member.address.clone_from(&node.address);
            member.listed_as = listed_as.to_owned();
        }
        self.remember(core, renamed);
    }

    /// A view is written to disk at once, its last write set once a second.
    fn remember(&mut self, core: &mut Core, now: Component) {
        if core.component.as_ref() == Some(&now) {
            return;
        }
        let is_next_view = core
            .component
            .as_ref()
            .is_none_or(|before| Component { seqno: now.seqno, ..before.clone() } != now);
        if is_next_view || core.now >= self.remember_after {
            self.remember_after = core.now + REMEMBER_GAP;
            core.out.push(Action::Remember { component: now.clone() }.into());
        }
        core.component = Some(now);
    }

    /// It is not known yet whether it is in the writer's component.
    pub(super) fn is_unplaced(&self, id: NodeId) -> bool {
        self.member(id).apart.as_ref().is_some_and(|finding| finding.problem == Problem::Unplaced)
    }

    /// Judges each node by what is remembered now.
    pub(super) fn find_apart(&mut self, core: &Core) {
        // What was found of a server that is ending, or whose link has ended, holds until it is linked again, or says more.
        let is_listless = |status: &GaleraStatus| status.is_primary() && status.is_listless();
        for id in core.nodes.ids() {
            let node = core.node(id);
            if node.linked && !own(node).is_some_and(is_listless) {
                self.member_mut(id).apart = apart(core, id);
            }
        }
    }

    /// An operator's word that this node's component is the cluster. `None` if nothing speaks against that without it.
    ///
    /// # Errors
    /// Clients write in the other one, or the node does not say at this moment in which it is.
    pub(super) fn accept_component(&mut self, core: &mut Core, id: NodeId) -> Option<Result<(), String>> {
        let node = core.node(id);
        let open = core.nodes.iter().find(|other| other.lane == LaneState::Open);
        let status = own(node).filter(|status| node.linked && status.is_whole());
        let view = status.and_then(|status| Component::of(core, node, status));
        let is_in_question = match &view {
            Some(view) => {
                let lacks = open.is_none() && known(core).is_some_and(|known| view.seqno < known.seqno);
                lacks || apart(core, id).is_some()
            }
            // A drained node is undrained all the same: it takes no sessions before it has been placed.
            None => self.member(id).apart.is_some() && node.sessions_max != Some(0),
        };
        if !is_in_question {
            return None;
        }
        if let Some(open) = open {
            return Some(Err(format!(
                "clients write on {}, which is in the other cluster: stop that one first, or let {} join it",
                open.name, node.name
            )));
        }
        let Some(view) = view else {
            let name = &node.name;
            return Some(Err(format!(
                "{name} does not tell its component at this moment: try again when it answers"
            )));
        };
        self.remember(core, view);
        Some(Ok(()))
    }
}

/// What is said of a node that is a member of a Primary component which is not the writer's.
fn apart(core: &Core, id: NodeId) -> Option<Finding> {
    let node = core.node(id);
    let name = &node.name;
    let view = Component::of(core, node, own(node).filter(|_| node.linked)?)?;
    let Some(known) = known(core) else {
        let rival = rival(core, &view)?;
        let sentence = format!(
            "there are two clusters: it is Primary without {rival}, which is Primary without it, and which has the last acknowledged writes is \
             not known. Stop the ones that lack them, remove their grastate.dat, and start them, so that they take a full copy, or say which is the cluster: understudy undrain {name}, or {rival}"
        );
        return Some(Problem::TwoClusters.found(sentence));
    };
    match known.relation(core, &view) {
        Relation::Continues => return None,
        Relation::Unknown => return Some(unplaced(core, known, &view, name)),
        Relation::Apart => {}
    }
    let is_missing = |name: &&str| !view.names(core).contains(name);
    let others: Vec<&str> = known.names(core).into_iter().filter(is_missing).collect();
    let have_joined = others.is_empty();
    let others = if have_joined { known.names(core) } else { others }.join(", ");
    let sentence = if known.cluster_uuid == view.cluster_uuid && have_joined {
        format!("{}. To go on with what is there: understudy undrain {name}", have_joined_another(&others))
    } else if known.cluster_uuid == view.cluster_uuid {
        format!(
            "there are two clusters: it is Primary without {others}, which had the last acknowledged writes. Stop it, remove its grastate.dat, \
             and start it, so that it takes a full copy of theirs; or, only if what they alone have is to be given up, stop them: understudy undrain {name}"
        )
    } else {
        format!(
            "there are two clusters: its state UUID is {}, and that of {others}, which had the last acknowledged writes, is {}. Stop it, remove its \
             grastate.dat, and start it, so that it takes a full copy of theirs; or, only if it is to be the cluster, stop them: understudy undrain {name}",
            view.cluster_uuid, known.cluster_uuid
        )
    };
    Some(Problem::TwoClusters.found(sentence))
}

/// What is said of a node as long as it is not known whether it is in the writer's component.
fn unplaced(core: &Core, known: &Component, view: &Component, name: &str) -> Finding {
    let others = known.names(core).join(", ");
    let does_run = known.running(core).next().is_some();
    let why = match known.other_in(core, view) {
        _ if !does_run && known.has_unasked(core) => "not all nodes of that have answered".to_owned(),
        Some(other) if !does_run => format!(
            "wsrep_incoming_addresses does not name the members, and {other}, which was in another cluster, may be one of them. Stop {other}; or, \
             only if this is to be the cluster: understudy undrain {name}"
        ),
        _ => format!(
            "wsrep_incoming_addresses does not name the members, and not all of them have told that they are in the same view. If that stays so, \
             and this is to be the cluster: understudy undrain {name}"
        ),
    };
    let sentence =
        format!("is Primary, and whether in the component that {others} were in is not known yet: {why}");
    Problem::Unplaced.found(sentence)
}

/// What is remembered. One whose members are not configured any more says nothing.
fn known(core: &Core) -> Option<&Component> {
    core.component.as_ref().filter(|known| !known.names(core).is_empty())
}

/// Whether this node's view takes the place of the known one. While the writer is heard, it alone says who is in its component: another
/// member's list may be without it for a moment.
fn may_tell(core: &Core, id: NodeId, known: &Component, view: &Component) -> bool {
    // Views are counted from 1 again after the whole cluster was stopped: then none of those processes runs any more.
    let is_newer = view.conf_id > known.conf_id || known.running(core).next().is_none();
    let is_heard = |writer: NodeId| {
        let node = core.node(writer);
        let view = own(node).filter(|_| node.linked && node.doubt.is_none());
        let view = view.and_then(|status| Component::of(core, node, status));
        view.is_some_and(|view| known.relation(core, &view) == Relation::Continues)
    };
    match core.writer {
        Some(writer) if writer == id => true,
        Some(writer) => is_newer && !is_heard(writer),
        None => is_newer,
    }
}

/// The name of a node that is Primary in another component than this one, where nothing is remembered: one with as many nodes, or more.
fn rival<'a>(core: &'a Core, view: &Component) -> Option<&'a str> {
    core.nodes.ids().map(|id| core.node(id)).find_map(|other| {
        let seen = Component::of(core, other, own(other).filter(|_| other.linked)?)?;
        let is_known = seen.unknown == 0 || view.unknown == 0;
        let is_apart = seen.cluster_uuid != view.cluster_uuid || (is_known && !seen.shares_a_node_with(view));
        (is_apart && seen.names(core).len() >= view.names(core).len()).then_some(other.name.as_str())
    })
}

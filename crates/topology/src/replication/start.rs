//! Which server is the primary when this process has just started.
//!
//! ```text
//!   nothing on disk   the writable server; if none is writable, the one that the others follow
//!   a writer on disk  that server if it is writable; the one it follows, if that is writable; otherwise as after a loss
//! ```
//!
//! Invariant: no server is made writable before all that answer were heard. At the first start, when nothing is known of the primary, a
//! server whose primary does not answer is not promoted.

use protocol::gtid::History;

use super::external::is_external;
use super::sight::{answers, applied, history, ours, own, ring, writes};
use super::{Replication, words};
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::finding::{NodeState, Serves};
use crate::group::Heir;

impl Replication {
    /// Who is to write. `time_up`: servers that have not answered by now are not waited for.
    pub fn start(&mut self, core: &mut Core, time_up: bool) -> Heir {
        if is_external(core) {
            return if time_up {
                self.follow_writable(core)
            } else {
                Heir::Soon("not every server has been heard yet".into())
            };
        }
        let heir = self.first_primary(core, time_up);
        let Heir::This(to) = heir else { return heir };
        let others = ids(&core.nodes).any(|id| id != to && writes(core.node(id)));
        if core.settings.replication.dry_run && (others || !writes(core.node(to))) {
            let text = format!(
                "{} would be made the only primary; dry_run is set, and nothing is done",
                core.name(to)
            );
            return Heir::Nobody(text);
        }
        heir
    }

    fn first_primary(&mut self, core: &mut Core, time_up: bool) -> Heir {
        let Some(last) = core.writer else { return first(core, time_up) };
        // This process may have been stopped meanwhile, so a server that was not heard is not known to be gone.
        let time_up = time_up && core.nodes.iter().all(|node| node.assessment.state != NodeState::Unknown);
        let node = core.node(last);
        let is_settled = node.doubt.is_none() && !node.drained() && node.assessment.serves != Serves::No;
        if is_settled && writes(node) {
            return Heir::This(last);
        }
        if !time_up || node.doubt.is_some() || node.assessment.state == NodeState::Unknown {
            return Heir::Soon(format!("{} wrote before this start: it is being asked", node.name));
        }
        if let Some(other) = took_its_place(core, last) {
            return Heir::This(other);
        }
        if let Some(names) = ring(core, last) {
            return Heir::Nobody(format!("the primary cannot be told: {}", in_ring(core, last, &names)));
        }
        self.heir(core, root_of(core, last), false)
    }
}

/// The server at the root of the replication tree above `last`: a server that follows another is not the primary.
pub(super) fn root_of(core: &Core, last: NodeId) -> NodeId {
    // Bounded, as servers may follow each other in a ring.
    ids(&core.nodes).fold(last, |root, _| source_of(core, root).unwrap_or(root))
}

/// The server that it follows.
fn source_of(core: &Core, last: NodeId) -> Option<NodeId> {
    let source = &own(core.node(last)).filter(|_| answers(core.node(last)))?.source()?.source;
    ids(&core.nodes).find(|id| core.node(*id).address == *source)
}

/// The only writable server, if the last writer follows it: somebody else moved the primary.
fn took_its_place(core: &Core, last: NodeId) -> Option<NodeId> {
    let source = source_of(core, last)?;
    let mut writing = ids(&core.nodes).filter(|id| writes(core.node(*id)));
    let only = writing.next().filter(|id| *id == source)?;
    let is_usable = !core.node(only).drained() && own(core.node(only)).is_some_and(|status| !status.galera);
    (writing.next().is_none() && is_usable).then_some(only)
}

/// The case with nothing on disk.
fn first(core: &Core, time_up: bool) -> Heir {
    let all: Vec<NodeId> = ids(&core.nodes).collect();
    let silent: Vec<&str> =
        core.nodes.iter().filter(|node| !answers(node)).map(|node| node.name.as_str()).collect();
    if !time_up {
        return Heir::Soon("not every server has been heard yet".into());
    }
    let galera: Vec<&str> = core
        .nodes
        .iter()
        .filter(|node| answers(node) && own(node).is_some_and(|status| status.galera))
        .map(|node| node.name.as_str())
        .collect();
    if !galera.is_empty() {
        let (names, verb) =
            (galera.join(" and "), if galera.len() == 1 { "is a Galera node" } else { "are Galera nodes" });
        return Heir::Nobody(format!("{names} {verb}, and cluster.kind is \"replication\": set \"galera\""));
    }
    let writing: Vec<NodeId> = all.iter().copied().filter(|id| writes(core.node(*id))).collect();
    let elsewhere = |root: NodeId| {
        core.nodes.iter().find_map(|node| {
            let source = &own(node)?.source()?.source;
            let other = core.nodes.iter().find(|other| other.address == *source)?;
            (other.name != core.name(root)).then(|| format!("{} follows {}", node.name, other.name))
        })
    };
    match &*writing {
        [one] if core.node(*one).assessment.serves == Serves::No => {
            Heir::Nobody(format!("no server can write: {}", core.why_nobody()))
        }
        [one] => match elsewhere(*one) {
            None => Heir::This(*one),
            Some(who) => Heir::Nobody(format!(
                "{} is writable, but {who}: which is the primary cannot be told at the first start",
                core.name(*one)
            )),
        },
        [] if !silent.is_empty() => Heir::Nobody(format!(
            "no server is writable, and {} cannot be asked: nobody is promoted at the first start",
            silent.join(" and ")
        )),
        [] => root(core, &all),
        several => {
            let names: Vec<&str> = several.iter().map(|id| core.name(*id)).collect();
            Heir::Nobody(format!(
                "the primary cannot be told: {} are writable and follow nobody; make all but one read only",
                names.join(" and ")
            ))
        }
    }
}

/// All servers answer and none is writable: the one that all others follow, or that has all that they have.
fn root(core: &Core, all: &[NodeId]) -> Heir {
    let alone = |id: &NodeId| own(core.node(*id)).is_some_and(|status| status.channels.is_empty());
    let follows = |id: NodeId, root: NodeId| {
        let source = own(core.node(id)).and_then(|status| status.source());
        source.is_some_and(|channel| channel.source == core.node(root).address)
    };
    let has_all = |root: NodeId| {
        let Some(mine) = own(core.node(root)).map(applied) else { return false };
        let has = |theirs: History| theirs.minus(&mine).is_ok_and(|lacks| lacks.is_empty());
        all.iter().all(|id| own(core.node(*id)).and_then(history).is_none_or(has))
    };
    let roots: Vec<NodeId> = all.iter().copied().filter(alone).collect();
    let nobody_follows = roots.len() == all.len();
    let fits = |root: NodeId| {
        core.node(root).assessment.serves != Serves::No
            && !core.node(root).drained()
            && has_all(root)
            && (nobody_follows
                || (roots.len() == 1 && all.iter().all(|id| *id == root || follows(*id, root))))
    };
    let best = roots
        .iter()
        .copied()
        .filter(|id| fits(*id))
        .min_by_key(|id| (u32::MAX - core.node(*id).priority, *id));
    match best {
        Some(best) => Heir::This(best),
        None => Heir::Nobody(rootless(core, all)),
    }
}

/// Why no server can be the primary, where all answer and none is writable.
fn rootless(core: &Core, all: &[NodeId]) -> String {
    if let Some((id, names)) = all.iter().find_map(|id| Some((*id, ring(core, *id)?))) {
        return format!("the primary cannot be told: {}", in_ring(core, id, &names));
    }
    let stranger = all.iter().find_map(|id| {
        let source = &own(core.node(*id))?.source()?.source;
        ours(core, source).is_none().then(|| {
            format!(
                "no server is writable, and {} follows {source}, which is no server of this cluster: put that one in the configuration",
                core.name(*id)
            )
        })
    });
    stranger.unwrap_or_else(|| {
        "no server is writable, and none is there that all others follow and that has all they have: make the primary writable".into()
    })
}

/// A sentence about servers that follow each other in a ring; `id` is one of them.
fn in_ring(core: &Core, id: NodeId, names: &str) -> String {
    let alone = words::alone(own(core.node(id)).map(|status| status.dialect).unwrap_or_default());
    format!(
        "{names}: a ring; on the one that is to be the primary, once it has applied what it received, run {alone}; SET GLOBAL read_only = OFF"
    )
}

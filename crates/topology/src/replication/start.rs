//! Which server is the primary when this process has just started.
//!
//! ```text
//!   nothing on disk   the writable server; if none is writable, the one that the others follow, also through each other
//!   a writer on disk  that server if it is writable; the one it follows, if that is writable; otherwise as after a loss
//! ```
//!
//! Invariant: no server is made writable before all that answer were heard. At the first start, when nothing is known of the primary, a
//! server whose primary does not answer is not promoted without an order, and an order does not promote one that has less than another that
//! answers.

use super::most::{self, Held};
use super::reports::{answers, follows_stranger, ours, own, ring, writes, wrote};
use super::state::Replication;
use super::words;
use crate::NodeId;
use crate::belief::Belief;
use crate::core::Core;
use crate::finding::{NodeState, Serves};
use crate::group::{Choose, Heir};

impl Replication {
    /// Who is to write. `time_up`: servers that have not answered by now are not waited for.
    pub(super) fn who_starts(&mut self, core: &mut Core, time_up: bool) -> Heir {
        if core.settings.replication.is_external() {
            return if time_up {
                self.follow_writable(core)
            } else {
                Heir::Soon("not every server has been heard yet".into())
            };
        }
        // An operator's order of a first start is being carried out.
        if let Some(to) = self.forced.filter(|to| core.writer.is_none() && answers(core.node(*to))) {
            return Heir::This(to);
        }
        let heir = self.first_primary(core, time_up);
        let Heir::This(to) = heir else { return heir };
        let others = core.nodes.ids().any(|id| id != to && writes(core.node(id)));
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
        let time_up = time_up && core.nodes.iter().all(|node| node.finding.state != NodeState::Unknown);
        let node = core.node(last);
        let is_settled = node.doubt.is_none() && !node.drained() && node.finding.serves != Serves::No;
        if is_settled && writes(node) {
            return Heir::This(last);
        }
        if !time_up || node.doubt.is_some() || node.finding.state == NodeState::Unknown {
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

impl Replication {
    /// Who becomes the primary by an operator's order while none is known: a server that has all that the others have which answer. `force`:
    /// although a server does not answer, which may have more.
    ///
    /// # Errors
    /// Why none may.
    pub(super) fn first_ordered(
        &mut self,
        core: &Core,
        to: Option<NodeId>,
        force: bool,
    ) -> Result<NodeId, String> {
        let (all, held, first) = held(core);
        let best = most::most(&held);
        let to = match to {
            Some(to) => to,
            None => {
                let fits = |place: &&usize| {
                    best.contains(place) && most::unfit(held[**place].status, !force).is_none()
                };
                all[*first.iter().find(fits).ok_or_else(|| core.hold.clone())?]
            }
        };
        let Some(place) = all.iter().position(|id| *id == to) else {
            let why = if core.node(to).drained() { "is drained" } else { &*core.node(to).finding.sentence };
            return Err(format!("{} {why}: {}", core.name(to), core.hold));
        };
        if let Some(why) = most::unfit(held[place].status, !force) {
            return Err(format!("{} cannot become the primary: it {why}", core.name(to)));
        }
        if !best.contains(&place) {
            return Err(format!(
                "{} is not made the primary, also with force, as it has not all that others have which answer: {}",
                core.name(to),
                most::advice(&held, &first, &silent(core))
            ));
        }
        let follows_stranger = follows_stranger(core, held[place].status);
        if !force && (follows_stranger || !silent(core).is_empty()) {
            return Err(core.hold.clone());
        }
        self.forced = Some(to);
        Ok(to)
    }
}

/// The server at the root of the replication tree above `last`: a server that follows another is not the primary.
pub(super) fn root_of(core: &Core, last: NodeId) -> NodeId {
    // Bounded, as servers may follow each other in a ring.
    core.nodes.ids().fold(last, |root, _| source_of(core, root).unwrap_or(root))
}

/// The server that it follows.
fn source_of(core: &Core, last: NodeId) -> Option<NodeId> {
    let source = &own(core.node(last)).filter(|_| answers(core.node(last)))?.source()?.source;
    core.nodes.ids().find(|id| core.node(*id).address == *source)
}

/// The only writable server, if the last writer follows it: somebody else moved the primary.
fn took_its_place(core: &Core, last: NodeId) -> Option<NodeId> {
    let source = source_of(core, last)?;
    let mut writing = core.nodes.ids().filter(|id| writes(core.node(*id)));
    let only = writing.next().filter(|id| *id == source)?;
    let is_usable = !core.node(only).drained() && own(core.node(only)).is_some_and(|status| !status.galera);
    (writing.next().is_none() && is_usable).then_some(only)
}

/// The case with nothing on disk.
fn first(core: &mut Core, time_up: bool) -> Heir {
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
    let writing: Vec<NodeId> = core.nodes.ids().filter(|id| writes(core.node(*id))).collect();
    match &*writing {
        [one] if core.node(*one).finding.serves == Serves::No => {
            Heir::Nobody(format!("no server can write: {}", core.why_nobody()))
        }
        [one] => the_writable(core, *one),
        [] => root(core),
        several => {
            let names: Vec<&str> = several.iter().map(|id| core.name(*id)).collect();
            Heir::Nobody(format!(
                "the primary cannot be told: {} are writable and follow nobody; make all but one read only, or order a switchover to the one that is to be kept; {}",
                names.join(" and "),
                advice(core)
            ))
        }
    }
}

/// One server is writable. It is the primary if all that answer follow it, also through others; if it has all of its own that others have or
/// had; and, where a server is silent, if at least one follows it: otherwise the silent one may have taken its place.
fn the_writable(core: &mut Core, one: NodeId) -> Heir {
    let others: Vec<NodeId> = core.nodes.ids().filter(|id| *id != one && !core.node(*id).drained()).collect();
    let follows = |id: NodeId| source_of(core, id).is_some() && root_of(core, id) == one;
    let elsewhere = core.nodes.ids().find_map(|id| {
        let source = source_of(core, id)?;
        (!follows(id)).then(|| format!("but {} follows {}", core.name(id), core.name(source)))
    });
    let silent = silent(core);
    let wrote = || {
        let it = others.iter().map(|id| core.node(*id)).find(|node| !answers(node) && wrote(node))?;
        Some(format!("but {} was, too, and cannot be asked now", it.name))
    };
    let alone = || {
        let is_alone = !silent.is_empty() && !others.iter().any(|id| follows(*id));
        is_alone.then(|| {
            format!("but no server that answers follows it, and {} cannot be asked", silent.join(" and "))
        })
    };
    if let Some(why) = elsewhere.or_else(wrote).or_else(alone) {
        return Heir::Nobody(format!(
            "{} is writable, {why}: which is the primary cannot be told at the first start; {}",
            core.name(one),
            advice(core)
        ));
    }
    let mine = own(core.node(one));
    let lost = others.iter().find_map(|id| Some((*id, most::lost_of_its_own(mine?, own(core.node(*id))?)?)));
    let Some((other, lost)) = lost else { return Heir::This(one) };
    // It may have written that since it was asked.
    let heard = core.node(other).answered_at.unwrap_or_default();
    if !core.node(one).answered_since(heard) {
        core.ask_probe(one);
        return Heir::Soon(format!(
            "{} is writable, and {} has more than it had: it is asked again",
            core.name(one),
            core.name(other)
        ));
    }
    Heir::Nobody(format!(
        "{} is writable, and lacks {lost} of its own, which {} has: it is not opened at the first start; {}",
        core.name(one),
        core.name(other),
        advice(core)
    ))
}

/// The servers that answer and that no operator has drained, and those of them that an order names first.
fn held(core: &Core) -> (Vec<NodeId>, Vec<Held<'_>>, Vec<usize>) {
    let counts = |id: &NodeId| !core.node(*id).drained() && answers(core.node(*id));
    let all: Vec<NodeId> =
        core.nodes.ids().filter(counts).filter(|id| own(core.node(*id)).is_some()).collect();
    let held = all.iter().filter_map(|id| Some(Held { name: core.name(*id), status: own(core.node(*id))? }));
    let held = held.collect();
    let mut first: Vec<usize> = (0..all.len()).collect();
    first.sort_by_key(|place| {
        let node = core.node(all[*place]);
        (!writes(node), u32::MAX - node.priority, *place)
    });
    (all, held, first)
}

/// The servers that cannot be asked, and that no operator has drained.
fn silent(core: &Core) -> Vec<&str> {
    let counts = |node: &&Belief| !answers(node) && !node.drained();
    core.nodes.iter().filter(counts).map(|node| node.name.as_str()).collect()
}

/// Who has most, and what an operator can order.
fn advice(core: &Core) -> String {
    let (_, held, first) = held(core);
    most::advice(&held, &first, &silent(core))
}

/// No server is writable. If all answer: the one that all others follow, also through each other, or that has all that they have.
fn root(core: &Core) -> Heir {
    let away: Vec<&str> =
        core.nodes.iter().filter(|node| !answers(node)).map(|node| node.name.as_str()).collect();
    if !away.is_empty() {
        return Heir::Nobody(format!(
            "no server is writable, and {} cannot be asked: nobody is promoted at the first start; {}",
            away.join(" and "),
            advice(core)
        ));
    }
    let all: Vec<NodeId> = core.nodes.ids().collect();
    let alone = |id: &NodeId| own(core.node(*id)).is_some_and(|status| status.channels.is_empty());
    let has_all = |root: NodeId| {
        let Some(mine) = own(core.node(root)) else { return false };
        // What a replica has received and not applied may be all that is left of what was acknowledged.
        all.iter().filter_map(|id| own(core.node(*id))).all(|theirs| most::lacking(mine, theirs).is_none())
    };
    let roots: Vec<NodeId> = all.iter().copied().filter(alone).collect();
    let nobody_follows = roots.len() == all.len();
    let fits = |root: NodeId| {
        core.node(root).finding.serves != Serves::No
            && !core.node(root).drained()
            && has_all(root)
            && (nobody_follows || (roots.len() == 1 && all.iter().all(|id| root_of(core, *id) == root)))
    };
    let best =
        roots.iter().copied().filter(|id| fits(*id)).min_by_key(|id| u32::MAX - core.node(*id).priority);
    match best {
        Some(best) => Heir::This(best),
        None => Heir::Nobody(rootless(core, &all)),
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
        format!(
            "no server is writable, and none is there that all others follow and that has all they have; {}",
            advice(core)
        )
    })
}

/// A sentence about servers that follow each other in a ring; `id` is one of them.
fn in_ring(core: &Core, id: NodeId, names: &str) -> String {
    let alone = words::alone(own(core.node(id)).map(|status| status.dialect).unwrap_or_default());
    format!(
        "{names}: a ring; on the one that is to be the primary, once it has applied what it received, run {alone}; SET GLOBAL read_only = OFF"
    )
}

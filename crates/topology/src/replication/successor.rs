//! Who takes over from a primary that is lost, and what that may lose.
//!
//! ```text
//!   every server that answers has spoken since the loss ─> nobody that may have acknowledged more is missing ─> the most advanced
//! ```
//!
//! What was received counts, since it is applied before a promotion. With semi-synchronous replication a server that cannot be asked, and may
//! have acknowledged what no other has, holds everything up: an operator may drain it, or order a switchover by force.

use protocol::gtid::Position;

use super::Replication;
use super::settings::FailoverPolicy;
use super::sight::{answers, own};
use super::witness::Veto;
use crate::NodeId;
use crate::core::Core;
use crate::election::ids;
use crate::finding::{NodeState, Serves};
use crate::group::Heir;
use crate::problem::seconds;

/// Names as a list for sentences.
fn names(core: &Core, ids: &[NodeId]) -> String {
    ids.iter().map(|id| core.name(*id)).collect::<Vec<_>>().join(" and ")
}

impl Replication {
    /// Who takes over from `lost` by itself.
    pub fn heir(&mut self, core: &mut Core, lost: NodeId) -> Heir {
        match self.veto(core, lost) {
            Some(Veto::Lives { why, serves }) => return Heir::Stay { why, serves },
            Some(Veto::Waits) => {
                let node = core.node(lost);
                let what = "its replicas are asked whether they still receive from it";
                return Heir::Soon(format!("{} {}: {what}", node.name, node.verdict.reason));
            }
            None => {}
        }
        match self.choose(core, lost, None) {
            Heir::This(to) => match self.forbidden(core, lost, to) {
                Some(why) => Heir::Nobody(why),
                None => Heir::This(to),
            },
            other => other,
        }
    }

    /// Why `to` may not take over without an order.
    fn forbidden(&self, core: &Core, lost: NodeId, to: NodeId) -> Option<String> {
        let settings = &core.settings.replication;
        let recent = self.failed_over.is_some_and(|at| core.now.saturating_sub(at) < settings.failover_gap);
        let why = if settings.dry_run {
            "dry_run is set, and nothing is done".to_owned()
        } else if settings.failover == FailoverPolicy::Manual {
            "failover is \"manual\", so order the switchover".to_owned()
        } else if recent && to != lost {
            let gap = seconds(settings.failover_gap);
            format!("the last failover is less than {gap} ago, so order the switchover, or wait")
        } else {
            return None;
        };
        let node = core.node(lost);
        let price = self.price(core, lost, to);
        Some(format!(
            "{} {}: {} would take over{price}; {why}",
            node.name,
            node.verdict.reason,
            core.name(to)
        ))
    }

    /// The most advanced of those that may. `failed` has just tried in vain: another is taken when it has as much.
    pub fn choose(&mut self, core: &mut Core, lost: NodeId, failed: Option<NodeId>) -> Heir {
        self.lost_since = self.lost_since.max(core.node(lost).lost_at);
        if let Some(wait) = self.unheard(core, lost) {
            return Heir::Soon(wait);
        }
        let waited = self.waited(core);
        if waited && let Some(held) = self.missing(core, lost) {
            return held;
        }
        let best = ids(&core.nodes)
            .filter(|id| self.is_eligible(core, *id, lost))
            .map(|id| (self.ahead_of(core, id), id))
            .min_by_key(|(ahead, id)| {
                let node = core.node(*id);
                let well = node.verdict.serves == Serves::Well;
                (ahead.len(), failed == Some(*id), !well, *id != lost, u32::MAX - node.priority, *id)
            });
        let Some((ahead, best)) = best else {
            return Heir::Nobody(format!("no server can take over: {}", core.why_nobody()));
        };
        let split = ahead.iter().any(|other| self.is_split(core, best, *other));
        if !ahead.is_empty() && (waited || split) {
            let others = names(core, &ahead);
            let why: Vec<&str> = ahead.iter().map(|id| &*core.node(*id).verdict.reason).collect();
            return Heir::Nobody(format!(
                "{others} has transactions that {} has not, and cannot take over ({}): nothing is moved",
                core.name(best),
                why.join("; ")
            ));
        }
        Heir::This(best)
    }

    /// Who is ordered to take over from `lost`; `force`: whatever that loses.
    ///
    /// # Errors
    /// Why nobody may.
    pub fn ordered(
        &mut self,
        core: &mut Core,
        lost: NodeId,
        to: Option<NodeId>,
        force: bool,
    ) -> Result<NodeId, String> {
        if let Some(to) = to.filter(|_| force) {
            let works = own(core.node(to)).is_some_and(|status| !status.galera && status.log_bin);
            return if works && answers(core.node(to)) {
                Ok(to)
            } else {
                Err(format!("{} cannot become the primary: {}", core.name(to), core.node(to).verdict.reason))
            };
        }
        match self.veto(core, lost) {
            Some(Veto::Lives { why, .. }) => return Err(why),
            Some(Veto::Waits) => return Err("its replicas are being asked: try again".into()),
            None => {}
        }
        let best = match self.choose(core, lost, None) {
            Heir::This(best) => best,
            Heir::Soon(why) | Heir::Nobody(why) => return Err(why),
            Heir::Any | Heir::Stay { .. } => return Err("nobody can be chosen".into()),
        };
        match to {
            Some(to) if to == best => Ok(to),
            Some(to) if self.is_eligible(core, to, lost) && self.ahead_of(core, to).is_empty() => Ok(to),
            Some(to) => Err(format!(
                "{} is to take over, and not {}, which {}; only force takes it all the same",
                core.name(best),
                core.name(to),
                if self.ahead_of(core, to).is_empty() { &*core.node(to).verdict.reason } else { "has less" }
            )),
            None => Ok(best),
        }
    }

    /// A failover was decided on.
    pub fn failed_over(&mut self, core: &Core) {
        self.failed_over = Some(core.now);
    }

    /// Somebody who answers has not spoken since the loss.
    fn unheard(&self, core: &mut Core, lost: NodeId) -> Option<String> {
        let since = self.lost_since.unwrap_or_default();
        let late: Vec<NodeId> = ids(&core.nodes)
            .filter(|id| *id != lost && !core.node(*id).verdict.gone)
            .filter(|id| {
                let node = core.node(*id);
                let is_late = node.linked && !(since.is_zero() || node.answered_since(since));
                node.doubt.is_some() || (node.linked && node.status.is_none()) || is_late
            })
            .collect();
        for id in late.iter().copied().filter(|id| core.node(*id).linked).collect::<Vec<_>>() {
            core.ask_probe(id);
        }
        (!late.is_empty()).then(|| {
            let node = core.node(lost);
            format!("{} {}: {} is asked what it has", node.name, node.verdict.reason, names(core, &late))
        })
    }

    /// With semi-synchronous replication: somebody cannot be asked, and may have acknowledged what nobody else has.
    fn missing(&self, core: &Core, lost: NodeId) -> Option<Heir> {
        let here = ids(&core.nodes).filter(|id| *id != lost && answers(core.node(*id)));
        let acknowledges =
            |id: &NodeId| own(core.node(*id)).is_some_and(|status| status.semi_sync.replica_enabled);
        let heard = here.filter(acknowledges).count();
        let missing = ids(&core.nodes).find(|id| {
            let node = core.node(*id);
            if *id == lost || answers(node) || node.drained() {
                return false;
            }
            // The primary's own count was without it when it was gone already.
            let counted = self.last_word.as_ref().is_some_and(|word| {
                let gone_before = node.lost_at.is_some_and(|at| at < word.asked);
                gone_before && word.acknowledging as usize <= heard
            });
            !counted
        })?;
        let (node, primary) = (core.node(missing), core.node(lost));
        let is_definite =
            matches!(node.verdict.state, NodeState::Dead | NodeState::Silent) || node.rejected.is_some();
        let text = format!(
            "{} {}, and {}, which cannot be asked, may have acknowledged what no other server has: drain it to go on without",
            primary.name, primary.verdict.reason, node.name
        );
        Some(if is_definite { Heir::Nobody(text) } else { Heir::Soon(text) })
    }

    /// Commits waited for a replica, or may have.
    fn waited(&self, core: &Core) -> bool {
        match &self.last_word {
            Some(word) => word.waited,
            None => core.nodes.iter().filter_map(own).any(|status| status.semi_sync.replica_enabled),
        }
    }

    fn is_eligible(&self, core: &Core, id: NodeId, lost: NodeId) -> bool {
        let (node, server) = (core.node(id), self.server(id));
        let Some(status) = own(node).filter(|_| answers(node)) else { return false };
        let problem = node.verdict.problem;
        let was_told = server.may_write.is_some();
        let is_fit = node.verdict.serves != Serves::No
            || (id == lost && problem == "read_only")
            || (was_told && problem == "stray");
        let followed = status.source().is_some_and(|channel| channel.source == core.node(lost).address);
        let has_all = || {
            let last = self.last_word.as_ref()?.position.as_ref()?;
            status.has()?.contains(last).ok()
        };
        is_fit
            && !node.drained()
            && node.doubt.is_none()
            && node.counts.misses == 0
            && status.position.is_some()
            && (id == lost || followed || was_told || has_all() == Some(true))
    }

    /// Those that have something that `id` has not. Errant ones do not count.
    fn ahead_of(&self, core: &Core, id: NodeId) -> Vec<NodeId> {
        let Some(mine) = has(core, id) else { return Vec::new() };
        ids(&core.nodes)
            .filter(|other| *other != id && self.server(*other).errant.is_none())
            .filter(|other| has(core, *other).is_some_and(|theirs| !mine.contains(&theirs).unwrap_or(false)))
            .collect()
    }

    /// Both have a transaction of the same number that the other has not.
    fn is_split(&self, core: &Core, one: NodeId, other: NodeId) -> bool {
        has(core, one).zip(has(core, other)).is_some_and(|(one, other)| one.union(&other).is_err())
    }

    /// What is lost when `to` takes over from `lost`, to follow a sentence.
    pub fn price(&self, core: &Core, lost: NodeId, to: NodeId) -> String {
        if to == lost {
            return "; no other server has more".into();
        }
        let primary = core.name(lost);
        let Some(word) = &self.last_word else {
            return format!("; what {primary} wrote last is not known");
        };
        if word.waited {
            return format!(
                "; nothing that was acknowledged is lost, as {primary} waited for a replica and no other has more"
            );
        }
        let since = self.lost_since.unwrap_or(core.now).saturating_sub(word.asked);
        let gap = word.position.as_ref().zip(has(core, to)).and_then(|(last, has)| has.behind_by(last).ok());
        let later = format!("what {primary} wrote in the {} after its last word", seconds(since));
        match gap.map(|gap| gap.total()) {
            None => format!("; what {primary} wrote last is not known"),
            Some(0) => format!("; {later} may be lost"),
            Some(1) => format!("; 1 transaction of {primary} is not on it, and {later} may be lost, too"),
            Some(count) => {
                format!("; {count} transactions of {primary} are not on it, and {later} may be lost, too")
            }
        }
    }
}

/// All that a server that answers has, applied or received.
fn has(core: &Core, id: NodeId) -> Option<Position> {
    let node = core.node(id);
    own(node).filter(|_| answers(node))?.has()
}

//! Chooses the server that takes over from a lost primary, and says what the takeover may lose.
//!
//! ```text
//!   every server that answers has answered again since the loss ─> none of them still receives from the primary
//!   ─> no server that may have acknowledged more is missing ─> the most advanced one takes over
//! ```
//!
//! Received transactions count, since they are applied before a promotion. With semi-synchronous replication, a server that cannot be asked
//! may have acknowledged what no other server has. The failover then waits, until that server answers, an operator drains it, or an
//! operator orders a switchover with force.

use std::time::Duration;

use protocol::gtid::{Family, History, Order, Origin, Position};

use super::channel::Channel;
use super::reconnect_test::Veto;
use super::reports::{all_of, answers, has_each, history, own};
use super::settings::FailoverPolicy;
use super::state::{Fence, Replication};
use super::status::ReplicationStatus;
use super::words;
use crate::NodeId;
use crate::action::Level;
use crate::belief::Belief;
use crate::core::Core;
use crate::finding::{NodeState, Problem, Serves};
use crate::group::{ByForce, Choose, Heir, Relief};
use crate::time::seconds;

/// What leads on where the primary has lost transactions, and no other may take over.
const WAY_OUT: &str = "; an order with force to the one whose data is right makes it the primary";

/// Node names joined for a sentence.
fn names(core: &Core, ids: &[NodeId]) -> String {
    ids.iter().map(|id| core.name(*id)).collect::<Vec<_>>().join(" and ")
}

impl Choose for Replication {
    fn has_primary(&self) -> bool {
        true
    }

    fn start(&mut self, core: &mut Core, time_up: bool) -> Heir {
        self.who_starts(core, time_up)
    }

    /// Who takes over from `lost`. `ordered`: an operator has ordered the primary to be moved, so that the failover settings do not forbid it.
    fn heir(&mut self, core: &mut Core, lost: NodeId, ordered: bool) -> Heir {
        if core.settings.replication.is_external() {
            return self.follow_from(core, lost);
        }
        match self.veto(core, lost) {
            Some(Veto::Lives { why, serves }) => return Heir::Stay { why, serves },
            Some(Veto::Waits) => {
                let node = core.node(lost);
                let what = "its replicas are asked whether they still receive from it";
                return Heir::Soon(format!("{} {}: {what}", node.name, node.finding.sentence));
            }
            None => {}
        }
        match self.choose(core, lost, None) {
            Heir::This(to) => match self.forbidden(core, lost, to).filter(|_| !ordered) {
                Some(why) => Heir::Nobody(why),
                None => Heir::This(to),
            },
            other => other,
        }
    }

    fn next_heir(&mut self, core: &mut Core, lost: Option<NodeId>, failed: NodeId) -> Heir {
        let Some(writer) = lost else { return self.who_starts(core, true) };
        match self.replaced(core).unwrap_or(writer) {
            // It was to continue as the writer: another in its place is a failover as any other.
            lost if lost == failed => self.heir(core, lost, false),
            lost => self.choose(core, lost, Some(failed)),
        }
    }

    fn relief(&mut self, core: &mut Core, writer: NodeId) -> Relief {
        match self.heir(core, writer, false) {
            Heir::This(to) if to != writer => Relief::Clear,
            Heir::Soon(_) => Relief::Soon,
            Heir::Nobody(why) | Heir::Stay { why, .. } => Relief::None(why),
            Heir::Any | Heir::This(_) => Relief::None("nobody can be chosen".into()),
        }
    }

    /// It is a failover, which has its own gap.
    fn relief_gap(&self) -> Duration {
        Duration::ZERO
    }

    fn ordered(
        &mut self,
        core: &mut Core,
        lost: NodeId,
        to: Option<NodeId>,
        force: bool,
    ) -> Option<Result<NodeId, String>> {
        Some(self.chosen_by_order(core, lost, to, force))
    }

    fn by_force(&mut self, core: &Core, primary: NodeId, to: NodeId) -> Option<Result<ByForce, String>> {
        self.moved_by_force(core, primary, to)
    }

    fn force_is_over(&mut self) {
        (self.forced, self.left_at) = (None, None);
    }

    fn first_by_order(
        &mut self,
        core: &Core,
        to: Option<NodeId>,
        force: bool,
    ) -> Option<Result<NodeId, String>> {
        Some(self.first_ordered(core, to, force))
    }

    fn has_order_of_first(&self) -> bool {
        self.forced.is_some()
    }

    fn first_failed(&mut self) {
        self.forced = None;
        self.fence = None;
    }

    fn hands_over(&self, core: &Core) -> bool {
        let settings = &core.settings.replication;
        !settings.dry_run && settings.failover == FailoverPolicy::Automatic
    }

    fn follows(&self, core: &Core) -> bool {
        core.settings.replication.is_external()
    }

    fn announce(&mut self, announced: bool) {
        self.writable.announced = announced;
    }

    /// What may be lost when `to` takes over from `lost`: a clause to follow a sentence.
    fn price(&self, core: &Core, lost: NodeId, to: NodeId) -> String {
        if core.settings.replication.is_external() {
            return String::new();
        }
        // Clients may have been served until now, even though the primary did not answer this process.
        let since = self.last_word.as_ref().map_or(core.now, |word| word.asked);
        let within = format!("in the {} ", seconds(core.now.saturating_sub(since)));
        self.price_of(core, lost, to, &within)
    }
}

impl Replication {
    /// Why the settings do not allow `to` to take over without an operator's order; `None` when they allow it.
    fn forbidden(&self, core: &Core, lost: NodeId, to: NodeId) -> Option<String> {
        let settings = &core.settings.replication;
        let recent = core.failed_over.is_some_and(|at| at.ago(core.now) < settings.failover_gap);
        // If `to` is the writer already, this is the same failover, begun before a restart of this process and continued now.
        let recent = recent && core.writer != Some(to);
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
        let price = self.price_of(core, lost, to, "");
        Some(format!(
            "{} {}: {} would take over{price}; {why}",
            node.name,
            node.finding.sentence,
            core.name(to)
        ))
    }

    /// The most advanced server among those that may take over. `failed` has just failed to: a server that has as much is preferred to it.
    pub fn choose(&mut self, core: &mut Core, lost: NodeId, failed: Option<NodeId>) -> Heir {
        if core.settings.replication.is_external() {
            return self.follow_writable(core);
        }
        self.lost_since = self.lost_since.max(core.node(lost).lost_at);
        if let Some(wait) = self.unheard(core, lost) {
            return Heir::Soon(wait);
        }
        if let Some(wait) = self.still_receiving(core, lost) {
            return wait;
        }
        let waited = self.waited(core);
        if waited && let Some(held) = self.missing(core, lost) {
            return held;
        }
        let best = core
            .nodes
            .ids()
            .filter(|id| self.is_eligible(core, *id, lost))
            .map(|id| (self.ahead_of(core, id, lost), id))
            .min_by_key(|(ahead, id)| {
                let node = core.node(*id);
                let well = node.finding.serves == Serves::Well;
                (ahead.len(), failed == Some(*id), !well, *id != lost, u32::MAX - node.priority)
            });
        let way = if is_at_an_end(core, lost) { WAY_OUT } else { "" };
        let Some((ahead, best)) = best else {
            return Heir::Nobody(format!("no server can take over: {}{way}", core.why_nobody()));
        };
        let split = ahead.iter().any(|other| self.is_split(core, best, *other));
        if !ahead.is_empty() && (waited || split) {
            let others = names(core, &ahead);
            let why: Vec<&str> = ahead.iter().map(|id| &*core.node(*id).finding.sentence).collect();
            let have = if ahead.len() == 1 { "has" } else { "have" };
            return Heir::Nobody(format!(
                "{others} {have} transactions that {} has not, and cannot take over ({}): nothing is moved{way}",
                core.name(best),
                why.join("; ")
            ));
        }
        match self.is_unproven(core, lost, best, waited) {
            Some(why) => Heir::Nobody(why),
            None => Heir::This(best),
        }
    }

    /// Why it is not certain that `best` has what the lost primary had when it became the primary, so that no other server can have
    /// received it since.
    fn is_unproven(&self, core: &Core, lost: NodeId, best: NodeId, waited: bool) -> Option<String> {
        // A lost primary that answers shows what it has. If it was given up in the middle of a commit, it may have more than it can still send,
        // but where commits waited for a replica, some replica has that too, unless both have lost it: it shows less than it had reported.
        let is_shown = if waited {
            self.lacks_remembered(core, lost).is_none()
        } else {
            !core.node(lost).pulse.has_broken_off()
        };
        if answers(core.node(lost)) && is_shown {
            return None;
        }
        let most = core.settings.replication.behind_max;
        let kept_up = self.server(best).kept_up;
        let behind = kept_up.zip(self.lost_since).map(|(at, lost)| lost.saturating_sub(at));
        let (name, primary) = (core.name(best), core.node(lost));
        let line = self.last_word.as_ref().and_then(|word| word.history.as_ref());
        let has_received = |it: &Position| {
            own(core.node(best)).is_some_and(|status| match line {
                Some(line) => all_of(status).holds_along(it, line),
                None => has_each(status, it),
            })
        };
        let acknowledged = self.last_word.as_ref().and_then(|word| word.acknowledged.as_ref());
        let why = match &self.base {
            _ if best == lost => match own(primary).and_then(|it| self.lacks_acknowledged(core, lost, it)) {
                Some(lacks) => format!("it lacks {lacks}"),
                None => return None,
            },
            None if waited => match self.acknowledged_before(core, lost, family(core, best)) {
                Ok(position) if has_received(&position) => return None,
                Ok(_) => {
                    format!("{name} has not all that a replica had acknowledged, and perhaps lost since")
                }
                Err(why) => why,
            },
            None => return None,
            Some(base) if !has_received(base) => {
                format!("{name} has not received yet what it had when it became the primary")
            }
            Some(_) if waited && !acknowledged.is_none_or(has_received) => {
                format!("{name} has not all that a replica had acknowledged, and perhaps lost since")
            }
            Some(_) => match behind.filter(|behind| *behind > most) {
                Some(behind) => format!("{name} had not kept up with it for {}", seconds(behind)),
                None => return None,
            },
        };
        Some(format!(
            "{} {}: {why}; {name} takes over only by an order with force",
            primary.name, primary.finding.sentence
        ))
    }

    /// Who takes over from `lost` by an operator's order. `force`: also if transactions are lost by that.
    ///
    /// # Errors
    /// Why no server may take over.
    fn chosen_by_order(
        &mut self,
        core: &mut Core,
        lost: NodeId,
        to: Option<NodeId>,
        force: bool,
    ) -> Result<NodeId, String> {
        if let Some(to) = to.filter(|_| force) {
            let node = core.node(to);
            let works = own(node).is_some_and(|status| !status.galera && status.log_bin);
            // What the lost primary itself cannot apply came from a source of another cluster.
            let cannot_apply = |status| words::cannot_apply(status).filter(|_| to != lost);
            let unfit =
                own(node).and_then(|status| words::unfit_to_stay(status).or_else(|| cannot_apply(status)));
            return if works && answers(node) && unfit.is_none() {
                self.forced = Some(to);
                Ok(to)
            } else {
                self.force_is_over();
                let why = unfit.map_or_else(|| node.finding.sentence.clone(), |unfit| unfit.sentence);
                Err(format!("{} cannot become the primary, also by force: {why}", core.name(to)))
            };
        }
        match self.veto(core, lost) {
            Some(Veto::Lives { why, .. }) => return Err(why),
            Some(Veto::Waits) => return Err("its replicas are being asked: try again".into()),
            None => {}
        }
        let best = match self.choose(core, lost, None) {
            Heir::This(best) => best,
            Heir::Soon(why) | Heir::Nobody(why) | Heir::Stay { why, .. } => return Err(why),
            Heir::Any => return Err("nobody can be chosen".into()),
        };
        match to {
            Some(to) if to == best => Ok(to),
            Some(to) if self.is_eligible(core, to, lost) && self.ahead_of(core, to, lost).is_empty() => {
                Ok(to)
            }
            Some(to) => Err(format!(
                "{} is to take over, and not {}, which {}; only force takes it all the same",
                core.name(best),
                core.name(to),
                if self.ahead_of(core, to, lost).is_empty() {
                    &*core.node(to).finding.sentence
                } else {
                    "has less"
                }
            )),
            None => Ok(best),
        }
    }

    /// Why the choice has to wait: a server that answers has not reported its status since the loss. It is asked now.
    fn unheard(&self, core: &mut Core, lost: NodeId) -> Option<String> {
        let since = self.lost_since.unwrap_or_default();
        let late: Vec<NodeId> = core
            .nodes
            .ids()
            .filter(|id| *id != lost && !core.node(*id).gone)
            .filter(|id| {
                let node = core.node(*id);
                let is_late = node.linked && !(since.is_zero() || node.answered_since(since));
                node.doubt.is_some() || node.finding.state == NodeState::Unknown || is_late
            })
            .collect();
        for id in late.iter().copied().filter(|id| core.node(*id).linked).collect::<Vec<_>>() {
            core.ask_probe(id);
        }
        (!late.is_empty()).then(|| {
            let node = core.node(lost);
            format!("{} {}: {} is asked what it has", node.name, node.finding.sentence, names(core, &late))
        })
    }

    /// With semi-synchronous replication: a server that cannot be asked may have acknowledged transactions that no other server has.
    fn missing(&self, core: &Core, lost: NodeId) -> Option<Heir> {
        // Some server here has all that the primary had in its last report, and a server that was lost before that report has acknowledged
        // nothing since.
        let has_all = self.last_word.as_ref().and_then(|word| word.position.as_ref()).is_some_and(|last| {
            core.nodes
                .iter()
                .filter(|node| answers(node))
                .filter_map(own)
                .any(|status| has_each(status, last))
        });
        let missing = core.nodes.ids().find(|id| {
            let node = core.node(*id);
            let is_here = *id == lost || answers(node) || node.drained();
            !(is_here || has_all && self.server(*id).left)
        })?;
        let (node, primary) = (core.node(missing), core.node(lost));
        let is_definite =
            matches!(node.finding.state, NodeState::Dead | NodeState::Silent) || node.rejected.is_some();
        let text = format!(
            "{} {}, and {}, which cannot be asked, may have acknowledged what no other server has: drain it to go on without",
            primary.name, primary.finding.sentence, node.name
        );
        Some(if is_definite { Heir::Nobody(text) } else { Heir::Soon(text) })
    }

    /// Whether commits on the lost primary waited for a replica's acknowledgement, or may have.
    pub(super) fn waited(&self, core: &Core) -> bool {
        match &self.last_word {
            Some(word) => word.waited,
            None => core.nodes.iter().filter_map(own).any(|status| status.semi_sync.replica_enabled),
        }
    }

    fn is_eligible(&self, core: &Core, id: NodeId, lost: NodeId) -> bool {
        let (node, server) = (core.node(id), self.server(id));
        let Some(status) = own(node).filter(|_| answers(node)) else { return false };
        let problem = node.finding.problem;
        // It was ordered to take over in the change that is in progress.
        let was_told = server.may_write.is_some_and(|term| term > core.term);
        let followed = status.source().is_some_and(|channel| channel.source == core.node(lost).address);
        // A lost primary that still answers takes no more writes, so its replicas can get nothing beyond its present position.
        let has_all = || {
            let theirs = own(core.node(lost)).filter(|_| answers(core.node(lost)));
            theirs.and_then(|theirs| theirs.position.as_ref()).is_some_and(|theirs| has_each(status, theirs))
        };
        let is_fit = node.finding.serves != Serves::No
            || (id == lost
                && matches!(problem, Problem::ReadOnly | Problem::Stray)
                && words::unfit_to_stay(status).is_none())
            || (problem == Problem::Stray && (was_told || has_all()) && words::unfit(status).is_none())
            || (problem == Problem::NotApplying && words::unfit(status).is_none())
            || (problem == Problem::OtherSource && (followed || has_all()) && words::unfit(status).is_none());
        // If a lost primary that answers has more than this server, this server must still be receiving it.
        let comes = || status.source().is_some_and(|channel| channel.io_running);
        let has_theirs = || {
            has(core, lost)
                .is_none_or(|theirs| status.has().is_some_and(|has| has.contains(&theirs) == Ok(true)))
        };
        is_fit
            && (id == lost || comes() || has_theirs() || core.node(lost).pulse.has_broken_off())
            && status.channels.iter().all(|channel| can_apply(status, channel))
            && !node.drained()
            && node.doubt.is_none()
            && node.counts.misses == 0
            && status.position.is_some()
            && (id == lost || followed || was_told || has_all())
    }

    /// The servers that have a transaction which `id` has not. Servers with errant transactions are left out, and so is `lost` if it was
    /// given up in the middle of a commit.
    pub(super) fn ahead_of(&self, core: &Core, id: NodeId, lost: NodeId) -> Vec<NodeId> {
        let counts = |other: &NodeId| {
            let is_half = *other == lost && core.node(lost).pulse.has_broken_off();
            *other != id
                && !is_half
                && self.server(*other).errant.is_none()
                && !core.node(*other).is_renumbered
        };
        let others = core.nodes.ids().filter(counts);
        others.filter(|other| self.is_ahead(core, *other, id, lost)).collect()
    }

    fn is_ahead(&self, core: &Core, other: NodeId, id: NodeId, lost: NodeId) -> bool {
        let word = |id: NodeId| own(core.node(id)).filter(|_| answers(core.node(id)));
        let (Some(mine), Some(theirs)) = (word(id), word(other)) else { return false };
        if let Some((primary, counts)) = self.measure(core, lost) {
            // What the primary had is no server's own.
            let theirs = all_of(theirs);
            let Ok(lacks) = theirs.minus(&all_of(mine).along(&theirs, |_| true)) else { return true };
            return !lacks.of(primary).is_empty() || lacks.is_any_in(&counts);
        }
        let (Some(mine), Some(theirs)) = (mine.has(), theirs.has()) else { return false };
        !mine.contains(&theirs).unwrap_or(false)
    }

    /// The primary's origin and the transactions it has, or had in its last report. A transaction of another origin that is not among them
    /// is errant. The primary was promoted at some time, since it follows no server, so it had all that was acknowledged before. If this
    /// process has restarted after it decided on a successor, the writer on disk is that successor, and `lost` is the primary.
    fn measure(&self, core: &Core, lost: NodeId) -> Option<(Origin, History)> {
        let promoted = |id: NodeId| {
            let status =
                own(core.node(id)).filter(|status| answers(core.node(id)) && status.channels.is_empty());
            status.and_then(|status| history(status).map(|history| (status.origin(), history)))
        };
        core.writer
            .and_then(promoted)
            .or_else(|| {
                let word = self.last_word.as_ref()?;
                word.history.clone().map(|history| (word.origin, history))
            })
            .or_else(|| {
                let to = core.writer.filter(|_| !self.decided)?;
                let (primary, history) = promoted(lost)?;
                // Unless the successor has taken writes already, and somebody has made it a replica since.
                let wrote = own(core.node(to)).filter(|_| answers(core.node(to))).is_some_and(|status| {
                    all_of(status).minus(&history).is_ok_and(|lacks| !lacks.of(status.origin()).is_empty())
                });
                (!wrote).then_some((primary, history))
            })
    }

    /// Each of the two has a transaction that the other has not. MariaDB shows that as different transactions of one number.
    fn is_split(&self, core: &Core, one: NodeId, other: NodeId) -> bool {
        has(core, one).zip(has(core, other)).is_some_and(|(one, other)| match (&one, &other) {
            (Position::MySql(one), Position::MySql(other)) => one.order(other) == Order::Diverged,
            _ => one.union(&other).is_err(),
        })
    }

    /// `within`: the time before the decision of which nothing is known; empty for a takeover that has not been decided.
    fn price_of(&self, core: &Core, lost: NodeId, to: NodeId, within: &str) -> String {
        if to == lost {
            return "; no other server that answers has more".into();
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
        let lacked = self.lacked_of_last(core, to);
        // The distance of two numbers says nothing where the server has others under the same numbers: it is behind, and its own last one is
        // none of the primary's, or numbers may have been given twice.
        let is_apart = |status: &ReplicationStatus, line: &History| {
            let is_behind = lacked.is_some_and(|count| count > 0);
            is_behind && has(core, to).is_some_and(|has| !line.holds(&has))
                || self.has_reverted && all_of(status).lacks_before_its_last(line)
        };
        let line = own(core.node(to)).zip(word.history.as_ref());
        if line.is_some_and(|(status, line)| is_apart(status, line)) {
            return format!("; how much of what {primary} wrote is not on it is not known");
        }
        let later = format!("what {primary} wrote {within}after its last word");
        match lacked {
            None => format!("; what {primary} wrote last is not known"),
            Some(0) => format!("; {later} may be lost"),
            Some(1) => format!("; 1 transaction of {primary} is not on it, and {later} may be lost, too"),
            Some(count) => {
                format!("; {count} transactions of {primary} are not on it, and {later} may be lost, too")
            }
        }
    }

    /// How many transactions the server lacks of what the primary had in its last report; `None` if that is not known.
    pub(super) fn lacked_of_last(&self, core: &Core, to: NodeId) -> Option<u128> {
        self.behind_last(&has(core, to)?)
    }

    fn behind_last(&self, has: &Position) -> Option<u128> {
        let last = self.last_word.as_ref()?.position.as_ref()?;
        Some(has.behind_by(last).ok()?.total())
    }

    /// The server that was chosen has reported this status. Had it restarted since, it may lack more than was said when it was chosen. It may be
    /// promoted because of this very report, so this one counts, and not the one before.
    pub(super) fn say_what_is_missing_now(
        &mut self,
        core: &mut Core,
        id: NodeId,
        status: &ReplicationStatus,
    ) {
        let waited = self.last_word.as_ref().is_some_and(|word| word.waited);
        let is_failover_to = |fence: &&Fence| fence.to == id && !fence.is_planned && !waited;
        let Some(fence) = self.fence.as_ref().filter(is_failover_to) else { return };
        let (Some(lost), Some(said)) = (fence.lost.filter(|lost| *lost != id), fence.missing_said) else {
            return;
        };
        let missing = status.has().and_then(|has| self.behind_last(&has));
        let Some(missing) = missing.filter(|missing| *missing > said) else { return };
        if let Some(fence) = &mut self.fence {
            fence.missing_said = Some(missing);
        }
        let text = format!(
            "{} has restarted since it was chosen: {missing} transactions of {} are not on it",
            core.name(id),
            core.name(lost)
        );
        core.say(Level::Warn, text);
    }
}

/// Whether the server applies what it has received, or has applied all of it. If its SQL thread was stopped before, it cannot be made to:
/// MariaDB deletes the relay logs when the threads start after a restart of the server.
pub(super) fn can_apply(status: &ReplicationStatus, channel: &Channel) -> bool {
    let is_at_rest = || {
        let applied = status.position.as_ref();
        channel.received().zip(applied).is_some_and(|(received, applied)| {
            channel.error.is_empty() && applied.contains(&received).unwrap_or(false)
        })
    };
    channel.sql_running || is_at_rest()
}

/// Which server has what was acknowledged cannot be told any more, and nothing will show it: none is silent, and none has received what it does not
/// apply.
fn is_at_an_end(core: &Core, lost: NodeId) -> bool {
    let applies =
        |status: &ReplicationStatus| status.channels.iter().all(|channel| can_apply(status, channel));
    let shows_all = |node: &Belief| node.drained() || answers(node) && own(node).is_none_or(applies);
    core.node(lost).finding.problem == Problem::LostTransactions && core.nodes.iter().all(shows_all)
}

fn family(core: &Core, id: NodeId) -> Family {
    own(core.node(id)).map(|status| status.dialect.family()).unwrap_or_default()
}

/// All that a server has, applied or received; `None` unless it answers.
fn has(core: &Core, id: NodeId) -> Option<Position> {
    let node = core.node(id);
    own(node).filter(|_| answers(node))?.has()
}

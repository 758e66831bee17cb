//! When the timers of a group that waits for a silent member are shortened for a moment ([`super::timers`] has which, and how).
//!
//! ```text
//!             a member is slow, all others answer           the group waits for somebody
//!   (nothing) ───────────────────────────────────> Asked ───────────────────────────────> Hurried ──┐
//!       ^                                            │ nobody is waited for                         │ the group goes on without it, or
//!       └────────────────────────────────────────────┴────── every member has its own back <────────┘ it answers, or time is up
//! ```
//!
//! Why: with its default settings Galera goes on without a member that is frozen or vanished after 5.3 to 10.3 s, and every commit waits with
//! it. Measured on MariaDB 10.11.19 / Galera 26.4.23, three nodes, default settings, writers on both survivors, the timers shortened
//! 0.3 s after the fault: 0.80 to 0.82 s in 17 of 33 trials, 1.1 to 1.3 s in the others; nobody is evicted, and the member comes back by
//! itself. What decides: a member looks around every `evs.inactive_check_period` (0.5 s, not to be changed at run time), and setting the
//! suspect timeout begins that period anew. The first survivor that finds the silent member suspect tells the others, and that again
//! begins their period anew: unless they look around within the time that its message takes (0.2 ms), they look 0.5 s later. Then the
//! shell presses: a survivor that has been talking about the next view for longer than the suspect timeout goes by what the others found.
//! With 0.3 s that is 1.1 to 1.2 s instead of 1.3 s.
//!
//! When not:
//!   - a living member. A slow answer to us is no silence to the group: the group is asked ([`super::question`]), and what all members
//!     acknowledge is waited for by nobody. A member that stands still for less than the 0.6 s of [`super::timers::Mode::Quick`] stays:
//!     with these timers in force all the time, none was lost in 160 s at a load of 10 to 20 on two processors, nor one that was stopped for
//!     0.4 and 0.5 s again and again;
//!   - a network of our own that is broken: every other member must have answered since, and they must be a majority;
//!   - a group with a member that cannot be told, such as an arbitrator: it would wait for the silent one as long as ever;
//!   - a member that is evicted (`evict = "silent"`), dead or on its way out: those are helped otherwise.
//!
//! Invariant: one at a time. Every order is answered by its end, and after it every member has its own values, or they are on disk.

use std::time::Duration;

use super::Galera;
use super::action::{Action, HurryEnd};
use super::evict::survivor;
use super::settings::{EvictPolicy, SilencePolicy};
use super::view::own;
use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::election::ids;
use crate::fact::Now;
use crate::finding::NodeState;
use crate::problem::seconds;

/// Nobody was waited for: that is asked again after this long, while the member is slow.
const ASK_GAP: Duration = Duration::from_millis(500);
/// After the group has gone on, its members' words must have come in.
const VIEW_GAP: Duration = Duration::from_secs(1);
/// What did not help, or could not be done, is not tried again at once.
const FAILED_GAP: Duration = Duration::from_secs(30);
/// Longer than any order takes, with all its deadlines.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// A hurry that was ordered.
#[derive(Clone, Debug)]
pub(super) struct Hurry {
    number: u64,
    silent: Vec<NodeId>,
    members: Vec<NodeId>,
    /// When the first question was sent that a silent one has not answered.
    since: Now,
    ordered: Now,
    hurried: bool,
    easing: bool,
}

impl Galera {
    /// A node is late with its answer to a question that was sent at `asked`.
    pub fn slow(&mut self, id: NodeId, asked: Now) {
        self.member_mut(id).slow_since.get_or_insert(asked);
    }

    /// Starts a hurry, or ends one.
    pub(super) fn hurry(&mut self, core: &mut Core) {
        match self.hurry.take() {
            Some(hurry) if core.now.saturating_sub(hurry.ordered) > LOST_AFTER => {}
            Some(mut hurry) => {
                if !hurry.easing && !self.still_waits(core, &hurry) {
                    hurry.easing = true;
                    core.out.push(Action::Ease { number: hurry.number }.into());
                }
                self.hurry = Some(hurry);
            }
            None => self.begin(core),
        }
    }

    /// A member is slow, and the others have yet to say whether it is only we who wait.
    pub(super) fn hurry_pending(&self, core: &Core) -> bool {
        self.hurry.is_none() && core.now >= self.hurry_after && self.in_question(core).is_some()
    }

    fn begin(&mut self, core: &mut Core) {
        if core.now < self.hurry_after {
            return;
        }
        let Some((silent, members, since)) = self.in_question(core) else { return };
        if !members.iter().all(|id| core.node(*id).answered_since(since)) {
            return;
        }
        let Some(view) = members.first().and_then(|id| own(core.node(*id))).map(|status| status.conf_id)
        else {
            return;
        };
        self.hurries += 1;
        let number = self.hurries;
        let (ordered, hurried, easing) = (core.now, false, false);
        core.out
            .push(Action::Hurry { number, silent: silent.clone(), members: members.clone(), view }.into());
        self.hurry = Some(Hurry { number, silent, members, since, ordered, hurried, easing });
    }

    /// Who is silent, who is there, and since when, if the others could go on and could all be told.
    fn in_question(&self, core: &Core) -> Option<(Vec<NodeId>, Vec<NodeId>, Now)> {
        let settings = &core.settings.galera;
        if settings.silence == SilencePolicy::Wait || settings.evict == EvictPolicy::Silent {
            return None;
        }
        let (silent, others): (Vec<_>, Vec<_>) =
            ids(&core.nodes).partition(|id| self.silent_since(core, *id).is_some());
        let since = silent.iter().filter_map(|id| self.silent_since(core, *id)).max()?;
        let members: Vec<_> = others.into_iter().filter(|id| survivor(core.node(*id))).collect();
        let first = own(core.node(*members.first()?))?;
        let size = first.cluster_size as usize;
        let of_one_view = members.iter().all(|id| {
            let view = own(core.node(*id)).map(|status| (status.conf_id, &status.cluster_uuid));
            view == Some((first.conf_id, &first.cluster_uuid))
                && silent.iter().all(|lost| self.lists(core, *id, *lost))
        });
        // Exactly these: a member that cannot be told would wait as long as ever.
        let all = members.len() + silent.len() == size;
        (of_one_view && all && members.len() * 2 > size).then_some((silent, members, since))
    }

    /// The first question that the node has not answered, if it is a member whose silence the group may wait for.
    fn silent_since(&self, core: &Core, id: NodeId) -> Option<Now> {
        let (node, member) = (core.node(id), self.member(id));
        let gone = member.left_view || !node.linked_once || node.leaving_since.is_some();
        let helped_otherwise = node.verdict.state == NodeState::Dead || node.verdict.problem == "left";
        self.unanswered_since(core, id).filter(|_| !gone && !helped_otherwise)
    }

    /// The first question that the node has not answered, as far as that counts.
    fn unanswered_since(&self, core: &Core, id: NodeId) -> Option<Now> {
        let counts = &core.node(id).counts;
        let missed = counts.missed_since.filter(|_| counts.misses > 0);
        if core.settings.events {
            [self.member(id).slow_since, missed].into_iter().flatten().min()
        } else {
            missed.filter(|_| counts.misses >= core.settings.misses_max)
        }
    }

    fn still_waits(&self, core: &Core, hurry: &Hurry) -> bool {
        let silent = hurry.silent.iter().all(|id| self.unanswered_since(core, *id).is_some());
        let there =
            |id: &NodeId| core.node(*id).linked && core.node(*id).counts.misses < core.settings.misses_max;
        silent && hurry.members.iter().all(there)
    }

    /// Every member that was told is set so.
    pub(super) fn hurried(&mut self, core: &mut Core, number: u64) {
        let Some(hurry) = self.hurry.as_mut().filter(|hurry| hurry.number == number) else { return };
        hurry.hurried = true;
        let text = format!(
            "{} has not answered for {}, and the group waits for it: the evs timers of {} are shortened until the group goes on",
            names(core, &hurry.silent),
            seconds(core.now.saturating_sub(hurry.since)),
            names(core, &hurry.members),
        );
        core.say(Level::Warn, text);
    }

    /// It is over.
    pub(super) fn hurry_ended(&mut self, core: &mut Core, number: u64, end: &HurryEnd) {
        let Some(hurry) = self.hurry.take_if(|hurry| hurry.number == number) else { return };
        let gap = match end {
            HurryEnd::Unneeded | HurryEnd::Eased => ASK_GAP,
            HurryEnd::GoesOn => VIEW_GAP,
            HurryEnd::Short | HurryEnd::TimeUp | HurryEnd::Failed(_) => FAILED_GAP,
        };
        self.hurry_after = core.now + gap;
        let answers = hurry.silent.iter().any(|id| self.unanswered_since(core, *id).is_none());
        let (silent, members) = (names(core, &hurry.silent), names(core, &hurry.members));
        let took = seconds(core.now.saturating_sub(hurry.since));
        let (level, what) = match end {
            HurryEnd::GoesOn => {
                (Level::Info, format!("the group goes on, {took} after {silent} fell silent"))
            }
            HurryEnd::Eased if answers => (Level::Info, format!("{silent} answers again")),
            HurryEnd::Eased => (Level::Warn, format!("not all of {members} answer any more")),
            HurryEnd::TimeUp => (Level::Warn, format!("the group still waits for {silent} after {took}")),
            HurryEnd::Failed(why) => {
                (Level::Warn, format!("the evs timers of {members} could not be shortened: {why}"))
            }
            HurryEnd::Unneeded | HurryEnd::Short => return,
        };
        match (end, hurry.hurried) {
            (_, true) => core.say(level, format!("{what}: {members} have their own evs timers again")),
            (HurryEnd::Failed(_) | HurryEnd::TimeUp, false) => core.say(level, what),
            _ => {}
        }
    }
}

fn names(core: &Core, nodes: &[NodeId]) -> String {
    let names: Vec<&str> = nodes.iter().map(|id| core.name(*id)).collect();
    names.join(", ")
}

//! "Hurry": while the group waits for a silent member, the evs timers of all other members are shortened, so that the group goes on without it
//! sooner. When that is done stands here; which timers, and in which order, in [`super::timers`].
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
//! itself. What decides: a member checks for silent members every `evs.inactive_check_period` (0.5 s, cannot be changed at run time), and setting
//! the suspect timeout restarts that period. The first survivor that suspects the silent member tells the others, and that again
//! restarts their period: unless their own check comes within the time that its message takes (0.2 ms), it comes 0.5 s later. In that case
//! the manager shortens the suspect timeout once more: a survivor that has been agreeing on the next view for longer than the suspect timeout
//! goes by what the others found. With 0.3 s that is 1.1 to 1.2 s instead of 1.3 s.
//!
//! It is not the default (`silent = "wait"`). A member that stood still for 0.7 to 1.1 s and wakes while the others agree on a view without it
//! costs the group up to 3.5 s instead. Nothing is given back in the middle of such an agreement; see `manager/src/hurry`.
//!
//! It is not done:
//!   - for a member that lives. One that answers us slowly need not be silent to the group. The group is asked ([`super::question`]): as long as
//!     all members acknowledge, nothing waits. A member that stands still for less than the 0.6 s of [`super::timers::Mode::Quick`] stays:
//!     with these timers in force all the time, none was lost in 160 s at a load of 10 to 20 on two processors, nor one that was stopped for
//!     0.4 and 0.5 s again and again;
//!   - when our own network may be broken: every other member must have answered since, and they must be a majority;
//!   - in a group with a member whose timers cannot be set, such as an arbitrator: it would wait for the silent one as long as ever;
//!   - for a member that is dead, is leaving, or is evicted for its silence (`evict = "silent"`): the group goes on without those anyway.
//!
//! Invariant: one hurry at a time. Each ends with one `HurryEnded`; every member has its own values then, or those are on disk, to be restored
//! by the next start.

use std::time::Duration;

use super::action::{Action, HurryEnd};
use super::reports::{own, survivor};
use super::settings::{EvictPolicy, SilencePolicy};
use super::state::{Galera, Hurry};
use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::finding::{NodeState, Problem};
use crate::time::{Now, seconds};

/// The group did not wait for the member: it is asked again after this long, as long as the member answers late.
const ASK_GAP: Duration = Duration::from_millis(500);
/// After the group has gone on: until then every member has reported the new view.
const VIEW_GAP: Duration = Duration::from_secs(1);
/// After a hurry that did not help, or could not be done.
const FAILED_GAP: Duration = Duration::from_secs(30);
/// Longer than any order takes, with all its deadlines.
const LOST_AFTER: Duration = Duration::from_secs(60);

impl Galera {
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

    /// A hurry may be needed: a member is late, and not all others have answered since then.
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

    /// The silent members, the others, and since when; `None` unless the others are all other members of the view and a majority of it.
    fn in_question(&self, core: &Core) -> Option<(Vec<NodeId>, Vec<NodeId>, Now)> {
        let settings = &core.settings.galera;
        if settings.silence == SilencePolicy::Wait || settings.evict == EvictPolicy::Silent {
            return None;
        }
        let (silent, others): (Vec<_>, Vec<_>) =
            core.nodes.ids().partition(|id| self.silent_since(core, *id).is_some());
        let since = silent.iter().filter_map(|id| self.silent_since(core, *id)).max()?;
        let members: Vec<_> = others.into_iter().filter(|id| survivor(core.node(*id))).collect();
        let first = own(core.node(*members.first()?))?;
        let size = first.cluster_size as usize;
        let of_one_view = members.iter().all(|id| {
            let view = own(core.node(*id)).map(|status| (status.conf_id, &status.cluster_uuid));
            view == Some((first.conf_id, &first.cluster_uuid))
                && silent.iter().all(|lost| self.lists(core, *id, *lost))
        });
        // No further member: one whose timers cannot be set would wait as long as ever.
        let all = members.len() + silent.len() == size;
        (of_one_view && all && members.len() * 2 > size).then_some((silent, members, since))
    }

    /// The first question that the node has not answered, if it is a member whose silence the group may wait for.
    fn silent_since(&self, core: &Core, id: NodeId) -> Option<Now> {
        let (node, member) = (core.node(id), self.member(id));
        let gone = member.left_view || !self.is_known_member(core, id) || node.leaving_since.is_some();
        let helped_otherwise = node.finding.state == NodeState::Dead || node.finding.problem == Problem::Left;
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

//! The plan decides which lanes are open, from what is known of the nodes. There are two, one for each setting of `writers`; the brain has one of
//! them and calls its step after every fact. A step looks at what is known now, and not at the fact: facts may come in any order, or twice.

pub(crate) mod all;
pub(crate) mod one;

use std::time::Duration;

use crate::NodeId;
use crate::action::Level;
use crate::core::Core;
use crate::routes::Cut;
use crate::settings::Settings;
use crate::time::{Now, seconds};

/// How long before the end of the budget a result that its client does not read is cut.
const STALLED_CUT_BEFORE: Duration = Duration::from_millis(300);
/// How long sessions that were cut by force may take to be gone.
const FORCED_WAIT: Duration = Duration::from_secs(1);
/// With a budget of 0 no running transaction is waited for, but the proxy may take this long to report that none runs.
const QUIET_TOLD: Duration = Duration::from_millis(250);
/// With a budget of 0, how long the rest may take: the new writer has to apply what the old one wrote.
const STEPS: Duration = Duration::from_secs(1);

/// The barrier: the new writer has to say that it has applied everything and is writable ([`crate::action::Action::Barrier`]). How far that is.
#[derive(Clone, Debug, Default)]
pub(crate) enum Barrier {
    /// Not asked for; may be at once.
    #[default]
    Idle,
    /// Not asked for; may be after this time.
    After(Now),
    /// Asked for; without an answer until `give_up` it has failed. `stale`: something has happened since that the answer does not cover, so it
    /// will be asked for again.
    Asked {
        give_up: Now,
        stale: bool,
    },
    Passed,
    Failed {
        why: String,
    },
}

impl Barrier {
    pub fn asked(now: Now, settings: &Settings) -> Self {
        // The manager ends the action at the deadline; its outcome may take half a second more to arrive here.
        Self::Asked { give_up: now + settings.barrier_deadline + Duration::from_millis(500), stale: false }
    }

    pub fn may_ask(&self, now: Now) -> bool {
        match self {
            Self::Idle => true,
            Self::After(moment) => *moment <= now,
            Self::Asked { .. } | Self::Passed | Self::Failed { .. } => false,
        }
    }

    /// An answer came.
    pub fn answered(&mut self, failed: Option<&str>) {
        if let Self::Asked { stale, .. } = self {
            *self = match failed {
                _ if *stale => Self::Idle,
                None => Self::Passed,
                Some(why) => Self::Failed { why: why.to_owned() },
            };
        }
    }

    /// An answer that came, or is on its way, does not count any more. It is asked for again after that answer, since two answers for one term
    /// could not be distinguished.
    pub fn reset(&mut self) {
        match self {
            Self::Asked { stale, .. } => *stale = true,
            _ => *self = Self::Idle,
        }
    }

    /// Gives up an answer that has not come in time.
    pub fn expire(&mut self, now: Now) {
        if let Self::Asked { give_up, stale } = self
            && *give_up <= now
        {
            *self = if *stale { Self::Idle } else { Self::Failed { why: "no answer in time".into() } };
        }
    }
}

/// How long what runs on a draining lane may take to end, and what is cut before and after that.
///
/// A budget of 0 waits for nothing that runs, and cuts nothing; with force it cuts everything at once.
///
/// ```text
///   start ────────────────> stalled results are cut ──> until ──> over
///   results whose client     the last quarter of it,      with force: everything is cut, and over is a second later
///   has stopped are cut      0.3 s at the most
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// What is cut from the start.
    at_once: Cut,
    stalled_from: Now,
    /// Over by then, if anything still runs.
    quiet_by: Now,
    until: Now,
    force: bool,
}

impl Budget {
    pub fn new(now: Now, budget: Duration, force: bool) -> Self {
        if budget.is_zero() && !force {
            let until = now + STEPS;
            return Self {
                at_once: Cut::Nothing,
                stalled_from: until,
                quiet_by: now + QUIET_TOLD,
                until,
                force,
            };
        }
        let until = now + budget;
        let last = STALLED_CUT_BEFORE.min(budget / 4);
        Self {
            at_once: Cut::Stopped,
            stalled_from: until.saturating_sub(last),
            quiet_by: until,
            until,
            force,
        }
    }

    /// What is to be cut at this moment of that which still runs.
    pub fn cut(&self, now: Now) -> Cut {
        if now < self.stalled_from {
            self.at_once
        } else if now < self.until || !self.force {
            Cut::Stalled
        } else {
            Cut::All
        }
    }

    /// The time is up. `quiet`: no transaction runs any more on the draining lane.
    pub fn is_over(&self, now: Now, quiet: bool) -> bool {
        now >= self.over() || !quiet && !self.force && now >= self.quiet_by
    }

    /// An operator's order with force.
    pub fn is_forced(&self) -> bool {
        self.force
    }

    /// When the time is up, whatever still runs.
    pub fn over(&self) -> Now {
        if self.force { self.until + FORCED_WAIT } else { self.until }
    }
}

/// The wait before try number `tries` (from 1).
pub(crate) fn back_off(settings: &Settings, tries: u32) -> Duration {
    let doubled = settings.barrier_backoff.saturating_mul(1 << tries.saturating_sub(1).min(16));
    doubled.min(Settings::BACKOFF_MAX)
}

/// Has the proxy cut what the budget allows at this moment on a draining lane; a cut that clients notice is written into the journal.
pub(crate) fn cut(core: &mut Core, id: NodeId, budget: Budget, since: Now) {
    let cut = budget.cut(core.now);
    if core.set_cut(id, cut) && cut == Cut::All {
        let took = seconds(core.now.saturating_sub(since));
        let text =
            format!("transactions still run on {} after {took}: they are cut, by force", core.name(id));
        core.say(Level::Warn, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_stalls_is_cut_before_the_end_and_all_only_by_force() {
        let cuts = |budget: Budget| [0, 699, 700, 1000, 1999].map(|at| budget.cut(at * MS));
        let gentle = Budget::new(Duration::ZERO, 1000 * MS, false);
        assert_eq!(cuts(gentle)[..2], [Cut::Stopped, Cut::Stopped]);
        let gentle = Budget::new(Duration::ZERO, 2000 * MS, false);
        assert_eq!((gentle.cut(1699 * MS), gentle.cut(1700 * MS)), (Cut::Stopped, Cut::Stalled));
        assert_eq!((gentle.cut(9000 * MS), gentle.over()), (Cut::Stalled, 2000 * MS));
        let forced = Budget::new(Duration::ZERO, 1000 * MS, true);
        assert_eq!(cuts(forced), [Cut::Stopped, Cut::Stopped, Cut::Stopped, Cut::All, Cut::All]);
        assert_eq!((forced.cut(750 * MS), forced.over()), (Cut::Stalled, 2000 * MS));
        assert_eq!(Budget::new(MS, Duration::ZERO, true).cut(MS), Cut::All);
    }

    #[test]
    fn no_budget_waits_for_no_transaction_and_gives_the_rest_its_time() {
        let none = Budget::new(Duration::ZERO, Duration::ZERO, false);
        let at = |ms: u32, quiet| none.is_over(ms * MS, quiet);
        assert_eq!([at(0, false), at(249, false), at(250, false)], [false, false, true]);
        assert_eq!([at(250, true), at(999, true), at(1000, true)], [false, false, true]);
        assert_eq!(none.cut(999 * MS), Cut::Nothing);
        let some = Budget::new(Duration::ZERO, 300 * MS, false);
        let at = |ms: u32| [some.is_over(ms * MS, false), some.is_over(ms * MS, true)];
        assert_eq!((at(299), at(300)), ([false, false], [true, true]));
    }
}

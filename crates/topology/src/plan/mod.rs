//! From beliefs to lanes. Two plans, one for each setting of `writers`; the brain owns exactly one of them and steps it after
//! every fact. A step looks at what is true now, never at which fact made it true: facts may come in any order, or twice.

pub(crate) mod all;
pub(crate) mod one;

use std::time::Duration;

use crate::fact::Now;
use crate::settings::Settings;
use crate::{NodeId, Term};

/// The new writer's own word: asked, waited for, asked again.
#[derive(Clone, Debug, Default)]
pub(crate) enum Barrier {
    /// Not asked yet, or again only after this moment.
    #[default]
    Idle,
    After(Now),
    Asked {
        give_up: Now,
    },
    Passed,
    Failed {
        why: String,
    },
}

impl Barrier {
    pub fn asked(now: Now, settings: &Settings) -> Self {
        // The shell keeps the deadline itself; half a second more is for its answer to arrive.
        Self::Asked { give_up: now + settings.barrier_deadline + Duration::from_millis(500) }
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
        if matches!(self, Self::Asked { .. }) {
            *self = match failed {
                None => Self::Passed,
                Some(why) => Self::Failed { why: why.to_owned() },
            };
        }
    }

    /// An answer did not come.
    pub fn expire(&mut self, now: Now) {
        if let Self::Asked { give_up } = self
            && *give_up <= now
        {
            *self = Self::Failed { why: "no answer in time".into() };
        }
    }
}

/// The wait before try number `tries` (from 1).
pub(crate) fn back_off(settings: &Settings, tries: u32) -> Duration {
    let doubled = settings.barrier_backoff.saturating_mul(1 << tries.saturating_sub(1).min(16));
    doubled.min(Settings::BACKOFF_MAX)
}

/// What a lane's quiet means: told by the data plane for exactly this draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quiet {
    pub node: NodeId,
    pub epoch: u64,
    pub term: Term,
    /// Of the routes that the lane was seen under.
    pub version: u64,
}

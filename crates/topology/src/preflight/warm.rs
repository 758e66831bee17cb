//! The check where standbys are kept warm: whether the new writer has in memory what the applications read.

use super::sight::{Look, Rule, Sight, look};
use crate::rules::Severity::{Fails, Note};

/// The name of its only row.
pub const CHECK: &str = "warm";

pub(super) const RULES: &[Rule] = &[Rule { check: CHECK, look: warm }];

fn warm(sight: &Sight) -> Option<Look> {
    let warm = sight.wish.warm?;
    let (to, from) = (sight.to, sight.from);
    let standby = warm.standbys.iter().find(|standby| standby.name == to.name());
    let how = standby.map_or("is not warmed", |standby| standby.sentence.as_str());
    let score = standby.and_then(|standby| standby.score_percent);
    // Rounded down, so that a score that is shown as sufficient is sufficient.
    let serves = |score: f64| {
        format!(
            "would serve {:.1} % of what {} reads from memory",
            (score * 10.0).floor() / 10.0,
            from.name()
        )
    };
    let remedy = "wait until it has been replayed more, or pass over this with --cold";
    let found = match (warm.require_percent, score) {
        (Some(least), Some(score)) if score < f64::from(least) => {
            let text = format!("{}, and warm.require_percent is {least}", serves(score));
            Some(to.found(Fails, text, remedy))
        }
        (Some(least), None) => {
            let text = format!("{how}; how warm it is is not known, and warm.require_percent is {least}");
            Some(to.found(Fails, text, remedy))
        }
        (None, None) => {
            Some(to.found(Note, format!("{how}; how warm it is is not known"), "see `understudy status`"))
        }
        (_, Some(_)) => None,
    };
    look(found, to, score.map_or_else(String::new, serves))
}

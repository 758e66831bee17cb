//! Which seeds a simulation runs: those of every day, or those that `UNDERSTUDY_SEEDS=FROM..TO` asks for.

use std::ops::Range;

/// The seeds that the environment asks for, or these.
pub fn seeds(of_every_day: Range<u64>) -> Range<u64> {
    let asked = std::env::var("UNDERSTUDY_SEEDS").ok();
    let asked = asked
        .as_deref()
        .and_then(|asked| asked.split_once(".."))
        .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    asked.unwrap_or(of_every_day)
}

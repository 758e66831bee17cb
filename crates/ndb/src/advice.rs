//! Advice for TimeBetweenLocalCheckpoints: which value lets a node return before three checkpoints have been started without it.
//!
//! The setting is the base-2 logarithm of a count of 4-byte words: the next checkpoint starts when that much was written. Checkpoints do
//! not overlap, so the time from one start to the next is the longer of two: the time to write that much, and the duration of a checkpoint.
//! In the worst case the first checkpoint starts right after the failure; the third then starts two such times later. The node must have
//! its data complete by then.

use crate::restart::Checkpoint;

/// The default, 4 MiB.
pub const DEFAULT: u32 = 20;
/// The largest value that the server takes, 8 GiB.
pub const LARGEST: u32 = 31;
/// The window should be at least this many tenths of the time that is needed.
const MARGIN_TENTHS: u64 = 15;

/// Bytes that have to be written until the next checkpoint starts.
pub fn trigger_bytes(setting: u32) -> u64 {
    4u64.checked_shl(setting).unwrap_or(u64::MAX)
}

/// The measured load of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The rate of writes to a node's redo log, in bytes per second.
    pub write_bytes_s: u64,
    /// How long a checkpoint takes, in milliseconds.
    pub checkpoint_ms: u64,
    /// From a node's failure until its data is complete, in milliseconds.
    pub needed_ms: u64,
}

/// The effect of one value of the setting under a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// TimeBetweenLocalCheckpoints.
    pub setting: u32,
    /// The time to write so much that the next checkpoint starts, in milliseconds.
    pub trigger_ms: u64,
    /// From one checkpoint's start to the next, in milliseconds: the longer of `trigger_ms` and the duration of a checkpoint.
    pub spacing_ms: u64,
    /// The shortest time from the failure to the start of the third checkpoint, in milliseconds.
    pub window_ms: u64,
    /// Whether a node's data is complete within the window.
    pub is_enough: bool,
    /// Whether the window is at least 1.5 times the time that is needed.
    pub has_margin: bool,
}

impl Load {
    /// The effect of one value of the setting.
    pub fn meaning(&self, setting: u32) -> Meaning {
        let trigger_ms = trigger_bytes(setting).saturating_mul(1000) / self.write_bytes_s.max(1);
        let spacing_ms = trigger_ms.max(self.checkpoint_ms);
        let window_ms = spacing_ms.saturating_mul(2);
        Meaning {
            setting,
            trigger_ms,
            spacing_ms,
            window_ms,
            is_enough: window_ms > self.needed_ms,
            has_margin: window_ms.saturating_mul(10) >= self.needed_ms.saturating_mul(MARGIN_TENTHS),
        }
    }

    /// The smallest value, at least the default, that leaves a margin; `None` when none does.
    pub fn advised(&self) -> Option<Meaning> {
        (DEFAULT..=LARGEST).map(|setting| self.meaning(setting)).find(|meaning| meaning.has_margin)
    }
}

/// The intervals of the checkpoints in a log, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// The number of checkpoints.
    pub checkpoints: usize,
    /// The median time from start to end.
    pub duration_ms: Option<u64>,
    /// The median time from the start of a checkpoint to the start of the next.
    pub spacing_ms: Option<u64>,
    /// The shortest time from the start of a checkpoint to the start of the second one after it.
    pub third_start_min_ms: Option<u64>,
}

/// Computes the intervals from all checkpoints of a log.
pub fn rhythm(checkpoints: &[Checkpoint]) -> Rhythm {
    let ms = |us: i64| u64::try_from(us / 1000).unwrap_or(0);
    let durations = checkpoints.iter().filter_map(Checkpoint::duration_us).map(ms).collect();
    // Between checkpoints whose numbers are not consecutive, there are others that the log does not show.
    let spacings = checkpoints.windows(2).filter_map(|pair| match pair {
        [a, b] if a.id.checked_add(1) == Some(b.id) => Some(ms(b.started.since_us(a.started))),
        _ => None,
    });
    let thirds = checkpoints.windows(3).filter_map(|three| match three {
        [a, _, c] if a.id.checked_add(2) == Some(c.id) => Some(ms(c.started.since_us(a.started))),
        _ => None,
    });
    Rhythm {
        checkpoints: checkpoints.len(),
        duration_ms: median(durations),
        spacing_ms: median(spacings.collect()),
        third_start_min_ms: thirds.min(),
    }
}

fn median(mut of: Vec<u64>) -> Option<u64> {
    of.sort_unstable();
    of.get(of.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests fail by panicking
    use super::*;

    #[test]
    fn the_setting_is_a_logarithm_of_words() {
        assert_eq!([20, 24, 31].map(trigger_bytes), [4 << 20, 64 << 20, 8 << 30]);
        assert_eq!(trigger_bytes(200), u64::MAX);
    }

    /// 2007: 1 MB/s of updates, a checkpoint of about two minutes, 4 min 42 s until `Started`, of which about two minutes were the node's own checkpoint.
    #[test]
    fn the_case_of_2007() {
        let load = Load { write_bytes_s: 1 << 20, checkpoint_ms: 120_000, needed_ms: 162_000 };
        let (by_default, advised_then) = (load.meaning(20), load.meaning(24));
        assert_eq!((by_default.trigger_ms, advised_then.trigger_ms), (4_000, 64_000));
        // The checkpoint itself is longer than either, so the third starts after four minutes at the earliest: the data is complete by then.
        assert_eq!(
            (advised_then.spacing_ms, advised_then.window_ms, advised_then.is_enough),
            (120_000, 240_000, true)
        );
        // With a small database the trigger decides, and the default is far too small: three starts within 8 s.
        let small = Load { checkpoint_ms: 2_000, ..load };
        assert_eq!((small.meaning(20).window_ms, small.meaning(20).is_enough), (8_000, false));
        assert_eq!(small.advised().map(|meaning| meaning.setting), Some(25));
        assert_eq!(Load { needed_ms: u64::MAX / 100, ..load }.advised(), None);
    }
}

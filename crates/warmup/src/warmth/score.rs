//! The score: a ratio of page reads to page accesses, estimated from a random sample of statements, with its 95 % interval.

use std::collections::VecDeque;

/// The share of page accesses that are served from memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// 1 - pages read / pages accessed; 0 to 1.
    pub share: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The number of statements in the sample.
    pub statements: u64,
    /// The pages were taken from counters of the whole server, which include the accesses of other sessions.
    pub is_coarse: bool,
}

/// The result of one sampled statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probed {
    /// The time in seconds, on a monotonic clock.
    pub at_s: f64,
    /// The number of statements that it represents.
    pub weight: f64,
    /// Page accesses.
    pub accessed: f64,
    /// Pages read from disk. After the reads of other sessions are subtracted this may be negative for a single statement; clamping it
    /// would bias the mean.
    pub read: f64,
    /// See [`Score::is_coarse`].
    pub is_coarse: bool,
}

/// The most recent samples.
#[derive(Debug)]
pub struct Sample {
    probed: VecDeque<Probed>,
    age_s_max: f64,
    count_max: usize,
}

/// The smallest sample for which a score is computed.
pub const STATEMENTS_MIN: usize = 20;

impl Sample {
    /// Keeps samples for at most `age_s_max`, and at most `count_max` of them.
    pub fn new(age_s_max: f64, count_max: usize) -> Sample {
        Sample { probed: VecDeque::new(), age_s_max, count_max: count_max.max(STATEMENTS_MIN) }
    }

    /// Adds a sample.
    pub fn push(&mut self, probed: Probed) {
        self.probed.push_back(probed);
        let now_s = probed.at_s;
        while self.probed.len() > self.count_max {
            self.probed.pop_front();
        }
        self.forget(now_s);
    }

    /// Drops the samples that are too old at `now_s`, on the clock of [`Probed::at_s`].
    pub fn forget(&mut self, now_s: f64) {
        let oldest_s = now_s - self.age_s_max;
        while self.probed.front().is_some_and(|probed| probed.at_s < oldest_s) {
            self.probed.pop_front();
        }
    }

    /// The number of samples.
    pub fn statements(&self) -> usize {
        self.probed.len()
    }

    /// Drops all samples, after the server was restarted or replaced by another one.
    pub fn clear(&mut self) {
        self.probed.clear();
    }

    /// The score; `None` when the sample is too small, or none of its statements accessed a page.
    pub fn score(&self) -> Option<Score> {
        let n = self.probed.len() as f64;
        let accessed: f64 = self.probed.iter().map(|p| p.weight * p.accessed).sum();
        if self.probed.len() < STATEMENTS_MIN || accessed <= 0.0 {
            return None;
        }
        let read: f64 = self.probed.iter().map(|p| p.weight * p.read).sum();
        let misses = (read / accessed).clamp(0.0, 1.0);
        // The ratio estimator's variance by linearization (Cochran, Sampling Techniques, chapter 6).
        let squares: f64 =
            self.probed.iter().map(|p| (p.weight * (p.read - misses * p.accessed)).powi(2)).sum();
        let deviation = (n / (n - 1.0) * squares).sqrt() / accessed;
        // When no page was read the variance is 0, which a sample of n statements cannot establish; the rule of three gives the bound.
        let of_none = 3.0 / n * (n / accessed).min(1.0);
        let half = (1.96 * deviation).max(if read > 0.0 { 0.0 } else { of_none });
        Some(Score {
            share: 1.0 - misses,
            low: (1.0 - misses - half).clamp(0.0, 1.0),
            high: (1.0 - misses + half).clamp(0.0, 1.0),
            statements: self.probed.len() as u64,
            is_coarse: self.probed.iter().any(|p| p.is_coarse),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator with a seed (splitmix64): 0 to 1.
    fn random(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }

    const SEEDS: u64 = 400;

    #[test]
    fn the_score_is_unbiased_and_its_interval_holds_the_truth() {
        // Point reads of 3 pages that miss one in 5 times, and ranges of 40 pages that miss a quarter: the truth is by pages, not by statements.
        let truth = 1.0 - (0.9 * 0.2 + 0.1 * 10.0) / (0.9 * 3.0 + 0.1 * 40.0);
        let (mut sum, mut inside) = (0.0, 0);
        for seed in 0..SEEDS {
            let mut state = seed * 1000;
            let mut sample = Sample::new(60.0, 1000);
            for number in 0..600 {
                let (accessed, read) = if random(&mut state) < 0.9 {
                    (3, u32::from(random(&mut state) < 0.2))
                } else {
                    (40, (0..40).filter(|_| random(&mut state) < 0.25).count() as u32)
                };
                sample.push(Probed {
                    at_s: f64::from(number) / 20.0,
                    weight: 1.0,
                    accessed: f64::from(accessed),
                    read: f64::from(read),
                    is_coarse: false,
                });
            }
            let score = sample.score().unwrap();
            sum += score.share;
            inside += u64::from(score.low <= truth && truth <= score.high);
        }
        let bias = (sum / SEEDS as f64 - truth).abs();
        assert!(bias < 0.01, "bias {bias}");
        assert!(inside as f64 > 0.9 * SEEDS as f64, "{inside} of {SEEDS} intervals hold {truth}");
    }

    #[test]
    fn too_few_statements_give_no_score_and_no_misses_are_no_proof_of_none() {
        let probed = |at_s| Probed { at_s, weight: 1.0, accessed: 3.0, read: 0.0, is_coarse: false };
        let mut sample = Sample::new(60.0, 100);
        for number in 0..19 {
            sample.push(probed(f64::from(number)));
        }
        assert_eq!(sample.score(), None);
        sample.push(probed(19.0));
        let score = sample.score().unwrap();
        assert_eq!((score.share, score.high), (1.0, 1.0));
        assert!(score.low < 0.96, "{score:?}");
        // What is too old is forgotten.
        sample.push(probed(100.0));
        assert_eq!(sample.statements(), 1);
    }
}

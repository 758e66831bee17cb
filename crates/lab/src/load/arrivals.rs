//! The arrival schedule: an endless sequence of due times, independent of whether earlier transactions have ended.
//!
//! Input: a rate, a distribution, a seed. Output: times since the start of the load, never decreasing. The same seed gives the same
//! sequence. No clock here.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// How transactions arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Exponential gaps, as with sysbench's --rate: "10 a second" is 8 to 15.
    Poisson,
    /// Equal gaps.
    Uniform,
}

/// The sequence of due times.
#[derive(Debug)]
pub struct Schedule {
    kind: Arrivals,
    rate: f64,
    rng: StdRng,
    next_s: f64,
}

impl Schedule {
    /// `rate` is in transactions a second, above 0.
    pub fn new(kind: Arrivals, rate: f64, seed: u64) -> Self {
        Self { kind, rate: rate.max(1e-6), rng: StdRng::seed_from_u64(seed), next_s: 0.0 }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let space = match self.kind {
            // 1 - u is in (0, 1], so that the logarithm is finite.
            Arrivals::Poisson => -(1.0 - self.rng.random::<f64>()).ln() / self.rate,
            Arrivals::Uniform => 1.0 / self.rate,
        };
        self.next_s += space;
        Some(Duration::from_secs_f64(self.next_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_keeps_its_rate_and_its_spread() {
        let due: Vec<f64> =
            Schedule::new(Arrivals::Poisson, 10.0, 7).take(20_000).map(|d| d.as_secs_f64()).collect();
        let rate = due.len() as f64 / due[due.len() - 1];
        assert!((rate - 10.0).abs() < 0.3, "{rate}");
        let spaces: Vec<f64> = due.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = spaces.iter().sum::<f64>() / spaces.len() as f64;
        let var = spaces.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / spaces.len() as f64;
        assert!((var.sqrt() / mean - 1.0).abs() < 0.05, "exponential: deviation equals mean");
        assert!(due.windows(2).all(|w| w[0] <= w[1]));
    }

    #[test]
    fn uniform_is_even_and_seeds_repeat() {
        let due: Vec<Duration> = Schedule::new(Arrivals::Uniform, 4.0, 1).take(3).collect();
        assert_eq!(due, [250, 500, 750].map(Duration::from_millis));
        let row = |seed| Schedule::new(Arrivals::Poisson, 30.0, seed).take(50).collect::<Vec<_>>();
        assert_eq!(row(3), row(3));
        assert_ne!(row(3), row(4));
    }
}

//! How many distinct pages all key ranges need together, when only some of them were run: from how the count of pages grew with the ranges that were run.
//!
//! A page that one range needs is found with the probability of that range to be run. A page that many ranges need, such as one of a clustered index
//! to which a secondary index leads, is found early and then is in memory: the count grows slower and slower. Dividing by the sampling rate would
//! count it many times. With f(n) pages that n ranges need, a share x of the ranges finds
//!
//! ```text
//!   N(x) = sum over n of f(n) (1 - (1 - x)^n)        N(1) = sum over n of f(n)
//! ```
//!
//! f is fitted to the pages that each part of the run found (maximum likelihood of Poisson counts, by expectation maximization).

/// For how many ranges a page may be needed; between these the curves can hardly be told apart.
const NEEDED_BY: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 4096.0];
const STEPS: usize = 3000;

/// `found`: pages that each of the equal parts of the run found first; `rate`: the share of all ranges that was run, above 0 and up to 1. Gives all pages.
pub fn all_pages(found: &[u64], rate: f64) -> f64 {
    let total: u64 = found.iter().sum();
    if rate >= 1.0 || total == 0 || found.is_empty() {
        return total as f64;
    }
    let parts = found.len() as f64;
    // What a page that n ranges need adds to each part.
    let shares: Vec<Vec<f64>> = NEEDED_BY
        .iter()
        .map(|&n| {
            let missed = |part: f64| (1.0 - rate * part / parts).max(0.0).powf(n);
            (0..found.len()).map(|part| missed(part as f64) - missed(part as f64 + 1.0)).collect()
        })
        .collect();
    let mut pages = vec![total as f64 / rate / NEEDED_BY.len() as f64; NEEDED_BY.len()];
    for _ in 0..STEPS {
        let expected: Vec<f64> = (0..found.len())
            .map(|part| {
                pages.iter().zip(&shares).map(|(pages, share)| pages * share[part]).sum::<f64>().max(1e-12)
            })
            .collect();
        for (pages, share) in pages.iter_mut().zip(&shares) {
            let seen: f64 = share.iter().sum();
            let pulled: f64 = share
                .iter()
                .zip(found)
                .zip(&expected)
                .map(|((share, &found), expected)| share * found as f64 / expected)
                .sum();
            *pages *= pulled / seen.max(1e-12);
        }
    }
    pages.iter().sum()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::all_pages;

    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Pages of `ranges` ranges: each has `own` pages of its own, and needs `scattered` of `shared` others, some far more often than others.
    fn simulate(seed: u64, ranges: usize, own: u64, scattered: usize, shared: u64, rate: f64) -> (f64, f64) {
        let mut state = seed;
        let needs: Vec<Vec<u64>> = (0..ranges as u64)
            .map(|range| {
                let mut pages: Vec<u64> = (0..own).map(|page| 1_000_000_000 + range * own + page).collect();
                for _ in 0..scattered {
                    let (a, b) = (next(&mut state) % shared, next(&mut state) % shared);
                    pages.push(a.min(b));
                }
                pages
            })
            .collect();
        let truth: HashSet<u64> = needs.iter().flatten().copied().collect();
        let run = (ranges as f64 * rate) as usize;
        const PARTS: usize = 10;
        let mut seen = HashSet::new();
        let found: Vec<u64> = (0..PARTS)
            .map(|part| {
                let these = &needs[run * part / PARTS..run * (part + 1) / PARTS];
                these.iter().flatten().filter(|page| seen.insert(**page)).count() as u64
            })
            .collect();
        (all_pages(&found, run as f64 / ranges as f64), truth.len() as f64)
    }

    #[test]
    fn estimates_are_unbiased_on_pages_of_known_truth() {
        for (own, scattered, shared, rate, bias_max) in [
            (10, 0, 1, 0.1, 0.03),
            (0, 50, 5_000, 0.5, 0.03),
            (5, 50, 5_000, 0.5, 0.03),
            (5, 20, 30_000, 0.5, 0.03),
            // With fewer, pages that one range needs and those that a few need cannot be told apart.
            (5, 50, 5_000, 0.25, 0.15),
        ] {
            let seeds = 30;
            let ratio: f64 = (0..seeds)
                .map(|seed| {
                    let (estimate, truth) = simulate(seed * 7919, 1000, own, scattered, shared, rate);
                    estimate / truth
                })
                .sum::<f64>()
                / seeds as f64;
            println!("{own} {scattered} {shared} {rate}: {ratio:.3}");
            assert!((ratio - 1.0).abs() < bias_max, "{own} {scattered} {shared} {rate}: {ratio}");
        }
    }

    #[test]
    fn all_ranges_need_no_estimate() {
        assert_eq!(all_pages(&[5, 3, 0], 1.0), 8.0);
        assert_eq!(all_pages(&[0, 0], 0.1), 0.0);
        assert_eq!(all_pages(&[], 0.1), 0.0);
    }
}

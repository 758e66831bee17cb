//! What plots have in common.

/// The end of a plot's vertical axis for values up to `most`: the next number whose quarters are round and whole, so that the labels of the four
/// lines are exact.
pub fn axis_top(most: f64) -> f64 {
    let quarter = (most / 4.0).max(1.0);
    let power = 10_f64.powf(quarter.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0].map(|step| step * power);
    let round = steps.into_iter().find(|step| step.fract() == 0.0 && *step >= quarter);
    4.0 * round.unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_exact_labels_on_its_quarters() {
        let tops = [0.0, 3.0, 4.2, 17.0, 50.0, 943.0, 9_100.0, 41_234.0, 349_812.0]
            .map(|most| axis_top(most) as u32);
        assert_eq!(tops, [4, 4, 8, 20, 60, 1000, 10_000, 60_000, 400_000]);
        for most in (0..100_000).step_by(7).map(f64::from) {
            let top = axis_top(most);
            assert!(top >= most && top <= 2.0 * most.max(4.0) && (top / 4.0).fract() == 0.0, "{most}: {top}");
        }
    }
}

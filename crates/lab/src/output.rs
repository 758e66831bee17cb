//! Shared by the lab's commands: printing lines, parsing numbers.

use std::io::Write;

/// The exit code of a program that SIGPIPE has ended, as shells tell it.
const NOBODY_READS: i32 = 141;

/// Prints a line of a load. When nobody reads any more (`| head`), the program ends: a load has nothing to clean up. It is not left to SIGPIPE,
/// which a server that closes a connection would raise, too.
pub fn print_line(line: &str) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(NOBODY_READS);
    }
}

/// Range of a rate (per second) and a time (s): a day is long enough, and both limits are far from what a clock can represent.
const RANGE: std::ops::RangeInclusive<f64> = 0.001..=100_000.0;

/// Parses a number within the range for rates and seconds.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if RANGE.contains(&number) => Ok(number),
        _ => Err(format!("must be a number from {} to {}", RANGE.start(), RANGE.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_seconds_stay_where_clocks_can_hold_them() {
        assert_eq!([positive("0.001"), positive("30"), positive("1e5")], [Ok(0.001), Ok(30.0), Ok(1e5)]);
        for bad in ["0", "-1", "1e300", "1e-300", "inf", "nan", "x", ""] {
            assert!(positive(bad).is_err(), "{bad}");
        }
    }
}

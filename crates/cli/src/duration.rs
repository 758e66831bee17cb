//! Times on the command line, in the same forms for every option: a number with a unit (`500ms`, `5s`, `1.5s`, `10m`, `2h`, `1d`), or a number
//! alone, which has the unit that the option's name or help says.

use std::ops::RangeInclusive;
use std::time::Duration;

use health::duration;

/// An option in milliseconds: so many are allowed.
pub fn milliseconds(
    allowed: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| given(text, 1, "milliseconds", &allowed)
}

/// A time for an option whose name does not say a unit: it must have one, or be 0.
pub fn with_unit(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        Ok(_) => Err(format!("a unit is missing: {text}ms, {text}s or {text}m?")),
        Err(_) => duration(text).ok_or_else(|| "it must be a time such as 500ms, 5s or 10m".to_owned()),
    }
}

/// The same in seconds.
pub fn seconds(allowed: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| given(text, 1000, "seconds", &allowed)
}

/// How many units of so many milliseconds `text` says.
fn given(text: &str, unit_ms: u64, unit: &str, allowed: &RangeInclusive<u64>) -> Result<u64, String> {
    let wrong = || {
        let (min, max) = (allowed.start(), allowed.end());
        format!(
            "it must be {min} to {max} {unit}, as a whole number or as a time such as 500ms, 5s, 10m or 2h"
        )
    };
    let units = match text.parse::<u64>() {
        Ok(units) => units,
        Err(_) => {
            let ms = u64::try_from(duration(text).ok_or_else(wrong)?.as_millis()).map_err(|_| wrong())?;
            if !ms.is_multiple_of(unit_ms) {
                return Err(wrong());
            }
            ms / unit_ms
        }
    };
    if allowed.contains(&units) { Ok(units) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_is_no_time_where_nothing_says_its_unit() {
        assert_eq!(with_unit("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(with_unit("0"), Ok(Duration::ZERO));
        assert_eq!(with_unit("5").unwrap_err(), "a unit is missing: 5ms, 5s or 5m?");
        assert!(with_unit("soon").unwrap_err().contains("500ms"));
    }

    #[test]
    fn a_time_is_the_same_with_and_without_its_unit() {
        let ms = milliseconds(10..=3_600_000);
        for text in ["90000", "90s", "1.5m", "90000ms"] {
            assert_eq!(ms(text), Ok(90_000), "{text}");
        }
        let s = seconds(1..=86_400);
        for text in ["600", "600s", "10m", "600000ms"] {
            assert_eq!(s(text), Ok(600), "{text}");
        }
        for wrong in ["", "9", "2h", "-5s", "5 s", "5x", "s", "99999999999999999999"] {
            assert!(ms(wrong).is_err(), "{wrong}");
        }
        assert!(s("500ms").unwrap_err().contains("1 to 86400 seconds"), "no whole second");
    }
}

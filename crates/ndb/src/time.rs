//! Parses the times of NDB's logs: `2026-11-21T11:30:16.927778Z` (8.0.13 and later) and `2007-03-07 11:30:16` (before, in the machine's
//! local time).

use std::fmt;

const DAY_S: i64 = 86_400;

/// A time of a log, in microseconds since 1970: UTC where the log states it, else the log's local time taken as UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// Parses a time at the beginning of a line; the second value is the rest of the line.
    pub(crate) fn at_start(line: &str) -> Option<(Self, &str)> {
        let (day, rest) = line.split_at_checked(10)?;
        let rest = rest.strip_prefix(['T', ' '])?;
        let (clock, rest) = rest.split_at_checked(8)?;
        let [year, month, day_of_month] = numbers(day, '-')?;
        let [hour, minute, second] = numbers(clock, ':')?;
        let is_day = (1..=12).contains(&month) && (1..=31).contains(&day_of_month);
        if !is_day || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let (micros, rest) = fraction(rest)?;
        let (offset_s, rest) = zone(rest)?;
        let whole_s = days(year, month, day_of_month) * DAY_S + hour * 3600 + minute * 60 + second - offset_s;
        Some((Self(whole_s * 1_000_000 + micros), rest))
    }

    /// Parses a time from the command line: a date, `T` or a space, a time.
    pub fn parse(text: &str) -> Option<Self> {
        Self::at_start(text.trim()).filter(|(_, rest)| rest.is_empty()).map(|(moment, _)| moment)
    }

    /// Microseconds from `earlier` to this; negative when `earlier` is later.
    pub fn since_us(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Moment {
    /// `2026-11-21 11:30:16.927`, truncated, not rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.0.div_euclid(1_000_000);
        let (day, of_day) = (second.div_euclid(DAY_S), second.rem_euclid(DAY_S));
        let (year, month, day_of_month) = date(day);
        let ms = self.0.rem_euclid(1_000_000) / 1000;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{second:02}.{ms:03}")
    }
}

/// A duration in seconds, with three decimals.
pub fn seconds(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let ms = us.unsigned_abs() / 1000;
    format!("{sign}{}.{:03}", ms / 1000, ms % 1000)
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts = text.split(between).map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if is_number { part.parse().ok() } else { None }
    });
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

/// A fraction of up to nine digits, in microseconds.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = rest.split_at_checked(digits)?;
    let six = format!("{:0<6}", digits.get(..6.min(digits.len()))?);
    (1..=9).contains(&digits.len()).then_some((six.parse().ok()?, rest))
}

/// Seconds east of UTC.
fn zone(text: &str) -> Option<(i64, &str)> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some((0, rest));
    }
    let sign = match text.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Some((0, text)),
    };
    let (zone, rest) = text.get(1..)?.split_at_checked(5)?;
    let (hour, minute) = zone.split_once(':')?;
    let (hour, minute): (i64, i64) = (hour.parse().ok()?, minute.parse().ok()?);
    let is_zone = (0..=14).contains(&hour) && (0..=59).contains(&minute);
    is_zone.then_some((sign * (hour * 3600 + minute * 60), rest))
}

/// Days since 1970 of a date in the Gregorian calendar, counted in years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// The date of a day since 1970.
fn date(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests fail by panicking
    use super::*;

    #[test]
    fn both_forms_are_read_and_written() {
        let (new, rest) = Moment::at_start("2026-11-21T11:30:16.927778Z [MgmtSrvr] x").unwrap();
        assert_eq!((new.to_string().as_str(), rest), ("2026-11-21 11:30:16.927", " [MgmtSrvr] x"));
        assert_eq!(new.0, 1_795_260_616_927_778); // by `date -u -d @1795260616`
        let old = Moment::parse("2007-03-07 11:30:16").unwrap();
        assert_eq!(old.to_string(), "2007-03-07 11:30:16.000");
        assert_eq!(Moment::parse("2026-11-21T12:30:16.927778+01:00"), Some(new));
        assert_eq!(Moment::parse("2024-02-29 00:00:00").unwrap().to_string(), "2024-02-29 00:00:00.000");
        for wrong in [
            "",
            "2026-13-21T11:30:16Z",
            "2026-11-21T25:30:16Z",
            "26-11-21",
            "2026-11-21",
            "ä026-11-21T11:30:16Z",
        ] {
            assert_eq!(Moment::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_length_has_three_digits() {
        assert_eq!([seconds(1_234_999), seconds(-1_500_000), seconds(0)], ["1.234", "-1.500", "0.000"]);
    }
}

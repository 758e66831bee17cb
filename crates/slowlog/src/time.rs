//! Times as a slow log writes them, and durations. All are microseconds; those of a day since 1970.

use ::time::{Date, Month, OffsetDateTime};

/// In one second.
pub(crate) const SECOND_US: u64 = 1_000_000;

/// What a `# Time:` line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineTime {
    /// `2020-01-02T03:04:05.678901Z` or with `+01:00`: microseconds since 1970.
    Utc(u64),
    /// `200102  3:04:05`, or the form above without a zone: local time in a zone that the log does not tell; microseconds since 1970 as
    /// if that was UTC.
    Local(u64),
}

/// Reads what stands behind `# Time: `; Percona Server writes the short form with a fraction, too.
pub(crate) fn parse_line(text: &[u8]) -> Option<LineTime> {
    let is_iso = text.get(4) == Some(&b'-');
    let (year_digits, hyphen, gaps): (_, &[u8], [&[u8]; 2]) =
        if is_iso { (4, b"-", [b"T", b" "]) } else { (2, b"", [b"  ", b" "]) };
    let mut left = Digits(text.trim_ascii_end());
    let year = match left.number(year_digits)? {
        year if is_iso => year,
        year @ ..70 => 2000 + year,
        year => 1900 + year,
    };
    left.skip(hyphen)?;
    let month = left.number(2)?;
    left.skip(hyphen)?;
    let day = left.number(2)?;
    left.skip(gaps[0]).or_else(|| left.skip(gaps[1]))?;
    let second = left.time_of_day()?;
    let micros = left.fraction()?;
    let zone_s = if is_iso && !left.0.is_empty() { Some(left.zone()?) } else { None };
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    let second = date.midnight().assume_utc().unix_timestamp() + i64::from(second) - zone_s.unwrap_or(0);
    let us = u64::try_from(second).ok()? * SECOND_US + u64::from(micros);
    let time = if zone_s.is_some() { LineTime::Utc(us) } else { LineTime::Local(us) };
    left.0.is_empty().then_some(time)
}

/// `2020-01-02T03:04:05.678901Z`
pub(crate) fn parse_iso(text: &[u8]) -> Option<u64> {
    match parse_line(text)? {
        LineTime::Utc(us) => Some(us),
        LineTime::Local(_) => None,
    }
}

/// As MySQL 5.7 and newer write it.
pub(crate) fn iso(us: u64) -> String {
    let (at, micros) = (at(us), us % SECOND_US);
    let (date, (hour, minute, second)) = (at.date(), at.to_hms());
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// As MariaDB and MySQL before 5.7 write it, in UTC.
pub fn short(us: u64) -> String {
    let at = at(us);
    let ((year, month, day), (hour, minute, second)) = (at.to_calendar_date(), at.to_hms());
    format!("{:02}{:02}{day:02} {hour:2}:{minute:02}:{second:02}", year.rem_euclid(100), u8::from(month))
}

/// A time that no calendar has is the first one.
fn at(us: u64) -> OffsetDateTime {
    let second = (us / SECOND_US).cast_signed();
    OffsetDateTime::from_unix_timestamp(second).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Seconds with a fraction, as microseconds; digits beyond the sixth are dropped.
pub(crate) fn duration_us(text: &[u8]) -> Option<u64> {
    let mut left = Digits(text);
    let us = left.any()?.checked_mul(SECOND_US)?.checked_add(u64::from(left.fraction()?))?;
    left.0.is_empty().then_some(us)
}

/// A whole number and nothing else.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let mut left = Digits(text);
    let number = left.any()?;
    left.0.is_empty().then_some(number)
}

/// A text that is read from its front.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn skip(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    fn digit(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first()?;
        let digit = first.wrapping_sub(b'0');
        (digit < 10).then(|| {
            self.0 = rest;
            u32::from(digit)
        })
    }

    fn number(&mut self, digits: u8) -> Option<u32> {
        let mut number = 0;
        for _ in 0..digits {
            number = number * 10 + self.digit()?;
        }
        Some(number)
    }

    /// One digit at the least.
    fn any(&mut self) -> Option<u64> {
        let mut number = u64::from(self.digit()?);
        while let Some(digit) = self.digit().map(u64::from) {
            number = if number < u64::MAX / 10 {
                number * 10 + digit
            } else {
                number.checked_mul(10)?.checked_add(digit)?
            };
        }
        Some(number)
    }

    /// Seconds of the day; the hour may have one digit. A leap second is the second before it.
    fn time_of_day(&mut self) -> Option<u32> {
        let mut hour = self.digit()?;
        if let Some(second) = self.digit() {
            hour = hour * 10 + second;
        }
        self.skip(b":")?;
        let minute = self.number(2)?;
        self.skip(b":")?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second < 61).then(|| hour * 3_600 + minute * 60 + second.min(59))
    }

    /// Microseconds behind a dot, or 0 where there is none.
    fn fraction(&mut self) -> Option<u32> {
        if self.skip(b".").is_none() {
            return Some(0);
        }
        let mut unit_us = 100_000;
        let mut micros = self.digit()? * unit_us;
        while let Some(digit) = self.digit() {
            unit_us /= 10;
            micros += digit * unit_us;
        }
        Some(micros)
    }

    /// `Z` or `+01:00`: seconds east of UTC.
    fn zone(&mut self) -> Option<i64> {
        if self.skip(b"Z").is_some() {
            return Some(0);
        }
        let sign = match self.skip(b"+") {
            Some(()) => 1,
            None => self.skip(b"-").map(|()| -1)?,
        };
        let hours = self.number(2)?;
        self.skip(b":")?;
        let minutes = self.number(2)?;
        Some(sign * (i64::from(hours) * 3_600 + i64::from(minutes) * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_time_are_read() {
        assert_eq!(
            parse_line(b"2020-01-02T03:04:05.678901Z"),
            Some(LineTime::Utc(1_577_934_245_678_901)),
            "MySQL 5.7"
        );
        assert_eq!(
            parse_line(b"2020-01-02T05:04:05.6+02:00"),
            Some(LineTime::Utc(1_577_934_245_600_000)),
            "log_timestamps = SYSTEM"
        );
        assert_eq!(parse_line(b"200102  3:04:05"), Some(LineTime::Local(1_577_934_245_000_000)));
        assert_eq!(parse_line(b"200102 13:04:05.5"), Some(LineTime::Local(1_577_970_245_500_000)));
        assert_eq!(parse_line(b"2020-01-02T03:04:05 "), Some(LineTime::Local(1_577_934_245_000_000)));
        for wrong in [
            "",
            "2",
            "200102",
            "200102  3:04:0",
            "201302  3:04:05",
            "2020-01-02T03:04:05.678901+",
            "200102  3:04:05 x",
        ] {
            assert_eq!(parse_line(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for us in [0, 951_782_400_000_000, 951_868_799_999_999, 1_577_934_245_678_901, 4_102_444_799_000_000]
        {
            assert_eq!(parse_iso(iso(us).as_bytes()), Some(us), "{}", iso(us));
            let second = us / SECOND_US * SECOND_US;
            let year = &iso(us)[..4];
            if ("1970".."2070").contains(&year) {
                assert_eq!(parse_line(short(us).as_bytes()), Some(LineTime::Local(second)), "{}", short(us));
            }
        }
    }

    #[test]
    fn a_duration_is_seconds_with_a_fraction() {
        assert_eq!(duration_us(b"0.000187"), Some(187));
        assert_eq!(duration_us(b"12"), Some(12_000_000));
        assert_eq!(duration_us(b"1.5"), Some(1_500_000));
        assert_eq!(duration_us(b"1.12345678"), Some(1_123_456));
        for wrong in ["", ".5", "1.", "-1", "1s", "99999999999999999999"] {
            assert_eq!(duration_us(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

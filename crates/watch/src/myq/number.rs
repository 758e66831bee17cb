//! Formats numbers like myq_status: within a number of characters, with a unit that makes them fit.

/// A unit: its factor and its suffix.
type Unit = (f64, &'static str);

const COUNTS: [Unit; 4] = [(1.0, ""), (1e3, "k"), (1e6, "m"), (1e9, "g")];
const BYTES: [Unit; 5] =
    [(1.0, "b"), (1024.0, "K"), (1_048_576.0, "M"), (1_073_741_824.0, "G"), (1_099_511_627_776.0, "T")];
const MICROSECONDS: [Unit; 4] = [(1.0, "µs"), (1e3, "ms"), (1e6, "s"), (1e9, "ks")];

/// A count in at most `len_max` characters, if a unit makes it fit.
pub fn count(number: f64, len_max: usize) -> String {
    short(&COUNTS, number, 0, len_max)
}

/// Bytes, with one decimal where there is room.
pub fn bytes(number: f64, len_max: usize) -> String {
    short(&BYTES, number, 1, len_max)
}

/// A time in microseconds.
pub fn microseconds(number: f64, len_max: usize) -> String {
    short(&MICROSECONDS, number, 0, len_max)
}

/// Uses the smallest unit that fits. Remaining characters are filled with decimals, except without a unit factor; a text that is too long
/// by its decimals loses decimals. Zero has no unit.
fn short(units: &[Unit], number: f64, decimals: usize, len_max: usize) -> String {
    let fewer = |text: String| match decimals {
        0 => text,
        _ => short(units, number, decimals - 1, len_max),
    };
    for (factor, sign) in units {
        let part = number / factor;
        let text = format!("{part:.decimals$}{sign}");
        let len = text.chars().count();
        if part == 0.0 || len > len_max + decimals {
            continue;
        }
        return match len_max.checked_sub(len) {
            None => fewer(text),
            Some(left) if left > 1 && *factor > 1.0 => format!("{part:.*}{sign}", left - 1),
            Some(_) => text,
        };
    }
    let text = format!("{number:.decimals$}");
    if text.chars().count() <= len_max { text } else { fewer(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_fit_their_columns() {
        // Columns from printed output of the original: Ops 141 and 324, p_ms 377k.
        for (number, text) in [
            (0.0, "0"),
            (141.0, "141"),
            (9999.0, "9999"),
            (13_344.0, "13k"),
            (377_123.0, "377k"),
            (1_250_000.0, "1.2m"),
        ] {
            assert_eq!(count(number, 4), text);
        }
        assert_eq!(count(1000.0, 3), "1k", "there is no room for a point and a digit");
        assert_eq!(count(12.0, 2), "12");
        assert_eq!(count(-5.0, 4), "-5");
    }

    #[test]
    fn bytes_fit_their_columns() {
        for (number, text) in [
            (0.0, "0.0"),
            (140_000.0, "0.1M"),
            (1500.0, "1.5K"),
            (512.0, "0.5K"),
            (99.0, "99b"),
            (5.0, "5.0b"),
        ] {
            assert_eq!(bytes(number, 4), text);
        }
    }

    #[test]
    fn times_fit_their_columns() {
        for (number, text) in
            [(350.0, "350µs"), (1250.0, "1.2ms"), (60_000.0, "60ms"), (2_000_000.0, "2.00s")]
        {
            assert_eq!(microseconds(number, 5), text);
        }
    }
}

//! Text and numbers for people.

/// Escapes text and attribute values for HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What is written of each, one after the other.
pub(crate) fn each<T>(items: impl IntoIterator<Item = T>, write: impl FnMut(T) -> String) -> String {
    items.into_iter().map(write).collect()
}

/// A number without decimals, with thousands separators.
pub fn number(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A part of a whole: "12 %".
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A time to compare with others at a glance: "34 ms", from a tenth of a second on "0.21 s".
pub fn time(ms: f64) -> String {
    if ms < 99.5 { format!("{ms:.0} ms") } else { format!("{:.2} s", ms / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
    }

    #[test]
    fn numbers_are_read_easily() {
        assert_eq!([0.0, 999.0, 1000.0, 1_234_567.0].map(number), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_are_read_at_a_glance() {
        let times = [0.4, 34.4, 99.4, 100.0, 6300.0].map(time);
        assert_eq!(times, ["0 ms", "34 ms", "99 ms", "0.10 s", "6.30 s"]);
    }
}

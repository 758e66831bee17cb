//! Reported values written as SQL, so that another server gets the same values.

use std::fmt::Write; // into a String it cannot fail

/// Writes a reported value as SQL. Numbers are not quoted, since numeric variables refuse quoted ones. An empty character set or engine is
/// NULL. Text is written in hexadecimal, which does not depend on sql_mode and character set, with an introducer, since some variables take
/// a bare hexadecimal literal for a number.
pub fn put_value(out: &mut String, name: &str, value: &[u8]) {
    if value.is_empty() {
        let is_null = name.starts_with("character_set_") || name == "enforce_storage_engine";
        out.push_str(if is_null { "NULL" } else { "''" });
    } else if is_number(value) {
        out.push_str(&String::from_utf8_lossy(value));
    } else {
        put_text(out, "utf8mb4", value);
    }
}

/// Writes text of a character set as a literal that does not depend on sql_mode and character set.
pub fn put_text(out: &mut String, charset: &str, text: &[u8]) {
    if text.is_empty() {
        // 0x alone is no literal, and '' is NULL under EMPTY_STRING_IS_NULL.
        let _ = write!(out, "_{charset} x''");
        return;
    }
    let _ = write!(out, "_{charset} 0x");
    for byte in text {
        let _ = write!(out, "{byte:02X}");
    }
}

/// Whether it is a number in the form that servers write.
pub fn is_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let mut dots = 0;
    digits.first().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|&c| {
            dots += usize::from(c == b'.');
            c.is_ascii_digit() || (c == b'.' && dots == 1)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_bare_and_text_goes_safe() {
        let value = |name, value| {
            let mut out = String::new();
            put_value(&mut out, name, value);
            out
        };
        assert_eq!(value("x", b"-12.5"), "-12.5");
        assert_eq!(value("sql_mode", b"a'b"), "_utf8mb4 0x612762");
        assert_eq!(value("sql_mode", b""), "''");
        assert_eq!(value("character_set_results", b""), "NULL");
        assert!(!is_number(b"1.2.3") && !is_number(b"+00:00") && !is_number(b"-") && is_number(b"0"));
    }
}

//! Writes a prepared statement with its parameters as one text, as a slow log has it, so that it can be run elsewhere without parameters.
//!
//! Enters: the statement, the command that runs it, and the long data that was sent for it. Leaves: its text, with each parameter as a
//! literal of the same type and value; or nothing, where that is not certainly possible.

use std::borrow::Cow;
use std::fmt::Write; // into a String it cannot fail

use protocol::ok::status::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};
use protocol::parameter::{Parameter, parameters};
use protocol::statement::markers;

use crate::value::is_number;
use crate::wanted::Prepared;

/// Why there is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoText {
    /// It would be larger than the limit.
    TooLarge,
    /// A parameter has no literal, or its position in the text is not known.
    NotExpressible,
}

/// The character set of a session's strings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charset<'a> {
    /// Its `character_set_client`, if that is known.
    pub name: Option<&'a str>,
    /// Its `character_set_connection` differs: a parameter is then converted, but a string with an introducer is not.
    pub is_converted: bool,
}

/// The text of `statement` as `payload` (a COM_STMT_EXECUTE) runs it. `long`: the data that was sent for a parameter by
/// COM_STMT_SEND_LONG_DATA. `status`: the status bits of the session's last answer.
pub fn as_text<'a>(
    statement: &'a Prepared,
    payload: &'a [u8],
    long: impl Fn(u16) -> Option<&'a [u8]>,
    charset: Charset<'_>,
    status: u16,
    bytes_max: usize,
) -> Result<Vec<u8>, NoText> {
    if statement.sql.len() > bytes_max {
        return Err(NoText::TooLarge);
    }
    if statement.sql.is_empty() || statement.types_unseen {
        return Err(NoText::NotExpressible);
    }
    let values = parameters(payload, statement.params, &statement.types, long);
    let values = values.map_err(|_| NoText::NotExpressible)?;
    let places = markers(&statement.sql, status).ok_or(NoText::NotExpressible)?;
    if places.len() != values.len() {
        return Err(NoText::NotExpressible);
    }
    let mut text = Vec::with_capacity(statement.sql.len() + values.len() * 16);
    let mut from = 0;
    for (place, value) in places.iter().zip(&values) {
        text.extend_from_slice(&statement.sql[from..place.at]);
        from = place.at + 1;
        // Two minus signs before a space begin a comment, and adjacent strings are one string, even with a comment between them.
        let next = statement.sql[from..].trim_ascii_start();
        let is_comment = [&b"/*"[..], b"#", b"--"].iter().any(|begin| next.starts_with(begin));
        if text.ends_with(b"--") || is_comment || matches!(next.first(), Some(b'\'' | b'"')) {
            return Err(NoText::NotExpressible);
        }
        if !text.last().is_none_or(|byte| matches!(byte, b' ' | b'(' | b',' | b'=' | b'\n')) {
            text.push(b' ');
        }
        match place.is_limit {
            true => put_limit(&mut text, value)?,
            false => put(&mut text, value, charset, status)?,
        }
        if statement.sql.get(from).is_some_and(|byte| !matches!(byte, b' ' | b')' | b',' | b'\n')) {
            text.push(b' ');
        }
        if text.len() > bytes_max {
            return Err(NoText::TooLarge);
        }
    }
    text.extend_from_slice(&statement.sql[from..]);
    if text.len() > bytes_max { Err(NoText::TooLarge) } else { Ok(text) }
}

/// The argument of a LIMIT: servers accept a string of digits as a parameter there, but not as a literal.
fn put_limit(out: &mut Vec<u8>, value: &Parameter<'_>) -> Result<(), NoText> {
    let digits: Cow<'_, [u8]> = match *value {
        Parameter::Signed(number) => number.to_string().into_bytes().into(),
        Parameter::Unsigned(number) => number.to_string().into_bytes().into(),
        Parameter::Text(digits) | Parameter::Binary(digits) => digits.into(),
        _ => return Err(NoText::NotExpressible),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NoText::NotExpressible);
    }
    out.extend_from_slice(&digits);
    Ok(())
}

fn put(out: &mut Vec<u8>, value: &Parameter<'_>, charset: Charset<'_>, status: u16) -> Result<(), NoText> {
    let mut text = String::new();
    let _ = match *value {
        Parameter::Null => write!(text, "NULL"),
        Parameter::Signed(number) => write!(text, "{number}"),
        Parameter::Unsigned(number) => write!(text, "{number}"),
        // With an exponent, or it would be a decimal number.
        Parameter::Double(number) => write!(text, "{number:e}"),
        Parameter::Decimal(number) if is_number(number) => {
            out.extend_from_slice(number);
            // Without a point it would be an integer.
            if !number.contains(&b'.') {
                out.push(b'.');
            }
            return Ok(());
        }
        // A date that does not exist is valid as a parameter, but an error as a literal.
        Parameter::Date { year, month, day } | Parameter::DateTime { year, month, day, .. }
            if day > days_of(year, month) =>
        {
            return Err(NoText::NotExpressible);
        }
        // A date with a zero in it is not a literal of its type under every sql_mode. As a string it compares the same.
        Parameter::Date { year, month, day } => {
            let word = if month == 0 || day == 0 { "" } else { "DATE" };
            write!(text, "{word}'{year:04}-{month:02}-{day:02}'")
        }
        Parameter::DateTime { year, month, day, hour, minute, second, micros } => {
            let word = if month == 0 || day == 0 { "" } else { "TIMESTAMP" };
            let fraction = Fraction(micros);
            write!(text, "{word}'{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}'")
        }
        Parameter::Time { is_negative, hours, minute, second, micros } => {
            let (sign, fraction) = (if is_negative { "-" } else { "" }, Fraction(micros));
            write!(text, "TIME'{sign}{hours:02}:{minute:02}:{second:02}{fraction}'")
        }
        Parameter::Text(value) => return put_string(out, value, charset, status),
        Parameter::Binary(value) => {
            put_hex(out, "binary", value);
            return Ok(());
        }
        Parameter::Decimal(_) => return Err(NoText::NotExpressible),
    };
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// The number of days in a month. Month 0, which servers accept as unknown, has the most.
fn days_of(year: u16, month: u8) -> u8 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u8::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Microseconds after a decimal point; empty when zero.
struct Fraction(u32);

impl std::fmt::Display for Fraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, ".{:06}", self.0) }
    }
}

/// Character sets in which each byte is a character, and the bytes of ASCII are ASCII's characters.
#[rustfmt::skip] // as a block, it is read at one glance
const SINGLE_BYTE: [&str; 20] = [
    "armscii8", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8", "geostd8",
    "greek", "hebrew", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman",
];

/// A string in the session's character set. It is quoted where the bytes are certainly valid characters, so that it has the collation of a
/// parameter; otherwise it is written in hexadecimal. If `status` changes the meaning of backslashes or double quotes, the text contains
/// none, since the session that runs it elsewhere may differ.
fn put_string(out: &mut Vec<u8>, value: &[u8], charset: Charset<'_>, status: u16) -> Result<(), NoText> {
    let is_usual = status & (NO_BACKSLASH_ESCAPES | ANSI_QUOTES) == 0;
    let is_plain = value.iter().all(|&c| !c.is_ascii_control() && !matches!(c, b'\\' | b'"'));
    let is_utf8 = charset.name.is_some_and(|name| name.starts_with("utf8"));
    let is_letters = value.is_ascii()
        || (is_utf8 && std::str::from_utf8(value).is_ok())
        || charset.name.is_some_and(|name| SINGLE_BYTE.contains(&name));
    // A parser without knowledge of the character set may take a backslash after such a byte for the second half of a character.
    let is_clear =
        !value.windows(2).any(|two| !two[0].is_ascii() && matches!(two[1], b'\\' | 0 | b'\n' | b'\r'));
    if is_letters && is_clear && (is_usual || is_plain) {
        out.push(b'\'');
        for &byte in value {
            match byte {
                b'\'' => out.extend_from_slice(b"''"),
                b'\\' => out.extend_from_slice(br"\\"),
                0 => out.extend_from_slice(br"\0"),
                b'\n' => out.extend_from_slice(br"\n"),
                b'\r' => out.extend_from_slice(br"\r"),
                other => out.push(other),
            }
        }
        out.push(b'\'');
        return Ok(());
    }
    // Bytes that are invalid in their character set are accepted as a parameter, but are an error as a literal.
    if (is_utf8 && !is_letters) || charset.is_converted {
        return Err(NoText::NotExpressible);
    }
    put_hex(out, charset.name.ok_or(NoText::NotExpressible)?, value);
    Ok(())
}

fn put_hex(out: &mut Vec<u8>, charset: &str, value: &[u8]) {
    let mut text = String::new();
    crate::value::put_text(&mut text, charset, value);
    out.extend_from_slice(text.as_bytes());
}

/// The name of a character set by its number in a login; only those that clients usually have.
pub fn charset_of_login(number: u16) -> Option<&'static str> {
    Some(match number {
        5 | 8 | 15 | 31 | 47..=49 | 94 => "latin1",
        11 | 65 => "ascii",
        26 | 66 => "cp1250",
        33 | 76 | 83 | 192..=215 | 223 => "utf8mb3",
        45 | 46 | 224..=247 | 255..=323 => "utf8mb4",
        63 => "binary",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol::statement::Statement;

    use super::*;

    fn prepared(sql: &str, types: &[u16]) -> Prepared {
        Prepared {
            sql: sql.as_bytes().into(),
            scanned: Statement::of(sql.as_bytes()),
            params: types.len() as u16,
            bound: Arc::default(),
            types: types.iter().flat_map(|kind| kind.to_le_bytes()).collect(),
            types_unseen: false,
            refused: None,
        }
    }

    fn text(sql: &str, types: &[u16], values: &[u8], charset: Option<&str>) -> Result<String, NoText> {
        let statement = prepared(sql, types);
        let mut payload = vec![0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0];
        payload.extend(std::iter::repeat_n(0, types.len().div_ceil(8)));
        payload.push(0);
        payload.extend_from_slice(values);
        let charset = Charset { name: charset, is_converted: false };
        let text = as_text(&statement, &payload, |_| None, charset, 0, 200)?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn each_type_has_its_literal() {
        let sql = "SELECT ?";
        let of = |kind, values: &[u8]| text(sql, &[kind], values, Some("utf8mb4"));
        assert_eq!(of(1, &[0x80]).unwrap(), "SELECT -128");
        assert_eq!(of(0x8008, &u64::MAX.to_le_bytes()).unwrap(), "SELECT 18446744073709551615");
        assert_eq!(of(5, &0.1f64.to_le_bytes()).unwrap(), "SELECT 1e-1");
        assert_eq!(of(4, &1.5f32.to_le_bytes()).unwrap(), "SELECT 1.5e0");
        assert_eq!(of(0xF6, b"\x05-1.50").unwrap(), "SELECT -1.50");
        assert_eq!(of(0xF6, b"\x027 "), Err(NoText::NotExpressible));
        assert_eq!(of(0xF6, b"\x027a"), Err(NoText::NotExpressible));
        assert_eq!(of(0, b"\x017").unwrap(), "SELECT 7.");
        assert_eq!(of(0xF6, b"\x031e5"), Err(NoText::NotExpressible));
        assert_eq!(of(0xFD, b"\x04it's").unwrap(), "SELECT 'it''s'");
        assert_eq!(of(0xFD, b"\x06a\\\0\"\n'").unwrap(), r#"SELECT 'a\\\0"\n'''"#);
        assert_eq!(of(0xFD, b"\x02\xC3\xA4").unwrap(), "SELECT 'ä'");
        assert_eq!(of(0xFD, b"\x01\xE4"), Err(NoText::NotExpressible), "no text of UTF-8");
        assert_eq!(of(0xFD, b"\x00").unwrap(), "SELECT ''");
        assert_eq!(of(0xFC, b"\x02\x00'").unwrap(), "SELECT _binary 0x0027");
        assert_eq!(of(10, &[4, 0xE8, 7, 2, 29]).unwrap(), "SELECT DATE'2024-02-29'");
        assert_eq!(of(10, &[0]).unwrap(), "SELECT '0000-00-00'");
        assert_eq!(of(10, &[4, 0xE7, 7, 2, 29]), Err(NoText::NotExpressible), "no leap year");
        let moment = [11, 0xE8, 7, 2, 29, 1, 2, 3, 64, 226, 1, 0];
        assert_eq!(of(12, &moment).unwrap(), "SELECT TIMESTAMP'2024-02-29 01:02:03.123456'");
        assert_eq!(of(11, &[8, 1, 1, 0, 0, 0, 2, 3, 4]).unwrap(), "SELECT TIME'-26:03:04'");
        assert_eq!(of(0xFF, b"\x00"), Err(NoText::NotExpressible));
    }

    #[test]
    fn what_needs_the_character_set_is_left_out_without_it() {
        assert_eq!(text("SELECT ?", &[0xFD], b"\x01\xE4", None), Err(NoText::NotExpressible));
        assert_eq!(text("SELECT ?", &[0xFD], b"\x02\x83\x5C", Some("sjis")).unwrap(), "SELECT _sjis 0x835C");
        assert_eq!(text("SELECT ?", &[0xFD], b"\x01a", None).unwrap(), "SELECT 'a'");
        let mut out = vec![];
        let latin1 = Charset { name: Some("latin1"), is_converted: true };
        put_string(&mut out, b"\xE4'\\", latin1, 0).unwrap();
        assert_eq!(out, b"'\xE4''\\\\'");
        assert_eq!(put_string(&mut out, b"\xE4\\", latin1, 0), Err(NoText::NotExpressible));
        assert_eq!(
            text("SELECT ?", &[0xFD], b"\x02\xE4\\", Some("latin1")).unwrap(),
            "SELECT _latin1 0xE45C"
        );
    }

    #[test]
    fn no_text_rests_on_quotes_that_mean_something_else() {
        let put = |value: &[u8], status| {
            let mut out = vec![];
            let charset = Charset { name: Some("utf8mb4"), is_converted: false };
            put_string(&mut out, value, charset, status).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(put(b"it's", ANSI_QUOTES).unwrap(), "'it''s'");
        assert_eq!(put(b"\"", ANSI_QUOTES).unwrap(), "_utf8mb4 0x22");
        assert_eq!(put(b"\\", NO_BACKSLASH_ESCAPES).unwrap(), "_utf8mb4 0x5C");
        assert_eq!(put(b"\n", NO_BACKSLASH_ESCAPES).unwrap(), "_utf8mb4 0x0A");
    }

    #[test]
    fn literals_stand_apart_from_what_is_beside_them() {
        let one = &[1][..];
        assert_eq!(
            text("SELECT a FROM t WHERE b=?AND 1", &[1], one, None).unwrap(),
            "SELECT a FROM t WHERE b=1 AND 1"
        );
        assert_eq!(text("SELECT 5-?", &[1], &[0xFF], None).unwrap(), "SELECT 5- -1");
        let none = Err(NoText::NotExpressible);
        // A comment would begin.
        assert_eq!(text("SELECT 5--?, a FROM t", &[1], one, None), none);
        // The column's name would be a part of the string.
        for sql in [
            "SELECT ? 'a'",
            "SELECT ?/**/'a'",
            "SELECT ? /* x */ 'a'",
            "SELECT ? # x\n'a'",
            "SELECT ? -- x\n'a'",
        ] {
            assert_eq!(text(sql, &[0xFD], b"\x01b", None), none, "{sql}");
        }
        assert_eq!(text("SELECT a FROM t LIMIT ?", &[0xFD], b"\x025a", None), none);
        assert_eq!(text("SELECT a FROM t LIMIT ?", &[1], &[0xFF], None), none);
        assert_eq!(
            text("SELECT a FROM t LIMIT ?", &[0xFD], b"\x0215", None).unwrap(),
            "SELECT a FROM t LIMIT 15"
        );
    }

    #[test]
    fn too_much_is_left_out() {
        let mut long = vec![200];
        long.extend([b'a'; 200]);
        assert_eq!(text("SELECT ?", &[0xFD], &long, None), Err(NoText::TooLarge));
        assert_eq!(text("SELECT ?, '?'", &[1, 1], &[1, 1], None), Err(NoText::NotExpressible));
    }
}

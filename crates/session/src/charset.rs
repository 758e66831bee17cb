//! Names in a login are bytes in the character set that the login asks for; the server, and its table of accounts, have them in UTF-8.

use std::borrow::Cow;

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, Encoding, GBK, IBM866, ISO_8859_2, ISO_8859_7, ISO_8859_8, ISO_8859_13, KOI8_R,
    KOI8_U, MACINTOSH, SHIFT_JIS, WINDOWS_874, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1254,
    WINDOWS_1256, WINDOWS_1257,
};

/// MariaDB's variants of a collation that do not pad have its number and this bit.
const NO_PAD: u16 = 1024;

/// A name as the server knows it. `collation`: the number in the login. `None` where the bytes are no text in its character set, or where that is one
/// that is not known here; then they are no UTF-8 either.
pub fn name(bytes: &[u8], collation: u16) -> Option<Cow<'_, str>> {
    if bytes.is_ascii() {
        return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
    }
    match of(collation) {
        Some(encoding) => encoding.decode_without_bom_handling_and_without_replacement(bytes),
        None => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
    }
}

/// The encoding of a collation's character set, by the numbers in information_schema.COLLATIONS; `None` for UTF-8 and what is not known.
fn of(collation: u16) -> Option<&'static Encoding> {
    Some(match collation & !NO_PAD {
        // latin1 is Windows-1252 (MariaDB's and MySQL's manuals).
        5 | 8 | 15 | 31 | 47..=49 | 94 => WINDOWS_1252,
        2 | 9 | 21 | 27 | 77 => ISO_8859_2,
        30 | 78 => WINDOWS_1254,
        20 | 41 | 42 | 79 => ISO_8859_13,
        26 | 34 | 44 | 66 | 99 => WINDOWS_1250,
        14 | 23 | 50..=52 => WINDOWS_1251,
        57 | 67 => WINDOWS_1256,
        29 | 58 | 59 => WINDOWS_1257,
        25 | 70 => ISO_8859_7,
        16 | 71 => ISO_8859_8,
        7 | 74 => KOI8_R,
        22 | 75 => KOI8_U,
        36 | 68 => IBM866,
        39 | 53 => MACINTOSH,
        18 | 89 => WINDOWS_874,
        12 | 91 | 97 | 98 => EUC_JP,
        13 | 88 | 95 | 96 => SHIFT_JIS,
        24 | 28 | 86 | 87 => GBK,
        1 | 84 => BIG5,
        19 | 85 => EUC_KR,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_in_the_character_set_of_the_login() {
        for (bytes, collation, known) in [
            (&b"app"[..], 8, Some("app")),
            (b"jos\xe9", 8, Some("josé")),
            (b"jos\xe9", 8 + NO_PAD, Some("josé")),
            ("josé".as_bytes(), 45, Some("josé")),
            ("josé".as_bytes(), 0, Some("josé")),
            (b"jos\xe9", 45, None),
            (b"\xe4\xe1", 51, Some("дб")),
            (b"\xc4\xc2", 7, Some("дб")),
            (b"\x93\xfa\x96\x7b", 13, Some("日本")),
        ] {
            assert_eq!(name(bytes, collation).as_deref(), known, "{bytes:?} in {collation}");
        }
    }
}

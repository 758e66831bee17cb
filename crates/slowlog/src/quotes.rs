//! Which quote or comment is open at the end of SQL text.

use memchr::{memchr, memchr2, memmem};

/// What is open between two lines of a text. A head begins with a line, so nothing is asked elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quotes {
    open: Option<Open>,
    /// Within `/*! ... */` or `/*M! ... */`, which is code.
    is_executable: bool,
    /// How many were closed so far.
    closed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Quote(u8),
    Comment,
}

impl Quotes {
    /// Whether the next line begins in a string, a quoted name or a comment in `/* */`.
    pub(crate) fn is_open(self) -> bool {
        self.open.is_some()
    }

    /// How many quotes and comments were closed so far.
    pub(crate) fn closed(self) -> usize {
        self.closed
    }

    /// Goes on with whole lines. A backslash in a string is taken for an escape. Where it is none (NO_BACKSLASH_ESCAPES), a string may
    /// seem open, as with any broken text; the entries that follow tell.
    pub(crate) fn pass(&mut self, text: &[u8]) {
        let mut left = text;
        loop {
            let closed = match self.open {
                None => {
                    let Some((open, rest)) = self.opened(left) else { return };
                    (self.open, left) = (Some(open), rest);
                    continue;
                }
                Some(Open::Comment) => memmem::find(left, b"*/").map(|end| &left[end + 2..]),
                Some(Open::Quote(quote)) => behind_quote(left, quote),
            };
            let Some(rest) = closed else { return };
            (self.open, left) = (None, rest);
            self.closed += 1;
        }
    }

    /// The next quote or comment that code opens, and the text behind its beginning.
    fn opened<'a>(&mut self, code: &'a [u8]) -> Option<(Open, &'a [u8])> {
        let mut left = code;
        loop {
            let at = left.iter().position(|byte| OPENS[usize::from(*byte)])?;
            let (found, rest) = (left[at], &left[at + 1..]);
            left = match (found, rest) {
                (b'\'' | b'"' | b'`', _) => return Some((Open::Quote(found), rest)),
                (b'/', [b'*', b'!', rest @ ..] | [b'*', b'M', b'!', rest @ ..]) => {
                    self.is_executable = true;
                    rest
                }
                (b'/', [b'*', rest @ ..]) => return Some((Open::Comment, rest)),
                (b'*', [b'/', rest @ ..]) if self.is_executable => {
                    self.is_executable = false;
                    rest
                }
                (b'#', _) | (b'-', [b'-'] | [b'-', ..=b' ', ..]) => &rest[memchr(b'\n', rest)?..],
                _ => rest,
            };
        }
    }
}

/// What stands behind the end of a string or name in these quotes, within which they are doubled or, in a string, escaped.
fn behind_quote(text: &[u8], quote: u8) -> Option<&[u8]> {
    let mut left = text;
    loop {
        let at = if quote == b'`' { memchr(quote, left)? } else { memchr2(quote, b'\\', left)? };
        let rest = &left[at + 1..];
        left = match rest.split_first() {
            Some((_, behind)) if left[at] == b'\\' => behind,
            Some((next, behind)) if *next == quote => behind,
            None if left[at] == b'\\' => return None,
            _ => return Some(rest),
        };
    }
}

/// The bytes that may open a quote or a comment, or end an executable one.
const OPENS: [bool; 256] = {
    let mut all = [false; 256];
    let bytes = b"'\"`-#/*";
    let mut at = 0;
    while at < bytes.len() {
        all[bytes[at] as usize] = true;
        at += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_at_the_end_of_a_text() {
        let is_open = |text: &str| {
            let mut whole = Quotes::default();
            whole.pass(text.as_bytes());
            let mut lines = Quotes::default();
            text.split_inclusive('\n').for_each(|line| lines.pass(line.as_bytes()));
            assert_eq!(whole, lines, "{text}");
            whole.is_open()
        };
        for open in [
            "SELECT 'a",
            "SELECT 'a\nb",
            "SELECT \"a'",
            "SELECT `a\\`, `",
            "SELECT 'a\\'",
            "SELECT 'a\\\n'b'",
            "SELECT 'a''",
            "/* ",
            "/* *\n",
            "/*!50000 'a",
            "--a'",
            "---1'",
            "/*/",
            "SELECT 2*/*",
        ] {
            assert!(is_open(open), "{open}");
        }
        for closed in [
            "",
            "SELECT 'a'",
            "SELECT 'a\\\\'",
            "SELECT 'it''s'",
            "SELECT '\"'",
            "SELECT 1 /",
            "-- it's",
            "# it's",
            "/* it's\n */",
            "/**/",
            "/***/",
            "/*! SELECT\n 1 */",
            "/*M! 'a' */",
            "/*! 1 */ /* it's */",
            "1--1",
            "-- '\n",
            "--\n",
            "# '\nSELECT 1",
            "2*/*c'*/3",
        ] {
            assert!(!is_open(closed), "{closed}");
        }
    }
}

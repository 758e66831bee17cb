//! Determines whether a position in SQL text is inside quotes or a comment.
//!
//! Input: the text, in parts that may be cut anywhere. Output: whether a quote or a comment is open at its end. Each byte is examined once;
//! whatever may span two parts is kept in the state.

use memchr::{memchr, memchr2};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Code,
    /// `-`
    Dash,
    /// `--`, which begins a comment if space follows
    Dashes,
    /// `/`
    Slash,
    /// `/*`, which begins executable code if `!` follows
    Opened,
    /// `/*M`, which begins executable code if `!` follows
    OpenedM,
    /// `*` inside an executable comment, which may be the beginning of its end
    Star,
    Line,
    Block,
    /// `*` in a comment
    BlockStar,
    /// Inside this quote.
    Quote(u8),
    /// After a backslash inside this quote.
    Escaped(u8),
}

/// What is open at the end of the text so far.
#[derive(Clone, Debug)]
pub(crate) struct Quotes {
    state: State,
    /// Inside `/*! ... */`.
    is_executable: bool,
    /// A backslash is an escape character (not under NO_BACKSLASH_ESCAPES).
    escapes: bool,
}

impl Quotes {
    pub(crate) fn new(escapes: bool) -> Self {
        Self { state: State::Code, is_executable: false, escapes }
    }

    /// Whether the next byte may be part of a string, a quoted identifier, or a comment in `/* */`.
    pub(crate) fn is_open(&self) -> bool {
        use State::{Block, BlockStar, Escaped, Opened, OpenedM, Quote};
        matches!(self.state, Quote(_) | Escaped(_) | Block | BlockStar | Opened | OpenedM)
    }

    /// Continues with `text`.
    pub(crate) fn pass(&mut self, text: &[u8]) {
        let mut left = text;
        while let Some((&byte, rest)) = left.split_first() {
            let skipped = match self.state {
                State::Code => left.iter().position(|&b| CODE[usize::from(b)]),
                State::Line => memchr(b'\n', left),
                State::Block => memchr(b'*', left),
                State::Quote(quote) if quote == b'`' || !self.escapes => memchr(quote, left),
                State::Quote(quote) => memchr2(quote, b'\\', left),
                _ => {
                    if self.single(byte) {
                        left = rest;
                    }
                    continue;
                }
            };
            let Some(at) = skipped else { return };
            let byte = left[at];
            left = &left[at + 1..];
            self.state = match self.state {
                State::Code => self.opened_by(byte),
                State::Block => State::BlockStar,
                State::Quote(quote) if byte != quote => State::Escaped(quote),
                _ => State::Code,
            };
        }
    }

    fn opened_by(&self, byte: u8) -> State {
        match byte {
            b'-' => State::Dash,
            b'#' => State::Line,
            b'/' => State::Slash,
            b'*' if self.is_executable => State::Star,
            b'\'' | b'"' | b'`' => State::Quote(byte),
            _ => State::Code,
        }
    }

    /// Leaves a state that the next byte decides. Returns false when that byte has still to be examined in the new state.
    fn single(&mut self, byte: u8) -> bool {
        let (state, is_taken) = match (self.state, byte) {
            (State::Dash | State::Dashes, b'-') => (State::Dashes, true),
            (State::Dashes, b'\n') => (State::Code, true),
            (State::Dashes, ..=b' ') => (State::Line, true),
            (State::Slash, b'*') => (State::Opened, true),
            (State::Opened, b'M') => (State::OpenedM, true),
            (State::Opened | State::OpenedM, b'!') => {
                self.is_executable = true;
                (State::Code, true)
            }
            (State::Opened | State::OpenedM, _) => (State::Block, false),
            (State::Star, b'/') => {
                self.is_executable = false;
                (State::Code, true)
            }
            (State::BlockStar, b'/') => (State::Code, true),
            (State::BlockStar, b'*') => (State::BlockStar, true),
            (State::BlockStar, _) => (State::Block, true),
            (State::Escaped(quote), _) => (State::Quote(quote), true),
            _ => (State::Code, false),
        };
        self.state = state;
        is_taken
    }
}

/// The bytes that may open a quote or a comment.
const CODE: [bool; 256] = {
    let mut all = [false; 256];
    let mut at = 0;
    while at < BYTES.len() {
        all[BYTES[at] as usize] = true;
        at += 1;
    }
    all
};
const BYTES: &[u8] = b"'\"`-#/*";

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(text: &str) -> bool {
        let mut whole = Quotes::new(true);
        whole.pass(text.as_bytes());
        let mut bytes = Quotes::new(true);
        text.bytes().for_each(|byte| bytes.pass(&[byte]));
        assert_eq!(whole.is_open(), bytes.is_open(), "{text}");
        whole.is_open()
    }

    #[test]
    fn what_is_open_at_the_end_of_a_text() {
        for open in [
            "SELECT 'a",
            "SELECT \"a'",
            "SELECT `a\\`, `",
            "SELECT 'a\\'",
            "SELECT 'a''",
            "/* ",
            "/* *",
            "SELECT 1 /",
            "/*!50000 'a",
            "--a'",
            "---1'",
            "/*/",
            "SELECT 2*/*",
        ] {
            // A slash alone opens nothing yet.
            assert_eq!(is_open(open), open != "SELECT 1 /", "{open}");
        }
        for closed in [
            "",
            "SELECT 'a'",
            "SELECT 'a\\\\'",
            "SELECT 'it''s'",
            "SELECT '\"'",
            "-- it's",
            "# it's",
            "/* it's */",
            "/**/",
            "/***/",
            "/*! SELECT 1 */",
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

    #[test]
    fn without_escapes_a_backslash_is_a_character() {
        let mut quotes = Quotes::new(false);
        quotes.pass(b"SELECT 'a\\'");
        assert!(!quotes.is_open());
    }
}

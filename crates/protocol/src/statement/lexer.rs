//! SQL text as tokens: as much of the servers' lexer as is needed to know what is code and what is not.
//!
//! Enters: a statement's bytes in a character set that keeps ASCII, and the session's status flags (they tell how
//! backslashes and double quotes are meant). Leaves: tokens, borrowed. Invariant: every byte is passed once. Where two
//! readings are possible (an executable comment; a quote that ends a string in one character set and not in another) the
//! lexer takes one and raises [`Lexer::is_doubtful`].

use memchr::{memchr, memchr2};

use crate::ok::status;

/// A piece of SQL text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A bare keyword or name.
    Word(&'a [u8]),
    /// A name in backticks (in double quotes, too, under ANSI_QUOTES), without its quotes; a doubled quote in it stays doubled.
    Quoted(&'a [u8]),
    /// A string, with its quotes.
    Text(&'a [u8]),
    /// A number, or a bare name that begins with a digit.
    Number(&'a [u8]),
    /// `@name`, however quoted; also the host part of an account.
    UserVariable,
    /// `@@name`, or the scope in `@@scope.name`; without its quotes.
    SystemVariable(&'a [u8]),
    /// `:=`
    Assign,
    /// Any other character.
    Punct(u8),
}

#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    left: &'a [u8],
    /// From the first byte of the last token on.
    from: &'a [u8],
    status: u16,
    /// How many executable comments are open.
    open_comments: u32,
    /// The text can be read in more than one way.
    pub(super) is_doubtful: bool,
    /// Whether space or a comment stood before the last token.
    pub(super) had_gap: bool,
    /// The text is not UTF-8: some of its bytes may be space, see [`is_space_somewhere`].
    is_of_other_charset: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(sql: &'a [u8], status: u16) -> Lexer<'a> {
        Lexer {
            left: sql,
            from: sql,
            status,
            open_comments: 0,
            is_doubtful: false,
            had_gap: false,
            is_of_other_charset: !sql.is_ascii() && std::str::from_utf8(sql).is_err(),
        }
    }

    #[allow(clippy::inline_always)] // see `Look::note`
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        self.had_gap = self.skip_gap();
        if self.is_of_other_charset {
            self.skip_space_of_charset();
        }
        let last = self.from;
        self.from = self.left;
        let (&first, rest) = self.left.split_first()?;
        // Most tokens by far.
        if class(first) & (WORD | DIGIT) == WORD {
            return Some(Token::Word(self.take_while(is_in_word)));
        }
        Some(match first {
            b'\'' | b'"' | b'`' => {
                let text = self.quoted(first);
                if self.is_name(first) { Token::Quoted(text) } else { Token::Text(text) }
            }
            b'@' => {
                self.left = rest;
                self.variable().map_or(Token::UserVariable, Token::SystemVariable)
            }
            b':' if rest.first() == Some(&b'=') => {
                self.left = &rest[1..];
                Token::Assign
            }
            b'0'..=b'9' => {
                // Nothing between a point and the number.
                let is_behind_point = matches!(last, [b'.', behind @ ..] if behind.len() == self.left.len());
                Token::Number(self.number(is_behind_point))
            }
            _ => {
                if first == 0 {
                    self.is_doubtful = true;
                }
                self.left = rest;
                Token::Punct(first)
            }
        })
    }

    /// The text from the last token's first byte on, and the token's length in bytes.
    pub(super) fn at_last(&self) -> (&'a [u8], usize) {
        (self.from, self.from.len() - self.left.len())
    }

    /// Skips space and comments; tells whether there was any. Mostly it is one space, or nothing.
    #[allow(clippy::inline_always)] // measured: see `Look::note`
    #[inline(always)]
    fn skip_gap(&mut self) -> bool {
        let (gap, left) = match self.left {
            [b' ', rest @ ..] => (true, rest),
            left => (false, left),
        };
        if left.first().is_none_or(|&b| class(b) & (SPACE | COMMENT) == 0) {
            self.left = left;
            return gap;
        }
        self.skip_long_gap()
    }

    fn skip_long_gap(&mut self) -> bool {
        let before = self.left.len();
        loop {
            let spaces = self.left.iter().position(|&b| class(b) & SPACE == 0).unwrap_or(self.left.len());
            self.left = &self.left[spaces..];
            if self.left.first().is_none_or(|&b| class(b) & COMMENT == 0) {
                return self.left.len() != before;
            }
            match *self.left {
                [b'#', ..] => self.skip_line(),
                [b'-', b'-', next, ..] if next <= b' ' => self.skip_line(),
                [b'-', b'-'] => self.left = &[],
                [b'/', b'*', b'!', ref rest @ ..] | [b'/', b'*', b'M', b'!', ref rest @ ..] => {
                    // Code for some versions, a comment for others.
                    self.is_doubtful = true;
                    self.open_comments = self.open_comments.saturating_add(1);
                    self.left = rest;
                    self.take_while(|b| b.is_ascii_digit());
                }
                [b'/', b'*', ref rest @ ..] => {
                    self.left = rest;
                    self.skip_comment();
                }
                [b'*', b'/', ref rest @ ..] if self.open_comments > 0 => {
                    self.open_comments -= 1;
                    self.left = rest;
                }
                _ => return self.left.len() != before,
            }
        }
    }

    /// The space that only some character sets have.
    fn skip_space_of_charset(&mut self) {
        while let [first, rest @ ..] = self.left
            && is_space_somewhere(*first)
        {
            self.is_doubtful = true;
            self.left = rest;
            self.skip_gap();
            self.had_gap = true;
        }
    }

    /// Digits, an exponent. Letters that follow at once are a name's, but behind a point and behind an exponent no name goes on: `1.5INTO`.
    fn number(&mut self, is_behind_point: bool) -> &'a [u8] {
        let whole = self.left;
        let taken = self.take_while(is_in_word);
        let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
        let mantissa = digits(taken);
        let exponent = match &whole[mantissa..] {
            [b'e' | b'E', b'+' | b'-', power @ ..] if digits(power) > 0 => 2 + digits(power),
            [b'e' | b'E', power @ ..] if digits(power) > 0 => 1 + digits(power),
            _ => 0,
        };
        if exponent == 0 && !is_behind_point {
            return taken;
        }
        let (number, left) = whole.split_at(mantissa + exponent);
        self.left = left;
        self.is_doubtful |= left.first().is_some_and(|&b| is_in_word(b));
        number
    }

    fn skip_line(&mut self) {
        let end = memchr(b'\n', self.left).unwrap_or(self.left.len());
        self.left = &self.left[end..];
    }

    fn skip_comment(&mut self) {
        match self.left.windows(2).position(|pair| pair == b"*/") {
            Some(end) => self.left = &self.left[end + 2..],
            None => {
                self.is_doubtful = true;
                self.left = &[];
            }
        }
    }

    fn take_while(&mut self, is_in: impl Fn(u8) -> bool) -> &'a [u8] {
        let mut end = self.left.iter().position(|&b| !is_in(b)).unwrap_or(self.left.len());
        if self.is_of_other_charset {
            end = self.left[..end].iter().position(|&b| is_space_somewhere(b)).unwrap_or(end);
        }
        let (taken, left) = self.left.split_at(end);
        self.left = left;
        // In some East Asian character sets the second byte of a letter may look like punctuation.
        if taken.last().is_some_and(|&b| b >= 0x80)
            && matches!(
                left.first(),
                Some(b'@' | b'[' | b'\\' | b']' | b'^' | b'`' | b'{' | b'|' | b'}' | b'~')
            )
        {
            self.is_doubtful = true;
        }
        taken
    }

    /// What stands in this quote is a name.
    fn is_name(&self, quote: u8) -> bool {
        quote == b'`' || (quote == b'"' && self.status & status::ANSI_QUOTES != 0)
    }

    /// A name without its quotes, or a string with them; `left` stands at the opening one.
    fn quoted(&mut self, quote: u8) -> &'a [u8] {
        let whole = self.left;
        let is_name = self.is_name(quote);
        let escapes = !is_name && self.status & status::NO_BACKSLASH_ESCAPES == 0;
        let body = &whole[1..];
        let mut at = 0;
        let mut end = body.len();
        loop {
            let Some(found) = memchr2(quote, b'\\', &body[at..]) else {
                self.is_doubtful = true; // it never ends
                self.left = &[];
                break;
            };
            let found_at = at + found;
            // The second half of a letter in some character set? A single or double quote can be none.
            let may_be_half = found_at > 0 && body[found_at - 1] >= 0x80;
            if body[found_at] == b'\\' {
                if escapes {
                    // MySQL does not say whether ANSI_QUOTES is on; then the backslash would escape nothing.
                    let may_be_name = quote == b'"' && body.get(found_at + 1) == Some(&b'"');
                    self.is_doubtful |= may_be_half || may_be_name;
                    at = (found_at + 2).min(body.len());
                } else {
                    at = found_at + 1;
                }
                continue;
            }
            self.is_doubtful |= may_be_half && quote == b'`';
            if body.get(found_at + 1) == Some(&quote) {
                at = found_at + 2; // a doubled quote stands for itself
                continue;
            }
            end = found_at;
            self.left = &body[found_at + 1..];
            break;
        }
        if is_name { &body[..end] } else { &whole[..whole.len() - self.left.len()] }
    }

    /// Behind one `@`: the name of a system variable; None: it is the user's.
    fn variable(&mut self) -> Option<&'a [u8]> {
        if let Some(rest) = self.left.strip_prefix(b"@") {
            self.left = rest;
            return Some(match self.left.first() {
                Some(b'`') => self.quoted(b'`'),
                _ => self.take_while(is_in_word),
            });
        }
        match self.left.first() {
            Some(&quote @ (b'\'' | b'"' | b'`')) => {
                self.quoted(quote);
            }
            _ => {
                self.take_while(|b| is_in_word(b) || b == b'.');
            }
        }
        None
    }
}

/// Space in some character set of one byte a letter (`ctype` of MySQL's and MariaDB's `strings/`: latin1, koi8r, macroman, cp850): a no-break space.
/// In others it is a letter, or a part of one.
fn is_space_somewhere(b: u8) -> bool {
    matches!(b, 0x9A | 0xA0 | 0xCA | 0xFF)
}

fn is_in_word(b: u8) -> bool {
    class(b) & WORD != 0
}

/// What a byte may be: a part of a word, a digit, space, the beginning (or the end) of a comment.
const WORD: u8 = 1;
const DIGIT: u8 = 2;
const SPACE: u8 = 4;
const COMMENT: u8 = 8;

/// Of each byte.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut b = 0;
    while b < 256 {
        classes[b] = match b as u8 {
            b'0'..=b'9' => WORD | DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => WORD,
            b' ' | b'\t'..=b'\r' => SPACE,
            b'#' | b'-' | b'/' | b'*' => COMMENT,
            _ => 0,
        };
        b += 1;
    }
    classes
};

fn class(b: u8) -> u8 {
    CLASSES[usize::from(b)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(sql: &str, status: u16) -> (Vec<Token<'_>>, bool) {
        let mut lexer = Lexer::new(sql.as_bytes(), status);
        let mut all = Vec::new();
        while let Some(token) = lexer.next() {
            all.push(token);
        }
        (all, lexer.is_doubtful)
    }

    #[test]
    fn strings_end_where_the_session_says() {
        use Token::{Punct, Text, Word};
        assert_eq!(tokens(r"'a\';x'", 0), (vec![Text(br"'a\';x'")], false));
        assert_eq!(
            tokens(r"'a\';x", status::NO_BACKSLASH_ESCAPES),
            (vec![Text(br"'a\'"), Punct(b';'), Word(b"x")], false)
        );
        assert_eq!(tokens("'it''s'\"a\"\"b\"", 0), (vec![Text(b"'it''s'"), Text(b"\"a\"\"b\"")], false));
        assert_eq!(tokens("\"a\"", status::ANSI_QUOTES), (vec![Token::Quoted(b"a")], false));
        assert_eq!(tokens(r"`a\`", 0), (vec![Token::Quoted(br"a\")], false));
        assert_eq!(tokens("'open", 0), (vec![Text(b"'open")], true));
        assert_eq!(tokens(r"'open\", 0), (vec![Text(br"'open\")], true));
        assert!(tokens("'é\\'", 0).1);
    }

    #[test]
    fn comments_are_no_code_unless_some_version_runs_them() {
        use Token::{Number, Punct, Word};
        assert_eq!(tokens("a -- b\nc # d\n/* e */f", 0), (vec![Word(b"a"), Word(b"c"), Word(b"f")], false));
        assert_eq!(tokens("1--1", 0).0, [Number(b"1"), Punct(b'-'), Punct(b'-'), Number(b"1")]);
        assert_eq!(tokens("a /*!50001 b */ c /*M! d*/", 0).0.len(), 4);
        assert!(tokens("a /*!50001 b */", 0).1);
        assert!(tokens("a /* b", 0).1);
        assert_eq!(tokens("a--", 0), (vec![Word(b"a")], false));
    }

    #[test]
    fn variables() {
        use Token::{Assign, Punct, SystemVariable, UserVariable, Word};
        assert_eq!(
            tokens("@a:=@'b c'@@global.x @@`y` @`z`", 0).0,
            [
                UserVariable,
                Assign,
                UserVariable,
                SystemVariable(b"global"),
                Punct(b'.'),
                Word(b"x"),
                SystemVariable(b"y"),
                UserVariable
            ]
        );
    }

    proptest! {
        #[test]
        fn every_token_takes_something(sql in proptest::collection::vec(any::<u8>(), 0..200), status in any::<u16>()) {
            let mut lexer = Lexer::new(&sql, status);
            let mut left = sql.len();
            while lexer.next().is_some() {
                prop_assert!(lexer.left.len() < left);
                left = lexer.left.len();
            }
            prop_assert!(lexer.left.is_empty());
        }
    }
}

//! A text as the items that a digest is made of: one for each literal, however it is written, and one for each operator.

use crate::statement::lexer::{Lexer, Token};

/// A piece of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// A value, or a place for one.
    Literal,
    /// A bare keyword or name, or a quoted name that could stand bare.
    Word(&'a [u8]),
    /// Another quoted name, without its quotes.
    Quoted(&'a [u8]),
    /// A variable with its `@` or `@@`.
    Variable(&'a [u8]),
    /// An operator of one character or more, or any other character.
    Operator(&'a [u8]),
}

/// Reads the items of a text.
pub(super) struct Items<'a> {
    lexer: Lexer<'a>,
    /// Read ahead.
    ahead: Option<Read<'a>>,
    /// The last item was one that a binary operator may follow.
    is_operand: bool,
    /// The last word was IS or NOT: a NULL behind it is no value.
    is_test: bool,
}

#[derive(Clone, Copy)]
struct Read<'a> {
    token: Token<'a>,
    /// The text from its first byte on.
    from: &'a [u8],
    /// Its length in bytes.
    len: usize,
    had_gap: bool,
}

impl<'a> Read<'a> {
    /// As it is written.
    fn raw(&self) -> &'a [u8] {
        self.from.get(..self.len).unwrap_or_default()
    }
}

impl<'a> Items<'a> {
    pub(super) fn new(sql: &'a [u8], status: u16) -> Items<'a> {
        Items { lexer: Lexer::new(sql, status), ahead: None, is_operand: false, is_test: false }
    }

    fn read(&mut self) -> Option<Read<'a>> {
        self.ahead.take().or_else(|| {
            let token = self.lexer.next()?;
            let (from, len) = self.lexer.at_last();
            Some(Read { token, from, len, had_gap: self.lexer.had_gap })
        })
    }

    fn peek(&mut self) -> Option<Read<'a>> {
        self.ahead = self.read();
        self.ahead
    }

    /// Takes the next token when it directly follows and is one of these characters.
    fn takes_adjacent(&mut self, characters: &[u8]) -> bool {
        let is_there = self.peek().is_some_and(
            |next| matches!(next.token, Token::Punct(found) if !next.had_gap && characters.contains(&found)),
        );
        if is_there {
            self.ahead = None;
        }
        is_there
    }

    /// Takes the next token when it directly follows and is a number.
    fn takes_adjacent_number(&mut self) -> Option<&'a [u8]> {
        match self.peek()? {
            Read { token: Token::Number(digits), had_gap: false, .. } => {
                self.ahead = None;
                Some(digits)
            }
            _ => None,
        }
    }

    pub(super) fn next(&mut self) -> Option<Item<'a>> {
        let read = self.read()?;
        let item = self.item(read);
        let was_test = self.is_test;
        self.is_test = false;
        self.is_operand = match item {
            Item::Word(word) => {
                self.is_test = [&b"IS"[..], b"NOT"].iter().any(|test| word.eq_ignore_ascii_case(test));
                if word.eq_ignore_ascii_case(b"NULL") && !was_test {
                    self.is_operand = true;
                    return Some(Item::Literal);
                }
                !comes_before_operand(word)
            }
            Item::Operator(operator) => operator == b")",
            Item::Literal | Item::Quoted(_) | Item::Variable(_) => true,
        };
        Some(item)
    }

    fn item(&mut self, read: Read<'a>) -> Item<'a> {
        match read.token {
            Token::Word(word) => self.word(word),
            Token::Quoted(name) if could_be_bare(name) => Item::Word(name),
            Token::Quoted(name) => Item::Quoted(name),
            Token::Text(_) => self.strings(),
            Token::Number(digits) => self.number(digits),
            Token::UserVariable | Token::SystemVariable(_) => Item::Variable(read.raw()),
            Token::Assign => Item::Operator(b":="),
            Token::Punct(b'?') => Item::Literal,
            // .5
            Token::Punct(b'.') if !self.is_operand => match self.takes_adjacent_number() {
                Some(_) => Item::Literal,
                None => Item::Operator(read.raw()),
            },
            // A sign belongs to its number.
            Token::Punct(b'-' | b'+') if !self.is_operand && self.is_number_next() => {
                self.read().map_or(Item::Literal, |number| self.item(number))
            }
            Token::Punct(first) => self.operator(first, read.from),
        }
    }

    fn is_number_next(&mut self) -> bool {
        matches!(self.peek(), Some(Read { token: Token::Number(digits), .. }) if !is_name(digits))
    }

    /// A word, unless a string behind it makes it a literal's prefix: _utf8mb4'x', x'00', N'a'.
    fn word(&mut self, word: &'a [u8]) -> Item<'a> {
        let is_prefix = match self.peek() {
            Some(Read { token: Token::Text(_), had_gap, .. }) => {
                word.first() == Some(&b'_')
                    || (!had_gap && matches!(word, [b'x' | b'X' | b'b' | b'B' | b'n' | b'N']))
            }
            _ => false,
        };
        if !is_prefix {
            return Item::Word(word);
        }
        self.ahead = None;
        self.strings()
    }

    /// Strings side by side are one.
    fn strings(&mut self) -> Item<'a> {
        while matches!(self.peek(), Some(Read { token: Token::Text(_), .. })) {
            self.ahead = None;
        }
        Item::Literal
    }

    /// 5, 5.5, 5e-5, 0xFF; or a name that begins with a digit.
    fn number(&mut self, digits: &'a [u8]) -> Item<'a> {
        if is_name(digits) {
            return Item::Word(digits);
        }
        if digits.iter().all(u8::is_ascii_digit) && self.takes_adjacent(b".") {
            self.takes_adjacent_number();
        }
        Item::Literal
    }

    /// Characters that directly follow each other and are one operator.
    fn operator(&mut self, first: u8, from: &'a [u8]) -> Item<'a> {
        const COMPARING: &[u8] = b"<>=|&";
        let follow: &[u8] = match first {
            b'<' | b'>' | b'=' | b'!' | b'|' | b'&' => COMPARING,
            b'-' => b">",
            _ => b"",
        };
        let mut len = 1;
        while len < 3 && self.takes_adjacent(if len == 1 { follow } else { COMPARING }) {
            len += 1;
        }
        Item::Operator(from.get(..len).unwrap_or_default())
    }
}

/// Whether a token that begins with a digit is a name: not digits alone, no exponent, not hexadecimal or binary (which servers take
/// with a small letter only; here the case of a letter never counts).
fn is_name(digits: &[u8]) -> bool {
    let behind = digits.iter().position(|byte| !byte.is_ascii_digit()).map_or(&b""[..], |at| &digits[at..]);
    let is_exponent = matches!(behind, [b'e' | b'E', b'+' | b'-', ..])
        || matches!(behind, [b'e' | b'E', power @ ..] if power.iter().all(u8::is_ascii_digit));
    let is_binary =
        matches!(digits, [b'0', b'b' | b'B', bits @ ..] if bits.iter().all(|bit| matches!(bit, b'0' | b'1')));
    !(behind.is_empty() || is_exponent || is_hex(digits) || is_binary)
}

fn is_hex(digits: &[u8]) -> bool {
    matches!(digits, [b'0', b'x' | b'X', hex @ ..] if hex.iter().all(u8::is_ascii_hexdigit))
}

fn could_be_bare(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
}

/// Keywords behind which a minus is a sign.
fn comes_before_operand(word: &[u8]) -> bool {
    const BEFORE: [&[u8]; 27] = [
        b"AND",
        b"BETWEEN",
        b"BY",
        b"CASE",
        b"DISTINCT",
        b"DIV",
        b"DO",
        b"ELSE",
        b"HAVING",
        b"IN",
        b"INTERVAL",
        b"IS",
        b"LIKE",
        b"LIMIT",
        b"MOD",
        b"NOT",
        b"OFFSET",
        b"ON",
        b"OR",
        b"RETURN",
        b"RETURNING",
        b"SELECT",
        b"SET",
        b"THEN",
        b"WHEN",
        b"WHERE",
        b"XOR",
    ];
    BEFORE.iter().any(|before| word.eq_ignore_ascii_case(before))
}

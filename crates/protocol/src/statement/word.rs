//! Words, compared without regard to case.

use super::lexer::Token;

/// Longer words are nobody's keyword.
pub(super) const WORD_MAX: usize = 40;

/// A word in upper case, on the stack. One that is too long or not ASCII is empty.
#[derive(Clone, Copy)]
pub(super) struct Upper {
    bytes: [u8; WORD_MAX],
    len: usize,
}

impl Upper {
    #[inline]
    pub(super) fn of(word: &[u8]) -> Upper {
        let mut upper = Upper { bytes: [0; WORD_MAX], len: 0 };
        if let Some(room) = upper.bytes.get_mut(..word.len()) {
            room.copy_from_slice(word);
            room.make_ascii_uppercase();
            upper.len = word.len();
        }
        upper
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[inline]
pub(super) fn is(token: Option<Token<'_>>, word: &str) -> bool {
    matches!(token, Some(Token::Word(found)) if found.eq_ignore_ascii_case(word.as_bytes()))
}

//! Where the parameters of a prepared statement stand in its text.

use super::lexer::{Lexer, Token};
use super::word::is;

/// A `?` in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Its offset, in bytes.
    pub at: usize,
    /// It is an argument of LIMIT or OFFSET, where a text may have only a bare number.
    pub is_limit: bool,
}

/// The parameters of a text in their order; `None` where the text can be read in more than one way. `status`: as for
/// [`super::Statement::under`].
pub fn markers(sql: &[u8], status: u16) -> Option<Vec<Marker>> {
    let mut lexer = Lexer::new(sql, status);
    let mut found = vec![];
    let mut is_limit = false;
    while let Some(token) = lexer.next() {
        if token == Token::Punct(b'?') {
            let (from, _) = lexer.at_last();
            found.push(Marker { at: sql.len() - from.len(), is_limit });
        } else if is(Some(token), "LIMIT") || is(Some(token), "OFFSET") {
            is_limit = true;
        } else {
            is_limit &= matches!(token, Token::Number(_) | Token::Punct(b','));
        }
    }
    (!lexer.is_doubtful).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_outside_strings_and_comments_only() {
        let at = |sql: &str| {
            markers(sql.as_bytes(), 0).map(|found| found.iter().map(|marker| marker.at).collect::<Vec<_>>())
        };
        assert_eq!(at("SELECT ?, '?', `?`, \"?\" -- ?\n, a=?/* ? */"), Some(vec![7, 33]));
        assert_eq!(at("SELECT 1"), Some(vec![]));
        assert_eq!(at("SELECT /*! ? */ 1"), None);
        assert_eq!(at("SELECT '?"), None);
    }

    #[test]
    fn what_limits_is_known() {
        let limits = |sql: &str| {
            markers(sql.as_bytes(), 0).unwrap().iter().map(|marker| marker.is_limit).collect::<Vec<_>>()
        };
        assert_eq!(limits("SELECT a FROM t WHERE b=? LIMIT ?, ?"), [false, true, true]);
        assert_eq!(limits("SELECT a FROM t LIMIT 5 OFFSET ?"), [true]);
        assert_eq!(limits("(SELECT a FROM t LIMIT ?) UNION SELECT ?"), [true, false]);
    }
}

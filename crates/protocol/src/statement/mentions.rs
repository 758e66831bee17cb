//! The names in a text, to be looked up in a set: which tables it may use.
//!
//! Every bare word counts as a name, keywords and columns too, and each part of `a.b` by itself: rather too many than too few. A text in
//! double quotes may be a name (in the server family that has ANSI_QUOTES without reporting it), and counts as one.

use super::lexer::{Lexer, Token};

/// A name has at most 64 letters, of up to four bytes each.
pub const NAME_BYTES_MAX: usize = 256;

/// The bare and the quoted names of a text, without their quotes and in the case in which they stand there. `status`: as for
/// [`super::Statement::under`].
pub fn names_in(sql: &[u8], status: u16) -> Names<'_> {
    Names { lexer: Lexer::new(sql, status) }
}

/// Whether a text mentions a name that `has` knows, which it is asked for in lower case. True as well where that cannot be
/// told: the text can be read in more than one way, or a name is not plain ASCII (its case and its character set are the
/// server's to say) or holds a quote.
pub fn names_any(sql: &[u8], status: u16, mut has: impl FnMut(&str) -> bool) -> bool {
    let mut names = names_in(sql, status);
    let mut lower = [0; NAME_BYTES_MAX];
    for name in names.by_ref() {
        // Longer than any name: nobody's.
        let Some(room) = lower.get_mut(..name.len()) else { continue };
        room.copy_from_slice(name);
        room.make_ascii_lowercase();
        match std::str::from_utf8(room) {
            Ok(text) if text.is_ascii() && !text.contains(['`', '"']) => {
                if has(text) {
                    return true;
                }
            }
            _ => return true,
        }
    }
    names.is_doubtful()
}

/// See [`names_in`].
#[derive(Clone, Debug)]
pub struct Names<'a> {
    lexer: Lexer<'a>,
}

impl Names<'_> {
    /// What was read so far can be read in another way, too: there may be other names in it.
    pub fn is_doubtful(&self) -> bool {
        self.lexer.is_doubtful
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            match self.lexer.next()? {
                // A name may begin with a digit.
                Token::Word(name) | Token::Quoted(name) | Token::Number(name) => return Some(name),
                Token::Text([b'"', inner @ ..]) => return Some(inner.strip_suffix(b"\"").unwrap_or(inner)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ok::status;

    fn names(sql: &str, status: u16) -> Vec<&str> {
        names_in(sql.as_bytes(), status).filter_map(|name| std::str::from_utf8(name).ok()).collect()
    }

    #[test]
    fn bare_and_quoted() {
        assert_eq!(
            names("SELECT a.`b c`, 'x' FROM Shop.t, `d``e` WHERE f(@g) = 1 -- h", 0),
            ["SELECT", "a", "b c", "FROM", "Shop", "t", "d``e", "WHERE", "f", "1"]
        );
        assert_eq!(names("SELECT \"a\"", 0), ["SELECT", "a"]);
        assert_eq!(names("SELECT \"a\"", status::ANSI_QUOTES), ["SELECT", "a"]);
        assert_eq!(names("INSERT INTO 1a/*!, hidden */", 0), ["INSERT", "INTO", "1a", "hidden"]);
    }

    #[test]
    fn looked_up_in_lower_case() {
        let knows = |sql: &str| names_any(sql.as_bytes(), 0, |name| name == "audit log" || name == "audit");
        assert!(knows("INSERT INTO shop.AUDIT VALUES (1)"));
        assert!(knows("INSERT INTO `Audit Log` VALUES (1)"));
        assert!(knows("INSERT INTO \"audit\" VALUES (1)"));
        assert!(!knows("INSERT INTO t VALUES ('audit', @audit) -- audit"));
        for doubtful in ["SELECT /*!1 1 */", "SELECT 'open", "SELECT * FROM \u{e4}", "SELECT * FROM `a``b`"] {
            assert!(knows(doubtful), "{doubtful}");
        }
        assert!(!knows(&format!("SELECT {}", "x".repeat(300))));
    }
}

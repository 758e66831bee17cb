//! SET NAMES and SET CHARACTER SET, taken out of a SET that may assign more: said again, they must not bring the rest along.

use super::lexer::{Lexer, Token};
use super::word::{Upper, is};

/// What a SET says of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamesSaid {
    /// Nothing.
    Not,
    /// This, as a statement of its own; nothing else in the text sets a character set or a collation.
    Only(String),
    /// Something that cannot be said by itself.
    AmongOthers,
}

/// What the SET in `sql` says of names. `status`: as for [`super::Statement::under`].
pub fn names_said(sql: &[u8], status: u16) -> NamesSaid {
    let mut lexer = Lexer::new(sql, status);
    if !is(lexer.next(), "SET") {
        return NamesSaid::AmongOthers;
    }
    let mut said: Option<String> = None;
    let mut is_single = true;
    let mut has_more = true;
    while has_more {
        let target = lexer.next();
        let is_character = is(target, "CHARACTER");
        if is(target, "NAMES") || is(target, "CHARSET") || (is_character && is(lexer.next(), "SET")) {
            let verb = if is(target, "NAMES") { "SET NAMES" } else { "SET CHARACTER SET" };
            let clause;
            (clause, has_more) = values(&mut lexer);
            match clause {
                Some(values) if said.is_none() => said = Some(format!("{verb}{values}")),
                _ => is_single = false,
            }
        } else {
            let speaks;
            (speaks, has_more) = speaks_of_charsets(&mut lexer, target);
            is_single &= !speaks;
        }
    }
    match said {
        Some(said) if is_single && !lexer.is_doubtful => NamesSaid::Only(said),
        None if is_single => NamesSaid::Not,
        _ => NamesSaid::AmongOthers,
    }
}

/// The plain names up to a comma or the end; and whether it was a comma.
fn values(lexer: &mut Lexer<'_>) -> (Option<String>, bool) {
    let mut values = Some(String::new());
    loop {
        let (name, quote) = match lexer.next() {
            None | Some(Token::Punct(b';')) => return (values, false),
            Some(Token::Punct(b',')) => return (values, true),
            Some(Token::Word(name)) => (name, ""),
            Some(Token::Quoted(name)) => (name, "'"),
            Some(Token::Text([_, name @ .., _])) => (name, "'"),
            Some(_) => (&b"?"[..], ""),
        };
        let is_plain = !name.is_empty() && name.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_');
        values = values
            .filter(|_| is_plain)
            .map(|values| format!("{values} {quote}{}{quote}", String::from_utf8_lossy(name)));
    }
}

/// Reads one assignment: whether what it sets is, or may be, of the character sets; and whether another follows.
fn speaks_of_charsets(lexer: &mut Lexer<'_>, target: Option<Token<'_>>) -> (bool, bool) {
    let mut token = target;
    let (mut speaks, mut is_value, mut depth) = (false, false, 0u32);
    while let Some(found) = token {
        match found {
            Token::Punct(b';') => return (speaks, false),
            Token::Punct(b',') if depth == 0 => return (speaks, true),
            Token::Punct(b'(') => depth = depth.saturating_add(1),
            Token::Punct(b')') => depth = depth.saturating_sub(1),
            Token::Punct(b'=') | Token::Assign => is_value = true,
            Token::Word(name) | Token::Quoted(name) | Token::SystemVariable(name) if !is_value => {
                let upper = Upper::of(name);
                let name = upper.as_bytes();
                speaks |=
                    name.is_empty() || name.starts_with(b"CHARACTER_SET_") || name.starts_with(b"COLLATION_");
            }
            _ => {}
        }
        token = lexer.next();
    }
    (speaks, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_out_of_what_stands_beside_them() {
        let only = |text: &str| NamesSaid::Only(text.to_owned());
        for (sql, wanted) in [
            ("SET NAMES utf8mb4", only("SET NAMES utf8mb4")),
            (
                "/* a */ set names \"utf8mb4\" collate 'utf8mb4_bin' -- b",
                only("SET NAMES 'utf8mb4' collate 'utf8mb4_bin'"),
            ),
            ("SET NAMES DEFAULT;", only("SET NAMES DEFAULT")),
            ("SET CHARSET latin1", only("SET CHARACTER SET latin1")),
            ("SET character set latin1, time_zone = CONCAT('+0', '1:00')", only("SET CHARACTER SET latin1")),
            (
                "SET lc_time_names = 'de_DE', NAMES latin1, @a = @@character_set_client",
                only("SET NAMES latin1"),
            ),
            ("SET time_zone = '+01:00'", NamesSaid::Not),
            ("SET character_set_client = latin1", NamesSaid::AmongOthers),
            ("SET NAMES latin1, `collation_connection` = latin1_bin", NamesSaid::AmongOthers),
            ("SET NAMES latin1, @@session.character_set_results = NULL", NamesSaid::AmongOthers),
            ("SET NAMES latin1, NAMES utf8mb4", NamesSaid::AmongOthers),
            ("SET NAMES 'la''tin1'", NamesSaid::AmongOthers),
            ("SET NAMES latin1 /*! COLLATE latin1_bin */", NamesSaid::AmongOthers),
            ("", NamesSaid::AmongOthers),
        ] {
            assert_eq!(names_said(sql.as_bytes(), 0), wanted, "{sql}");
        }
    }
}

//! The user variables that a SET of plain values gives values to, by name: a later SET of the same ones takes its place.

use super::lexer::{Lexer, Token};

/// The names of the user variables in `sql`, a text whose [`super::Statement::literal_user_variables`] is set: in lower case, without their
/// quotes. `None` where a name cannot be read for certain. `status`: as for [`super::Statement::under`].
pub fn assigned_user_variables(sql: &[u8], status: u16) -> Option<Vec<String>> {
    let mut lexer = Lexer::new(sql, status);
    let mut names = vec![];
    while let Some(token) = lexer.next() {
        if token == Token::UserVariable {
            let (from, len) = lexer.at_last();
            names.push(name(from.get(1..len)?)?);
        }
    }
    (!lexer.is_doubtful).then_some(names)
}

fn name(text: &[u8]) -> Option<String> {
    let bare = match text {
        [b'`', bare @ .., b'`'] | [b'\'', bare @ .., b'\''] | [b'"', bare @ .., b'"'] => bare,
        bare => bare,
    };
    let is_plain = bare.iter().all(|c| c.is_ascii() && !matches!(c, b'`' | b'\'' | b'"' | b'\\'));
    is_plain.then(|| String::from_utf8_lossy(bare).to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_however_they_are_quoted() {
        for (sql, wanted) in [
            ("SET @a = 1", Some(&["a"][..])),
            ("set @A:=1,@`b c` = '@x', @'D.e$'=NULL -- @f", Some(&["a", "b c", "d.e$"])),
            ("SET @a = 1;", Some(&["a"])),
            ("SET @`a``b` = 1", None),
            ("SET @'a\\'b' = 1", None),
            ("SET @a = 1 /*! , @b = 2 */", None),
            ("SET @\u{e4} = 1", None),
        ] {
            let wanted = wanted.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(assigned_user_variables(sql.as_bytes(), 0), wanted, "{sql}");
        }
    }
}

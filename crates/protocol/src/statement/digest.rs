//! A statement without its values: the same text, and the same number, for all statements that differ only in these.
//!
//! As `pt-fingerprint` and the performance schema do it, and where those differ, as the first does:
//!
//! - a literal (string, number with its sign, hexadecimal, NULL but in IS [NOT] NULL and NOT NULL) is `?`, like a parameter;
//! - the values behind IN and VALUES are `(?+)`, however many, and rows that are alike are one: `values (?+)`,
//!   `in ((?+))`, `values (?, now())`;
//! - comments are left out, and a gap is one space, or none where none is needed; so is a `;` at the end;
//! - letters are lower-case, those of names too, and a quoted name that could stand bare does so.
//!
//! The code in executable comments counts. What is left is keywords, operators, and the names of things; passwords are
//! literals everywhere in the grammars. [`digest`] is FNV-1a (64 bits) over that text, so it is the same in every build; it is
//! written as 16 hexadecimal digits.
//!
//! ```text
//!   text --Lexer--> tokens --Items--> literals, words, operators --Writer--> a number, or a text
//! ```

mod items;
mod writer;

use items::Items;
use writer::{Fnv, Sink, Writer};

/// The number of a statement's digest. `status`: as for [`super::Statement::under`].
pub fn digest(sql: &[u8], status: u16) -> u64 {
    let mut hash = Fnv::NEW;
    write(sql, status, &mut hash);
    hash.number()
}

/// The text of a statement's digest, cut off behind so many bytes.
pub fn digest_text(sql: &[u8], status: u16, bytes_max: usize) -> String {
    let mut text = Vec::new();
    write(sql, status, &mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned();
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

fn write(sql: &[u8], status: u16, sink: &mut impl Sink) {
    let mut items = Items::new(sql, status);
    let mut writer = Writer::new(sink);
    while let Some(item) = items.next() {
        writer.take(item);
    }
}

#[cfg(test)]
mod tests;

//! CREATE, ALTER, DROP and ANALYZE: what they do to the lists of tables by their engines, of views and of stored functions.

use super::Statement;
use super::insert_id::InsertId;
use super::lexer::Token;
use super::look::Look;
use super::pins::Pins;
use super::word::{Upper, is};

/// First words behind CREATE of what has no table, and no table's name, in it.
#[rustfmt::skip]
const HAS_NO_TABLE: &[&[u8]] = &[
    b"DATABASE", b"EVENT", b"FULLTEXT", b"INDEX", b"PROCEDURE", b"ROLE", b"SCHEMA", b"SERVER", b"SPATIAL", b"UNIQUE", b"USER",
];

impl Look<'_> {
    /// ANALYZE TABLE, or MariaDB's ANALYZE before a statement, which is run.
    pub(super) fn analyze(&mut self) -> Statement {
        let what = self.next();
        let is_table = ["TABLE", "LOCAL", "NO_WRITE_TO_BINLOG"].iter().any(|word| is(what, word));
        let insert_id = if is_table { InsertId::Kept } else { InsertId::Unknown };
        Statement { insert_id, ..self.write(true) }
    }

    /// ALTER TABLE may change a table's engine, or its name; ALTER VIEW what a view stands for, ALTER
    /// FUNCTION what a function says of itself.
    pub(super) fn alter(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if let Token::Word(word) = token {
                self.touches_engines |= matches!(
                    Upper::of(word).as_bytes(),
                    b"ENGINE" | b"RENAME" | b"EXCHANGE" | b"CONVERT" | b"VIEW" | b"FUNCTION"
                );
            }
        }
        Statement::write(true)
    }

    /// DROP PREPARE is of the session only. A name that is gone makes statements harmless again, which only a view's or a function's is
    /// worth being asked for.
    pub(super) fn drop(&mut self) -> Statement {
        let what = self.next();
        if is(what, "PREPARE") {
            return self.session_only();
        }
        self.touches_engines |= ["VIEW", "FUNCTION", "SEQUENCE"].iter().any(|word| is(what, word));
        self.write(true)
    }

    /// CREATE [OR REPLACE] TEMPORARY TABLE pins; everything that begins so is a write. A temporary table commits nothing.
    pub(super) fn create(&mut self) -> Statement {
        let mut next = self.next();
        if is(next, "OR") {
            self.next();
            next = self.next();
        }
        let is_temporary = is(next, "TEMPORARY");
        if is_temporary {
            self.pin(Pins::TEMP_TABLE);
        }
        let has_no_table = |word: &[u8]| HAS_NO_TABLE.contains(&Upper::of(word).as_bytes());
        let touches = !is_temporary && !matches!(next, Some(Token::Word(word)) if has_no_table(word));
        self.touches_engines |= touches;
        // CREATE TABLE ... SELECT numbers its rows.
        let makes_table = is(next, "TABLE");
        let statement =
            if is_temporary || makes_table { self.numbering(!is_temporary) } else { self.write(true) };
        Statement { makes_table, ..statement }
    }
}

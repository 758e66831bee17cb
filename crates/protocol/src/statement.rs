//! A light look at SQL text: may it be sent again, and what does it tie to this one connection?
//!
//! Enters: one text as a client sent it. Leaves: a [`Statement`]. No allocation, every byte passed once, and it never
//! fails.
//!
//! The contract is one-sided. [`Kind::Read`] means: changes nothing, and gives the same answer on any other connection to
//! the same data, so it may be sent again. Whatever is not understood is a [`Kind::Write`], which is never wrong, only
//! dearer: executable comments, strings that could end in two places, functions that are not known to be harmless, names
//! in quotes before a parenthesis, texts with several statements of which one is not a read. Pins err to the other side:
//! rather one too many.
//!
//! What no look at the text can tell: a view, or a stored function named like a built-in one of the other server family,
//! may call something that writes; a procedure may do anything to the session ([`Kind::Write`], and a pin only for what
//! its arguments show). For those there is the server's own session tracking, and whoever uses this looks the names in the text up
//! ([`names_any`]).
//!
//! ```text
//!   text --lexer--> tokens --Look (what every statement is searched for)--> first word --> kind
//! ```

mod assigned;
mod ddl;
mod digest;
mod elsewhere;
mod given;
mod insert_id;
mod kill;
mod kind;
mod lexer;
mod lifts;
mod look;
mod made;
mod markers;
mod mentions;
mod names;
mod names_said;
mod pins;
mod query;
mod read_state;
mod recalls;
mod sequences;
mod sets;
mod word;

pub use assigned::assigned_user_variables;
pub use digest::{digest, digest_text};
pub use elsewhere::{is_of_the_server, only_recalls, reads_rows_only};
pub use given::may_give;
pub use insert_id::InsertId;
pub use kind::Kind;
pub use lifts::lifts_read_only;
use look::Look;
pub use made::names_made;
pub use markers::{Marker, markers};
pub use mentions::{Names, names_any, names_in};
pub use names_said::{NamesSaid, names_said};
pub use pins::Pins;
pub use query::queries_without_locking;
pub use read_state::{READ_VARIABLES, ReadState, keeps_tokens, read_state};
pub use recalls::Recalls;
pub use sequences::{asked_sequences, drawn_sequences};
pub use sets::{Sets, unreported_variables};

/// What a statement text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What kind.
    pub kind: Kind,
    /// What it ties to the connection.
    pub pins: Pins,
    /// What it unties. A session holds `(held before).without(unpins).union(pins)` afterwards.
    pub unpins: Pins,
    /// A plain `SET @name = literal [, ...]` in ASCII and nothing else: running the text again on another connection
    /// restores it.
    pub literal_user_variables: bool,
    /// Besides what it does, it may commit an open transaction: COMMIT itself, BEGIN, DDL, LOCK TABLES, SET autocommit=1,
    /// CALL, whatever is not understood. When it was lost on the way, nobody may claim that the transaction was rolled back.
    pub may_commit: bool,
    /// One command of it may run several statements before it gives its first answer: CALL, EXECUTE, BEGIN NOT ATOMIC, whatever
    /// is not understood. An error as the first answer does not mean that nothing was run.
    pub runs_several: bool,
    /// It runs code that its text does not show, as far as the text is understood: CALL, EXECUTE, a block.
    pub calls: bool,
    /// A SELECT, DO or SET that calls what may be a stored function, which may set variables of the session. (What a trigger or a view
    /// calls is not seen.)
    pub calls_stored: bool,
    /// What of the things that can be recalled it surely leaves anew when it succeeds, besides ROW_COUNT(): the warnings, which only a
    /// statement with a table clears; and FOUND_ROWS(), if it gives rows.
    pub renews: Recalls,
    /// COMMIT or ROLLBACK with words behind it (AND CHAIN, RELEASE): it may leave a new transaction open.
    pub chains: bool,
    /// What it sets that no server reports, or that changes what a server reports.
    pub sets: Sets,
    /// What it asks for that an earlier statement left in the session: LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT(), SHOW
    /// WARNINGS, ... After the session has moved to another connection, the answer would be wrong without an error.
    pub recalled: Recalls,
    /// What becomes of LAST_INSERT_ID() by it.
    pub insert_id: InsertId,
    /// It asks for the connection's own number: CONNECTION_ID(), `@@pseudo_thread_id`.
    pub asks_connection_id: bool,
    /// DDL after which a list of tables by their engines, of views, triggers and stored functions may be out of date; also whatever is
    /// not understood. What a CALL does is not seen.
    pub touches_engines: bool,
    /// It is a KILL that names the connection it comes from by an expression: `KILL CONNECTION_ID()`.
    pub kills_own: bool,
    /// It only reads and waits (SELECT SLEEP(1), DO GET_LOCK(...)): broken off where it runs, it leaves nothing behind. It need not be
    /// [`Kind::Read`], which may also be run again.
    pub leaves_no_trace: bool,
    /// It stands alone in its text, and there is one way to read it: said again, it does the same and nothing else.
    pub alone: bool,
}

impl Statement {
    /// Looks at a text as it stands in a COM_QUERY or COM_STMT_PREPARE, for a session with the usual `sql_mode`.
    pub fn of(sql: &[u8]) -> Statement {
        Statement::under(sql, 0)
    }

    /// The same for a session whose last answer had these [`crate::ok::status`] flags: they tell how backslashes and double quotes
    /// are meant.
    pub fn under(sql: &[u8], status: u16) -> Statement {
        let mut look = Look::new(sql, status);
        let mut whole: Option<Statement> = None;
        let mut statements = 0u32;
        while let Some(first) = look.begin() {
            let one = look.statement(first);
            statements = statements.saturating_add(1);
            whole = Some(match whole {
                None => one,
                Some(before) => before.then(one),
            });
        }
        // Nothing but space and comments: the server answers with an error.
        let mut whole = whole.unwrap_or(Statement::write(false));
        whole.pins = look.pins;
        whole.unpins = look.unpins;
        whole.recalled = look.recalls;
        whole.asks_connection_id = look.asks_connection_id;
        whole.touches_engines = look.touches_engines || look.lexer.is_doubtful;
        whole.kills_own = look.kills_own && statements == 1 && !look.lexer.is_doubtful;
        if look.sets_insert_id {
            whole.insert_id = whole.insert_id.with_argument();
        }
        if look.returns && whole.insert_id >= (InsertId::ToldOrGiven { runs_argument: false }) {
            whole.insert_id = InsertId::Untold;
        }
        whole.sets = look.sets;
        whole.calls = whole.runs_several;
        whole.alone = statements == 1 && !look.lexer.is_doubtful;
        if !whole.recalled.is_empty() || look.lexer.is_doubtful {
            whole.kind = Kind::Write;
        }
        if look.lexer.is_doubtful {
            whole.may_commit = true;
            whole.runs_several = true;
            whole.insert_id = InsertId::Untold;
            whole.leaves_no_trace = false;
        }
        whole.literal_user_variables &= whole.kind == Kind::SessionOnly && sql.is_ascii();
        whole
    }

    /// Two statements in one text.
    fn then(self, next: Statement) -> Statement {
        let kind = if (self.kind, next.kind) == (Kind::Read, Kind::Read) { Kind::Read } else { Kind::Write };
        Statement {
            may_commit: self.may_commit || next.may_commit,
            runs_several: self.runs_several || next.runs_several,
            calls_stored: self.calls_stored || next.calls_stored,
            insert_id: self.insert_id.max(next.insert_id),
            leaves_no_trace: self.leaves_no_trace && next.leaves_no_trace,
            ..Statement::plain(kind)
        }
    }

    fn plain(kind: Kind) -> Statement {
        Statement {
            kind,
            pins: Pins::NONE,
            unpins: Pins::NONE,
            literal_user_variables: false,
            may_commit: false,
            runs_several: false,
            calls: false,
            calls_stored: false,
            renews: Recalls::NONE,
            chains: false,
            sets: Sets::NONE,
            recalled: Recalls::NONE,
            insert_id: InsertId::Kept,
            asks_connection_id: false,
            touches_engines: false,
            kills_own: false,
            leaves_no_trace: false,
            alone: false,
        }
    }

    fn write(may_commit: bool) -> Statement {
        Statement { may_commit, ..Statement::plain(Kind::Write) }
    }

    /// May do anything, any number of times.
    fn several() -> Statement {
        Statement { runs_several: true, insert_id: InsertId::Untold, ..Statement::write(true) }
    }
}

#[cfg(test)]
mod tests;

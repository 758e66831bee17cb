//! A scan of SQL text: whether it may be sent again, and what it ties to this connection.
//!
//! Enters: one text as a client sent it. Leaves: a [`Statement`]. Nothing is allocated, every byte is read once, and the scan never fails.
//!
//! The result errs on one side. [`StatementKind::Read`] means that the text changes nothing, and has the same answer on any other connection to the
//! same data, so that it may be sent again. Whatever is not understood is a [`StatementKind::Write`], which is always safe and only costs more:
//! executable comments, strings that could end in two places, functions that are not known to be harmless, quoted names before a
//! parenthesis, texts with several statements of which one is not a read. With pins, too many are reported rather than too few.
//!
//! Some things do not show in the text. A view, or a stored function named like a built-in one of the other server family, may call
//! something that writes; a procedure may do anything to the session ([`StatementKind::Write`], with pins only for what its arguments show). For
//! those there is the server's own session tracking, and the caller looks up the names in the text ([`names_any`]).
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
mod set;
mod sets;
mod word;

pub use assigned::assigned_user_variables;
pub use digest::{digest, digest_text};
pub use elsewhere::{is_of_the_server, only_recalls, reads_rows_only};
pub use given::{may_give, may_give_bound};
pub use insert_id::InsertId;
pub use kind::StatementKind;
pub use lifts::lifts_read_only;
use look::Look;
pub use made::names_made;
pub use markers::{Marker, markers};
pub use mentions::{NAME_BYTES_MAX, Names, names_any, names_in};
pub use names_said::{NamesSaid, names_said};
pub use pins::Pins;
pub use query::queries_without_locking;
pub use read_state::{
    AssignedModes, Modes, READ_VARIABLES, ReadState, assigned_sql_mode, keeps_tokens, read_state,
};
pub use recalls::Recalls;
pub use sequences::{asked_sequences, drawn_sequences};
pub use set::unreported_variables;
pub use sets::Sets;

/// The result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The kind of statement.
    pub kind: StatementKind,
    /// What it ties to the connection.
    pub pins: Pins,
    /// What it releases. Afterwards a session has `(before).without(unpins).union(pins)`.
    pub unpins: Pins,
    /// What it ties to the connection at any time: of a text of several statements also what a later one releases.
    pub gains: Pins,
    /// A plain `SET @name = literal [, ...]` in ASCII and nothing else: running the text again on another connection
    /// restores it.
    pub literal_user_variables: bool,
    /// It may also commit an open transaction: COMMIT itself, BEGIN, DDL, LOCK TABLES, SET autocommit=1, CALL, and whatever is not
    /// understood. After its loss it is then not certain that the transaction was rolled back.
    pub may_commit: bool,
    /// It may run several statements before its first answer: CALL, EXECUTE, BEGIN NOT ATOMIC, and whatever is not understood. An error as
    /// the first answer does not mean that nothing was run.
    pub runs_several: bool,
    /// It runs code that its text does not show, as far as the text is understood: CALL, EXECUTE, a block.
    pub calls: bool,
    /// A SELECT, DO or SET that calls what may be a stored function, which may set variables of the session. (What a trigger or a view
    /// calls is not seen.)
    pub calls_stored: bool,
    /// What a success certainly leaves for later statements, besides ROW_COUNT(): warnings, since only a statement with a table clears
    /// them; and FOUND_ROWS(), if it returns rows.
    pub renews: Recalls,
    /// COMMIT or ROLLBACK with words behind it (AND CHAIN, RELEASE): it may leave a new transaction open.
    pub chains: bool,
    /// What it sets that no server reports, or that changes what a server reports.
    pub sets: Sets,
    /// What it asks for that an earlier statement left in the session: LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT(), SHOW
    /// WARNINGS, ... After the session has moved to another connection, the answer would be wrong without an error.
    pub recalled: Recalls,
    /// Its effect on LAST_INSERT_ID().
    pub insert_id: InsertId,
    /// It asks for the connection id: CONNECTION_ID(), `@@pseudo_thread_id`.
    pub asks_connection_id: bool,
    /// DDL after which a list of tables by their engines, of views, triggers and stored functions may be out of date; also whatever is
    /// not understood. What a CALL does is not seen.
    pub touches_engines: bool,
    /// A CREATE TABLE of one that is not temporary.
    pub makes_table: bool,
    /// It is a KILL that names the connection it comes from by an expression: `KILL CONNECTION_ID()`.
    pub kills_own: bool,
    /// It only reads and waits (SELECT SLEEP(1), DO GET_LOCK(...)): when it is aborted, it leaves nothing behind. It need not be a
    /// [`StatementKind::Read`], which may also be run again.
    pub leaves_no_trace: bool,
    /// It is alone in its text, and can be read in one way only: run again, it does the same and nothing else.
    pub alone: bool,
}

impl Statement {
    /// Scans a text from a COM_QUERY or COM_STMT_PREPARE, for a session with the usual `sql_mode`.
    pub fn of(sql: &[u8]) -> Statement {
        Statement::under(sql, 0)
    }

    /// The same for a session whose last answer had these [`crate::ok::status`] flags, which determine what backslashes and double quotes mean.
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
        // Perhaps within a comment.
        whole.unpins = if look.lexer.is_doubtful { Pins::NONE } else { look.unpins };
        whole.gains = look.gains;
        whole.recalled = look.recalls;
        whole.asks_connection_id = look.asks_connection_id;
        whole.touches_engines = look.touches_engines || look.lexer.is_doubtful;
        whole.kills_own = look.kills_own && statements == 1 && !look.lexer.is_doubtful;
        if look.sets_insert_id {
            whole.insert_id = whole.insert_id.with_argument();
        }
        if look.returns && whole.insert_id >= (InsertId::ReportedOrGiven { runs_argument: false }) {
            whole.insert_id = InsertId::Unknown;
        }
        whole.sets = look.sets;
        whole.alone = statements == 1 && !look.lexer.is_doubtful;
        if !whole.recalled.is_empty() || look.lexer.is_doubtful {
            whole.kind = StatementKind::Write;
        }
        if look.lexer.is_doubtful {
            whole.may_commit = true;
            whole.runs_several = true;
            whole.insert_id = InsertId::Unknown;
            whole.leaves_no_trace = false;
        }
        whole.literal_user_variables &= whole.kind == StatementKind::SessionOnly && sql.is_ascii();
        whole
    }

    /// Combines two statements in one text.
    /// It ends an open transaction: by COMMIT, ROLLBACK or BEGIN, or as DDL does. Not said of what only may.
    pub fn surely_ends_transaction(&self) -> bool {
        match self.kind {
            StatementKind::Commit | StatementKind::Rollback | StatementKind::Begin => true,
            StatementKind::Write => self.may_commit && self.alone && !self.runs_several,
            _ => false,
        }
    }

    fn then(self, next: Statement) -> Statement {
        let kind = if (self.kind, next.kind) == (StatementKind::Read, StatementKind::Read) {
            StatementKind::Read
        } else {
            StatementKind::Write
        };
        Statement {
            may_commit: self.may_commit || next.may_commit,
            runs_several: self.runs_several || next.runs_several,
            calls: self.calls || next.calls,
            calls_stored: self.calls_stored || next.calls_stored,
            insert_id: self.insert_id.max(next.insert_id),
            leaves_no_trace: self.leaves_no_trace && next.leaves_no_trace,
            ..Statement::plain(kind)
        }
    }

    fn plain(kind: StatementKind) -> Statement {
        Statement {
            kind,
            pins: Pins::NONE,
            unpins: Pins::NONE,
            gains: Pins::NONE,
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
            makes_table: false,
            kills_own: false,
            leaves_no_trace: false,
            alone: false,
        }
    }

    fn write(may_commit: bool) -> Statement {
        Statement { may_commit, ..Statement::plain(StatementKind::Write) }
    }

    /// It may do anything, any number of times.
    fn several() -> Statement {
        Statement { runs_several: true, calls: true, insert_id: InsertId::Unknown, ..Statement::write(true) }
    }
}

#[cfg(test)]
mod tests;

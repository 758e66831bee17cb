//! One command of the client before it is sent: what it is, what it may leave on the node, and what its loss would mean.

use std::collections::BTreeSet;

use protocol::command::Command;
use protocol::statement::{Recalls, Sets, Statement, StatementKind};

use crate::names::{List, Lists, Names};
use crate::retry::Circumstances;
use crate::wanted::Unnamed;

/// A command and what is known of it.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// The command.
    pub command: Command,
    /// The client's id of the prepared statement that it is about.
    pub statement: Option<u32>,
    /// The scanner's result for its text; `None` for commands without text.
    pub(crate) scanned: Option<Statement>,
    /// The properties that decide whether it is sent again after a loss.
    pub(crate) what: Circumstances,
    /// What it asks for that earlier statements left on the node.
    pub(crate) recalls: Recalls,
    /// Several statements may run before its first answer.
    pub(crate) several: bool,
    /// It runs code that its text does not show.
    pub(crate) calls: bool,
    /// Only the beginning of its text was kept, and other statements may follow there.
    pub(crate) may_set_anything: bool,
    /// It may begin a new transaction after the one that it ends.
    pub(crate) chains: bool,
    /// The client asked for a cursor, so that the rows come when they are fetched.
    pub(crate) asks_cursor: bool,
    /// It ends its own connection: KILL CONNECTION_ID().
    pub(crate) kills_itself: bool,
    /// It may create or change a table without transactions.
    pub(crate) changes_tables: bool,
    /// It only reads, waits and takes locks.
    pub(crate) leaves_no_trace: bool,
    /// The sequences that it certainly draws from.
    pub(crate) draws: BTreeSet<String>,
    /// The sequences whose last value it asks for; `None` where that is not known.
    pub(crate) asks_sequences: Option<BTreeSet<String>>,
    /// Code that is not in its text may run and set variables: a stored function, a view, a trigger.
    pub(crate) may_run_stored: bool,
    /// It names something that is known to be, or to reach, a table without transactions.
    pub(crate) reaches_untransactional: bool,
}

impl InFlight {
    /// For a command whose text is not understood yet: it counts as a write that may do anything.
    pub(crate) fn new(command: Command, in_transaction: bool, autocommit: bool) -> Self {
        Self {
            command,
            statement: None,
            scanned: None,
            what: Circumstances {
                kind: StatementKind::Write,
                may_commit: true,
                in_transaction,
                autocommit,
                untransactional: false,
            },
            recalls: Recalls::NONE,
            several: false,
            calls: false,
            may_set_anything: false,
            chains: false,
            asks_cursor: false,
            kills_itself: false,
            changes_tables: false,
            leaves_no_trace: false,
            draws: BTreeSet::new(),
            asks_sequences: None,
            may_run_stored: false,
            reaches_untransactional: false,
        }
    }

    /// What kind of statement it is.
    pub fn kind(&self) -> StatementKind {
        self.what.kind
    }

    /// The scanner's result for its text; `None` for a command without one.
    pub fn scanned(&self) -> Option<&Statement> {
        self.scanned.as_ref()
    }

    /// It asks for something that an earlier statement left on the node (FOUND_ROWS(), SHOW WARNINGS, ...) and that no other node knows.
    pub fn recalls(&self) -> Recalls {
        self.recalls
    }

    /// The client asked for a cursor, so that the rows come when they are fetched.
    pub fn asks_cursor(&self) -> bool {
        self.asks_cursor
    }

    /// It runs code that its text does not show: CALL and the like.
    pub fn calls(&self) -> bool {
        self.calls
    }

    /// Its answer may contain the OUT parameters of a procedure, as a result with one row.
    pub fn may_give_parameters(&self) -> bool {
        self.calls && matches!(self.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE)
    }

    /// It is a SET and nothing else, after which ROW_COUNT() is 0.
    pub fn sets_alone(&self) -> bool {
        self.scanned.is_some_and(|scanned| scanned.alone && scanned.sets != Sets::NONE)
            && self.what.kind == StatementKind::SessionOnly
    }

    /// It ends its own connection: KILL CONNECTION_ID().
    pub fn kills_itself(&self) -> bool {
        self.kills_itself
    }

    /// By its text it is a read, and what it names may write, or is not known.
    pub fn is_read_that_may_write(&self) -> bool {
        self.what.kind == StatementKind::Write
            && self.scanned.is_some_and(|scanned| scanned.kind == StatementKind::Read)
    }

    /// It may create or change a table without transactions, so that the lists of tables must be read again after it.
    pub fn changes_tables(&self) -> bool {
        self.changes_tables
    }

    /// Aborting it leaves no change that is not rolled back: it is a read, or part of a transaction that stays uncommitted.
    pub fn ends_without_trace(&self) -> bool {
        match self.what.kind {
            StatementKind::Read | StatementKind::SessionOnly => true,
            _ if self.leaves_no_trace => true,
            _ => self.what.in_transaction && !self.what.may_commit && !self.what.untransactional,
        }
    }

    /// It is outside a transaction and only waits and takes locks: it must not be repeated, but leaves nothing behind.
    pub fn only_waits(&self) -> bool {
        self.leaves_no_trace && !self.what.in_transaction
    }

    /// Aborting its answer changes nothing: it is a read outside a transaction.
    pub fn can_be_cut(&self) -> bool {
        self.what.kind == StatementKind::Read && !self.what.in_transaction && self.what.autocommit
    }

    /// What aborting it now would cost the client.
    pub fn cost(&self) -> Cost {
        match self.what.kind {
            StatementKind::Read if !self.what.in_transaction => Cost::CutShort,
            _ if self.what.may_commit || !self.what.in_transaction => Cost::Unknown,
            _ => Cost::RolledBack,
        }
    }

    /// Its answer means that something was committed: it is a COMMIT, or a change outside a transaction. Not one that may first wait for
    /// something else, such as a change of a table's structure.
    pub fn commits(&self) -> bool {
        match self.what.kind {
            StatementKind::Commit => true,
            StatementKind::Write => {
                self.what.autocommit && !self.what.in_transaction && !self.what.may_commit && !self.calls
            }
            _ => false,
        }
    }

    /// The same for as long as its last byte is not sent.
    pub fn cost_unsent(&self) -> Cost {
        if self.what.in_transaction { Cost::RolledBack } else { Cost::NotRun }
    }

    pub(crate) fn is(&mut self, scanned: &Statement) {
        self.what.kind = scanned.kind;
        self.what.may_commit = scanned.may_commit;
        self.several = scanned.runs_several;
        self.calls = scanned.calls;
        self.recalls = scanned.recalled;
        self.changes_tables = scanned.touches_engines;
        self.kills_itself = scanned.kills_own;
        self.leaves_no_trace = scanned.leaves_no_trace;
        self.may_run_stored = scanned.calls_stored || scanned.renews.has(Recalls::WARNINGS);
    }

    /// Looks up the names in its text: a read that may write counts as a write.
    pub(crate) fn look_up(&mut self, text: &[u8], status: u16, names: Lists<'_>) {
        let looks_harmless = matches!(self.what.kind, StatementKind::Read | StatementKind::SessionOnly)
            || self.leaves_no_trace;
        if looks_harmless && names(List::WritingReads).any_read_in(text, status) {
            self.what.kind = StatementKind::Write;
            self.leaves_no_trace = false;
        }
        let untransactional = names(List::Untransactional);
        self.what.untransactional =
            self.what.kind == StatementKind::Write && untransactional.any_in(text, status);
        self.reaches_untransactional = self.what.untransactional && matches!(untransactional, Names::Of(..));
    }

    pub(crate) fn is_harmless(&mut self, kind: StatementKind) {
        self.what.kind = kind;
        self.what.may_commit = false;
    }

    /// What "state changed" without a name means for this command.
    pub(crate) fn unnamed(&self) -> Unnamed {
        match &self.scanned {
            // A function, a view or a trigger may have set variables that the text does not show.
            _ if self.calls || self.may_run_stored => Unnamed::Never,
            Some(scanned)
                if !scanned.pins.is_empty()
                    || !scanned.unpins.is_empty()
                    || scanned.literal_user_variables
                    || scanned.kind == StatementKind::SessionOnly =>
            {
                Unnamed::Expected
            }
            None if !matches!(self.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE) => {
                Unnamed::Expected
            }
            _ => Unnamed::UnlessNamed,
        }
    }

    pub(crate) fn sets(&self) -> Sets {
        self.scanned.map_or(Sets::NONE, |scanned| scanned.sets)
    }
}

/// What it costs a client when its command is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cost {
    /// A result ends early; nothing was changed.
    CutShort = 0,
    /// The outcome of a statement is unknown.
    Unknown = 1,
    /// A transaction is rolled back.
    RolledBack = 2,
    /// A statement that was not wholly sent is not executed.
    NotRun = 3,
}

/// What to do with a command.
#[derive(Debug)]
pub enum Next {
    /// Send it to a node and relay the answer.
    Forward(InFlight),
    /// Answer OK here; no node is needed.
    AnswerOk,
    /// Something was lost since the last answer: this command gets the error.
    Tell(Owed),
    /// It asks for something that the proxy does not support; the text names it.
    Refuse(&'static str),
    /// No such prepared statement (1243).
    UnknownStatement(u32),
    /// Forget the session, here and on its node, and answer OK.
    Reset,
    /// A new login on the same connection.
    ChangeUser,
    /// KILL of a statement or a connection, as the scanner read it.
    Kill {
        /// Only its running statement.
        query_only: bool,
        /// The connection id.
        id: u64,
        /// What to forward when the id is not one of the proxy's own.
        otherwise: InFlight,
    },
    /// Nothing to send and nothing to answer.
    Nothing,
    /// COM_QUIT.
    Quit,
    /// The connection is to end without an answer, as at a server that is gone: a ping of a client that is owed an error. Node's `mariadb`
    /// 3.5.4 reads an error packet as the OK of a ping, finds no transaction in it, sends no COMMIT, and reports that it succeeded.
    Close,
}

/// An error that the client's next command gets, because its cause came while no command was running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owed {
    /// The transaction was lost with its node, and is certainly rolled back.
    RolledBack,
    /// The same, but the transaction had changed a table that cannot be rolled back.
    Unknown,
    /// Something that tied the session to its node was lost with the node; the text names it.
    SessionLost(String),
}

/// In the low byte of the flags of COM_STMT_BULK_EXECUTE: the parameter types follow.
pub const BULK_SENDS_TYPES: u8 = 128;

/// The offset of the parameter types in a COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE payload. In the former, the byte before says whether
/// there are any.
pub fn types_at(command: Command, params: u16) -> usize {
    match command {
        Command::STMT_BULK_EXECUTE => 7,
        _ => 11 + usize::from(params).div_ceil(8),
    }
}

/// Whether a text begins with a statement that writes rows and does nothing else. A server that accepts only one statement in a text runs
/// this one, whatever follows.
pub(crate) fn begins_with_one_write(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let word = text.iter().position(|c| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    // White space must follow, so that it is a whole word.
    text.get(word).is_some_and(u8::is_ascii_whitespace)
        && [&b"INSERT"[..], b"REPLACE", b"UPDATE", b"DELETE"]
            .iter()
            .any(|write| text[..word].eq_ignore_ascii_case(write))
}

//! One command of the client as far as it must be understood before it is sent: what it is, what it may leave behind, and what a loss of
//! it would mean.

use std::collections::BTreeSet;

use protocol::command::Command;
use protocol::statement::{Kind, Recalls, Sets, Statement};

use crate::names::{List, Lists};
use crate::retry::Circumstances;
use crate::wanted::Unnamed;

/// A command on its way.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// Which.
    pub command: Command,
    /// The client's id of the prepared statement it speaks of.
    pub statement: Option<u32>,
    /// What the scanner says of its text; `None` for commands without text.
    pub(crate) scanned: Option<Statement>,
    /// What it is, as far as sending it again goes.
    pub(crate) what: Circumstances,
    /// What it asks of that which earlier statements left on the node.
    pub(crate) recalls: Recalls,
    /// Several statements may run before its first answer.
    pub(crate) several: bool,
    /// It runs code that its text does not show.
    pub(crate) calls: bool,
    /// It may leave a new transaction behind the one it ends.
    pub(crate) chains: bool,
    /// The client asked for a cursor, so that the rows come when they are fetched.
    pub(crate) asks_cursor: bool,
    /// It ends this very connection: KILL CONNECTION_ID().
    pub(crate) kills_itself: bool,
    /// It may make or change a table without transactions.
    pub(crate) changes_tables: bool,
    /// It only reads and waits.
    pub(crate) leaves_no_trace: bool,
    /// The sequences that it surely draws from.
    pub(crate) draws: BTreeSet<String>,
    /// The sequences whose last value it asks for; `None` where that cannot be told.
    pub(crate) asks_sequences: Option<BTreeSet<String>>,
    /// Code that is not in its text may run and set variables: a stored function, a view, a trigger.
    pub(crate) may_run_stored: bool,
}

impl InFlight {
    /// Of a command whose text is not understood yet: a write that may do anything.
    pub(crate) fn new(command: Command, in_transaction: bool, autocommit: bool) -> Self {
        Self {
            command,
            statement: None,
            scanned: None,
            what: Circumstances {
                kind: Kind::Write,
                may_commit: true,
                in_transaction,
                autocommit,
                untransactional: false,
            },
            recalls: Recalls::NONE,
            several: false,
            calls: false,
            chains: false,
            asks_cursor: false,
            kills_itself: false,
            changes_tables: false,
            leaves_no_trace: false,
            draws: BTreeSet::new(),
            asks_sequences: None,
            may_run_stored: false,
        }
    }

    /// What it is, as far as sending it again goes.
    pub fn kind(&self) -> Kind {
        self.what.kind
    }

    /// What the scanner says of its text; nothing for a command without one of its own.
    pub fn scanned(&self) -> Option<&Statement> {
        self.scanned.as_ref()
    }

    /// It asks what an earlier statement left on the node (FOUND_ROWS(), SHOW WARNINGS, ...) and no other node knows.
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

    /// Its answer may hold the OUT parameters of a procedure, as a result of one row.
    pub fn may_give_parameters(&self) -> bool {
        self.calls && matches!(self.command, Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE)
    }

    /// It is a SET and nothing else, which leaves a ROW_COUNT() of 0.
    pub fn sets_alone(&self) -> bool {
        self.scanned.is_some_and(|scanned| scanned.alone && scanned.sets != Sets::NONE)
            && self.what.kind == Kind::SessionOnly
    }

    /// It ends this very connection: KILL CONNECTION_ID().
    pub fn kills_itself(&self) -> bool {
        self.kills_itself
    }

    /// It may make or change a table without transactions, so that what is known of tables is old when it has run.
    pub fn changes_tables(&self) -> bool {
        self.changes_tables
    }

    /// Ending it where it runs changes nothing that would not be rolled back: a read, or a part of a transaction that stays uncommitted.
    pub fn ends_without_trace(&self) -> bool {
        match self.what.kind {
            Kind::Read | Kind::SessionOnly => true,
            _ if self.leaves_no_trace => true,
            _ => self.what.in_transaction && !self.what.may_commit && !self.what.untransactional,
        }
    }

    /// Outside a transaction, and all that it does is to wait and to lock: not to be run again, and nothing is left of it.
    pub fn only_waits(&self) -> bool {
        self.leaves_no_trace && !self.what.in_transaction
    }

    /// Breaking off its answer changes nothing: a read that is no part of a transaction.
    pub fn can_be_cut(&self) -> bool {
        self.what.kind == Kind::Read && !self.what.in_transaction && self.what.autocommit
    }

    /// What breaking it off now would cost the client.
    pub fn cost(&self) -> Cost {
        match self.what.kind {
            Kind::Read if !self.what.in_transaction => Cost::CutShort,
            _ if self.what.may_commit || !self.what.in_transaction => Cost::Unknown,
            _ => Cost::RolledBack,
        }
    }

    /// The same as long as its last byte is not sent.
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

    /// What the names in its text tell beyond the text: a read that may write is a write, whatever becomes of it.
    pub(crate) fn look_up(&mut self, text: &[u8], status: u16, names: Lists<'_>) {
        let looks_harmless = matches!(self.what.kind, Kind::Read | Kind::SessionOnly) || self.leaves_no_trace;
        if looks_harmless && names(List::WritingReads).any_read_in(text, status) {
            self.what.kind = Kind::Write;
            self.leaves_no_trace = false;
        }
        self.what.untransactional =
            self.what.kind == Kind::Write && names(List::Untransactional).any_in(text, status);
    }

    pub(crate) fn is_harmless(&mut self, kind: Kind) {
        self.what.kind = kind;
        self.what.may_commit = false;
    }

    /// What an unnamed change of the session means for this command.
    pub(crate) fn unnamed(&self) -> Unnamed {
        match &self.scanned {
            // What sets variables here, it is not the text: a function, a view or a trigger.
            _ if self.calls || self.may_run_stored => Unnamed::Never,
            Some(scanned)
                if !scanned.pins.is_empty()
                    || !scanned.unpins.is_empty()
                    || scanned.literal_user_variables
                    || scanned.kind == Kind::SessionOnly =>
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

/// What it costs a client when what it does is broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cost {
    /// A result is cut short; nothing was changed.
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
    /// Something was lost since the last answer, and this command is told.
    Tell(Owed),
    /// It asks for something the proxy cannot do; the name of it.
    Refuse(&'static str),
    /// No such prepared statement (1243).
    UnknownStatement(u32),
    /// Forget the session, here and on its node, and answer OK.
    Reset,
    /// A new login on the same connection.
    ChangeUser,
    /// End a statement or a connection; the scanner's word on KILL.
    Kill {
        /// Only its running statement.
        query_only: bool,
        /// The connection id.
        id: u64,
        /// Forward this when the id is not one of the proxy's own.
        otherwise: InFlight,
    },
    /// Nothing to send and nothing to answer.
    Nothing,
    /// The client says goodbye.
    Quit,
}

/// What the client has to be told by its next command, because it happened while nothing of its was on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owed {
    /// Its transaction was lost with its node, and is surely rolled back.
    RolledBack,
    /// The same, but the transaction had changed a table that is not rolled back.
    Unknown,
    /// What tied the session to its node was lost with it; what.
    SessionLost(String),
}

/// In the low byte of a BULK_EXECUTE's flags: the parameters' types follow.
pub const BULK_SENDS_TYPES: u8 = 128;

/// Where the parameter types stand in a COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE payload. In the former, the byte before tells
/// whether they do.
pub fn types_at(command: Command, params: u16) -> usize {
    match command {
        Command::STMT_BULK_EXECUTE => 7,
        _ => 11 + usize::from(params).div_ceil(8),
    }
}

/// Whether a text begins with a statement that writes rows and nothing else, in plain words: a server that takes one statement in
/// a text runs this one, whatever follows.
pub(crate) fn begins_with_one_write(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let word = text.iter().position(|c| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    // Behind the word: a gap, so that it is one.
    text.get(word).is_some_and(u8::is_ascii_whitespace)
        && [&b"INSERT"[..], b"REPLACE", b"UPDATE", b"DELETE"]
            .iter()
            .any(|write| text[..word].eq_ignore_ascii_case(write))
}

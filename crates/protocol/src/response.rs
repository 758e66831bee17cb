//! Where an answer ends.
//!
//! Enters: the command that was sent, the capabilities agreed on, and then each packet the server sends: its length and
//! as few of its bytes as [`Answer::need`] asks for. Leaves: whether more follows, or how the answer ended. Invariant: no
//! row is looked at beyond its first byte, nothing is copied, nothing allocated; whatever the server sends, each step
//! either moves on or fails.
//!
//! ```text
//!            +--------------------- more results -----------------------+
//!            v                                                          |
//!   Head --OK/ERR------------------------------------------------> Part | End
//!     |----LOCAL INFILE--> (client's file) --> Head                     ^
//!     |----n columns--> Columns --n of them--> [ColumnsEof] --> Rows --EOF/OK/ERR
//!                       (a cursor of the client's: that EOF ends it)   ^
//!   PrepareHead --> Params --> [EOF] --> Columns --> [EOF] --> End      |
//!   Fetch: Rows at once ------------------------------------------------+
//! ```
//!
//! The EOFs in brackets are not sent when [`Caps::DEPRECATE_EOF`] is agreed on. An ERR may stand in place of any packet
//! but a row's continuation.
//!
//! The status bit CURSOR_EXISTS means "the rows come when they are fetched" only where the client asked for a cursor: a
//! server sets it, too, for a cursor that is open inside a procedure or a block, and sends the rows of a SELECT there as of
//! any other. So whoever sent the command says whether its result may be a cursor ([`Answer::with_cursor`]).
//!
//! Sources: MariaDB's "Result Set Packets", MySQL's "Text Resultset" and "COM_STMT_PREPARE
//! Response"; what a server really does was recorded from MariaDB 10.11 (see the link crate's tests).

use std::fmt;

use crate::capability::Caps;
use crate::command::Command;
use crate::ok::{EOF, ERR, ErrPacket, OK, OkPacket, status};
use crate::packet::{Fields, HEADER_LEN, Head, Malformed, PAYLOAD_MAX};

/// The code of an ERR packet that reports progress and is none.
const PROGRESS: u16 = 0xFFFF;
/// An EOF packet is shorter than this; a row that begins with the same byte is longer.
const EOF_BELOW: usize = 9;
/// The servers allow 4,096 columns; what claims more than this is no column count.
const COLUMNS_MAX: u64 = 0xFFFF;

/// How much of the coming packet [`Answer::step`] must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Its first byte, if it has one.
    First,
    /// All of it. Such packets are small, but for an OK with many session changes.
    Whole,
}

/// What a packet meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More packets follow.
    More,
    /// One result has ended and another follows.
    Part {
        /// Flags of [`status`].
        status: u16,
        /// How many warnings.
        warnings: u16,
        /// Whether this packet carries session changes.
        changed: bool,
    },
    /// The server waits for the client's file: packets up to an empty one. Then the server goes on.
    LocalInfile,
    /// Only in answer to COM_CHANGE_USER: the server asks for (more) authentication data. The client answers with one
    /// packet, then the server goes on.
    Auth,
    /// The answer has ended.
    End(End),
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an OK packet.
    Ok {
        /// Flags of [`status`].
        status: u16,
        /// How many warnings.
        warnings: u16,
        /// Whether the packet carries session changes; [`OkPacket::changes`] reads them.
        changed: bool,
    },
    /// With an ERR packet.
    Err {
        /// The error's number.
        code: u16,
    },
    /// With an EOF packet.
    Eof {
        /// Flags of [`status`].
        status: u16,
    },
    /// A statement has been prepared, and its parameters and columns described.
    Prepared {
        /// Its id on this connection.
        id: u32,
        /// How many columns it gives.
        columns: u16,
        /// How many parameters it takes.
        params: u16,
    },
    /// With a line of text.
    Text,
}

impl End {
    /// The status flags, where the server sent them.
    #[inline]
    pub fn status(self) -> Option<u16> {
        match self {
            End::Ok { status, .. } | End::Eof { status } => Some(status),
            End::Err { .. } | End::Prepared { .. } | End::Text => None,
        }
    }
}

/// What the next packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Head,
    Columns { left: u16 },
    ColumnsEof,
    Rows,
    PrepareHead,
    PrepareParams { left: u16 },
    PrepareParamsEof,
    PrepareColumns { left: u16 },
    PrepareColumnsEof,
    FieldList,
    Binlog,
    Text,
    Nothing,
}

/// One answer, followed packet by packet.
#[derive(Clone, Debug)]
pub struct Answer {
    caps: Caps,
    command: Command,
    expect: Expect,
    /// The packet before was as long as one can be: this one continues it.
    continues: bool,
    started: bool,
    /// The result at hand may be a cursor of the client's.
    may_be_cursor: bool,
    /// It is one.
    is_cursor: bool,
    /// Behind the last packet stands an EOF in the older form, which is not sent here.
    leaves_out_eof: bool,
    prepared: End,
    rows: u64,
}

/// A packet other than what had to come: the answer cannot be followed any further, and its end is not known. For a log: what was expected,
/// and the form of what came instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfollowed {
    /// The command that is being answered.
    pub command: Command,
    /// What had to come, as [`Answer::awaits`] says it.
    pub awaited: &'static str,
    /// What is wrong with what came.
    pub why: Malformed,
    /// The packet's payload length in bytes, as its header says.
    pub packet_bytes: usize,
    first: [u8; FIRST_BYTES_MAX],
    first_len: usize,
}

/// How much of a packet [`Unfollowed`] keeps.
const FIRST_BYTES_MAX: usize = 16;

impl Unfollowed {
    /// The first bytes of the packet's payload: at most 16, and no more than the answer was shown.
    pub fn first_bytes(&self) -> &[u8] {
        self.first.get(..self.first_len).unwrap_or_default()
    }
}

impl fmt::Display for Unfollowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the answer to COM_{} cannot be followed: {} was due, and a packet of {} bytes came ({}), which begins",
            self.command.name(),
            self.awaited,
            self.packet_bytes,
            self.why.what,
        )?;
        self.first_bytes().iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

impl std::error::Error for Unfollowed {}

impl Answer {
    /// The answer to `command`, which asks for no cursor, under the capabilities agreed on with the server.
    pub fn new(command: Command, caps: Caps) -> Answer {
        let expect = match command {
            Command::STMT_PREPARE => Expect::PrepareHead,
            Command::STMT_FETCH => Expect::Rows,
            Command::FIELD_LIST => Expect::FieldList,
            Command::STATISTICS => Expect::Text,
            Command::BINLOG_DUMP | Command::BINLOG_DUMP_GTID => Expect::Binlog,
            silent if !silent.answers() => Expect::Nothing,
            _ => Expect::Head,
        };
        let prepared = End::Prepared { id: 0, columns: 0, params: 0 };
        Answer {
            caps,
            command,
            expect,
            continues: false,
            started: false,
            may_be_cursor: false,
            is_cursor: false,
            leaves_out_eof: false,
            prepared,
            rows: 0,
        }
    }

    /// The answer to a COM_STMT_EXECUTE that asks for a cursor (see [`crate::command::asks_for_cursor`]) of a statement that can
    /// have one. A CALL cannot: servers send its results as they come, whatever was asked for.
    pub fn with_cursor(command: Command, caps: Caps) -> Answer {
        Answer { may_be_cursor: true, ..Answer::new(command, caps) }
    }

    /// What the next packet must be, in words for a log.
    pub fn awaits(&self) -> &'static str {
        match self.expect {
            Expect::Head => "the head of a result",
            Expect::Columns { .. } => "a column's description",
            Expect::ColumnsEof => "the EOF behind the columns",
            Expect::Rows => "a row or the end of the rows",
            Expect::PrepareHead => "the head of a preparation",
            Expect::PrepareParams { .. } => "a parameter's description",
            Expect::PrepareParamsEof => "the EOF behind the parameters",
            Expect::PrepareColumns { .. } => "a column's description of a preparation",
            Expect::PrepareColumnsEof => "the EOF behind the columns of a preparation",
            Expect::FieldList => "a column of a table or the end of them",
            Expect::Binlog => "an event of the binary log",
            Expect::Text => "a line of text",
            Expect::Nothing => "nothing",
        }
    }

    /// What to say of a packet that [`Answer::step`] just failed on: `len` and `payload` as they were shown to it.
    pub fn unfollowed(&self, why: Malformed, len: usize, payload: &[u8]) -> Unfollowed {
        let mut first = [0; FIRST_BYTES_MAX];
        let first_len = payload.len().min(FIRST_BYTES_MAX);
        first[..first_len].copy_from_slice(&payload[..first_len]);
        Unfollowed { command: self.command, awaited: self.awaits(), why, packet_bytes: len, first, first_len }
    }

    /// How many rows have been seen, of all results of the answer.
    #[inline]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether a row or a column has been seen. An ERR may still follow.
    #[inline]
    pub fn started(&self) -> bool {
        self.started
    }

    /// Whether the answer has ended with a cursor of the client's open: its rows are yet to be fetched.
    #[inline]
    pub fn opened_cursor(&self) -> bool {
        self.is_cursor
    }

    /// Whether an EOF would stand behind the packet that was taken last, had [`Caps::DEPRECATE_EOF`] not been agreed on: the one behind the
    /// columns or the parameters. (Where a client asked for a cursor and has one, that EOF ends the answer.)
    #[inline]
    pub fn leaves_out_eof(&self) -> bool {
        self.leaves_out_eof
    }

    /// How many bytes of the coming packet [`Answer::step`] needs; `len` is its payload's length from the header, `first`
    /// its first byte (`None` when `len` is 0).
    #[inline]
    pub fn need(&self, len: usize, first: Option<u8>) -> Need {
        match first {
            Some(first) if !self.continues => self.need_of(len, first),
            _ => Need::First,
        }
    }

    #[inline]
    fn need_of(&self, len: usize, first: u8) -> Need {
        match self.expect {
            // The hot path: a row begins with neither byte, or (0xFE, a field of 16 MiB and more) is too long to be an end.
            Expect::Rows | Expect::FieldList | Expect::Binlog if first < EOF => Need::First,
            Expect::Rows | Expect::Binlog if first == EOF && !self.is_end(len) => Need::First,
            Expect::Columns { .. } | Expect::PrepareParams { .. } | Expect::PrepareColumns { .. }
                if first != ERR =>
            {
                Need::First
            }
            Expect::Text if first != ERR => Need::First,
            _ => Need::Whole,
        }
    }

    /// Whether a packet beginning with 0xFE ends the rows, by its length.
    #[inline]
    fn is_end(&self, len: usize) -> bool {
        if self.caps.has(Caps::DEPRECATE_EOF) { len < PAYLOAD_MAX } else { len < EOF_BELOW }
    }

    /// Takes the rows at the front of `packets` that are whole, as [`Answer::step`] would one by one, and returns their length with their
    /// heads. `renumber` is added to the number of each.
    #[inline]
    pub fn whole_rows(&mut self, packets: &mut [u8], renumber: u8) -> usize {
        if self.expect != Expect::Rows || self.continues {
            return 0;
        }
        let mut at = 0;
        while let Some(head) = Head::peek(&packets[at..]) {
            let end = at + HEADER_LEN + head.len;
            // What begins like an end is looked at closely, and so is what goes on in a further packet.
            let first = packets.get(at + HEADER_LEN).copied();
            if end > packets.len() || head.len >= PAYLOAD_MAX || matches!(first, None | Some(EOF | ERR)) {
                break;
            }
            packets[at + HEADER_LEN - 1] = head.seq.wrapping_add(renumber);
            self.rows += 1;
            at = end;
        }
        if at > 0 {
            self.started = true;
            self.leaves_out_eof = false;
        }
        at
    }

    /// Takes the next packet: its payload's length and its first bytes, at least as many as [`Answer::need`] asked for.
    /// After an error the connection is of no more use.
    #[inline]
    pub fn step(&mut self, len: usize, payload: &[u8]) -> Result<Step, Malformed> {
        let continues = self.continues;
        self.continues = len >= PAYLOAD_MAX;
        self.leaves_out_eof = false;
        if continues {
            return Ok(Step::More);
        }
        let first = payload.first().copied();
        if self.expect == Expect::Rows {
            match first {
                Some(EOF) if self.is_end(len) => {}
                Some(ERR) => {}
                _ => {
                    self.started = true;
                    self.rows += 1;
                    return Ok(Step::More);
                }
            }
        }
        let awaited = self.expect;
        match self.step_rarely(len, first, payload) {
            Ok(Step::End(_)) if len >= PAYLOAD_MAX => {
                self.expect = awaited;
                Err(Malformed::new("the last packet of an answer says that it goes on"))
            }
            step => step,
        }
    }

    /// Everything that is not a row.
    fn step_rarely(&mut self, len: usize, first: Option<u8>, payload: &[u8]) -> Result<Step, Malformed> {
        if len >= PAYLOAD_MAX && first.is_some_and(|first| self.need_of(len, first) == Need::Whole) {
            return Err(Malformed::new("a packet of 16 MiB where a short one must stand"));
        }
        if first == Some(ERR) && self.expect != Expect::Nothing {
            return self.error(payload);
        }
        match self.expect {
            Expect::Head => self.head(first, payload),
            Expect::Columns { left } => {
                self.started = true;
                self.expect = match left {
                    0 | 1 => self.behind_columns(),
                    _ => Expect::Columns { left: left - 1 },
                };
                Ok(Step::More)
            }
            Expect::ColumnsEof => {
                let (_, status) = eof(payload)?;
                self.expect = Expect::Rows;
                if self.may_be_cursor && status & status::CURSOR_EXISTS != 0 {
                    return Ok(self.ended(End::Eof { status }));
                }
                Ok(Step::More)
            }
            Expect::Rows => self.end_of_rows(payload),
            Expect::FieldList => {
                // Some servers say EOF here even where it is deprecated; a column never begins with 0xFE.
                if first == Some(EOF) {
                    return self.end_of_rows(payload);
                }
                self.started = true;
                Ok(Step::More)
            }
            Expect::PrepareHead => self.prepare_head(payload),
            Expect::PrepareParams { left } => {
                self.started = true;
                if left > 1 {
                    self.expect = Expect::PrepareParams { left: left - 1 };
                    return Ok(Step::More);
                }
                if self.caps.has(Caps::DEPRECATE_EOF) {
                    self.leaves_out_eof = true;
                    return Ok(self.prepare_columns());
                }
                self.expect = Expect::PrepareParamsEof;
                Ok(Step::More)
            }
            Expect::PrepareParamsEof => {
                eof(payload)?;
                Ok(self.prepare_columns())
            }
            Expect::PrepareColumns { left } => {
                self.started = true;
                if left > 1 {
                    self.expect = Expect::PrepareColumns { left: left - 1 };
                    return Ok(Step::More);
                }
                if self.caps.has(Caps::DEPRECATE_EOF) {
                    self.leaves_out_eof = true;
                    return Ok(self.finish(self.prepared));
                }
                self.expect = Expect::PrepareColumnsEof;
                Ok(Step::More)
            }
            Expect::PrepareColumnsEof => {
                eof(payload)?;
                Ok(self.finish(self.prepared))
            }
            Expect::Binlog => {
                if first == Some(EOF) && len < EOF_BELOW {
                    let status = eof(payload).map_or(0, |(_, status)| status);
                    return Ok(self.finish(End::Eof { status }));
                }
                self.started = true;
                Ok(Step::More)
            }
            Expect::Text => Ok(self.finish(End::Text)),
            Expect::Nothing => Err(Malformed::new("a packet though no answer is due")),
        }
    }

    fn head(&mut self, first: Option<u8>, payload: &[u8]) -> Result<Step, Malformed> {
        match first {
            None => Err(Malformed::new("an answer begins with an empty packet")),
            Some(OK) => self.end_by_ok(payload),
            Some(EOF | 1) if self.command == Command::CHANGE_USER => Ok(Step::Auth),
            Some(EOF) => self.end_of_rows(payload),
            Some(0xFB) => Ok(Step::LocalInfile),
            Some(_) => {
                let mut fields = Fields::new(payload);
                let count = fields.lenenc_int()?;
                if count == 0 || count > COLUMNS_MAX {
                    return Err(Malformed::new("a result's number of columns is not within 1 to 65535"));
                }
                let flagged = Caps(Caps::CACHE_METADATA.0 | Caps::OPTIONAL_RESULTSET_METADATA.0);
                let are_left_out =
                    self.caps & flagged != Caps::NONE && !fields.is_empty() && fields.u8()? == 0;
                self.expect = match are_left_out {
                    false => Expect::Columns { left: count as u16 },
                    true => self.behind_columns(),
                };
                Ok(Step::More)
            }
        }
    }

    fn behind_columns(&mut self) -> Expect {
        self.leaves_out_eof = self.caps.has(Caps::DEPRECATE_EOF);
        if self.leaves_out_eof { Expect::Rows } else { Expect::ColumnsEof }
    }

    fn prepare_head(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        let mut fields = Fields::new(payload);
        if fields.u8()? != OK {
            return Err(Malformed::new("the answer to a preparation begins with neither OK nor ERR"));
        }
        let id = fields.u32()?;
        let columns = fields.u16()?;
        let params = fields.u16()?;
        self.prepared = End::Prepared { id, columns, params };
        if self.caps.has(Caps::OPTIONAL_RESULTSET_METADATA) {
            // filler, warnings, and then whether descriptions follow
            fields.u8()?;
            fields.u16()?;
            if !fields.is_empty() && fields.u8()? == 0 {
                return Ok(self.finish(self.prepared));
            }
        }
        if params > 0 {
            self.expect = Expect::PrepareParams { left: params };
            return Ok(Step::More);
        }
        Ok(self.prepare_columns())
    }

    fn prepare_columns(&mut self) -> Step {
        match self.prepared {
            End::Prepared { columns, .. } if columns > 0 => {
                self.expect = Expect::PrepareColumns { left: columns };
                Step::More
            }
            _ => self.finish(self.prepared),
        }
    }

    fn error(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        let code = ErrPacket::parse(payload)?.code;
        if code == PROGRESS && self.caps.has(Caps::PROGRESS) {
            return Ok(Step::More);
        }
        Ok(self.finish(End::Err { code }))
    }

    fn end_by_ok(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        let ok = OkPacket::parse(payload, self.caps)?;
        let changed = !ok.track.is_empty();
        Ok(self.ended(End::Ok { status: ok.status, warnings: ok.warnings, changed }))
    }

    /// An EOF, or the OK in its place: told apart by length, because some servers send the short form even where it is
    /// deprecated.
    fn end_of_rows(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        if self.caps.has(Caps::DEPRECATE_EOF) && payload.len() > 5 {
            return self.end_by_ok(payload);
        }
        let (_, status) = eof(payload)?;
        Ok(self.ended(End::Eof { status }))
    }

    /// A result has ended: is it the last?
    fn ended(&mut self, end: End) -> Step {
        let more = end.status().is_some_and(|status| status & status::MORE_RESULTS != 0);
        // Neither of these has ever a second result, and a stray flag must not leave us waiting.
        if !more || matches!(self.command, Command::STMT_FETCH | Command::FIELD_LIST) {
            let has_cursor = end.status().is_some_and(|status| status & status::CURSOR_EXISTS != 0);
            self.is_cursor = self.may_be_cursor && has_cursor;
            return self.finish(end);
        }
        self.expect = Expect::Head;
        self.may_be_cursor = false; // a cursor is a statement's only result
        match end {
            End::Ok { status, warnings, changed } => Step::Part { status, warnings, changed },
            End::Eof { status } => Step::Part { status, warnings: 0, changed: false },
            other => Step::End(other),
        }
    }

    fn finish(&mut self, end: End) -> Step {
        self.expect = Expect::Nothing;
        Step::End(end)
    }
}

/// Warnings and status of an EOF packet.
fn eof(payload: &[u8]) -> Result<(u16, u16), Malformed> {
    let mut fields = Fields::new(payload);
    if fields.u8()? != EOF {
        return Err(Malformed::new("an EOF packet begins with 0xFE"));
    }
    Ok((fields.u16()?, fields.u16()?))
}

#[cfg(test)]
mod tests;

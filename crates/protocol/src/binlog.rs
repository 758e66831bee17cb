//! The events of a MariaDB binlog, as far as one must know them to tell what a transaction did.
//!
//! Enters: an event's head and (the beginning of) its body, as they stand in the file. Leaves: what it is. Invariant: nothing that a file
//! says is trusted; what is not understood is [`Event::Other`], or [`Malformed`].
//!
//! ```text
//!   file   fe 'b' 'i' 'n'  event...
//!   event  head(19): time(u32) kind(u8) server(u32) bytes(u32) end(u32) flags(u16)   body   [crc(u32)]
//! ```
//!
//! Source: MariaDB's manual, "Replication protocol", and the files that a 10.11 server wrote.

#[cfg(test)]
mod tests;

use crate::gtid::mariadb::{Gtid, State};
use crate::packet::{Fields, Malformed};

/// What a file begins with.
pub const MAGIC: [u8; 4] = *b"\xfebin";
/// Bytes of an event's head.
pub const HEAD_BYTES: usize = 19;

/// An event's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it was written, in seconds since 1970.
    pub time_s: u32,
    /// Which event.
    pub kind: u8,
    /// `server_id` of the server that wrote it first.
    pub server: u32,
    /// All of it, this head and the checksum with it.
    pub bytes: u32,
}

impl Head {
    /// Reads it.
    ///
    /// # Errors
    /// When there are too few bytes, or the event is shorter than its head.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(bytes);
        let time_s = fields.u32()?;
        let kind = fields.u8()?;
        let (server, bytes) = (fields.u32()?, fields.u32()?);
        if (bytes as usize) < HEAD_BYTES {
            return Err(Malformed::new("an event that is shorter than its head"));
        }
        Ok(Self { time_s, kind, server, bytes })
    }
}

/// What rows had done to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

/// An event. Texts may be cut where the body was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file's first event: how the others are written.
    Format {
        /// The server's version.
        version: String,
        /// Each event ends with a checksum.
        is_summed: bool,
    },
    /// All that was written before this file.
    GtidList(State),
    /// A transaction begins.
    Gtid {
        /// Which.
        gtid: Gtid,
        /// It is one statement that commits by itself.
        is_standalone: bool,
        /// It changes tables themselves.
        is_ddl: bool,
        /// It is a part of a distributed transaction.
        is_xa: bool,
        /// It wrote to nothing but tables with transactions; sequences have none.
        is_transactional: bool,
    },
    /// A statement.
    Query {
        /// In which schema.
        schema: String,
        /// Its text; empty when it is compressed.
        text: String,
    },
    /// The statement that the rows after it come from.
    Annotate(String),
    /// Which table a number stands for in this transaction.
    Table {
        /// The number.
        id: u64,
        /// The table's schema.
        schema: String,
        /// Its name.
        name: String,
    },
    /// Rows of one table.
    Rows {
        /// What was done to them.
        change: Change,
        /// The table's number.
        table: u64,
        /// Every column is there.
        is_whole: bool,
        /// They are compressed.
        is_compressed: bool,
    },
    /// The transaction is committed.
    Commit,
    /// Says nothing of what a transaction did: rotation, checkpoints, heartbeats.
    Bookkeeping,
    /// Something else.
    Other(u8),
}

/// Bits of a GTID event.
mod gtid_flag {
    pub const STANDALONE: u8 = 1;
    pub const TRANSACTIONAL: u8 = 4;
    pub const DDL: u8 = 32;
    pub const PREPARED_XA: u8 = 64;
    pub const COMPLETED_XA: u8 = 128;
}

impl Event {
    /// Reads an event's body; `body` has no checksum, and may be cut.
    ///
    /// # Errors
    /// When a part that is needed is not there.
    pub fn parse(head: &Head, body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        Ok(match head.kind {
            2 => query(&mut fields, false)?,
            165 => query(&mut fields, true)?,
            // Start, Stop, Rotate, Ignorable, Heartbeat, Binlog_checkpoint, Start_encryption.
            1 | 3 | 4 | 27 | 28 | 161 | 164 => Self::Bookkeeping,
            15 => format(&mut fields)?,
            16 => Self::Commit,
            19 => table(&mut fields)?,
            23 => rows(Change::Insert, false, &mut fields)?,
            24 => rows(Change::Update, false, &mut fields)?,
            25 => rows(Change::Delete, false, &mut fields)?,
            160 => Self::Annotate(lossy(fields.rest())),
            162 => gtid(head, &mut fields)?,
            163 => gtid_list(&mut fields)?,
            166 => rows(Change::Insert, true, &mut fields)?,
            167 => rows(Change::Update, true, &mut fields)?,
            168 => rows(Change::Delete, true, &mut fields)?,
            other => Self::Other(other),
        })
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn format(fields: &mut Fields<'_>) -> Result<Event, Malformed> {
    fields.u16()?;
    let version = fields.bytes(50)?;
    let end = version.iter().position(|byte| *byte == 0).unwrap_or(version.len());
    let version = lossy(&version[..end]);
    // The algorithm stands before the checksum, which this event always has.
    let rest = fields.rest();
    let algorithm = rest.len().checked_sub(5).and_then(|at| rest.get(at));
    Ok(Event::Format { version, is_summed: algorithm == Some(&1) })
}

fn gtid(head: &Head, fields: &mut Fields<'_>) -> Result<Event, Malformed> {
    let sequence = fields.u64()?;
    let domain = fields.u32()?;
    let flags = fields.u8()?;
    Ok(Event::Gtid {
        gtid: Gtid { domain, server: head.server, sequence },
        is_standalone: flags & gtid_flag::STANDALONE != 0,
        is_ddl: flags & gtid_flag::DDL != 0,
        is_xa: flags & (gtid_flag::PREPARED_XA | gtid_flag::COMPLETED_XA) != 0,
        is_transactional: flags & gtid_flag::TRANSACTIONAL != 0,
    })
}

fn gtid_list(fields: &mut Fields<'_>) -> Result<Event, Malformed> {
    // The upper bits are flags.
    let count = fields.u32()? & 0x0fff_ffff;
    let mut state = State::default();
    for _ in 0..count {
        let (domain, server) = (fields.u32()?, fields.u32()?);
        state.add(Gtid { domain, server, sequence: fields.u64()? });
    }
    Ok(Event::GtidList(state))
}

fn query(fields: &mut Fields<'_>, is_compressed: bool) -> Result<Event, Malformed> {
    fields.bytes(8)?;
    let schema_bytes = usize::from(fields.u8()?);
    fields.u16()?;
    let status_bytes = usize::from(fields.u16()?);
    fields.bytes(status_bytes)?;
    let schema = lossy(fields.bytes(schema_bytes)?);
    fields.u8()?;
    let text = if is_compressed { String::new() } else { lossy(fields.rest()) };
    Ok(Event::Query { schema, text })
}

fn six(fields: &mut Fields<'_>) -> Result<u64, Malformed> {
    let low = u64::from(fields.u32()?);
    Ok(low | (u64::from(fields.u16()?) << 32))
}

fn table(fields: &mut Fields<'_>) -> Result<Event, Malformed> {
    let id = six(fields)?;
    fields.u16()?;
    let mut name = || {
        let bytes = usize::from(fields.u8()?);
        let name = lossy(fields.bytes(bytes)?);
        fields.u8()?;
        Ok::<_, Malformed>(name)
    };
    Ok(Event::Table { id, schema: name()?, name: name()? })
}

fn rows(change: Change, is_compressed: bool, fields: &mut Fields<'_>) -> Result<Event, Malformed> {
    let table = six(fields)?;
    fields.u16()?;
    let columns = fields.lenenc_int()?;
    let columns = usize::try_from(columns).map_err(|_| Malformed::new("more columns than there can be"))?;
    let images = if change == Change::Update { 2 } else { 1 };
    let mut is_whole = true;
    for _ in 0..images {
        let bits = fields.bytes(columns.div_ceil(8))?;
        is_whole &= (0..columns).all(|column| bits[column / 8] & (1 << (column % 8)) != 0);
    }
    Ok(Event::Rows { change, table, is_whole, is_compressed })
}

//! What ties a session to its connection.

use crate::bits::set_of_bits;

/// A set of things that tie a session to its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pins(pub u16);

set_of_bits!(Pins);

impl Pins {
    /// CREATE TEMPORARY TABLE.
    pub const TEMP_TABLE: Pins = Pins(1);
    /// GET_LOCK().
    pub const GET_LOCK: Pins = Pins(2);
    /// LOCK TABLES, FLUSH TABLES WITH READ LOCK.
    pub const LOCK_TABLES: Pins = Pins(4);
    /// `@x` was given a value.
    pub const USER_VARIABLE: Pins = Pins(8);
    /// HANDLER ... OPEN.
    pub const HANDLER: Pins = Pins(16);
    /// PREPARE x FROM ...
    pub const TEXT_PREPARE: Pins = Pins(32);
    /// An XA transaction.
    pub const XA: Pins = Pins(64);
    /// Long data was sent for a prepared statement (found by the session, not by the scanner).
    pub const LONG_DATA: Pins = Pins(128);
    /// A cursor is open on a prepared statement (found by the session).
    pub const CURSOR: Pins = Pins(256);
    /// The server reported a change of the session without its name (found by the session).
    pub const UNNAMED: Pins = Pins(512);
    /// The client changed what the server reports (found by the session).
    pub const TRACKING: Pins = Pins(1024);
    /// The session's clock, or the id of its next insert, was set (found by the session).
    pub const TIMESTAMP: Pins = Pins(2048);
    /// SET ROLE in a text that cannot be repeated (found by the session).
    pub const ROLE: Pins = Pins(4096);
    /// A prepared statement whose text was too long to be kept (found by the session).
    pub const LONG_STATEMENT: Pins = Pins(8192);

    /// BACKUP LOCK, LOCK INSTANCE FOR BACKUP.
    pub const BACKUP_LOCK: Pins = Pins(16384);
    /// BACKUP STAGE.
    pub const BACKUP_STAGE: Pins = Pins(32768);

    /// Readable names, for messages.
    pub fn names(self) -> Vec<&'static str> {
        const NAMES: [(Pins, &str); 16] = [
            (Pins::TEMP_TABLE, "temporary table"),
            (Pins::GET_LOCK, "GET_LOCK"),
            (Pins::LOCK_TABLES, "table lock"),
            (Pins::USER_VARIABLE, "user variable"),
            (Pins::HANDLER, "open HANDLER"),
            (Pins::TEXT_PREPARE, "PREPARE in SQL"),
            (Pins::XA, "XA transaction"),
            (Pins::LONG_DATA, "long data of a prepared statement"),
            (Pins::CURSOR, "open cursor"),
            (Pins::UNNAMED, "change of the session that the server does not name"),
            (Pins::TRACKING, "session_track_system_variables"),
            (Pins::TIMESTAMP, "SET timestamp or insert_id"),
            (Pins::ROLE, "SET ROLE beside other statements"),
            (Pins::LONG_STATEMENT, "prepared statement too long to be kept"),
            (Pins::BACKUP_LOCK, "backup lock"),
            (Pins::BACKUP_STAGE, "BACKUP STAGE"),
        ];
        NAMES.iter().filter(|(pin, _)| self.has(*pin)).map(|&(_, name)| name).collect()
    }
}

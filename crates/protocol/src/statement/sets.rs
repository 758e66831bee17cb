//! What SET changes of a session that is found by its text only.

use crate::bits::set_of_bits;

/// Settings of the session that are found by their text only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sets(pub u8);

set_of_bits!(Sets);

impl Sets {
    /// SET TRANSACTION, without SESSION or GLOBAL, or SET @@tx_isolation and its like: for the next transaction.
    pub const TRANSACTION: Sets = Sets(1);
    /// SET ROLE.
    pub const ROLE: Sets = Sets(2);
    /// SET session_track_...: what the server reports of this session.
    pub const TRACKING: Sets = Sets(4);
    /// SET NAMES x, SET character_set_connection = x: the server reports the character set and not the collation, which becomes the
    /// character set's default.
    pub const NAMES: Sets = Sets(8);
    /// SET NAMES x COLLATE y, SET CHARACTER SET x and the like: the server reports the character set and not the collation, which
    /// becomes one that only the server knows. (Where `collation_connection` itself is reported, that counts.)
    pub const COLLATION: Sets = Sets(16);
    /// SET @@x, without a scope: MariaDB sets it for the session and does not report it. [`super::unreported_variables`] names them.
    pub const UNREPORTED: Sets = Sets(32);
    /// SET STATEMENT x = y FOR ...: its answer reports the value y, which holds no longer; the session's own value is reported only by
    /// some later answer that has anything else to report.
    pub const FOR_ONE_STATEMENT: Sets = Sets(64);
}

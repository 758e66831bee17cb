//! What a client and a server can do: the capability bits they exchange at login.
//!
//! The lower 32 are MySQL's (and mostly MariaDB's); MariaDB has 32 more, which travel in bytes that MySQL leaves zero
//! and count only while [`Caps::LONG_PASSWORD`] is clear. Source: MariaDB's `mysql_com.h`, MySQL's manual
//! "Capabilities Flags".

use std::fmt;
use std::ops::{BitAnd, BitOr};

use crate::bits::set_of_bits;

/// A set of capability bits.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Caps(pub u64);

macro_rules! caps {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Caps {
            $($(#[$doc])* pub const $name: Caps = Caps(1 << $bit);)*
            const NAMES: &'static [(Caps, &'static str)] = &[$((Caps::$name, stringify!($name)),)*];
        }
    };
}

caps! {
    /// MySQL: always on. MariaDB calls it `CLIENT_MYSQL`: while clear, the upper 32 bits count.
    LONG_PASSWORD = 0;
    /// An UPDATE's count is of rows matched, not of rows changed.
    FOUND_ROWS = 1;
    /// All column flags.
    LONG_FLAG = 2;
    /// The login request names a database.
    CONNECT_WITH_DB = 3;
    /// `database.table.column` is refused.
    NO_SCHEMA = 4;
    /// zlib packets.
    COMPRESS = 5;
    /// No effect since 3.22.
    ODBC = 6;
    /// LOAD DATA LOCAL.
    LOCAL_FILES = 7;
    /// Spaces before `(` are ignored.
    IGNORE_SPACE = 8;
    /// The protocol of 4.1 and later; there is no other today.
    PROTOCOL_41 = 9;
    /// `interactive_timeout` counts, not `wait_timeout`.
    INTERACTIVE = 10;
    /// TLS after the greeting.
    SSL = 11;
    /// Client only.
    IGNORE_SIGPIPE = 12;
    /// Status flags in OK and EOF.
    TRANSACTIONS = 13;
    /// Unused; was the flag of 4.1.
    RESERVED = 14;
    /// A 20-byte salt.
    SECURE_CONNECTION = 15;
    /// Several statements in one text.
    MULTI_STATEMENTS = 16;
    /// Several results for one text.
    MULTI_RESULTS = 17;
    /// Several results for one prepared statement.
    PS_MULTI_RESULTS = 18;
    /// Authentication by named plugins.
    PLUGIN_AUTH = 19;
    /// Connection attributes in the login request.
    CONNECT_ATTRS = 20;
    /// The authentication data's length is length-encoded.
    PLUGIN_AUTH_LENENC_DATA = 21;
    /// The client can change an expired password.
    CAN_HANDLE_EXPIRED_PASSWORDS = 22;
    /// Session changes ride on OK packets.
    SESSION_TRACK = 23;
    /// OK packets in place of EOF packets.
    DEPRECATE_EOF = 24;
    /// MySQL 8: column definitions may be left out.
    OPTIONAL_RESULTSET_METADATA = 25;
    /// MySQL 8: zstd packets.
    ZSTD = 26;
    /// MySQL 8.0.25: parameters with every query.
    QUERY_ATTRIBUTES = 27;
    /// MySQL 8.0.27: more than one factor.
    MULTI_FACTOR_AUTHENTICATION = 28;
    /// Client only: extensible capability.
    CAPABILITY_EXTENSION = 29;
    /// Client only.
    SSL_VERIFY_SERVER_CERT = 30;
    /// Client only.
    REMEMBER_OPTIONS = 31;
    /// MariaDB: progress reports, as ERR packets of code 0xFFFF.
    PROGRESS = 32;
    /// MariaDB: COM_MULTI (withdrawn).
    COM_MULTI = 33;
    /// MariaDB: COM_STMT_BULK_EXECUTE.
    STMT_BULK_OPERATIONS = 34;
    /// MariaDB: extended type information in column definitions.
    EXTENDED_METADATA = 35;
    /// MariaDB: column definitions that did not change are left out.
    CACHE_METADATA = 36;
    /// MariaDB: one result for each row of a bulk execution.
    BULK_UNIT_RESULTS = 37;
}

set_of_bits!(Caps);

impl Caps {
    /// Those of both.
    #[inline]
    #[must_use]
    pub const fn intersection(self, other: Caps) -> Caps {
        Caps(self.0 & other.0)
    }

    /// The 32 bits that MySQL knows.
    #[inline]
    pub const fn lower(self) -> u32 {
        self.0 as u32
    }

    /// MariaDB's 32 bits.
    #[inline]
    pub const fn upper(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// From the two halves. The upper counts only while [`Caps::LONG_PASSWORD`] is clear in the lower.
    #[inline]
    pub const fn of_halves(lower: u32, upper: u32) -> Caps {
        let upper = if lower as u64 & Caps::LONG_PASSWORD.0 == 0 { upper } else { 0 };
        Caps(lower as u64 | (upper as u64) << 32)
    }
}

impl BitOr for Caps {
    type Output = Caps;
    fn bitor(self, other: Caps) -> Caps {
        self.union(other)
    }
}

impl BitAnd for Caps {
    type Output = Caps;
    fn bitand(self, other: Caps) -> Caps {
        self.intersection(other)
    }
}

impl fmt::Debug for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unnamed = *self;
        let mut list = f.debug_list();
        for &(cap, name) in Caps::NAMES {
            if self.has(cap) {
                list.entry(&format_args!("{name}"));
                unnamed = unnamed.without(cap);
            }
        }
        if unnamed != Caps::NONE {
            list.entry(&format_args!("{:#x}", unnamed.0));
        }
        list.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_where_the_servers_put_them() {
        assert_eq!(Caps::PROTOCOL_41.0, 0x200);
        assert_eq!(Caps::SECURE_CONNECTION.0, 0x8000);
        assert_eq!(Caps::PLUGIN_AUTH.0, 0x8_0000);
        assert_eq!(Caps::DEPRECATE_EOF.0, 0x100_0000);
        assert_eq!(Caps::PROGRESS.upper(), 1);
        assert_eq!(Caps::CACHE_METADATA.upper(), 16);
    }

    #[test]
    fn the_upper_half_counts_only_for_mariadb() {
        assert_eq!(Caps::of_halves(0, 1), Caps::PROGRESS);
        assert_eq!(Caps::of_halves(1, 1), Caps::LONG_PASSWORD);
    }

    #[test]
    fn debug_lists_names() {
        let caps = Caps::SSL | Caps::PROGRESS | Caps(1 << 60);
        assert_eq!(format!("{caps:?}"), "[SSL, PROGRESS, 0x1000000000000000]");
    }
}

//! Error numbers by the servers' own names; [`whose`] says what an error means for its statement.
//!
//! Sources: MariaDB's and MySQL's `errmsg` tables.

mod whose;

pub use whose::{Whose, is_before_running, whose};

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: u16 = $code;)*

        /// The server's symbol for a number listed here.
        pub fn symbol(code: u16) -> Option<&'static str> {
            match code {
                $($code => Some(concat!("ER_", stringify!($name))),)*
                _ => None,
            }
        }
    };
}

errors! {
    /// Too many connections.
    CON_COUNT_ERROR = 1040;
    /// The client's host name could not be found.
    BAD_HOST_ERROR = 1042;
    /// The handshake went wrong.
    HANDSHAKE_ERROR = 1043;
    /// No right to this database.
    DBACCESS_DENIED_ERROR = 1044;
    /// Wrong user or password.
    ACCESS_DENIED_ERROR = 1045;
    /// No database selected.
    NO_DB_ERROR = 1046;
    /// Unknown command; from Galera: "WSREP has not yet prepared node for application use".
    UNKNOWN_COM_ERROR = 1047;
    /// Unknown database.
    BAD_DB_ERROR = 1049;
    /// The server is shutting down.
    SERVER_SHUTDOWN = 1053;
    /// No such column.
    BAD_FIELD_ERROR = 1054;
    /// A syntax error.
    PARSE_ERROR = 1064;
    /// The server has said farewell ("Normal shutdown").
    NORMAL_SHUTDOWN = 1077;
    /// "Got signal ... Aborting!"
    GOT_SIGNAL = 1078;
    /// "Shutdown complete".
    SHUTDOWN_COMPLETE = 1079;
    /// "Forcing close of thread".
    FORCING_CLOSE = 1080;
    /// No such thread.
    NO_SUCH_THREAD = 1094;
    /// The session is of another account, which this one may not end.
    KILL_DENIED_ERROR = 1095;
    /// The server does not know what is wrong.
    UNKNOWN_ERROR = 1105;
    /// The client's host was blocked after many connection errors.
    HOST_IS_BLOCKED = 1129;
    /// The client's host may not connect.
    HOST_NOT_PRIVILEGED = 1130;
    /// "Aborted connection".
    ABORTING_CONNECTION = 1152;
    /// A packet longer than max_allowed_packet.
    NET_PACKET_TOO_LARGE = 1153;
    /// Packets came out of order.
    NET_PACKETS_OUT_OF_ORDER = 1156;
    /// The server could not read from us.
    NET_READ_ERROR = 1158;
    /// The server timed out reading from us.
    NET_READ_INTERRUPTED = 1159;
    /// The server could not write to us.
    NET_ERROR_ON_WRITE = 1160;
    /// The server timed out writing to us.
    NET_WRITE_INTERRUPTED = 1161;
    /// "Aborted connection", before the login ended.
    NEW_ABORTING_CONNECTION = 1184;
    /// Locks or a transaction stand in the way.
    LOCK_OR_ACTIVE_TRANSACTION = 1192;
    /// Too many connections of this user.
    TOO_MANY_USER_CONNECTIONS = 1203;
    /// A lock was waited for too long.
    LOCK_WAIT_TIMEOUT = 1205;
    /// Deadlock; from Galera: the transaction lost certification. Rolled back: try again.
    LOCK_DEADLOCK = 1213;
    /// The user's hourly limit is reached.
    USER_LIMIT_REACHED = 1226;
    /// A right is missing.
    SPECIFIC_ACCESS_DENIED_ERROR = 1227;
    /// No such prepared statement.
    UNKNOWN_STMT_HANDLER = 1243;
    /// The client speaks no protocol the account accepts.
    NOT_SUPPORTED_AUTH_MODE = 1251;
    /// The server runs with an option that forbids this; see [`is_read_only`].
    OPTION_PREVENTS_STATEMENT = 1290;
    /// Not supported as a prepared statement.
    UNSUPPORTED_PS = 1295;
    /// The statement was killed.
    QUERY_INTERRUPTED = 1317;
    /// More prepared statements than the server allows.
    MAX_PREPARED_STMT_COUNT_REACHED = 1461;
    /// Wrong user or password, of a plugin that takes none.
    ACCESS_DENIED_NO_PASSWORD_ERROR = 1698;
    /// A prepared statement must be prepared anew.
    NEED_REPREPARE = 1615;
    /// The account's plugin could not be loaded.
    PLUGIN_IS_NOT_LOADED = 1524;
    /// A write in a read-only transaction.
    CANT_EXECUTE_IN_READ_ONLY_TRANSACTION = 1792;
    /// The password has expired.
    MUST_CHANGE_PASSWORD = 1820;
    /// A packet the server could not read.
    MALFORMED_PACKET = 1835;
    /// The server is in read-only mode.
    READ_ONLY_MODE = 1836;
    /// MariaDB: the connection was killed.
    CONNECTION_KILLED = 1927;
    /// MariaDB: max_statement_time was exceeded.
    STATEMENT_TIMEOUT = 1969;
    /// MySQL: max_execution_time was exceeded.
    QUERY_TIMEOUT = 3024;
    /// MySQL: the server is offline for users.
    SERVER_OFFLINE_MODE = 3032;
    /// MySQL: a plugin (group replication) refused the transaction before it committed.
    RUN_HOOK_ERROR = 3100;
    /// MySQL group replication: the transaction was rolled back by certification.
    TRANSACTION_ROLLBACK_DURING_COMMIT = 3101;
    /// MySQL: only encrypted connections.
    SECURE_TRANSPORT_REQUIRED = 3159;
    /// MySQL: the session was killed.
    SESSION_WAS_KILLED = 3169;
    /// MySQL 8.0.24: the client was idle for too long.
    CLIENT_INTERACTION_TIMEOUT = 4031;
}

/// A client library's own number for "no TLS with this server" (`CR_SSL_CONNECTION_ERROR`); no server sends it.
pub const SSL_CONNECTION_ERROR: u16 = 2026;

/// Whether the error means "this node accepts no writes". 1290 is also what other options than `--read-only` answer with
/// (`--secure-file-priv`, `--skip-grant-tables`), so its message is looked at.
pub fn is_read_only(code: u16, message: &[u8]) -> bool {
    match code {
        READ_ONLY_MODE => true,
        OPTION_PREVENTS_STATEMENT => {
            const MARKS: [&[u8]; 2] = [b"read-only", b"read_only"]; // --read-only, --super-read-only
            MARKS
                .iter()
                .any(|mark| message.windows(mark.len()).any(|window| window.eq_ignore_ascii_case(mark)))
        }
        _ => false,
    }
}

/// Whether the error is Galera's "WSREP has not yet prepared node for application use". A command byte that no server knows gives
/// the same code in other words: that is the client's doing, and must not be held against the node.
pub fn is_galera_refusal(code: u16, message: &[u8]) -> bool {
    code == UNKNOWN_COM_ERROR && message.windows(5).any(|window| window == b"WSREP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_is_told_from_other_options() {
        let said = |text: &str| {
            let message = format!(
                "The MariaDB server is running with the {text} option so it cannot execute this statement"
            );
            is_read_only(OPTION_PREVENTS_STATEMENT, message.as_bytes())
        };
        assert!(said("--read-only"));
        assert!(said("--super-read-only"));
        assert!(!said("--secure-file-priv"));
        assert!(is_read_only(READ_ONLY_MODE, b""));
        assert!(!is_read_only(PARSE_ERROR, b"near 'read-only'"));
    }

    #[test]
    fn galeras_refusal_is_told_from_an_unknown_command() {
        let refusal = b"WSREP has not yet prepared node for application use";
        assert!(is_galera_refusal(UNKNOWN_COM_ERROR, refusal));
        assert!(!is_galera_refusal(UNKNOWN_COM_ERROR, b"Unknown command"));
        assert!(!is_galera_refusal(PARSE_ERROR, refusal));
    }

    #[test]
    fn symbols() {
        assert_eq!(symbol(1213), Some("ER_LOCK_DEADLOCK"));
        assert_eq!(symbol(9), None);
    }
}

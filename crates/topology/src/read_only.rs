//! Whether a server is read only, asked in words that each version answers alike.

/// SQL: 1 when the server is read only, else 0. Up to MariaDB 11 and on MySQL the variable is 0 or 1; since MariaDB 12.0 it is a word, of which OFF
/// is one and there are several others (MDEV-36425).
#[macro_export]
macro_rules! is_read_only {
    () => {
        "CONCAT(@@GLOBAL.read_only) NOT IN ('0', 'OFF')"
    };
}

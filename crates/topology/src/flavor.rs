//! The statements that differ between MariaDB and MySQL's family. Those that only one kind of cluster needs are with that kind
//! ([`crate::galera::sql`]).
//!
//! Pure text: the shell sends it.

use protocol::gtid::Family;

/// Which family a server belongs to, by the version string in its greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// MariaDB 10.4 and later.
    MariaDb,
    /// MySQL and Percona Server / XtraDB Cluster.
    MySql,
}

impl Flavor {
    /// MariaDB says so in its version (`5.5.5-10.11.19-MariaDB-...`); everything else is MySQL's family.
    pub fn of(version: &str) -> Self {
        if version.to_ascii_lowercase().contains("mariadb") { Self::MariaDb } else { Self::MySql }
    }

    /// One row for each source that the server replicates from, to be read with [`crate::replication::channel()`]; tried in this order, since
    /// MySQL 8.4 does not know the old form and MySQL before 8.0.22 not the new one. Needs SLAVE MONITOR (MariaDB 10.5) or REPLICATION
    /// CLIENT.
    pub fn replication(self) -> &'static [&'static str] {
        match self {
            Self::MariaDb => &["SHOW ALL SLAVES STATUS"],
            Self::MySql => &["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"],
        }
    }

    /// The account table; tried in this order, since MySQL 5.7 has no attributes. MariaDB: user, host and a JSON document; MySQL: user, host, plugin,
    /// hash, locked, a JSON document or NULL, and what it demands of a connection.
    pub fn accounts(self) -> &'static [&'static str] {
        match self {
            Self::MariaDb => &["SELECT User, Host, Priv FROM mysql.global_priv"],
            Self::MySql => &[
                "SELECT user, host, plugin, authentication_string, account_locked, User_attributes, ssl_type FROM mysql.user",
                "SELECT user, host, plugin, authentication_string, account_locked, NULL, ssl_type FROM mysql.user",
            ],
        }
    }
}

/// Which form of the replication statements a server takes. MySQL renamed them in two steps.
///
/// Sources: MySQL's release notes for 8.0.4, 8.0.22, 8.0.23 and 8.4.0 (which removed the old forms). [`crate::replication::sql`] names the
/// page of the manual for each statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// MariaDB.
    #[default]
    MariaDb,
    /// MySQL 5.7, and 8.0 before 8.0.4: `CHANGE MASTER TO`, without the option that a login by caching_sha2_password needs.
    MySql57,
    /// MySQL 8.0.4 to 8.0.22: `CHANGE MASTER TO`.
    MySql80,
    /// MySQL 8.0.23 and later: `CHANGE REPLICATION SOURCE TO`.
    MySql,
}

impl Dialect {
    /// From the version in a greeting, or from the variable `version`.
    pub fn of(version: &str) -> Self {
        match (Flavor::of(version), number(version)) {
            (Flavor::MariaDb, _) => Self::MariaDb,
            (Flavor::MySql, Some(version)) if version < [8, 0, 4] => Self::MySql57,
            (Flavor::MySql, Some(version)) if version < [8, 0, 23] => Self::MySql80,
            (Flavor::MySql, _) => Self::MySql,
        }
    }

    /// The dialect of a server, if Understudy supports replication on it.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn admit(version: &str) -> Result<Self, String> {
        match (Self::of(version), number(version)) {
            (Self::MySql57, Some(number)) if number < [5, 7, 8] => Err(format!(
                "{version} is older than MySQL 5.7.8, the first with super_read_only: cluster.kind = \"replication\" needs that, or MariaDB"
            )),
            (dialect, _) => Ok(dialect),
        }
    }

    /// The family of its GTIDs.
    pub fn family(self) -> Family {
        match self {
            Self::MariaDb => Family::MariaDb,
            Self::MySql57 | Self::MySql80 | Self::MySql => Family::MySql,
        }
    }
}

/// The three numbers of a version such as `8.0.36-28.1`.
fn number(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split(|character: char| !character.is_ascii_digit());
    let mut part = || parts.next()?.parse().ok();
    Some([part()?, part()?, part()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_the_family() {
        assert_eq!(Flavor::of("5.5.5-10.11.19-MariaDB-0+deb12u1"), Flavor::MariaDb);
        assert_eq!(Flavor::of("8.0.36-28.1"), Flavor::MySql);
    }

    #[test]
    fn the_version_tells_the_words() {
        for (version, dialect) in [
            ("5.5.5-10.11.19-MariaDB-0+deb12u1", Dialect::MariaDb),
            ("12.0.2-MariaDB", Dialect::MariaDb),
            ("5.7.44-log", Dialect::MySql57),
            ("8.0.3-rc", Dialect::MySql57),
            ("8.0.22", Dialect::MySql80),
            ("8.0.23", Dialect::MySql),
            ("8.0.36-28.1", Dialect::MySql),
            ("8.4.3", Dialect::MySql),
            ("9.1.0-commercial", Dialect::MySql),
            ("what", Dialect::MySql),
        ] {
            assert_eq!(Dialect::of(version), dialect, "{version}");
            assert_eq!(Dialect::admit(version), Ok(dialect), "{version}");
        }
        let refused = Dialect::admit("5.6.51").unwrap_err();
        assert!(refused.starts_with("5.6.51 is older than MySQL 5.7.8"), "{refused}");
    }
}

//! Every statement that differs between MariaDB and MySQL's family, in one place; what a kind of cluster needs beside them stands
//! with that kind ([`crate::galera::sql`]).
//!
//! Pure text: the shell sends it.

/// Which family a server belongs to, told from the version string of its greeting.
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

    /// The account table. MariaDB: user, host and a JSON document; MySQL: user, host, plugin, hash, locked.
    pub fn accounts(self) -> &'static str {
        match self {
            Self::MariaDb => "SELECT User, Host, Priv FROM mysql.global_priv",
            Self::MySql => "SELECT user, host, plugin, authentication_string, account_locked FROM mysql.user",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_the_family() {
        assert_eq!(Flavor::of("5.5.5-10.11.19-MariaDB-0+deb12u1"), Flavor::MariaDb);
        assert_eq!(Flavor::of("8.0.36-28.1"), Flavor::MySql);
    }
}

//! The server that is warmed: how to log in there, and the third guard, an account that cannot write.

use std::time::Duration;

use link::{Endpoint, Link, LinkError, Login};

/// Where statements are replayed.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server.
    pub place: Endpoint,
    /// The account; with the schema that sessions begin in.
    pub login: Login,
    /// Run by each session after [`READ_ONLY`], in this order.
    pub session_init: Vec<String>,
}

/// Connecting and preparing a session may take so long.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The second guard. The server itself then refuses to write (1792), also in functions that a SELECT calls.
pub const READ_ONLY: &str = "SET SESSION TRANSACTION READ ONLY";

/// Statements are judged as texts under the usual `sql_mode`, or run under what they were judged by (one that gives backslashes and quotes another meaning makes other statements of them), and
/// each is a transaction of its own, whatever the server has set for all sessions: one that stayed open would keep its locks.
const AS_JUDGED: &str = "SET SESSION sql_mode = '', autocommit = 1";

/// Modes under which a read means something else. Those that give backslashes and quotes another meaning are run for the statements that need them.
const MEANING: [&str; 6] = [
    "ANSI_QUOTES",
    "EMPTY_STRING_IS_NULL",
    "HIGH_NOT_PRECEDENCE",
    "IGNORE_SPACE",
    "NO_BACKSLASH_ESCAPES",
    "PIPES_AS_CONCAT",
];

/// What an account may have and still not write. Those that only see something are not dangerous; whatever is not here is taken to be.
const HARMLESS: &[&str] = &[
    "USAGE",
    "SELECT",
    "SHOW VIEW",
    "SHOW DATABASES",
    "PROCESS",
    "REPLICATION CLIENT",
    "BINLOG MONITOR",
    "SLAVE MONITOR",
    "REPLICA MONITOR",
    "REPLICATION SLAVE",
];

/// What mariadb-install-db gives to every account: schemas for trying things out. It is taken to be harmless, since whatever is in them is
/// anybody's to change, and the statements and sessions of a replay only read.
const FOR_EVERYBODY: [&str; 2] = [" ON `test`.* TO PUBLIC", r" ON `test\_%`.* TO PUBLIC"];

/// Why nothing is replayed there.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It cannot be asked.
    #[error("{address}: {source}")]
    Link {
        /// Which server.
        address: String,
        /// Why.
        source: LinkError,
    },
    /// The account may write.
    #[error(
        "the account {user} on {address} may do more than read: {rights}. Take that away (REVOKE ... ON ... FROM ...), replay with an \
         account that has SELECT and nothing else (CREATE USER warm ...; GRANT SELECT ON shop.* TO warm), or allow this one (--writable-account): statements are filtered, and sessions \
         are read only, all the same"
    )]
    Writable {
        /// Which server.
        address: String,
        /// Which account.
        user: String,
        /// What it may, with the object and who has the right.
        rights: String,
    },
}

impl Target {
    /// A new session, with everything in it that keeps it from writing.
    pub async fn connect(&self) -> Result<Link, LinkError> {
        let mut link = Link::connect_to(&self.place, &self.login, CONNECT_MAX).await?;
        link.query(READ_ONLY, CONNECT_MAX).await?;
        link.query(AS_JUDGED, CONNECT_MAX).await?;
        // What is replayed there must not be taken for traffic of its own. MySQL has no such variable for a session: there it is the server's.
        match link.query("SET SESSION slow_query_log = 0", CONNECT_MAX).await {
            Ok(_) | Err(LinkError::Rejected { .. }) => {}
            Err(error) => return Err(error),
        }
        for statement in &self.session_init {
            link.query(statement, CONNECT_MAX).await?;
        }
        Ok(link)
    }

    /// The same; the server itself ends a statement that takes longer than `statement_max`, as it does not notice that nobody waits for it any more.
    pub async fn connect_for(&self, statement_max: Duration) -> Result<Link, LinkError> {
        let mut link = self.connect().await?;
        // MariaDB's, in seconds; MySQL's, in milliseconds.
        for limit in [
            format!("SET SESSION max_statement_time = {}", statement_max.as_secs_f64()),
            format!("SET SESSION max_execution_time = {}", statement_max.as_millis()),
        ] {
            match link.query(&limit, CONNECT_MAX).await {
                Ok(_) => break,
                // It has no such variable.
                Err(LinkError::Rejected { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(link)
    }

    /// The `sql_mode` that the server gives all sessions, as far as a read means something else under it.
    pub async fn sql_mode(&self) -> Result<String, LinkError> {
        let mut link = self.connect().await?;
        let rows = link.query("SELECT @@global.sql_mode", CONNECT_MAX).await?;
        link.quit();
        let all = rows.text(0, 0).unwrap_or_default();
        let kept: Vec<&str> = all.split(',').filter(|mode| MEANING.contains(mode)).collect();
        Ok(kept.join(","))
    }

    /// Whether the server is there, and the account cannot write.
    pub async fn check(&self, may_be_writable: bool) -> Result<(), Refused> {
        let refused = |source| Refused::Link { address: self.address(), source };
        let mut link = self.connect().await.map_err(refused)?;
        let grants = link.query("SHOW GRANTS", CONNECT_MAX).await.map_err(refused)?;
        link.quit();
        let rights: Vec<String> =
            (0..grants.len()).filter_map(|row| grants.text(row, 0)).filter_map(dangerous).collect();
        if rights.is_empty() || may_be_writable {
            return Ok(());
        }
        Err(Refused::Writable {
            address: self.address(),
            user: self.login.user.clone(),
            rights: rights.join("; "),
        })
    }

    /// Where, in words.
    pub fn address(&self) -> String {
        self.place.to_string()
    }
}

/// Makes this schema a session's default.
pub(crate) fn use_schema(schema: &[u8]) -> Vec<u8> {
    let mut text = b"USE `".to_vec();
    for byte in schema {
        // A backquote within a name is doubled.
        text.extend_from_slice(if *byte == b'`' { b"``" } else { std::slice::from_ref(byte) });
    }
    text.push(b'`');
    text
}

/// What a line of SHOW GRANTS allows beyond reading, on what, and to whom: `INSERT ON `shop`.* TO PUBLIC`.
fn dangerous(grant: &str) -> Option<String> {
    let Some(rest) = grant.strip_prefix("GRANT ") else {
        // "SET DEFAULT ROLE ..." says which of the roles it is; each has a line of its own.
        return (!grant.starts_with("SET DEFAULT ROLE ")).then(|| grant.to_owned());
    };
    // Without " ON " it is a role: the lines that follow are what it gives, where it is the account's default.
    let (rights, object) = rest.split_once(" ON ")?;
    if FOR_EVERYBODY.iter().any(|usual| grant.ends_with(usual)) {
        return None;
    }
    let mut dangerous: Vec<&str> = split_rights(rights)
        .filter(|right| !HARMLESS.contains(&right.split(" (").next().unwrap_or(right)))
        .collect();
    if rest.ends_with(" WITH GRANT OPTION") {
        dangerous.push("GRANT OPTION");
    }
    // What may follow the account's name has its password's hash.
    let ends = [" IDENTIFIED ", " REQUIRE ", " WITH "].iter().filter_map(|word| object.find(word));
    let object = &object[..ends.min().unwrap_or(object.len())];
    (!dangerous.is_empty()).then(|| format!("{} ON {object}", dangerous.join(", ")))
}

/// `SELECT, INSERT (a, b), UPDATE`: commas within parentheses part columns.
fn split_rights(rights: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    rights
        .split(move |letter| {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        })
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::dangerous;

    #[test]
    fn an_account_that_only_reads_has_nothing_dangerous() {
        for grant in [
            "GRANT USAGE ON *.* TO `warm`@`%` IDENTIFIED BY PASSWORD '*0'",
            "GRANT SELECT, SHOW VIEW ON `shop`.* TO `warm`@`%`",
            "GRANT SELECT (a, b), PROCESS, BINLOG MONITOR ON *.* TO `warm`@`%`",
            "GRANT `reader` TO `warm`@`%`",
            "SET DEFAULT ROLE `reader` FOR `warm`@`%`",
            "GRANT SELECT, INSERT, CREATE, DELETE HISTORY ON `test`.* TO PUBLIC",
            r"GRANT SELECT, INSERT, CREATE, DELETE HISTORY ON `test\_%`.* TO PUBLIC",
        ] {
            assert_eq!(dangerous(grant), None, "{grant}");
        }
    }

    #[test]
    fn whatever_may_write_is_named() {
        for (grant, right) in [
            (
                "GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION",
                "ALL PRIVILEGES, GRANT OPTION ON *.* TO `root`@`localhost`",
            ),
            (
                "GRANT FILE ON *.* TO `app`@`%` IDENTIFIED BY PASSWORD '*0' REQUIRE SSL WITH GRANT OPTION",
                "FILE, GRANT OPTION ON *.* TO `app`@`%`",
            ),
            ("GRANT SELECT, INSERT ON `shop`.* TO `app`@`%`", "INSERT ON `shop`.* TO `app`@`%`"),
            (
                "GRANT SELECT (a, b), UPDATE (a, b) ON `shop`.`t` TO `app`@`%`",
                "UPDATE (a, b) ON `shop`.`t` TO `app`@`%`",
            ),
            (
                "GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `app`@`%`",
                "EXECUTE ON PROCEDURE `shop`.`p` TO `app`@`%`",
            ),
            ("GRANT READ_ONLY ADMIN ON *.* TO `app`@`%`", "READ_ONLY ADMIN ON *.* TO `app`@`%`"),
            ("GRANT INSERT ON `shop`.* TO PUBLIC", "INSERT ON `shop`.* TO PUBLIC"),
            (
                "GRANT INSERT ON `test`.* TO PUBLIC WITH GRANT OPTION",
                "INSERT, GRANT OPTION ON `test`.* TO PUBLIC",
            ),
            ("GRANT INSERT ON `test`.* TO `warm`@`%`", "INSERT ON `test`.* TO `warm`@`%`"),
            ("something new", "something new"),
        ] {
            assert_eq!(dangerous(grant).as_deref(), Some(right), "{grant}");
        }
    }
}

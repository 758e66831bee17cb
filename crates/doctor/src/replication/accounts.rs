//! Checks the accounts: which may write in spite of read_only, and which privileges the monitor lacks for errant transactions.

use std::time::Duration;

use link::{Link, LinkError};

/// An account that may write in spite of read_only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bypass {
    /// Its name.
    pub user: String,
    /// Its host.
    pub host: String,
    /// The privilege that allows it.
    pub right: &'static str,
}

/// Bits of `access` in mysql.global_priv, as a 10.11 server sets them.
const READ_ONLY_ADMIN: u64 = 1 << 33;
const SUPER: u64 = 1 << 15;
/// From this version on SUPER alone does not allow writes in spite of read_only.
const SUPER_IS_NOT_ENOUGH: (u32, u32) = (10, 11);
/// The server's own accounts, which are not reported. Only the user name is compared, not the host.
const OWN: [&str; 3] = ["root", "mysql", "mariadb.sys"];

/// All such accounts; `None` when the table may not be read.
pub async fn bypass(link: &mut Link, deadline: Duration) -> Result<Option<Vec<Bypass>>, LinkError> {
    let query = "SELECT User, Host, JSON_VALUE(Priv, '$.access') FROM mysql.global_priv";
    let Some(rows) = link.query_unless_rejected(query, deadline).await? else { return Ok(None) };
    let version = link.greeting.version.trim_start_matches("5.5.5-").to_owned();
    let text = |row, column| rows.text(row, column).unwrap_or_default();
    let each = (0..rows.len()).filter_map(|row| {
        let right = writes(&version, text(row, 2).parse().unwrap_or(0))?;
        Some(Bypass { user: text(row, 0).to_owned(), host: text(row, 1).to_owned(), right })
    });
    Ok(Some(each.filter(|account| !OWN.contains(&account.user.as_str())).collect()))
}

/// The privilege that allows an account with these `access` bits to write in spite of read_only.
fn writes(version: &str, access: u64) -> Option<&'static str> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if access & READ_ONLY_ADMIN != 0 {
        Some("READ_ONLY ADMIN")
    } else {
        (access & SUPER != 0 && version < SUPER_IS_NOT_ENOUGH).then_some("SUPER")
    }
}

/// The privileges that `understudy errant` needs in addition, and that the monitor lacks.
pub async fn lacks_for_errant(link: &mut Link, deadline: Duration) -> Result<Vec<&'static str>, LinkError> {
    let held = manager::rights::held(link, deadline).await?;
    Ok(["BINLOG MONITOR", "BINLOG ADMIN", "BINLOG REPLAY"]
        .into_iter()
        .filter(|right| !held.may(right))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_in_spite_of_read_only_depends_on_the_version() {
        for (version, access, right) in [
            ("10.11.19-MariaDB", SUPER, None),
            ("10.11.19-MariaDB", READ_ONLY_ADMIN, Some("READ_ONLY ADMIN")),
            ("10.11.19-MariaDB", u64::MAX, Some("READ_ONLY ADMIN")),
            ("10.6.12-MariaDB", SUPER, Some("SUPER")),
            ("11.4.2-MariaDB", SUPER, None),
            ("10.11.19-MariaDB", 524_288, None),
        ] {
            assert_eq!(writes(version, access), right, "{version} {access}");
        }
    }
}

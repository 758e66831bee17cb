//! Whether a server lets in the account that replicas log in with: tried as they will, by the address that they will be told. It only reads.
//!
//! It is tried from this program's host. Whether a replica's own host resolves that address, and is let in from there, no statement tells.

use std::time::Duration;

use link::{Link, LinkError, Login};
use topology::flavor::Flavor;
use topology::preflight::answer::{Admission, ReplicaLogin};

/// Logs in with the account. Whether it may replicate; `None` when its grants cannot be read.
///
/// # Errors
/// The account is refused, or the server does not answer.
pub async fn admits(address: &str, account: &Login, within: Duration) -> Result<Option<bool>, LinkError> {
    let mut link = Link::connect(address, account, within).await?;
    let Ok(grants) = link.query("SHOW GRANTS", within).await else { return Ok(None) };
    link.quit();
    let grants = (0..grants.len()).filter_map(|row| grants.text(row, 0));
    Ok(Some(grants.into_iter().any(may_replicate)))
}

fn may_replicate(grant: &str) -> bool {
    let grant = grant.to_ascii_uppercase();
    let rights = grant.split(" ON ").next().unwrap_or_default().trim_start_matches("GRANT ");
    rights.split(", ").any(|right| right == "REPLICATION SLAVE") || grant.contains("ALL PRIVILEGES ON *.*")
}

/// The same, for the checks before a switchover. `monitor`: how to ask whether the account is for other hosts than this one.
pub(crate) async fn tried(address: &str, account: &Login, monitor: &Login, within: Duration) -> ReplicaLogin {
    let user = account.user.clone();
    let admission = match admits(address, account, within).await {
        Ok(Some(false)) => Admission::MayNotReplicate,
        Ok(_) => Admission::Admitted,
        Err(error)
            if is_refusal(&error)
                && !is_for_other_hosts(address, &user, monitor, within).await.unwrap_or(false) =>
        {
            Admission::Refused(error.to_string())
        }
        Err(error) => Admission::NotKnown(error.to_string()),
    };
    ReplicaLogin { user, admission }
}

/// The account is refused, not only at this moment: access denied (1045, 1698), the host (1130), a locked account (4151, 3118), an expired
/// password (1820, 1862).
fn is_refusal(error: &LinkError) -> bool {
    matches!(error, LinkError::Rejected { errno: 1045 | 1698 | 1130 | 4151 | 3118 | 1820 | 1862, .. })
}

/// Whether there are accounts of that name, and none of them is for this host: a refusal says nothing of other hosts then.
async fn is_for_other_hosts(
    address: &str,
    user: &str,
    monitor: &Login,
    within: Duration,
) -> Result<bool, LinkError> {
    let mut link = Link::connect(address, monitor, within).await?;
    let accounts = match Flavor::of(&link.greeting.version) {
        Flavor::MariaDb => "mysql.global_priv",
        Flavor::MySql => "mysql.user",
    };
    // A string in hexadecimal needs no quotes, whatever the sql_mode.
    let user = hex::encode(user);
    let question = format!(
        "SELECT COUNT(*), COALESCE(SUM(SUBSTRING_INDEX(USER(), '@', -1) LIKE Host), 0) FROM {accounts} WHERE User = x'{user}'"
    );
    let rows = link.query(&question, within).await?;
    link.quit();
    let count = |column| rows.text(0, column).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    Ok(count(0) > 0 && count(1) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_replicate_is_read_from_grants() {
        for (grant, may) in [
            ("GRANT REPLICATION SLAVE ON *.* TO `replication`@`%`", true),
            ("GRANT SELECT, REPLICATION SLAVE ON *.* TO `r`@`%`", true),
            ("GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION", true),
            ("GRANT REPLICATION SLAVE ADMIN ON *.* TO `r`@`%`", false),
            ("GRANT USAGE ON *.* TO `r`@`%`", false),
        ] {
            assert_eq!(may_replicate(grant), may, "{grant}");
        }
    }
}

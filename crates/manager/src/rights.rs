//! What the monitor account of a primary and its replicas may do, by its own SHOW GRANTS, and what it lacks: told before the first order fails
//! for want of it.

use std::time::Duration;

use link::{Link, LinkError, Login};

/// What is asked; the account sees its own without any privilege.
const GRANTS: &str = "SHOW GRANTS";

/// The rights that it needs anywhere, as SHOW GRANTS spells them, and what each is for.
const NEEDED: &[(&str, &str)] = &[
    ("REPLICATION SLAVE ADMIN", "letting a replica follow another primary"),
    ("REPLICATION MASTER ADMIN", "having a new primary wait for its replicas (semi-sync)"),
    ("READ_ONLY ADMIN", "making a server read only, or writable"),
    ("RELOAD", "letting a new primary forget its source"),
    ("PROCESS", "finding commits that keep a server from becoming read only"),
    ("CONNECTION ADMIN", "ending them, and logging in where clients have used up max_connections"),
    ("TRIGGER", "knowing which tables have no transactions"),
    ("EXECUTE", "knowing which stored functions may write"),
];

/// Of these an account needs fewer that gives no orders: another manager moves the primary.
const NEEDED_TO_LOOK: &[&str] = &["CONNECTION ADMIN", "TRIGGER", "EXECUTE"];

/// The rights that it lacks anywhere, each with what it is needed for. `gives_orders`: it moves the primary.
///
/// # Errors
/// When the server does not answer.
pub async fn lacking(
    link: &mut Link,
    gives_orders: bool,
    within: Duration,
) -> Result<Vec<String>, LinkError> {
    let grants = link.query(GRANTS, within).await?;
    let texts: Vec<&str> = (0..grants.len()).filter_map(|row| grants.text(row, 0)).collect();
    Ok(lacks(&texts, gives_orders))
}

fn lacks(grants: &[&str], gives_orders: bool) -> Vec<String> {
    let global: Vec<String> = grants
        .iter()
        .filter(|grant| grant.contains(" ON *.* "))
        .map(|grant| grant.to_ascii_uppercase())
        .collect();
    let may = |right: &str| global.iter().any(|grant| grant.contains(right));
    if may("ALL PRIVILEGES") {
        return Vec::new();
    }
    let is_needed = |right: &str| gives_orders || NEEDED_TO_LOOK.contains(&right);
    let lacked = NEEDED.iter().filter(|(right, _)| is_needed(right) && !may(right));
    lacked.map(|(right, why)| format!("{right} ON *.*: it is needed for {why}")).collect()
}

/// The same, on a link of its own; `None` when it cannot be told.
pub(crate) async fn ask(
    address: &str,
    login: &Login,
    gives_orders: bool,
    within: Duration,
) -> Option<Vec<String>> {
    let mut link = Link::connect(address, login, within).await.ok()?;
    let lacking = lacking(&mut link, gives_orders, within).await.ok()?;
    link.quit();
    Some(lacking)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_anywhere_counts() {
        let all: Vec<&str> = NEEDED.iter().map(|(right, _)| *right).collect();
        let grant = |rights: &str, place: &str| format!("GRANT {rights} ON {place} TO `understudy`@`%`");
        assert_eq!(lacks(&[&grant(&all.join(", "), "*.*")], true), Vec::<String>::new());
        assert_eq!(lacks(&[&grant("ALL PRIVILEGES", "*.*")], true), Vec::<String>::new());
        assert_eq!(lacks(&[&grant("ALL PRIVILEGES", "`shop`.*")], true).len(), NEEDED.len());
        let lacked = lacks(&[&grant(&all[1..].join(", "), "*.*")], true);
        assert_eq!(
            lacked,
            ["REPLICATION SLAVE ADMIN ON *.*: it is needed for letting a replica follow another primary"]
        );
        assert_eq!(lacks(&[], false).len(), NEEDED_TO_LOOK.len(), "who only looks needs less");
    }
}

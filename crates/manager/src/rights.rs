//! The privileges of the monitor account on a primary and its replicas, by its own SHOW GRANTS, and those that it lacks: reported before an
//! order fails because of them. Only for MariaDB: MySQL's privileges have other names and are not checked.

use std::time::Duration;

use link::{Link, LinkError, Login};
use topology::flavor::Flavor;
use topology::preflight::answer::Rights;
use topology::rules::privileges::{self, Needed, Privilege};

/// The question; an account sees its own grants without any privilege.
const GRANTS: &str = "SHOW GRANTS";

/// Whether it runs.
const EVENT_SCHEDULER: &str = "SELECT @@GLOBAL.event_scheduler";

/// The global privileges that it lacks, each with what it is needed for; none on MySQL. `gives_orders`: it moves the primary.
///
/// # Errors
/// When the server does not answer.
pub async fn lacking(
    link: &mut Link,
    gives_orders: bool,
    within: Duration,
) -> Result<Vec<String>, LinkError> {
    Ok(lacks(&held(link, within).await?, gives_orders))
}

/// The global privileges of an account.
pub struct Held {
    /// `None` on MySQL, where they are not known.
    grants: Option<Vec<String>>,
    /// The account, as SHOW GRANTS spells it; empty when it does not.
    account: String,
    /// The server's event scheduler runs.
    event_scheduler: bool,
}

impl Held {
    fn read<'a>(grants: impl IntoIterator<Item = &'a str>) -> Self {
        let global: Vec<&str> = grants.into_iter().filter(|grant| grant.contains(" ON *.* ")).collect();
        let account = global.iter().find_map(|grant| account(grant)).unwrap_or_default().to_owned();
        let grants = Some(global.into_iter().map(str::to_ascii_uppercase).collect());
        Self { grants, account, event_scheduler: false }
    }

    /// The privileges that a primary's monitor account needs and lacks; `None` when that is not known.
    pub(crate) fn lacks(&self) -> Option<Rights> {
        self.grants.as_ref()?;
        let lacks = self.missing().map(|privilege| (privilege.name, privilege.why)).collect();
        Some(Rights { account: self.account.clone(), lacks })
    }

    fn missing(&self) -> impl Iterator<Item = &'static Privilege> {
        let is_needed =
            |privilege: &&Privilege| self.event_scheduler || privilege.needed != Needed::ForEvents;
        privileges::ALL.iter().filter(is_needed).filter(|privilege| !self.may(privilege.name))
    }

    /// Whether it has, or may have, this privilege, as MariaDB's SHOW GRANTS spells it.
    pub fn may(&self, right: &str) -> bool {
        let has = |grant: &String| grant.contains(right) || grant.contains("ALL PRIVILEGES");
        self.grants.as_ref().is_none_or(|grants| grants.iter().any(has))
    }
}

/// "GRANT ... ON *.* TO `understudy`@`%` IDENTIFIED BY ...": whom it is granted to; a role's has no host.
fn account(grant: &str) -> Option<&str> {
    let (_, rest) = grant.split_once(" TO ")?;
    let host = rest.find("`@`")? + 3;
    let end = host + rest.get(host..)?.find('`')? + 1;
    rest.get(..end)
}

/// Asks for the account's privileges.
///
/// # Errors
/// When the server does not answer.
pub async fn held(link: &mut Link, within: Duration) -> Result<Held, LinkError> {
    if Flavor::of(&link.greeting.version) == Flavor::MySql {
        return Ok(Held { grants: None, account: String::new(), event_scheduler: false });
    }
    let grants = link.query(GRANTS, within).await?;
    let held = Held::read((0..grants.len()).filter_map(|row| grants.text(row, 0)));
    let event_scheduler = link.query(EVENT_SCHEDULER, within).await?.text(0, 0) == Some("ON");
    Ok(Held { event_scheduler, ..held })
}

fn lacks(held: &Held, gives_orders: bool) -> Vec<String> {
    let lacked = held.missing().filter(|privilege| gives_orders || privilege.needed == Needed::ToLook);
    lacked.map(|Privilege { name, why, .. }| format!("{name} ON *.*: it is needed for {why}")).collect()
}

/// Those of `lacking` that are needed only where the event scheduler runs.
pub(crate) fn for_events(lacking: &[String]) -> Vec<&'static str> {
    let rows = privileges::ALL.iter().filter(|privilege| privilege.needed == Needed::ForEvents);
    let names = rows.map(|privilege| privilege.name);
    names.filter(|name| lacking.iter().any(|lacks| lacks.starts_with(name))).collect()
}

/// The same, on a link of its own; `None` when they cannot be known.
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

    fn without_events() -> impl Iterator<Item = &'static Privilege> {
        privileges::ALL.iter().filter(|privilege| privilege.needed != Needed::ForEvents)
    }

    #[test]
    fn what_is_granted_anywhere_counts() {
        let lacks = |grants: &[&str], gives_orders| lacks(&Held::read(grants.iter().copied()), gives_orders);
        let all: Vec<&str> = without_events().map(|privilege| privilege.name).collect();
        let grant = |rights: &str, place: &str| format!("GRANT {rights} ON {place} TO `understudy`@`%`");
        assert_eq!(lacks(&[&grant(&all.join(", "), "*.*")], true), Vec::<String>::new());
        assert_eq!(lacks(&[&grant("ALL PRIVILEGES", "*.*")], true), Vec::<String>::new());
        assert_eq!(lacks(&[&grant("ALL PRIVILEGES", "`shop`.*")], true).len(), without_events().count());
        let lacked = lacks(&[&grant(&all[1..].join(", "), "*.*")], true);
        assert_eq!(
            lacked,
            ["REPLICATION SLAVE ADMIN ON *.*: it is needed for letting a replica follow another primary"]
        );
        let to_look = without_events().filter(|privilege| privilege.needed == Needed::ToLook);
        assert_eq!(lacks(&[], false).len(), to_look.count(), "who only looks needs less");
        let with_events = |right| {
            let held = Held::read([&*grant(&all.join(", "), "*.*"), &*grant(right, "*.*")]);
            for_events(&super::lacks(&Held { event_scheduler: true, ..held }, true))
        };
        assert_eq!(with_events("EVENT, SET USER, BINLOG ADMIN"), Vec::<&str>::new());
        assert_eq!(with_events("EVENT"), ["SET USER", "BINLOG ADMIN"]);
    }

    #[test]
    fn the_account_is_named_as_a_grant_takes_it() {
        let held = Held::read(["GRANT RELOAD ON *.* TO `a b`@`10.%` IDENTIFIED BY PASSWORD '*1'"]);
        let rights = held.lacks().unwrap();
        assert_eq!(rights.account, "`a b`@`10.%`");
        assert_eq!(account("GRANT RELOAD ON *.* TO `a_role`"), None);
        assert_eq!(rights.lacks.len(), without_events().count() - 1);
    }
}

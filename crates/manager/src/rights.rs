//! The privileges of the monitor account on a primary and its replicas, by its own SHOW GRANTS, and those that it lacks: reported before an
//! order fails because of them. Only for MariaDB: MySQL's privileges have other names and are not checked.

use std::time::Duration;

use link::{Link, LinkError, Login};
use topology::flavor::Flavor;
use topology::preflight::said::Rights;

/// The question; an account sees its own grants without any privilege.
const GRANTS: &str = "SHOW GRANTS";

/// The privileges that it needs globally, as SHOW GRANTS spells them, and what each is for.
const NEEDED: &[(&str, &str)] = &[
    ("REPLICATION SLAVE ADMIN", "letting a replica follow another primary"),
    ("REPLICATION MASTER ADMIN", "having a new primary wait for its replicas (semi-sync)"),
    ("READ_ONLY ADMIN", "making a server read only, or writable"),
    ("RELOAD", "letting a new primary forget its source"),
    ("BINLOG MONITOR", "knowing for how long a replica may be away"),
    (
        "PROCESS",
        "finding sessions that keep a server from becoming read only, or an old primary from applying",
    ),
    ("CONNECTION ADMIN", "ending them, and logging in where clients have used up max_connections"),
    ("TRIGGER", "knowing which tables have no transactions"),
    ("EXECUTE", "knowing which stored functions may write"),
];

/// In addition where the event scheduler runs: with these, events run on the primary only. See [`topology::replication::events`].
const NEEDED_FOR_EVENTS: &[(&str, &str)] = &[
    ("EVENT", "stopping events on an old primary, where they may write on, and running them on the new one"),
    ("SET USER", "leaving events their definers"),
    ("BINLOG ADMIN", "stopping events without a transaction"),
];
/// Whether it runs.
const EVENT_SCHEDULER: &str = "SELECT @@GLOBAL.event_scheduler";

/// An account that gives no orders, because another manager moves the primary, does not need these.
const NEEDED_TO_LOOK: &[&str] = &["CONNECTION ADMIN", "TRIGGER", "EXECUTE"];

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
        let lacks = self.needed().filter(|(right, _)| !self.may(right)).collect();
        Some(Rights { account: self.account.clone(), lacks })
    }

    fn needed(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let for_events = if self.event_scheduler { NEEDED_FOR_EVENTS } else { &[] };
        NEEDED.iter().chain(for_events).copied()
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
    let is_needed = |right: &str| gives_orders || NEEDED_TO_LOOK.contains(&right);
    let lacked = held.needed().filter(|(right, _)| is_needed(right) && !held.may(right));
    lacked.map(|(right, why)| format!("{right} ON *.*: it is needed for {why}")).collect()
}

/// Those of `lacking` that are needed only where the event scheduler runs.
pub(crate) fn for_events(lacking: &[String]) -> Vec<&'static str> {
    let names = NEEDED_FOR_EVENTS.iter().map(|(right, _)| *right);
    names.filter(|right| lacking.iter().any(|lacks| lacks.starts_with(right))).collect()
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

    #[test]
    fn what_is_granted_anywhere_counts() {
        let lacks = |grants: &[&str], gives_orders| lacks(&Held::read(grants.iter().copied()), gives_orders);
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
        assert_eq!(rights.lacks.len(), NEEDED.len() - 1);
    }
}

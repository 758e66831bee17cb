//! What `understudy setup` is going to do with the servers that it found: the accounts it makes, the settings it writes, and the way back.
//!
//! Enters: the servers, and what the command line says. Leaves: statements and a file. Nothing is sent or written here.

use std::fmt::Write; // into a String it cannot fail

use link::Login;
use protocol::auth::native;
use topology::flavor::Flavor;
use topology::kind::Kind;
use topology::rules::privileges::account;

use super::find::{Found, Server};

/// In place of a password.
const HIDDEN: &str = "...";

/// Bytes of chance in a password, which has twice as many characters: MySQL takes no more than 32 for its replicas (error 3056).
pub const PASSWORD_BYTES: usize = 16;

/// An account that is made.
pub struct NewAccount {
    pub user: String,
    pub password: String,
}

/// All of it.
pub struct Plan {
    /// Statements for the writer, from which all servers get them. They contain passwords.
    pub statements: Vec<Secret>,
    /// The content of the settings file; it contains passwords.
    pub settings: Secret,
    /// How the new account logs in.
    pub monitor: Login,
    /// What undoes the statements.
    pub undo: Vec<String>,
    passwords: Vec<String>,
}

impl Plan {
    /// A text without the new passwords.
    pub fn without_passwords(&self, text: &str) -> String {
        self.passwords.iter().fold(text.to_owned(), |text, password| text.replace(password, HIDDEN))
    }
}

/// A text with passwords, and the same without.
pub struct Secret {
    pub whole: String,
    pub shown: String,
}

impl Secret {
    fn new(accounts: &[&NewAccount], whole: String) -> Self {
        let shown = accounts.iter().fold(whole.clone(), |text, one| {
            text.replace(&one.password, HIDDEN).replace(&one.stored(), HIDDEN)
        });
        Self { whole, shown }
    }
}

/// What the command line decides.
pub struct Wishes<'a> {
    pub cluster: &'a str,
    pub listen: &'a str,
    pub http: &'a str,
    /// `None`: the default.
    pub state: Option<&'a str>,
    /// Failovers are only reported.
    pub is_report_only: bool,
}

/// A password of hexadecimal digits, which needs quotes nowhere.
pub fn password(random: [u8; PASSWORD_BYTES]) -> String {
    hex::encode(random)
}

/// `replicas`: the account of replicas; on Galera there is none.
pub fn plan(found: &Found, monitor: &NewAccount, replicas: Option<&NewAccount>, wishes: &Wishes<'_>) -> Plan {
    let accounts: Vec<&NewAccount> = std::iter::once(monitor).chain(replicas).collect();
    let writer = &found.servers[0];
    let mut statements = vec![create(monitor, writer.flavor())];
    let grants = match writer.flavor() {
        Flavor::MariaDb => manager::grants_for(found.kind, &monitor.user),
        Flavor::MySql => manager::mysql_grants(&monitor.user),
    };
    statements.extend(grants.split(';').map(str::trim).filter(|grant| !grant.is_empty()).map(str::to_owned));
    let to = account(&monitor.user);
    if writer.flavor() == Flavor::MariaDb {
        statements.push(format!("GRANT CREATE, SELECT, INSERT, UPDATE, LOCK TABLES ON understudy.* TO {to}"));
    }
    if found.kind == Kind::Replication && found.servers.iter().any(|server| server.has_events) {
        let events = match writer.flavor() {
            Flavor::MariaDb => "EVENT, SET USER, BINLOG ADMIN",
            Flavor::MySql => "EVENT",
        };
        statements.push(format!("GRANT {events} ON *.* TO {to}"));
    }
    if let Some(replicas) = replicas {
        statements.push(create(replicas, writer.flavor()));
        statements.push(format!("GRANT REPLICATION SLAVE ON *.* TO {}", account(&replicas.user)));
    }
    let settings = settings(found, monitor, replicas, wishes);
    Plan {
        statements: statements.into_iter().map(|text| Secret::new(&accounts, text)).collect(),
        settings: Secret::new(&accounts, settings),
        passwords: accounts.iter().flat_map(|one| [one.password.clone(), one.stored()]).collect(),
        monitor: Login::with_password(&monitor.user, monitor.password.clone()),
        undo: accounts.iter().map(|one| format!("DROP USER {}", account(&one.user))).collect(),
    }
}

/// MariaDB writes the statement into its binlog as it is: it has the hash, as the server would store it. MySQL writes the hash by itself.
fn create(one: &NewAccount, flavor: Flavor) -> String {
    let user = account(&one.user);
    match flavor {
        Flavor::MariaDb => format!("CREATE USER {user} IDENTIFIED BY PASSWORD '{}'", one.stored()),
        Flavor::MySql => format!("CREATE USER {user} IDENTIFIED BY '{}'", one.password),
    }
}

impl NewAccount {
    /// As `mysql_native_password` stores it.
    fn stored(&self) -> String {
        native::stored(&native::stage2(&native::stage1(self.password.as_bytes())))
    }
}

fn settings(
    found: &Found,
    monitor: &NewAccount,
    replicas: Option<&NewAccount>,
    wishes: &Wishes<'_>,
) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let login =
        |one: &NewAccount| format!("user = {}, password = {}", quoted(&one.user), quoted(&one.password));
    let mut text = format!(
        "# Made by `understudy setup`. What each setting means: `understudy settings`.\n\n[cluster]\nname = {}\nkind = {}\nnode = [\n",
        quoted(wishes.cluster),
        quoted(match found.kind {
            Kind::Galera => "galera",
            Kind::Replication => "replication",
        }),
    );
    for (name, server) in names(&found.servers).iter().zip(&found.servers) {
        let _ = writeln!(text, "  {{ name = {}, address = {} }},", quoted(name), quoted(&server.address));
    }
    let _ = writeln!(text, "]\nmonitor = {{ {} }}", login(monitor));
    if let Some(replicas) = replicas {
        let dry_run = if wishes.is_report_only { ", failover = \"dry_run\"" } else { "" };
        let _ = writeln!(text, "replication = {{ {}{dry_run} }}", login(replicas));
    }
    let _ = write!(text, "\n[listen]\nmysql = {}\nhttp = {}\n", quoted(wishes.listen), quoted(wishes.http));
    if let Some(state) = wishes.state {
        let _ = write!(text, "\n[state]\ndir = {}\n", quoted(state));
    }
    text
}

/// The servers' own host names where these tell them apart, else db1, db2, ...
fn names(servers: &[Server]) -> Vec<String> {
    let hosts: Vec<String> =
        servers.iter().map(|server| server.host.split('.').next().unwrap_or_default().to_owned()).collect();
    let is_name = |host: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=64).contains(&host.len()) && host.chars().all(plain)
    };
    let all_differ = hosts.iter().enumerate().all(|(at, host)| is_name(host) && !hosts[..at].contains(host));
    match all_differ {
        true => hosts,
        false => (1..=servers.len()).map(|number| format!("db{number}")).collect(),
    }
}

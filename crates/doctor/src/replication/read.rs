//! Queries the servers about their settings, and reads their option files where they are on this machine. It only reads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use link::{Link, LinkError, Login};
use manager::ServerReading;
use topology::flavor::Dialect;
use topology::replication::sql;
use topology::rules::variables::{self, Rule};
use topology::session_defaults::SessionDefaults;

use super::accounts::{self, Bypass};
use crate::asked;
use crate::replicas_account::{self, ReplicasAccount};
use crate::servers::rights_missing;
use settings::Settings;

/// The time limit of one statement, and of connecting.
const DEADLINE: Duration = Duration::from_secs(5);

/// A server's answers, or why there are none; and its option file.
pub type NodeFacts = asked::NodeFacts<ServerState>;

/// A server's answers.
#[derive(Clone, Debug, Default)]
pub struct ServerState {
    /// Its variables, by their names in lower case.
    pub variables: BTreeMap<String, Variable>,
    /// It is a replica.
    pub is_replica: bool,
    /// Its position and its sources; `None` when it may not be asked about them.
    pub standing: Option<ServerReading>,
    /// The number of semi-synchronous replicas, if as a primary it waits for them at this moment.
    pub waits_for: Option<u32>,
    /// What its sessions begin with.
    pub defaults: SessionDefaults,
    /// Privileges that the monitor account needs and lacks, one sentence each.
    pub lacks: Vec<String>,
    /// Privileges that only `understudy errant` needs and the monitor account lacks.
    pub lacks_for_errant: Vec<&'static str>,
    /// Accounts that may write in spite of read_only; `None` when the accounts may not be read.
    pub bypass: Option<Vec<Bypass>>,
    /// What is wrong with the account that replicas log in with.
    pub replicas_account: Option<ReplicasAccount>,
    /// What it leaves out of its binlog; empty if nothing, or if that is not known.
    pub unlogged: String,
    /// The hosts from which running Understudys manage it.
    pub managers: Vec<String>,
}

/// A global variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// Its value.
    pub value: String,
    /// GLOBAL_VALUE_ORIGIN: `CONFIG`, `SQL`, `COMPILE-TIME`, ...
    pub origin: String,
}

impl ServerState {
    /// A variable's value.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|variable| variable.value.as_str())
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name).is_some_and(variables::is_on)
    }

    /// The value that breaks a rule; a variable that the server does not have breaks none.
    pub fn breaks(&self, rule: &Rule, semi_sync: bool) -> Option<&str> {
        self.value(rule.name).filter(|value| rule.is_broken(value, self.is_replica, semi_sync))
    }

    /// "primary", "replica", or neither.
    pub fn role(&self) -> &'static str {
        match (self.is_replica, self.is_on("read_only")) {
            (true, _) => "replica",
            (false, false) => "primary",
            (false, true) => "follows nobody",
        }
    }
}

/// Option files by the name of their server.
pub type Files = BTreeMap<String, PathBuf>;

/// Queries every node concurrently. `account`: what replicas log in with; `None` where another manager moves the primary.
pub async fn all(
    settings: &Settings,
    monitor: &Login,
    account: Option<&manager::Account>,
    files: &Files,
) -> Vec<NodeFacts> {
    let replicas = account.map(manager::Account::login);
    let mut facts = asked::each(settings, async |address| {
        let link = Link::connect(address, monitor, DEADLINE).await?;
        said(link, address, replicas.as_ref()).await
    })
    .await;
    for node in &mut facts {
        let version = node.said.as_ref().ok().and_then(|said| said.variables.get("version"));
        let version = version.map(|version| version.value.as_str());
        let options = |file: &PathBuf| mycnf::server_options(file, version).map_err(|e| e.to_string());
        node.file = files.get(&node.name).map(options);
    }
    facts
}

/// Asks a server, on a link of the monitor account; `replicas`: what replicas log in with.
pub async fn said(mut link: Link, address: &str, replicas: Option<&Login>) -> Result<ServerState, LinkError> {
    let dialect = Dialect::of(&link.greeting.version);
    let variables = variables_of(&mut link, dialect).await?;
    // `None`: the missing privilege is reported in `lacks`.
    let channels = link.query_unless_rejected(sql::channels(dialect), DEADLINE).await?;
    let standing = match &channels {
        Some(channels) => {
            let variables = link.query(sql::variables(dialect), DEADLINE).await?;
            let positions = link.query(sql::positions(dialect), DEADLINE).await?;
            let status = link.query(sql::status(dialect, false), DEADLINE).await?;
            Some(ServerReading::read(&variables, &positions, &status, channels))
        }
        None => None,
    };
    let semi_sync = standing.as_ref().map(|standing| standing.status.semi_sync);
    let lacks = rights_missing(&mut link, replicas.is_some()).await?;
    let lacks_for_errant = accounts::lacks_for_errant(&mut link, DEADLINE).await?;
    let bypass = match dialect {
        Dialect::MariaDb => accounts::bypass(&mut link, DEADLINE).await?,
        // Nobody writes past super_read_only.
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => Some(vec![]),
    };
    let defaults = manager::session_defaults(&mut link, DEADLINE).await?;
    let managers = manager::rival::managers(&mut link, DEADLINE).await?;
    let unlogged = manager::unlogged(link).await?.unwrap_or_default();
    Ok(ServerState {
        variables,
        is_replica: channels.is_some_and(|rows| !rows.is_empty()),
        standing,
        defaults,
        waits_for: semi_sync.filter(|it| it.primary_active).map(|it| it.replicas),
        lacks,
        lacks_for_errant,
        bypass,
        unlogged,
        managers,
        replicas_account: match replicas {
            Some(replicas) => replicas_account::check(address, replicas, DEADLINE).await,
            None => None,
        },
    })
}

/// The variables of the rules that the server has by their names, which are MariaDB's. MySQL does not say where a value comes from.
async fn variables_of(link: &mut Link, dialect: Dialect) -> Result<BTreeMap<String, Variable>, LinkError> {
    let columns = match dialect {
        Dialect::MariaDb => "GLOBAL_VALUE, GLOBAL_VALUE_ORIGIN FROM information_schema.SYSTEM_VARIABLES",
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => {
            "VARIABLE_VALUE, '' FROM performance_schema.global_variables"
        }
    };
    let names = variables::ALL.iter().map(|rule| format!("'{}'", rule.name)).collect::<Vec<_>>().join(",");
    let query =
        format!("SELECT VARIABLE_NAME, {columns} WHERE VARIABLE_NAME IN ('version', 'wsrep_on', {names})");
    let rows = link.query(&query, DEADLINE).await?;
    let text = |row, column| rows.text(row, column).unwrap_or_default().to_owned();
    let variable =
        |row| (text(row, 0).to_ascii_lowercase(), Variable { value: text(row, 1), origin: text(row, 2) });
    Ok((0..rows.len()).map(variable).collect())
}

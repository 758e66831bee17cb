//! What the servers of a primary-replica setup say when `understudy serve --check` asks them; it only reads.

use std::time::Duration;

use link::{Link, LinkError, Login, Secret};
use manager::{Marks, ServerReading};
use topology::flavor::{Dialect, Flavor};
use topology::kind::Kind;
use topology::replication;
use topology::rules::variables;

use crate::asked;
use crate::replication::read::{self, ServerState};
use settings::Settings;

/// One statement, or a connection, may take this long.
const DEADLINE: Duration = Duration::from_secs(5);

/// What one says.
pub struct Server {
    /// `@@version`.
    pub version: String,
    /// "primary, writable", "replica of ...".
    pub role: String,
    /// What must be put right, one sentence each.
    pub wrong: Vec<String>,
    /// What it said of itself and of its sources, when it could be asked.
    standing: Option<ServerReading>,
}

/// Asks every node, at the same time. `account`: what replicas log in with; `None`: no orders are given. `marks`: what `serve` remembers against
/// them; so below.
pub async fn all(
    settings: &Settings,
    monitor: &Login,
    account: Option<&manager::Account>,
    marks: &Marks,
) -> Vec<Result<Server, String>> {
    let replicas = account.map(manager::Account::login);
    let facts = asked::each(settings, async |address| ask(address, monitor, replicas.as_ref()).await).await;
    let mut answers: Vec<_> = facts.into_iter().map(|node| node.said).collect();
    tell_faults(settings, marks, &mut answers);
    answers
}

/// What is said where no server can be told to be the primary.
pub fn without_primary(
    settings: &Settings,
    marks: &Marks,
    answers: &[Result<Server, String>],
) -> Option<String> {
    // One that may not be asked about its sources is no silent one.
    if answers.iter().flatten().any(|server| server.standing.is_none()) {
        return None;
    }
    let standings = answers.iter().map(|answer| answer.as_ref().ok()?.standing.clone()).collect();
    told(settings, marks, standings, replication::setup::without_primary)
}

/// What `of` says of the servers together.
pub fn told<T>(
    settings: &Settings,
    marks: &Marks,
    standings: Vec<Option<ServerReading>>,
    of: impl Fn(&[replication::setup::Server]) -> T,
) -> T {
    let addresses: Vec<&str> = settings.nodes.iter().map(|node| node.address.as_str()).collect();
    let mut statuses = manager::as_configured(standings, &addresses);
    for (node, status) in settings.nodes.iter().zip(&mut statuses) {
        let filters = marks.filtered.iter().find(|(name, _)| *name == node.name).map(|(_, filters)| filters);
        if let Some(status) = status.as_mut().filter(|status| status.filters().is_none()) {
            status.had_filters = filters.cloned();
        }
    }
    let servers: Vec<_> = settings
        .nodes
        .iter()
        .zip(&statuses)
        .map(|(node, status)| replication::setup::Server {
            name: &node.name,
            address: &node.address,
            status: status.as_ref(),
            is_renumbered: marks.renumbered.contains(&node.name),
        })
        .collect();
    of(&servers)
}

/// What speaks against the servers together.
fn tell_faults(settings: &Settings, marks: &Marks, answers: &mut [Result<Server, String>]) {
    let standings = answers.iter().map(|answer| answer.as_ref().ok()?.standing.clone()).collect();
    for (answer, faults) in
        answers.iter_mut().zip(told(settings, marks, standings, replication::setup::faults))
    {
        if let Ok(server) = answer {
            server.wrong.extend(faults);
        }
    }
}

async fn ask(address: &str, monitor: &Login, replicas: Option<&Login>) -> Result<Server, LinkError> {
    let link = Link::connect(address, monitor, DEADLINE).await?;
    let version = link.greeting.version.trim_start_matches("5.5.5-").to_owned();
    if let Err(why) = Dialect::admit(&version) {
        return Ok(Server { version, role: "not asked further".into(), wrong: vec![why], standing: None });
    }
    let said = read::said(link, address, replicas).await?;
    Ok(Server { version, role: role(&said), wrong: wrong(&said, monitor, replicas), standing: said.standing })
}

/// What keeps a server from ever being the primary. `replicas`: what replicas log in with; `None`: no orders are given.
fn wrong(said: &ServerState, monitor: &Login, replicas: Option<&Login>) -> Vec<String> {
    let mut wrong = Vec::new();
    let flavor = Flavor::of(said.value("version").unwrap_or_default());
    if said.standing.is_none() {
        let right = match flavor {
            Flavor::MariaDb => "SLAVE MONITOR",
            Flavor::MySql => "REPLICATION CLIENT",
        };
        wrong.push(lacks(
            &[format!("{right} ON *.*: it is needed for asking whom a server follows")],
            monitor,
            flavor,
        ));
    }
    if said.is_on("wsrep_on") {
        wrong.push("it is a Galera node (wsrep_on is ON), and cluster.kind is \"replication\": set \"galera\", or take it out of the configuration".to_owned());
    }
    if replicas.is_some() {
        wrong.extend(variables::ALL.iter().filter_map(|rule| rule.at_start(said.value(rule.name)?)));
    }
    if !said.unlogged.is_empty() {
        wrong.push(format!(
            "it leaves some databases out of its binlog ({}): what is written there while it is the primary is on no other server; take that \
             out of its my.cnf, and restart it",
            said.unlogged
        ));
    }
    if !said.lacks.is_empty() {
        wrong.push(lacks(&said.lacks, monitor, flavor));
    }
    if let Some((account, Login { user, .. })) = said.replicas_account.as_ref().zip(replicas) {
        let first =
            if account.is_refusal() { "put the password in [cluster.replication] right, or " } else { "" };
        let statements = account.statements(user).join("; ");
        wrong.push(format!(
            "the account that replicas log in with, {user}, {account}; {first}run on the primary: {statements}"
        ));
    }
    wrong.extend(replicas.and_then(|replicas| too_long(replicas, flavor)));
    wrong
}

/// A password that no server can be told to log in with at its primary: refused by MySQL 9.7 with error 3056, by MariaDB 10.11 with 1470.
fn too_long(replicas: &Login, flavor: Flavor) -> Option<String> {
    let characters_max = match flavor {
        Flavor::MariaDb => 96,
        Flavor::MySql => 32,
    };
    let Secret::Password(password) = &replicas.secret else { return None };
    (password.chars().count() > characters_max).then(|| {
        format!(
            "the password that replicas log in with has more than {characters_max} characters, which this server refuses when it is to follow \
             another primary: give {} a shorter one, there and in [cluster.replication]",
            replicas.user
        )
    })
}

fn lacks(missing: &[String], monitor: &Login, flavor: Flavor) -> String {
    let statements = match flavor {
        Flavor::MariaDb => manager::grants_with(Kind::Replication, &monitor.user, missing),
        Flavor::MySql => manager::mysql_grants(&monitor.user),
    };
    format!("the monitor account lacks {}; run on the primary:\n{statements}", missing.join("; "))
}

/// What the monitor account lacks, one sentence each. `gives_orders`: it moves the primary.
pub async fn rights_missing(link: &mut Link, gives_orders: bool) -> Result<Vec<String>, LinkError> {
    let mut missing = manager::rights::lacking(link, gives_orders, DEADLINE).await?;
    let accounts = match Flavor::of(&link.greeting.version) {
        Flavor::MariaDb => "mysql.global_priv",
        Flavor::MySql => "mysql.user",
    };
    let count = format!("SELECT COUNT(*) FROM {accounts}");
    if link.query_unless_rejected(&count, DEADLINE).await?.is_none() {
        missing.push(format!("SELECT ON {accounts}: it is needed for learning the client accounts"));
    }
    let dialect = Dialect::of(&link.greeting.version);
    let shows_sessions = replication::sql::shows_sessions(dialect);
    let questions = [
        (
            replication::sql::heard(dialect).filter(|_| gives_orders),
            "seeing soon that a primary stands still",
        ),
        (shows_sessions.as_deref(), "moving sessions in which code has run"),
    ];
    for (question, purpose) in questions {
        if let Some(question) = question
            && link.query_unless_rejected(question, DEADLINE).await?.is_none()
        {
            missing.push(format!("SELECT ON performance_schema.*: it is needed for {purpose}"));
        }
    }
    Ok(missing)
}

fn role(said: &ServerState) -> String {
    let status = said.standing.as_ref().map(|standing| &standing.status);
    let read_only = status.map_or_else(|| said.is_on("read_only"), |status| status.read_only);
    let writable = if read_only { "read only" } else { "writable" };
    let channels = status.map_or(&[][..], |status| &status.channels);
    if channels.is_empty() {
        return format!("follows nobody, {writable}");
    }
    let sources: Vec<_> = channels.iter().map(|channel| channel.source.as_str()).collect();
    format!("replica of {}, {writable}", sources.join(" and "))
}

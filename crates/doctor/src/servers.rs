//! What the servers of a primary-replica setup say when `understudy serve --check` asks them; it only reads.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows};
use manager::{Marks, Standing};
use topology::flavor::{Dialect, Flavor};
use topology::kind::Kind;
use topology::replication::{self, ReplicationStatus, sql};

use crate::asked;
use crate::replicas_account;
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
    standing: Option<Standing>,
}

/// Asks every node, at the same time. `account`: what replicas log in with; `None`: no orders are given. `marks`: what `serve` remembers against
/// them; so below.
pub async fn all(
    settings: &Settings,
    password: &str,
    account: Option<&manager::Account>,
    marks: &Marks,
) -> Vec<Result<Server, String>> {
    let monitor = Login::with_password(&settings.monitor.user, password);
    let replicas = account.map(|account| Login::with_password(&account.user, &account.password.0));
    let facts = asked::each(settings, async |address| ask(address, &monitor, replicas.as_ref()).await).await;
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
    standings: Vec<Option<Standing>>,
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
    let mut link = Link::connect(address, monitor, DEADLINE).await?;
    let version = link.greeting.version.trim_start_matches("5.5.5-").to_owned();
    if Flavor::of(&version) != Flavor::MariaDb {
        let wrong = vec![match Dialect::admit(&version) {
            Err(why) => why,
            Ok(_) => "cluster.kind = \"replication\" has not been tried on a running MySQL yet: see docs/replication.md".to_owned(),
        }];
        return Ok(Server { version, role: "not asked further".into(), wrong, standing: None });
    }
    let variables = link.query(sql::VARIABLES, DEADLINE).await?;
    let positions = link.query(sql::POSITIONS, DEADLINE).await?;
    let status = link.query(sql::STATUS, DEADLINE).await?;
    let mut wrong = Vec::new();
    let channels = match link.query(Flavor::MariaDb.replication()[0], DEADLINE).await {
        Ok(rows) => rows,
        Err(LinkError::Rejected { .. }) => {
            wrong.push(lacks(
                &["SLAVE MONITOR ON *.*: it is needed for asking whom a server follows".into()],
                monitor,
            ));
            Rows::default()
        }
        Err(other) => return Err(other),
    };
    let may_tell_sources = wrong.is_empty();
    let standing = Standing::read(&variables, &positions, &status, &channels);
    wrong.extend(settings_wrong(&standing.status, replicas.is_some()));
    let missing = rights_missing(&mut link, replicas.is_some()).await?;
    if let Some(filters) = manager::unlogged(link).await?.filter(|filters| !filters.is_empty()) {
        wrong.push(format!(
            "it leaves some databases out of its binlog ({filters}): what is written there while it is the primary is on no other server; take that \
             out of its my.cnf, and restart it"
        ));
    }
    if !missing.is_empty() {
        wrong.push(lacks(&missing, monitor));
    }
    if let Some(replicas) = replicas
        && let Some(account) = replicas_account::check(address, replicas, DEADLINE).await
    {
        let user = &replicas.user;
        let first =
            if account.is_refusal() { "put the password in [cluster.replication] right, or " } else { "" };
        let statements = account.statements(user).join("; ");
        wrong.push(format!(
            "the account that replicas log in with, {user}, {account}; {first}run on the primary: {statements}"
        ));
    }
    let role = role(&standing.status);
    Ok(Server { version, role, wrong, standing: may_tell_sources.then_some(standing) })
}

fn lacks(missing: &[String], monitor: &Login) -> String {
    format!(
        "the monitor account lacks {}; run on the primary:\n{}",
        missing.join("; "),
        manager::grants_with(Kind::Replication, &monitor.user, missing)
    )
}

/// What keeps a server from ever being the primary.
fn settings_wrong(status: &ReplicationStatus, gives_orders: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    if status.galera {
        wrong.push("it is a Galera node (wsrep_on is ON), and cluster.kind is \"replication\": set \"galera\", or take it out of the configuration".to_owned());
    }
    if !gives_orders {
        return wrong;
    }
    for (name, is_on) in [("log_bin", status.log_bin), ("log_slave_updates", status.log_replica_updates)] {
        if !is_on {
            wrong.push(format!(
                "{name} is off: no server could follow it when it is the primary; set it in my.cnf"
            ));
        }
    }
    if !status.gtid_strict_mode {
        wrong.push(
            "gtid_strict_mode is off: what a replica writes by itself would not be noticed; set it in my.cnf"
                .into(),
        );
    }
    wrong
}

/// What the monitor account lacks, one sentence each. `gives_orders`: it moves the primary.
pub async fn rights_missing(link: &mut Link, gives_orders: bool) -> Result<Vec<String>, LinkError> {
    let mut missing = manager::rights::lacking(link, gives_orders, DEADLINE).await?;
    let accounts = match Flavor::of(&link.greeting.version) {
        Flavor::MariaDb => "mysql.global_priv",
        Flavor::MySql => "mysql.user",
    };
    match link.query(&format!("SELECT COUNT(*) FROM {accounts}"), DEADLINE).await {
        Ok(_) => {}
        Err(LinkError::Rejected { .. }) => {
            missing.push(format!("SELECT ON {accounts}: it is needed for learning the client accounts"));
        }
        Err(other) => return Err(other),
    }
    Ok(missing)
}

fn role(status: &ReplicationStatus) -> String {
    let writable = if status.read_only { "read only" } else { "writable" };
    match &*status.channels {
        [] => format!("follows nobody, {writable}"),
        channels => {
            let sources: Vec<_> = channels.iter().map(|channel| channel.source.as_str()).collect();
            format!("replica of {}, {writable}", sources.join(" and "))
        }
    }
}

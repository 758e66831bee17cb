//! What the servers of a primary-replica setup say when `understudy serve --check` asks them; it only reads.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows, Secret};
use topology::flavor::Flavor;
use topology::kind::Kind;
use topology::replication::{self, ReplicationStatus, sql};

use crate::doctor::read::explain;
use crate::settings::Settings;

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
    /// What it said of itself, when it could be asked.
    status: Option<ReplicationStatus>,
    /// Of each source that is connected, the address by which the server knows it, and its server_id.
    sources: Vec<(String, u32)>,
}

/// Asks every node, at the same time. `account`: what replicas log in with; `None`: no orders are given.
pub async fn all(
    settings: &Settings,
    password: &str,
    account: Option<&manager::Account>,
) -> Vec<Result<Server, String>> {
    let tasks: Vec<_> = settings
        .nodes
        .iter()
        .map(|node| {
            let login = |user: &str, password: &str| Login::new(user, Secret::Password(password.to_owned()));
            let monitor = login(&settings.monitor.user, password);
            let replicas = account.map(|account| login(&account.user, &account.password.0));
            let address = node.address.clone();
            tokio::spawn(async move { ask(&address, &monitor, replicas.as_ref()).await })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(match task.await {
            Ok(Ok(server)) => Ok(server),
            Ok(Err(e)) => Err(explain(&e, Kind::Replication, &settings.monitor.user)),
            Err(e) => Err(format!("the question broke off: {e}")),
        });
    }
    tell_faults(settings, &mut answers);
    answers
}

/// What speaks against the servers together.
fn tell_faults(settings: &Settings, answers: &mut [Result<Server, String>]) {
    let known: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok()).collect();
    let server_id = |server: &Server| server.status.as_ref().map(|status| status.server_id);
    // A replica may know its source by another name: the source's server_id tells which it is.
    let configured = |id: u32| {
        let mut of_this_id = known
            .iter()
            .zip(&settings.nodes)
            .filter(|(server, _)| server.is_some_and(|server| server_id(server) == Some(id)));
        let (_, node) = of_this_id.next()?;
        of_this_id.next().is_none().then(|| node.address.clone())
    };
    let statuses: Vec<Option<ReplicationStatus>> = known
        .iter()
        .map(|server| {
            let server = server.as_ref()?;
            let mut status = server.status.clone()?;
            for channel in &mut status.channels {
                let source = server.sources.iter().find(|(name, _)| *name == channel.source);
                if let Some(address) = source.and_then(|(_, id)| configured(*id)) {
                    channel.source = address;
                }
            }
            Some(status)
        })
        .collect();
    let servers: Vec<_> = settings
        .nodes
        .iter()
        .zip(&statuses)
        .map(|(node, status)| replication::setup::Server {
            name: &node.name,
            address: &node.address,
            status: status.as_ref(),
        })
        .collect();
    for (answer, faults) in answers.iter_mut().zip(replication::setup::faults(&servers)) {
        if let Ok(server) = answer {
            server.wrong.extend(faults);
        }
    }
}

async fn ask(address: &str, monitor: &Login, replicas: Option<&Login>) -> Result<Server, LinkError> {
    let mut link = Link::connect(address, monitor, DEADLINE).await?;
    let version = link.greeting.version.trim_start_matches("5.5.5-").to_owned();
    if Flavor::of(&version) != Flavor::MariaDb {
        let wrong = vec!["cluster.kind = \"replication\" runs MariaDB only, and this is not".to_owned()];
        return Ok(Server {
            version,
            role: "not asked further".into(),
            wrong,
            status: None,
            sources: vec![],
        });
    }
    let variables = link.query(sql::VARIABLES, DEADLINE).await?;
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
    let (rows, value) = (0..channels.len(), |row, name: &str| channels.text(row, channels.column(name)?));
    let sources = rows
        .clone()
        .filter_map(|row| Some((row, value(row, "Master_Server_Id")?.parse().ok()?)))
        .map(|(row, id)| (replication::channel(|name| value(row, name)), id))
        .filter(|(channel, _)| channel.io_running)
        .map(|(channel, id)| (channel.source, id))
        .collect();
    let channels = rows.map(|row| replication::channel(|name| value(row, name))).collect();
    let may_tell_sources = wrong.is_empty();
    let status =
        replication::status::read(|name| variables.value_of(name), |name| status.value_of(name), channels);
    wrong.extend(settings_wrong(&status, replicas.is_some()));
    let missing = rights_missing(&mut link, replicas.is_some()).await?;
    if !missing.is_empty() {
        wrong.push(lacks(&missing, monitor));
    }
    link.quit();
    if let Some(replicas) = replicas
        && let Err(error) = Link::connect(address, replicas, DEADLINE).await
    {
        wrong.push(format!(
            "the account that replicas log in with, {}, is refused: {error}; run on the primary: CREATE USER '{}'@'%' IDENTIFIED BY \
             '...'; GRANT REPLICATION SLAVE ON *.* TO '{}'@'%'",
            replicas.user, replicas.user, replicas.user
        ));
    }
    let role = role(&status);
    Ok(Server { version, role, wrong, status: may_tell_sources.then_some(status), sources })
}

fn lacks(missing: &[String], monitor: &Login) -> String {
    format!(
        "the monitor account lacks {}; run on the primary:\n{}",
        missing.join("; "),
        manager::grants_for(Kind::Replication, &monitor.user)
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
    match link.query("SELECT COUNT(*) FROM mysql.global_priv", DEADLINE).await {
        Ok(_) => {}
        Err(LinkError::Rejected { .. }) => {
            missing.push("SELECT ON mysql.global_priv: it is needed for learning the client accounts".into());
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

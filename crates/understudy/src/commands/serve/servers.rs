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

/// The rights that the monitor account needs anywhere, as SHOW GRANTS spells them, and what each is for.
const RIGHTS: &[(&str, &str)] = &[
    ("REPLICATION SLAVE ADMIN", "letting a replica follow another primary"),
    ("REPLICATION MASTER ADMIN", "having a new primary wait for its replicas (semi-sync)"),
    ("READ_ONLY ADMIN", "making a server read only, or writable"),
    ("RELOAD", "letting a new primary forget its source"),
    ("PROCESS", "finding commits that keep a server from becoming read only"),
    ("CONNECTION ADMIN", "ending them, and logging in where clients have used up max_connections"),
    ("TRIGGER", "knowing which tables have no transactions"),
    ("EXECUTE", "knowing which stored functions may write"),
];

/// Of these an account needs fewer that gives no orders.
const RIGHTS_TO_LOOK: &[&str] = &["CONNECTION ADMIN", "TRIGGER", "EXECUTE"];

/// What one says.
pub struct Server {
    /// `@@version`.
    pub version: String,
    /// "primary, writable", "replica of ...".
    pub role: String,
    /// What must be put right, one sentence each.
    pub wrong: Vec<String>,
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
    answers
}

async fn ask(address: &str, monitor: &Login, replicas: Option<&Login>) -> Result<Server, LinkError> {
    let mut link = Link::connect(address, monitor, DEADLINE).await?;
    let version = link.greeting.version.trim_start_matches("5.5.5-").to_owned();
    if Flavor::of(&version) != Flavor::MariaDb {
        let wrong = vec!["cluster.kind = \"replication\" runs MariaDB only, and this is not".to_owned()];
        return Ok(Server { version, role: "not asked further".into(), wrong });
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
    let channels = (0..channels.len())
        .map(|row| replication::channel(|name| channels.text(row, channels.column(name)?)))
        .collect();
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
    Ok(Server { version, role: role(&status), wrong })
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
        wrong.push("it is a Galera node (wsrep_on is ON), and cluster.kind is \"replication\"".to_owned());
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
    let grants = link.query("SHOW GRANTS", DEADLINE).await?;
    let global: Vec<String> = (0..grants.len())
        .filter_map(|row| grants.text(row, 0))
        .filter(|grant| grant.contains(" ON *.* "))
        .map(str::to_ascii_uppercase)
        .collect();
    let may = |right: &str| global.iter().any(|grant| grant.contains(right));
    let mut missing = Vec::new();
    if !may("ALL PRIVILEGES") {
        let is_needed = |right: &str| gives_orders || RIGHTS_TO_LOOK.contains(&right);
        let lacked = RIGHTS.iter().filter(|(right, _)| is_needed(right) && !may(right));
        missing.extend(lacked.map(|(right, why)| format!("{right} ON *.*: it is needed for {why}")));
    }
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

//! Looks at the node and its cluster before anything is changed: what [`measure::capacity::precheck`] judges, and how much may gather.

use std::time::Duration;

use link::{LinkError, Rows};
use measure::capacity::precheck::Facts;
use protocol::errno::LOCK_WAIT_TIMEOUT;
use tokio::time::sleep;
use topology::flavor::Flavor;
use topology::kind::Kind;

use super::named_asker::NamedAsker;
use super::servers::{ANSWER_MAX, Site};
use super::sql;
use cli::exit::Failure;
use doctor::options::Options;

/// Programs that make backups, as they name themselves when they connect.
const BACKUP_PROGRAMS: &[&str] =
    &["mariabackup", "mariadb-backup", "xtrabackup", "mysqldump", "mariadb-dump", "mydumper", "mysqlpump"];
/// Asked where the performance schema is on.
const PROGRAMS: &str = "SELECT PROCESSLIST_ID, ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE ATTR_NAME IN ('program_name', '_program_name')";
/// The lock of a backup is asked for so often.
const BACKUP_TRIES: u32 = 10;
/// Between two tries.
const BACKUP_TRY_EVERY: Duration = Duration::from_millis(200);
/// Relay logs may grow by so much where the server sets them no limit.
const RELAY_LOG_BYTES: u64 = 1 << 30;

/// What was found.
pub struct Found {
    /// What the checks judge.
    pub facts: Facts,
    /// So much may gather while the node is held, unless the command line says otherwise, bytes.
    pub backlog_bytes_max: u64,
    /// More must not, whatever the command line says, bytes: the node would slow the group down, or abort.
    pub receive_bytes_max: Option<u64>,
    /// So many transactions may be in its queue without flow control.
    pub queue_short: u64,
    /// The node's version.
    pub version: String,
}

/// What Galera's documentation gives where the provider's options do not say it: `gcs.fc_limit`.
const FC_LIMIT: u64 = 16;
/// And `gcs.recv_q_soft_limit`: the share of `gcs.recv_q_hard_limit` from which on the node slows the group down, desynchronised or not.
const RECV_Q_SOFT_LIMIT: f64 = 0.25;

/// What a replica is asked and ordered is in MariaDB's words.
///
/// # Errors
/// It is MySQL, or does not answer.
pub async fn is_mariadb(replica: &mut NamedAsker) -> Result<(), Failure> {
    let version = ask(replica, "SELECT VERSION()").await?;
    not_mysql(&replica.name, version.text(0, 0).unwrap_or_default())
}

/// The same of a replica's version.
pub fn not_mysql(name: &str, version: &str) -> Result<(), Failure> {
    let why = "it is a replica of MySQL, and `understudy capacity` knows MariaDB's and Galera nodes only";
    let refused = || Err(Failure::Failed(format!("{name} cannot be measured: {why}")));
    if Flavor::of(version) == Flavor::MySql { refused() } else { Ok(()) }
}

/// Asks the node and the others.
///
/// # Errors
/// When the node does not answer, or is of a kind that cannot be measured.
pub async fn look(
    site: &Site,
    node: &mut NamedAsker,
    others: &mut [NamedAsker],
    ignored: &[String],
) -> Result<Found, Failure> {
    let sessions = ask(node, sql::SESSIONS).await?;
    let programs = node.ask(PROGRAMS, ANSWER_MAX).await.ok();
    let mut backups = backups(&sessions, programs.as_ref());
    if backups.is_empty() {
        backups.extend(silent_backup(node).await);
    }
    let mut facts = Facts {
        node: site.node.name.clone(),
        is_writer: site.is_writer,
        backups,
        has_guard: node.ask("BEGIN NOT ATOMIC DO 1; END", ANSWER_MAX).await.is_ok(),
        ..Facts::default()
    };
    if site.size.is_none() {
        // Nobody will move them away.
        facts.sessions = clients(&sessions, ignored);
        if site.kind == Kind::Galera {
            facts.writing = clients(&ask(node, sql::WRITING).await?, ignored);
        }
    }
    match site.kind {
        Kind::Galera => galera(node, others, facts).await,
        Kind::Replication => replica(site, node, others, facts).await,
    }
}

async fn ask(node: &mut NamedAsker, sql: &str) -> Result<Rows, Failure> {
    node.ask(sql, ANSWER_MAX).await.map_err(Failure::Failed)
}

async fn galera(
    node: &mut NamedAsker,
    others: &mut [NamedAsker],
    mut facts: Facts,
) -> Result<Found, Failure> {
    let status = ask(node, sql::GALERA_STATUS).await?;
    let settings = ask(node, sql::GALERA_SETTINGS).await?;
    let here = sql::galera_node(&status).ok_or_else(|| {
        Failure::Failed(format!("{} is no member of a Galera cluster at the moment", facts.node))
    })?;
    facts.state = status.value_of("wsrep_local_state_comment").unwrap_or("in no known state").to_owned();
    facts.is_in_step = here.is_in_step;
    facts.is_under_way = settings.text(0, 0) == Some("1");
    facts.size = status.value_of("wsrep_cluster_size").and_then(|size| size.parse().ok()).unwrap_or(0);
    for other in others {
        let Ok(status) = other.ask(sql::GALERA_STATUS, ANSWER_MAX).await else { continue };
        let state = status.value_of("wsrep_local_state_comment").unwrap_or_default();
        if sql::galera_node(&status).is_some_and(|node| node.is_in_step) {
            facts.others_in_step.push(other.name.clone());
        } else if matches!(status.value_of("wsrep_local_state"), Some("1" | "2" | "3")) {
            facts.transferring.push(format!("{} is {state}", other.name));
        }
    }
    let options = Options::parse(settings.text(0, 2).unwrap_or_default());
    let Some(gcache) = options.bytes("gcache.size") else {
        return Err(Failure::Failed(format!("{} does not tell its gcache.size", facts.node)));
    };
    let version = settings.text(0, 3).unwrap_or_default().to_owned();
    Ok(Found {
        facts,
        // The other half stays for nodes that come back and want what they missed.
        backlog_bytes_max: gcache / 2,
        receive_bytes_max: receive_bytes_max(&options),
        queue_short: queue_short(&options),
        version,
    })
}

/// The number of the provider that a node sends flow control from; half of it is no long queue. Under writes it is hardly ever empty.
fn queue_short(options: &Options) -> u64 {
    let limit = options.text("gcs.fc_limit").and_then(|text| text.parse().ok()).unwrap_or(FC_LIMIT);
    limit / 2
}

/// Beyond this the receive queue slows the group down, also that of a desynchronised node, and at `gcs.recv_q_hard_limit` the server aborts.
fn receive_bytes_max(options: &Options) -> Option<u64> {
    let hard = options.bytes("gcs.recv_q_hard_limit")?;
    let soft = options.text("gcs.recv_q_soft_limit").and_then(|text| text.parse().ok());
    let share: f64 = soft.filter(|share| (0.0..=1.0).contains(share)).unwrap_or(RECV_Q_SOFT_LIMIT);
    Some((hard as f64 * share) as u64)
}

async fn replica(
    site: &Site,
    node: &mut NamedAsker,
    others: &mut [NamedAsker],
    mut facts: Facts,
) -> Result<Found, Failure> {
    let unfit = |name: &str, why: &str| Failure::Failed(format!("{name} cannot be measured: {why}"));
    is_mariadb(node).await?;
    let settings = ask(node, sql::REPLICA_SETTINGS).await?;
    let version = settings.text(0, 3).unwrap_or_default().to_owned();
    let rows = ask(node, sql::REPLICA).await?;
    let replica = sql::replica(&rows).map_err(|why| unfit(&facts.node, &why))?;
    if !replica.by_gtid {
        return Err(unfit(&facts.node, "it does not follow by GTID, so nobody counts its transactions"));
    }
    facts.is_under_way = replica.fetches && !replica.applies;
    facts.is_in_step = replica.fetches && replica.applies;
    facts.state = match (replica.fetches, replica.applies) {
        (true, true) => "replicating",
        (true, false) => "fetching and not applying",
        (false, _) => "not fetching from its primary",
    }
    .to_owned();
    facts.size = site.size.unwrap_or(0);
    for primary in others {
        if primary.ask(sql::COMMITTED, ANSWER_MAX).await.is_err() {
            continue;
        }
        facts.others_in_step.push(primary.name.clone());
        if site.size.is_none() {
            facts.size = replicas_of(primary).await.max(1) + 1;
        }
    }
    let limit = settings.text(0, 1).and_then(|text| text.parse().ok()).filter(|limit| *limit > 0);
    Ok(Found {
        facts,
        backlog_bytes_max: limit.map_or(RELAY_LOG_BYTES, |limit: u64| limit / 2),
        receive_bytes_max: None,
        queue_short: 0,
        version,
    })
}

/// How many replicas a primary has. Who follows it is asked in two ways, since each of them takes a privilege of its own.
async fn replicas_of(primary: &mut NamedAsker) -> u32 {
    let registered = primary.ask("SHOW SLAVE HOSTS", ANSWER_MAX).await.map_or(0, |rows| rows.len());
    let fetching = primary.ask(sql::FETCHING, ANSWER_MAX).await.map_or(0, |rows| rows.len());
    registered.max(fetching) as u32
}

/// A backup that is seen only by its lock: mariabackup sends no statement while it copies files. A session of its own asks for the same lock, and does
/// not wait for it. A statement that changes a table has a lock in its way, too, but not for long: a backup is one that stays.
async fn silent_backup(node: &NamedAsker) -> Option<String> {
    let (mut link, _) = node.session("SET SESSION lock_wait_timeout = 0").await.ok()?;
    for _ in 0..BACKUP_TRIES {
        match link.query(sql::BACKUP_BEGIN, ANSWER_MAX).await {
            Ok(_) => {
                // The end of the session is the end of its lock, too.
                let _ = link.query(sql::BACKUP_END, ANSWER_MAX).await;
                link.quit();
                return None;
            }
            Err(LinkError::Rejected { errno: LOCK_WAIT_TIMEOUT, .. }) => sleep(BACKUP_TRY_EVERY).await,
            // MySQL has no such statement, and the account may lack the privilege (RELOAD): then the lock of the measuring says so.
            Err(_) => return None,
        }
    }
    link.quit();
    Some("another session has the lock of a backup (BACKUP STAGE)".to_owned())
}

/// One row of the list of sessions.
struct ProcesslistRow<'a> {
    id: &'a str,
    user: &'a str,
    host: &'a str,
    command: &'a str,
    text: &'a str,
}

fn sessions(rows: &Rows) -> impl Iterator<Item = ProcesslistRow<'_>> {
    (0..rows.len()).map(|row| {
        let cell = |column| rows.text(row, column).unwrap_or_default();
        ProcesslistRow { id: cell(0), user: cell(1), host: cell(2), command: cell(3), text: cell(5) }
    })
}

/// The sessions that are clients', in words. What the server does by itself is none, nor are those of `ignored`.
pub fn clients(rows: &Rows, ignored: &[String]) -> Vec<String> {
    let own = ["system user", "event_scheduler", "unauthenticated user", ""];
    let others = sessions(rows)
        .filter(|session| !own.contains(&session.user) && !ignored.iter().any(|user| user == session.user));
    others
        .filter(|session| session.command != "Daemon")
        .map(|ProcesslistRow { id, user, host, command, .. }| match command {
            "Binlog Dump" => format!("a replica fetches its binlog, session {id} of {user} from {host}"),
            _ => format!("session {id} of {user} from {host}"),
        })
        .collect()
}

/// The sessions that make a backup, in words.
fn backups(rows: &Rows, programs: Option<&Rows>) -> Vec<String> {
    let is_known = |name: &str| BACKUP_PROGRAMS.iter().any(|known| name.eq_ignore_ascii_case(known));
    let program = |id: &str| {
        let programs = programs?;
        let row = (0..programs.len()).find(|row| programs.text(*row, 0) == Some(id))?;
        programs.text(row, 1).filter(|name| is_known(name))
    };
    sessions(rows)
        .filter_map(|ProcesslistRow { id, user, text, .. }| {
            let upper = text.to_ascii_uppercase();
            let is_backup = upper.starts_with("BACKUP ")
                || upper.starts_with("FLUSH TABLES")
                || (upper.starts_with("SELECT /*") && upper.contains("SQL_NO_CACHE"));
            match program(id) {
                Some(name) => Some(format!("session {id} of {user} is {name}")),
                None => is_backup.then(|| format!("session {id} of {user} runs {text}")),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[[&str; 6]]) -> Rows {
        let row = |row: &[&str; 6]| row.iter().map(|cell| Some(cell.as_bytes().to_vec())).collect();
        Rows { rows: rows.iter().map(row).collect(), ..Rows::default() }
    }

    #[test]
    fn clients_and_backups_are_told_from_the_servers_own() {
        let rows = rows(&[
            ["1", "system user", "", "Sleep", "9", "wsrep aborter idle"],
            ["2", "event_scheduler", "localhost", "Daemon", "9", ""],
            ["3", "understudy", "10.0.0.9:1", "Sleep", "0", ""],
            ["4", "app", "10.0.0.9:2", "Sleep", "3", ""],
            ["5", "repl", "10.0.0.4:2", "Binlog Dump", "3", ""],
            ["6", "root", "localhost", "Query", "3", "BACKUP STAGE BLOCK_COMMIT"],
            ["7", "dump", "localhost", "Query", "3", "SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`"],
        ]);
        let ignored = ["understudy".to_owned(), "root".to_owned(), "dump".to_owned()];
        assert_eq!(
            clients(&rows, &ignored),
            [
                "session 4 of app from 10.0.0.9:2",
                "a replica fetches its binlog, session 5 of repl from 10.0.0.4:2"
            ]
        );
        assert_eq!(backups(&rows, None).len(), 2);
        let cell = |text: &str| Some(text.as_bytes().to_vec());
        let programs = Rows { rows: vec![vec![cell("4"), cell("mariabackup")]], ..Rows::default() };
        assert_eq!(backups(&rows, Some(&programs))[0], "session 4 of app is mariabackup");
    }
}

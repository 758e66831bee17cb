//! Asks the nodes the questions before a switchover, each on a link of its own, all at the same time, under one deadline. It only reads;
//! [`topology::preflight`] judges the answers.

use std::time::Duration;

use futures_util::future::join_all;
use link::{Link, LinkError, Login};
use protocol::gtid::{Family, Position};
use tokio::time::timeout;
use topology::flavor::Dialect;
use topology::kind::Kind;
use topology::preflight::answer;
use topology::preflight::{self, NodeReply, Report, Server, Wish, sql};
use topology::replication::{Manager, events};
use topology::session_defaults::{self, SessionDefaults};

use crate::{follower, rights};

/// Before an ordered switchover, the nodes have this long to answer. One that does not is reported, and the order continues.
pub const DEADLINE_ORDERED: Duration = Duration::from_millis(500);
/// A server that writes a commit to a slow disk may take this long to say what it leaves out of its binlog.
const BINLOG_WITHIN: Duration = Duration::from_millis(100);
/// The limit for a check without a switchover.
pub const DEADLINE_ASKED: Duration = Duration::from_secs(5);

/// Runs the checks before a switchover.
#[derive(Clone)]
pub struct Preflight {
    login: Login,
    kind: Kind,
    /// Whether this program moves the primary of a primary and its replicas.
    gives_orders: bool,
    /// How replicas log in at their source.
    replication: Option<Login>,
}

impl Preflight {
    pub(crate) fn new(
        settings: &topology::settings::Settings,
        login: Login,
        replication: Option<Login>,
    ) -> Self {
        let gives_orders =
            settings.kind == Kind::Replication && settings.replication.manager == Manager::Understudy;
        Self { login, kind: settings.kind, gives_orders, replication }
    }

    /// Asks the nodes, which may take `within` to answer, and judges the answers.
    pub async fn look(&self, wish: Wish<'_>, within: Duration) -> Report {
        let view = wish.view;
        let to_name = wish.to_name();
        let asked = view.nodes.iter().map(|node| async move {
            // A node that is known not to answer is not waited for.
            if !node.linked || node.misses > 0 {
                return NodeReply::NotAsked;
            }
            let is_successor = self.kind == Kind::Replication && to_name == Some(&*node.name);
            let replicas = self.replication.clone().filter(|_| is_successor && self.gives_orders);
            let wanted = Wanted { binlogs: is_successor, rights: self.gives_orders };
            ask_all(&node.address, &self.login, replicas, wanted, within).await
        });
        let said = join_all(asked).await;
        preflight::judge(self.kind, &wish, &said)
    }
}

/// What a node is asked in addition to the common questions.
#[derive(Clone, Copy)]
struct Wanted {
    /// The position up to which its binlogs were purged.
    binlogs: bool,
    /// The privileges that the monitor account lacks, where that can be known, and the events.
    rights: bool,
}

/// Asks the server, and at the same time tries the account that replicas would log in with there.
async fn ask_all(
    address: &str,
    login: &Login,
    replicas: Option<Login>,
    wanted: Wanted,
    within: Duration,
) -> NodeReply {
    let Some(replicas) = replicas else { return ask(address, login, wanted, within).await };
    let tried = timeout(within, follower::tried(address, &replicas, login, within));
    let (mut said, tried) = tokio::join!(ask(address, login, wanted, within), tried);
    if let NodeReply::Server(server) = &mut said {
        let late = |_| answer::ReplicaLogin {
            user: replicas.user.clone(),
            admission: answer::Admission::NotKnown(late_text(within)),
        };
        server.replica_login = Some(tried.unwrap_or_else(late));
    }
    said
}

fn late_text(within: Duration) -> String {
    format!("no answer within {:.1} s", within.as_secs_f64())
}

async fn ask(address: &str, login: &Login, wanted: Wanted, within: Duration) -> NodeReply {
    let late = || NodeReply::Failed { why: late_text(within), late: true };
    match timeout(within, read(address, login, wanted, within)).await {
        Err(_) | Ok(Err(LinkError::TimedOut { .. })) => late(),
        Ok(Err(error)) => NodeReply::Failed { why: error.to_string(), late: false },
        Ok(Ok(server)) => NodeReply::Server(Box::new(server)),
    }
}

/// What sessions begin with on that server.
///
/// # Errors
/// It does not answer.
pub async fn session_defaults(link: &mut Link, within: Duration) -> Result<SessionDefaults, LinkError> {
    let rows = link.query(session_defaults::VARIABLES, within).await?;
    let pair = |row| Some((rows.text(row, 0)?, rows.text(row, 1)?));
    Ok(SessionDefaults::new((0..rows.len()).filter_map(pair)))
}

async fn read(address: &str, login: &Login, wanted: Wanted, within: Duration) -> Result<Server, LinkError> {
    let mut link = Link::connect(address, login, within).await?;
    let variables = link.query(&sql::variables(), within).await?;
    // Without PROCESS, the account sees only its own sessions, or is refused: what is not shown is not judged.
    let shown = link.query_unless_rejected(sql::SESSIONS, within).await?.unwrap_or_default();
    let sessions = (0..shown.len()).map(|row| answer::session(|name| shown.text(row, shown.column(name)?)));
    // None where it is not a MariaDB.
    let position = link.query_unless_rejected(sql::POSITION, within).await?.unwrap_or_default();
    let value = |name: &str| variables.value_of(name).or_else(|| position.text(0, position.column(name)?));
    let mut server = answer::read(&link.greeting.version.clone(), value, sessions.collect());
    server.defaults = session_defaults(&mut link, within).await?;
    if wanted.binlogs {
        server.purged = purged(&mut link, within).await?;
    }
    if wanted.rights {
        server.rights = rights::held(&mut link, within).await?.lacks();
        server.event_list = events(&mut link, within).await?;
        server.unlogged = unlogged(link).await?;
        return Ok(server);
    }
    link.quit();
    Ok(server)
}

/// The server's events; `None` on MySQL, and where the account may not know whose accounts there are.
async fn events(link: &mut Link, within: Duration) -> Result<Option<answer::Events>, LinkError> {
    if Dialect::of(&link.greeting.version) != Dialect::MariaDb {
        return Ok(None);
    }
    let Some(rows) = link.query_unless_rejected(events::WITHOUT_ACCOUNT, within).await? else {
        return Ok(None);
    };
    let without_account = (0..rows.len()).filter_map(|row| rows.text(row, 0).map(str::to_owned)).collect();
    let listed = crate::events::listed(link, &[], within).await?;
    let running = link.query(events::RUNNING, within).await?.len();
    let mut definers: Vec<String> = listed.enabled.into_iter().map(|event| event.definer).collect();
    let enabled = definers.len();
    definers.sort();
    definers.dedup();
    Ok(Some(answer::Events { enabled, definers, without_account, running }))
}

/// What the server leaves out of its binlog, as [`sql::unlogged`] says it; `None` when the account may not ask, or the server does not answer
/// soon, as while it writes a commit to a disk that hangs. The link may be waiting for that answer then: this is its last question.
///
/// # Errors
/// When the link is lost.
pub async fn unlogged(mut link: Link) -> Result<Option<String>, LinkError> {
    let mut rows = None;
    for question in sql::BINLOG {
        rows = match link.query_unless_rejected(question, BINLOG_WITHIN).await {
            Err(LinkError::TimedOut { .. }) => return Ok(None),
            rows => rows?,
        };
        if rows.is_some() {
            break;
        }
    }
    link.quit();
    Ok(rows.map(|rows| sql::unlogged(|name| rows.text(0, rows.column(name)?))))
}

/// The position up to which a server's binlogs were purged: a server that lacks anything before it cannot follow. `None` when the account
/// may not ask.
///
/// # Errors
/// When the server does not answer.
pub async fn purged(link: &mut Link, within: Duration) -> Result<Option<Position>, LinkError> {
    let family = Dialect::of(&link.greeting.version).family();
    let mut oldest = None;
    let begins = match family {
        Family::MySql => Some(sql::MYSQL_PURGED.to_owned()),
        Family::MariaDb => {
            let binlogs = link.query_unless_rejected(sql::BINLOGS, within).await?;
            oldest = binlogs.and_then(|binlogs| binlogs.text(0, 0).map(str::to_owned));
            oldest.as_deref().and_then(sql::begins_at)
        }
    };
    let Some(begins) = begins else { return Ok(None) };
    let Some(rows) = link.query_unless_rejected(&begins, within).await? else { return Ok(None) };
    let purged = rows.text(0, 0).and_then(|text| Position::parse(family, text).ok());
    match (purged, oldest) {
        (Some(purged), Some(oldest)) if purged.is_empty() => copied(link, &oldest, purged, within).await,
        (purged, _) => Ok(purged),
    }
}

/// Where the binlogs of a server begin that was made from a copy of another: its first binlog names nothing that was before. One that has logged
/// nothing since begins where it stands.
async fn copied(
    link: &mut Link,
    oldest: &str,
    nothing: Position,
    within: Duration,
) -> Result<Option<Position>, LinkError> {
    let Some(first_events) = sql::first_events(oldest) else { return Ok(Some(nothing)) };
    let Some(events) = link.query_unless_rejected(&first_events, within).await? else {
        return Ok(Some(nothing));
    };
    let gtid = (0..events.len()).find(|row| events.text(*row, 2) == Some("Gtid"));
    if let Some(row) = gtid {
        return Ok(Some(events.text(row, 5).and_then(sql::before).unwrap_or(nothing)));
    }
    let stands = link.query(sql::POSITION, within).await?;
    Ok(stands.text(0, 0).and_then(|text| Position::parse(Family::MariaDb, text).ok()))
}

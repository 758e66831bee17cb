//! What each node says that decides how it, or another, comes back. Only reads; asked twice, so that rates are those of now.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows};
use manager::ServerReading;
use measure::recovery::WriteRate;
use measure::recovery::galera::Donor;
use tokio::time::{Instant, sleep};
use topology::flavor::Dialect;
use topology::kind::Kind;
use topology::replication::{ReplicationStatus, sql};

use doctor::asked::{self, NodeFacts};
use doctor::windows::Kept;
use doctor::windows::keeps::{self, DEADLINE, Keeps};
use settings::Settings;

const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_state', 'wsrep_local_state_comment', 'wsrep_cluster_status', \
                      'wsrep_last_committed', 'wsrep_local_cached_downto', 'wsrep_replicated', 'wsrep_received', 'wsrep_replicated_bytes', \
                      'wsrep_received_bytes', 'wsrep_cluster_state_uuid')";
/// `wsrep_local_state` of a member that has everything.
const SYNCED: &str = "4";

/// What one node says.
#[derive(Clone, Debug)]
pub(in crate::recovery) struct NodeRecovery {
    /// A word for what it is.
    pub(in crate::recovery) state: String,
    /// It takes part.
    pub(in crate::recovery) is_there: bool,
    /// What it has, and keeps for others.
    pub(in crate::recovery) kept: Kept,
    /// What a node that is away would miss.
    pub(in crate::recovery) writes: WriteRate,
    /// What it keeps, as it said it.
    pub(in crate::recovery) keeps: Keeps,
}

impl NodeRecovery {
    /// What it can send to another, if it is a Galera node that may be chosen for that.
    pub(in crate::recovery) fn donor(&self) -> Option<Donor> {
        match self.kept {
            Kept::Galera { donor, may_donate: true, .. } => donor,
            _ => None,
        }
    }

    /// Whose history its data are of (Galera).
    pub(in crate::recovery) fn history(&self) -> Option<&str> {
        match &self.kept {
            Kept::Galera { history, .. } => history.as_deref(),
            Kept::Replication { .. } => None,
        }
    }
}

/// Asks every node, at the same time; each twice, `window` apart.
pub(in crate::recovery) async fn all(
    settings: &Settings,
    login: &Login,
    window: Duration,
) -> Vec<NodeFacts<NodeRecovery>> {
    asked::each(settings, async |address| {
        let mut link = Link::connect(address, login, DEADLINE).await?;
        let said = match settings.kind {
            Kind::Galera => member(&mut link, window).await?,
            Kind::Replication => server(&mut link, window).await?,
        };
        link.quit();
        Ok(said)
    })
    .await
}

/// The counters of one look at a Galera node.
struct Look {
    at: Instant,
    last_committed: u64,
    cached_downto: u64,
    bytes: u64,
    writesets: u64,
}

async fn member(link: &mut Link, window: Duration) -> Result<NodeRecovery, LinkError> {
    let keeps = keeps::read(Kind::Galera, link, true).await?;
    let before = link.query(STATUS, DEADLINE).await?;
    let first = look(&before)?;
    sleep(window).await;
    let status = link.query(STATUS, DEADLINE).await?;
    let last = look(&status)?;
    let elapsed_s = (last.at - first.at).as_secs_f64();
    let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / elapsed_s;
    let text = |name: &str| status.value_of(name).unwrap_or_default().to_owned();
    let donor = Donor {
        last_committed: last.last_committed,
        cached_downto: last.cached_downto,
        gcache_bytes: keeps.gcache_bytes.unwrap_or(0),
        is_dropping: last.cached_downto > first.cached_downto && first.cached_downto > 0,
        mean_bytes: (last.writesets > 0).then(|| last.bytes as f64 / last.writesets as f64),
    };
    Ok(NodeRecovery {
        state: text("wsrep_local_state_comment"),
        is_there: true,
        kept: Kept::Galera {
            position: i64::try_from(donor.last_committed).ok(),
            history: Some(text("wsrep_cluster_state_uuid")).filter(|uuid| !uuid.is_empty()),
            missed_bytes: None,
            donor: Some(donor),
            may_donate: text("wsrep_local_state") == SYNCED && text("wsrep_cluster_status") == "Primary",
        },
        writes: WriteRate {
            bytes_per_s: rate(first.bytes, last.bytes),
            transactions_per_s: rate(first.last_committed, last.last_committed),
        },
        keeps,
    })
}

/// The counters of an answer.
fn look(status: &Rows) -> Result<Look, LinkError> {
    let number = |name: &str| {
        let value = status.value_of(name).and_then(|text| text.parse::<u64>().ok());
        value.ok_or_else(|| {
            LinkError::Protocol(format!("it does not tell {name}: is it a Galera node, and is wsrep_on set?"))
        })
    };
    Ok(Look {
        at: Instant::now(),
        last_committed: number("wsrep_last_committed")?,
        cached_downto: number("wsrep_local_cached_downto")?,
        bytes: number("wsrep_replicated_bytes")? + number("wsrep_received_bytes")?,
        writesets: number("wsrep_replicated")? + number("wsrep_received")?,
    })
}

/// A primary, or a replica.
async fn server(link: &mut Link, window: Duration) -> Result<NodeRecovery, LinkError> {
    let keeps = keeps::read(Kind::Replication, link, true).await?;
    let (first, at) = (standing(link).await?, Instant::now());
    sleep(window).await;
    let later = keeps::read(Kind::Replication, link, false).await?;
    let last = standing(link).await?;
    let elapsed_s = at.elapsed().as_secs_f64();
    let grown = match (&keeps.binlogs, &later.binlogs) {
        (Some(earlier), Some(later)) => later.grown_since(earlier),
        _ => 0,
    };
    let transactions = match (&first.position, &last.position) {
        (Some(first), Some(last)) => first.behind_by(last).map_or(0, |gap| gap.total()),
        _ => 0,
    };
    let is_primary = last.channels.is_empty() && !last.read_only;
    let follows = last.channels.iter().any(|channel| channel.io_running);
    let state = match (is_primary, follows, last.channels.is_empty()) {
        (true, ..) => "primary",
        (_, true, _) => "replica",
        (_, _, false) => "not connected to its source",
        (..) => "follows nobody",
    };
    Ok(NodeRecovery {
        state: state.to_owned(),
        is_there: is_primary || follows,
        kept: Kept::Replication {
            binlogs: later.binlogs.clone().filter(|_| last.log_replica_updates || is_primary),
            position: last.position,
            is_primary,
            missed_bytes: 0,
        },
        writes: WriteRate {
            bytes_per_s: grown as f64 / elapsed_s,
            transactions_per_s: transactions as f64 / elapsed_s,
        },
        keeps,
    })
}

async fn standing(link: &mut Link) -> Result<ReplicationStatus, LinkError> {
    let dialect = Dialect::of(&link.greeting.version);
    let variables = link.query(sql::variables(dialect), DEADLINE).await?;
    let positions = link.query(sql::positions(dialect), DEADLINE).await?;
    let status = link.query(sql::status(dialect, false), DEADLINE).await?;
    let channels = link.query(sql::channels(dialect), DEADLINE).await?;
    Ok(ServerReading::read(&variables, &positions, &status, &channels).status)
}

//! What each Galera node says that decides how it, or another, comes back. Only reads; asked twice, so that rates are those of now.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows, Secret};
use measure::recovery::WriteRate;
use measure::recovery::galera::Donor;
use tokio::time::{Instant, sleep};

use crate::doctor::asked::{self, NodeFacts};
use crate::doctor::options::Options;
use crate::settings::Settings;

/// One statement, or a connection, may take this long.
const DEADLINE: Duration = Duration::from_secs(5);
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_state', 'wsrep_local_state_comment', 'wsrep_cluster_status', \
                      'wsrep_last_committed', 'wsrep_local_cached_downto', 'wsrep_replicated_bytes', 'wsrep_received_bytes')";
/// MariaDB 10.6 and later, MySQL 8; the older one's name second. Tablespaces that were not used since the start are missing from it.
const DATA: [&str; 2] = [
    "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_SYS_TABLESPACES",
    "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_TABLESPACES",
];
/// `wsrep_local_state` of a member that has everything.
const SYNCED: &str = "4";

/// What one node says.
#[derive(Clone, Debug)]
pub(in crate::commands::recovery) struct Said {
    /// `wsrep_local_state_comment`.
    pub(in crate::commands::recovery) state: String,
    /// What it has, and can send to another.
    pub(in crate::commands::recovery) donor: Donor,
    /// It is a member of the primary component and has everything: it may be chosen as a donor.
    pub(in crate::commands::recovery) may_donate: bool,
    /// What a node that is away would miss.
    pub(in crate::commands::recovery) writes: WriteRate,
    /// Its tablespaces, bytes; none when the account may not see them.
    pub(in crate::commands::recovery) data_bytes: Option<u64>,
}

/// The counters of one look.
struct Look {
    at: Instant,
    last_committed: u64,
    cached_downto: u64,
    bytes: u64,
}

/// Asks every node, at the same time; each twice, `window` apart.
pub(in crate::commands::recovery) async fn all(
    settings: &Settings,
    password: &str,
    window: Duration,
) -> Vec<NodeFacts<Said>> {
    let login = Login::new(settings.monitor.user.clone(), Secret::Password(password.to_owned()));
    asked::each(settings, |address| {
        let login = login.clone();
        async move { ask(&address, &login, window).await }
    })
    .await
}

async fn ask(address: &str, login: &Login, window: Duration) -> Result<Said, LinkError> {
    let mut link = Link::connect(address, login, DEADLINE).await?;
    let options =
        link.query("SHOW GLOBAL VARIABLES WHERE Variable_name = 'wsrep_provider_options'", DEADLINE).await?;
    let options = Options::parse(options.value_of("wsrep_provider_options").unwrap_or_default());
    let data_bytes = data(&mut link).await?;
    let before = link.query(STATUS, DEADLINE).await?;
    let first = look(&before)?;
    sleep(window).await;
    let status = link.query(STATUS, DEADLINE).await?;
    let last = look(&status)?;
    let elapsed_s = (last.at - first.at).as_secs_f64();
    let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / elapsed_s;
    let text = |name: &str| status.value_of(name).unwrap_or_default().to_owned();
    link.quit();
    Ok(Said {
        state: text("wsrep_local_state_comment"),
        donor: Donor {
            last_committed: last.last_committed,
            cached_downto: last.cached_downto,
            gcache_bytes: options.bytes("gcache.size").unwrap_or(0),
            is_dropping: last.cached_downto > first.cached_downto && first.cached_downto > 0,
        },
        may_donate: text("wsrep_local_state") == SYNCED && text("wsrep_cluster_status") == "Primary",
        writes: WriteRate {
            bytes_per_s: rate(first.bytes, last.bytes),
            transactions_per_s: rate(first.last_committed, last.last_committed),
        },
        data_bytes,
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
    })
}

/// How much a full copy would have to move; a node that does not tell it is no reason to give up.
async fn data(link: &mut Link) -> Result<Option<u64>, LinkError> {
    for query in DATA {
        match link.query(query, DEADLINE).await {
            Ok(rows) => return Ok(rows.text(0, 0).and_then(|text| text.parse().ok())),
            Err(LinkError::Rejected { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

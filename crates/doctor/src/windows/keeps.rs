//! Queries what a node retains for returning nodes, and how much data a full copy would transfer. Done from time to time, on a separate
//! connection that is closed at once. It only reads.
//!
//! | query | cost for the server |
//! |---|---|
//! | `wsrep_provider_options`, retention of binary logs | nothing |
//! | `SHOW BINARY LOGS` | looks up each file's size; it does not block commits |
//! | the sizes of the tablespaces known to it (needs PROCESS) | memory only, no table is opened; cancelled after 2 s, and not run on the active node when another one answers |

pub use api::recovery::Binlogs;
use std::time::Duration;

use link::{Link, LinkError, Login, Rows};
use topology::flavor::Flavor;
use topology::kind::Kind;
use topology::rules::variables::is_on;

use crate::options::Options;
use crate::read::provider_options;

/// The time limit of connecting, and of one statement.
pub const DEADLINE: Duration = Duration::from_secs(5);
const ER_CON_COUNT_ERROR: u16 = 1040;
/// A privilege is missing.
const ER_SPECIFIC_ACCESS_DENIED: u16 = 1227;
/// Tables with the tablespaces' sizes; tablespaces not used since the start are missing. The first name is MariaDB's and MySQL 5.7's, the
/// second that of MySQL 8.
const DATA: [&str; 2] =
    ["information_schema.INNODB_SYS_TABLESPACES", "information_schema.INNODB_TABLESPACES"];
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin','log_slave_updates',\
    'log_replica_updates','binlog_expire_logs_seconds','binlog_expire_logs_auto_purge','expire_logs_days','max_binlog_total_size',\
    'binlog_space_limit','wsrep_sst_method')";

/// What a node retains.
#[derive(Clone, Debug, Default)]
pub struct Keeps {
    /// `gcache.size`, in bytes; for a Galera node.
    pub gcache_bytes: Option<u64>,
    /// `wsrep_sst_method`, by which it would request a full copy; for a Galera node.
    pub sst_method: Option<String>,
    /// Its binary logs, if they include replicated transactions; for a primary or a replica.
    pub binlogs: Option<Binlogs>,
    /// The size of its tablespaces, in bytes; `None` when that was not queried, or not permitted.
    pub data_bytes: Option<u64>,
    /// The size is not permitted: the account has no PROCESS.
    pub is_data_hidden: bool,
}

/// Queries a node, on a new connection.
///
/// # Errors
/// When it does not answer, refuses the account, or has no spare connection: the last one is left to other clients.
pub async fn ask(kind: Kind, address: &str, login: &Login, with_data: bool) -> Result<Keeps, LinkError> {
    let mut link = Link::connect(address, login, DEADLINE).await?;
    if manager::rival::is_crowded(&mut link).await? {
        link.quit();
        let message = "all connections are used".to_owned();
        return Err(LinkError::Rejected { errno: ER_CON_COUNT_ERROR, state: *b"08004", message });
    }
    let keeps = read(kind, &mut link, with_data).await?;
    link.quit();
    Ok(keeps)
}

/// Queries a node, on this connection.
///
/// # Errors
/// When it does not answer.
pub async fn read(kind: Kind, link: &mut Link, with_data: bool) -> Result<Keeps, LinkError> {
    let variables = link.query(VARIABLES, DEADLINE).await?;
    let binlogs = match kind {
        Kind::Galera => None,
        Kind::Replication => binlogs(link, &variables).await?,
    };
    let provider = match kind {
        Kind::Galera => provider_options(link, DEADLINE).await?.map(|options| Options::parse(&options)),
        Kind::Replication => None,
    };
    let (data_bytes, is_data_hidden) = if with_data { data(link).await? } else { (None, false) };
    Ok(Keeps {
        gcache_bytes: provider.and_then(|options| options.bytes("gcache.size")),
        sst_method: variables.value_of("wsrep_sst_method").map(str::to_owned),
        binlogs,
        data_bytes,
        is_data_hidden,
    })
}

async fn binlogs(link: &mut Link, variables: &Rows) -> Result<Option<Binlogs>, LinkError> {
    if !variables.value_of("log_bin").is_some_and(is_on) {
        return Ok(None);
    }
    let mut binlogs = retention(|name| variables.value_of(name));
    let listed = link.query_unless_rejected(topology::preflight::sql::BINLOGS, DEADLINE).await?;
    let Some(rows) = listed else { return Ok(Some(Binlogs { is_hidden: true, ..binlogs })) };
    let file = |row| Some((rows.text(row, 0)?.to_owned(), rows.text(row, 1)?.parse().ok()?));
    binlogs.files = (0..rows.len()).filter_map(file).collect();
    binlogs.bytes = binlogs.files.iter().map(|(_, bytes)| *bytes).sum();
    binlogs.newest_bytes = binlogs.files.last().map_or(0, |(_, bytes)| *bytes);
    binlogs.oldest = binlogs.files.first().map(|(name, _)| name.clone());
    binlogs.purged = manager::purged(link, DEADLINE).await?.map(|purged| purged.to_string());
    Ok(Some(binlogs))
}

/// The limits by age and size; the caller fills in the rest.
fn retention<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Binlogs {
    // MariaDB has decimals in expire_logs_days; for each of these variables 0 means no limit.
    let number = |name: &str| value(name)?.parse::<f64>().ok().filter(|number| *number > 0.0);
    let seconds =
        number("binlog_expire_logs_seconds").or_else(|| Some(number("expire_logs_days")? * 86_400.0));
    let is_purged =
        value("binlog_expire_logs_auto_purge").is_none_or(|value| !value.eq_ignore_ascii_case("off"));
    Binlogs {
        age_max_s: seconds.filter(|_| is_purged).map(|seconds| seconds as u64),
        bytes_max: number("max_binlog_total_size")
            .or_else(|| number("binlog_space_limit"))
            .map(|bytes| bytes as u64),
        ..Binlogs::default()
    }
}

/// The size of the tablespaces, and whether the privilege for it is missing. A query that the server cancels after its 2 s is not an error.
async fn data(link: &mut Link) -> Result<(Option<u64>, bool), LinkError> {
    let mut is_hidden = false;
    for table in DATA {
        let query = match Flavor::of(&link.greeting.version) {
            Flavor::MariaDb => {
                format!("SET STATEMENT max_statement_time = 2 FOR SELECT SUM(FILE_SIZE) FROM {table}")
            }
            Flavor::MySql => format!("SELECT /*+ MAX_EXECUTION_TIME(2000) */ SUM(FILE_SIZE) FROM {table}"),
        };
        match link.query(&query, DEADLINE).await {
            Ok(rows) => return Ok((rows.text(0, 0).and_then(|text| text.parse().ok()), false)),
            Err(LinkError::Rejected { errno, .. }) => is_hidden |= errno == ER_SPECIFIC_ACCESS_DENIED,
            Err(error) => return Err(error),
        }
    }
    Ok((None, is_hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among<'a>(pairs: &'a [(&str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    #[test]
    fn each_server_says_for_how_long_in_its_own_words() {
        let of = |pairs: &[(&str, &str)]| {
            let binlogs = retention(among(pairs));
            (binlogs.age_max_s, binlogs.bytes_max)
        };
        let mariadb = [
            ("binlog_expire_logs_seconds", "864000"),
            ("expire_logs_days", "10.000000"),
            ("max_binlog_total_size", "0"),
        ];
        assert_eq!(of(&mariadb), (Some(864_000), None));
        assert_eq!(of(&[("expire_logs_days", "0.5")]), (Some(43_200), None));
        assert_eq!(
            of(&[("binlog_expire_logs_seconds", "0"), ("expire_logs_days", "0.000000")]),
            (None, None)
        );
        assert_eq!(of(&[("max_binlog_total_size", "4294967296")]), (None, Some(1 << 32)));
        let never = [("binlog_expire_logs_seconds", "2592000"), ("binlog_expire_logs_auto_purge", "OFF")];
        assert_eq!(of(&never), (None, None));
    }

    #[test]
    fn what_was_written_between_two_looks() {
        let of = |files: &[(&str, u64)]| Binlogs {
            bytes: files.iter().map(|(_, bytes)| bytes).sum(),
            files: files.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect(),
            ..Binlogs::default()
        };
        let first = of(&[("b.1", 100), ("b.2", 40)]);
        assert_eq!(of(&[("b.1", 100), ("b.2", 70)]).grown_since(&first), 30);
        assert_eq!(of(&[("b.2", 100), ("b.3", 5)]).grown_since(&first), 65);
        assert_eq!(of(&[("b.7", 9)]).grown_since(&first), 9, "its file is gone");
        assert_eq!(first.grown_since(&first), 0);
    }
}

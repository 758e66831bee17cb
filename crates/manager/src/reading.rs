//! The questions of a probe, by the configured kind of the cluster, and how the answers are read.
//!
//! A node of another kind answers, too: its status (wsrep_on) shows that, and the rules of the configured kind find it.

use std::time::Duration;

use link::{Link, LinkError, Rows};
use measure::sample::{self, Counters};
use protocol::gtid::Position;
use topology::flavor::Dialect;
use topology::galera;
use topology::kind::Kind;
use topology::replication::{self, Channel, ReplicationStatus};
use topology::session_defaults::login_status;

/// A node's answer.
#[derive(Debug)]
pub(crate) enum Reading {
    Galera(galera::GaleraStatus),
    Replication(ServerReading),
}

/// An answer, with its counters if a sample was wanted.
#[derive(Debug)]
pub(crate) struct ProbeAnswer {
    pub reading: Reading,
    pub counters: Option<Counters>,
    /// The status flags that a login begins with now; `None` where the server does not say.
    pub login_status: Option<u16>,
    /// See [`topology::routes::Lane::shows_sessions`]; asked for with each sample, else `None`.
    pub shows_sessions: Option<bool>,
}

/// The answer of a server of a primary-replica setup.
#[derive(Clone, Debug, Default)]
pub struct ServerReading {
    /// Its status, with its sources by the addresses that it uses.
    pub status: ReplicationStatus,
    /// For each source that is connected: the address that the server uses, and its server_id.
    pub(crate) sources: Vec<(String, u32)>,
}

impl ServerReading {
    /// Reads the answers to [`replication::sql::variables`], [`replication::sql::positions`] and
    /// [`replication::sql::status`], and one row for each channel.
    pub fn read(variables: &Rows, positions: &Rows, status: &Rows, channel_rows: &Rows) -> Self {
        let channels = channels(channel_rows);
        let sources = sources(channel_rows, &channels);
        let status = replication::status::read(
            |name| variables.value_of(name).or_else(|| positions.text(0, positions.column(name)?)),
            |name| status.value_of(name),
            channels,
        );
        Self { status, sources }
    }
}

/// Checks a new link before it is reported: whether the questions of a probe can be asked on it.
///
/// # Errors
/// Reported as a refused login: the account may not ask what a probe has to ask, or the server's family is not supported.
pub(crate) async fn admit(kind: Kind, link: &mut Link, deadline: Duration) -> Result<(), LinkError> {
    if kind == Kind::Galera {
        return Ok(());
    }
    let rejected = |message| LinkError::Rejected { errno: ER_NOT_SUPPORTED_YET, state: *b"42000", message };
    Dialect::admit(&link.greeting.version).map_err(rejected)?;
    channel_rows(link, deadline).await.map(drop)
}

/// ER_NOT_SUPPORTED_YET.
pub(crate) const ER_NOT_SUPPORTED_YET: u16 = 1235;

/// Asks for the status. With `is_sampled` the question includes the counters, so that one answer serves both.
pub(crate) async fn ask(
    kind: Kind,
    link: &mut Link,
    deadline: Duration,
    is_sampled: bool,
) -> Result<ProbeAnswer, LinkError> {
    match kind {
        Kind::Galera => {
            let question = if is_sampled { galera::sql::STATUS_COUNTED } else { galera::sql::STATUS };
            let status = link.query(question, deadline).await?;
            let variables = link.query(galera::sql::VARIABLES, deadline).await?;
            let said = galera::read(|name| status.value_of(name), |name| variables.value_of(name));
            let counters = is_sampled.then(|| Counters::read_galera(|name| status.value_of(name)));
            let login_status = login_status(|name| variables.value_of(name));
            Ok(ProbeAnswer { reading: Reading::Galera(said), counters, login_status, shows_sessions: None })
        }
        Kind::Replication => {
            let dialect = Dialect::of(&link.greeting.version);
            let variables = link.query(replication::sql::variables(dialect), deadline).await?;
            let positions = link.query(replication::sql::positions(dialect), deadline).await?;
            let status = link.query(replication::sql::status(dialect, is_sampled), deadline).await?;
            let rows = channel_rows(link, deadline).await?;
            let mut standing = ServerReading::read(&variables, &positions, &status, &rows);
            let heard = replication::sql::heard(dialect).filter(|_| !rows.is_empty());
            if let Some(question) = heard
                && let Some(heard) = link.query_unless_rejected(question, deadline).await?
            {
                note_heard(&mut standing.status.channels, &heard);
            }
            let shows_sessions = match replication::sql::shows_sessions(dialect).filter(|_| is_sampled) {
                Some(question) => {
                    let answer = link.query_unless_rejected(&question, deadline).await?;
                    Some(answer.is_some_and(|rows| rows.text(0, 0) == Some("1")))
                }
                None => None,
            };
            let counters = is_sampled.then(|| Counters {
                replication: Some(replication_counters(&standing.status, &rows)),
                ..Counters::read(|name| status.value_of(name))
            });
            let login_status = login_status(|name| variables.value_of(name));
            Ok(ProbeAnswer {
                reading: Reading::Replication(standing),
                counters,
                login_status,
                shows_sessions,
            })
        }
    }
}

/// The replication values of a sample. With several sources: those of the one that is furthest behind, and the sum of what they sent.
fn replication_counters(status: &ReplicationStatus, rows: &Rows) -> sample::Replication {
    let received = status.channels.iter().filter_map(Channel::received).map(|received| count(&received));
    let relay = |row| rows.text(row, rows.column("Relay_Log_Space")?)?.parse::<u64>().ok();
    let all =
        |runs: fn(&Channel) -> bool| (!status.channels.is_empty()).then(|| status.channels.iter().all(runs));
    sample::Replication {
        applied: status.position.as_ref().map(count),
        received: received.reduce(u64::saturating_add),
        lag_s: status.channels.iter().filter_map(|channel| channel.lag_s).max(),
        io_running: all(|channel| channel.io_running),
        sql_running: all(|channel| channel.sql_running),
        relay_log_bytes: (0..rows.len()).filter_map(relay).reduce(u64::saturating_add),
    }
}

/// The number of transactions in a position: exact for MySQL; for MariaDB, the sum of the domains' sequence numbers.
fn count(position: &Position) -> u64 {
    match position {
        Position::MariaDb(position) => {
            position.gtids().map(|gtid| gtid.sequence).fold(0, u64::saturating_add)
        }
        Position::MySql(set) => u64::try_from(set.count()).unwrap_or(u64::MAX),
    }
}

/// One row for each channel.
pub async fn channel_rows(link: &mut Link, deadline: Duration) -> Result<Rows, LinkError> {
    let dialect = Dialect::of(&link.greeting.version);
    link.query(replication::sql::channels(dialect), deadline).await
}

/// The channels in those rows. An IPv6 address is in brackets, as in configurations.
pub fn channels(rows: &Rows) -> Vec<Channel> {
    (0..rows.len())
        .map(|row| {
            let value = |name: &str| rows.text(row, rows.column(name)?);
            let mut channel = replication::channel(value);
            if let Some((host, port)) = channel.source.rsplit_once(':')
                && host.contains(':')
            {
                channel.source = format!("[{host}]:{port}");
            }
            channel
        })
        .collect()
}

/// Adds what the rows of [`replication::sql::heard`] say.
fn note_heard(channels: &mut [Channel], heard: &Rows) {
    for row in 0..heard.len() {
        let number = |column| heard.text(row, column)?.parse::<u64>().ok();
        let channel = channels.iter_mut().find(|channel| Some(&*channel.name) == heard.text(row, 0));
        if let (Some(channel), Some(heartbeat_ms), Some(ago_ms)) = (channel, number(1), number(2)) {
            channel.heard(heartbeat_ms, ago_ms);
        }
    }
}

fn sources(rows: &Rows, channels: &[Channel]) -> Vec<(String, u32)> {
    let column = || rows.column("Source_Server_Id").or_else(|| rows.column("Master_Server_Id"));
    let server = |row| rows.text(row, column()?)?.parse().ok();
    let connected = channels.iter().enumerate().filter(|(_, channel)| channel.io_running);
    connected.filter_map(|(row, channel)| Some((channel.source.clone(), server(row)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &[&str], values: &[&str]) -> Rows {
        Rows {
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: vec![values.iter().map(|value| Some(value.as_bytes().to_vec())).collect()],
            ..Rows::default()
        }
    }

    #[test]
    fn a_source_is_named_as_the_configuration_names_it() {
        let columns = ["Master_Host", "Master_Port", "Slave_IO_Running", "Master_Server_Id"];
        let rows = rows(&columns, &["fd00::1", "3306", "Yes", "7"]);
        let channels = channels(&rows);
        assert_eq!(channels[0].source, "[fd00::1]:3306");
        assert_eq!(sources(&rows, &channels), [("[fd00::1]:3306".to_owned(), 7)]);
    }

    #[test]
    fn who_is_not_connected_does_not_know_whom_its_source_is() {
        let columns = ["Master_Host", "Master_Port", "Slave_IO_Running", "Master_Server_Id"];
        let rows = rows(&columns, &["db1", "3306", "Connecting", "7"]);
        assert!(sources(&rows, &channels(&rows)).is_empty());
    }
}

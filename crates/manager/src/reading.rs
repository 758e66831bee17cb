//! What a probe asks a node, by the kind of the cluster that the node is said to be of, and how the answers are read.
//!
//! A node of another kind answers, too: its words (wsrep_on) say so, and the rules of the kind speak against it.

use std::time::Duration;

use link::{Link, LinkError, Rows};
use topology::flavor::Flavor;
use topology::galera;
use topology::kind::Kind;
use topology::replication::{self, Channel, ReplicationStatus};

/// What a node said of itself.
#[derive(Debug)]
pub(crate) enum Reading {
    Galera(galera::Reading),
    Replication(Standing),
}

/// What a server of a primary-replica setup said.
#[derive(Debug)]
pub(crate) struct Standing {
    pub status: ReplicationStatus,
    /// Of each source that is connected, the address by which the server knows it, and its server_id.
    pub sources: Vec<(String, u32)>,
}

/// Before a fresh link is told of: what must be possible on it.
///
/// # Errors
/// As a refused login, when the account may not ask what a probe has to ask, or the server is of a family that is not spoken here.
pub(crate) async fn admit(kind: Kind, link: &mut Link, deadline: Duration) -> Result<(), LinkError> {
    if kind == Kind::Galera {
        return Ok(());
    }
    let version = &link.greeting.version;
    if Flavor::of(version) != Flavor::MariaDb {
        return Err(LinkError::Rejected {
            errno: ER_NOT_SUPPORTED_YET,
            state: *b"42000",
            message: format!("{version} is not MariaDB, and cluster.kind = \"replication\" runs no other"),
        });
    }
    channel_rows(link, deadline).await.map(drop)
}

/// ER_NOT_SUPPORTED_YET.
pub(crate) const ER_NOT_SUPPORTED_YET: u16 = 1235;

/// Asks for the status.
pub(crate) async fn ask(kind: Kind, link: &mut Link, deadline: Duration) -> Result<Reading, LinkError> {
    match kind {
        Kind::Galera => {
            let status = link.query(galera::sql::STATUS, deadline).await?;
            let variables = link.query(galera::sql::VARIABLES, deadline).await?;
            let reading = galera::read(|name| status.value_of(name), |name| variables.value_of(name));
            Ok(Reading::Galera(reading))
        }
        Kind::Replication => {
            let variables = link.query(replication::sql::VARIABLES, deadline).await?;
            let status = link.query(replication::sql::STATUS, deadline).await?;
            let rows = channel_rows(link, deadline).await?;
            let channels = channels(&rows);
            let sources = sources(&rows, &channels);
            let status = replication::status::read(
                |name| variables.value_of(name),
                |name| status.value_of(name),
                channels,
            );
            Ok(Reading::Replication(Standing { status, sources }))
        }
    }
}

/// One row for each source.
pub(crate) async fn channel_rows(link: &mut Link, deadline: Duration) -> Result<Rows, LinkError> {
    let [statement, ..] = Flavor::MariaDb.replication() else { return Ok(Rows::default()) };
    link.query(statement, deadline).await
}

/// The sources that those rows tell of. An IPv6 address is in brackets, as configurations have it.
pub(crate) fn channels(rows: &Rows) -> Vec<Channel> {
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

fn sources(rows: &Rows, channels: &[Channel]) -> Vec<(String, u32)> {
    let server = |row| rows.text(row, rows.column("Master_Server_Id")?)?.parse().ok();
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

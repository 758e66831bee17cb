//! `ndbinfo.restart_info` of a running SQL node.

use std::path::Path;
use std::time::Duration;

use link::{Link, LinkError};
use ndb::restart_info::{Row, TIMES};

use cli::exit::Failure;
use mycnf::Options;
use nodecheck::account::password;
use nodecheck::database::{Database, system_user};

/// For connecting, and again for the answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const PASSWORD_ENV: &str = "UNDERSTUDY_PASSWORD";
/// The server has no such database, table or column: it is no SQL node of an NDB Cluster, or its ndbinfo is older than 7.4.
const NOT_THERE: [u16; 4] = [1049, 1051, 1054, 1146];

/// Where, and as whom: `mysql://[USER@]HOST[:PORT]`.
#[derive(Debug, PartialEq, Eq)]
struct Dsn {
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

impl Dsn {
    fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("mysql://").unwrap_or(text).trim_end_matches('/');
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        if user.is_some_and(|user| user.contains(':')) {
            return Err("a password on the command line can be seen by everybody on this machine: use --password-file or UNDERSTUDY_PASSWORD".to_owned());
        }
        let (host, port) = match place.rsplit_once(':') {
            // An IPv6 address stands in brackets.
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, Some(port.ok_or("--ndbinfo: the port is a number from 1 to 65535")?))
            }
            _ => (place, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '@']) {
            return Err("--ndbinfo: a server is named as mysql://[USER@]HOST[:PORT]".to_owned());
        }
        Ok(Self { user: user.map(str::to_owned), host: host.to_owned(), port })
    }
}

/// Asks a server.
pub(super) fn rows(dsn: &str, password_file: Option<&Path>) -> Result<Vec<Row>, Failure> {
    let dsn = Dsn::parse(dsn).map_err(Failure::Usage)?;
    let said = Options {
        user: dsn.user,
        password: password(password_file, PASSWORD_ENV)?,
        host: Some(dsn.host),
        port: dsn.port,
        socket: None,
        is_tcp: true,
        ..Options::default()
    };
    let database = Database::of(said.or(Options::standard(None).map_err(Failure::usage)?), system_user)?;
    let place = database.whereabouts.now().clone();
    let login = database.login;
    cli::runtime::start()?.block_on(async {
        let mut link = Link::connect_to(&place, &login, ANSWER_MAX)
            .await
            .map_err(|e| Failure::Failed(format!("the server of --ndbinfo cannot be asked: {e}")))?;
        let sql = format!("SELECT node_id, node_restart_status, {} FROM ndbinfo.restart_info ORDER BY node_id", TIMES.join(", "));
        let answer = link.query(&sql, ANSWER_MAX).await.map_err(|error| match error {
            LinkError::Rejected { errno, ref message, .. } if NOT_THERE.contains(&errno) => Failure::usage(format!(
                "the server of --ndbinfo has no ndbinfo.restart_info ({message}): give an SQL node of an NDB Cluster of 7.4 or later"
            )),
            error => Failure::Failed(format!("the server of --ndbinfo did not answer: {error}")),
        })?;
        let rows = (0..answer.len()).map(|row| {
            let cell = |name: &str| answer.text(row, answer.column(name)?).map(str::to_owned);
            Row::of(cell).map_err(|column| Failure::Failed(format!("the server of --ndbinfo gave no number for {column}")))
        });
        rows.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_without_a_password() {
        let dsn = |user: Option<&str>, host: &str, port| {
            Ok(Dsn { user: user.map(Into::into), host: host.into(), port })
        };
        assert_eq!(Dsn::parse("mysql://db1"), dsn(None, "db1", None));
        assert_eq!(Dsn::parse("mysql://app@[::1]:3307"), dsn(Some("app"), "::1", Some(3307)));
        assert_eq!(Dsn::parse("mysql://app@10.0.0.1:3306/"), dsn(Some("app"), "10.0.0.1", Some(3306)));
        for wrong in ["mysql://", "mysql://a:b@db1", "mysql://db1:0", "mysql://db1:x", "mysql://db1/x"] {
            assert!(Dsn::parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! Reads on replicas: how a session sees its own writes there, and never goes back in time.
//!
//! One policy: before a session reads on a server, that server has applied a position that contains all that the session has written or seen;
//! until then the session waits there ([`CatchUp::on`]). Two doors lead to replicas, and they differ in how that position is known:
//!
//! | door | the position | where it is known from | when it is not reached in time |
//! |---|---|---|---|
//! | the port for reads: `listen.read`, [`port`] | the primary's, reported after the session left its former server | the manager's probes ([`topology::reads::Reached`]) | the next server |
//! | the port for everything: `listen.split`, [`replicas`] and `driver/side.rs` | the GTID of the session's last write, or the primary's position | the primary's answers on the session's own link (`session::split::Need`) | the primary runs the read |
//!
//! On the port for reads a session that stays on its server need not wait: that server cannot fall behind itself. In a Galera cluster every
//! server can wait for what the group had, and nobody asks the primary ([`CatchUp::Group`]).

pub mod port;
pub mod replicas;

use std::sync::Arc;
use std::time::Duration;

use link::{Link, LinkError};
use topology::flavor::Dialect;
use topology::replication::sql;

/// How long a session waits for a node to apply what the group has, before it tries another.
const GROUP_TIME: Duration = Duration::from_secs(5);
/// A node's answer that it has not reached a position may come this late.
const GRACE: Duration = Duration::from_millis(500);
/// Waits until the node has applied all that the group had when it was asked.
const GROUP_READ: &str = "SET STATEMENT wsrep_sync_wait=1 FOR SELECT 1";

/// What a session waits for on a new server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// Nothing.
    No,
    /// What the group had.
    Group,
    /// This GTID position, for at most this long.
    Position(Arc<str>, Duration),
}

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The server has everything.
    Reached,
    /// It has not, after the whole time.
    Late,
    /// Something else ended the wait: a limit of the session's own, or a position that this server does not understand.
    Ended,
}

impl CatchUp {
    /// Waits on that server.
    pub async fn on(&self, link: &mut Link) -> Result<Waited, LinkError> {
        let (position, within) = match self {
            Self::No => return Ok(Waited::Reached),
            Self::Group => return link.query(GROUP_READ, GROUP_TIME).await.map(|_| Waited::Reached),
            Self::Position(position, within) => (position, *within),
        };
        let dialect = Dialect::of(&link.greeting.version);
        let Some(question) = sql::wait_for(dialect, position, within.as_secs_f64()) else {
            return Ok(Waited::Ended);
        };
        let rows = link.query(&question, within + GRACE).await?;
        Ok(match rows.text(0, 0) {
            Some("0") => Waited::Reached,
            // MariaDB says -1, MySQL 1.
            Some("-1" | "1") => Waited::Late,
            _ => Waited::Ended,
        })
    }
}

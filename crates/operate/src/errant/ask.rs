//! The SQL for errant transactions: queries and changes, with a sentence for each error.
//!
//! All SQL of this area is here. Queries need BINLOG MONITOR; undoing also needs BINLOG ADMIN, BINLOG REPLAY, RELOAD, REPLICATION SLAVE
//! ADMIN and READ_ONLY ADMIN. Nothing needs SUPER.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows};
use protocol::gtid::mariadb::{Position, State};
use topology::flavor::Flavor;
use topology::replication::{Channel, channel};

use cli::exit::Failure;
use settings::{Node, Settings, table as t};

/// The least time limit of connecting; otherwise as long as the manager waits for a silent node.
const CONNECT_TIME_MIN: Duration = Duration::from_secs(1);
/// The time limit of a query.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// The time limit of undoing a statement, and of deleting binlogs.
const ORDER_TIME_MAX: Duration = Duration::from_secs(600);
/// The required settings of the server: undoing must stop at the first error, and must run no triggers.
const EXACT: [(&str, &str); 3] =
    [("slave_exec_mode", "STRICT"), ("slave_skip_errors", "OFF"), ("slave_run_triggers_for_rbr", "NO")];
/// The named lock that is held on a server while its errant transactions are processed.
const LOCK: &str = "understudy_errant";

/// A connection to a server.
pub struct Server {
    /// Its name in the configuration.
    pub name: String,
    /// Its address there.
    pub address: String,
    user: String,
    link: Link,
}

/// A server's replication position and related settings.
#[derive(Clone, Debug)]
pub struct GtidState {
    /// `gtid_binlog_state`, in the server's text.
    pub binlog_state: String,
    /// `server_id`.
    pub server_id: u32,
    /// All GTIDs that it has: those in its binlog, and those it applied as a replica.
    pub has: State,
    /// `gtid_slave_pos`.
    pub slave_pos: Position,
    /// `read_only`.
    pub read_only: bool,
    /// `gtid_strict_mode`.
    pub strict: bool,
    /// `max_allowed_packet`, in bytes.
    pub packet_bytes_max: usize,
}

impl Server {
    /// Connects with the monitor's account.
    pub async fn connect(settings: &Settings, node: &Node, login: &Login) -> Result<Self, Failure> {
        // The same time limit as in the manager.
        let within =
            CONNECT_TIME_MIN.max(settings.get(&t::MONITOR_INTERVAL) * settings.get(&t::MONITOR_MISSES));
        let link = Link::connect(&node.address, login, within).await;
        let link = link.map_err(|error| {
            Failure::Failed(format!("{} ({}) cannot be asked: {error}", node.name, node.address))
        })?;
        if Flavor::of(&link.greeting.version) == Flavor::MySql {
            let why = "is MySQL, and `understudy errant` reads MariaDB's binlogs only: `understudy status` shows the exact set, and docs/replication.md \
                       (MySQL) how it is kept or given up";
            return Err(Failure::Failed(format!("{} ({}) {why}", node.name, node.address)));
        }
        let mut server =
            Self { name: node.name.clone(), address: node.address.clone(), user: login.user.clone(), link };
        // The string literals below are escaped for this mode.
        server.ask("SET SESSION sql_mode = ''").await?;
        Ok(server)
    }

    async fn within(&mut self, statement: &str, limit: Duration) -> Result<Rows, Failure> {
        let answer = self.link.query(statement, limit).await;
        answer.map_err(|error| Failure::Failed(self.explain(&error)))
    }

    async fn ask(&mut self, statement: &str) -> Result<Rows, Failure> {
        self.within(statement, ANSWER_TIME_MAX).await
    }

    /// Runs a statement that may take long.
    pub async fn order(&mut self, statement: &str) -> Result<Rows, Failure> {
        self.within(statement, ORDER_TIME_MAX).await
    }

    fn explain(&self, error: &LinkError) -> String {
        let Self { name, user, .. } = self;
        match error {
            LinkError::Rejected { errno: 1227, message, .. } => format!(
                "{name} does not let {user} do this: {message}; run on the primary: GRANT BINLOG MONITOR, BINLOG ADMIN, BINLOG REPLAY, RELOAD, \
                 REPLICATION SLAVE ADMIN, READ_ONLY ADMIN ON *.* TO '{user}'@'%'"
            ),
            other => format!("{name}: {other}"),
        }
    }

    /// Reads its position and settings.
    pub async fn standing(&mut self) -> Result<GtidState, Failure> {
        let rows = self
            .ask(concat!(
                "SELECT @@GLOBAL.gtid_binlog_state, @@GLOBAL.gtid_slave_pos, @@GLOBAL.gtid_current_pos, ",
                topology::is_read_only!(),
                ", @@GLOBAL.gtid_strict_mode, @@GLOBAL.max_allowed_packet, @@GLOBAL.server_id"
            ))
            .await?;
        let text = |column| rows.text(0, column).unwrap_or_default();
        let unread = |what: &str| Failure::Failed(format!("{}: its {what} cannot be read", self.name));
        let mut has: State = text(0).parse().map_err(|_| unread("gtid_binlog_state"))?;
        let slave_pos: Position = text(1).parse().map_err(|_| unread("gtid_slave_pos"))?;
        let current: Position = text(2).parse().map_err(|_| unread("gtid_current_pos"))?;
        has.add_position(&slave_pos);
        has.add_position(&current);
        Ok(GtidState {
            binlog_state: text(0).to_owned(),
            server_id: text(6).parse().unwrap_or(0),
            has,
            slave_pos,
            read_only: text(3) != "0",
            strict: text(4) != "0",
            packet_bytes_max: text(5).parse().unwrap_or(1 << 24),
        })
    }

    /// Its replication channels.
    pub async fn channels(&mut self) -> Result<Vec<Channel>, Failure> {
        let rows = self.ask(Flavor::MariaDb.replication()[0]).await?;
        Ok((0..rows.len()).map(|row| channel(|name| rows.text(row, rows.column(name)?))).collect())
    }

    /// Its binlogs, oldest first, with their sizes in bytes.
    pub async fn binlogs(&mut self) -> Result<Vec<(String, u64)>, Failure> {
        let rows = self.ask("SHOW BINARY LOGS").await?;
        let binlog = |row| Some((rows.text(row, 0)?.to_owned(), rows.text(row, 1)?.parse().ok()?));
        Ok((0..rows.len()).filter_map(binlog).collect())
    }

    /// Settings that do not allow exact undoing, one sentence each.
    pub async fn loose_settings(&mut self) -> Result<Vec<String>, Failure> {
        let names: Vec<String> = EXACT.iter().map(|(name, _)| format!("@@GLOBAL.{name}")).collect();
        let rows = self.ask(&format!("SELECT {}", names.join(", "))).await?;
        let loose = EXACT.iter().enumerate().filter_map(|(column, (name, exact))| {
            let is = rows.text(0, column).unwrap_or_default();
            (!is.eq_ignore_ascii_case(exact))
                .then(|| format!("{name} is {is} there, and rows are put back exactly with {exact} only"))
        });
        Ok(loose.collect())
    }

    /// The GTIDs that were written before a binlog, from the list at its beginning.
    pub async fn before(&mut self, binlog: &str) -> Result<State, Failure> {
        let rows = self.ask(&format!("SHOW BINLOG EVENTS IN {} LIMIT 4", text(binlog))).await?;
        let found = (0..rows.len()).find(|row| rows.text(*row, 2) == Some("Gtid_list"));
        let list = found.and_then(|row| rows.text(row, 5)).map(|info| info.trim_matches(['[', ']']));
        let state = list.and_then(|list| list.parse().ok());
        state.ok_or_else(|| {
            Failure::Failed(format!("{}: {binlog} does not begin with a list of GTIDs", self.name))
        })
    }

    /// The connections that fetch its binlogs: their ids and hosts.
    pub async fn readers(&mut self) -> Result<Vec<(u64, String)>, Failure> {
        let query = "SELECT ID, HOST FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'";
        let rows = self.ask(query).await?;
        let reader = |row| Some((rows.text(row, 0)?.parse().ok()?, rows.text(row, 1)?.to_owned()));
        Ok((0..rows.len()).filter_map(reader).collect())
    }

    /// Kills the connections that fetch its binlogs: those of replicas that lost the connection and reconnected to another server stay
    /// until TCP gives up.
    pub async fn end_readers(&mut self) -> Result<(), Failure> {
        for (id, _) in self.readers().await? {
            match self.link.query(&format!("KILL {id}"), ANSWER_TIME_MAX).await {
                // ER_NO_SUCH_THREAD: it has ended already.
                Ok(_) | Err(LinkError::Rejected { errno: 1094, .. }) => {}
                Err(error) => return Err(Failure::Failed(self.explain(&error))),
            }
        }
        Ok(())
    }

    /// Takes the lock on its errant transactions; `false` when another connection has it. It is held as long as this connection is open.
    pub async fn lock(&mut self) -> Result<bool, Failure> {
        let rows = self.ask(&format!("SELECT GET_LOCK('{LOCK}', 0)")).await?;
        Ok(rows.text(0, 0) == Some("1"))
    }

    /// Foreign keys by which a change of one of these tables (`schema.table`) changes rows of another table without an event in the binlog.
    pub async fn cascades(&mut self, tables: &[String]) -> Result<Vec<String>, Failure> {
        if tables.is_empty() {
            return Ok(vec![]);
        }
        let list = tables.iter().map(|table| text(table)).collect::<Vec<_>>().join(",");
        let query = format!(
            "SELECT CONCAT(CONSTRAINT_SCHEMA, '.', TABLE_NAME, ' (', CONSTRAINT_NAME, ')') FROM information_schema.REFERENTIAL_CONSTRAINTS \
             WHERE CONCAT(UNIQUE_CONSTRAINT_SCHEMA, '.', REFERENCED_TABLE_NAME) IN ({list}) AND \
             (DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"
        );
        let rows = self.ask(&query).await?;
        Ok((0..rows.len()).filter_map(|row| rows.text(row, 0).map(str::to_owned)).collect())
    }

    /// Which of these tables (`schema.table`) are system-versioned.
    pub async fn versioned(&mut self, tables: &[String]) -> Result<Vec<String>, Failure> {
        if tables.is_empty() {
            return Ok(vec![]);
        }
        let list = tables.iter().map(|table| text(table)).collect::<Vec<_>>().join(",");
        let query = format!(
            "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES WHERE CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) IN ({list}) \
             AND TABLE_TYPE = 'SYSTEM VERSIONED'"
        );
        let rows = self.ask(&query).await?;
        Ok((0..rows.len()).filter_map(|row| rows.text(row, 0).map(str::to_owned)).collect())
    }

    /// Ends the connection.
    pub fn quit(self) {
        self.link.quit();
    }
}

/// The statement that removes all that the server wrote after `before` from its GTID state and sets its position to `position`; its binlogs
/// are deleted. It does nothing when the server has written since it reported `now`. It is one compound statement, which Understudy's own
/// orders to the server wait for; the position is set first, so that a server that crashes in between never replicates from an older one.
pub fn forget(now: &str, before: &State, position: &Position, strict: bool) -> String {
    let strict = u8::from(strict);
    format!(
        "BEGIN NOT ATOMIC \
         DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SET GLOBAL gtid_strict_mode = {strict}; RESIGNAL; END; \
         IF @@GLOBAL.gtid_binlog_state <> {} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'it was written meanwhile'; END IF; \
         STOP ALL SLAVES; RESET SLAVE ALL; \
         SET GLOBAL gtid_strict_mode = 0; SET GLOBAL gtid_slave_pos = {}; SET GLOBAL gtid_strict_mode = {strict}; \
         RESET MASTER; SET GLOBAL gtid_binlog_state = {}; END",
        text(now),
        text(&position.to_string()),
        text(&before.to_string())
    )
}

/// A string literal for an empty sql_mode.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_forgets_in_one_statement() {
        let statement = forget("0-1-9", &"0-1-3".parse().unwrap(), &"0-1-3".parse().unwrap(), true);
        let order = [
            "<> '0-1-9'",
            "STOP ALL SLAVES",
            "gtid_slave_pos = '0-1-3'",
            "RESET MASTER",
            "gtid_binlog_state = '0-1-3'",
        ];
        let at: Vec<_> = order.iter().map(|part| statement.find(part).unwrap()).collect();
        assert!(at.is_sorted(), "{statement}");
        assert_eq!(text(r"it's \"), r"'it''s \\'");
    }
}

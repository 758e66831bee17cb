//! What a server is asked and told, with the sentence for what goes wrong.
//!
//! All SQL of errant transactions is here. Questions need BINLOG MONITOR; undoing needs BINLOG ADMIN, BINLOG REPLAY, RELOAD, REPLICATION
//! SLAVE ADMIN and READ_ONLY ADMIN besides. None needs SUPER.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows, Secret};
use protocol::gtid::mariadb::{Position, State};
use topology::flavor::Flavor;
use topology::replication::{Channel, channel};

use crate::exit::Failure;
use crate::settings::{Node, Settings};

/// A connection may take as long as the manager waits for a silent node, and at least this long.
const CONNECT_TIME_MIN: Duration = Duration::from_secs(1);
/// A question may take this long.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Undoing a statement, or throwing binlogs away, may take this long.
const ORDER_TIME_MAX: Duration = Duration::from_secs(600);
/// What the server must be set to: rows that are put back are to end with the first error, and no trigger is to see them.
const EXACT: [(&str, &str); 3] =
    [("slave_exec_mode", "STRICT"), ("slave_skip_errors", "OFF"), ("slave_run_triggers_for_rbr", "NO")];
/// Held on a server while somebody works on its errant transactions.
const LOCK: &str = "understudy_errant";

/// A server that is asked.
pub struct Server {
    /// Its name in the configuration.
    pub name: String,
    /// Its address there.
    pub address: String,
    user: String,
    link: Link,
}

/// Where a server stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// `gtid_binlog_state`, as the server says it.
    pub binlog_state: String,
    /// All that it has applied: its binlog, and what it applied as a replica.
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
    pub async fn connect(settings: &Settings, node: &Node, password: &str) -> Result<Self, Failure> {
        let user = settings.monitor.user.clone();
        let login = Login::new(user.clone(), Secret::Password(password.to_owned()));
        // Who is silent for the manager is so here.
        let monitor = &settings.monitor;
        let within = CONNECT_TIME_MIN.max(monitor.interval * monitor.misses_max);
        let link = Link::connect(&node.address, &login, within).await;
        let link = link.map_err(|error| {
            Failure::Failed(format!("{} ({}) cannot be asked: {error}", node.name, node.address))
        })?;
        let mut server = Self { name: node.name.clone(), address: node.address.clone(), user, link };
        // Literals are written for this mode.
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

    /// Has it do something that may take its time.
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

    /// Where it stands.
    pub async fn standing(&mut self) -> Result<Standing, Failure> {
        let rows = self
            .ask(
                "SELECT @@GLOBAL.gtid_binlog_state, @@GLOBAL.gtid_slave_pos, @@GLOBAL.gtid_current_pos, @@GLOBAL.read_only, \
                 @@GLOBAL.gtid_strict_mode, @@GLOBAL.max_allowed_packet",
            )
            .await?;
        let text = |column| rows.text(0, column).unwrap_or_default();
        let unread = |what: &str| Failure::Failed(format!("{}: its {what} cannot be read", self.name));
        let mut has: State = text(0).parse().map_err(|_| unread("gtid_binlog_state"))?;
        let slave_pos: Position = text(1).parse().map_err(|_| unread("gtid_slave_pos"))?;
        let current: Position = text(2).parse().map_err(|_| unread("gtid_current_pos"))?;
        has.add_position(&slave_pos);
        has.add_position(&current);
        Ok(Standing {
            binlog_state: text(0).to_owned(),
            has,
            slave_pos,
            read_only: text(3) != "0",
            strict: text(4) != "0",
            packet_bytes_max: text(5).parse().unwrap_or(1 << 24),
        })
    }

    /// Its sources.
    pub async fn channels(&mut self) -> Result<Vec<Channel>, Failure> {
        let rows = self.ask(Flavor::MariaDb.replication()[0]).await?;
        Ok((0..rows.len()).map(|row| channel(|name| rows.text(row, rows.column(name)?))).collect())
    }

    /// Its binlogs, oldest first, and how many bytes each has.
    pub async fn binlogs(&mut self) -> Result<Vec<(String, u64)>, Failure> {
        let rows = self.ask("SHOW BINARY LOGS").await?;
        let binlog = |row| Some((rows.text(row, 0)?.to_owned(), rows.text(row, 1)?.parse().ok()?));
        Ok((0..rows.len()).filter_map(binlog).collect())
    }

    /// Settings under which rows are not put back exactly, one sentence each.
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

    /// What was written before a binlog, by its own head.
    pub async fn before(&mut self, binlog: &str) -> Result<State, Failure> {
        let rows = self.ask(&format!("SHOW BINLOG EVENTS IN {} LIMIT 4", text(binlog))).await?;
        let found = (0..rows.len()).find(|row| rows.text(*row, 2) == Some("Gtid_list"));
        let list = found.and_then(|row| rows.text(row, 5)).map(|info| info.trim_matches(['[', ']']));
        let state = list.and_then(|list| list.parse().ok());
        state.ok_or_else(|| {
            Failure::Failed(format!("{}: {binlog} does not begin with a list of GTIDs", self.name))
        })
    }

    /// Connections that fetch its binlogs: their ids, and from where they come.
    pub async fn readers(&mut self) -> Result<Vec<(u64, String)>, Failure> {
        let query = "SELECT ID, HOST FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'";
        let rows = self.ask(query).await?;
        let reader = |row| Some((rows.text(row, 0)?.parse().ok()?, rows.text(row, 1)?.to_owned()));
        Ok((0..rows.len()).filter_map(reader).collect())
    }

    /// Ends connections that fetch its binlogs: those of replicas that lost it and went elsewhere stay until the network gives them up.
    pub async fn end_readers(&mut self) -> Result<(), Failure> {
        for (id, _) in self.readers().await? {
            match self.link.query(&format!("KILL {id}"), ANSWER_TIME_MAX).await {
                // ER_NO_SUCH_THREAD: it has ended.
                Ok(_) | Err(LinkError::Rejected { errno: 1094, .. }) => {}
                Err(error) => return Err(Failure::Failed(self.explain(&error))),
            }
        }
        Ok(())
    }

    /// Whether nobody else works on its errant transactions; from then on nobody else can, as long as this connection lives.
    pub async fn lock(&mut self) -> Result<bool, Failure> {
        let rows = self.ask(&format!("SELECT GET_LOCK('{LOCK}', 0)")).await?;
        Ok(rows.text(0, 0) == Some("1"))
    }

    /// Foreign keys through which a change of one of these tables (`schema.table`) changes rows of another without the binlog's knowing.
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

    /// Those of these tables (`schema.table`) that are versioned.
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

/// The server forgets all that it wrote after `before`, and stands at `position`; its binlogs are thrown away. Nothing is done when it has
/// written since it said `now`. One statement, which Understudy's own orders to the server wait for; the position comes first, so that a
/// server that ends in the middle never follows from an older one.
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

//! Questions and commands of the proxy's own between a client's statements, in forms that leave unchanged what those left on the node:
//! warnings, ROW_COUNT(), FOUND_ROWS().

use std::time::Duration;

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::{OkPacket, TransactionState, status};
use protocol::response::End;
use protocol::statement::{Pins, Recalls, Sets};
use session::finish::NodeError;
use session::saving::LOSES;
use session::session::Session;
use session::wanted::{TRACK, Unnamed};
use topology::fact::ConnectFailure;

use super::{Backend, node_error, status_of};

/// A node may take this long to answer about one setting of the session.
const SETTING_TIME: Duration = Duration::from_secs(5);

impl Backend {
    /// Asks for the variables that no answer reported: each is set to its present value, which the node then reports. Unlike a SELECT, that
    /// leaves warnings and FOUND_ROWS() as they are, and ROW_COUNT() is as after the client's own SET. `alone`: the client's statement was
    /// a SET and nothing else.
    pub async fn ask_variables(&mut self, session: &mut Session, alone: bool) -> Result<(), ConnectFailure> {
        let names = self.standing.take_must_ask();
        let list: Vec<String> = names
            .iter()
            .map(|name| name.replace('`', "``"))
            .map(|name| format!("SESSION `{name}`=@@SESSION.`{name}`"))
            .collect();
        if !alone {
            self.standing.forget(Recalls::ROW_COUNT);
        }
        let are_told = self.reports(&format!("SET {}", list.join(",")), session, Unnamed::Expected).await?;
        // MariaDB 11.8 reports the character set alone when the collation is set, and would do so again: the value is read, which costs what
        // only the node remembers of the client's statement.
        for name in self.standing.take_must_ask() {
            self.standing.forget(LOSES);
            // An answer in a character set of two or four bytes.
            let value = self.one(&format!("SELECT @@SESSION.`{name}` LIMIT 1")).await?.replace('\0', "");
            session.wanted.has_read(&name, value.as_bytes(), &mut self.standing);
        }
        self.standing.has_answered();
        if !are_told {
            // One of them has a value that cannot be set, so it cannot be set on another node.
            self.standing.forget(Recalls::ROW_COUNT.union(Recalls::WARNINGS));
            self.standing.pin(Pins::UNNAMED);
        }
        Ok(())
    }

    /// Changes the default schema; returns the node's error, if there is one. `schema` is in UTF-8, and the node reads it in the character set that the
    /// session's statements are in.
    pub async fn use_schema(&mut self, schema: &[u8]) -> Result<Option<NodeError>, ConnectFailure> {
        if schema.is_ascii() {
            return self.init_db(schema).await;
        }
        // The session's own limit may be 0, and its answers in a character set of two or four bytes.
        let of_statements = self.one("SELECT @@character_set_client LIMIT 1").await?.replace('\0', "");
        self.one("SET character_set_client = utf8mb4").await?;
        let used = self.init_db(schema).await?;
        self.one(&format!("SET character_set_client = {of_statements}")).await?;
        Ok(used)
    }

    /// The same for the session's own schema, and notes whether the link lacks it.
    pub async fn enter_schema(&mut self, schema: &[u8]) -> Result<Option<NodeError>, ConnectFailure> {
        let error = self.use_schema(schema).await?;
        self.standing.set_lacks_schema(error.is_some());
        Ok(error)
    }

    async fn init_db(&mut self, schema: &[u8]) -> Result<Option<NodeError>, ConnectFailure> {
        let (end, payload) = self.ask(Command::INIT_DB, schema).await?;
        Ok(matches!(end, End::Err { .. }).then(|| node_error(&payload)))
    }

    /// The first value of an answer; empty if it has none. A node that refuses cannot be used.
    async fn one(&mut self, sql: &str) -> Result<String, ConnectFailure> {
        match self.query(sql, SETTING_TIME).await? {
            Some(rows) => Ok(rows.text(0, 0).unwrap_or_default().to_owned()),
            None => Err(ConnectFailure::Protocol { what: format!("it refused: {sql}") }),
        }
    }

    /// Makes the node report what it has not reported yet: code that failed may have set variables, which are reported with the next answer
    /// that reports anything.
    pub async fn flush_reports(&mut self, session: &mut Session) -> Result<(), ConnectFailure> {
        self.reports("SET session_track_schema=1", session, Unnamed::Never).await?;
        if self.standing.has_to_ask() {
            self.ask_variables(session, false).await?;
        }
        Ok(())
    }

    /// Sends a SET and takes over what its OK packet reports; `false` when the node refuses it.
    async fn reports(
        &mut self,
        sql: &str,
        session: &mut Session,
        meaning: Unnamed,
    ) -> Result<bool, ConnectFailure> {
        let text = self.query_payload(sql);
        let (end, payload) = self.ask(Command::QUERY, &text).await?;
        if matches!(end, End::Err { .. }) {
            return Ok(false);
        }
        match OkPacket::parse(&payload, self.link.caps) {
            Ok(ok) => session.wanted.ok(&ok, meaning, Sets::NONE, &mut self.standing),
            Err(_) => self.standing.pin(Pins::UNNAMED),
        }
        Ok(true)
    }

    /// Asks the node for its status bits after an error; the node reports what has become of the transaction, too, which an error cannot.
    /// COM_SET_OPTION leaves ROW_COUNT() at the -1 of an error, while COM_PING sets it to 0; a node that refuses the former may still answer
    /// a ping. `caps`: the client's, since the command sets what they say. After an answer without status bits the link cannot be used any more.
    pub async fn status(&mut self, caps: Caps) -> Result<(u16, Option<TransactionState>), ConnectFailure> {
        let is_off = u8::from(!caps.has(Caps::MULTI_STATEMENTS));
        let mut answered = self.ask(Command::SET_OPTION, &[is_off, 0]).await?;
        if matches!(answered.0, End::Err { .. }) {
            answered = self.ask(Command::PING, &[]).await?;
        }
        let (end, payload) = answered;
        let status = status_of(end)?;
        let transaction = match OkPacket::parse(&payload, self.link.caps) {
            Ok(ok) if status & status::SESSION_STATE_CHANGED != 0 => ok.transaction_state(),
            _ => None,
        };
        Ok((status, transaction))
    }

    /// Makes the node reset the link (transaction, locks, tables, settings, statements), and track changes again; returns the status bits
    /// afterwards. After a failure the link cannot be used any more.
    pub async fn reset(&mut self) -> Result<u16, ConnectFailure> {
        match self.ask(Command::RESET_CONNECTION, &[]).await? {
            (End::Ok { .. }, _) => self.track().await,
            (end, _) => Err(ConnectFailure::Protocol {
                what: format!("COM_RESET_CONNECTION was answered by {end:?}"),
            }),
        }
    }

    /// Makes the node track the session's changes, after the client has changed what it tracks; returns the status bits afterwards.
    pub async fn track(&mut self) -> Result<u16, ConnectFailure> {
        let text = self.query_payload(&format!("SET {TRACK}"));
        match self.ask(Command::QUERY, &text).await? {
            (End::Ok { status, .. }, _) => Ok(status),
            (end, _) => {
                Err(ConnectFailure::Protocol { what: format!("SET {TRACK} was answered by {end:?}") })
            }
        }
    }
}

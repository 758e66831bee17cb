//! What the proxy asks and tells a node by itself between a client's statements, in ways that leave what those left behind: warnings,
//! ROW_COUNT(), FOUND_ROWS().

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::OkPacket;
use protocol::response::End;
use protocol::statement::{Pins, Recalls, Sets};
use session::session::Session;
use session::wanted::{TRACK, Unnamed};
use topology::fact::ConnectFailure;

use super::{Backend, status_of};

impl Backend {
    /// Asks for the variables that no answer told: each is set to what it is, which the node reports. Unlike a question, that leaves
    /// warnings and FOUND_ROWS() as they are; and ROW_COUNT() is what the client's own SET has left. `alone`: it was one.
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
        self.standing.has_told();
        if !are_told {
            // One of them has no value that could be set: what it is cannot be said again.
            self.standing.forget(Recalls::ROW_COUNT.union(Recalls::WARNINGS));
            self.standing.pin(Pins::UNNAMED);
        }
        Ok(())
    }

    /// Makes `schema` the default one.
    pub async fn use_schema(&mut self, schema: &[u8]) -> Result<(), ConnectFailure> {
        match self.ask(Command::INIT_DB, schema).await? {
            (End::Err { code }, _) => Err(ConnectFailure::Rejected { errno: code, message: String::new() }),
            _ => Ok(()),
        }
    }

    /// Has the node report what it has not reported yet: code that failed may have set variables, which is told with the next answer that
    /// has anything to tell.
    pub async fn flush_reports(&mut self, session: &mut Session) -> Result<(), ConnectFailure> {
        self.reports("SET session_track_schema=1", session, Unnamed::Never).await?;
        if self.standing.has_to_ask() {
            self.ask_variables(session, false).await?;
        }
        Ok(())
    }

    /// Says a SET and takes up what its OK reports; false when the node refuses it.
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

    /// Asks the node for its status bits after an error. By COM_SET_OPTION, which leaves ROW_COUNT() at the -1 of an error, where COM_PING makes
    /// it 0; a node that refuses that may still answer a ping. `caps`: the client's, since it sets what they say.
    pub async fn status(&mut self, caps: Caps) -> Result<u16, ConnectFailure> {
        let is_off = u8::from(!caps.has(Caps::MULTI_STATEMENTS));
        match self.ask(Command::SET_OPTION, &[is_off, 0]).await? {
            (End::Err { .. }, _) => self.ping().await,
            (end, _) => status_of(end),
        }
    }

    /// Asks the node for its status bits. An answer without them, an error above all, says that the link is of no more use.
    async fn ping(&mut self) -> Result<u16, ConnectFailure> {
        let (end, _) = self.ask(Command::PING, &[]).await?;
        status_of(end)
    }

    /// Has the node undo what stands on the link (transaction, locks, tables, settings, statements), and report changes again; the
    /// status bits afterwards. After a failure the link is of no more use.
    pub async fn reset(&mut self) -> Result<u16, ConnectFailure> {
        match self.ask(Command::RESET_CONNECTION, &[]).await? {
            (End::Ok { .. }, _) => self.track().await,
            (end, _) => Err(ConnectFailure::Protocol {
                what: format!("COM_RESET_CONNECTION was answered by {end:?}"),
            }),
        }
    }

    /// Has the node report what the session changes, after the session has turned that off or down; the status bits afterwards.
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

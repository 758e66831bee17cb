//! Passes a session's reads to the tap; called only while there is a listener.

use protocol::packet::HEADER_LEN;
use protocol::response::End;
use protocol::statement::Pins;
use session::command::InFlight;

use super::Driver;
use crate::frontend::BufferedCommand;
use crate::relay::Relayed;
use crate::tap::{AnsweredCommand, Connection, ReadRecorder};

impl Driver {
    /// A command is about to be sent.
    pub(super) fn will_send(&mut self, flight: &InFlight, command: BufferedCommand) {
        let (Some(id), Some(backend)) = (flight.statement, self.at.backend.as_ref()) else { return };
        let has_long = backend.standing.statement(id).is_some_and(|on_node| on_node.long_data);
        let connection = connection(&self.client, &self.who);
        let recorder = self.recorder.get_or_insert_with(|| Box::new(ReadRecorder::new(&connection)));
        let bytes = self.client.buffer.bytes();
        let payload = bytes.get(HEADER_LEN..command.len.min(bytes.len())).unwrap_or_default();
        recorder.will_send(&self.shared.tap, flight, payload, command.whole, has_long);
    }

    /// An answer has ended; `retained`: how many bytes of the client's buffer are the command.
    pub(super) fn tell(&mut self, relayed: &Relayed, flight: &InFlight, retained: usize, rows: u64) {
        let (Relayed::Ended(End::Ok { .. } | End::Eof { .. }), Some(backend)) = (relayed, &self.at.backend)
        else {
            return;
        };
        let connection = connection(&self.client, &self.who);
        let recorder = self.recorder.get_or_insert_with(|| Box::new(ReadRecorder::new(&connection)));
        if retained == 0 {
            return recorder.answered_unkept(&self.shared.tap, flight);
        }
        let ties_variables = backend.standing.pins().has(Pins::USER_VARIABLE);
        let answered = AnsweredCommand {
            flight,
            payload: self.client.buffer.bytes().get(HEADER_LEN..retained).unwrap_or_default(),
            caps: self.client.caps,
            ties_variables,
            rows,
            took: backend.sent_at().elapsed(),
        };
        recorder.answered(&self.shared.tap, &mut self.session, &answered);
    }

    /// The session on this connection was reset.
    pub(super) fn tell_as_new(&mut self) {
        let connection = connection(&self.client, &self.who);
        if let Some(recorder) = &mut self.recorder {
            recorder.begins_anew(&connection);
        }
    }
}

fn connection<'a>(client: &crate::frontend::Client, who: &'a crate::identity::Identity) -> Connection<'a> {
    Connection { id: client.id, user: &who.user, client: client.peer.ip(), login_charset: who.charset }
}

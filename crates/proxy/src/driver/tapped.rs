//! What the driver tells of a session's reads while somebody listens; called only then.

use protocol::packet::HEADER_LEN;
use protocol::response::End;
use protocol::statement::Pins;
use session::command::InFlight;

use super::Driver;
use crate::frontend::BufferedCommand;
use crate::relay::Relayed;
use crate::tap::{Ear, Heard, Teller};

impl Driver {
    /// A command is about to be sent.
    pub(super) fn will_send(&mut self, flight: &InFlight, command: BufferedCommand) {
        let (Some(id), Some(backend)) = (flight.statement, self.at.backend.as_ref()) else { return };
        let has_long = backend.standing.statement(id).is_some_and(|on_node| on_node.long_data);
        let teller = teller(&self.client, &self.who);
        let ear = self.ear.get_or_insert_with(|| Box::new(Ear::new(&teller)));
        let bytes = self.client.buffer.bytes();
        let payload = bytes.get(HEADER_LEN..command.len.min(bytes.len())).unwrap_or_default();
        ear.will_send(&self.shared.tap, flight, payload, command.whole, has_long);
    }

    /// An answer has ended; `retained`: how much of the client's buffer is the command.
    pub(super) fn tell(&mut self, relayed: &Relayed, flight: &InFlight, retained: usize, rows: u64) {
        let (Relayed::Ended(End::Ok { .. } | End::Eof { .. }), Some(backend)) = (relayed, &self.at.backend)
        else {
            return;
        };
        let teller = teller(&self.client, &self.who);
        let ear = self.ear.get_or_insert_with(|| Box::new(Ear::new(&teller)));
        if retained == 0 {
            return ear.heard_unkept(&self.shared.tap, flight);
        }
        let ties_variables = backend.standing.pins().has(Pins::USER_VARIABLE);
        let heard = Heard {
            flight,
            payload: self.client.buffer.bytes().get(HEADER_LEN..retained).unwrap_or_default(),
            caps: self.client.caps,
            ties_variables,
            rows,
            took: backend.sent_at().elapsed(),
        };
        ear.heard(&self.shared.tap, &mut self.session, &heard);
    }

    /// Another session has begun on the connection.
    pub(super) fn tell_as_new(&mut self) {
        let teller = teller(&self.client, &self.who);
        if let Some(ear) = &mut self.ear {
            ear.begins_anew(&teller);
        }
    }
}

fn teller<'a>(client: &crate::frontend::Client, who: &'a crate::identity::Identity) -> Teller<'a> {
    Teller { connection: client.id, user: &who.user, client: client.peer.ip(), login_charset: who.charset }
}

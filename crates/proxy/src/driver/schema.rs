//! A session whose schema is gone, or its right to it, on a node that it came to later: it goes on without one, as it would on the node where it
//! began to use it. Before each statement the schema is tried again, since somebody may have made it again.

use protocol::command::Command;
use protocol::statement::Recalls;
use session::command::InFlight;
use session::exchange::{Event, Loss};

use super::Driver;
use crate::frontend::BufferedCommand;

/// The functions that name the schema: on the server where it was in use they still give its name.
const NAMING: [&[u8]; 2] = [b"DATABASE", b"SCHEMA"];

impl Driver {
    /// Tries the schema that the link lacks. The event in place of the command's answer: the link is lost, or the command asks for the name of the schema,
    /// and gets the node's error about it.
    pub(super) async fn enter_schema(
        &mut self,
        flight: &InFlight,
        command: BufferedCommand,
    ) -> Option<Event> {
        let needs_one = [
            Command::QUERY,
            Command::STMT_PREPARE,
            Command::STMT_EXECUTE,
            Command::STMT_BULK_EXECUTE,
            Command::FIELD_LIST,
        ];
        // The attempt is a statement of its own, which must not come between one and the question what that left.
        if !needs_one.contains(&flight.command) || !flight.recalls().is_empty() {
            return None;
        }
        let schema = self.session.wanted.schema()?;
        let backend = self.at.backend.as_mut()?;
        if backend.standing.may_have_unreported() {
            // Its answer would take the report.
            return None;
        }
        backend.standing.forget(Recalls::WARNINGS.union(Recalls::ROW_COUNT).union(Recalls::FOUND_ROWS));
        match backend.enter_schema(schema).await {
            Ok(None) => None,
            Ok(Some(error)) => self.names_schema(flight, command).then_some(Event::NotPrepared(error)),
            Err(how) => Some(self.lost(how, Loss::unsent()).await),
        }
    }

    fn names_schema(&self, flight: &InFlight, command: BufferedCommand) -> bool {
        match flight.command {
            Command::QUERY | Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE => {
                self.text(flight, command).is_none_or(calls_naming)
            }
            _ => false,
        }
    }
}

/// Whether a text may call one of those functions.
fn calls_naming(text: &[u8]) -> bool {
    NAMING.iter().any(|name| {
        text.windows(name.len()).enumerate().any(|(at, word)| {
            let next = text[at + name.len()..].trim_ascii_start().first();
            word.eq_ignore_ascii_case(name) && matches!(next, Some(b'(' | b'/' | b'-' | b'#'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_functions_name_it() {
        for (text, names) in [
            ("SELECT DATABASE()", true),
            ("select schema ( )", true),
            ("SELECT DATABASE/**/()", true),
            ("CREATE DATABASE d1", false),
            ("USE other", false),
            ("SELECT * FROM information_schema.tables", false),
        ] {
            assert_eq!(calls_naming(text.as_bytes()), names, "{text}");
        }
    }
}

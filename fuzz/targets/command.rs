//! Commands, and the session that keeps what they leave behind.
//!
//! Input: a byte that chooses the capabilities, then packets as they stand on the wire between a client and a node: one of
//! sequence number 0 is a command, others are the node's answer to it. A command whose answer breaks off lost its node. Checked: a
//! text lies within its command; ids are read where they stand and nowhere else; what would be said on the next node is harmless
//! under any sql_mode, cannot run twice what the client ran once, and is no longer than what came.
#![no_main]

use fuzz::{lies_within, packets};
use libfuzzer_sys::fuzz_target;
use protocol::capability::Caps;
use protocol::command::{Command, query_text, statement_id};
use protocol::ok::status;
use protocol::response::{Answer, Step};
use protocol::statement::{Kind, Pins, Statement};
use session::memory::TRACK;
use session::retry::Progress;
use session::session::{InFlight, Next, Session, Transaction};

struct Sent<'a> {
    flight: InFlight,
    answer: Answer,
    text: &'a [u8],
    delivered: bool,
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, stream)) = input.split_first() else { return };
    let caps = fuzz::caps(choice);
    let mut session = Session::new(Some(b"shop".to_vec()));
    let mut sent: Option<Sent<'_>> = None;
    for packet in packets(stream) {
        let payload = packet.payload;
        let is_whole = payload.len() == packet.head.len;
        if packet.head.seq == 0 {
            if let Some(sent) = sent.take() {
                lose(&mut session, &sent);
            }
            shape(payload, caps);
            sent = command(&mut session, payload, is_whole, caps);
        } else if let Some(mut at) = sent.take() {
            match at.answer.step(payload.len(), payload) {
                Ok(Step::End(end)) => {
                    session.ended(&at.flight, &end, payload, at.text, caps);
                    if session.unsure(&at.flight, &end) {
                        session.server_status(status::AUTOCOMMIT);
                    }
                }
                Ok(step) => {
                    if matches!(step, Step::Part { .. }) {
                        session.part(&at.flight, payload, caps);
                    }
                    at.delivered = true;
                    sent = Some(at);
                }
                Err(_) => lose(&mut session, &at),
            }
        }
        rebuilt(&session, input.len());
    }
});

/// What is read of a command without a session.
fn shape(payload: &[u8], caps: Caps) {
    let command = Command::of(payload);
    assert_eq!(command.is_none(), payload.is_empty());
    assert!(command.is_none_or(|command| !command.name().is_empty()));
    let id = statement_id(payload);
    let stands = command.is_some_and(Command::is_prepared) && payload.len() >= 5;
    assert_eq!(id.is_some(), stands, "an id where none stands, or none where one does");
    if let Ok(text) = query_text(payload, caps) {
        assert!(lies_within(text, payload) && payload.ends_with(text), "a text beside its command");
    }
}

fn command<'a>(session: &mut Session, payload: &'a [u8], is_whole: bool, caps: Caps) -> Option<Sent<'a>> {
    let was_lost = session.transaction() == Transaction::Lost;
    let flight = match session.command(payload, is_whole, caps) {
        Next::Forward(flight) | Next::Kill { otherwise: flight, .. } => flight,
        Next::AnswerRolledBack => {
            assert!(
                was_lost && session.transaction() == Transaction::None,
                "told once, and only when it is so"
            );
            return None;
        }
        Next::Reset => {
            session.reset();
            return None;
        }
        _ => return None,
    };
    assert!(is_whole || flight.kind() != Kind::Read || Command::of(payload) != Some(Command::QUERY));
    if flight.command == Command::STMT_CLOSE
        && let Some(id) = flight.statement
    {
        session.closed(id);
        assert!(!session.memory.statements.contains_key(&id));
    }
    if !flight.command.answers() {
        return None;
    }
    let answer = Answer::new(flight.command, caps);
    Some(Sent { flight, answer, text: if is_whole { payload } else { b"" }, delivered: false })
}

fn lose(session: &mut Session, sent: &Sent<'_>) {
    let _ = session.lost(&sent.flight, Progress { sent: true, delivered: sent.delivered });
    assert_ne!(session.transaction(), Transaction::Open, "a transaction stands on a node that is lost");
    assert!(session.memory.statements.values().all(|statement| statement.on_node.is_none()));
    session.moved();
}

/// What would be said on another node.
fn rebuilt(session: &Session, came: usize) {
    let said = session.memory.restore();
    // Every session is asked to report what it changes; the values that it has stand in the same statement.
    let report = format!("SET {TRACK}");
    let made =
        said.iter().rposition(|text| text.starts_with(&report)).expect("the report is always asked for");
    let values = &said[made][report.len()..];
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_.,=`- ".contains(&b);
    assert!(values.replace("''", "").bytes().all(is_plain), "a value leaves its place: {values}");
    for (_, text) in said.iter().enumerate().filter(|(nth, _)| *nth != made) {
        for mode in [0, status::NO_BACKSLASH_ESCAPES, status::ANSI_QUOTES] {
            let seen = Statement::under(text.as_bytes(), mode);
            assert_eq!(seen.kind, Kind::SessionOnly, "said again on another node: {text}");
            assert!(seen.pins.without(Pins::USER_VARIABLE).is_empty());
        }
    }
    let total: usize = said.iter().map(String::len).sum();
    // A byte of a value is two digits; each name stands in quotes.
    assert!(total <= report.len() + 64 + came * 32, "{total} bytes are remembered of {came}");
    let _ = session.pins().names();
}

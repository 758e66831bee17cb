//! Commands, and the session that keeps what they leave behind.
//!
//! Input: a byte that chooses the capabilities, then packets as they stand on the wire between a client and a node: one of
//! sequence number 0 is a command, others are the node's answer to it. A command whose answer breaks off lost its node. Checked: a
//! text lies within its command; ids are read where they stand and nowhere else; what would be said on the next node is harmless
//! under any sql_mode, cannot run twice what the client ran once, and is no longer than what came.

use crate::packets::{caps, lies_within, packets};
use protocol::capability::Caps;
use protocol::command::{Command, query_text, statement_id};
use protocol::ok::status;
use protocol::response::{Answer, Step};
use protocol::statement::{Pins, Statement, StatementKind};
use session::command::{InFlight, Next};
use session::names::Names;
use session::retry::Progress;
use session::session::Session;
use session::standing::Standing;
use session::wanted::TRACK;

struct Sent<'a> {
    flight: InFlight,
    answer: Answer,
    text: &'a [u8],
    delivered: bool,
}

/// The session, and what of it stands on its present node.
struct Scene {
    session: Session,
    link: Standing,
}

pub(crate) fn holds(input: &[u8]) {
    let Some((&choice, stream)) = input.split_first() else { return };
    let caps = caps(choice);
    let mut scene = Scene { session: Session::new(Some(b"shop".to_vec()), 2), link: Standing::default() };
    let mut sent: Option<Sent<'_>> = None;
    for packet in packets(stream) {
        let payload = packet.payload;
        let is_whole = payload.len() == packet.head.len;
        if packet.head.seq == 0 {
            if let Some(sent) = sent.take() {
                scene.lose(&sent);
            }
            shape(payload, caps);
            sent = scene.command(payload, is_whole, caps);
        } else if let Some(at) = sent.take() {
            sent = scene.answer(at, payload, caps);
        }
        rebuilt(&scene, input.len());
    }
}

impl Scene {
    fn command<'a>(&mut self, payload: &'a [u8], is_whole: bool, caps: Caps) -> Option<Sent<'a>> {
        let Scene { session, link } = self;
        let owed = session.owed().cloned();
        let flight = match session.command(payload, is_whole, caps, Some(link), &|_| Names::Unknown) {
            Next::Forward(flight) | Next::Kill { otherwise: flight, .. } => flight,
            Next::Tell(told) => {
                assert!(owed == Some(told), "only when it is so");
                let may_be_ignored =
                    [Command::PING, Command::STATISTICS, Command::SET_OPTION, Command::STMT_RESET];
                let is_ignored =
                    Command::of(payload).is_some_and(|command| may_be_ignored.contains(&command));
                assert!(session.owed().is_none() || is_ignored, "a statement is told once");
                return None;
            }
            Next::Reset => {
                session.reset(2);
                *link = session.standing(false);
                return None;
            }
            _ => return None,
        };
        assert!(
            is_whole || flight.kind() != StatementKind::Read || Command::of(payload) != Some(Command::QUERY)
        );
        if flight.command == Command::STMT_CLOSE
            && let Some(id) = flight.statement
        {
            session.closed(Some(link), id);
            assert!(!session.wanted.statements.contains_key(&id) && link.statement(id).is_none());
        }
        if !flight.command.answers() {
            Session::sent(link, &flight);
            return None;
        }
        let begin = if flight.asks_cursor() { Answer::with_cursor } else { Answer::new };
        let answer = begin(flight.command, caps);
        Some(Sent { flight, answer, text: if is_whole { payload } else { b"" }, delivered: false })
    }

    /// What is still on its way behind this packet of an answer.
    fn answer<'a>(&mut self, mut at: Sent<'a>, payload: &[u8], caps: Caps) -> Option<Sent<'a>> {
        let Scene { session, link } = self;
        match at.answer.step(payload.len(), payload) {
            Ok(Step::End(end)) => {
                session.ended(link, &at.flight, &end, payload, at.text, caps);
                if session.unsure(link, &at.flight, &end) {
                    session.server_status(link, status::AUTOCOMMIT);
                }
                None
            }
            Ok(step) => {
                if matches!(step, Step::Part { .. }) {
                    session.part(link, &at.flight, payload, caps);
                }
                at.delivered = true;
                Some(at)
            }
            Err(_) => {
                self.lose(&at);
                None
            }
        }
    }

    fn lose(&mut self, sent: &Sent<'_>) {
        let progress = Progress { sent: true, delivered: sent.delivered };
        let _ = self.session.lost(&self.link, &sent.flight, progress);
        self.link = self.session.standing(true);
    }
}

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

/// What would be said on another node.
fn rebuilt(scene: &Scene, came: usize) {
    let said = scene.session.wanted.restore();
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
            assert_eq!(seen.kind, StatementKind::SessionOnly, "said again on another node: {text}");
            assert!(seen.pins.without(Pins::USER_VARIABLE).is_empty());
        }
    }
    let total: usize = said.iter().map(String::len).sum();
    // A byte of a value is two digits; each name stands in quotes.
    assert!(total <= report.len() + 64 + came * 32, "{total} bytes are remembered of {came}");
    let _ = scene.link.pins().names();
}

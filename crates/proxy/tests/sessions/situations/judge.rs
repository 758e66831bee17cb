//! Whether what a client was told through the proxy is what the server tells, or a documented error and what is true after it.
//!
//! After an error the client's knowledge has gaps, and each way to fill them is tried on the control: where `docs/errors.md` says that
//! nothing was executed, a run without the statement; where the transaction is rolled back, one with ROLLBACK in its place; where
//! the outcome is unknown, both. All later answers must be those of one such run.

use std::collections::HashMap;

use fixture::client::{Part, Reply};
use protocol::ok::status::IN_TRANS;

use super::run::{Bytes, Told};
use crate::steps::{Step, What};

/// What the control does in place of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instead {
    pub step: usize,
    /// So many statements of the text.
    pub statements: usize,
    /// And then what is open is rolled back.
    pub rolls_back: bool,
}

/// One way in which things may have gone at the server.
pub type Course = Vec<Instead>;

/// What an error says of its statement.
enum Says {
    /// The connection ends with it.
    Ended,
    /// What was not answered was not executed, or changed nothing.
    NotExecuted,
    RolledBack,
    Unknown,
}

fn says(reply: &Reply) -> Option<Says> {
    let Some(Part::Error { code, message, .. }) = reply.parts.last() else { return None };
    Some(match code {
        // The server has the same error for a write in a transaction that only reads.
        1792 if message.starts_with("Understudy: this port is for reads only") => Says::NotExecuted,
        // 1927: the link broke, and the node is well, so somebody ended this connection there; the server says the same.
        1927 | 9104 | 9108 | 9111 | 9112 => Says::Ended,
        9102 | 9103 | 9105 | 9107 | 9110 | 9113 => Says::NotExecuted,
        1213 => Says::RolledBack,
        9101 | 9114 => Says::Unknown,
        _ => return None,
    })
}

/// A documented difference: the proxy's text of KILL of a connection that it does not have; and a session whose schema is gone is told so (1046) where
/// the server that it began on says that the table is (1146), and for the schema's name (1049).
fn is_documented(step: &Step, said: &Told, told: &Told) -> bool {
    match (said.reply.error(), told.reply.error()) {
        (Some(1094), Some(1094)) | (Some(1046), Some(1146)) => true,
        (Some(1044 | 1049), None) => step.line.contains("DATABASE()"),
        _ => false,
    }
}

/// A ping of a client that would have to be told of a loss ends the connection without an answer, and nothing else does.
fn ends_at_a_ping(step: &Step, said: &Told) -> bool {
    step.line == ".ping" && matches!(said.reply.parts[..], [Part::Lost(_)])
}

/// What ties a session to its node, and is lost with it.
fn ties(step: &Step) -> bool {
    ["HANDLER", "PREPARE", "prepares", "TEMPORARY", "LOCK", "XA "].iter().any(|word| step.line.contains(word))
}

/// Whether the connection is over with this answer, or should be.
pub fn is_last(told: &Told) -> bool {
    told.reply.is_lost() && !told.reply.parts.is_empty() || matches!(says(&told.reply), Some(Says::Ended))
}

/// The statements of a text; the file has no `;` elsewhere.
pub fn statements(step: &Step) -> Vec<Vec<u8>> {
    match &step.what {
        What::Say(sql) if sql.starts_with(b"BEGIN NOT ATOMIC") => vec![sql.clone()],
        What::Say(sql) => sql.split(|byte| *byte == b';').map(<[u8]>::to_vec).collect(),
        _ => vec![],
    }
}

/// The courses after an error at `step`, `given` parts of whose answer came before it.
fn after(reply: &Reply, step: usize, of: &Step) -> Vec<Instead> {
    let given = reply.parts.len() - 1;
    let most = statements(of).len().max(1);
    let least = given.min(most);
    let (range, rolls_back) = match says(reply) {
        Some(Says::NotExecuted) => (least..=least, false),
        Some(Says::RolledBack) => (least..=least, true),
        Some(Says::Unknown) => (least..=most, true),
        _ => return vec![],
    };
    range.map(|statements| Instead { step, statements, rolls_back }).collect()
}

/// The control's answers, as far as they are known.
pub type Known = HashMap<Course, Vec<Told>>;

/// What came of it.
pub enum Judgement {
    /// All is right.
    Right,
    /// What the control says in this course must be known first.
    Needs(Course),
    /// What is wrong, in order.
    Wrong(Vec<String>),
}

/// Judges the answers `told` to `steps`. `is_lost`: a node or a link was lost, or left.
pub fn judge(steps: &[Step], told: &[Told], known: &Known, how: Bytes, is_lost: bool) -> Judgement {
    let (mut courses, mut wrong): (Vec<Course>, Vec<String>) = (vec![vec![]], vec![]);
    let of = |step: &Step, what: &str| format!("{} => {what}", step.line);
    for (at, (step, said)) in steps.iter().zip(told).enumerate() {
        if let Some(needed) = courses.iter().find(|course| !known.contains_key(*course)) {
            return Judgement::Needs(needed.clone());
        }
        let is_same = |course: &&Course| {
            known[*course].get(at).is_some_and(|told| said.is(told, how) || is_documented(step, said, told))
        };
        let may_end = || {
            let status = known[&courses[0]].get(at).and_then(|told| told.reply.status()).unwrap_or_default();
            // An error does not say whether a transaction is still open, and the link was lost before the server was asked.
            let is_unsure = at > 0 && told[at - 1].reply.error().is_some();
            status & IN_TRANS != 0 || is_unsure || steps[..at].iter().any(ties)
        };
        if is_lost && ends_at_a_ping(step, said) && may_end() {
            if told.get(at + 1).is_some_and(|next| !next.reply.is_lost()) {
                wrong.push(of(step, "the session goes on behind its end"));
            }
            break;
        }
        if said.reply.is_lost() && !said.reply.parts.is_empty() && !wrong.is_empty() {
            // An undocumented error has ended the session, and is reported.
            break;
        }
        let same: Vec<Course> = courses.iter().filter(is_same).cloned().collect();
        if !same.is_empty() {
            courses = same;
            continue;
        }
        let control = known[&courses[0]].get(at);
        let Some(control) = control else {
            wrong.push(of(step, "the control has ended before"));
            break;
        };
        // What follows is compared all the same: it may be wrong in another way.
        let Some(says) = says(&said.reply) else {
            wrong.push(of(step, &difference(said, control)));
            continue;
        };
        let given = said.reply.parts.len() - 1;
        if said.reply.parts[..given] != control.reply.parts[..given.min(control.reply.parts.len())] {
            wrong.push(of(step, &difference(said, control)));
        }
        if matches!(says, Says::Ended) {
            if told.get(at + 1).is_some_and(|next| !next.reply.is_lost()) {
                wrong.push(of(step, "the session goes on behind its end"));
            }
            break;
        }
        let mut next = vec![];
        for course in &courses {
            for instead in after(&said.reply, at, step) {
                let mut course = course.clone();
                course.push(instead);
                next.push(course);
            }
        }
        courses = next;
    }
    if wrong.is_empty() { Judgement::Right } else { Judgement::Wrong(wrong) }
}

/// A list of columns may be long.
const SHOWN_MAX: usize = 400;

/// Of the two answers, shortly.
fn difference(said: &Told, control: &Told) -> String {
    if let Some(difference) = said.reply.difference(&control.reply) {
        return difference.chars().take(SHOWN_MAX).collect();
    }
    let differ = |(a, b): (&u8, &u8)| a != b;
    let at = said.bytes.iter().zip(&control.bytes).position(differ);
    let at = at.unwrap_or(said.bytes.len().min(control.bytes.len()));
    let shown = |bytes: &[u8]| {
        let from = at.saturating_sub(8);
        format!("\"{}\"", bytes[from..bytes.len().min(at + 60)].escape_ascii())
    };
    format!("the same, but the bytes around {at}: {} and {}", shown(&said.bytes), shown(&control.bytes))
}

//! HAProxy's agent check: reads one line (`agent-send`, the node's name) and writes one line. HAProxy 2.6 manual, section 5.2,
//! "agent-check".

use topology::health::{Question, Rules};

use crate::Source;
use crate::answer::AnswerKind;

/// The longest line that may name a node, in bytes.
pub const LINE_BYTES_MAX: usize = 256;

/// The answer to a client that names no node where there are several: it must not get the answer for an arbitrary node.
pub const NAMELESS: &str = "fail # name the node: agent-send \"NODE\\n\"\n";

/// The answer for a node; an empty name means the source's own node. `ready` reverts an earlier `drain` or `maint`, so that only the agent
/// decides.
pub fn line(source: &dyn Source, name: &str, rules: Rules) -> String {
    let name = Some(name).filter(|name| !name.is_empty());
    match source.answer(name, Question::Member(rules)) {
        None => "fail # no such node\n".into(),
        Some(answer) => {
            let reason: String =
                answer.reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            match answer.kind {
                AnswerKind::Good | AnswerKind::TakesClients => "ready up\n".into(),
                // An operator wants to take the node out of use: it gets no new sessions, and running sessions may end normally.
                AnswerKind::Disabled => format!("drain # {reason}\n"),
                // No new sessions until the node has answered. Existing sessions are not cut, since it may be a false alarm.
                AnswerKind::Doubted => format!("drain # {reason}\n"),
                _ => format!("ready down # {reason}\n"),
            }
        }
    }
}

//! HAProxy's agent check: one line in (`agent-send`, the node's name), one line out. HAProxy 2.6 manual, section 5.2, "agent-check".

use topology::health::{Question, Rules};

use crate::Source;
use crate::answer::AnswerKind;

/// The longest line that may name a node, in bytes.
pub const LINE_BYTES_MAX: usize = 256;

/// The answer to a client that did not name a node where there are several: it must not get another node's answer.
pub const NAMELESS: &str = "fail # name the node: agent-send \"NODE\\n\"\n";

/// The answer for a node; an empty name is the source's own. `ready` reverts an earlier `drain` or `maint`, so that only the agent decides.
pub fn line(source: &dyn Source, name: &str, rules: Rules) -> String {
    let name = Some(name).filter(|name| !name.is_empty());
    match source.answer(name, Question::Member(rules)) {
        None => "fail # no such node\n".into(),
        Some(answer) => {
            let reason: String =
                answer.reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            match answer.kind {
                AnswerKind::Good | AnswerKind::TakesClients => "ready up\n".into(),
                // An operator wants the node empty, not dead: running sessions may end.
                AnswerKind::Disabled => format!("drain # {reason}\n"),
                // No new sessions until the node has answered; existing ones are not cut because of what may be a false alarm.
                AnswerKind::Doubted => format!("drain # {reason}\n"),
                _ => format!("ready down # {reason}\n"),
            }
        }
    }
}

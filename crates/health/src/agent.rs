//! HAProxy's agent check: one line in (`agent-send`, the node's name), one line out. HAProxy 2.6 manual, section 5.2, "agent-check".

use topology::health::{Question, Rules};

use crate::Source;
use crate::answer::Kind;

/// The longest line that may name a node, in bytes.
pub const LINE_BYTES_MAX: usize = 256;

/// For whoever did not name a node where there are several: never another node's answer.
pub const NAMELESS: &str = "fail # name the node: agent-send \"NODE\\n\"\n";

/// The line for a node; an empty name is the source's own. `ready` takes back what an earlier `drain` or `maint` had set: the agent alone decides.
pub fn line(source: &dyn Source, name: &str, rules: Rules) -> String {
    let name = Some(name).filter(|name| !name.is_empty());
    match source.answer(name, Question::Member(rules)) {
        None => "fail # no such node\n".into(),
        Some(answer) => {
            let reason: String =
                answer.reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            match answer.kind {
                Kind::Good | Kind::TakesClients => "ready up\n".into(),
                // An operator wants it empty, not dead: what runs may end.
                Kind::Disabled => format!("drain # {reason}\n"),
                // Nothing new until it is known; sessions are not cut for what may be a false alarm.
                Kind::Doubted => format!("drain # {reason}\n"),
                _ => format!("ready down # {reason}\n"),
            }
        }
    }
}

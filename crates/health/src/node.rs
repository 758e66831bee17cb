//! The source of `understudy check`: one server, as [`crate::refresh`] last reported it. It answers for any name, since it has only one
//! node and does not know its name elsewhere. The original also answers any path alike.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use topology::health::{Question, Rules};

use crate::Source;
use crate::answer::Answer;
use crate::refresh::State;
use crate::server::Counts;

/// One server.
pub struct Node {
    /// The server's last known state.
    pub state: watch::Receiver<Arc<State>>,
    /// A state older than this counts as unknown.
    pub age_max: Duration,
    /// The rules for the answer in `/status` and `/metrics`.
    pub rules: Rules,
    /// The server's address, as shown in `/status`.
    pub place: String,
    /// The listeners' counters.
    pub counts: Arc<Counts>,
}

impl Source for Node {
    fn answer(&self, _: Option<&str>, question: Question) -> Option<Answer> {
        Some(self.state.borrow().answer(question, self.age_max))
    }

    fn status(&self, node: Option<&str>) -> Option<Value> {
        let state = self.state.borrow().clone();
        let answer = self.answer(node, Question::Member(self.rules))?;
        Some(json!({
            "good": answer.is_good(),
            "kind": answer.kind,
            "reason": *answer.reason,
            "age_ms": answer.age.as_millis() as u64,
            "place": self.place,
            "version": *state.version,
            "disabled": state.is_disabled,
            "rules": { "donor": self.rules.donor, "readonly": self.rules.read_only },
            "facts": state.word.as_ref().ok().map(|word| &word.status),
            "replication": state.word.as_ref().ok().map(|word| match &word.replication {
                Ok(channels) => json!(channels),
                Err(why) => json!({ "unknown": why }),
            }),
        }))
    }

    fn metrics(&self) -> String {
        let answer = self.state.borrow().answer(Question::Member(self.rules), self.age_max);
        let counts = &self.counts;
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, value: f64| {
            // Writing to a string does not fail.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        };
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed) as f64;
        family(
            "understudy_check_good",
            "gauge",
            "1 when the node may take traffic.",
            f64::from(u8::from(answer.is_good())),
        );
        family(
            "understudy_check_age_seconds",
            "gauge",
            "How old the node's last word is.",
            answer.age.as_secs_f64(),
        );
        for (name, kind, help, counter) in [
            ("understudy_check_connections", "gauge", "Connections that are open.", &counts.open),
            ("understudy_check_connections_total", "counter", "Connections accepted.", &counts.accepted),
            (
                "understudy_check_connections_refused_total",
                "counter",
                "Connections beyond the limit.",
                &counts.beyond,
            ),
        ] {
            family(name, kind, help, count(counter));
        }
        text += &counts.answers("understudy_check_answers_total");
        text
    }
}

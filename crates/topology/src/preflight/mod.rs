//! The checks before a switchover: a table of everything that could make it fail or be slow. Nothing is changed.
//!
//! ```text
//!   sql ──(the shell asks)──> said ──┐
//!   the brain's view ─────────────────┼──> sight ──> rules: both kinds, replication, Galera, warmth ──> rows ──> report
//!   sessions that cannot move ────────┘
//! ```
//!
//! Enters: the brain's view, each node's answer to new questions, and the sessions that are tied to the writer. Leaves: one row for each
//! thing that was checked. An earlier answer of a node that no longer answers does not count; the row says so, and since when. If a server
//! does not report what a rule needs, there is no row.

pub mod answer;
mod both;
mod galera;
mod replication;
mod sight;
pub mod sql;
pub mod warm;
mod wish;

use std::fmt::Write;

pub use self::answer::{NodeReply, Server};
pub use self::replication::REPLICA_LOGIN;
use self::sight::{Rule, Sight};
pub use self::wish::{Immovable, Row, Standby, Stopped, Warm, Wish};
use crate::kind::Kind;
pub use crate::rules::Severity;

/// The results of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[schema(as = Preflight)]
#[serde(default)]
pub struct Report {
    /// The writer now.
    pub from: Option<String>,
    /// The writer to be.
    pub to: Option<String>,
    /// Whether any row says that it fails.
    pub fails: bool,
    /// In the order of the checks.
    pub rows: Vec<Row>,
}

/// Runs all checks; `said`: each node's answer, in the order of the view.
pub fn judge(kind: Kind, wish: &Wish, said: &[NodeReply]) -> Report {
    let view = wish.view;
    let to = wish.to_name().map(str::to_owned);
    let mut rows = Vec::new();
    match sight::of(wish, said, to.as_deref()) {
        Ok(sight) => {
            apply(both::RULES, &sight, &mut rows);
            match kind {
                Kind::Replication => {
                    replication::words(&sight, &mut rows);
                    apply(replication::RULES, &sight, &mut rows);
                }
                Kind::Galera => apply(galera::RULES, &sight, &mut rows),
            }
            if wish.warm.is_some() {
                apply(warm::RULES, &sight, &mut rows);
            }
        }
        Err(row) => rows.push(row),
    }
    let fails = rows.iter().any(|row| row.verdict == Severity::Fails);
    Report { from: view.writer.clone(), to, fails, rows }
}

fn apply(rules: &[Rule], sight: &Sight, rows: &mut Vec<Row>) {
    for rule in rules {
        let looked = (rule.look)(sight).unwrap_or_else(|| sight.unheard().into_iter().collect());
        rows.extend(looked.into_iter().map(|row| Row { check: rule.check.into(), ..row }));
    }
}

/// The brain itself refuses these, with its own sentences.
const REFUSED_ANYWAY: &[&str] = &["node", "writer"];

impl Report {
    /// Why an order is refused by this table, in one sentence; `None` when it is not.
    pub fn refusal(&self) -> Option<String> {
        let failing: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| row.verdict == Severity::Fails && !REFUSED_ANYWAY.contains(&&*row.check))
            .collect();
        let first = failing.first()?;
        let mut text = format!("{} {}", first.node, first.sentence);
        if !first.remedy.is_empty() {
            let _ = write!(text, "; {}", first.remedy);
        }
        if failing.len() > 1 {
            let _ = write!(text, "; and {} more", failing.len() - 1);
        }
        text.push_str(
            "; nothing was changed; see `understudy switchover --check`, or pass over this with --force",
        );
        Some(text)
    }
}

#[cfg(test)]
mod tests;

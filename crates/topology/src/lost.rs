//! The statements that ran on a node when its links broke. One of them may have crashed it, and may crash the next node.
//!
//! Enters: a digest and a text for each broken link. Leaves: one clause for the journal, once the node is confirmed dead.

use std::time::Duration;

use crate::time::Now;

/// At most this many statements are named for one loss.
const STATEMENTS_MAX: usize = 5;
/// Sessions report their losses one after the other. This long after the last one, no more are waited for.
const GATHER: Duration = Duration::from_millis(50);

/// The statements of one node since it was last well.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostStatements {
    statements: Vec<(String, String)>,
    /// How many of them have been reported.
    reported: usize,
    last: Now,
}

impl LostStatements {
    /// Adds a statement; each digest counts once.
    pub fn add(&mut self, now: Now, digest: String, text: String) {
        let known = self.statements.iter().any(|(known, _)| *known == digest);
        if !known && self.statements.len() < STATEMENTS_MAX {
            self.statements.push((digest, text));
            self.last = now;
        }
    }

    /// The node answered a question from `asked` and is well, so no earlier statement has crashed it.
    pub fn survived(&mut self, asked: Now) {
        if self.last < asked {
            *self = Self::default();
        }
    }

    /// The node is dead: the clause about its statements, once no more are waited for.
    pub fn report(&mut self, now: Now) -> Option<String> {
        let new = self.statements.get(self.reported..).filter(|new| !new.is_empty())?;
        if now.saturating_sub(self.last) < GATHER {
            return None;
        }
        let each: Vec<String> = new.iter().map(|(digest, text)| format!("{digest} ({text})")).collect();
        self.reported = self.statements.len();
        Some(format!("died while these statements ran there: {}", each.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn five_are_told_once_when_all_are_there() {
        let mut lost = LostStatements::default();
        for number in [1, 2, 2, 3, 4, 5, 6] {
            lost.add(number * MS, format!("{number:04x}"), "SELECT ?".into());
        }
        assert_eq!(lost.report(20 * MS), None);
        let report = lost.report(60 * MS).unwrap_or_default();
        assert!(
            report.contains("0001 (SELECT ?), 0002") && report.contains("0005") && !report.contains("0006")
        );
        assert_eq!(lost.report(70 * MS), None);
    }

    #[test]
    fn what_the_node_survived_is_forgotten() {
        let mut lost = LostStatements::default();
        lost.add(5 * MS, "1a2b".into(), "KILL ?".into());
        lost.survived(4 * MS);
        assert!(lost.report(100 * MS).is_some());
        lost.survived(6 * MS);
        lost.add(200 * MS, "3c4d".into(), "SELECT ?".into());
        assert_eq!(
            lost.report(300 * MS).as_deref(),
            Some("died while these statements ran there: 3c4d (SELECT ?)")
        );
    }
}

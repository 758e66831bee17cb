//! The statements that ran on a node when its links broke: one of them may be what killed it, and may kill the next.
//!
//! Enters: a digest and a text for each broken link. Leaves: one clause for the journal, once the node is confirmed dead.

use std::time::Duration;

use crate::fact::Now;

/// Statements named for one death.
const STATEMENTS_MAX: usize = 5;
/// Sessions tell of their loss one after the other: so long after the last one nothing more is waited for.
const GATHER: Duration = Duration::from_millis(50);

/// Those of one node, since it was last well.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostStatements {
    statements: Vec<(String, String)>,
    /// How many of them have been told.
    told: usize,
    last: Now,
}

impl LostStatements {
    /// One more; each digest counts once.
    pub fn add(&mut self, now: Now, digest: String, text: String) {
        let known = self.statements.iter().any(|(known, _)| *known == digest);
        if !known && self.statements.len() < STATEMENTS_MAX {
            self.statements.push((digest, text));
            self.last = now;
        }
    }

    /// The node was asked at `asked`, and is well: what was lost before did not kill it.
    pub fn survived(&mut self, asked: Now) {
        if self.last < asked {
            *self = Self::default();
        }
    }

    /// The node is dead: what to say about it, once there is nothing more to wait for.
    pub fn tell(&mut self, now: Now) -> Option<String> {
        let new = self.statements.get(self.told..).filter(|new| !new.is_empty())?;
        if now.saturating_sub(self.last) < GATHER {
            return None;
        }
        let each: Vec<String> = new.iter().map(|(digest, text)| format!("{digest} ({text})")).collect();
        self.told = self.statements.len();
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
        assert_eq!(lost.tell(20 * MS), None);
        let told = lost.tell(60 * MS).unwrap_or_default();
        assert!(told.contains("0001 (SELECT ?), 0002") && told.contains("0005") && !told.contains("0006"));
        assert_eq!(lost.tell(70 * MS), None);
    }

    #[test]
    fn what_the_node_survived_is_forgotten() {
        let mut lost = LostStatements::default();
        lost.add(5 * MS, "1a2b".into(), "KILL ?".into());
        lost.survived(4 * MS);
        assert!(lost.tell(100 * MS).is_some());
        lost.survived(6 * MS);
        lost.add(200 * MS, "3c4d".into(), "SELECT ?".into());
        assert_eq!(
            lost.tell(300 * MS).as_deref(),
            Some("died while these statements ran there: 3c4d (SELECT ?)")
        );
    }
}

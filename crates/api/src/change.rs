//! Changes of the writer, out of the journal: of each, what was seen before, what was decided and done, how it ended, and what came after.
//!
//! Entries have a kind ([`topology::about`]) since the version that introduced it; changes of older entries are not found.

use serde::{Deserialize, Serialize};
use topology::about::{About, Change, Clients};
use topology::view::{Decision, Problem};

/// What was seen so long before the decision may have led to it.
const BEFORE_MS: u64 = 60_000;
/// What is told so long after the end may follow from it.
const AFTER_MS: u64 = 60_000;

/// One change of the writer, or a time in which no node could be the writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WriterChange {
    /// What kind of change was decided first; none where no node could be chosen.
    pub change: Option<Change>,
    /// The writer before; none at a first start.
    pub from: Option<String>,
    /// The node that was chosen last.
    pub to: Option<String>,
    /// The term under which it ended.
    pub term: u64,
    /// When it was decided, or found that no node can be the writer, in milliseconds since 1970.
    pub decided_unix_ms: u64,
    /// How it ended.
    pub end: End,
    /// When; none while it has not.
    pub ended_unix_ms: Option<u64>,
    /// What was noticed before, at most a minute.
    pub seen: Vec<Decision>,
    /// From the decision until the end.
    pub done: Vec<Decision>,
    /// What came after, within a minute and before the next change.
    pub after: Vec<Decision>,
    /// What clients noticed of it; none before that was counted.
    pub clients: Option<Clients>,
}

/// How a change of the writer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The chosen node writes.
    Writes,
    /// The old writer went on.
    Undone,
    /// It has not ended.
    Open,
}

impl WriterChange {
    /// Whether anybody would ask why: not a start of Understudy after which the same node writes as before, or the first one.
    pub fn is_notable(&self) -> bool {
        let is_start = self.change == Some(Change::Start) && (self.from.is_none() || self.from == self.to);
        !is_start || self.done.iter().any(|entry| entry.about == About::NobodyWrites)
    }

    /// When the trouble with the old writer was noticed first, in milliseconds since 1970.
    pub fn first_sign_unix_ms(&self) -> Option<u64> {
        let is_of_writer = |entry: &&Decision| matches!(&entry.about, About::Node { node, .. } if Some(node) == self.from.as_ref());
        self.seen.iter().find(is_of_writer).map(|entry| entry.at_unix_ms)
    }

    /// How far that moment is from `unix_ms`, in milliseconds; 0 while the change was going on.
    pub fn distance_ms(&self, unix_ms: u64) -> u64 {
        let end = self.ended_unix_ms.unwrap_or(u64::MAX);
        self.decided_unix_ms.saturating_sub(unix_ms).max(unix_ms.saturating_sub(end))
    }

    fn begun(entry: &Decision) -> Self {
        Self {
            change: None,
            from: None,
            to: None,
            term: entry.term,
            decided_unix_ms: entry.at_unix_ms,
            end: End::Open,
            ended_unix_ms: None,
            seen: Vec::new(),
            done: Vec::new(),
            after: Vec::new(),
            clients: None,
        }
    }

    fn add(&mut self, entry: &Decision) {
        self.done.push(entry.clone());
        match &entry.about {
            About::Chosen { node, from, change } => {
                self.change.get_or_insert(*change);
                self.from = self.from.take().or_else(|| from.clone());
                self.to = Some(node.clone());
            }
            About::Lost { node } => {
                self.change.get_or_insert(Change::Failover);
                self.from.get_or_insert_with(|| node.clone());
            }
            About::Writes { node } => {
                self.to = Some(node.clone());
                (self.end, self.ended_unix_ms) = (End::Writes, Some(entry.at_unix_ms));
            }
            About::Undone { .. } => (self.end, self.ended_unix_ms) = (End::Undone, Some(entry.at_unix_ms)),
            _ => return,
        }
        self.term = entry.term;
    }
}

/// All changes of the writer in the journal, the oldest first.
pub fn changes(journal: &[Decision]) -> Vec<WriterChange> {
    let mut all: Vec<WriterChange> = Vec::new();
    for (at, entry) in journal.iter().enumerate() {
        let open = all.last_mut().filter(|last| last.end == End::Open);
        match (&entry.about, open) {
            (About::Clients(clients), _) => noticed(&mut all, clients),
            (_, Some(open)) => open.add(entry),
            (About::Chosen { .. } | About::Lost { .. } | About::NobodyWrites, None) => {
                let mut next = WriterChange::begun(entry);
                next.seen = seen(&journal[..at], entry.at_unix_ms, all.last_mut());
                next.add(entry);
                all.push(next);
            }
            (_, None) => {
                let last = all.last_mut();
                let is_near = |ended: u64| entry.at_unix_ms <= ended.saturating_add(AFTER_MS);
                if let Some(last) = last.filter(|last| last.ended_unix_ms.is_some_and(is_near)) {
                    last.after.push(entry.clone());
                }
            }
        }
    }
    all
}

/// The count began before the change of which it tells; of several in that time, it is told with the last one that has ended.
fn noticed(all: &mut [WriterChange], clients: &Clients) {
    let is_counted = |change: &&mut WriterChange| {
        change.end != End::Open && change.decided_unix_ms >= clients.since_unix_ms
    };
    if let Some(change) = all.iter_mut().rev().find(is_counted) {
        change.clients.get_or_insert_with(|| clients.clone());
    }
}

/// What had been noticed within the minute before, and stood at that moment. It is not told as following from the change before.
fn seen(earlier: &[Decision], decided_unix_ms: u64, before: Option<&mut WriterChange>) -> Vec<Decision> {
    let from = decided_unix_ms.saturating_sub(BEFORE_MS);
    let ended = before.as_ref().and_then(|change| change.ended_unix_ms).unwrap_or(0);
    let near = earlier.iter().rev().take_while(|entry| entry.at_unix_ms >= from && entry.at_unix_ms > ended);
    let (mut seen, mut recovered) = (Vec::new(), Vec::new());
    for entry in near {
        match &entry.about {
            About::Node { node, .. } if recovered.contains(&node) => {}
            About::Node { node, problem: Problem::None, .. } => recovered.push(node),
            About::Node { .. } => seen.push(entry.clone()),
            _ => {}
        }
    }
    seen.reverse();
    if let Some(before) = before {
        before.after.retain(|entry| !seen.contains(entry));
    }
    seen
}

#[cfg(test)]
mod tests {
    use topology::view::{Level, NodeState};

    use super::*;

    fn entry(at_unix_ms: u64, term: u64, about: About) -> Decision {
        Decision { at_unix_ms, level: Level::Info, text: format!("at {at_unix_ms}"), term, about }
    }

    fn node(name: &str, problem: Problem) -> About {
        About::Node { node: name.into(), state: NodeState::Unknown, problem }
    }

    fn chosen(node: &str, from: &str, change: Change) -> About {
        About::Chosen { node: node.into(), from: Some(from.into()), change }
    }

    fn writes(node: &str) -> About {
        About::Writes { node: node.into() }
    }

    #[test]
    fn each_change_has_what_belongs_to_it_and_nothing_of_another() {
        let counted = |since_unix_ms| {
            About::Clients(Clients { since_unix_ms, held: since_unix_ms, ..Clients::default() })
        };
        let (dead, well, day) = (Problem::Dead, Problem::None, 86_400_000);
        let journal = [
            // Days before, and over again.
            entry(10, 1, node("db1", dead)),
            entry(20, 1, node("db1", well)),
            entry(day, 1, node("db1", dead)),
            entry(day + 1, 1, node("db1", well)),
            entry(day + 2, 1, node("db3", dead)),
            entry(day + 3, 1, node("db1", Problem::Silent)),
            entry(day + 4, 1, node("db1", dead)),
            entry(day + 5, 1, chosen("db3", "db1", Change::Failover)),
            entry(day + 6, 0, About::Other),
            entry(day + 7, 1, chosen("db2", "db1", Change::Failover)),
            entry(day + 8, 3, writes("db2")),
            entry(day + 9, 3, node("db3", well)),
            entry(day + 10, 3, counted(day)),
            entry(day + 11, 3, counted(day + 10)),
            // An outage, after which the same node goes on.
            entry(2 * day, 3, About::NobodyWrites),
            entry(2 * day + 90_000, 3, writes("db2")),
            entry(2 * day + 90_001, 3, counted(2 * day - 1)),
            entry(3 * day, 3, chosen("db1", "db2", Change::Switchover)),
        ];
        let all = changes(&journal);
        let times = |entries: &[Decision]| entries.iter().map(|entry| entry.at_unix_ms).collect::<Vec<_>>();
        let [failover, outage, switchover] = all.as_slice() else { panic!("{all:#?}") };
        assert_eq!((failover.from.as_deref(), failover.to.as_deref()), (Some("db1"), Some("db2")));
        assert_eq!((failover.term, failover.end, failover.ended_unix_ms), (3, End::Writes, Some(day + 8)));
        assert_eq!(times(&failover.seen), [day + 2, day + 3, day + 4]);
        assert_eq!(failover.first_sign_unix_ms(), Some(day + 3));
        assert_eq!(times(&failover.after), [day + 9]);
        assert_eq!(failover.clients.as_ref().map(|clients| clients.held), Some(day), "not a later count");
        assert_eq!((outage.change, outage.to.as_deref(), outage.end), (None, Some("db2"), End::Writes));
        assert_eq!((outage.is_notable(), outage.clients.is_some()), (true, true));
        assert_eq!((switchover.end, switchover.seen.len()), (End::Open, 0));
        assert_eq!([day + 7, day + 10, 2 * day].map(|at| failover.distance_ms(at)), [0, 2, day - 8]);
    }
}

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        let from = self.from.as_ref()?;
        let of_writer = self.seen.iter().rev().map_while(|entry| match &entry.about {
            About::Node { node, problem, .. } if node == from => {
                (*problem != Problem::None).then_some(Some(entry.at_unix_ms))
            }
            _ => Some(None),
        });
        of_writer.flatten().last()
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
        self.term = entry.term;
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
            About::Writes { node } => self.ends(entry, End::Writes, node),
            About::Undone { node } => self.ends(entry, End::Undone, node),
            _ => {}
        }
    }

    fn ends(&mut self, entry: &Decision, end: End, writer: &str) {
        (self.end, self.ended_unix_ms) = (end, Some(entry.at_unix_ms));
        if end == End::Writes {
            self.to = Some(writer.to_owned());
        }
    }
}

/// All changes of the writer in the journal, the oldest first.
pub fn changes(journal: &[Decision]) -> Vec<WriterChange> {
    let mut all: Vec<WriterChange> = Vec::new();
    for (at, entry) in journal.iter().enumerate() {
        let is_open = all.last().is_some_and(|last| last.end == End::Open);
        match &entry.about {
            About::Chosen { .. } | About::Lost { .. } | About::NobodyWrites if !is_open => {
                let mut next = WriterChange::begun(entry);
                next.seen = seen(&journal[..at], all.last_mut());
                next.add(entry);
                all.push(next);
                continue;
            }
            _ => {}
        }
        let Some(last) = all.last_mut() else { continue };
        match (&entry.about, last.ended_unix_ms) {
            (About::Clients(clients), Some(_)) => last.clients = Some(clients.clone()),
            (_, None) => last.add(entry),
            (_, Some(ended)) if entry.at_unix_ms <= ended + AFTER_MS => last.after.push(entry.clone()),
            (_, Some(_)) => {}
        }
    }
    all
}

/// What was noticed shortly before the change that begins behind these entries. It is not told as following from the change before.
fn seen(earlier: &[Decision], before: Option<&mut WriterChange>) -> Vec<Decision> {
    let Some(newest) = earlier.last() else { return Vec::new() };
    let from = newest.at_unix_ms.saturating_sub(BEFORE_MS);
    let ended = before.as_ref().and_then(|change| change.ended_unix_ms).unwrap_or(0);
    let is_noticed =
        |entry: &&Decision| matches!(&entry.about, About::Node { problem, .. } if *problem != Problem::None);
    let is_near = |entry: &&Decision| entry.at_unix_ms >= from && entry.at_unix_ms > ended;
    let seen: Vec<Decision> = earlier.iter().filter(is_near).filter(is_noticed).cloned().collect();
    if let Some(before) = before {
        before.after.retain(|entry| !seen.contains(entry));
    }
    seen
}

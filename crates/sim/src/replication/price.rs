//! Compares what a failover was said to lose with what it lost: the sentence must never say too little.
//!
//! Enters: each sentence that names a new primary. Where it names no limit (the primary was never heard, an operator's order, a primary
//! that takes over from itself), nothing is checked.

use std::time::Duration;

use super::server::Transaction;
use super::world::World;

/// What was said may be lost.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// Transactions that are known not to be there.
    count: usize,
    /// What was written later may be lost, too.
    from: Duration,
}

/// The figure in a sentence is rounded.
const ROUNDED: Duration = Duration::from_millis(100);

impl World {
    pub fn note_price(&mut self, sentence: &str) {
        // The same server is asked once more: what was said of it counts.
        if sentence.split_once(", asked again in ").is_some_and(|(_, rest)| !rest.contains(';')) {
            return;
        }
        if sentence.contains(" is to write, term ")
            || sentence.contains(" has restarted since it was chosen: ")
        {
            self.stated = self.read_price(sentence);
        }
    }

    fn read_price(&self, sentence: &str) -> Option<Stated> {
        if let Some((_, rest)) = sentence.split_once(" has restarted since it was chosen: ") {
            let count = rest.split(' ').next()?.parse().ok()?;
            return Some(Stated { count, from: self.stated.as_ref()?.from });
        }
        // What stands before may speak of transactions, too.
        let (_, sentence) = sentence.split_once(" is to write, term ")?;
        if !sentence.contains("may be lost") {
            return None;
        }
        let before_unit =
            |unit: &str| sentence.split_once(unit).and_then(|(text, _)| text.rsplit(' ').next());
        let count = before_unit(" transaction").and_then(|text| text.parse().ok()).unwrap_or(0);
        let (_, rest) = sentence.split_once("wrote in the ")?;
        let seconds: f64 = rest.split(' ').next()?.parse().ok()?;
        let from = self.now.saturating_sub(Duration::from_secs_f64(seconds) + ROUNDED);
        Some(Stated { count, from })
    }

    /// Another transaction has its GTID: its primary came back from a crash without it and continued. No server's report shows that.
    fn is_written_over(&self, open: usize, uid: u64) -> bool {
        self.made.get(&uid).is_some_and(|made| {
            let same = |it: &&Transaction| (it.server, it.number) == (made.server, made.number);
            self.servers[open].applied.iter().rev().find(same).is_some_and(|it| it.uid != uid)
        })
    }

    /// A lane has opened: what was lost by that.
    pub fn demand_price(&mut self, open: usize) {
        let lost: Vec<u64> =
            self.lacks(open).into_iter().filter(|uid| !self.known_lost.contains(uid)).collect();
        self.known_lost.extend(lost.iter().copied());
        let lost: Vec<u64> = lost.into_iter().filter(|uid| !self.is_written_over(open, *uid)).collect();
        let Some(stated) = self.stated.take() else { return };
        let of_late =
            lost.iter().filter(|uid| self.made.get(uid).is_some_and(|it| it.at >= stated.from)).count();
        assert!(
            lost.len() <= stated.count + of_late,
            "{} were lost, {of_late} of them since {:?}, and {} were said:\n{}",
            lost.len(),
            stated.from,
            stated.count,
            self.tail()
        );
    }
}

//! What was told to clients, against what is in the log in the end.
//!
//! Checked at once: a row is not handed to a second node while the first may yet commit it, or has, and not again and again. Checked in the end: what was acknowledged is in the log, what was said not to be done is not, a
//! transaction is there whole or not at all, nothing is there twice.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A row is sent again only when a node was given up, and there are not many of them.
const SENT_MAX: u32 = 4;

/// What a client knows of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownResult {
    /// Not yet anything.
    Nothing,
    Done,
    NotDone,
    /// It may be done or not.
    Unknown,
}

/// See the head of this file.
#[derive(Default)]
pub struct Ledger {
    told: RefCell<BTreeMap<u32, KnownResult>>,
    /// Rows of a transaction belong together.
    transactions: RefCell<Vec<Vec<u32>>>,
    /// Rows that a node has begun to commit, and has not surely failed to.
    begun: RefCell<BTreeSet<u32>>,
    /// How often a row was sent to a node.
    sent: RefCell<BTreeMap<u32, u32>>,
    next: RefCell<u32>,
}

impl Ledger {
    /// A row that nobody has had.
    pub fn new_row(&self) -> u32 {
        let mut next = self.next.borrow_mut();
        *next += 1;
        self.told.borrow_mut().insert(*next, KnownResult::Nothing);
        *next
    }

    /// A row is sent to a node.
    pub fn is_sent(&self, row: u32) {
        let mut sent = self.sent.borrow_mut();
        let times = sent.entry(row).or_default();
        *times += 1;
        assert!(*times <= SENT_MAX, "row {row} was sent {times} times");
    }

    /// A node begins to commit these.
    pub fn begins(&self, rows: &[u32]) {
        for row in rows {
            assert!(self.begun.borrow_mut().insert(*row), "row {row} was sent twice, and may be done twice");
        }
    }

    /// It has failed to, by its own word.
    pub fn surely_not_done(&self, rows: &[u32]) {
        for row in rows {
            self.begun.borrow_mut().remove(row);
        }
    }

    /// A client hears this of rows that belong together.
    pub fn told(&self, rows: &[u32], told: KnownResult) {
        for row in rows {
            let before = self.told.borrow_mut().insert(*row, told);
            assert_eq!(before, Some(KnownResult::Nothing), "row {row} was answered twice");
        }
        if rows.len() > 1 {
            self.transactions.borrow_mut().push(rows.to_vec());
        }
    }

    /// The end: `log` is what is committed, and of what was acknowledged only this may be `lost`.
    pub fn check(&self, log: &[u32], lost: &HashSet<u32>) {
        let there: BTreeSet<u32> = log.iter().copied().collect();
        assert_eq!(there.len(), log.len(), "a row was done twice: {log:?}");
        for (row, told) in self.told.borrow().iter() {
            match told {
                KnownResult::Done => assert!(
                    there.contains(row) || lost.contains(row),
                    "row {row} was acknowledged, and is lost"
                ),
                KnownResult::NotDone => {
                    assert!(!there.contains(row), "row {row} was said not to be done, and is")
                }
                KnownResult::Unknown | KnownResult::Nothing => {}
            }
        }
        for rows in self.transactions.borrow().iter() {
            let count = rows.iter().filter(|row| there.contains(row)).count();
            assert!(count == 0 || count == rows.len(), "a part of a transaction is done: {rows:?}");
        }
    }

    /// How many rows were told each of these.
    pub fn counts(&self) -> [usize; 4] {
        [KnownResult::Nothing, KnownResult::Done, KnownResult::NotDone, KnownResult::Unknown]
            .map(|kind| self.told.borrow().values().filter(|told| **told == kind).count())
    }
}

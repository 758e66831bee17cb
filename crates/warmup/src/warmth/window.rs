//! The reads of one window of time that the standby did not run: each distinct statement once, and their order. Bounded in memory.
//!
//! When there is no more room, the rest of the window is only counted: what was kept is the window's beginning, in full. Leaving out a part of
//! the statements or of the key ranges instead would save as much, and would mislead: a page that n of the ranges need is found when one of them is
//! kept, and would count n times (in simulations 1.2 to 6 times as many pages came out), and what a small buffer pool evicts could not be seen.

use std::collections::HashMap;
use std::sync::Arc;

/// What is kept at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Distinct statements.
    pub texts_max: usize,
    /// Bytes of their texts.
    pub bytes_max: usize,
    /// Statements, with repetitions; each takes 4 bytes.
    pub statements_max: usize,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Text {
    /// Its default schema.
    pub schema: Option<Box<[u8]>>,
    /// The SQL.
    pub sql: Box<[u8]>,
}

/// One window.
#[derive(Debug)]
pub struct Window {
    limits: Limits,
    numbers: HashMap<Arc<Text>, u32>,
    texts: Vec<Arc<Text>>,
    bytes: usize,
    order: Vec<u32>,
    reads: u64,
    run: u64,
    is_full: bool,
}

/// What the standby did not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotRun {
    /// The distinct statements.
    pub texts: Vec<Arc<Text>>,
    /// Their numbers, in the order in which the active node ran them.
    pub order: Vec<u32>,
    /// How many there were; more than in `order` when there was no room for all.
    pub statements: u64,
}

impl Window {
    /// Nothing was seen yet.
    pub fn new(limits: Limits) -> Window {
        Window {
            limits,
            numbers: HashMap::new(),
            texts: Vec::new(),
            bytes: 0,
            order: Vec::new(),
            reads: 0,
            run: 0,
            is_full: false,
        }
    }

    /// One read of the active node; `is_run`: the standby runs it, too.
    pub fn saw(&mut self, schema: Option<&[u8]>, sql: &[u8], is_run: bool) {
        self.reads += 1;
        if is_run {
            self.run += 1;
            return;
        }
        if self.is_full {
            return;
        }
        let text = Text { schema: schema.map(Into::into), sql: sql.into() };
        let number = match self.numbers.get(&text) {
            Some(number) => *number,
            None => {
                let bytes = size_of::<Text>() + sql.len() + schema.map_or(0, <[u8]>::len);
                if self.texts.len() >= self.limits.texts_max || self.bytes + bytes > self.limits.bytes_max {
                    self.is_full = true;
                    return;
                }
                self.bytes += bytes;
                let (number, text) = (self.texts.len() as u32, Arc::new(text));
                self.texts.push(Arc::clone(&text));
                self.numbers.insert(text, number);
                number
            }
        };
        self.order.push(number);
        self.is_full = self.order.len() >= self.limits.statements_max;
    }

    /// Reads that were seen.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Of these, those that the standby ran, too.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The others.
    pub fn not_run(self) -> NotRun {
        NotRun { texts: self.texts, order: self.order, statements: self.reads - self.run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Limits = Limits { texts_max: 1000, bytes_max: 1 << 20, statements_max: 10_000 };

    fn sqls(window: Window) -> Vec<String> {
        let not_run = window.not_run();
        let text = |number: &u32| String::from_utf8_lossy(&not_run.texts[*number as usize].sql).into_owned();
        not_run.order.iter().map(text).collect()
    }

    #[test]
    fn what_was_not_run_is_kept_in_its_order_and_each_text_once() {
        let mut window = Window::new(ROOMY);
        for (sql, is_run) in [
            ("SELECT 3", false),
            ("SELECT 1", false),
            ("SELECT 3", false),
            ("SELECT 2", true),
            ("SELECT 1", true),
        ] {
            window.saw(Some(b"shop"), sql.as_bytes(), is_run);
        }
        // The same text in another schema is another statement.
        window.saw(None, b"SELECT 1", false);
        assert_eq!((window.reads(), window.run(), window.texts.len()), (6, 2, 3));
        assert_eq!(sqls(window), ["SELECT 3", "SELECT 1", "SELECT 3", "SELECT 1"]);
    }

    #[test]
    fn without_room_the_beginning_is_kept_and_the_rest_is_counted() {
        for limits in [
            Limits { texts_max: 10, ..ROOMY },
            Limits { bytes_max: 10 * (size_of::<Text>() + 8), ..ROOMY },
            Limits { statements_max: 10, ..ROOMY },
        ] {
            let mut window = Window::new(limits);
            for number in 100..1100 {
                window.saw(
                    None,
                    format!("SELECT {}", number % 100 + if number < 110 { 0 } else { 5 }).as_bytes(),
                    false,
                );
            }
            let not_run = window.not_run();
            assert_eq!(not_run.statements, 1000);
            assert!((8..=11).contains(&not_run.order.len()), "{limits:?}: {}", not_run.order.len());
        }
    }
}

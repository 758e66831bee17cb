//! The reads of one time window that the standby did not run: each distinct statement once, and the order in which they ran. Bounded in
//! memory.
//!
//! When there is no more room, the rest of the window is only counted, so that what is kept is the complete beginning of the window.
//! Leaving out part of the statements or of the key ranges instead would save as much memory, and would bias the result: a page that n of
//! the ranges need is found when any one of them is kept, and would be counted n times (in simulations the result was 1.2 to 6 times too
//! high). Evictions from a small buffer pool could not be observed either.

use std::collections::HashMap;
use std::sync::Arc;

/// The limits of what is kept.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names)] // each is a greatest number
pub struct WindowLimits {
    /// The number of distinct statements.
    pub texts_max: usize,
    /// The bytes of their texts.
    pub bytes_max: usize,
    /// The number of statements including repetitions; each takes 4 bytes.
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
    limits: WindowLimits,
    numbers: HashMap<Arc<Text>, u32>,
    texts: Vec<Arc<Text>>,
    bytes: usize,
    order: Vec<u32>,
    reads: u64,
    run: u64,
    is_full: bool,
}

/// The reads that the standby did not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotRun {
    /// The distinct statements.
    pub texts: Vec<Arc<Text>>,
    /// Their indices, in the order in which the active node ran them.
    pub order: Vec<u32>,
    /// The number of these reads; larger than the length of `order` when there was no room for all.
    pub statements: u64,
}

impl Window {
    /// An empty window.
    pub fn new(limits: WindowLimits) -> Window {
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

    /// Adds one read of the active node; `is_run`: the standby runs it as well.
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

    /// The number of reads in the window.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// The number of reads that the standby ran as well.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The reads that the standby did not run.
    pub fn not_run(self) -> NotRun {
        NotRun { texts: self.texts, order: self.order, statements: self.reads - self.run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: WindowLimits = WindowLimits { texts_max: 1000, bytes_max: 1 << 20, statements_max: 10_000 };

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
            WindowLimits { texts_max: 10, ..ROOMY },
            WindowLimits { bytes_max: 10 * (size_of::<Text>() + 8), ..ROOMY },
            WindowLimits { statements_max: 10, ..ROOMY },
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

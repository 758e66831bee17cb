//! The reads of one window of time: each distinct statement once, and whether the standby ran it meanwhile. Bounded in memory.
//!
//! While there is room all statements are kept. When there is none, a part of the key ranges is let go, chosen by a hash, and the rest counts for all: the
//! spatial sampling with a fixed size of SHARDS (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015). A key range is made
//! of a statement's digest and of its first whole number, in steps that are much wider than a page has rows: the rows of one page are kept
//! together, or let go together.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::statement::digest;

/// How many numbers a key range has.
const RANGE_WIDTH: u64 = 2048;
/// The sampling rate as a number: all of it.
const ALL: u64 = u64::MAX;

/// What is kept at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Distinct statements.
    pub texts_max: usize,
    /// Bytes of their texts.
    pub bytes_max: usize,
}

/// A statement that the standby did not run in the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The hash of its key range; spread evenly.
    pub range: u64,
    /// How often the active node ran it in the window.
    pub count: u64,
    /// Its default schema.
    pub schema: Option<Box<[u8]>>,
    /// The statement.
    pub sql: Box<[u8]>,
}

#[derive(Debug)]
struct Kept {
    range: u64,
    count: u64,
    /// None: the standby ran it.
    text: Option<(Option<Box<[u8]>>, Box<[u8]>)>,
}

impl Kept {
    fn bytes(&self) -> usize {
        let text = self.text.as_ref();
        size_of::<(u64, Kept)>()
            + text.map_or(0, |(schema, sql)| sql.len() + schema.as_ref().map_or(0, |name| name.len()))
    }
}

/// One window.
#[derive(Debug)]
pub struct Window {
    limits: Limits,
    /// Changes from window to window, so that not always the same ranges are kept.
    salt: u64,
    /// Ranges with a hash up to this are kept.
    threshold: u64,
    kept: HashMap<u64, Kept>,
    bytes: usize,
    reads: u64,
    run: u64,
}

impl Window {
    /// Nothing was seen yet.
    pub fn new(limits: Limits, salt: u64) -> Window {
        Window { limits, salt, threshold: ALL, kept: HashMap::new(), bytes: 0, reads: 0, run: 0 }
    }

    /// One read of the active node; `is_run`: the standby runs it, too.
    pub fn saw(&mut self, schema: Option<&[u8]>, sql: &[u8], is_run: bool) {
        self.reads += 1;
        self.run += u64::from(is_run);
        let range = self.range(sql);
        if range > self.threshold {
            return;
        }
        let key = hash(&(self.salt, schema, sql));
        let text = (!is_run).then(|| (schema.map(Into::into), Box::from(sql)));
        let entry = self.kept.entry(key).or_insert_with(|| {
            let kept = Kept { range, count: 0, text };
            self.bytes += kept.bytes();
            kept
        });
        entry.count += 1;
        if is_run && entry.text.is_some() {
            self.bytes -= entry.bytes();
            entry.text = None;
            self.bytes += entry.bytes();
        }
        while self.kept.len() > self.limits.texts_max || self.bytes > self.limits.bytes_max {
            self.thin();
        }
    }

    /// The standby ran a statement of the window that it would not have run.
    pub fn was_run(&mut self, schema: Option<&[u8]>, sql: &[u8]) {
        if let Some(kept) = self.kept.get_mut(&hash(&(self.salt, schema, sql))) {
            self.bytes -= kept.bytes();
            kept.text = None;
            self.bytes += kept.bytes();
        }
    }

    /// Lets go of a part of the ranges.
    fn thin(&mut self) {
        self.threshold = self.threshold / 4 * 3;
        let threshold = self.threshold;
        self.kept.retain(|_, kept| kept.range <= threshold);
        self.bytes = self.kept.values().map(Kept::bytes).sum();
        if threshold == 0 {
            self.kept.clear();
            self.bytes = 0;
        }
    }

    fn range(&self, sql: &[u8]) -> u64 {
        match first_whole_number(sql) {
            Some(number) => hash(&(self.salt, digest(sql, 0), number / RANGE_WIDTH)),
            None => hash(&(self.salt, sql)),
        }
    }

    /// Reads that were seen.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Of these, those that the standby ran, too.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The share of the key ranges that is kept; 1 is all.
    pub fn rate(&self) -> f64 {
        if self.threshold == ALL { 1.0 } else { self.threshold as f64 / ALL as f64 }
    }

    /// What the standby did not run, range by range, in random order.
    pub fn not_run(self) -> Vec<Text> {
        let mut texts: Vec<Text> = self
            .kept
            .into_values()
            .filter_map(|kept| {
                let (schema, sql) = kept.text?;
                Some(Text { range: kept.range, count: kept.count, schema, sql })
            })
            .collect();
        texts.sort_unstable_by_key(|text| text.range);
        texts
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The first number without a fraction that stands alone in a text, outside of strings and names. Good enough for a hash: nothing depends on
/// comments or odd quotes being read as a server does.
fn first_whole_number(sql: &[u8]) -> Option<u64> {
    let mut at = 0;
    let mut before = b' ';
    while let Some(&byte) = sql.get(at) {
        match byte {
            b'\'' | b'"' | b'`' => {
                let rest = sql.get(at + 1..)?;
                at += 1 + rest.iter().position(|&end| end == byte)?;
            }
            b'0'..=b'9' if !(before.is_ascii_alphanumeric() || matches!(before, b'_' | b'$' | b'.')) => {
                let digits = &sql[at..];
                let len = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
                let behind = digits.get(len).copied().unwrap_or(b' ');
                if !(behind.is_ascii_alphanumeric() || matches!(behind, b'_' | b'$' | b'.')) {
                    return std::str::from_utf8(&digits[..len]).ok()?.parse().ok();
                }
                at += len - 1;
            }
            _ => {}
        }
        before = sql.get(at).copied().unwrap_or(b' ');
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Limits = Limits { texts_max: 1000, bytes_max: 1 << 20 };

    fn sqls(window: Window) -> Vec<String> {
        let texts = window.not_run().into_iter();
        let mut sqls: Vec<String> =
            texts.map(|text| format!("{} {}", text.count, String::from_utf8_lossy(&text.sql))).collect();
        sqls.sort();
        sqls
    }

    #[test]
    fn each_statement_is_kept_once_and_what_was_run_is_not() {
        let mut window = Window::new(ROOMY, 1);
        for (sql, is_run) in [
            ("SELECT 3", false),
            ("SELECT 1", false),
            ("SELECT 3", false),
            ("SELECT 2", true),
            ("SELECT 1", true),
            ("SELECT 2", false),
        ] {
            window.saw(Some(b"shop"), sql.as_bytes(), is_run);
        }
        // The same text in another schema is another statement.
        window.saw(None, b"SELECT 1", false);
        assert_eq!((window.reads(), window.run(), window.rate()), (7, 2, 1.0));
        window.saw(None, b"SELECT 4", false);
        window.was_run(None, b"SELECT 4");
        assert_eq!(sqls(window), ["1 SELECT 1", "2 SELECT 3"]);
    }

    #[test]
    fn without_room_whole_ranges_are_let_go_and_the_rate_says_how_many() {
        let mut window = Window::new(Limits { texts_max: 2000, bytes_max: 1 << 20 }, 7);
        for number in 0..200_u64 {
            for id in 0..100 {
                window.saw(
                    None,
                    format!("SELECT a FROM t WHERE id = {}", number * RANGE_WIDTH + id).as_bytes(),
                    false,
                );
            }
        }
        let rate = window.rate();
        let texts = window.not_run();
        assert!(texts.len() <= 2000 && rate < 0.15, "{} at {rate}", texts.len());
        // Whole ranges: 100 statements of each.
        assert_eq!(texts.len() % 100, 0);
        let estimate = texts.len() as f64 / rate;
        assert!((estimate / 20_000.0 - 1.0).abs() < 0.6, "{estimate}");
    }

    #[test]
    fn bytes_are_bounded_also_with_one_range_only() {
        let mut window = Window::new(Limits { texts_max: 100_000, bytes_max: 4096 }, 7);
        for number in 0..1000 {
            window.saw(None, format!("SELECT '{number}', {}", "x".repeat(100)).as_bytes(), false);
            assert!(window.bytes <= 4096);
        }
        window.saw(None, "x".repeat(10_000).as_bytes(), false);
        assert!(window.bytes <= 4096, "{}", window.bytes);
    }

    #[test]
    fn the_first_whole_number_is_found() {
        for (sql, number) in [
            ("SELECT a1 FROM t2 WHERE id = 5 AND k = 6", Some(5)),
            ("SELECT '17' FROM `8` WHERE x=-9", Some(9)),
            ("SELECT 1.5, 2e3, 0x10, 7", Some(7)),
            ("SELECT a FROM t WHERE b = 'x", None),
            ("SELECT a", None),
            ("SELECT 99999999999999999999999", None),
        ] {
            assert_eq!(first_whole_number(sql.as_bytes()), number, "{sql}");
        }
    }
}

//! One transaction of sysbench's oltp script, as data: which statements, in which order, with which values. No I/O.
//!
//! BEGIN, 10 point selects, 4 ranges of 100 rows (plain, sum, ordered, distinct), 1 indexed update, 1 non-indexed update,
//! delete and insert of one id, COMMIT: 14 reads, 4 writes, 2 others, all on one table, as in 0.5. One ledger insert comes
//! before the COMMIT and is counted separately.
//!
//! One deliberate difference: the written ids are divided among the threads (id modulo threads), so that two threads never write the same
//! row. sysbench's conflicts (1213, which it ignores and retries) would hide errors caused by faults in a cluster where all nodes are
//! written; here no counted error is caused by the load itself.

use mysql_async::Value;
use rand::Rng;

/// Rows of a range select.
const RANGE: u32 = 100;

/// The kinds of statement, each on one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// `BEGIN`.
    Begin,
    /// One row by id.
    Point,
    /// 100 rows.
    Range,
    /// The sum of k over 100 rows.
    Sum,
    /// 100 rows, sorted.
    Order,
    /// 100 rows, distinct and sorted.
    Distinct,
    /// `k = k + 1`, k is indexed.
    UpdateIndexed,
    /// A new c.
    UpdatePlain,
    /// One row.
    Delete,
    /// The same row again.
    Insert,
    /// The ledger's row.
    Ledger,
    /// `COMMIT`.
    Commit,
}

/// The class by which a statement is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A select.
    Read,
    /// Changes a table of the load.
    Write,
    /// BEGIN, COMMIT.
    Other,
    /// The ledger's insert, which sysbench does not have.
    Ledger,
}

impl Shape {
    /// Every shape; the index in this list is [`Shape::index`].
    pub const ALL: [Self; 12] = [
        Self::Begin,
        Self::Point,
        Self::Range,
        Self::Sum,
        Self::Order,
        Self::Distinct,
        Self::UpdateIndexed,
        Self::UpdatePlain,
        Self::Delete,
        Self::Insert,
        Self::Ledger,
        Self::Commit,
    ];

    /// Position in [`Shape::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// True when the text contains the table's name, so that each table needs its own prepared statement.
    pub const fn per_table(self) -> bool {
        !matches!(self, Self::Begin | Self::Ledger | Self::Commit)
    }

    /// The class by which it is counted.
    pub const fn class(self) -> Class {
        match self {
            Self::Begin | Self::Commit => Class::Other,
            Self::Point | Self::Range | Self::Sum | Self::Order | Self::Distinct => Class::Read,
            Self::UpdateIndexed | Self::UpdatePlain | Self::Delete | Self::Insert => Class::Write,
            Self::Ledger => Class::Ledger,
        }
    }

    /// The name in error lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Point | Self::Range | Self::Sum | Self::Order | Self::Distinct => "select",
            Self::UpdateIndexed | Self::UpdatePlain => "update",
            Self::Delete => "delete",
            Self::Insert | Self::Ledger => "insert",
            Self::Commit => "commit",
        }
    }

    /// The SQL text with `?` for values; `table` counts from 1.
    pub fn sql(self, table: u32) -> String {
        match self {
            Self::Begin => "BEGIN".into(),
            Self::Point => format!("SELECT c FROM sbtest{table} WHERE id=?"),
            Self::Range => format!("SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ?"),
            Self::Sum => format!("SELECT SUM(k) FROM sbtest{table} WHERE id BETWEEN ? AND ?"),
            Self::Order => format!("SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c"),
            Self::Distinct => {
                format!("SELECT DISTINCT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c")
            }
            Self::UpdateIndexed => format!("UPDATE sbtest{table} SET k=k+1 WHERE id=?"),
            Self::UpdatePlain => format!("UPDATE sbtest{table} SET c=? WHERE id=?"),
            Self::Delete => format!("DELETE FROM sbtest{table} WHERE id=?"),
            Self::Insert => format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
            Self::Ledger => "INSERT INTO ledger (op, client, attempt) VALUES (?, ?, ?)".into(),
            Self::Commit => "COMMIT".into(),
        }
    }
}

/// One statement with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which statement.
    pub shape: Shape,
    /// The values in the order of the `?`.
    pub values: Vec<Value>,
}

impl Step {
    /// The statement as text with its values inserted (they contain only digits, dashes and plain names).
    pub fn text(&self, table: u32) -> String {
        let sql = self.shape.sql(table);
        let mut parts = sql.split('?');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (value, part) in self.values.iter().zip(parts) {
            text.push_str(&value.as_sql(true));
            text.push_str(part);
        }
        text
    }
}

/// Which ids a thread may write, and how large the tables are.
#[derive(Clone, Copy, Debug)]
pub struct Deal {
    /// Tables, from 1.
    pub tables: u32,
    /// Rows of each table.
    pub rows: u32,
    /// This thread, from 0, counted over all clients.
    pub lane: u32,
    /// Threads of all clients.
    pub lanes: u32,
}

/// A generated transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// The table that all of it uses, from 1.
    pub table: u32,
    /// The statements from BEGIN to COMMIT.
    pub steps: Vec<Step>,
}

impl Transaction {
    /// Generates one. `op`, `client` and `attempt` go into the ledger's row.
    pub fn draw(rng: &mut impl Rng, deal: Deal, op: u64, client: &str, attempt: u32) -> Self {
        let table = rng.random_range(1..=deal.tables);
        let any = |rng: &mut dyn rand::RngCore| rng.random_range(1..=deal.rows);
        let own = |rng: &mut dyn rand::RngCore| {
            let mine = (deal.rows.saturating_sub(deal.lane + 1)) / deal.lanes + 1;
            (1 + deal.lane + deal.lanes * rng.random_range(0..mine)).min(deal.rows)
        };
        let mut steps = Vec::with_capacity(21);
        let mut step = |shape, values| steps.push(Step { shape, values });
        step(Shape::Begin, vec![]);
        for _ in 0..10 {
            step(Shape::Point, vec![any(rng).into()]);
        }
        for shape in [Shape::Range, Shape::Sum, Shape::Order, Shape::Distinct] {
            let from = any(rng);
            step(shape, vec![from.into(), (from + RANGE - 1).into()]);
        }
        step(Shape::UpdateIndexed, vec![own(rng).into()]);
        step(Shape::UpdatePlain, vec![groups(rng, 10).into(), own(rng).into()]);
        let id = own(rng);
        step(Shape::Delete, vec![id.into()]);
        step(Shape::Insert, vec![id.into(), any(rng).into(), groups(rng, 10).into(), groups(rng, 5).into()]);
        step(Shape::Ledger, vec![op.into(), client.into(), attempt.into()]);
        step(Shape::Commit, vec![]);
        Self { table, steps }
    }
}

/// `n` groups of eleven digits, with which sysbench fills c (10 groups) and pad (5 groups).
pub fn groups(rng: &mut impl Rng, n: usize) -> String {
    let group = |rng: &mut dyn rand::RngCore| format!("{:011}", rng.random_range(0..100_000_000_000_u64));
    (0..n).map(|_| group(rng)).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn deal(lane: u32, lanes: u32) -> Deal {
        Deal { tables: 4, rows: 10_000, lane, lanes }
    }

    #[test]
    fn it_is_14_reads_4_writes_2_others_and_the_ledger() {
        let mut rng = StdRng::seed_from_u64(1);
        let one = Transaction::draw(&mut rng, deal(0, 8), 5, "naive", 1);
        let of = |class| one.steps.iter().filter(|s| s.shape.class() == class).count();
        assert_eq!((of(Class::Read), of(Class::Write), of(Class::Other), of(Class::Ledger)), (14, 4, 2, 1));
        assert!(one.steps.iter().all(|s| s.shape.sql(1).matches('?').count() == s.values.len()));
        assert!(Shape::ALL.iter().enumerate().all(|(i, s)| s.index() == i));
    }

    #[test]
    fn no_two_threads_write_the_same_row() {
        let mut rng = StdRng::seed_from_u64(2);
        let mut written: Vec<HashSet<u64>> = Vec::new();
        for lane in 0..3 {
            let mut ids = HashSet::new();
            for _ in 0..3000 {
                for step in
                    Transaction::draw(&mut rng, Deal { rows: 100, ..deal(lane, 3) }, 1, "naive", 1).steps
                {
                    let id = match step.shape {
                        Shape::UpdateIndexed | Shape::Delete | Shape::Insert => &step.values[0],
                        Shape::UpdatePlain => &step.values[1],
                        _ => continue,
                    };
                    ids.insert(mysql_async::from_value::<u64>(id.clone()));
                }
            }
            assert!(ids.iter().all(|id| (1..=100).contains(id)));
            written.push(ids);
        }
        assert!(written[0].is_disjoint(&written[1]) && written[1].is_disjoint(&written[2]));
        assert_eq!(written.iter().map(HashSet::len).sum::<usize>(), 100, "and every row is somebody's");
    }

    #[test]
    fn texts_carry_their_values() {
        let step = Step { shape: Shape::UpdatePlain, values: vec!["1-2".into(), 7.into()] };
        assert_eq!(step.text(3), "UPDATE sbtest3 SET c='1-2' WHERE id=7");
        let mut rng = StdRng::seed_from_u64(1);
        assert_eq!((groups(&mut rng, 10).len(), groups(&mut rng, 5).len()), (119, 59));
    }
}

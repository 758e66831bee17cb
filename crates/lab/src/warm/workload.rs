//! The statements of the experiment: mostly reads, of a slowly moving hot set. Pure: the same seed gives the same statements.
//!
//! The table is divided into blocks of as many rows as a page has. The hot set is a window of blocks, scattered over the table, whose newest
//! block is read most; it moves with each statement, so that old blocks cool down and new ones come in, as with the orders of a shop.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The table.
pub const TABLE: &str = "item";
/// Rows of a block: about as many of these as fit into an InnoDB page of 16 KiB.
pub const BLOCK_ROWS: u64 = 40;
/// Size of a page, bytes.
const PAGE_BYTES: u64 = 16 << 10;
/// Blocks of the hot set, as a fraction of the buffer pool's pages. A block lies in two pages, since blocks do not begin at page boundaries.
const HOT_PART: f64 = 0.22;
/// The fraction of the hot set that is new after a chunk.
const DRIFT_PART: f64 = 0.04;

/// The fraction of statements of each kind; the rest are single rows of the hot set by primary key.
const TAIL: f64 = 0.06;
const WRITES: f64 = 0.02;
const BY_CODE: f64 = 0.20;
const RANGES: f64 = 0.15;

/// The sizes of the table and the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Blocks of the table.
    pub blocks: u64,
    /// Blocks of the hot set.
    pub hot_blocks: u64,
    /// Number of blocks by which it moves in a chunk.
    pub drift_blocks: u64,
    /// Statements of a chunk.
    pub events_per_chunk: u64,
    seed: u64,
    /// Coprime to `blocks`: multiplying by it visits each block once, in an order that looks random.
    stride: u64,
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The SQL text.
    pub sql: String,
    /// Whether it only reads.
    pub is_read: bool,
}

impl Shape {
    /// For a table of `data_mb` and buffer pools of `pool_mb`.
    pub fn new(data_mb: u32, pool_mb: u32, events_per_chunk: u64, seed: u64) -> Self {
        let pages = |mb: u32| (u64::from(mb) << 20) / PAGE_BYTES;
        let blocks = pages(data_mb).max(16);
        let hot_blocks = ((pages(pool_mb) as f64 * HOT_PART) as u64).clamp(4, blocks / 2);
        let mut stride = (blocks as f64 * 0.618) as u64 | 1;
        while common_divisor(stride, blocks) != 1 {
            stride += 2;
        }
        let drift_blocks = ((hot_blocks as f64 * DRIFT_PART) as u64).max(1);
        Self { blocks, hot_blocks, drift_blocks, events_per_chunk: events_per_chunk.max(1), seed, stride }
    }

    /// Number of rows of the table; ids start at 0.
    pub fn rows(&self) -> u64 {
        self.blocks * BLOCK_ROWS
    }

    /// The statements that create the table. Rows are the same on each server; each statement creates a part of them, so that replicas
    /// apply it while the next is created.
    pub fn fill(&self) -> Vec<String> {
        const ROWS_PER_STATEMENT: u64 = 40_000;
        let (blocks, stride) = (self.blocks, self.stride);
        let mut statements = vec![format!(
            "CREATE TABLE {TABLE} (id BIGINT NOT NULL PRIMARY KEY, code BIGINT NOT NULL, amount INT NOT NULL, note VARCHAR(400) NOT NULL) \
             ENGINE=InnoDB CHARACTER SET latin1"
        )];
        for from in (0..self.rows()).step_by(ROWS_PER_STATEMENT as usize) {
            let to = (from + ROWS_PER_STATEMENT).min(self.rows()) - 1;
            statements.push(format!(
                "INSERT INTO {TABLE} SELECT seq, (seq DIV {BLOCK_ROWS} * {stride} % {blocks}) * {BLOCK_ROWS} + seq % {BLOCK_ROWS}, seq % 1000, \
                 REPEAT(MD5(seq), 11) FROM seq_{from}_to_{to}"
            ));
        }
        statements.push(format!("ALTER TABLE {TABLE} ADD KEY (code)"));
        statements
    }

    /// The statement with this number; numbers continue over all chunks.
    pub fn statement(&self, number: u64) -> Statement {
        let mut rng = StdRng::seed_from_u64(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let sort: f64 = rng.random();
        let row = rng.random_range(0..BLOCK_ROWS);
        let hot = self.hot_block(number, rng.random());
        let read = |sql| Statement { sql, is_read: true };
        let mut bound = TAIL;
        if sort < bound {
            let id = rng.random_range(0..self.rows());
            return read(point(id));
        }
        bound += WRITES;
        let id = hot * BLOCK_ROWS + row;
        if sort < bound {
            let sql = format!("UPDATE {TABLE} SET amount = amount + 1 WHERE id = {id}");
            return Statement { sql, is_read: false };
        }
        bound += BY_CODE;
        if sort < bound {
            let code = hot * self.stride % self.blocks * BLOCK_ROWS + row;
            return read(format!("SELECT id, amount FROM {TABLE} WHERE code = {code}"));
        }
        bound += RANGES;
        if sort < bound {
            let from = hot * BLOCK_ROWS;
            let to = from + BLOCK_ROWS / 2;
            return read(format!(
                "SELECT COUNT(*), SUM(amount) FROM {TABLE} WHERE id BETWEEN {from} AND {to}"
            ));
        }
        read(point(id))
    }

    /// A block of the hot set at the time of a statement; `part` (0 to 1) selects one, more often a newer one.
    fn hot_block(&self, number: u64, part: f64) -> u64 {
        let moved = u128::from(number) * u128::from(self.drift_blocks) / u128::from(self.events_per_chunk);
        let age = ((part * part * self.hot_blocks as f64) as u64).min(self.hot_blocks - 1);
        let place = (moved + u128::from(self.hot_blocks - 1 - age)) % u128::from(self.blocks);
        (place * u128::from(self.stride) % u128::from(self.blocks)) as u64
    }
}

fn point(id: u64) -> String {
    format!("SELECT code, amount, note FROM {TABLE} WHERE id = {id}")
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn hot(shape: &Shape, chunk: u64) -> HashSet<u64> {
        let all = chunk * shape.events_per_chunk..(chunk + 1) * shape.events_per_chunk;
        let mut rng = StdRng::seed_from_u64(9);
        all.map(|number| shape.hot_block(number, rng.random())).collect()
    }

    #[test]
    fn the_hot_set_moves_on_slowly() {
        let shape = Shape::new(64, 16, 20_000, 1);
        let (first, second) = (hot(&shape, 0), hot(&shape, 1));
        let new = second.difference(&first).count() as u64;
        assert!((1..=shape.drift_blocks).contains(&new), "{new} of {}", second.len());
        let far = hot(&shape, 1000);
        assert!(far.len() as u64 > shape.hot_blocks / 2 && far.iter().all(|block| *block < shape.blocks));
    }

    #[test]
    fn the_same_seed_gives_the_same_statements() {
        let all = |seed| -> Vec<Statement> {
            let shape = Shape::new(64, 16, 1000, seed);
            (0..1000).map(|number| shape.statement(number)).collect()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        let writes = all(1).iter().filter(|statement| !statement.is_read).count();
        assert!((5..50).contains(&writes), "{writes} of 1000 write");
    }

    #[test]
    fn codes_are_those_that_the_table_is_filled_with() {
        let shape = Shape::new(8, 4, 1000, 1);
        let codes: HashSet<u64> = (0..shape.rows())
            .map(|id| id / BLOCK_ROWS * shape.stride % shape.blocks * BLOCK_ROWS + id % BLOCK_ROWS)
            .collect();
        assert_eq!(codes.len() as u64, shape.rows(), "each row has a code of its own");
        assert!(codes.iter().all(|code| *code < shape.rows()));
        assert!(shape.fill()[1].contains(&format!("* {} % {})", shape.stride, shape.blocks)));
    }
}

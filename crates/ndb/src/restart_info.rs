//! Reads `ndbinfo.restart_info` as text: a header line and tab-separated rows, read from the server once, or once a second.

use std::collections::BTreeMap;

use crate::entry::Lines;
use crate::restart::Restart;
use crate::wrong::Wrong;

/// The greatest difference, in seconds, between a log's time and the table's whole seconds, which are truncated.
const APART_S: u64 = 1;

/// The limit of the rows that are kept.
const ROWS_MAX: usize = 10_000;

/// The columns with the times of the parts of a restart, in their order. `secs_for_local_recovery` contains the four after it.
pub const TIMES: [&str; 19] = [
    "secs_to_complete_node_failure",
    "secs_to_allocate_node_id",
    "secs_to_include_in_heartbeat_protocol",
    "secs_until_wait_for_ndbcntr_master",
    "secs_wait_for_ndbcntr_master",
    "secs_to_get_start_permitted",
    "secs_to_wait_for_lcp_for_copy_meta_data",
    "secs_to_copy_meta_data",
    "secs_to_include_node",
    "secs_starting_node_to_request_local_recovery",
    "secs_for_local_recovery",
    "secs_restore_fragments",
    "secs_undo_disk_data",
    "secs_exec_redo_log",
    "secs_index_rebuild",
    "secs_to_synchronize_starting_node",
    "secs_wait_lcp_for_restart",
    "secs_wait_subscription_handover",
    "total_restart_secs",
];

/// One node's row. The server keeps only the last restart of a node, and loses all rows when the master changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The node.
    pub node: u32,
    /// The state of the restart, in the server's words.
    pub status: String,
    /// The whole seconds of [`TIMES`], in that order.
    pub seconds: [u64; 19],
}

impl Row {
    /// From the failure to the end of the restart, in seconds; 0 until it has ended.
    pub fn total_s(&self) -> u64 {
        self.seconds[18]
    }

    /// Whether the restart has ended.
    pub fn is_complete(&self) -> bool {
        self.status == "Restart completed"
    }

    /// Whether it is the same restart as `restart` of a log.
    pub fn is_of(&self, restart: &Restart) -> bool {
        let total_s = restart.total_us().and_then(|us| u64::try_from(us / 1_000_000).ok());
        self.node == restart.node
            && self.is_complete()
            && total_s.is_some_and(|total| total.abs_diff(self.total_s()) <= APART_S)
    }

    /// Reads the columns of a row; an error is the name of a column that is missing or has no number.
    pub fn of(mut column: impl FnMut(&str) -> Option<String>) -> Result<Self, String> {
        let node = number(column("node_id"), "node_id")?;
        let status = column("node_restart_status").ok_or("node_restart_status")?;
        let mut seconds = [0; 19];
        for (slot, name) in seconds.iter_mut().zip(TIMES) {
            *slot = number(column(name), name)?;
        }
        Ok(Self { node, status, seconds })
    }
}

fn number<T: std::str::FromStr>(text: Option<String>, name: &str) -> Result<T, String> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| name.to_owned())
}

/// A table that is being read.
#[derive(Debug, Default)]
pub struct Table {
    lines: Lines,
    columns: BTreeMap<String, usize>,
    /// For each node: its rows of completed restarts, without duplicates, and its newest row.
    rows: BTreeMap<u32, Vec<Row>>,
    kept: usize,
    wrong: Option<Wrong>,
}

impl Table {
    /// Reads the next piece; pieces may be cut anywhere. Returns whether it makes sense to read on.
    pub fn feed(&mut self, piece: &[u8]) -> bool {
        let mut lines = std::mem::take(&mut self.lines);
        let is_table = lines.feed(piece, |at, line| {
            self.line(at, line);
            !self.columns.is_empty()
        });
        self.lines = lines;
        is_table && self.wrong.is_none()
    }

    fn line(&mut self, at: u64, line: &str) {
        // Comments that a sampling script writes between the rows: no rows, or an error.
        if line.starts_with('#') || line.trim().is_empty() || self.wrong.is_some() {
            return;
        }
        let cells: Vec<&str> = line.split('\t').collect();
        if self.columns.is_empty() {
            self.columns =
                cells.iter().enumerate().map(|(at, name)| ((*name).trim().to_owned(), at)).collect();
            let missing = ["node_id", "node_restart_status"]
                .into_iter()
                .chain(TIMES)
                .find(|name| !self.columns.contains_key(*name));
            self.wrong = missing.map(Wrong::NoRestartInfo);
            return;
        }
        let columns = &self.columns;
        let cell = |name: &str| Some((*cells.get(*columns.get(name)?)?).to_owned());
        match Row::of(cell) {
            Ok(row) => {
                let rows = self.rows.entry(row.node).or_default();
                if rows.last().is_some_and(|last| !last.is_complete()) {
                    rows.pop();
                    self.kept -= 1;
                }
                if rows.last() != Some(&row) {
                    rows.push(row);
                    self.kept += 1;
                }
                if self.kept > ROWS_MAX {
                    self.wrong = Some(Wrong::TooMuch);
                }
            }
            Err(column) => self.wrong = Some(Wrong::Row { line: at, column }),
        }
    }

    /// Ends the input and returns the rows of completed restarts, and the newest row of each node.
    ///
    /// # Errors
    /// Why it is not such a table.
    pub fn finish(mut self) -> Result<Vec<Row>, Wrong> {
        if self.lines.is_cut() {
            // The last line needs no line end.
            self.feed(b"\n");
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if self.columns.is_empty() {
            return Err(if self.lines.is_empty() { Wrong::Empty } else { Wrong::NoRestartInfo("node_id") });
        }
        Ok(self.rows.into_values().flatten().collect())
    }
}

//! `ndbinfo.restart_info` as a table in text, with its header line and tabs between: one reading, or one reading a second.

use std::collections::BTreeMap;

use crate::entry::Lines;
use crate::restart::Restart;
use crate::wrong::Wrong;

/// What a log's times and the table's whole seconds, cut off, may differ by.
const APART_S: u64 = 1;

/// The times of the table that are parts of a restart, in their order. Local recovery holds the four behind it.
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

/// One node's row. The server keeps a node's last restart only, and forgets all when the master changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The node.
    pub node: u32,
    /// Where it is, in the server's words.
    pub status: String,
    /// The whole seconds of [`TIMES`], in that order.
    pub seconds: [u64; 19],
}

impl Row {
    /// From the failure to the end; 0 until it has ended.
    pub fn total_s(&self) -> u64 {
        self.seconds[18]
    }

    /// Whether the restart has ended.
    pub fn is_complete(&self) -> bool {
        self.status == "Restart completed"
    }

    /// Whether it is the same restart as that of a log.
    pub fn is_of(&self, restart: &Restart) -> bool {
        let total_s = restart.total_us().and_then(|us| u64::try_from(us / 1_000_000).ok());
        self.node == restart.node
            && self.is_complete()
            && total_s.is_some_and(|total| total.abs_diff(self.total_s()) <= APART_S)
    }

    /// From the columns of a server's answer.
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

/// The table while it is read.
#[derive(Debug, Default)]
pub struct Table {
    lines: Lines,
    columns: BTreeMap<String, usize>,
    /// Of each node: its rows whose restart had ended, each once, and its newest row.
    rows: BTreeMap<u32, Vec<Row>>,
    wrong: Option<Wrong>,
}

impl Table {
    /// Takes the next piece, cut anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(piece, |at, line| self.line(at, line));
        self.lines = lines;
    }

    fn line(&mut self, at: u64, line: &str) {
        // What a sampler notes between: no rows, or an error.
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
                }
                if rows.last() != Some(&row) {
                    rows.push(row);
                }
            }
            Err(column) => self.wrong = Some(Wrong::Row { line: at, column }),
        }
    }

    /// The end of the table: the rows of restarts that ended, and the newest row of each node.
    ///
    /// # Errors
    /// What makes it no such table.
    pub fn finish(mut self) -> Result<Vec<Row>, Wrong> {
        if self.lines.is_cut() {
            // A table's last line needs no end.
            self.feed(b"\n");
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if self.columns.is_empty() {
            return Err(Wrong::Empty);
        }
        Ok(self.rows.into_values().flatten().collect())
    }
}

//! The forecast as a table and a few lines, or as JSON.

use std::time::Duration;

use measure::recovery::galera::gcache_bytes_for;
use measure::recovery::replication::binlog_bytes_for;
use serde_json::{Value, json};
use topology::kind::Kind;

use doctor::windows::{Outlook, Summary, copy, sentence, size};
use report::table::{Lean, Table, span};

/// All that is shown.
pub(super) struct Page {
    pub(super) kind: Kind,
    pub(super) summary: Summary,
    pub(super) rows: Vec<Outlook>,
    /// A running server has measured; else this command.
    pub(super) is_served: bool,
    pub(super) away: Option<Duration>,
    /// As it was said.
    pub(super) copy_bytes_per_s: Option<f64>,
}

impl Page {
    /// Whether every node could return without a full copy.
    pub(super) fn is_well(&self) -> bool {
        self.rows.iter().all(|row| row.is_well(self.away))
    }

    fn copy(&self) -> String {
        copy(&self.summary, self.copy_bytes_per_s)
    }

    pub(super) fn text(&self) -> String {
        let (from, kept) = match self.kind {
            Kind::Galera => ("KEEPS FROM", "GCACHE"),
            Kind::Replication => ("BINLOGS AFTER", "BINLOGS"),
        };
        let mut table = Table::new(&[
            ("NODE", Lean::Left),
            ("STATE", Lean::Left),
            ("HAS UP TO", Lean::Right),
            (from, Lean::Right),
            (kept, Lean::Right),
            ("FORECAST", Lean::Left),
        ])
        .wrapping([30, 30, 10, 80]);
        let copy = self.copy();
        for row in &self.rows {
            let position = match &row.position {
                Value::String(gtids) if gtids.is_empty() => "nothing".to_owned(),
                Value::String(gtids) => gtids.clone(),
                Value::Null => "?".to_owned(),
                number => number.to_string(),
            };
            let from = match (row.cached_downto, &row.binlogs) {
                (Some(u64::MAX), _) => "nothing".to_owned(),
                (Some(downto), _) => downto.to_string(),
                (None, Some(binlogs)) => match binlogs.purged.as_deref() {
                    Some("") => "the first".to_owned(),
                    Some(purged) => purged.to_owned(),
                    None => "?".to_owned(),
                },
                (None, None) => "-".to_owned(),
            };
            let bytes = row.gcache_bytes.or_else(|| Some(row.binlogs.as_ref()?.bytes));
            table.row([
                row.node.clone(),
                row.state.clone(),
                position,
                from,
                bytes.map_or_else(|| "-".to_owned(), |bytes| size(bytes as f64)),
                sentence(row, &copy),
            ]);
        }
        let measured = Duration::from_secs_f64(self.summary.window_s.clamp(0.0, 86_400.0));
        let by = if self.is_served { " by the running `understudy serve`" } else { "" };
        let mut text = format!(
            "{}\nwrites: {} and {:.0} transactions a second, measured for {:.0} s{by}\n",
            table.text(),
            size(self.summary.write_bytes_per_s),
            self.summary.transactions_per_s,
            measured.as_secs_f64()
        );
        if let Some(busiest) = self.summary.busiest_write_bytes_per_s {
            text.push_str(&format!("busiest minute of the last hour: {} a second\n", size(busiest)));
        }
        for note in &self.summary.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        if let Some(away) = self.away {
            text.push_str(&self.wanted(away));
        }
        text
    }

    /// The rate of writes that an absence is to be borne at, bytes per second, and what it is: that of the busiest minute, where one is known that
    /// was busier than now.
    fn wanted_rate(&self) -> (f64, &'static str) {
        let now = self.summary.write_bytes_per_s;
        match self.summary.busiest_write_bytes_per_s {
            Some(busiest) if busiest > now => (busiest, "the rate of the busiest minute of the last hour"),
            _ => (now, "the present rate"),
        }
    }

    /// Bytes of gcache, or of binary logs, with which nodes may be away for so long.
    fn wanted_bytes(&self, away: Duration) -> u64 {
        let rate = self.wanted_rate().0;
        match self.kind {
            Kind::Galera => gcache_bytes_for(away, rate),
            Kind::Replication => {
                let newest =
                    self.rows.iter().filter_map(|row| Some(row.binlogs.as_ref()?.newest_bytes)).max();
                binlog_bytes_for(away, rate, newest.unwrap_or(0))
            }
        }
    }

    fn wanted(&self, away: Duration) -> String {
        let (bytes, long) = (self.wanted_bytes(away), span(away.as_millis() as u64));
        let (bytes_per_s, rate) = self.wanted_rate();
        let rate = format!("this counts with {} of writes a second, {rate}", size(bytes_per_s));
        match self.kind {
            Kind::Galera => format!(
                "to be away for {long}, a node needs gcache.size = {}M on every other node; {rate}\n",
                bytes.div_ceil(1 << 20).max(1)
            ),
            Kind::Replication => format!(
                "to be away for {long}, a replica needs binlog_expire_logs_seconds = {} or more (or 0, never) on its source, and room for {} of binary logs there; {rate}\n",
                away.as_secs(),
                size(bytes as f64)
            ),
        }
    }

    pub(super) fn json(&self) -> Value {
        let copy = self.copy();
        let nodes = self.rows.iter().map(|row| {
            let mut node = json!(row);
            node["is_well"] = json!(row.is_well(self.away));
            node["sentence"] = json!(sentence(row, &copy));
            node
        });
        let mut page = json!(self.summary);
        page["nodes"] = nodes.collect();
        page["is_served"] = json!(self.is_served);
        let wanted = self.away.map(|away| self.wanted_bytes(away));
        let name = match self.kind {
            Kind::Galera => "gcache_bytes_wanted",
            Kind::Replication => "binlog_bytes_wanted",
        };
        page[name] = json!(wanted);
        page["wanted_at_bytes_per_s"] = json!(self.away.map(|_| self.wanted_rate().0));
        page
    }
}

#[cfg(test)]
mod tests;

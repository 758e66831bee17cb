//! The forecast as a table and a few lines, or as JSON.

use std::time::Duration;

use measure::recovery::galera::gcache_bytes_for;
use measure::recovery::replication::binlog_bytes_for;
use serde_json::{Value, json};
use topology::kind::Kind;

use crate::table::{Lean, Table, span};
use crate::windows::{Outlook, Summary, copy, sentence, size};

/// All that is shown.
pub(super) struct Page {
    pub(super) kind: Kind,
    pub(super) summary: Summary,
    pub(super) rows: Vec<Outlook>,
    /// A running server has measured; else this command.
    pub(super) is_served: bool,
    pub(super) away: Option<Duration>,
    pub(super) copy_bytes_per_s: f64,
}

impl Page {
    /// Whether every node could return without a full copy.
    pub(super) fn is_well(&self) -> bool {
        self.rows.iter().all(|row| row.is_well(self.away))
    }

    fn copy(&self) -> String {
        copy(self.summary.full_copy_bytes, self.copy_bytes_per_s)
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
        if let Some(away) = self.away {
            text.push_str(&self.wanted(away));
        }
        text
    }

    /// Bytes of gcache, or of binary logs, with which nodes may be away for so long.
    fn wanted_bytes(&self, away: Duration) -> u64 {
        let rate = self.summary.write_bytes_per_s.max(self.summary.busiest_write_bytes_per_s.unwrap_or(0.0));
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
        match self.kind {
            Kind::Galera => format!(
                "to be away for {long} at this rate a node needs gcache.size = {}M on every other\n",
                bytes.div_ceil(1 << 20).max(1)
            ),
            Kind::Replication => format!(
                "to be away for {long} at this rate a replica needs binlog_expire_logs_seconds = {} or more on its source, and room for {} of binary logs there\n",
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
        page
    }
}

#[cfg(test)]
mod tests {
    use measure::recovery::WriteRate;
    use measure::recovery::galera::Donor;

    use super::*;
    use crate::windows::keeps::Binlogs;
    use crate::windows::{Cluster, Kept, Known};

    const MB_A_SECOND: WriteRate = WriteRate { bytes_per_s: 1e6, transactions_per_s: 2_000.0 };

    fn known(name: &str, is_there: bool, kept: Kept) -> Known {
        let why = format!("nothing listens there; --position {name}=... tells what it has");
        let state = if is_there { "Synced" } else { "no answer" };
        Known { name: name.into(), state: state.into(), is_there, lasted: None, why, kept }
    }

    fn member(name: &str) -> Known {
        let donor = Donor {
            last_committed: 1_000_000,
            cached_downto: 800_001,
            gcache_bytes: 128_000_000,
            is_dropping: true,
        };
        known(name, true, Kept::Galera { position: Some(1_000_000), donor: Some(donor), may_donate: true })
    }

    fn gone(name: &str, position: Option<i64>) -> Known {
        known(name, false, Kept::Galera { position, donor: None, may_donate: false })
    }

    fn page(kind: Kind, nodes: Vec<Known>) -> Page {
        let cluster = Cluster {
            kind,
            nodes,
            writes: MB_A_SECOND,
            measured: Duration::from_secs(5),
            busiest: None,
            data_bytes: Some(1_200_000_000),
        };
        Page {
            kind,
            summary: cluster.summary(),
            rows: cluster.outlooks(),
            is_served: false,
            away: Some(Duration::from_secs(120)),
            copy_bytes_per_s: 1e8,
        }
    }

    #[test]
    fn a_node_that_runs_and_one_that_is_gone() {
        let page = page(Kind::Galera, vec![member("db1"), member("db2"), gone("db3", Some(900_000))]);
        let sentences: Vec<String> = page.rows.iter().map(|row| sentence(row, &page.copy())).collect();
        assert_eq!(
            sentences[0],
            "may be away 1 min 40 s at the present rate of writes, after that it needs a full copy of 1.2 GB, 12.0 s at 100.0 MB a second"
        );
        assert!(!page.rows[0].is_well(page.away), "two minutes are too long");
        assert!(sentences[2].starts_with("may stay away another 50.0 s"), "{}", sentences[2]);
        let text = page.text();
        assert!(
            text.ends_with(
                "to be away for 2 min 0 s at this rate a node needs gcache.size = 126M on every other\n"
            ),
            "{text}"
        );
        assert_eq!(page.json()["nodes"][2]["returns_by"], "ist");
        assert_eq!(page.json()["gcache_bytes_wanted"], 132_000_000);
    }

    #[test]
    fn a_node_that_was_seen_to_go_and_what_a_busier_minute_would_mean() {
        let mut away = gone("db3", Some(900_000));
        away.lasted = Some(Duration::from_secs(720));
        let cluster = Cluster {
            kind: Kind::Galera,
            nodes: vec![member("db1"), away],
            writes: MB_A_SECOND,
            measured: Duration::from_secs(300),
            busiest: Some(WriteRate { bytes_per_s: 2e6, transactions_per_s: 4_000.0 }),
            data_bytes: None,
        };
        // Through its JSON, as from a running server.
        let row: Outlook = serde_json::from_value(json!(cluster.outlooks()[1])).unwrap();
        assert_eq!(
            sentence(&row, "a full copy"),
            "has been away for 12 min 0 s; may come back with IST for another 50.0 s at the present rate of writes \
             (25.0 s at that of the busiest minute of the last hour), after that it needs a full copy"
        );
    }

    #[test]
    fn a_node_whose_position_nobody_knows() {
        let page = page(Kind::Galera, vec![member("db1"), gone("db3", None), gone("db4", Some(-1))]);
        let sentences: Vec<String> = page.rows.iter().map(|row| sentence(row, "a full copy")).collect();
        assert_eq!(sentences[0], "nobody else is Synced: there is no donor");
        assert_eq!(sentences[1], "nothing listens there; --position db3=... tells what it has");
        assert_eq!(sentences[2], "needs a full copy: no member has what it misses");
    }

    #[test]
    fn a_replica_and_the_binary_logs_of_its_primary() {
        use protocol::gtid::{Family, Position};
        let at = |text| Position::parse(Family::MariaDb, text).ok();
        let server = |name, position, purged: &str, is_there: bool, is_primary: bool| {
            let binlogs = Binlogs {
                bytes: 5_000_000,
                newest_bytes: 1_000_000,
                oldest: Some("binlog.000003".into()),
                purged: Some(purged.to_owned()),
                age_max_s: Some(864_000),
                bytes_max: Some(601_000_000),
                files: Vec::new(),
            };
            let binlogs = is_there.then_some(binlogs);
            let kept = Kept::Replication { position: at(position), binlogs, is_primary, missed_bytes: 0 };
            known(name, is_there, kept)
        };
        let nodes = vec![
            server("db1", "0-1-50", "0-1-20", true, true),
            server("db2", "0-1-50", "", true, false),
            server("db3", "0-1-19", "", false, false),
            server("db4", "0-1-20", "", false, false),
        ];
        let page = page(Kind::Replication, nodes);
        let ways: Vec<Value> = page.rows.iter().map(|row| json!(row.returns_by)).collect();
        assert_eq!(ways, ["binlogs", "binlogs", "clone", "binlogs"]);
        // 600 MB at 1 MB a second; the age would allow ten days.
        assert_eq!(page.rows[1].away_max_s, Some(600.0));
        assert!(page.text().contains("needs a full copy of 1.2 GB"), "{}", page.text());
        let wanted = "a replica needs binlog_expire_logs_seconds = 120 or more on its source, and room for 121.0 MB of binary logs there\n";
        assert!(page.text().ends_with(wanted), "{}", page.text());
    }
}

//! `understudy recovery forecast`: for each Galera node, how long it may be away, and what it needs when it stays away longer.

pub(super) mod read;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use measure::recovery::galera::{self, Donor};
use measure::recovery::{self, WriteRate};
use serde_json::{Value, json};
use topology::kind::Kind;

use self::read::Said;
use crate::doctor::asked::{NodeFacts, answered};
use crate::exit::{Failure, Outcome};
use crate::settings::{self, Settings};
use crate::table::{Lean, Table, span};

/// For `--help`.
const MORE: &str = "\
Each member keeps the newest writesets in its gcache. A node that returns is sent what it missed from there (IST); when no member has all of it any
more, it needs a full copy (SST). Only reads from the servers.

Exit codes: 0 every node could return without a full copy, at once and after --away; 1 one could not, or did not answer; 2 wrong usage or configuration.";

/// How long may each node be away, at the present rate of writes, before it needs a full copy?
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Forecast {
    /// The configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// For how long the rate of writes is measured
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    window_s: u64,
    /// Judge an absence of so many minutes, and say which gcache.size it needs
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    away_min: Option<u64>,
    /// The last writeset of a node that does not answer: `seqno` of its grastate.dat, or of mariadbd --wsrep-recover; -1 when it has none
    #[arg(long, value_name = "NODE=SEQNO")]
    position: Vec<String>,
    /// A full copy moves so many megabytes a second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    copy_mb_per_s: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Forecast {
    /// Asks, computes, prints.
    pub fn run(self) -> Outcome {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        if settings.kind != Kind::Galera {
            let text = "recovery forecast is for Galera, and cluster.kind is \"replication\"";
            return Err(Failure::usage(settings.problem(&settings::table::CLUSTER_KIND, text)));
        }
        let positions = positions(&self.position, &settings)?;
        let password = settings.password().map_err(Failure::usage)?;
        let runtime = crate::runtime::start()?;
        let window = Duration::from_secs(self.window_s);
        let nodes = runtime.block_on(read::all(&settings, &password, window));
        let page = Page {
            nodes: &nodes,
            positions: &positions,
            away: self.away_min.map(|minutes| Duration::from_secs(minutes * 60)),
            copy_bytes_per_s: self.copy_mb_per_s as f64 * 1e6,
            window_s: self.window_s,
        };
        let rows: Vec<Row> = nodes.iter().map(|node| page.row(node)).collect();
        if self.json {
            println!("{:#}", page.json(&rows));
        } else {
            print!("{}", page.text(&rows));
        }
        Ok(if rows.iter().all(|row| row.is_well) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// `NODE=SEQNO`, each.
fn positions(said: &[String], settings: &Settings) -> Result<BTreeMap<String, i64>, Failure> {
    let mut positions = BTreeMap::new();
    for one in said {
        let parsed = one.split_once('=').and_then(|(node, seqno)| Some((node, seqno.parse::<i64>().ok()?)));
        let Some((node, seqno)) = parsed.filter(|(_, seqno)| *seqno >= -1) else {
            return Err(Failure::usage(format!(
                "--position {one}: write NODE=SEQNO, with a whole number from -1"
            )));
        };
        if !settings.nodes.iter().any(|known| known.name == node) {
            let file = settings.file.display();
            return Err(Failure::usage(format!("--position {one}: {file} has no node {node}")));
        }
        positions.insert(node.to_owned(), seqno);
    }
    Ok(positions)
}

/// All that was heard and asked for.
struct Page<'a> {
    nodes: &'a [NodeFacts<Said>],
    positions: &'a BTreeMap<String, i64>,
    away: Option<Duration>,
    copy_bytes_per_s: f64,
    window_s: u64,
}

/// One node's forecast.
struct Row {
    node: String,
    state: String,
    position: Option<i64>,
    forecast: Option<recovery::Forecast>,
    /// It could return without a full copy, at once and after the absence that was asked for.
    is_well: bool,
    sentence: String,
}

impl Page<'_> {
    /// What a node that is away misses, by the busiest of those that see it.
    fn writes(&self) -> WriteRate {
        let rates = answered(self.nodes).map(|(_, said)| said.writes);
        rates
            .max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
            .unwrap_or(WriteRate { bytes_per_s: 0.0, transactions_per_s: 0.0 })
    }

    fn row(&self, node: &NodeFacts<Said>) -> Row {
        let donors: Vec<Donor> = answered(self.nodes)
            .filter(|(name, said)| *name != node.name && said.may_donate)
            .map(|(_, said)| said.donor)
            .collect();
        let position = match &node.said {
            Ok(said) => i64::try_from(said.donor.last_committed).ok(),
            Err(_) => self.positions.get(&node.name).copied(),
        };
        let state = match &node.said {
            Ok(said) => said.state.clone(),
            Err(_) => "no answer".to_owned(),
        };
        let forecast = position
            .filter(|_| !donors.is_empty())
            .map(|position| galera::forecast(position, &donors, self.writes()));
        let is_well = match forecast {
            Some(recovery::Forecast::Missed(window)) => {
                window.is_none_or(|window| self.away.is_none_or(|away| window >= away))
            }
            _ => false,
        };
        let sentence = self.sentence(node, donors.is_empty(), forecast);
        Row {
            node: node.name.clone(),
            state,
            position,
            forecast,
            is_well: is_well && node.said.is_ok(),
            sentence,
        }
    }

    fn sentence(
        &self,
        node: &NodeFacts<Said>,
        is_alone: bool,
        forecast: Option<recovery::Forecast>,
    ) -> String {
        if is_alone {
            return "nobody else is Synced: there is no donor".to_owned();
        }
        if node.said.is_err() && self.positions.get(&node.name) == Some(&-1) {
            return format!(
                "its position is not known (-1): `mariadbd --wsrep-recover` on its host may find it; without one it needs {}",
                self.full_copy()
            );
        }
        let Some(forecast) = forecast else {
            let why = node.said.as_ref().err().cloned().unwrap_or_default();
            return format!("{why}; --position {}=SEQNO tells what it has", node.name);
        };
        let be_away = if node.said.is_ok() { "may be away" } else { "may stay away another" };
        let copy = self.full_copy();
        let long = |window: Duration| span(window.as_millis() as u64);
        match forecast {
            recovery::Forecast::Missed(None) => format!("{be_away} for as long as nothing is written"),
            recovery::Forecast::Missed(Some(window)) => {
                format!("{be_away} {}, after that it needs {copy}", long(window))
            }
            recovery::Forecast::DependsOnSource(window) => {
                let until = window.map_or_else(String::new, |window| format!(" for {}", long(window)));
                format!(
                    "not every member has what it misses: name one that has it in wsrep_sst_donor{until}, or it may need {copy}"
                )
            }
            recovery::Forecast::FullCopy => format!("needs {copy}: no member has what it misses"),
        }
    }

    /// "a full copy of 1.2 GB, 12.0 s at 100 MB/s".
    fn full_copy(&self) -> String {
        let Some(bytes) = self.data_bytes() else { return "a full copy".to_owned() };
        let took = recovery::full_copy(bytes, self.copy_bytes_per_s).map_or_else(String::new, |took| {
            format!(", {} at {} a second", span(took.as_millis() as u64), size(self.copy_bytes_per_s))
        });
        format!("a full copy of {}{took}", size(bytes as f64))
    }

    /// The largest figure: a server that was just started does not know all of its tablespaces.
    fn data_bytes(&self) -> Option<u64> {
        answered(self.nodes).filter_map(|(_, said)| said.data_bytes).max()
    }

    fn text(&self, rows: &[Row]) -> String {
        let mut table = Table::new(&[
            ("NODE", Lean::Left),
            ("STATE", Lean::Left),
            ("HAS UP TO", Lean::Right),
            ("KEEPS FROM", Lean::Right),
            ("GCACHE", Lean::Right),
            ("FORECAST", Lean::Left),
        ])
        .wrapping([80]);
        for (row, node) in rows.iter().zip(self.nodes) {
            let donor = node.said.as_ref().ok().map(|said| said.donor);
            let of = |show: &dyn Fn(Donor) -> String| donor.map_or_else(|| "-".to_owned(), show);
            table.row([
                row.node.clone(),
                row.state.clone(),
                row.position.map_or_else(|| "?".to_owned(), |position| position.to_string()),
                of(&|donor| {
                    if donor.cached_downto == u64::MAX {
                        "nothing".to_owned()
                    } else {
                        donor.cached_downto.to_string()
                    }
                }),
                of(&|donor| size(donor.gcache_bytes as f64)),
                row.sentence.clone(),
            ]);
        }
        let writes = self.writes();
        let mut text = format!(
            "{}\nwrites: {} and {:.0} transactions a second, measured for {} s\n",
            table.text(),
            size(writes.bytes_per_s),
            writes.transactions_per_s,
            self.window_s
        );
        if let Some(away) = self.away {
            let wanted = galera::gcache_bytes_for(away, writes.bytes_per_s);
            text.push_str(&format!(
                "to be away for {} at this rate a node needs gcache.size = {}M on every other\n",
                span(away.as_millis() as u64),
                wanted.div_ceil(1 << 20).max(1)
            ));
        }
        text
    }

    fn json(&self, rows: &[Row]) -> Value {
        let writes = self.writes();
        let nodes = rows.iter().zip(self.nodes).map(|(row, node)| {
            let donor = node.said.as_ref().ok().map(|said| said.donor);
            let (returns_by, window) = match row.forecast {
                None => (Value::Null, None),
                Some(recovery::Forecast::Missed(window)) => (json!("ist"), window),
                Some(recovery::Forecast::DependsOnSource(window)) => (json!("depends on the donor"), window),
                Some(recovery::Forecast::FullCopy) => (json!("sst"), None),
            };
            json!({
                "node": row.node,
                "state": row.state,
                "position": row.position,
                "cached_downto": donor.map(|donor| donor.cached_downto),
                "gcache_bytes": donor.map(|donor| donor.gcache_bytes),
                "returns_by": returns_by,
                "away_max_s": window.map(|window| window.as_secs_f64()),
                "is_well": row.is_well,
                "sentence": row.sentence,
            })
        });
        json!({
            "nodes": nodes.collect::<Vec<_>>(),
            "write_bytes_per_s": writes.bytes_per_s,
            "transactions_per_s": writes.transactions_per_s,
            "window_s": self.window_s,
            "full_copy_bytes": self.data_bytes(),
            "gcache_bytes_wanted": self.away.map(|away| galera::gcache_bytes_for(away, writes.bytes_per_s)),
        })
    }
}

/// Decimal units, as disks and networks are sold: "1.2 GB".
fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(last_committed: u64, cached_downto: u64, is_dropping: bool) -> Said {
        Said {
            state: "Synced".into(),
            donor: Donor { last_committed, cached_downto, gcache_bytes: 128_000_000, is_dropping },
            may_donate: true,
            writes: WriteRate { bytes_per_s: 1e6, transactions_per_s: 2_000.0 },
            data_bytes: Some(1_200_000_000),
        }
    }

    fn node(name: &str, said: Result<Said, &str>) -> NodeFacts<Said> {
        NodeFacts {
            name: name.into(),
            address: format!("{name}:3306"),
            said: said.map_err(str::to_owned),
            file: None,
        }
    }

    fn page<'a>(
        nodes: &'a [NodeFacts<Said>],
        positions: &'a BTreeMap<String, i64>,
        away_min: u64,
    ) -> Page<'a> {
        Page {
            nodes,
            positions,
            away: Some(Duration::from_secs(away_min * 60)),
            copy_bytes_per_s: 1e8,
            window_s: 5,
        }
    }

    #[test]
    fn a_node_that_runs_and_one_that_is_gone() {
        let nodes = [
            node("db1", Ok(said(1_000_000, 800_001, true))),
            node("db2", Ok(said(1_000_000, 800_001, true))),
            node("db3", Err("nothing listens there")),
        ];
        let positions = BTreeMap::from([("db3".to_owned(), 900_000)]);
        let page = page(&nodes, &positions, 2);
        let rows: Vec<Row> = nodes.iter().map(|node| page.row(node)).collect();
        assert_eq!(
            rows[0].sentence,
            "may be away 1 min 40 s, after that it needs a full copy of 1.2 GB, 12.0 s at 100.0 MB a second"
        );
        assert!(!rows[0].is_well, "two minutes are too long");
        assert!(rows[2].sentence.starts_with("may stay away another 50.0 s"), "{}", rows[2].sentence);
        let text = page.text(&rows);
        assert!(
            text.ends_with(
                "to be away for 2 min 0 s at this rate a node needs gcache.size = 126M on every other\n"
            ),
            "{text}"
        );
        assert_eq!(page.json(&rows)["nodes"][2]["returns_by"], "ist");
    }

    #[test]
    fn a_node_whose_position_nobody_knows() {
        let nodes = [node("db1", Ok(said(10, 1, false))), node("db3", Err("nothing listens there"))];
        let none = BTreeMap::new();
        let row = page(&nodes, &none, 1).row(&nodes[1]);
        assert_eq!(row.sentence, "nothing listens there; --position db3=SEQNO tells what it has");
        let row = page(&nodes, &none, 1).row(&nodes[0]);
        assert_eq!(row.sentence, "nobody else is Synced: there is no donor");
    }
}

//! The results as a table, with the seed article's figures for comparison.

use report::table::{Cell, Lean, Table};
use serde_json::Value;

use super::cell::SeedTime;
use super::run::{Measured, Report};

/// A figure from the command's JSON.
pub fn figure(told: &Value, name: &str) -> f64 {
    told[name].as_f64().unwrap_or(f64::NAN)
}

/// "5 min 27 s".
fn minutes(s: f64) -> String {
    format!("{} min {:.0} s", (s / 60.0) as u64, s % 60.0)
}

/// The time of a full copy divided by that of an IST, with and without load, a line each.
pub fn ratios(report: &Report) -> Vec<String> {
    let find = |name: &str| report.cells.iter().find(|measured| measured.cell.name == name);
    let mut out = Vec::new();
    for (load, title) in [("idle", "no load"), ("load", "updates")] {
        let Some(ist) = find(&format!("ist-{load}")) else { continue };
        for method in ["rsync", "mariabackup"] {
            let Some(full) = find(&format!("full-{method}-{load}")) else { continue };
            let ours = |name| figure(&full.told, name) / figure(&ist.told, name);
            let seed = |of: fn(SeedTime) -> f64| match (full.cell.seed, ist.cell.seed) {
                (Some(full), Some(ist)) => of(full) / of(ist),
                _ => f64::NAN,
            };
            let name = format!("{method}, {title}");
            out.push(format!(
                "  {name:<22} gross {:>5.1}  net {:>5.1}   (the seed: {:.1}, {:.1})",
                ours("gross_s"),
                ours("net_s"),
                seed(|time| time.gross_s),
                seed(|time| time.net_s)
            ));
        }
    }
    out
}

/// A row a cell, times in s.
pub fn table(report: &Report) -> Table {
    let mut leans = [Lean::Right; 13];
    (leans[0], leans[1], leans[12]) = (Lean::Left, Lean::Left, Lean::Left);
    let names = [
        "cell",
        "kind",
        "gross",
        "net",
        "join",
        "request",
        "copy",
        "engines",
        "ist",
        "catch-up",
        "writesets",
        "MB written",
        "  the seed's (gross, net)",
    ];
    let columns: Vec<_> = names.into_iter().zip(leans).collect();
    let mut table = Table::new(&columns).fixed([23, 5, 9, 9, 9, 9, 9, 9, 9, 10, 14, 12, 0]);
    for measured in &report.cells {
        table.cells(row(measured));
    }
    table
}

fn row(measured: &Measured) -> [Cell; 13] {
    let told = &measured.told;
    let phase = |name: &str| {
        let phases = told["phases"].as_array().map(Vec::as_slice).unwrap_or_default();
        let took = phases.iter().find(|phase| phase["phase"] == name);
        Cell::from(took.and_then(|phase| phase["took_s"].as_f64()).map(|s| Cell::fixed(s, 2)))
    };
    let seed = measured.cell.seed;
    let seed = seed.map(|seed| format!("  {}, {}", minutes(seed.gross_s), minutes(seed.net_s)));
    [
        measured.cell.name.into(),
        told["kind"].as_str().unwrap_or("?").into(),
        Cell::fixed(figure(told, "gross_s"), 2),
        Cell::fixed(figure(told, "net_s"), 2),
        phase("join"),
        phase("request"),
        phase("copy"),
        phase("engines"),
        phase("ist"),
        phase("catch-up"),
        told["ist"]["writesets"].as_u64().unwrap_or(0).into(),
        Cell::fixed(figure(told, "missed_bytes") / 1e6, 1),
        seed.unwrap_or_default().into(),
    ]
}

/// Describes the forecast, one line for each cell.
pub fn forecast(measured: &Measured) -> String {
    let forecast = &measured.told["forecast"];
    let word = |right: &Value| match right.as_bool() {
        Some(true) => "right",
        Some(false) => "WRONG",
        None => "open",
    };
    let window =
        forecast["away_max_s"].as_f64().map_or_else(|| "for ever".to_owned(), |s| format!("for {s:.0} s"));
    format!(
        "forecast {:<22} could be away {window}, was for {:.0} s: {}; a moment before the start \"{}\": {}",
        measured.cell.name,
        figure(&measured.told, "away_s"),
        word(&forecast["was_right"]),
        forecast["expected_at_start"].as_str().unwrap_or("?"),
        word(&forecast["was_right_at_start"]),
    )
}

//! Formats the results as a table, with the seed article's figures for comparison.

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

/// The time of a full copy divided by that of an IST, with and without load: name, ours gross, net, the seed's gross, net.
pub fn ratios(report: &Report) -> Vec<(String, f64, f64, f64, f64)> {
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
            out.push((
                format!("{method}, {title}"),
                ours("gross_s"),
                ours("net_s"),
                seed(|time| time.gross_s),
                seed(|time| time.net_s),
            ));
        }
    }
    out
}

/// The table as text.
pub fn draw(report: &Report) -> String {
    let plan = &report.conditions.plan;
    let mb = 2.0 * plan.rows as f64 * 512.0 / 1e6;
    let mut out = format!(
        "the return of a Galera node: two tables of {} rows ({mb:.0} MB of rows), {:.0} updates a second ({:.1} MB of rows) where there are updates, \
         a buffer pool of {} MiB\n\n\
         cell                   kind     gross      net     join  request     copy  engines      ist  catch-up     writesets  MB written  the seed's (gross, net)\n",
        plan.rows,
        plan.updates_per_s,
        plan.updates_per_s * 512.0 / 1e6,
        plan.pool_mb,
    );
    for measured in &report.cells {
        out += &row(measured);
    }
    out.push_str(
        "\ntimes in s; net: copy, ist and catch-up alone. The seed's are of NDB 5.1 in 2007: net is without the 2 min of its initial checkpoint.\n\
         In \"copy\" the scripts' own waits are contained: mariabackup's sleeps 10 s before it copies.\n",
    );
    let ratios = ratios(report);
    if !ratios.is_empty() {
        out.push_str("\na full copy takes so many times as long as the missed writesets:\n");
    }
    for (name, gross, net, seed_gross, seed_net) in ratios {
        out += &format!(
            "  {name:<22} gross {gross:>5.1}  net {net:>5.1}   (the seed: {seed_gross:.1}, {seed_net:.1})\n"
        );
    }
    out.push('\n');
    for measured in &report.cells {
        out += &forecast(measured);
    }
    let updates = report.cells.iter().map(|measured| measured.holds.updates).max().unwrap_or(0);
    out += &format!(
        "\nafter each of the {} restarts the returned node had all rows and all of up to {updates} acknowledged updates, byte for byte as the others\n",
        report.cells.len()
    );
    out
}

fn row(measured: &Measured) -> String {
    let told = &measured.told;
    let phase = |name: &str| {
        let phases = told["phases"].as_array().map(Vec::as_slice).unwrap_or_default();
        let took =
            phases.iter().find(|phase| phase["phase"] == name).and_then(|phase| phase["took_s"].as_f64());
        took.map_or_else(|| "-".to_owned(), |s| format!("{s:.2}"))
    };
    let seed = measured
        .cell
        .seed
        .map_or_else(String::new, |seed| format!("{}, {}", minutes(seed.gross_s), minutes(seed.net_s)));
    let line = format!(
        "{:<22} {:<5} {:>8.2} {:>8.2} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>13} {:>11.1}  {seed}",
        measured.cell.name,
        told["kind"].as_str().unwrap_or("?"),
        figure(told, "gross_s"),
        figure(told, "net_s"),
        phase("join"),
        phase("request"),
        phase("copy"),
        phase("engines"),
        phase("ist"),
        phase("catch-up"),
        told["ist"]["writesets"].as_u64().unwrap_or(0),
        figure(told, "missed_bytes") / 1e6,
    );
    line.trim_end().to_owned() + "\n"
}

/// Describes the forecast, one line for each cell.
fn forecast(measured: &Measured) -> String {
    let forecast = &measured.told["forecast"];
    let word = |right: &Value| match right.as_bool() {
        Some(true) => "right",
        Some(false) => "WRONG",
        None => "open",
    };
    let window =
        forecast["away_max_s"].as_f64().map_or_else(|| "for ever".to_owned(), |s| format!("for {s:.0} s"));
    format!(
        "forecast {:<22} could be away {window}, was for {:.0} s: {}; a moment before the start \"{}\": {}\n",
        measured.cell.name,
        figure(&measured.told, "away_s"),
        word(&forecast["was_right"]),
        forecast["expected_at_start"].as_str().unwrap_or("?"),
        word(&forecast["was_right_at_start"]),
    )
}

//! The results as one document: the figures for a terminal, and a page with a bar for each restart. Pure.

use report::document::Document;
use report::plot::{Axis, Band, Colour, Panel, Plot};
use report::words::number;

use super::run::{Measured, Report};
use super::table::{self, figure};

/// Each phase's name and colour.
const PHASES: [(&str, Colour); 8] = [
    ("join", "seed"),
    ("request", "non-primary"),
    ("copy", "base"),
    ("engines", "queue"),
    ("ist", "ours"),
    ("state", "silent"),
    ("catch-up", "lat"),
    ("ready", "line"),
];

pub fn document(report: &Report) -> Document {
    let mut page = Document::new("How long a Galera node takes to come back");
    let plan = &report.conditions.plan;
    page.remark(format!(
        "Three real nodes, the seed's two tables with {} rows each; {:.0} updates a second by primary key in the cells with updates. After every \
         restart the returned node's rows were compared with another's. {}",
        number(plan.rows as f64),
        plan.updates_per_s,
        report.conditions.at,
    ));
    page.plot(bars(report));
    page.heading("The figures, and the seed's");
    page.prose(format!(
        "the return of a Galera node: two tables of {} rows ({:.0} MB of rows), {:.0} updates a second ({:.1} MB of rows) where there are updates, \
         a buffer pool of {} MiB",
        plan.rows,
        2.0 * plan.rows as f64 * 512.0 / 1e6,
        plan.updates_per_s,
        plan.updates_per_s * 512.0 / 1e6,
        plan.pool_mb,
    ));
    page.table(table::table(report));
    page.prose(
        "times in s; net: copy, ist and catch-up alone. The seed's are of NDB 5.1 in 2007: net is without the 2 min of its initial checkpoint.\n\
         In \"copy\" the scripts' own waits are contained: mariabackup's sleeps 10 s before it copies.",
    );
    let ratios = table::ratios(report);
    if !ratios.is_empty() {
        let head = "a full copy takes so many times as long as the missed writesets:".to_owned();
        page.lines(std::iter::once(head).chain(ratios));
    }
    page.lines(report.cells.iter().map(table::forecast));
    let updates = report.cells.iter().map(|measured| measured.holds.updates).max().unwrap_or(0);
    page.prose(format!(
        "after each of the {} restarts the returned node had all rows and all of up to {updates} acknowledged updates, byte for byte as the others",
        report.cells.len()
    ));
    page.heading("Machine, versions, settings");
    page.remark(report.conditions.settings.as_str());
    page.facts(report.machine.facts());
    page
}

/// A bar for each cell, all with the same scale.
fn bars(report: &Report) -> Plot {
    let gross_s = report.cells.iter().map(|cell| figure(&cell.told, "gross_s"));
    Plot {
        label: "each restart by phases",
        axis: Axis {
            from_s: 0.0,
            to_s: gross_s.filter(|s| s.is_finite()).fold(1.0, f64::max),
            title: "seconds from the start of the process until Synced",
        },
        panels: report.cells.iter().map(bar).collect(),
        key: PHASES.map(|(name, colour)| (colour, name.to_owned())).into(),
        ..Plot::default()
    }
}

fn bar(measured: &Measured) -> Panel {
    let phases = measured.told["phases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let bands = phases.iter().filter_map(|phase| {
        let (name, colour) = PHASES.into_iter().find(|(name, _)| phase["phase"] == *name)?;
        let (from_s, took_s) = (phase["from_s"].as_f64()?, phase["took_s"].as_f64()?);
        Some(Band { from_s, to_s: from_s + took_s, colour, name })
    });
    let gross_s = measured.told["gross_s"].as_f64();
    Panel::Row {
        name: measured.cell.title.to_owned(),
        bands: bands.collect(),
        end: gross_s.map_or_else(String::new, |s| format!("{s:.1} s")),
    }
}

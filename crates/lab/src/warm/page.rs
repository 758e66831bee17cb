//! The results as one document: the figures for a terminal, and a page with what explains them and the plots.

use report::document::Document;
use report::table::{Cell, Table};
use report::words::number;

use super::plot;
use super::result::{Case, Report};
use super::way::{COLD, CONTROL, named};
use crate::experiment::Results;

impl Results for Report {
    fn table(&self) -> String {
        document(self).text()
    }

    fn page(&self) -> Option<String> {
        Some(document(self).html())
    }

    /// Whether all goals are met.
    fn is_good(&self) -> bool {
        self.goals.iter().all(|goal| goal.holds)
    }
}

pub fn document(report: &Report) -> Document {
    let mut page = Document::new("What a standby reads from disk after a failover, by how it was warmed");
    let conditions = &report.conditions;
    page.lines([
        format!(
            "Reads from disk on the standby while it is asked chunk 2 ({} s of recorded traffic, {} reads), by how it was warmed before",
            conditions.chunk_s, report.chunks[1].reads
        ),
        format!(
            "table {} MiB, buffer pool {} MiB (active node: {} MiB), {} statements a second recorded, replayed at {} times that speed",
            conditions.data_mb,
            conditions.standby_pool_mb,
            conditions.pool_mb,
            conditions.rate,
            conditions.speed
        ),
    ]);
    page.remark(
        "A real MariaDB primary and replica. Two chunks of traffic were recorded in the slow log, one after the other; the hot set moves on slowly. \
         For each way the standby was restarted, warmed, and then asked what chunk 2 asked.",
    );
    page.table(cases(report));
    page.remark(format!(
        "The active node ran {} statements a second while chunk 1 was recorded. \"Disk reads\" are pages that a statement had to wait for \
         (Innodb_buffer_pool_reads).",
        number(report.chunks[0].statements_per_s)
    ));
    active(&mut page, report);
    failovers(&mut page, report);
    forecasts(&mut page, report);
    page.heading("Goals");
    let goals = report.goals.iter().map(|goal| {
        let holds = if goal.holds { "holds" } else { "DOES NOT HOLD" };
        format!("{holds}: {} {}, at most {}", goal.what, goal.figure, goal.at_most)
    });
    let hidden = conditions.page_cache.as_ref();
    let hidden = hidden.map(|why| format!("the page cache may hide reads from disk here: {why}"));
    page.lines(goals.chain(hidden));
    pictures(&mut page, report);
    facts(&mut page, report);
    page
}

fn cases(report: &Report) -> Table {
    let most = report.cases.iter().map(|case| case.disk_reads).max().unwrap_or(0).max(1);
    let mut table = Table::figures([
        "warmed by",
        "disk reads",
        "x control",
        "statements",
        "took, s",
        "a second",
        "reads to warm",
    ])
    .fixed([26, 12, 12, 12, 12, 12, 14]);
    for case in &report.cases {
        table.cells([
            case.title.into(),
            Cell::from(case.disk_reads).bar(case.disk_reads as f64 / most as f64, "ours"),
            case.to_control.map(|ratio| Cell::fixed(ratio, 2)).into(),
            case.warmed.map(|warmed| warmed.statements).into(),
            case.warm_s.map(|s| Cell::fixed(s, 1)).into(),
            case.warmed.map(|warmed| warmed.statements_per_s.round() as u64).into(),
            case.warm_s.map(|_| case.warm_reads).into(),
        ]);
    }
    table
}

/// Whether a replay keeps up with the active node, and what it costs there.
fn active(page: &mut Document, report: &Report) {
    let keep_up = report.keep_up.iter().map(|row| {
        format!(
            "full rate: the active node ran {:.0} statements a second for {:.1} s; replay with sessions: {}: {} of {} reads, {:.0} a second, \
             ended {:.1} s after the source",
            row.source_per_s, row.source_s, row.sessions, row.replayed, row.reads, row.replayed_per_s, row.behind_s
        )
    });
    let prices = report.prices.iter().map(|price| {
        let streamer = price.streamer_us.map(|us| format!(", and {us:.1} us in the streamer"));
        format!(
            "active node, {}: {:.1} us of processor time a statement{} (of {} statements)",
            price.beside,
            price.server_us,
            streamer.unwrap_or_default(),
            number(price.statements as f64)
        )
    });
    let lines: Vec<String> = keep_up.chain(prices).collect();
    if lines.is_empty() {
        return;
    }
    page.heading("Does replay keep up, and what does it cost the active node?");
    page.remark(
        "The active node is asked as fast as it answers; its slow log is streamed, and replayed on the cold standby on the same machine. The talk's \
         single session reached 1,700 of 20,000 statements a second.",
    );
    page.lines(lines);
}

fn failovers(page: &mut Document, report: &Report) {
    if report.failovers.is_empty() {
        return;
    }
    page.heading("A real failover under load");
    page.remark(
        "The primary is killed under load; Understudy is in front. p99 of response times in the 10 s before, and in the first 10 s from the new \
         primary's first answer on. Afterwards the old primary comes back with a warm cache, and the new one, however slow, must keep its role.",
    );
    let mut table = Table::figures([
        "failover under load to a standby that is",
        "p99 before",
        "p99 after",
        "x",
        "gap, ms",
        "disk reads",
        "errors",
        "moved back",
    ])
    .fixed([42, 12, 12, 8, 10, 12, 8, 12]);
    for row in &report.failovers {
        table.cells([
            row.standby.into(),
            format!("{:.2} ms", row.p99_before_ms).into(),
            format!("{:.2} ms", row.p99_after_ms).into(),
            Cell::fixed(row.p99_ratio, 2),
            Cell::fixed(row.gap_ms, 0),
            row.disk_reads.into(),
            row.errors.into(),
            if row.moved_back { "YES" } else { "no" }.into(),
        ]);
    }
    page.table(table);
}

fn forecasts(page: &mut Document, report: &Report) {
    if report.forecasts.is_empty() {
        return;
    }
    page.heading("Is the forecast right?");
    page.remark(format!(
        "What `understudy warmth` forecast beside live traffic, and the pages that the standby read from disk in as much traffic again ({} s as \
         recorded), after its primary was killed under load. The goal: within 10 %.",
        report.conditions.chunk_s
    ));
    let mut table = Table::figures([
        "failover to a standby that is",
        "pool, MiB",
        "forecast",
        "95 %",
        "disk reads",
        "error",
        "by",
    ])
    .fixed([42, 10, 12, 18, 12, 10, 14]);
    for row in &report.forecasts {
        let score = row.score.map(|share| format!("; {:.1} % served from memory", share * 100.0));
        table.cells([
            row.standby.into(),
            u64::from(row.pool_mb).into(),
            row.forecast.into(),
            format!("{} to {}", row.low, row.high).into(),
            row.disk_reads.into(),
            format!("{:+.1} %", row.error * 100.0).into(),
            Cell::from(row.method.as_str()).on_page(format!("{}{}", row.method, score.unwrap_or_default())),
        ]);
    }
    page.table(table);
}

/// A plot for each group of ways, each with the control and the cold standby for comparison.
fn pictures(page: &mut Document, report: &Report) {
    let group_of = |case: &Case| named(case.name).map_or("", |way| way.group);
    let mut groups: Vec<&str> = report.cases.iter().map(group_of).filter(|group| !group.is_empty()).collect();
    groups.dedup();
    if groups.is_empty() {
        groups.push("");
    }
    for group in groups {
        let references = [CONTROL, COLD].into_iter().filter_map(|name| report.case(name));
        let own = report.cases.iter().filter(|case| !group.is_empty() && group_of(case) == group);
        let shown: Vec<&Case> = references.chain(own).collect();
        page.heading(if group.is_empty() { "Reads from disk over time" } else { group });
        page.remark("Lower is warmer. The control was warmed with what it is asked.");
        page.plot(plot::plot(&shown, f64::from(report.conditions.chunk_s)));
    }
}

fn facts(page: &mut Document, report: &Report) {
    let conditions = &report.conditions;
    page.heading("Machine, versions, settings");
    let mut facts = vec![("Measured".to_owned(), conditions.at.clone())];
    facts.extend(report.machine.facts());
    let more = [
        (
            "Load",
            format!(
                "{} statements a second from {} connections; seed {}",
                conditions.rate, conditions.connections, conditions.seed
            ),
        ),
        (
            "Hot set",
            format!(
                "{} blocks of 40 rows, {} of them new after a chunk",
                conditions.hot_blocks, conditions.drift_blocks
            ),
        ),
        (
            "Buffer pools",
            format!("{} MiB, the standby's {} MiB", conditions.pool_mb, conditions.standby_pool_mb),
        ),
        (
            "Page cache",
            conditions
                .page_cache
                .clone()
                .unwrap_or_else(|| "not in the way: files are read with O_DIRECT".to_owned()),
        ),
    ];
    facts.extend(more.map(|(name, value)| (name.to_owned(), value)));
    page.facts(facts);
}

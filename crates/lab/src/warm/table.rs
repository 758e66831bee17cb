//! Formats the results as text for a terminal.

use std::fmt::Write;

use super::result::Report;

/// The whole text, without a newline at its end.
pub fn draw(report: &Report) -> String {
    let mut out = String::new();
    let conditions = &report.conditions;
    put(
        &mut out,
        format_args!(
            "Reads from disk on the standby while it is asked chunk 2 ({} s of recorded traffic, {} reads), by how it was warmed before\n\
         table {} MiB, buffer pool {} MiB (active node: {} MiB), {} statements a second recorded, replayed at {} times that speed\n\n",
            conditions.chunk_s,
            report.chunks[1].reads,
            conditions.data_mb,
            conditions.standby_pool_mb,
            conditions.pool_mb,
            conditions.rate,
            conditions.speed
        ),
    );
    put(
        &mut out,
        format_args!(
            "{:<26}{:>12}{:>12}{:>12}{:>12}{:>12}{:>14}\n",
            "warmed by", "disk reads", "x control", "statements", "took, s", "a second", "reads to warm"
        ),
    );
    for case in &report.cases {
        let dash = || "-".to_owned();
        let warmed = case.warmed;
        put(
            &mut out,
            format_args!(
                "{:<26}{:>12}{:>12}{:>12}{:>12}{:>12}{:>14}\n",
                case.title,
                case.disk_reads,
                case.to_control.map_or_else(dash, |ratio| format!("{ratio:.2}")),
                warmed.map_or_else(dash, |warmed| warmed.statements.to_string()),
                case.warm_s.map_or_else(dash, |s| format!("{s:.1}")),
                warmed.map_or_else(dash, |warmed| format!("{:.0}", warmed.statements_per_s)),
                case.warm_s.map_or_else(dash, |_| case.warm_reads.to_string()),
            ),
        );
    }
    for row in &report.keep_up {
        put(
            &mut out,
            format_args!(
                "\nfull rate: the active node ran {:.0} statements a second for {:.1} s; replay with sessions: {}: {} of {} reads, {:.0} a second, \
                 ended {:.1} s after the source",
                row.source_per_s,
                row.source_s,
                row.sessions,
                row.replayed,
                row.reads,
                row.replayed_per_s,
                row.behind_s
            ),
        );
    }
    for price in &report.prices {
        put(
            &mut out,
            format_args!(
                "\nactive node, {}: {:.1} us of processor time a statement",
                price.beside, price.server_us
            ),
        );
        if let Some(us) = price.streamer_us {
            put(&mut out, format_args!(", and {us:.1} us in the streamer"));
        }
    }
    if !report.failovers.is_empty() {
        put(
            &mut out,
            format_args!(
                "\n\n{:<42}{:>12}{:>12}{:>8}{:>10}{:>12}{:>8}{:>12}",
                "failover under load to a standby that is",
                "p99 before",
                "p99 after",
                "x",
                "gap, ms",
                "disk reads",
                "errors",
                "moved back"
            ),
        );
    }
    for row in &report.failovers {
        let moved = if row.moved_back { "YES" } else { "no" };
        put(
            &mut out,
            format_args!(
                "\n{:<42}{:>9.2} ms{:>9.2} ms{:>8.2}{:>10.0}{:>12}{:>8}{moved:>12}",
                row.standby,
                row.p99_before_ms,
                row.p99_after_ms,
                row.p99_ratio,
                row.gap_ms,
                row.disk_reads,
                row.errors
            ),
        );
    }
    forecasts(&mut out, report);
    out.truncate(out.trim_end().len());
    out.push_str("\n\n");
    for goal in &report.goals {
        let holds = if goal.holds { "holds" } else { "DOES NOT HOLD" };
        put(&mut out, format_args!("{holds}: {} {}, at most {}\n", goal.what, goal.figure, goal.at_most));
    }
    if let Some(why) = &conditions.page_cache {
        put(&mut out, format_args!("the page cache may hide reads from disk here: {why}\n"));
    }
    out.truncate(out.trim_end().len());
    out
}

fn forecasts(out: &mut String, report: &Report) {
    if report.forecasts.is_empty() {
        return;
    }
    put(
        out,
        format_args!(
            "\n\n{:<42}{:>10}{:>12}{:>18}{:>12}{:>10}{:>14}",
            "failover to a standby that is", "pool, MiB", "forecast", "95 %", "disk reads", "error", "by"
        ),
    );
    for row in &report.forecasts {
        let interval = format!("{} to {}", row.low, row.high);
        put(
            out,
            format_args!(
                "\n{:<42}{:>10}{:>12}{:>18}{:>12}{:>+8.1} %{:>14}",
                row.standby,
                row.pool_mb,
                row.forecast,
                interval,
                row.disk_reads,
                row.error * 100.0,
                row.method
            ),
        );
    }
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(part);
}

//! The terminal table. Pure.

use std::fmt::Write;

use super::{Pass, Report};
use crate::bench::health::table::{columns, number};

const TITLES: [&str; 10] = [
    "log",
    "entries",
    "bytes each",
    "MB/CPU s",
    "entries/CPU s",
    "CPU s",
    "MB/s",
    "with kinds: MB/CPU s",
    "entries/CPU s",
    "memory: before, at 1/8, most, MiB",
];

/// The whole table as text.
pub fn draw(report: &Report) -> String {
    let mut rows = vec![TITLES.map(str::to_owned).to_vec()];
    for row in &report.rows {
        let (fields, kinds) = (&row.fields, &row.kinds);
        let each = fields.bytes as f64 / fields.sums.events.max(1) as f64;
        rows.push(vec![
            row.form.to_owned(),
            number(row.written.events as f64),
            number(each),
            number(fields.mb_per_cpu_s()),
            number(fields.events_per_cpu_s()),
            format!("{:.2}", fields.cpu_s),
            number(fields.mb_per_s()),
            number(kinds.mb_per_cpu_s()),
            number(kinds.events_per_cpu_s()),
            memory(kinds),
        ]);
    }
    let mut out = format!(
        "Logs of {} MB each, read from a file in pieces, on one core, every entry decoded; MB are 10^6 bytes.\n",
        number(report.plan.bytes as f64 / 1e6)
    );
    out += &columns(&rows);
    for one in &report.digested {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "  {}: {:.1} MB of the first log in {:.2} s of the processor, {:.1} MB/CPU s",
            one.command,
            one.bytes as f64 / 1e6,
            one.cpu_s,
            one.mb_per_cpu_s()
        );
    }
    if report.digested.is_empty() && report.plan.digest_bytes > 0 {
        out += "  pt-query-digest is not installed (apt-get install percona-toolkit)\n";
    }
    if cfg!(debug_assertions) {
        out += "  This program was built without optimisation: the figures say nothing. Build it with --release.\n";
    }
    out
}

fn memory(pass: &Pass) -> String {
    pass.memory_mib.map_or_else(
        || "-".to_owned(),
        |[before, eighth, most]| format!("{before:.1}, {eighth:.1}, {most:.1}"),
    )
}

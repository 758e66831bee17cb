//! The doctor's report as text.

use std::fmt::Write;

use super::judge::{NodeReport, Report, Weight};
use report::table::{Lean, Table, wrap};

/// The greatest width of running text, in characters.
const WIDTH: usize = 100;

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut page = format!("cluster {}\n\n", report.cluster);
    page.push_str(&settings(report));
    if report.is_unanswered() {
        page.push_str("\nno node was reached, so nothing is known of how they are set, nor of how long a failover takes here\n");
    } else if !report.cells.is_empty() {
        page.push_str("\nwhat decides how long each case takes here, and what the seed article measured\n");
    }
    for cell in &report.cells {
        let _ = writeln!(page, "\n  {}", cell.case);
        for (name, text) in
            [("decided by", cell.decided_by.as_str()), ("comes to", &cell.comes_to), ("seed", cell.seed)]
        {
            paragraph(&mut page, &format!("    {name:<12}"), text);
        }
    }
    findings(&mut page, report);
    page
}

fn settings(report: &Report) -> String {
    let mut columns = vec![("SETTING", Lean::Left)];
    columns.extend(report.nodes.iter().map(|node| (node.name.as_str(), Lean::Left)));
    if !report.is_unanswered() {
        // Without a table of cases, the column shows the right value of a setting.
        columns.push((if report.cells.is_empty() { "SHOULD BE" } else { "DECIDES" }, Lean::Left));
    }
    let mut table = Table::new(&columns);
    let each = |name: &str, of: &dyn Fn(&NodeReport) -> String| {
        std::iter::once(name.to_owned()).chain(report.nodes.iter().map(of)).collect::<Vec<_>>()
    };
    table.row(each("address", &|node| node.address.clone()));
    let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    table.row(each("version", &|node| dash(&node.version)));
    table.row(each("state", &|node| {
        dash(if node.unreachable.is_some() { "not reached" } else { &node.state })
    }));
    for deciding in &report.deciding {
        let value = |node: &NodeReport| {
            let found = node.settings.iter().find(|(name, _)| name == deciding.setting);
            found.map(|(_, value)| value.clone())
        };
        // A setting that no node has is left out.
        if report.nodes.iter().any(|node| value(node).is_some()) {
            let mut row = each(deciding.setting, &|node| value(node).unwrap_or_else(|| "-".to_owned()));
            row.push(deciding.cases.to_owned());
            table.row(row);
        }
    }
    table.text()
}

fn findings(page: &mut String, report: &Report) {
    if report.findings.is_empty() {
        page.push_str("\nnothing to put right, and nothing to propose\n");
        return;
    }
    for finding in &report.findings {
        let weight = match finding.weight {
            Weight::Problem => "PROBLEM",
            Weight::Warning => "WARNING",
            Weight::Advice => "ADVICE",
        };
        let _ = writeln!(page, "\n{weight}  {}: {}", finding.nodes.join(", "), finding.what);
        paragraph(page, "  why  ", &finding.because);
        for sql in &finding.sql {
            for line in sql.lines() {
                let _ = writeln!(page, "  run  {}", line.trim_end().trim_end_matches(';').to_owned() + ";");
            }
        }
        for line in &finding.my_cnf {
            let _ = writeln!(page, "  keep {line}");
        }
    }
}

/// Text after a heading, wrapped and indented below itself.
fn paragraph(page: &mut String, head: &str, text: &str) {
    for (i, line) in wrap(text, WIDTH.saturating_sub(head.len())).iter().enumerate() {
        if i == 0 {
            let _ = writeln!(page, "{head}{line}");
        } else {
            let _ = writeln!(page, "{:1$}{line}", "", head.len());
        }
    }
}

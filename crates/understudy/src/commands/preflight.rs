//! `understudy switchover --check`: what could make a switchover fail, or slow, as a table; nothing is changed.
//!
//! Enters: the JSON of the API's preflight. Leaves: text for people, that JSON, and 1 when something fails.

use std::path::Path;
use std::process::ExitCode;

use topology::preflight::{Report, Severity};

use cli::exit::{CommandResult, Failure};
use client::Server;
use client::node::escaped;
use report::table::{Lean, Table};

/// Characters of a line of what was found, and of what to do.
const WIDTHS: [usize; 2] = [72, 56];

/// Asks, prints, and says by the exit code whether it would be tried.
pub fn run(server: &Server, to: Option<&str>, budget_ms: Option<u64>, json: Option<&Path>) -> CommandResult {
    let to = to.map(|to| format!("to={}", escaped(to)));
    let budget = budget_ms.map(|ms| format!("budget_ms={ms}"));
    let query: Vec<String> = to.into_iter().chain(budget).collect();
    let answer = server.client()?.get(&format!("preflight?{}", query.join("&")))?;
    let report: Report = answer.read()?;
    match json {
        Some(file) if file == Path::new("-") => println!("{:#}", answer.data),
        Some(file) => {
            ::report::file::write_json(file, &answer.data).map_err(|e| Failure::failed(&e))?;
            print!("{}", screen(&report));
        }
        None => print!("{}", screen(&report)),
    }
    Ok(if report.fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The table, and what it comes to.
fn screen(report: &Report) -> String {
    let mut table = Table::new(&[
        ("CHECK", Lean::Left),
        ("NODE", Lean::Left),
        ("VERDICT", Lean::Left),
        ("WHAT WAS FOUND", Lean::Left),
        ("WHAT TO DO", Lean::Left),
    ])
    .wrapping(WIDTHS);
    for row in &report.rows {
        table
            .row([&*row.check, &row.node, row.verdict.word(), &row.sentence, &row.remedy].map(str::to_owned));
    }
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "nobody".to_owned());
    let count = |verdict| report.rows.iter().filter(|row| row.verdict == verdict).count();
    let (fails, slow) = (count(Severity::Fails), count(Severity::Slow));
    let comes_to = match (fails, slow) {
        (0, 0) if count(Severity::Unknown) > 0 => "what speaks against it is not known".to_owned(),
        (0, 0) => "nothing speaks against it".to_owned(),
        (0, slow) => {
            format!(
                "it can be tried, and may be slow or undone: {slow} of {} checks say so",
                report.rows.len()
            )
        }
        (fails, _) => format!("it would be refused: {fails} of {} checks fail", report.rows.len()),
    };
    format!("{}\nfrom {} to {}: {comes_to}\n", table.text(), name(&report.from), name(&report.to))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_table_says_what_it_comes_to() {
        let row = |verdict: &str, remedy: &str| serde_json::json!({ "check": "lag", "node": "db2", "verdict": verdict, "sentence": "is 7 s behind", "remedy": remedy });
        let report = |rows: Vec<Value>| {
            serde_json::from_value(serde_json::json!({ "from": "db1", "to": "db2", "rows": rows })).unwrap()
        };
        assert_eq!(
            screen(&report(vec![row("slow", "wait"), row("ok", "")])),
            "\
CHECK  NODE  VERDICT  WHAT WAS FOUND  WHAT TO DO
lag    db2   slow     is 7 s behind   wait
lag    db2   ok       is 7 s behind

from db1 to db2: it can be tried, and may be slow or undone: 1 of 2 checks say so
"
        );
        assert!(
            screen(&report(vec![row("fails", "")])).ends_with("it would be refused: 1 of 1 checks fail\n")
        );
        assert!(screen(&Report::default()).contains("from nobody to nobody: nothing speaks against it"));
    }
}

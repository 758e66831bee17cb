//! Benchmark of reading slow logs: logs of a given size in the formats of all servers, on one core, compared with pt-query-digest.
//!
//! Processor time is compared, since the machine may run other work. The log is written to a file and read in pieces, and every entry is
//! decoded; the sums read must equal the sums written. pt-query-digest runs in the same run of the benchmark.

mod digest;
mod make;
mod measure;
mod table;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use crate::failover::machine;
use crate::failover::progress::Progress;
use crate::failover::result::Machine;
pub use digest::Digested;
use make::{Form, Maker, Sums};
pub use measure::Pass;
use measure::{Depth, pass};
pub use table::draw;

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of each log.
    pub bytes: u64,
    /// Bytes of the slice that pt-query-digest reads; 0: it is not run.
    pub digest_bytes: u64,
}

/// Results for one format of log.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the format.
    pub form: &'static str,
    /// Sums of what was written.
    pub written: Sums,
    /// Pass without classifying statements.
    pub fields: Pass,
    /// Pass that also classifies them.
    pub kinds: Pass,
}

/// Results of the whole run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The parameters.
    pub plan: Plan,
    /// The machine.
    pub machine: Machine,
    /// Start of the run, UTC.
    pub at: String,
    /// One for each format of log.
    pub rows: Vec<Row>,
    /// pt-query-digest with its report, and without one. Empty where it is not installed or was not run.
    pub digested: Vec<Digested>,
}

/// Steps of the progress bar: the formats of logs, and pt-query-digest.
pub const STEPS: u64 = Form::ALL.len() as u64 + 1;

/// Size of the pieces in which a log is generated.
const PART_BYTES: usize = 1 << 20;

/// Runs the benchmark, with files in `dir`, which needs space for one log.
pub async fn run(plan: Plan, dir: &Path, progress: &Progress) -> anyhow::Result<Report> {
    let at = machine::now_utc();
    let path = dir.join("slow.log");
    let mut rows = Vec::new();
    for form in Form::ALL {
        progress.now(&format!("a log of {}", form.name()));
        let path = path.clone();
        rows.push(tokio::task::spawn_blocking(move || row(form, plan.bytes, &path)).await??);
        progress.step();
    }
    let mut digested = Vec::new();
    if plan.digest_bytes > 0 {
        progress.now("pt-query-digest");
        make(Form::MariaDb, plan.digest_bytes, &path)?;
        for no_report in [false, true] {
            digested.extend(digest::run(&path, no_report).await?);
        }
        progress.step();
    }
    let machine = machine::look(&[
        ("Understudy", "/proc/self/exe", &["--version"]),
        ("pt-query-digest", "pt-query-digest", &["--version"]),
        ("MariaDB", "mariadbd", &["--no-defaults", "--version"]),
    ])
    .await;
    Ok(Report { plan, machine, at, rows, digested })
}

fn row(form: Form, bytes: u64, path: &Path) -> anyhow::Result<Row> {
    let written = make(form, bytes, path)?;
    let fields = pass(path, Depth::Fields)?;
    let kinds = pass(path, Depth::Kinds)?;
    Ok(Row { form: form.name(), written, fields, kinds })
}

fn make(form: Form, bytes: u64, path: &Path) -> anyhow::Result<Sums> {
    let cannot = || format!("cannot write the log {}; it needs {} MB", path.display(), bytes / 1_000_000);
    let mut file = File::create(path).with_context(cannot)?;
    let mut maker = Maker::new(form);
    let mut part = Vec::new();
    let mut written = 0;
    while written < bytes {
        part.clear();
        maker.fill(&mut part, PART_BYTES.min((bytes - written) as usize));
        file.write_all(&part).with_context(cannot)?;
        written += part.len() as u64;
    }
    Ok(maker.sums)
}

impl Report {
    /// Differences between what was written and what was read, one sentence each.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for row in &self.rows {
            for pass in [&row.fields, &row.kinds] {
                if pass.sums != row.written {
                    faults.push(format!(
                        "{}: {:?} was read, {:?} was written",
                        row.form, pass.sums, row.written
                    ));
                }
                if pass.misunderstood > 0 {
                    faults.push(format!(
                        "{}: {} entries or bytes were not understood",
                        row.form, pass.misunderstood
                    ));
                }
            }
        }
        faults
    }

    /// The results as JSON.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| json!({"form": row.form, "written": row.written, "fields": one(&row.fields), "kinds": one(&row.kinds)}))
            .collect();
        let digested: Vec<Value> = self
            .digested
            .iter()
            .map(|one| json!({"measured": one, "mb_per_cpu_s": one.mb_per_cpu_s()}))
            .collect();
        json!({
            "machine": self.machine,
            "conditions": {
                "at": self.at,
                "benchmark": "slowlog",
                "log_bytes": self.plan.bytes,
                "digest_bytes": self.plan.digest_bytes,
                "optimised": !cfg!(debug_assertions),
            },
            "logs": rows,
            "pt_query_digest": digested,
        })
    }
}

fn one(pass: &Pass) -> Value {
    json!({
        "measured": pass,
        "mb_per_cpu_s": pass.mb_per_cpu_s(),
        "mb_per_s": pass.mb_per_s(),
        "events_per_cpu_s": pass.events_per_cpu_s(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_short_run_reads_what_was_written_and_says_all_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { bytes: 200_000, digest_bytes: 0 };
        let report = run(plan, dir.path(), &Progress::new(STEPS)).await.unwrap();
        assert_eq!(report.faults(), Vec::<String>::new());
        assert_eq!(report.rows.len(), Form::ALL.len());
        for row in &report.rows {
            assert_eq!((row.fields.sums, row.fields.reads), (row.written, 0), "{}", row.form);
            assert!(row.kinds.reads > 0 && row.kinds.bytes >= plan.bytes, "{}", row.form);
        }
        let drawn = draw(&report);
        assert!(Form::ALL.iter().all(|form| drawn.contains(form.name())), "{drawn}");
        assert!(report.json()["logs"][0]["kinds"]["mb_per_cpu_s"].is_number());

        let mut report = report;
        report.rows[0].written.rows_sent += 1;
        assert_eq!(report.faults().len(), 2);
    }
}

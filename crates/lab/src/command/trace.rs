//! `lab trace FILE`: computes the length of the outage from sysbench's output.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::trace::Trace;

/// Reads the output of sysbench 0.5 or 1.0 (restarts included) and computes the outage
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// The trace; "-" reads standard input
    pub file: PathBuf,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Prints the outage.
pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    let trace = if args.file == Path::new("-") {
        Trace::read(std::io::stdin().lock())
    } else {
        let file = File::open(&args.file);
        Trace::read(BufReader::new(file.with_context(|| format!("cannot read {}", args.file.display()))?))
    };
    let trace = trace.with_context(|| format!("{} is not a trace", args.file.display()))?;
    let outage = trace.outage();
    println!("{outage}");
    for line in &trace.unreadable {
        println!("line {line} begins as a report and cannot be read: it was left out");
    }
    if let Some(path) = &args.json {
        let json = serde_json::json!({
            "form": trace.form, "restarts": trace.restarts(), "outage": outage, "unreadable_lines": trace.unreadable,
            "runs": trace.runs, "breaks": trace.breaks,
        });
        report::file::write_json(path, &json)?;
    }
    Ok(())
}

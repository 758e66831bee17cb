//! Formats the results as a table, with the seed article's figures below.

use super::run::{Measured, Report};

/// The seed article's figures: 5.1k transactions a second; 667,183 in 50 s after 60 s, which it gives as 13.3k and 38 %.
const SEED: &str = "the seed       60.0        350,000      667,183    50.00       13,344            -        -   38 %          -";

/// The table as text.
pub fn draw(report: &Report) -> String {
    let mut out = format!(
        "understudy capacity db3 ({}{}), {:.0} transactions a second by {} connections\n\n\
         run         held, s  queue at most      applied  took, s  capacity/s  by its rows  differs   used  flow control  --passive just before\n",
        report.kind,
        report.fc_limit.map_or_else(String::new, |limit| format!(", gcs.fc_limit={limit}")),
        report.rate,
        report.connections
    );
    for (index, run) in report.runs.iter().enumerate() {
        out += &row(index + 1, run);
    }
    out += SEED;
    out.push_str("\n\n");
    let worst = report.runs.iter().map(|run| run.difference.abs()).fold(0.0, f64::max);
    out += &format!(
        "by its rows: counted independently, from the rows of db3 alone; the figures differ by {:.1} % at the most\n",
        worst * 100.0
    );
    out
}

fn row(number: usize, run: &Measured) -> String {
    let figure = |name: &str| run.told[name].as_f64().unwrap_or(f64::NAN);
    let count = |name: &str| report::words::number(figure(name));
    format!(
        "{number:<8}  {:>8.1}  {:>13}  {:>11}  {:>7.2}  {:>10}  {:>11}  {:>6.1}%  {:>4.0} %  {:>10.0} ms  {}\n",
        figure("held_ms") / 1000.0,
        count("queue_max"),
        count("applied_transactions"),
        figure("catch_up_ms") / 1000.0,
        count("apply_per_s"),
        report::words::number(run.truth.per_s),
        run.difference * 100.0,
        figure("baseline_share") * 100.0,
        run.flow_control_ms,
        run.passive.as_ref().map_or_else(|| "-".to_owned(), passive),
    )
}

/// The estimate with its interval, or a lower bound.
fn passive(told: &serde_json::Value) -> String {
    let rate = |name: &str| told[name].as_f64().map(report::words::number);
    match (rate("apply_per_s"), rate("low_per_s"), rate("high_per_s"), rate("at_least_per_s")) {
        (Some(figure), Some(low), Some(high), _) => format!("{figure} ({low} to {high})"),
        (.., Some(least)) => format!("at least {least}"),
        _ => "unknown".to_owned(),
    }
}

//! `understudy lab capacity --quick` through the program: that the figure is about what the rows say. How exact it is on a quiet machine is
//! measured by five long runs, which are kept in bench/runs.

use std::process::Command;

use serde_json::Value;
use testbed::program::{bin, run};

/// On a machine that is busy with other tests.
const DIFFERENCE_MAX: f64 = 0.2;

#[test]
fn the_figure_is_what_the_rows_say() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "lab",
        "capacity",
        "--quick",
        "--rate",
        "250",
        "--hold-s",
        "5",
        "--fc-limit",
        "1000",
        "--passive-s",
        "4",
        "--out-dir",
    ];
    let ended = run(Command::new(bin()).args(arguments).arg(dir.path()));
    let text = std::fs::read_to_string(dir.path().join("result.json"))
        .unwrap_or_else(|e| panic!("{e}: {}", ended.said()));
    let result: Value = serde_json::from_str(&text).unwrap();
    let measured = &result["runs"][0];
    let difference = measured["difference"].as_f64().unwrap();
    assert!(difference.abs() < DIFFERENCE_MAX, "{}", ended.said());
    assert_eq!(measured["flow_control_ms"], 0.0, "{}", ended.said());
    let passive = &measured["passive"];
    assert!(
        passive["looks"].as_u64().unwrap() > 50 && passive["at_least_per_s"].as_f64().unwrap() > 0.0,
        "{passive:#}"
    );
    testbed::printed::fits("capacity", passive);
    assert!(measured["truth"]["rows"].as_u64().unwrap() > 250 * 5, "{}", ended.said());
    assert!(ended.out.contains("the seed"), "{}", ended.said());
}

//! `understudy lab consistency` through the program, for some seconds on each kind of cluster: faults are injected, the workload goes on, and
//! nothing is wrong. Long runs are `make nightly`.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testbed::program::{bin, run_within};

/// About 25 s on two cores; the cluster may take long to be well again on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(240);

fn nothing_is_wrong(cluster: &str) {
    let dir = tempfile::tempdir().unwrap();
    // As root, this seed's first three are a switchover, a writer that vanishes for 2 s, and a writer that is killed.
    let arguments = ["lab", "consistency", "--seconds", "6", "--direct-seconds", "3", "--seed", "1"];
    let mut command = Command::new(bin());
    let ended =
        run_within(command.args(arguments).args(["--cluster", cluster, "--out-dir"]).arg(dir.path()), LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.said());
    let text = std::fs::read_to_string(dir.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert!(ended.out.contains("nothing lost, doubled, aborted or read backwards"), "{}", ended.said());
    let events = result["events"].as_array().unwrap();
    assert!(events.iter().all(|event| event["well_s"].is_f64()), "{events:#?}");
    assert!(events.iter().any(|event| event["what"] != "switchover"), "{events:#?}");
    for phase in ["direct", "through"] {
        let counts = &result[phase]["counts"];
        let lists = &counts["lists"];
        for count in [
            &lists["repeatable-read"]["ok"],
            &lists["serializable"]["ok"],
            &counts["transfers"]["ok"],
            &counts["inserts"]["ok"],
            &counts["bank_reads"],
            &counts["register_reads"],
        ] {
            assert!(count.as_u64().unwrap() > 10, "{counts:#}");
        }
    }
}

#[test]
fn galera_shows_no_more_than_one_server() {
    nothing_is_wrong("galera");
}

#[test]
fn replication_shows_no_more_than_one_server() {
    nothing_is_wrong("replication");
}

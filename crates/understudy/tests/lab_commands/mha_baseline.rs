//! The real MHA beside us in the lab: `understudy lab failover --cluster replication --baseline mha`, once, a switchover and a crash.

use std::process::Command;

use serde_json::Value;
use testbed::program::{bin, run};

#[test]
fn the_real_mha_switches_over_and_fails_over_beside_us() {
    if Command::new("masterha_manager").arg("--version").output().is_err() {
        println!(
            "skipped: MHA is not installed (mha4mysql-manager, mha4mysql-node; scripts/setup.sh installs them)"
        );
        return;
    }
    let dir = tempfile::Builder::new().prefix("understudy-mha-baseline-").tempdir().unwrap();
    let json = dir.path().join("result.json");
    // As the documentation advises: our own commands by MHA's names stand first in PATH, and are not MHA.
    for name in ["masterha_manager", "masterha_check_status", "masterha_master_switch"] {
        std::os::unix::fs::symlink(bin(), dir.path().join(name)).unwrap();
    }
    let mut command = Command::new(bin());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", dir.path().display()));
    command.args(["lab", "failover", "--cluster", "replication", "--baseline", "mha", "--baseline-only"]);
    command.args(["--case", "graceful,non-graceful", "--scope", "active", "--warm-s", "2", "--after-s", "4"]);
    let said = run(command.arg("--json").arg(&json)).with(0);

    let result: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert!(
        result["conditions"]["mha"].as_str().unwrap().contains("Redundant argument in sprintf"),
        "{result}"
    );
    assert_eq!(result["machine"]["versions"]["MHA"], "0.58");
    let cells = result["cells"].as_array().unwrap();
    for case in ["graceful", "non-graceful"] {
        let mha = &cells.iter().find(|cell| cell["case"] == case).unwrap()["mha"];
        assert_eq!((&mha["broke"], &mha["repetitions"]), (&Value::Null, &1.into()), "{case}: {said}");
        // With semi-synchronous replication it loses nothing, either; what it costs is time, and errors.
        assert_eq!(
            (&mha["lost"], &mha["doubled"], &mha["nodes_that_differ"]),
            (&0.into(), &0.into(), &0.into()),
            "{case}: {said}"
        );
        let outage_ms = mha["outage_ms"].as_f64().unwrap();
        println!("          {case}: {outage_ms:.0} ms, {} errors", mha["errors_naive"]);
        if case == "graceful" {
            let order = &mha["runs"][0]["order"];
            assert!(order["message"].as_str().unwrap().contains("completed successfully."), "{order}");
        } else {
            // Four pings, a second apart, of which the first follows the last good one by up to a second.
            assert!(outage_ms > 3000.0, "{outage_ms}: was it MHA?");
        }
    }
    assert!(said.contains("│   MHA "), "{said}");
}

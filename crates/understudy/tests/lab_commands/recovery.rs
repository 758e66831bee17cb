//! `understudy lab recovery --quick` through the program: that a node comes back by its missed writesets and by a full copy, each told as what it was,
//! with nothing lost. How long it takes with 1 GB is measured by a long run, which is kept in bench/runs.

use std::process::Command;

use serde_json::Value;
use testbed::program::{self, bin, run, with_config};

#[test]
fn both_kinds_of_return_are_measured_and_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["lab", "recovery", "--quick", "--rows", "5000", "--out-dir"];
    let ended = run(Command::new(bin()).args(arguments).arg(dir.path()));
    assert_eq!(ended.code, 0, "{}", ended.said());
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let result: Value = serde_json::from_str(&read("result.json")).unwrap();
    let cells = result["cells"].as_array().unwrap();
    let kinds: Vec<&str> = cells.iter().map(|cell| cell["told"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ist", "sst"], "{}", ended.said());
    for cell in cells {
        let told = &cell["told"];
        let gross_s = told["gross_s"].as_f64().unwrap();
        let phases = told["phases"].as_array().unwrap();
        let sum_s: f64 = phases.iter().map(|phase| phase["took_s"].as_f64().unwrap()).sum();
        assert!((sum_s - gross_s).abs() < 1e-6 && told["net_s"].as_f64().unwrap() < gross_s, "{told:#}");
        let names: Vec<&str> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
        for name in ["join", "request", "copy", "engines", "state", "catch-up"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert_eq!(told["forecast"]["was_right"], true, "{told:#}");
        assert_eq!(cell["holds"]["odd"], 0);
    }
    assert!(cells[0]["told"]["ist"]["writesets"].as_u64().unwrap() > 10, "{}", cells[0]["told"]);
    assert!(cells[0]["holds"]["updates"].as_u64().unwrap() > 500, "{}", ended.said());
    assert_eq!(cells[1]["told"]["method"], "rsync");
    assert!(read("report.html").contains("<svg") && read("ist-load/report.html").contains("<svg"));
    assert!(ended.out.contains("5 min 27 s"), "{}", ended.out);
}

#[test]
fn what_cannot_be_measured_is_refused_in_a_sentence() {
    let config = |kind: &str| {
        program::directory(&format!(
            "[cluster]\nname = \"shop\"\n{kind}[[cluster.node]]\nname = \"db1\"\naddress = \"127.0.0.1:1\"\n\
             [[cluster.node]]\nname = \"db2\"\naddress = \"127.0.0.1:2\"\n[cluster.monitor]\nuser = \"u\"\npassword = \"p\"\n"
        ))
    };
    let directory = config("");
    let refused = |more: &[&str]| {
        with_config(&directory.path().join("understudy.toml"), &[&["recovery", "measure"], more].concat())
            .with(2)
    };
    assert!(refused(&["db9"]).contains("has no node db9: there is db1, db2"));
    assert!(refused(&["db1", "--away", "soon"]).contains("is no time such as 30s"));
    assert!(refused(&["db1", "--full"]).contains("--datadir"));
    assert!(refused(&["db1", "--stop-command", "true"]).contains("--start-command"));
    assert!(refused(&["db1", "--error-log", "/nonexistent"]).contains("--error-log /nonexistent: "));
    assert!(refused(&["db1", "--datadir", "/nonexistent"]).contains("grastate.dat"));
    let order = [
        "recovery",
        "measure",
        "db1",
        "--stop-command",
        "touch stopped",
        "--start-command",
        "true",
        "--window-s",
        "1",
    ];
    let said = with_config(&directory.path().join("understudy.toml"), &order).with(1);
    assert!(said.contains("nothing was changed: db1: "), "{said}");
    let directory = config("kind = \"replication\"\nreplication = { user = \"r\", password = \"p\" }\n");
    let said =
        with_config(&directory.path().join("understudy.toml"), &["recovery", "measure", "db1"]).with(2);
    assert!(said.contains("recovery measure is for Galera"), "{said}");
}

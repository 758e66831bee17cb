//! `understudy recovery ndb` from outside: recorded logs, logs as 5.1 wrote them, bad input, and orders through an ndb_mgm that is a script.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::program::{Ended, bin, run};

fn recording(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ndb/tests/recordings").join(name);
    path.display().to_string()
}

fn recovery(args: &[&str]) -> Ended {
    run(Command::new(bin()).args(["recovery", "ndb"]).args(args))
}

#[test]
fn a_recorded_restart_is_told_with_both_verdicts() {
    let folder = "f1_down_many_lcps_with_load";
    let log = recording(&format!("{folder}/cluster.log"));
    let own = recording(&format!("{folder}/ndb_2_out.log"));
    let info = recording(&format!("{folder}/restart_info_final.tsv"));
    let said = recovery(&["--log", &log, "--node-log", &own, "--ndbinfo", &info]).with(0);
    for expected in [
        "what happened           restored from disk (its own log: 22 fragments from its checkpoint, 0 copied whole)",
        "rule of three           11 checkpoints were started without it: full copy (since 7.6.4 the rule decides nothing",
        "checkpoints started     8 while it was away, 5 while it started; its own is 116",
        "ndbinfo.restart_info    agrees: 96 s in all",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recovery-ndb.md");
    assert!(
        std::fs::read_to_string(page).unwrap().contains(&said),
        "docs/recovery-ndb.md shows something else than\n{said}"
    );
    let json = recovery(&["--log", &log, "--node-log", &own, "--json", "-"]).json();
    let restart = &json["restarts"][0];
    assert_eq!(restart["happened"]["source"], "disk");
    assert_eq!(restart["rule_of_three"]["source"], "full_copy");
    assert_eq!(restart["rule_of_three"]["decides"], false);
    assert_eq!(restart["total_us"].as_i64().unwrap() / 1000, 96_065);
}

/// A log of 5.1, whose writer is [MgmSrvr]; and the same as 5.0 would write it, without the line with the node id.
#[test]
fn logs_of_the_old_versions_are_told() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ndb/tests/field/restart_5_1.log");
    let said = recovery(&["--log", &log.display().to_string()]).with(0);
    for expected in [
        "checkpoints started     4 while it was away, 1 while it started",
        "rule of three           4 checkpoints were started without it: full copy (5.1: the rule decides)",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let text = std::fs::read_to_string(log).unwrap().replace("5.1.16", "5.0.51");
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("nodeid 3 reserved")).collect();
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old.log");
    std::fs::write(&old, kept.join("\r\n") + "\r\n").unwrap();
    let said = recovery(&["--log", &old.display().to_string()]).with(0);
    for expected in [
        "4 while it was away, 1 while it started (its node id is not in the log: from its first line on)",
        "what happened           full copy (NDB 5.0.51: before 5.1.0 a restarted node copies everything)",
        "rule of three           does not apply before 5.1.0",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let json = recovery(&["--log", &old.display().to_string(), "--json", "-"]).json();
    assert_eq!(json["restarts"][0]["rule_of_three"]["checkpoints_missed_max"], 4);
    assert_eq!(json["restarts"][0]["rule_of_three"]["decides"], false);
}

#[test]
fn the_case_of_2007_is_explained() {
    let given = ["--write-rate-bytes-s", "1048576", "--checkpoint-s", "120", "--needed-s", "162"];
    let said = recovery(&given).with(0);
    let line = said.lines().find(|line| line.trim_start().starts_with("24 ")).unwrap();
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells[..5], ["24", "64 MiB", "64.0 s", "2 min 0 s", "4 min 0 s"], "{said}");
}

#[test]
fn bad_input_is_a_sentence_and_2() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let cluster = recording("a_kill_no_load/cluster.log");
    let own = recording("a_kill_no_load/ndb_2_out.log");
    let whole = std::fs::read(&cluster).unwrap();
    let cut = file("cut", &whole[..whole.len() - 9]);
    let (half, rest) = whole.split_at(whole.iter().rposition(|b| *b == b'\n').unwrap() / 2);
    let end = rest.iter().position(|b| *b == b'\n').unwrap() + 1;
    let backwards = file("backwards", &[&rest[end..], half, &rest[..end]].concat());
    for (args, expected) in [
        (&["--log", "/nonexistent"][..], "cannot be read"),
        (&["--log", &file("empty", b"")], "is empty"),
        (&["--log", &file("text", b"hello\nworld\n")], "is not a log of NDB Cluster"),
        (&["--log", "/dev/zero"], "is not a log of NDB Cluster"),
        (&["--log", &cluster, "--node-log", "/dev/zero"], "is not a log of NDB Cluster"),
        (&["--ndbinfo", "/dev/zero"], "is not ndbinfo.restart_info"),
        (&["--log", &own], "is a data node's own log"),
        (&["--log", &cluster, "--node-log", &cluster], "is a cluster log"),
        (&["--log", &cut], "--allow-damaged"),
        (&["--log", &backwards], "times that go backwards"),
        (&["--log", &cluster, "--since", "2030-01-01 00:00:00"], "no entry between"),
        (&["--log", &cluster, "--since", "yesterday"], "a time looks like"),
        (&["--ndbinfo", &cluster], "is not ndbinfo.restart_info"),
        (&["--ndbinfo", "mysql://app:secret@127.0.0.1"], "--password-file"),
        (&["--write-rate-bytes-s", "1000"], "--checkpoint-s"),
        (&["--mgm", "127.0.0.1"], "--log"),
        (&["--log", &cluster, "--mgm", "127.0.0.1"], "--enable-logging or --dump-7099"),
        (&["--mgm=mgm1; reboot", "--enable-logging"], "is no HOST"),
        (&["--mgm=-e", "--enable-logging"], "is no HOST"),
        (&["--mgm", "127.0.0.1", "--dump-7099"], "--accept-risk sends it nevertheless"),
        (&[], "--log"),
    ] {
        let said = recovery(args).with(2);
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    assert!(recovery(&["--log", &cut, "--allow-damaged"]).with(0).contains("the last line is not whole"));
}

#[test]
fn a_server_of_the_wrong_kind_is_told() {
    let server = fixture::Server::start(&[]);
    server.sql("CREATE USER info@'%' IDENTIFIED BY 'secret'");
    let dsn = format!("mysql://info@{}", server.address());
    let ended = run(Command::new(bin())
        .args(["recovery", "ndb", "--ndbinfo", &dsn])
        .env("UNDERSTUDY_PASSWORD", "wrong"));
    ended.with(1);
    server.sql("GRANT ALL ON *.* TO info@'%'");
    let ask = || {
        run(Command::new(bin())
            .args(["recovery", "ndb", "--ndbinfo", &dsn])
            .env("UNDERSTUDY_PASSWORD", "secret"))
    };
    assert!(ask().with(2).contains("an SQL node of an NDB Cluster of 7.4 or later"));
    // A table of the same name and columns, as an SQL node answers.
    let columns =
        ndb::restart_info::TIMES.map(|name| format!("{name} BIGINT UNSIGNED NOT NULL DEFAULT 3")).join(", ");
    server.sql(&format!(
        "CREATE DATABASE ndbinfo; CREATE TABLE ndbinfo.restart_info (node_id INT, node_restart_status VARCHAR(256), {columns}); \
         INSERT INTO ndbinfo.restart_info (node_id, node_restart_status, total_restart_secs) VALUES (2, 'Restart completed', 61)"
    ));
    let said = ask().with(0);
    assert!(said.contains("node 2: Restart completed, 61 s in all"), "{said}");
    let log = recording("f4_down_4_lcps_tblc_20_with_load/cluster.log");
    let both = run(Command::new(bin())
        .args(["recovery", "ndb", "--log", &log, "--ndbinfo", &dsn])
        .env("UNDERSTUDY_PASSWORD", "secret"));
    assert!(both.with(0).contains("agrees: 61 s in all"), "{}", both.said());
}

/// A directory with an ndb_mgm that notes its arguments, one a line, and then does `then`.
fn ndb_mgm(then: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let noted = dir.path().join("noted");
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >>'{}'\n{then}\n", noted.display());
    let program = dir.path().join("ndb_mgm");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (dir, noted)
}

fn ordered(dir: &Path, args: &[&str]) -> Ended {
    let path = format!("{}:/usr/bin:/bin", dir.display());
    run(Command::new(bin()).args(["recovery", "ndb", "--mgm", "mgm1:1186"]).args(args).env("PATH", path))
}

#[test]
fn orders_are_arguments_of_ndb_mgm_and_the_risk_is_said_first() {
    let (dir, noted) = ndb_mgm(
        "case \"$3\" in *CLUSTERLOG*) echo 'Executing CLUSTERLOG on node 1 OK!';; *) echo 'Sending dump signal with data:';; esac",
    );
    let said = ordered(dir.path(), &["--enable-logging", "--dump-7099", "--accept-risk"]).with(0);
    assert_eq!(
        std::fs::read_to_string(noted).unwrap(),
        "--ndb-connectstring=mgm1:1186\n-e\nALL CLUSTERLOG CHECKPOINT=8\n\
         --ndb-connectstring=mgm1:1186\n-e\nALL CLUSTERLOG NODERESTART=15\n\
         --ndb-connectstring=mgm1:1186\n-e\nALL DUMP 7099\n"
    );
    let (risk, done) = (said.find("not supported for use"), said.find("ALL DUMP 7099: done"));
    assert!(risk.is_some() && risk < done, "{said}");
}

#[test]
fn an_order_that_fails_is_told_and_ends_the_rest() {
    let (dir, noted) = ndb_mgm("echo 'Unable to connect with connect string: nodeid=0,mgm1:1186'");
    let said = ordered(dir.path(), &["--enable-logging"]).with(1);
    assert!(said.contains("Unable to connect with connect string"), "{said}");
    assert_eq!(std::fs::read_to_string(noted).unwrap().lines().count(), 3);
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().display().to_string();
    let none = run(Command::new(bin())
        .args(["recovery", "ndb", "--mgm", "mgm1", "--enable-logging"])
        .env("PATH", path));
    assert!(none.with(2).contains("ndb_mgm is not on PATH"), "{}", none.said());
}

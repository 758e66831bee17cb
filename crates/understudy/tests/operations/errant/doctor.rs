//! `understudy doctor` on the real servers.

use testbed::program::Serving;
use testbed::scene::{Scene, journal_with};

/// Once as they are, and once with what must not be.
pub async fn looks(scene: &Scene, serving: &Serving) {
    let said = serving.ask(&["doctor"]).with(0);
    println!("{said}");
    for line in [
        "SHOULD BE",
        "primary",
        "replica",
        "ADVICE  db1, db2, db3: replication is asynchronous",
        "keep sync_binlog = 1",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    // They were set by nobody but the files, except for the read_only of the primary and of a replica that was told whom to follow; the
    // rest no server tells.
    let of_files = |what: &str| -> Vec<&str> {
        let end = format!(": whether its option file has {what} cannot be told from here");
        let nodes = said.lines().find_map(|line| line.strip_prefix("ADVICE  ")?.strip_suffix(&end));
        nodes.map_or_else(Vec::new, |nodes| nodes.split(", ").collect())
    };
    let (set, only_files) = (of_files("read_only, skip_slave_start"), of_files("skip_slave_start"));
    assert_eq!(set.first(), Some(&"db1"), "{said}");
    for node in &set[1..] {
        journal_with(serving, &format!(" {node} follows db1"));
    }
    let mut all = [set, only_files].concat();
    all.sort_unstable();
    assert_eq!(all, ["db1", "db2", "db3"], "{said}");
    let files: Vec<String> = ["db1", "db2", "db3"]
        .iter()
        .map(|node| {
            format!("{node}={}", scene.stage.node(node).unwrap().datadir.with_file_name("my.cnf").display())
        })
        .collect();
    let mut with_files = vec!["doctor"];
    for file in &files {
        with_files.extend(["--my-cnf", file]);
    }
    let said = serving.ask(&with_files).with(0);
    assert!(!said.contains("option file"), "{said}");
    assert!(serving.ask(&["doctor", "--my-cnf", "db9=/etc/my.cnf"]).with(2).contains("no node db9"));

    scene.stage.run_in("db2", "SET GLOBAL gtid_strict_mode = OFF").await.unwrap();
    scene.stage.run_in("db1", "GRANT READ_ONLY ADMIN ON *.* TO bold@'%' IDENTIFIED BY 'x'").await.unwrap();
    let said = serving.ask(&["doctor"]).with(1);
    for line in [
        "PROBLEM  db2: gtid_strict_mode is OFF",
        "run  SET GLOBAL gtid_strict_mode = ON;",
        "keep gtid_strict_mode = ON",
        "'bold'@'%' (READ_ONLY ADMIN)",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let json = serving.ask(&["doctor", "--json"]).json();
    assert_eq!(json["findings"][0]["weight"], "problem");
    assert!(!said.contains("password") && !json.to_string().contains("password"));
    scene.stage.run_in("db2", "SET GLOBAL gtid_strict_mode = ON").await.unwrap();
    scene.stage.run_in("db1", "DROP USER bold@'%'").await.unwrap();
}

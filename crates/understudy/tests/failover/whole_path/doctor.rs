//! `understudy doctor` on the real nodes.

use testbed::program::with_config;

use super::{KEY, MONITOR, Scene};

/// Each setting that is read, and a piece of the case that it decides.
const SETTINGS: &[(&str, &str)] = &[
    ("evs.keepalive_period", "frozen"),
    ("evs.suspect_timeout", "non-graceful"),
    ("evs.inactive_timeout", "frozen"),
    ("evs.install_timeout", "non-graceful"),
    ("evs.join_retrans_period", "non-graceful"),
    ("evs.inactive_check_period", "non-graceful"),
    ("gcache.size", "the return"),
    ("gcs.fc_limit", "graceful"),
    ("gcs.fc_factor", "graceful"),
];

/// With an account that may not do everything: what is missing, what for, and the GRANT.
pub fn lacks(scene: &Scene) {
    let said = with_config(&scene.config(), &["doctor"]).with(1);
    let problem = "PROBLEM  db1, db2, db3: the monitor account watch lacks SELECT ON mysql.global_priv";
    assert!(said.contains(problem), "{said}");
    assert!(
        said.contains("run  GRANT SUPER, PROCESS, CONNECTION ADMIN, TRIGGER, EXECUTE ON *.* TO 'watch'@'%'"),
        "{said}"
    );
}

/// With everything in order: what was read, what it decides, what is proposed and why.
pub fn report(scene: &Scene) {
    let said = with_config(&scene.config(), &["doctor"]).with(0);
    println!("{said}");
    for (setting, case) in SETTINGS {
        let line = said
            .lines()
            .find(|line| line.starts_with(setting))
            .unwrap_or_else(|| panic!("{setting}: {said}"));
        assert!(line.contains(case), "{line}");
    }
    for (setting, value) in [("evs.suspect_timeout", "PT5S"), ("gcache.size", "64M"), ("gcs.fc_limit", "16")]
    {
        let line = said.lines().find(|line| line.starts_with(setting)).unwrap();
        assert_eq!(line.matches(&format!(" {value} ")).count(), 3, "one for each node: {line}");
    }
    // The seed's cells with its own figures beside.
    for piece in ["4 s, errors", "6 s; 7 s with errors", "sub-second, no errors", "no effect at all"] {
        assert!(said.contains(piece), "{piece}: {said}");
    }
    assert!(said.contains("ADVICE  db1, db2, db3: the group notices a silent member late"), "{said}");
    assert!(said.contains("measured with a vanished host"), "{said}");
    let sql = said.lines().find_map(|line| line.trim().strip_prefix("run  ")).unwrap();
    assert!(sql.starts_with("SET GLOBAL wsrep_provider_options='evs.keepalive_period=PT0.2S;"), "{sql}");

    let json = with_config(&scene.config(), &["doctor", "--json"]);
    assert_eq!(json.code, 0);
    let report = json.json();
    assert_eq!(report["nodes"].as_array().unwrap().len(), 3);
    assert!(report["cells"].as_array().unwrap().len() >= 6);
    for text in [said, json.out] {
        assert!(!text.contains(MONITOR.1) && !text.contains(KEY));
    }
}

use std::time::Duration;

use topology::replication::FailoverPolicy;
use topology::settings::{EvictPolicy, SilencePolicy};

use super::table::{Default, ValueKind};
use super::*;

const GOOD: &str = r#"
[cluster]
name = "shop"
id = 5

[[cluster.node]]
name = "db1"
address = "10.77.0.1:3306"

[[cluster.node]]
name = "db2"
address = "10.77.0.2:3306"
priority = 3

[cluster.monitor]
user = "understudy"
password = "very secret"

[listen]
mysql = ["0.0.0.0:6033", "[::]:6033"]
"#;

fn parse(text: &str) -> Result<Settings, Problems> {
    Settings::parse(Path::new("/etc/u/understudy.toml"), text)
}

fn said(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_complete_configuration_is_short_and_the_rest_has_defaults() {
    let s = parse(GOOD).unwrap();
    assert_eq!((s.name.as_str(), s.id, s.writers), ("shop", 5, Writers::One));
    assert_eq!(
        s.nodes.iter().map(|n| (n.name.as_str(), n.priority)).collect::<Vec<_>>(),
        [("db1", 0), ("db2", 3)]
    );
    assert_eq!(s.get(&t::LISTEN_MYSQL), ["0.0.0.0:6033", "[::]:6033"]);
    assert_eq!(s.get(&t::LISTEN_HTTP), ["127.0.0.1:6080"]);
    for none in [&t::LISTEN_HTTPS, &t::LISTEN_HEALTH, &t::LISTEN_AGENT] {
        assert!(s.get(none).is_empty());
    }
    assert_eq!((s.get(&t::MONITOR_INTERVAL), s.get(&t::MONITOR_MISSES)), (Duration::from_millis(200), 3));
    assert_eq!(s.get(&t::MONITOR_EVICT), EvictPolicy::Proven);
    assert_eq!(s.get(&t::MONITOR_SILENT), SilencePolicy::Wait);
    assert_eq!(s.get(&t::MONITOR_STOP_GRACE), Duration::from_secs(1));
    assert_eq!((s.get(&t::HOLD_TIME), s.get(&t::HOLD_STATEMENTS)), (Duration::from_secs(60), 10_000));
    assert_eq!((s.get(&t::HOLD_BYTES), s.get(&t::HOLD_RELEASE)), (67_108_864, 16));
    assert_eq!((s.get(&t::SWITCHOVER_BUDGET), s.get(&t::PROXY_RETAIN)), (Duration::from_secs(5), 1_048_576));
    assert_eq!(s.state_dir, Path::new("/var/lib/understudy"));
    assert_eq!(s.api.key_file, Path::new("/var/lib/understudy/api.key"));
    assert!(s.api.key_is_ours && s.api.certificate.is_none());
    assert_eq!(*s.monitor_account().unwrap().password, *"very secret");
    assert!(!format!("{s:?}").contains("very secret"));
}

/// The good file, for a primary and its replicas.
fn replicating() -> String {
    GOOD.replace("id = 5", "kind = \"replication\"")
        + "[cluster.replication]\nuser = \"repl\"\npassword = \"also secret\"\n"
}

#[test]
fn another_manager_moves_a_primary_and_needs_no_account_of_replicas() {
    use topology::replication::Manager;
    let external = GOOD.replace("id = 5", "kind = \"replication\"\nmanager = \"external\"");
    let s = parse(&external).unwrap();
    assert!(!s.get(&t::LISTEN_SPLIT) && !s.reads().on);
    let split = parse(&external.replace("[listen]", "[listen]\nsplit = true")).unwrap();
    assert!(split.get(&t::LISTEN_SPLIT) && split.reads().on && split.get(&t::LISTEN_READ).is_empty());
    assert_eq!((s.manager, s.replication.is_none()), (Manager::External, true));
    assert_eq!(parse(&replicating()).unwrap().manager, Manager::Understudy);
    let told = said(&(external + "[cluster.replication]\nuser = \"repl\"\npassword = \"secret\"\n"));
    assert!(told.contains("cluster.replication.user is for cluster.manager = \"understudy\" only"), "{told}");
    let told = said(&GOOD.replace("id = 5", "manager = \"external\""));
    assert!(told.contains("for cluster.kind = \"replication\" only"), "{told}");
}

#[test]
fn a_primary_with_replicas_needs_the_account_that_they_log_in_with() {
    let s = parse(&replicating()).unwrap();
    assert_eq!((s.kind, s.replication.as_ref().unwrap().user.as_str()), (Kind::Replication, "repl"));
    let loss = |text: &str| parse(text).unwrap().loss();
    assert_eq!(loss(&replicating()), topology::replication::Settings::default());
    let dry = loss(&(replicating() + "failover = \"dry_run\"\nfailover_gap_ms = 5\n"));
    assert_eq!((dry.dry_run, dry.failover_gap), (true, Duration::from_millis(5)));
    assert_eq!(loss(&(replicating() + "failover = \"manual\"")).failover, FailoverPolicy::Manual);
    let account = s.replication_account().unwrap().unwrap();
    assert_eq!(*account.password, *"also secret");
    assert!(!format!("{s:?} {account:?}").contains("secret"));
    let s = parse(GOOD).unwrap();
    assert_eq!((s.kind, s.replication_account().unwrap().is_none()), (Kind::Galera, true));

    let said = |from: &str, to: &str| {
        assert!(replicating().contains(from), "{from}");
        said(&replicating().replacen(from, to, 1))
    };
    let no_password = said("password = \"also secret\"\n", "");
    assert!(
        no_password.contains(":22: cluster.replication has no password: set password, password_file or"),
        "{no_password}"
    );
    let two = said("password = \"also secret\"", "password_env = \"X\"\npassword_file = \"x\"");
    assert!(
        two.contains("cluster.replication.password_file and cluster.replication.password_env are both set")
    );
    let hidden = said("\"also secret\"", "7");
    assert!(hidden.contains("it is of type integer (not shown)"), "{hidden}");
}

#[test]
fn the_level_of_compression_is_that_of_zstd() {
    let with = |more: &str| GOOD.replace("id = 5", &format!("id = 5\n{more}"));
    let codec = |more: &str| parse(&with(more)).unwrap().node_compression();
    assert_eq!(codec(""), None);
    assert_eq!(codec("compression = \"zlib\""), Some(Codec::Zlib));
    assert_eq!(codec("compression = \"zstd\""), Some(Codec::Zstd { level: 3 }));
    assert_eq!(codec("compression = \"zstd\"\ncompression_level = 9"), Some(Codec::Zstd { level: 9 }));
    let alone = said(&with("compression = \"zlib\"\ncompression_level = 9"));
    assert!(
        alone.contains("cluster.compression_level means something with cluster.compression = \"zstd\" only"),
        "{alone}"
    );
}

#[test]
fn a_bootstrap_by_itself_needs_a_proof() {
    let with = |more: &str| GOOD.replace("id = 5", &format!("id = 5\n{more}"));
    let alone = said(&with("bootstrap = \"proven\""));
    assert!(alone.contains("cluster.proof_command is missing"), "{alone}");
    let both = parse(&with("bootstrap = \"proven\"\nproof_command = \"look $NODE\"")).unwrap();
    assert_eq!(both.get(&t::CLUSTER_BOOTSTRAP), BootstrapPolicy::Proven);
    assert_eq!(both.get(&t::CLUSTER_PROOF_COMMAND).as_deref(), Some("look $NODE"));
    assert_eq!(parse(GOOD).unwrap().get(&t::CLUSTER_BOOTSTRAP), BootstrapPolicy::Never);
    let replicating =
        said(&replicating().replace("name = \"shop\"", "name = \"shop\"\nbootstrap = \"proven\""));
    assert!(replicating.contains("cluster.bootstrap is for Galera only"), "{replicating}");
}

#[test]
fn what_is_galeras_alone_is_refused_for_a_primary_with_replicas() {
    for setting in ["evict = \"never\"", "silent = \"wait\"", "stop_grace_ms = 5"] {
        let said = said(&replicating().replace("[listen]", &format!("{setting}\n[listen]")));
        let key = setting.split(' ').next().unwrap();
        let expect = format!(":19: cluster.monitor.{key} is for Galera only, and cluster.kind is");
        assert!(said.contains(&expect), "{said}");
    }
    let said = said(&replicating().replace("name = \"shop\"", "name = \"shop\"\nwriters = \"all\""));
    assert!(said.contains(":4: cluster.writers is \"all\", which is for Galera only"), "{said}");
}

#[test]
fn relative_paths_are_taken_from_the_files_directory() {
    let s = parse(&format!("{GOOD}[state]\ndir = \"var\"\n[api]\nkey_file = \"/run/key\"\n")).unwrap();
    assert_eq!(s.state_dir, Path::new("/etc/u/var"));
    assert_eq!((s.api.key_file.as_path(), s.api.key_is_ours), (Path::new("/run/key"), false));
}

#[test]
fn standbys_are_warmed_when_there_is_an_account_for_it() {
    assert!(parse(GOOD).unwrap().warm.is_none());
    let warm = |more: &str| format!("{GOOD}[warm]\n{more}");
    let s = parse(&warm("user = \"warm\"\npassword = \"hidden word\"\n")).unwrap();
    assert_eq!(*s.warm_account().unwrap().unwrap().password, *"hidden word");
    assert!(!format!("{s:?}").contains("hidden word"));
    let sample = (s.get(&t::WARM_SAMPLE), s.get(&t::WARM_SAMPLE_BY));
    assert_eq!((s.get(&t::WARM_STREAM_PORT), sample), (3307, (1, "session".to_owned())));
    assert_eq!((s.get(&t::WARM_SESSIONS), s.get(&t::WARM_REQUIRE)), (0, 0));
    assert_eq!(s.get(&t::WARM_LAG_MAX), Duration::from_secs(60));
    assert_eq!(s.warm.unwrap().user, "warm");
    let s = parse(&warm(
        "user = \"w\"\npassword_env = \"X\"\nskip_users = [\"backup\"]\nrequire_percent = 80\nsample_one_in = 5\nsessions_max = 7\n",
    ));
    let s = s.unwrap();
    assert_eq!(s.password_variables(), ["X"]);
    assert_eq!(s.get(&t::WARM_SKIP), ["backup"]);
    assert_eq!((s.get(&t::WARM_REQUIRE), s.get(&t::WARM_SAMPLE), s.get(&t::WARM_SESSIONS)), (80, 5, 7));

    let told = said(&warm("require_percent = 80\n"));
    assert!(told.contains(":22: warm.require_percent is set without warm.user"), "{told}");
    let told = said(&warm("user = \"w\"\n"));
    assert!(
        told.contains(":22: warm has no password: set password, password_file or password_env"),
        "{told}"
    );
    let told = said(&warm("user = \"w\"\npassword = \"\"\nskip_users = \"backup\"\n"));
    assert!(told.contains(":24: warm.skip_users must be a list of texts"), "{told}");
    let told = said(&warm("user = \"w\"\npassword = \"\"\nsource = \"proxy\"\nstream_port = 5\n"));
    assert!(
        told.contains(":25: warm.stream_port means something with warm.source = \"slow-log\" only"),
        "{told}"
    );
    let told = said(&warm("user = \"w\"\npassword = \"\"\nsource = \"proxy\"\nmirror_percent = 30\n"));
    assert!(told.contains(":25: warm.mirror_percent is gone; "), "{told}");
    let all = warm("user = \"w\"\npassword = \"\"\n").replace("id = 5", "writers = \"all\"");
    assert!(said(&all).contains(":22: warm.user is set and cluster.writers is \"all\""), "{}", said(&all));
}

/// Each case: what is appended to or replaced in the good file, and what must be said, with its line.
#[test]
fn each_mistake_names_key_line_and_what_is_allowed() {
    let cases: &[(&str, &str, &str)] = &[
        (
            "id = 5",
            "id = \"five\"",
            ":4: cluster.id must be a whole number from 0 to 4294967295; it is \"five\"",
        ),
        ("id = 5", "id = -5", ":4: cluster.id must be a whole number"),
        ("id = 5", "id = 5.5", ":4: cluster.id must be a whole number from 0 to 4294967295; it is 5.5"),
        (
            "id = 5",
            "kind = \"replication\"",
            ":4: cluster.replication.user is missing: with cluster.kind = \"replication\" the account",
        ),
        (
            "id = 5",
            "kind = \"mongo\"",
            ":4: cluster.kind must be one of \"galera\", \"replication\"; it is \"mongo\"",
        ),
        (
            "[listen]",
            "[cluster.replication]\nuser = \"r\"\n[listen]",
            ":20: cluster.replication.user is for cluster.kind = \"replication\" only: take it out",
        ),
        ("id = 5", "writers = \"two\"", ":4: cluster.writers must be one of \"one\", \"all\"; it is \"two\""),
        ("id = 5", "nmae = \"x\"", ":4: cluster.nmae is not a setting; did you mean cluster.name?"),
        (
            "id = 5",
            "misses_max = 3",
            ":4: cluster.misses_max is not a setting; misses_max belongs in [cluster.monitor]",
        ),
        ("id = 5", "zzz = 3", ":4: cluster.zzz is not a setting; [cluster] has name, id, kind, writers"),
        ("name = \"shop\"", "name = \"sh op\"", ":3: cluster.name must be 1 to 64 letters"),
        (
            "address = \"10.77.0.1:3306\"",
            "address = \"10.77.0.1\"",
            ":8: cluster.node.address must be \"host:port\"",
        ),
        ("address = \"10.77.0.1:3306\"", "address = \"fd00::1:3306\"", ":8: cluster.node.address must be"),
        (
            "address = \"10.77.0.1:3306\"",
            "adress = \"10.77.0.1:3306\"",
            ":8: cluster.node.adress is not a setting; did you mean cluster.node.address?",
        ),
        ("address = \"10.77.0.1:3306\"", "", ":6: cluster.node.address is missing; it must be \"host:port\""),
        ("name = \"db2\"", "name = \"db1\"", ":11: cluster.node.name \"db1\" is already used on line 7"),
        (
            "10.77.0.2:3306",
            "10.77.0.1:3306",
            ":12: cluster.node.address \"10.77.0.1:3306\" is already used on line 8",
        ),
        (
            "password = \"very secret\"",
            "",
            ":16: cluster.monitor has no password: set password, password_file or password_env",
        ),
        (
            "password = \"very secret\"",
            "password = 12345",
            ":17: cluster.monitor.password must be text in quotes, not empty; it is of type integer (not shown)",
        ),
        (
            "password = \"very secret\"",
            "password = \"a\"\npassword_env = \"B\"",
            ":18: cluster.monitor.password and cluster.monitor.password_env are both set",
        ),
        ("user = \"understudy\"", "", "understudy.toml: cluster.monitor.user is missing"),
        (
            "user = \"understudy\"",
            "user = \"u\"\nevict = \"always\"",
            ":17: cluster.monitor.evict must be one of \"proven\", \"silent\", \"never\"; it is \"always\"",
        ),
        (
            "user = \"understudy\"",
            "user = \"u\"\ninterval_ms = 5",
            ":17: cluster.monitor.interval_ms must be a whole number of milliseconds from 10 to 60000; it is 5",
        ),
        (
            "user = \"understudy\"",
            "user = \"u\"\ninterval_ms = true",
            "milliseconds from 10 to 60000; it is true",
        ),
        ("mysql = [\"0.0.0.0:6033\", \"[::]:6033\"]", "mysql = []", ":20: listen.mysql is an empty list"),
        (
            "mysql = [\"0.0.0.0:6033\", \"[::]:6033\"]",
            "mysql = [\"0.0.0.0:99999\"]",
            ":20: listen.mysql must be \"host:port\" or a list",
        ),
        (
            "mysql = [\"0.0.0.0:6033\", \"[::]:6033\"]",
            "mysql = 6033",
            ":20: listen.mysql must be \"host:port\" or a list of them",
        ),
        ("[listen]", "[listen]\nsplit = \"yes\"", ":20: listen.split must be true or false; it is \"yes\""),
        (
            "[listen]",
            "[listen]\nsplit = true",
            ":20: listen.split is for cluster.kind = \"replication\" only",
        ),
        (
            "[listen]",
            "[read]\nsplit_wait_ms = 5\n[listen]",
            ":20: read.split_wait_ms means something with listen.split = true only",
        ),
        ("[listen]", "[lisen]", ":19: lisen is not a setting; did you mean [listen]?"),
        (
            "[listen]",
            "[api]\ncertificate_file = \"x\"\n[listen]",
            ":20: api.certificate_file is set without api.certificate_key_file",
        ),
        (
            "[listen]",
            "[hold]\ntime_msec = 1\n[listen]",
            ":20: hold.time_msec is not a setting; did you mean hold.time_ms?",
        ),
        ("[listen]", "hold = 3\n[listen]", ":19: cluster.monitor.hold is not a setting"),
        (
            "[[cluster.node]]\nname = \"db2\"",
            "[cluster.monitor.node]\nname = \"db2\"",
            "cluster.monitor.node is not a setting",
        ),
        ("id = 5", "id = 5\nid = 6", ":5: not valid TOML: duplicate key"),
        ("id = 5", "id = ", ":4: not valid TOML: "),
    ];
    for (from, to, expect) in cases {
        assert!(GOOD.contains(from), "{from}");
        let said = said(&GOOD.replacen(from, to, 1));
        assert!(said.contains(expect), "{to:?}\n  said:     {said}\n  expected: {expect}");
        assert!(!said.contains("very secret"));
    }
}

#[test]
fn every_mistake_is_told_in_the_order_of_the_lines() {
    let text = GOOD
        .replace("id = 5", "id = \"x\"")
        .replace("priority = 3", "priority = -1")
        .replace("mysql =", "myqsl =");
    let said = said(&text);
    let lines: Vec<_> = said.lines().map(|l| l.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["4", "13", "20"], "{said}");
}

#[test]
fn an_empty_file_says_all_that_is_needed() {
    let said = said("");
    for key in ["cluster.name is missing", "there is no node", "cluster.monitor.user is missing"] {
        assert!(said.contains(key), "{said}");
    }
}

#[test]
fn a_list_where_a_table_must_be_is_explained() {
    let text = "[cluster.node]\nname = \"a\"\n[[listen]]\nmysql = \"x\"\n";
    let said = said(text);
    assert!(said.contains(":1: cluster.node is a list of tables: write [[cluster.node]]"), "{said}");
    assert!(said.contains(":3: listen is a table: write [listen]"), "{said}");
}

#[test]
fn accounts_of_clients_are_a_list_and_their_passwords_are_not_shown() {
    let account = |rest: &str| format!("[[proxy.account]]\n{rest}\n");
    let app = account("user = \"app\"\npassword = \"hunter2\"");
    let env = account("user = \"web\"\npassword_env = \"NO_SUCH_VARIABLE\"");
    let old = parse(&format!("{GOOD}{app}")).unwrap();
    let read = old.client_accounts().unwrap();
    assert_eq!(read.iter().map(|one| (&*one.user, &*one.password)).collect::<Vec<_>>(), [("app", "hunter2")]);
    assert!(!format!("{old:?}{read:?}").contains("hunter2"));
    let new = parse(&format!("{GOOD}{}{env}", app.replace("hunter2", "hunter3"))).unwrap();
    let told: Vec<_> = difference::changes(&old, &new).into_iter().map(|change| change.sentence).collect();
    assert_eq!(told, ["proxy.account \"app\" has another password", "proxy.account \"web\" is added"]);
    let told: Vec<_> = difference::changes(&new, &old).into_iter().map(|change| change.sentence).collect();
    assert_eq!(told[1], "proxy.account \"web\" is taken out");
    let problem = new.client_accounts().unwrap_err().to_string();
    assert!(problem.contains("proxy.account.password_env") && problem.contains(":24:"), "{problem}");
    for (rest, what) in [
        ("user = \"app\"", ":22: proxy.account has no password"),
        ("password = \"x\"", ":21: proxy.account.user is missing"),
        ("user = \"app\"\npassword = \"x\"\npassword_file = \"y\"", ":24: proxy.account.password"),
        ("user = \"app\"\npassword = 7", ":23: proxy.account.password must be"),
        ("usr = \"app\"\npassword = \"x\"", "did you mean proxy.account.user?"),
    ] {
        let said = said(&format!("{GOOD}{}", account(rest)));
        assert!(said.contains(what), "{rest}: {said}");
    }
    let said = said(&format!("{GOOD}[proxy.account]\nuser = \"app\"\n"));
    assert!(said.contains("proxy.account is a list of tables: write [[proxy.account]]"), "{said}");
}

#[test]
fn the_password_may_be_elsewhere_and_its_absence_is_told_with_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("understudy.toml");
    let text = GOOD.replace("password = \"very secret\"", "password_file = \"pw\"");
    let s = Settings::parse(&file, &text).unwrap();
    let problem = s.monitor_account().unwrap_err().to_string();
    assert!(
        problem.contains(":17: cluster.monitor.password_file") && problem.contains("No such file"),
        "{problem}"
    );
    std::fs::write(dir.path().join("pw"), "from file\n").unwrap();
    assert_eq!(*s.monitor_account().unwrap().password, *"from file");
    let text = GOOD.replace("password = \"very secret\"", "password_env = \"UNDERSTUDY_TEST_NOT_SET\"");
    let problem = Settings::parse(&file, &text).unwrap().monitor_account().unwrap_err().to_string();
    assert!(problem.contains(":17:") && problem.contains("no variable UNDERSTUDY_TEST_NOT_SET"), "{problem}");
}

#[test]
fn every_default_passes_its_own_check() {
    for row in t::TABLE {
        if let t::Default::Toml(text) = row.default {
            let document = Document::parse(Path::new("x"), "");
            assert!(document.value(row).is_some(), "{} = {text}", row.path);
        }
        assert!(row.doc.ends_with('.') || row.doc.ends_with("..."), "{} needs a whole sentence", row.path);
        let same = t::TABLE.iter().filter(|other| other.path == row.path).count();
        assert_eq!(same, 1, "{}", row.path);
    }
}

#[test]
fn the_page_of_settings_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let kept = std::fs::read_to_string(page).unwrap_or_default();
    let made = page::markdown();
    let differs = kept
        .lines()
        .chain(std::iter::repeat("(nothing)"))
        .zip(made.lines())
        .find(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "docs/settings.md is old: run `understudy settings --markdown > docs/settings.md`; first difference: {differs:?}"
    );
}

/// A value that does not fit the type it is read as would be read as nothing, or as 0.
#[test]
fn every_setting_is_read_as_what_its_value_is() {
    let numbers = ["u8", "u16", "u32", "usize"];
    for (row, read_as) in t::TABLE.iter().zip(t::READ_AS) {
        let of = read_as.strip_prefix("Option<").and_then(|of| of.strip_suffix('>')).unwrap_or(read_as);
        let words = ["Kind", "Writers", "Manager", "BootstrapPolicy", "EvictPolicy", "SilencePolicy"];
        let fits = match row.kind {
            ValueKind::Name | ValueKind::Text | ValueKind::Secret | ValueKind::Address => of == "String",
            ValueKind::Choice(_) => of == "String" || words.contains(&of),
            ValueKind::Path => of == "PathBuf",
            ValueKind::Switch => of == "bool",
            ValueKind::Millis { .. } => of == "Duration",
            ValueKind::Count { .. } | ValueKind::Bytes { .. } => numbers.contains(&of),
            ValueKind::Addresses | ValueKind::Texts => of == "Vec<String>",
            ValueKind::Networks => of == "Vec<IpNet>",
        };
        assert!(fits, "{} is {:?} and read as {read_as}", row.path, row.kind);
        // Nothing is read of what is not set, so its absence has to have a meaning.
        let is_unset = matches!(row.default, Default::Unset(_));
        assert!(
            !is_unset || of != *read_as || *read_as == "Vec<String>",
            "{} is read as {read_as}",
            row.path
        );
    }
}

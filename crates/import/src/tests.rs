//! Every example of every product: what it becomes, that no key is lost, and that what is broken is an error and no panic.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use settings::Settings;
use settings::table::{self as t, Setting};

use super::*;

fn example(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// The examples, whose names begin with their product's.
fn examples() -> Vec<(String, Product)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    let mut all: Vec<(String, Product)> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| (Product::from_str(name.split(['-', '.']).next().unwrap(), true).unwrap(), name))
        .map(|(product, name)| (name, product))
        .collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    assert!(Product::value_variants().iter().all(|product| all.iter().any(|(_, of)| of == product)));
    all
}

fn source<'a>(file: &'a Path, text: &'a str) -> Source<'a> {
    Source { file, bytes: text.as_bytes(), text, mha_global: Some(Path::new("/nowhere")) }
}

fn imported(name: &str, kind: Option<Kind>) -> Imported {
    let (file, text) = example(name);
    import(&source(&file, &text), None, kind).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// With an account for the monitor and for replicas, where the source has none.
fn settings(name: &str, kind: Option<Kind>) -> Settings {
    let text = imported(name, kind).settings;
    let text = text.replace("# user = ", "user = \"filled\" ").replace("# password = ", "password = \"in\" ");
    Settings::parse(Path::new("/etc/understudy.toml"), &text).unwrap_or_else(|why| panic!("{why}:\n{text}"))
}

fn nodes(settings: &Settings) -> Vec<(&str, &str, u32)> {
    settings.nodes.iter().map(|node| (&*node.name, &*node.address, node.priority)).collect()
}

fn ms<const N: usize>(settings: &Settings, rows: [&Setting<Duration>; N]) -> [u128; N] {
    rows.map(|row| settings.get(row).as_millis())
}

fn why(imported: &Imported, section: &str, key: &str) -> String {
    let found = imported.keys.iter().find(|one| one.section == section && one.key == key);
    match &found.unwrap_or_else(|| panic!("[{section}] {key} is not there")).fate {
        Fate::Becomes { setting } => format!("becomes {setting}"),
        Fate::NoCounterpart { why } => why.clone(),
        Fate::Unknown => "unknown".into(),
    }
}

fn unknown(imported: &Imported) -> Vec<&str> {
    imported.keys.iter().filter(|key| key.fate == Fate::Unknown).map(|key| key.key.as_str()).collect()
}

#[test]
fn every_example_is_a_settings_file_and_each_of_its_keys_has_one_fate() {
    for (name, product) in examples() {
        let (file, text) = example(&name);
        let source = source(&file, &text);
        assert_eq!(found(&source), Ok(product), "{name}");
        let items = read(&source, product).unwrap();
        let imported = imported(&name, None);
        let id = |at: &str, section: &str, key: &str| format!("{at} [{section}] {key}");
        let read: Vec<String> = items.iter().map(|item| id(&item.at, &item.section, &item.key)).collect();
        let told: Vec<String> = imported.keys.iter().map(|key| id(&key.at, &key.section, &key.key)).collect();
        assert_eq!(told, read, "{name}");
        assert_eq!(read.iter().collect::<BTreeSet<_>>().len(), read.len(), "{name}: {read:?}");
        // Each one that is not in the settings is named in them.
        for key in &imported.keys {
            let line = format!("#   {}", id(&key.at, &key.section, &key.key)).replace(" [] ", " ");
            let is_it = |text: &str| {
                text.strip_prefix(&*line).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            };
            let is_named = imported.settings.lines().any(is_it);
            assert_eq!(is_named, !matches!(key.fate, Fate::Becomes { .. }), "{name}: {key:?}");
        }
        let problems = Settings::parse(Path::new("u.toml"), &imported.settings).err().map(|all| all.0);
        let to_fill_in = ["is missing", "has no password", "there is no node"];
        for problem in problems.unwrap_or_default() {
            let is_to_fill_in = to_fill_in.iter().any(|word| problem.text.contains(word));
            assert!(is_to_fill_in && !imported.to_fill_in.is_empty(), "{name}: {problem}");
        }
    }
}

#[test]
fn secrets_stand_in_values_only() {
    let mut seen = 0;
    for (name, product) in examples() {
        let (file, text) = example(&name);
        let imported = imported(&name, None);
        let items = read(&source(&file, &text), product).unwrap();
        let is_secret = |item: &&Item| item.value.contains("secret");
        for item in items.iter().filter(is_secret) {
            seen += 1;
            let comments = imported.settings.lines().filter_map(|line| line.split_once("# "));
            for (_, comment) in comments {
                assert!(!comment.contains(&item.value), "{name}: {comment}");
            }
            let rest = serde_json::to_string(&(&imported.keys, &imported.to_fill_in)).unwrap();
            assert!(!rest.contains(&item.value), "{name}: {} {}", item.at, item.key);
        }
    }
    assert!(seen > 10, "{seen}");
}

/// Files cut off anywhere, and with a byte changed anywhere.
#[test]
fn what_is_broken_is_an_error_with_its_line_and_no_panic() {
    let mut state = 1_u64;
    let mut any = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut errors = 0;
    for (name, product) in examples() {
        let (file, text) = example(&name);
        for _ in 0..200 {
            let mut chars: Vec<char> = text.chars().collect();
            let place = any(chars.len());
            match any(3) {
                0 => chars.truncate(place),
                1 => chars[place] = ['"', '\'', '{', '(', '[', '}', '\\', '=', '\n', '\u{0}', 'é'][any(11)],
                _ => drop(chars.remove(place)),
            }
            let text: String = chars.into_iter().collect();
            let source = source(&file, &text);
            let read_it = read(&source, product);
            if let Err(why) = &read_it {
                let begin = format!("{}:", file.display());
                let line =
                    why.strip_prefix(&begin).and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
                // MHA's file as a whole may be wrong, too.
                let is_whole = product == Product::Masterha && why.starts_with(&begin);
                assert!(is_whole || line.is_some_and(|line| line > 0), "{why}");
            }
            match import(&source, Some(product), None) {
                Err(why) => {
                    errors += 1;
                    assert!(!why.contains("secret"), "{why}");
                }
                Ok(imported) => {
                    let broken = Settings::parse(Path::new("u.toml"), &imported.settings)
                        .err()
                        .map(|all| all.to_string());
                    assert!(
                        !broken.is_some_and(|why| why.contains("not valid TOML")),
                        "{text}\n{}",
                        imported.settings
                    );
                }
            }
        }
    }
    assert!(errors > 20, "{errors}");
}

#[test]
fn a_file_that_could_be_anybodys_is_refused() {
    for text in ["", "[mysqld]\nport=3306\n", "listen x\n server a\n[s]\ntype=server\n"] {
        let why = import(&source(Path::new("x.cnf"), text), None, None).unwrap_err();
        assert_eq!(why, "x.cnf: it is not clear whose configuration this is: say it with --from");
    }
    let why = import(&source(Path::new("/etc/x.cnf"), "[a\n"), Some(Product::Maxscale), None);
    assert_eq!(why.unwrap_err(), "/etc/x.cnf:1: a section ends with ]");
}

#[test]
fn haproxy_in_front_of_galera() {
    let settings = settings("haproxy-galera.cfg", None);
    assert_eq!(
        nodes(&settings),
        [("shop1", "10.3.0.1:3306", 100), ("shop2", "10.3.0.2:3306", 90), ("shop3", "10.3.0.3:3306", 80)]
    );
    assert_eq!(
        (&*settings.name, settings.get(&t::CLUSTER_KIND)),
        ("shop-galera", topology::kind::Kind::Galera)
    );
    assert_eq!(settings.get(&t::LISTEN_MYSQL), ["0.0.0.0:3307", "127.0.0.1:3308"]);
    assert_eq!(
        ms(
            &settings,
            [&t::PROXY_CONNECT_TIMEOUT, &t::PROXY_CLIENT_IDLE, &t::HOLD_TIME, &t::MONITOR_INTERVAL]
        ),
        [4000, 1_800_000, 20_000, 1000]
    );
    assert_eq!((settings.get(&t::MONITOR_MISSES), settings.get(&t::PROXY_CLIENTS)), (2, 4096));
    assert_eq!(settings.get(&t::CLUSTER_PROXY_HEADER), "v1");
    let imported = imported("haproxy-galera.cfg", None);
    assert_eq!(unknown(&imported), [""; 0]);
    let account = why(&imported, "listen shop-galera", "option mysql-check");
    assert!(account.contains("has no password"), "{account}");
    let other = why(&imported, "listen status", "stats uri");
    assert_eq!(other, "it is no database's: HAProxy goes on with it");
}

#[test]
fn haproxy_with_reads_apart() {
    let settings = settings("haproxy-replication.cfg", None);
    assert_eq!(
        nodes(&settings),
        [
            ("orders-a", "10.4.0.1:3306", 100),
            ("orders-b", "10.4.0.2:3306", 90),
            ("orders-c", "10.4.0.3:3306", 0)
        ]
    );
    assert_eq!(settings.manager, topology::replication::Manager::External);
    assert_eq!(
        (settings.get(&t::LISTEN_MYSQL), settings.get(&t::LISTEN_READ)),
        (vec!["10.4.0.9:3306".into()], vec!["10.4.0.9:3307".into()])
    );
    // Of the section for writes, and of the defaults above it, not of the web site's.
    assert_eq!(
        ms(&settings, [&t::MONITOR_INTERVAL, &t::PROXY_CONNECT_TIMEOUT, &t::PROXY_CLIENT_IDLE]),
        [2000, 300, 28_800_000]
    );
    let imported = imported("haproxy-replication.cfg", None);
    assert!(why(&imported, "backend orders_read, server orders-a", "inter").contains("has one value"));
    assert!(why(&imported, "listen archive", "server").contains("another cluster"));
}

#[test]
fn haproxy_takes_its_examples_and_none_of_their_words_is_lost() {
    for (name, _) in examples().iter().filter(|(_, product)| *product == Product::Haproxy) {
        let (file, text) = example(name);
        let output = Command::new("haproxy").arg("-c").arg("-f").arg(&file).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let items = read(&source(&file, &text), Product::Haproxy).unwrap();
        for (number, line) in text.lines().enumerate() {
            let at = format!("{}:{}", file.display(), number + 1);
            let line = line.split('#').next().unwrap().replace('"', "");
            let wanted: Vec<&str> = line.split_whitespace().collect();
            let here: Vec<&Item> = items.iter().filter(|item| item.at == at).collect();
            if here.is_empty() {
                let is_section = !line.starts_with(' ');
                assert!(wanted.is_empty() || is_section, "{at}");
                continue;
            }
            let said = here.iter().flat_map(|item| item.key.split(' ').chain(item.value.split(' ')));
            let said: Vec<&str> = said.filter(|word| !word.is_empty()).collect();
            // A line of default-server has only parameters.
            let wanted = wanted.strip_prefix(&["default-server"]).unwrap_or(&wanted);
            assert_eq!(said, wanted, "{at}");
        }
    }
}

#[test]
fn maxscale_with_automatic_failover() {
    let settings = settings("maxscale-replication.cnf", None);
    assert_eq!(
        nodes(&settings),
        [("shop1", "10.5.0.1:3306", 10), ("shop2", "10.5.0.2:3306", 10), ("shop3", "[2001:db8::3]:3307", 0)]
    );
    assert_eq!(settings.get(&t::REPLICATION_FAILOVER), "automatic");
    assert!(settings.get(&t::LISTEN_SPLIT));
    assert_eq!(settings.get(&t::LISTEN_READ), ["0.0.0.0:4008"]);
    assert_eq!(settings.get(&t::LISTEN_PROXY_HEADER).len(), 2);
    assert_eq!(
        ms(
            &settings,
            [
                &t::MONITOR_INTERVAL,
                &t::HOLD_TIME,
                &t::PROXY_CLIENT_IDLE,
                &t::READ_LAG_MAX,
                &t::READ_SPLIT_WAIT
            ]
        ),
        [2000, 20_000, 900_000, 3000, 2000]
    );
    assert_eq!(
        (settings.get(&t::CLUSTER_TLS), settings.get(&t::LISTEN_TLS)),
        ("verified".into(), "required".into())
    );
    let imported = imported("maxscale-replication.cnf", None);
    assert!(imported.settings.contains("password = \"m0n-secret\""));
    // MaxScale's own encryption.
    assert_eq!(imported.to_fill_in.len(), 1);
    assert!(imported.to_fill_in[0].why.contains("replication_password is encrypted"));
    assert!(!imported.settings.contains("96F99AA1315BDC3604B006F427DD9484"));
    assert!(
        imported
            .remarks
            .iter()
            .any(|remark| remark == "cluster.tls is for all 3 nodes; the source says it 1 times")
    );
}

#[test]
fn maxscale_in_front_of_galera() {
    let settings = settings("maxscale-galera.cnf", None);
    assert_eq!(nodes(&settings), [("g1", "galera1.example:3306", 90), ("g2", "galera2.example:3306", 100)]);
    assert_eq!(*settings.monitor_account().unwrap().password, *"p#w;d");
    let imported = imported("maxscale-galera.cnf", None);
    assert_eq!(unknown(&imported), ["colour"]);
    assert!(why(&imported, "other", "address").contains("another cluster"));
    assert!(why(&imported, "rw", "router").contains("no reads are split off"));
}

#[test]
fn proxysql_in_front_of_galera() {
    let settings = settings("proxysql-galera.cnf", None);
    let all = [
        ("10.6.0.1", "10.6.0.1:3306", 0),
        ("10.6.0.2", "10.6.0.2:3306", 0),
        ("10.6.0.3", "10.6.0.3:3306", 0),
    ];
    assert_eq!(nodes(&settings), all);
    assert_eq!(settings.get(&t::CLUSTER_KIND), topology::kind::Kind::Galera);
    assert_eq!(settings.get(&t::CLUSTER_TLS), "required");
    assert_eq!(*settings.monitor_account().unwrap().password, *"m0nitor-secret");
    assert_eq!(settings.get(&t::LISTEN_MYSQL), ["0.0.0.0:6033"]);
    assert_eq!(
        ms(&settings, [&t::MONITOR_INTERVAL, &t::HOLD_TIME, &t::PROXY_CONNECT_TIMEOUT, &t::READ_LAG_MAX]),
        [1500, 15_000, 3000, 3000]
    );
    let imported = imported("proxysql-galera.cnf", None);
    assert_eq!(unknown(&imported), ["colour"]);
    assert!(why(&imported, "mysql_servers[3]", "address").contains("another cluster"));
    assert!(why(&imported, "mysql_variables", "monitor_read_only_interval").contains("has one value"));
    assert!(why(&imported, "mysql_query_rules[1]", "destination_hostgroup").contains("listen.split"));
    assert!(why(&imported, "mysql_servers[2]", "use_ssl").contains("has one value"), "{}", imported.settings);
    assert!(!imported.settings.contains("app-secret") && !imported.settings.contains("adm1n-secret"));
}

#[test]
fn proxysql_that_follows_read_only() {
    let settings = settings("proxysql-replication.cnf", None);
    assert_eq!(
        nodes(&settings),
        [("db-a.example", "db-a.example:3306", 0), ("db-b.example", "db-b.example:3307", 0)]
    );
    assert_eq!(settings.manager, topology::replication::Manager::External);
    assert!(settings.get(&t::LISTEN_SPLIT));
    assert_eq!((settings.get(&t::PROXY_RESENDS), ms(&settings, [&t::READ_LAG_MAX])), (0, [10_000]));
    let imported = imported("proxysql-replication.cnf", None);
    // 0 is none there.
    assert!(why(&imported, "mysql_servers[0]", "max_replication_lag").contains("none that"));
    assert_eq!(unknown(&imported), [""; 0]);
}

#[test]
fn orchestrators_servers_are_its_seeds() {
    let settings = settings("orchestrator.conf.json", None);
    let all = [
        ("db-a.example", "db-a.example:3306", 0),
        ("db-b.example", "db-b.example:3306", 0),
        ("10.7.0.3", "10.7.0.3:3307", 0),
    ];
    assert_eq!(nodes(&settings), all);
    assert_eq!(
        (settings.get(&t::REPLICATION_FAILOVER), settings.get(&t::CLUSTER_TLS)),
        ("automatic".into(), "verified".into())
    );
    assert_eq!(ms(&settings, [&t::MONITOR_INTERVAL, &t::REPLICATION_GAP]), [5000, 3_600_000]);
    let imported = imported("orchestrator.conf.json", None);
    assert_eq!(unknown(&imported), ["FavouriteColour"]);
    let asked: Vec<_> = imported.to_fill_in.iter().map(|asked| asked.setting).collect();
    assert_eq!(asked, ["cluster.replication.password", "cluster.replication.user"]);
    let at = imported.keys.iter().find(|key| key.key == "RaftEnabled").unwrap();
    assert!(at.at.ends_with(".json:25"), "{at:?}");
    let twice = "{\"MySQLTopologyUser\": \"a\",\n\"MySQLTopologyUser\": \"b\"}";
    let imported = import(&source(Path::new("o.json"), twice), None, None).unwrap();
    assert!(imported.settings.contains("user = \"b\"   # o.json:2 "), "{}", imported.settings);
    assert!(imported.settings.contains("#   o.json:1 MySQLTopologyUser: cluster.monitor.user has one value"));
    let why = import(&source(Path::new("o.json"), "{\"MySQLTopologyPassword\": \"x-secret\" 5}"), None, None);
    assert_eq!(why.unwrap_err(), "o.json:1: this is not an object in valid JSON");
}

#[test]
fn routes_of_mysql_router() {
    let settings = settings("mysqlrouter-static.conf", None);
    assert_eq!(
        nodes(&settings),
        [
            ("10.8.0.1", "10.8.0.1:3306", 100),
            ("10.8.0.2", "10.8.0.2:3306", 90),
            ("10.8.0.3", "10.8.0.3:3306", 0)
        ]
    );
    assert_eq!(settings.manager, topology::replication::Manager::External);
    assert_eq!(
        (settings.get(&t::LISTEN_MYSQL), settings.get(&t::LISTEN_READ)),
        (vec!["0.0.0.0:7001".into()], vec!["10.8.0.9:7002".into()])
    );
    assert_eq!(
        (settings.get(&t::CLUSTER_TLS), settings.get(&t::LISTEN_TLS)),
        ("verified".into(), "optional".into())
    );
    assert_eq!((settings.get(&t::PROXY_CLIENTS), ms(&settings, [&t::PROXY_CONNECT_TIMEOUT])), (512, [2000]));
    let static_routes = imported("mysqlrouter-static.conf", None);
    assert_eq!(unknown(&static_routes), [""; 0]);
    assert!(why(&static_routes, "routing:x", "destinations").contains("X protocol"));
    // InnoDB Cluster is not supported, and the settings say so instead of guessing.
    let cluster = imported("mysqlrouter-cluster.conf", None);
    assert!(
        cluster
            .to_fill_in
            .iter()
            .any(|asked| asked.setting == "cluster.kind" && asked.why.contains("not supported"))
    );
    assert!(cluster.settings.contains("read = [\"0.0.0.0:6447\"]"));
    assert_eq!(unknown(&cluster), [""; 0]);
}

#[test]
fn mhas_site() {
    let settings = settings("masterha.cnf", None);
    assert_eq!(
        nodes(&settings),
        [("10.11.0.106", "10.11.0.106:3306", 10), ("db2", "10.11.0.107:3306", 100), ("db3", "db3:3307", 0)]
    );
    assert_eq!((&*settings.name, settings.monitor.user.as_str()), ("masterha", "mha"));
    assert_eq!(*settings.monitor_account().unwrap().password, *"mha-secret");
    assert_eq!(ms(&settings, [&t::MONITOR_INTERVAL]), [1000]);
    assert_eq!(*settings.replication_account().unwrap().unwrap().password, *"repl-secret");
    assert_eq!(settings.state_dir, Path::new("/var/log/masterha/app1/understudy"));
    let imported = imported("masterha.cnf", None);
    assert_eq!(unknown(&imported), ["colour"]);
    assert_eq!(why(&imported, "server default", "ssh_user"), "no SSH is used");
    assert!(why(&imported, "server10", "password").contains("another one"));
    assert!(why(&imported, "server1", "user").contains("becomes cluster.monitor.user"));
    assert!(imported.settings.contains("/masterha.cnf:4 password\n"), "{}", imported.settings);
    assert!(why(&imported, "binlog1", "hostname").contains("follow by GTID"));
    assert!(
        imported
            .remarks
            .iter()
            .any(|remark| remark.contains("candidate_master in [server default] does nothing"))
    );
    let twins = "[server default]\nuser=r\npassword=a\"b\\c\n[server1]\nhostname=h\n[server2]\nhostname=h\nport=3307\n";
    let imported = import(&source(Path::new("twins.cnf"), twins), None, None).unwrap();
    assert!(
        imported.settings.contains("name = \"server1\"") && imported.settings.contains("name = \"server2\"")
    );
    assert!(
        imported.settings.contains("# user =    # TO FILL IN: repl_user is not set"),
        "{}",
        imported.settings
    );
}

#[test]
fn every_rule_names_a_setting_and_how_its_value_is_written() {
    let all = [
        haproxy::RULES,
        maxscale::RULES,
        proxysql::RULES,
        masterha::RULES,
        orchestrator::RULES,
        mysqlrouter::RULES,
    ];
    for rules in all {
        let sections = rules.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
        let mut count = 0;
        for section in sections {
            let name = section.split(" | ").next().unwrap();
            for (keys, sign, what) in draft::rules_of(rules, name) {
                count += 1;
                let (path, unit) = what.split_once(' ').unwrap_or((what, ""));
                let row = t::TABLE.iter().find(|row| row.path == path);
                assert!(sign == ": " || row.is_some(), "[{section}] {keys}: {what}");
                assert!(sign != " = " || draft::unit_of(unit).is_some(), "[{section}] {keys}: {what}");
                assert!(sign == " = " || sign == ": " || unit.is_empty(), "[{section}] {keys}: {what}");
            }
        }
        let lines = rules.lines().filter(|line| !line.is_empty() && !line.starts_with('[')).count();
        assert_eq!(count, lines);
    }
}

#[test]
fn a_file_is_written_for_its_owner_and_never_over_another() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("understudy.toml");
    let (file, _) = example("maxscale-galera.cnf");
    let import = |file: &Path| {
        let file = file.to_owned();
        Import { file, from: None, kind: None, mha_global: None, out: Some(out.clone()), json: true }.run()
    };
    import(&file).unwrap();
    let written = std::fs::read_to_string(&out).unwrap();
    assert_eq!(written, imported("maxscale-galera.cnf", None).settings);
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = import(&file).unwrap_err();
    assert!(matches!(&refused, Failure::Failed(why) if why.contains("cannot be written")), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), written);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let missing = import(&dir.path().join("none.cfg")).unwrap_err();
    assert!(
        matches!(&missing, Failure::Usage(why) if why.contains("none.cfg cannot be read")),
        "{missing:?}"
    );
}

//! What is wrong is told in one sentence that says whose fault it is and what to do, and with the exit code that scripts rely
//! on: 2 for the configuration, 1 for the world around it. On real files, real ports and a real server.

use std::net::TcpListener;

use fixture::Server;
use testbed::program::{Serving, directory, understudy, until, with_config};

/// Complete; each test replaces what it is about.
const GOOD: &str = "\
[cluster]
name = \"shop\"
id = 5
[[cluster.node]]
name = \"db1\"
address = \"NODE\"
[cluster.monitor]
user = \"app\"
password = \"PASSWORD\"
[listen]
mysql = \"127.0.0.1:0\"
http = \"127.0.0.1:0\"
[state]
dir = \"state\"
";

fn config(node: &str, password: &str) -> tempfile::TempDir {
    directory(&GOOD.replace("NODE", node).replace("PASSWORD", password))
}

#[test]
fn a_wrong_configuration_names_key_line_and_what_is_allowed() {
    let cases = [
        // unknown key, unknown table, wrong type, bad value, missing key, twice the same, a key of another table
        ("id = 5", "nmae = \"x\"", ":3: cluster.nmae is not a setting; did you mean cluster.name?"),
        ("[state]", "[sate]", ":13: sate is not a setting; did you mean [state]?"),
        (
            "id = 5",
            "id = \"five\"",
            ":3: cluster.id must be a whole number from 0 to 4294967295; it is \"five\"",
        ),
        ("id = 5", "writers = \"two\"", ":3: cluster.writers must be one of \"one\", \"all\"; it is \"two\""),
        ("user = \"app\"", "", ": cluster.monitor.user is missing; it must be text in quotes, not empty"),
        ("id = 5", "name = \"again\"", ":3: not valid TOML: duplicate key"),
        ("id = 5", "misses_max = 3", ":3: cluster.misses_max is not a setting; misses_max belongs in"),
        // Up to the end of the line it might have gone on.
        ("id = 5", "id = [", ":4: not valid TOML: "),
        ("[listen]", "[listen", ":10: not valid TOML: "),
        ("password = \"PASSWORD\"", "password = \"PASSWORD", ":9: not valid TOML: "),
    ];
    for (from, to, expect) in cases {
        let dir = directory(&GOOD.replacen(from, to, 1).replace("NODE", "127.0.0.1:1"));
        let file = dir.path().join("understudy.toml");
        for command in [
            &["serve"][..],
            &["serve", "--check"],
            &["doctor"],
            &["status"],
            &["journal"],
            &["switchover"],
            &["drain", "db1"],
        ] {
            let said = with_config(&file, command).with(2);
            assert!(said.matches("not valid TOML").count() <= 1, "one mistake, one sentence: {said}");
            let wanted = format!("{}{expect}", file.display());
            assert!(said.contains(&wanted), "{command:?} said:\n{said}\nexpected:\n{wanted}");
            assert!(!said.contains("PASSWORD"), "{said}");
        }
        assert!(!dir.path().join("state").exists(), "nothing is made of a wrong configuration");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let said = understudy(&["serve", "--config", "/nonexistent/u.toml"]).with(2);
    assert!(said.contains("/nonexistent/u.toml: cannot be read: No such file"), "{said}");
    let dir = directory("");
    let said = with_config(dir.path(), &["serve"]).with(2);
    assert!(said.contains("cannot be read: Is a directory"), "{said}");
    std::fs::write(dir.path().join("understudy.toml"), b"[cluster]\nname = \"\xff\xfe\"\n").unwrap();
    let said = with_config(&dir.path().join("understudy.toml"), &["serve"]).with(2);
    assert!(said.contains("cannot be read: ") && said.contains("UTF-8"), "{said}");

    // Files that the configuration names.
    let text = GOOD.replace("NODE", "127.0.0.1:1");
    for (from, to, line) in [
        ("password = \"PASSWORD\"", "password_file = \"gone\"", ":9: cluster.monitor.password_file"),
        ("password = \"PASSWORD\"", "password_env = \"US_NOT_SET\"", ":9: cluster.monitor.password_env"),
    ] {
        let dir = directory(&text.replace(from, to));
        for command in [&["serve"][..], &["serve", "--check"], &["doctor"]] {
            let said = with_config(&dir.path().join("understudy.toml"), command).with(2);
            assert!(said.contains(line), "{command:?}: {said}");
        }
    }
    let key = "[api]\nkey_file = \"gone\"\n[state]";
    let certificate = "[api]\ncertificate_file = \"gone\"\ncertificate_key_file = \"gone\"\n[state]";
    for (api, line) in [(key, ":15: api.key_file"), (certificate, ":15: api.certificate_file")] {
        let text = text.replace("[listen]", "[listen]\nhttps = \"127.0.0.1:0\"").replace("[state]", api);
        let dir = directory(&text);
        for command in [&["serve"][..], &["serve", "--check"]] {
            let said = with_config(&dir.path().join("understudy.toml"), command).with(2);
            assert!(said.contains(line), "{command:?}: {said}");
        }
    }
}

#[test]
fn a_port_in_use_says_which_key_and_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (key, from, to) in [
        ("11: listen.mysql", "mysql = \"127.0.0.1:0\"", format!("mysql = \"{address}\"")),
        ("12: listen.http", "http = \"127.0.0.1:0\"", format!("http = \"{address}\"")),
        // Without plain HTTP, whose usual port may be another program's here.
        ("12: listen.https", "http = \"127.0.0.1:0\"", format!("https = \"{address}\"\nhttp = []")),
    ] {
        let dir = directory(&GOOD.replace(from, &to).replace("NODE", "127.0.0.1:1"));
        for command in [&["serve"][..], &["serve", "--check"]] {
            let said = with_config(&dir.path().join("understudy.toml"), command).with(1);
            let wanted = format!(
                "understudy.toml:{key}: cannot listen on {address}: the port is in use by another program"
            );
            assert!(said.contains(&wanted), "{command:?} said:\n{said}\nexpected:\n{wanted}");
            assert!(said.contains("stop it, or set another port"), "{said}");
        }
    }
}

#[test]
fn a_monitor_account_that_gets_nowhere_says_why_and_what_to_do() {
    let server = Server::start(&[]);
    // Accepts and never greets, as a frozen node does.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let real = server.address().to_string();
    for (node, password, expect) in [
        (real.as_str(), "not-the-password", "Access denied for user 'app'"),
        (&real, "secret", "it is reached and is no Galera node (wsrep_on is OFF)"),
        ("127.0.0.1:1", "secret", "nothing listens there: is the server running, and is the address right?"),
        (&silent, "secret", "is the host up, and does a firewall let us through?"),
        ("no-such-host.invalid:3306", "secret", "is the name right, and does this machine know it?"),
    ] {
        let dir = config(node, password);
        let file = dir.path().join("understudy.toml");
        let said = with_config(&file, &["serve", "--check"]).with(1);
        assert!(said.contains(&format!("understudy.toml:4: node db1 ({node}): ")), "{said}");
        assert!(said.contains(expect), "{said}\nexpected: {expect}");
        assert!(!said.contains(password), "{said}");
        if password != "secret" {
            assert!(said.contains("put its password right, or make it"), "{said}");
            assert!(said.contains("CREATE USER 'app'@'%' IDENTIFIED BY '...'; GRANT SUPER"), "{said}");
        }
        let said = with_config(&file, &["doctor"]).with(1);
        assert!(said.contains("PROBLEM  db1: "), "{said}");
    }
}

#[test]
fn a_running_server_says_the_same_in_status_and_log() {
    let server = Server::start(&[]);
    let dir = config(&server.address().to_string(), "not-the-password");
    let mut serving = Serving::start(dir.path());
    // The ports of the configuration are 0: only the log knows where it listens.
    let http = format!("http://{}", serving.http);
    let key = serving.state("api.key");
    let status =
        || understudy(&["status", "--api", &http, "--cluster", "5", "--key-file", key.to_str().unwrap()]);
    let said = until("the advice", || Some(status().with(0)).filter(|said| said.contains("advice")));
    assert!(
        said.contains("db1 refuses the monitor account \"app\" (1045): put its password right"),
        "{said}"
    );
    assert!(
        said.contains("GRANT SUPER, PROCESS, CONNECTION ADMIN, TRIGGER, EXECUTE ON *.* TO 'app'@'%'"),
        "{said}"
    );
    assert!(serving.log().contains("db1 refuses the monitor account"), "{}", serving.log());
    for text in [said, serving.log()] {
        assert!(!text.contains("not-the-password"));
    }
    serving.terminate();
    assert_eq!(serving.ended().code(), Some(0));
}

/// A slip that used to be told as two, or as something else.
#[test]
fn one_mistake_is_told_once_and_for_what_it_is() {
    let base = GOOD.replace("NODE", "127.0.0.1:1");
    for (from, to, told) in [
        (
            "address = \"127.0.0.1:1\"",
            "address = \"127.0.0.1\"",
            ":6: cluster.node.address must be \"host:port\"",
        ),
        (
            "address = \"127.0.0.1:1\"",
            "address = 10.7.0.1:3306",
            ":6: not valid TOML: text must be in quotes: address = \"10.7.0.1:3306\"",
        ),
        (
            "password = \"PASSWORD\"",
            "password = hunter2",
            ":9: not valid TOML: text must be in quotes: password = \"...\"",
        ),
        ("password = \"PASSWORD\"", "password = 5", ":9: cluster.monitor.password must be text in quotes"),
        (
            "id = 5",
            "kind = \"replicaton\"\n[cluster.replication]\nuser = \"r\"\npassword = \"x\"\n",
            ":3: cluster.kind must be one of",
        ),
        (
            "mysql = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"",
            "mysql = \"0.0.0.0:6033\"\nhttp = \"127.0.0.1:6033\"",
            ":12: listen.http 127.0.0.1:6033 (on line 12) and listen.mysql 0.0.0.0:6033 (on line 11) are the same port",
        ),
    ] {
        let dir = directory(&base.replacen(from, to, 1));
        let file = dir.path().join("understudy.toml");
        let said = with_config(&file, &["serve", "--check"]).with(2);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(told) && !said.contains("hunter2"), "{said}\nexpected: {told}");
    }
}

#[test]
fn a_place_that_cannot_hold_files_is_no_state_directory() {
    for place in ["/proc/foo", "/proc", "/dev/null"] {
        let dir =
            directory(&GOOD.replace("NODE", "127.0.0.1:1").replace("\"state\"", &format!("\"{place}\"")));
        let file = dir.path().join("understudy.toml");
        let said = with_config(&file, &["serve", "--check"]).with(2);
        assert!(said.contains(&format!(":14: state.dir {place} cannot be ")), "{said}");
        let said = with_config(&file, &["serve"]).with(1);
        assert!(said.contains(&format!(":14: state.dir {place} cannot ")), "{said}");
    }
}

#[test]
fn what_is_allowed_and_hardly_meant_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;

    let text = GOOD
        .replace("NODE", "127.0.0.1:1")
        .replace("password = \"PASSWORD\"", "password_file = \"password\"")
        .replace("http = \"127.0.0.1:0\"", "http = \"0.0.0.0:0\"");
    let dir = directory(&text);
    let password = dir.path().join("password");
    std::fs::write(&password, "x").unwrap();
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(dir.path(), 0o755);
    open(&password, 0o644);
    let file = dir.path().join("understudy.toml");
    // 1 is for the node that does not exist; a warning is no error.
    let said = with_config(&file, &["serve", "--check"]).with(1);
    for told in [
        "WARN   FILE: there is one node: no other can take over from it",
        "WARN   FILE:12: listen.http 0.0.0.0:0 can be reached from other machines, and the API key crosses the network readable",
        "WARN   FILE:9: cluster.monitor.password_file: ",
        "/password can be read by every user of this machine: run chmod o-rwx ",
    ] {
        let told = told.replace("FILE", &file.display().to_string());
        assert!(said.contains(&told), "{said}\nexpected: {told}");
    }
    let json = with_config(&file, &["serve", "--check", "--json"]).json();
    let count =
        |level: &str| json["results"].as_array().unwrap().iter().filter(|row| row["level"] == level).count();
    assert_eq!((count("warning"), count("wrong")), (3, 1), "{json:#}");
    // And at each start.
    let mut serving = Serving::start(dir.path());
    assert!(serving.log().contains("WARN") && serving.log().contains("can be read by every user"));
    serving.terminate();
    assert_eq!(serving.ended().code(), Some(0));
    open(&password, 0o600);
    let said = with_config(&file, &["serve", "--check"]).with(1);
    assert!(!said.contains("every user"), "{said}");
}

#[test]
fn a_doctor_that_reached_nobody_claims_nothing() {
    let dir = config("127.0.0.1:1", "x");
    let said = with_config(&dir.path().join("understudy.toml"), &["doctor"]).with(1);
    assert!(said.contains("no node was reached, so nothing is known of how they are set"), "{said}");
    assert!(!said.contains("measured") && !said.contains("DECIDES"), "{said}");
}

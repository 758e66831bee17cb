//! The program from outside: exit codes, sentences, and a whole life from start to SIGTERM. No database is needed: the node
//! of the configuration does not exist, which is a state that the program must serve in, too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use testbed::program::{self, Ended, Serving, bin, directory, mode, run, understudy};

#[test]
fn wrong_usage_is_2_and_nobody_there_is_3() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "k").unwrap();
    assert!(understudy(&["status"]).with(2).contains("name one with --config FILE"));
    understudy(&["bogus"]).with(2);
    understudy(&["status", "--api", "http://127.0.0.1:1"]).with(2);
    let said =
        understudy(&["status", "--api", "http://127.0.0.1:1", "--key-file", key.to_str().unwrap()]).with(3);
    assert!(said.contains("is `understudy serve` running?"), "{said}");
}

#[test]
fn what_needs_no_server_is_printed() {
    for (args, expect) in [
        (&["settings"][..], "interval_ms"),
        (&["settings", "--markdown"], "| `interval_ms` | `200` |"),
        (&["settings", "--json"], "\"path\": \"hold.time_ms\""),
        (&["settings", "hold.time_ms"], "[hold]\n  time_ms "),
        (&["errors"], "outcome_unknown"),
        (&["errors", "9104"], "9104 session_lost (08006)\n\n> the session's database node is gone"),
        (&["errors", "session_lost"], "**What to do:** Connect again"),
        (&["errors", "--json"], "\"sqlstate\": \"08007\""),
        (&["errors", "session_lost", "--json"], "\"explanation\": \"9104 session_lost (08006)"),
        (&["settings", "hold.time_ms", "--json"], "\"path\": \"hold.time_ms\""),
        (&["drain", "--help"], "Exit codes: 0 done"),
        (&["--help"], "Exit codes: 0 done"),
        (&["doctor", "--help"], "Exit codes: 0 nothing must be put right"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["lab", "--help"], "failover"),
    ] {
        let said = understudy(args).with(0);
        assert!(said.contains(expect), "{args:?}: {said}");
    }
    assert!(!understudy(&["settings", "hold.time_ms"]).with(0).contains("interval_ms"));
    assert!(understudy(&["settings", "nothing.like_it"]).with(2).contains("no setting's name contains"));
    assert!(understudy(&["errors", "1062"]).with(2).contains("a server gave it"));
}

#[test]
fn mhas_commands_help_themselves() {
    for name in ["master_switch", "manager", "check_repl", "check_status", "stop"] {
        let name = format!("masterha_{name}");
        let said = understudy(&[&name, "--help"]).with(0);
        assert!(said.starts_with("Usage:\n") && said.contains(&format!("{name} --conf=")), "{said}");
        assert!(said.contains("--understudy=FILE"), "{said}");
        assert!(understudy(&[&name, "--version"]).with(0).starts_with(&format!("{name} version 0.58")));
        let said = understudy(&[&name, "--what"]).with(1);
        assert!(said.contains("Unknown options: --what"), "{said}");
    }
}

#[test]
fn what_is_odd_in_an_mha_file_is_all_told() {
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("app1.cnf");
    let text = "[server default]\nuser=u\npasword=x\nrepl_user=r\nwhatsoever=1\n[server1]\nhostname=a\n[server1]\nhostname=b\n";
    std::fs::write(&conf, text).unwrap();
    let said = understudy(&["import", conf.to_str().unwrap()]).with(0);
    for line in [
        "app1.cnf:3: MHA has no key pasword; did you mean password?; it is left out\n",
        "app1.cnf:5: MHA has no key whatsoever; it is left out\n",
        "app1.cnf:8: [server1] stands in line 6 already. Both are one server, with the later value of each key, so that a is no server here",
    ] {
        assert!(said.matches(line).count() == 2, "once as a warning, once in the file: {line}: {said}");
    }
    assert!(
        said.contains("app1.cnf:4 repl_user\n# password =    # TO FILL IN: repl_password is not set")
            && !said.contains("[server2]"),
        "{said}"
    );
    let json = understudy(&["import", conf.to_str().unwrap(), "--json"]).json();
    let fate = |key: &str| {
        json["keys"].as_array().unwrap().iter().find(|it| it["key"] == key).unwrap()["fate"].clone()
    };
    assert_eq!((fate("user"), fate("whatsoever")), ("becomes".into(), "unknown".into()), "{json:#}");
    // MHA itself ends at such a key.
    let said = understudy(&["masterha_check_status", "--conf", conf.to_str().unwrap()]).with(1);
    assert!(said.contains("MHA has no key pasword") && said.contains("MHA has no key whatsoever"), "{said}");
}

/// A cluster whose only node does not exist.
const CONFIG: &str = "[cluster]\nname = \"shop\"\nid = 5\n[[cluster.node]]\nname = \"db1\"\naddress = \"127.0.0.1:1\"\n\
     [cluster.monitor]\nuser = \"u\"\npassword = \"p\"\n[listen]\nmysql = [\"127.0.0.1:0\"]\n\
     http = \"127.0.0.1:0\"\nhttps = \"127.0.0.1:0\"\n[state]\ndir = \"state\"\n";

/// Serves it.
fn serving() -> (tempfile::TempDir, Serving) {
    let dir = directory(CONFIG);
    let serving = Serving::start(dir.path());
    (dir, serving)
}

/// A command told where the server is by arguments.
fn ask(serving: &Serving, command: &[&str], secure: bool) -> Ended {
    let url = if secure { format!("https://{}", serving.https) } else { format!("http://{}", serving.http) };
    let mut ask = Command::new(bin());
    ask.args(command).args(["--cluster", "5", "--api", &url, "--key-file"]).arg(serving.state("api.key"));
    if secure {
        ask.arg("--certificate-file").arg(serving.state("https.crt"));
    }
    run(&mut ask)
}

#[test]
fn before_the_first_start_no_running_server_is_reached() {
    let dir = directory(CONFIG);
    for order in [&["status"][..], &["switchover"], &["drain", "db1"], &["journal"]] {
        let said = run(Command::new(bin()).args(order).current_dir(dir.path())).with(3);
        assert!(said.contains("no `understudy serve` has run yet with "), "{said}");
    }
    // A key that somebody names and that is not there is a wrong command line.
    run(Command::new(bin()).args(["status", "--key-file", "none"]).current_dir(dir.path())).with(2);
}

#[test]
fn a_whole_life() {
    let (dir, mut serving) = serving();
    for secret in ["api.key", "https.key", "https.crt"] {
        assert_eq!(mode(&serving.state(secret)), 0o600, "{secret}");
    }

    // Both ways in show the same cluster; over TLS the certificate made at first start is the one that is trusted.
    for secure in [false, true] {
        let said = ask(&serving, &["status"], secure).with(0);
        assert!(said.starts_with("cluster shop (5), one writer"), "{said}");
    }
    let status = ask(&serving, &["status", "--json"], false).json();
    assert_eq!((&status["gate"], &status["nodes"][0]["name"]), (&"held".into(), &"db1".into()));
    assert_eq!(status["proxy"]["hold"]["lawful"], true);
    ask(&serving, &["journal", "--json"], false).with(0);

    // Orders that cannot be: one sentence, exit code 1; a limit that is no number is wrong usage.
    let said = ask(&serving, &["switchover", "--to", "db9"], false).with(1);
    assert!(said.contains("refused (unknown_node)"), "{said}");
    ask(&serving, &["switchover", "--budget-ms", "100"], false).with(1);
    ask(&serving, &["set-max-connections", "db1", "many"], false).with(2);
    ask(&serving, &["set-max-connections", "db1", "7"], true).with(0);

    // The new writer without --to, times with a unit, and all of it for programs.
    let said = ask(&serving, &["switchover", "db9", "--budget", "5s"], false).with(1);
    assert!(said.contains("refused (unknown_node)"), "{said}");
    for order in [
        &["switchover", "db9", "--json"][..],
        &["switchover", "--to", "db9", "--json"],
        &["drain", "db9", "--json"],
    ] {
        let ended = ask(&serving, order, false);
        let error = ended.json();
        assert_eq!(
            (&error["error"]["code"], &error["error"]["exit_code"]),
            (&"unknown_node".into(), &1.into()),
            "{error}"
        );
        assert_eq!(ended.code, 1);
        assert!(ended.err.contains(error["error"]["message"].as_str().unwrap()), "people are told as well");
    }
    // What could be a slip for the name of the new writer is never taken for "whomever the election chooses".
    let said = ask(&serving, &["switchover", "--json", "db1"], false).with(2);
    assert!(said.contains("nothing was ordered"), "{said}");
    let done = ask(&serving, &["set-max-connections", "db1", "8", "--json"], false);
    assert!(done.json()["message"].as_str().unwrap().contains("db1"), "{}", done.said());
    let newest = ask(&serving, &["journal", "--after", "10m"], false).with(0);
    assert!(newest.contains("db1 takes at most 8 sessions"), "{newest}");
    assert_eq!(ask(&serving, &["journal", "--after", "2999-01-01 00:00:00"], false).with(0), "");
    let said = ask(&serving, &["journal", "--after", "soon"], false).with(2);
    assert!(said.contains("such as 10m or 2h"), "{said}");

    // A wrong key is refused; metrics need none.
    let other = dir.path().join("other.key");
    std::fs::write(&other, "wrong").unwrap();
    let url = format!("http://{}", serving.http);
    let said =
        understudy(&["status", "--cluster", "5", "--api", &url, "--key-file", other.to_str().unwrap()])
            .with(1);
    assert!(said.contains("refused (bad_key)"), "{said}");
    assert!(metrics(&serving.http).contains("understudy_gate_open{cluster=\"shop\",id=\"5\"} 0"));

    // A second one over the same state is refused.
    let said = run(Command::new(bin()).arg("serve").current_dir(dir.path())).with(1);
    assert!(said.contains("understudy.toml:15: state.dir"), "{said}");

    serving.terminate();
    assert_eq!(serving.ended().code(), Some(0));
    assert_eq!(serving.told(), "STOPPING=1");
    ask(&serving, &["status"], false).with(3);
    let gone = ask(&serving, &["status", "--json"], false);
    assert_eq!((gone.code, &gone.json()["error"]["code"]), (3, &"unreachable".into()));
}

#[test]
fn an_error_has_one_shape_for_programs() {
    for (args, code) in [
        (&["status", "--json"][..], 2),
        (&["doctor", "--json", "--config", "/nonexistent"], 2),
        (&["journal", "--json", "--bogus"], 2),
        (&["switchover", "--json", "--budget", "soon"], 2),
        (&["lab", "status", "--name", "no-such-lab", "--json"], 1),
    ] {
        let ended = understudy(args);
        let error = ended.json();
        assert_eq!((ended.code, &error["error"]["exit_code"]), (code, &code.into()), "{args:?}: {error}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(ended.err.contains(message.lines().next().unwrap()), "{}", ended.said());
        assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
    }
    // Help is no error, and without --json nothing but the sentence is printed.
    assert!(understudy(&["status", "--json", "--help"]).with(0).contains("Usage: understudy status"));
    assert_eq!(understudy(&["status"]).out, "");
}

#[test]
fn a_socket_that_could_be_either_of_two_is_asked_about() {
    let said = understudy(&["check", "--once", "--socket", "/run/mysqld/mysqld.sock"]).with(2);
    assert!(
        said.contains("--mysql-socket /run/mysqld/mysqld.sock") && said.contains("--answer-socket"),
        "{said}"
    );
}

#[test]
fn keepalived_is_not_told_to_run_the_file_of_a_build_in_silence() {
    let config = ["vip", "config", "--address", "192.0.2.100/24", "--vrid", "7"];
    let printed = understudy(&config);
    assert_eq!(printed.code, 0);
    assert!(
        printed.out.contains("virtual_router_id 7") && !printed.out.contains("warning"),
        "{}",
        printed.out
    );
    let (warning, rest) = printed.err.split_once('\n').unwrap();
    assert!(
        warning.starts_with("warning: ") && warning.contains("--program /usr/bin/understudy"),
        "{warning}"
    );
    assert_eq!(rest, "");
    let installed = understudy(&[&config[..], &["--program", "/usr/bin/env"]].concat());
    assert_eq!(installed.err, "");
}

/// The server refuses this value before it opens its error log.
#[test]
fn what_a_server_said_before_its_error_log_is_shown() {
    let name = format!("t{}-option", std::process::id());
    let said = understudy(&[
        "lab",
        "up",
        "replication",
        "--replicas",
        "0",
        "--name",
        &name,
        "--server-option",
        "sql_mode=NO_SUCH_MODE",
    ]);
    understudy(&["lab", "down", "--name", &name]);
    let said = said.with(1);
    assert!(said.contains("Error while setting value 'NO_SUCH_MODE' to 'sql_mode'"), "{said}");
}

#[test]
fn printing_to_a_reader_that_has_left_ends_the_command_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = Command::new(bin()).arg("settings").stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.signal(), Some(13), "SIGPIPE, as of any other command");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(program::LONG)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

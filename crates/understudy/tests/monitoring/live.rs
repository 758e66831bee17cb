//! What each node does, from its counters to a line on the screen, on two real Galera nodes: samples, rates in the status, server-sent events,
//! `status --watch --json`, `top` on a terminal, and `myq_status` from the server and from a recording.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use serde_json::Value;
use testbed::program::{LONG, Serving, bin, directory, run, understudy, until};
use testbed::writers::Repeated;

/// The alternate screen, entered and left; the cursor shown again.
const ENTERED: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";
const SHOWN: &str = "\u{1b}[?25h";

/// Between two commits of db1.
const PACE: Duration = Duration::from_millis(5);

/// The beginning of an answer to GET: head and body up to `wanted`.
fn get(serving: &Serving, path: &str, wanted: impl Fn(&str) -> bool) -> String {
    let key = std::fs::read_to_string(serving.state("api.key")).unwrap();
    let mut stream = TcpStream::connect(&serving.http).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let host = &serving.http;
    let head = format!(
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nX-Api-Key: {}\r\nConnection: close\r\n\r\n",
        key.trim()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let text = String::from_utf8_lossy(&said).into_owned();
        if wanted(&text) {
            return text;
        }
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "it ended without what was wanted: {text}");
        said.extend_from_slice(&piece[..read]);
    }
}

fn rate(status: &Value, place: usize, name: &str) -> f64 {
    status["nodes"][place]["rates"][name].as_f64().unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nodes_do_is_sampled_told_as_it_comes_and_shown() {
    let plan = StagePlan { name: format!("t{}-live", std::process::id()), nodes: 2, ..StagePlan::default() };
    let stage = Arc::new(Stage::up(plan).await.unwrap());
    let table = format!("CREATE TABLE {APP_SCHEMA}.w (id BIGINT AUTO_INCREMENT PRIMARY KEY)");
    stage.run_in("db1", &table).await.unwrap();
    let host = stage.host_address();
    let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
    for node in stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config += &format!(
        "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n\
         [listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
    );
    let directory = directory(&config);
    let serving = Serving::start(directory.path());
    let insert = format!("INSERT INTO {APP_SCHEMA}.w VALUES (NULL)");
    let writer = Repeated::start(&stage, PACE, insert);
    let status = until("both nodes apply, and only db1 sends", || {
        let status = serving.status();
        let both = [0, 1].iter().all(|place| rate(&status, *place, "applied") > 0.0);
        let one = rate(&status, 0, "replicated") > 0.0 && rate(&status, 1, "received") > 0.0;
        (both && one).then_some(status)
    });
    assert_eq!(status["nodes"][0]["sample"]["galera"]["local_state"], 4, "{status:#}");
    assert!(status["nodes"][0]["sample"]["uptime_s"].as_u64().unwrap() > 0);
    // A busy machine may bring some about; then somebody is named.
    let flow_control = status["flow_control"].as_str();
    assert!(flow_control.is_none_or(|said| said.starts_with("the group stood still")), "{flow_control:?}");

    samples(&serving);
    events(&serving);
    let recording = watched(&serving, directory.path());
    top(&serving, &recording);
    ordered_by_keys(&serving);
    followed(&serving);
    myq_status(&stage, directory.path());
    writer.end().await;
    drop(serving);
    Arc::into_inner(stage).unwrap().down().await.unwrap();
}

/// One a second of each node, and only those that were asked for.
fn samples(serving: &Serving) {
    let told = |since: &str| -> Value {
        let text = get(serving, &format!("/v1/samples{since}"), |text| text.ends_with("}\n"));
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let all = until("some seconds of both nodes", || {
        let all = told("?since=0");
        let enough = |place: usize| all["data"]["nodes"][place]["samples"].as_array().unwrap().len() >= 4;
        (enough(0) && enough(1)).then_some(all)
    });
    for node in all["data"]["nodes"].as_array().unwrap() {
        let samples = node["samples"].as_array().unwrap();
        let at_us: Vec<u64> = samples.iter().map(|sample| sample["at_us"].as_u64().unwrap()).collect();
        // On a busy machine one may come late, but none is taken much earlier than a second after the one before.
        assert!(at_us.windows(2).all(|two| two[1] > two[0] + 500_000), "{at_us:?}");
        let last = samples.last().unwrap()["at_unix_ms"].as_u64().unwrap();
        let later = told(&format!("?since={last}"));
        let later =
            later["data"]["nodes"].as_array().unwrap().iter().find(|other| other["node"] == node["node"]);
        let few = told("?since=0&every_ms=2000");
        let few = few["data"]["nodes"].as_array().unwrap().iter().find(|other| other["node"] == node["node"]);
        let few: Vec<u64> = few.unwrap()["samples"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["at_us"].as_u64().unwrap())
            .collect();
        assert!(few.len() > 1 && few.windows(2).all(|two| two[1] >= two[0] + 2_000_000), "{few:?}");
        assert_eq!(few[0], at_us[0]);
        let is_later = |sample: &Value| sample["at_unix_ms"].as_u64().unwrap() > last;
        assert!(later.unwrap()["samples"].as_array().unwrap().iter().all(is_later));
    }
}

fn events(serving: &Serving) {
    let text = get(serving, "/v1/live", |text| {
        let count = |what: &str| text.matches(what).count();
        count("event: status\ndata: {") >= 2 && count("event: sample\ndata: {\"node\":\"db2\"") >= 2
    });
    assert!(text.contains("content-type: text/event-stream"), "{text}");
}

/// Some lines of `status --watch --json`, in a file.
fn watched(serving: &Serving, dir: &Path) -> std::path::PathBuf {
    let mut child = Command::new(bin())
        .args(["status", "--watch", "--json", "--config"])
        .arg(serving.dir().join("understudy.toml"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> =
        BufReader::new(child.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let states: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(states[0]["now_ms"].as_u64().unwrap() < states[1]["now_ms"].as_u64().unwrap());
    let file = dir.join("recording");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    file
}

/// What is decided while somebody follows the journal comes to it, a line each, once.
fn followed(serving: &Serving) {
    let mut child = Command::new(bin())
        .args(["journal", "--follow", "--json", "--config"])
        .arg(serving.dir().join("understudy.toml"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert!(first["at_unix_ms"].is_u64() && first["text"].is_string(), "{first}");
    serving.ask(&["drain", "db1"]).with(0);
    serving.ask(&["undrain", "db1"]).with(0);
    let told: Vec<String> =
        lines.by_ref().take_while(|line| !line.contains("db1 takes sessions again")).collect();
    assert_eq!(
        told.iter().filter(|line| line.contains("db1 is draining: drained by an operator")).count(),
        1,
        "{told:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The view on a terminal, which is given back whatever ends it.
fn top(serving: &Serving, recording: &Path) {
    // util-linux' script gives the command a terminal, which has no size of its own.
    let shown = |command: &str, keys: &str| {
        let sized = format!("stty rows 30 cols 120; {command}");
        let mut child = Command::new("script")
            .args(["-qefc", &sized, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut keyboard = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        let mut keys = Some(keys);
        loop {
            let read = screen.read(&mut piece).unwrap();
            if read == 0 {
                break;
            }
            text.extend_from_slice(&piece[..read]);
            // Once something is shown, somebody can press a key.
            if String::from_utf8_lossy(&text).contains("shop")
                && let Some(keys) = keys.take()
            {
                keyboard.write_all(keys.as_bytes()).unwrap();
            }
        }
        let status = child.wait().unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains(ENTERED) && text.contains("shop"), "{text}");
        let end = &text[text.rfind(LEFT).unwrap_or_else(|| panic!("the screen was not left: {text}"))..];
        assert!(end.contains(SHOWN) || text.contains(SHOWN), "the cursor is not there again: {text}");
        status.code().unwrap()
    };
    let config = serving.dir().join("understudy.toml");
    let (config, recording) = (config.display(), recording.display());
    assert_eq!(shown(&format!("timeout --foreground 60 {} top --config {config}", bin()), "q"), 0);
    assert_eq!(shown(&format!("timeout --foreground 60 {} top --replay {recording}", bin()), "\u{3}"), 0);
    let told_to_end = format!("timeout --foreground -s TERM 1 {} top --replay {recording}", bin());
    assert_eq!(shown(&told_to_end, ""), 124, "timeout's word that it ended it");
    assert_eq!(shown(&told_to_end.replace("TERM", "QUIT"), ""), 124, "Ctrl-\\ of another terminal");
    // Without a terminal nothing is taken over.
    let ended = understudy(&["top", "--replay", &recording.to_string()]);
    assert!(ended.with(2).contains("needs a terminal"));
}

/// Keys drain a node, let it back in and make it the writer, on the real cluster.
fn ordered_by_keys(serving: &Serving) {
    let config = serving.dir().join("understudy.toml");
    let sized = format!(
        "stty rows 30 cols 120; timeout --foreground 120 {} top --config {}",
        bin(),
        config.display()
    );
    let mut child = Command::new("script")
        .args(["-qefc", &sized, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let screen = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = screen.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let state_of_db2 = || serving.status()["nodes"][1]["state"].as_str().unwrap().to_owned();
    // While one order is under way no other is taken: then the keys are pressed again.
    let mut press = |keys: &str, what: &str, is_done: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_done() {
            assert!(began.elapsed() < LONG, "never came: {what}");
            keyboard.write_all(keys.as_bytes()).unwrap();
            let pressed = Instant::now();
            while pressed.elapsed() < Duration::from_secs(5) && !is_done() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    };
    // A drain without the word does nothing, and comes first.
    press("jd\rdyes\r", "db2 is drained", &|| state_of_db2() == "draining");
    press("uyes\r", "db2 takes sessions again", &|| state_of_db2() == "synced");
    press("syes\r", "db2 is the writer", &|| serving.status()["writer"] == "db2");
    let journal = serving.ask(&["journal"]).with(0);
    for said in ["db2 is drained: ", "db2 takes sessions again", "switchover to db2 was ordered"] {
        assert_eq!(journal.matches(said).count(), 1, "{said}: {journal}");
    }
    keyboard.write_all(b"q").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", screen.join().unwrap());
    serving.ask(&["switchover", "--to", "db1"]).with(0);
}

fn myq_status(stage: &Stage, dir: &Path) {
    let link = dir.join("myq_status");
    std::os::unix::fs::symlink(bin(), &link).unwrap();
    let socket = stage.nodes()[1].socket.display().to_string();
    let live = format!("{} -u root -S {socket} wsrep | head -n 5", link.display());
    let ended = run(Command::new("sh").args(["-c", &live]));
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(lines[0].contains("/ db2 (idx: ") && lines[0].contains("/ Galera "), "{}", ended.said());
    assert_eq!(
        lines[2],
        "    time P cnf  # Stat Laten   Up   Dn   Up   Dn   Up   Dn  lcf  bfa  ist  idx dst appl comm  p_ms"
    );
    assert!(lines[4].contains(" P ") && lines[4].contains("  2 Sync "), "{}", ended.said());
    // db2 only receives.
    let arrived = |line: &str| line.split_whitespace().nth(9).unwrap().to_owned();
    assert_ne!(arrived(lines[4]), "0", "{}", ended.said());

    let file = dir.join("ext");
    let record = format!("mariadb-admin -u root -S {socket} ext -i 1 -c 3 > {}", file.display());
    assert_eq!(run(Command::new("sh").args(["-c", &record])).code, 0);
    let ended = run(Command::new(bin()).args(["myq_status", "-f"]).arg(&file).arg("wsrep"));
    let said = ended.with(0);
    assert_eq!(said.lines().count(), 3 + 3, "{said}");
    assert!(said.lines().nth(3).unwrap().starts_with("       0 P "), "{said}");
    assert!(said.lines().last().unwrap().starts_with("       2 P "), "{said}");
}

#[test]
fn what_cannot_be_shown_is_refused_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let log = file("error.log", "2026-11-23  1:25:00 0 [Note] mariadbd: ready for connections.\n");
    let plain = file(
        "plain",
        "+--------+-------+\n| Variable_name | Value |\n+--------+-------+\n| Uptime | 5 |\n+--------+-------+\n\n",
    );
    let missing = dir.path().join("nothing").display().to_string();
    for (args, expect) in [
        (&["myq_status", "-f", &log, "wsrep"][..], "line 1 is none of its tables"),
        (&["myq_status", "-f", &missing, "wsrep"], "cannot be read: No such file"),
        (&["myq_status", "-f", &plain, "wsrep"], "is not of a Galera node"),
        (&["myq_status", "-f", &log, "innodb"], "there is no mode innodb here"),
        (&["myq_status", "-t", "0", "wsrep"], "0 is not in 1..=86400"),
        (&["myq_status"], "<MODE>"),
        (&["top", "--replay", &log], "line 1 is no status"),
        (&["top", "--replay", &missing], "cannot be read: No such file"),
        (&["top", "--replay", &file("empty", "")], "is empty"),
        (&["top", "--replay", &log, "--record", &missing], "cannot be used with"),
        (&["top", "--speed", "2"], "--replay"),
        (&["status", "--watch"], "--json"),
    ] {
        let said = understudy(args).with(2);
        assert!(said.contains(expect), "{args:?}: {said}");
    }
    let said = understudy(&["myq_status", "-h", "127.0.0.1", "-P", "1", "-u", "x", "wsrep"]).with(3);
    assert!(said.contains("127.0.0.1:1 does not answer"), "{said}");
}

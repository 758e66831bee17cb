//! The shell loop of the article on failover times, with our `sysbench`, on a real server: its lines, and that an error ends a run and not the loop.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fixture::{Server, signal};

/// The article's command: its host is another here, and a port is named.
const LOOP: &str = "\
    while true ; do sysbench --test=sysbench/tests/db/oltp.lua \
    --mysql-host=127.0.0.1 --mysql-port=$PORT \
    --mysql-user=root \
    --mysql-password=admin \
    --mysql-db=sbtest \
    --oltp-table-size=10000 \
    --oltp-tables-count=4 \
    --num-threads=4 \
    --max-time=0 \
    --max-requests=0 \
    --report-interval=1 \
    --tx-rate=10 \
    run ; sleep 1; done";
/// The lines that the article shows.
const ARTICLE: &str = include_str!("../../../lab/tests/traces/seed-graceful.txt");

/// A shell, and everything that it started, which ends with this.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

/// A shell command with our `sysbench` before all others in PATH, in a process group of its own.
fn shell(directory: &Path, script: &str, server: &Server) -> Command {
    let link = directory.join("sysbench");
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_understudy"), &link).unwrap();
    }
    let mut bash = Command::new("bash");
    bash.args(["-c", script])
        .env("PATH", format!("{}:{}", directory.display(), std::env::var("PATH").unwrap()))
        .env("PORT", server.address().port().to_string())
        .stdin(Stdio::null())
        .process_group(0);
    bash
}

fn server() -> Server {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE sbtest; SET PASSWORD FOR root@'127.0.0.1' = PASSWORD('admin')");
    server
}

/// Without its figures: each number is one `N`.
fn form(line: &str) -> String {
    let mut form = String::new();
    for part in line.split_inclusive(|letter: char| !letter.is_ascii_digit() && letter != '.') {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        if rest.len() < part.len() {
            form.push('N');
        }
        form.push_str(rest);
    }
    form
}

/// The whole lines of a file that are a report's.
fn reported(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    whole.filter(|line| line.starts_with('[')).map(str::to_owned).collect()
}

/// The number behind a label.
fn figure(line: &str, label: &str) -> f64 {
    let rest = &line[line.find(label).unwrap() + label.len()..];
    rest.split([',', 'm']).next().unwrap().trim().parse().unwrap()
}

fn until(what: &str, file: &Path, is_so: impl Fn(&[String], &str) -> bool) {
    fixture::wait::until(what, || {
        let text = fs::read_to_string(file).unwrap();
        if is_so(&reported(file), &text) { Ok(()) } else { Err(text) }
    });
}

#[test]
fn the_articles_loop_runs_verbatim_until_it_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = server();
    let prepare = LOOP.replace("while true ; do ", "").replace("run ; sleep 1; done", "prepare");
    let made = shell(directory.path(), &prepare, &server).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    assert_eq!(server.sql("SELECT COUNT(*), MIN(id), MAX(id) FROM sbtest.sbtest4"), "10000\t1\t10000");
    let again = shell(directory.path(), &prepare, &server).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "tables that are there stay as they are");

    let file = directory.path().join("lines");
    let lines = fs::File::create(&file).unwrap();
    let mut bash = shell(directory.path(), LOOP, &server);
    let bash = bash.stdout(lines.try_clone().unwrap()).stderr(lines).spawn().unwrap();
    let mut bash = Shell(bash);
    until("it reports", &file, |lines, _| lines.len() >= 20);
    let lines = reported(&file);
    let article: Vec<String> =
        ARTICLE.lines().filter_map(|line| Some(form(line.split_once(' ')?.1))).take(2).collect();
    for (at, pair) in lines.chunks_exact(2).enumerate() {
        assert_eq!(pair.iter().map(|line| form(line)).collect::<Vec<_>>(), article);
        assert!(pair.iter().all(|line| line.starts_with(&format!("[ {}s] ", at + 1))), "{pair:?}");
    }
    let sum = |label| lines.iter().step_by(2).map(|line| figure(line, label)).sum::<f64>();
    let (transactions, reads, writes) = (sum("tps: "), sum("reads/s: "), sum("writes/s: "));
    assert!((50.0..150.0).contains(&transactions), "10 a second, for 10 s: {transactions}");
    // One that runs when the last line is drawn has some of its statements counted.
    assert!((reads - 14.0 * transactions).abs() < 60.0 && (writes - 4.0 * transactions).abs() < 20.0);
    // The article's tables and no others.
    assert_eq!(
        server.sql("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'sbtest'"),
        "4"
    );

    // The server is frozen: it queues. It dies: the run ends with an error, the loop goes on, and so do runs that cannot begin.
    server.signal(signal::STOP);
    until("they queue", &file, |lines, _| {
        let last = &lines[lines.len() - 1];
        last.contains("queue length") && figure(last, "length: ") >= 8.0 && last.ends_with("concurrency: 4")
    });
    server.signal(signal::KILL);
    server.wait_gone();
    until("it says that it ended", &file, |_, text| text.contains("FATAL: "));
    until("another one does not begin", &file, |_, text| text.contains("Connection refused"));
    server.restart(&[]);
    until("one begins anew", &file, |lines, text| {
        let begun = lines.iter().rposition(|line| line.starts_with("[ 1s] threads"));
        let flows = |lines: &[String]| lines.iter().step_by(2).any(|line| figure(line, "tps: ") > 0.0);
        begun.is_some_and(|at| at > 20 && flows(&lines[at..]))
            && text.matches("Threads started!").count() == 2
    });

    // The article's reader stops it by Ctrl-C, which reaches the whole group.
    let group = format!("-{}", bash.0.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    let ended = bash.0.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(2), "{ended}");
    let cleanup = prepare.replace("prepare", "cleanup");
    assert!(shell(directory.path(), &cleanup, &server).status().unwrap().success());
    assert_eq!(
        server.sql("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'sbtest'"),
        "0"
    );
}

#[test]
fn what_sysbench_ignores_is_repeated_and_other_errors_end_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let server = server();
    let line = LOOP.replace("while true ; do ", "").replace(" ; sleep 1; done", "");
    let said = |script: &str| {
        let ran = shell(directory.path(), script, &server).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        (ran.status.code(), said)
    };
    let (code, text) = said(&line);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("FATAL: select failed: Table 'sbtest.sbtest") && text.contains("(1146)"), "{text}");
    for (from, to, why) in [
        ("oltp.lua", "select.lua", "only oltp.lua is"),
        ("--tx-rate=10", "", "--tx-rate=N is needed"),
        ("--max-requests=0", "--max-requests=7", "--max-requests"),
        ("--num-threads", "--threads", "This is Understudy"),
        ("admin", "wrong", "Access denied for user 'root'"),
    ] {
        let (code, text) = said(&line.replace(from, to));
        assert!(code == Some(1) && text.contains(why), "{to}: {text}");
    }

    assert_eq!(said(&line.replace(" run", " prepare")).0, Some(0));
    // A row lock that nobody gives back for 3 s, with a limit of 1 s: error 1205.
    server.sql("SET GLOBAL innodb_lock_wait_timeout = 1");
    let (code, text) = std::thread::scope(|scope| {
        let locked = scope
            .spawn(|| server.sql("BEGIN; UPDATE sbtest.sbtest1 SET k = k + 1; SELECT SLEEP(3); ROLLBACK"));
        let ran = said(&line.replace("--max-time=0", "--max-time=6"));
        locked.join().unwrap();
        ran
    });
    assert_eq!(code, Some(0), "{text}");
    let timeouts = server.sql("SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_waits'");
    assert!(timeouts.parse::<u64>().unwrap() > 0, "something waited");
    assert!(text.contains("[ 5s] queue length: "), "{text}");
    // Each transaction is whole: what it deletes it inserts again.
    assert_eq!(server.sql("SELECT COUNT(*) FROM sbtest.sbtest1"), "10000");
}

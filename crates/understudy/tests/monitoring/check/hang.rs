//! A database that hangs, ends and comes back.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fixture::{Server, signal};
use testbed::program::until;

use super::asking::{code, get};
use super::check_dir::{CheckDir, down, up};
use super::node::galera;
use super::running::{Ending, Running};
use super::{DOWN, HUNG_TIME_MAX, SECRET, SOON, UP, alone};

#[test]
fn a_database_that_hangs_ends_and_comes_back() {
    let _alone = alone();
    let (mut server, options) = galera();
    let check_dir = CheckDir::of(&server);
    let (check, http) = Running::check(&check_dir, &[]);
    assert_eq!(get(http, "/"), UP);
    the_command_is_fast(&check_dir);

    slow(&server, http);
    hung(&server, &check_dir, http);
    assert_eq!(check.log().matches("cannot be asked: no answer within").count(), 1, "{}", check.log());
    server.signal(signal::CONT);
    until("200 after it woke", || (get(http, "/") == UP).then_some(()));
    // Asked itself, without the running check.
    let alone = ["--answer-socket", &check_dir.text("elsewhere.sock")];
    assert_eq!(check_dir.once_quietly(&alone).with(0), UP);

    // An orderly end: noticed by the end of the link, long before an answer is too old.
    server.signal(signal::TERM);
    until("503", || (code(http) == "503").then_some(()));
    server.wait_gone();
    assert_eq!(check_dir.seed(&[]), down());
    let ended = check_dir.once_quietly(&alone);
    assert_eq!((ended.out.as_str(), ended.code), (DOWN, 1));
    assert!(ended.err.contains("cannot be asked: nobody listens at this socket"), "{}", ended.err);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    server.restart(&options);
    until("200 after its restart", || (get(http, "/") == UP).then_some(()));
    assert_eq!(check_dir.seed(&[]), up());

    // The running check freezes: the command asks the database itself.
    let freeze = |how: &str| {
        assert!(Command::new("kill").args([how, &check.child.id().to_string()]).status().unwrap().success())
    };
    freeze("-STOP");
    let ended = check_dir.once_quietly(&[]);
    freeze("-CONT");
    assert_eq!((ended.out.as_str(), ended.code), (UP, 0));
    assert!(ended.took < SOON, "{:?}", ended.took);
    check.stop();
}

/// Most of it is the start of two processes; here of an unoptimised program on a busy machine.
fn the_command_is_fast(check_dir: &CheckDir) {
    let mut took: Vec<Duration> = (0..31)
        .map(|_| {
            let mut command = check_dir.command("clustercheck");
            let began = Instant::now();
            let answer = command.args(["clustercheck", "password", "0"]).output().unwrap().stdout;
            assert_eq!(answer, UP.as_bytes());
            began.elapsed()
        })
        .collect();
    took.sort();
    println!("clustercheck through the socket: median {:?}, worst {:?}", took[15], took[30]);
    assert!(took[15] < Duration::from_millis(100), "{took:?}");
}

/// A database that takes half a second for everything is slow, and not down.
fn slow(server: &Server, http: SocketAddr) {
    for _ in 0..3 {
        server.signal(signal::STOP);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(400) {
            assert_eq!(get(http, "/"), UP, "after {:?}", began.elapsed());
        }
        server.signal(signal::CONT);
        // Until it has been asked again, and its answer is a new one.
        until("a new answer", || (age_ms(http) < 150).then_some(()));
    }
}

fn age_ms(http: SocketAddr) -> u64 {
    let answer = get(http, "/answer");
    let answer: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    answer["age_ms"].as_u64().unwrap()
}

fn hung(server: &Server, check_dir: &CheckDir, http: SocketAddr) {
    server.signal(signal::STOP);
    let began = Instant::now();
    // A flood meanwhile: each answer comes at once, and none says 200 when it is too late for that.
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn(move || {
                let (mut last_good, mut worst, mut count) = (Duration::ZERO, Duration::ZERO, 0);
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let answer = get(http, "/");
                    worst = worst.max(asked.elapsed());
                    count += 1;
                    if answer == UP {
                        last_good = began.elapsed();
                    } else {
                        assert_eq!(answer, DOWN);
                    }
                }
                (last_good, worst, count)
            })
        })
        .collect();
    until("503", || (code(http) == "503").then_some(()));
    println!("a hung server is told after {:?}", began.elapsed());

    // The command asks the running check, and without one ends all the same.
    let through = check_dir.once_quietly(&[]);
    assert_eq!((through.out.as_str(), through.code), (DOWN, 1));
    assert!(through.took < HUNG_TIME_MAX, "{:?}", through.took);
    let elsewhere = check_dir.text("elsewhere.sock");
    let itself = check_dir.once_quietly(&["--answer-socket", &elsewhere]);
    assert_eq!((itself.out.as_str(), itself.code), (DOWN, 1));
    assert!(itself.err.contains("no answer within"), "{}", itself.err);
    println!("check --once of a hung server: {:?}", itself.took);
    assert!(itself.took < HUNG_TIME_MAX, "{:?}", itself.took);
    nothing_in_ps(check_dir);

    stop.store(true, Ordering::Relaxed);
    for client in clients {
        let (last_good, worst, count) = client.join().unwrap();
        println!("flood: {count} answers, worst {worst:?}, last 200 after {last_good:?}");
        assert!(last_good < HUNG_TIME_MAX && worst < SOON && count > 10, "{last_good:?} {worst:?} {count}");
    }
}

/// While a drop-in waits for the hung server, everybody can read its command line.
fn nothing_in_ps(check_dir: &CheckDir) {
    let mut command = check_dir.command("clustercheck");
    // Where no check answers.
    command.env("UNDERSTUDY_RUN_DIR", check_dir.path("nowhere")).args(["quiet", SECRET, "0"]);
    let mut child = Ending(command.stdout(Stdio::null()).spawn().unwrap());
    let cmdline = || fs::read_to_string(format!("/proc/{}/cmdline", child.0.id())).unwrap();
    until("a hidden password", || {
        (cmdline().contains("********") && !cmdline().contains(SECRET)).then_some(())
    });
    assert!(cmdline().starts_with(&check_dir.text("clustercheck")), "it keeps its name: {}", cmdline());
    child.end();
}

//! A signal to one of MHA's commands: it reaches the script that runs, and ends the command once the script has ended.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testbed::program::{bin, until};

fn begin(dir: &Path, load_script: &str, more: &str) -> Child {
    let conf = dir.join("app1.cnf");
    let text =
        format!("[server default]\nuser=root\npassword=x\ninit_conf_load_script={load_script}\n{more}");
    std::fs::write(&conf, text).unwrap();
    let link = dir.join("masterha_check_repl");
    if !link.exists() {
        symlink(bin(), &link).unwrap();
    }
    let mut command = Command::new(link);
    command.arg("--conf").arg(conf).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn is_over(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[test]
fn a_signal_reaches_the_script_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = dir.path().join("script");
    let text = format!("echo $$ > {0}\nsh -c 'echo $$ >> {0}; exec sleep 60'\nsleep 60\n", file.display());
    std::fs::write(&script, text).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut child = begin(dir.path(), &format!("sh {}", script.display()), "");
        let pids = until("the script runs", || {
            let pids = std::fs::read_to_string(&file).unwrap_or_default();
            (pids.lines().count() == 2).then_some(pids)
        });
        send(&child, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal.as_raw()));
        for pid in pids.lines() {
            until("it is over", || is_over(pid).then_some(()));
        }
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_script_may_tidy_up_before_the_command_ends() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "trap 'sleep 1; : > tidied; exit 0' TERM\n: > begun\nsleep 60 & wait $!\n")
        .unwrap();
    let mut child = begin(dir.path(), &format!("cd {} && sh script", dir.path().display()), "");
    until("the script runs", || dir.path().join("begun").exists().then_some(()));
    send(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    assert!(dir.path().join("tidied").exists());
}

#[test]
fn after_a_script_a_signal_ends_the_command_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // A server that accepts and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let servers = format!("[server1]\nhostname=127.0.0.1\nport={port}\n");
    let mut child = begin(dir.path(), "echo ping_interval=1", &servers);
    let held = silent.accept().unwrap();
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    drop(held);
}

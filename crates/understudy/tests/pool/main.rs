//! A buffer pool copied to a standby, a slow log rotated under load, who may read the stream, and input that is none: on real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod copy;
mod door;
mod input;
mod rotate;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fixture::Server;

/// Longer than anything here takes on an overloaded machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The program, also under another name.
fn called(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.env_remove("UNDERSTUDY_PASSWORD").env("UNDERSTUDY_LOG", "info");
    command
}

fn understudy(arguments: &[&str]) -> Command {
    let mut command = called("understudy");
    command.args(arguments);
    command
}

/// What it said on both outputs, and its exit code.
fn said(output: &Output) -> (String, Option<i32>) {
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (text, output.status.code())
}

/// Refused with this exit code and these words.
fn refused(command: &mut Command, code: i32, words: &str) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (text, exit) = said(&output);
    assert!(exit == Some(code) && text.contains(words), "{command:?}: {exit:?}: {text}");
    // One sentence for a person, and no sign of a broken program.
    assert!(!text.contains("panicked") && !text.contains("RUST_BACKTRACE"), "{text}");
}

/// Something that is waited for.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn datadir(server: &Server) -> PathBuf {
    server.socket().with_file_name("data")
}

fn socket(server: &Server) -> String {
    server.socket().display().to_string()
}

/// A process that ends with this.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A streamer.
struct Streamer {
    _child: Ends,
    /// `http://127.0.0.1:1234/slow`.
    url: String,
}

impl Streamer {
    fn start(log: &str, further: &[&str]) -> Streamer {
        let mut child = understudy(&["slowlog", "serve", "--file", log, "--listen", "127.0.0.1:0"])
            .args(further)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .find_map(|line| Some(line.unwrap().split_once("streamed at ")?.1.trim().to_owned()))
            .unwrap();
        // What it says later must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Streamer { _child: Ends(child), url }
    }

    /// `127.0.0.1:1234`.
    fn address(&self) -> &str {
        self.url.split("//").nth(1).unwrap().trim_end_matches("/slow")
    }

    fn metric(&self, name: &str) -> u64 {
        let url = self.url.replace("/slow", "/metrics");
        let text = Command::new("curl").args(["-sS", &url]).output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("understudy_slowlog_{name} ")));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {text}"))
    }
}

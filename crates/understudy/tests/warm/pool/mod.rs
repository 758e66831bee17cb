//! A buffer pool copied to a standby, a slow log rotated under load, who may read the stream, and input that is none: on real servers.

mod copy;
mod door;
mod input;
mod rotate;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use fixture::Server;

use crate::streamer::{Ends, Streamer, called};

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

fn datadir(server: &Server) -> PathBuf {
    server.socket().with_file_name("data")
}

fn socket(server: &Server) -> String {
    server.socket().display().to_string()
}

//! Understudy keeps a stand-in ready for every node of a MySQL-protocol cluster, and hands traffic over unnoticed.
//!
//! One binary. `serve` is the program itself, put together in [`wiring`]; the order commands talk to a running one through
//! its API; `lab` measures. This file only tells the story: read the command line, run one command, say how it ended.

mod client;
mod commands;
mod descriptors;
mod doctor;
mod dropin;
mod errant;
mod exit;
mod local;
mod mha;
mod mycnf;
mod myq;
mod notify;
mod runtime;
mod settings;
mod table;
mod top;
mod windows;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

/// Keeps a stand-in ready for a database node, and hands traffic over so that the application need not notice.
#[derive(Parser)]
#[command(name = "understudy", version, propagate_version = true, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    if let Some(code) = dropin::run() {
        return code;
    }
    match commands::run(Cli::parse().command) {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

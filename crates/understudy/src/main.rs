//! Understudy keeps a stand-in ready for every node of a MySQL-protocol cluster, and hands traffic over unnoticed.
//!
//! One binary. `serve` is the program itself, put together in [`wiring`]; the order commands talk to a running one through
//! its API; `lab` measures. This file only tells the story: read the command line, run one command, say how it ended.

mod client;
mod commands;
mod descriptors;
mod doctor;
mod dropin;
mod duration;
mod errant;
mod exit;
mod exposed;
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

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

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
    let line = Cli::command().try_get_matches();
    let read = line.and_then(|line| Ok((wants_json(&line), Cli::from_arg_matches(&line)?)));
    let (is_json, cli) = match read {
        Ok(read) => read,
        Err(error) => return not_understood(&error),
    };
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(failure) if is_json => failure.tell_program(),
        Err(failure) => failure.tell(),
    }
}

/// Whether the command was told to print JSON on standard output.
fn wants_json(line: &ArgMatches) -> bool {
    let mut line = line;
    while let Some((_, below)) = line.subcommand() {
        line = below;
    }
    let is_asked = matches!(line.try_get_one::<bool>("json"), Ok(Some(true)));
    let is_standard_output = |file: &PathBuf| file.as_os_str() == "-";
    is_asked || matches!(line.try_get_one::<PathBuf>("json"), Ok(Some(file)) if is_standard_output(file))
}

/// A command line that is none, or that asks for help.
fn not_understood(error: &clap::Error) -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    // Before a word that is no option it may name a file.
    let is_bare = |at: usize| {
        args[at] == "--json" && args.get(at + 1).is_none_or(|next| next.as_encoded_bytes().starts_with(b"-"))
    };
    let is_json = (0..args.len()).any(|at| is_bare(at) || args[at] == "--json=-");
    if is_json && error.use_stderr() {
        let text = error.to_string();
        println!("{}", exit::json_error("usage", exit::USAGE, text.trim()));
    }
    // Fails only when nobody reads.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS }
}
